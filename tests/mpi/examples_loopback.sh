#!/bin/bash
# Every example on this machine, 2 and 4 ranks, with several lists of BTLs; who carried the bytes is asserted from
# roce's counters: with vader in the list roce carries nothing between ranks of one machine, without it all.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# one NP LIST PROGRAM
one() {
  local np=$1 list=$2 program=$3 options=() with=()
  read -r -a options < <(example_options "$program")
  place "$np"
  with=(--mca btl "$list")
  [ -n "$list" ] || with=(--mca btl_roce_soft on)
  echo "np $np, btl ${list:-not named}: $program ${options[*]}"
  good 60 "$mpirun" -np "$np" "${place[@]}" --mca pml ob1 "${with[@]}" --mca btl_roce_stats "$stats" \
    "$examples/$program" "${options[@]}" || return
  expect "processes with statistics" "$(processes_with_stats)" -eq "$np"
  if [ "$list" = "$btl,self" ]; then
    expect "bytes over roce" "$(carried)" -ge "$(payload_of "$program" "$np" "${options[@]}")"
    expect "connections" "$(counter connects)" -gt 0
  else
    expect "bytes over roce" "$(carried)" -eq 0
  fi
}

programs=$some_examples
[ -z "$long" ] || programs=$all_examples
for np in 2 4; do
  for program in $all_examples; do one "$np" "$btl,self" "$program"; done
  for list in "$btl,vader,self" "$btl,tcp,vader,self" ""; do
    for program in $programs; do one "$np" "$list" "$program"; done
  done
done
one 3 "$btl,self" gradient_allreduce
finish
