# shellcheck shell=bash disable=SC2034
# To be sourced by the MPI tests. Environment: ROCE_SRC_DIR and ROCE_BUILD_DIR, as ctest sets them; ROCE_MPIRUN,
# if mpirun is not on PATH; ROCE_TEST_BTL, to try the tests themselves with another BTL, say tcp: what is asserted
# about btl roce is then left out. The first argument --long asks for the long form of a test.
set -u
. "$ROCE_SRC_DIR/tests/netns/lib.sh" # die, skip, need_namespaces

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
mpirun=${ROCE_MPIRUN:-mpirun}
examples=$ROCE_BUILD_DIR/mpi_examples
hosts=$ROCE_SRC_DIR/contrib/netns/hosts
btl=${ROCE_TEST_BTL:-roce}
long=
[ "${1:-}" != --long ] || long=yes
failures=0
runs=0

# In the build directory, which the namespace hosts see too.
mkdir -p "$ROCE_BUILD_DIR/tests/mpi"
work=$(mktemp -d "$ROCE_BUILD_DIR/tests/mpi/work.XXXXXX")
out=$work/out
err=$work/err
stats=$work/stats # prefix of the statistics files of the last run
hosts_up=
running=

cleanup() {
  local status=$?
  trap - EXIT INT TERM
  [ -z "$running" ] || { kill "$running" && wait "$running"; } 2>/dev/null
  ! declare -F at_exit >/dev/null || at_exit
  [ -z "$hosts_up" ] || "$hosts" down || true
  rm -rf "$work"
  exit "$status"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

[ -x "$examples/latency" ] || die "$examples/latency is not built"
if [ "$btl" = roce ]; then
  . "$ROCE_SRC_DIR/contrib/env.sh" "$ROCE_BUILD_DIR" || die "btl roce is not built"
fi

testing_roce() { [ "$btl" = roce ]; }

# A fault is printed and counted, and the test goes on; finish ends it.
fail() {
  echo "FAILED: $*"
  failures=$((failures + 1))
}

finish() {
  [ "$failures" = 0 ] || die "$failures of the checks above"
  echo "all $runs runs good"
  exit 0
}

start_hosts() {
  need_namespaces
  "$hosts" down
  hosts_up=yes
  "$hosts" up "$@" || die "hosts up $* failed"
}

# Options of mpirun for NP ranks on this machine.
place() {
  local cores
  cores=$(lscpu -p=CORE,SOCKET | grep -v '^#' | sort -u | wc -l)
  place=()
  [ "$1" -le "$cores" ] || place=(--oversubscribe --bind-to none --mca mpi_yield_when_idle 1)
}

# Options of mpirun, run on h1, for SLOTS ranks on each of COUNT hosts. --oversubscribe: the hosts of one machine
# have its cores in common.
on_hosts() {
  local slots=$1 count=$2 list="" k
  for ((k = 1; k <= count; k++)); do list+=${list:+,}h$k:$slots; done
  place=(--host "$list" --oversubscribe --bind-to none --mca mpi_yield_when_idle 1
    --mca plm_rsh_agent "$ROCE_SRC_DIR/contrib/netns/rsh"
    --mca oob_tcp_if_include 10.77.0.0/24 --mca btl_tcp_if_include 10.77.0.0/24)
}

# run SECONDS COMMAND...: output in $out and $err; returns the status, 124 if it did not end in time.
run() {
  local seconds=$1
  shift
  runs=$((runs + 1))
  rm -f "$stats".*
  # In the background: a signal to this script is then taken at once, and cleanup ends the job.
  timeout -k 5 "$seconds" "$@" >"$out" 2>"$err" </dev/null &
  running=$!
  wait "$running"
  set -- $?
  running=
  return "$1"
}

show() {
  echo "  command: $*"
  tail -n 30 "$out" | sed 's/^/  stdout: /'
  tail -n 30 "$err" | sed 's/^/  stderr: /'
}

# mpirun exits with 128 + signal, or reports the signal of a rank (and with 255 where MPI itself gave up).
crashed() {
  { [ "$1" -gt 128 ] && [ "$1" -lt 193 ]; } || grep -q -E 'exited on signal|\*\*\* Process received signal|Segmentation fault|AddressSanitizer' \
    "$out" "$err"
}

# good SECONDS COMMAND...: a run that has to succeed.
good() {
  local status=0
  run "$@" || status=$?
  shift
  [ "$status" = 0 ] && ! crashed "$status" && return 0
  fail "status $status (124: no end in time)"
  show "$@"
  return 1
}

# Sum of a counter over the processes of the last run.
counter() {
  cat "$stats".* 2>/dev/null | awk -v name="$1" '$1 == name { sum += $2; seen = 1 } END { printf "%.0f", seen ? sum : -1 }'
}

processes_with_stats() { find "$work" -name "${stats##*/}.*" | wc -l; }

# Payload that the last run moved, from its options and its table: PROGRAM NP OPTIONS...
payload_of() {
  local program=$1 np=$2 option i=1 x=0 w=64
  shift 2
  while getopts m:i:x:W:d:b:n:c option "$@"; do
    case $option in
      i) i=$OPTARG ;;
      x) x=$OPTARG ;;
      W) w=$OPTARG ;;
    esac
  done
  OPTIND=1
  awk -v program="$program" -v np="$np" -v i="$i" -v x="$x" -v w="$w" '
    $1 ~ /^[0-9]+$/ { rows += $1 }
    $2 == "payload_bytes" { printed = $3 }
    END {
      pairs = np / 2
      if (program == "latency") rows *= 2 * (i + x + 2) * pairs
      else if (program ~ /^(bandwidth|message_rate)$/) rows *= w * (i + x + 2) * pairs
      else if (program == "ring") rows *= i * np
      else if (program == "gradient_allreduce") {
        for (steps = 0; 2 ^ (steps + 1) <= np; steps++);
        rows *= (i + x) * (2 * (np - 1) + steps * 2 ^ steps + 2 * (np - 2 ^ steps))
      } else if (program == "protocols") rows = printed
      else rows = 1
      printf "%.0f", rows
    }' "$out"
}

