#!/bin/bash
# Every parameter of roce_info --config is an MCA variable with the same default, help and range.
. "$ROCE_SRC_DIR/tests/btl/lib.sh"
listing=$("$ompi_info" --param btl roce --level 9) || fail "ompi_info"
# ompi_info wraps nothing when its output is no terminal, so help is one line.
count=0
while read -r name equals value; do
  [ "$equals" = "=" ] || continue
  count=$((count + 1))
  grep -F "\"btl_roce_$name\" (current value: \"$value\"" <<<"$listing" >/dev/null ||
    fail "ompi_info does not list btl_roce_$name with value \"$value\""
done < <("$roce_info" --config | grep -v '^ ')
[ "$count" -ge 20 ] || fail "roce_info --config lists only $count parameters"
ranges=$("$roce_info" --config | sed -n 's/^ *range \(.*\), default .*, MCA variable \(btl_roce_[a-z_]*\),.*/\2 \1/p')
[ "$(wc -l <<<"$ranges")" -eq "$count" ] || fail "a parameter without a range"
while read -r variable range; do
  [ "$range" != text ] || continue
  grep -F -A1 "\"$variable\"" <<<"$listing" | grep -F "(range: $range)" >/dev/null ||
    fail "ompi_info does not show range $range of $variable"
done <<<"$ranges"
for generic in exclusivity flags eager_limit rndv_eager_limit max_send_size min_rdma_pipeline_size \
  rdma_pipeline_send_length rdma_pipeline_frag_size get_limit put_limit latency bandwidth; do
  grep -F "\"btl_roce_$generic\"" <<<"$listing" >/dev/null || fail "btl_roce_$generic is missing"
done
echo "$count parameters"
