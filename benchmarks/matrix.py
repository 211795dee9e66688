"""Every public call beside the best way by hand and by others: `python -m benchmarks matrix`.

A row has a public name (before the comma, as in tests/support/surface), the call, and the other ways to do
the same: by hand with NumPy or lists, and by awkward-array, pyarrow, Polars or PyTorch, each on one thread. A
cell is a row at one number of elements, element type and mean length; its ratio is that to the fastest other
way, which the same run measures in turns. `WITHOUT_A_ROW` has the reasons of names without one.

    python -m benchmarks matrix [--only PATTERN] [--quick] [--json FILE] [--markdown FILE] [--against FILE]
    python -m benchmarks matrix --compare BEFORE AFTER [BEFORE AFTER …]

`--against` prints the cells whose ratio has moved by more than 1.3 since the run that wrote the file.
`--compare BEFORE AFTER …` measures nothing: it prints what has moved the same way in each pair of runs.
"""

import copy
import gc
import json
import os
import pickle
import re
import shutil
import statistics
import sys
import tempfile
import weakref
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np

import seqcore as sq

from .declare import OURS, Side, optional
from .measure import take_turns

SIZES = 10, 10_000, 1_000_000
MOST_ITEMS = 20_000_000  # of the data of a cell
LIMIT, OF_TEN = 1.2, 3.0
MOVED = 1.3


class Data:
    """The data of a cell, each made at its first use."""

    def __init__(self, n, dtype, mean):
        self.n, self.dtype, self.mean = n, np.dtype(dtype), mean
        self.rng = np.random.default_rng(0)

    @cached_property
    def lengths(self):
        return self.rng.integers(1, 2 * self.mean, self.n)

    @cached_property
    def offsets(self):
        return np.concatenate([[0], np.cumsum(self.lengths)])

    @cached_property
    def values(self):
        numbers = self.rng.integers(0, 100, int(self.lengths.sum()))
        return (numbers % 2 == 0) if self.dtype == bool else numbers.astype(self.dtype)

    @cached_property
    def seq(self):
        return sq.TensorSequence.from_offsets(self.values, self.offsets)

    @cached_property
    def copied(self):
        """An equal sequence that shares no memory."""
        return sq.TensorSequence.from_offsets(self.values.copy(), self.offsets.copy())

    @cached_property
    def arrays(self):
        return [one.copy() for one in self.seq]

    @cached_property
    def lists(self):
        return self.seq.tolist()

    @cached_property
    def of_arrays(self):
        return sq.TensorSequence(self.arrays)

    @cached_property
    def element(self):
        return np.arange(self.mean).astype(self.dtype)

    @cached_property
    def order(self):
        return self.rng.permutation(self.n)

    @cached_property
    def some(self):
        """A few positions at random, for batches."""
        return self.rng.integers(0, self.n, 32)

    @cached_property
    def mask(self):
        return self.rng.random(self.n) < 0.5

    @cached_property
    def shuffled(self):
        return self.seq[self.order]

    @cached_property
    def rows(self):
        """As many rows of one length, and a sequence of them."""
        return self.rng.random((self.n, self.mean), dtype=np.float32)

    @cached_property
    def of_rows(self):
        return sq.split_to_sequence(self.rows, keepdims=0)

    @cached_property
    def padded(self):
        return self.seq.to_padded()

    @cached_property
    def ak(self):
        ak = optional("awkward")
        return ak.unflatten(ak.Array(self.values), self.lengths)

    @cached_property
    def pa(self):
        pa = optional("pyarrow")
        return pa.ListArray.from_arrays(pa.array(self.offsets.astype(np.int32)), pa.array(self.values))

    @cached_property
    def pa_copied(self):
        pa = optional("pyarrow")
        return pa.ListArray.from_arrays(pa.array(self.offsets.astype(np.int32)), pa.array(self.values.copy()))

    @cached_property
    def nwindows(self):
        return np.zeros(len(self.seq.windows(4)) + 1, np.int64)

    @cached_property
    def pl(self):
        return optional("polars").Series(self.pa)

    @cached_property
    def tensors(self):
        torch = optional("torch")
        return [torch.from_numpy(one) for one in self.arrays]

    @cached_property
    def columns(self):
        return sq.Columns({"tokens": self.seq, "label": np.arange(self.n)})

    @cached_property
    def table(self):
        return optional("pyarrow").table(self.columns)

    @cached_property
    def folder(self):
        folder = tempfile.mkdtemp()
        weakref.finalize(self, shutil.rmtree, folder, True)
        return Path(folder)

    @cached_property
    def saved(self):
        sq.save(self.folder / "saved.arrow", self.seq)
        return self.folder / "saved.arrow"

    @cached_property
    def saved_columns(self):
        sq.save(self.folder / "columns.arrow", self.columns)
        return self.folder / "columns.arrow"

    @cached_property
    def saved_arrays(self):
        np.save(self.folder / "values.npy", self.values)
        np.save(self.folder / "offsets.npy", self.offsets)
        return self.folder / "values.npy", self.folder / "offsets.npy"


class Row(NamedTuple):
    """A call and the other ways, each a function of a `Data`, or for edits of what `fresh` makes of it."""

    label: str
    ours: object
    others: dict
    sizes: tuple = SIZES
    dtypes: tuple = ("f4",)
    means: tuple = (10,)
    fresh: object = None  # … and that of the others, for calls that change what they work on
    most: float | None = None  # what it may take beside the other ways where that is above the usual limits
    of_ten: float | None = None  # the same of ten elements
    reason: str = ""  # … and why

    @property
    def name(self):
        return self.label.partition(",")[0]


