"""Layouts of a sequence in an Arrow array: chosen once, for all chunks of a stream.

::

    rank 0                    Plain          int64
    rank 1 and more           Lists          large_list<fixed_size_list<…>>     values and offsets
    if requested              ListViews      list_view<…>                       values, offsets and lengths
    if requested              Rows           fixed_size_list<…>, or a fixed-shape tensor
    inner axes differ         Tensors        arrow.variable_shape_tensor        values and shapes

A layout has a `field`, makes a `column` for any part of the sequence, and gives the `bounds` of the parts.
"""

import json

import numpy as np

from seqcore._arguments.shown import unless_empty_list
from seqcore._arrow.items import Items, field_like, only_child
from seqcore.core.arrow import as_lists, first_misfit, memory_bounds, one_array, shapes_of
from seqcore.core.fields import (
    BOOL,
    BOOL8,
    FIXED_SHAPE,
    FORMATS,
    LARGE_LIST,
    LARGE_LIST_VIEW,
    LARGE_TEXT,
    LIST,
    LIST_VIEW,
    NUMBERS,
    STRUCT,
    TEXT,
    VARIABLE_SHAPE,
    Column,
    Field,
    extended,
)
from seqcore.core.maps import items_of, stack
from seqcore.dtypes import STRING, type_name

_MOST = np.iinfo(np.int32).max  # the largest 32-bit offset, length or extent
_MOST_LEVELS = 64  # of pyarrow
# A part for each memory, unless there are so many or so small ones that a copy of all is better.
MOST_PARTS = 1000
_LARGE_PART = 1 << 16  # bytes
_SMALL = {LIST, LIST_VIEW}
_VIEWS = {LIST_VIEW, LARGE_LIST_VIEW}
_LISTS = {LIST, LARGE_LIST} | _VIEWS


def layout_of(seq, asked=None):
    """Return the layout of a sequence in an Arrow array.

    Parameters
    ----------
    seq : TensorSequence
        The sequence, which must not be edited meanwhile.
    asked : Field, optional
        The requested type; ignored if the elements don't fit it.

    Raises
    ------
    TypeError
        If Arrow doesn't support the dtype: complex numbers, bfloat16.
    ValueError
        If ranks differ.
    """
    if seq.dtype not in FORMATS:
        name = type_name(seq.dtype)
        view = "np.float32" if name == "complex64" else "np.float64" if name == "complex128" else "np.uint16"
        raise TypeError(
            f"Arrow doesn't support {name}: convert the sequence with astype, or view the elements as "
            f"numbers with sequence_map(lambda t: t[..., None].view({view}), seq)"
        )
    if not len(seq):
        return Empty(asked) if _is_of(asked, seq.dtype) else Lists(seq.dtype, (), None)
    first = seq[:1].shapes[0]
    rank = len(first)
    alike = first_misfit(seq, rank, rank, first[1:]) == len(seq)
    if not alike and (other := first_misfit(seq, rank, rank, ())) < len(seq):
        raise ValueError(
            f"element {other} has shape {seq[other].shape}, but element 0 has shape {first}: in an Arrow "
            "array all elements have one rank, so reshape them, or export those of each rank"
            f"{unless_empty_list(first, seq[other].shape)}"
        )
    if asked is not None:
        layout = _asked(seq, rank, first[1:] if alike else None, asked)
        if layout is not None and layout.field.is_like(asked):
            return layout
    if rank == 0:
        return Plain(seq.dtype, None)
    layout = Lists(seq.dtype, first[1:], None) if alike else Tensors(seq.dtype, rank, None)
    check_levels(layout.field)
    return layout


def check_levels(field, above=0):
    """Raise if a type is nested deeper than Arrow's readers take; `above` is how many levels contain it."""
    levels, fields = above, [field]
    while fields:
        levels, fields = levels + 1, [child for one in fields for child in one.children]
    if levels > _MOST_LEVELS:
        raise ValueError(
            f"elements of so many axes need {levels} levels of lists in Arrow, but readers take at most "
            f"{_MOST_LEVELS}: reshape the elements, for example with sequence_map"
        )


