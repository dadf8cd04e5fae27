#!/bin/bash
# Verbs over links that lose, delay, double and damage packets (both hosts' ingress): every byte of every operation
# and the guards around the buffers, and a reader that spins on the last byte of each WRITE.
set -euo pipefail
hosts=$ROCE_SRC_DIR/contrib/netns/hosts
impair=$ROCE_SRC_DIR/contrib/netns/impair
program=$ROCE_BUILD_DIR/tests/netns/bad_link
. "$ROCE_SRC_DIR/tests/netns/lib.sh"
need_namespaces
command -v clang >/dev/null || skip "no clang to compile the packet dropper"
trap '"$hosts" down' EXIT
"$hosts" down
"$hosts" up 2
for host in h1 h2; do "$hosts" exec "$host" ip link set eth0 gso_max_segs 1; done

# one WHAT ROLE OPERATIONS PEER OPTIONS...: what the sides know of each other (see bad_link.cc), options of impair
one() {
  local what=$1 role=$2 operations=$3 peer=$4 host
  shift 4
  for host in h1 h2; do "$impair" "$host" "$@"; done
  echo "$what: $role${peer:+ $peer}"
  "$hosts" exec h2 timeout 110 "$program" serve 10.77.0.2 &
  local server=$!
  # shellcheck disable=SC2086
  "$hosts" exec h1 timeout 110 "$program" "$role" 10.77.0.1 10.77.0.2 "$operations" $peer || die "$what: $role"
  wait "$server" || die "$what: server of $role"
  for host in h1 h2; do echo "  $host: $("$impair" "$host" --show | tr '\n' ' ')"; done
}

for peer in "" foreign; do
  one "loss 0.1 %" mixed 200 "$peer" --loss 0.1
  one "loss 1 %" mixed 200 "$peer" --loss 1
  one "reordering 1 %" mixed 200 "$peer" --reorder 1
  one "duplication 1 %" mixed 200 "$peer" --duplicate 1
  one "bit errors 0.1 %" mixed 200 "$peer" --corrupt 0.1
  one "bit errors 1 %" spin 3000 "$peer" --corrupt 1
done
one "loss 1 %" mixed 200 plain --loss 1
one "loss 5 %" mixed 200 "" --loss 5
one "loss 5 %" mixed 200 plain --loss 5
one "all at once" mixed 200 "" --loss 1 --reorder 1 --duplicate 1 --corrupt 1
