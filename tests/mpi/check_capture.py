#!/usr/bin/env python3
"""Checks every RoCE v2 packet of a capture without any code of the project.

  check_capture.py FILE.pcap [--min-packets N] [--expect OPCODE,...] [--family 4|6] [--psn]
  check_capture.py --self-test

A RoCE packet is UDP to port 4791..5302 (4791 and the ports of the software device's slots). The ICRC
of each is computed with zlib.crc32: 8 bytes of ones, then the IP header, UDP and all up to the ICRC, with
the fields that routers change set to ones; it is stored little-endian. --psn also follows the packet sequence
numbers of the requests to each queue pair: each is the next one or a repetition. Prints counts; the status is
1 if a packet is wrong or of another IP version than --family, if there are fewer than --min-packets, or if an
expected opcode does not occur.
"""
import argparse
import collections
import struct
import sys
import zlib

PORTS = range(4791, 4791 + 512)

OPCODES = {
    0x00: 'RC SEND FIRST', 0x01: 'RC SEND MIDDLE', 0x02: 'RC SEND LAST', 0x03: 'RC SEND LAST IMM',
    0x04: 'RC SEND ONLY', 0x05: 'RC SEND ONLY IMM', 0x06: 'RC WRITE FIRST', 0x07: 'RC WRITE MIDDLE',
    0x08: 'RC WRITE LAST', 0x09: 'RC WRITE LAST IMM', 0x0a: 'RC WRITE ONLY', 0x0b: 'RC WRITE ONLY IMM',
    0x0c: 'RC READ REQUEST', 0x0d: 'RC READ RESPONSE FIRST', 0x0e: 'RC READ RESPONSE MIDDLE',
    0x0f: 'RC READ RESPONSE LAST', 0x10: 'RC READ RESPONSE ONLY', 0x11: 'RC ACK', 0x12: 'RC ATOMIC ACK',
    0x13: 'RC COMPARE SWAP', 0x14: 'RC FETCH ADD', 0x16: 'RC SEND LAST INV', 0x17: 'RC SEND ONLY INV',
    0x64: 'UD SEND ONLY', 0x65: 'UD SEND ONLY IMM', 0x81: 'CNP'}
FIRST_OR_MIDDLE = (0x00, 0x01, 0x06, 0x07, 0x0d, 0x0e)
REQUESTS = set(range(0x00, 0x0d)) | {0x13, 0x14, 0x16, 0x17}
RETH = (0x06, 0x0a, 0x0b, 0x0c)
# Between BTH and payload, as far as the path MTU is read from these packets.
EXTENDED_BYTES = {0x06: 16, 0x0a: 16, 0x0b: 20, 0x0c: 16, 0x0d: 4, 0x0f: 4, 0x10: 4, 0x11: 4}


class Wrong(Exception):
    """What is wrong with a packet or a file."""


def packets_of(data):
    """Frames of a pcap file (not pcapng): (captured bytes, length on the wire)."""
    if len(data) < 24:
        raise Wrong('no pcap file: %d bytes' % len(data))
    order = {b'\xd4\xc3\xb2\xa1': '<', b'\xa1\xb2\xc3\xd4': '>',
             b'\x4d\x3c\xb2\xa1': '<', b'\xa1\xb2\x3c\x4d': '>'}.get(data[:4])
    if order is None:
        raise Wrong('no pcap file: it begins with ' + data[:4].hex())
    link, = struct.unpack(order + 'I', data[20:24])
    if link & 0xffff != 1:
        raise Wrong('link type %d is not Ethernet' % link)
    place = 24
    while place + 16 <= len(data):
        _, _, captured, length = struct.unpack(order + 'IIII', data[place:place + 16])
        place += 16
        if place + captured > len(data):
            raise Wrong('the file ends within a packet')
        yield data[place:place + captured], length
        place += captured


def network_packet(frame):
    """What is behind the Ethernet header and VLAN tags if it is IPv4 or IPv6, else None."""
    place = 12
    while frame[place:place + 2] in (b'\x81\x00', b'\x88\xa8'):
        place += 4
    if frame[place:place + 2] not in (b'\x08\x00', b'\x86\xdd'):
        return None
    return frame[place + 2:]


