#!/bin/bash
# --rate is honoured: 4 MB over TCP between two hosts take as long as the rate says, in both directions.
set -euo pipefail
hosts=$ROCE_SRC_DIR/contrib/netns/hosts
. "$ROCE_SRC_DIR/tests/netns/lib.sh"
need_namespaces
trap '"$hosts" down' EXIT
"$hosts" down
"$hosts" up 2 --rate 40mbit

# transfer FROM TO: prints the goodput in Mb/s
transfer() {
  "$hosts" exec "$2" timeout 30 python3 -c '
import socket, time
s = socket.create_server(("", 5001)); s.settimeout(20)
c, _ = s.accept()
total, start = 0, time.monotonic()
while True:
    n = len(c.recv(1 << 16))
    if n == 0: break
    total += n
print("%.1f" % (total * 8e-6 / (time.monotonic() - start)))' &
  local server=$!
  "$hosts" exec "$1" timeout 30 python3 -c '
import socket, sys, time
for attempt in range(100):
    try:
        s = socket.create_connection((sys.argv[1], 5001), 5); break
    except OSError: time.sleep(0.1)
s.sendall(bytes(4000000)); s.close()' "$2"
  wait $server
}

for pair in "h1 h2" "h2 h1"; do
  # shellcheck disable=SC2086
  goodput=$(transfer $pair)
  echo "$pair: $goodput Mb/s of 40"
  # Framing leaves at most 1448/1514 = 95.6 % for data; the bucket adds 16 KB once.
  awk -v g="$goodput" 'BEGIN { exit !(g > 28 && g < 39) }' || die "$pair: $goodput Mb/s at a rate of 40 Mb/s"
done
