"""Memory-map files and read their elements as a sequence."""

import errno
import mmap
import os
import stat
from functools import partial
from itertools import chain
from typing import Any

from seqcore._arguments.shown import shown, shown_error
from seqcore._arrow.tables import check_names, inner_shape
from seqcore._files.arrow import pyarrow
from seqcore._files.paths import StoredIn
from seqcore.core.arrow_import import read_schema
from seqcore.core.batches import chained
from seqcore.core.foreign import address_of, mark_origin
from seqcore.core.mapped import MappedFile
from seqcore.core.sequence import TensorSequence
from seqcore.dtypes import STRING, type_name

_OTHER_FORMATS = {  # by their first bytes
    b"PAR1": "a Parquet file: read it with pyarrow.parquet, and convert a column with "
    "TensorSequence.from_arrow",
    b"FEA1": "a Feather file of version 1: convert it with pyarrow.feather",
    b"PK\x03\x04": "a zip archive",
    b"\x93NUM": "a NumPy file: read it with np.load",
}
_MAGIC = b"ARROW1"
_STREAM = b"\xff\xff\xff\xff"  # before each message of Arrow's stream format

_TEXT = b"\t\r\n" + bytes(range(32, 127))


def read_columns(paths):
    """Return the columns of several files, each as one sequence, and the shapes of their rows, by name.

    If the files have a single column, it has the name None, whatever its names there.
    """
    first: Any = None
    tables = []
    for path in paths:
        fields, table = _reading(path, _read_table)
        first = first or fields
        if len(first) == 1 < len(fields):
            names = ", ".join(name for name, _ in fields[:20])
            raise ValueError(f"{os.fspath(path)} can't be read: {_several(len(fields), names)}")
        if len(first) > 1 and fields != first:
            raise ValueError(
                f"{os.fspath(path)} has other columns than {os.fspath(paths[0])}: all files need the same "
                "columns, or pass the name of one as column="
            )
        tables.append(table)
    if len(first) == 1:
        return {None: _joined(paths, [table[None] for table in tables])}, {None: first[0][1]}
    return {name: _joined(paths, [table[name] for table in tables]) for name, _ in first}, dict(first)


def read_all(paths, column):
    """Return one sequence of the elements of several files."""
    return _joined(paths, [read(path, column)[0] for path in paths])


def _joined(paths, parts):
    """Return one sequence of the elements of a part from each file."""
    for path, part in zip(paths, parts, strict=True):
        if part.dtype != parts[0].dtype:
            raise TypeError(
                f"{os.fspath(path)} has dtype {type_name(part.dtype)}, but {os.fspath(paths[0])} has "
                f"{type_name(parts[0].dtype)}: all files of a sequence need one dtype"
            )
    return chained(parts)


def _read_table(pa, path):
    """Return the columns of a file: the names with the shape of a row, if it is an array, and the sequences.

    All are of one mapping, because another process may replace the file meanwhile. A single column has the
    name None among the sequences, as in pickles of it.
    """
    with open(path, "rb") as file:
        found = os.fstat(file.fileno())
        memory = _mapped(pa, file)
    schema, _ = _content(pa, memory, None)
    if not schema.names:
        raise ValueError("it has no columns")
    check_names(schema.names)
    fields = [(field.name, inner_shape(read_schema(field.__arrow_c_schema__()))) for field in schema]
    names = [None] if len(fields) == 1 else schema.names
    return fields, {name: _sequence_of(pa, memory, path, found, name)[0] for name in names}


def read(path, column, check=None):
    """Return a sequence of the elements of a file, as views of the mapped file if possible.

    The second value is how many bytes of memory the elements take, 0 if they are such views.

    `check` is called with the status of the opened file, even if another one has its name by then.

    Raises
    ------
    OSError
        If the file is missing or can't be read.
    ValueError
        If it has another format, is damaged, or lacks the column.
    """
    return _reading(path, partial(_read, column=column, check=check))


def _reading(path, function):
    """Return `function(pyarrow, path)` for a file, whose errors name it."""
    path = os.path.abspath(os.fsdecode(path))
    found = os.stat(path)  # before it is opened, because opening a pipe would block
    if not stat.S_ISREG(found.st_mode):
        number = errno.EISDIR if stat.S_ISDIR(found.st_mode) else errno.EINVAL
        raise OSError(number, "expected a file, got a folder or a device", path)
    pa = pyarrow()
    try:
        return function(pa, path)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{path} can't be read: {_why(path, error)}") from error
    except OSError as error:
        # Errors of pyarrow's own have no errno, and are about the content of the file.
        if error.errno is None:
            raise ValueError(f"{path} can't be read: {_why(path, error)}") from error
        if error.filename is None:
            error.filename = path
        raise


