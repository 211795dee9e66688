"""Rows of each element, over mixtures of sources, layouts and histories: what slices of each array give."""

import re
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.mixtures import mixtures
from support.results import same
from support.strategies import NUMERIC_NAMES, filled
from support.surface import SEQUENCES, all_windows, made, window_ids

from seqcore import TensorSequence, split_to_sequence

SIZES = st.sampled_from([1, 2, 3, 7, 2**40])
UFUNCS = (
    *(np.add, np.multiply, np.subtract, np.maximum, np.fmin, np.hypot, np.logical_and, np.logical_xor),
    *(np.bitwise_or, np.power, np.gcd, np.left_shift, np.true_divide, np.floor_divide, np.arctan2, np.equal),
)


def has_rows(model):
    return all(t.ndim for t in model)


@given(mixtures(), SIZES, st.none() | SIZES, st.booleans())
def test_windows_are_slices(mixture, size, step, partial):
    seq, model = mixture
    if not has_rows(model):
        with pytest.raises(ValueError, match="has rank 0 and so no rows"):
            seq.windows(size, step)
        return
    found, ids = seq.windows(size, step, partial=partial, return_ids=True)
    found._check()
    assert same(found, all_windows(model, size, step, partial))
    assert same(ids, window_ids(model, size, step, partial))
    assert same(seq, model)


@given(mixtures(), st.sampled_from([0, *range(1, 5), 2**70]))
def test_truncated_elements_are_slices(mixture, size):
    seq, model = mixture
    if not has_rows(model):
        return
    assert same(seq.truncate(size), [t[:size] for t in model])
    assert same(seq.truncate(size, side="left"), [t[max(len(t) - size, 0) :] for t in model])


def test_few_views_of_elements_that_share_no_table():
    """A table for each array takes 600 bytes, and eight times as long as its slice."""
    arrays = TensorSequence([np.arange(5.0) for _ in range(2000)])
    columns = split_to_sequence(np.ones((5, 2000)), axis=1)  # whose rows are apart
    tracemalloc.start()
    try:
        for seq in (arrays, columns, columns[::-1]):
            for cut, views in ((lambda seq: seq.truncate(2), 2000), (lambda seq: seq.windows(3), 4000)):
                before = tracemalloc.get_traced_memory()[0]
                found = cut(seq)
                assert (tracemalloc.get_traced_memory()[0] - before) / views < 250
                assert len(found) == views
    finally:
        tracemalloc.stop()
    one = TensorSequence([np.arange(1e5)])
    assert (one.windows(1).values() == one[0]).all()
    assert np.shares_memory(one.windows(1).values(), one[0])


@given(mixtures())
def test_lists_are_those_of_each_array(mixture):
    seq, model = mixture
    assert repr(seq.tolist()) == repr([t.tolist() for t in model])  # with the types, and NaN


@given(mixtures(one_rank=True), st.integers(-4, 3))
def test_rows_are_those_of_each_array(mixture, position):
    seq, model = mixture
    if not model:
        assert seq.take_rows(position).shape == (0,)
    elif len({t.shape[1:] for t in model}) > 1:
        first = re.escape(str(model[0].shape))
        k = next(k for k, t in enumerate(model) if t.shape[1:] != model[0].shape[1:])
        wrong = rf"element {k} has shape .*, but element 0 has shape {first}: rows of different|no row"
        with pytest.raises(ValueError, match=wrong):
            seq.take_rows(position, empty=model[0].dtype.type(0) if model[0].dtype != object else "")
    else:
        fits = [-len(t) <= position < len(t) for t in model]
        zero = "" if model[0].dtype == object else 0
        wanted = [
            t[position] if fit else np.full(t.shape[1:], zero, t.dtype)
            for t, fit in zip(model, fits, strict=True)
        ]
        assert same(seq.take_rows(position, empty=zero), np.stack(wanted))
        if not all(fits):
            with pytest.raises(IndexError, match=f"element {fits.index(False)} has shape"):
                seq.take_rows(position)


def test_the_first_row_of_another_shape_is_named():
    with pytest.raises(ValueError, match="element 2 has shape"):
        split_to_sequence(np.zeros((2, 9)), [2, 2, 5], axis=1).take_rows(0)


@pytest.mark.parametrize("position", [2**31, 2**62, 2**63 - 1, -(2**62), -(2**63), 2**70, -(2**70)])
def test_rows_that_are_far_beyond_all_memory(position):
    values = np.arange(6)
    for seq in (
        TensorSequence.from_lengths(values, [1, 2, 3]),
        split_to_sequence(values, 2),
        TensorSequence([values]),
        TensorSequence.from_lengths(values, [1, 2, 3])[[2, 0]],
    ):
        with pytest.raises(IndexError, match=f"element 0 has shape .* and so no row {position}:"):
            seq.take_rows(position)
        assert seq.take_rows(position, empty=7).tolist() == [7] * len(seq)