class Cell(NamedTuple):
    row: Row
    n: int
    dtype: str
    mean: int

    @property
    def title(self):
        return f"{self.row.label} | {self.n:,} | {self.dtype} | {self.mean}"

    @property
    def usual(self):
        return LIMIT if self.n > 10 else OF_TEN

    @property
    def limit(self):
        own = self.row.most if self.n > 10 else self.row.of_ten or self.row.most
        return max(own or 0, self.usual)


ROWS: list[Row] = []
NEEDS = {"awkward": "awkward", "pyarrow": "pyarrow", "Polars": "polars", "PyTorch": "torch"}


def row(label, ours, others, **options):
    ROWS.append(Row(label, ours, others, **options))


# -- the ways of others ----------------------------------------------------------------------------------


def reduced_by(ufunc):
    """Return each element's reduction by NumPy: the elements are never empty here."""
    return lambda d: ufunc.reduceat(d.values, d.offsets[:-1])


def by_torch(how):
    def run(d):
        torch = optional("torch")
        values, lengths = torch.from_numpy(d.values), torch.from_numpy(d.lengths)
        return torch.segment_reduce(values, how, lengths=lengths)

    return run


def gathered(d):
    """Return the rows of shuffled elements by NumPy alone."""
    lengths = d.lengths[d.order]
    ends = np.cumsum(lengths)
    starts = d.offsets[:-1][d.order]
    return d.values[np.repeat(starts - ends + lengths, lengths) + np.arange(ends[-1])]


def padded(values, lengths, width=None):
    mask = np.arange(width or lengths.max()) < lengths[:, None]
    batch = np.zeros(mask.shape, values.dtype)
    batch[mask] = values
    return batch


def ids_of(lengths):
    return np.repeat(np.arange(len(lengths)), lengths)


def places_of(d):
    return np.arange(d.offsets[-1]) - np.repeat(d.offsets[:-1], d.lengths)


def batch_of_rows(d):
    return padded(np.concatenate([d.arrays[i] for i in d.some]), d.lengths[d.some])


def saved_by_numpy(d):
    for name, array in (("v", d.values), ("o", d.offsets)):
        with open(d.folder / f"{name}.npy", "wb") as file:
            np.save(file, array)
            file.flush()
            os.fsync(file.fileno())


def batches_by_hand(d, size=32):
    order = np.random.default_rng(0).permutation(d.n)
    return np.split(order, np.arange(size, d.n, size))


def batches_of_tokens(d, most):
    """Return batches of at most so many tokens, cut from elements in order of length."""
    order = np.argsort(d.lengths, kind="stable")
    batches, batch, longest = [], [], 0
    for position, length in zip(order.tolist(), d.lengths[order].tolist(), strict=True):
        longest = max(longest, length)
        if batch and longest * (len(batch) + 1) > most:
            batches.append(batch)
            batch, longest = [], length
        batch.append(position)
    return [*batches, batch]


def next_fit(lengths, capacity):
    packs, pack, used = [], [], 0
    for position, length in enumerate(lengths.tolist()):
        if used + length > capacity:
            packs.append(np.array(pack))
            pack, used = [], 0
        pack.append(position)
        used += length
    return [*packs, np.array(pack)]


def take_steps(edit, count=1000):
    """Return a run of an edit, as often as it takes to be measured."""

    def run(one):
        for i in range(count):
            edit(one, i)

    return run


LONG = (5, 50, 500, 5000)
OVERHEAD = "a call checks its arguments and makes a sequence"

# -- make, look up, select -------------------------------------------------------------------------------

