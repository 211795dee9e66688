"""Reductions of numbers that are hard to get right, with `initial`, `empty` and `dtype`, beside NumPy's."""

import itertools
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import NUMBER_NAMES, dtype_of
from test_reduce import AS_UFUNC, FUNCTIONS, MOMENTS, OTHERS, PLACES, UFUNCS, assert_same

import seqcore as sq
from seqcore import TensorSequence
from seqcore._arguments.reductions import _kernel

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def numbers_of(name):
    """What overflows, is NaN, infinite, a zero of either sign, or quite usual."""
    dtype = dtype_of(name)
    if dtype.kind == "b":
        return [False, True]
    if dtype.kind in "iu":
        return [0, 1, 3, int(np.iinfo(dtype).max), int(np.iinfo(dtype).min)]
    limits = np.finfo(np.float32 if name == "bfloat16" else dtype)
    parts = [0.0, -0.0, 1.0, -3.0, np.inf, -np.inf, np.nan, float(limits.tiny), float(limits.max) / 2]
    return parts + ([1j, complex(0, np.inf), complex(-0.0, -0.0), 1 + 2j] if dtype.kind == "c" else [])


def elements_of(name, axis):
    """Elements of 0 to 200 numbers, or rows of 3: up to 128 of them, which are added one after the other."""
    rng = np.random.default_rng(len(name))
    numbers = np.array(numbers_of(name), dtype_of(name))
    finite = numbers[np.isfinite(numbers)] if numbers.dtype.kind in "fcV" else numbers
    for n, some in itertools.product([0, 1, 2, 3, 0, 9, 70, 128], [numbers, finite]):
        yield some[rng.integers(0, len(some), n)]
        yield (
            some[rng.integers(0, len(some), (n, 3))]
            if axis != 1
            else some[rng.integers(0, len(some), (3, n))]
        )


def model(how, element, axis, options):
    """NumPy's result for an element, which `empty` may stand for; None where there is none."""
    options = dict(options)
    empty = options.pop("empty", None)
    extent = element.size if axis is None else element.shape[axis]
    call = AS_UFUNC.get(how, how) if options else how
    call = call.reduce if isinstance(call, np.ufunc) else call
    if extent == 0 and empty is not None:
        try:
            one = call(np.ones_like(element, shape=[max(n, 1) for n in element.shape]), axis=axis, **options)
        except (TypeError, ValueError):
            return None
        return np.full(
            np.delete(element.shape, axis) if axis is not None else (), empty, np.asarray(one).dtype
        )
    if extent == 0 and how in MOMENTS + PLACES:
        return None
    try:
        return np.asarray(call(element, axis=axis, **options))
    except (TypeError, ValueError):
        return None


def check(arrays, how, axis, options):
    results = [model(how, array, axis, options) for array in arrays]
    kept = [(array, result) for array, result in zip(arrays, results, strict=True) if result is not None]
    if len(kept) < 2:
        return 0
    wanted = np.stack([result for _, result in kept])
    seq = TensorSequence([array for array, _ in kept])
    assert_same(seq.reduce(how, axis=axis, **options), wanted, how)
    order = np.argsort([len(array) for array, _ in kept], kind="stable")[::-1]
    joined = (
        TensorSequence.from_lengths(seq[order].values(), seq[order].lengths()) if axis == 0 else seq[order]
    )
    assert_same(joined.reduce(how, axis=axis, **options), wanted[order], how)
    return 1


def options_of(how, name):
    """Each `initial` with and without `empty`, and dtypes to compute in."""
    numbers = numbers_of(name)
    whole = np.sum(np.ones(1, dtype_of(name))).dtype.kind in "iu"
    places = how in PLACES or how in (np.any, np.all, np.logical_or, np.logical_and)
    empties = [None, True] if name == "bool" or places else [None, -7 if whole and name[0] != "u" else 7]
    initials = [None] if how in MOMENTS + PLACES else [None, *numbers]
    dtypes = (
        [None] if places or dtype_of(name).kind == "c" or name == "bfloat16" else [None, "float64", "float32"]
    )
    yield {}
    if how in UFUNCS and len(dtypes) > 1:
        yield {"dtype": "bool"}
    yield {"empty": empties[1]}
    for initial in initials[1:]:
        yield {"initial": initial}
        yield {"initial": initial, "empty": empties[1]}
    for dtype in dtypes[1:]:
        yield {"dtype": dtype}
        yield {"dtype": dtype, "empty": empties[1]}
        if initials[1:]:
            yield {"dtype": dtype, "initial": initials[min(3, len(numbers))]}


