"""What a column is: its type, and its data on the way out and on the way in."""

import json

import numpy as np

from seqcore.dtypes import ELEMENT_TYPES, STRING

LIST, LARGE_LIST, LIST_VIEW, LARGE_LIST_VIEW = "+l", "+L", "+vl", "+vL"
STRUCT = "+s"
RUN_ENDS = "+r"
BOOL = "b"
TEXT, LARGE_TEXT, TEXT_VIEW = "u", "U", "vu"

# Arrow's letters; https://arrow.apache.org/docs/format/CDataInterface.html has them.
FORMATS = {
    np.dtype(name): letter
    for name, letter in (
        *(("bool", BOOL), ("float16", "e"), ("float32", "f"), ("float64", "g")),
        *(("int8", "c"), ("int16", "s"), ("int32", "i"), ("int64", "l")),
        *(("uint8", "C"), ("uint16", "S"), ("uint32", "I"), ("uint64", "L")),
    )
} | {STRING: LARGE_TEXT}
NUMBERS = {letter: dtype for dtype, letter in FORMATS.items() if letter not in (BOOL, LARGE_TEXT)}

BOOL8 = "arrow.bool8"
FIXED_SHAPE = "arrow.fixed_shape_tensor"
VARIABLE_SHAPE = "arrow.variable_shape_tensor"
TRUE_BOOLS = "seqcore:bools"  # metadata of a bool8 field in our files: all its bytes are 0 or 1
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
    """A type of Arrow's, with its name: a letter or two, and the fields within."""

    __slots__ = ("children", "decoded", "dictionary", "format", "metadata", "name", "nullable")

    def __init__(self, format, name="item", children=(), metadata=None, nullable=True, dictionary=None):
        self.format, self.name, self.children = format, name, children
        self.metadata, self.nullable, self.dictionary = metadata or {}, nullable, dictionary
        self.decoded = None  # of values that chunks share: what `referred` has read last

    @property
    def extension(self):
        """The name of an extension type; None of a plain one."""
        return self.metadata.get(_EXTENSION)

    @property
    def is_encoded(self):
        """Whether items are references to values, in a dictionary or by runs."""
        return self.dictionary is not None or self.format == RUN_ENDS

    def is_like(self, other):
        """Whether two types are one, whatever their fields are called."""
        return (
            (self.format, self.extension) == (other.format, other.extension)
            and (self.dictionary is None) == (other.dictionary is None)
            and len(self.children) == len(other.children)
            and all(a.is_like(b) for a, b in zip(self.children, other.children, strict=True))
        )

    @property
    def is_tensors(self):
        """Whether it is `arrow.variable_shape_tensor`, or what that is stored as."""
        if self.extension == VARIABLE_SHAPE:
            return True
        if self.format != STRUCT or [child.name for child in self.children] != ["data", "shape"]:
            return False
        data, shape = self.children
        return data.format in (LIST, LARGE_LIST) and shape.format.startswith("+w:")

    def parameter(self, name):
        """A parameter of an extension type, None where it says nothing of it.

        Raises
        ------
        ValueError
            If its parameters are no JSON.
        """
        text = self.metadata.get(_PARAMETERS) or "{}"
        try:
            return json.loads(text).get(name)
        except (ValueError, AttributeError, RecursionError):
            raise ValueError(f"the parameters of {self.extension} are no JSON object: {text:.60}") from None

    @property
    def fixed_length(self):
        """How long the lists of a fixed_size_list are; None of any other type."""
        if not self.format.startswith("+w:"):
            return None
        length = self.format[3:]
        if not length.isascii() or not length.isdigit() or len(length) > 10 or len(self.children) != 1:
            raise ValueError(f"{self.format!r:.40} is no type of Arrow's lists of fixed size")
        return int(length)

    @property
    def type_name(self):
        """Arrow's word for the type."""
        if self.extension:
            return self.extension
        if self.dictionary is not None:
            return f"dictionary<{self.dictionary.type_name}>"
        word = _WORDS.get(self.format) or _WORDS.get(self.format[:2]) or repr(self.format)[:40]
        if self.children:
            word += f"<{', '.join(child.type_name for child in self.children[:6])}>"
        return word

    def renamed(self, name):
        """The same type by another name."""
        return Field(self.format, name, self.children, self.metadata, self.nullable, self.dictionary)


def extended(field, extension, parameters="", **more):
    """A field whose type is an extension of its own one."""
    metadata = {_EXTENSION: extension, _PARAMETERS: parameters, **more}
    return Field(field.format, field.name, field.children, metadata, field.nullable)


class Column:
    """Data on the way out: buffers as arrays, None where there is none, and the columns within."""

    __slots__ = ("buffers", "children", "length")

    def __init__(self, length, buffers, children=()):
        self.length, self.buffers, self.children = length, buffers, children


class Chunk:
    """Data on the way in: where buffers are, and what keeps them alive.

    The items are those from `offset` on, `length` of them; `nulls` is how many are null, or -1.
    """

    __slots__ = ("addresses", "children", "dictionary", "field", "length", "memory", "nulls", "offset")

    def __init__(self, field, length, offset, nulls, addresses, children, dictionary, memory):
        self.field, self.length, self.offset, self.nulls = field, length, offset, nulls
        self.addresses, self.children = addresses, children
        self.dictionary, self.memory = dictionary, memory

    @property
    def key(self):
        """What two chunks of the same memory have in common."""
        within = (*self.children, *(() if self.dictionary is None else (self.dictionary,)))
        return self.addresses, self.offset, self.length, tuple(chunk.key for chunk in within)

    def buffer(self, number, dtype, start, count):
        """Items of one of the buffers, read-only and without a copy."""
        if number >= len(self.addresses):
            raise ValueError(
                f"an Arrow array of type {self.field.type_name} has {len(self.addresses)} buffers"
            )
        return self.memory.view(self.addresses[number], np.dtype(dtype), start, count)

    def bits(self, number, start, count):
        """Bits of one of the buffers, as a new array of bools."""
        first = start // 8
        data = self.buffer(number, np.uint8, first, -(-(start + count) // 8) - first if count else 0)
        bits = np.unpackbits(data, bitorder="little", count=start + count - 8 * first if count else 0)
        return bits[start - 8 * first :].view(bool)
