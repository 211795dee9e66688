"""sequence_map of ufuncs: floating-point errors, warnings, what doesn't fit, workers and progress."""

import threading
import warnings

import numpy as np
import pytest
from test_flat_bodies import WORKERS, assert_close, assert_maps, pieces, tensors

import seqcore as sq

pytestmark = pytest.mark.usefixtures("blocks_of_few")

# --- floating-point errors and warnings ---


@WORKERS
@pytest.mark.parametrize("at", [0, 1, 57, 99])
def test_errstate_raise_names_the_element_of_a_serial_loop(at, max_workers):
    table = np.ones((100, 3))
    table[at, 1] = 0
    table[-1, 2] = 0
    for seq in (sq.split_to_sequence(table), [np.array(row) for row in table]):
        with np.errstate(all="raise"), pytest.raises(FloatingPointError, match=rf"element {at}\b"):
            sq.sequence_map(np.reciprocal, seq, max_workers=max_workers)
        with np.errstate(all="ignore"):
            result = sq.sequence_map(np.reciprocal, seq, max_workers=max_workers)
        assert np.isinf(result[at]).any()
    with np.errstate(all="raise"):
        assert_close(sq.sequence_map(np.reciprocal, sq.split_to_sequence(np.ones(9))), [np.ones(1)] * 9)


def test_errstate_raise_of_whole_tensors_and_kinds():
    seq = sq.split_to_sequence(np.array([1.0, 2.0, 1e300, 4.0]))
    with np.errstate(over="raise"), pytest.raises(FloatingPointError, match=r"element 2\b"):
        sq.sequence_map(np.multiply, seq, 1e300)
    integers = sq.split_to_sequence(np.array([3, 2, 0, 0]))
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError, match=r"element 2\b"):
        sq.sequence_map(np.floor_divide, integers, integers)


@WORKERS
def test_warnings(max_workers):
    table = np.array([1.0, 1.0, 0.0, 1.0, -1.0])
    with pytest.warns(RuntimeWarning, match="log") as caught:
        result = sq.sequence_map(np.log, sq.split_to_sequence(table), max_workers=max_workers)
    assert len({str(one.message) for one in caught}) == 2
    assert_close(result, [np.array([x]) for x in (0.0, 0.0, -np.inf, 0.0, np.nan)])


def test_warnings_that_are_errors_name_the_element():
    table = np.array([1.0, 1.0, 0.0, 1.0, -1.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeWarning, match=r"element 2\b"):
            sq.sequence_map(np.log, sq.split_to_sequence(table))


# --- errors ---


@WORKERS
def test_types_that_a_ufunc_does_not_take(max_workers):
    for body, name in (
        (np.negative, "bool"),
        (np.invert, "float32"),
        (np.sqrt, "string"),
        (np.modf, "complex64"),
    ):
        with pytest.raises(TypeError, match=r"element 0\b"):
            sq.sequence_map(body, tensors(name), max_workers=max_workers)


@WORKERS
def test_output_dtypes(max_workers):
    for seq in (tensors("float32"), pieces("float32")):
        assert (
            sq.sequence_map(np.sqrt, seq, output_dtypes="float32", max_workers=max_workers).dtype
            == np.float32
        )
        pair = sq.sequence_map(np.modf, seq, output_dtypes=("float32",) * 2, max_workers=max_workers)
        assert [one.dtype for one in pair] == [np.float32] * 2
        for body, wrong in (
            (np.sqrt, "float64"),
            (np.sqrt, ("float32",)),
            (np.modf, "float32"),
            (np.isnan, "int8"),
        ):
            with pytest.raises(TypeError, match=r"element 0\b"):
                sq.sequence_map(body, seq, output_dtypes=wrong, max_workers=max_workers)


def test_empty_input_needs_types():
    with pytest.raises(ValueError, match="output_dtypes"):
        sq.sequence_map(np.sqrt, sq.sequence_empty())
    assert sq.sequence_map(np.sqrt, sq.sequence_empty(), output_dtypes="float32").dtype == np.float32


# --- where it runs ---


@pytest.mark.mostly_slow(5)
@pytest.mark.parametrize("chunksize", [None, 1, 4, 100])
@pytest.mark.parametrize("way", ["serial", "threads", "thread_executor", "process_executor"])
def test_workers_chunks_and_progress(ways, way, chunksize):
    for seq in (pieces("float64", (2,)), tensors("float64") * 5):
        calls = []
        options = {
            "chunksize": chunksize,
            "progress": lambda *call, calls=calls: calls.append(call),
            **ways.get(way),
        }
        assert_maps(np.sqrt, seq, **options)
        assert calls == sorted(set(calls))
        assert calls[-1] == (len(seq), len(seq))
        assert_maps(np.divmod, seq, 3.0, chunksize=chunksize, **ways.get(way))
    left = sq.split_to_sequence(np.arange(30), 3)
    left[7] = np.arange(2)
    with pytest.raises(ValueError, match=r"element 7\b"):
        sq.sequence_map(np.add, left, np.arange(3), chunksize=chunksize, **ways.get(way))


def test_with_an_executor_no_body_runs_in_the_caller(threads):
    where = set()
    body = np.frompyfunc(lambda item: where.add(threading.get_ident()) or "x", 1, 1)
    for chunksize in (None, 3):
        sq.sequence_map(body, tensors("int64"), chunksize=chunksize, executor=threads)
    assert threading.get_ident() not in where


def test_results_are_sequences_like_any_other():
    seq = pieces("float64")
    result = sq.sequence_map(np.sqrt, seq)
    assert not any(one.flags.writeable for one in result)
    assert not any(np.shares_memory(one, other) for one, other in zip(result, seq, strict=True))
    result.insert(0, np.zeros(2))
    del result[-1]
    result.compact()
    assert_close(result, [np.zeros(2), *(np.sqrt(one) for one in seq[:-1])])
    kept = sq.sequence_map(np.positive, sq.split_to_sequence(np.ones((100, 1000))))[:1]
    kept.compact()
    assert kept.pinned_nbytes == 8000
