#!/bin/bash
# The examples notice one wrong bit: with a library that flips one on its way out, each ends with status 1 and one
# line. (Over the BTLs of Open MPI itself, puts as messages: the checks are tested here, not a transport.)
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
library=$ROCE_BUILD_DIR/tests/mpi/.libs/corrupt.so
[ -e "$library" ] || die "$library is not built"

# one PROGRAM CORRUPT-AFTER OPTIONS...
one() {
  local program=$1 after=$2 status=0
  shift 2
  echo "$program $*, one bit flipped after $after bytes"
  # 4 ranks: of two, bandwidth and message_rate would send from rank 0 only.
  place 4
  run 60 "$mpirun" -np 4 "${place[@]}" --mca btl vader,self --mca osc pt2pt -x LD_PRELOAD="$library" -x CORRUPT_AFTER="$after" \
    "$examples/$program" "$@" || status=$?
  if [ "$status" != 1 ] || [ "$(grep -c "^$program: rank [0-9]*: wrong" "$err")" != 1 ]; then
    fail "status $status and not one line of $program"
    show "$program" "$@"
  fi
  grep "^$program: rank" "$err"
}

one latency 0 -m 64 -i 5
one latency 1000 -m 64 -i 100 -c
one latency 100000 -m 256K -i 2 -d vector -c
one bandwidth 0 -m 64 -i 2
one bandwidth 1000000 -m 16K:64K -i 2 -c
one message_rate 1000 -m 8:8 -i 3 -c
one ring 20 -m 4K -i 2
one allreduce 0 -m 4K -i 2
one allreduce 4000 -m 4K -i 5 -c
one halo 0 -i 3
one halo 5000 -i 10 -c
one halo 0 -i 3 -t fence
one halo 5000 -i 10 -t notify -c
one gradient_allreduce 0 -m 64K:64K -i 2
one gradient_allreduce 300000 -m 64K:64K -i 2 -c # by recursive doubling
one gradient_allreduce 700000 -m 64K:64K -i 2 -c # by MPI_Allreduce
one block_store 100000 -k 20 -i 10
one block_store 180000 -k 20 -i 200 -W 1 -w create
one block_store 180000 -k 20 -i 200 -t flush
one protocols 0 -m 1K
one protocols 300000 -m 64K -d vector
finish