row(
    "TensorSequence",
    lambda d: sq.TensorSequence(d.arrays),
    {"list(arrays)": lambda d: [*d.arrays]},
    most=60,
    reason="each array is checked, and its memory is held without its object",
)
row(
    "TensorSequence, copies",
    lambda d: sq.TensorSequence(d.arrays, copy=True),
    {
        "np.concatenate": lambda d: sq.TensorSequence.from_lengths(
            np.concatenate(d.arrays), np.fromiter(map(len, d.arrays), int, d.n)
        )
    },
    most=1.3,
)
row(
    "TensorSequence, lists",
    lambda d: sq.TensorSequence(d.lists),
    {
        "[np.array(x) for x]": lambda d: [np.array(x) for x in d.lists],
        "pyarrow": lambda d: optional("pyarrow").array(d.lists),
    },
    sizes=(10, 10_000),
    dtypes=("i8", "f8"),
)
row(
    "TensorSequence, lists with a dtype",
    lambda d: sq.TensorSequence(d.lists, "f4"),
    {
        "[np.array(x, dtype) for x]": lambda d: [np.array(x, "f4") for x in d.lists],
        "pyarrow": lambda d: optional("pyarrow").array(
            d.lists, optional("pyarrow").list_(optional("pyarrow").float32())
        ),
    },
    sizes=(10, 10_000),
    dtypes=("i8",),
)
row(
    "from_lengths",
    lambda d: sq.TensorSequence.from_lengths(d.values, d.lengths),
    {
        "np.cumsum": lambda d: np.concatenate([[0], np.cumsum(d.lengths)]),
        "awkward": lambda d: optional("awkward").unflatten(d.values, d.lengths),
    },
    most=1.5,
)
row(
    "from_offsets",
    lambda d: sq.TensorSequence.from_offsets(d.values, d.offsets),
    {"copy and check": lambda d: (d.offsets.copy(), bool((d.offsets[1:] >= d.offsets[:-1]).all()))},
    most=1.5,
    reason="that offsets rise is checked in the same pass as they are copied",
)
row(
    "from_padded",
    lambda d: sq.TensorSequence.from_padded(d.padded, d.lengths),
    {"batch[mask]": lambda d: d.padded[np.arange(d.padded.shape[1]) < d.lengths[:, None]]},
)
row(
    "split_to_sequence",
    lambda d: sq.split_to_sequence(d.values, d.lengths),
    {"np.cumsum": lambda d: np.cumsum(d.lengths)},
    most=1.5,
    of_ten=3.0,
    reason="the lengths are checked, too",
)
row(
    "split_to_sequence, rows",
    lambda d: sq.split_to_sequence(d.rows, keepdims=0),
    {"a list of rows": lambda d: [*d.rows]},
)
row(
    "sequence_construct",
    lambda d: sq.sequence_construct(*d.arrays),
    {"tuple": lambda d: (*d.arrays,)},
    sizes=(10,),
    most=60,
    reason="as TensorSequence",
)
row(
    "sequence_empty",
    lambda d: sq.sequence_empty(),
    {"[]": lambda d: []},
    sizes=(10,),
    most=40,
    reason="a sequence has a type and a lock",
)
row(
    "__getitem__",
    lambda d: [d.seq[i] for i in range(0, d.n, 10)],
    {"array[a:b]": lambda d: [d.values[d.offsets[i] : d.offsets[i + 1]] for i in range(0, d.n, 10)]},
)
row(
    "__getitem__, a row",
    lambda d: [d.of_rows[i] for i in range(0, d.n, 10)],
    {"array[i]": lambda d: [d.rows[i] for i in range(0, d.n, 10)]},
)
row(
    "__getitem__, a slice",
    lambda d: d.seq[1:-1],
    {"array[1:-1]": lambda d: d.values[1:-1]},
    most=5,
    reason=OVERHEAD,
)
row(
    "__getitem__, indices",
    lambda d: d.seq[d.order],
    {
        "a list": lambda d: [d.arrays[i] for i in d.order],
        "awkward": lambda d: d.ak[d.order],
        "Polars": lambda d: d.pl.gather(d.order),
    },
)
row(
    "__getitem__, a mask",
    lambda d: d.seq[d.mask],
    {
        "a list": lambda d: [one for one, keep in zip(d.arrays, d.mask, strict=True) if keep],
        "awkward": lambda d: d.ak[d.mask],
        "Polars": lambda d: d.pl.filter(d.mask),
    },
)
row("__getitems__", lambda d: d.seq.__getitems__(d.some), {"a list": lambda d: [d.arrays[i] for i in d.some]})
row(
    "__iter__",
    lambda d: [*d.seq],
    {
        "slices of the array": lambda d: [
            d.values[a:b] for a, b in zip(d.offsets[:-1].tolist(), d.offsets[1:].tolist(), strict=True)
        ]
    },
)
row("__reversed__", lambda d: [*reversed(d.of_rows)], {"rows of the array": lambda d: [*d.rows[::-1]]})
row(
    "__contains__",
    lambda d: d.element in d.of_arrays,
    {
        "a list": lambda d: any(
            len(one) == len(d.element) and np.array_equal(one, d.element) for one in d.arrays
        )
    },
    sizes=(10, 10_000),
)
row(
    "index",
    lambda d: d.of_arrays.index(d.of_arrays[-1]),
    {"a list": lambda d: next(i for i, one in enumerate(d.arrays) if np.array_equal(one, d.arrays[-1]))},
    sizes=(10, 10_000),
)
row(
    "count",
    lambda d: d.of_arrays.count(d.of_arrays[-1]),
    {"a list": lambda d: sum(np.array_equal(one, d.arrays[-1]) for one in d.arrays)},
    sizes=(10, 10_000),
)
row("shapes", lambda d: d.seq.shapes, {"a list": lambda d: [one.shape for one in d.arrays]})
row("nbytes", lambda d: d.seq.nbytes, {"a list": lambda d: sum(one.nbytes for one in d.arrays)})
row(
    "pinned_nbytes",
    lambda d: d.of_arrays.pinned_nbytes,
    {"distinct arrays": lambda d: sum({id(one): one.nbytes for one in d.arrays}.values())},
    most=1.5,
    reason="the arrays behind the elements are found through their owners",
)
row(
    "sequence_length",
    lambda d: sq.sequence_length(d.seq),
    {"len(list)": lambda d: len(d.arrays)},
    sizes=(10,),
    most=15,
    reason="it takes anything that is a sequence, and says what isn't",
)
row(
    "sequence_at",
    lambda d: sq.sequence_at(d.seq, 3),
    {"list[i].copy()": lambda d: d.arrays[3].copy()},
    sizes=(10,),
)

# -- edit --------------------------------------------------------------------------------------------------

EDITS = {
    "sizes": SIZES,
    "most": 5,
    "reason": "a list keeps a pointer; a sequence checks and holds memory",
}


def unshared(sequence):
    """Return a copy with a store of its own, as a copied list has: the first edit of a copy makes it."""
    sequence = sequence.copy()
    sequence.append(sequence.pop())
    return sequence


def edited(label, ours, theirs, make=lambda d: (unshared(d.seq), [*d.arrays]), **options):
    row(label, ours, {"a list": theirs}, fresh=make, **{**EDITS, **options})


