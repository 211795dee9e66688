"""Read what may go into a sequence: as one tensor, or as an iterable of tensors."""

from collections.abc import Iterable, Mapping, MutableSequence

import numpy as np

from seqcore._arguments.protocols import from_protocol
from seqcore._arguments.shown import got, shown, shown_error
from seqcore.core.late import late
from seqcore.core.lists import read
from seqcore.dtypes import ELEMENT_TYPES, STRING, element_type, type_name

_MOST_AXES = 64  # of NumPy's arrays
_PYTHON_VALUES = (bool, int, float, complex, str)
_WEAK_KINDS = frozenset(_PYTHON_VALUES)
_STRONG_KINDS = {dtype.type: dtype for dtype in ELEMENT_TYPES.values() if dtype != STRING}
_INTEGER_KINDS = frozenset("biu")
_WEAK = {bool: False, int: 0, float: 0.0, complex: 0j}


def as_tensor(value, dtype=None, copy=False, at=None):
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
        If True, copy the data. Strings are always copied.
    at : int or str, optional
        The name of the value in messages, or its position among several tensors.

    Raises
    ------
    TypeError
        If the value is not a tensor, has another or an unsupported type, or is a masked array.
    OverflowError
        If a Python number does not fit the type.
    ValueError
        If nested lists are ragged.
    """
    if isinstance(value, np.ndarray):
        array = value if type(value) is np.ndarray else _plain(value, at)
    elif isinstance(value, np.generic):
        array = np.asarray(value)
    elif isinstance(value, (*_PYTHON_VALUES, list, tuple)):
        return _from_python(value, dtype, at)
    else:
        if not hasattr(value, "__dlpack__") and isinstance(value, MutableSequence):
            refuse_sequence(value, at)
        array = from_protocol(value, name_of(at))
    try:
        own = element_type(array.dtype)
    except TypeError as error:
        raise TypeError(f"{name_of(at)} has an unsupported dtype: {shown_error(error)}") from None
    if dtype is not None and own != dtype:
        raise TypeError(mismatch(name_of(at), own, dtype))
    if own == STRING:
        return _strings(array, at)
    if copy or array.dtype != own:
        array = array.astype(own, order="C", copy=True)
    return array


def as_tensors(tensors):
    """Return what was given for several tensors as an iterable of them.

    A pandas Series and a 1-D object array of arrays count as lists of their items.

    Raises
    ------
    TypeError
        If it is a single array, a table, a mapping, a string or not iterable.
    """
    if isinstance(tensors, str | bytes):
        raise TypeError(f"tensors must be an iterable of tensors, got {got(tensors)}: put it into a list")
    if isinstance(tensors, Mapping):
        raise TypeError(
            f"tensors must be an iterable of tensors, got a {type(tensors).__name__}, whose keys would "
            "become the elements: pass list(mapping.values())"
        )
    if type(tensors).__name__ == "PackedSequence":  # its four tensors aren't elements
        raise TypeError(
            "tensors must be an iterable of tensors, got a PackedSequence of PyTorch: pass "
            "torch.nn.utils.rnn.unpack_sequence(packed)"
        )
    if isinstance(tensors, set | frozenset):
        raise TypeError(f"tensors must be in an order, got a {type(tensors).__name__}: pass a list")
    if hasattr(tensors, "__array__") or hasattr(tensors, "__dlpack__"):
        return _items_of(tensors)
    if not isinstance(tensors, Iterable) and not hasattr(type(tensors), "__getitem__"):
        raise TypeError(f"tensors must be an iterable of tensors, got {got(tensors)}")
    return tensors


def _has_single_strings(array):
    """Return whether a Series, or a column of another library, has strings rather than lists."""
    if isinstance(array, np.ndarray) or getattr(array, "ndim", 1) != 1 or not hasattr(array, "__getitem__"):
        return False
    return hasattr(array, "__len__") and len(array) > 0 and isinstance(next(iter(array), None), str)


def _items_of(array):
    """Return the items of an object array of arrays, or of such a Series."""
    kind = type(array).__name__
    if hasattr(array, "columns"):
        raise TypeError(
            f"tensors must be an iterable of tensors, got a {kind}, which is a table: pass a column"
        )
    if getattr(array, "dtype", None) == STRING and getattr(array, "ndim", None) == 1:
        missing = np.flatnonzero(array.isna()) if hasattr(array, "isna") else np.empty(0, int)
        if missing.size:
            raise TypeError(
                f"tensors[{missing[0]}] is missing in this {kind}: fill or drop missing values first"
            )
        items = list(array)
        if not items or not isinstance(items[0], (*_PYTHON_VALUES, np.generic)):
            return items
    if _has_single_strings(array):
        raise TypeError(
            f"tensors must be an iterable of tensors, got a {kind} of single strings: Columns({{'name': x}}) "
            "takes it as a column, TensorSequence(list(x)) makes each string an element of rank 0"
        )
    if getattr(array, "is_nested", False) is True:
        raise TypeError(f"tensors must be an iterable of tensors, got a nested {kind}: pass tensor.unbind()")
    if type(array).__module__.partition(".")[0] == "awkward":
        remedy = "TensorSequence.from_arrow(awkward.to_arrow(array, extensionarray=False)) takes its lists"
    elif hasattr(array, "__arrow_c_array__") or hasattr(array, "__arrow_c_stream__"):
        remedy = "TensorSequence.from_arrow(...) takes the elements of a column of lists"
    elif getattr(array, "ndim", None) == 0 and array.dtype == STRING:
        remedy = "array.item() is the object in it"
    else:
        remedy = "split_to_sequence(array) splits it along axis 0"
    given = got(array) if isinstance(array, np.ndarray) else f"one {kind}"
    raise TypeError(
        f"tensors must be an iterable of tensors, got {given}: {remedy}, [array] is a sequence of one element"
    )


def refuse_sequence(value, at):
    """Raise the error for a TensorSequence that is given as one tensor."""
    if isinstance(value, late("Container")):
        raise TypeError(
            f"{name_of(at)} is a TensorSequence, which can't be one tensor or element: extend(...) adds its "
            "elements to a sequence, concat_from_sequence(...) joins them into one tensor"
        )


# The calls that do the same for a sequence as functions of NumPy for an array.
_INSTEAD = {
    **dict.fromkeys(("array_equal", "array_equiv"), "seq == other, which compares two sequences"),
    "append": "seq + [tensor], or seq.append(tensor), which changes the sequence itself",
    "copy": "seq.copy()",
    "delete": "del seq[position] or del seq[indices]",
    "insert": "seq.insert(position, tensor)",
    "pad": "seq.to_padded()",
    "take": "seq[indices]",
}


def not_an_array(function):
    """Return the message for a function of NumPy that is given a TensorSequence."""
    name = f"{function.__module__}.{function.__name__}".replace("numpy", "np", 1)
    if function in (np.shape, np.ndim, np.size):
        return f"{name} takes an array, got a TensorSequence: seq.shapes has the shape of each element"
    if function in (np.save, np.savez, np.savez_compressed):
        return (
            f"{name} takes arrays, got a TensorSequence: np.savez(file, values=seq.values(), "
            "lengths=seq.lengths()) keeps them, for TensorSequence.from_lengths; seqcore.save(path, seq) "
            "writes a file that is memory-mapped"
        )
    instead = _INSTEAD.get(function.__name__) if function.__module__ == "numpy" else None
    if instead is not None:
        return f"{name} takes arrays, got a TensorSequence: use {instead}"
    return (
        f"{name} takes arrays, got a TensorSequence: sequence_map({name}, seq) calls it for each element, "
        f"{name}(seq.values()) for all values at once, "
        f"{name}(np.asarray(seq)) for elements of one shape, stacked"
    )


def name_of(at):
    """Return how messages call a value."""
    return "the tensor" if at is None else f"tensors[{at}]" if isinstance(at, int) else at


def _plain(array, at):
    """An array without its subclass, which may say anything of itself."""
    if isinstance(array, np.ma.MaskedArray):
        raise TypeError(
            f"{name_of(at)} is a masked array, whose mask would be lost: pass array.filled() or array.data"
        )
    return np.ndarray.view(array, np.ndarray)


def mismatch(name, own, dtype):
    """Return the message for a value of another dtype than the sequence's."""
    if STRING in (own, dtype):
        remedy = "strings and numbers can't be in one sequence"
    else:
        remedy = f"convert it first, for example with .astype({type_name(dtype)!r})"
    return (
        f"{name} has dtype {type_name(own)}, expected {type_name(dtype)}, the dtype of the sequence: {remedy}"
    )


