"""Save and memory-map sequences and Columns: Arrow files, and pairs of files of Megatron."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, TypeAlias, overload

from seqcore._arguments.other_names import explains_arguments
from seqcore._arguments.shown import got
from seqcore.columns import Columns

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import ArrayLike

    from seqcore._typing import Tensors
    from seqcore.core.sequence import TensorSequence

    _Path: TypeAlias = str | os.PathLike[Any] | bytes

__all__ = ["load", "save"]


def save(
    path: _Path,
    sequence: Tensors | Columns | Iterable[ArrayLike] | Iterable[TensorSequence[Any]] | Iterable[Columns],
) -> None:
    """Write a sequence or Columns to a file, and replace an existing file only when all is written.

    Parameters
    ----------
    path : str or os.PathLike
        The path of the file. A symbolic link is followed. With a name such as `corpus.idx` or `corpus.bin`,
        both files of a Megatron pair are written, with one document for each element.
    sequence : TensorSequence, Columns, or iterable
        The sequence, Columns or list of tensors. For data larger than memory, an iterable of sequences, of
        Columns or of tensors, which are written one after the other.

    Raises
    ------
    TypeError
        If Arrow doesn't support the dtype (complex numbers and bfloat16), or dtypes differ. If a Megatron
        pair doesn't: it has (u)int8, int16, uint16, int32, int64, float32 and float64.
    ValueError
        If ranks differ, rows of arrays differ in shape, or an empty iterable leaves the dtype unknown. If the
        name ends as those of other formats do, such as `.parquet`. If elements of a Megatron pair don't have
        rank 1.
    OSError
        If the file can't be written. After any error an existing file is unchanged.
    ImportError
        If pyarrow is not installed: `pip install "seqcore-tensors[arrow]"`. A Megatron pair doesn't need it.

    See Also
    --------
    load : Memory-map the file.

    Notes
    -----
    O(bytes). Contiguous elements are written without a copy; an iterable needs memory for one part only. The
    format is an Arrow IPC file with one column `tensors`, of the type that
    `TensorSequence.__arrow_c_array__` exports, and bools as `arrow.bool8`. If later parts need another type,
    because they differ in more than their length, the earlier ones are written again. Columns become one
    column each: arrays are numbers or fixed-size lists. Columns of later parts match by name.

    The file is written under a name such as `.seqcore-….part` beside its own, and renamed. If the process is
    killed, that file stays, and the next `save` into the folder removes it, until the system is restarted.

    Examples
    --------
    >>> import seqcore as sq
    >>> sq.save("events.arrow", sq.TensorSequence([[1, 2], [3]]))
    >>> sq.load("events.arrow")
    <TensorSequence of 2 int64 tensors: (2,) (1,)>
    """
    from seqcore._files.parts import parts_of
    from seqcore._files.targets import check_path

    check_path(path, sequence)
    if os.path.splitext(os.fsdecode(path))[1] in (".idx", ".bin"):
        from seqcore._files.megatron import write
    else:
        from seqcore._files.writing import write
    write(path, parts_of(sequence))


@overload
def load(path: _Path | Sequence[_Path], column: str) -> TensorSequence[Any]: ...
@overload
def load(path: _Path | Sequence[_Path], column: None = None) -> Any: ...  # what it is depends on the files
@explains_arguments
def load(path: _Path | Sequence[_Path], column: str | None = None) -> Any:
    """Memory-map files and return their elements as a sequence, or their columns.

    Parameters
    ----------
    path : str, os.PathLike, or list of them
        The path of a file written by `save`, or of another Arrow file, in the file or the stream format. A
        folder stands for its `*.arrow` files, and a pattern such as `"day-*.arrow"` for the files that match,
        in order of name. A folder that Hugging Face's `datasets` wrote with `save_to_disk` stands for the
        files of the data set, without its caches. Several files give one sequence. An index of Megatron
        (`corpus.idx`, or its `corpus.bin`) stands for the pair.
    column : str, optional
        The name of the column to load, for files with several columns. By default all are loaded.

    Returns
    -------
    TensorSequence or Columns
        Columns if the files have several columns and `column` is not given, otherwise a sequence. The
        elements are read-only views of the mapped file. Strings, compressed or encoded data, and bools from
        other writers are read at once; all other data only when an element is accessed.

    Raises
    ------
    OSError
        If a file doesn't exist or can't be read. A folder without `*.arrow` files, and a pattern that no file
        matches, are a FileNotFoundError.
    ValueError
        If a file has another format or is damaged, several files have different columns, or the path is an
        address such as `s3://…` or a folder with several splits.
    TypeError
        If a column has nulls or can't become tensors, or several files differ in dtype.
    ImportError
        If pyarrow is not installed: `pip install "seqcore-tensors[arrow]"`. A Megatron pair doesn't need it.

    See Also
    --------
    save : Write a sequence to a file.

    Notes
    -----
    O(1) for each part that was saved, without reading data or offsets, and without memory for each element.
    An element's offsets are checked when it is used: damaged ones are then a ValueError that names the
    element and the file. Each sequence of a Megatron pair is an element, also where documents have several;
    lengths and pointers that don't fit each other are such an error too.

    Loaded sequences, and selections from them, pickle as a file path and positions: other processes open the
    file themselves, and it is an error if it was moved or changed. A mapped file may be replaced or removed,
    but must not be modified in place.

    Examples
    --------
    >>> import seqcore as sq
    >>> sq.save("words.arrow", [["to", "be"], ["or"]])
    >>> sq.load(["words.arrow", "words.arrow"]).lengths()
    array([2, 1, 2, 1])
    """
    if column is None:
        columns, inner = load_columns(path)
        return next(iter(columns.values())) if len(columns) == 1 else Columns.of(columns, inner)
    if not isinstance(column, str):
        several = ": use load(path)[names]" if isinstance(column, list | tuple) else ""
        raise TypeError(f"column must be a str or None, got {got(column)}{several}")
    from seqcore._files.reading import read_all

    return read_all(_files_at(path), column)


def load_columns(path: _Path | Sequence[_Path]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the columns of files by name, for `Columns.load`, and the shapes of the rows of arrays."""
    from seqcore._files.reading import read_columns

    return read_columns(_files_at(path))


def _files_at(path: Any) -> list[Any]:
    """Return the paths of the files that a path, a list of paths, a folder or a pattern stands for."""
    from seqcore._files.sources import files_of

    paths = list(path) if isinstance(path, list | tuple) else [path]
    if not paths:
        raise ValueError("load needs at least one path, got an empty list")
    for one in paths:
        if not isinstance(one, str | bytes | os.PathLike):
            raise TypeError(f"path must be a str or os.PathLike, or a list of them, got {got(one)}")
    return [file for one in paths for file in files_of(one)]
