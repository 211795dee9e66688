"""Padding to another dtype: as `astype` and then padding, without a copy of all elements."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import NUMBER_NAMES, array_lists, dtype_of, filled, number_names, same

from seqcore import TensorSequence

pytestmark = pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")


def of_one_rank(arrays):
    return [array for array in arrays if array.ndim == arrays[0].ndim]


@given(array_lists(number_names), number_names, st.sampled_from(["left", "right"]), st.booleans())
def test_pads_as_after_a_conversion(arrays, name, side, truncate):
    seq = TensorSequence(of_one_rank(arrays))
    shape = [2] * seq[0].ndim if truncate else None
    options = {"side": side, "shape": shape, "truncate": truncate}
    batch = seq.to_padded(dtype=name, **options)
    assert same(batch, seq.astype(name).to_padded(**options))
    out = np.zeros_like(batch)
    assert seq.to_padded(dtype=name, out=out, **options) is out
    assert same(out, batch)


@pytest.mark.mostly_slow(3)
@pytest.mark.parametrize("name", NUMBER_NAMES)
def test_many_elements(name):
    lengths = np.random.default_rng(0).integers(0, 400, 3000)
    seq = TensorSequence.from_lengths(filled("int32", int(lengths.sum())), lengths)
    assert seq.nbytes > 4 << 18  # several times what is cast at once
    for one in (seq, seq[::-1], seq[np.random.default_rng(1).permutation(3000)]):
        batch, mask = one.to_padded(True, dtype=name, return_mask=True)
        plain, same_mask = one.to_padded(True, return_mask=True)
        assert same(batch, plain.astype(dtype_of(name)))
        assert np.array_equal(mask, same_mask)


def test_the_value_is_of_the_new_dtype():
    tokens = TensorSequence([np.arange(3, dtype=np.uint16), np.arange(1, dtype=np.uint16)])
    assert tokens.to_padded(-100, dtype=np.int64).tolist() == [[0, 1, 2], [0, -100, -100]]
    assert np.isnan(tokens.to_padded(np.nan, dtype="float32")[1, 2])
    with pytest.raises(OverflowError, match="padding_value is -100, which does not fit uint16"):
        tokens.to_padded(-100)
    with pytest.raises(TypeError, match=r"padding_value is 0\.5, which needs dtype float64"):
        tokens.to_padded(0.5, dtype="int64")


def test_the_same_memory_as_out():
    batch = np.arange(6).reshape(2, 3)
    seq = TensorSequence.from_padded(batch, [3, 1])
    seq.to_padded(-1, dtype=np.float64, out=batch.view(np.float64))
    assert batch.view(np.float64).tolist() == [[0, 1, 2], [3, -1, -1]]


def test_what_cannot_be_converted():
    words = TensorSequence([["a", "b"], ["c"]])
    assert words.to_padded("-", dtype="string").tolist() == [["a", "b"], ["c", "-"]]
    with pytest.raises(TypeError, match="dtype string can't be converted to int64"):
        words.to_padded(dtype="int64")
    with pytest.raises(TypeError, match="dtype int64 can't be converted to string"):
        TensorSequence([[1]]).to_padded(dtype=str)
    with pytest.raises(TypeError, match="out has dtype int64, expected int32"):
        TensorSequence([[1]]).to_padded(dtype="int32", out=np.zeros((1, 1), np.int64))
    assert TensorSequence(dtype="int8").to_padded(dtype="int64", shape=3).shape == (0, 3)