def _strings(array, at):
    """Copy an array of text into a new object array of exact `str`."""
    strings = np.array(array, object, order="C", copy=True)
    flat = strings.reshape(-1)  # not .flat, which NumPy has up to rank 32 only
    items = flat.tolist()
    if set(map(type, items)) <= {str}:
        return strings
    for i, item in enumerate(items):
        if not isinstance(item, str):
            raise TypeError(
                f"{name_of(at)} is an object array, whose item {i} is {got(item)}: {_remedy(item)}"
            )
        flat[i] = item if type(item) is str else str.__str__(item)
    return strings


def _remedy(item):
    """Return how an object array with such an item gets into a sequence."""
    if isinstance(item, np.ndarray | list | tuple):
        return (
            "TensorSequence(list(array)) makes each an element, TensorSequence.from_arrow(series) takes a "
            "column of nested lists"
        )
    if isinstance(item, Mapping):
        return "pass the values of the dict, of an array of rank 0 those of array.item()"
    return "expected str in all items; numbers need a dtype of their own, for example array.astype(float)"


def has_type(value):
    """Return whether a value has a type. A list without items, however nested, doesn't have one."""
    levels = 0
    lists = [value]
    while lists:
        if levels == _MOST_AXES or not all(isinstance(one, list | tuple) for one in lists):
            return True
        lists = [item for one in lists for item in one]
        levels += 1
    return False


