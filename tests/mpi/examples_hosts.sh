#!/bin/bash
# Every example between two namespace hosts with one rank and with two ranks on each. Ranks i and i + n/2 are on
# different hosts, so roce carries all payload of pairs, with and without other BTLs in the list.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
start_hosts 2

# one SLOTS LIST PROGRAM
one() {
  local slots=$1 list=$2 program=$3 options=()
  read -r -a options < <(example_options "$program")
  on_hosts "$slots" 2
  echo "2 hosts x $slots, btl $list: $program ${options[*]}"
  good 60 "$hosts" exec h1 "$mpirun" "${place[@]}" --mca pml ob1 --mca btl "$list" --mca btl_roce_stats "$stats" \
    "$examples/$program" "${options[@]}" || return
  expect "processes with statistics" "$(processes_with_stats)" -eq $((2 * slots))
  expect "bytes over roce" "$(carried)" -ge "$(payload_of "$program" $((2 * slots)) "${options[@]}")"
}

for slots in 1 2; do
  for program in $all_examples; do one "$slots" "$btl,self" "$program"; done
done
for program in bandwidth protocols; do
  one 2 "$btl,vader,self" "$program"
  one 2 "$btl,tcp,vader,self" "$program"
done
finish
