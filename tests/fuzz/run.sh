#!/bin/bash
# Runs one fuzzer from the kept corpus for a number of seconds. An input that violates something stays in
# tests/fuzz of the build directory, and its name is printed; the fuzzer with that file as its only argument plays
# it again.
#   ROCE_SRC_DIR=... ROCE_BUILD_DIR=... run.sh packet|requester|responder SECONDS [NEW_CORPUS]
# NEW_CORPUS: writes there the smallest corpus that reaches all code reached up to the end of this run, for
# tests/fuzz/corpus. tests/fuzz/make_corpus of the build directory makes first inputs.
set -u
target=${1:?} seconds=${2:?} new_corpus=${3:-}
program=$ROCE_BUILD_DIR/tests/fuzz/fuzz_$target
[ -x "$program" ] || { echo "no fuzzer was built; configure says why"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/found" "$work/smallest" "$work/first" "$work/first/packet" "$work/first/requester" \
  "$work/first/responder"
tar -C "$work" -xf "$ROCE_SRC_DIR/tests/fuzz/corpus/$target.tar.xz" || exit 1
"$ROCE_BUILD_DIR/tests/fuzz/make_corpus" "$work/first" || exit 1
corpora=("$work/found" "$work/$target" "$work/first/$target")
"$program" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=6000 -print_final_stats=1 \
  -artifact_prefix="$ROCE_BUILD_DIR/tests/fuzz/" "${corpora[@]}" >"$work/log" 2>&1 </dev/null
status=$?
if [ "$status" != 0 ]; then
  tail -n 60 "$work/log"
  exit "$status"
fi
grep -E '^(stat::number_of_executed_units|#[0-9]+.*DONE)' "$work/log"
[ -n "$new_corpus" ] || exit 0
"$program" -merge=1 -use_counters=0 -max_len=6000 "$work/smallest" "${corpora[@]}" >"$work/log" 2>&1 </dev/null ||
  { tail -n 20 "$work/log"; exit 1; }
rm -rf "${work:?}/$target" && mv "$work/smallest" "$work/$target"
tar --sort=name --owner=0 --group=0 --mtime=2000-01-01 -C "$work" -cJf "$new_corpus" "$target"
