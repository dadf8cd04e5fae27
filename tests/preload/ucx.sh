#!/bin/bash
# UCX on the soft device, by ucx_perftest over rc_verbs and ud_verbs: tag matching, streams, put, get, atomics.
# tls rc_v also lets UCX connect over ud_verbs, which it needs.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
need_program ucx_perftest ucx-utils
export UCX_NET_DEVICES=rocesw0:1

"$roce_run" env UCX_TLS=rc_v ucx_info -d >"$work/info" 2>&1 || die "ucx_info"
for transport in rc_verbs ud_verbs; do
  grep -q "Transport: $transport" "$work/info" || die "ucx_info shows no $transport"
done

for tls in rc_v ud_v; do
  export UCX_TLS=$tls
  for test in tag_lat tag_bw tag_sync_lat stream_lat stream_bw ucp_put_lat ucp_put_bw ucp_get ucp_add ucp_fadd \
    ucp_swap ucp_cswap; do
    good_pair ucx_perftest -f -t "$test" -n 500 -w 50
    printf '%-6s %-13s 8 bytes: %s us\n' "$tls" "$test" "$(awk '$1 == 500 { print $3 }' "$work/client")"
  done
  for test in tag_lat tag_bw stream_bw ucp_put_bw ucp_get; do
    good_pair ucx_perftest -f -t "$test" -s 1000000 -n 20 -w 2
  done
done
