"""`all_fit`: whether a list of arrays goes to onnxruntime as it is."""

import numpy as np
import pytest
from seqcore.core.maps import all_fit

FLOAT, INT = np.dtype(np.float32), np.dtype(np.int64)
TWO_BY_THREE = np.zeros((2, 3), np.float32)


class Marked(np.ndarray):
    pass


@pytest.mark.parametrize(
    ("tensors", "shape", "fits"),
    [
        ([], None, True),
        ([], (2,), True),
        ([TWO_BY_THREE, np.zeros((), np.float32)], None, True),
        ([TWO_BY_THREE] * 2, (2, 3), True),
        ([TWO_BY_THREE] * 2, (-1, 3), True),
        ([TWO_BY_THREE, TWO_BY_THREE[:0]], (-1, 3), True),
        ([TWO_BY_THREE.T, TWO_BY_THREE.T], (3, 2), True),
        ([np.zeros((), np.float32)], (), True),
        ([TWO_BY_THREE, TWO_BY_THREE[0]], (-1, 3), False),
        ([TWO_BY_THREE, TWO_BY_THREE[:, :2]], (-1, 3), False),
        ([TWO_BY_THREE], (), False),
        ([TWO_BY_THREE], (-1,) * 65, False),
        ([TWO_BY_THREE, TWO_BY_THREE.astype(np.float64)], None, False),
        ([TWO_BY_THREE.astype(">f4")], None, False),
        ([TWO_BY_THREE.view(Marked)], None, False),
        ([TWO_BY_THREE, TWO_BY_THREE.tolist()], None, False),
        ([np.float32(1)], None, False),
        ([None], None, False),
    ],
)
def test_what_fits(tensors, shape, fits):
    assert all_fit(tensors, FLOAT, shape) is fits


def test_what_it_takes():
    for wrong in ((None, FLOAT, None), ((), FLOAT, None), ([], "f4", None), ([], FLOAT, [1])):
        with pytest.raises(TypeError):
            all_fit(*wrong)
    assert not all_fit([np.zeros(1, np.float32)], INT, None)


def test_any_dtype():
    mixed = [TWO_BY_THREE, TWO_BY_THREE.astype(">i2")]
    assert all_fit(mixed, None, (2, -1))
    assert not all_fit(mixed, None, (3, -1))
    assert not all_fit([*mixed, None], None, None)