def _from_python(value, dtype, at):
    array = read(value, dtype)
    if array is not None:
        return array
    weak: set[type] = set()
    strong: set[np.dtype] = set()
    _collect_types(value, weak, strong, at)
    given, value = value, _as_tuples(value)
    if not weak and len(strong) == 1 and dtype in (None, *strong) and STRING not in strong:
        return _rectangular(value, next(iter(strong)), at)
    if (str in weak or STRING in strong) and len(weak | strong) > 1 and ({*weak, *strong} - {str, STRING}):
        raise TypeError(
            f"{name_of(at)} mixes strings and numbers, expected one kind: {shown(given, 80)}; "
            "convert the numbers with str(...)"
        )
    if dtype is None and str in weak:
        dtype = STRING
    elif dtype is None:
        array = _rectangular(value, None, at)
        if array.dtype.kind in "fO" and _are_integers(weak, strong):
            return _from_integers(value, given, at)
        if array.dtype == object and int in weak:
            raise OverflowError(_fits_none(given, at))
        dtype = element_type(array.dtype)
    else:
        _check_promotion(given, dtype, weak, strong, at)
    if dtype == STRING:
        array = np.array(value, dtype=object)
        if any(isinstance(item, list | tuple) for item in array.reshape(-1)):
            raise ValueError(_ragged(value, at))
        return _strings(array, at)
    try:
        with np.errstate(over="ignore"):
            # ml_dtypes takes no integers beyond int64.
            through = np.dtype(np.float64) if dtype.kind == "V" else dtype
            array = _rectangular(value, through, at).astype(dtype, copy=False)
    except OverflowError:
        limits = f" ({np.iinfo(dtype).min} to {np.iinfo(dtype).max})" if dtype.kind in "iu" else ""
        raise OverflowError(
            f"{name_of(at)} is {shown(given, 80)}, which does not fit {type_name(dtype)}{limits}"
        ) from None
    # NumPy raises OverflowError for integers; for floats it gives infinity.
    if dtype.kind not in "biu":
        wide = np.array(value, dtype=np.complex128 if dtype.kind == "c" else np.float64)
        if np.any(np.isfinite(array) != np.isfinite(wide)):  # array_equal takes no memory for a difference
            raise OverflowError(
                f"{name_of(at)} is {shown(given, 80)}, which is too large for {type_name(dtype)}"
            )
    return array


def _as_tuples(value, levels=_MOST_AXES):
    """Return nested lists as tuples: NumPy 2.0 crashes if a number changes its list while it is converted."""
    if levels and isinstance(value, list | tuple):
        own = tuple(value)  # another thread may change a list on the way
        if set(map(type, own)) <= _STRONG_KINDS.keys():
            return own
        return tuple([_as_tuples(item, levels - 1) for item in own])
    return value


def _are_integers(weak, strong):
    return (
        weak <= {bool, int} and all(dtype.kind in _INTEGER_KINDS for dtype in strong) and bool(weak | strong)
    )


