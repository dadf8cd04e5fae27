#!/bin/bash
# ibv_devices and ibv_devinfo show the soft device; roce_run explains itself and its refusals.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
need_program ibv_devinfo ibverbs-utils
"$roce_run" --help | grep -q '^usage: roce_run' || die "roce_run --help"
! "$roce_run" no-such-program 2>"$work/err" || die "a missing program was run"
grep -q 'no-such-program: not found' "$work/err" || die "message: $(cat "$work/err")"

"$roce_run" ibv_devices | grep -q rocesw0 || die "ibv_devices does not list rocesw0"
"$roce_run" ibv_devinfo -v -d rocesw0 >"$work/info" || die "ibv_devinfo -v"
grep -q 'state:.*PORT_ACTIVE' "$work/info" || die "the port is not active"
grep -q 'GID.*127.0.0.1, RoCE v2' "$work/info" || die "no RoCE v2 GID for 127.0.0.1"
