"""Make sequences from Arrow arrays: the elements are views of their values, without a copy.

The outermost lists become elements. Inner lists must have one length in all elements, and are then one array,
or one length within each element.
"""

import numpy as np

from seqcore._arrow.buffers import (
    OFFSETS,
    VIEWS,
    Irregular,
    Misfit,
    Null,
    check_nulls,
    offsets_of,
    owner_of,
    permutation_of,
    raw_offsets_of,
    reach_of,
    references_of,
    spans_of,
)
from seqcore._arrow.regular import of_struct, one_by_one, referred, regular, regular_items
from seqcore.core.arrow import from_foreign_offsets, from_foreign_shapes, from_shapes, from_values, from_views
from seqcore.core.fields import (
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
    TEXTS,
)
from seqcore.core.maps import chained
from seqcore.core.sequence import TensorSequence
from seqcore.dtypes import STRING


def sequence_of(field, chunks):
    """Return a sequence of the elements of chunks of one type.

    Raises
    ------
    TypeError
        If the type is not supported, or an element is null or has nulls.
    ValueError
        If a list within an element is ragged, or an array is damaged.
    """
    dtype = element_type_of(field, field)
    parts, before, without_rows = [], 0, []
    for chunk in chunks:
        try:
            without_rows.append(_is_without_rows(chunk, 0, chunk.length))
            parts.append(elements(chunk, 0, chunk.length))
        except Null as null:
            at, within = null.args
            raise TypeError(
                f"element {before + at} {'has nulls' if within else 'is null'}, which tensors can't "
                f"represent: fill or drop them first{_how_to_fill(field) if within else ''}"
            ) from None
        except Irregular as error:
            raise ValueError(
                f"element {before + error.args[0]} {error.args[1]}; pyarrow.compute.list_flatten makes each "
                "of its lists an element"
            ) from None
        before += chunk.length
    if any(without_rows):
        parts = _as_others(parts, without_rows)
    return chained(parts) if parts else TensorSequence(dtype=dtype)


_CLASSES = {
    LIST: "ListArray",
    LARGE_LIST: "LargeListArray",
    LIST_VIEW: "ListViewArray",
    LARGE_LIST_VIEW: "LargeListViewArray",
}


def _how_to_fill(field):
    """Return a call that fills nulls within lists of a type."""
    if field.format == STRUCT:
        return _how_to_fill(field.children[0])
    inner = field.children[0] if field.format in OFFSETS or _has_ends(field) else field
    fill = {BOOL: "False"} | dict.fromkeys(NUMBERS, "0") | dict.fromkeys(TEXTS, "''")
    if field.is_encoded or inner.is_encoded:
        return ""
    if inner.format not in fill:
        return ", in nested lists with awkward.fill_none(awkward.from_arrow(a), 0)"
    if field.fixed_length is not None:
        lists, values, size = "FixedSizeListArray", "a.flatten()", f", {field.fixed_length}"
    else:
        lists, size = _CLASSES[field.format], ""
        values = f"a.offsets, {'a.sizes, ' * (field.format in VIEWS)}a.values"
    filled = f"{values}.fill_null({fill[inner.format]})"
    return f", in lists with pyarrow.{lists}.from_arrays({filled}{size}), where a is one chunk of a column"


def _is_without_rows(chunk, start, stop):
    """Return whether all are empty lists of lists, which don't say how long the inner lists would be."""
    field = chunk.field
    if field.is_encoded or field.is_tensors or start == stop:
        return False
    if field.format == STRUCT and len(chunk.children) == 1:
        return _is_without_rows(chunk.children[0], chunk.offset + start, chunk.offset + stop)
    if field.format not in OFFSETS or field.children[0].format not in OFFSETS:
        return False
    if field.format in VIEWS:
        return not spans_of(chunk, start, stop)[1].any()
    _, low, high = raw_offsets_of(chunk, start, stop)
    return low == high


def _as_others(parts, without_rows):
    """Give the elements of chunks without rows the inner shape that elements of other chunks have."""
    others = (part for part, is_bare in zip(parts, without_rows, strict=True) if len(part) and not is_bare)
    first = next(others, None)
    if first is None:
        return parts
    rows = first[0][:0]
    return [
        TensorSequence.from_lengths(rows, np.zeros(len(part), np.int64)) if is_bare else part
        for part, is_bare in zip(parts, without_rows, strict=True)
    ]


