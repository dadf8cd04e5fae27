#!/bin/bash
# Wrong values and hostile surroundings: each job ends within its time, with a status other than 0 where roce is all
# it may use, never by a signal, and with a text that names the parameter or thing, its value and what to do.
# Texts are looked for in runs of one process without mpirun where possible: Open MPI 4.1's mpirun loses some.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
testing_roce || skip "needs btl roce"

# What has to be said: extended regular expressions, each of which must match stderr, upper or lower case.
declare -A says=(
  [range]='btl_roce_traffic_class: "?300"? .*0\.\.255'
  [number]='btl_roce_traffic_class: .*abc.* 0\.\.255'
  [timeout]='btl_roce_connect_timeout_s: "?0"? .*1\.\.3600'
  [mtu]='btl_roce_mtu_bytes: "?100"? .*256\.\.65536'
  [choice]='btl_roce_soft: .*maybe.* auto\|on\|off'
  [frag]='btl_roce_max_send_size: 10 .*1024\.\.'
  [interface]='if_include: "nosuch0" .*correct it or leave it out'
  [subnet]='if_include: "198\.51\.100\.0/24" '
  [malformed]='if_include: "10\.77\.0\.0/99" '
  [gid]='index 99 \(parameter gid_index\)'
  [excluded]='if_exclude = "lo,eth0,d0,d1"'
  [address]='d0.* address'
  [ports]='UDP port from 4791 to 5302'
  [stats]='/nonexistent/file.*No such file'
  [firewall]='firewall.* UDP port (479[1-9]|4[89][0-9][0-9]|5[0-3][0-9][0-9])'
  [waited]='connect_timeout_s = 3'
  [mtu576]='eth0.* MTU.* 576|MTU of eth0|path MTU.* too small'
  [hosts]='host h1.*host h2|host h2.*host h1'
)

expect_says() {
  local key
  for key in "$@"; do
    grep -q -i -E -e "${says[$key]}" "$err" || {
      fail "nothing like \"${says[$key]}\" on stderr"
      show "$what"
    }
  done
}

