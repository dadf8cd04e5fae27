#!/bin/bash
# configure names everything that is missing, one line each with the Debian package, before it stops.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

die() {
  echo "FAILED: $*" >&2
  cat output >&2
  exit 1
}

# The cache variables say "not there" for what this machine has.
status=0
ac_cv_header_infiniband_verbs_h=no ac_cv_header_hwloc_h=no ac_cv_lib_isal_crc32_gzip_refl=no \
  roce_cv_gtest=no roce_cv_gmock=no \
  "$ROCE_SRC_DIR/configure" --with-ompi=/nonexistent >output 2>&1 </dev/null || status=$?
[ "$status" != 0 ] || die "configure went on without its requirements"
for line in \
  'libibverbs: header infiniband/verbs.h (Debian package: libibverbs-dev)' \
  'hwloc: header hwloc.h (Debian package: libhwloc-dev)' \
  'ISA-L: libisal with crc32_gzip_refl (Debian package: libisal-dev)' \
  'GoogleTest: gtest/gtest.h and libgtest (Debian package: libgtest-dev)' \
  'GoogleMock: gmock/gmock.h and libgmock (Debian package: libgmock-dev)' \
  'Open MPI: mpicc (Debian package: libopenmpi-dev)' \
  'Open MPI: ompi_info and mpirun (Debian package: openmpi-bin)'; do
  grep -qxF "  missing: $line" output || die "no line for: $line"
done
[ "$(grep -c '^  missing:' output)" = 7 ] || die "not one line for each of the 7"
for package in $(sed -n 's/^  missing:.*Debian package: \(.*\))$/\1/p' output); do
  grep -q "^$package\b" "$ROCE_SRC_DIR/contrib/packages.txt" || die "$package is not in contrib/packages.txt"
done
[ ! -e Makefile ] || die "configure wrote a Makefile"
