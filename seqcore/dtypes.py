"""Which NumPy types are ONNX tensor types.

Fifteen of ONNX's types have a place in sequences, and bfloat16 comes as an extension through `ml_dtypes`.
Strings are object arrays of `str`, the form that onnx and onnxruntime use.
"""

import numpy as np

from seqcore._shown import shown

__all__ = ["ELEMENT_TYPES", "element_type", "type_name"]

STRING = np.dtype(object)

ELEMENT_TYPES = {
    name: np.dtype(name)
    for name in (
        *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        *("float16", "float32", "float64", "complex64", "complex128"),
    )
} | {"string": STRING}

_OBJECTS = (object, np.object_)

# Many spellings are one type ('<f4' and 'float32', int64's two C types); these are the ones we keep.
_CANONICAL = {dtype: dtype for dtype in ELEMENT_TYPES.values()}


def element_type(dtype):
    """Return the element type that `dtype` names, as the one `np.dtype` that seqcore uses for it.

    Parameters
    ----------
    dtype : data-type
        What `np.dtype` takes. `str`, `object`, `"string"` and any of NumPy's text types name the string
        type; `"bfloat16"` needs the package ml_dtypes. The byte order does not matter.

    Raises
    ------
    TypeError
        If it names no ONNX tensor type: bytes, dates, records, long doubles, `None`.
    ImportError
        If it is `"bfloat16"` and ml_dtypes is not installed.

    Examples
    --------
    >>> element_type("float32"), element_type(">f4"), element_type(str)
    (dtype('float32'), dtype('float32'), dtype('O'))
    """
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
        raise TypeError(f"{shown(dtype)} is not an element type: expected one of {_names()}")
    if given.kind in "UT":
        return STRING
    native = given.newbyteorder("=") if given.byteorder not in "=|" else given
    if native in _CANONICAL:
        return _CANONICAL[native]
    if native.name == "bfloat16":
        return _bfloat16()
    raise TypeError(f"{given.name} is not an element type: expected one of {_names()}")


def numpy_type(dtype):
    """Return the `np.dtype` that something names, or None; of objects only `object` is one.

    Only what can name one comes before NumPy, which shows all else in a message of its own.
    """
    if isinstance(dtype, np.dtype):
        return dtype
    if isinstance(dtype, str):
        dtype = str.__str__(dtype)
    elif not isinstance(dtype, type | bytes):
        own = getattr(dtype, "dtype", None)
        return own if isinstance(own, np.dtype) else None
    try:
        given = np.dtype(dtype)
    except (TypeError, ValueError):  # the latter of text that is none
        return None
    # To NumPy any class is a type of objects.
    return None if isinstance(dtype, type) and given == STRING and dtype not in _OBJECTS else given


def type_name(dtype):
    """Return ONNX's word for an element type: NumPy's name, but `string` for object.

    Examples
    --------
    >>> type_name(np.dtype("int8")), type_name(np.dtype(object))
    ('int8', 'string')
    """
    if not isinstance(dtype, np.dtype):
        dtype = element_type(dtype)
    return "string" if dtype == STRING else dtype.name


def _bfloat16():
    try:
        from ml_dtypes import bfloat16
    except ImportError:
        raise ImportError("bfloat16 needs the package ml_dtypes: pip install ml_dtypes") from None
    return _CANONICAL.setdefault(np.dtype(bfloat16), np.dtype(bfloat16))


def _names():
    return ", ".join([*ELEMENT_TYPES, "bfloat16"])
