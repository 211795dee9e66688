"""Write sequences part by part to a temporary file, and rename it when it is complete."""

import contextlib
import os
import time
import uuid
from itertools import pairwise
from typing import Any

import numpy as np

from seqcore._arguments.shown import prefixed
from seqcore._arrow.fields import BOOL, BOOL8, TRUE_BOOLS, Column, Field, extended
from seqcore._arrow.layouts import Tensors, layout_of
from seqcore._arrow.tables import table_field
from seqcore._files.arrow import pyarrow
from seqcore._files.parts import slices_of
from seqcore._files.reading import read_batches
from seqcore._files.targets import naming, put_in_place, target_of
from seqcore.columns import Columns
from seqcore.core.arrow_export import array_capsule, schema_capsule
from seqcore.core.layout import lie_together
from seqcore.core.sequence import TensorSequence
from seqcore.dtypes import type_name

COLUMN = "tensors"


def write(path, parts):
    """Write sequences of one dtype and rank to a file, one after the other; see `seqcore.save`."""
    path = os.fsdecode(path)
    target = target_of(path, "a sequence")
    writer = Writer(pyarrow(), target)
    is_temporary = writer.is_temporary
    try:
        with naming(path, is_temporary):
            writer.open()
        for number, part in parts:
            if isinstance(part, Columns) and writer.dtype is None and type(writer) is Writer:
                from seqcore._files.tables import TableWriter  # which imports this module

                writer = TableWriter(writer, part[:0])
                is_temporary = writer.is_temporary
            with naming(path, is_temporary):
                writer.write(part, f"part {number}")
        with naming(path, is_temporary):
            writer.finish()
            put_in_place(writer.temporary, target)
    finally:
        writer.remove()  # the temporary file, after an error


class Writer:
    """A temporary file beside the one that it will replace."""

    def __init__(self, pa, target):
        self.pa, self.target = pa, target
        self.temporary = ""  # its name, once it is open
        self.file: Any = None
        self.batches: Any = None  # pyarrow's writer
        self.dtype: np.dtype[Any] | None = None
        self.layout: Any = None  # of the first part with elements

    def is_temporary(self, name):
        return name == self.temporary

    def open(self):
        """Create the temporary file."""
        folder, _ = os.path.split(self.target)
        # Set the name first, so that the file is removed after any error.
        self.temporary = os.path.join(folder, f".seqcore-{uuid.uuid4().hex}.part")
        self.file = open(self.temporary, "xb", opener=self._opened)  # noqa: SIM115

    def _opened(self, path, flags):
        """Open a file that nobody else may read until it has the rights of the one that it replaces."""
        return os.open(path, flags, 0o600 if os.path.exists(self.target) else 0o666)

    def write(self, part, name):
        """Write a sequence; `name` is its name in messages."""
        if isinstance(part, Columns):
            raise TypeError(f"{name} is a Columns, expected a sequence as the parts before")
        if self.dtype is None:
            self.dtype = part.dtype
        elif part.dtype != self.dtype:
            raise TypeError(
                f"{name} has dtype {type_name(part.dtype)}, expected {type_name(self.dtype)} as the parts "
                "before: a file has tensors of one dtype"
            )
        if len(part):
            layout = self._layout_for(part, name)
            self._put(part, layout)

    def finish(self):
        """Write everything to the disk."""
        if self.layout is None:
            if self.dtype is None:
                raise ValueError(
                    "there is nothing to save, and so no dtype: pass an empty sequence, for example "
                    "TensorSequence(dtype='float32')"
                )
            self._begin(file_layout(TensorSequence(dtype=self.dtype)))
        self.batches.close()
        self.file.flush()
        os.fsync(self.file.fileno())
        self.file.close()
        # A file is recognised by its time, and the system's own times may have steps of milliseconds.
        now = time.time_ns()
        os.utime(self.temporary, ns=(now, now))

    def remove(self):
        """Remove the temporary file, if it was not renamed."""
        if self.file is not None:
            with contextlib.suppress(OSError):
                self.file.close()
        if self.temporary:
            with contextlib.suppress(OSError):
                os.remove(self.temporary)

    # -- layout ----------------------------------------------------------------------------------------

    def _layout_for(self, part, name):
        """Return the layout of a part, the same as that of the first part."""
        try:
            layout = file_layout(part)
        except (TypeError, ValueError) as error:
            raise prefixed(name, error) from error
        if self.layout is None:
            self._begin(layout)
        elif layout.rank != self.layout.rank:
            raise ValueError(
                f"{name} has tensors of rank {layout.rank}, expected rank {self.layout.rank} as the parts "
                "before: a file has tensors of one rank"
            )
        elif isinstance(self.layout, Tensors):
            layout = file_layout(part, self.layout.field)
        elif isinstance(layout, Tensors) or layout.items.shape != self.layout.items.shape:
            layout = file_layout(part, Tensors(part.dtype, layout.rank, None).field)
            self._widen(layout)
        return layout

    def _widen(self, layout):
        """Write the earlier parts again in a wider layout, because inner axes of elements differ."""
        before = Writer(self.pa, self.target)
        before.temporary, before.file = self.temporary, self.file
        try:
            self.batches.close()
            self.file.flush()
            self.open()
            self._begin(layout)
            with open(before.temporary, "rb") as file:
                for part in read_batches(self.pa, file):
                    self._put(part, file_layout(part, self.layout.field))
        finally:
            before.remove()

    # -- the file --------------------------------------------------------------------------------------

    def _begin(self, layout):
        self.layout = layout
        self._write_types({COLUMN: layout.field})

    def _put(self, part, layout):
        for start, stop in pairwise(layout.bounds(part)):
            for batch in slices_of(part[start:stop], lie_together(part[start:stop])):
                self._write_batch(len(batch), [layout.column(batch)])

    def _write_types(self, fields):
        """Begin the file's content with the types of the columns by name."""
        self.field = table_field(fields)
        # One element may need 64-bit lengths; batches are small enough for most readers.
        options = self.pa.ipc.IpcWriteOptions(allow_64bit=True)
        self.batches = self.pa.ipc.new_file(self.file, self.pa.schema(Schema(self.field)), options=options)

    def _write_batch(self, length, columns):
        table = Column(length, (None,), tuple(map(checked, columns)))
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
        return schema_capsule(self.field), array_capsule(self.column)
