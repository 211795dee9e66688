"""Corners where a fault once was."""

import json
import warnings

import numpy as np
import pytest

import seqcore as sq
from seqcore import TensorSequence


def test_views_of_elements_make_no_chain_of_owners():
    seq = TensorSequence([np.zeros(200_000)])
    for _ in range(190_000):
        seq.append(seq.pop()[1:])
    assert seq.pinned_nbytes == 200_000 * 8
    del seq  # would go 190,000 calls deep


@pytest.mark.parametrize(
    "put_in",
    [
        lambda seq: seq.append(np.zeros(3)),
        lambda seq: seq.extend([np.zeros(3)]),
        lambda seq: seq.extend(TensorSequence([np.zeros(3)])),
        lambda seq: seq.__setitem__(slice(None), [np.zeros(3)]),
        lambda seq: seq + [np.zeros(3)],
        lambda seq: [np.zeros(3)] + seq,
        lambda seq: TensorSequence(seq, dtype="int8"),
    ],
)
def test_nothing_goes_into_a_sequence_without_a_type(put_in):
    seq = TensorSequence.__new__(TensorSequence)
    with pytest.raises(TypeError, match="not initialized"):
        put_in(seq)
    assert len(seq) == 0


def test_an_axis_that_edits_the_array_is_read_first():
    array = np.arange(12.0).reshape(3, 4)

    class Axis:
        def __index__(self):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)
                array.shape = (12,)
            return 1

    with pytest.raises(ValueError, match="out of range for a tensor of shape \\(12,\\)"):
        sq.split_to_sequence(array, axis=Axis())


@pytest.mark.parametrize("options", [{}, {"max_workers": 2, "chunksize": 2}, {"output_dtypes": "float32"}])
@pytest.mark.parametrize("make_error", [lambda: RuntimeError("x"), lambda: json.JSONDecodeError("m", "d", 1)])
def test_whatever_a_result_raises_names_its_element(make_error, options):
    error = make_error()

    class Result:
        def __array__(self, dtype=None, copy=None):
            raise error

    with pytest.raises(type(error)) as caught:
        sq.sequence_map(lambda t: Result() if t[0] == 5 else 1.5, [[i] for i in range(8)], **options)
    assert caught.value is error
    assert "element 5" in error.__notes__[0]
