#!/bin/bash
# 64 ranks on the cores of this machine: connections are made when they are used (a ring needs two peers of each rank, all to
# all the other 63), alltoall and allreduce are right, and no connected peer takes more than 16 KiB. Then 64 senders to one
# receiver with 64 buffers. Receiver-not-ready answers and resends are printed.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
ranks=64

# one RANKS ARGUMENTS...: options of mpirun are in $options.
options=()
one() {
  local ranks=$1
  shift
  good 200 "$mpirun" -np "$ranks" --oversubscribe --bind-to none --mca mpi_yield_when_idle 1 --mca pml ob1 \
    --mca btl "$btl,self" --mca btl_roce_stats "$stats" "${options[@]}" "$ROCE_BUILD_DIR/tests/mpi/scale" "$@" || return
  cat "$out"
  grep -q "all good" "$out" || fail "no verdict of scale $*"
  echo "RNR NAKs $(counter device_rnr_naks_sent), packets resent $(counter device_resent_packets), handshake packets" \
    "resent $(counter connect_requests_resent)"
}

# peers COUNT: every rank of the last run has connected to so many peers.
peers() {
  expect "ranks with $1 peers" "$(cat "$stats".* 2>/dev/null | grep -c "^connects $1$")" -eq "$ranks"
}

# The most that a rank holds for one connected peer: in the transport and for its queue pair.
peer_bytes() {
  awk 'FNR == 1 { sum = 0 }
    $1 == "peer_bytes_most" || $1 == "device_qp_bytes_most" { sum += $2; if (sum > most) most = sum }
    END { printf "%d", most }' "$stats".*
}

one "$ranks" ring
peers 2
one "$ranks"
peers $((ranks - 1))
if testing_roce; then
  echo "at most $(peer_bytes) bytes for a connected peer, $(sort -u "$stats".* | awk '$1 == "peer_bytes_idle" { print $2 }' |
    sort -n | tail -n 1) for one that is not used"
  expect "bytes for a connected peer" "$(peer_bytes)" -gt 2000
  expect "bytes for a connected peer" "$(peer_bytes)" -le 16384
fi
options=(--mca btl_roce_receive_buffers 64)
one $((ranks + 1)) pool
finish
