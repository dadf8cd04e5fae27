#!/bin/bash
# Seven hosts send 8 MiB each to an eighth, all at once, over links of 200 Mb/s, so that the links and not the cores are
# what is scarce. Every sender gets the same share (Jain's index at least 0.95), the link of the receiver is used (at
# least 0.9 of it), and what stands in its queue is bounded: by what the receiver's scheduler lets be in flight and a
# train of each sender, or, for puts, by the windows of all senders. A large receive buffer does not change that: what is
# in flight then follows the path.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
command -v tc >/dev/null || skip "no tc (package iproute2)"
senders=7
megabits=200
# As on a machine with the default rmem_max; the kernel takes twice that, and the device offers half of the result.
export ROCE_SOFT_RECEIVE_BUFFER=212992
in_flight=$((ROCE_SOFT_RECEIVE_BUFFER / 2)) # payload: a byte of it costs two of the buffer
window=$((ROCE_SOFT_RECEIVE_BUFFER / 4))
train=65536
start_hosts $((senders + 1)) --rate ${megabits}mbit
# A queue in which whatever is sent has room: its length is the measurement.
switch=${ROCE_NETNS_NAME:-mpi-roce}-switch
tc -n "$switch" qdisc replace dev h1 root tbf rate ${megabits}mbit burst 16384 limit 8388608
on_hosts 1 $((senders + 1))

# attempt KIND BOUND: false if unfair or slow; what must never be is counted as a failure
attempt() {
  local kind=$1 bound=$2 backlog jain rate sampler before=$failures
  "$ROCE_SRC_DIR/tests/mpi/backlog.py" "$switch" h1 >"$work/backlog" &
  sampler=$!
  good 90 "$hosts" exec h1 "$mpirun" "${place[@]}" -x ROCE_SOFT_RECEIVE_BUFFER --mca pml ob1 --mca osc rdma \
    --mca btl "$btl,self" --mca btl_roce_stats "$stats" "$ROCE_BUILD_DIR/tests/mpi/incast" "$kind"
  kill "$sampler"
  wait "$sampler"
  grep "^$kind" "$out" || return
  cat "$work/backlog"
  read -r backlog < <(sed -n 's/^backlog \([0-9]*\) .*/\1/p' "$work/backlog")
  expect "$kind: bytes in the receiver's queue" "${backlog:-0}" -le "$bound"
  expect "$kind: bytes in the receiver's queue (was it looked at?)" "${backlog:-0}" -gt 0
  [ "$failures" = "$before" ] || return
  read -r jain rate < <(awk -v kind="$kind" '$1 == kind { print $5 * 10000, $9 * 100 }' "$out")
  ! testing_roce || { [ "$jain" -ge 9500 ] && [ "$rate" -ge $((megabits * 100 / 8 * 9 / 10)) ]; }
}

# one KIND BOUND: rates depend on what else the cores do, so there are three attempts for them.
one() {
  local try before=$failures
  for try in 1 2 3; do
    attempt "$@" && return
    [ "$failures" = "$before" ] || return
    echo "  attempt $try: Jain's index below 0.95 or less than 0.9 of the link"
  done
  fail "$1: unfair or slow in three attempts"
}

one contiguous $((in_flight + senders * train))
one vector $((in_flight + senders * train))
testing_roce && one put $((senders * window))
export ROCE_SOFT_RECEIVE_BUFFER=4194304
testing_roce && one contiguous $(((4 + senders) * train))
finish
