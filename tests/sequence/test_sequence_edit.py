"""Edits and slices do what they do to a list."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import assert_holds, same, slices

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


@both_kinds
@pytest.mark.parametrize("position", range(-5, 6))
def test_insert_puts_the_tensor_before_the_position(make, position):
    seq, model = make()
    assert seq.insert(position, NEW) is None
    model.insert(position, NEW)
    assert_holds(seq, model)


@pytest.mark.parametrize("position", [-6, 6, 100, -100])
def test_insert_does_not_clamp(position):
    seq, model = numbered(*range(5))
    with pytest.raises(IndexError, match=rf"position {position} .*5 tensors \(-5 to 5\)"):
        seq.insert(position, NEW)
    assert_holds(seq, model)


def test_insert_into_an_empty_sequence():
    seq, model = numbered()
    with pytest.raises(IndexError):
        seq.insert(-1, NEW)
    with pytest.raises(IndexError):
        seq.insert(1, NEW)
    seq.insert(0, NEW)
    assert_holds(seq, [*model, NEW])


@both_kinds
def test_append_and_extend_add_at_the_end(make):
    seq, model = make()
    assert seq.append(NEW) is None
    assert seq.extend([OTHER, NEW]) is None
    assert_holds(seq, [*model, NEW, OTHER, NEW])


@pytest.mark.parametrize("wrap", [tuple, iter, lambda ts: (t for t in ts), TensorSequence])
def test_extend_and_iadd_take_any_iterable(wrap):
    seq, model = numbered(1, 2)
    seq.extend(wrap([NEW, OTHER]))
    seq += wrap([OTHER])
    assert_holds(seq, [*model, NEW, OTHER, OTHER])


@pytest.mark.parametrize("nothing", [[], (), iter(()), TensorSequence(dtype="int32")])
def test_extending_by_nothing_changes_nothing(nothing):
    seq, model = numbered(1, 2)
    seq.extend(nothing)
    seq += nothing
    assert_holds(seq, model)


@both_kinds
def test_extend_by_itself_doubles(make):
    seq, model = make()
    seq.extend(seq)
    assert_holds(seq, model * 2)
    seq += seq
    assert_holds(seq, model * 4)
    seq.extend(iter(seq[:2]))
    assert_holds(seq, model * 4 + model[:2])


def test_iadd_edits_in_place():
    seq, model = numbered(1)
    before = seq
    seq += [NEW]
    assert seq is before
    assert_holds(before, [*model, NEW])


@both_kinds
@pytest.mark.parametrize("position", range(-5, 5))
def test_removing_at_a_position(make, position):
    for remove in (TensorSequence.pop, TensorSequence.erase, TensorSequence.__delitem__):
        seq, model = make()
        taken = remove(seq, position)
        expected = model.pop(position)
        assert_holds(seq, model)
        if remove is TensorSequence.pop:
            assert same(taken, expected)
            assert not taken.flags.writeable
        else:
            assert taken is None


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


@both_kinds
@pytest.mark.parametrize("position", range(-5, 5))
def test_setting_an_element(make, position):
    seq, model = make()
    seq[position] = NEW
    model[position] = NEW
    assert_holds(seq, model)


@both_kinds
def test_an_element_can_be_set_to_another(make):
    seq, model = make()
    seq[0] = seq[4]
    seq[1], seq[2] = seq[2], seq[1]
    assert_holds(seq, [model[4], model[2], model[1], model[3], model[4]])


# --- all elements ---


@pytest.mark.parametrize("count", range(6))
def test_reverse_in_place(count):
    seq, model = numbered(*range(count))
    assert seq.reverse() is None
    assert_holds(seq, model[::-1])


@pytest.mark.parametrize("cursor", range(6))
def test_reverse_wherever_the_last_edit_was(cursor):
    for make in (lambda: numbered(*range(5)), lambda: pieces(5)):
        seq, model = make()
        seq.insert(cursor, NEW)
        model.insert(cursor, NEW)
        seq.reverse()
        assert_holds(seq, model[::-1])


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
def test_copies_are_edited_apart(make):
    seq, model = make()
    for other in (seq.copy(), seq[:], TensorSequence(seq)):
        assert other is not seq
        other.append(NEW)
        del other[0]
        other.reverse()
        assert_holds(other, [*model[1:], NEW][::-1])
        assert_holds(seq, model)


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


@both_kinds
@given(data=st.data())
def test_slices_are_a_lists(make, data):
    seq, model = make()
    where = data.draw(slices(5))
    assert_holds(seq[where], model[where])
    del seq[where]
    del model[where]
    assert_holds(seq, model)


@both_kinds
@given(data=st.data(), count=st.integers(0, 6), wrap=st.sampled_from([list, tuple, iter]))
def test_slice_assignment_is_a_lists(make, data, count, wrap):
    seq, model = make()
    where, new = data.draw(slices(5)), tensors(*range(20, 20 + count))
    try:
        model[where] = new
    except ValueError:
        with pytest.raises(ValueError, match=rf"(?s)(?=.*\b{count}\b)(?=.*\b{len(model[where])}\b)"):
            seq[where] = wrap(new)
    else:
        seq[where] = wrap(new)
    assert_holds(seq, model)


@both_kinds
@given(data=st.data())
def test_a_slice_can_be_set_to_the_sequence_itself(make, data):
    seq, model = make()
    where = data.draw(slices(5))
    try:
        model[where] = model
    except ValueError:
        with pytest.raises(ValueError, match="5"):
            seq[where] = seq
    else:
        seq[where] = seq
    assert_holds(seq, model)


@given(data=st.data())
def test_a_slice_can_be_set_to_another_slice(data):
    seq, model = pieces(6)
    to, source = data.draw(slices(6)), data.draw(slices(6))
    try:
        model[to] = model[source]
    except ValueError:
        with pytest.raises(ValueError, match=r"\d"):
            seq[to] = seq[source]
    else:
        seq[to] = seq[source]
    assert_holds(seq, model)


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


def test_edits_near_a_cursor_far_in():
    seq, model = pieces(3000)
    for step in range(200):
        position = 1500 + step % 7
        seq.insert(position, NEW)
        model.insert(position, NEW)
        seq.erase(position + 3)
        del model[position + 3]
    seq.insert(0, OTHER)
    seq.append(OTHER)
    assert_holds(seq, [OTHER, *model, OTHER])


def test_growing_and_shrinking_from_both_ends():
    seq, model = numbered()
    for value in range(300):
        tensor = tensors(value)[0]
        position = (0, len(model))[value % 2]
        seq.insert(position, tensor)
        model.insert(position, tensor)
    while model:
        assert np.array_equal(seq.pop(len(model) % 2 - 1), model.pop(len(model) % 2 - 1))
    assert_holds(seq, [])
    seq.append(NEW)
    assert_holds(seq, [NEW])
