#!/bin/bash
# Programs that exit right after their last completion: the acknowledgement of the peer's last message has to leave.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
need_program ibv_rc_pingpong ibverbs-utils
for ((run = 1; run <= 200; run++)); do good_pair ibv_rc_pingpong -g 0 -n 1; done
