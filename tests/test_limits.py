"""At the limits of lengths, sizes, ranks and depths: right, or an error that says what is at fault.

Huge arrays are views that repeat one item, so nothing here takes the memory that its shapes speak of. What
takes minutes or gigabytes runs where the environment has SEQCORE_SLOW=1: see tests/hardening/README.md.
"""

import copy
import pickle

import numpy as np
import pytest
from strategies import assert_holds

import seqcore as sq
from seqcore import TensorSequence

# -- rank ------------------------------------------------------------------------------------------------

ONES = (1,) * 61
NUMBERS64 = np.arange(8, dtype="int16").reshape(*ONES, 2, 2, 2)
WORDS64 = np.array(list("abcdefgh"), object).reshape(*ONES, 2, 2, 2)


@pytest.mark.parametrize("array", [NUMBERS64, WORDS64, NUMBERS64.T], ids=["numbers", "strings", "transposed"])
def test_rank_64_is_as_any_other(array):
    part = array[..., :1] if array.shape[-1] > 1 else array[:1]
    seq = TensorSequence([array, part])
    seq.insert(1, array)
    model = [array, array, part]
    assert_holds(seq, model)
    assert array in seq
    assert seq.index(part) == 2
    assert seq.count(array) == 2
    for other in (seq.copy(), copy.deepcopy(seq), seq[::-1][::-1], TensorSequence(seq, copy=True)):
        assert other == seq
        other.compact()
        assert_holds(other, model)
    assert_holds(sq.sequence_map(lambda tensor: tensor, seq), model)
    axis = -1 if array.shape[-1] > 1 else 0
    np.testing.assert_array_equal(sq.concat_from_sequence(seq, axis), np.concatenate(model, axis))
    np.testing.assert_array_equal(sq.concat_from_sequence(seq[:2], 0), np.concatenate(model[:2], 0))


@pytest.mark.parametrize("array", [NUMBERS64, WORDS64], ids=["numbers", "strings"])
@pytest.mark.parametrize("axis", [0, 61, 63, -1, -64])
def test_rank_64_is_split_and_joined(array, axis):
    n = array.shape[axis]
    assert_holds(sq.split_to_sequence(array, axis=axis), np.split(array, n, axis))
    pieces = sq.split_to_sequence(array, axis=axis, keepdims=0)
    assert_holds(pieces, [array.take(i, axis) for i in range(n)])
    np.testing.assert_array_equal(sq.concat_from_sequence(pieces, axis, new_axis=1), array)


def test_rank_64_is_pickled():
    for seq in (TensorSequence([NUMBERS64] * 2), sq.split_to_sequence(NUMBERS64, axis=-1, keepdims=0)):
        assert pickle.loads(pickle.dumps(seq)) == seq


def test_strings_of_more_than_32_axes_are_pickled_no_more_than_numpy_pickles_them():
    with pytest.raises(RuntimeError, match="32 dimensions"):
        pickle.dumps(WORDS64)
    with pytest.raises(RuntimeError, match="32 dimensions"):
        pickle.dumps(TensorSequence([WORDS64]))


@pytest.mark.parametrize("axis", [0, 64, -1, -65])
def test_rank_65_is_an_error_that_says_so(axis):
    with pytest.raises(ValueError, match="at most 64 axes: tensors of rank 64 can't be joined along a new"):
        sq.concat_from_sequence([NUMBERS64, NUMBERS64], axis, new_axis=1)


@pytest.mark.parametrize("axis", [65, -66, 2**31, -(2**63), 10**30])
def test_axes_beyond_rank_64_are_errors(axis):
    with pytest.raises(ValueError, match=f"axis {axis} is out of range"):
        sq.concat_from_sequence([NUMBERS64, NUMBERS64], axis, new_axis=1)
    with pytest.raises(ValueError, match=f"axis {axis} is out of range .*-64 to 63"):
        sq.split_to_sequence(NUMBERS64, axis=axis)


@pytest.mark.parametrize(
    "array", [NUMBERS64, WORDS64, NUMBERS64[:, 0, :0]], ids=["numbers", "strings", "none"]
)
def test_rank_64_shows_itself(array):
    seq = TensorSequence([array])
    assert str(array.shape) in repr(seq)
    shown = seq._repr_html_()
    assert str(array.shape) in shown
    assert " ".join(map(str, array.reshape(-1)[:4].tolist())) in shown.replace("&#x27;", "")


@pytest.mark.parametrize("count", [1, 3, 40])
@pytest.mark.parametrize("array", [NUMBERS64, WORDS64], ids=["numbers", "strings"])
def test_rank_64_goes_through_protos(array, count):
    onnx = pytest.importorskip("seqcore.onnx")
    seq = TensorSequence([array] * count)
    for more in ([], [array[..., :1]], [array.reshape(8)]):
        seq.extend(more)
        assert onnx.from_proto(onnx.to_proto(seq)) == seq


def nested(depth, leaf):
    for _ in range(depth):
        leaf = [leaf]
    return leaf


@pytest.mark.parametrize("leaf", [1.5, "x"])
def test_lists_64_deep_are_tensors(leaf):
    (shape,) = TensorSequence([nested(64, leaf)]).shapes
    assert shape == (1,) * 64


@pytest.mark.parametrize("depth", [65, 500, 100_000])
@pytest.mark.parametrize("leaf", [1.5, "x"])
def test_deeper_lists_are_errors_that_say_so(depth, leaf):
    seq = TensorSequence([leaf])
    for attempt in (seq.append, lambda value: TensorSequence([value])):
        with pytest.raises(ValueError, match="nested more than 64 deep"):
            attempt(nested(depth, leaf))
    assert nested(depth, leaf) not in seq
    assert len(seq) == 1


def test_a_list_within_itself_is_an_error():
    endless = []
    endless.append(endless)
    with pytest.raises(ValueError, match="nested more than 64 deep"):
        TensorSequence([endless])
