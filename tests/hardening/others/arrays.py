"""NumPy's tests of `ufunc.reduceat` and of the protocols by which it takes arrays of others."""

import re
from pathlib import Path

import numpy as np
from hardening.others.outcomes import Report, run_rewritten

import seqcore as sq

REDUCEAT_EXCEPTIONS = {}
_OWN_ERROR = "the error is a TypeError that names the tensor"
_OWNER = "elements are read-only views, whose base is an owner of seqcore's"
PROTOCOL_EXCEPTIONS = {
    "TestDLPack.test_strides_not_multiple_of_itemsize": _OWN_ERROR,
    "TestDLPack.test_invalid_dtype": _OWN_ERROR,
    "TestDLPack.test_invalid_byte_swapping": _OWN_ERROR,
    "TestDLPack.test_writeable": _OWNER,
    "TestDLPack.test_device": "from_dlpack has a parameter `device`, a sequence doesn't",
    "TestArrayCreationCopyArgument.test_array_interfaces": _OWNER,
    "test_multiarray.test_interface_nullptr[[]iface0[]]": _OWNER,
    "test_multiarray.test_interface_nullptr[[]iface1[]]": "void is not an element type",
    "test_api.test___array___refcount": "an element is read without a copy, so copy=False raises no error",
}

FOLDER = Path(np.__file__).parent / "_core" / "tests"


def reduceat(ufunc, array, indices, axis=0, dtype=None, out=None):
    """Do as `ufunc.reduceat` does, by a sequence of the slices."""
    axis = 0 if axis is None else axis
    array = np.moveaxis(np.asanyarray(array), axis, 0)
    indices = np.asarray(indices, np.intp)
    if ((indices < 0) | (indices >= len(array))).any():
        raise IndexError(f"an index is out-of-bounds in reduceat [0, {len(array)})")
    ends = [*indices[1:], len(array)]
    slices = [array[i : max(j, i + 1)] for i, j in zip(indices, ends, strict=False)]
    seq = sq.TensorSequence(slices or [array[:0]])[: len(slices)]
    if out is not None and dtype is None:
        dtype = out.dtype
    result = seq.reduce(ufunc, dtype=dtype)
    if not slices:
        result = result.reshape(0, *array.shape[1:])
    result = np.moveaxis(result, 0, axis)
    if out is None:
        return result
    if out.shape != result.shape:
        raise ValueError(f"provided out has shape {out.shape}, expected {result.shape}")
    out[...] = result
    return out


class DLPack:
    """An array that has DLPack's protocol alone."""

    def __init__(self, array):
        self.__dlpack__, self.__dlpack_device__ = array.__dlpack__, array.__dlpack_device__


def from_dlpack(array, **options):
    return sq.TensorSequence([DLPack(array)], **options)[0]


def array(value, dtype=None, **options):
    """Do as `np.array` does; what has a protocol, and is not NumPy's, goes through a sequence."""
    protocols = ("__array_interface__", "__array_struct__", "__array__")
    own = isinstance(value, (np.ndarray, np.generic, type, list))
    if own or not any(
        hasattr(type(value), name) or name in getattr(value, "__dict__", ()) for name in protocols
    ):
        return np.array(value, dtype, **options)
    return np.asarray(sq.TensorSequence([value])[0], dtype)


def rewritten(name, pattern, replacement):
    """Return NumPy's test file with calls replaced by those of this module."""
    text = (FOLDER / name).read_text(encoding="utf-8").replace("from ._", "from numpy._core.tests._")
    head = "import hardening.others.arrays as _ours\n"
    return {
        name: re.sub("^import ", f"{head}import ", re.sub(pattern, replacement, text), count=1, flags=re.M)
    }


def run():
    reduceat_tests = []
    for name, chosen in (
        (
            "test_ufunc.py",
            "test_reduceat_shifting_sum or test_reduceat_and_accumulate_out or test_reduce_casterrors",
        ),
        ("test_umath.py", "test_reduceat"),
        ("test_mem_overlap.py", "reduceat"),
    ):
        text = rewritten(name, r"\b(np\.\w+|ufunc)\.reduceat\(", r"_ours.reduceat(\1, ")
        reduceat_tests += run_rewritten(text, chosen)
    protocol_tests = run_rewritten(
        rewritten("test_dlpack.py", r"\bnp\.from_dlpack\(", "_ours.from_dlpack("), "from_dlpack or not dunder"
    )
    for name, chosen in (
        ("test_multiarray.py", "TestArrayInterface or interface"),
        ("test_array_coercion.py", "TestArrayLikes or TestSpecialAttributeLookupFailure"),
        ("test_protocols.py", "test"),
        ("test_api.py", "array___refcount"),
    ):
        text = rewritten(name, r"\bnp\.(?:as)?array(?=[(,])", "_ours.array")
        protocol_tests += run_rewritten(text, chosen)
    yield Report("NumPy, reduceat", reduceat_tests, REDUCEAT_EXCEPTIONS)
    yield Report("NumPy, protocols of arrays", protocol_tests, PROTOCOL_EXCEPTIONS)