def _asked(seq, rank, inner, asked):
    """Return the layout closest to the requested type, or None."""
    if rank == 0:
        return Plain(seq.dtype, asked)
    if asked.is_tensors:
        return Tensors(seq.dtype, rank, asked)
    if inner is None:
        return None
    if asked.extension == FIXED_SHAPE:
        shape = _shape_asked(asked)
        alike = shape is not None and first_misfit(seq, len(shape), len(shape), shape) == len(seq)
        return Rows(seq.dtype, shape, asked, flat=True) if alike else None
    if (asked.format not in _LISTS and asked.fixed_length is None) or len(asked.children) != 1:
        return None
    if asked.fixed_length is not None:
        alike = bool(np.all(seq.lengths() == asked.fixed_length))
        return Rows(seq.dtype, (asked.fixed_length, *inner), asked) if alike else None
    if asked.format not in _SMALL or (asked.format == LIST and _in_place(seq, LIST) is not None):
        return (ListViews if asked.format in _VIEWS else Lists)(seq.dtype, inner, asked)
    lengths = seq.lengths()
    # The sum of Python integers is exact, but slow.
    if len(lengths) * int(lengths.max()) > _MOST and sum(lengths.tolist()) > _MOST:
        return None
    if asked.format in _VIEWS:
        span = one_array(seq)
        # The views of a chunk refer to the whole array that its elements are views of.
        if span is not None and len(span[0]) > _MOST:
            return None
        return ListViews(seq.dtype, inner, asked)
    return Lists(seq.dtype, inner, asked)


def _in_place(seq, kind, with_prefix=False):
    """Return values and offsets of the width of a kind of lists, or None if the elements aren't one array."""
    try:
        return as_lists(seq, np.dtype(np.int32 if kind == LIST else np.int64), with_prefix)
    except OverflowError:
        return None


def _shape_asked(asked):
    """Return the shape of the requested tensors; None if it is invalid or permuted."""
    try:
        shape, order = asked.parameter("shape"), asked.parameter("permutation")
        shape = tuple(int(extent) for extent in shape)
    except (ValueError, TypeError):
        return None
    return shape if order in (None, list(range(len(shape)))) else None


def _is_of(asked, dtype):
    """Return whether an array of the requested type could have elements of a dtype."""
    if asked is None or asked.dictionary or asked.extension not in (None, BOOL8, FIXED_SHAPE):
        return False
    if len(asked.children) == 1:
        return (asked.format in _LISTS or asked.fixed_length is not None) and _is_of(asked.children[0], dtype)
    if asked.extension == BOOL8 or asked.format == BOOL:
        return dtype.kind == "b"
    if asked.format in (TEXT, LARGE_TEXT):
        return dtype == STRING
    return NUMBERS.get(asked.format) == dtype


# -- layouts -----------------------------------------------------------------------------------------


