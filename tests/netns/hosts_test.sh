#!/bin/bash
# contrib/netns/hosts: what it promises, on hosts of this test's own.
set -euo pipefail
hosts=$ROCE_SRC_DIR/contrib/netns/hosts
. "$ROCE_SRC_DIR/tests/netns/lib.sh"
need_namespaces
trap '"$hosts" down' EXIT
"$hosts" down

"$hosts" down || die "down without hosts must succeed"
[ -z "$("$hosts" list)" ] || die "list must be empty before up"
! "$hosts" exec h1 true 2>/dev/null || die "exec without hosts must fail"

machine_before=$(ip -o link)
"$hosts" up 3 --mtu 4200
[ "$("$hosts" list)" = $'h1\nh2\nh3' ] || die "list: $("$hosts" list)"
[ "$(ip -o link)" = "$machine_before" ] || die "up changed the machine's own interfaces"

refusal=$("$hosts" up 2 2>&1) && die "a second up must fail"
[[ $refusal == *"already up (3 of them)"*"hosts down"* ]] || die "refusal not clear: $refusal"

for k in 1 2 3; do
  [ "$("$hosts" exec h$k hostname)" = h$k ] || die "h$k has the wrong name"
  "$hosts" exec h$k ip -o -4 addr show eth0 | grep -q "10.77.0.$k/24" || die "h$k has the wrong address"
  "$hosts" exec h$k ip -o link show eth0 | grep -q 'mtu 4200 ' || die "h$k has the wrong MTU"
  "$hosts" exec h$k ip -o link show lo | grep -q 'UP' || die "lo of h$k is down"
done
[ "$(hostname)" != h3 ] || die "the machine's own name changed"

for dir in /tmp /dev/shm; do
  "$hosts" exec h1 sh -c "echo mine > $dir/roce-private"
  [ "$("$hosts" exec h1 cat $dir/roce-private)" = mine ] || die "$dir of h1 does not keep files"
  ! "$hosts" exec h2 test -e $dir/roce-private || die "$dir of h1 is visible on h2"
  [ ! -e $dir/roce-private ] || die "$dir of h1 is visible on the machine"
done
"$hosts" exec h1 test -r "$ROCE_SRC_DIR/configure.ac" || die "h1 does not see the source tree"
"$hosts" exec h1 test -r "$ROCE_BUILD_DIR/roce_config.h" || die "h1 does not see the build directory"
[ "$("$hosts" exec h1 sh -c 'exit 7' || echo $?)" = 7 ] || die "exec loses the exit status"
[ "$("$hosts" exec h1 printf '%s|' 'a  b' '$x')" = 'a  b|$x|' ] || die "exec changes arguments"

"$hosts" exec h2 sleep 600 &
sleeper=$!
"$hosts" down
for _ in $(seq 50); do kill -0 $sleeper 2>/dev/null || break; sleep 0.1; done
! kill -0 $sleeper 2>/dev/null || die "down left a process on h2"
wait $sleeper 2>/dev/null || true
! ip netns list | grep -q "^$ROCE_NETNS_NAME-" || die "down left namespaces: $(ip netns list)"
"$hosts" down || die "down must be repeatable"

unavailable=$("$hosts" up 2 --switch ecn 2>&1) && die "--switch must say that it is not available"
[[ $unavailable == *"not available yet"* ]] || die "--switch: $unavailable"
! "$hosts" up 2 --rate fast 2>/dev/null || die "a wrong rate must be refused"
[ -z "$("$hosts" list)" ] || die "a refused up left hosts"
