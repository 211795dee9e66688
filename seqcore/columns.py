"""Columns: sequences and arrays of one length under names, as one data set."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import repeat
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Self, SupportsIndex, overload

import numpy as np

from seqcore._arguments.other_names import NamesOfColumns
from seqcore._arguments.protocols import is_dataset, is_of
from seqcore._arguments.shown import got, shown, shown_error
from seqcore._arguments.tensors import as_tensor
from seqcore._format.text import snapshot_of
from seqcore.core.arrow import first_misfit
from seqcore.core.late import late
from seqcore.core.maps import key_of, split_equally, stack
from seqcore.core.sequence import TensorSequence
from seqcore.dtypes import STRING, type_name

if TYPE_CHECKING:
    import os
    from collections.abc import ItemsView, Iterator, KeysView, Sequence

    from seqcore._typing import ArrowArray, ArrowStream, Selection

__all__ = ["Columns"]

_AS_SCALAR = itemgetter(())  # of an array of rank 0
_PLAIN = (bool, int, float, complex, str, np.generic)


class Columns(NamesOfColumns):
    """Sequences and arrays of one length under names, such as tokens, tags and labels.

    A row has one element of each column. Columns with one number for each row, or one shape in all rows, are
    arrays; columns whose elements differ in length are sequences.

    Parameters
    ----------
    columns : mapping of str to TensorSequence or array_like
        The columns. Sequences and arrays are taken by reference; later edits of a sequence don't show. A
        list of numbers becomes an array, a list of arrays a sequence. A sequence of rank 0 becomes an array.

    Raises
    ------
    ValueError
        If the columns differ in length, there are none, or one is a single number.
    TypeError
        If a name is not a string, or the dtype of a column is not supported.

    See Also
    --------
    load : Columns of a file.
    BatchSampler : Batches of rows of similar length.

    Notes
    -----
    - Read: `columns["tokens"]` is a column, a `TensorSequence` or an array. The array is a read-only view. If
      indices or a mask have selected the rows, it is a copy, which may be written to. `columns[i]` is a row,
      a dict. `columns[a:b]`, `columns[indices]` and `columns[mask]` are Columns, as in a sequence.
      `len(columns)` is the number of rows, iterating gives the rows, and `"tokens" in columns` asks for a
      name. `columns[["tokens", "label"]]` are some of the columns, `items()` and `get(name)` as of a dict.
    - Combine: `columns | {"weight": weights}` has further columns, or others in place of those of one name.
      `columns + others` has the rows of both, whose columns match by name.
    - `columns.__getitems__` is called by PyTorch's DataLoader, so that `collate_fn` gets Columns.
    - Loaded columns, and selections from them, pickle as file paths and positions.
    - Arrow: `pyarrow.table(columns)`, `polars.from_arrow(pyarrow.table(columns))`, and `from_arrow`.

    Examples
    --------
    >>> import numpy as np
    >>> import seqcore as sq
    >>> columns = sq.Columns({"tokens": [[1, 2, 3], [4]], "label": [0, 1]})
    >>> columns
    <Columns of 2 rows: tokens int64 sequence, label int64>
    >>> columns[[1]]["tokens"].to_padded(), columns["label"]
    (array([[4]]), array([0, 1]))
    """

    # `sequences` has all columns by name, arrays as the sequence of their rows. `inner` has the shape of the
    # rows of an array, and None for a sequence.
    __slots__ = ("__weakref__", "_arrays", "_owned", "inner", "sequences")

    __hash__ = None  # type: ignore[assignment]

    sequences: dict[str, TensorSequence[Any]]
    inner: dict[str, tuple[int, ...] | None]

    def __init__(self, columns: Columns | Mapping[str, Any]) -> None:
        if is_of(columns, Columns):
            columns = dict(zip(columns.names, map(columns.__getitem__, columns.names), strict=True))
        if not isinstance(columns, Mapping):
            raise TypeError(f"columns must be a mapping of names to columns, got {_got_instead(columns)}")
        sequences, inner = {}, {}
        for name, column in columns.items():
            if not isinstance(name, str):
                raise TypeError(f"the name of a column must be a str, got {got(name)}")
            sequences[name], inner[name] = _taken(name, column)
        self._fill(sequences, inner)

    def _fill(
        self, sequences: dict[str, TensorSequence[Any]], inner: dict[str, tuple[int, ...] | None]
    ) -> None:
        if not sequences:
            raise ValueError("Columns need at least one column, got none")
        lengths = dict(zip(sequences, map(len, sequences.values()), strict=True))
        first = next(iter(lengths))
        for name, length in lengths.items():
            if length != lengths[first]:
                raise ValueError(
                    f"column {name!r} has length {length}, but column {first!r} has length {lengths[first]}"
                )
        self.sequences, self.inner = sequences, inner
        self._arrays: dict[str, TensorSequence[Any]] = {}  # that were made, each as an element
        self._owned = False  # whether arrays are copies: of rows that were selected

    @classmethod
    def of(cls, sequences: dict[str, TensorSequence[Any]], inner: dict[str, tuple[int, ...] | None]) -> Self:
        """Make Columns of sequences by name, and of the shape of the rows of those that are arrays."""
        columns = cls.__new__(cls)
        columns._fill(sequences, inner)
        return columns

    # -- what it is ------------------------------------------------------------------------------------

    @property
    def names(self) -> list[str]:
        """The names of the columns, a list of str."""
        return list(self.sequences)

    def keys(self) -> KeysView[str]:
        """Return the names, so that `dict(columns)` is a dict of the columns."""
        return dict.fromkeys(
            self.sequences
        ).keys()  # through the mapping of its keys sequences could be edited

    def items(self) -> ItemsView[str, Any]:
        """Return pairs of a name and the column, each a sequence or an array."""
        return dict(zip(self.names, map(self._column, self.names), strict=True)).items()

    def get(self, name: str, default: Any = None) -> Any:
        """Return a column, or a default if there is none of that name."""
        return self._column(name) if name in self.sequences else default

    @property
    def dtypes(self) -> dict[str, np.dtype[Any]]:
        """The dtypes of the columns, a dict by name."""
        return {name: column.dtype for name, column in self.sequences.items()}

    @property
    def nbytes(self) -> int:
        """The size of all columns in bytes."""
        return sum(column.nbytes for column in self.sequences.values())

    def __len__(self) -> int:
        return len(next(iter(self.sequences.values())))

    def __repr__(self) -> str:
        columns = []
        for name, column in self.sequences.items():
            inner = self.inner[name]
            kind = " sequence" if inner is None else f" {inner}" if inner else ""
            columns.append(f"{name} {type_name(column.dtype)}{kind}")
        rows = len(self)
        return f"<Columns of {rows:,} row{'s' if rows != 1 else ''}: {', '.join(columns)}>"

    def _repr_html_(self) -> str:
        from seqcore._format.columns import columns_as_html

        return columns_as_html(self)

    def __contains__(self, name: object) -> bool:
        return name in self.sequences

    def __eq__(self, other: object, /) -> bool:
        """Return True if other Columns have the same names, dtypes, shapes and values."""
        if not is_of(other, Columns):
            return NotImplemented
        # Not by ==, which takes one sequence for equal to itself, with NaN too.
        return self.inner == other.inner and all(
            bool(column == other.sequences[name]) for name, column in self.sequences.items()
        )

    # -- access ----------------------------------------------------------------------------------------

    @overload
    def __getitem__(self, key: str) -> Any: ...  # a sequence or an array, which only the data tells
    @overload
    def __getitem__(self, key: list[str]) -> Columns: ...
    @overload
    def __getitem__(self, key: int | np.integer[Any]) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, key: slice | Selection | TensorSequence[np.bool_]) -> Columns: ...
    @overload
    def __getitem__(self, key: SupportsIndex) -> dict[str, Any]: ...
    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            return self._column(key)
        if type(key) in (list, tuple) and key and all(isinstance(name, str) for name in key):
            return self._of_names(key)
        own = key_of(next(iter(self.sequences.values())), key, False)
        if not isinstance(own, int):
            return self._selected(own)
        row = {}  # no comprehension: without memory for variables shared with it CPython 3.11 loses arguments
        for name in self.sequences:
            element = self.sequences[name][own]
            row[name] = element[()] if self.inner[name] == () else element
        return row

    def __getitems__(self, positions: Selection) -> Columns:
        """Return `columns[positions]`, a batch in one call. PyTorch's DataLoader calls this method."""
        return self._selected(key_of(next(iter(self.sequences.values())), positions, True))

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Iterate over the rows, as dicts."""
        columns: list[Any] = []
        for name, column in self.sequences.items():
            columns.append(map(_AS_SCALAR, column) if self.inner[name] == () else column)
        # As dict(zip(names, row)) for each row, in half the time.
        return map(dict, map(zip, repeat(tuple(self.sequences)), zip(*columns, strict=True)))

    def _selected(self, key: Any) -> Columns:
        sequences = {}
        for name in self.sequences:
            sequences[name] = self.sequences[name][key]
        selected = Columns.of(sequences, dict(self.inner))
        # Not only where a view is impossible: whether an array is writable must not depend on the positions.
        selected._owned = self._owned or not isinstance(key, slice)
        return selected

    def _of_names(self, names: list[str]) -> Columns:
        sequences, inner = {}, {}
        for name in names:
            if name in sequences:
                raise ValueError(f"column {shown(name)} is selected twice")
            sequences[name], inner[name] = self._found(name), self.inner[name]
        return self._combined(sequences, inner, self)

    def _found(self, name: str) -> TensorSequence[Any]:
        try:
            return self.sequences[name]
        except KeyError:
            raise KeyError(f"there is no column {shown(name)}, only {', '.join(self.sequences)}") from None

    def __or__(self, other: Columns | Mapping[str, Any]) -> Columns:
        """Return the columns of both; a column of the right side takes the place of one of its name."""
        if is_of(other, Columns):
            more: Columns = other
        elif isinstance(other, Mapping):
            more = Columns(other) if other else self
        else:
            return NotImplemented
        return self._combined(self.sequences | more.sequences, self.inner | more.inner, more)

    def __add__(self, other: Columns) -> Columns:
        """Return the rows of both; columns match by name, and need the same kinds and dtypes."""
        if not is_of(other, Columns):
            return NotImplemented
        if self.sequences.keys() != other.sequences.keys():
            differing = ", ".join(sorted(self.sequences.keys() ^ other.sequences.keys()))
            raise ValueError(f"columns can only be added to those of the same names: {differing} are in one")
        sequences = {}
        for name in self.sequences:
            one, two = _kind_of(self, name), _kind_of(other, name)
            if one != two and len(self) and len(other):
                raise TypeError(f"column {name!r} is {one} on the left side, and {two} on the right")
            sequences[name] = self.sequences[name] + other.sequences[name]
        inner = self.inner if len(self) or not len(other) else other.inner
        return self._combined(sequences, dict(inner), other)

    def _combined(
        self,
        sequences: dict[str, TensorSequence[Any]],
        inner: dict[str, tuple[int, ...] | None],
        other: Columns,
    ) -> Columns:
        columns = Columns.of(sequences, inner)
        columns._owned = self._owned or other._owned
        return columns

    def _column(self, name: str) -> Any:
        column = self._found(name)
        inner = self.inner[name]
        if inner is None:
            return column[:]  # edits of it don't change the columns
        if self._owned:
            return np.asarray(column) if len(column) else np.empty((0, *inner), column.dtype)
        # As an element: each lookup of one makes a new view, so nobody can change the shape of another's.
        array = self._arrays.get(name)
        if array is None:
            stacked = stack(column) if len(column) else np.empty((0, *inner), column.dtype)
            array = self._arrays[name] = TensorSequence([stacked], column.dtype)
        return array[0]

    # -- files, Arrow, pickle --------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[Any] | bytes) -> None:
        """Write the columns to one Arrow file; `seqcore.save(path, columns)` is the same.

        Parameters
        ----------
        path : str or os.PathLike
            The path of the file.

        See Also
        --------
        seqcore.save : The errors, and data that is larger than memory.
        load : Memory-map the file.
        """
        late("save")(path, self)

    @classmethod
    def load(cls, path: str | os.PathLike[Any] | bytes | Sequence[str | os.PathLike[Any] | bytes]) -> Self:
        """Memory-map files and return their columns, also of files with a single one.

        Parameters
        ----------
        path : str, os.PathLike, or list of them
            The path of a file, a folder or a pattern, as `seqcore.load` takes it.

        Returns
        -------
        Columns
            The columns under their names. The column of a file that `seqcore.save` wrote from a sequence is
            called `tensors`, and so is that of a Megatron pair.

        See Also
        --------
        seqcore.load : The errors, and which data is read at once.

        Examples
        --------
        >>> import seqcore as sq
        >>> sq.save("words.arrow", [["to", "be"], ["or"]])
        >>> sq.Columns.load("words.arrow")
        <Columns of 2 rows: tensors string sequence>
        """
        return cls.of(*late("load_columns")(path))

    def __arrow_c_schema__(self) -> object:
        """Return the type of the table that `__arrow_c_stream__` exports, as a capsule."""
        from seqcore._arrow.tables import give_schema

        return give_schema(self)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export the columns as a stream of record batches. `pyarrow.table(columns)` calls this method.

        A requested schema is ignored, as the interface allows.
        """
        from seqcore._arrow.tables import give_stream

        return give_stream(self)

    @classmethod
    def from_arrow(cls, table: ArrowArray | ArrowStream) -> Self:
        """Make Columns from a table or record batch of pyarrow, Polars, DuckDB or another library.

        Parameters
        ----------
        table : object with `__arrow_c_stream__` or `__arrow_c_array__`
            The table. Columns of numbers, bools, strings and fixed-size lists become arrays; lists become
            sequences, as in `TensorSequence.from_arrow`.

        Returns
        -------
        Columns

        Raises
        ------
        TypeError
            If it is not a table, or a column has nulls or an unsupported type; the message names the column.
        ValueError
            If two columns have one name, or a column is damaged.

        Notes
        -----
        Without a copy, except for bools, strings and encoded data; arrays in several chunks are joined when
        they are accessed. No package is needed.
        """
        from seqcore._arrow.tables import take_table

        return cls.of(*take_table(table))

    @classmethod
    def from_dataset(cls, dataset: Any, columns: Sequence[str] | None = None) -> Self:
        """Make Columns of the rows of a `datasets.Dataset` of Hugging Face, without reading them.

        Parameters
        ----------
        dataset : datasets.Dataset
            The data set, of one file or several, also with rows that were selected, shuffled, sorted or
            filtered, and with columns that were renamed or removed.
        columns : list of str, optional
            The names of columns. By default all, or those of `dataset.set_format(columns=...)`.

        Returns
        -------
        Columns
            The rows in the order of the data set, as read-only views of its files.

        Raises
        ------
        TypeError
            If it is a `DatasetDict` or a streaming data set, or a column has nulls or elements that are not
            tensors; the message names the column.
        ValueError
            If the data set has a transform, or a file is damaged.
        KeyError
            If there is no column of a name.
        ImportError
            If pyarrow is not installed; `datasets` needs it too.

        See Also
        --------
        seqcore.load : Map the folder of a data set that `save_to_disk` wrote.

        Notes
        -----
        O(number of files), and for selected rows O(n) and 8 bytes for each. It pickles as file paths and
        positions. Columns in memory, and those that were cast, pickle as data. Strings and bools are read at
        once, as in `load`.

        Examples
        --------
        >>> import datasets
        >>> import seqcore as sq
        >>> dataset = datasets.Dataset.from_dict({"tokens": [[1, 2], [3], [4, 5, 6]]})
        >>> sq.Columns.from_dataset(dataset.select([2, 0]))["tokens"].tolist()
        [[4, 5, 6], [1, 2]]
        """
        sequences, inner, selected = late("read_dataset")(dataset, columns)
        made = cls.of(sequences, inner)
        made._owned = selected
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        sequences = {}
        for name in self.sequences:
            sequences[name] = self.sequences[name][:]
        return restore, (type(self), sequences, dict(self.inner), *([True] if self._owned else []))


