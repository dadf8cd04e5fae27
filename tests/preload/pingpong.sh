#!/bin/bash
# libibverbs' example programs: sizes, polling and events, and what the soft device refuses.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
need_program ibv_rc_pingpong ibverbs-utils
for events in "" -e; do
  for size in 1 1024 4096 65536 1048576; do
    good_pair ibv_rc_pingpong -g 0 -s "$size" -n 50 $events
    good_pair ibv_srq_pingpong -g 0 -s "$size" -n 50 $events
  done
  for size in 1 1024 2048; do good_pair ibv_ud_pingpong -g 0 -s "$size" -n 50 $events; done
done
! pair ibv_uc_pingpong -g 0 -n 1 || die "ibv_uc_pingpong succeeded"
grep -q "Couldn't create QP" "$work/client" "$work/server" || die "ibv_uc_pingpong: $(cat "$work/client")"
