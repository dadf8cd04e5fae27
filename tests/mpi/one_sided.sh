#!/bin/bash
# osc/rdma over roce: every one-sided call on every kind of window, on this machine and between two hosts with one and two
# ranks on each, with the CPU's atomics for processes of one host and without (as NICs need it); then a target that
# computes. Asserts from roce's counters that roce carried puts, gets and atomics. Dynamic windows between hosts go by
# osc/pt2pt: tests/mpi/expected_failures.txt says why.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
testing_roce || skip "btl $btl has no atomics: osc/rdma does not run over it"
programs=$ROCE_BUILD_DIR/tests/mpi
rdma=(--mca osc rdma)
device_atomics=(--mca btl_roce_atomics device)

# one SECONDS COMMAND... (the rest of mpirun's options and the program)
one() {
  local seconds=$1
  shift
  echo "${*/#*\//}"
  good "$seconds" "${launch[@]}" --mca pml ob1 --mca btl_roce_stats "$stats" "$@" || return
  grep -v "all good" "$out"
  grep -q "all good" "$out" || fail "no verdict in the output of $*"
  [[ "$*" == *"osc rdma"* ]] || return
  for name in tx_put_messages rx_get_messages atomic_operations; do
    expect "$name over roce" "$(counter "$name")" -gt 0
  done
}

launch=("$mpirun" -np 2)
place 2
one 60 "${place[@]}" --mca btl roce,self "${rdma[@]}" "$programs/one_sided"
one 60 "${place[@]}" --mca btl roce,self "${rdma[@]}" "${device_atomics[@]}" "$programs/one_sided" create
place 4
launch=("$mpirun" -np 4)
one 60 "${place[@]}" --mca btl roce,self "${rdma[@]}" "$programs/one_sided" create
start_hosts 2
launch=("$hosts" exec h1 "$mpirun")
for slots in 1 2; do
  on_hosts "$slots" 2
  for kind in create allocate; do
    one 60 "${place[@]}" --mca btl roce,self "${rdma[@]}" "$programs/one_sided" "$kind"
    one 60 "${place[@]}" --mca btl roce,vader,self "${rdma[@]}" "${device_atomics[@]}" "$programs/one_sided" "$kind"
  done
  one 60 "${place[@]}" --mca btl roce,self --mca osc pt2pt "$programs/one_sided" dynamic
  one 60 "${place[@]}" --mca btl roce,self "${rdma[@]}" "$programs/passive_target"
done
finish
