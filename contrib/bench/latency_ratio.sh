#!/bin/bash
# Small-message latency in one go: raw UDP, btl roce and btl tcp, in turns, on loopback and between two namespace
# hosts (root only). Prints the median of each and its ratio to raw UDP.
#
#   contrib/bench/latency_ratio.sh [-n ROUNDS] [-s BYTES] [-i ITERATIONS] [BUILD_DIR]
#
# All three are ping-pongs of BYTES (8) between two busy-polling processes, half the round trip in microseconds: the
# median of a run for raw UDP, the mean of a run, which is what MPI programs print, for the other two.
# ROCE_BENCH_BTL names another BTL to put in the place of roce.
set -euo pipefail
src=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
hosts=$src/contrib/netns/hosts
rounds=5
bytes=8
iterations=20000
while getopts n:s:i: option; do
  case $option in
    n) rounds=$OPTARG ;;
    s) bytes=$OPTARG ;;
    i) iterations=$OPTARG ;;
    *) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0" >&2; exit 2 ;;
  esac
done
shift $((OPTIND - 1))
build=$(cd "${1:-build}" && pwd) || { echo "latency_ratio: name the build directory" >&2; exit 2; }
btl=${ROCE_BENCH_BTL:-roce}
[ "$btl" != roce ] || . "$src/contrib/env.sh" "$build"
mpirun=$(sed -n 's/^MPIRUN = //p' "$build/Makefile")
mpirun=${mpirun:-mpirun}
pingpong=$build/contrib/bench/udp_pingpong
latency=$build/mpi_examples/latency
for program in "$pingpong" "$latency"; do
  [ -x "$program" ] || { echo "latency_ratio: $program is not built" >&2; exit 1; }
done
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 ROCE_BUILD_DIR=$build

work=$(mktemp -d)
hosts_up=
server=
cleanup() {
  [ -z "$server" ] || kill "$server" 2>/dev/null || true
  [ -z "$hosts_up" ] || "$hosts" down
  rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

# The value in column N of the only line of numbers; more or fewer lines are an error.
number() { awk -v n="$1" '$1 ~ /^[0-9]+$/ { value = $n; lines++ } END { if (lines != 1) exit 1; print value }'; }

mpi() {
  timeout -k 5 120 "$@" "$latency" -m "$bytes:$bytes" -i "$iterations" </dev/null 2>"$work/err" | number 2 ||
    { cat "$work/err" >&2; echo "latency_ratio: failed: $*" >&2; exit 1; }
}

loopback() {
  case $1 in
    # Pinned as mpirun pins its two ranks.
    udp) timeout 60 "$pingpong" -s "$bytes" -n "$iterations" | number 4 ;;
    *) mpi "$mpirun" -np 2 --mca pml ob1 --mca btl "$1,self" ;;
  esac
}

two_hosts() {
  case $1 in
    udp)
      "$hosts" exec h2 timeout 60 "$pingpong" -l 10.77.0.2 -a 1 &
      server=$!
      sleep 0.3
      "$hosts" exec h1 timeout 60 "$pingpong" -c 10.77.0.2 -a 0 -s "$bytes" -n "$iterations" | number 4
      wait "$server"
      server=
      ;;
    # Unbound: each "host" would bind its rank to the same core.
    *)
      mpi "$hosts" exec h1 "$mpirun" --host h1:1,h2:1 --bind-to none --mca plm_rsh_agent "$src/contrib/netns/rsh" \
        --mca oob_tcp_if_include 10.77.0.0/24 --mca btl_tcp_if_include 10.77.0.0/24 --mca pml ob1 --mca btl "$1,self"
      ;;
  esac
}

median() { sort -n "$1" | awk '{ v[NR] = $1 } END { printf "%.2f", NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'; }

# In turns, so that what changes on the machine meanwhile changes all three.
measure() {
  local place=$1 round what udp value
  for ((round = 1; round <= rounds; round++)); do
    for what in udp "$btl" tcp; do "$place" "$what" >>"$work/$place.$what"; done
  done
  udp=$(median "$work/$place.udp")
  for what in udp "$btl" tcp; do
    value=$(median "$work/$place.$what")
    printf '%-10s %-8s %10s %8s   %s\n' "$place" "$what" "$value" \
      "$(awk -v a="$value" -v b="$udp" 'BEGIN { printf "%.2f", a / b }')" "$(sort -n "$work/$place.$what" | tr '\n' ' ')"
  done
}

printf '# half round trip of %s bytes, us; medians of %s runs\n' "$bytes" "$rounds"
printf '%-10s %-8s %10s %8s   %s\n' '# where' 'what' 'median' 'ratio' 'all runs'
measure loopback
if [ "$(id -u)" = 0 ]; then
  "$hosts" down
  hosts_up=yes
  "$hosts" up 2
  measure two_hosts
else
  echo "# two_hosts: not measured, network namespaces need root"
fi
