#!/bin/sh
# Makes ./configure. Needs autoconf, automake and libtool.
set -eu
cd "$(dirname "$0")"
for tool in autoreconf automake libtoolize; do
  command -v "$tool" >/dev/null || {
    echo "autogen.sh: $tool not found; on Debian: apt-get install autoconf automake libtool" >&2
    exit 1
  }
done
exec autoreconf --install --force --warnings=all