edited(
    "append",
    take_steps(lambda one, i: one.append(ELEMENT)),
    take_steps(lambda one, i: one.append(ELEMENT)),
    most=30.0,
    reason="a sequence checks and holds memory; the first edit of a million makes room for all",
)
edited(
    "insert",
    take_steps(lambda one, i: one.insert(5 + i, ELEMENT)),
    take_steps(lambda one, i: one.insert(5 + i, ELEMENT)),
)
edited("pop", lambda one: [one.pop() for _ in range(9)], lambda one: [one.pop() for _ in range(9)], most=10)
edited("erase", lambda one: [one.erase(4) for _ in range(5)], lambda one: [one.pop(4) for _ in range(5)])
edited(
    "remove",
    lambda one: one.remove(one[3]),
    lambda one: one.pop(next(i for i, a in enumerate(one) if np.array_equal(a, one[3]))),
)
edited("clear", lambda one: one.clear(), lambda one: one.clear())
edited("reverse", lambda one: one.reverse(), lambda one: one.reverse())
edited("extend", lambda one: one.extend(one), lambda one: one.extend(one))
edited("__iadd__", lambda one: one.__iadd__(one), lambda one: one.__iadd__(one))
edited(
    "__setitem__",
    take_steps(lambda one, i: one.__setitem__(4, ELEMENT)),
    take_steps(lambda one, i: one.__setitem__(4, ELEMENT)),
)
edited(
    "__setitem__, a slice",
    lambda one: one.__setitem__(slice(2, 6), one[1:5]),
    lambda one: one.__setitem__(slice(2, 6), one[1:5]),
    most=20,
)
edited(
    "__delitem__",
    lambda one: [one.__delitem__(1) for _ in range(5)],
    lambda one: [one.__delitem__(1) for _ in range(5)],
)
row(
    "__delitem__, a mask",
    lambda made: made[0].__delitem__(made[2]),
    {"a list": lambda made: [one for one, gone in zip(made[1], made[2], strict=True) if not gone]},
    fresh=lambda d: (d.seq.copy(), d.arrays, d.mask),
)
row("copy", lambda d: d.of_arrays.copy(), {"list.copy": lambda d: d.arrays.copy()}, most=20, reason=OVERHEAD)
row(
    "__copy__",
    lambda d: copy.copy(d.of_arrays),
    {"copy.copy": lambda d: copy.copy(d.arrays)},
    most=20,
    reason=OVERHEAD,
)
row(
    "__deepcopy__",
    lambda d: copy.deepcopy(d.seq),
    {"values.copy()": lambda d: (d.values.copy(), d.offsets.copy())},
    most=5.0,
    of_ten=8.0,
    reason=OVERHEAD,
)
row(
    "compact",
    lambda d: d.shuffled.copy().compact(),
    {
        "by hand": lambda d: (gathered(d), np.cumsum(d.lengths[d.order])),
        "awkward": lambda d: optional("awkward").to_packed(d.ak[d.order]),
    },
)
row("__add__", lambda d: d.seq + d.copied, {"list + list": lambda d: d.arrays + d.arrays})
row(
    "__radd__",
    lambda d: d.arrays[:9] + d.seq,
    {"list + list": lambda d: d.arrays[:9] + d.arrays},
    sizes=(10, 10_000),
    most=30,
    reason="each of the nine arrays is checked",
)
row(
    "sequence_insert",
    lambda d: sq.sequence_insert(d.seq, d.element, 3),
    {"a list": lambda d: [*d.arrays[:3], d.element, *d.arrays[3:]]},
    most=20,
    reason=OVERHEAD,
)
row(
    "sequence_erase",
    lambda d: sq.sequence_erase(d.seq, 3),
    {"a list": lambda d: [*d.arrays[:3], *d.arrays[4:]]},
    most=20,
    reason=OVERHEAD,
)

# -- values, lengths, padding ------------------------------------------------------------------------------

