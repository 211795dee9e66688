"""Arrow columns: types, and data for export and import."""

from typing import Any

import numpy as np

from seqcore.dtypes import ELEMENT_TYPES, STRING

LIST, LARGE_LIST, LIST_VIEW, LARGE_LIST_VIEW = "+l", "+L", "+vl", "+vL"
STRUCT = "+s"
RUN_ENDS = "+r"
BOOL = "b"
TEXTS = TEXT, LARGE_TEXT, TEXT_VIEW = "u", "U", "vu"

# Arrow's format strings: https://arrow.apache.org/docs/format/CDataInterface.html
FORMATS = {
    np.dtype(name): letter
    for name, letter in (
        *(("bool", BOOL), ("float16", "e"), ("float32", "f"), ("float64", "g")),
        *(("int8", "c"), ("int16", "s"), ("int32", "i"), ("int64", "l")),
        *(("uint8", "C"), ("uint16", "S"), ("uint32", "I"), ("uint64", "L")),
    )
} | {STRING: LARGE_TEXT}
NUMBERS = {letter: dtype for dtype, letter in FORMATS.items() if letter not in (BOOL, LARGE_TEXT)}

_32_BITS: np.dtype[Any] = np.dtype(np.int32)
_64_BITS: np.dtype[Any] = np.dtype(np.int64)
_OFFSET_TYPES = {
    LIST: _32_BITS,
    TEXT: _32_BITS,
    LARGE_LIST: _64_BITS,
    LARGE_TEXT: _64_BITS,
}  # from each to the next
_SPAN_TYPES = {LIST_VIEW: _32_BITS, LARGE_LIST_VIEW: _64_BITS}  # starts, and lengths

BOOL8 = "arrow.bool8"
FIXED_SHAPE = "arrow.fixed_shape_tensor"
VARIABLE_SHAPE = "arrow.variable_shape_tensor"
TRUE_BOOLS = "seqcore:bools"  # metadata of a bool8 field in our files: all bytes are 0 or 1
_EXTENSION = "ARROW:extension:name"
_PARAMETERS = "ARROW:extension:metadata"

_WORDS = {
    **{letter: name for name, dtype in ELEMENT_TYPES.items() if (letter := FORMATS.get(dtype))},
    **{"n": "null", "z": "binary", "Z": "large_binary", "vz": "binary_view", "U": "large_string"},
    **{TEXT: "string", TEXT_VIEW: "string_view", "+m": "map", STRUCT: "struct", RUN_ENDS: "run_end_encoded"},
    **{LIST: "list", LARGE_LIST: "large_list", LIST_VIEW: "list_view", LARGE_LIST_VIEW: "large_list_view"},
    **{"tdD": "date32", "tdm": "date64", "tts": "time32", "ttm": "time32", "ttu": "time64", "ttn": "time64"},
    **{
        "ts": "timestamp",
        "tD": "duration",
        "ti": "interval",
        "d:": "decimal",
        "w:": "fixed_size_binary",
        "+w": "fixed_size_list",
        "+u": "union",
    },
}


