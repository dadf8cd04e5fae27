#!/usr/bin/env python3
"""backlog.py NAMESPACE DEVICE: looks at the queue of a device's root qdisc every millisecond until SIGTERM, then
prints "backlog LARGEST bytes, drops N, SAMPLES samples"."""

import json
import signal
import subprocess
import sys
import tempfile
import time


def main():
    namespace, device = sys.argv[1:]
    stop = []
    signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
    # One tc for all: starting one takes longer than a millisecond. A pipe that nobody reads would stop it.
    answers = tempfile.TemporaryFile("w+")
    tc = subprocess.Popen(["tc", "-n", namespace, "-s", "-j", "-b", "-"], stdin=subprocess.PIPE, stdout=answers,
                          text=True)
    end = time.monotonic() + 120
    most = drops = samples = 0
    while not stop and time.monotonic() < end:
        tc.stdin.write(f"qdisc show dev {device}\n")
        tc.stdin.flush()
        time.sleep(0.001)
        samples += 1
    tc.communicate()
    answers.seek(0)
    out = answers.read()
    decoder = json.JSONDecoder()
    at = 0
    while at < len(out):
        if out[at].isspace():
            at += 1
            continue
        qdiscs, at = decoder.raw_decode(out, at)
        for qdisc in qdiscs:
            most = max(most, qdisc["backlog"])
            drops = qdisc["drops"]
    print(f"backlog {most} bytes, drops {drops}, {samples} samples")


main()
