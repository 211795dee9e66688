"""Write sequences or Columns part by part to a temporary file, and rename it when it is complete.

A sequence is written as Columns with one column. Columns of later parts match by name.
"""

import os
from itertools import pairwise
from typing import Any

import numpy as np

from seqcore._arguments.shown import prefixed
from seqcore._arrow.layouts import Tensors, layout_of
from seqcore._arrow.tables import Arrays, bounds_of, record_batch, table_field
from seqcore._files.arrow import pyarrow
from seqcore._files.parts import slices_of
from seqcore._files.reading import COLUMN, read_batches
from seqcore._files.targets import Temporary, naming, target_of
from seqcore.columns import Columns
from seqcore.core.arrow import array_capsule, lie_together, schema_capsule
from seqcore.core.fields import BOOL, BOOL8, FORMATS, TRUE_BOOLS, Column, Field, extended
from seqcore.dtypes import type_name


def write(path, parts):
    """Write sequences of one dtype and rank to a file, one after the other; see `seqcore.save`."""
    path = os.fsdecode(path)
    writer = Writer(pyarrow(), target_of(path, "a sequence"))
    try:
        with naming(path):
            writer.open()
        for number, part in parts:
            with naming(path):
                writer.write(part, f"part {number}")
        with naming(path):
            writer.finish()
    finally:
        writer.remove()  # the temporary file, after an error


class Writer:
    """A temporary file beside the one that it will replace."""

    def __init__(self, pa, target):
        self.pa, self.target = pa, target
        self.temporary: Any = None
        self.batches: Any = None  # pyarrow's writer
        self.first: Any = None  # the columns of the first part, without rows
        self.is_table = False  # whether the parts are Columns
        self.layouts: dict[str, Any] = {}  # of the columns, once there are rows

    def open(self):
        """Create the temporary file."""
        self.temporary = Temporary(self.target)
        self.temporary.open()

    def remove(self):
        """Remove the temporary file, if it was not renamed."""
        if self.temporary is not None:
            self.temporary.remove()

    def write(self, part, name):
        """Write a sequence or Columns; `name` is its name in messages."""
        is_table = isinstance(part, Columns)
        columns = part if is_table else Columns.of({COLUMN: part}, {COLUMN: None})
        if self.first is None:
            self.first, self.is_table = columns[:0], is_table
        if is_table != self.is_table:
            expected = "Columns" if self.is_table else "a sequence"
            raise TypeError(f"{name} is a {type(part).__name__}, expected {expected} as the parts before")
        self._check_dtypes(columns, name)
        if len(columns):
            try:
                layouts = self._layouts_of(columns)
            except (TypeError, ValueError) as error:
                raise prefixed(name, error) from error
            if any(not layouts[key].field.is_like(one.field) for key, one in self.layouts.items()):
                self._widen(layouts)
            elif not self.layouts:
                self._begin(layouts)
            self._write(columns, layouts)

    def finish(self):
        """Write everything to the disk, and rename the file."""
        if self.first is None:
            raise ValueError(
                "there is nothing to save, and so no dtype: pass an empty sequence, for example "
                "TensorSequence(dtype='float32')"
            )
        if not self.layouts:
            self._begin(self._layouts_of(self.first))
        self.batches.close()
        self.temporary.sync()
        self.temporary.put_in_place()

    # -- parts that fit the first one ------------------------------------------------------------------

    def _check_dtypes(self, columns, name):
        """Raise if a part has other columns or dtypes than the first one."""
        if columns.dtypes == self.first.dtypes:
            return
        if self.is_table:
            theirs, ours = (
                ", ".join(f"{key} {type_name(dtype)}" for key, dtype in one.dtypes.items())
                for one in (columns, self.first)
            )
            raise TypeError(f"{name} has the columns {theirs}, expected {ours} as the parts before")
        theirs, ours = (type_name(one.dtypes[COLUMN]) for one in (columns, self.first))
        raise TypeError(
            f"{name} has dtype {theirs}, expected {ours} as the parts before: a file has tensors of one dtype"
        )

    def _layouts_of(self, columns):
        """Return the layouts of a part by name, in the order of the file.

        They are those of the parts before, unless elements of a column differ in width for the first time.
        """
        layouts = {}
        for name in self.first.names:
            seq, inner = columns.sequences[name], columns.inner[name]
            try:
                layouts[name] = _layout_of(seq, inner, self.layouts.get(name))
            except (TypeError, ValueError) as error:
                if not self.is_table:
                    raise
                raise prefixed(f"column {name!r}", error) from error
        return layouts

    def _widen(self, layouts):
        """Write the earlier parts again in wider layouts. This happens at most once for each column."""
        before = self.temporary
        try:
            self.batches.close()
            before.file.flush()
            self.open()
            self._begin(layouts)
            for part in read_batches(self.pa, before.name):
                self._write(part, self._layouts_of(part))
        finally:
            before.remove()

    # -- the file --------------------------------------------------------------------------------------

    def _begin(self, layouts):
        """Begin the file's content with the types of the columns by name."""
        self.layouts = layouts
        self.field = table_field({name: layout.field for name, layout in layouts.items()})
        # One element may need 64-bit lengths; batches are small enough for most readers.
        options = self.pa.ipc.IpcWriteOptions(allow_64bit=True)
        schema = self.pa.schema(Schema(self.field))
        self.batches = self.pa.ipc.new_file(self.temporary.file, schema, options=options)

    def _write(self, columns, layouts):
        for start, stop in pairwise(bounds_of(columns, layouts)):
            part = columns[start:stop]
            together = all(map(lie_together, part.sequences.values()))
            for batch in slices_of(part, together):
                table = checked(record_batch(batch, layouts))
                self.batches.write_batch(self.pa.record_batch(Table(self.field, table)))


