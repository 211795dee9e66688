"""sequence_map of ufuncs: floating-point errors, warnings, what doesn't fit, workers and progress."""

import threading
import warnings

import numpy as np
import pytest
from test_flat_bodies import WORKERS, pieces, tensors

import seqcore as sq

pytestmark = pytest.mark.usefixtures("blocks_of_few")

# --- floating-point errors and warnings ---


def test_errstate_raise_of_whole_tensors_and_kinds():
    seq = sq.split_to_sequence(np.array([1.0, 2.0, 1e300, 4.0]))
    with np.errstate(over="raise"), pytest.raises(FloatingPointError, match=r"element 2\b"):
        sq.sequence_map(np.multiply, seq, 1e300)
    integers = sq.split_to_sequence(np.array([3, 2, 0, 0]))
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError, match=r"element 2\b"):
        sq.sequence_map(np.floor_divide, integers, integers)


def test_warnings_that_are_errors_name_the_element():
    table = np.array([1.0, 1.0, 0.0, 1.0, -1.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeWarning, match=r"element 2\b"):
            sq.sequence_map(np.log, sq.split_to_sequence(table))


# --- errors ---


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


# --- where it runs ---


def test_with_an_executor_no_body_runs_in_the_caller(threads):
    where = set()
    body = np.frompyfunc(lambda item: where.add(threading.get_ident()) or "x", 1, 1)
    for chunksize in (None, 3):
        sq.sequence_map(body, tensors("int64"), chunksize=chunksize, executor=threads)
    assert threading.get_ident() not in where
