"""Reductions, compared with NumPy's on each element."""

import builtins
import math
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from seqcore.core.store import counted
from support.strategies import (
    NUMERIC_NAMES,
    array_lists,
    dtype_of,
    filled,
    laid_out,
    number_names,
)

import seqcore as sq
from seqcore import TensorSequence

UFUNCS = [np.add, np.multiply, np.minimum, np.maximum, np.logical_or, np.logical_and]
FUNCTIONS = [np.sum, np.prod, np.mean, np.std, np.var, np.min, np.max, np.any, np.all, np.argmin, np.argmax]
OTHERS = [np.bitwise_xor, np.hypot, np.subtract, np.fmax, np.logaddexp]
MOMENTS = [np.mean, np.std, np.var]
PLACES = [np.argmin, np.argmax]
# Those functions that don't take what their ufuncs take.
AS_UFUNC = {np.any: np.logical_or, np.all: np.logical_and, np.min: np.minimum, np.max: np.maximum}

pytestmark = pytest.mark.filterwarnings("ignore:.*(overflow|invalid|divide).*:RuntimeWarning")


def of_numpy(how, element, axis, **options):
    """NumPy's result for an element."""
    call = how.reduce if isinstance(how, np.ufunc) else how
    if element.dtype.name == "bfloat16" and how in (
        *(np.add, np.sum, np.multiply, np.prod, np.mean, np.std, np.var),
    ):
        # ml_dtypes rounds after each number, we do once.
        return np.asarray(call(element.astype(np.float32), axis=axis, **options)).astype(element.dtype)
    return call(element, axis=axis, **options)


def assert_same(ours, theirs, how):
    """Compare to the last bit where rounding is known. Signs of zeros count, except in minima and maxima."""
    assert ours.dtype == theirs.dtype
    assert ours.shape == theirs.shape
    if ours.dtype.itemsize == 2 and ours.dtype.kind not in "iu":
        fine = np.isfinite(theirs.astype(np.float64)) & np.isfinite(ours.astype(np.float64))
        np.testing.assert_allclose(ours[fine].astype(float), theirs[fine].astype(float), rtol=5e-2, atol=1e-2)
        return
    if how in MOMENTS:  # where multiplication and addition are one instruction, the last bits differ
        np.testing.assert_allclose(ours, theirs, rtol=1e-6 if ours.dtype.itemsize < 8 else 1e-13)
        return
    if ours.dtype.kind == "c" and how in (np.multiply, np.prod):
        # NumPy may compute a product and a sum in one instruction.
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)
        return
    np.testing.assert_array_equal(ours, theirs)
    if ours.dtype.kind in "fc" and AS_UFUNC.get(how, how) not in (np.minimum, np.maximum, np.fmax):
        for part in ("real", "imag"):
            signs = [np.signbit(np.nan_to_num(getattr(array, part))) for array in (ours, theirs)]
            np.testing.assert_array_equal(*signs)


def check(seq, how, axis, **options):
    """Compare a reduction with the model, or its refusal with NumPy's."""
    arrays = list(seq)
    if axis is not None and any(array.ndim == 0 for array in arrays):
        with pytest.raises((TypeError, ValueError)):  # though NumPy lets a number have an axis 0
            seq.reduce(how, axis=axis, **options)
        return None
    try:
        with warnings.catch_warnings(action="ignore"):  # of the mean of nothing, which is NaN
            model = [of_numpy(how, array, axis, **options) for array in arrays]
        model = np.stack([np.asarray(one) for one in model])
    except (TypeError, ValueError) as error:
        if axis is not None and any(0 in np.delete(array.shape, axis % array.ndim) for array in arrays):
            return error  # NumPy looks for the least of nothing even where no result is asked for
        with pytest.raises((TypeError, ValueError)):
            seq.reduce(how, axis=axis, **options)
        return error
    if how in MOMENTS and any(array.size == 0 or 0 in array.shape for array in arrays):
        return None  # NumPy warns, and gives NaN
    ours = seq.reduce(how, axis=axis, **options)
    assert_same(ours, model, how)
    return None


@given(array_lists(number_names), st.sampled_from(UFUNCS + FUNCTIONS + OTHERS), st.data())
def test_as_numpy_on_each_element(arrays, how, data):
    seq = TensorSequence(arrays)
    axis = data.draw(st.sampled_from([None, 0, 1, -1]))
    check(seq, how, axis)
    alike = TensorSequence([array for array in arrays if array.shape == arrays[0].shape] * 2)
    check(alike[::-1], how, axis)


