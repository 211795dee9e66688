"""to_padded, held against a model of a few lines: sides, shapes, multiples, masks and element types."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.random_cases import examples
from support.strategies import LAYOUTS, NAMES, assert_holds, dtype_of, filled, laid_out, names, same, unedited

from seqcore import TensorSequence, split_to_sequence

SIDES = pytest.mark.parametrize("side", ["right", "left"])


def default_padding(dtype):
    return "" if dtype.hasobject else np.zeros((), dtype)[()]


def target_shape(tensors, shape=None, multiple_of=None):
    """The extents of the batch behind its first axis, for tensors of one rank."""
    rank = tensors[0].ndim
    longest = [max(t.shape[k] for t in tensors) for k in range(rank)]
    differs = [k == 0 or len({t.shape[k] for t in tensors}) > 1 for k in range(rank)]
    if shape is not None:
        shape = (shape, *[None] * (rank - 1)) if isinstance(shape, int) else shape
        longest = [n if given is None else given for n, given in zip(longest, shape, strict=True)]
    if multiple_of is not None:
        if isinstance(multiple_of, int):
            multiple_of = [multiple_of if one else 1 for one in differs]
        longest = [-(-n // m) * m for n, m in zip(longest, multiple_of, strict=True)]
    return tuple(longest)


def padded(tensors, padding_value=None, side="right", shape=None, multiple_of=None):
    """The batch and its mask; what is longer is cut at its end."""
    dtype = tensors[0].dtype
    extents = target_shape(tensors, shape, multiple_of)
    value = default_padding(dtype) if padding_value is None else padding_value
    batch = np.full((len(tensors), *extents), value, dtype)
    mask = np.zeros((len(tensors), *extents[:1]), bool)
    for i, tensor in enumerate(tensors):
        tensor = tensor[(*(slice(0, n) for n in extents), ...)]
        where = tuple(
            slice(0, n) if side == "right" else slice(room - n, room)
            for n, room in zip(tensor.shape, extents, strict=True)
        )
        batch[(i, *where)] = tensor
        mask[(i, *where[:1])] = True
    return batch, mask


def assert_pads(seq, padding_value=None, truncate=False, **options):
    """What to_padded gives is what the model does, with and without a mask and an out."""
    tensors = [np.array(one) for one in seq]
    expected, expected_mask = padded(tensors, padding_value, **options)
    more = options if padding_value is None else {**options, "padding_value": padding_value}
    with unedited(seq):
        found = seq.to_padded(truncate=truncate, **more)
        assert same_or_nan(found, expected)
        assert found.flags.writeable
        assert not any(np.shares_memory(found, one) for one in seq)
        if expected.ndim > 1:
            found, mask = seq.to_padded(truncate=truncate, return_mask=True, **more)
            assert same_or_nan(found, expected)
            assert same(mask, expected_mask)
        name = "string" if expected.dtype == object else expected.dtype.name
        out = np.full(expected.shape, filled(name, 1)[0], expected.dtype)
        assert seq.to_padded(truncate=truncate, out=out, **more) is out
        assert same_or_nan(out, expected)


def same_or_nan(found, expected):
    assert type(found) is np.ndarray
    if expected.dtype.kind in "fcV" and expected.dtype != object:
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        return bool(np.all((found == expected) | ((found != found) & (expected != expected))))
    return same(found, expected)


def ragged(name, lengths, trailing=()):
    values = filled(name, (sum(lengths), *trailing), start=1)
    return split_to_sequence(values, lengths)


# --- one axis ---


@SIDES
@pytest.mark.parametrize("trailing", [(), (3,), (2, 2), (1, 2, 2), (0,)])
@pytest.mark.parametrize("name", NAMES)
def test_each_type_and_rank(name, trailing, side):
    assert_pads(ragged(name, [2, 0, 5, 1, 5], trailing), side=side)


@SIDES
@pytest.mark.parametrize("name", NAMES)
def test_rank_0_is_stacked(name, side):
    seq = TensorSequence([filled(name, (), i) for i in range(1, 5)])
    assert_pads(seq, side=side)
    assert seq.to_padded().shape == (4,)


# --- several axes ---


@SIDES
@pytest.mark.parametrize("name", ["int32", "string", "bool", "complex64", "bfloat16"])
@pytest.mark.parametrize(
    "shapes",
    [
        [(2, 3), (3, 2)],
        [(2, 3), (2, 1), (2, 0)],
        [(0, 3), (4, 0)],
        [(1, 2, 3), (2, 2, 1), (3, 2, 2)],
        [(1, 2, 1, 3), (2, 1, 2, 1)],
        [(2, 2), (2, 2)],
    ],
)
def test_several_axes(shapes, name, side):
    seq = TensorSequence([filled(name, shape, 10 * i) for i, shape in enumerate(shapes)])
    assert_pads(seq, side=side)
    assert_pads(seq, side=side, shape=6)
    assert_pads(seq, side=side, shape=(6, *[None] * (len(shapes[0]) - 1)))
    assert_pads(seq, side=side, shape=(None, *[5] * (len(shapes[0]) - 1)))
    assert_pads(seq, side=side, shape=(4,) * len(shapes[0]))
    assert_pads(seq, side=side, shape=(1,) * len(shapes[0]), truncate=True)
    assert_pads(seq, side=side, shape=(3, *[2] * (len(shapes[0]) - 1)), truncate=True)
    assert_pads(seq, side=side, multiple_of=4)
    assert_pads(seq, side=side, multiple_of=(2, *[3] * (len(shapes[0]) - 1)))
    assert_pads(seq, side=side, multiple_of=1)


def test_numpy_integers():
    seq = ragged("int8", [3, 5], (2,))
    assert seq.to_padded(multiple_of=np.int64(4)).shape == (2, 8, 2)
    assert seq.to_padded(shape=np.int64(6)).shape == (2, 6, 2)
    assert seq.to_padded(shape=(np.int32(6), np.uint8(3))).shape == (2, 6, 3)


# --- cutting ---


def test_truncate_alone_cuts_nothing():
    assert_pads(ragged("int16", [2, 0, 5]), truncate=True)
    assert_pads(ragged("int16", [2, 0, 5]), truncate=True, multiple_of=3)


@pytest.mark.parametrize("shape", [3, (3,), 0])
def test_longer_than_shape_names_the_element(shape):
    seq = ragged("int32", [2, 3 if shape else 0, 5, 4])
    seq[0] = np.zeros(0, "int32")
    with unedited(seq), pytest.raises(ValueError, match=r"\b2\b"):
        seq.to_padded(shape=shape)


def test_longer_than_shape_in_another_axis():
    seq = TensorSequence([np.zeros((1, 1)), np.zeros((1, 2)), np.zeros((2, 1))])
    with pytest.raises(ValueError, match=r"\b1\b"):
        seq.to_padded(shape=(5, 1))
    assert seq.to_padded(shape=(5, 1), truncate=True).shape == (3, 5, 1)


# --- nothing ---


@pytest.mark.parametrize("name", NAMES)
def test_no_elements(name):
    seq = TensorSequence(dtype=name)
    assert same(seq.to_padded(), np.zeros((0, 0), dtype_of(name)))
    assert same(seq.to_padded(shape=5), np.zeros((0, 5), dtype_of(name)))
    assert same(seq.to_padded(shape=(5, 3)), np.zeros((0, 5, 3), dtype_of(name)))
    assert same(seq.to_padded(side="left", multiple_of=4), np.zeros((0, 0), dtype_of(name)))
    batch, mask = seq.to_padded(shape=5, return_mask=True)
    assert same(batch, np.zeros((0, 5), dtype_of(name)))
    assert same(mask, np.zeros((0, 5), bool))
    out = np.zeros((0, 5), dtype_of(name))
    assert seq.to_padded(shape=5, out=out) is out


# --- sources ---


@SIDES
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", ["int16", "string", "complex128"])
def test_sources_of_each_layout(name, layout, side):
    table = laid_out(filled(name, (4, 6, 2)), layout)
    for seq in (
        split_to_sequence(table, [1, len(table) - 1]),
        split_to_sequence(table, [table.shape[1] - 3, 0, 3], axis=1),
        split_to_sequence(table, 4, axis=-1),
        split_to_sequence(table, axis=1, keepdims=0),
        TensorSequence([table, table[::-1, 1:], table[:0]]),
    ):
        seq.reverse()
        assert_pads(seq, side=side)
        assert_pads(seq, side=side, shape=2, truncate=True)


# --- any ---


@settings(max_examples=examples(150))
@given(data=st.data(), name=names, rank=st.integers(0, 4), side=st.sampled_from(["right", "left"]))
def test_any_sequence(data, name, rank, side):
    extents = st.tuples(*[st.integers(0, 4)] * rank)
    layouts = st.sampled_from([layout for layout in LAYOUTS if layout != "broadcast"])
    shapes = data.draw(st.lists(st.tuples(extents, layouts), min_size=1, max_size=5))
    tensors = [laid_out(filled(name, shape, i), layout) for i, (shape, layout) in enumerate(shapes)]
    seq = TensorSequence(tensors)
    assert_holds(seq, tensors)
    assert_pads(seq, side=side)
    if rank:
        extent = st.none() | st.integers(0, 6)
        shape = data.draw(st.integers(0, 6) | st.tuples(*[extent] * rank))
        assert_pads(seq, side=side, shape=shape, truncate=True)
        multiple = st.integers(1, 4)
        assert_pads(seq, side=side, multiple_of=data.draw(multiple | st.tuples(*[multiple] * rank)))
