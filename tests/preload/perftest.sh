#!/bin/bash
# perftest on the soft device: SEND, WRITE, READ and atomics, latency and bandwidth, RC and UD, polling and events,
# sizes up to 8 MiB, both directions, several queue pairs. Prints the latencies of 8 bytes.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
need_program ib_send_lat perftest

# good PROGRAM OPTIONS...; -F: whatever the governor of the processor is.
good() {
  local program=$1
  shift
  good_pair "$program" -F "$@"
}
latency() {
  good "$@"
  printf '%-40s median %s us\n' "$*" "$(awk '$2 == 500 { print $5 }' "$work/client")"
}

for mode in "" -e; do
  for program in ib_send_lat ib_read_lat ib_atomic_lat; do
    size="-s 8"
    [ "$program" != ib_atomic_lat ] || size=
    latency "$program" $size -n 500 $mode
  done
  latency ib_send_lat -c UD -s 8 -n 500 $mode
done
latency ib_write_lat -s 8 -n 500 # It has no -e: it looks at memory.
latency ib_atomic_lat -A CMP_AND_SWAP -n 500

for program in ib_send_bw ib_write_bw ib_read_bw; do
  good "$program" -a -n 20
  good "$program" -s 65536 -n 100 -b
  good "$program" -s 4096 -n 100 -q 4
  [ "$program" = ib_write_bw ] || good "$program" -s 4096 -n 200 -e
done
good ib_send_bw -c UD -s 2048 -n 200
good ib_send_bw -c UD -a -n 20
good ib_atomic_bw -n 200
good ib_atomic_bw -A CMP_AND_SWAP -n 200 -b -q 2
! pair ib_send_lat -F -c UC -n 10 || die "a queue pair type that the device does not have was taken"
