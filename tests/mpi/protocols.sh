#!/bin/bash
# Walks the protocols of ob1: what the BTL offers (send, put, get), leave_pinned, the size from which ob1 prefers its
# PUT pipeline, contiguous and strided data, 0 B to 1 MiB, some to 64 MiB. Asserts from roce's counters which of
# send, put and get carried the bytes of long messages.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
place 2

# Longer than any eager message, with the phase that the PUT pipeline sends before its puts.
long_bytes=131072
pipeline=(--mca "btl_${btl}_rdma_pipeline_send_length" 32768 --mca "btl_${btl}_rdma_pipeline_frag_size" 65536)

# Which operation carries the long contiguous messages: FLAGS PINNED MIN
carrier() {
  case $1/$2/$3 in
    send/*) echo send ;;
    send,put/*) echo put ;; # puts of the whole message, or with leave_pinned 0 and a low MIN the pipeline
    send,get/*) echo get ;; # RGET
    send,put,get/0/0) echo pipeline ;;
    send,put,get/*) echo get ;;
  esac
}

# one FLAGS PINNED MIN LAYOUT SIZES
one() {
  local flags=$1 pinned=$2 min=$3 layout=$4 sizes=$5 payload by most minimum=()
  [ "$min" = default ] || minimum=(--mca "btl_${btl}_min_rdma_pipeline_size" "$min")
  by=send
  [ "$layout" != contig ] || by=$(carrier "$flags" "$pinned" "$min")
  echo "flags $flags, leave_pinned $pinned, min_rdma_pipeline_size $min, $layout, $sizes: by $by"
  good 120 "$mpirun" -np 2 "${place[@]}" --mca pml ob1 --mca btl "$btl,self" --mca "btl_${btl}_flags" "$flags" \
    --mca mpi_leave_pinned "$pinned" "${minimum[@]}" "${pipeline[@]}" --mca btl_roce_stats "$stats" \
    "$examples/protocols" -d "$layout" -m "$sizes" || return
  testing_roce || return 0
  payload=$(payload_above "$long_bytes")
  case $by in
    send)
      expect "bytes sent" "$(counter tx_send_bytes)" -ge "$payload"
      expect "bytes put" "$(counter tx_put_bytes)" -eq 0
      expect "bytes got" "$(counter rx_get_bytes)" -eq 0
      ;;
    put | pipeline)
      # The first part of each message is sent.
      expect "bytes put" "$(counter tx_put_bytes)" -ge $((payload / 2))
      expect "bytes put and sent" $(($(counter tx_put_bytes) + $(counter tx_send_bytes))) -ge "$payload"
      # Open MPI raises the limit of the pipeline to eager limit + pipeline_send_length; RGET is used up to there.
      most=0
      [ "$by" = put ] || most=$(payload_up_to "$long_bytes")
      expect "bytes got" "$(counter rx_get_bytes)" -le "$most"
      ;;
    get)
      expect "bytes got" "$(counter rx_get_bytes)" -ge "$payload"
      expect "bytes put" "$(counter tx_put_bytes)" -eq 0
      ;;
  esac
}

for flags in send send,put send,get send,put,get; do
  for pinned in 0 1; do
    one "$flags" "$pinned" default contig 1M
    [[ $flags != *put* ]] || one "$flags" "$pinned" 0 contig 1M
  done
  one "$flags" 1 default vector 1M
done
one send,put,get 1 default mixed 1M
one send,put,get 1 default contig 64M:64M
one send,put,get 0 0 contig 64M:64M
one send 1 default contig 64M:64M
one send,put,get 1 default vector 64M:64M
if [ -n "$long" ]; then
  for flags in send send,put send,get send,put,get; do
    for pinned in 0 1; do
      for min in default 0; do
        for layout in contig vector; do one "$flags" "$pinned" "$min" "$layout" 64M; done
      done
    done
  done
fi
finish
