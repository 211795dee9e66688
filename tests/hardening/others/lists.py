"""CPython's `list_tests` and `seq_tests`, which `list` and `collections.UserList` pass, on TensorSequence."""

import unittest
from collections.abc import MutableSequence

import numpy as np
from hardening.others.outcomes import Outcome, Report

import seqcore as sq

EXCEPTIONS = {
    "test_insert": "a position out of range is an IndexError, as in ONNX; list.insert clamps it",
    "test_repr": "repr shows dtype and shapes",
    "test_repr_deep": "repr shows dtype and shapes; a sequence of tensors has no elements that are sequences",
    "test_setitem": "ends with the wording of list's message for an index that is not an integer",
    "test_sort": "TensorSequence has no sort method, because tensors have no order",
}

OBJECTS = []  # by number
NUMBERS = {}  # by id


def number_of(value):
    number = NUMBERS.setdefault(id(value), len(OBJECTS))
    if number == len(OBJECTS):
        OBJECTS.append(value)
    return np.int64(number)


def object_of(tensor):
    return OBJECTS[int(tensor)]


class Objects(MutableSequence):
    """A list of any objects: a sequence of their numbers.

    Searches compare objects, so they are those of MutableSequence, over the sequence's own iterator.
    """

    def __init__(self, objects=()):
        self.numbers = sq.TensorSequence([number_of(value) for value in objects], np.int64)

    @classmethod
    def of(cls, numbers):
        new = cls()
        new.numbers = numbers
        return new

    def __eq__(self, other):
        return list(self) == list(other) if isinstance(other, (list, Objects)) else NotImplemented

    def __len__(self):
        return len(self.numbers)

    def __getitem__(self, key):
        found = self.numbers[key]
        return object_of(found) if isinstance(found, np.ndarray) else self.of(found)

    def __setitem__(self, key, value):
        self.numbers[key] = [number_of(one) for one in value] if isinstance(key, slice) else number_of(value)

    def __delitem__(self, key):
        del self.numbers[key]

    def __iter__(self):
        for number in self.numbers:
            yield object_of(number)

    def __reversed__(self):
        for number in reversed(self.numbers):
            yield object_of(number)

    def __mul__(self, n):
        return self.of(self.numbers[np.tile(np.arange(len(self)), max(n, 0))])

    __rmul__ = __mul__

    def __imul__(self, n):
        self.numbers[:] = (self * n).numbers
        return self

    def __add__(self, other):
        return self.of(self.numbers + [number_of(value) for value in other])

    def __iadd__(self, objects):
        self.numbers += [number_of(value) for value in objects]
        return self

    def insert(self, position, value):
        self.numbers.insert(position, number_of(value))

    def append(self, value):
        self.numbers.append(number_of(value))

    def extend(self, objects):
        self.numbers.extend([number_of(value) for value in objects])

    def pop(self, position=-1):
        return object_of(self.numbers.pop(position))

    def copy(self):
        return self.of(self.numbers.copy())

    def reverse(self):
        self.numbers.reverse()

    def clear(self):
        self.numbers.clear()


def run():
    """Run the tests; CPython has them in its package `test`, which some distributions leave out."""
    from test import list_tests

    class Tests(list_tests.CommonTest):
        type2test = Objects

    outcomes = []
    for name in unittest.defaultTestLoader.getTestCaseNames(Tests):
        result = unittest.TestResult()
        Tests(name).run(result)
        wrong = result.failures + result.errors
        kind = "failed" if wrong else "skipped" if result.skipped else "passed"
        outcomes.append(Outcome(name, kind, wrong[0][1].strip().rpartition("\n")[2] if wrong else ""))
    return Report("CPython, list_tests and seq_tests", outcomes, EXCEPTIONS)
