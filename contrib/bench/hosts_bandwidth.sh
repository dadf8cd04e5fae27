#!/bin/bash
# MPI bandwidth between two namespace hosts, one transport after the other, in turns; needs root.
#
#   contrib/bench/hosts_bandwidth.sh [-m MTU] [-s BYTES] [-t SECONDS] [-n ROUNDS] [-l "IMPAIR ARGS"] [-T "TRANSPORTS"]
#                                    [BUILD_DIR]
#
# Runs mpi_examples/bandwidth, messages of BYTES (1048576), window 64, for about SECONDS (10) each; prints for every
# transport the median of ROUNDS (3) in MB/s and roce's ratio to it. TRANSPORTS: any of roce, tcp (btl tcp), ucx
# (pml ucx over UCX's tcp), ofi (mtl ofi over libfabric's tcp); all four if not given. With -l both hosts' links are made
# bad ones (contrib/netns/impair, "--loss 1"), senders hand over single packets (gso_max_segs 1), and every round measures
# each transport without and with it; packets seen and impaired are printed.
set -euo pipefail
src=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
hosts=$src/contrib/netns/hosts
mtu=1500
bytes=1048576
seconds=10
rounds=3
impair=
transports="roce tcp ucx ofi"
while getopts m:s:t:n:l:T: option; do
  case $option in
    m) mtu=$OPTARG ;;
    s) bytes=$OPTARG ;;
    t) seconds=$OPTARG ;;
    n) rounds=$OPTARG ;;
    l) impair=$OPTARG ;;
    T) transports=$OPTARG ;;
    *) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0" >&2; exit 2 ;;
  esac
done
shift $((OPTIND - 1))
build=$(cd "${1:-build}" && pwd) || { echo "hosts_bandwidth: name the build directory" >&2; exit 2; }
[ "$(id -u)" = 0 ] || { echo "hosts_bandwidth: network namespaces need root" >&2; exit 1; }
. "$src/contrib/env.sh" "$build"
mpirun=$(sed -n 's/^MPIRUN = //p' "$build/Makefile")
mpirun=${mpirun:-mpirun}
bandwidth=$build/mpi_examples/bandwidth
[ -x "$bandwidth" ] || { echo "hosts_bandwidth: $bandwidth is not built" >&2; exit 1; }
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 ROCE_BUILD_DIR=$build

work=$(mktemp -d)
trap '"$hosts" down; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

# options TRANSPORT: mpirun's options for it, one a line.
options() {
  case $1 in
    roce) printf '%s\n' --mca pml ob1 --mca btl roce,self ;;
    tcp) printf '%s\n' --mca pml ob1 --mca btl tcp,self ;;
    ucx) printf '%s\n' --mca pml ucx --mca pml_ucx_tls any --mca pml_ucx_devices any -x UCX_TLS=tcp,self \
      -x UCX_NET_DEVICES=eth0 ;;
    ofi) printf '%s\n' --mca pml cm --mca mtl ofi --mca mtl_ofi_provider_include "tcp;ofi_rxm" -x FI_TCP_IFACE=eth0 ;;
    *) echo "hosts_bandwidth: no transport $1" >&2; exit 2 ;;
  esac
}

# run TRANSPORT WINDOWS: MB/s of a run, or "failed" (twelve times the time it should take, or an error).
run() {
  local arguments
  mapfile -t arguments < <(options "$1")
  timeout -k 5 $((seconds * 12)) "$hosts" exec h1 "$mpirun" --host h1:1,h2:1 --bind-to none \
    --mca plm_rsh_agent "$src/contrib/netns/rsh" --mca oob_tcp_if_include 10.77.0.0/24 \
    --mca btl_tcp_if_include 10.77.0.0/24 "${arguments[@]}" \
    "$bandwidth" -m "$bytes:$bytes" -W 64 -i "$2" -x 2 </dev/null 2>"$work/err" |
    awk '$1 ~ /^[0-9]+$/ { value = $2; lines++ } END { if (lines != 1) exit 1; print value }' ||
    { echo "hosts_bandwidth: $1 failed:" >&2; tail -n 5 "$work/err" >&2; echo failed; }
}

# measure TRANSPORT: a short run says how many windows take SECONDS.
measure() {
  local first windows
  first=$(run "$1" 2)
  [ "$first" != failed ] || { echo failed; return; }
  windows=$(awk -v rate="$first" -v bytes="$bytes" -v seconds="$seconds" \
    'BEGIN { w = rate * 1e6 * seconds / (64 * bytes); printf "%d", w < 2 ? 2 : w }')
  run "$1" "$windows"
}

median() {
  sort -n "$1" | awk '$1 != "failed" { v[++n] = $1 }
    END { if (n == 0) print "failed"; else printf "%.1f", n % 2 ? v[(n + 1) / 2] : (v[n / 2] + v[n / 2 + 1]) / 2 }'
}

links() {
  local host
  for host in h1 h2; do
    # shellcheck disable=SC2086
    "$src/contrib/netns/impair" "$host" $1
  done
}

"$hosts" down
"$hosts" up 2 --mtu "$mtu"
conditions=(good)
if [ -n "$impair" ]; then
  conditions=(good bad)
  for host in h1 h2; do "$hosts" exec "$host" ip link set eth0 gso_max_segs 1; done
fi
printf '# %s bytes, window 64, MTU %s, MB/s; medians of %s runs of about %s s%s\n' "$bytes" "$mtu" "$rounds" "$seconds" \
  "${impair:+; bad: impair $impair on both hosts}"
for ((round = 1; round <= rounds; round++)); do
  for condition in "${conditions[@]}"; do
    for transport in $transports; do
      if [ "$condition" = bad ]; then links "$impair"; fi
      measure "$transport" >>"$work/$condition.$transport"
      if [ "$condition" = bad ]; then
        for host in h1 h2; do
          echo "# round $round, $transport, $host: $("$src/contrib/netns/impair" "$host" --show | tr '\n' ' ')"
        done
        links ""
      fi
    done
  done
done
printf '%-6s %-6s %10s %10s   %s\n' '# link' 'what' 'median' 'roce/this' 'all runs'
for condition in "${conditions[@]}"; do
  roce=$([ ! -s "$work/$condition.roce" ] || median "$work/$condition.roce")
  for transport in $transports; do
    value=$(median "$work/$condition.$transport")
    printf '%-6s %-6s %10s %10s   %s\n' "$condition" "$transport" "$value" \
      "$(awk -v a="$roce" -v b="$value" 'BEGIN { if (a + 0 > 0 && b + 0 > 0) printf "%.2f", a / b; else print "-" }')" \
      "$(sort -n "$work/$condition.$transport" | tr '\n' ' ')"
  done
done
