"""What calls are made on: sequences of every kind, and arguments that fit them."""

import atexit
import os
import pickle
import shutil
import tempfile
import types
from functools import cache, cached_property
from pathlib import Path

import numpy as np
import pytest

import seqcore as sq
from seqcore import BatchSampler, Columns, TensorSequence

TENSOR, RANK3 = np.zeros(3, np.float32), np.zeros((2, 2, 2), np.float32)
BASE = np.arange(40, dtype=np.float32).reshape(20, 2)
MORE = [np.full(4, i, np.float32) for i in range(50)]
LISTS = [[1.5, 2], [3], []] * 20
WORDS = np.array([["to", "be"], ["or", "not"], ["to", "be"]], object)
LARGE = np.zeros(100_000, np.float32)
ROWS, RANK5, EACH = np.zeros((3000, 2)), np.zeros((2,) * 5), np.array([1000, 2000])
OFFSETS, LENGTHS = np.array([0, 3, 3, 20]), np.array([3, 0, 17])
MASK = np.arange(4) < np.array([[0], [1], [4], [2], [3]])
RECORDS = np.zeros(6, [("x", "f8"), ("flag", "i1")])
BATCH, LARGE_NUMBERS = np.zeros((5, 4, 2), np.float32), np.arange(1000, 1020)
SIZES = np.arange(40) % 7
SOURCES = [i % 2 for i in range(len(SIZES))]  # of a mixture
WATCHED = [TENSOR, RANK3, BASE, *MORE, ROWS, RANK5, EACH, WORDS, LARGE]
WATCHED += [BATCH, MASK, LARGE_NUMBERS, SIZES]


def _mixed():
    seq = sq.split_to_sequence(BASE)
    seq.insert(5, TENSOR)
    seq.append(RANK3)
    return seq


def _texts():
    seq = sq.split_to_sequence(WORDS)
    seq.append("that")
    return seq


@cache
def scratch():
    """The folder of this process's files."""
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def _loaded(make):
    @cache
    def path():
        handle, name = tempfile.mkstemp(".arrow", dir=scratch())
        os.close(handle)
        sq.save(name, make())
        return name

    return lambda: sq.load(path())


def _bfloat16():
    import ml_dtypes

    return sq.split_to_sequence(np.arange(12).astype(ml_dtypes.bfloat16).reshape(6, 2))


def _ragged():
    return TensorSequence.from_offsets(BASE, OFFSETS)


def _even():
    return sq.split_to_sequence(BASE)


SEQUENCES = {
    "mixed": _mixed,  # two ranks, in slots
    "two ranks": _mixed,
    "even": _even,
    "ragged": _ragged,  # with an empty element
    "shuffled": lambda: sq.split_to_sequence(BASE, 3)[[3, 0, 5, 1, 2, 4]],
    "backwards": lambda: sq.split_to_sequence(np.arange(20), 3)[::-1],
    "single rows": lambda: TensorSequence.from_lengths(np.arange(6), [1] * 6)[::-2],
    "turned": lambda: TensorSequence([BASE[::-1], BASE[:5, ::-1]]),
    "turned rows": lambda: sq.split_to_sequence(BASE[::-1]),
    "one turned": lambda: TensorSequence([LARGE_NUMBERS[::-1]]),
    "turned columns": lambda: sq.split_to_sequence(BASE[:, ::-1]),
    "a field": lambda: sq.split_to_sequence(RECORDS["x"]),
    "columns": lambda: sq.split_to_sequence(BASE, 1, axis=1),
    "rows of a matrix": lambda: sq.split_to_sequence(BASE, keepdims=0),
    "a row of a matrix": lambda: sq.split_to_sequence(BASE, keepdims=0)[4:5],
    "upright": lambda: TensorSequence([BASE[:6].T, BASE[6:9].T]),
    "arrays": lambda: TensorSequence([BASE[:3], BASE[2:9], TENSOR.reshape(1, 3)[:, :2]]),
    "numbers": lambda: sq.split_to_sequence(LARGE_NUMBERS, keepdims=0),
    "shapes": lambda: TensorSequence([RANK3, np.zeros((1, 3, 2), np.float32)]),
    "padded": lambda: TensorSequence.from_padded(BATCH, [0, 1, 4, 2, 3]),
    "words": _texts,
    "pairs of words": lambda: sq.split_to_sequence(WORDS),
    "bools": lambda: sq.split_to_sequence(np.arange(12) % 3 == 0, 5),
    "complex": lambda: sq.split_to_sequence(np.ones((4, 2), "complex128")),
    "bytes": lambda: sq.split_to_sequence(np.ones((4, 2), np.uint8)),
    "thousands": lambda: TensorSequence.from_lengths(ROWS, [3000]),
    "large": lambda: TensorSequence([LARGE, TENSOR]),
    "empty": lambda: sq.sequence_empty("float32"),
    "bfloat16": _bfloat16,
    "loaded": _loaded(_ragged),
    "loaded shapes": _loaded(lambda: TensorSequence([np.ones((2, 3)), np.ones((1, 2))])),
}
NEEDS = {"bfloat16": "ml_dtypes", "loaded": "pyarrow", "loaded shapes": "pyarrow"}  # packages


