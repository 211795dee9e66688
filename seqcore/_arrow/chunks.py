"""Arrow's arrays become sequences: elements are cut from their values, which stay where they are.

A level of a type is `regular` where all its items have one shape: then it is one NumPy array, with an axis
for each level. The outermost lists are cut into elements; lists within them must be regular, or rectangular
in each element.
"""

import numpy as np

from seqcore._arrow.fields import (
    BOOL,
    BOOL8,
    FIXED_SHAPE,
    LARGE_LIST,
    LARGE_LIST_VIEW,
    LIST,
    LIST_VIEW,
    NUMBERS,
    RUN_ENDS,
    STRUCT,
    TRUE_BOOLS,
)
from seqcore._arrow.text import TEXTS, read_text
from seqcore.core.flat import chained
from seqcore.core.operations import split_equally
from seqcore.core.sequence import TensorSequence
from seqcore.core.spans import cut_shaped, cut_spans
from seqcore.dtypes import STRING

_OFFSETS = {LIST: np.int32, LIST_VIEW: np.int32, LARGE_LIST: np.int64, LARGE_LIST_VIEW: np.int64}
_VIEWS = LIST_VIEW, LARGE_LIST_VIEW


class Null(Exception):
    """An item is null; Null(position, whether it is within the item at that position)."""


class Irregular(Exception):
    """Lists that should be of one length are not."""


def sequence_of(field, chunks):
    """Return a sequence of the elements of chunks of one type.

    Raises
    ------
    TypeError
        If the type has no counterpart, or an element is or has a null.
    ValueError
        If a list within an element is ragged, or an array is damaged.
    """
    dtype = element_type_of(field, field)
    parts, before = [], 0
    for chunk in chunks:
        try:
            parts.append(elements(chunk, 0, chunk.length))
        except Null as null:
            at, within = null.args
            raise TypeError(
                f"element {before + at} {'has nulls' if within else 'is null'}, which a tensor can't have: "
                "fill or drop them first"
            ) from None
        except Irregular as error:
            raise ValueError(f"element {before + error.args[0]} {error.args[1]}") from None
        before += chunk.length
    return chained(parts) if parts else TensorSequence(dtype=dtype)


def element_type_of(field, whole):
    """The element type at the bottom of a type; a TypeError that names the type where it has none."""
    if field.dictionary is not None:
        return element_type_of(field.dictionary, whole)
    if field.is_tensors:
        data = _child(field, "data")
        if data.format not in (LIST, LARGE_LIST):
            raise ValueError(f"the items of an Arrow array of tensors are no lists, but {data.type_name}")
        return element_type_of(_child(data, None), whole)
    stored = {BOOL8: field.format == "c", FIXED_SHAPE: field.fixed_length is not None}
    if not stored.get(field.extension, True):
        raise ValueError(f"an Arrow array of type {field.extension} is not stored as such arrays are")
    if field.extension == BOOL8 or field.format == BOOL:
        return np.dtype(bool)
    if field.format in NUMBERS:
        return NUMBERS[field.format]
    if field.format in TEXTS:
        return STRING
    if field.format in _OFFSETS or field.fixed_length is not None:
        return element_type_of(_child(field, None), whole)
    if field.format == RUN_ENDS:
        return element_type_of(_child(field, 1), whole)
    if field.format == STRUCT and len(field.children) == 1:
        return element_type_of(field.children[0], whole)
    if field.format == STRUCT:
        names = ", ".join(child.name for child in field.children[:12])
        raise TypeError(f"a table or struct of several columns is no sequence: give one of them ({names})")
    raise TypeError(
        f"an Arrow array of type {whole.type_name} has no tensors: {field.type_name} is none of their types"
        ", cast it first"
    )


def _child(field, which):
    """A field within a field: by its name, by its number, or the only one."""
    if isinstance(which, str):
        found = [child for child in field.children if child.name == which]
    else:
        found = list(field.children[which or 0 :][:1])
        if which is None and len(field.children) != 1:
            found = []
    if not found:
        raise ValueError(f"the Arrow type {field.type_name} lacks a field that it has by definition")
    return found[0]


# -- elements ----------------------------------------------------------------------------------------


