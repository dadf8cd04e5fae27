#!/bin/bash
# Programs in Python, by mpi4py, over roce on two ranks: messages, one-sided communication, threads.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
python=
for candidate in python3 /usr/bin/python3; do # Debian's packages are for its own python3
  if "$candidate" -c 'import mpi4py.MPI, numpy' 2>/dev/null; then python=$candidate; fi
done
[ -n "$python" ] || skip "no mpi4py or numpy; on Debian: apt-get install python3-mpi4py python3-numpy"
programs=$ROCE_SRC_DIR/tests/mpi/mpi4py
export PYTHONDONTWRITEBYTECODE=1
place 2

# one PROGRAM OPTIONS...
one() {
  local program=$1
  shift
  echo "$program $*"
  good 100 "$mpirun" -np 2 "${place[@]}" --mca pml ob1 --mca btl "$btl,self" --mca btl_roce_stats "$stats" "$@" \
    "$python" "$programs/$program.py" || return
  grep "all good" "$out" || fail "no verdict in the output of $program"
  echo "sent, put, got, atomics: $(counter tx_send_bytes) $(counter tx_put_bytes) $(counter rx_get_bytes) $(counter atomic_operations)"
}

one messages
expect "bytes over roce" "$(carried)" -gt 100000000
for options in "" "--mca btl_roce_atomics device"; do
  testing_roce || break # osc/rdma needs a BTL with atomics
  # shellcheck disable=SC2086 # two words
  one one_sided --mca osc rdma $options
  for name in tx_put_messages rx_get_messages atomic_operations; do
    expect "$name over roce" "$(counter "$name")" -gt 0
  done
done
one threads
expect "bytes over roce" "$(carried)" -gt 10000000
finish
