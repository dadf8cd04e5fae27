#!/bin/bash
# The examples that put and get, on this machine and between two namespace hosts with two ranks on each. What roce carried
# is asserted from its counters: every halo that has to leave the process (or its host), and every block that was
# written and read. MPI_Win_allocate makes shared memory within a host, so that here only `-w create` reaches roce.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
testing_roce || skip "btl $btl has no atomics: osc/rdma does not run over it"
points=192 iterations=200 blocks=500

# one PROGRAM OPTIONS...
one() {
  local program=$1
  shift
  echo "$where: $program $*"
  good 60 "${launch[@]}" "${place[@]}" --mca pml ob1 --mca btl roce,self --mca osc rdma --mca btl_roce_stats "$stats" \
    "$examples/$program" "$@"
}

# Of 2 ranks, and of 2 hosts, one has the upper half of the grid and one the lower half.
# No -c: it would keep the ranks in step.
halo() {
  one halo -n "$points" -i "$iterations" "$@" || return
  expect "bytes put over roce" "$(counter tx_put_bytes)" -ge $((iterations * 2 * points * 8))
}

# Before the operations each block is written once, after them it is read once.
block_store() {
  local clients=$1 servers=$2 all
  shift 2
  one block_store -s "$servers" -k "$blocks" -i 2000 "$@" || return
  all=$((clients * servers * blocks))
  expect "bytes put over roce" "$(counter tx_put_bytes)" -ge "$(moved write "$all")"
  expect "bytes got over roce" "$(counter rx_get_bytes)" -ge "$(moved read "$all")"
}

# Bytes that the last block_store moved by reads or writes and, once for each size, by BLOCKS others.
moved() {
  awk -v name="$1" -v others="$2" '$2 == name { sum += $1 * ($3 + others); seen = 1 } END { printf "%.0f", seen ? sum : 2^60 }' "$out"
}

where="np 2"
launch=("$mpirun" -np 2)
place 2
halo -t fence -w create
halo -t notify -w create
block_store 1 1 -w create
block_store 1 1 -w create -t flush -m 512:8K -r 40

start_hosts 2
where="2 hosts x 2"
launch=("$hosts" exec h1 "$mpirun")
on_hosts 2 2
halo -t fence
halo -t notify
block_store 2 2 -t flush
block_store 2 2 -w create -r 30 -W 64
block_store 3 1 -w create
finish
