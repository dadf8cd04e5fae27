#!/usr/bin/env python3
"""Prints the counters of a loaded BPF program, one line "name value" each.

    bpf_counts.py PROGRAM_ID NAME...

The program's first map is an array of 64-bit counters in the order of the names (bpf(2))."""
import ctypes
import platform
import struct
import sys

SYSCALL_BPF = {"x86_64": 321, "aarch64": 280}
MAP_LOOKUP_ELEM, PROG_GET_FD_BY_ID, MAP_GET_FD_BY_ID, OBJ_GET_INFO_BY_FD = 1, 13, 14, 15
# Of struct bpf_prog_info.
INFO_BYTES, INFO_MAP_COUNT, INFO_MAP_IDS = 240, 52, 56

libc = ctypes.CDLL(None, use_errno=True)


def bpf(command, attributes):
    attributes = ctypes.create_string_buffer(attributes, 128)
    result = libc.syscall(SYSCALL_BPF[platform.machine()], command, attributes, 128)
    if result < 0:
        sys.exit(f"bpf command {command}: {ctypes.get_errno()}")
    return result


def first_map(program):
    fd = bpf(PROG_GET_FD_BY_ID, struct.pack("I", program))
    ids = ctypes.create_string_buffer(4)
    info = ctypes.create_string_buffer(INFO_BYTES)
    struct.pack_into("I", info, INFO_MAP_COUNT, 1)
    struct.pack_into("Q", info, INFO_MAP_IDS, ctypes.addressof(ids))
    bpf(OBJ_GET_INFO_BY_FD, struct.pack("IIQ", fd, INFO_BYTES, ctypes.addressof(info)))
    return bpf(MAP_GET_FD_BY_ID, struct.pack("I", struct.unpack("I", ids.raw)[0]))


def main():
    map_fd = first_map(int(sys.argv[1]))
    for index, name in enumerate(sys.argv[2:]):
        key, value = ctypes.create_string_buffer(struct.pack("I", index)), ctypes.create_string_buffer(8)
        bpf(MAP_LOOKUP_ELEM,
            struct.pack("IxxxxQQQ", map_fd, ctypes.addressof(key), ctypes.addressof(value), 0))
        print(name, struct.unpack("Q", value.raw)[0])


main()
