#!/bin/bash
# The tarball of `make dist` holds every tracked file that matters; it builds and installs from itself.
set -euo pipefail
git -C "$ROCE_SRC_DIR" -c safe.directory='*' rev-parse HEAD >/dev/null 2>&1 || {
  echo "SKIPPED: no git checkout to compare the tarball with"
  exit 77
}
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT

die() {
  echo "FAILED: $*" >&2
  exit 1
}

# run COMMAND...: its output only if it fails
run() {
  "$@" >"$work/output" 2>&1 </dev/null || {
    tail -n 40 "$work/output"
    die "$*"
  }
}

mkdir "$work/make-dist"
cd "$work/make-dist"
run "$ROCE_SRC_DIR/configure"
run make dist
tarball=$(echo mpi-roce-*.tar.xz)
tar -tf "$tarball" | sed 's|^[^/]*/||' | sort >"$work/packed"
git -C "$ROCE_SRC_DIR" -c safe.directory='*' ls-files | grep -vxF .gitignore |
  while read -r file; do [ ! -e "$ROCE_SRC_DIR/$file" ] || echo "$file"; done | sort >"$work/tracked"
lost=$(comm -13 "$work/packed" "$work/tracked")
[ -z "$lost" ] || die "tracked but not in the tarball (list them in a Makefile.inc):"$'\n'"$lost"

cd "$work"
tar -xf "make-dist/$tarball"
mkdir build
cd build
run ../mpi-roce-*/configure --prefix=/usr
run make -j2
run make install DESTDIR="$work/root"
run make dist
if [ -n "$ROCE_MPIRUN" ]; then
  find "$work/root" -name mca_btl_roce.so | grep -q . || die "no component installed"
fi
