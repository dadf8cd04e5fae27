#!/bin/bash
# A flow of SENDs, WRITEs and READs while one end is disturbed: a process is stopped for 2 s, the interface goes down
# and up, the far carrier goes, the address is removed, the MTU is lowered. What comes back within the time that
# `timeout` and `retry_cnt` of the queue pair give (4.096 us x 2^timeout x (retry_cnt + 1)) is recovered, with every
# byte right; what does not ends with IBV_WC_RETRY_EXC_ERR. The port's events are those of a kernel RoCE device.
set -euo pipefail
hosts=$ROCE_SRC_DIR/contrib/netns/hosts
program=$ROCE_BUILD_DIR/tests/netns/survive
. "$ROCE_SRC_DIR/tests/netns/lib.sh"
need_namespaces
out=$(mktemp -d)
trap '"$hosts" down; rm -rf "$out"' EXIT
"$hosts" down
"$hosts" up 2
patient="17 7" # 4.3 s
hasty="14 3"   # 0.27 s
on() { "$hosts" exec "$@"; }
# IPv6 addresses come and go with the interface, and some time after it: more events, at no certain time.
for host in h1 h2; do on $host sysctl -q net.ipv6.conf.all.disable_ipv6=1 2>/dev/null || true; done
switch() { ip -n "${ROCE_NETNS_NAME:-mpi-roce}-switch" "$@"; }

# begin WHAT recovered|reported BUDGET [foreign]: starts both ends, returns when the flow is under way
begin() {
  what=$1
  expected=$2
  echo "$what: $expected"
  "$hosts" exec h2 "$program" serve 10.77.0.2 >"$out/server" 2>&1 &
  server=$!
  # shellcheck disable=SC2086
  "$hosts" exec h1 "$program" flow 10.77.0.1 10.77.0.2 "$2" $3 ${4:+"$4"} >"$out/flow" 2>&1 &
  flow=$!
  for _ in $(seq 100); do
    ! grep -q flowing "$out/flow" || return 0
    sleep 0.05
  done
  cat "$out/flow" "$out/server"
  die "$what: no flow"
}

# finish FLOW_EVENTS SERVER_EVENTS [GAP_MS]: the ports' events, and how long the flow must have stood still at least
finish() {
  local flow_status=0 server_status=0 events
  [ "$expected" = reported ] || kill "$flow" 2>/dev/null || true
  wait "$flow" || flow_status=$?
  # A flow that failed cannot tell the server.
  grep -q "all bytes right" "$out/flow" || kill "$server" 2>/dev/null || true
  wait "$server" || server_status=$?
  grep -v flowing "$out/flow" || true
  cat "$out/server"
  [ "$flow_status" = 0 ] || die "$what: flow"
  [ "$server_status" = 0 ] || die "$what: server ended with $server_status"
  for end in flow server; do
    events=$(sed -n 's/^  events:\(.*\);.*/\1/p' "$out/$end" | tr ' ' '\n' | grep -v COMM_EST | sed '/^$/d' | tr '\n' ' ')
    [ "$events" = "$1" ] || die "$what: events of the $end are '$events', should be '$1'"
    shift
  done
  [ $# = 0 ] || awk -v want="$1" '/longest gap/ { for (i = 1; i < NF; ++i) if ($i == "gap") got = $(i + 1) }
    END { exit !(got >= want) }' "$out/flow" || die "$what: the flow did not notice"
}

begin "server stopped for 2 s" recovered "$patient"
kill -STOP "$server"
sleep 2
kill -CONT "$server"
finish "" "" 1900

begin "server stopped for 2 s" reported "$hasty"
kill -STOP "$server"
sleep 2
kill -CONT "$server"
finish "" ""

begin "client stopped for 2 s" recovered "$hasty"
kill -STOP "$flow"
sleep 2
kill -CONT "$flow"
finish "" "" 1900

begin "interface down for 1 s" recovered "$patient"
on h1 ip link set eth0 down
sleep 1
on h1 ip link set eth0 up
finish "PORT_ERR PORT_ACTIVE " "" 900

begin "interface down" reported "$hasty"
on h1 ip link set eth0 down
finish "PORT_ERR " ""
on h1 ip link set eth0 up

begin "carrier of the server gone for 1 s" recovered "$patient"
switch link set h2 down
sleep 1
switch link set h2 up
finish "" "PORT_ERR PORT_ACTIVE " 900

begin "address removed for 1 s" recovered "$patient"
on h1 ip addr del 10.77.0.1/24 dev eth0
sleep 1
on h1 ip addr add 10.77.0.1/24 dev eth0
finish "GID_CHANGE GID_CHANGE " "" 900

begin "address removed" reported "$hasty"
on h1 ip addr del 10.77.0.1/24 dev eth0
finish "GID_CHANGE " ""
on h1 ip addr add 10.77.0.1/24 dev eth0

begin "another address comes and goes" recovered "$hasty"
on h1 ip addr add 10.77.0.101/24 dev eth0
sleep 0.1
on h1 ip addr del 10.77.0.101/24 dev eth0
sleep 0.2
finish "GID_CHANGE GID_CHANGE " ""

begin "MTU lowered, packets still fit" recovered "$hasty" foreign
on h1 ip link set eth0 mtu 1200
sleep 0.3
finish "" ""
on h1 ip link set eth0 mtu 1500

begin "MTU lowered below the path's for 1 s" recovered "$patient"
on h1 ip link set eth0 mtu 1000
sleep 1
on h1 ip link set eth0 mtu 1500
finish "" "" 900

begin "MTU lowered below the path's" reported "$hasty"
on h1 ip link set eth0 mtu 1000
finish "" ""
on h1 ip link set eth0 mtu 1500

begin "MTU lowered below the path's" reported "$hasty" foreign
on h1 ip link set eth0 mtu 1000
finish "" ""
on h1 ip link set eth0 mtu 1500
