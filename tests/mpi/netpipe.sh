#!/bin/bash
# NetPIPE to its end with its integrity check, over roce.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
netpipe=$(command -v NPopenmpi) || skip "NPopenmpi not found; on Debian: apt-get install netpipe-openmpi"
place 2

# one MAX-BYTES OPTIONS...
one() {
  local bytes=$1
  shift
  echo "NPopenmpi -i -u $bytes $*"
  good 300 "$mpirun" -np 2 "${place[@]}" --mca pml ob1 --mca btl "$btl,self" --mca btl_roce_stats "$stats" \
    "$netpipe" -i -u "$bytes" -o "$work/np.out" "$@" || return
  # It goes through the sizes and ends with status 0 even where a check failed.
  ! grep -q -i -E 'integrity check failed|error' "$out" "$err" ||
    { fail "integrity check"; show "NPopenmpi -i -u $bytes $*"; }
  expect "bytes over roce" "$(carried)" -gt "$bytes"
}

one 1048576
one 131072 -a -2
if [ -n "$long" ]; then
  one 67108864
  one 4194304 -a
  one 4194304 -S
  one 4194304 -z -O 1,3
fi
finish
