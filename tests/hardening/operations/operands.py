"""What an operation is, and the sequences and arrays that operations work on."""

from collections import namedtuple

import numpy as np

import seqcore as sq

# `partly`: the operation is several edits, of which the first may hold when the last has failed.
# `loose`: it goes through code of NumPy, ctypes or the interpreter that makes another exception of a failed
# allocation, or leaks itself. Then any exception will do, and only references to sources are counted. Where
# such code ends the process differs from one Python to the next: these are run with the one that they were
# tried with.
# `alone`: allocations fail one at a time.
Operation = namedtuple("Operation", "run partly make loose alone", defaults=(False, None, False, False))
GROUPS = {}


def group(function):
    GROUPS[function.__name__] = function
    return function


def loose(run, make=None):
    return Operation(run, False, make, True, True)


def loosely(operations, alone=True):
    return {name: one._replace(loose=True, alone=alone) for name, one in operations.items()}


# -- what is operated on ---------------------------------------------------------------------------------

TENSOR, RANK3 = np.zeros(3, np.float32), np.zeros((2, 2, 2), np.float32)
BASE = np.arange(40, dtype=np.float32).reshape(20, 2)
MORE = [np.full(4, i, np.float32) for i in range(50)]
LISTS = [[1.5, 2], [3], []] * 20
ROWS, RANK5, LENGTHS = np.zeros((3000, 2)), np.zeros((2,) * 5), np.array([1000, 2000])
WORDS = np.array([["to", "be"], ["or", "not"], ["to", "be"]], object)
LARGE = np.zeros(100_000, np.float32)
OFFSETS, EACH = np.array([0, 3, 3, 20]), np.array([3, 0, 17])
BATCH, LARGE_NUMBERS = np.zeros((5, 4, 2), np.float32), np.arange(1000, 1020)
WATCHED = [TENSOR, RANK3, BASE, *MORE, ROWS, RANK5, LENGTHS, WORDS, LARGE, BATCH, LARGE_NUMBERS]


def fresh():
    seq = sq.split_to_sequence(BASE)
    seq.insert(5, TENSOR)
    seq.append(RANK3)
    return seq


def uniform():
    return sq.split_to_sequence(BASE)


def words():
    seq = sq.split_to_sequence(WORDS)
    seq.append("that")
    return seq


def fails(error, function, *arguments, **options):
    try:
        function(*arguments, **options)
    except error:
        return
    raise AssertionError(f"no {error.__name__}")


def generated(tensors, error_at=None):
    for i, tensor in enumerate(tensors):
        if i == error_at:
            raise KeyError(i)
        yield tensor
