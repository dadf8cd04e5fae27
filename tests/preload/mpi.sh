#!/bin/bash
# Open MPI over UCX (pml ucx) on the soft device: the examples, which check what they receive.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
[ -x "$ROCE_BUILD_DIR/mpi_examples/ring" ] || skip "built without Open MPI"
need_program "$ROCE_MPIRUN" openmpi-bin
ompi_info --parsable 2>/dev/null | grep -q '^mca:pml:ucx:version' || skip "this Open MPI has no pml ucx"

# run RANKS PROGRAM OPTIONS...
run() {
  local ranks=$1 program=$2
  shift 2
  timeout 60 "$ROCE_MPIRUN" --oversubscribe -np "$ranks" --mca pml ucx --mca mpi_yield_when_idle 1 \
    -x UCX_TLS=rc_v,self -x UCX_NET_DEVICES=rocesw0:1 -x ROCE_SOFT_IF_INCLUDE \
    "$roce_run" "$ROCE_BUILD_DIR/mpi_examples/$program" "$@" >"$work/out" 2>&1 </dev/null ||
    { tail -n 20 "$work/out"; die "$program on $ranks ranks"; }
}

for ranks in 2 4; do
  for program in ring allreduce halo; do run "$ranks" "$program"; done
done
run 2 latency -m 8:65536 -i 50
run 2 bandwidth -m 8:1048576 -i 5
