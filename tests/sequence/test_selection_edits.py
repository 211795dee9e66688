"""Assignment and del by indices and masks: what they change, and what leaves all as it was."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import assert_holds
from test_selection import NEW, OTHER, THIRD, Unchanged, kinds, mixed, rows, whole

from seqcore import TensorSequence

# --- assignment ---


def test_repeated_indices_keep_the_last():
    seq, model = rows()
    seq[[1, -4, 1]] = [NEW, OTHER, THIRD]
    assert_holds(seq, [model[0], THIRD, *model[2:]])
    seq[np.array([0] * 1000, np.uint8)] = [NEW] * 999 + [OTHER]
    assert_holds(seq, [OTHER, THIRD, *model[2:]])


@kinds
def test_another_type_is_a_type_error(make):
    seq, _ = make()
    for where in ([0, 3], np.array([0, 3]), [True, False, False, True, False]):
        for wrong in (np.zeros(2, "int64"), np.zeros(2, "float32"), "text", None, 1.5, b"x"):
            with Unchanged(seq), pytest.raises(TypeError):
                seq[where] = [NEW, wrong]
        with Unchanged(seq), pytest.raises(TypeError, match=r"(?s)(?=.*\bint32)(?=.*uint8)"):
            seq[where] = TensorSequence([np.zeros(2, "uint8")] * 2)


@pytest.mark.parametrize("value", [5, None, 1.5, "ab", np.zeros((2, 3), "int32")], ids=repr)
def test_assignment_takes_iterables_of_tensors_only(value):
    seq, _ = whole()
    with Unchanged(seq), pytest.raises(TypeError):
        seq[[0, 1]] = value


def test_python_values_are_converted_where_they_fit():
    seq, model = whole()
    seq[[0, 4]] = [[1, 2], 3]
    assert_holds(seq, [np.array([1, 2], "int32"), *model[1:4], np.array(3, "int32")])
    with Unchanged(seq), pytest.raises(OverflowError):
        seq[[0, 4]] = [1, 2**40]


def test_an_iterable_that_fails_changes_nothing():
    def failing():
        yield NEW
        raise KeyError("mine")

    seq, _ = mixed()
    with Unchanged(seq), pytest.raises(KeyError, match="mine"):
        seq[[0, 1, 2]] = failing()


def test_what_is_put_in_is_shared_and_strings_are_copied():
    seq, _ = whole()
    source = np.arange(6, dtype="int32").reshape(2, 3)
    seq[[3, 1]] = list(source)
    assert np.shares_memory(seq[3], source[0])
    source[1] = 9
    assert (seq[1] == 9).all()
    words = TensorSequence([["a", "b"], ["c"]])
    new = np.array(["x"], object)
    words[[0]] = [new]
    new[0] = "y"
    assert_holds(words, [np.array(["x"], object), np.array(["c"], object)])


# --- on itself ---


@kinds
@given(order=st.permutations(range(5)))
def test_a_permutation_of_itself(make, order):
    seq, model = make()
    expected = [None] * 5
    for i, tensor in zip(order, model, strict=True):
        expected[i] = tensor
    with_array = seq.copy()
    seq[order] = seq
    assert_holds(seq, expected)
    with_array[np.array(order)] = iter(with_array.copy())
    assert_holds(with_array, expected)
    seq[[True] * 5] = seq[[4, 3, 2, 1, 0]]
    assert_holds(seq, expected[::-1])


def test_more_of_itself_than_is_selected():
    seq, _ = whole()
    with Unchanged(seq), pytest.raises(ValueError, match="5"):
        seq[[0, 1]] = seq


# --- del ---


def test_del_of_all_keeps_the_type():
    for where in ([0, 1, 2, 3, 4], [True] * 5, np.ones(5, bool), np.arange(5) - 5, [4, 4, 3, 2, 1, 0]):
        seq, _ = mixed()
        del seq[where]
        assert_holds(seq, [])
        assert seq.dtype == np.int32
        seq.append(NEW)
        assert_holds(seq, [NEW])


def test_del_lets_memory_go():
    seq = TensorSequence([np.zeros(1000), np.zeros(10), np.zeros(2000)])
    kept = seq[[1]]
    assert kept.pinned_nbytes == 80
    del seq[[0, 2]]
    assert (seq.nbytes, seq.pinned_nbytes) == (80, 80)
