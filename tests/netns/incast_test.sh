#!/bin/bash
# Eight sleeping senders into one process whose receive buffer is that of an ordinary machine (net.core.rmem_max
# 212,992; the sysctl is the machine's, so the device is told): SEND, WRITE and READ of 64 B and 1 MiB. All bytes
# right, no queue pair fails, and after the first 100 ms the kernel drops at most 1 in 1,000. Printed, with the
# marks: the rate beside one sender's alone, which it should not fall below half of.
set -euo pipefail
hosts=$ROCE_SRC_DIR/contrib/netns/hosts
program=$ROCE_BUILD_DIR/tests/netns/survive
. "$ROCE_SRC_DIR/tests/netns/lib.sh"
need_namespaces
milliseconds=600
[ -z "${ROCE_TEST_LONG:-}" ] || milliseconds=5000
export ROCE_SOFT_RECEIVE_BUFFER=212992
trap '"$hosts" down' EXIT
"$hosts" down
"$hosts" up 9
failures=()

# load SENDERS KIND BYTES [plain]: sets rate
load() {
  local senders=$1 pids=() k pid out status=0
  shift
  for ((k = 2; k < senders + 2; k++)); do
    "$hosts" exec "h$k" timeout 40 "$program" sender "10.77.0.$k" 10.77.0.1 &
    pids+=($!)
  done
  out=$("$hosts" exec h1 timeout 40 "$program" one 10.77.0.1 "$senders" "$1" "$2" $milliseconds ${3:+"$3"} 2>&1) ||
    status=$?
  # Nobody else ends a sender that has nothing to send.
  [ "$status" = 0 ] || kill "${pids[@]}" 2>/dev/null || true
  for pid in "${pids[@]}"; do
    wait "$pid" || [ "$status" != 0 ] || status=$?
  done
  echo "$out"
  [ "$status" != 142 ] || die "$senders senders, $*: nothing more came (SIGALRM)"
  [ "$status" = 0 ] || failures+=("$senders senders, $*: $(tail -n 1 <<<"$out")")
  rate=$(sed -n 's/.*: \([0-9.]*\) MiB\/s.*/\1/p' <<<"$out")
}

for kind in send write read; do
  for bytes in 64 1048576; do
    load 1 $kind $bytes
    alone=$rate
    for path in "" plain; do
      load 8 $kind $bytes $path
      awk -v all="${rate:-0}" -v one="${alone:-0}" 'BEGIN {
        printf("  %.2f times the rate of one sender alone%s\n", one > 0 ? all / one : 0,
          all < one / 2 ? ": below half" : "") }'
    done
  done
done
for failure in ${failures[@]+"${failures[@]}"}; do echo "FAILED: $failure" >&2; done
[ ${#failures[@]} = 0 ]
