#!/bin/bash
# The library defines every function of libibverbs except those listed with a reason, and nothing else.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
dir=$ROCE_SRC_DIR/tests/preload
names() { nm -D --defined-only "$1" | awk '$2 == "T" { sub(/@.*/, "", $3); print $3 }' | sort -u; }
system=$(ldconfig -p | awk '$1 == "libibverbs.so.1" { print $NF; exit }')
[ -n "$system" ] || skip "libibverbs.so.1 is not installed"

ours=$(names "$library")
theirs=$(names "$system" | grep -E '^_?ibv_' | grep -v '^ibv_cmd_')
left_out=$(awk '/^[^#]/ { print $1 }' "$dir/exports_left_out.txt" | sort)
missing=$(comm -13 <(printf '%s\n' "$ours" "$left_out" | sort -u) <(echo "$theirs"))
[ -z "$missing" ] || die "neither defined nor listed in exports_left_out.txt:" $missing
both=$(comm -12 <(echo "$ours") <(echo "$left_out"))
[ -z "$both" ] || die "defined and listed in exports_left_out.txt:" $both
foreign=$(echo "$ours" | grep -v -E '^(_?ibv_.*|(l?stat|fstatat|__l?xstat|__fxstatat)(64)?|(f|euid|e)?access(at)?)$')
[ -z "$foreign" ] || die "exported without need:" $foreign
undefined=$(nm -D -u "$library" | awk '{ print $NF }' | grep -E '^_?ibv_')
[ -z "$undefined" ] || die "undefined:" $undefined
