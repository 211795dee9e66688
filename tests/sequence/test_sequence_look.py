"""Looking: positions, iteration, equality, and finding a tensor."""

import numpy as np
import pytest
from support.strategies import NAMES, filled

from seqcore import TensorSequence


def numbered(*values):
    return TensorSequence([np.array([value, value], "int64") for value in values], dtype="int64")


def values(sequence):
    return [int(element[0]) for element in sequence]


# --- positions ---

POSITIONS = [
    1,
    np.int8(1),
    np.int64(1),
    np.uint8(1),
    np.uint64(1),
    np.array(1),
    np.array([1]),
    np.array([1], "int32"),
    np.array([[1]], "int64"),
    np.array([1, 2])[:1],
    np.array([1], ">i8"),
]
NOT_POSITIONS = [
    1.0,
    "1",
    None,
    b"1",
    1j,
    (1,),
    [1],
    np.float64(1),
    np.array(1.0),
    np.array([1.0]),
    np.array([1, 1]),
    np.array([], "int64"),
    np.array(["1"]),
    np.array([1], object),
    pytest.param(object(), id="object"),
    ...,
    (slice(None), 0),
]


@pytest.mark.parametrize("position", POSITIONS)
def test_integers_and_one_element_arrays_are_positions(position):
    seq = numbered(5, 6, 7)
    assert values([seq.pop(position)]) == [6]
    seq.insert(position, np.array([8, 8]))
    assert values(seq) == [5, 8, 7]
    seq.erase(position)
    assert values(seq) == [5, 7]
    if np.ndim(position) == 0:  # inside the brackets, an array with an axis is a selection
        assert values([seq[position]]) == [7]
        seq[position] = np.array([9, 9])
        assert values(seq) == [5, 9]
        del seq[position]
        assert values(seq) == [5]


@pytest.mark.parametrize("position", NOT_POSITIONS)
def test_anything_else_is_not_a_position(position):
    seq, tensor = numbered(5, 6, 7), np.array([8, 8])
    for edit in (
        lambda: seq.insert(position, tensor),
        lambda: seq.pop(position),
        lambda: seq.erase(position),
    ):
        with pytest.raises(TypeError):
            edit()
    assert values(seq) == [5, 6, 7]


# --- iteration ---


def test_an_exhausted_iterator_stays_exhausted():
    seq = numbered(1, 2)
    for iterator in (iter(seq), reversed(seq)):
        list(iterator)
        seq.append(np.array([3, 3]))
        assert list(iterator) == []
        assert next(iterator, None) is None


# --- equality ---


@pytest.mark.parametrize("name", NAMES)
def test_type_length_shape_all_count(name):
    seq = TensorSequence([filled(name, 4), filled(name, (2, 2))])
    assert seq == TensorSequence([filled(name, 4), filled(name, (2, 2))])
    assert seq != TensorSequence([filled(name, 4)])
    assert seq != TensorSequence([filled(name, (2, 2)), filled(name, 4)])
    assert seq != TensorSequence([filled(name, (4, 1)), filled(name, (2, 2))])
    assert seq != TensorSequence([filled(name, 0), filled(name, (2, 2))])
    for other in set(NAMES) - {name}:
        assert TensorSequence(dtype=name) != TensorSequence(dtype=other)
        assert seq != TensorSequence([filled(other, 4), filled(other, (2, 2))])


def test_comparison_with_anything_else_is_not_implemented():
    seq = numbered(1, 2)
    for other in (
        [np.array([1, 1]), np.array([2, 2])],
        (),
        None,
        5,
        "x",
        np.array([[1, 1], [2, 2]]),
        object(),
    ):
        assert seq.__eq__(other) is NotImplemented
        assert seq.__ne__(other) is NotImplemented
        assert (seq == other) is False
        assert (other != seq) is True

    class Anything:
        def __eq__(self, other):
            return "asked"

    assert (seq == Anything()) == "asked"
