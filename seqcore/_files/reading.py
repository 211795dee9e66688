"""Memory-map files and read their elements as a sequence."""

import os
from contextlib import contextmanager, suppress
from itertools import chain, islice
from typing import Any

from seqcore._arguments.shown import prefixed, shown, shown_error
from seqcore._arrow.chunks import sequence_of
from seqcore._arrow.tables import check_names, inner_shape
from seqcore._files.arrow import pyarrow
from seqcore._files.megatron import opened, pair_of, refuse_column
from seqcore._files.paths import Column, map_file
from seqcore._files.targets import naming
from seqcore.columns import Columns
from seqcore.core.arrow import read_schema, read_stream
from seqcore.core.maps import chained
from seqcore.core.pickling import mark_origin
from seqcore.dtypes import STRING, type_name

COLUMN = "tensors"  # the name of the column of a sequence
_OTHER_BEGINNINGS = {  # by their first bytes
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

    A single column has the name that it has in the first file. It is a sequence unless all files agree in the
    shape of its rows. The sequence of a Megatron pair is called as `save` calls one.
    """
    first: Any = None
    tables: list[Any] = []
    rows: list[Any] = []
    for path in paths:
        pair = pair_of(path)
        if pair is not None:
            first = first or {COLUMN: None}
            if len(first) > 1:
                raise ValueError(
                    f"{os.fspath(path)} has one sequence, but {os.fspath(paths[0])} has several columns: "
                    "load them each by itself"
                )
            tables.append({None: opened(pair)})
            rows.append(None)
            continue
        file = File.at(path)
        with file.naming_errors():
            shapes, sequences = file.shapes(), file.columns()
            first = first or shapes
            if len(first) == 1 < len(shapes):
                raise ValueError(_several(file.names))
        if len(first) > 1 and shapes != first:  # in any order
            raise ValueError(
                f"{file.path} has other columns than {os.path.abspath(os.fsdecode(paths[0]))}: all files "
                "need the same columns, or pass the name of one as column="
            )
        tables.append(sequences)
        rows.append(next(iter(shapes.values())))
    if len(first) == 1:
        name = next(iter(first))
        alike = all(shape == rows[0] for shape in rows)
        return {name: _joined(paths, [table[None] for table in tables])}, {name: rows[0] if alike else None}
    return {name: _joined(paths, [table[name] for table in tables]) for name in first}, first


def read_all(paths, column):
    """Return one sequence of the elements of a column of several files."""
    for path in paths:
        if pair_of(path) is not None:
            refuse_column(path, column)
    return _joined(paths, [File.at(path).column(column)[0] for path in paths])


def _joined(paths, parts):
    """Return one sequence of the elements of a part from each file."""
    for path, part in zip(paths, parts, strict=True):
        if part.dtype != parts[0].dtype:
            raise TypeError(
                f"{os.fspath(path)} has dtype {type_name(part.dtype)}, but {os.fspath(paths[0])} has "
                f"{type_name(parts[0].dtype)}: all files of a sequence need one dtype"
            )
    return chained(parts)


class File:
    """A mapped file, whose schema and batches are read once for all columns that are made of them."""

    def __init__(self, pa, file, is_kept):
        self.pa, self.file, self.path, self.is_kept = pa, file, file.path, is_kept
        self.memory = pa.py_buffer(file if file.nbytes else b"")
        self.schema, batches = self._content()
        self.names = self.schema.names
        self._numbers = {name: number for number, name in enumerate(self.names)}
        first = list(islice(batches, 1))
        self._batches = None  # of all columns, unless they have to be decompressed
        self._unread: Any = None  # all of them as an iterator, until any is decompressed
        self._some: Any = range(0), []  # which columns were decompressed last, and their batches
        if all(map(self._is_mapped, first)):
            self._batches = [*first, *batches]
        else:
            self._unread = chain(first, batches)

    @classmethod
    def at(cls, path, check=None, is_kept=False):
        """Return the file at a path.

        `check` gets its status, even if another file has its name by then. If `is_kept`, the columns keep the
        file, so that it needn't be read for the others again.

        Raises
        ------
        OSError
            If the file is missing or can't be read.
        ValueError
            If it has another format or is damaged.
        """
        path = os.path.abspath(os.fsdecode(path))
        file = map_file(path, check)
        pa = pyarrow()
        with _naming_errors(pa, path):
            return cls(pa, file, is_kept)

    def naming_errors(self):
        """Return a context in which errors name the file."""
        return _naming_errors(self.pa, self.path)

    def shapes(self):
        """Return the shape of a row of each column by name, None if it is a sequence."""
        if not self.names:
            raise ValueError("it has no columns")
        check_names(self.names)
        shapes = {}
        for field in self.schema:
            with self._naming_column(field):
                shapes[field.name] = inner_shape(read_schema(field.__arrow_c_schema__()))
        return shapes

    def columns(self):
        """Return all columns as sequences by name. A single column has the name None, as in pickles of it."""
        batches = self._read_all()
        names = [None] if len(self.names) == 1 else self.names
        chunks = None
        if self._batches is not None:  # decompressed columns would keep each other in memory
            with suppress(self.pa.ArrowException, ValueError):  # one by one, they are named
                chunks = self._chunks(batches, self.schema)
        return {name: self._sequence(batches, k, k, name, chunks)[0] for k, name in enumerate(names)}

    def column(self, name):
        """Return a column as a sequence, of views of the file if possible, and the bytes of memory it takes.

        These are 0 for such views. The name None stands for the only column.
        """
        with self.naming_errors():
            number = self._number_of(name)
            if self._batches is not None or len(self.names) == 1:
                return self._sequence(self._read_all(), number, number, name)
            self._unread = None
            columns, batches = self._some
            if number not in columns or not batches:
                # One, and then an eighth of all at a time, so that all of them, one by one, take linear time.
                size = -(-len(self.names) // 8) if columns else 1
                first = number - number % size
                columns = range(first, min(first + size, len(self.names)))
                batches = list(self._content(included_fields=list(columns))[1])
            self._some = columns, batches if number < columns[-1] else []
            return self._sequence(batches, number - columns[0], number, name)

    def _read_all(self):
        """Return all batches. Those that are decompressed are not kept."""
        if self._batches is not None:
            return self._batches
        unread, self._unread = self._unread, None
        return list(self._content()[1] if unread is None else unread)

    def _sequence(self, batches, at, number, name, chunks=None):
        field, in_batch = self.schema.field(number), at
        with self._naming_column(field):
            if chunks is None:
                chunks = self._chunks([batch.select([at]) for batch in batches], self.pa.schema([field]))
                at = 0
            of_table, parts = chunks
            seq = sequence_of(of_table.children[at], [part.children[at] for part in parts])
        column = Column(self.path, self.file.nbytes, self.file.time, name, len(seq))
        column.file = self if self.is_kept else None
        is_mapped = mark_origin(seq, column, self.file)
        if is_mapped or seq.dtype != STRING:
            return seq, 0 if is_mapped else seq.nbytes
        # A string takes about 56 bytes, its pointer 8, and then its characters.
        return seq, seq.nbytes * 8 + sum(batch.column(in_batch).nbytes for batch in batches)

    def _chunks(self, batches, schema):
        """Return the type of batches, and each as imported data."""
        for batch in batches:
            batch.validate()  # checks that buffers are as long as needed: we trust nothing else of them
        stream = read_stream(self.pa.Table.from_batches(batches, schema).__arrow_c_stream__())
        return stream.field, list(stream)

    def _content(self, **options):
        return _content(self.pa, self.memory, self.pa.ipc.IpcReadOptions(**options) if options else None)

    def _is_mapped(self, batch):
        """Return whether a batch is in the mapped file, rather than decompressed into memory."""
        try:
            columns = batch.columns
        except KeyError as error:  # of pyarrow, which has no class for the type
            raise TypeError(
                "it has a column of a type that pyarrow doesn't know, such as an interval of months: write "
                "the file without it"
            ) from error
        buffers = chain.from_iterable(column.buffers() for column in columns)
        places = [buffer.address for buffer in buffers if buffer is not None and buffer.size]
        return all(_contains(self.memory, place) for place in places)

    def _number_of(self, column):
        """Return the index of a column."""
        if column is None:
            if len(self.names) != 1:
                raise ValueError(_several(self.names))
            return 0
        if column not in self._numbers or len(self._numbers) < len(self.names):
            count = self.names.count(column)
            if count != 1:
                raise ValueError(
                    f"it has {count} columns with the name {shown(column)}; its columns are "
                    f"{', '.join(self.names[:20]) or 'none'}"
                )
        return self._numbers[column]

    @contextmanager
    def _naming_column(self, field):
        try:
            yield
        except (TypeError, ValueError, OverflowError) as error:
            if len(self.names) == 1:
                raise
            raise prefixed(f"column {field.name!r}", error) from error


@contextmanager
def _naming_errors(pa, path):
    try:
        yield
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        is_type = isinstance(error, TypeError) and not isinstance(error, pa.ArrowException)
        kind = TypeError if is_type else ValueError  # a TypeError of pyarrow's is about damage
        raise kind(f"{path} can't be read: {_why(pa, path, error)}") from error
    except OSError as error:
        # Errors of pyarrow's own have no errno, and are about the content of the file.
        if error.errno is None:
            raise ValueError(f"{path} can't be read: {_why(pa, path, error)}") from error
        if error.filename is None:
            error.filename = path
        raise


def read_batches(pa, path):
    """Return the Columns of each batch of a file that we write."""
    for batch in _content(pa, pa.py_buffer(map_file(path)), None)[1]:
        yield Columns.from_arrow(pa.Table.from_batches([batch]))


def _contains(memory, address):
    return memory.address <= address < memory.address + memory.size


def _content(pa, memory, options):
    """Return the schema of a file, in Arrow's file or stream format, and an iterator over its batches."""
    source = pa.BufferReader(memory)
    if memory.size >= len(_STREAM) and memory[: len(_STREAM)].to_pybytes() == _STREAM:
        reader = pa.ipc.open_stream(source, options=options)
        return reader.schema, iter(reader)
    reader = pa.ipc.open_file(source, options=options)
    return reader.schema, map(reader.get_batch, range(reader.num_record_batches))


def _several(names):
    return f"it has {len(names)} columns ({', '.join(names[:20])}): pass the name of one as column="


def _why(pa, path, error):
    """Return the reason why a file can't be read."""
    with naming(path), open(path, "rb") as file:
        beginning = file.read(len(_MAGIC))
        file.seek(max(os.fstat(file.fileno()).st_size - len(_MAGIC), 0))
        end = file.read()
    for start, what in _OTHER_BEGINNINGS.items():
        if beginning.startswith(start):
            return f"it is {what}"
    if not beginning:
        return "it is empty"
    if beginning.startswith(_STREAM):
        is_arrows = isinstance(error, (pa.ArrowException, OSError))
        return f"{'it is damaged or incomplete: ' if is_arrows else ''}{shown_error(error)}"
    if beginning != _MAGIC:
        is_text = all(byte in _TEXT for byte in beginning)
        text = ", but a text file such as CSV or JSON" if is_text else ""
        stem, suffix = os.path.splitext(path)
        index = f", and {stem}.idx, which Megatron writes beside it, is missing" * (suffix == ".bin")
        return f"it is not an Arrow IPC file{text}{index}"
    if end != _MAGIC:
        return "it is incomplete, because its end is missing"
    if isinstance(error, MemoryError):
        return f"it is damaged, or there is not enough memory for its data: {error}"
    return shown_error(error)
