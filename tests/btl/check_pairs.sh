#!/bin/bash
# Two processes on this host over roce, by every protocol of ob1. MAX_BYTES is the largest message.
. "$ROCE_SRC_DIR/tests/btl/lib.sh"
max=${1:-1048576}

run() {
  local out
  out=$(timeout 120 "$ROCE_MPIRUN" -np 2 "$@" "$smoke" "$max" 2>&1)
  local status=$?
  [ $status -eq 0 ] && [ "$out" = "smoke ok" ] || fail "mpirun $* (status $status): $out"
}
run --mca btl roce,self
run --mca btl roce,self,vader
for pinned in 0 1; do
  for flags in send send,put send,get send,put,get; do
    run --mca btl roce,self --mca opal_leave_pinned $pinned --mca btl_roce_flags $flags
  done
done
# ob1's own pipeline of puts.
run --mca btl roce,self --mca opal_leave_pinned 0 --mca btl_roce_min_rdma_pipeline_size 0
# Limits at their edges.
run --mca btl roce,self --mca btl_roce_eager_limit 256 --mca btl_roce_rndv_eager_limit 256
run --mca btl roce,self --mca btl_roce_max_send_size 12288
run --mca btl roce,self --mca btl_roce_get_limit 10000 --mca btl_roce_put_limit 10000
exit 0
