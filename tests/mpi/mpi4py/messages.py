#!/usr/bin/python3
"""Python objects and arrays point to point and by collectives. Two ranks or more."""
import pickle
import zlib

import numpy
from mpi4py import MPI

from check import SIZES, pattern, run, same


def document(rank, size):
    return {"from": rank, "bytes": pattern(size, rank, size).tobytes(), "list": [rank, None, -1.5, "\u00fc" * (size % 100)],
            "nested": {(rank, k): [k] * k for k in range(5)}}


def objects(comm):
    """Pickled: mpi4py receives them by matched probes."""
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    for tag, size in enumerate(SIZES):
        request = comm.isend(document(comm.rank, size), right, tag)
        same(document(left, size), comm.recv(source=left, tag=tag), f"object with {size} bytes")
        request.wait()
        same(document(left, size), comm.sendrecv(document(comm.rank, size), right, source=left), f"sendrecv, {size} bytes")
    # Out of order: the last first, by tag.
    requests = [comm.isend((comm.rank, k, "x" * 50 * k), right, k) for k in range(30)]
    for k in reversed(range(30)):
        same((left, k, "x" * 50 * k), comm.recv(source=left, tag=k), f"object {k} of 30")
    MPI.Request.waitall(requests)


def arrays(comm):
    """Both directions at once; the checksum travels as an object."""
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    for size in SIZES:
        for turn in range(3):
            sent = pattern(size, comm.rank, turn, size)
            found = numpy.zeros(size, numpy.uint8)
            requests = [comm.Irecv(found, left, turn), comm.Isend(sent, right, turn)]
            checksum = comm.sendrecv(zlib.crc32(sent), right, source=left)
            MPI.Request.Waitall(requests)
            same(checksum, zlib.crc32(found), f"checksum of {size} bytes")
            same(pattern(size, left, turn, size), found, f"{size} bytes")


def unknown_sizes(comm):
    """The receiver learns source, tag and size from a matched probe."""
    peers = [rank for rank in range(comm.size) if rank != comm.rank]
    sent = [pattern(size, comm.rank, size) for size in SIZES]
    requests = [comm.Isend(data, peer, tag) for peer in peers for tag, data in enumerate(sent)]
    status = MPI.Status()
    for _ in range(len(peers) * len(SIZES)):
        message = comm.Mprobe(status=status)
        found = numpy.zeros(status.Get_count(MPI.BYTE), numpy.uint8)
        message.Recv(found)
        size = SIZES[status.Get_tag()]
        same(pattern(size, status.Get_source(), size), found, f"probed message of {size} bytes")
    MPI.Request.Waitall(requests)


def strided(comm):
    """Columns of a matrix, by a vector type and as slices."""
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    for rows in (1, 10, 1000, 40000):
        matrix = pattern(rows * 8 * 8, comm.rank, rows).view(numpy.uint64).reshape(rows, 8).copy()
        expected = pattern(rows * 8 * 8, left, rows).view(numpy.uint64).reshape(rows, 8)
        column = MPI.UINT64_T.Create_vector(rows, 1, 8).Commit()
        found = numpy.zeros((rows, 8), numpy.uint64)
        requests = [comm.Irecv([found.reshape(-1)[k:], 1, column], left, k) for k in range(8)]
        for k in range(8):
            comm.Send([matrix.reshape(-1)[k:], 1, column], right, k)
        MPI.Request.Waitall(requests)
        column.Free()
        same(expected, found, f"8 columns of {rows} rows")


def persistent(comm):
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    for size in (16, 5000, 300000):
        sent, found = numpy.zeros(size, numpy.uint8), numpy.zeros(size, numpy.uint8)
        requests = [comm.Recv_init(found, left), comm.Send_init(sent, right)]
        for turn in range(5):
            sent[:] = pattern(size, comm.rank, turn)
            MPI.Prequest.Startall(requests)
            MPI.Request.Waitall(requests)
            same(pattern(size, left, turn), found, f"turn {turn} of persistent requests, {size} bytes")
        for request in requests:
            request.Free()


def collectives(comm):
    ranks = range(comm.size)
    for count in (1, 3, 512, 20000, 300000):
        mine = [pattern(count * 4, rank, count).view(numpy.int32).astype(numpy.int64) for rank in ranks]
        total = numpy.sum(mine, axis=0)
        found = numpy.zeros(count, numpy.int64)
        comm.Allreduce(mine[comm.rank], found)
        same(total, found, f"Allreduce of {count}")
        found[:] = 0
        comm.Iallreduce(mine[comm.rank], found, MPI.MAX).Wait()
        same(numpy.max(mine, axis=0), found, f"Iallreduce of {count}")
        comm.Scan(mine[comm.rank], found)
        same(numpy.sum(mine[:comm.rank + 1], axis=0), found, f"Scan of {count}")
        for root in ranks:
            data = mine[root].copy() if comm.rank == root else numpy.zeros(count, numpy.int64)
            comm.Bcast(data, root)
            same(mine[root], data, f"Bcast of {count}")
            comm.Reduce(mine[comm.rank], found, root=root)
            if comm.rank == root:
                same(total, found, f"Reduce of {count}")
        everything = numpy.zeros((comm.size, count), numpy.int64)
        comm.Allgather(mine[comm.rank], everything)
        same(numpy.array(mine), everything, f"Allgather of {count}")
        # The part for rank r has count + r elements.
        sent = [pattern(8 * (count + rank), comm.rank, rank).view(numpy.int64) for rank in ranks]
        expected = [pattern(8 * (count + comm.rank), rank, comm.rank).view(numpy.int64) for rank in ranks]
        found = numpy.zeros(comm.size * (count + comm.rank), numpy.int64)
        comm.Alltoallv([numpy.concatenate(sent), [count + rank for rank in ranks]], [found, [count + comm.rank] * comm.size])
        same(numpy.concatenate(expected), found, f"Alltoallv of {count}")
    same([document(rank, 3000) for rank in ranks], comm.allgather(document(comm.rank, 3000)), "allgather of objects")
    same([(rank, comm.rank) for rank in ranks], comm.alltoall([(comm.rank, rank) for rank in ranks]), "alltoall of objects")
    text = pickle.dumps(document(0, 100000)) if comm.rank == 0 else None
    same(document(0, 100000), pickle.loads(comm.bcast(text)), "bcast of an object")


if __name__ == "__main__":
    run(objects, arrays, unknown_sizes, strided, persistent, collectives)
