#!/bin/bash
# MPI_THREAD_MULTIPLE: messages and one-sided calls of many threads at once, on this machine and between two hosts.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
testing_roce || skip "btl $btl has no atomics: osc/rdma does not run over it, and osc/pt2pt takes no threads"
rounds=100
[ -z "$long" ] || rounds=2000

# one THREADS COMMAND... (mpirun with its place)
one() {
  local threads=$1
  shift
  good 240 "$@" --mca pml ob1 --mca osc rdma --mca btl "$btl,self" --mca btl_roce_stats "$stats" \
    "$ROCE_BUILD_DIR/tests/mpi/threads" "$threads" "$rounds" || return
  grep -q "all good" "$out" || fail "no verdict"
  for name in tx_send_messages tx_put_messages rx_get_messages atomic_operations; do
    expect "$name over roce" "$(counter "$name")" -gt 0
  done
  echo "$threads threads, $rounds rounds: messages $(counter tx_send_messages), puts $(counter tx_put_messages), gets" \
    "$(counter rx_get_messages), atomics $(counter atomic_operations)"
}

# Threads that poll, more than cores in any case.
crowded=(--oversubscribe --bind-to none --mca mpi_yield_when_idle 1)
one 12 "$mpirun" -np 2 "${crowded[@]}"
one 6 "$mpirun" -np 4 "${crowded[@]}"
start_hosts 2
on_hosts 1 2
one 6 "$hosts" exec h1 "$mpirun" "${place[@]}"
finish
