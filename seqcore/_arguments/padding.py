"""Read the arguments of padding: value, side, extents and output array."""

import numpy as np

from seqcore._arguments.integers import integer
from seqcore._arguments.shown import MASKED, shown
from seqcore._arguments.tensors import as_tensor
from seqcore.dtypes import STRING, type_name


def as_padding_value(value, dtype, name="padding_value"):
    """Return the padding value as an array of rank 0; 0, the default, gives the zero of the dtype.

    Raises
    ------
    TypeError
        If it has another type, or more than one item.
    OverflowError
        If it does not fit the dtype.
    """
    if type(value) is int and value == 0:
        return np.array("", object) if dtype == STRING else np.zeros((), dtype)
    if dtype.name == "bfloat16" and type(value) in (int, float):
        # NumPy does not know how it promotes with Python's floats.
        value = as_tensor(value, np.dtype(np.float32), at=name).astype(dtype)
    item = as_tensor(value, dtype, at=name)
    if item.ndim:
        remedy = "; extents go in shape=" if name == "padding_value" else ""
        raise TypeError(f"{name} must be a scalar, got shape {item.shape}{remedy}")
    return item.copy()  # a copy, so that nothing changes it during the padding


def left_side(side):
    """Return whether the padding goes in front."""
    if not isinstance(side, str) or side not in ("left", "right"):
        raise ValueError(f"side must be 'left' or 'right', got {shown(side)}")
    return side == "left"


def as_extents(name, given, least):
    """Return extents, one for each axis, as a list of int or None; a single one, for axis 0, as an int.

    Raises
    ------
    TypeError
        If an extent is neither an integer nor None.
    ValueError
        If an extent is below `least`.
    """
    if isinstance(given, np.ma.MaskedArray):
        raise TypeError(f"{name} must be an integer, or one for each axis, got {MASKED}")
    if isinstance(given, np.ndarray) and np.ndim(given):
        given = np.ndarray.tolist(given)
    if isinstance(given, list | tuple):
        # A list of our own, whose length can be trusted.
        return [_number(name, number, least) for number in given]
    return _number(name, given, least)


def rank_of_nothing(shape, multiple_of):
    """Return the rank that the elements of an empty sequence count as: the number of axes given, else 1."""
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
        # One number holds for axis 0 and for all other axes in which elements differ: not for channels.
        for axis in range(1, len(extents)):
            if longest[axis] != shortest[axis]:
                rounded[axis] = rounded[0]
    return [
        extent if not unit else -(-extent // unit) * unit
        for extent, unit in zip(extents, rounded, strict=True)
    ]


def _each_axis(name, given, rank):
    """Return an extent or None for each axis; a single number is for axis 0."""
    if given is None:
        return [None] * rank
    if isinstance(given, int):
        if rank == 0:
            raise ValueError(f"{name} is {shown(given)}, but elements of rank 0 have no axis to pad")
        given = [given, *[None] * (rank - 1)]
    if len(given) != rank:
        raise ValueError(
            f"{name} has {len(given)} extent{'s' if len(given) != 1 else ''}, but the elements have rank "
            f"{rank}: give one for each axis, or None for those to leave"
        )
    return given


def _number(name, value, least):
    if value is None:
        return None
    return integer(name, value, "an integer, or one for each axis", least)


def checked_out(out, shape, dtype):
    """Return the array to write to, without its subclass, or raise for one that doesn't fit."""
    if not isinstance(out, np.ndarray) or isinstance(out, np.ma.MaskedArray):
        raise TypeError(f"out must be a NumPy array, got a {type(out).__name__}")
    out = np.ndarray.view(out, np.ndarray)  # first, because a subclass may override its attributes
    if out.dtype != dtype:
        raise TypeError(f"out has dtype {out.dtype}, expected {type_name(dtype)}, the dtype of the sequence")
    if out.shape != shape:
        raise ValueError(f"out has shape {out.shape}, expected {shape}, the shape of the padded batch")
    if not out.flags.writeable:
        raise ValueError("out is read-only: pass a writable array")
    return out