row(
    "__eq__",
    lambda d: d.seq == d.copied,
    {
        "np.array_equal": lambda d: (
            np.array_equal(d.values, d.copied.values()) and np.array_equal(d.offsets, d.copied.offsets())
        ),
        "pyarrow": lambda d: d.pa.equals(d.pa_copied),
    },
    dtypes=("f4", "i8"),
)
row(
    "__ne__",
    lambda d: d.seq != d.copied,
    {
        "np.array_equal": lambda d: (
            not (
                np.array_equal(d.values, d.copied.values()) and np.array_equal(d.offsets, d.copied.offsets())
            )
        )
    },
)
row(
    "astype",
    lambda d: d.seq.astype("f8"),
    {"values.astype": lambda d: d.values.astype("f8")},
    dtypes=("f4", "i8"),
    most=1.5,
    of_ten=4.0,
    reason="the values are cast in NumPy's time, and the lengths are kept",
)
row(
    "lengths",
    lambda d: d.seq.lengths(),
    {"np.diff": lambda d: np.diff(d.offsets), "Polars": lambda d: d.pl.list.len()},
)
row(
    "lengths, shuffled",
    lambda d: d.shuffled.lengths(),
    {"by hand": lambda d: np.diff(d.offsets)[d.order]},
    most=2.5,
    reason="each offset is checked when it is read",
)
row(
    "offsets",
    lambda d: d.seq.offsets(),
    {"a view": lambda d: d.offsets[:]},
    most=6.0,
    reason=OVERHEAD,
)
row(
    "offsets, shuffled",
    lambda d: d.shuffled.offsets(),
    {"np.cumsum": lambda d: np.concatenate([[0], np.cumsum(np.diff(d.offsets)[d.order])])},
    most=2.5,
    reason="as lengths",
)
row("values", lambda d: d.seq.values(), {"a view": lambda d: d.values[:]}, most=5, reason=OVERHEAD)
row(
    "values, shuffled",
    lambda d: d.shuffled.values(),
    {
        "by hand": gathered,
        "awkward": lambda d: optional("awkward").flatten(d.ak[d.order]),
        "Polars": lambda d: d.pl.gather(d.order).explode(empty_as_null=False),
    },
)
row(
    "values, of arrays",
    lambda d: d.of_arrays.values(),
    {"np.concatenate": lambda d: np.concatenate(d.arrays)},
)
row(
    "concat_from_sequence",
    lambda d: sq.concat_from_sequence(d.of_arrays, 0),
    {"np.concatenate": lambda d: np.concatenate(d.arrays)},
)
row(
    "concat_from_sequence, stacked",
    lambda d: sq.concat_from_sequence(d.of_rows, 0, new_axis=1),
    {"a copy": lambda d: d.rows.copy()},
)
row("segment_ids", lambda d: d.seq.segment_ids(), {"np.repeat": lambda d: ids_of(d.lengths)})
row("position_ids", lambda d: d.seq.position_ids(), {"by hand": places_of})
row(
    "tolist",
    lambda d: d.seq.tolist(),
    {
        "a list": lambda d: [one.tolist() for one in d.arrays],
        "pyarrow": lambda d: d.pa.to_pylist(),
        "awkward": lambda d: d.ak.tolist(),
    },
)
row(
    "to_padded",
    lambda d: d.seq.to_padded(),
    {
        "by hand": lambda d: padded(d.values, d.lengths),
        "awkward": lambda d: optional("awkward").to_numpy(
            optional("awkward").fill_none(
                optional("awkward").pad_none(d.ak, int(d.lengths.max()), clip=True), 0
            )
        ),
        "PyTorch": lambda d: optional("torch").nn.utils.rnn.pad_sequence(d.tensors, batch_first=True),
    },
)
row(
    "to_padded, a batch of 32",
    lambda d: d.seq[d.some].to_padded(),
    {
        "by hand": batch_of_rows,
        "PyTorch": lambda d: optional("torch").nn.utils.rnn.pad_sequence(
            [d.tensors[i] for i in d.some], batch_first=True
        ),
    },
)
row(
    "to_padded, shuffled",
    lambda d: d.shuffled.to_padded(),
    {"by hand": lambda d: padded(gathered(d), d.lengths[d.order])},
)
row(
    "__array__",
    lambda d: np.asarray(d.of_rows),
    {"a copy": lambda d: d.rows.copy()},  # ours may be written to, too; `values` has views
    most=2.0,
    of_ten=4.0,
    reason=OVERHEAD,
)
row(
    "windows",
    lambda d: d.seq.windows(4),
    {"two copies of offsets": lambda d: (d.nwindows.copy(), d.nwindows.copy())},
    most=30.0,
    of_ten=8.0,
    reason="the start and length of each window are computed; copies that fit the cache are not",
)
row(
    "truncate",
    lambda d: d.seq.truncate(4),
    {"by hand": lambda d: np.cumsum(np.minimum(np.diff(d.offsets), 4)), "awkward": lambda d: d.ak[:, :4]},
    most=6.0,
    reason="starts and lengths are made, which later use reads",
)
row(
    "take_rows",
    lambda d: d.seq.take_rows(-1),
    {
        "by hand": lambda d: d.values[d.offsets[1:] - 1],
        "awkward": lambda d: d.ak[:, -1],
        "Polars": lambda d: d.pl.list.get(-1),
    },
)
row(
    "accumulate",
    lambda d: d.seq.accumulate(np.add),
    {"a loop": lambda d: [np.cumsum(one) for one in d.arrays]},
    dtypes=("f4", "i8"),
)

# -- reduce ------------------------------------------------------------------------------------------------

AWKWARD = {np.add: "sum", np.prod: "prod", np.max: "max", np.argmax: "argmax", np.any: "any", np.mean: "mean"}
POLARS = {np.add: "sum", np.max: "max", np.argmax: "arg_max", np.mean: "mean"}
UFUNCS = {np.add: np.add, np.prod: np.multiply, np.max: np.maximum, np.any: np.logical_or}
TORCH = {np.add: "sum", np.prod: "prod", np.max: "max", np.mean: "mean"}


def reduction(how, label, dtype):
    others = {"awkward": lambda d: getattr(optional("awkward"), AWKWARD[how])(d.ak, axis=1)}
    if how in UFUNCS:
        others["reduceat"] = reduced_by(UFUNCS[how])
    if how is np.mean:
        others["reduceat"] = lambda d: np.add.reduceat(d.values, d.offsets[:-1], dtype="f8") / d.lengths
    if how in POLARS:
        others["Polars"] = lambda d: getattr(d.pl.list, POLARS[how])()
    if how in TORCH and dtype == "f4":
        others["PyTorch"] = lambda d: by_torch(TORCH[how])(d)
    row(
        f"reduce, {label}",
        lambda d: d.seq.reduce(how),
        others,
        dtypes=(dtype,),
        means=LONG,
        most=2.2,
        of_ten=3.5,
        reason="with five numbers in each element, the processor mispredicts the end of each loop over them",
    )


for dtype in ("f4", "i8"):
    reduction(np.add, "sum", dtype)
    reduction(np.max, "maximum", dtype)
    reduction(np.argmax, "argmax", dtype)