class Packet:
    """A RoCE packet from its IP header on; UDP to other ports and other protocols give None by parse."""

    @staticmethod
    def parse(ip):
        if len(ip) < 20:
            return None
        if ip[0] >> 4 == 4:
            header = 4 * (ip[0] & 15)
            total, = struct.unpack('>H', ip[2:4])
            protocol, fragment = ip[9], struct.unpack('>H', ip[6:8])[0] & 0x3fff
            addresses = ip[12:16], ip[16:20]
        elif ip[0] >> 4 == 6 and len(ip) >= 40:
            header, total = 40, 40 + struct.unpack('>H', ip[4:6])[0]
            protocol, fragment = ip[6], 0
            addresses = ip[8:24], ip[24:40]
        else:
            return None
        if protocol != 17 or len(ip) < header + 8:
            return None
        if struct.unpack('>H', ip[header + 2:header + 4])[0] not in PORTS:
            return None
        if fragment:
            raise Wrong('a fragment')
        if len(ip) < total:
            raise Wrong('%d of %d bytes captured' % (len(ip), total))
        return Packet(ip[:total], header, addresses)

    def __init__(self, ip, header, addresses):
        udp_length, = struct.unpack('>H', ip[header + 4:header + 6])
        if header + udp_length != len(ip):
            raise Wrong('UDP length %d in %d bytes of IP' % (udp_length, len(ip)))
        if udp_length < 8 + 12 + 4:
            raise Wrong('UDP length %d is too short for BTH and ICRC' % udp_length)
        self.ip, self.header = ip, header
        self.source, self.destination = addresses
        self.port, = struct.unpack('>H', ip[header + 2:header + 4])
        bth = ip[header + 8:]
        self.opcode = bth[0]
        self.qpn = int.from_bytes(bth[5:8], 'big')
        self.psn = int.from_bytes(bth[9:12], 'big')
        self.pad = bth[1] >> 4 & 3
        self.payload_bytes = udp_length - 8 - 12 - 4 - EXTENDED_BYTES.get(self.opcode, 0) - self.pad
        if self.payload_bytes < 0:
            raise Wrong('UDP length %d is too short for opcode 0x%02x' % (udp_length, self.opcode))
        self.dma_bytes = int.from_bytes(bth[24:28], 'big') if self.opcode in RETH else 0

    def icrc(self):
        masked = bytearray(self.ip[:-4])
        if self.ip[0] >> 4 == 4:
            for place in (1, 8, 10, 11):  # TOS, TTL, header checksum
                masked[place] = 0xff
        else:
            masked[0:4] = bytes((self.ip[0] | 0x0f, 0xff, 0xff, 0xff))  # traffic class, flow label
            masked[7] = 0xff                                            # hop limit
        masked[self.header + 6:self.header + 8] = b'\xff\xff'           # UDP checksum
        masked[self.header + 12] = 0xff                                 # FECN, BECN, reserved
        return struct.pack('<I', zlib.crc32(masked, zlib.crc32(b'\xff' * 8)))

    def check_icrc(self):
        if self.icrc() != self.ip[-4:]:
            hint = ''
            if len(self.ip) > 4096 + 128:
                hint = ' (as long as a train: is gso_max_segs 1 on the sending device?)'
            raise Wrong('ICRC %s, should be %s, opcode 0x%02x, QPN 0x%06x, PSN %d, %d bytes%s' % (
                self.ip[-4:].hex(), self.icrc().hex(), self.opcode, self.qpn, self.psn, len(self.ip), hint))


