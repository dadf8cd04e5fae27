#!/bin/bash
# A wrong value gives one line with parameter, value and range, and roce is not used: a job that has
# another BTL runs, a job that has not ends with an error.
. "$ROCE_SRC_DIR/tests/btl/lib.sh"

# expect VARIABLE VALUE RANGE
expect() {
  local line="btl roce: not used: parameter btl_roce_$1: $2 is not in its range, $3" out
  out=$(env "OMPI_MCA_btl_roce_$1=${2//\"/}" timeout 60 "$smoke" 2>&1) ||
    fail "$1=$2 ended a job that has other BTLs: $out"
  [ "$(grep -c "btl roce" <<<"$out")" -eq 1 ] || fail "$1=$2: not one line: $out"
  grep -F "$line" <<<"$out" >/dev/null || fail "$1=$2: expected \"$line\", got: $out"
}
expect retry_count '"8"' 0..7
expect connect_timeout_s '"0"' 1..3600
expect traffic_class '"256"' 0..255
expect mtu_bytes '"255"' '0 or 256..65536'
expect get_chunk_bytes '"many"' 4096..1073741824
expect soft '"maybe"' 'auto|on|off'
expect max_send_size 10 1024..4194304
expect eager_limit 55 256..65536

# Two processes on this node say it once, and without another BTL the job ends.
out=$(timeout 60 "$ROCE_MPIRUN" -np 2 --mca btl roce,self --mca btl_roce_hop_limit 0 "$smoke" 2>&1) &&
  fail "the job ran without any usable BTL"
[ "$(grep -c "btl roce: not used" <<<"$out")" -eq 1 ] || fail "not one line: $out"
exit 0