reduction(np.any, "any", "?")
reduction(np.prod, "product", "f4")
reduction(np.mean, "mean", "f4")
row(
    "reduce, std",
    lambda d: d.seq.reduce(np.std),
    {
        "a loop": lambda d: [np.std(one) for one in d.arrays],
        "awkward": lambda d: optional("awkward").std(d.ak, axis=1),
    },
    sizes=(10, 10_000),
    means=LONG,
)

# -- maps --------------------------------------------------------------------------------------------------

row(
    "sequence_map",
    lambda d: sq.sequence_map(PLUS_ONE, d.of_arrays),
    {"a loop": lambda d: [PLUS_ONE(one) for one in d.arrays]},
    most=3.0,
    of_ten=6.0,
    reason="10 µs: how the map runs is chosen, and its results become a sequence",
)
row(
    "sequence_map, a ufunc",
    lambda d: sq.sequence_map(np.negative, d.seq),
    {"on the values": lambda d: np.negative(d.values)},
    most=5.0,
    of_ten=40.0,
    reason="as sequence_map, beside one call",
)
row(
    "sequence_map, np.sort",
    lambda d: sq.sequence_map(np.sort, d.seq),
    {
        "np.lexsort": lambda d: d.values[np.lexsort((d.values, ids_of(d.lengths)))],
        "a loop": lambda d: [np.sort(one) for one in d.arrays],
        "Polars": lambda d: d.pl.list.sort(),
    },
    most=4.0,
    of_ten=6.0,
    reason="a call for each element; Polars sorts in Rust",
)
row(
    "map_batches",
    lambda d: sq.map_batches(np.negative, d.seq),
    {"on the values": lambda d: np.negative(d.values)},
    most=5.0,
    of_ten=40.0,
    reason="as sequence_map, beside one call",
)

# -- Arrow, pickles, files ---------------------------------------------------------------------------------

row(
    "__arrow_c_array__",
    lambda d: optional("pyarrow").array(d.seq),
    {"pyarrow": lambda d: optional("pyarrow").LargeListArray.from_arrays(d.offsets, d.values)},
    most=5,
    reason="structs are filled, and read by pyarrow",
)
row(
    "__arrow_c_stream__",
    lambda d: optional("pyarrow").chunked_array(d.seq),
    {
        "pyarrow": lambda d: optional("pyarrow").chunked_array(
            [optional("pyarrow").LargeListArray.from_arrays(d.offsets, d.values)]
        )
    },
    most=8,
    reason="structs are filled, and read by pyarrow",
)
row(
    "from_arrow",
    lambda d: sq.TensorSequence.from_arrow(d.pa),
    {"to_numpy": lambda d: (d.pa.values.to_numpy(), d.pa.offsets.to_numpy())},
    most=5,
    reason="the export of pyarrow takes most of it",
)
row(
    "__reduce__",
    lambda d: pickle.loads(pickle.dumps(d.seq, 5)),
    {"values and offsets": lambda d: pickle.loads(pickle.dumps((d.values, d.offsets), 5))},
    most=5.0,
    of_ten=5.0,
    reason="it is found out which memory lies in files and is used; offsets are made smaller",
)
row(
    "save",
    lambda d: sq.save(d.folder / "s.arrow", d.seq),
    {"np.save, twice": saved_by_numpy},
    most=3,
    reason="the file is synced under another name, then renamed",
)
row(
    "load",
    lambda d: sq.load(d.saved),
    {"np.load, mapped": lambda d: [np.load(path, mmap_mode="r") for path in d.saved_arrays]},
    most=3,
    reason="pyarrow reads the file's end",
)

# -- training ----------------------------------------------------------------------------------------------

