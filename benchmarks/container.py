"""The rows about the container: split, join, look and edit, beside lists and NumPy."""

import itertools

import numpy as np

import seqcore as sq

from .declare import OURS, Limit, Side, case, floats, optional

# --- split ---


@case(
    "split 100,000 x 8 float32 into rows",
    Limit("slicing list comprehension", 1 / 2000),
    Limit("torch.split", 1 / 2000),
    Limit("np.array_split", 1 / 2000),
)
def split_rows():
    array = floats(100_000, 8)
    sides = {
        OURS: Side(lambda: sq.split_to_sequence(array)),
        "slicing list comprehension": Side(lambda: [array[i : i + 1] for i in range(len(array))]),
        "np.array_split": Side(lambda: np.array_split(array, len(array))),
    }
    if torch := optional("torch"):
        tensor = torch.from_numpy(array)
        sides["torch.split"] = Side(lambda: torch.split(tensor, 1))
    return sides


@case("split 8 x 100,000 float32 into columns", Limit("slicing list comprehension", 1 / 2000))
def split_columns():
    array = floats(8, 100_000)
    return {
        OURS: Side(lambda: sq.split_to_sequence(array, axis=1)),
        "slicing list comprehension": Side(lambda: [array[:, i : i + 1] for i in range(array.shape[1])]),
    }


@case(
    "split 100,000 x 8 float32 into 20,000 uneven parts",
    Limit("slicing list comprehension", 1 / 50),
    Limit("np.split", 1 / 50),
)
def split_unevenly():
    array = floats(100_000, 8)
    bounds = np.sort(np.random.default_rng(1).integers(0, len(array), 19_999, endpoint=True))
    lengths = np.diff(bounds, prepend=0, append=len(array))
    return {
        OURS: Side(lambda: sq.split_to_sequence(array, lengths)),
        "slicing list comprehension": Side(
            lambda: [array[i:j] for i, j in itertools.pairwise([0, *bounds.tolist(), len(array)])]
        ),
        "np.split": Side(lambda: np.split(array, bounds)),
    }


# --- lists ---


def of_lists(dtype=None):
    rng = np.random.default_rng(2)
    lists = [rng.integers(0, 50_000, n).tolist() for n in rng.integers(1, 40, 10_000)]
    sides = {
        OURS: Side(lambda: sq.TensorSequence(lists, dtype)),
        "[np.array]": Side(lambda: [np.array(one, dtype) for one in lists]),
    }
    if pa := optional("pyarrow"):
        wanted = None if dtype is None else pa.list_(pa.from_numpy_dtype(dtype))
        sides["pa.array"] = Side(lambda: pa.array(lists, wanted))
    return sides


LISTS = "TensorSequence of 10,000 lists of 1 to 39 ints"
case(LISTS, Limit("[np.array]", 1 / 5, aim=1 / 10), Limit("pa.array", 1 / 4))(of_lists)
case(f"{LISTS}, as float32", Limit("[np.array]", 1 / 5, aim=1 / 10), Limit("pa.array", 1 / 4))(
    lambda: of_lists("float32")
)


@case(
    "TensorSequence of 10,000 arrays of 1 to 19 float32, copied",
    Limit("from_lengths(np.concatenate)", 1.3),
)
def copied_arrays():
    rng = np.random.default_rng(2)
    arrays = [rng.random(n, np.float32) for n in rng.integers(1, 20, 10_000)]
    return {
        OURS: Side(lambda: sq.TensorSequence(arrays, copy=True)),
        "from_lengths(np.concatenate)": Side(
            lambda: sq.TensorSequence.from_lengths(np.concatenate(arrays), [len(one) for one in arrays])
        ),
    }


# --- join ---


@case(
    "concatenate 100,000 rows of 8 float32",
    Limit("memory copy of the result", 3, aim=1.5),
    Limit("np.concatenate", 1 / 12),
)
def join_rows():
    array = floats(100_000, 8)
    seq = sq.split_to_sequence(array)
    rows = [array[i : i + 1] for i in range(len(array))]
    return {
        OURS: Side(lambda: sq.concat_from_sequence(seq, 0)),
        "memory copy of the result": Side(array.copy),
        "np.concatenate": Side(lambda: np.concatenate(rows)),
    }


@case("concatenate 30,000 arrays of 1 to 8 x 8 float32", Limit("np.concatenate", 1 / 2))
def join_whole_arrays():
    arrays = [floats(rows, 8) for rows in np.random.default_rng(1).integers(1, 8, 30_000, endpoint=True)]
    seq = sq.TensorSequence(arrays)
    return {
        OURS: Side(lambda: sq.concat_from_sequence(seq, 0)),
        "np.concatenate": Side(lambda: np.concatenate(arrays)),
    }


@case("concatenate 10,000 arrays of 1 to 39 x 8 float32", Limit("np.concatenate", 1 / 1.5))
def join_larger_arrays():
    lengths = np.random.default_rng(1).integers(1, 39, 10_000, endpoint=True)
    arrays = [floats(rows, 8) for rows in lengths]
    seq = sq.TensorSequence(arrays)
    return {
        OURS: Side(lambda: sq.concat_from_sequence(seq, 0)),
        "np.concatenate": Side(lambda: np.concatenate(arrays)),
    }


# --- look ---


