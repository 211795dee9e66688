"""Looking: positions, iteration, equality, and finding a tensor."""

import operator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import LAYOUTS, NAMES, array_lists, arrays, assert_holds, filled, laid_out, same

from seqcore import TensorSequence, split_to_sequence


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


@pytest.mark.parametrize("position", POSITIONS, ids=repr)
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


@pytest.mark.parametrize(
    "position", [np.int64(-1), np.array([-1]), np.array(-1, "int32"), np.int8(-1)], ids=repr
)
def test_negative_positions_count_from_the_back(position):
    seq = numbered(5, 6, 7)
    assert values([seq.pop(position)]) == [7]
    if np.ndim(position) == 0:
        assert values([seq[position]]) == [6]


def selects(key):
    """Whether a key that is no position is a selection inside the brackets."""
    return isinstance(key, list) or (np.ndim(key) == 1 and np.asarray(key).dtype.kind in "iu")


@pytest.mark.parametrize("position", NOT_POSITIONS, ids=repr)
def test_anything_else_is_not_a_position(position):
    seq, tensor = numbered(5, 6, 7), np.array([8, 8])
    edits = [
        lambda: seq.insert(position, tensor),
        lambda: seq.pop(position),
        lambda: seq.erase(position),
    ]
    if not selects(position):
        edits += [
            lambda: seq[position],
            lambda: seq.__setitem__(position, tensor),
            lambda: seq.__delitem__(position),
        ]
    for edit in edits:
        with pytest.raises(TypeError):
            edit()
    assert values(seq) == [5, 6, 7]


@pytest.mark.parametrize(
    "position",
    [
        3,
        -4,
        2**31,
        2**63 - 1,
        -(2**63),
        2**63,
        10**30,
        -(10**30),
        np.uint64(2**64 - 1),
        np.int64(-(2**63)),
        np.array([3]),
    ],
    ids=repr,
)
def test_outside_is_an_index_error_that_names_position_and_range(position):
    seq, tensor = numbered(5, 6, 7), np.array([8, 8])
    named = rf"{int(np.asarray(position).item())}\b.*3 tensors \(-3 to 2\)"
    looks = [
        lambda: seq[position],
        lambda: seq.__setitem__(position, [tensor] if np.ndim(position) else tensor),
        lambda: seq.__delitem__(position),
        lambda: seq.pop(position),
        lambda: seq.erase(position),
    ]
    for look in looks:
        with pytest.raises(IndexError, match=named):
            look()
    assert values(seq) == [5, 6, 7]


@pytest.mark.parametrize("position", [4, -4, 2**63, -(10**30), np.uint64(2**64 - 1)], ids=repr)
def test_insert_outside_is_an_index_error_that_names_its_range(position):
    seq = numbered(5, 6, 7)
    with pytest.raises(IndexError, match=rf"{int(position)}\b.*3 tensors \(-3 to 3\)"):
        seq.insert(position, np.array([8, 8]))
    assert values(seq) == [5, 6, 7]


# --- iteration ---


@given(array_lists())
def test_iterates_both_ways(tensors):
    seq = TensorSequence(tensors)
    assert all(same(a, b) for a, b in zip(seq, tensors, strict=True))
    assert all(same(a, b) for a, b in zip(reversed(seq), reversed(tensors), strict=True))


def test_iterators_are_their_own_iterators():
    for iterator in (iter(numbered(1)), reversed(numbered(1))):
        assert iter(iterator) is iterator


def test_iterators_keep_the_sequence():
    forward, backward = iter(numbered(1, 2)), reversed(numbered(1, 2))
    assert values(forward) == [1, 2]
    assert values(backward) == [2, 1]


EDITS = {
    "append": lambda seq, new: seq.append(new) if len(seq) < 9 else None,
    "insert first": lambda seq, new: seq.insert(0, new) if len(seq) < 9 else None,
    "delete first": lambda seq, new: seq.__delitem__(slice(0, 1)),
    "delete last": lambda seq, new: seq.__delitem__(slice(-1, None)),
    "clear": lambda seq, new: seq.clear(),
    "reverse": lambda seq, new: seq.reverse(),
    "halve": lambda seq, new: seq.__delitem__(slice(None, None, 2)),
    "replace": lambda seq, new: seq.__setitem__(slice(1, 3), [new]),
    "extend by itself": lambda seq, new: seq.extend(seq) if len(seq) < 20 else None,
}


@pytest.mark.parametrize("direction", [iter, reversed])
@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_edits_show_in_iterators_as_in_a_lists(edit, direction):
    seq, model = numbered(*range(5)), [np.array([value, value]) for value in range(5)]
    new = np.array([70, 70])
    seen = []
    for element in direction(seq):
        seen.append(int(element[0]))
        edit(seq, new)
    expected = []
    for element in direction(model):
        expected.append(int(element[0]))
        edit(model, new)
    assert seen == expected
    assert_holds(seq, model)


@pytest.mark.parametrize("direction", [iter, reversed])
@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_iterators_hint_at_their_length_as_a_lists_do(edit, direction):
    seq, model = numbered(*range(5)), [np.array([value, value]) for value in range(5)]
    new = np.array([70, 70])
    ours, theirs = direction(seq), direction(model)
    for _ in range(4):
        assert operator.length_hint(ours) == operator.length_hint(theirs)
        assert (next(ours, None) is None) == (next(theirs, None) is None)
        edit(seq, new)
        edit(model, new)


