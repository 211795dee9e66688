"""What loops are made of: conditions, and scan outputs, one tensor of the values of all iterations."""

import numpy as np

from seqcore.core.sequence import TensorSequence
from seqcore.dtypes import STRING
from seqcore.operators import concat_from_sequence


def only_item(tensor, what):
    """Return the one item of a tensor that ONNX wants to have one, as a value of Python."""
    try:
        return tensor.item()
    except ValueError:
        raise ValueError(f"{what} is one value, not a tensor of shape {tensor.shape}") from None


class Stacked:
    """Values of one shape, which become the rows of one tensor.

    Parameters
    ----------
    name : str
        What errors call it.
    dtype : np.dtype or None
        The element type, which a loop without iterations needs.
    shape : list of (int, str or None), or None
        What is known of a value's shape, for the same case. Lengths that aren't known count as 0.
    """

    def __init__(self, name, dtype, shape):
        self._name = name
        self._dtype = dtype
        self._shape = shape
        self._chunks = []  # tensors whose first axis runs over iterations
        self._rows = None  # values since the last of them

    def append(self, value):
        """Add the value of an iteration."""
        if self._rows is None:
            self._rows = TensorSequence([value])
        else:
            self._rows.append(value)

    def extend(self, values):
        """Add the values of some iterations, as one tensor."""
        self._flush()
        if len(values):
            self._chunks.append(values)

    def result(self):
        """Return the tensor, in memory of its own.

        Raises
        ------
        ValueError
            If the values differ in shape.
        """
        self._flush()
        if len(self._chunks) == 1:
            return self._chunks[0]
        if self._chunks:
            return self._joined(self._chunks, new_axis=0)
        if self._dtype is None:
            raise ValueError(f"the scan output '{self._name}' has no values, and its type is not known")
        lengths = [length if isinstance(length, int) else 0 for length in self._shape or ()]
        return np.full([0, *lengths], "" if self._dtype == STRING else 0, self._dtype)

    def _flush(self):
        if self._rows is not None:
            rows, self._rows = self._rows, None
            self._chunks.append(self._joined(rows, new_axis=1))

    def _joined(self, tensors, new_axis):
        try:
            return concat_from_sequence(tensors, 0, new_axis)
        except ValueError as error:
            raise ValueError(
                f"the values of the scan output '{self._name}' differ in shape: {error}"
            ) from None
