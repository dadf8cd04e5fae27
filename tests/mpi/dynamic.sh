#!/bin/bash
# Spawned and connected processes over roce, 30 times in a row (--long: 100), messages checked; memory grows no more than
# over btl tcp, where what grows is Open MPI's. A run that does not end is tried again up to three times: Open MPI's
# runtime loses such a round with any BTL, tests/mpi/expected_failures.txt.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
testing_roce || skip "compares btl roce with btl tcp"
rounds=30
[ -z "$long" ] || rounds=100

# growth BTL: KiB that rank 0 grew by in the second half of the rounds.
growth() {
  local status attempt
  for attempt in 1 2 3 4; do
    status=0
    run $((20 + rounds)) "$mpirun" -np 2 --oversubscribe --bind-to none --mca mpi_yield_when_idle 1 --mca pml ob1 \
      --mca btl "$1,self" "$ROCE_BUILD_DIR/tests/mpi/dynamic" "$rounds" || status=$?
    [ "$status" = 124 ] || break
    echo "btl $1, attempt $attempt: no end in time"
  done
  [ "$status" = 0 ] && grep -q "all good" "$out" || {
    fail "btl $1: status $status"
    show dynamic
    finish
  }
  growth=$(sed -n 's/.*rank 0: \([0-9]*\) KiB, \([0-9]*\) KiB.*/\1 - \2/p' "$out")
  growth=$((growth))
  echo "btl $1: $growth KiB in $((rounds / 2)) rounds"
}

growth tcp
of_tcp=$growth
growth roce
[ "$growth" -le $((of_tcp * 3 / 2 + 1024)) ] || fail "rank 0 grew by $growth KiB, over tcp by $of_tcp KiB"
finish
