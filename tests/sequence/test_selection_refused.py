"""What is no selection, or selects what isn't there: errors that change nothing."""

import contextlib
import re

import numpy as np
import pytest
from support.strategies import assert_holds, unedited
from test_selection import NEW, kinds, mixed, whole

NO_SELECTIONS = {
    "float array": np.array([1.0]),
    "empty float array": np.array([]),
    "float of rank 0": np.array(1.0),
    "complex": np.array([1j]),
    "complex number": 1j,
    "NumPy's float": np.float64(1),
    "objects": np.array([1], object),
    "object": object(),
    "strings": np.array(["1", "2"]),
    "dates": np.array([1, 2], "M8[s]"),
    "spans": np.array([1, 2], "m8[s]"),
    "rank 2": np.array([[1, 2]]),
    "rank 2, empty": np.zeros((0, 2), int),
    "rank 2 mask": np.ones((5, 2), bool),
    "list of floats": [1.0, 2.0],
    "an integer and a float": [1, 2.0],
    "list of strings": ["1"],
    "list of None": [None],
    "nested list": [[1, 2]],
    "bools and integers": [True, 1, 0, 1, False],
    "integers and bools": [1, True],
    "string": "12",
    "bytes": b"\x01\x02",
    "tuple": (1, 2),
    "empty tuple": (),
    "tuple of a list": ([1, 2],),
    "None": None,
    "Ellipsis": ...,
    "float": 1.0,
    "set": {1, 2},
    "dict": {1: 2},
    "generator": (i for i in range(2)),
    "list of slices": [slice(0, 1)],
}


def refused(seq, where, count, error, match=None):
    """No use of the selection is taken, and the sequence stays as it was."""
    uses = (lambda: seq[where], lambda: seq.__setitem__(where, [NEW] * count), lambda: seq.__delitem__(where))
    for use in uses:
        with unedited(seq), pytest.raises(error, match=match):
            use()


@pytest.mark.parametrize("name", NO_SELECTIONS)
def test_what_is_no_selection_is_a_type_error(name):
    refused(mixed()[0], NO_SELECTIONS[name], 2, TypeError)


def test_an_index_that_fails_or_is_an_object():
    class Index:
        def __index__(self):
            return 3

    class Fails:
        def __index__(self):
            raise KeyError("mine")

    seq, model = whole()
    with unedited(seq):
        with contextlib.suppress(TypeError):
            assert_holds(seq[[0, Index()]], [model[0], model[3]])
        with pytest.raises((KeyError, TypeError)):
            seq[[0, Fails()]]
        with pytest.raises((KeyError, TypeError)):
            del seq[[0, Fails()]]


@kinds
@pytest.mark.parametrize("index", [5, -6, 100, -100, 127, -128, 2**31, 2**63 - 1, -(2**63)])
@pytest.mark.parametrize("form", ["list", "array", "last of many"])
def test_an_index_outside_is_named_with_the_range(make, index, form):
    seq, _ = make()
    where = {"list": [0, index, 1], "array": np.array([0, index, 1]), "last of many": [0] * 50 + [index]}[
        form
    ]
    name = rf"(?s)(?<!\d){re.escape(str(index))}\b.*-5\b.*\b4\b"
    refused(seq, where, len(where), IndexError, name)


@pytest.mark.parametrize("index", [2**63, 2**64 - 1, 2**64, 2**70, -(2**63) - 1, -(2**200)])
def test_huge_indices_are_outside(index):
    seq, _ = whole()
    forms = [[index], [0, index], [np.int64(1), index]]
    if 0 < index < 2**64:
        forms += [np.array([index], np.uint64), [np.uint64(index)], [np.uint64(index), np.int64(-1)]]
    for where in forms:
        refused(seq, where, len(where), IndexError)
