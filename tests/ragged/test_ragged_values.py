"""values, lengths and offsets: what they hold, and where values are a view; from_offsets and from_lengths."""

import numpy as np
import pytest
from support.strategies import LAYOUTS, NAMES, dtype_of, filled, laid_out, same, unedited

from seqcore import TensorSequence, concat_from_sequence, split_to_sequence


def assert_values(seq, expected, shared=None):
    """The values are these: a view of `shared` where that is given."""
    before = seq.copy()
    values = seq.values()
    assert type(values) is np.ndarray
    assert not values.flags.writeable
    assert same(values, expected), (values, expected)
    assert values.dtype == seq.dtype
    if shared is not None and values.size:
        assert np.shares_memory(values, shared)
        with pytest.raises(ValueError, match="WRITEABLE"):
            values.flags.writeable = True
    seq._check()
    assert seq == before


# --- values that are a view ---


def test_a_view_shows_what_is_written_and_outlives_all():
    table = np.arange(10**5).reshape(-1, 2)
    seq = split_to_sequence(table)
    values = seq.values()
    table[7] = -1
    assert values[7].tolist() == [-1, -1]
    seq.clear()
    del seq, table
    np.zeros(10**5)
    assert values[7].tolist() == [-1, -1]
    assert values[-1].tolist() == [99998, 99999]


# --- values that are a copy, or may be ---


GAPS = {
    "a gap": lambda a: [a[:2], a[3:5]],
    "overlapping": lambda a: [a[:3], a[1:4]],
    "repeated": lambda a: [a[:2], a[:2]],
    "the second first": lambda a: [a[2:4], a[:2]],
    "backwards": lambda a: [a[i : i + 1] for i in reversed(range(10))],
    "a step": lambda a: [a[:4:2], a[4:8:2]],
    "two steps": lambda a: [a[:4:2], a[4:8]],
    "a step back": lambda a: [a[3:1:-1], a[1:0:-1]],
    "forth and back": lambda a: [a[:3], a[5:2:-1]],
    "other columns": lambda a: [a[:2, :2], a[2:4, 1:]],
    "columns": lambda a: [a[:2, 1:], a[2:4, 1:]],
    "columns backwards": lambda a: [a[:2, ::-1], a[2:4, ::-1]],
    "another array between": lambda a: [a[:2], a[6:8].copy(), a[2:4]],
    "nothing of another array between": lambda a: [a[:2], np.zeros((0, 3), a.dtype), a[2:4]],
    "nothing from elsewhere": lambda a: [a[:2], a[7:7], a[2:4]],
    "a copy of its own": lambda a: [a[:2], a[2:4].copy()],
    "only nothing": lambda a: [a[3:3], a[9:9], a[0:0]],
    "broadcast": lambda a: [np.broadcast_to(a[:1], (3, 3)), a[1:2]],
    "broadcast twice": lambda a: [np.broadcast_to(a[:1], (3, 3)), np.broadcast_to(a[:1], (2, 3))],
    "one row each way": lambda a: [a[:1], a[1:2][::-1]],
}


@pytest.mark.parametrize("name", ["int32", "string", "bfloat16"])
@pytest.mark.parametrize("kind", GAPS)
def test_what_does_not_lie_in_one_row(kind, name):
    table = filled(name, (10, 3))
    model = GAPS[kind](table)
    assert_values(TensorSequence(model), np.concatenate(model))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", ["float32", "string", "uint8"])
def test_sources_of_each_layout(name, layout):
    table = laid_out(filled(name, (6, 4)), layout)
    for seq in (
        split_to_sequence(table, 1),
        split_to_sequence(table, [len(table) - 1, 1]),
        split_to_sequence(table, axis=1),
        split_to_sequence(table, keepdims=0),
        split_to_sequence(table, axis=1, keepdims=0),
        split_to_sequence(table, axis=-1)[::-1],
    ):
        assert_values(seq, np.concatenate([np.array(one) for one in seq]))
        assert same(seq.values(), concat_from_sequence(seq, 0))


@pytest.mark.parametrize("name", NAMES)
def test_of_no_elements(name):
    for seq in (TensorSequence(dtype=name), split_to_sequence(filled(name, (4, 2)))[:0]):
        assert_values(seq, np.zeros(0, dtype_of(name)))
        assert same(seq.lengths(), np.zeros(0, np.int64))
        assert same(seq.offsets(), np.zeros(1, np.int64))
        assert same(seq.offsets("uint8"), np.zeros(1, np.uint8))


def test_values_of_unfitting_shapes():
    pairs = [((2,), ()), ((), (2,)), ((2, 3), (2, 4)), ((2,), (2, 1)), ((0, 3), (0, 4)), ((1, 2), (2,))]
    for shapes in pairs:
        seq = TensorSequence([filled("int32", shape) for shape in shapes])
        with unedited(seq), pytest.raises(ValueError, match="element 1 has shape"):
            seq.values()


# --- lengths and offsets ---


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16"])
def test_numbers_that_do_not_fit(dtype):
    most = int(np.iinfo(dtype).max)
    table = np.zeros(2 * most + 2, bool)
    fits = split_to_sequence(table, [most, most, 2])
    assert same(fits.lengths(dtype), np.array([most, most, 2], dtype))
    with pytest.raises(OverflowError):
        fits.offsets(dtype)
    with pytest.raises(OverflowError):
        split_to_sequence(table, [most + 1, most + 1]).lengths(dtype)
    assert same(split_to_sequence(table[:most], [1, most - 1]).offsets(dtype), np.array([0, 1, most], dtype))


def test_huge_lengths():
    seq = split_to_sequence(np.broadcast_to(np.int8(1), (2**62,)), 2**61)
    assert seq.lengths().tolist() == [2**61, 2**61]
    assert seq.offsets().tolist() == [0, 2**61, 2**62]
    with pytest.raises(OverflowError):
        seq.lengths(np.int32)
    with pytest.raises(OverflowError):
        (seq + seq).offsets()


@pytest.mark.parametrize(
    "dtype", [float, "float32", bool, complex, object, str, "M8[s]", "m8[s]", "S4", "no"]
)
def test_types_that_are_no_integers(dtype):
    for seq in (split_to_sequence(np.arange(4)), TensorSequence(dtype="int8")):
        with pytest.raises(TypeError):
            seq.lengths(dtype)
        with pytest.raises(TypeError):
            seq.offsets(dtype)


def test_rank_0_has_no_length():
    for shapes in ([()], [(2,), ()], [(), (2, 3)]):
        seq = TensorSequence([filled("int32", shape) for shape in shapes])
        for find in (seq.lengths, seq.offsets):
            with pytest.raises(ValueError, match="rank"):
                find()
