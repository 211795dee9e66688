"""The rows about how elements are stored: memory, constant times, and files of 50 million elements.

`python -m benchmarks.storage FILE` opens a file, or unpickles it, and prints seconds and bytes.
"""

import functools
import itertools
import json
import os
import pickle
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import seqcore as sq

from .declare import OURS, Limit, Side, case, floats, optional
from .files import folder
from .measure import traced_nbytes

COUNT, FEW = 50_000_000, 100_000
SMAPS = Path("/proc/self/smaps_rollup")  # Linux's account of a process's memory


def lengths_of(count, longest=7):
    return np.random.default_rng(1).integers(1, longest, count, endpoint=True)


def uneven(count):
    """A split of one array into elements of 1 to 7 numbers."""
    lengths = lengths_of(count)
    return sq.TensorSequence.from_lengths(np.zeros(lengths.sum(), np.uint16), lengths)


# --- split, access, edit ---


@case("split into 1,000,000 uneven parts", Limit("np.cumsum of the lengths", 1.5))
def split_unevenly():
    lengths = lengths_of(1_000_000)
    array = np.zeros(lengths.sum(), np.uint16)
    return {
        OURS: Side(lambda: sq.split_to_sequence(array, lengths)),
        "np.cumsum of the lengths": Side(lambda: np.cumsum(lengths)),
    }


def slices(array, count):
    size = len(array) // count
    return [array[i * size : (i + 1) * size] for i in range(count)]


@case("split into 8 parts", Limit("slicing list comprehension", 3))
def split_few():
    array = floats(64, 8)
    return {
        OURS: Side(lambda: sq.split_to_sequence(array, 8)),
        "slicing list comprehension": Side(lambda: slices(array, 8)),
    }


def at_random(make):
    array = floats(1_000_000, 8)
    positions = np.random.default_rng(1).permutation(len(array))[:100_000].tolist()

    def each(items):
        def run():
            for i in positions:
                items[i]

        return Side(run, noperations=len(positions))

    return {OURS: each(make(sq.split_to_sequence(array, keepdims=0))), "array[i]": each(array)}


@case("seq[i] of 10⁶ rows of a split, at random", Limit("array[i]", 1.5))
def access_split():
    return at_random(lambda seq: seq)


@case("seq[i] of 10⁶ selected rows, at random", Limit("array[i]", 1.5))
def access_selected():
    return at_random(lambda seq: seq[np.random.default_rng(2).permutation(len(seq))])


@case("first insert among 10⁷ elements that were split", Limit(None, 1e-4))
def first_edit():
    array, one = floats(10_000_000), floats(3)
    return {
        OURS: Side(lambda seq: seq.insert(5_000_000, one), fresh=lambda: sq.split_to_sequence(array)),
    }


# --- memory ---


def memory_of(make, count):
    return {OURS: Side(lambda: traced_nbytes(make), noperations=count)}


@case("memory of an element: even split", Limit(None, 0.1), unit="bytes")
def memory_even():
    array = floats(1_000_000, 1)
    return memory_of(lambda: sq.split_to_sequence(array), len(array))


@case("memory of an element: uneven split", Limit(None, 8.1), unit="bytes")
def memory_uneven():
    lengths = lengths_of(1_000_000)
    array = floats(lengths.sum())
    return memory_of(lambda: sq.split_to_sequence(array, lengths), len(lengths))


@case("memory of an element: loaded file", Limit(None, 0.1), unit="bytes")
def memory_loaded():
    if not optional("pyarrow"):
        return {}
    return memory_of(lambda: sq.load(linked(FEW)), FEW)


@case("memory of an element: selection", Limit(None, 8.1), unit="bytes")
def memory_selected():
    seq = uneven(1_000_000)
    indices = np.random.default_rng(2).permutation(len(seq))
    return memory_of(lambda: seq[indices], len(seq))


# --- Arrow and offsets: constant time ---


def in_constant_time(work, prepare=lambda seq: seq):
    """Work on ten million elements, and on a thousand."""

    def side(count):
        ready = prepare(uneven(count))
        return Side(lambda: work(ready))

    return {OURS: side(10_000_000), "the same of 1,000": side(1_000)}


@case("offsets() of 10⁷ uneven parts", Limit("the same of 1,000", 1.5))
def read_offsets():
    return in_constant_time(lambda seq: seq.offsets())


