#!/bin/bash
# The raw UDP programs of contrib/bench run, on loopback and between given addresses, and lose nothing.
set -u
. "$ROCE_SRC_DIR/tests/netns/lib.sh"
bench=$ROCE_BUILD_DIR/contrib/bench

# field FILE N: of its line of numbers
field() { awk -v n="$2" '$1 ~ /^[0-9]+$/ { print $n }' "$1"; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

timeout 30 "$bench/udp_pingpong" -s 8 -n 2000 -w 100 >"$work/a" || die "udp_pingpong: status $?"
cat "$work/a"
[ "$(field "$work/a" 2)" -gt 1900 ] || die "udp_pingpong lost answers"

timeout 30 "$bench/udp_pingpong" -l 127.0.0.1:18551 -t 10 &
timeout 30 "$bench/udp_pingpong" -c 127.0.0.1:18551 -s 1000 -n 500 -w 10 >"$work/b" || die "client: status $?"
wait $! || die "server: status $?"
cat "$work/b"

for options in "-s 4096" "-s 1024" "-s 4096 -z" "-s 60000"; do
  # shellcheck disable=SC2086
  timeout 30 "$bench/udp_stream" $options -n 20000 -t 2 >"$work/c" || die "udp_stream $options: status $?"
  cat "$work/c"
  [ "$(field "$work/c" 3)" -gt 0 ] && [ "$(field "$work/c" 7)" = 0 ] || die "udp_stream $options: nothing, or wrong CRC"
done

for options in "-s 3" "-l 0.0.0.0" "-l nohost" "-q"; do
  # shellcheck disable=SC2086
  timeout 30 "$bench/udp_pingpong" $options >"$work/d" 2>&1
  [ $? = 1 ] && [ "$(wc -l <"$work/d")" -ge 1 ] || die "udp_pingpong $options: $(cat "$work/d")"
done
echo "all good"