@case(
    "iterate over 100,000 elements of 1 x 8",
    Limit("iterate over an array's rows", 1.3, aim=1),
    Limit("iterate over a list", 12),  # whose arrays are made already
)
def iterate():
    array = floats(100_000, 8)
    seq = sq.split_to_sequence(array)
    pieces = list(seq)

    def loop(items):
        def run():
            for _ in items:
                pass

        return Side(run, noperations=len(items))

    return {
        OURS: loop(seq),
        "iterate over an array's rows": loop(array),
        "iterate over a list": loop(pieces),
    }


def look_up(positions):
    array = floats(100_000, 8)

    def each(items):
        def run():
            for i in positions:
                items[i]

        return Side(run, noperations=len(positions))

    return {OURS: each(sq.split_to_sequence(array)), "array[i]": each(array)}


@case(
    "search for an element that is not among 100,000 of 8 float32",
    Limit("any(np.array_equal(…)) over a list", 1 / 100),
    Limit("array comparison, all axes", 1),
)
def find():
    array = floats(100_000, 8)
    seq, missing = sq.split_to_sequence(array, keepdims=0), np.full(8, 2, np.float32)
    arrays = list(array)
    return {
        OURS: Side(lambda: missing in seq),
        "any(np.array_equal(…)) over a list": Side(
            lambda: any(np.array_equal(one, missing) for one in arrays)
        ),
        "array comparison, all axes": Side(lambda: (array == missing).all(1).any()),
    }


@case("== of two times 100,000 of 8 float32", Limit("all(map(np.array_equal, …)) of lists", 1 / 100))
def equal():
    array = floats(100_000, 8)
    seq, other = (sq.split_to_sequence(one, keepdims=0) for one in (array, array.copy()))
    arrays, others = list(array), list(array.copy())
    return {
        OURS: Side(lambda: seq == other),
        "all(map(np.array_equal, …)) of lists": Side(lambda: all(map(np.array_equal, arrays, others))),
    }


@case("seq[i] of 100,000 elements of 1 x 8, in order", Limit("array[i]", 1))
def look_up_in_order():
    return look_up(range(100_000))


@case("seq[i] of 100,000 elements of 1 x 8, at random", Limit("array[i]", 1))
def look_up_at_random():
    return look_up(np.random.default_rng(1).permutation(100_000).tolist())


# --- edit ---

NFIRST = 100  # edits after which a sequence has slots


def sequence_at_cursor(nelements):
    """A sequence whose last edit was in its middle, and that middle."""
    seq, middle = sq.split_to_sequence(floats(nelements, 1)), nelements // 2
    seq.insert(middle, seq[0])
    seq.erase(middle)
    return seq, middle


@case("insert and erase at the last edit, n = 10⁶", Limit("the same, n = 10³", 1.6))
def edit_at_cursor():
    def edit(nelements):
        seq, cursor = sequence_at_cursor(nelements)
        tensor = floats(1, 1)

        def run():
            insert, erase = seq.insert, seq.erase
            for _ in range(5_000):
                insert(cursor, tensor)
                erase(cursor)

        return Side(run, noperations=5_000)

    return {OURS: edit(10**6), "the same, n = 10³": edit(10**3)}


@case("insert at the last edit 10,000 times, n = 10³", Limit("list.append", 5, aim=3))
def insert_at_cursor():
    seq, cursor = sequence_at_cursor(10**3)
    tensor = floats(1, 1)
    positions = range(cursor, cursor + 10_000)

    def run_insert(insert):
        for position in positions:
            insert(position, tensor)

    def run_append(append):
        for _ in positions:
            append(tensor)

    def fresh():
        copy = seq.copy()
        copy.insert(cursor, tensor)
        return copy.insert

    return {
        OURS: Side(run_insert, fresh, len(positions)),
        "list.append": Side(run_append, lambda: [].append, len(positions)),
    }


@case("append, per element, up to 10⁶", Limit("the same, up to 10⁴", 2))
def append():
    tensor = floats(8)

    def fill(nelements):
        def run(append):
            for _ in range(nelements):
                append(tensor)

        return Side(run, lambda: sq.sequence_empty().append, nelements)

    return {OURS: fill(10**6), "the same, up to 10⁴": fill(10**4)}


@case("500 inserts within ±8 of the last edit, n = 10⁶", Limit("list.insert", 1 / 150))
def edit_near_cursor():
    seq, cursor = sequence_at_cursor(10**6)
    offsets = np.random.default_rng(1).integers(-8, 8, 500, endpoint=True)
    return insert_sides(seq, (cursor + offsets).tolist(), start=cursor)


@case("2,000 inserts at random positions, n = 10⁵", Limit("list.insert", 1))
def insert_anywhere():
    seq = sq.split_to_sequence(floats(10**5, 1))
    return insert_sides(seq, np.random.default_rng(1).integers(0, len(seq), 2_000).tolist(), start=len(seq))


def insert_sides(seq, positions, start):
    """The same inserts into copies of a sequence and of the list of its elements, after a few others.

    A sequence gets slots with one of the first edits, which takes a millisecond for a million elements.
    """
    tensor, elements = seq[0], [*seq]

    def run(insert):
        for position in positions:
            insert(position, tensor)

    def fresh(items):
        def make():
            copy = items.copy()
            for _ in range(NFIRST):
                copy.insert(start, tensor)
            return copy.insert

        return make

    return {
        OURS: Side(run, fresh(seq), len(positions)),
        "list.insert": Side(run, fresh(elements), len(positions)),
    }