def restore(
    cls: type[Columns],
    sequences: dict[str, TensorSequence[Any]],
    inner: dict[str, tuple[int, ...] | None],
    owned: bool = False,
) -> Columns:
    """Make Columns of what `Columns.__reduce__` has serialized."""
    if not (isinstance(cls, type) and issubclass(cls, Columns)):
        raise TypeError(f"the pickle is damaged: expected Columns, got {shown(cls)}")
    if not isinstance(sequences, dict) or not isinstance(inner, dict) or sequences.keys() != inner.keys():
        raise TypeError("the pickle is damaged: the names of its columns differ")
    for name, column in sequences.items():
        shape = inner[name]
        if not isinstance(name, str) or not isinstance(column, TensorSequence):
            raise TypeError(f"the pickle is damaged: column {shown(name)} is {got(column)}")
        if shape is not None and (
            type(shape) is not tuple
            or not all(type(extent) is int and extent >= 0 for extent in shape)
            or first_misfit(column, len(shape), len(shape), shape) < len(column)
        ):
            raise ValueError(
                f"the pickle is damaged: rows of column {name!r} don't have shape {shown(shape)}"
            )
    columns = cls.of(sequences, inner)
    columns._owned = owned is True
    return columns


def _kind_of(columns: Columns, name: str) -> str:
    """Describe what a column is: two can be joined if this is the same."""
    inner, kind = columns.inner[name], type_name(columns.sequences[name].dtype)
    return f"a sequence of {kind}" if inner is None else f"an array of {kind} with rows of shape {inner}"


