"""Both sides of the numbers that decide of buffers, owners and batches.

============== ================ ======================================================================
64, a quarter  buffer.pyx       slots, and how many of them in use, where memory is given back
4096           padding.pyx      bytes of padding that are written at once
INLINE_NDIM    owner.pxd        axes that an owner has room for
_MOST_PARTS    _arrow/layouts   memories that elements of a stream are given away by
_LARGE_PART    _arrow/layouts   and the bytes that each should have
_GATHERED      _files/parts     bytes of single tensors that become one part of a file
============== ================ ======================================================================
"""

import pickle

import numpy as np
import pytest
from counting import done, rows, tensor
from strategies import assert_holds, filled, laid_out

import seqcore as sq
from seqcore import TensorSequence

pytestmark = pytest.mark.mostly_slow(3)

# -- slots ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "left", "shrinks"), [(63, 1, 0), (64, 17, 0), (64, 16, 1), (65, 17, 0), (68, 17, 1)]
)
def test_memory_is_given_back_from_64_slots_and_a_quarter_on(n, left, shrinks):
    """From the front, the back and the middle; what is left is what a list has."""
    for where in (slice(left, None), slice(None, n - left), slice(3, 3 + n - left)):
        seq = rows(n)
        model = list(seq)
        assert done(lambda seq=seq, where=where: seq.__delitem__(where)).get("shrunk", 0) == shrinks
        del model[where]
        assert_holds(seq, model)
        for position in (0, left // 2, -1):
            seq.insert(position, tensor())
            model.insert(position, tensor())
        assert_holds(seq, model)


@pytest.mark.parametrize("n", [63, 64, 65, 100, 128])
@pytest.mark.parametrize("at", [0, 0.5, 1])
def test_sizes_up_and_down_across_all_of_it(n, at):
    seq, model = rows(n), list(rows(n))
    while model:
        position = int(at * (len(model) - 1))
        assert np.array_equal(seq.pop(position), model.pop(position))
        if len(model) in (17, 16, 15):
            assert_holds(seq, model)
    for i in range(2 * n):
        position = int(at * len(model))
        seq.insert(position, tensor(i))
        model.insert(position, tensor(i))
    assert_holds(seq, model)


@pytest.mark.parametrize("left", [15, 16, 17])
def test_a_buffer_that_others_share_is_not_cut_short(left):
    seq = rows(64)
    other = seq.copy()
    model = list(seq)
    del seq[left:]
    assert_holds(seq, model[:left])
    assert_holds(other, model)


@pytest.mark.parametrize("n", range(1, 14))
@pytest.mark.parametrize("more", [1, 5, 6, 7, 8, 9, 30])
def test_room_for_some_more(n, more):
    """A grown buffer of n has n + n/4 + 6 slots: what goes into the last of them, and one more."""
    for position in (0, n // 2, n):
        seq, model = rows(n), list(rows(n))
        seq.insert(position, tensor())
        model.insert(position, tensor())
        seq.insert(position, tensor(1))
        model.insert(position, tensor(1))
        seq[position:position] = [tensor(i) for i in range(more)]
        model[position:position] = [tensor(i) for i in range(more)]
        assert_holds(seq, model)
        seq.extend(seq)
        assert_holds(seq, model * 2)


# -- padding -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["int8", "int16", "float64", "complex128", "bfloat16", "string"])
@pytest.mark.parametrize("nbytes", [4096 - 16, 4096, 4096 + 16, 8192, 8192 + 16, 3 * 4096 + 16])
@pytest.mark.parametrize("side", ["right", "left"])
def test_padding_of_many_bytes(dtype, nbytes, side):
    """An item whose bytes differ is written in copies of what was written before."""
    short = filled(dtype, 3)
    value = filled(dtype, 10)[7]
    n = nbytes // short.itemsize
    batch = TensorSequence([short, filled(dtype, n + 3)]).to_padded(value, side=side)
    row = batch[0] if side == "right" else batch[0][::-1]
    assert list(row[:3]) == list(short if side == "right" else short[::-1])
    assert len(row[3:]) == n
    assert (row[3:] == value).all()


@pytest.mark.parametrize("n", [0, 1, 2, 3, 511, 512, 513, 1024, 1025])
def test_padding_of_each_length(n):
    out = np.full((2, n + 1), 5.0)
    seq = TensorSequence([np.zeros(1), np.zeros(n + 1)])
    seq.to_padded(1.1, out=out)
    assert out.tolist() == [[0] + [1.1] * n, [0] * (n + 1)]


# -- ranks ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rank", range(6))
@pytest.mark.parametrize("layout", ["plain", "transposed", "reversed", "strided"])
def test_whole_arrays_and_their_copies_of_each_rank(rank, layout):
    shape = tuple(range(2, 2 + rank))
    arrays = [laid_out(filled("int32", shape, start), layout) for start in (0, 7)]
    seq = TensorSequence(arrays)
    assert_holds(seq, arrays)
    for other in (
        pickle.loads(pickle.dumps(seq)),
        TensorSequence(seq, copy=True),
        TensorSequence(arrays[:1], copy=True) + arrays[1:],
        sq.split_to_sequence(np.stack(arrays), keepdims=0),
        sq.split_to_sequence(np.stack(arrays, axis=-1), axis=-1, keepdims=0),
        seq.astype("float64").astype("int32"),
    ):
        assert_holds(other, arrays)
    assert np.array_equal(sq.concat_from_sequence(seq, 0, 1), np.stack(arrays))
    assert np.array_equal(seq.to_padded(), np.stack(arrays))


@pytest.mark.parametrize("rank", [1, 2, 3, 4])
def test_ranks_one_above_the_other(rank):
    """An owner's own room and that of others, side by side, let go in any order."""
    arrays = [filled("int8", (2,) * k) for k in (rank, rank - 1, rank + 1)] * 100
    seq = TensorSequence(arrays)
    del seq[::3]
    seq.reverse()
    del arrays[::3]
    assert_holds(seq, arrays[::-1])


# -- parts of streams and files ------------------------------------------------------------------------


def parts_of(seq):
    pa = pytest.importorskip("pyarrow")
    chunks = pa.chunked_array(seq).chunks
    assert [row for chunk in chunks for row in chunk.to_pylist()] == seq.tolist()
    return len(chunks)


@pytest.mark.parametrize(("nbytes", "parts"), [((1 << 16) - 8, 1), (1 << 16, 3), ((1 << 16) + 8, 3)])
def test_a_part_for_each_large_memory(nbytes, parts):
    """Three memories: each its part, where on average they have as much as a large one."""
    assert parts_of(TensorSequence([np.zeros(nbytes // 8) for _ in range(3)])) == parts


@pytest.mark.parametrize("memories", [1, 2, 3])
def test_as_many_parts_as_memories(memories):
    array = np.zeros((2, 1 << 14))
    seq = TensorSequence([row for _ in range(memories) for row in array.copy()])
    assert parts_of(seq) == memories


@pytest.mark.parametrize(("most", "parts"), [(3, 1), (4, 4), (5, 4)])
def test_not_too_many_parts(monkeypatch, most, parts):
    from seqcore._arrow import layouts

    monkeypatch.setattr(layouts, "_MOST_PARTS", most)
    assert parts_of(TensorSequence([np.zeros(1 << 14) for _ in range(4)])) == parts


@pytest.mark.parametrize(
    ("gathered", "parts"), [(79, [2, 2, 1]), (80, [2, 2, 1]), (81, [3, 2]), (40, [1] * 5)]
)
def test_single_tensors_are_gathered(monkeypatch, gathered, parts):
    from seqcore._files import parts as files

    monkeypatch.setattr(files, "_GATHERED", gathered)
    made = list(files.parts_of(np.full(5, float(i)) for i in range(5)))
    assert [len(part) for _, part in made] == parts
    assert [first for first, _ in made] == [sum(parts[:i]) for i in range(len(parts))]
    assert [row[0] for _, part in made for row in part] == [0, 1, 2, 3, 4]


# -- where the gap cuts what is even -------------------------------------------------------------------


@pytest.mark.parametrize("front", [[2, 2, 2], [2, 2, 1], [2], [0, 0], [3, 3]])
@pytest.mark.parametrize("back", [[2, 2, 2], [3, 3, 3], [1, 1], [5], [0, 0, 0]])
@pytest.mark.parametrize("make", ["compact", "astype", "deepcopy", "map", "batches"])
def test_two_even_blocks_with_the_gap_between(front, back, make):
    """Of even pieces the lengths are not read, so a block of two lengths must not count as even."""
    seq = TensorSequence(dtype="int64")
    for lengths in (front, back):
        if max(lengths):
            seq += sq.split_to_sequence(np.arange(sum(lengths)), max(lengths))
        else:
            seq += TensorSequence.from_lengths(np.arange(0), lengths)
    seq.insert(len(front), np.arange(9))
    seq.erase(len(front))
    model = list(seq)
    assert [len(one) for one in model] == front + back
    for _ in range(3):  # what one copy says of its block, the next one believes
        if make == "compact":
            seq = seq.copy()
            seq.insert(len(front), np.arange(9))
            seq.erase(len(front))
            seq.compact()
        else:
            seq = {
                "astype": lambda seq: seq.astype("float32").astype("int64"),
                "deepcopy": lambda seq: TensorSequence(seq, copy=True),
                "map": lambda seq: sq.sequence_map(np.positive, seq),
                "batches": lambda seq: sq.map_batches(np.positive, seq),
            }[make](seq)
        assert_holds(seq, model)
        assert seq.lengths().tolist() == front + back
        assert TensorSequence.from_arrow(seq).tolist() == [one.tolist() for one in model]