# alone KEY COMMAND-PREFIX... -- NAME VALUE...: one process with MCA parameters btl_roce_NAME; it needs no roce, so it
# has to end with status 0, but has to say why roce is not there.
alone() {
  local key=$1 prefix=() variables=() status=0
  shift
  while [ "$1" != -- ]; do
    prefix+=("$1")
    shift
  done
  shift
  while [ $# -ge 2 ]; do
    variables+=("OMPI_MCA_btl_roce_$1=$2")
    shift 2
  done
  what="one process, ${prefix[*]} ${variables[*]}"
  echo "$what"
  run 30 "${prefix[@]}" env OMPI_MCA_pml=ob1 OMPI_MCA_btl=roce,self "${variables[@]}" "$examples/allreduce" -m 8 -i 1 ||
    status=$?
  [ "$status" = 0 ] || { fail "status $status"; show "$what"; }
  ! crashed "$status" || fail "a crash"
  expect_says "$key"
}

# pair good|bad OPTIONS...: two ranks on this machine that have only roce to talk by.
pair() {
  local wanted=$1 status=0
  shift
  what="two ranks, $*"
  echo "$what: $wanted"
  place 2
  run 60 "${wrapper[@]}" "$mpirun" -np 2 "${place[@]}" --mca pml ob1 --mca btl roce,self "$@" \
    "$examples/bandwidth" -m 64K -i 2 || status=$?
  if [ "$wanted" = good ] && [ "$status" != 0 ]; then
    fail "status $status"
    show "$what"
  elif [ "$wanted" = bad ] && { [ "$status" = 0 ] || [ "$status" = 124 ]; }; then
    fail "status $status, should be an error (124: no end in time)"
    show "$what"
  fi
  ! crashed "$status" || { fail "a crash"; show "$what"; }
}
wrapper=()

# Wrong values
alone range -- traffic_class 300
alone number -- traffic_class abc
alone timeout -- connect_timeout_s 0
alone mtu -- mtu_bytes 100
alone frag -- max_send_size 10
alone choice -- soft maybe
alone interface -- if_include nosuch0
alone subnet -- if_include 198.51.100.0/24
alone malformed -- if_include 10.77.0.0/99
alone gid -- gid_index 99
alone stats -- stats /nonexistent/file
pair bad --mca btl_roce_traffic_class 300
pair bad --mca btl_roce_soft maybe
pair bad --mca btl_roce_if_include nosuch0
pair good --mca btl_roce_stats /nonexistent/file

# Locked memory: the software device pins nothing, so it has to work. (As root only without CAP_IPC_LOCK.)
wrapper=(setpriv --bounding-set=-ipc_lock --inh-caps=-ipc_lock bash -c 'ulimit -l 0 && exec "$@"' -)
[ "$(id -u)" = 0 ] || wrapper=("${wrapper[@]:3}")
pair good --mca btl_roce_soft on
wrapper=()

# UDP ports taken by somebody else: the next one, or an error if there is none.
hold_ports() {
  python3 - "$@" <<'PYTHON' &
import socket, sys, time
held = []
for port in range(int(sys.argv[1]), int(sys.argv[2]) + 1):
    one = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    try:
        one.bind(('::', port))
    except OSError as error:
        print('port %d: %s' % (port, error), file=sys.stderr)
    held.append(one)
print('held', flush=True)
time.sleep(100)
PYTHON
  holder=$!
}
holder=
at_exit() { [ -z "$holder" ] || kill "$holder" 2>/dev/null; }
hold_ports 4791 4795 >"$work/held"
until grep -q held "$work/held" || ! kill -0 "$holder"; do sleep 0.1; done
pair good --mca btl_roce_soft on
kill "$holder"
wait "$holder" 2>/dev/null
hold_ports 4791 5302 >"$work/held"
until grep -q held "$work/held" || ! kill -0 "$holder"; do sleep 0.1; done
alone ports -- soft on
pair bad --mca btl_roce_soft on
kill "$holder"
wait "$holder" 2>/dev/null
holder=

# Networks
if [ "$(id -u)" != 0 ] || ! unshare --net --mount --uts true 2>/dev/null; then
  echo "not tried: networks (namespaces need root)"
  finish
fi
start_hosts 2
on_host1=("$hosts" exec h1)
"${on_host1[@]}" sh -c 'ip link add d0 type veth peer name d1 && ip link set d0 up && ip link set d1 up' ||
  die "cannot make d0"
alone address "${on_host1[@]}" -- soft on if_include d0
alone excluded "${on_host1[@]}" -- soft on if_exclude lo,eth0,d0,d1

# Loopback is enough for one host, with and without IPv6.
for setup in 'ip link set lo up' 'ip link set lo up && sysctl -q net.ipv6.conf.all.disable_ipv6=1'; do
  wrapper=(unshare --net sh -c "$setup"' && exec "$@"' -)
  echo "$setup"
  pair good --mca btl_roce_soft on
done
wrapper=()

"$hosts" exec h2 nft -f - <<'NFT' || die "nft failed"
table inet blocked {
  chain in {
    type filter hook input priority 0
    udp dport 4791-5302 drop
  }
}
NFT
on_hosts 1 2
what="two hosts, UDP blocked on h2"
echo "$what: bad"
status=0
run 60 "${on_host1[@]}" "$mpirun" "${place[@]}" --mca pml ob1 --mca btl roce,self --mca btl_roce_connect_timeout_s 3 \
  "$examples/bandwidth" -m 64 -i 2 || status=$?
if [ "$status" = 0 ] || [ "$status" = 124 ] || crashed "$status"; then
  fail "status $status, should be an error (124: no end in time)"
  show "$what"
fi
expect_says firewall waited hosts

# The smallest MTU that IPv4 hosts have in practice. It works, or the MTU is named as the reason.
start_hosts 2 --mtu 576
on_hosts 1 2
what="two hosts, MTU 576"
echo "$what: good, or an error that names the MTU"
status=0
run 60 "${on_host1[@]}" "$mpirun" "${place[@]}" --mca pml ob1 --mca btl roce,self --mca btl_roce_connect_timeout_s 3 \
  "$examples/bandwidth" -m 64K -i 2 || status=$?
! crashed "$status" && [ "$status" != 124 ] || { fail "status $status"; show "$what"; }
[ "$status" = 0 ] || expect_says mtu576
finish
