#!/usr/bin/python3
"""Four threads of each rank at once, each in pairs of ranks on a communicator of its own. An even number of ranks."""
import sys
import threading
import traceback

import numpy
from mpi4py import MPI

from check import SIZES, pattern, run, same

THREADS = 4


def exchange(comm, number):
    """Sizes in an order that differs from thread to thread."""
    try:
        peer = comm.rank ^ 1
        for turn in range(3):
            for size in SIZES[number:] + SIZES[:number]:
                found = numpy.zeros(size, numpy.uint8)
                comm.Sendrecv(pattern(size, comm.rank, number, turn), peer, number, found, peer, number)
                same(pattern(size, peer, number, turn), found, f"thread {number}: {size} bytes")
            same({peer: [number] * turn * 1000}, comm.sendrecv({comm.rank: [number] * turn * 1000}, peer, source=peer),
                 f"thread {number}: object")
            # Not allreduce of objects: its first call duplicates the communicator with Python's lock held, and stops for ever
            # if another thread of the peer does the same (mpi4py 3.1.4, with any BTL).
            total = numpy.zeros(1000, numpy.int64)
            comm.Allreduce(numpy.full(1000, comm.rank + number), total)
            same(numpy.full(1000, comm.size * number + sum(range(comm.size))), total, f"thread {number}: Allreduce")
    except BaseException:
        sys.stderr.write(f"wrong: rank {comm.rank}: {traceback.format_exc()}")
        sys.stderr.flush()
        comm.Abort(1) # the peer's thread would wait


def threads(comm):
    same(MPI.THREAD_MULTIPLE, MPI.Query_thread(), "level of threads")
    comms = [comm.Dup() for _ in range(THREADS)]
    started = [threading.Thread(target=exchange, args=(comms[k], k)) for k in range(THREADS)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    for each in comms:
        each.Free()


if __name__ == "__main__":
    run(threads)
