"""The rows about what leaves the process: Arrow's arrays, files and pickles."""

import atexit
import functools
import itertools
import os
import pickle
import shutil
import tempfile
from pathlib import Path

import numpy as np

import seqcore as sq

from .declare import OURS, Limit, Side, case, floats, optional

COUNT = 100_000


def ragged(longest):
    """A sequence of elements of 1 to `longest` numbers, as views of one array."""
    lengths = np.random.default_rng(1).integers(1, longest, COUNT, endpoint=True)
    return sq.TensorSequence.from_lengths(floats(lengths.sum()), lengths)


def copies(seq):
    """The elements as people have them today: a list of arrays of their own."""
    return [element.copy() for element in seq]


# --- to Arrow ---


def to_arrow(seq, arrays):
    if not (pa := optional("pyarrow")):
        return {}
    return {
        OURS: Side(lambda: pa.array(seq)),
        "pa.array(list of arrays)": Side(lambda: pa.array(arrays)),
    }


@case("to Arrow: 100,000 x 1 to 19 float32", Limit("pa.array(list of arrays)", 1 / 100))
def ragged_to_arrow():
    seq = ragged(19)
    return to_arrow(seq, copies(seq))


@case("to Arrow: 100,000 rows of 8 float32", Limit("pa.array(list of arrays)", 1 / 100))
def rows_to_arrow():
    seq = sq.split_to_sequence(floats(COUNT, 8), keepdims=0)
    return to_arrow(seq, copies(seq))


@case(
    "to Arrow, with a copy: 100,000 x 1 to 19 float32 in random order",
    Limit("pa.array(list of arrays)", 1 / 8),
    Limit("values() of the same", 3),
)
def selection_to_arrow():
    seq, indices = ragged(19), np.random.default_rng(2).permutation(COUNT)
    arrays, selected = copies(seq), seq[indices]
    sides = to_arrow(selected, [arrays[i] for i in indices.tolist()])
    return sides and sides | {"values() of the same": Side(selected.values)}


# --- from Arrow ---


@case(
    "from Arrow: 100,000 x 1 to 19 float32",
    Limit("values.to_numpy() by element", 1 / 100),
    Limit("to_numpy(zero_copy_only=False)", 1 / 20),
    most_rounds=7,
)
def from_arrow():
    if not (pa := optional("pyarrow")):
        return {}
    array = pa.array(ragged(19))
    return {
        OURS: Side(lambda: sq.TensorSequence.from_arrow(array)),
        "values.to_numpy() by element": Side(lambda: [element.values.to_numpy() for element in array]),
        "to_numpy(zero_copy_only=False)": Side(lambda: array.to_numpy(zero_copy_only=False)),
    }


@case(
    "from a Series of Polars: 100,000 x 1 to 19 float32",
    Limit("to_numpy() by element", 1 / 100),
    Limit("to_numpy()", 1 / 20),
    most_rounds=7,
)
def from_polars():
    pl, pa = optional("polars"), optional("pyarrow")
    if not (pl and pa):
        return {}
    series = pl.Series(pa.array(ragged(19)))
    return {
        OURS: Side(lambda: sq.TensorSequence.from_arrow(series)),
        "to_numpy() by element": Side(lambda: [element.to_numpy() for element in series]),
        "to_numpy()": Side(series.to_numpy),
    }


# --- files ---


@functools.cache
def folder():
    """A folder that goes when the process ends."""
    made = tempfile.mkdtemp(prefix="seqcore-benchmarks-")
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return Path(made)


def save_as_we_do(path, write, data):
    """Write a new file, let it reach the disk, and put it in the old one's place, as `save` does."""
    new = path.with_suffix(".new")
    with open(new, "wb") as file:
        write(file, data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(new, path)


def pickle_into(file, arrays):
    pickle.dump(arrays, file, pickle.HIGHEST_PROTOCOL)


def load_pickled(path):
    with open(path, "rb") as file:
        return pickle.load(file)


@case(
    "save 100,000 x 1 to 999 float32 (200 MB) to a file",
    Limit("np.save of the values", 1.5),
    Limit("pickling a list", 1 / 2),
    most_rounds=5,
)
def save():
    if not optional("pyarrow"):
        return {}
    seq = ragged(999)
    values, arrays = seq.values(), copies(seq)
    return {
        OURS: Side(lambda: sq.save(folder() / "saved.arrow", seq)),
        "np.save of the values": Side(lambda: save_as_we_do(folder() / "saved.npy", np.save, values)),
        "pickling a list": Side(lambda: save_as_we_do(folder() / "saved.pickle", pickle_into, arrays)),
    }


@case(
    "load a file of 100,000 x 1 to 999 float32 (200 MB)",
    Limit("unpickling a list", 1 / 100),
    Limit("np.load, mapped, and slices", 1 / 10),
    Limit("np.load, mapped, of the values", 20),
    most_rounds=5,
)
def load():
    if not optional("pyarrow"):
        return {}
    seq = ragged(999)
    bounds = np.append(0, np.cumsum(seq.lengths())).tolist()
    stored, npy, pickled = (folder() / f"loaded.{ending}" for ending in ("arrow", "npy", "pickle"))
    sq.save(stored, seq)
    save_as_we_do(npy, np.save, seq.values())
    save_as_we_do(pickled, pickle_into, copies(seq))

    def load_slices():
        values = np.load(npy, mmap_mode="r")
        return [values[start:stop] for start, stop in itertools.pairwise(bounds)]

    return {
        OURS: Side(lambda: sq.load(stored)),
        "unpickling a list": Side(lambda: load_pickled(pickled)),
        "np.load, mapped, and slices": Side(load_slices),
        "np.load, mapped, of the values": Side(lambda: np.load(npy, mmap_mode="r")),
    }


def stored(longest):
    """A sequence from a file, and the same as a list."""
    path, seq = folder() / f"stored-{longest}.arrow", ragged(longest)
    sq.save(path, seq)
    return sq.load(path), copies(seq)


def back_and_forth(data):
    return pickle.loads(pickle.dumps(data, pickle.HIGHEST_PROTOCOL))


@case(
    "pickle and unpickle a loaded file of 100,000 x 1 to 999 float32",
    Limit("a list", 1 / 100),
    most_rounds=5,
)
def pickle_loaded():
    if not optional("pyarrow"):
        return {}
    seq, arrays = stored(999)
    return {OURS: Side(lambda: back_and_forth(seq)), "a list": Side(lambda: back_and_forth(arrays))}
