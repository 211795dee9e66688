"""What people say of a padding: a value, a side, extents, and where it should go."""

import numpy as np

from seqcore._integers import MASKED, as_integer
from seqcore._shown import shown
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
        raise ValueError(f"side is 'left' or 'right', not {shown(side)}")
    return side == "left"


def as_extents(name, given, least):
    """Return what is said of the axes as a list of an int or None for each; a number, for axis 0, as it is.

    Raises
    ------
    TypeError
        If there is anything but integers and None.
    ValueError
        If a number is below `least`.
    """
    if isinstance(given, np.ma.MaskedArray):
        raise TypeError(f"{name} is {MASKED}")
    if isinstance(given, np.ndarray) and np.ndim(given):
        given = np.ndarray.tolist(given)
    if isinstance(given, list | tuple):
        # A list of our own, which is as long as it says.
        return [_number(name, number, least) for number in given]
    return _number(name, given, least)


def rank_of_nothing(shape, multiple_of):
    """Return the rank of no elements at all, which nobody knows: as many axes as are asked for, else one."""
    return next((len(given) for given in (shape, multiple_of) if isinstance(given, list)), 1)


def padded_extents(longest, shortest, shape, multiple_of):
    """Return the extents to pad to, from the longest and shortest elements, as a list.

    `shape` and `multiple_of` are what `as_extents` returns.
    """
    extents = list(longest)
    for axis, extent in enumerate(_each_axis("shape", shape, len(extents))):
        if extent is not None:
            extents[axis] = extent
    rounded = _each_axis("multiple_of", multiple_of, len(extents))
    if isinstance(multiple_of, int):
        # One number counts for axis 0, and for the others in which elements differ: not for channels.
        for axis in range(1, len(extents)):
            if longest[axis] != shortest[axis]:
                rounded[axis] = rounded[0]
    return [
        extent if not unit else -(-extent // unit) * unit
        for extent, unit in zip(extents, rounded, strict=True)
    ]


def _each_axis(name, given, rank):
    """What is said of each axis: a number is for axis 0."""
    if given is None:
        return [None] * rank
    if isinstance(given, int):
        if rank == 0:
            raise ValueError(f"elements of rank 0 have no axis for {name}={shown(given)}")
        given = [given, *[None] * (rank - 1)]
    if len(given) != rank:
        raise ValueError(f"{name} has {len(given)} numbers, but the elements have rank {rank}")
    return given


def _number(name, value, least):
    if value is None:
        return None
    number = as_integer(value)
    if number is None:
        raise TypeError(f"{name} is a number, or one for each axis, not {shown(value)}")
    if number < least:
        raise ValueError(f"{name} is {shown(number)}, but must be at least {least}")
    return number


def checked_out(out, shape, dtype):
    """Return the array to write to, without its subclass, or raise for one that doesn't fit."""
    if not isinstance(out, np.ndarray) or isinstance(out, np.ma.MaskedArray):
        raise TypeError(f"out is a NumPy array, not a {type(out).__name__}")
    out = np.ndarray.view(out, np.ndarray)  # first, for a subclass may say anything of itself
    if out.dtype != dtype:
        raise TypeError(f"out is of type {out.dtype}, but the sequence of {type_name(dtype)}")
    if out.shape != shape:
        raise ValueError(f"out has shape {out.shape}, but the padded elements have {shape}")
    if not out.flags.writeable:
        raise ValueError("out is read-only")
    return out
