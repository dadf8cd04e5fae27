#!/bin/bash
# Open MPI's public tests (github.com/open-mpi/ompi-tests-public) over roce. By hand, or as a long test with OMPI_TESTS_SRC in
# the environment:
#
#   tests/mpi/ompi_tests.sh --src DIR [--only WORD] [--payload BYTES]
#
# Programs are copied and built in a temporary directory. One that fails is run again over `btl tcp` (vader, where there
# is none): if it fails there too it is listed but not counted. --payload: buffers of collective-big-count, by
# default those of its Makefile, 2 GiB - 1, where there is memory for them. Directories that are left out, and why:
# contrib/suites/expected_failures.txt.
src=${OMPI_TESTS_SRC:-}
only=
payload=
while [ $# -gt 0 ]; do
  case $1 in
    --src) src=${2:-} ;;
    --only) only=${2:-} ;;
    --payload) payload=${2:-} ;;
    *) echo "usage: ompi_tests.sh --src DIR [--only WORD] [--payload BYTES]" >&2; exit 2 ;;
  esac
  shift 2
done
: "${ROCE_SRC_DIR:=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)}" "${ROCE_BUILD_DIR:=$PWD}"
. "$ROCE_SRC_DIR/tests/mpi/lib.sh"
[ -n "$src" ] || skip "no tests of Open MPI: give --src DIR or set OMPI_TESTS_SRC"
[ -d "$src/collective-big-count" ] || die "$src is no tree of ompi-tests-public: it has no collective-big-count"
command -v mpicc >/dev/null || skip "no mpicc"

# Two ranks have two such buffers each, and collectives hold copies.
if [ -z "$payload" ]; then
  payload=2147483647
  [ "$(awk '$1 == "MemAvailable:" { print int($2 / 1048576) }' /proc/meminfo)" -ge 14 ] || payload=268435455
fi
uniform_count=1000003
export BIGCOUNT_MEMORY_DIFF=1024 # other processes may take memory meanwhile

left_out=$work/left_out
awk '$1 == "ompi" { pattern = $2; sub(/^[^ ]+ +[^ ]+ +/, ""); print pattern "\t" $0 }' \
  "$ROCE_SRC_DIR/contrib/suites/expected_failures.txt" >"$left_out"

# reason_for NAME: why the test is left out, or nothing
reason_for() {
  local pattern reason
  while IFS=$'\t' read -r pattern reason; do
    # shellcheck disable=SC2053 # a pattern
    if [[ $1 == $pattern ]]; then
      echo "$reason"
      return
    fi
  done <"$left_out"
}

# build NAME COMMAND...: in the copy of the test's directory; 1 if it does not build
build() {
  local name=$1
  shift
  (cd "$work/tests/${name%%/*}" && "$@") >"$work/build.log" 2>&1 && return
  fail "$name does not build"
  tail -n 5 "$work/build.log"
  return 1
}

# run_program LIST NAME NP ARGUMENTS...: NP 0 is a singleton. Settings are in the environment, which singletons read too.
run_program() {
  local list=$1 name=$2 np=$3 command=()
  shift 3
  what="np $np: $name${*:+ $*}"
  [ "$np" != 0 ] || what="singleton: $name${*:+ $*}"
  [ "$np" = 0 ] || command=("$mpirun" -np "$np")
  run 300 env -C "$work/tests/${name%/*}" OMPI_MCA_pml=ob1 OMPI_MCA_btl="$list" OMPI_MCA_btl_roce_stats="$stats" \
    OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_rmaps_base_oversubscribe=1 \
    OMPI_MCA_mpi_yield_when_idle=$((np > 2 || np < 2)) "${command[@]}" "./${name##*/}" "$@"
}

