"""What is known of a block of pieces holds after whatever made the block: results cut like other elements."""

import numpy as np
import pytest

import seqcore as sq
from seqcore import TensorSequence


@pytest.mark.parametrize("byte", [1, 2, 3, 127, 128, 255])
def test_bools_of_any_byte(byte):
    """Masks of images are 0 and 255, and NumPy takes them for bools as they are."""
    mask = np.zeros(10, np.uint8)
    mask[[2, 5]] = byte
    mask = mask.view(bool)
    seq = sq.split_to_sequence(np.arange(10.0))
    assert [a[0] for a in seq[mask]] == [2, 5]
    seq[mask] = [[-2.0], [-5.0]]
    del seq[mask]
    seq._check()
    assert [a[0] for a in seq] == [0, 1, 3, 4, 6, 7, 8, 9]


def test_copies_stay_read_only():
    seq = TensorSequence([[1.0], [2.0, 3.0]])
    seen = []
    sq.map_batches(lambda a: seen.append(a) or a, seq)
    sq.map_batches(lambda a: seen.append(a) or a, seq[:1] + seq[:1], new_axis=1)
    for array in (seq.values(), *seen):
        with pytest.raises(ValueError, match="WRITEABLE"):
            array.flags.writeable = True


def test_padding_value_that_out_holds():
    out = np.full((3, 2), 7.0)
    TensorSequence([[1.0, 2.0], [3.0], [4.0]]).to_padded(out[0, 0, ...], out=out)
    assert out.tolist() == [[1, 2], [3, 7], [4, 7]]


def test_no_elements_have_as_many_axes_as_are_asked_for():
    nothing = TensorSequence(dtype="float32")
    assert nothing.to_padded(shape=np.array([3, 4])).shape == (0, 3, 4)
    assert nothing.to_padded(multiple_of=[3, 4]).shape == (0, 0, 0)
