"""Megatron's pairs of files: tokens one after the other in a `.bin`, and where each sequence is in an `.idx`.

All numbers of the index are little-endian, and not aligned::

    bytes    content
    9        MMIDIDX, and two zero bytes
    8        version, 1                                        uint64
    1        type of the tokens, a number of CODES             uint8
    8        n, how many sequences                             uint64
    8        m, how many boundaries of documents               uint64
    4 n      tokens of each sequence                           int32
    8 n      the byte of the `.bin` that each begins at        int64
    8 m      the first sequence of each document, and n        int64
    n        the mode of each sequence, of multimodal data     int8, may be missing

Nothing of that but the header and the last sequence is read when a pair is opened: the numbers are used where
they are, and each is checked when its element is read.
"""

import os
import stat
import struct

import numpy as np

from seqcore._arguments.shown import shown
from seqcore._files.parts import slices_of
from seqcore._files.paths import map_file
from seqcore._files.targets import Temporary, naming, target_of
from seqcore.columns import Columns
from seqcore.core.arrow import first_misfit, lie_together
from seqcore.core.pickling import mapped_pointers, mark_origin
from seqcore.core.sequence import TensorSequence
from seqcore.dtypes import type_name

MAGIC = b"MMIDIDX\0\0"
CODES = {1: "uint8", 2: "int8", 3: "int16", 4: "int32", 5: "int64", 6: "float64", 7: "float32", 8: "uint16"}
_CODE_OF = {np.dtype(name): code for code, name in CODES.items()}
_HEADER = struct.Struct("<9sQBQQ")
_LONGEST = 2**31 - 1


def pair_of(path):
    """Return the index and the tokens of a pair, from either path, or None if it is not one."""
    path = os.path.abspath(os.fsdecode(path))
    stem, suffix = os.path.splitext(path)
    if suffix == ".arrow":  # of a thousand files each look takes time
        return None
    index = f"{stem}.idx" if suffix == ".bin" else path
    try:
        if not stat.S_ISREG(os.stat(index).st_mode):  # opening a pipe would block
            return None
        with open(index, "rb") as file:
            if file.read(len(MAGIC)) != MAGIC:
                return None
    except OSError:
        return None
    return index, f"{os.path.splitext(index)[0]}.bin"


def opened(pair):
    """Return the sequences of a pair, as views of the mapped file.

    Raises
    ------
    OSError
        If a file is missing or can't be read.
    ValueError
        If the header or the last sequence doesn't fit the files.
    """
    index, tokens = map(map_file, pair)
    dtype, lengths, pointers = _numbers_of(index)
    n = len(lengths)
    end = int(pointers[-1]) + int(lengths[-1]) * dtype.itemsize if n else 0
    if n and (pointers[-1] < 0 or lengths[-1] < 0 or end > tokens.nbytes):
        raise ValueError(
            f"{index.path} is damaged, or {tokens.path} is incomplete: sequence {n - 1} has {lengths[-1]} "
            f"tokens from byte {pointers[-1]} on, but there are {tokens.nbytes} bytes"
        )
    if not n:
        return TensorSequence(dtype=dtype)
    size = tokens.nbytes // dtype.itemsize
    values = np.ndarray(size, dtype, tokens) if size else np.empty(0, dtype)
    seq = mapped_pointers(values, pointers, lengths)
    mark_origin(seq, index, tokens)
    return seq


def _numbers_of(file):
    """Return the dtype, the lengths and the pointers of an index, which are not read."""
    path, nbytes = file.path, file.nbytes
    if nbytes < _HEADER.size:
        raise ValueError(f"{path} is damaged: it has {nbytes} bytes, fewer than the header of an index")
    magic, version, code, n, m = _HEADER.unpack_from(file)
    if magic != MAGIC or version != 1 or code not in CODES:
        raise ValueError(
            f"{path} is damaged, or of another version: its header has version {version} and type {code}, "
            f"expected version 1 and type 1 to {max(CODES)}"
        )
    expected = _HEADER.size + 12 * n + 8 * m
    if nbytes not in (expected, expected + n):
        raise ValueError(
            f"{path} is damaged or incomplete: it has {nbytes} bytes, expected {expected} for {n} sequences "
            f"and {m} boundaries of documents"
        )
    lengths = np.ndarray(n, "<i4", file, _HEADER.size)
    pointers = np.ndarray(n, "<i8", file, _HEADER.size + 4 * n)
    return np.dtype(CODES[code]), lengths, pointers


def write(path, parts):
    """Write sequences of rank 1 as a pair, one document for each element; see `seqcore.save`."""
    stem = os.path.splitext(os.fsdecode(path))[0]
    paths = [f"{stem}.bin", f"{stem}.idx"]
    files = [Temporary(target_of(one, "a sequence")) for one in paths]
    lengths, dtype = [], None
    try:
        for file, one in zip(files, paths, strict=True):
            with naming(one):
                file.open()
        for number, part in parts:
            dtype = _checked(part, number, dtype)
            lengths.append(_lengths_of(part, number))
            with naming(paths[0]):
                for some in slices_of(part, lie_together(part)) if len(part) else ():
                    files[0].file.write(np.ascontiguousarray(some.values()).astype(dtype, copy=False).data)
        if dtype is None:
            raise ValueError(
                "there is nothing to save, and so no dtype: pass an empty sequence, for example "
                "TensorSequence(dtype='int32')"
            )
        with naming(paths[1]):
            _write_index(files[1].file, dtype, np.concatenate(lengths))
        for file, one in zip(files, paths, strict=True):
            with naming(one):
                file.sync()
        for file, one in zip(files, paths, strict=True):  # the tokens first, then the index that knows them
            with naming(one):
                file.put_in_place()
    finally:
        for file in files:
            file.remove()


def _checked(part, number, dtype):
    """Return the dtype of a part, which has to be that of the others."""
    if isinstance(part, Columns):
        raise TypeError(
            f"part {number} is Columns, but a Megatron index has one sequence: pass columns[name]"
        )
    if part.dtype not in _CODE_OF:
        raise TypeError(
            f"part {number} has dtype {type_name(part.dtype)}, which a Megatron index can't have: convert it "
            f"with astype to one of {', '.join(CODES.values())}"
        )
    if dtype is not None and part.dtype != dtype:
        raise TypeError(
            f"part {number} has dtype {type_name(part.dtype)}, expected {type_name(dtype)} as the parts "
            "before"
        )
    return part.dtype


def _lengths_of(part, number):
    at = first_misfit(part, 1, 1, (-1,))
    if at < len(part):
        raise ValueError(
            f"element {at} of part {number} has shape {part[at].shape}, but a Megatron index has elements of "
            "rank 1"
        )
    lengths = part.lengths()
    if len(lengths) and lengths.max() > _LONGEST:
        at = int(np.argmax(lengths))
        raise ValueError(
            f"element {at} of part {number} has length {lengths[at]}, more than a Megatron index can have "
            f"({_LONGEST}): divide it with windows({_LONGEST})"
        )
    return lengths


def _write_index(file, dtype, lengths):
    n = len(lengths)
    file.write(_HEADER.pack(MAGIC, 1, _CODE_OF[dtype], n, n + 1))
    file.write(lengths.astype("<i4").data)
    file.write(((np.cumsum(lengths) - lengths) * dtype.itemsize).astype("<i8").data)
    file.write(np.arange(n + 1, dtype="<i8").data)


def refuse_column(path, column):
    """Raise for a pair that was asked for a column."""
    raise ValueError(
        f"{os.fspath(path)} is a Megatron index, which has no column {shown(column)}: leave it out"
    )
