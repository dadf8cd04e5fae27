#!/bin/bash
# A program started without mpirun: with roce by default, alone, asked for, and not at all.
. "$ROCE_SRC_DIR/tests/btl/lib.sh"
run() {
  local out
  out=$(env "$@" timeout 60 "$smoke" 2>&1) || fail "$*: $out"
  [ "$out" = "smoke ok" ] || fail "$*: more than the result: $out"
}
run NOTHING=
run OMPI_MCA_btl=roce,self
run OMPI_MCA_btl=roce,self OMPI_MCA_btl_roce_soft=on
run OMPI_MCA_btl=^roce
run OMPI_MCA_btl=tcp,self

# Asked for what cannot be: said with the reason.
out=$(OMPI_MCA_btl=roce,self OMPI_MCA_btl_roce_if_include=nosuchdevice timeout 60 "$smoke" 2>&1)
grep "btl roce: not used on .*nosuchdevice" <<<"$out" >/dev/null || fail "no reason given: $out"

# Counters of a run.
dir=$(mktemp -d) || fail mktemp
trap 'rm -rf "$dir"' EXIT
run OMPI_MCA_btl=roce,self OMPI_MCA_btl_roce_stats="$dir/counters"
files=("$dir"/counters.*.*)
[ "${#files[@]}" -eq 1 ] || fail "counter files: ${files[*]}"
grep -q '^tx_send_messages [0-9]*$' "${files[0]}" || fail "no counters: $(cat "${files[0]}")"
exit 0
