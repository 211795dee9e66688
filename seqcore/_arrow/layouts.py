"""How the elements of a sequence lie in an Arrow array: decided once, for all chunks of a stream.

::

    rank 0                    Plain          int64
    rank 1 and more           Lists          large_list<fixed_size_list<…>>     values and offsets
    asked for                 ListViews      list_view<…>                       values, offsets and lengths
    asked for                 Rows           fixed_size_list<…>, or a tensor of a fixed shape
    other extents behind      Tensors        arrow.variable_shape_tensor        items and shapes

A layout has a `field`, makes a `column` of any part of the sequence, and knows the `bounds` of such parts.
"""

import json

import numpy as np

from seqcore._arrow.fields import (
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
from seqcore._arrow.items import Items, field_like, only_child
from seqcore.core.batches import items_of, stack
from seqcore.core.layout import as_lists, first_misfit, memory_bounds, one_array, shapes_of
from seqcore.dtypes import STRING, type_name

_MOST = np.iinfo(np.int32).max  # what 32-bit offsets, lengths and extents count
# A part for each memory: not for so many or so small ones that a copy of all is better.
_MOST_PARTS = 1000
_LARGE_PART = 1 << 16  # bytes
_SMALL = {LIST, LIST_VIEW}
_VIEWS = {LIST_VIEW, LARGE_LIST_VIEW}
_LISTS = {LIST, LARGE_LIST} | _VIEWS


def layout_of(seq, asked=None):
    """Return how the elements of a sequence lie in an Arrow array.

    Parameters
    ----------
    seq : TensorSequence
        Which nobody edits meanwhile.
    asked : Field, optional
        The type that is wanted; passed by where the elements are not of that kind.

    Raises
    ------
    TypeError
        If Arrow has no such type: complex numbers, bfloat16.
    ValueError
        If ranks differ.
    """
    if seq.dtype not in FORMATS:
        name = type_name(seq.dtype)
        view = "np.float32" if name == "complex64" else "np.float64" if name == "complex128" else "np.uint16"
        raise TypeError(
            f"Arrow has no type for {name}: give away its parts, for instance sequence_map(lambda t: "
            f"t[..., None].view({view}), seq), or another type with astype"
        )
    if not len(seq):
        return Nothing(asked) if _is_of(asked, seq.dtype) else Lists(seq.dtype, (), None)
    first = seq[:1].shapes[0]
    rank = len(first)
    alike = first_misfit(seq, rank, rank, first[1:]) == len(seq)
    if not alike and (other := first_misfit(seq, rank, rank, ())) < len(seq):
        raise ValueError(
            f"tensor 0 of shape {first} and tensor {other} of shape {seq[other].shape} differ in rank: "
            "Arrow's arrays have tensors of one rank, so give them one, or give away the tensors of each rank"
        )
    if asked is not None:
        layout = _asked(seq, rank, first[1:] if alike else None, asked)
        if layout is not None and layout.field.is_like(asked):
            return layout
    if rank == 0:
        return Plain(seq.dtype, None)
    return Lists(seq.dtype, first[1:], None) if alike else Tensors(seq.dtype, rank, None)


def _asked(seq, rank, inner, asked):
    """A layout as near to what is asked for as it gets, or None."""
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
    # The sum of Python's integers is exact, but takes its time.
    if len(lengths) * int(lengths.max()) > _MOST and sum(lengths.tolist()) > _MOST:
        return None
    if asked.format in _VIEWS:
        span = one_array(seq)
        # A chunk's views lead to all of the array that its elements are views of.
        if span is not None and len(span[0]) > _MOST:
            return None
        return ListViews(seq.dtype, inner, asked)
    return Lists(seq.dtype, inner, asked)


def _in_place(seq, kind, with_prefix=False):
    """The elements as values and offsets of the width that lists of a kind have, if they are one array; or None."""
    try:
        return as_lists(seq, np.dtype(np.int32 if kind == LIST else np.int64), with_prefix)
    except OverflowError:
        return None


def _shape_asked(asked):
    """The shape of the tensors that are asked for; None if it is none, or not in order."""
    try:
        shape, order = asked.parameter("shape"), asked.parameter("permutation")
        shape = tuple(int(extent) for extent in shape)
    except (ValueError, TypeError):
        return None
    return shape if order in (None, list(range(len(shape)))) else None


def _is_of(asked, dtype):
    """Whether an array of a type that is asked for could have elements of a dtype."""
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
    """What all have in common: where a sequence is cut for a stream."""

    def bounds(self, seq):
        """Where parts begin, and the end: elements in several memories would have to be copied together."""
        nbytes = seq.nbytes
        most = min(_MOST_PARTS, nbytes // _LARGE_PART)
        return (memory_bounds(seq, most) if most > 1 else None) or [0, len(seq)]


class Nothing(Layout):
    """No elements, of any type that is asked for."""

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
    """Scalars: an array of numbers."""

    rank = 0

    def __init__(self, dtype, asked):
        self.items = Items(dtype, (), asked)
        self.field = self.items.field

    def column(self, seq):
        return self.items.column(stack(seq))


class Lists(Layout):
    """Elements one behind the other, and where each begins."""

    def __init__(self, dtype, inner, asked):
        asked = asked if asked is not None and asked.format in (LIST, LARGE_LIST) else None
        self.rank = 1 + len(inner)
        self.items = Items(dtype, inner, only_child(asked))
        self.field = field_like(asked, LARGE_LIST if asked is None else asked.format, self.items.field)

    def column(self, seq):
        # What is in front of the elements costs nothing, unless it would be converted.
        run = _in_place(seq, self.field.format, self.items.in_place)
        if run is not None:
            values, offsets = run
        else:
            offsets = seq.offsets(np.int32 if self.field.format == LIST else np.int64)
            values = seq.values() if len(seq) else np.empty((0, *self.items.shape), seq.dtype)
        return Column(len(seq), (None, offsets), (self.items.column(values),))


class ListViews(Layout):
    """Elements wherever they lie in one array, each by where it begins and how long it is."""

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
    """Elements of one rank whose shapes differ: their items in C order, and their shapes."""

    def __init__(self, dtype, rank, asked):
        self.rank = rank
        wanted = asked is not None and asked.is_tensors and len(asked.children) == 2
        self.items = Items(dtype, (), only_child(asked.children[0]) if wanted else None)
        data = Field(LIST, "data", (self.items.field,))
        shape = Field(f"+w:{rank}", "shape", (Field("i"),))
        self.field = Field(STRUCT, "item", (data, shape))
        if self.items.field.format in {BOOL, *NUMBERS} and not self.items.field.extension:
            # pyarrow refuses tensors of strings and of bool8: those go as what tensors are stored as.
            self.field = extended(self.field, VARIABLE_SHAPE, "{}")

    def column(self, seq):
        shapes = shapes_of(seq, self.rank)
        sizes = np.prod(shapes, axis=1, dtype=np.int64)
        offsets = np.zeros(len(seq) + 1, np.int64)
        np.cumsum(sizes, out=offsets[1:])
        if shapes.size and shapes.max() > _MOST:
            raise ValueError(
                f"an extent of {shapes.max():,} is more than Arrow's tensors can have, {_MOST:,}"
            )
        if offsets[-1] > _MOST:
            raise ValueError(
                f"tensors of {offsets[-1]:,} items are more than one of Arrow's arrays of tensors can have, "
                f"{_MOST:,}: give them away as a stream, or a part at a time"
            )
        data = Column(len(seq), (None, offsets.astype(np.int32)), (self.items.column(items_of(seq)),))
        extents = Column(shapes.size, (None, shapes.astype(np.int32).reshape(-1)))
        return Column(len(seq), (None,), (data, Column(len(seq), (None,), (extents,))))

    def bounds(self, seq):
        """Where to cut a sequence so that each part is one that `column` can give away."""
        ends = np.cumsum(np.prod(shapes_of(seq, self.rank), axis=1, dtype=np.int64))
        bounds = [0]
        while bounds[-1] < len(seq):
            before = int(ends[bounds[-1] - 1]) if bounds[-1] else 0
            bounds.append(max(int(np.searchsorted(ends, before + _MOST, side="right")), bounds[-1] + 1))
        return bounds