_REMEDIES = {  # by the beginnings of format strings
    ("tdD", "tts", "ttm"): "cast it to int32",
    ("tdm", "ttu", "ttn", "ts", "tD"): "cast it to int64",
    ("d:",): "cast it to float64",
    ("n",): "cast it to a type",
    ("z", "Z", "vz", "w:"): "cast it to string, or make arrays of its bytes: np.frombuffer(one, 'uint8')",
    ("+m", "+u"): "pass its children, each as an array of its own",
}


def element_type_of(field, whole):
    """Return the element type of the values of a type; raise a TypeError that names it if there is none."""
    if field.dictionary is not None:
        return element_type_of(field.dictionary, whole)
    if field.is_tensors:
        data = _child(field, "data")
        if data.format not in (LIST, LARGE_LIST):
            raise ValueError(f"the data of an Arrow array of tensors must be lists, got {data.type_name}")
        return element_type_of(_child(data, None), whole)
    stored = {BOOL8: field.format == "c", FIXED_SHAPE: field.fixed_length is not None}
    if not stored.get(field.extension, True):
        raise ValueError(
            f"an Arrow array of type {field.extension} has another storage type than it must have"
        )
    if field.extension == BOOL8 or field.format == BOOL:
        return np.dtype(bool)
    if field.format in NUMBERS:
        return NUMBERS[field.format]
    if field.format in TEXTS:
        return STRING
    if field.format in OFFSETS or field.fixed_length is not None:
        return element_type_of(_child(field, None), whole)
    if field.format == RUN_ENDS:
        return element_type_of(_child(field, 1), whole)
    if field.format == STRUCT and len(field.children) == 1:
        # A table with one column: its type says more than that of the table.
        return element_type_of(field.children[0], field.children[0] if whole is field else whole)
    if field.format == STRUCT and field.children:
        names = ", ".join(child.name or "''" for child in field.children[:12])
        if field is whole:
            raise TypeError(
                "expected an array or a table with one column, got a table or a struct with several: pass "
                f"one of {names}"
            )
        raise TypeError(
            f"the items of an Arrow array of type {whole.type_name} have several fields: make lists of one "
            f"of {names}, such as pyarrow.ListArray.from_arrays(a.offsets, a.values.field(0))"
        )
    remedy = next((what for types, what in _REMEDIES.items() if field.format.startswith(types)), None)
    raise TypeError(
        f"an Arrow array of type {whole.type_name} can't become tensors: {field.type_name} is not supported"
        f"{f': {remedy}' if remedy else ''}"
    )


def _child(field, which):
    """Return a child of a field: by its name, by its index, or the only one."""
    if isinstance(which, str):
        found = [child for child in field.children if child.name == which]
    else:
        found = list(field.children[which or 0 :][:1])
        if which is None and len(field.children) != 1:
            found = []
    if not found:
        raise ValueError(f"the Arrow type {field.type_name} lacks a child that it must have")
    return found[0]


def elements(chunk, start, stop):
    """Return a sequence of the items from `start` to `stop` of a chunk."""
    field = chunk.field
    if field.is_encoded:
        values, indices = references_of(chunk, start, stop)
        return referred(elements, chained, start, values, indices)
    check_nulls(chunk, start, stop)
    return _elements(chunk, start, stop)


def _elements(chunk, start, stop):
    field = chunk.field
    if field.is_tensors:
        return _tensors(chunk, start, stop)
    if field.format in VIEWS:
        return _list_views(chunk, start, stop)
    if field.format in OFFSETS:
        return _lists(chunk, start, stop)
    if field.format == STRUCT:
        return of_struct(elements, chunk, start, stop)
    try:
        return from_values(regular_items(chunk, start, stop))
    except Irregular:
        if not _has_ends(field):
            raise
        return _unequal(chunk.children[0], start, _ends_of(chunk, start, stop))


def _lists(chunk, start, stop):
    offsets, low, high = raw_offsets_of(chunk, start, stop)
    child = chunk.children[0]
    try:
        values = regular(child, low, high)
    except Misfit as error:
        ends = _ends_of(chunk, start, stop)
        if isinstance(error, Irregular):
            return _unequal(child, start, ends)
        raise error.of(start + owner_of(ends, error.at)) from None
    if not _is_foreign(values):  # else the offsets would keep the array that was decoded
        return from_values(values, offsets_of(chunk, start, stop) - low)
    return from_foreign_offsets(values, offsets, low, high)


def _unequal(lists, start, ends):
    """Return elements from lists of lists, whose shapes may differ.

    `ends` says where each element begins and ends among the outer lists.
    """
    field = lists.field
    while _has_ends(field):
        field = field.children[0]
    if field is lists.field or field.is_encoded or field.format in (*VIEWS, STRUCT):
        return _copied(one_by_one(lists, start, ends[:-1], np.diff(ends)))
    return _rectangles(lists, start, ends)


