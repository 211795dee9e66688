"""Sequences written part by part to a new file, which takes the old one's place when it is whole."""

import contextlib
import os
import time
import uuid

from seqcore._arrow.fields import BOOL, BOOL8, STRUCT, TRUE_BOOLS, Column, Field, extended
from seqcore._arrow.layouts import Tensors, layout_of
from seqcore._files.arrow import pyarrow
from seqcore._files.parts import about, cut
from seqcore._files.reading import read_batches
from seqcore._files.targets import naming, put_in_place, target_of
from seqcore.core.arrow_export import array_capsule, schema_capsule
from seqcore.core.sequence import TensorSequence
from seqcore.dtypes import type_name

COLUMN = "tensors"


def write(path, parts):
    """Write sequences, of one type and rank, behind each other to a file; see `seqcore.save`."""
    path = os.fsdecode(path)
    target = target_of(path, "a sequence")
    writer = Writer(pyarrow(), target)

    def is_temporary(name):
        return name == writer.temporary

    try:
        with naming(path, is_temporary):
            writer.open()
        for number, part in parts:
            with naming(path, is_temporary):
                writer.write(part, f"part {number}")
        with naming(path, is_temporary):
            writer.finish()
            put_in_place(writer.temporary, target)
    finally:
        writer.remove()  # what is left, if anything went wrong


class Writer:
    """A new file beside the one that it is to replace."""

    def __init__(self, pa, target):
        self.pa, self.target = pa, target
        self.temporary = self.file = self.batches = None
        self.dtype = self.layout = None

    def open(self):
        """Begin a file."""
        folder, _ = os.path.split(self.target)
        # Named first, so that it is removed whatever happens from here on.
        self.temporary = os.path.join(folder, f".seqcore-{uuid.uuid4().hex}.part")
        self.file = open(self.temporary, "xb")  # noqa: SIM115

    def write(self, part, name):
        """Write a sequence, of which errors speak by its name."""
        if self.dtype is None:
            self.dtype = part.dtype
        elif part.dtype != self.dtype:
            raise TypeError(
                f"{name} has tensors of {type_name(part.dtype)}, but those before it have "
                f"{type_name(self.dtype)}: a file has one type"
            )
        if len(part):
            layout = self._layout_for(part, name)
            for batch in cut(part, layout):
                self._put(layout.column(batch))

    def finish(self):
        """Let all of it reach the disk."""
        if self.layout is None:
            if self.dtype is None:
                raise ValueError("there is nothing to save, and so no type: give an empty sequence of a type")
            self._begin(_file_layout(TensorSequence(dtype=self.dtype)))
        self.batches.close()
        self.file.flush()
        os.fsync(self.file.fileno())
        self.file.close()
        # The system's own times come in steps of milliseconds; by its time a file is known again.
        now = time.time_ns()
        os.utime(self.temporary, ns=(now, now))

    def remove(self):
        """Remove the file, if it has not taken its place."""
        if self.file is not None:
            with contextlib.suppress(OSError):
                self.file.close()
        if self.temporary is not None:
            with contextlib.suppress(OSError):
                os.remove(self.temporary)

    # -- how elements lie ------------------------------------------------------------------------------

    def _layout_for(self, part, name):
        """How a part lies in the file, which is as its first part does."""
        try:
            layout = _file_layout(part)
        except (TypeError, ValueError) as error:
            raise about(name, error) from error
        if self.layout is None:
            self._begin(layout)
        elif layout.rank != self.layout.rank:
            raise ValueError(
                f"{name} has tensors of rank {layout.rank}, but those before it are of rank "
                f"{self.layout.rank}: a file has one rank"
            )
        elif isinstance(self.layout, Tensors):
            layout = _file_layout(part, self.layout.field)
        elif isinstance(layout, Tensors) or layout.items.shape != self.layout.items.shape:
            layout = _file_layout(part, Tensors(part.dtype, layout.rank, None).field)
            self._widen(layout)
        return layout

    def _widen(self, layout):
        """Write anew what was written, for elements that differ in more than their length have come."""
        before = Writer(self.pa, self.target)
        before.temporary, before.file = self.temporary, self.file
        try:
            self.batches.close()
            self.file.flush()
            self.open()
            self._begin(layout)
            with open(before.temporary, "rb") as file:
                for part in read_batches(self.pa, file):
                    layout = _file_layout(part, self.layout.field)
                    for batch in cut(part, layout):
                        self._put(layout.column(batch))
        finally:
            before.remove()

    # -- the file --------------------------------------------------------------------------------------

    def _begin(self, layout):
        self.layout = layout
        # One element may have more items than 32 bits count; batches are cut so that few readers mind.
        options = self.pa.ipc.IpcWriteOptions(allow_64bit=True)
        self.batches = self.pa.ipc.new_file(self.file, self.pa.schema(Table(layout.field)), options=options)

    def _put(self, column):
        self.batches.write_batch(self.pa.record_batch(Table(self.layout.field, column)))


def _file_layout(part, asked=None):
    """How a sequence lies in a file: as in Arrow's arrays, but for bools, which are bytes to be mapped."""
    layout = layout_of(part, asked)
    return layout_of(part, _with_bytes(layout.field)) if part.dtype.kind == "b" else layout


def _with_bytes(field):
    if field.format == BOOL:
        return extended(Field("c", field.name), BOOL8, **{TRUE_BOOLS: "0 or 1"})
    children = tuple(map(_with_bytes, field.children))
    metadata = {} if field.is_tensors else field.metadata  # of bytes there are none, see Tensors
    return Field(field.format, field.name, children, metadata, field.nullable)


class Table:
    """A column as a table of it alone, for pyarrow to take."""

    def __init__(self, field, column=None):
        self.field, self.column = Field(STRUCT, "", (field.renamed(COLUMN),), nullable=False), column

    def __arrow_c_schema__(self):
        return schema_capsule(self.field)

    def __arrow_c_array__(self, requested_schema=None):
        table = Column(self.column.length, (None,), (self.column,))
        return schema_capsule(self.field), array_capsule(table)
