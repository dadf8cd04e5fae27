#!/usr/bin/python3
"""One-sided calls on windows of arrays, by passive and active target. Two ranks or more."""
import numpy
from mpi4py import MPI

from check import SIZES, pattern, run, same

ROOM = max(SIZES)


def bytes_of(window):
    return numpy.frombuffer(window.tomemory(), numpy.uint8)


def passive(comm, window, kind):
    """Each rank writes into the part of its right neighbour's window, and reads it back; its neighbour looks at it too."""
    memory = bytes_of(window)
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    window.Lock_all()
    for size in SIZES[1:]:
        sent = pattern(size, comm.rank, size)
        window.Put([sent, MPI.BYTE], right, (ROOM - size, size, MPI.BYTE))
        window.Flush(right)
        found = numpy.zeros(size, numpy.uint8)
        window.Get([found, MPI.BYTE], right, (ROOM - size, size, MPI.BYTE))
        window.Flush(right)
        same(sent, found, f"{kind}: {size} bytes put, then got")
        comm.Barrier()
        window.Sync()
        same(pattern(size, left, size), memory[ROOM - size:], f"{kind}: {size} bytes in the window")
        comm.Barrier()
    window.Unlock_all()


def fences(comm, window, kind):
    memory = bytes_of(window)
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    for size in (5, 4096, 200000):
        memory[:size] = pattern(size, comm.rank, 1, size)
        found = numpy.zeros(size, numpy.uint8)
        sent = pattern(size, comm.rank, 2, size)
        window.Fence()
        window.Get([found, MPI.BYTE], left, (0, size, MPI.BYTE))
        window.Put([sent, MPI.BYTE], right, (size, size, MPI.BYTE))
        window.Fence()
        same(pattern(size, left, 1, size), found, f"{kind}: {size} bytes got between fences")
        same(pattern(size, left, 2, size), memory[size:2 * size], f"{kind}: {size} bytes put between fences")


def atomics(comm, window, kind):
    """All ranks on counters of rank 0: the sums must come out, and no number may be drawn twice."""
    turns = 100
    memory = numpy.frombuffer(window.tomemory(), numpy.int64)
    memory[:64] = 0
    comm.Barrier()
    window.Lock_all()
    drawn = []
    one, old = numpy.ones(1, numpy.int64), numpy.zeros(1, numpy.int64)
    addends = numpy.arange(16, dtype=numpy.int64) + comm.rank
    for _ in range(turns):
        window.Fetch_and_op(one, old, 0, 0, MPI.SUM)
        window.Flush(0)
        drawn.append(int(old[0]))
        window.Accumulate([addends, MPI.INT64_T], 0, (16 * 8, 16, MPI.INT64_T), MPI.SUM)
    fetched = numpy.zeros(16, numpy.int64)
    window.Get_accumulate([addends, MPI.INT64_T], [fetched, MPI.INT64_T], 0, (16 * 8, 16, MPI.INT64_T), MPI.SUM)
    window.Flush(0)
    # A spin lock that guards a counter without atomics.
    for _ in range(10):
        mine, free = numpy.array([comm.rank + 1], numpy.int64), numpy.zeros(1, numpy.int64)
        while True:
            window.Compare_and_swap(mine, free, old, 0, 8)
            window.Flush(0)
            if old[0] == 0:
                break
        value = numpy.zeros(1, numpy.int64)
        window.Get([value, MPI.INT64_T], 0, (16, 1, MPI.INT64_T))
        window.Flush(0)
        value += 1
        window.Put([value, MPI.INT64_T], 0, (16, 1, MPI.INT64_T))
        window.Flush(0)
        window.Compare_and_swap(free, mine, old, 0, 8)
        window.Flush(0)
        same(comm.rank + 1, int(old[0]), f"{kind}: owner of the lock")
    window.Unlock_all()
    everything = sorted(number for part in comm.allgather(drawn) for number in part)
    same(list(range(turns * comm.size)), everything, f"{kind}: numbers drawn by Fetch_and_op")
    if comm.rank == 0:
        window.Lock(0)
        same(turns * comm.size, int(memory[0]), f"{kind}: counter of Fetch_and_op")
        same(10 * comm.size, int(memory[2]), f"{kind}: counter under the lock")
        total = sum(numpy.arange(16, dtype=numpy.int64) + rank for rank in range(comm.size)) * (turns + 1)
        same(total, memory[16:32].copy(), f"{kind}: sums of Accumulate")
        window.Unlock(0)
    comm.Barrier()


def each_part(comm, window, kind):
    for part in (passive, fences, atomics):
        part(comm, window, kind)


def allocated(comm):
    window = MPI.Win.Allocate(ROOM, 1, comm=comm)
    each_part(comm, window, "Allocate")
    window.Free()


def created(comm):
    memory = numpy.zeros(ROOM, numpy.uint8)
    window = MPI.Win.Create(memory, 1, comm=comm)
    each_part(comm, window, "Create")
    window.Free()


if __name__ == "__main__":
    run(allocated, created)