run_is_good() {
  local status=0
  run_program "$@" || status=$?
  # Open MPI's mpirun may never return from MPI_Comm_spawn: tests/mpi/expected_failures.txt.
  if [ "$status" = 124 ] && [[ $2 == */simple_spawn* ]]; then
    echo "no end in time, once more: $what"
    status=0
    run_program "$@" || status=$?
  fi
  [ "$status" = 0 ] && ! crashed "$status" && ! grep -q -E 'ERROR|FAILED|DI in' "$out"
}

other=tcp,self
[ "$btl" != tcp ] || other=vader,self
passed=0
also_elsewhere=0
bytes=0

# check NAME NP ARGUMENTS...
check() {
  local failed moved=
  [[ $1 == *"$only"* ]] || return 0
  if run_is_good "$btl,self" "$@"; then
    passed=$((passed + 1))
    if testing_roce; then
      moved=$(carried)
      bytes=$((bytes + moved))
      # Two ranks and more talk to each other in every program.
      [ "$2" -lt 2 ] || expect "bytes over roce in $what" "$moved" -gt 0
    fi
    echo "good    $what${moved:+: $moved bytes over roce}"
    return
  fi
  failed="$what"
  cp "$out" "$work/first.out"
  cp "$err" "$work/first.err"
  if run_is_good "$other" "$@"; then
    cp "$work/first.out" "$out"
    cp "$work/first.err" "$err"
    fail "$failed"
    show "$failed"
  else
    also_elsewhere=$((also_elsewhere + 1))
    echo "fails with btl $other too: $failed"
  fi
}

singleton() {
  local program
  for program in hello_c simple_spawn simple_spawn_multiple; do
    build "singleton/$program" mpicc -o "$program" "$program.c" || continue
    case $program in
      hello_c)
        check singleton/hello_c 0
        check singleton/hello_c 2
        check singleton/hello_c 4
        ;;
      *) # the argument is what to start
        check "singleton/$program" 0 "./$program"
        check "singleton/$program" 1 "./$program"
        ;;
    esac
  done
}

alltoallv_validation() {
  local name=alltoallv_validation/src/alltoallv_ddt np
  build "$name" mpicxx -o src/alltoallv_ddt src/alltoallv_ddt.cpp -x c src/typemap.c || return
  build "${name%/*}/sanity" mpicxx -o src/sanity src/sanity.cpp || return
  check "${name%/*}/sanity" 1
  for np in 2 4; do
    check "$name" "$np"
    check "$name" "$np" -w 0
    check "$name" "$np" -w 1 -r 1 -i 1
    check "$name" "$np" --coll alltoall
    check "$name" "$np" -s 1234 -c 300
  done
}

collective_big_count() {
  local source program
  for source in "$work/tests/collective-big-count"/test_*.c; do
    program=$(basename "$source" .c)
    [[ collective-big-count/${program}_uniform_count == *"$only"* ]] || continue
    build "collective-big-count/$program" mpicc -O2 -DTEST_PAYLOAD_SIZE="$payload" -o "$program" "$program.c" || continue
    build "collective-big-count/$program" mpicc -O2 -DTEST_UNIFORM_COUNT="$uniform_count" -o "${program}_uniform_count" \
      "$program.c" || continue
    check "collective-big-count/$program" 2
    check "collective-big-count/${program}_uniform_count" 4
  done
}

not_run=0
mkdir "$work/tests"
for directory in "$src"/*/; do
  name=$(basename "$directory")
  reason=$(reason_for "$name")
  if [ -n "$reason" ]; then
    not_run=$((not_run + 1))
    echo "left out: $name: $reason"
  elif declare -F "${name//-/_}" >/dev/null; then
    cp -r "$directory" "$work/tests/$name"
    "${name//-/_}"
  else
    fail "$name: neither known to this script nor left out in contrib/suites/expected_failures.txt"
  fi
done
echo "ompi: $passed good, $failures failed, $also_elsewhere fail with btl $other too, $not_run directories left out;" \
  "$bytes bytes over roce"
[ "$passed" -gt 0 ] || fail "no test has \"$only\" in its name"
finish