row(
    "BatchSampler",
    lambda d: [*sq.BatchSampler(d.lengths, batch_size=32)],
    {"np.split": batches_by_hand},
    most=5.0,
    of_ten=8.0,
    reason="80 µs an epoch, and 5 µs a batch, whose elements are of mixed lengths",
)
row(
    "BatchSampler, tokens",
    lambda d: [*sq.BatchSampler(d.lengths, max_tokens=1024)],
    {"by hand": lambda d: batches_of_tokens(d, 1024)},
    of_ten=25.0,
    reason="80 µs an epoch: any batch of any epoch can be resumed",
)
row(
    "pack",
    lambda d: sq.pack(d.lengths, 100, strategy="next_fit"),
    {"by hand": lambda d: next_fit(d.lengths, 100)},
    of_ten=12.0,
    reason="20 µs: lengths are checked, and the packs become a sequence",
)
row(
    "Columns",
    lambda d: sq.Columns({"tokens": d.seq, "label": ORDER[: d.n]}),
    {"a dict": lambda d: {"tokens": d.seq[:], "label": ORDER[: d.n].copy()}},
    most=4.0,
    of_ten=12.0,
    reason=OVERHEAD,
)
row(
    "Columns.__getitem__",
    lambda d: d.columns[d.some],
    {"by hand": lambda d: {"tokens": d.seq[d.some], "label": ORDER[: d.n][d.some]}},
    most=3.5,
    of_ten=5.0,
    reason="4 µs: the batch is Columns again",
)
row(
    "Columns.__getitem__, a row",
    lambda d: d.columns[3],
    {"by hand": lambda d: {"tokens": d.seq[3], "label": ORDER[3]}},
    most=3.0,
    reason="the key may be of many kinds",
)
row(
    "Columns.__add__",
    lambda d: d.columns + d.columns,
    {"by hand": lambda d: (d.seq + d.seq, np.concatenate([ORDER[: d.n]] * 2))},
    most=3.0,
    of_ten=10.0,
    reason=OVERHEAD,
)
row(
    "Columns.__or__",
    lambda d: d.columns | {"more": ORDER[: d.n]},
    {"a dict": lambda d: {"tokens": d.seq[:], "label": ORDER[: d.n].copy(), "more": ORDER[: d.n].copy()}},
    most=6.0,
    of_ten=10.0,
    reason=OVERHEAD,
)
row(
    "Columns.__eq__",
    lambda d: d.columns == d.columns[:],
    {"by hand": lambda d: d.seq == d.copied and np.array_equal(ORDER[: d.n], ORDER[: d.n].copy())},
)
row(
    "Columns.__getitems__",
    lambda d: d.columns.__getitems__(d.some),
    {"by hand": lambda d: {"tokens": d.seq[d.some], "label": ORDER[: d.n][d.some]}},
    most=3.5,
    of_ten=5.0,
    reason="as Columns.__getitem__",
)
row(
    "Columns.__iter__",
    lambda d: [*d.columns],
    {"by hand": lambda d: [{"tokens": t, "label": n} for t, n in zip(d.seq, ORDER[: d.n], strict=True)]},
    sizes=(10, 10_000),
    most=2.5,
    reason="rows are of any columns, in place of two",
)
row(
    "Columns.__arrow_c_stream__",
    lambda d: optional("pyarrow").table(d.columns),
    {
        "pyarrow": lambda d: optional("pyarrow").table(
            {
                "tokens": optional("pyarrow").LargeListArray.from_arrays(d.offsets, d.values),
                "label": ORDER[: d.n],
            }
        )
    },
    most=4,
    reason="structs are filled, and read by pyarrow",
)
row(
    "Columns.from_arrow",
    lambda d: sq.Columns.from_arrow(d.table),
    {"to_numpy": lambda d: [one.to_numpy() for one in (d.pa.values, d.pa.offsets, d.table["label"])]},
    most=6.5,
    reason="the export of pyarrow takes most of it",
)
row(
    "Columns.__reduce__",
    lambda d: pickle.loads(pickle.dumps(d.columns, 5)),
    {"by hand": lambda d: pickle.loads(pickle.dumps((d.values, d.offsets, ORDER[: d.n]), 5))},
    most=5.0,
    of_ten=7.0,
    reason="as __reduce__, for each column",
)
row(
    "Columns.save",
    lambda d: sq.save(d.folder / "c.arrow", d.columns),
    {"np.save, twice": saved_by_numpy},
    most=4,
    reason="as save",
)
row(
    "Columns.load",
    lambda d: sq.Columns.load(d.saved_columns),
    {"np.load, mapped": lambda d: [np.load(path, mmap_mode="r") for path in d.saved_arrays]},
    most=4.0,
    of_ten=5.0,
    reason="pyarrow reads the file's end",
)
row(
    "load, columns",
    lambda d: sq.load(d.saved_columns),
    {"np.load, mapped": lambda d: [np.load(path, mmap_mode="r") for path in d.saved_arrays]},
    most=4.0,
    of_ten=5.0,
    reason="pyarrow reads the file's end",
)

ELEMENT = np.zeros(10, np.float32)
ORDER = np.arange(SIZES[-1])
PLUS_ONE = lambda tensor: tensor + 1  # noqa: E731  (a body, and not a ufunc)

_CHECKED = "it gives a value that is there, or changes one"
_SHOWN = "it shows a few elements, whatever their number"
_SAME = "it is another call of this table, by another name"
WITHOUT_A_ROW = {
    **dict.fromkeys(("__len__", "dtype", "element_type", "__class_getitem__", "__hash__"), _CHECKED),
    **dict.fromkeys(
        [
            f"Columns.{name}"
            for name in ("__len__", "__contains__", "__hash__", "dtypes", "get", "items", "keys")
        ],
        _CHECKED,
    ),
    **dict.fromkeys(("Columns.names", "Columns.nbytes", "BatchSampler.sampler"), _CHECKED),
    **dict.fromkeys(
        [f"BatchSampler.{name}" for name in ("set_epoch", "state_dict", "load_state_dict")], _CHECKED
    ),
    **dict.fromkeys(("BatchSampler.__getstate__", "BatchSampler.__setstate__"), _CHECKED),
    **dict.fromkeys(("BatchSampler.__iter__", "BatchSampler.__len__"), _SAME),
    **dict.fromkeys(("__repr__", "Columns.__repr__", "BatchSampler.__repr__"), _SHOWN),
    **dict.fromkeys(("__arrow_c_schema__", "Columns.__arrow_c_schema__"), "it says a type"),
    **dict.fromkeys(("__lt__", "__le__", "__gt__", "__ge__", "__array_function__"), "it is an error"),
    "Columns.from_dataset": "`python -m benchmarks --only dataset` has it, beside the package `datasets`",
}


# -- measure -------------------------------------------------------------------------------------------------


def cells(pattern):
    """Return the cells of all rows whose title matches."""
    return [
        cell
        for one in ROWS
        for n in one.sizes
        for dtype in one.dtypes
        for mean in one.means
        if n * mean <= MOST_ITEMS and re.search(pattern, (cell := Cell(one, n, dtype, mean)).title)
    ]


