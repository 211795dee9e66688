"""The C-level API as functions of Python, by ctypes: for tests that should run where there is no compiler."""

import ctypes
from ctypes import POINTER, PYFUNCTYPE, c_char_p, c_int, c_ssize_t, c_void_p, py_object

from seqcore.core import embedding

# In the order of the table, behind its two versions, which take as much as a pointer.
_SIGNATURES = {
    "is_sequence": (c_int, py_object),
    "new_sequence": (py_object, py_object),
    "type_num": (c_int, py_object),
    "size": (c_ssize_t, py_object),
    "at": (py_object, py_object, c_ssize_t),
    "insert": (c_int, py_object, c_ssize_t, py_object),
    "append": (c_int, py_object, py_object),
    "replace": (c_int, py_object, c_ssize_t, py_object),
    "erase": (c_int, py_object, c_ssize_t),
    "insert_memory": (
        *(c_int, py_object, c_ssize_t, c_void_p, c_int),
        *(POINTER(c_ssize_t), POINTER(c_ssize_t), py_object),
    ),
    "split": (py_object, py_object, c_int, c_ssize_t, c_int),
    "split_lengths": (py_object, py_object, c_int, POINTER(c_ssize_t), c_ssize_t),
    "join": (py_object, py_object, c_int, c_int),
    "hold": (c_void_p, py_object),
    "let_go": (None, c_void_p),
    "count": (c_ssize_t, c_void_p),
    "view": (
        *(c_int, c_void_p, c_ssize_t, POINTER(c_void_p), c_int),
        *(POINTER(c_ssize_t), POINTER(c_ssize_t)),
    ),
}


def _functions():
    pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
    pointer_of.restype, pointer_of.argtypes = c_void_p, (py_object, c_char_p)
    table = pointer_of(embedding.api, b"seqcore.core.embedding.api")
    slots = (c_void_p * (len(_SIGNATURES) + 1)).from_address(table)
    # A function of this kind holds the GIL, and raises what the call leaves set.
    return {
        name: PYFUNCTYPE(*signature)(slots[i]) for i, (name, signature) in enumerate(_SIGNATURES.items(), 1)
    }


globals().update(_functions())


def extents(*numbers):
    """Return an array of Py_ssize_t."""
    return (c_ssize_t * len(numbers))(*numbers)
