"""What the mpi4py programs of this directory have in common: data that the receiver can make itself, and the verdict."""
import sys
import traceback

import numpy
from mpi4py import MPI

# Around the limits of the protocols: eager, one packet, rendezvous.
SIZES = [0, 1, 2, 7, 64, 1000, 1023, 1024, 4095, 4096, 4097, 12288, 65535, 65537, 262144, 1048579, 4194304]


def pattern(count, *seed):
    """COUNT bytes that depend on the seed, an arbitrary number of small integers."""
    start = 0
    for number in seed:
        start = (start * 1000003 + number + 1) % 2**64
    indices = numpy.arange(count, dtype=numpy.uint64)
    return (((indices + numpy.uint64(start)) * numpy.uint64(0x9E3779B97F4A7C15)) >> numpy.uint64(53)).astype(numpy.uint8)


def same(expected, found, what):
    """Values of any kind, or arrays, with the place of the first difference."""
    if isinstance(expected, numpy.ndarray):
        if expected.shape != found.shape:
            raise AssertionError(f"{what}: shape {found.shape}, not {expected.shape}")
        wrong = numpy.flatnonzero(expected.ravel() != found.ravel())
        if wrong.size:
            raise AssertionError(f"{what}: {wrong.size} of {expected.size} elements wrong, the first at {wrong[0]}")
    elif expected != found:
        raise AssertionError(f"{what}: {str(found)[:200]}, not {str(expected)[:200]}")


def run(*parts):
    """Runs the parts, functions of a communicator, on all ranks; the first fault ends the job with status 1."""
    comm = MPI.COMM_WORLD
    try:
        for part in parts:
            part(comm)
            comm.Barrier()
    except BaseException:
        sys.stderr.write(f"wrong: rank {comm.rank}: {traceback.format_exc()}")
        sys.stderr.flush()
        comm.Abort(1)
    if comm.rank == 0:
        print("all good:", ", ".join(part.__name__ for part in parts))