class Layout:
    """The base class of layouts: how a sequence is split for a stream."""

    def limits(self, seq):
        """Return the offsets of as few parts as `column` can make."""
        return [0, len(seq)]

    def bounds(self, seq):
        """Return the offsets of the parts: one part for each memory, because a common part needs a copy."""
        nbytes = seq.nbytes
        most = min(MOST_PARTS, nbytes // _LARGE_PART)
        return (memory_bounds(seq, most) if most > 1 else None) or [0, len(seq)]


class Empty(Layout):
    """No elements, of any requested type."""

    def __init__(self, asked):
        self.field = asked

    def column(self, seq):
        return _empty(self.field)


def _empty(field):
    children = tuple(map(_empty, field.children))
    if field.format in _VIEWS:
        return Column(0, (None, np.empty(0, np.int64), np.empty(0, np.int64)), children)
    if field.format in _LISTS:
        return Column(0, (None, np.zeros(1, np.int64)), children)
    if field.format in (TEXT, LARGE_TEXT):
        return Column(0, (None, np.zeros(1, np.int64), np.empty(0, np.int64)))
    return Column(0, (None,) if children else (None, np.empty(0, np.int64)), children)


class Plain(Layout):
    """Elements of rank 0 as an array of numbers."""

    rank = 0

    def __init__(self, dtype, asked):
        self.items = Items(dtype, (), asked)
        self.field = self.items.field

    def column(self, seq):
        return self.items.column(stack(seq))


class Lists(Layout):
    """Concatenated elements and their offsets."""

    def __init__(self, dtype, inner, asked):
        asked = asked if asked is not None and asked.format in (LIST, LARGE_LIST) else None
        self.rank = 1 + len(inner)
        self.items = Items(dtype, inner, only_child(asked))
        self.field = field_like(asked, LARGE_LIST if asked is None else asked.format, self.items.field)

    def column(self, seq):
        # Values in front of the elements cost nothing, unless they would be converted.
        run = _in_place(seq, self.field.format, self.items.in_place)
        if run is not None:
            values, offsets = run
        else:
            offsets = seq.offsets(np.int32 if self.field.format == LIST else np.int64)
            values = seq.values() if len(seq) else np.empty((0, *self.items.shape), seq.dtype)
        return Column(len(seq), (None, offsets), (self.items.column(values),))


class ListViews(Layout):
    """Elements as views of one array, each with a start and a length."""

    def __init__(self, dtype, inner, asked):
        self.items = Items(dtype, inner, only_child(asked))
        self.field = field_like(asked, asked.format, self.items.field)

    def column(self, seq):
        span = one_array(seq)
        if span is None:
            lengths = seq.lengths()
            span = seq.values(), np.cumsum(lengths) - lengths, lengths
        values, starts, lengths = span
        dtype = np.int32 if self.field.format == LIST_VIEW else np.int64
        starts, lengths = np.ascontiguousarray(starts, dtype), np.ascontiguousarray(lengths, dtype)
        return Column(len(seq), (None, starts, lengths), (self.items.column(values),))


class Rows(Layout):
    """Elements of one shape, as the rows of one array."""

    def __init__(self, dtype, shape, asked, flat=False):
        self.flat = flat
        child = only_child(asked)
        if flat:
            items = Items(dtype, (), child)
            size = int(np.prod(shape, dtype=np.int64))
            inner = Field(f"+w:{size}", asked.name, (items.field,), nullable=asked.nullable)
            parameters = {"shape": list(shape)}
            if asked.parameter("dim_names") is not None:
                parameters["dim_names"] = asked.parameter("dim_names")
            self.field = extended(inner, FIXED_SHAPE, json.dumps(parameters))
            self.items = items
        else:
            self.items = Items(dtype, shape[1:], child)
            self.field = field_like(asked, asked.format, self.items.field)

    def column(self, seq):
        values = stack(seq)
        n = len(values) * values.shape[1] if not self.flat else values.size
        values = values.reshape(n) if self.flat else values.reshape(n, *values.shape[2:])
        return Column(len(seq), (None,), (self.items.column(values),))


class Tensors(Layout):
    """Elements of one rank and different shapes: their values in C order, and their shapes."""

    def __init__(self, dtype, rank, asked):
        self.rank = rank
        wanted = asked is not None and asked.is_tensors and len(asked.children) == 2
        self.items = Items(dtype, (), only_child(asked.children[0]) if wanted else None)
        data = Field(LIST, "data", (self.items.field,))
        shape = Field(f"+w:{rank}", "shape", (Field("i"),))
        self.field = Field(STRUCT, "item", (data, shape))
        if self.items.field.format in {BOOL, *NUMBERS} and not self.items.field.extension:
            # pyarrow refuses tensors of strings and of bool8: they are exported as the storage type.
            self.field = extended(self.field, VARIABLE_SHAPE, "{}")

    def column(self, seq):
        shapes = shapes_of(seq, self.rank)
        sizes = np.prod(shapes, axis=1, dtype=np.int64)
        offsets = np.zeros(len(seq) + 1, np.int64)
        np.cumsum(sizes, out=offsets[1:])
        if shapes.size and shapes.max() > _MOST:
            raise ValueError(
                f"an element has an extent of {shapes.max():,}, but Arrow's tensors can have at most "
                f"{_MOST:,}"
            )
        if offsets[-1] > _MOST:
            raise ValueError(
                f"the elements have {offsets[-1]:,} items, but an Arrow array of tensors can have at most "
                f"{_MOST:,}: export a stream, or a part of the sequence at a time"
            )
        data = Column(len(seq), (None, offsets.astype(np.int32)), (self.items.column(items_of(seq)),))
        extents = Column(shapes.size, (None, shapes.astype(np.int32).reshape(-1)))
        return Column(len(seq), (None,), (data, Column(len(seq), (None,), (extents,))))

    def limits(self, seq):
        """Return the offsets of parts that have few enough items."""
        ends = np.cumsum(np.prod(shapes_of(seq, self.rank), axis=1, dtype=np.int64))
        bounds = [0]
        while bounds[-1] < len(seq):
            before = int(ends[bounds[-1] - 1]) if bounds[-1] else 0
            bounds.append(max(int(np.searchsorted(ends, before + _MOST, side="right")), bounds[-1] + 1))
        return bounds

    bounds = limits