def _rectangles(lists, start, ends):
    """Return elements from lists of lists whose inner lists have one length within each element.

    `ends` says where each element begins and ends among the outer lists.
    """
    extents = [np.diff(ends)]
    while True:
        low = int(ends[0])
        inner = _ends_of(lists, low, int(ends[-1]))
        counts, widths = np.diff(ends), np.diff(inner)
        firsts = np.zeros(len(counts), np.int64)
        firsts[counts > 0] = widths[(ends[:-1] - low)[counts > 0]]
        ragged = np.flatnonzero(widths != np.repeat(firsts, counts))
        if ragged.size:
            at = owner_of(ends, low + int(ragged[0]))
            what = f"is ragged: it has lists of length {firsts[at]} and of {widths[ragged[0]]}"
            raise Irregular(start + at, what)
        extents.append(firsts)
        ends, lists = inner[ends - low], lists.children[0]
        try:
            items = regular(lists, int(ends[0]), int(ends[-1]))
            break
        except Misfit as error:
            if not (isinstance(error, Irregular) and _has_ends(lists.field)):
                raise error.of(start + owner_of(ends, error.at)) from None
    inner_shape = items.shape[1:]
    size = int(np.prod(inner_shape, dtype=np.int64))
    shapes = np.column_stack([*extents, *(np.full(len(ends) - 1, extent) for extent in inner_shape)])
    return from_shapes(np.ascontiguousarray(items).reshape(-1), (ends - ends[0]) * size, shapes)


def _has_ends(field):
    """Return whether an array has lists that follow each other, without a shape of their own."""
    is_fixed = field.fixed_length is not None and field.extension != FIXED_SHAPE
    return not field.is_encoded and (field.format in (LIST, LARGE_LIST) or is_fixed)


def _ends_of(lists, start, stop):
    """Return where lists begin and end among the items of their child, as int64."""
    if lists.field.format in OFFSETS:
        return offsets_of(lists, start, stop).astype(np.int64)
    return np.arange(lists.offset + start, lists.offset + stop + 1) * lists.field.fixed_length


def _list_views(chunk, start, stop):
    starts, lengths = spans_of(chunk, start, stop)
    child = chunk.children[0]
    low, high = reach_of(starts, lengths, child)
    try:
        return from_views(regular(child, low, high), starts - low, lengths)
    except Misfit:
        return _copied(one_by_one(child, start, starts, lengths))


def _is_foreign(values):
    """Return whether an array is a view of Arrow's memory, rather than a copy."""
    while isinstance(values, np.ndarray):
        values = values.base
    return values is not None


def _copied(arrays):
    """A sequence of arrays of one rank, copied together."""
    sizes = [array.size for array in arrays]
    items = np.concatenate([array.reshape(-1) for array in arrays])
    return from_shapes(items, np.cumsum([0, *sizes]), [array.shape for array in arrays])


def _tensors(chunk, start, stop):
    """Return the elements of an `arrow.variable_shape_tensor`: lists of values, and a shape for each."""
    data, shape = (
        chunk.children[chunk.field.children.index(_child(chunk.field, name))] for name in ("data", "shape")
    )
    first, last = chunk.offset + start, chunk.offset + stop
    try:
        shapes = regular(shape, first, last)
        check_nulls(data, first, last)
    except Misfit as error:
        raise error.of(error.at - chunk.offset) from None
    if shapes.ndim != 2 or shapes.dtype.kind not in "iu":
        raise ValueError("the shapes of an Arrow array of tensors must be lists of integers")
    offsets, low, high = raw_offsets_of(data, first, last)
    try:
        items = regular(data.children[0], low, high)
    except Misfit as error:
        raise error.of(start + owner_of(offsets_of(data, first, last), error.at)) from None
    if items.ndim != 1:
        raise ValueError("the data of an Arrow array of tensors must be lists of numbers, got nested lists")
    order = permutation_of(chunk.field, shapes.shape[1])
    if order is not None:
        order = tuple(np.argsort(order).tolist())  # which axis of the tensor each one in memory is
    if shapes.dtype not in (np.int32, np.int64):
        shapes = shapes.astype(np.int64)
    if order is None and not _is_foreign(items):
        return from_shapes(items, offsets_of(data, first, last).astype(np.int64) - low, shapes)
    return from_foreign_shapes(items, offsets, low, high, shapes, order)
