#!/bin/bash
# Every point-to-point, collective and one-sided program of an OSU micro-benchmark tree, with its own data validation where it
# has one, over roce. By hand, or as a long test with OSU_SRC in the environment:
#
#   tests/mpi/osu.sh --src DIR [--only WORD] [--max-size BYTES]
#
# The tree is copied and built in a temporary directory. A program that fails is run again over `btl tcp` (vader,
# where there is none): if it fails there too it is listed but not counted.
src=${OSU_SRC:-}
only=
max_bytes=1048576
while [ $# -gt 0 ]; do
  case $1 in
    --src) src=${2:-} ;;
    --only) only=${2:-} ;;
    --max-size) max_bytes=${2:-} ;;
    *) echo "usage: osu.sh --src DIR [--only WORD] [--max-size BYTES]" >&2; exit 2 ;;
  esac
  shift 2
done
: "${ROCE_SRC_DIR:=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)}" "${ROCE_BUILD_DIR:=$PWD}"
. "$ROCE_SRC_DIR/tests/mpi/lib.sh"
[ -n "$src" ] || skip "no OSU micro-benchmarks: give --src DIR or set OSU_SRC"
[ -x "$src/configure" ] || die "$src has no configure"

build() {
  cp -a "$src" "$work/osu" && cd "$work/osu" || return
  # osu_latency_mt of 7.x calls MPI_Finalize for sessions only, so that mpirun fails with every BTL.
  find . -name osu_latency_mt.c -exec sed -i \
    '/^void omb_lat_mt_session_finalize(.*)$/ { n; s/^{/{ if (!options.omb_enable_session) MPI_Finalize();/ }' {} +
  ./configure CC=mpicc CXX=mpicxx && make -j 2 -k
}
echo "building $src"
(build) >"$work/build.log" 2>&1
mapfile -t programs < <(find "$work/osu" -type f -executable -name 'osu_*' ! -name '*.py' \( -path '*/pt2pt/*' -o -path '*/collective/*' -o \
  -path '*/one-sided/*' \) -not -path '*/.libs/*' | sort)
[ ${#programs[@]} -gt 0 ] || { tail -n 20 "$work/build.log"; die "nothing was built"; }

# run_program LIST PROGRAM: sets $what
run_program() {
  local list=$1 program=$2 np=4 help osc=() options=()
  [[ $program != */pt2pt/* ]] || np=2
  [[ $program != */one-sided/* ]] || { np=2; osc=(--mca osc rdma); }
  help=$(timeout 20 "$program" --help 2>&1)
  # Old trees have short options only: "  -i ITER", "  -m SIZE".
  ! grep -q -E '^ +-m[ ,]' <<<"$help" || options+=(-m "$max_bytes")
  ! grep -q -E '^ +-i[ ,]' <<<"$help" || options+=(-i 10)
  ! grep -q -E '^ +-x[ ,]' <<<"$help" || options+=(-x 2)
  if [[ $program == */osu_latency_mt ]]; then
    # Its validation has several threads in one MPI_Allreduce, which MPI forbids. Two pairs of threads, not one sender for two.
    ! grep -q -F 'SEND:[RECV]' <<<"$help" || options+=(-t 2:2)
  elif grep -q -e '-c, --validation' <<<"$help"; then
    options+=(-c)
  fi
  # Windows of MPI_Win_allocate are shared memory within a host.
  [ ${#osc[@]} = 0 ] || ! grep -q -E '^ +-w[ ,]' <<<"$help" || options+=(-w create)
  place "$np"
  what="np $np, btl $list: ${program##*/} ${options[*]}"
  run 200 "$mpirun" -np "$np" "${place[@]}" --mca pml ob1 "${osc[@]}" --mca btl "$list" "$program" "${options[@]}"
}

# Validation prints Fail in its column and need not set the status.
run_is_good() {
  local status=0
  run_program "$@" || status=$?
  [ "$status" = 0 ] && ! crashed "$status" && ! grep -q -w -i fail "$out"
}

other=tcp,self
[ "$btl" != tcp ] || other=vader,self
for program in "${programs[@]}"; do
  [[ ${program#"$work"} == *"$only"* ]] || continue
  if run_is_good "$btl,self" "$program"; then
    echo "good    $what"
    continue
  fi
  failed="$what"
  cp "$out" "$work/first.out"
  cp "$err" "$work/first.err"
  if run_is_good "$other" "$program"; then
    cp "$work/first.out" "$out"
    cp "$work/first.err" "$err"
    fail "$failed"
    show "$failed"
  else
    echo "fails with btl $other too: $failed"
  fi
done
finish