# Bytes of the last run of `protocols` in messages longer than LIMIT, and in the others.
payload_above() {
  awk -v limit="$1" '$1 ~ /^[0-9]+$/ && $1 > limit { sum += $1 * $2 } END { printf "%.0f", sum }' "$out"
}

payload_up_to() {
  awk -v limit="$1" '$1 ~ /^[0-9]+$/ && $1 <= limit { sum += $1 * $2 } END { printf "%.0f", sum }' "$out"
}

# Bytes of the last run that roce carried.
carried() {
  echo $(($(counter tx_send_bytes) + $(counter tx_put_bytes) + $(counter rx_get_bytes)))
}

# expect WHAT VALUE OPERATOR VALUE (operators of test)
expect() {
  testing_roce || return 0
  test "$2" "$3" "$4" || fail "$1: $2, which is not $3 $4"
}

# Options of each example for short tests.
all_examples="latency bandwidth message_rate ring allreduce halo protocols gradient_allreduce"
some_examples="bandwidth ring protocols"
example_options() {
  case $1 in
    latency) echo "-m 1M -i 10 -x 2" ;;
    bandwidth) echo "-m 1M -i 2 -x 0 -W 8" ;;
    message_rate) echo "-m 4K -i 3 -x 1 -W 32 -c" ;;
    ring) echo "-m 256K -i 3 -d vector" ;;
    allreduce) echo "-m 256K -i 3 -x 1 -c" ;;
    halo) echo "-n 192 -i 10 -c" ;;
    protocols) echo "-m 128K" ;;
    gradient_allreduce) echo "-m 512K:1M -i 2 -x 0 -c" ;;
  esac
}
