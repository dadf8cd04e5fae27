# shellcheck shell=bash disable=SC2034
# To be sourced by the tests of the preload library. Environment: ROCE_SRC_DIR and ROCE_BUILD_DIR, as ctest sets them.
set -u
. "$ROCE_SRC_DIR/tests/netns/lib.sh" # die, skip

roce_run=$ROCE_BUILD_DIR/src/tools/roce_run
library=$ROCE_BUILD_DIR/src/preload/.libs/libroce-verbs.so
[ -e "$library" ] || die "$library is not built"
! nm -D -u "$library" | grep -q -e __asan_init -e __tsan_init ||
  skip "the library was built with sanitizers, the programs that load it were not"
export ROCE_SOFT_IF_INCLUDE=lo # one device, rocesw0, and all traffic stays on loopback

server=
work=$(mktemp -d)
cleanup() {
  local status=$?
  trap - EXIT INT TERM
  [ -z "$server" ] || { kill "$server" && wait "$server"; } 2>/dev/null
  rm -rf "$work"
  exit "$status"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

need_program() {
  command -v "$1" >/dev/null || skip "$1 is not installed (package $2)"
}

# Read without a process: starting one takes as long as a short run of the programs tested.
listens() {
  local port sockets four="" six=""
  printf -v port %04X "$1"
  read -r -d "" four </proc/net/tcp
  [ ! -e /proc/net/tcp6 ] || read -r -d "" six </proc/net/tcp6
  sockets=$four$six
  [[ $sockets =~ :$port\ [0-9A-F]+:0000\ 0A ]] # state 0A: LISTEN
}

# Sets `port`, below the range from which the kernel takes ports of its own.
free_port() {
  while port=$((10000 + RANDOM % 20000)) && listens "$port"; do :; done
}

# pair PROGRAM OPTIONS...: server and client of one run; their output in $work. Returns nonzero if either failed.
pair() {
  local program=$1 port status=0 k
  shift
  free_port
  timeout 20 "$roce_run" "$program" -p "$port" -d rocesw0 "$@" >"$work/server" 2>&1 </dev/null &
  server=$!
  for ((k = 0; k < 500; k++)); do
    listens "$port" && break
    sleep 0.01
  done
  timeout 20 "$roce_run" "$program" -p "$port" -d rocesw0 "$@" 127.0.0.1 >"$work/client" 2>&1 </dev/null || status=$?
  wait "$server" || status=$?
  server=
  return "$status"
}

# good_pair PROGRAM OPTIONS...: a run that has to succeed.
good_pair() {
  pair "$@" && return
  tail -n 20 "$work/server" "$work/client"
  die "$*"
}
