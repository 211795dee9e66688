"""Tables and their ids: what each element takes, whose ids are used again, and sizes beyond 32 bits."""

import gc
import os
import pickle
import tracemalloc

import numpy as np
import pytest
from support.saved import pa, ragged, saved
from support.strategies import assert_holds, same

import seqcore as sq
from seqcore import TensorSequence

N = 100_000


def nbytes_of(make):
    """What stays allocated when something has been made, and that, to keep it alive."""
    make()
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        made = make()
        gc.collect()
        return tracemalloc.get_traced_memory()[0] - before, made
    finally:
        tracemalloc.stop()


ARRAY = np.arange(4 * N)
LENGTHS = np.tile([3, 5, 0, 8], N // 4)
ENDS = np.cumsum([0, *LENGTHS])
BATCH = np.zeros((N, 4), np.int8)


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    path = tmp_path_factory.mktemp("tables") / "tensors.arrow"
    return saved(path, TensorSequence.from_offsets(ARRAY, ENDS)), path


EACH = {  # bytes for each element
    "rows": (lambda seq, path: sq.split_to_sequence(ARRAY[:N]), 0),
    "rows without an axis": (lambda seq, path: sq.split_to_sequence(ARRAY[:N], keepdims=0), 0),
    "equal parts": (lambda seq, path: sq.split_to_sequence(ARRAY, 4), 0),
    "lengths": (lambda seq, path: TensorSequence.from_lengths(ARRAY, LENGTHS), 8),
    "offsets": (lambda seq, path: TensorSequence.from_offsets(ARRAY, ENDS), 8),
    "rows of a batch": (lambda seq, path: TensorSequence.from_padded(BATCH, np.full(N, 3)), 8),
    "a file": (lambda seq, path: sq.load(path), 0),
    "a file that was unpickled": (lambda seq, path: pickle.loads(pickle.dumps(seq)), 0),
    "part of a file that was unpickled": (lambda seq, path: pickle.loads(pickle.dumps(seq[N // 2 :])), 0),
    "Arrow": (lambda seq, path: TensorSequence.from_arrow(seq), 0),
    "a slice": (lambda seq, path: seq[1:], 0),
    "backwards with a step": (lambda seq, path: seq[::-3], 0),
    "a copy": (lambda seq, path: seq.copy(), 0),
    "a few edits": (lambda seq, path: edited(seq), 0),
    "joined": (lambda seq, path: seq + seq[:5] + seq, 0),
    "a selection": (lambda seq, path: seq[np.arange(N)], 16),
    "a mask": (lambda seq, path: seq[np.ones(N, bool)], 16),
    "many edits": (lambda seq, path: edited(seq, 100), 16 * 1.25),
}


def edited(seq, times=3):
    seq = seq[:]
    for i in range(times):
        seq.insert(100 * i, np.zeros(1, int))
    return seq


@pytest.mark.usual_limits
@pytest.mark.thread_unsafe
@pytest.mark.parametrize(("make", "each"), EACH.values(), ids=EACH)
def test_memory_of_an_element(loaded, make, each):
    nbytes, made = nbytes_of(lambda: make(*loaded))
    assert len(made) > N // 4
    assert abs(nbytes - each * N) < 20_000 + each * N / 100, nbytes


# -- slots ----------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("n", [9, 20_000])
def test_many_tables_at_once(n):
    """Each element is of a table of its own, in one sequence of slots."""
    array = np.arange(2 * n)
    tables = [sq.split_to_sequence(array[2 * i : 2 * i + 2]) for i in range(n)]
    seq = TensorSequence(dtype="int64")
    for table in tables:
        seq.extend(table[[1]])
    assert np.array_equal(seq.values(), array[1::2])
    order = np.random.default_rng(0).permutation(n)
    shuffled = seq[order]
    assert np.array_equal(shuffled.values(), array[1::2][order])
    del tables, seq
    others = [sq.split_to_sequence(array[:2])[[0]] for _ in range(n)]
    assert np.array_equal(shuffled.values(), array[1::2][order])
    half = shuffled[: n // 2]
    del shuffled
    gc.collect()
    others += [sq.split_to_sequence(array[:4], 2)[[1]] for _ in range(n)]
    assert np.array_equal(half.values(), array[1::2][order[: n // 2]])
    assert {tuple(one[0].tolist()) for one in others} == {(0,), (2, 3)}


def test_a_table_is_released_with_the_last_that_names_it():
    import weakref

    array = np.arange(10)
    alive = weakref.ref(array)
    seq = sq.split_to_sequence(array, 3)
    del array
    several = [seq[1:], seq[[0, 0]], seq[::-1], seq[np.array([True, False, False, True])], seq + seq[:1]]
    element = seq[3]
    del seq
    while several:
        assert alive() is not None
        several.pop()._check()
    assert alive() is not None
    assert element.tolist() == [9]
    del element
    assert alive() is None


# -- sizes ----------------------------------------------------------------------------------------------


def test_int32_offsets_beyond_32_bits_of_bytes(tmp_path):
    """Positions of 32 bits times the size of an item: rows of a sparse file, 16 GB long."""
    path = tmp_path / "sparse"
    rows, width = 2**31 - 5, 8
    with open(path, "wb") as file:
        try:
            file.truncate(rows * width)
        except OSError as error:
            pytest.skip(f"no sparse file: {error}")
    memory = np.memmap(path, np.int64, "r+")
    memory[-3:] = 1, 2, 3
    ends = np.array([0, 5, 2**30, rows - 3, rows - 1, rows], np.int32)
    items = pa.Array.from_buffers(pa.int64(), rows, [None, pa.py_buffer(memory)])
    seq = TensorSequence.from_arrow(
        pa.Array.from_buffers(pa.list_(pa.int64()), 5, [None, pa.py_buffer(ends)], children=[items])
    )
    assert seq.lengths().tolist() == np.diff(ends.astype(np.int64)).tolist()
    for one in (seq, seq[[0, 1, 2, 3, 4]], seq[::-1][::-1]):
        assert one[3].tolist() == [1, 2]
        assert one[-1].tolist() == [3]
        assert one[3:].values().tolist() == [1, 2, 3]
        assert sq.concat_from_sequence(one[[4, 3, 0]], 0).tolist() == [3, 1, 2, 0, 0, 0, 0, 0]
        assert one.nbytes == rows * width
        assert one.offsets("int32").tolist() == ends.tolist()
    assert seq[1].nbytes == (2**30 - 5) * 8
    del memory, items
    os.unlink(path)
    assert seq[3].tolist() == [1, 2]


def test_tables_of_more_than_32_bits():
    """Of memory that repeats one item: more elements, positions and bytes than 32 bits count."""
    many = np.broadcast_to(np.int8(7), 2**33 + 1)
    seq = sq.split_to_sequence(many)
    assert len(seq) == 2**33 + 1
    assert seq[2**33].tolist() == [7]
    assert seq[-(2**33)].tolist() == [7]
    assert seq[:: -(2**31)].tolist() == [[7]] * 5
    assert seq[2**32 : 2**32 + 3].lengths().tolist() == [1, 1, 1]
    assert seq[[2**33, 0, 2**32]].tolist() == [[7]] * 3
    assert pickle.loads(pickle.dumps(seq[[2**33, 0]])).tolist() == [[7], [7]]
    assert seq.nbytes == 2**33 + 1
    halves = sq.split_to_sequence(many, 2**32)
    assert halves.lengths().tolist() == [2**32, 2**32, 1]
    assert halves.offsets().tolist() == [0, 2**32, 2**33, 2**33 + 1]
    long = sq.split_to_sequence(np.broadcast_to(np.int8(7), 2**37 - 1))  # as many as slots can name
    assert long[2**37 - 2].tolist() == [7]
    assert long[[2**37 - 2, 0]].tolist() == [[7], [7]]
    assert pickle.loads(pickle.dumps(long[[5, 2**36]][::-1])).tolist() == [[7], [7]]
    for n in (2**37, 2**40, 2**62):
        with pytest.raises(MemoryError, match=f"no memory for {n} elements"):
            sq.split_to_sequence(np.broadcast_to(np.int8(7), n))


@pytest.mark.slow
def test_results_of_maps_have_numbers_of_their_own(tmp_path):
    seq = saved(tmp_path / "tensors.arrow", ragged([3, 0, 2], "float32"))
    for make in (
        lambda seq: seq.astype("float64"),
        lambda seq: sq.map_batches(np.negative, seq),
        lambda seq: sq.sequence_map(np.negative, seq),
        lambda seq: TensorSequence(seq, copy=True),
    ):
        made = make(seq)
        assert_holds(made, [np.asarray(one) for one in made])
        assert made.lengths().tolist() == [3, 0, 2]
        assert same(np.abs(made[2]).astype("float32"), seq[2])
