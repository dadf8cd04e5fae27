#!/bin/bash
# The cache of registrations: buffers that are used again cost none, memory that was unmapped in between is registered
# anew (a stale registration would name pages that are gone), and every byte is right while memory comes and goes, with
# leave_pinned and without. With memory for registrations that does not hold all buffers, the cache evicts others; where a
# single one does not fit, its bytes are copied.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
place 2
rounds=200
[ -z "$long" ] || rounds=3000

# one PINNED MODE ROUNDS
one() {
  good 300 "$mpirun" -np 2 "${place[@]}" --mca pml ob1 --mca btl "$btl,self" --mca mpi_leave_pinned "$1" \
    --mca btl_roce_stats "$stats" "$ROCE_BUILD_DIR/tests/mpi/registration" "$2" "$3" || return
  grep -q "all good" "$out" || fail "no verdict of $2"
  echo "leave_pinned $1: $2, $3 rounds, registrations of both ranks: $(counter registrations)"
}

# Each rank registers some memory of its own once: fewer than this for both.
others=20
one 1 reuse "$rounds"
expect "registrations" "$(counter registrations)" -le "$others"
one 0 reuse "$rounds"
expect "registrations" "$(counter registrations)" -ge $((2 * rounds))
one 1 remap "$rounds"
expect "registrations" "$(counter registrations)" -ge $((2 * rounds))
one 0 remap "$rounds"
one 1 churn "$rounds"
one 0 churn "$rounds"

# The transport's own buffers take 23.5 MB if they can.
copied=$(counter tx_send_bytes)
export ROCE_SOFT_MEMLOCK=40000000
one 1 many 200
expect "registrations refused by the device" "$(counter registration_failures)" -gt 0
expect "registrations" "$(counter registrations)" -ge 400
expect "bytes sent as messages" "$(counter tx_send_bytes)" -lt $((1 << 20))
export ROCE_SOFT_MEMLOCK=26000000
for pinned in 1 0; do
  one $pinned churn 200
  expect "registrations refused by the device" "$(counter registration_failures)" -gt 0
  expect "bytes sent as messages" "$(counter tx_send_bytes)" -gt $((copied + (10 << 20)))
done
# The receive pool becomes smaller where it does not fit any more.
export ROCE_SOFT_MEMLOCK=14000000
one 1 many 200
finish
