#!/usr/bin/python3
"""Runs rdma-core's pyverbs tests on the soft device: rdma_core_tests.py RDMA_CORE NOT_APPLICABLE WORD

Called by contrib/suites/run. NOT_APPLICABLE lists tests that are left out, as lines "pyverbs PATTERN REASON"; WORD,
which may be empty, chooses tests by name. A test that skips itself says why. Status: 0 good, 1 a test failed or none
was run.
"""
import collections
import fnmatch
import signal
import sys
import unittest

import pyverbs.device  # the installed one: the source tree has an unbuilt package of this name

TEST_SECONDS = 30


def left_out(path):
    """Patterns of test names, each with its reason."""
    found = []
    with open(path) as lines:
        for line in lines:
            if line.startswith("pyverbs "):
                _, pattern, reason = line.rstrip("\n").split(None, 2)
                found.append((pattern, reason))
    return found


def name_of(test):
    return test.id().removeprefix("tests.")


def tests_in(suite):
    for item in suite:
        if isinstance(item, unittest.TestSuite):
            yield from tests_in(item)
        else:
            yield item


def load(source):
    """All tests of the tree; their own parser takes its options from sys.argv."""
    sys.argv[1:] = ["--dev", "rocesw0"]
    sys.path[:0] = [source, source + "/tests"]
    import args_parser
    args_parser.parser.parse_args()
    import tests
    loader = unittest.TestLoader()
    found = {}
    for module in tests.__test_modules__:
        # Not load_tests of the package, which prints.
        for test in tests_in(loader.loadTestsFromModule(module)):
            found[name_of(test)] = test
    return found


class Result(unittest.TestResult):
    """Counts, and bounds the time of each test."""

    def __init__(self):
        super().__init__()
        self.passed = 0

    def startTest(self, test):
        super().startTest(test)
        signal.alarm(TEST_SECONDS)

    def stopTest(self, test):
        signal.alarm(0)
        super().stopTest(test)

    def addSuccess(self, test):
        super().addSuccess(test)
        self.passed += 1


def too_long(_signal, _frame):
    raise TimeoutError(f"not done after {TEST_SECONDS} s")


def main():
    source, list_path, word = sys.argv[1:4]
    excluded = left_out(list_path)
    result = Result()
    not_applicable = collections.Counter()
    signal.signal(signal.SIGALRM, too_long)
    for name, test in load(source).items():
        if word not in name:
            continue
        reason = next((text for pattern, text in excluded if fnmatch.fnmatchcase(name, pattern)), None)
        if reason is None:
            test(result)
        else:
            not_applicable[reason] += 1

    for reason, count in not_applicable.items():
        print(f"not applicable: {count:3}  {reason}")
    for test, reason in result.skipped:
        print(f"skipped: {name_of(test)}: {reason}")
    failed = result.failures + result.errors
    for test, trace in failed:
        print(f"FAILED: {name_of(test)}\n{trace}")
    print(f"pyverbs: {result.passed} passed, {len(failed)} failed, {len(result.skipped)} skipped, "
          f"{sum(not_applicable.values())} not applicable")
    return 0 if result.passed and not failed else 1


if __name__ == "__main__":
    sys.exit(main())
