"""Padding values, `out`, errors of to_padded, and the way back by from_padded."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import LAYOUTS, NAMES, assert_holds, dtype_of, filled, laid_out, names, same, unedited
from test_padding import SIDES, assert_pads, padded, ragged

from seqcore import TensorSequence, split_to_sequence

# --- padding values ---

FITTING = [
    ("float32", np.nan),
    ("float64", np.inf),
    ("float16", -1),
    ("float32", np.float32(0.5)),
    ("float32", 1),
    ("int32", -1),
    ("int8", -128),
    ("int8", np.int8(7)),
    ("uint8", 255),
    ("uint64", 2**64 - 1),
    ("int64", np.int64(-5)),
    ("bool", True),
    ("bool", np.False_),
    ("complex64", 1j),
    ("complex128", 2.5),
    ("bfloat16", ml_dtypes.bfloat16(np.nan)),
    ("bfloat16", -1),
    ("bfloat16", ml_dtypes.bfloat16(1.5)),
    ("string", "<pad>"),
    ("string", ""),
]


@SIDES
@pytest.mark.parametrize(("name", "value"), FITTING)
def test_values_that_fit(name, value, side):
    assert_pads(ragged(name, [2, 0, 3], (2,)), value, side=side)
    assert_pads(TensorSequence([filled(name, (2, 1)), filled(name, (1, 2))]), value, side=side, shape=3)


UNFITTING = [
    ("int32", np.nan),
    ("int32", 1.5),
    ("int8", 300),
    ("uint8", -1),
    ("uint64", 2**64),
    ("int64", 2**63),
    ("float32", 1j),
    ("float32", 1e300),
    ("float32", "0"),
    ("string", 1),
    ("string", b"x"),
    ("string", 1.5),
    ("bool", 0.5),
    ("bool", "True"),
    ("int32", None),
    ("float64", None),
    ("string", None),
    ("int32", "1"),
    ("int32", np.datetime64("2020-01-01")),
    ("int32", {}),
]


@pytest.mark.parametrize(("name", "value"), UNFITTING)
def test_values_that_do_not_fit(name, value):
    seq = ragged(name, [2, 0, 3])
    out = filled(name, (3, 3), 50)
    kept = out.copy()
    for options in ({}, {"out": out}):
        with unedited(seq), pytest.raises((TypeError, OverflowError)):
            seq.to_padded(value, **options)
    assert same(out, kept)


@pytest.mark.parametrize(
    "value",
    [np.array([1, 2], "int32"), [1, 2], np.zeros((1, 1), "int32"), []],
)
def test_a_value_is_a_number(value):
    with pytest.raises((TypeError, ValueError)):
        ragged("int32", [2, 0, 3]).to_padded(value)


# --- out ---


@SIDES
@pytest.mark.parametrize(
    "layout", ["plain", "fortran", "transposed", "strided", "reversed", "offset", "unaligned"]
)
@pytest.mark.parametrize("name", NAMES)
def test_out_of_each_layout(name, layout, side):
    seq = ragged(name, [2, 0, 4], (3,))
    expected, expected_mask = padded([*seq], side=side)
    out = laid_out(filled(name, expected.shape, 50), layout)
    assert seq.to_padded(side=side, out=out) is out
    assert same(out, expected)
    found, mask = seq.to_padded(side=side, out=out, return_mask=True)
    assert found is out
    assert same(mask, expected_mask)


def test_what_lies_around_a_strided_out_stays():
    room = np.full((8, 9), 77, "int32")
    ragged("int32", [2, 0, 4]).to_padded(out=room[1:7:2, 1:9:2])
    kept = np.ones_like(room, bool)
    kept[1:7:2, 1:9:2] = False
    assert (room[kept] == 77).all()


@SIDES
@pytest.mark.parametrize("start", [0, 1, 2, 5])
@pytest.mark.parametrize("back", [False, True])
def test_out_overlapping_the_elements(side, start, back):
    room = np.arange(1, 41, dtype="int32")
    source = room[start : start + 12]
    if back:
        source = source[::-1]
    for lengths in ([3, 4, 5], [5, 0, 4, 3]):
        room[...] = np.arange(1, 41)
        seq = split_to_sequence(source, lengths)
        expected, _ = padded([np.array(one) for one in seq], side=side)
        out = room[: expected.size].reshape(expected.shape)
        assert np.shares_memory(out, room)
        assert seq.to_padded(side=side, out=out) is out
        assert same(out, expected)
        seq._check()


def test_out_that_is_the_elements_own_memory():
    table = np.arange(12.0).reshape(4, 3)
    seq = split_to_sequence(table, keepdims=0)[::-1]
    expected = table[::-1].copy()
    assert seq.to_padded(out=table) is table
    assert same(table, expected)


def test_out_that_does_not_fit():
    seq = ragged("int32", [2, 0, 4])
    frozen = np.full((3, 4), 7, "int32")
    frozen.flags.writeable = False
    cases = [
        (ValueError, np.full((3, 5), 7, "int32")),
        (ValueError, np.full((3, 3), 7, "int32")),
        (ValueError, np.full((4, 4), 7, "int32")),
        (ValueError, np.full((3, 4, 1), 7, "int32")),
        (ValueError, np.full(12, 7, "int32")),
        (TypeError, np.full((3, 4), 7, "int64")),
        (TypeError, np.full((3, 4), 7, "uint32")),
        (TypeError, np.full((3, 4), 7, "float32")),
        (TypeError, np.full((3, 4), 7, object)),
        (TypeError, [[7] * 4] * 3),
        (TypeError, "out"),
        (ValueError, frozen),
    ]
    for error, out in cases:
        kept = out.copy() if isinstance(out, np.ndarray) else out
        with unedited(seq), pytest.raises(error):
            seq.to_padded(out=out)
        assert np.array_equal(out, kept)


def test_any_error_leaves_out_as_it_was():
    seq = ragged("int32", [2, 0, 4])
    seq.append(np.zeros((1, 1), "int32"))
    out = np.full((4, 4), 7, "int32")
    with pytest.raises(ValueError, match=r"rank|shape|axes"):
        seq.to_padded(out=out)
    seq.pop()
    out = np.full((3, 3), 7, "int32")
    with pytest.raises(ValueError, match=r"\b2\b"):
        seq.to_padded(shape=3, out=out)
    assert (out == 7).all()
    seq._check()


# --- errors ---


@pytest.mark.parametrize("shapes", [[(2,), (2, 1)], [(), (1,)], [(1, 1), (1,)]])
def test_ranks_that_differ(shapes):
    seq = TensorSequence([filled("int32", shape) for shape in shapes])
    with unedited(seq), pytest.raises(ValueError, match=r"rank|shape|axes"):
        seq.to_padded()


@pytest.mark.parametrize(
    "options",
    [
        {"side": "middle"},
        {"side": ""},
        {"side": None},
        {"side": 1},
        {"shape": -1},
        {"shape": (-1, 2)},
        {"shape": (5,)},
        {"shape": (5, 2, 1)},
        {"shape": ()},
        {"shape": 5.0},
        {"shape": (5.0, 2)},
        {"shape": "5"},
        {"multiple_of": 0},
        {"multiple_of": -4},
        {"multiple_of": (4, 0)},
        {"multiple_of": (4,)},
        {"multiple_of": (4, 4, 4)},
        {"multiple_of": 2.0},
        {"multiple_of": "2"},
    ],
)
def test_options_that_make_no_sense(options):
    seq = ragged("int32", [2, 0, 4], (2,))
    out = np.full((3, 4, 2), 7, "int32")
    for all_options in (options, options | {"out": out}):
        with unedited(seq), pytest.raises((ValueError, TypeError)):
            seq.to_padded(**all_options)
    assert (out == 7).all()


@pytest.mark.parametrize("shape", [2**40, 2**62, 2**63, 2**70])
def test_batches_larger_than_memory(shape):
    seq = ragged("int64", [1, 2], (2**20,)) if shape == 2**40 else ragged("int64", [1, 2])
    with unedited(seq), pytest.raises((MemoryError, ValueError, OverflowError)):
        seq.to_padded(shape=shape)


@pytest.mark.parametrize("name", ["truncate", "return_mask", "copy"])
def test_flags_are_bools(name):
    make = TensorSequence if name == "copy" else TensorSequence([[1]]).to_padded
    with pytest.raises(TypeError, match=f"{name} must be a bool, got 'no'"):
        make(**{name: "no"})


def test_rows_without_items_take_no_time():
    assert TensorSequence([np.zeros((2**40, 0)), np.zeros((3, 0))]).to_padded().shape == (2, 2**40, 0)


@pytest.mark.parametrize("n", [0, 3])
def test_batches_larger_than_any_array(n):
    with pytest.raises(ValueError, match=f"{n} elements padded to .* would be larger than any array can be"):
        TensorSequence([np.zeros((1, 1))] * 3)[:n].to_padded(shape=(2**31, 2**31))


# --- from_padded ---


@SIDES
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("trailing", [(), (3,), (2, 2)])
def test_from_padded(name, trailing, side):
    batch, lengths = filled(name, (4, 5, *trailing)), [2, 0, 5, 3]
    seq = TensorSequence.from_padded(batch, lengths, side=side)
    rows = [row[:n] if side == "right" else row[5 - n :] for row, n in zip(batch, lengths, strict=True)]
    assert seq.dtype == dtype_of(name)
    assert_holds(seq, rows)
    for dtype in ("int8", "int32", "int64", "uint64"):
        assert TensorSequence.from_padded(batch, np.array(lengths, dtype), side=side) == seq
    if name != "string":
        assert all(np.shares_memory(one, batch) for one in seq if one.size)


@SIDES
@pytest.mark.parametrize("layout", [layout for layout in LAYOUTS if layout != "broadcast"])
def test_from_padded_of_each_layout(layout, side):
    batch = laid_out(filled("float32", (4, 5, 2)), layout)
    seq = TensorSequence.from_padded(batch, [2, 0, 5, 3], side=side)
    assert_holds(
        seq, [r[:n] if side == "right" else r[5 - n :] for r, n in zip(batch, [2, 0, 5, 3], strict=True)]
    )
    assert np.shares_memory(seq[2], batch)
    batch[2] = -1
    assert (seq[2] == -1).all()


@SIDES
@pytest.mark.parametrize("lengths", [[2, 6], [-1, 2], [2, 2**40], [2], [2, 2, 2], []])
def test_from_padded_of_other_lengths(lengths, side):
    batch = np.zeros((2, 5))
    for numbers in (lengths, np.array(lengths, np.int64)):
        with pytest.raises(ValueError, match=r"\d"):
            TensorSequence.from_padded(batch, numbers, side=side)


def test_from_padded_errors():
    batch = np.zeros((2, 5))
    for wrong in (np.zeros(5), np.array(1.0), 3):
        with pytest.raises(ValueError, match=r"rank|axes"):
            TensorSequence.from_padded(wrong, [1, 2])
    for wrong in (
        [1.0, 2.0],
        np.array([1.0, 2.0]),
        ["1", "2"],
        None,
        [None, 1],
        np.ones((2, 4), bool),
        np.ones((2, 5)),
    ):
        with pytest.raises((TypeError, ValueError)):
            TensorSequence.from_padded(batch, wrong)
    for wrong in ([[1, 2]], np.array([[1], [2]]), np.array(2), np.array([2**64 - 1, 0], np.uint64)):
        with pytest.raises((TypeError, ValueError, OverflowError)):
            TensorSequence.from_padded(batch, wrong)
    for wrong in ("middle", None, 1):
        with pytest.raises((TypeError, ValueError)):
            TensorSequence.from_padded(batch, [1, 2], side=wrong)


def test_lengths_are_not_kept():
    batch, lengths = np.arange(10).reshape(2, 5), np.array([2, 3])
    seq = TensorSequence.from_padded(batch, lengths)
    lengths[...] = 0
    assert seq.shapes == [(2,), (3,)]


@given(
    name=names,
    lengths=st.lists(st.integers(0, 4), max_size=6),
    trailing=st.lists(st.integers(0, 3), max_size=2),
    side=st.sampled_from(["right", "left"]),
    room=st.integers(0, 3),
)
def test_there_and_back(name, lengths, trailing, side, room):
    seq = split_to_sequence(filled(name, (sum(lengths), *trailing)), lengths)
    shape = (max(lengths, default=0) + room, *trailing)
    batch, mask = seq.to_padded(side=side, shape=shape, return_mask=True)
    assert TensorSequence.from_padded(batch, seq.lengths(), side=side) == seq
    assert TensorSequence.from_padded(batch, mask.sum(1), side=side) == seq
    if lengths:
        assert np.array_equal(batch[mask], seq.values())


@pytest.mark.parametrize("name", ["shape", "multiple_of"])
def test_numbers_have_no_axis_to_pad(name):
    with pytest.raises(ValueError, match=rf"{name} is 3, but elements of rank 0 have no axis to pad"):
        TensorSequence([1, 2]).to_padded(**{name: 3})
