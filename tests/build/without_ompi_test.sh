#!/bin/bash
# --without-ompi builds everything but the component and the MPI programs.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
"$ROCE_SRC_DIR/configure" --without-ompi >output 2>&1 </dev/null || { cat output; exit 1; }
grep -q 'Open MPI  *none (--without-ompi)' output || { echo "FAILED: summary"; cat output; exit 1; }
make -j2 build-tests >output 2>&1 </dev/null || { tail -n 40 output; exit 1; }
if find . -name 'mca_btl_roce*' | grep .; then
  echo "FAILED: a component was built" >&2
  exit 1
fi
