#!/usr/bin/python3
"""One rank of mpi4py's tests, without those that are left out: mpi4py_tests.py SOURCE EXPECTED_FAILURES LOG WORD

Called by contrib/suites/run, by mpirun. EXPECTED_FAILURES has lines "mpi4py PATTERN REASON"; LOG.RANK gets a line for each
test, so that the last one tells where a run stopped; WORD, which may be empty, chooses tests by name. All ranks run the same tests in the same order. Status: 0 good, 1 a test failed or none was run.
"""
import collections
import fnmatch
import glob
import os
import sys
import unittest

import mpi4py.MPI  # the installed one, which also starts MPI


def left_out(path):
    """Patterns of test names, each with its reason."""
    found = []
    with open(path) as lines:
        for line in lines:
            if line.startswith("mpi4py "):
                _, pattern, reason = line.rstrip("\n").split(None, 2)
                found.append((pattern, reason))
    return found


def tests_in(suite):
    for item in suite:
        if isinstance(item, unittest.TestSuite):
            yield from tests_in(item)
        else:
            yield item


def main():
    source, list_path, log_path, word = sys.argv[1:5]
    sys.path.insert(0, os.path.join(source, "test"))
    for package in ("cupy", "numba"):
        sys.modules[package] = None  # as their own runner does by default
    excluded = left_out(list_path)
    not_applicable = collections.Counter()
    chosen = unittest.TestSuite()
    for path in sorted(glob.glob(os.path.join(source, "test", "test_*.py"))):
        module = os.path.basename(path).removesuffix(".py")
        for test in tests_in(unittest.defaultTestLoader.loadTestsFromName(module)):
            if word not in test.id():
                continue
            reason = next((text for pattern, text in excluded if fnmatch.fnmatchcase(test.id(), pattern)), None)
            if reason is None:
                chosen.addTest(test)
            else:
                not_applicable[reason] += 1
    rank = mpi4py.MPI.COMM_WORLD.rank
    with open(f"{log_path}.{rank}", "w", buffering=1) as log:
        result = unittest.TextTestRunner(log, verbosity=2).run(chosen)
    failed = result.failures + result.errors
    if rank == 0:
        for reason, count in not_applicable.items():
            print(f"not applicable: {count:3}  {reason}")
    for test, trace in failed:
        print(f"FAILED: rank {rank}: {test.id()}\n{trace}")
    passed = result.testsRun - len(failed) - len(result.skipped)
    print(f"mpi4py: rank {rank}: {passed} passed, {len(failed)} failed, {len(result.skipped)} skipped, "
          f"{sum(not_applicable.values())} not applicable", flush=True)
    return 0 if passed and not failed else 1


if __name__ == "__main__":
    sys.exit(main())
