"""Tables of several columns: Columns as a stream of record batches, and tables of others as Columns."""

from collections import Counter
from itertools import pairwise

import numpy as np

from seqcore._arguments.protocols import instead_of
from seqcore._arguments.shown import got, prefixed
from seqcore._arrow.buffers import Null, check_nulls, check_range
from seqcore._arrow.chunks import sequence_of
from seqcore._arrow.items import Items
from seqcore._arrow.layouts import MOST_PARTS, Layout, check_levels, layout_of
from seqcore._arrow.regular import fixed_shape_of
from seqcore.core.arrow import read_array, read_stream, schema_capsule, stream_capsule
from seqcore.core.fields import (
    BOOL,
    FIXED_SHAPE,
    FORMATS,
    NUMBERS,
    RUN_ENDS,
    STRUCT,
    TEXTS,
    Chunk,
    Column,
    Field,
)
from seqcore.core.maps import stack


class Arrays(Layout):
    """A column of elements of one shape, as plain numbers or nested fixed-size lists."""

    def __init__(self, dtype, inner, asked=None):
        self.inner, self.items = inner, Items(dtype, inner, asked)
        self.field = self.items.field

    def column(self, seq):
        values = stack(seq) if len(seq) else np.empty((0, *self.inner), seq.dtype)
        return self.items.column(values)


def layouts_of(columns, layout_for):
    """Return the layout of each column, by name; `layout_for` gets a sequence and its inner shape or None."""
    layouts = {}
    for name, seq, inner in parts_of(columns):
        try:
            layouts[name] = layout_for(seq, inner)
        except (TypeError, ValueError) as error:
            raise prefixed(f"column {name!r}", error) from error
    return layouts


def _layout_of(seq, inner):
    return Arrays(seq.dtype, inner) if inner is not None and seq.dtype in FORMATS else layout_of(seq)


def parts_of(columns):
    """Return the name, the sequence and the shape behind axis 0, or None, of each column."""
    return [(name, seq, columns.inner[name]) for name, seq in columns.sequences.items()]


def table_field(fields):
    """Return the type of a table, from the types of its columns by name."""
    for name in fields:
        if "\0" in name or (not name.isascii() and any("\ud800" <= letter <= "\udfff" for letter in name)):
            raise ValueError(
                f"column {name!r} can't be in an Arrow table: its name has a NUL, or is no UTF-8: rename it"
            )
        try:
            check_levels(fields[name], 1)
        except ValueError as error:
            raise prefixed(f"column {name!r}", error) from None
    return Field(STRUCT, "", tuple(field.renamed(name) for name, field in fields.items()), nullable=False)


def record_batch(columns, layouts):
    """Return the data of a record batch, in the order of the layouts."""
    children = tuple(layout.column(columns.sequences[name]) for name, layout in layouts.items())
    return Column(len(columns), (None,), children)


def bounds_of(columns, layouts):
    """Return the offsets of the parts into which Columns are split, such that each has one memory.

    If the columns are split at so many places that a copy of all is better, only where a layout needs it.
    """
    for is_needed in (False, True):
        bounds = {0, len(columns)}
        for name, layout in layouts.items():
            seq = columns.sequences[name]
            bounds.update(layout.limits(seq) if is_needed else layout.bounds(seq))
        if len(bounds) <= MOST_PARTS:
            break
    return sorted(bounds)


# -- export --------------------------------------------------------------------------------------------


def give_schema(columns):
    """Export the type of a table, as a capsule."""
    layouts = layouts_of(columns, _layout_of)
    return schema_capsule(table_field({name: one.field for name, one in layouts.items()}))


def give_stream(columns):
    """Export Columns as a stream of record batches, in a capsule."""
    layouts = layouts_of(columns, _layout_of)
    bounds = bounds_of(columns, layouts)
    field = table_field({name: one.field for name, one in layouts.items()})
    parts = [columns[start:stop] for start, stop in pairwise(bounds)]
    return stream_capsule(field, map(record_batch, parts, [layouts] * len(parts)))


# -- import --------------------------------------------------------------------------------------------


def take_table(given):
    """Import a table: its columns as sequences by name, and their shapes behind axis 0, or None."""
    if getattr(given, "__arrow_c_stream__", None) is not None:
        stream = read_stream(given.__arrow_c_stream__())
        field, chunks = stream.field, list(stream)
    elif getattr(given, "__arrow_c_array__", None) is not None:
        chunks = [read_array(*given.__arrow_c_array__())]
        field = chunks[0].field
    else:
        remedy = instead_of(given, "pyarrow.table(...) makes one, Columns({...}) takes arrays and sequences")
        raise TypeError(
            "expected an Arrow table, an object with __arrow_c_stream__ or __arrow_c_array__, got "
            f"{got(given)}: {remedy}"
        )
    if field.format != STRUCT:
        raise TypeError(
            f"expected an Arrow table, got an array of type {field.type_name}: TensorSequence.from_arrow "
            "takes a single column"
        )
    names = [child.name for child in field.children]
    check_names(names)
    before = 0
    for chunk in chunks:
        try:
            check_nulls(chunk, 0, chunk.length)
        except Null as null:
            raise TypeError(f"row {before + null.at} is null: drop it first") from None
        before += chunk.length
    sequences, inner = {}, {}
    for number, child in enumerate(field.children):
        try:
            parts = [_part(chunk.children[number], chunk.offset, chunk.length) for chunk in chunks]
            sequences[child.name] = sequence_of(child, parts)
            inner[child.name] = inner_shape(child)
        except (TypeError, ValueError) as error:
            raise prefixed(f"column {child.name!r}", error) from error
    return sequences, inner


def check_names(names):
    """Raise if two columns have one name."""
    if len(set(names)) < len(names):
        name, count = Counter(names).most_common(1)[0]
        raise ValueError(f"{count} columns have the name {name!r}: rename them first")


def _part(chunk, first, length):
    """Return items of a chunk as a chunk, because rows of a sliced table begin anywhere."""
    check_range(chunk, first, first + length)  # a column may be shorter than its table
    nulls = 0 if chunk.nulls == 0 else -1
    return Chunk(
        chunk.field, length, chunk.offset + first, nulls, chunk.addresses, chunk.children, chunk.dictionary,
        chunk.memory,
    )  # fmt: skip


def inner_shape(field):
    """Return the shape of a row if all rows have one by their type, else None."""
    if field.dictionary is not None:
        return inner_shape(field.dictionary)
    if field.format == RUN_ENDS:
        return inner_shape(field.children[1])
    if field.extension == FIXED_SHAPE:
        return fixed_shape_of(field)
    if field.fixed_length is not None:
        within = inner_shape(field.children[0])
        return None if within is None else (field.fixed_length, *within)
    return () if field.format == BOOL or field.format in NUMBERS or field.format in TEXTS else None
