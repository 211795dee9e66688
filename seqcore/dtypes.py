"""The element types of sequences.

They are fifteen of ONNX's tensor types, and bfloat16 as an extension through `ml_dtypes`. Strings are object
arrays of `str`, as in onnx and onnxruntime.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

import numpy as np

from seqcore._arguments.shown import shown

if TYPE_CHECKING:
    from seqcore._typing import DTypeName, DTypeOf, T

__all__ = ["ELEMENT_TYPES", "element_type", "type_name"]

STRING: np.dtype[np.object_] = np.dtype(object)

ELEMENT_TYPES: dict[str, np.dtype[Any]] = {
    name: np.dtype(name)
    for name in (
        *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        *("float16", "float32", "float64", "complex64", "complex128"),
    )
} | {"string": STRING}

_OBJECTS = (object, np.object_)

# One type has many spellings ('<f4' and 'float32', the two C types of int64); these are the canonical ones.
_CANONICAL = {dtype: dtype for dtype in ELEMENT_TYPES.values()}
# NumPy computes the name of a dtype each time.
_NAME_OF = {dtype: name for name, dtype in ELEMENT_TYPES.items()}
# Names that need no other look: "float32", "f", "f4", "<f4", and the class np.float32.
_SPELLINGS: dict[object, np.dtype[Any]] = {
    spelling: dtype
    for dtype in ELEMENT_TYPES.values()
    for spelling in (dtype.name, dtype.char, dtype.str, dtype.str[1:], dtype.type)
}
# Types by their characters → the call that gives an array of an element type.
_CONVERSIONS = dict.fromkeys("mM", "array.view('int64') has its integers; ") | {
    "S": "array.astype(str) has strings; ",
    "g": "array.astype('float64') has its numbers; ",
    "G": "array.astype('complex128') has its numbers; ",
}


@overload
def element_type(dtype: DTypeOf[T]) -> np.dtype[T]: ...
@overload
def element_type(dtype: DTypeName) -> np.dtype[Any]: ...
def element_type(dtype: DTypeName) -> np.dtype[Any]:
    """Return the canonical `np.dtype` of an element type.

    Parameters
    ----------
    dtype : data-type
        Any name that `np.dtype` accepts. `str`, `object`, `"string"` and NumPy's text types name the string
        type; `"bfloat16"` needs the package ml_dtypes. The byte order is ignored.

    Returns
    -------
    np.dtype
        The dtype in native byte order; `object` for strings.

    Raises
    ------
    TypeError
        If the dtype is not supported: bytes, dates, records, long doubles, `None`.
    ImportError
        If it is `"bfloat16"` and ml_dtypes is not installed.

    Examples
    --------
    >>> element_type("float32"), element_type(">f4"), element_type(str)
    (dtype('float32'), dtype('float32'), dtype('O'))
    """
    kind = type(dtype)
    if (kind is str or kind is type) and dtype in _SPELLINGS:
        return _SPELLINGS[dtype]
    if isinstance(dtype, np.dtype) and dtype in _CANONICAL:
        return _CANONICAL[dtype]
    if dtype is None:
        raise TypeError(f"dtype must not be None: expected one of {_names()}")
    if isinstance(dtype, str):
        if dtype == "string":
            return STRING
        if dtype == "bfloat16":
            return _bfloat16()
    given = numpy_type(dtype)
    if given is None:
        name = name_in_pytorch(dtype)
        if name:
            raise TypeError(f"{shown(dtype)} is PyTorch's dtype: pass {name!r}")
        raise TypeError(f"{shown(dtype)} is not an element type: expected one of {_names()}")
    if given.kind in "UT":
        return STRING
    native = given.newbyteorder("=") if given.byteorder not in "=|" else given
    if native in _CANONICAL:
        return _CANONICAL[native]
    if native.name == "bfloat16":
        return _bfloat16()
    if given.names is not None:
        raise TypeError(
            f"a structured dtype with the fields {', '.join(given.names)} is not an element type: pass one "
            f"field, array[{given.names[0]!r}], or all as Columns({{name: array[name] for name in "
            "array.dtype.names})"
        )
    remedy = _CONVERSIONS.get(given.char, "")
    raise TypeError(f"{given.name} is not an element type: {remedy}expected one of {_names()}")


def name_in_pytorch(dtype: object) -> str:
    """Return the name of the element type that a dtype of PyTorch stands for, or an empty string."""
    name = str(dtype).removeprefix("torch.") if type(dtype).__module__ == "torch" else ""
    return name if name in ELEMENT_TYPES or name == "bfloat16" else ""


def numpy_type(dtype: object) -> np.dtype[Any] | None:
    """Return the `np.dtype` for any name of a dtype, or None. Only `object` names the object dtype.

    NumPy sees only possible names, because its error messages would show all other values.
    """
    if isinstance(dtype, np.dtype):
        return dtype
    if isinstance(dtype, str):
        dtype = str.__str__(dtype)
    elif not isinstance(dtype, type | bytes):
        own = getattr(dtype, "dtype", None)
        return own if isinstance(own, np.dtype) else None
    try:
        given: np.dtype[Any] = np.dtype(dtype)  # type: ignore[arg-type]
    except (TypeError, ValueError):  # ValueError for strings that aren't a dtype
        return None
    # NumPy takes any class for the object dtype.
    return None if isinstance(dtype, type) and given == STRING and dtype not in _OBJECTS else given


def type_name(dtype: DTypeName) -> str:
    """Return the name of an element type: NumPy's name, and `"string"` for object.

    Parameters
    ----------
    dtype : data-type
        The element type.

    Returns
    -------
    str

    Examples
    --------
    >>> type_name(np.dtype("int8")), type_name(np.dtype(object))
    ('int8', 'string')
    """
    if not isinstance(dtype, np.dtype):
        dtype = element_type(dtype)
    return _NAME_OF.get(dtype) or dtype.name


def _bfloat16() -> np.dtype[Any]:
    try:
        from ml_dtypes import bfloat16
    except ImportError:
        raise ImportError("bfloat16 needs the package ml_dtypes: pip install ml_dtypes") from None
    _NAME_OF[np.dtype(bfloat16)] = "bfloat16"
    return _CANONICAL.setdefault(np.dtype(bfloat16), np.dtype(bfloat16))


def _names() -> str:
    return ", ".join([*ELEMENT_TYPES, "bfloat16"])
