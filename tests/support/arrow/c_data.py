"""Arrow's C data interface by ctypes: its structs, and a consumer of what capsules hold.

A struct is released by its owner, once. Who takes one moves it: copies the struct, and clears `release` in
the one it came from, so that the producer's capsule finds nothing to release.
"""

import ctypes
import itertools
from ctypes import CFUNCTYPE, POINTER, PYFUNCTYPE, c_char_p, c_int, c_int64, c_void_p, py_object
from struct import unpack

import numpy as np
from support.strategies import dtype_of


class Schema(ctypes.Structure):
    pass


class Array(ctypes.Structure):
    pass


class ArrayStream(ctypes.Structure):
    _fields_ = [
        ("get_schema", c_void_p),
        ("get_next", c_void_p),
        ("get_last_error", c_void_p),
        ("release", c_void_p),
        ("private_data", c_void_p),
    ]


Schema._fields_ = [
    ("format", c_char_p),
    ("name", c_char_p),
    ("metadata", c_void_p),
    ("flags", c_int64),
    ("n_children", c_int64),
    ("children", POINTER(POINTER(Schema))),
    ("dictionary", POINTER(Schema)),
    ("release", c_void_p),
    ("private_data", c_void_p),
]
Array._fields_ = [
    ("length", c_int64),
    ("null_count", c_int64),
    ("offset", c_int64),
    ("n_buffers", c_int64),
    ("n_children", c_int64),
    ("buffers", POINTER(c_void_p)),
    ("children", POINTER(POINTER(Array))),
    ("dictionary", POINTER(Array)),
    ("release", c_void_p),
    ("private_data", c_void_p),
]
NAMES = {Schema: b"arrow_schema", Array: b"arrow_array", ArrayStream: b"arrow_array_stream"}
NULLABLE = 2
FORMATS = {
    "bool": "b",
    "int8": "c",
    "uint8": "C",
    "int16": "s",
    "uint16": "S",
    "int32": "i",
    "uint32": "I",
    "int64": "l",
    "uint64": "L",
    "float16": "e",
    "float32": "f",
    "float64": "g",
    "string": "U",
}
_TYPES = {code: name for name, code in FORMATS.items()}

# ctypes lets go of the GIL for a CFUNCTYPE, and takes it for one that is a callback.
RELEASE = CFUNCTYPE(None, c_void_p)
INTO = CFUNCTYPE(c_int, c_void_p, c_void_p)
LAST_ERROR = CFUNCTYPE(c_void_p, c_void_p)
_pointer_in = PYFUNCTYPE(c_void_p, py_object, c_char_p)(("PyCapsule_GetPointer", ctypes.pythonapi))


# --- what capsules hold ---


def look(capsule, kind):
    """The struct in a capsule, which stays its owner."""
    found = kind.from_address(_pointer_in(capsule, NAMES[kind]))
    found.capsule = capsule
    return found


def move(struct):
    """A struct of ours with what was in another, which then counts as released."""
    ours = type(struct)()
    ctypes.memmove(ctypes.byref(ours), ctypes.byref(struct), ctypes.sizeof(ours))
    struct.release = None
    return ours


def take(capsule, kind):
    return move(look(capsule, kind))


def release(struct):
    """What the last owner does; the producer has to clear the field."""
    assert struct.release
    RELEASE(struct.release)(ctypes.addressof(struct))
    assert not struct.release


def taken(seq, requested=None):
    """A sequence's schema and array, moved out of their capsules."""
    schema, array = seq.__arrow_c_array__(requested)
    return take(schema, Schema), take(array, Array)


def children(struct):
    return [struct.children[i].contents for i in range(struct.n_children)]


def metadata_of(schema):
    """The pairs that a schema's metadata hold."""
    if not schema.metadata:
        return {}
    at = schema.metadata

    def read():
        nonlocal at
        (size,) = unpack("i", ctypes.string_at(at, 4))
        text = ctypes.string_at(at + 4, size)
        at += 4 + size
        return text

    (count,) = unpack("i", ctypes.string_at(at, 4))
    at += 4
    return {read(): read() for _ in range(count)}


def view(address, dtype, count):
    """Memory as an array, for as long as it lives."""
    dtype = np.dtype(dtype)
    if not count:
        return np.empty(0, dtype)
    return np.frombuffer((ctypes.c_char * (count * dtype.itemsize)).from_address(address), dtype, count)


def decode(schema, array, start=0, count=None):
    """The values of an array without nulls, as nested lists."""
    code = schema.format.decode()
    assert array.null_count == 0
    assert array.n_children == schema.n_children
    start += array.offset
    count = array.length if count is None else count
    if not count:
        return []  # where buffers may be NULL
    inner = list(zip(children(schema), children(array), strict=True))
    if code in ("+l", "+L"):
        ends = view(array.buffers[1], "i4" if code == "+l" else "i8", start + count + 1)[start:].tolist()
        return [decode(*inner[0], a, b - a) for a, b in itertools.pairwise(ends)]
    if code in ("+vl", "+vL"):
        width = "i4" if code == "+vl" else "i8"
        starts, sizes = (view(array.buffers[i], width, start + count)[start:].tolist() for i in (1, 2))
        return [decode(*inner[0], a, n) for a, n in zip(starts, sizes, strict=True)]
    if code.startswith("+w:"):
        width = int(code[3:])
        flat = decode(*inner[0], start * width, count * width)
        return [flat[i * width : (i + 1) * width] for i in range(count)]
    if code == "+s":
        columns = [decode(*one, start, count) for one in inner]
        return list(zip(*columns, strict=True))
    if code in ("u", "U"):
        ends = view(array.buffers[1], "i4" if code == "u" else "i8", start + count + 1)[start:].tolist()
        text = array.buffers[2] or 0
        return [
            ctypes.string_at(text + a, b - a).decode() if b > a else "" for a, b in itertools.pairwise(ends)
        ]
    if code == "b":
        bits = np.unpackbits(view(array.buffers[1], "u1", (start + count + 7) // 8), bitorder="little")
        return bits[start : start + count].astype(bool).tolist()
    return view(array.buffers[1], dtype_of(_TYPES[code]), start + count)[start:].tolist()


class Chunks:
    """A consumer of a stream, that owns it until it is closed."""

    def __init__(self, capsule):
        self.stream = take(capsule, ArrayStream)
        self.at = ctypes.addressof(self.stream)

    def schema(self):
        got = Schema()
        assert INTO(self.stream.get_schema)(self.at, ctypes.addressof(got)) == 0
        return got

    def next(self):
        """The next chunk; one that is released is the end."""
        got = Array()
        assert INTO(self.stream.get_next)(self.at, ctypes.addressof(got)) == 0
        return got

    def last_error(self):
        text = LAST_ERROR(self.stream.get_last_error)(self.at)
        return None if text is None else ctypes.string_at(text)

    def close(self):
        release(self.stream)
