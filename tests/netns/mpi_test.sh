#!/bin/bash
# mpirun reaches two hosts through contrib/netns/rsh, with one and two ranks on each; btl tcp, so that a failure
# here is one of the hosts and not of btl roce.
set -euo pipefail
hosts=$ROCE_SRC_DIR/contrib/netns/hosts
. "$ROCE_SRC_DIR/tests/netns/lib.sh"
need_namespaces
trap '"$hosts" down' EXIT
"$hosts" down
"$hosts" up 2

for slots in 1 2; do
  names=$("$hosts" exec h1 timeout 60 "$ROCE_MPIRUN" --mca plm_rsh_agent "$ROCE_SRC_DIR/contrib/netns/rsh" \
    --mca oob_tcp_if_include 10.77.0.0/24 --mca btl_tcp_if_include 10.77.0.0/24 --mca btl tcp,self \
    --host "h1:$slots,h2:$slots" --bind-to none "$ROCE_BUILD_DIR/tests/netns/host_names" </dev/null)
  expected=$(for ((r = 0; r < 2 * slots; r++)); do echo "rank $r of $((2 * slots)) on h$((r / slots + 1))"; done)
  [ "$names" = "$expected" ] || die "got:"$'\n'"$names"$'\n'"expected:"$'\n'"$expected"
done
