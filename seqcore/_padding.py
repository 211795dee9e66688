"""What people say of a padding: a value, a side, extents, and where it should go."""

import operator

import numpy as np

from seqcore._tensors import as_tensor
from seqcore.dtypes import STRING, type_name


def as_padding_value(value, dtype):
    """Return the value as an array of rank 0; 0, the default, is nothing of the type: False, or "".

    Raises
    ------
    TypeError
        If it has another type, or is not one item.
    OverflowError
        If it is a number that does not fit.
    """
    if type(value) is int and value == 0:
        return np.array("", object) if dtype == STRING else np.zeros((), dtype)
    if dtype.name == "bfloat16" and type(value) in (int, float):
        # NumPy does not know how it promotes with Python's floats.
        value = as_tensor(value, np.dtype(np.float32)).astype(dtype)
    item = as_tensor(value, dtype)
    if item.ndim:
        raise TypeError(f"a padding value is one item, not a tensor of shape {item.shape}")
    return item.copy()  # nobody writes to it while it is being written


def left_side(side):
    """Return whether padding goes in front."""
    if not isinstance(side, str) or side not in ("left", "right"):
        raise ValueError(f"side is 'left' or 'right', not {side!r:.60}")
    return side == "left"


def rank_of_nothing(shape, multiple_of):
    """Return the rank of no elements at all, which nobody knows: as many axes as are asked for, else one."""
    return next((len(given) for given in (shape, multiple_of) if np.ndim(given) == 1), 1)


def padded_extents(longest, shortest, shape, multiple_of):
    """Return the extents to pad to, from the longest and shortest elements, as a list."""
    extents = list(longest)
    for axis, extent in enumerate(_each_axis("shape", shape, len(extents), 0)):
        if extent is not None:
            extents[axis] = extent
    rounded = _each_axis("multiple_of", multiple_of, len(extents), 1)
    if multiple_of is not None and np.ndim(multiple_of) == 0:
        # One number counts for axis 0, and for the others in which elements differ: not for channels.
        for axis in range(1, len(extents)):
            if longest[axis] != shortest[axis]:
                rounded[axis] = rounded[0]
    return [
        extent if not unit else -(-extent // unit) * unit
        for extent, unit in zip(extents, rounded, strict=True)
    ]


def _each_axis(name, given, rank, least):
    """What is said of each axis: a number is for axis 0."""
    if given is None:
        return [None] * rank
    if isinstance(given, np.ndarray) and given.ndim:
        given = given.tolist()
    if not isinstance(given, list | tuple):
        if rank == 0:
            raise ValueError(f"elements of rank 0 have no axis for {name}={given!r:.60}")
        given = [given, *[None] * (rank - 1)]
    if len(given) != rank:
        raise ValueError(f"{name} has {len(given)} numbers, but the elements have rank {rank}")
    return [None if number is None else _number(name, number, least) for number in given]


def _number(name, value, least):
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} is a number, or one for each axis, not {value!r:.60}")
    value = operator.index(value)
    if value < least:
        raise ValueError(f"{name} is {value}, but must be at least {least}")
    return value


def checked_out(out, shape, dtype):
    """Return the array to write to, without its subclass, or raise for one that doesn't fit."""
    if not isinstance(out, np.ndarray) or isinstance(out, np.ma.MaskedArray):
        raise TypeError(f"out is a NumPy array, not a {type(out).__name__}")
    if out.dtype != dtype:
        raise TypeError(f"out is of type {out.dtype}, but the sequence of {type_name(dtype)}")
    if out.shape != shape:
        raise ValueError(f"out has shape {out.shape}, but the padded elements have {shape}")
    if not out.flags.writeable:
        raise ValueError("out is read-only")
    return out.view(np.ndarray)
