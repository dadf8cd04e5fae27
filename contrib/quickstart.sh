#!/bin/bash
# From a fresh checkout to numbers: installs the Debian packages, builds in ./build, runs latency and bandwidth
# between two processes of this machine over `btl roce` and over `btl tcp`, and prints one table.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. contrib/packages.sh

build=$PWD/build
log=$build/quickstart.log

die() {
  echo "quickstart: $*" >&2
  exit 1
}

# Runs a step with its output in the log, which is shown if the step fails.
step() {
  local what=$1
  shift
  echo "$what" >&2
  "$@" >>"$log" 2>&1 </dev/null || {
    tail -n 30 "$log" >&2
    die "failed: $* (all output: $log)"
  }
}

install_packages "$PWD"
mkdir -p "$build"
: >"$log"
[ configure -nt configure.ac ] || step "making ./configure" ./autogen.sh
[ -f "$build/Makefile" ] || step "configuring" env -C "$build" ../configure
step "building in $build (some minutes)" make -C "$build" -j "$(nproc)"
. contrib/env.sh "$build"

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
mpirun=$(sed -n 's/^MPIRUN = //p' "$build/Makefile")
placement=()
cores=$(lscpu -p=CORE,SOCKET | grep -v '^#' | sort -u | wc -l)
[ "$cores" -ge 2 ] || placement=(--oversubscribe)

results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT

# measure PROGRAM BTL [MPIRUN OPTIONS]: leaves "bytes value" lines in $results/PROGRAM.BTL
measure() {
  local program=$1 btl=$2 out=$results/$1.$2 status=0
  shift 2
  echo "measuring $program, btl $btl,self" >&2
  timeout -k 5 300 "$mpirun" -np 2 "${placement[@]}" --mca pml ob1 --mca btl "$btl,self" "$@" \
    "$build/mpi_examples/$program" -m 1:4194304 >"$out.all" 2>"$out.err" </dev/null || status=$?
  awk '$1 ~ /^[0-9]+$/ && NF == 2' "$out.all" >"$out"
  if [ "$status" != 0 ] || [ ! -s "$out" ]; then
    cat "$out.all" "$out.err" >&2
    die "$program over btl $btl,self failed (mpirun's status $status; 124 means no end after 300 s)"
  fi
}

soft=(--mca btl_roce_soft on)
measure latency roce "${soft[@]}"
measure latency tcp
measure bandwidth roce "${soft[@]}"
measure bandwidth tcp

printf '%10s %20s %24s\n' '' 'latency, us' 'bandwidth, MB/s'
printf '%10s %10s %10s %12s %12s\n' 'bytes' 'roce' 'tcp' 'roce' 'tcp'
awk 'FNR == 1 { column++ }
  { value[column, $1] = $2; if (column == 1) size[++n] = $1 }
  END { for (i = 1; i <= n; i++) {
    s = size[i]
    printf "%10d %10.2f %10.2f %12.1f %12.1f\n", s, value[1, s], value[2, s], value[3, s], value[4, s] } }' \
  "$results"/{latency,bandwidth}.{roce,tcp}
