"""The levels within the elements: an array of rank 1 or more as nested lists of one length."""

import numpy as np

from seqcore.core.arrow import text_column
from seqcore.core.fields import (
    BOOL,
    BOOL8,
    FORMATS,
    LARGE_LIST,
    LARGE_TEXT,
    LIST,
    NUMBERS,
    TEXT,
    Column,
    Field,
)
from seqcore.dtypes import STRING

_MOST = np.iinfo(np.int32).max  # the largest 32-bit offset, and the largest fixed size
_MOST_ITEMS = np.iinfo(np.int64).max


class Items:
    """The level below the elements: an array of rank 1 or more as nested lists of one length."""

    def __init__(self, dtype, shape, asked):
        self.shape = shape  # without axis 0
        self.kind = None  # the format of the lists at this level
        self.in_place = False  # whether `column` returns a view of any values
        if shape:
            if shape[0] > _MOST:
                raise ValueError(
                    f"elements have an extent of {shape[0]:,} behind axis 0, but Arrow's fixed-size lists "
                    f"have at most {_MOST:,} items: reshape them, so that it is in axis 0"
                )
            nested = asked is not None and len(asked.children) == 1
            kind = asked.format if nested and asked.format in (LIST, LARGE_LIST) else f"+w:{shape[0]}"
            nested = nested and asked.format == kind and not asked.extension
            self.kind = kind
            self.within = Items(dtype, shape[1:], asked.children[0] if nested else None)
            self.field: Field = field_like(asked if nested else None, kind, self.within.field)
            self.in_place = self.within.in_place and kind.startswith("+w")
        elif dtype == STRING:
            is_text = asked is not None and asked.format in (TEXT, LARGE_TEXT)
            self.field = asked if is_text else Field(LARGE_TEXT)
        elif dtype.kind == "b" and asked is not None and asked.extension == BOOL8:
            self.field = Field("c", asked.name, (), asked.metadata, asked.nullable)
        else:
            given = dtype
            plain = asked is not None and not asked.extension and asked.dictionary is None
            wanted = NUMBERS.get(asked.format) if plain else None
            if wanted is not None and _holds(wanted, dtype):
                dtype = wanted
            # nanoarrow reads float16 as if lists began at 0, so those do.
            self.in_place = dtype == given and dtype.kind != "b" and dtype != np.float16
            self.field = _plain(Field(FORMATS[dtype]), asked)

    def column(self, values):
        """Return the column for an array of shape (n, *shape)."""
        if self.kind is not None:
            n, length = values.shape[:2]
            if n * length > _MOST_ITEMS:  # without memory for any: an inner extent is 0
                raise ValueError(f"lists of {n:,} × {length:,} items have more of them than Arrow can count")
            within = self.within.column(contiguous(values).reshape(n * length, *values.shape[2:]))
            if self.kind.startswith("+w"):
                return Column(n, (None,), (within,))
            if self.kind == LIST and n * length > _MOST:
                raise OverflowError("the lists have too many items for 32-bit offsets: request large_list")
            dtype = np.int32 if self.kind == LIST else np.int64
            return Column(n, (None, np.arange(n + 1, dtype=dtype) * dtype(length)), (within,))
        if values.dtype == STRING:
            return text_column(values, self.field)
        if self.field.format == BOOL:
            return Column(len(values), (None, np.packbits(values, bitorder="little")))
        if self.field.extension != BOOL8:
            # The dtype of the sequence, or a wider one that was requested.
            values = values.astype(NUMBERS[self.field.format], copy=False)
        return Column(len(values), (None, contiguous(values)))


def contiguous(values):
    return values if values.flags.c_contiguous and values.flags.aligned else np.array(values, order="C")


def _holds(wanted, dtype):
    """Return whether a dtype represents all values of another; for NumPy float64 does so for int64."""
    loses = dtype.kind in "iu" and dtype.itemsize == 8 and wanted.kind == "f"
    return np.can_cast(dtype, wanted, "safe") and not loses


def field_like(asked, kind, within):
    """Return a field of lists, with the name of the requested one."""
    if asked is None:
        return Field(kind, "item", (within,))
    return Field(kind, asked.name, (within,), {}, asked.nullable)


def _plain(field, asked):
    """Return a field of numbers, with the name of the requested one."""
    return field if asked is None else Field(field.format, asked.name, (), {}, asked.nullable)


def only_child(asked):
    return asked.children[0] if asked is not None and len(asked.children) == 1 else None
