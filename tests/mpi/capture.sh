#!/bin/bash
# What MPI over roce puts on the wire between two hosts, read by two programs that are not ours: tshark names the
# packets, check_capture.py recomputes the ICRC of every one with zlib and follows the PSNs. IPv4 and IPv6.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
for tool in tcpdump tshark python3; do
  command -v "$tool" >/dev/null || skip "$tool not found; on Debian: apt-get install tcpdump tshark python3"
done
testing_roce || skip "needs btl roce"
start_hosts 2
# Each packet by itself on the wire: a train of UDP_SEGMENT would be captured as one frame.
for host in h1 h2; do "$hosts" exec "$host" ip link set eth0 gso_max_segs 1 || die "gso_max_segs"; done
tcpdump_pid=
stop_capture() {
  [ -n "$tcpdump_pid" ] || return 0
  kill -INT "$tcpdump_pid" 2>/dev/null
  wait "$tcpdump_pid" 2>/dev/null
  tcpdump_pid=
}
at_exit() { stop_capture; }

# hosts exec ends in an exec: the process that is started is tcpdump itself.
start_capture() {
  "$hosts" exec h2 tcpdump -Z root -i eth0 -s 0 -B 65536 -w "$1" udp portrange 4791-5302 2>"$work/tcpdump.err" &
  tcpdump_pid=$!
  for _ in $(seq 100); do
    grep -q 'listening on' "$work/tcpdump.err" && return
    sleep 0.05
  done
  die "tcpdump does not start: $(cat "$work/tcpdump.err")"
}

decode=(-d "udp.port==4791-5302,infiniband")
# UD handshake; SEND ONLY, FIRST, MIDDLE, LAST; READ request, responses FIRST, MIDDLE, LAST, ONLY; ACK.
expected=0x64,0x04,0x00,0x01,0x02,0x0c,0x0d,0x0e,0x0f,0x10,0x11

# one NAME FAMILY GID-INDEX MIN-PACKETS PROGRAM OPTIONS
one() {
  local name=$1 family=$2 gid=$3 packets=$4 file=$work/$1.pcap
  shift 4
  echo "$name: $*"
  start_capture "$file"
  on_hosts 1 2
  good 90 "$hosts" exec h1 "$mpirun" "${place[@]}" --mca pml ob1 --mca btl "$btl,self" \
    --mca btl_roce_gid_index "$gid" --mca btl_roce_stats "$stats" "$examples/$1" "${@:2}"
  sleep 0.5
  stop_capture
  grep -q '^0 packets dropped by kernel' "$work/tcpdump.err" ||
    fail "the capture is not complete: $(tail -n 3 "$work/tcpdump.err")"
  "$ROCE_SRC_DIR/tests/mpi/check_capture.py" "$file" --psn --family "$family" --min-packets "$packets" --expect "$expected" \
    >"$work/check" || fail "$name: check_capture.py"
  sed 's/^/  /' "$work/check"
  # tshark's count of each opcode, in the form of the lines above.
  tshark "${decode[@]}" -r "$file" -T fields -e infiniband.bth.opcode 2>"$work/tshark.err" |
    awk '{ n[$1 ~ /^0x/ ? $1 : sprintf("0x%02x", $1)]++ } END { for (o in n) print o, n[o] }' |
    sort >"$work/tshark.count"
  awk '/^0x/ { print $1, $NF }' "$work/check" | sort >"$work/check.count"
  diff "$work/tshark.count" "$work/check.count" >"$work/diff" ||
    fail "tshark (<) and check_capture.py (>) count differently: $(cat "$work/diff" "$work/tshark.err")"
  # (Of payload it makes guesses, NVMe and the like, which do not count.)
  ! tshark "${decode[@]}" -r "$file" -Y _ws.malformed -V 2>/dev/null | grep 'Malformed Packet: InfiniBand' ||
    fail "$name: tshark calls packets malformed"
}

# 64 KiB and 1: a READ of one chunk and one of a byte. Small enough for some 10,000 packets.
# The first GID of a host is its IPv4 address, the second its IPv6 address.
one IPv4 4 0 5000 protocols -m 16K:65537
one IPv6 6 1 5000 protocols -m 16K:65537
finish