def _got_instead(columns: Any) -> str:
    """Describe what was given in place of a mapping, and name the call that takes it."""
    kind = type(columns).__name__
    if hasattr(columns, "__arrow_c_stream__") or hasattr(columns, "__arrow_c_array__"):
        return f"a {kind}: Columns.from_arrow(...) takes a table of pandas, Polars, pyarrow or DuckDB"
    if is_dataset(columns):
        return f"a {kind} of Hugging Face: Columns.from_dataset(...) takes it"
    if isinstance(columns, list | tuple) and columns and isinstance(columns[0], Mapping):
        return f"a {kind} of rows: pass {{name: [row[name] for row in rows] for name in rows[0]}}"
    if isinstance(columns, list | tuple) and columns and isinstance(columns[0], tuple):
        return f"a {kind} of tuples: pass dict(...) of pairs of a name and a column"
    if is_of(columns, np.ndarray) and columns.dtype.names is not None:
        return "a structured array: pass {name: array[name] for name in array.dtype.names}"
    return got(columns)


def _taken(name: str, column: Any) -> tuple[TensorSequence[Any], tuple[int, ...] | None]:
    """Return a column as a sequence, and its shape behind axis 0 if it is an array, else None."""
    try:
        if is_of(column, TensorSequence):
            return of_sequence(snapshot_of(column))
        if _is_of_tensors(column):
            return of_sequence(TensorSequence(column))
        array = as_tensor(column)
    except (TypeError, ValueError, OverflowError) as error:
        # Subclasses, such as UnicodeDecodeError, take other arguments.
        kind = next(kind for kind in (TypeError, OverflowError, ValueError) if isinstance(error, kind))
        raise kind(f"column {name!r}: {shown_error(error)}") from error
    if array.ndim == 0:
        raise ValueError(f"column {name!r} is a single value, expected one for each row")
    return split_equally(array, 0, 1, True), array.shape[1:]


def of_sequence(column: TensorSequence[Any]) -> tuple[TensorSequence[Any], tuple[int, ...] | None]:
    """Return a sequence as a column: one of rank 0 is an array."""
    alike = len(column) > 0 and first_misfit(column, 0, 0, ()) == len(column)
    return column, () if alike else None


def _is_of_tensors(column: Any) -> bool:
    """Return whether a value is a list of tensors, rather than an array or a list of numbers or strings."""
    if isinstance(column, list | tuple):
        return not all(issubclass(kind, _PLAIN) for kind in set(map(type, column)))
    if getattr(column, "dtype", None) == STRING and getattr(column, "ndim", None) == 1:
        return len(column) > 0 and not isinstance(next(iter(column)), str)
    return False