@pytest.mark.parametrize("layout", ["fortran", "transposed", "strided", "reversed", "broadcast", "unaligned"])
@pytest.mark.parametrize("name", ["float32", "int16", "complex128", "uint8"])
def test_elements_that_are_not_in_order(layout, name):
    seq = TensorSequence([laid_out(filled(name, (4, 3), start), layout) for start in (0, 5, 9)])
    for how in (np.add, np.mean, np.max if name != "complex128" else np.prod):
        for axis in (0, 1, -1, None):
            check(seq, how, axis)


@pytest.mark.parametrize("name", NUMERIC_NAMES)
@pytest.mark.parametrize("dtype", ["int8", "int64", "uint16", "float16", "float32", "float64", "complex64"])
def test_dtypes_to_compute_in(name, dtype):
    if dtype_of(name).kind == "c" and dtype_of(dtype).kind != "c":
        pytest.skip("a part of the number would be lost")
    times = 9.5 if dtype_of(name).kind == "f" and dtype != "int8" else 1  # more than 8 bits hold
    values = filled(name, 60) * dtype_of(name).type(times)
    seq = TensorSequence.from_lengths(values, [10, 20, 30])
    for how in (np.add, np.sum, np.multiply, np.maximum, np.mean, np.std):
        check(seq, how, 0, dtype=np.dtype(dtype))


@given(st.lists(st.integers(1, 3000), min_size=1, max_size=4), st.sampled_from(["float32", "float64"]))
def test_sums_are_numpys_to_the_last_bit(lengths, dtype):
    values = np.random.default_rng(len(lengths)).standard_normal(sum(lengths)).astype(dtype)
    seq = TensorSequence.from_lengths(values, lengths)
    assert seq.reduce(np.add).tolist() == [float(np.add.reduce(element)) for element in seq]
    assert seq.reduce(np.mean).tolist() == [float(np.mean(element)) for element in seq]
    pairs = TensorSequence.from_lengths(
        (values + 1j * values[::-1]).astype(np.result_type(dtype, np.complex64)), lengths
    )
    assert pairs.reduce(np.sum).tolist() == [complex(np.sum(element)) for element in pairs]


@pytest.mark.slow
@pytest.mark.parametrize("inner", [1, 3, 33])
def test_long_sums_are_accurate(inner):
    """One behind the other, they would be wrong in the fourth digit."""
    rows = np.random.default_rng(0).random((100_003, inner), dtype=np.float32)
    exact = [math.fsum(rows[:, k].tolist()) for k in (0, inner - 1)]
    ours = TensorSequence([rows, rows[:7]]).reduce(np.add)[0]
    assert np.allclose(ours[[0, inner - 1]], exact, rtol=5e-7)


# --- empty elements ---


@pytest.mark.parametrize("how", [np.max, np.minimum, np.mean, np.std, np.var, np.argmin, np.argmax, np.fmin])
def test_empty_elements_without_a_result(how):
    seq = TensorSequence([[1.0, 2.0], [3.0], [], [4.0]])
    for one, at in ((seq, 2), (seq[::-1], 1), (seq[[0, 2]], 1)):
        for axis in (0, None):
            with pytest.raises(ValueError, match=f"element {at} is empty, and {how.__name__} has no.*empty="):
                one.reduce(how, axis=axis)


def test_results_without_numbers_need_no_initial():
    seq = TensorSequence([np.ones((1, 0)), np.ones((2, 0)), np.ones((0, 0))])
    assert seq[:2].reduce(np.max).shape == (2, 0)
    for how in (np.max, np.mean, np.fmin):
        with pytest.raises(ValueError, match="element 2 is empty"):
            seq.reduce(how)


# --- what is refused ---