def test_an_exhausted_iterator_stays_exhausted():
    seq = numbered(1, 2)
    for iterator in (iter(seq), reversed(seq)):
        list(iterator)
        seq.append(np.array([3, 3]))
        assert list(iterator) == []
        assert next(iterator, None) is None


# --- equality ---


@given(array_lists(), st.sampled_from(LAYOUTS[:-2]))
def test_layout_does_not_matter_to_equality(tensors, layout):
    seq, other = TensorSequence(tensors), TensorSequence([laid_out(t, layout) for t in tensors])
    assert seq == other
    assert (seq != other) is False


@given(array_lists(), st.data())
def test_one_other_value_makes_them_unequal(tensors, data):
    full = [i for i, tensor in enumerate(tensors) if tensor.size]
    if not full:
        return
    changed = [np.array(tensor) for tensor in tensors]
    victim = changed[data.draw(st.sampled_from(full))]
    where = data.draw(st.integers(0, victim.size - 1))
    victim.flat[where] = victim.flat[where] + "x" if victim.dtype == object else not victim.flat[where]
    seq, other = TensorSequence(tensors), TensorSequence(changed)
    if any(not same(a, b) for a, b in zip(tensors, changed, strict=True)):
        assert seq != other
        assert (seq == other) is False


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


def test_shapes_do_not_broadcast_in_comparisons():
    ones = TensorSequence([np.ones((1, 3))])
    for shape in [(3,), (1, 1), (), (2, 3), (0, 3), (1, 3, 1)]:
        assert ones != TensorSequence([np.ones(shape)])
    assert TensorSequence([np.ones((0, 2))]) != TensorSequence([np.ones((0, 3))])
    assert TensorSequence([np.ones((0, 2))]) == TensorSequence([np.ones((0, 2))])


@pytest.mark.parametrize("name", ["float16", "float32", "float64", "complex64", "complex128", "bfloat16"])
def test_nan_is_unequal_and_zeros_are_equal(name):
    zero, one = filled(name, 1), filled(name, 1, start=1)
    with np.errstate(all="ignore"):
        nan = (zero / zero).astype(zero.dtype)
    nans = TensorSequence([nan])
    assert nans != nans
    assert nans != nans.copy()
    assert (nans == TensorSequence([nan])) is False
    assert nan not in nans
    assert nans[0] not in nans
    assert nans.count(nan) == 0
    assert TensorSequence([-zero]) == TensorSequence([zero])
    assert -zero in TensorSequence([one, zero])
    assert TensorSequence([zero, one]).index(-zero) == 0


def test_split_and_whole_compare_as_values():
    rows = filled("float32", (6, 3))
    for axis in (0, 1):
        split = split_to_sequence(rows, 2, axis)
        assert split == TensorSequence([np.array(piece) for piece in split])
        assert split == split.copy()


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


# --- finding ---


@given(array_lists(), st.data())
def test_what_is_in_is_found(tensors, data):
    seq = TensorSequence(tensors)
    tensor = data.draw(st.sampled_from(tensors))
    assert tensor in seq
    assert seq.index(tensor) == next(i for i, t in enumerate(tensors) if same(t, tensor))
    assert seq.count(tensor) == sum(same(t, tensor) for t in tensors)
    seq.remove(tensor)
    del tensors[next(i for i, t in enumerate(tensors) if same(t, tensor))]
    assert_holds(seq, tensors)


@given(array_lists(), arrays())
def test_what_is_not_in_is_not_found(tensors, other):
    seq = TensorSequence(tensors)
    if any(same(tensor, other) for tensor in tensors):
        return
    assert other not in seq
    assert seq.count(other) == 0
    with pytest.raises(ValueError, match=r"\w"):
        seq.index(other)
    with pytest.raises(ValueError, match=r"\w"):
        seq.remove(other)
    assert_holds(seq, tensors)


@pytest.mark.parametrize("start", [-9, -3, -1, 0, 1, 2, 5, 9, 10**30])
@pytest.mark.parametrize("stop", [-9, -2, 0, 1, 3, 5, 9, -(10**30), 10**30])
def test_index_takes_start_and_stop_like_a_lists(start, stop):
    model = [4, 5, 4, 6, 4]
    seq, tensor = numbered(*model), np.array([4, 4])
    try:
        expected = model.index(4, start, stop)
    except ValueError:
        with pytest.raises(ValueError, match=r"\w"):
            seq.index(tensor, start, stop)
    else:
        assert seq.index(tensor, start, stop) == expected


def test_remove_takes_the_first_only():
    seq = numbered(4, 5, 4)
    assert seq.remove(np.array([4, 4])) is None
    assert values(seq) == [5, 4]


def test_finding_strings():
    seq = TensorSequence(["a", np.array(["a", "b"], object), "b"], dtype=str)
    assert np.array("b", object) in seq
    assert np.array(["a", "b"]) in seq
    assert np.array(["a", "c"], object) not in seq
    assert seq.index(np.array("b", object)) == 2
