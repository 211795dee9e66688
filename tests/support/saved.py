"""What the tests of files share: where memory lies, what a folder holds, what other processes are asked."""

import contextlib
import gc
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from support.strategies import NAMES, address, filled

import seqcore as sq

pa = pytest.importorskip("pyarrow")

FILE_NAMES = [name for name in NAMES if name not in ("complex64", "complex128", "bfloat16")]
MAPPED_NAMES = [name for name in FILE_NAMES if name != "string"]

needs_proc = pytest.mark.skipif(sys.platform != "linux", reason="only Linux says what memory is a file's")


class Tagged(sq.TensorSequence):
    """A subclass with attributes and an __init__ of its own."""

    def __init__(self, tensors, tag):
        super().__init__(tensors)
        self.tag = tag


def part(shapes, name="int32", start=0):
    return sq.TensorSequence([filled(name, shape, start + 5 * i) for i, shape in enumerate(shapes)], name)


def mappings(path):
    """The ranges of memory in which this process has a file, also one that has been replaced since."""
    with open("/proc/self/maps", errors="surrogateescape") as lines:
        for line in lines:
            where, *_, name = line.rstrip("\n").split(maxsplit=5)
            if name.removesuffix(" (deleted)").endswith(os.fspath(path)):  # behind a root of its own
                first, last = where.split("-")
                yield int(first, 16), int(last, 16)


def lies_in(array, path):
    """Whether all memory of an array in C order is a file's."""
    first, last = address(array), address(array) + array.nbytes
    return any(begin <= first and last <= end for begin, end in mappings(path))


def resident(path):
    """How many bytes of a file are in this process's page tables."""
    nbytes, mine = 0, False
    with open("/proc/self/smaps") as lines:
        for line in lines:
            if ":" not in line.split()[0]:
                mine = line.rstrip("\n").endswith(os.fspath(path))
            elif mine and line.startswith("Rss:"):
                nbytes += int(line.split()[1]) * 1024
    return nbytes


def saved(path, seq):
    """What a file of these elements loads as."""
    sq.save(path, seq)
    return sq.load(path)


def ragged(lengths, name="int32", behind=(), start=0):
    """Elements of such lengths, pieces of one array whose values count up."""
    values = filled(name, (sum(lengths), *behind), start)
    return sq.TensorSequence.from_lengths(values, lengths)


def write_table(path, table, max_chunksize=None, stream=False, **options):
    """Arrow's IPC file format by pyarrow's own hand, or the format of streams."""
    new = pa.ipc.new_stream if stream else pa.ipc.new_file
    options = pa.ipc.IpcWriteOptions(**options)
    with pa.OSFile(os.fspath(path), "wb") as sink, new(sink, table.schema, options=options) as to:
        to.write_table(table, max_chunksize=max_chunksize)
    return path


def write_column(path, array, name="tensors", **options):
    return write_table(path, pa.table({name: array}), **options)


def shaped_table(items, ends, shapes, order=None):
    """A table of tensors of their own shapes, in C order, or with their axes in another order in memory."""
    shapes = np.asarray(shapes)
    data = pa.ListArray.from_arrays(pa.array(ends, pa.int32()), pa.array(items))
    extents = pa.FixedSizeListArray.from_arrays(pa.array(shapes.ravel(), pa.int32()), shapes.shape[1])
    struct = pa.StructArray.from_arrays([data, extents], ["data", "shape"])
    text = "{}" if order is None else f'{{"permutation": {order}}}'
    marks = {"ARROW:extension:name": "arrow.variable_shape_tensor", "ARROW:extension:metadata": text}
    return pa.Table.from_arrays([struct], schema=pa.schema([pa.field("t", struct.type, metadata=marks)]))


def contents(folder):
    """The names in a folder, with the bytes of what is a file."""
    return {
        os.fsencode(entry): Path(entry).read_bytes() if Path(entry).is_file() else None
        for entry in os.listdir(folder)
        for entry in [os.path.join(folder, entry)]
    }


@contextlib.contextmanager
def unchanged(folder):
    """Whatever happens inside, the folder holds afterwards what it held before."""
    before = contents(folder)
    try:
        yield
    finally:
        assert contents(folder) == before


def open_files():
    """How many files this process has open, but for what waits for the garbage collector."""
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


def touched(path, nanoseconds):
    """Give a file another time of its last modification."""
    os.utime(path, ns=(nanoseconds, nanoseconds))


# What other processes are asked.


def sum_of(seq):
    return float(sum(element.sum() for element in seq))


def look_at(seq):
    """The type, the elements, and whether nobody can write into them."""
    return type(seq), [np.array(element) for element in seq], not any(e.flags.writeable for e in seq)
