"""What may go into a sequence, and the arrays that it becomes."""

import numpy as np

from seqcore._protocols import from_protocol
from seqcore._shown import shown
from seqcore.dtypes import STRING, element_type, type_name

_MOST_AXES = 64  # of NumPy's arrays
_PYTHON_VALUES = (bool, int, float, complex, str)
_NUMBERS = {bool, int, float, complex}
_WEAK = {bool: False, int: 0, float: 0.0, complex: 0j}


def as_tensor(value, dtype=None, copy=False):
    """Return a tensor as an exact, native `np.ndarray` of an element type.

    Parameters
    ----------
    value : array_like
        An array, a NumPy scalar, an object with NumPy's or DLPack's protocol or a buffer, or Python
        values: a number, a string, or nested lists of them.
    dtype : np.dtype, optional
        The element type that it must have. Python values are converted to it where NumPy's promotion
        keeps it; arrays are never cast. By default the type is the value's own.
    copy : bool, optional
        Whether the result has memory of its own. Strings are always copied.

    Raises
    ------
    TypeError
        If the value is no tensor, has no or another element type, or is a masked array.
    OverflowError
        If a Python number does not fit the type.
    ValueError
        If nested lists are ragged.
    """
    if isinstance(value, np.ndarray):
        array = value if type(value) is np.ndarray else _plain(value)
    elif isinstance(value, np.generic):
        array = np.asarray(value)
    elif isinstance(value, (*_PYTHON_VALUES, list, tuple)):
        return _from_python(value, dtype)
    else:
        array = from_protocol(value)
    own = element_type(array.dtype)
    if dtype is not None and own != dtype:
        raise TypeError(_mismatch(type_name(own), dtype))
    if own == STRING:
        return _strings(array)
    if copy or array.dtype != own:
        array = array.astype(own, order="C", copy=True)
    return array


def _plain(array):
    """An array without its subclass, which may say anything of itself."""
    if isinstance(array, np.ma.MaskedArray):
        raise TypeError(
            "a masked array can't be a tensor, since its mask would be lost: use .filled() or .data"
        )
    return np.ndarray.view(array, np.ndarray)


def _mismatch(given, dtype):
    return (
        f"a tensor of type {given} can't go into a sequence of {type_name(dtype)}: "
        "convert it first, or use a sequence of its type"
    )


def _strings(array):
    """Copy an array of text into a new object array of exact `str`."""
    if array.dtype.kind != "O":
        array = array.astype(object)
    strings = np.empty(array.shape, object)
    flat = strings.reshape(-1)
    # Not .flat, which NumPy has up to rank 32 only.
    for i, item in enumerate(np.asarray(array).reshape(-1)):
        if not isinstance(item, str):
            raise TypeError(
                f"item {i} of an object array is {shown(item)}, of type {type(item).__name__}: "
                "in a tensor of strings each item is a str"
            )
        flat[i] = item if type(item) is str else str.__str__(item)
    return strings


def _from_python(value, dtype):
    if (set(map(type, value)) if type(value) in (list, tuple) else {type(value)}) <= _NUMBERS:
        # Numbers, or a list of them, most often are of the type that is wanted: there is nothing to find out.
        array = np.array(value)
        if array.dtype != object and (dtype is None or array.dtype == dtype):
            return array
    weak, strong = set(), set()
    _collect_types(value, weak, strong)
    if (str in weak or STRING in strong) and len(weak | strong) > 1 and ({*weak, *strong} - {str, STRING}):
        raise TypeError(f"{shown(value, 80)} mixes strings and numbers")
    if dtype is None and str in weak:
        dtype = STRING
    elif dtype is None:
        array = np.asarray(value)
        if array.dtype == object and int in weak:
            raise OverflowError(f"{shown(value, 80)} fits no integer type of NumPy")
        dtype = element_type(array.dtype)
    else:
        _check_promotion(value, dtype, weak, strong)
    if dtype == STRING:
        array = np.array(value, dtype=object)
        if any(isinstance(item, list | tuple) for item in array.reshape(-1)):
            raise ValueError(
                f"{shown(value, 80)} is ragged: in a tensor all lists of a level have one length"
            )
        return _strings(array)
    with np.errstate(over="ignore"):
        array = np.array(value, dtype=dtype)
    # NumPy raises OverflowError for integers; for floats it gives infinity.
    if dtype.kind not in "biu":
        wide = np.array(value, dtype=np.complex128 if dtype.kind == "c" else np.float64)
        if not np.array_equal(np.isfinite(array), np.isfinite(wide)):
            raise OverflowError(f"{shown(value, 80)} is too large for {type_name(dtype)}")
    return array


def _check_promotion(value, dtype, weak, strong):
    if dtype == STRING or str in weak or STRING in strong:
        if dtype == STRING and weak <= {str} and strong <= {STRING}:
            return
    else:
        try:
            if np.result_type(dtype, *(_WEAK[kind] for kind in weak), *strong) == dtype:
                return
        except TypeError:
            pass
    raise TypeError(
        f"{shown(value, 80)} can't go into a sequence of {type_name(dtype)}: "
        "NumPy's promotion would change the type"
    )


def _collect_types(value, weak, strong, level=0):
    """Add the types of the leaves: Python's, which adapt, and arrays', which don't."""
    if isinstance(value, (list, tuple)):
        if level == _MOST_AXES:
            raise ValueError(
                f"lists are nested more than {_MOST_AXES} deep: NumPy's arrays have at most {_MOST_AXES} axes"
            )
        for item in value:
            _collect_types(item, weak, strong, level + 1)
    elif isinstance(value, _PYTHON_VALUES) and not isinstance(value, np.generic):
        weak.add(next(kind for kind in _PYTHON_VALUES if isinstance(value, kind)))
    else:
        strong.add(as_tensor(value).dtype)
