#!/bin/bash
# 64 ranks on the cores of this machine: connections are made when they are used (a ring needs two peers of each rank, all to
# all the other 63), and alltoall and allreduce are right. Receiver-not-ready answers and resends are printed.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
ranks=64

# one PEERS ARGUMENTS...: every rank has connected to so many peers.
one() {
  local peers=$1 ranks_with
  shift
  good 200 "$mpirun" -np "$ranks" --oversubscribe --bind-to none --mca mpi_yield_when_idle 1 --mca pml ob1 \
    --mca btl "$btl,self" --mca btl_roce_stats "$stats" "$ROCE_BUILD_DIR/tests/mpi/scale" "$@" || return
  cat "$out"
  grep -q "all good" "$out" || fail "no verdict of scale $*"
  ranks_with=$(cat "$stats".* 2>/dev/null | grep -c "^connects $peers$")
  expect "ranks with $peers peers" "$ranks_with" -eq "$ranks"
  echo "RNR NAKs $(counter device_rnr_naks_sent), packets resent $(counter device_resent_packets), handshake packets" \
    "resent $(counter connect_requests_resent)"
}

one 2 ring
one $((ranks - 1))
finish