@pytest.mark.parametrize("how", UFUNCS + FUNCTIONS + OTHERS)
@pytest.mark.parametrize("name", NUMBER_NAMES)
def test_each_result_is_numpys(name, how):
    if name == "bfloat16" and how not in (np.min, np.max, np.add):
        pytest.skip("ml_dtypes rounds after each number, and has no std")
    compared = 0
    for axis in (0, None, 1):
        both = list(elements_of(name, axis))
        groups = {0: (both[::2], both[1::2]), None: (both,), 1: (both[1::2],)}[axis]
        for options in options_of(how, name):
            compared += sum(check(arrays, how, axis, options) for arrays in groups)
    assert compared > 0 or how in OTHERS  # which don't take every type


def test_results_without_numbers_need_no_empty():
    wide = TensorSequence([np.ones((2, 0)), np.ones((2, 3))])
    assert wide.reduce(np.mean, axis=1, empty=9).tolist() == [[9, 9], [1, 1]]
    assert wide[:1].reduce(np.max, empty=9).shape == (1, 0)
    assert wide[:0].reduce(np.max, empty=9).shape == (0,)


@pytest.mark.parametrize(
    ("how", "empty", "error", "words"),
    [
        (
            np.max,
            np.nan,
            TypeError,
            "empty is nan, which needs dtype float64, but the results have dtype int64",
        ),
        (np.sum, 0.5, TypeError, "empty is 0.5, which needs dtype float64"),
        (np.argmax, -1.0, TypeError, "empty is -1.0"),
        (np.any, 0, TypeError, "empty is 0, which needs dtype int64, but the results have dtype bool"),
        (np.mean, 1j, TypeError, "empty is 1j, which needs dtype complex128"),
        (np.max, 2**63, OverflowError, "empty is 9223372036854775808, which does not fit int64"),
        (np.max, [1, 2], TypeError, "empty must be a scalar"),
        (np.max, "0", TypeError, "empty is '0'"),
    ],
)
@pytest.mark.parametrize("elements", [[[1], []], [[1]], [[]]])
def test_empty_is_never_cast_to_fit(how, empty, error, words, elements):
    seq = TensorSequence(elements, dtype="int64")
    with pytest.raises(error, match=words):
        seq.reduce(how, empty=empty)


@pytest.mark.parametrize("how", MOMENTS + PLACES)
def test_no_initial(how):
    with pytest.raises(TypeError, match=f"{how.__name__} takes no initial: .* is empty="):
        TensorSequence([[1.0], []]).reduce(how, initial=0)


# --- standard deviations ---


@given(st.lists(st.integers(1, 3000), min_size=1, max_size=4), st.sampled_from(["float32", "float64"]))
def test_deviations_are_numpys(lengths, dtype):
    rng = np.random.default_rng(sum(lengths))
    values = (rng.standard_normal(sum(lengths)) * 3 + 1000).astype(dtype)
    seq = TensorSequence.from_lengths(values, lengths)
    tolerance = 4 * np.finfo(dtype).eps
    for how in (np.std, np.var):
        np.testing.assert_allclose(seq.reduce(how), [how(element) for element in seq], rtol=tolerance)
        np.testing.assert_allclose(sq.sequence_map(how, seq).values(), seq.reduce(how), rtol=tolerance)


@pytest.mark.parametrize("inner", [1, 3, 33])
def test_deviations_from_a_large_mean_are_accurate(inner):
    """From sums of squares they would be 0, or not even that."""
    rows = np.random.default_rng(0).standard_normal((10_003, inner)) + 1e9
    ours = TensorSequence([rows, rows[:7]]).reduce(np.var)
    exact = (rows - 1e9).var(axis=0), (rows[:7] - 1e9).var(axis=0)
    np.testing.assert_allclose(ours, exact, rtol=1e-6)


def test_maps_of_empty_elements_are_a_loops():
    seq = TensorSequence([[1.0, 3.0], [], [4.0]])
    with pytest.warns(RuntimeWarning, match="Degrees of freedom"):
        deviations = sq.sequence_map(np.std, seq)
    assert deviations[0] == 1
    assert np.isnan(deviations[1])


def test_overflow_of_16_bits_warns_as_numpy_does():
    seq = TensorSequence([np.full(3, 60_000, np.float16)])
    with pytest.warns(RuntimeWarning, match="overflow"):
        sums = seq.reduce(np.sum)
    assert sums.tolist() == [np.inf]
    with warnings.catch_warnings(action="error"):
        assert TensorSequence([np.full(3, 3e38, np.float32)]).reduce(np.sum).tolist() == [np.inf]
        assert seq.reduce(np.sum, dtype=np.float32).tolist() == [180_000]


@pytest.mark.parametrize("name", ["any", "all", "argmin", "argmax"])
@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2"])
def test_no_kernel_takes_a_type_that_it_does_not_know(name, dtype):
    dtype = np.dtype(getattr(pytest.importorskip("ml_dtypes"), dtype))
    assert _kernel(None, name, dtype, np.dtype(bool), None)[0] is None