def _from_integers(value, given, at):
    """Return integers that NumPy would make floats of, and so lose digits, as int64 or uint64."""
    objects = np.array(value, dtype=object)
    integers = [int(item) for item in objects.reshape(-1)]
    for dtype in (np.int64, np.uint64):
        limits = np.iinfo(dtype)
        if limits.min <= min(integers) and max(integers) <= limits.max:
            return np.array(integers, dtype).reshape(objects.shape)
    raise OverflowError(_fits_none(given, at))


def _fits_none(given, at):
    return f"{name_of(at)} is {shown(given, 80)}, which fits no integer dtype of NumPy"


def _rectangular(value, dtype, at):
    """Return `np.array(value, dtype)`; for ragged lists an error that says where they are."""
    try:
        return np.array(value, dtype=dtype)
    except ValueError:
        reason = _ragged(value, at)
        if reason is None:
            raise
        raise ValueError(reason) from None


def _ragged(value, at):
    """Return the message for a ragged nested list, or None if it is not ragged."""
    found = _first_misfit(value, (), {})
    if found is None:
        return None
    path, extent, first_path, first_extent = found
    return (
        f"{name_of(at)} is a ragged nested list: item {_path(path)} {_extent(extent)}, but item "
        f"{_path(first_path)} {_extent(first_extent)}; a tensor needs one length at each level, so make each "
        "list an element of its own"
    )


def _first_misfit(value, path, seen):
    """Return where a list has another length than the first one of its level, and both lengths."""
    if isinstance(value, list | tuple):
        extents = (len(value),)
    else:
        extents = (*np.shape(value if isinstance(value, _PYTHON_VALUES) else as_tensor(value)), None)
    for level, extent in enumerate(extents, start=len(path)):
        first_path, first_extent = seen.setdefault(level, (path, extent))
        if extent != first_extent:
            return path, extent, first_path, first_extent
    if isinstance(value, list | tuple):
        for i, item in enumerate(value):
            found = _first_misfit(item, (*path, i), seen)
            if found is not None:
                return found
    return None


def _path(path):
    return "".join(f"[{i}]" for i in path)


def _extent(extent):
    return "is not a list" if extent is None else f"has length {extent}"


def _check_promotion(value, dtype, weak, strong, at):
    if dtype == STRING or str in weak or STRING in strong:
        if dtype == STRING and weak <= {str} and strong <= {STRING}:
            return
        raise TypeError(
            f"{name_of(at)} is {shown(value, 80)}, but the dtype of the sequence is {type_name(dtype)}: "
            "strings and numbers can't be in one sequence"
        )
    if dtype.kind == "V" and float in weak:
        # NumPy promotes bfloat16 and a Python float to float64, unlike its own float types.
        weak = weak - {float} | {int}
    try:
        needed = np.result_type(dtype, *(_WEAK[kind] for kind in weak), *strong)
    except TypeError:
        needed = None
    if needed == dtype:
        return
    needs = "" if needed is None else f", which needs dtype {needed.name}"
    remedy = "" if needed is None else f", or the sequence with seq.astype({needed.name!r})"
    raise TypeError(
        f"{name_of(at)} is {shown(value, 80)}{needs}, but the dtype of the sequence is {type_name(dtype)}: "
        f"convert the value{remedy}"
    )


def _collect_types(value, weak, strong, at, level=0):
    """Add the types of the leaves: Python's, which adapt, and arrays', which don't."""
    if isinstance(value, (list, tuple)):
        if level == _MOST_AXES:
            raise ValueError(
                f"{name_of(at)} is nested more than {_MOST_AXES} deep: NumPy's arrays have at most "
                f"{_MOST_AXES} axes"
            )
        kinds = set(map(type, value))  # at once: most lists are of numbers
        weak |= kinds & _WEAK_KINDS
        strong |= {_STRONG_KINDS[kind] for kind in kinds & _STRONG_KINDS.keys()}
        if not kinds <= _WEAK_KINDS | _STRONG_KINDS.keys():
            for item in value:
                _collect_types(item, weak, strong, at, level + 1)
    elif isinstance(value, _PYTHON_VALUES) and not isinstance(value, np.generic):
        weak.add(next(kind for kind in _PYTHON_VALUES if isinstance(value, kind)))
    elif type(value) is np.ndarray and value.dtype.type in _STRONG_KINDS:
        strong.add(_STRONG_KINDS[value.dtype.type])
    else:
        strong.add(as_tensor(value, at=f"an item of {name_of(at)}").dtype)