class Field:
    """An Arrow type with a name: a format string, and the child fields."""

    __slots__ = ("children", "decoded", "dictionary", "format", "metadata", "name", "nullable")

    def __init__(self, format, name="item", children=(), metadata=None, nullable=True, dictionary=None):
        self.format, self.name, self.children = format, name, children
        self.metadata, self.nullable, self.dictionary = metadata or {}, nullable, dictionary
        self.decoded = None  # the last dictionary that `referred` has decoded

    @property
    def extension(self):
        """The name of an extension type; None for other types."""
        return self.metadata.get(_EXTENSION)

    @property
    def is_encoded(self):
        """True for dictionary- and run-end-encoded arrays."""
        return self.dictionary is not None or self.format == RUN_ENDS

    def is_like(self, other):
        """Return whether two types are equal apart from the names of their fields."""
        return (
            (self.format, self.extension) == (other.format, other.extension)
            and (self.dictionary is None) == (other.dictionary is None)
            and len(self.children) == len(other.children)
            and all(a.is_like(b) for a, b in zip(self.children, other.children, strict=True))
        )

    @property
    def is_tensors(self):
        """True for `arrow.variable_shape_tensor`, and for its storage type."""
        if self.extension == VARIABLE_SHAPE:
            return True
        if self.format != STRUCT or [child.name for child in self.children] != ["data", "shape"]:
            return False
        data, shape = self.children
        return data.format in (LIST, LARGE_LIST) and shape.format.startswith("+w:")

    def parameter(self, name):
        """Return a parameter of an extension type, or None if it doesn't have it.

        Raises
        ------
        ValueError
            If its parameters are not JSON.
        """
        import json  # costs a tenth of our own import, and few arrays have parameters

        text = self.metadata.get(_PARAMETERS) or "{}"
        try:
            return json.loads(text).get(name)
        except (ValueError, AttributeError, RecursionError):
            raise ValueError(
                f"the parameters of {self.extension} must be a JSON object, got {text:.60}"
            ) from None

    @property
    def fixed_length(self):
        """The length of the lists of a fixed_size_list; None for other types."""
        if not self.format.startswith("+w:"):
            return None
        length = self.format[3:]
        if not length.isascii() or not length.isdigit() or len(length) > 10 or len(self.children) != 1:
            raise ValueError(f"{self.format!r:.40} is not a valid format of a fixed-size list")
        return int(length)

    @property
    def type_name(self):
        """The name of the type in Arrow."""
        if self.extension:
            return self.extension
        if self.dictionary is not None:
            return f"dictionary<{self.dictionary.type_name}>"
        word = _WORDS.get(self.format) or _WORDS.get(self.format[:2]) or repr(self.format)[:40]
        if self.children:
            word += f"<{', '.join(child.type_name for child in self.children[:6])}>"
        return word

    def check(self, column):
        """Raise if the buffers of a column of this type are shorter than its length and offsets say.

        They never are, unless a layout is wrong. Then a consumer must not read, or write to a file, what lies
        behind them. The children check themselves.
        """
        kind, length, children = self.format, column.length, column.children
        fits = len(children) == len(self.children)
        if kind in NUMBERS:
            fits = fits and _has(column, 1, length, NUMBERS[kind].itemsize)
        elif kind == BOOL:
            fits = fits and _has(column, 1, -(-length // 8), 1)
        elif kind in _OFFSET_TYPES:
            fits = fits and _has(column, 1, length + 1, _OFFSET_TYPES[kind].itemsize)
            if fits:
                end = int(column.buffers[1].view(_OFFSET_TYPES[kind])[length])
                fits = end <= children[0].length if children else _has(column, 2, end, 1)
        elif kind in _SPAN_TYPES:
            fits = fits and all(_has(column, which, length, _SPAN_TYPES[kind].itemsize) for which in (1, 2))
        elif self.fixed_length is not None:
            fits = fits and self.fixed_length * length <= children[0].length
        else:
            fits = fits and kind == STRUCT and all(length <= child.length for child in children)
        if not fits:
            raise RuntimeError(
                f"this is a bug of seqcore: a column of {length} items doesn't fit its type, {self.type_name}"
            )

    def renamed(self, name):
        """Return the same field with another name."""
        return Field(self.format, name, self.children, self.metadata, self.nullable, self.dictionary)


def extended(field, extension, parameters="", **more):
    """Return a field with an extension type, stored as the type of this one."""
    metadata = {_EXTENSION: extension, _PARAMETERS: parameters, **more}
    return Field(field.format, field.name, field.children, metadata, field.nullable)


def _has(column, which, count, itemsize):
    """Return whether a column has a buffer of at least so many items, one behind the other."""
    buffer = column.buffers[which] if which < len(column.buffers) else None
    return buffer is not None and buffer.flags.c_contiguous and 0 <= count * itemsize <= buffer.nbytes


class Column:
    """Data to export: the buffers as arrays, or None for a missing one, and the child columns."""

    __slots__ = ("buffers", "children", "length")

    def __init__(self, length, buffers, children=()):
        self.length, self.buffers, self.children = length, buffers, children


class Chunk:
    """Imported data: the addresses of the buffers, and the owner of their memory.

    The items are `offset` to `offset + length`; `nulls` is the number of nulls, or -1 if unknown.
    """

    __slots__ = ("addresses", "children", "dictionary", "field", "length", "memory", "nulls", "offset")

    def __init__(self, field, length, offset, nulls, addresses, children, dictionary, memory):
        self.field, self.length, self.offset, self.nulls = field, length, offset, nulls
        self.addresses, self.children = addresses, children
        self.dictionary, self.memory = dictionary, memory

    @property
    def key(self):
        """A key that is equal for chunks of the same memory."""
        within = (*self.children, *(() if self.dictionary is None else (self.dictionary,)))
        return self.addresses, self.offset, self.length, tuple(chunk.key for chunk in within)

    def buffer(self, number, dtype, start, count):
        """Return items of a buffer as a read-only view."""
        if number >= len(self.addresses):
            raise ValueError(
                f"the Arrow array is damaged: one of type {self.field.type_name} has {len(self.addresses)} "
                f"buffers, but needs {number + 1}"
            )
        return self.memory.view(self.addresses[number], np.dtype(dtype), start, count)

    def bits(self, number, start, count):
        """Return bits of a buffer as a new array of bools."""
        first = start // 8
        data = self.buffer(number, np.uint8, first, -(-(start + count) // 8) - first if count else 0)
        bits = np.unpackbits(data, bitorder="little", count=start + count - 8 * first if count else 0)
        return bits[start - 8 * first :].view(bool)
