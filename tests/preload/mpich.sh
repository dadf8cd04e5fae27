#!/bin/bash
# MPICH (ch4:ucx) on the soft device, over rc_verbs and ud_verbs: the examples, compiled with MPICH's compiler wrapper,
# which check what they receive. That their messages went by the device is shown by the lanes that UCX reports and by
# the bytes that the loopback interface carried, which shared memory leaves out.
# In a network of its own, where one may be made, so that nobody else's bytes are counted.
if [ -z "${ROCE_TEST_OWN_NETWORK:-}" ] && unshare --map-root-user --net true 2>/dev/null; then
  export ROCE_TEST_OWN_NETWORK=yes
  exec unshare --map-root-user --net "$0"
fi
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
need_program mpiexec.mpich mpich
need_program mpicxx.mpich mpich
mpicxx.mpich -E -include mpi.h -x c++ /dev/null >/dev/null 2>&1 || skip "MPICH's mpi.h is not installed (package libmpich-dev)"
if [ -n "${ROCE_TEST_OWN_NETWORK:-}" ]; then ip link set lo up || die "no loopback interface"; fi
export UCX_NET_DEVICES=rocesw0:1 UCX_LOG_LEVEL=info

programs="ring allreduce halo latency bandwidth"
for program in $programs; do
  mpicxx.mpich -std=c++20 -O1 -o "$work/$program" "$ROCE_SRC_DIR/mpi_examples/$program.cc" 2>"$work/out" ||
    { tail -n 20 "$work/out"; die "mpicxx.mpich $program.cc"; }
done
ldd "$work/ring" | grep -q libmpich || die "ring is not linked with MPICH"

# run RANKS COMMAND...: MPICH's ranks poll without yielding, so those beyond the cores wait for whole time slices.
run() {
  local ranks=$1
  shift
  timeout 60 mpiexec.mpich -np "$ranks" "$@" >"$work/out" 2>&1 </dev/null
}

good() {
  run "$1" "$roce_run" "$work/$2" "${@:3}" || { tail -n 20 "$work/out"; die "UCX_TLS=$UCX_TLS $2 on $1 ranks"; }
}

# Transports with their devices in what UCX said of its endpoints.
lanes() { grep 'ep_cfg\[' "$work/out" | grep -o '[a-z_]*/[a-z0-9:]*' | sort -u | grep -v '^self/memory'; }

loopback_bytes() { awk '$1 == "lo:" { print $10 }' /proc/net/dev; } # sent

# Bytes of all messages of a run of ring: RANKS LAPS.
ring_payload() { awk -v hops=$(($1 * $2)) '$1 ~ /^[0-9]+$/ { sum += $1 * hops } END { print sum + 0 }' "$work/out"; }

for tls in rc ud; do
  export UCX_TLS=${tls}_v,self
  ! run 2 "$work/ring" -m 1 || die "UCX_TLS=$UCX_TLS: ring ran without the device"
  for ranks in 2 4; do
    before=$(loopback_bytes)
    good "$ranks" ring -m 262144 -i 5
    carried=$(($(loopback_bytes) - before))
    payload=$(ring_payload "$ranks" 5)
    echo "UCX_TLS=$UCX_TLS, ring on $ranks ranks: $payload bytes in messages, $carried carried by lo"
    [ "$payload" -ge 1000000 ] || die "ring printed: $(cat "$work/out")"
    [ "$carried" -ge "$payload" ] || die "not all messages went by the device"
    [ "$(lanes)" = "${tls}_verbs/rocesw0:1" ] || die "lanes of UCX: $(lanes)"
    good "$ranks" allreduce -m 65536 -i 5 -x 1 -c
    good "$ranks" halo -n 64 -i 20 -c
  done
  good 2 latency -m 8:65536 -i 50
  good 2 bandwidth -m 8:1048576 -i 5
done
