#!/bin/bash
# Loss, reordering, duplication and bit errors on the links of both of two hosts: all data is right, with put and
# with get, and only what was missing is sent again. Every packet is drawn for by itself (gso_max_segs 1).
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
command -v clang >/dev/null || skip "no clang to compile the packet dropper"
start_hosts 2
on_hosts 1 2
impair=$ROCE_SRC_DIR/contrib/netns/impair
for host in h1 h2; do "$hosts" exec "$host" ip link set eth0 gso_max_segs 1; done

# impaired NAME: how many packets of both hosts were NAME (see impair --show)
impaired() { for host in h1 h2; do "$impair" "$host" --show; done | awk -v name="$1" '$1 == name { n += $2 } END { print n }'; }

# one WHAT KIND FLAGS COUNTER OPTIONS...: KIND of impair --show, and COUNTER of the device, have to count
one() {
  local what=$1 kind=$2 flags=$3 name=$4
  shift 4
  for host in h1 h2; do "$impair" "$host" "$@" || return; done
  echo "$what, $flags"
  good 60 "$hosts" exec h1 "$mpirun" "${place[@]}" --mca pml ob1 --mca btl "$btl,self" --mca btl_roce_flags "$flags" \
    --mca btl_roce_stats "$stats" "$examples/bandwidth" -m 1K:1M -i 2 -x 0 -W 8 -c
  echo "  seen $(impaired seen), $kind $(impaired "$kind"), sent again $(counter device_resent_packets), \
kept $(counter device_kept_packets), $name $(counter "$name")"
  expect "packets $kind" "$(impaired "$kind")" -gt 0
  expect "$name" "$(counter "$name")" -gt 0
}

for flags in send,put send,get; do
  one "loss 0.1 %" lost "$flags" device_repairs --loss 0.1
  one "loss 1 %" lost "$flags" device_repairs --loss 1
  one "loss 5 %" lost "$flags" device_repairs --loss 5
  one "reordering 1 %" delayed "$flags" device_kept_packets --reorder 1
  one "duplication 1 %" doubled "$flags" device_drop_duplicate --duplicate 1
  one "bit errors 0.1 %" damaged "$flags" device_udp_rx_bad_icrc --corrupt 0.1
done
one "all at once" lost send,put device_repairs --loss 1 --reorder 1 --duplicate 1 --corrupt 1
finish
