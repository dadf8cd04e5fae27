#!/bin/bash
# Installs what is needed, builds in build-check with warnings as errors, checks formatting, builds with clang too,
# checks that only src/verbs calls libibverbs, and runs the test suite. What CI runs.
#   contrib/check.sh [--long]     --long runs the tests labelled `long` too
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. contrib/packages.sh

selection=(-LE long)
case ${1:-} in
  --long) selection=() ;;
  "") ;;
  *) echo "usage: contrib/check.sh [--long]" >&2; exit 2 ;;
esac

build=$PWD/build-check
clang_build=$PWD/build-check-clang
export ROCE_NETNS_NAME=mpi-roce-check
ctest_pid=

cleanup() {
  local status=$?
  trap - EXIT INT TERM
  # ctest leads a session of its own, so what it left behind is found by it.
  [ -z "$ctest_pid" ] || pkill -KILL -s "$ctest_pid" || true
  [ "$(id -u)" != 0 ] || contrib/netns/hosts down || true
  exit "$status"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

section() { echo "== $*"; }

# build_in DIR CONFIGURE-ARGUMENTS...
build_in() {
  local dir=$1 log=$1/build.log
  shift
  rm -rf "$dir"
  mkdir "$dir"
  (cd "$dir" && ../configure --enable-werror "$@" && make -j "$(nproc)" build-tests) \
    >"$log" 2>&1 </dev/null || {
    grep -E -A 5 '(error|warning):|undefined reference|\*\*\*' "$log" || tail -n 20 "$log"
    echo "build failed; all output: $log"
    return 1
  }
}

check_format() {
  local files bad
  mapfile -t files < <(git -c safe.directory='*' ls-files -- '*.cc' '*.h' '*.c')
  [ ${#files[@]} -gt 0 ] || { echo "git lists no C++ file; run this in a git checkout"; return 1; }
  bad=$(clang-format --dry-run --Werror "${files[@]}" 2>&1 |
    sed -n 's/^\([^: ]*\):[0-9]*:[0-9]*: error:.*/\1/p' | sort -u) || true
  [ -z "$bad" ] || {
    echo "not formatted (clang-format -i FILE):"
    echo "$bad"
    return 1
  }
}

# Inline calls of verbs.h go through context->ops and leave no symbol; a symbol is a call into libibverbs.
check_symbols() {
  local objects bad
  mapfile -t objects < <(find "$build/src" -name '*.o' -not -path "$build/src/verbs/*")
  [ ${#objects[@]} -gt 0 ] || { echo "no objects in $build/src"; return 1; }
  bad=$(nm -A -u "${objects[@]}" | grep -E ' U _?ibv_' || true)
  [ -z "$bad" ] || {
    echo "only src/verbs may call libibverbs; use verbs::Table instead of:"
    echo "$bad"
    return 1
  }
}

section packages
install_packages "$PWD"
section formatting
check_format
section "build with g++"
[ configure -nt configure.ac ] || ./autogen.sh >/dev/null 2>&1 </dev/null ||
  { ./autogen.sh </dev/null; }
# Without debug information: half the time.
build_in "$build" CC=gcc CXX=g++ CXXFLAGS=-O2 CFLAGS=-O2
section "build with clang"
build_in "$clang_build" --disable-fuzzers CC=clang CXX=clang++ CXXFLAGS=-O1 CFLAGS=-O1
section "libibverbs is called by src/verbs only"
check_symbols
section tests
[ "$(id -u)" != 0 ] || contrib/netns/hosts down
setsid bash -c 'cd "$1" && shift && exec ctest --output-on-failure "$@"' - "$build" "${selection[@]}" </dev/null &
ctest_pid=$!
status=0
wait "$ctest_pid" || status=$?
exit "$status"