def sides_of(cell):
    """Return ours and the other ways that are installed."""
    one, data = cell.row, Data(cell.n, cell.dtype, cell.mean)
    ways = {OURS: one.ours}
    ways |= {name: way for name, way in one.others.items() if name not in NEEDS or optional(NEEDS[name])}
    if one.fresh is None:
        return {name: Side(lambda way=way: way(data)) for name, way in ways.items()}
    if one.label == "__delitem__, a mask":
        return {name: Side(way, lambda: one.fresh(data)) for name, way in ways.items()}
    return {
        name: Side(way, lambda place=(name != OURS): one.fresh(data)[place]) for name, way in ways.items()
    }


def measured(cell, nrounds, seconds):
    """Return a cell's seconds, the fastest other way and its seconds, and the median of the ratios to it."""
    sides = sides_of(cell)
    gc.collect()
    times = take_turns(sides, nrounds, seconds)
    ours = times.pop(OURS)
    best = min(times, key=lambda name: statistics.median(times[name]))
    ratio = statistics.median(a / b for a, b in zip(ours, times[best], strict=True))
    return {
        "cell": cell.title,
        "ours": statistics.median(ours),
        "best": best,
        "theirs": statistics.median(times[best]),
        "ratio": round(ratio, 3),
        "usual": cell.usual,
        "limit": cell.limit,
        "reason": cell.row.reason,
    }


def as_time(seconds):
    unit, size = next(
        ((unit, size) for unit, size in (("s", 1), ("ms", 1e-3)) if seconds >= size), ("µs", 1e-6)
    )
    return f"{seconds / size:.3g} {unit}"


def as_markdown(results):
    """Return a table with a line for each row, type and mean length, and reasons of those above limits."""
    lines: dict[tuple[str, ...], dict[str, dict]] = {}
    for one in results:
        label, n, dtype, mean = one["cell"].split(" | ")
        lines.setdefault((label, dtype, mean), {})[n] = one
    sizes = [f"{n:,}" for n in SIZES]
    text = [f"| call | type, mean length | {' | '.join(sizes)} | the other way |", "|---" * 6 + "|"]
    reasons = {}
    for (label, dtype, mean), cells_of in lines.items():
        ratios = [_as_ratio(cells_of.get(n)) for n in sizes]
        best = [*cells_of.values()][-1]["best"]
        text.append(f"| {label} | {dtype}, {mean} | {' | '.join(ratios)} | {best} |")
        if any(one["ratio"] > one["usual"] for one in cells_of.values()):
            reasons[label] = next(iter(cells_of.values()))["reason"]
    text += ["", "Above the usual limits are, with reasons:", ""]
    text += [f"- {label}: {reason or 'not known yet'}" for label, reason in reasons.items()]
    return "\n".join(text) + "\n"


def _as_ratio(one):
    if one is None:
        return ""
    ratio = f"{one['ratio']:.2f}" if one["ratio"] < 10 else f"{one['ratio']:.0f}"
    return f"**{ratio}**" if one["ratio"] > one["usual"] else ratio


def moved(results, earlier):
    """Return lines for the cells whose ratio has moved since an earlier run."""
    before = {one["cell"]: one["ratio"] for one in earlier}
    return [
        f"{one['cell']}: {before[one['cell']]:.2f} → {one['ratio']:.2f}"
        for one in results
        if one["cell"] in before and not 1 / MOVED < one["ratio"] / before[one["cell"]] < MOVED
    ]


def moved_in_each(runs):
    """Return Markdown of the cells that have moved the same way in each pair of runs, before and after."""
    moves: dict[str, list[float]] = {}
    for before, after in zip(runs[::2], runs[1::2], strict=True):
        earlier = {one["cell"]: one["ratio"] for one in before}
        for one in after:
            if one["cell"] in earlier:
                moves.setdefault(one["cell"], []).append(one["ratio"] / earlier[one["cell"]])
    lines = [
        f"| {cell.replace(' | ', ', ')} | {', '.join(f'{move:.2f}' for move in made)} |"
        for cell, made in moves.items()
        if min(made) > MOVED or max(made) < 1 / MOVED
    ]
    if not lines:
        return f"No ratio of {len(moves)} has moved by more than {MOVED}.\n"
    return "\n".join(["| cell | ratio, after / before |", "|---|---|", *lines]) + "\n"


def read_run(path):
    return json.loads(Path(path).read_text(encoding="utf-8"))


def main(only="", quick=False, json_file=None, markdown=None, against=None, compare=None):
    if compare:
        print(moved_in_each([read_run(path) for path in compare]))
        return
    nrounds, seconds = (3, 0.002) if quick else (9, 0.02)
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    if torch := optional("torch"):
        torch.set_num_threads(1)
    chosen = [one for one in cells(only) if not quick or one.n < SIZES[-1]]
    if not chosen:
        sys.exit(f"no cell matches {only!r}")
    results = []
    for cell in chosen:
        results.append(one := measured(cell, nrounds, seconds))
        mark = "  above" if one["ratio"] > one["limit"] else ""
        print(
            f"{one['cell']:58} {as_time(one['ours']):>8}  {one['best']:24} {one['ratio']:6.2f}{mark}",
            flush=True,
        )
    above = sum(one["ratio"] > one["limit"] for one in results)
    print(f"\n{above} of {len(results)} cells are above their limits")
    if json_file:
        Path(json_file).write_text(json.dumps(results, indent=1, ensure_ascii=False), encoding="utf-8")
    if markdown:
        Path(markdown).write_text(as_markdown(results), encoding="utf-8")
    if against:
        lines = moved(results, read_run(against))
        print("\nmoved since then:", *(lines or ["nothing"]), sep="\n")
