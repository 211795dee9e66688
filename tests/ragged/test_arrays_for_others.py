"""Views and copies of arrays that PyTorch refuses; tests/properties/test_handed_out.py has all calls."""

import pickle

import numpy as np
import pytest
from support.strategies import filled

import seqcore as sq
from seqcore import TensorSequence

RECORDS = np.zeros(6, [("x", "f8"), ("flag", "i1")])
RECORDS["x"] = np.arange(6)
BLOCK = filled("float32", (6, 4, 3))

# Arrays that PyTorch refuses.
ARRAYS = {
    "falling": BLOCK[::-1],
    "mirrored": BLOCK[:, :, ::-1],
    "upside down": BLOCK[:, ::-1],
    "a falling field": RECORDS["x"][::-2],
}


def is_for_pytorch(array):
    return all(stride >= 0 and stride % array.itemsize == 0 for stride in array.strides)


@pytest.mark.parametrize("array", ARRAYS.values(), ids=ARRAYS)
def test_elements_have_the_strides_of_what_was_put_in_until_they_are_copied(array):
    seq = TensorSequence([array])
    assert seq[0].strides == array.strides
    assert np.shares_memory(seq[0], array)
    assert is_for_pytorch(TensorSequence([array], copy=True)[0])
    assert is_for_pytorch(seq[0].copy())
    seq.compact()
    assert is_for_pytorch(seq[0])
    np.testing.assert_array_equal(seq[0], array)


def test_values_are_views_wherever_pytorch_takes_them():
    array = np.arange(12.0).reshape(6, 2)
    for seq in (
        sq.split_to_sequence(array),
        sq.split_to_sequence(array[::2]),
        sq.split_to_sequence(array)[1:4],
    ):
        assert np.shares_memory(seq.values(), array)
    for seq in (sq.split_to_sequence(array)[::-1], sq.split_to_sequence(array[:, ::-1])):
        assert not np.shares_memory(seq.values(), array)
        np.testing.assert_array_equal(seq.values(), np.concatenate(list(seq)))


def test_whether_arrays_of_columns_may_be_written_to_does_not_depend_on_the_positions():
    columns = sq.Columns({"x": [[1], [2, 3], [4], []], "y": np.arange(4), "z": np.ones((4, 2), np.float32)})
    for key in ([0, 1, 2], [3, 1], [2], [], [1, 1], np.array([True, False, False, False])):
        for selected in (columns[key], pickle.loads(pickle.dumps(columns[key])), columns[key][:2]):
            for name in "yz":
                assert selected[name].flags.writeable
                selected[name][...] = 7
                assert columns["y"].tolist() == [0, 1, 2, 3]
                assert len(selected) == 0 or selected[name].tolist() != [7] * len(selected)
    assert not columns["y"].flags.writeable
    assert not columns[1:]["y"].flags.writeable
