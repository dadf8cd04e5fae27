#!/bin/bash
# A job that does not use roce hears nothing of it: no output, no statistics.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
place 2

# one NAME OPTIONS...
one() {
  local name=$1
  shift
  echo "$name"
  good 60 "$mpirun" -np 2 "${place[@]}" "$@" --mca btl_roce_stats "$stats" "$examples/ring" -m 64 -i 2 || return
  [ ! -s "$err" ] || { fail "$name: output on stderr"; show "$mpirun" "$@"; }
  ! grep -q -i roce "$out" || { fail "$name: roce is mentioned"; show "$mpirun" "$@"; }
  expect "processes with statistics" "$(processes_with_stats)" -eq 0
}

one "btl tcp,self" --mca btl tcp,self
one "btl vader,self" --mca btl vader,self
one "btl ^roce" --mca btl ^roce,openib,uct,ofi
if [ -n "$(ls /sys/class/infiniband 2>/dev/null)" ]; then
  echo "not tried: the default list of BTLs, which may use this machine's RDMA devices"
else
  one "no btl option"
fi
echo "one process without mpirun"
run 60 "$examples/allreduce" -m 8 -i 1 || fail "status $?"
[ ! -s "$err" ] || { fail "output on stderr"; show "$examples/allreduce"; }
finish