def row_by_row(ufunc, array, dtype):
    """What a ufunc accumulates if its loop goes along rows; NumPy rounds some otherwise if it goes down."""
    rows = [*array.astype(dtype)]
    for k in range(1, len(rows)):
        rows[k] = ufunc(rows[k - 1], rows[k])
    return np.array(rows, dtype).reshape(array.shape)


@given(mixtures(st.sampled_from(NUMERIC_NAMES)), st.sampled_from(UFUNCS), st.none() | st.just("float64"))
def test_running_results_are_numpys(mixture, ufunc, dtype):
    seq, model = mixture
    # NumPy doesn't look for a loop if there are no numbers, and warns of complex ones that become real.
    if not has_rows(model) or not sum(t.size for t in model) or (dtype and seq.dtype.kind == "c"):
        return
    with np.errstate(all="ignore"):
        try:
            wanted = [ufunc.accumulate(t, 0, dtype) for t in model]
        except (TypeError, ValueError) as error:
            with pytest.raises(TypeError if isinstance(error, TypeError) else ValueError):
                seq.accumulate(ufunc, dtype=dtype)
            return
        found = seq.accumulate(ufunc, dtype=dtype)
        found._check()
        assert len(found) == len(wanted)
        for one, other, given in zip(found, wanted, model, strict=True):
            is_rounded = other.dtype.kind in "fc"
            assert same(one, other) or (is_rounded and same(one, row_by_row(ufunc, given, other.dtype)))


@pytest.mark.parametrize("ufunc", [np.add, np.maximum])
def test_running_results_of_a_type_that_numpy_has_no_loop_for(ufunc):
    model = [filled("bfloat16", (n, 2), start=n) for n in (3, 0, 1, 5)]
    assert same(TensorSequence(model).accumulate(ufunc), [ufunc.accumulate(t, 0) for t in model])


@pytest.mark.parametrize("dtype", [object, "string", str])
@pytest.mark.parametrize("n", [2, 5000])
def test_running_results_are_numbers(dtype, n):
    with pytest.raises(TypeError, match="dtype must be of numbers"):
        TensorSequence([[1.0, 2.0]] * n).accumulate(np.add, dtype=dtype)


@pytest.mark.parametrize("number", [-(2**63) - 1, 2**63, 2**70])
def test_positions_beyond_all_integers(number):
    seq = TensorSequence([[1], [2]])
    assert seq.position_ids(start=-(2**63)).tolist() == [-(2**63)] * 2
    for start, name in ((number, "start"), ([0, number], r"start\[1\]")):
        with pytest.raises(OverflowError, match=f"{name} is {number}, which does not fit"):
            seq.position_ids(start=start)


@given(mixtures(one_rank=True), st.integers(-(2**40), 2**40))
def test_positions_count_from_the_start(mixture, start):
    seq, model = mixture
    starts = np.arange(len(model)) * 3 + start
    wanted = [np.arange(len(t)) + first for t, first in zip(model, starts, strict=True)]
    assert same(seq.position_ids(start=starts), np.concatenate([np.zeros(0, np.int64), *wanted]))
    assert same(seq.position_ids(start=start), seq.position_ids() + start)


@given(
    st.lists(st.integers(0, 5), max_size=70),
    st.sampled_from(["left", "right"]),
    st.sampled_from(["bool", "int64", "uint8", "list"]),
)
def test_a_mask_stands_for_lengths(lengths, side, kind):
    batch = np.arange(len(lengths) * 5 * 2).reshape(len(lengths), 5, 2)
    mask = np.arange(5) < np.array(lengths, int).reshape(-1, 1)
    mask = mask if side == "right" else mask[:, ::-1]
    given = mask.tolist() if kind == "list" and lengths else mask.astype("bool" if kind == "list" else kind)
    found = TensorSequence.from_padded(batch, given, side=side)
    assert found == TensorSequence.from_padded(batch, lengths, side=side)
    assert all(np.shares_memory(one, batch) for one in found if one.size)


@pytest.mark.parametrize("kind", SEQUENCES)
def test_views_share_the_memory_of_elements(kind):
    seq = made(kind)
    if not has_rows([*seq]):
        return
    for part, one in zip(seq.truncate(1), seq, strict=True):
        assert part.size == 0 or np.shares_memory(part, one)
        assert not part.flags.writeable


def test_an_element_in_a_loop_of_windows_outlives_the_sequence():
    seq = TensorSequence.from_lengths(np.arange(10), [4, 6])
    windows = seq.windows(3)
    del seq
    windows.pop(0)
    assert windows.tolist() == [[3], [4, 5, 6], [7, 8, 9]]