@case("__arrow_c_array__() of 10⁷ uneven parts", Limit("the same of 1,000", 1.5))
def export():
    return in_constant_time(lambda seq: seq.__arrow_c_array__())


@case("from_arrow() of 10⁷ uneven parts", Limit("the same of 1,000", 1.5))
def bring_in():
    if not (pa := optional("pyarrow")):
        return {}
    return in_constant_time(sq.TensorSequence.from_arrow, pa.array)


# --- long files ---


@functools.cache
def file_of(count):
    """A file of elements of 1 to 7 numbers, written part by part."""
    path, part = folder() / f"long-{count}.arrow", uneven(min(count, 5_000_000))
    sq.save(path, (part for _ in range(count // len(part))))
    return path


def linked(count):
    """Another name of a file, which nobody has opened yet."""
    path = folder() / f"link-{time.perf_counter_ns()}.arrow"
    os.link(file_of(count), path)
    return path


def opened_elsewhere(source):
    """Seconds and bytes that it takes a new process to open a file, or to unpickle."""
    command = [sys.executable, "-m", "benchmarks.storage", str(source)]
    done = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parent.parent
    )
    return json.loads(done.stdout)


def pickled(name, seq):
    path = folder() / f"{name}.pickle"
    path.write_bytes(pickle.dumps(seq))
    return path


def elsewhere(make, figure):
    if not (optional("pyarrow") and SMAPS.exists()):
        return {}
    source = make()
    return {OURS: Side(lambda: opened_elsewhere(source)[figure], tells_seconds=figure == "seconds")}


def long_file():
    return file_of(COUNT)


def pickled_slice():
    return pickled("slice", sq.load(long_file())[1_000:3_000])


@case("open a file of 5·10⁷ elements in a new process", Limit(None, 0.02), most_rounds=5)
def open_file():
    return elsewhere(long_file, "seconds")


@case("memory for a file of 5·10⁷ elements, opened in a new process", Limit(None, 5e6), unit="bytes")
def memory_of_open_file():
    return elsewhere(long_file, "bytes")


@case("pickle a loaded sequence of 5·10⁷ elements", Limit(None, 1e-3))
def pickle_long():
    if not optional("pyarrow"):
        return {}
    seq = sq.load(long_file())
    return {OURS: Side(lambda: pickle.dumps(seq))}


@case("unpickle 2,000 of 5·10⁷ elements in a new process", Limit(None, 0.02), most_rounds=5)
def unpickle_slice():
    return elsewhere(pickled_slice, "seconds")


@case("memory for 2,000 of 5·10⁷ elements, unpickled in a new process", Limit(None, 5e6), unit="bytes")
def memory_of_slice():
    return elsewhere(pickled_slice, "bytes")


@case(
    "a padded batch of 256 at random from a file of 5·10⁷ elements",
    Limit("the same from 10⁵ elements", 3),
    Limit("array[indices] of rows of 7", 1),
)
def pad_at_random():
    if not optional("pyarrow"):
        return {}
    generator = np.random.default_rng(3)

    def side(pick, count):
        batches = itertools.cycle([generator.integers(0, count, 256) for _ in range(2_000)])
        return Side(lambda: [pick(next(batches)) for _ in range(100)], noperations=100)

    seq, few = sq.load(long_file()), sq.load(file_of(FEW))
    rows = np.ones((COUNT, 7), np.uint16)
    seq.values().sum()  # the file is in memory, as the rows are
    return {
        OURS: side(lambda batch: seq[batch].to_padded(), COUNT),
        "the same from 10⁵ elements": side(lambda batch: few[batch].to_padded(), FEW),
        "array[indices] of rows of 7": side(rows.__getitem__, COUNT),
    }


# --- a process of its own ---


def own_nbytes():
    """Bytes that this process shares with nobody and that are of no file."""
    line = next(line for line in SMAPS.read_text().splitlines() if line.startswith("Anonymous:"))
    return int(line.split()[1]) * 1024


def main(source):
    sq.save(folder() / "first.arrow", uneven(8))
    sq.load(folder() / "first.arrow")  # now pyarrow is imported
    stored = Path(source).read_bytes() if source.endswith(".pickle") else None
    before, start = own_nbytes(), time.perf_counter()
    seq = sq.load(source) if stored is None else pickle.loads(stored)
    seconds = time.perf_counter() - start
    print(json.dumps({"seconds": seconds, "bytes": own_nbytes() - before, "elements": len(seq)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