class Sequences:
    """PSNs of the requests to each queue pair."""

    def __init__(self, packets):
        # FIRST and MIDDLE are exactly one path MTU long, and a READ takes a PSN for each MTU of its response.
        self.mtu = {}
        for packet in packets:
            if packet.opcode in FIRST_OR_MIDDLE:
                self.mtu[frozenset((packet.source, packet.destination))] = packet.payload_bytes
        self.expected = {}
        self.repeated = 0

    def take(self, packet):
        if packet.opcode not in REQUESTS:
            return
        count = 1
        if packet.opcode == 0x0c:
            mtu = self.mtu.get(frozenset((packet.source, packet.destination)))
            if mtu is None:
                raise Wrong('a READ on a path whose MTU the capture does not show')
            count = max(1, -(-packet.dma_bytes // mtu))
        key = packet.destination, packet.port, packet.qpn
        expected = self.expected.get(key, packet.psn)
        ahead = (packet.psn - expected) & 0xffffff
        if ahead >= 0x800000:
            self.repeated += 1
            return
        if ahead:
            raise Wrong('QPN 0x%06x: PSN %d follows, should be %d; %d are missing' % (
                packet.qpn, packet.psn, expected, ahead))
        self.expected[key] = (packet.psn + count) & 0xffffff


def check(path, arguments):
    with open(path, 'rb') as file:
        data = file.read()
    packets, faults, others = [], [], 0
    for number, (frame, _) in enumerate(packets_of(data), 1):
        ip = network_packet(frame)
        try:
            packet = Packet.parse(ip) if ip is not None else None
            if packet is None:
                others += 1
                continue
            packets.append(packet)
            packet.check_icrc()
        except Wrong as wrong:
            faults.append('frame %d: %s' % (number, wrong))
    counts = collections.Counter(packet.opcode for packet in packets)
    print('%d RoCE packets (%d IPv6), %d others' % (
        len(packets), sum(packet.ip[0] >> 4 == 6 for packet in packets), others))
    for opcode in sorted(counts):
        print('0x%02x %-24s %d' % (opcode, OPCODES.get(opcode, 'unknown'), counts[opcode]))
    if arguments.psn:
        sequences = Sequences(packets)
        for packet in packets:
            try:
                sequences.take(packet)
            except Wrong as wrong:
                faults.append(str(wrong))
                break
        print('%d queue pairs in sequence, %d requests repeated' % (
            len(sequences.expected), sequences.repeated))
    if len(packets) < arguments.min_packets:
        faults.append('%d packets, should be at least %d' % (len(packets), arguments.min_packets))
    families = {packet.ip[0] >> 4 for packet in packets}
    if arguments.family and families != {arguments.family}:
        faults.append('IP versions %s, should be %d' % (sorted(families), arguments.family))
    for opcode in arguments.expect:
        if not counts[opcode]:
            faults.append('no packet of opcode 0x%02x (%s)' % (opcode, OPCODES.get(opcode, 'unknown')))
    for fault in faults[:20]:
        print('FAILED: ' + fault)
    if len(faults) > 20:
        print('FAILED: %d more' % (len(faults) - 20))
    return 1 if faults else 0


# Captured from an RDMA NIC (A, B) and made by other implementations of the rule (C, D, F).
VECTORS = {
    'A, CNP': '45c2003c718c4000401191610a0011010a001201000012b7002800008100ffff40000118' + '00' * 20 + '82fd002a',
    'B, UC SEND ONLY': '45010040047840004011b4d5c0a80007c0a80007c00012b7002caca22460ffff000000d300cf1710'
                       '4630818be28935d90e9a95505401be885e50000078f353f3',
    'C, RC SEND ONLY': '4502003412344000401114810a0000010a000002c00012b7002000000470ffff0000001180000001'
                       '68656c6c6f000000fc144155',
    'D, RC ACK': '4502003012344000401114850a0000010a000002c00012b7001c00001140ffff00000012000000011f000001'
                 '719ad93a',
    'F, IPv6 RC WRITE ONLY': '60200000002c1140fe800000000000000000000000000001fe800000000000000000000000000002'
                             'c00012b7002c00000a40ffff00000011800000021122334455667788deadbeef0000000401020304'
                             'a367014c'}


def self_test():
    for name, text in VECTORS.items():
        ip = bytes.fromhex(text)
        Packet.parse(ip).check_icrc()
        header = 40 if ip[0] >> 4 == 6 else 20
        free = {header + 6, header + 7, header + 12}
        free |= {0, 1, 2, 3, 7} if header == 40 else {1, 8, 10, 11}
        # Bytes that decide what the packet is are left alone.
        fixed = {0, 2, 3, 4, 5, 6, 9, header + 2, header + 3, header + 4, header + 5, header + 8, header + 9}
        for place in range(len(ip)):
            if place in fixed:
                continue
            for bit in (1, 0x80):
                changed = bytearray(ip)
                changed[place] ^= bit
                try:
                    Packet.parse(bytes(changed)).check_icrc()
                    noticed = False
                except Wrong:
                    noticed = True
                if noticed == (place in free):
                    raise Wrong('%s: byte %d changed and %snoticed' % (name, place, '' if noticed else 'not '))
    print('%d vectors good' % len(VECTORS))
    self_test_of_sequences()
    return 0


def self_test_of_sequences():
    def packet(opcode, psn, dma_bytes=0, payload_bytes=0):
        made = Packet.parse(bytes.fromhex(VECTORS['C, RC SEND ONLY']))
        made.opcode, made.psn, made.dma_bytes, made.payload_bytes = opcode, psn, dma_bytes, payload_bytes
        return made

    good = [packet(0x00, 0xfffffe, payload_bytes=1024), packet(0x02, 0xffffff), packet(0x0c, 0, dma_bytes=1025),
            packet(0x04, 2), packet(0x04, 2), packet(0x0c, 0, dma_bytes=1025), packet(0x04, 3)]
    sequences = Sequences(good)
    for each in good:
        sequences.take(each)
    if sequences.repeated != 2:
        raise Wrong('%d repetitions, should be 2' % sequences.repeated)
    try:
        sequences.take(packet(0x04, 5))
    except Wrong:
        print('sequences good')
        return
    raise Wrong('a hole was not noticed')


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('file', nargs='?')
    parser.add_argument('--self-test', action='store_true')
    parser.add_argument('--min-packets', type=int, default=1)
    parser.add_argument('--expect', default=[], type=lambda text: [int(each, 0) for each in text.split(',')])
    parser.add_argument('--family', type=int, choices=(4, 6))
    parser.add_argument('--psn', action='store_true')
    arguments = parser.parse_args()
    if arguments.self_test == (arguments.file is not None):
        parser.error('give a file or --self-test')
    try:
        return self_test() if arguments.self_test else check(arguments.file, arguments)
    except Wrong as wrong:
        print('FAILED: %s' % wrong)
        return 1


if __name__ == '__main__':
    sys.exit(main())