def checked(column):
    """Return a column with offsets that are checked and copied, because pyarrow aborts for bad ones.

    The offsets may be those of another file, which may be damaged or change at any time.
    """
    children = tuple(map(checked, column.children))
    if len(column.buffers) != 2 or len(children) != 1:
        return Column(column.length, column.buffers, children)
    offsets = np.array(column.buffers[1])
    falling = np.flatnonzero((offsets[1:] < offsets[:-1]) | (offsets[1:] > children[0].length))
    if offsets[0] < 0 or falling.size:
        at = int(falling[0]) if falling.size else 0
        raise ValueError(
            f"element {at} can't be read: its offsets leave its values, so its file is damaged or has changed"
        )
    return Column(column.length, (None, offsets), children)


def _layout_of(seq, inner, before):
    """Return the layout of a column in a file, given that of the parts before.

    It is another one only where elements differ in width for the first time: then all are `Tensors`.
    """
    if inner is None or seq.dtype not in FORMATS:
        layout = file_layout(seq)
    else:
        layout = Arrays(seq.dtype, inner)
        layout = Arrays(seq.dtype, inner, with_bytes(layout.field)) if seq.dtype.kind == "b" else layout
    if before is None:
        return layout
    if isinstance(layout, Arrays) != isinstance(before, Arrays):
        is_array, was_array = (
            "an array" if isinstance(one, Arrays) else "a sequence" for one in (layout, before)
        )
        raise TypeError(f"expected {was_array} as in the parts before, got {is_array}")
    if isinstance(layout, Arrays):
        if layout.inner != before.inner:
            raise ValueError(
                f"its rows have shape {layout.inner}, expected {before.inner} as in the parts before"
            )
        return layout
    if layout.rank != before.rank:
        raise ValueError(
            f"expected tensors of rank {before.rank} as in the parts before, got rank {layout.rank}: a file "
            "has tensors of one rank"
        )
    if isinstance(before, Tensors):
        return file_layout(seq, before.field)
    if isinstance(layout, Tensors) or layout.items.shape != before.items.shape:
        return file_layout(seq, Tensors(seq.dtype, layout.rank, None).field)
    return layout


def file_layout(part, asked=None):
    """Return the layout in a file: that of Arrow arrays, except that bools are bytes, which can be mapped."""
    layout = layout_of(part, asked)
    return layout_of(part, with_bytes(layout.field)) if part.dtype.kind == "b" else layout


def with_bytes(field):
    if field.format == BOOL:
        return extended(Field("c", field.name), BOOL8, **{TRUE_BOOLS: "0 or 1"})
    children = tuple(map(with_bytes, field.children))
    metadata = {} if field.is_tensors else field.metadata  # bool8 tensors have none, see Tensors
    return Field(field.format, field.name, children, metadata, field.nullable)


class Schema:
    """The type of a table, for pyarrow to import."""

    def __init__(self, field):
        self.field = field

    def __arrow_c_schema__(self):
        return schema_capsule(self.field)


class Table:
    """A record batch, for pyarrow to import."""

    def __init__(self, field, column):
        self.field, self.column = field, column

    def __arrow_c_array__(self, requested_schema=None):
        return schema_capsule(self.field), array_capsule(self.field, self.column)