@pytest.mark.parametrize(
    ("arguments", "options", "error"),
    [
        (
            (np.median,),
            {},
            "TypeError: how must be a ufunc of two arguments, such as np.add, or np.sum.*got .*median",
        ),
        ((np.sqrt,), {}, "TypeError: how must be a ufunc of two arguments that has reduce.*got sqrt"),
        ((np.divmod,), {}, "TypeError: how must be a ufunc of two arguments"),
        ((np.matmul,), {}, "TypeError: how must be a ufunc of two arguments"),
        (([],), {}, r"TypeError: how must be .*got \[\]"),
        (("sum",), {}, "TypeError: how must be .*got 'sum'"),
        ((np.sum,), {"axis": 1.0}, "TypeError: axis must be an integer or None, got 1.0"),
        ((np.sum,), {"axis": 1}, "ValueError: element 0 has rank 1 and so no axis 1: axis=None"),
        ((np.sum,), {"axis": -2}, "ValueError: element 0 has rank 1 and so no axis -2"),
        ((np.argmax,), {"dtype": "int8"}, "TypeError: argmax takes no dtype"),
        ((np.max,), {"initial": 1.5}, "TypeError: initial is 1.5, which needs dtype float64"),
        (
            (np.max,),
            {"initial": 300, "dtype": "uint8"},
            "OverflowError: initial is 300, which does not fit uint8",
        ),
        ((np.max,), {"initial": [1, 2]}, "TypeError: initial must be a scalar"),
        ((np.sum,), {"dtype": "datetime64[s]"}, "TypeError: datetime64"),
        ((np.sum,), {"dtype": object}, "TypeError: dtype must be of numbers"),
        ((np.min,), {"dtype": "string"}, "TypeError: dtype must be of numbers"),
        (
            (np.bitwise_or,),
            {"dtype": "float32"},
            "TypeError: bitwise_or can't reduce elements of dtype int64 as float32",
        ),
        ((np.frompyfunc(max, 2, 1),), {}, "TypeError: .* gives Python objects"),
    ],
)
def test_refused(arguments, options, error):
    name, _, message = error.partition(": ")
    with pytest.raises(getattr(builtins, name), match=message):
        TensorSequence([[1, 2], [3]]).reduce(*arguments, **options)


def test_strings():
    with pytest.raises(TypeError, match="strings can't be reduced by max: use sequence_map"):
        TensorSequence([["a", "b"]]).reduce(np.max)


def test_results_that_are_too_large():
    endless = np.lib.stride_tricks.as_strided(np.zeros(1, np.int8), (0, 1 << 40, 1 << 20), (0, 0, 0))
    with pytest.raises((ValueError, MemoryError)):
        TensorSequence([endless] * 8).reduce(np.add)


# --- maps take the same way ---


@pytest.mark.parametrize("how", FUNCTIONS)
@pytest.mark.parametrize("workers", [1, 2])
def test_maps_of_reductions(how, workers):
    lengths = np.random.default_rng(0).integers(1, 9, 5000)
    seq = TensorSequence.from_lengths(np.random.default_rng(1).random(lengths.sum()), lengths)
    before = counted()["reduced"]
    mapped = sq.sequence_map(how, seq, max_workers=workers)
    if workers == 1:
        assert counted()["reduced"] - before == len(seq)
    assert mapped.shapes == [()] * len(seq)
    model = np.array([how(element) for element in seq])
    assert mapped.dtype == model.dtype
    assert mapped.values().tolist() == model.tolist()


def test_maps_of_reductions_fail_as_a_loop_does():
    seq = TensorSequence([[1.0], [2.0, 3.0], [], [4.0]])
    with pytest.raises(ValueError, match="zero-size array") as caught:
        sq.sequence_map(np.max, seq)
    assert caught.value.__notes__ == ["raised for element 2 of a SequenceMap"]
    with pytest.warns(RuntimeWarning, match="empty slice"):
        means = sq.sequence_map(np.mean, seq)
    assert np.isnan(means[2])
    assert sq.sequence_map(np.sum, seq).values().tolist() == [1, 5, 0, 4]
    with pytest.raises(TypeError, match="float64"):
        sq.sequence_map(np.sum, seq, output_dtypes="int8")
    for how, row in (
        (np.sum, [3e38] * 2),
        (np.mean, [np.inf, -np.inf]),
        (np.prod, [1e30] * 2),
        (np.var, [np.inf]),
    ):
        for n in (5, 6):
            with np.errstate(all="raise"), pytest.raises(FloatingPointError):
                sq.sequence_map(how, TensorSequence([np.float32(row)] * n))
    done = []
    sq.sequence_map(np.sum, seq, progress=lambda *state: done.append(state))
    assert done[-1] == (4, 4)
    assert sq.sequence_map(np.sum, TensorSequence(dtype="int8"), output_dtypes="int64").dtype == np.int64
