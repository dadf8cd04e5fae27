# Common to the scripts of this folder; sourced by them.
set -u
module=$ROCE_BUILD_DIR/src/btl/.libs/mca_btl_roce.so
ompi_info=$(dirname "$ROCE_MPIRUN")/ompi_info
roce_info=$ROCE_BUILD_DIR/src/tools/roce_info
smoke=$ROCE_BUILD_DIR/tests/btl/smoke
export OMPI_MCA_mca_base_component_path=SYS_DEFAULT:$ROCE_BUILD_DIR/src/btl/.libs
export OMPI_MCA_rmaps_base_oversubscribe=1
export ROCE_HELP_DIR=$ROCE_SRC_DIR/src/btl

fail() {
  echo "FAILED: $*" >&2
  exit 1
}

# A module built with sanitizers needs their run time in the program that loads it.
if nm -D -u "$module" | grep -q -e __asan_init -e __tsan_init; then
  echo "skipped: the component was built with sanitizers, mpirun and ompi_info were not"
  exit 77
fi