def elements(chunk, start, stop):
    """A sequence of the items from `start` to `stop` of a chunk."""
    field = chunk.field
    if field.dictionary is not None or field.format == RUN_ENDS:
        values, indices = _references(chunk, start, stop)
        return _referred(elements, values, indices)
    _check_nulls(chunk, start, stop)
    return _elements(chunk, start, stop)


def _elements(chunk, start, stop):
    field = chunk.field
    if field.is_tensors:
        return _tensors(chunk, start, stop)
    if field.format in _VIEWS:
        return _list_views(chunk, start, stop)
    if field.format in _OFFSETS:
        return _lists(chunk, start, stop)
    if field.format == STRUCT:
        return _of_struct(elements, chunk, start, stop)
    return split_equally(_regular(chunk, start, stop), 0, 1, True)


def _of_struct(read, chunk, start, stop):
    """The only field of a struct counts as the struct."""
    try:
        return read(chunk.children[0], chunk.offset + start, chunk.offset + stop)
    except Null as null:
        raise Null(null.args[0] - chunk.offset, null.args[1]) from None


def _lists(chunk, start, stop):
    offsets = _offsets(chunk, start, stop)
    low, high = int(offsets[0]), int(offsets[-1])
    try:
        values = regular(chunk.children[0], low, high)
    except Null as null:
        raise Null(_owner(offsets, null.args[0]), True) from None
    except Irregular:
        return _rectangles(chunk.children[0], offsets)
    return TensorSequence.from_offsets(values, offsets - low if low else offsets)


def _list_views(chunk, start, stop):
    starts, lengths = _spans(chunk, start, stop)
    child = chunk.children[0]
    low, high = _reach(starts, lengths, child)
    starts = starts - low
    valid = _validity(child, low, high)
    if valid is not None:
        # Items between the lists may be null.
        nulls = np.concatenate([[0], np.cumsum(~valid)])
        bad = np.flatnonzero(nulls[starts + lengths] > nulls[starts])
        if bad.size:
            raise Null(int(bad[0]), True)
    try:
        values = _regular(child, low, high) if child.field.dictionary is None else regular(child, low, high)
    except Null as null:
        at = null.args[0] - low
        bad = np.flatnonzero((starts <= at) & (at < starts + lengths))
        raise Null(int(bad[0]) if bad.size else 0, True) from None
    return cut_spans(values, starts, lengths)


def _rectangles(lists, offsets):
    """Elements of lists of lists, the inner ones of one length in each element."""
    low, high = int(offsets[0]), int(offsets[-1])
    inner = _offsets(lists, low, high) if lists.field.format not in _VIEWS else None
    if inner is None:
        raise Irregular(0, "has views of lists of several lengths: cast them to lists first")
    heights, widths = np.diff(offsets.astype(np.int64)), np.diff(inner.astype(np.int64))
    firsts = np.zeros(len(heights), np.int64)
    firsts[heights > 0] = widths[(offsets[:-1] - low)[heights > 0]]
    ragged = np.flatnonzero(widths != np.repeat(firsts, heights))
    if ragged.size:
        at = _owner(offsets, low + int(ragged[0]))
        raise Irregular(at, f"is ragged: it has lists of {firsts[at]} and of {widths[ragged[0]]} items")
    try:
        items = regular(lists.children[0], int(inner[0]), int(inner[-1]))
    except Null as null:
        raise Null(_owner(offsets, low + _owner(inner, null.args[0])), True) from None
    behind = items.shape[1:]
    ends = inner[offsets - low].astype(np.int64) - int(inner[0])
    size = int(np.prod(behind, dtype=np.int64))
    shapes = np.column_stack([heights, firsts, *(np.full(len(heights), extent) for extent in behind)])
    return cut_shaped(np.ascontiguousarray(items).reshape(-1), ends * size, shapes)