def made(name):
    """Return a sequence, or skip the test if a package is missing."""
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    return SEQUENCES[name]()


class Operands:
    """Arguments that fit a sequence. Each is made when a call asks for it, and is the same from then on."""

    def __init__(self, seq):
        self.seq = seq

    @cached_property
    def tensor(self):
        if self.seq.dtype == np.float32:
            return TENSOR
        return np.full(2, "x", object) if self.seq.dtype == object else np.ones(2, self.seq.dtype)

    @cached_property
    def tensors(self):
        return MORE[:5] if self.seq.dtype == np.float32 else [self.tensor, self.tensor[:1]] * 2

    @cached_property
    def others(self):
        """Another sequence of the same type."""
        return TensorSequence(self.tensors)

    @property
    def generated(self):
        return (tensor for tensor in self.tensors)

    @cached_property
    def element(self):
        return self.seq[len(self.seq) // 2] if len(self.seq) else self.tensor

    @cached_property
    def last(self):
        return len(self.seq) - 1

    @cached_property
    def indices(self):
        n = len(self.seq)
        return np.array([n - 1, 0, -1, n // 2] if n else [], np.int64)

    @cached_property
    def replacements(self):
        return [self.tensor] * len(self.indices)

    @cached_property
    def mask(self):
        return np.arange(len(self.seq)) % 2 == 0

    @cached_property
    def masked(self):
        return [self.tensor] * int(self.mask.sum())

    @cached_property
    def lengths(self):
        return self.seq.lengths()

    @cached_property
    def pickled(self):
        return pickle.dumps(self.seq, 5)

    @cached_property
    def out_of_band(self):
        buffers = []
        return pickle.dumps(self.seq, 5, buffer_callback=buffers.append), buffers

    @cached_property
    def reduced(self):
        return self.seq.__reduce_ex__(5)

    @cached_property
    def out(self):
        return np.empty_like(self.seq.to_padded())

    @cached_property
    def schema(self):
        return self.seq.__arrow_c_schema__()

    @property
    def stream(self):
        return types.SimpleNamespace(__arrow_c_stream__=self.seq.__arrow_c_stream__)

    @cached_property
    def columns(self):
        n = len(self.seq)
        return Columns({"a": self.seq, "b": np.arange(n), "c": np.arange(4 * n).reshape(n, 4)})

    @property
    def columns_stream(self):
        return types.SimpleNamespace(__arrow_c_stream__=self.columns.__arrow_c_stream__)

    @property
    def sampler(self):
        return BatchSampler(SIZES, batch_size=4)

    # Where calls find and leave files.

    @cached_property
    def folder(self):
        return Path(tempfile.mkdtemp(dir=scratch()))

    @cached_property
    def path(self):
        return self.folder / "written.arrow"

    @cached_property
    def saved(self):
        sq.save(self.folder / "saved.arrow", self.seq)
        return self.folder / "saved.arrow"

    @cached_property
    def saved_columns(self):
        self.columns.save(self.folder / "columns.arrow")
        return self.folder / "columns.arrow"

    @cached_property
    def parts(self):
        (self.folder / "parts").mkdir()
        for i in range(3):
            sq.save(self.folder / f"parts/{i}.arrow", _even()[i : i + 4])
        return self.folder / "parts"


def failing(tensors):
    yield from tensors
    raise KeyError
