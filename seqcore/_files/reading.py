"""Files mapped into memory, and what they hold as a sequence."""

import errno
import mmap
import os
import stat

from seqcore._files.arrow import pyarrow
from seqcore._files.paths import StoredIn
from seqcore._shown import shown, shown_error
from seqcore.core.batches import chained
from seqcore.core.foreign import mark_origin
from seqcore.core.mapped import MappedFile
from seqcore.core.sequence import TensorSequence
from seqcore.dtypes import STRING, type_name

_BEGINNINGS = {  # of what people have instead
    b"PAR1": "a Parquet file: read it with pyarrow.parquet, and take a column with TensorSequence.from_arrow",
    b"\xff\xff\xff\xff": "a stream of Arrow's, not a file: read it with pyarrow.ipc.open_stream",
    b"FEA1": "a Feather file of version 1: write it anew with pyarrow.feather",
    b"PK\x03\x04": "a zip archive",
    b"\x93NUM": "a NumPy file: read it with np.load",
}
_MAGIC = b"ARROW1"

_TEXT = b"\t\r\n" + bytes(range(32, 127))


def read_all(paths, column):
    """One sequence of the elements of several files."""
    parts = [read(path, column)[0] for path in paths]
    for path, part in zip(paths, parts, strict=True):
        if part.dtype != parts[0].dtype:
            raise TypeError(
                f"{os.fspath(path)} has tensors of {type_name(part.dtype)}, but {os.fspath(paths[0])} of "
                f"{type_name(parts[0].dtype)}: a sequence has one type"
            )
    return chained(parts)


def read(path, column, check=None):
    """A sequence of the elements of a file, which stay in it, and how many bytes of them had to be read.

    `check` is called with the status of the file that was opened, whatever has its name by then.

    Raises
    ------
    OSError
        If there is no such file, or it can't be read.
    ValueError
        If it is of another format, damaged, or has no such column.
    """
    path = os.path.abspath(os.fsdecode(path))
    found = os.stat(path)  # before it is opened, for a pipe would be waited for
    if not stat.S_ISREG(found.st_mode):
        number = errno.EISDIR if stat.S_ISDIR(found.st_mode) else errno.EINVAL
        raise OSError(number, "a sequence is loaded from a file, and this is a folder or a device", path)
    pa = pyarrow()
    try:
        return _read(pa, path, column, check)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{path} can't be read: {_why(path, error)}") from error
    except OSError as error:
        # pyarrow's own has no number, and is about what it found in the file.
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
        reader, number = _open(pa, memory, column)
    # As a table of one column: what a field says of its type is lost in an array of pyarrow 16.
    schema = pa.schema([reader.schema.field(number)])
    seq = TensorSequence.from_arrow(pa.Table.from_batches(_batches(reader, number), schema))
    mark_origin(seq, StoredIn(path, found.st_size, found.st_mtime_ns, column, len(seq)))
    is_mapped = not len(seq) or _contains(memory, seq[0].__array_interface__["data"][0])
    return seq, 0 if is_mapped else found.st_size + seq.nbytes * (8 if seq.dtype == STRING else 1)


def read_batches(pa, file):
    """The sequences of the batches of an open file of ours."""
    return map(TensorSequence.from_arrow, _batches(*_open(pa, _mapped(pa, file), None)))


def _mapped(pa, file):
    """A file as pyarrow's memory. On Windows nothing maps a file without a handle that keeps it open."""
    if os.name == "nt":
        return pa.py_buffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    return pa.py_buffer(MappedFile(file.fileno(), os.fstat(file.fileno()).st_size))


def _contains(memory, address):
    return memory.address <= address < memory.address + memory.size


def _open(pa, memory, column):
    """A reader of one column of a file."""
    reader = pa.ipc.open_file(pa.BufferReader(memory))
    number = _number_of(column, reader.schema)
    if len(reader.schema.names) == 1:
        return reader, 0
    if reader.num_record_batches and _is_compressed(reader.get_batch(0).column(number), memory):
        # What is read of one column alone is copied, and so are columns that are compressed.
        options = pa.ipc.IpcReadOptions(included_fields=[number])
        return pa.ipc.open_file(pa.BufferReader(memory), options=options), 0
    return reader, number


def _is_compressed(column, memory):
    """Whether a column, as it was read, lies elsewhere than in the file."""
    places = [buffer.address for buffer in column.buffers() if buffer is not None and buffer.size]
    return not all(_contains(memory, place) for place in places)


def _batches(reader, number):
    for i in range(reader.num_record_batches):
        batch = reader.get_batch(i).select([number])
        batch.validate()  # that buffers are as long as lengths say: all that we trust Arrow's arrays in
        yield batch


def _number_of(column, schema):
    """Which column is meant."""
    names = ", ".join(schema.names[:20])
    if column is None:
        if len(schema.names) != 1:
            raise ValueError(f"it has {len(schema.names)} columns ({names}): name one of them, as column=")
        return 0
    if schema.names.count(column) != 1:
        raise ValueError(
            f"it has {schema.names.count(column)} columns called {shown(column)}, of {names or 'none'}"
        )
    return schema.names.index(column)


def _why(path, error):
    """What the file seems to be, or what is wrong with it."""
    with open(path, "rb") as file:
        beginning = file.read(len(_MAGIC))
        file.seek(max(os.fstat(file.fileno()).st_size - len(_MAGIC), 0))
        end = file.read()
    for start, what in _BEGINNINGS.items():
        if beginning.startswith(start):
            return f"it is {what}"
    if not beginning:
        return "it is empty"
    if beginning != _MAGIC:
        is_text = all(byte in _TEXT for byte in beginning)
        text = ", but text, CSV, JSON or the like" if is_text else ""
        return f"it is no file of Arrow's IPC format{text}"
    if end != _MAGIC:
        return "it is incomplete, for its end is missing"
    if isinstance(error, MemoryError):
        return f"it is damaged, or there is no memory for what it holds: {error}"
    return shown_error(error)