def _tensors(chunk, start, stop):
    """Elements of `arrow.variable_shape_tensor`: lists of items, and a shape for each."""
    data, shape = (
        chunk.children[chunk.field.children.index(_child(chunk.field, name))] for name in ("data", "shape")
    )
    start, stop = chunk.offset + start, chunk.offset + stop
    shapes = regular(shape, start, stop)
    if shapes.ndim != 2 or shapes.dtype.kind not in "iu":
        raise ValueError("the shapes of an Arrow array of tensors are no lists of integers")
    _check_nulls(data, start, stop)
    offsets = _offsets(data, start, stop)
    low = int(offsets[0])
    try:
        items = regular(data.children[0], low, int(offsets[-1]))
    except Null as null:
        raise Null(_owner(offsets, null.args[0]), True) from None
    if items.ndim != 1:
        raise ValueError("the items of an Arrow array of tensors are of no plain type")
    tensors = cut_shaped(items, offsets.astype(np.int64) - low, shapes)
    order = _permutation(chunk.field, shapes.shape[1])
    if order is None:
        return tensors
    return TensorSequence([tensor.transpose(order) for tensor in tensors], tensors.dtype)


# -- arrays ------------------------------------------------------------------------------------------


def regular(chunk, start, stop):
    """The items from `start` to `stop` as one array, with an axis for each level."""
    if chunk.field.dictionary is not None or chunk.field.format == RUN_ENDS:
        values, indices = _references(chunk, start, stop)
        return _referred(regular, values, indices)
    _check_nulls(chunk, start, stop)
    return _regular(chunk, start, stop)


def _regular(chunk, start, stop):
    field, first, count = chunk.field, chunk.offset + start, stop - start
    if field.format == BOOL:
        return chunk.bits(1, first, count)
    if field.format in NUMBERS:
        values = chunk.buffer(1, NUMBERS[field.format], first, count)
        return _bools(field, values) if field.extension == BOOL8 else values
    if field.format in TEXTS:
        return read_text(chunk, first, count)
    if field.format == STRUCT:
        return _of_struct(regular, chunk, start, stop)
    if field.format in _OFFSETS:
        return _equal_lists(chunk, start, stop)
    return _fixed_lists(chunk, first, count)


def _bools(field, values):
    """Bytes as bools, for which NumPy wants 0 and 1; a file of ours says that it has no others."""
    if field.metadata.get(TRUE_BOOLS) or not np.any(values.view(np.uint8) > 1):
        return values.view(bool)
    return values != 0


