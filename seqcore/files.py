"""Sequences in files, mapped into memory: Arrow's IPC format, which pyarrow, Polars and DuckDB read too."""

import os

from seqcore._shown import shown

__all__ = ["load", "save"]


def save(path, sequence):
    """Write a sequence to a file, which takes the place of an older one when it is whole.

    Parameters
    ----------
    path : str or os.PathLike
        A symbolic link is followed.
    sequence : TensorSequence, or iterable
        A sequence, a list of tensors, or, for what memory doesn't hold, an iterable of sequences or of
        tensors, which are written as they come.

    Raises
    ------
    TypeError
        If Arrow lacks the type (complex numbers and bfloat16), or types differ.
    ValueError
        If ranks differ, or there is nothing that tells the type.
    OSError
        If the file can't be written. Whatever is raised, an older file is still there.
    ImportError
        If pyarrow is not installed: `pip install "seqcore-tensors[arrow]"`.

    Notes
    -----
    O(bytes), and no copy of what `values` is a view of; memory is that of one part. The format is Arrow's IPC
    file, with one column `tensors` of the type that `TensorSequence.__arrow_c_array__` gives, bools as
    `arrow.bool8`. Where later parts differ in more than their length, what was written is written once more.

    Examples
    --------
    >>> import seqcore as sq
    >>> sq.save("events.arrow", sq.TensorSequence([[1, 2], [3]]))
    >>> sq.load("events.arrow")
    <TensorSequence of 2 int64 tensors: (2,) (1,)>
    """
    from seqcore._files.parts import parts_of
    from seqcore._files.writing import write

    write(path, parts_of(sequence))


def load(path, column=None):
    """Map a file into memory, as a sequence of what is in it.

    Parameters
    ----------
    path : str, os.PathLike, or list of them
        Of a file that `save` has written, or another of Arrow's IPC format. Several are one sequence.
    column : str, optional
        Which column of a file that has several.

    Returns
    -------
    TensorSequence
        Of read-only elements in the file's memory. Bools of other programs' files, strings, and what is
        compressed or encoded are read; of all else nothing is, before it is looked at.

    Raises
    ------
    OSError
        If a file is not there, or can't be read.
    ValueError
        If it is of another format or damaged, or has other columns or types than tensors.
    TypeError
        If several files differ in type.
    ImportError
        If pyarrow is not installed: `pip install "seqcore-tensors[arrow]"`.

    Notes
    -----
    O(n), some nanoseconds and 32 bytes for each element, some 250 where they differ in more than their
    length. The elements, and what is selected of them, pickle as path and positions: other processes open
    the file themselves, if it has neither moved nor changed. A file that is in use may be replaced, as `save`
    does, but not written into.

    Examples
    --------
    >>> import seqcore as sq
    >>> sq.save("words.arrow", [["to", "be"], ["or"]])
    >>> sq.load(["words.arrow", "words.arrow"]).lengths()
    array([2, 1, 2, 1])
    """
    from seqcore._files.reading import read_all

    paths = list(path) if isinstance(path, list | tuple) else [path]
    if not paths:
        raise ValueError("no files are no sequence, since there is nothing that tells the type")
    for one in paths:
        if not isinstance(one, str | bytes | os.PathLike):
            raise TypeError(f"a file is named by its path, not by {shown(one)} of type {type(one).__name__}")
    if column is not None and not isinstance(column, str):
        raise TypeError(f"a column is named by a str, not by {shown(column)}")
    return read_all(paths, column)
