"""The rows of a `Dataset` of Hugging Face's `datasets`: its Arrow files, and which of their rows it has.

::

    dataset     ── _data ── blocks, each a mapped file, with the changes to it: slices, renamed columns
                └─ _indices ── which rows, after select, shuffle, sort or filter; None for all

A block that something else was done to, that is in memory, or whose file was replaced, is taken as Arrow
data. That is mapped too, but pickles as data.
"""

import os
import sys
from contextlib import suppress
from itertools import chain

import numpy as np

from seqcore._arguments.shown import got, prefixed, shown
from seqcore._arrow.tables import inner_shape
from seqcore._files.arrow import pyarrow
from seqcore._files.paths import files_at
from seqcore._files.reading import File
from seqcore.core.arrow import read_schema
from seqcore.core.maps import chained
from seqcore.core.sequence import TensorSequence

_OF_NAMES = ("rename_columns", "drop", "drop_columns", "remove_column", "select")  # what changes names alone


def read_dataset(dataset, columns):
    """Return the columns of a Dataset as sequences, the shapes of their rows, and whether rows were selected.

    See `Columns.from_dataset`.
    """
    _check_kind(dataset)
    names = _names_of(dataset, columns)
    table = dataset._data
    positions = None
    if dataset._indices is not None:
        positions = dataset._indices.column(0).to_numpy().astype(np.int64)
    sequences, inner = {}, {}
    files = _files_of(one for row in _blocks_in(table) for one in row)
    for name in names:
        field = table.schema.field(name)
        try:
            if pyarrow().types.is_struct(field.type):
                raise TypeError(f"its elements are records, {field.type}, not tensors")
            inner[name] = inner_shape(read_schema(field.__arrow_c_schema__()))
            parts = [_part_of(block, name, files) for block in _blocks_of(table, name)]
            column = chained(parts) if parts else TensorSequence.from_arrow(table.table.select([name]))
        except (TypeError, ValueError) as error:
            others = [one for one in names if one != name]
            remedy = f"; columns={shown(others)} leaves it out" if others else ""
            raise type(prefixed("", error))(f"column {name!r}: {error}{remedy}") from error
        sequences[name] = column if positions is None else column[positions]
    return sequences, inner, positions is not None


def _check_kind(dataset):
    """Raise unless it is a Dataset whose rows are as stored."""
    datasets = sys.modules.get("datasets")
    if datasets is None:
        raise TypeError(f"expected a datasets.Dataset, got {got(dataset)}")
    if isinstance(dataset, datasets.DatasetDict | datasets.IterableDatasetDict):
        splits = ", ".join(map(repr, dataset))
        raise TypeError(
            f"expected one split, got a {type(dataset).__name__} of {splits}: pass dataset[split]"
        )
    if isinstance(dataset, datasets.IterableDataset):
        raise TypeError(
            "a streaming IterableDataset has no rows to map: load it without streaming=True, or save its "
            "batches: seqcore.save(path, map(Columns.from_arrow, dataset.with_format('arrow').iter(1000)))"
        )
    if not isinstance(dataset, datasets.Dataset):
        raise TypeError(f"expected a datasets.Dataset, got {got(dataset)}")
    if dataset.format["type"] == "custom":
        transform = dataset.format["format_kwargs"].get("transform")
        name = getattr(transform, "__qualname__", None) or type(transform).__name__
        raise ValueError(
            f"the dataset has the transform {name}, which makes its rows when they are read: apply it with "
            "dataset.map first, or leave it out with dataset.with_format(None)"
        )


def _names_of(dataset, columns):
    if columns is None:
        return list(dataset.format["columns"])
    if isinstance(columns, str) or not all(isinstance(name, str) for name in columns):
        raise TypeError(f"columns must be a list of names, got {got(columns)}")
    for name in columns:
        if name not in dataset.column_names:
            raise KeyError(f"there is no column {shown(name)}, only {', '.join(dataset.column_names)}")
    return list(columns)


def _blocks_in(table):
    """Return the tables that a table consists of: those of each stretch of rows, side by side."""
    return getattr(table, "blocks", [[table]])


def _blocks_of(table, name):
    """Yield the tables that a column is in, one for each stretch of rows."""
    for row in _blocks_in(table):
        yield from [one for one in row if name in one.column_names][:1]


def _files_of(blocks):
    """Return the files that blocks map, by the id of the block, unless they were removed or replaced."""
    opened: dict[str, File] = {}
    mapped = []
    for block in blocks:
        path, address = getattr(block, "path", None), _address_in(block.table)
        if path is None or address is None:
            continue
        with suppress(OSError, TypeError, ValueError):  # the block still has what was there
            opened[path] = opened[path] if path in opened else File.at(path)
            mapped.append((block, opened[path], address))
    told = files_at([one for _, file, address in mapped for one in (address, file.file.address)])
    if told is None:
        return {id(block): file for block, file, _ in mapped if _is_unchanged(block)}
    pairs = zip(mapped, told[::2], told[1::2], strict=True)
    return {id(block): file for (block, file, _), ours, theirs in pairs if ours == theirs}


def _address_in(table):
    for column in table.itercolumns():
        for buffer in chain.from_iterable(chunk.buffers() for chunk in column.chunks):
            if buffer is not None and buffer.size:
                return buffer.address
    return None


def _is_unchanged(block):
    """Return whether a block has what is in its file now; reading it may take long."""
    if os.name == "nt":  # which replaces no mapped file
        return True
    return type(block).from_file(block.path, block.replays).table.equals(block.table)


def _part_of(block, name, files):
    """Return the rows of a column in a block as a sequence."""
    found = _in_file(files[id(block)], block, name) if id(block) in files else None
    return TensorSequence.from_arrow(block.table.select([name])) if found is None else found


def _in_file(file, block, name):
    """Return the rows of a block from its file, or None if more was done to it than we can follow."""
    names = pyarrow().table({one: [one] for one in file.names})  # by the names that they have now
    slices = []
    for method, arguments, options in block.replays or ():
        if method == "slice":
            offset, length = [*arguments, None][:2]
            slices.append(slice(offset, None if length is None else offset + length))
        elif method in _OF_NAMES:
            names = getattr(names, method)(*arguments, **options)
        elif method != "replace_schema_metadata":  # which says how datasets shows the columns
            return None
    column = file.column(names.column(name)[0].as_py())[0]
    for one in slices:
        column = column[one]
    return column if len(column) == block.num_rows else None