def _fixed_lists(chunk, first, count):
    length = chunk.field.fixed_length
    try:
        values = regular(chunk.children[0], first * length, (first + count) * length)
    except Null as null:
        raise Null(null.args[0] // length - chunk.offset, True) from None
    values = values.reshape(count, length, *values.shape[1:])
    if chunk.field.extension != FIXED_SHAPE:
        return values
    shape = _integers(chunk.field, "shape")
    if shape is None or min(shape, default=0) < 0 or np.prod(shape, dtype=object) != length:
        raise ValueError(f"the shape of an Arrow array of tensors of {length} items is {shape}")
    values = values.reshape(count, *shape)
    order = _permutation(chunk.field, len(shape))
    return values if order is None else values.transpose(0, *(axis + 1 for axis in order))


def _equal_lists(chunk, start, stop):
    child = chunk.children[0]
    if chunk.field.format in _VIEWS:
        starts, lengths = _spans(chunk, start, stop)
        low, high = _reach(starts, lengths, child)
        length = _one_length(lengths)
        values = regular(child, low, high)
        steps = starts - low
        if not np.array_equal(steps, np.arange(len(steps)) * length):
            values = values[(steps[:, None] + np.arange(length)).reshape(-1)]
    else:
        offsets = _offsets(chunk, start, stop)
        length = _one_length(np.diff(offsets))
        try:
            values = regular(child, int(offsets[0]), int(offsets[-1]))
        except Null as null:
            raise Null(start + _owner(offsets, null.args[0]), True) from None
    return values.reshape(stop - start, length, *values.shape[1:])


def _one_length(lengths):
    if not lengths.size:
        return 0
    if np.any(lengths != lengths[0]):
        raise Irregular(0, "is ragged")
    return int(lengths[0])


# -- what the buffers say ----------------------------------------------------------------------------


def _offsets(chunk, start, stop):
    """Where lists begin among their child's items, and where the last one ends."""
    dtype = _OFFSETS[chunk.field.format]
    _check_range(chunk, start, stop)
    if start == stop:
        return np.zeros(1, dtype)
    offsets = chunk.buffer(1, dtype, chunk.offset + start, stop - start + 1)
    if offsets[0] < 0 or np.any(offsets[1:] < offsets[:-1]):
        raise ValueError("the offsets of an Arrow array of lists don't rise: it is damaged")
    return offsets


def _spans(chunk, start, stop):
    """Where the lists of an array of views begin, and how long they are."""
    dtype = _OFFSETS[chunk.field.format]
    _check_range(chunk, start, stop)
    starts, lengths = (chunk.buffer(k, dtype, chunk.offset + start, stop - start) for k in (1, 2))
    return starts.astype(np.int64), lengths.astype(np.int64)


def _reach(starts, lengths, child):
    """The stretch of a child's items that views see."""
    if np.any((starts < 0) | (lengths < 0) | (lengths > child.length) | (starts > child.length - lengths)):
        raise ValueError("a view of an Arrow array of lists reaches outside of its items: it is damaged")
    if not starts.size:
        return 0, 0
    return int(starts.min()), int((starts + lengths).max())


def _references(chunk, start, stop):
    """The values that items of a dictionary or of runs refer to, and which of them each is."""
    _check_range(chunk, start, stop)
    if chunk.field.format == RUN_ENDS:
        ends = regular(chunk.children[0], 0, chunk.children[0].length)
        positions = np.arange(chunk.offset + start, chunk.offset + stop)
        values, indices = chunk.children[1], np.searchsorted(ends, positions, side="right")
    else:
        _check_nulls(chunk, start, stop)
        indices = chunk.buffer(1, NUMBERS[chunk.field.format], chunk.offset + start, stop - start)
        values = chunk.dictionary
    if indices.size and not 0 <= int(indices.min()) <= int(indices.max()) < values.length:
        raise ValueError("an Arrow array refers to a value that its dictionary does not have: it is damaged")
    valid = _validity(values, 0, values.length)
    if valid is not None and not valid[indices].all():
        raise Null(start + int(np.argmin(valid[indices])), False)
    return values, indices


def _referred(read, values, indices):
    """Read what is referred to, and give each its own; values that nobody refers to may be null."""
    valid = _validity(values, 0, values.length)
    if valid is None or valid.all():
        return read(values, 0, values.length)[indices.astype(np.int64)]
    used, indices = np.unique(indices, return_inverse=True)
    parts = [read(values, int(at), int(at) + 1) for at in used]
    if read is elements:
        return chained(parts)[indices.astype(np.int64)] if parts else read(values, 0, 0)
    return np.concatenate(parts)[indices.reshape(-1)] if parts else read(values, 0, 0)


def _check_range(chunk, start, stop):
    if not 0 <= start <= stop <= chunk.length:
        raise ValueError(
            f"an Arrow array of {chunk.length} items is used from {start} to {stop}: it is damaged"
        )


def _check_nulls(chunk, start, stop):
    valid = _validity(chunk, start, stop)
    if valid is not None and not valid.all():
        raise Null(start + int(np.argmin(valid)), False)


def _validity(chunk, start, stop):
    """Which items are no nulls; None where all are known to be none."""
    _check_range(chunk, start, stop)
    if chunk.nulls == 0 or not chunk.addresses or chunk.addresses[0] == 0:
        return None
    return chunk.bits(0, chunk.offset + start, stop - start)


def _owner(offsets, item):
    """The number of the list that an item of the child is in."""
    return int(np.searchsorted(offsets, item, side="right")) - 1


# -- parameters --------------------------------------------------------------------------------------


def _integers(field, name):
    numbers = field.parameter(name)
    if numbers is None:
        return None
    if not isinstance(numbers, list) or not all(type(number) is int for number in numbers):
        raise ValueError(f"the {name} of {field.extension} is {numbers!r:.60}, no list of integers")
    return numbers


def _permutation(field, rank):
    """How the axes in memory become those of the tensor; None where they are in order."""
    order = _integers(field, "permutation")
    if order is None or order == list(range(rank)):
        return None
    if sorted(order) != list(range(rank)):
        raise ValueError(f"the permutation of {field.extension} is {order!r:.60}, not of {rank} axes")
    return order