def _read(pa, path, column, check):
    with open(path, "rb") as file:
        found = os.fstat(file.fileno())
        if check is not None:
            check(found)
        memory = _mapped(pa, file)
    return _sequence_of(pa, memory, path, found, column)


def _sequence_of(pa, memory, path, found, column):
    """Return a sequence of a column of a mapped file, and how many bytes of memory its elements take."""
    field, batches = _open(pa, memory, column)
    # As a table of one column, because arrays of pyarrow 16 lose the metadata of the field.
    seq = TensorSequence.from_arrow(pa.Table.from_batches(batches, pa.schema([field])))
    mark_origin(seq, StoredIn(path, found.st_size, found.st_mtime_ns, column, len(seq)))
    is_mapped = not len(seq) or _contains(memory, address_of(seq))
    return seq, 0 if is_mapped else found.st_size + seq.nbytes * (8 if seq.dtype == STRING else 1)


def read_batches(pa, file):
    """Return the sequences of the batches of a file that we write."""
    return map(TensorSequence.from_arrow, _open(pa, _mapped(pa, file), None)[1])


def _mapped(pa, file):
    """Return a file as memory for pyarrow."""
    if os.name == "nt":
        return pa.py_buffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    return pa.py_buffer(MappedFile(file.fileno(), os.fstat(file.fileno()).st_size))


def _contains(memory, address):
    return memory.address <= address < memory.address + memory.size


def _open(pa, memory, column):
    """Return the field of one column of a file, and its batches."""
    schema, batches = _content(pa, memory, None)
    number = _number_of(column, schema)
    first = next(batches, None)
    if first is None:
        return schema.field(number), iter(())
    if len(schema.names) > 1 and _is_compressed(first.column(number), memory):
        # Reading a single column copies it, but compressed columns are copied anyway.
        options = pa.ipc.IpcReadOptions(included_fields=[number])
        return schema.field(number), map(_validated, _content(pa, memory, options)[1])
    return schema.field(number), (_validated(batch.select([number])) for batch in chain([first], batches))


def _content(pa, memory, options):
    """Return the schema of a file, in Arrow's file or stream format, and an iterator over its batches."""
    source = pa.BufferReader(memory)
    if memory.size >= len(_STREAM) and memory[: len(_STREAM)].to_pybytes() == _STREAM:
        reader = pa.ipc.open_stream(source, options=options)
        return reader.schema, iter(reader)
    reader = pa.ipc.open_file(source, options=options)
    return reader.schema, map(reader.get_batch, range(reader.num_record_batches))


def _validated(batch):
    batch.validate()  # checks that buffers are as long as needed: we trust nothing else of them
    return batch


def _is_compressed(column, memory):
    """Return whether a column, as it was read, is outside of the mapped file."""
    places = [buffer.address for buffer in column.buffers() if buffer is not None and buffer.size]
    return not all(_contains(memory, place) for place in places)


def _number_of(column, schema):
    """Return the index of the column."""
    names = ", ".join(schema.names[:20])
    if column is None:
        if len(schema.names) != 1:
            raise ValueError(_several(len(schema.names), names))
        return 0
    if schema.names.count(column) != 1:
        raise ValueError(
            f"it has {schema.names.count(column)} columns with the name {shown(column)}; its columns are "
            f"{names or 'none'}"
        )
    return schema.names.index(column)


def _several(count, names):
    return f"it has {count} columns ({names}): pass the name of one as column="


def _why(path, error):
    """Return the reason why a file can't be read."""
    with open(path, "rb") as file:
        beginning = file.read(len(_MAGIC))
        file.seek(max(os.fstat(file.fileno()).st_size - len(_MAGIC), 0))
        end = file.read()
    for start, what in _OTHER_FORMATS.items():
        if beginning.startswith(start):
            return f"it is {what}"
    if not beginning:
        return "it is empty"
    if beginning.startswith(_STREAM):
        return f"it is damaged or incomplete: {shown_error(error)}"
    if beginning != _MAGIC:
        is_text = all(byte in _TEXT for byte in beginning)
        text = ", but a text file such as CSV or JSON" if is_text else ""
        return f"it is not an Arrow IPC file{text}"
    if end != _MAGIC:
        return "it is incomplete, because its end is missing"
    if isinstance(error, MemoryError):
        return f"it is damaged, or there is not enough memory for its data: {error}"
    return shown_error(error)
