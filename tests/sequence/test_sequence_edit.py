"""Edits and slices do what they do to a list."""

import numpy as np
import pytest
from support.strategies import assert_holds

from seqcore import TensorSequence, split_to_sequence


def tensors(*values):
    """Tensors of different shapes, each told apart by its value."""
    return [np.full((value % 3,) * (value % 2 + 1), value, "int32") for value in values]


def numbered(*values):
    """The same sequence twice: ours, and a list of arrays."""
    return TensorSequence(tensors(*values), dtype="int32"), tensors(*values)


def pieces(count):
    """A split, and the list of arrays it stands for."""
    rows = np.arange(count * 2, dtype="int32").reshape(count, 2)
    return split_to_sequence(rows, keepdims=0), list(rows)


both_kinds = pytest.mark.parametrize(
    "make", [lambda: numbered(*range(5)), lambda: pieces(5)], ids=["whole", "split"]
)
NEW, OTHER = tensors(11, 12)


# --- one element ---


@pytest.mark.parametrize("position", [-6, 6, 100, -100])
def test_insert_does_not_clamp(position):
    seq, model = numbered(*range(5))
    with pytest.raises(IndexError, match=rf"position {position} .*5 tensors \(-5 to 5\)"):
        seq.insert(position, NEW)
    assert_holds(seq, model)


@pytest.mark.parametrize("nothing", [[], (), iter(()), TensorSequence(dtype="int32")])
def test_extending_by_nothing_changes_nothing(nothing):
    seq, model = numbered(1, 2)
    seq.extend(nothing)
    seq += nothing
    assert_holds(seq, model)


def test_pop_and_erase_take_the_last_by_default():
    seq, model = numbered(1, 2, 3)
    assert np.array_equal(seq.pop(), model[2])
    seq.erase()
    assert_holds(seq, model[:1])
    seq.pop(position=0)
    seq.append(NEW)
    seq.erase(position=-1)
    assert_holds(seq, [])


@pytest.mark.parametrize("remove", ["pop", "erase", "__delitem__", "__getitem__"])
@pytest.mark.parametrize("count", [0, 3])
def test_nothing_to_take_is_an_index_error(remove, count):
    seq, model = numbered(*range(count))
    for position in (count, -count - 1):
        with pytest.raises(IndexError, match=rf"position {position}\b"):
            getattr(seq, remove)(position)
    with pytest.raises(IndexError):
        seq[count] = NEW
    assert_holds(seq, model)


def test_pop_and_erase_from_nothing():
    seq = TensorSequence(dtype="int32")
    with pytest.raises(IndexError):
        seq.pop()
    with pytest.raises(IndexError):
        seq.erase()


# --- all elements ---


@both_kinds
def test_clear_keeps_the_type(make):
    seq, _ = make()
    assert seq.clear() is None
    assert_holds(seq, [])
    assert seq.dtype == np.int32
    with pytest.raises(TypeError):
        seq.append(np.zeros(1, "float32"))
    seq.append(NEW)
    assert_holds(seq, [NEW])


@both_kinds
def test_adding_makes_a_new_sequence(make):
    seq, model = make()
    other, others = numbered(7, 8)
    both = seq + other
    assert isinstance(both, TensorSequence)
    both.append(NEW)
    assert_holds(both, [*model, *others, NEW])
    assert_holds(seq + seq, model * 2)
    assert_holds(seq, model)
    assert_holds(other, others)


def test_adding_another_type_is_a_type_error_that_names_both():
    seq, model = numbered(1, 2)
    other = TensorSequence([np.zeros(1, "uint8")])
    with pytest.raises(TypeError, match=r"(?s)(?=.*\bint32)(?=.*uint8)"):
        seq + other
    with pytest.raises(TypeError, match=r"(?s)(?=.*\bint32)(?=.*uint8)"):
        seq += other
    with pytest.raises(TypeError):
        seq + 5
    assert_holds(seq, model)


# --- slices ---


def test_slices_clamp_and_huge_bounds_are_fine():
    seq, model = numbered(*range(5))
    assert_holds(seq[-(10**30) : 10**30], model)
    assert_holds(seq[:: 10**30], model[:1])
    assert_holds(seq[:: -(10**30)], model[-1:])
    assert_holds(seq[np.int64(1) : np.int32(3)], model[1:3])
    seq[10**30 :] = [NEW]
    assert_holds(seq, [*model, NEW])
    del seq[10**30 :]
    del seq[3 : 10**30 : -(10**30)]
    del seq[:: 2**63 - 1]
    assert_holds(seq, [*model[1:], NEW])


@pytest.mark.parametrize("where", [slice(None, None, 0), slice("a"), slice(1.5), slice(None, None, 1.0)])
def test_bad_slices_are_errors(where):
    seq, model = numbered(*range(5))
    error = ValueError if where.step == 0 and type(where.step) is int else TypeError
    with pytest.raises(error):
        seq[where]
    with pytest.raises(error):
        seq[where] = [NEW]
    with pytest.raises(error):
        del seq[where]
    assert_holds(seq, model)


@pytest.mark.parametrize("value", [5, None, 1.5])
def test_a_slice_takes_iterables_only(value):
    seq, model = numbered(*range(5))
    for where in (slice(1, 2), slice(None, None, 2), slice(0, 0)):
        with pytest.raises(TypeError):
            seq[where] = value
    assert_holds(seq, model)


def test_an_empty_slice_keeps_the_type():
    seq, _ = numbered(1, 2)
    assert seq[5:].dtype == np.int32
    assert_holds(seq[5:], [])
