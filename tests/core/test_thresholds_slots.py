"""Both sides of the numbers that decide about runs, slots, owners and batches.

============== ================ ======================================================================
MOST_RUNS      runs.pyx         runs that edits make
PER_EDIT       runs.pyx         runs whose copying takes as long as the rest of an edit
FEW            runs.pyx         elements that become runs one by one
4096           padding.pyx      bytes of padding that are written at once
dims           owner.pxd        shapes and strides that an owner has room for: rank 2, and rank 4 of a table
_MOST_PARTS    _arrow/layouts   memories that elements of a stream are given away by
_LARGE_PART    _arrow/layouts   and the bytes that each should have
_GATHERED      _files/parts     bytes of single tensors that become one part of a file
============== ================ ======================================================================
"""

import itertools
import pickle

import numpy as np
import pytest
from seqcore.core.maps import chained
from support.counting import done, rows, slots, tensor
from support.strategies import assert_holds, filled, laid_out

import seqcore as sq
from seqcore import TensorSequence

pytestmark = [pytest.mark.usual_limits, pytest.mark.mostly_slow(3)]

MOST_RUNS = 64
PER_EDIT = 32
FEW = 16

# -- runs ----------------------------------------------------------------------------------------------


class Budget:
    """What edits of runs may spend until slots would have been cheaper, by the rule of runs.pyx."""

    def __init__(self, n, nruns=1):
        self.n, self.nruns, self.spent = n, nruns, 0

    def allows(self, n, nruns):
        """Whether an edit to so many elements and runs splices; if it does, it is paid."""
        spent = self.spent + nruns + PER_EDIT
        if spent > max(self.n, 4 * PER_EDIT) or nruns > MOST_RUNS >= self.nruns:
            return False
        self.n, self.nruns, self.spent = n, nruns, spent
        return True


def is_slots(seq):
    """Whether a sequence has slots: the first edit of a copy has them copied."""
    return "slots_copied" in done(lambda: seq.copy().erase(0))


EDITS = {  # the i-th one, of a sequence and a list alike
    "erase at one place": lambda one, i, new: one.pop(min(50, len(one) - 1)),
    "insert into runs": lambda one, i, new: one.insert(min(3 * i + 1, len(one)), new),
    "set every other": lambda one, i, new: one.__setitem__(2 * i, new),
    "append": lambda one, i, new: one.append(new),
    "delete every other": lambda one, i, new: one.__delitem__(slice(i + 1, i + 2)),
}


def count_runs(model):
    """How many runs rows make that are known by their numbers, and others by negative ones."""
    return 1 + sum(not 0 <= before == after - 1 for before, after in itertools.pairwise(model))


@pytest.mark.parametrize("n", [2, 3, 95, 96, 97, 127, 128, 129, 130, 500, 2000, 5000])
@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_edits_of_runs_until_slots_are_cheaper(n, edit):
    """As many as the rule says, not one more or fewer; after the next the sequence has slots."""
    seq, model, budget = sq.split_to_sequence(np.arange(n)), [*range(n)], Budget(n)
    for i in range(min(70, n // 2)):
        edit(model, i, -1)
        counts = done(lambda i=i: edit(seq, i, np.array([-1])))
        if budget.allows(len(model), count_runs(model)):
            assert counts == {"spliced": 1}, i
        else:
            assert counts["slots_made"] == 1, i
            assert is_slots(seq)
            break
    assert_holds(seq, [np.array([i]) for i in model])


@pytest.mark.parametrize("few", [1, FEW - 1, FEW, FEW + 1, 40])
@pytest.mark.parametrize("how", ["extend", "insert", "replace"])
def test_a_few_arrays_become_runs(few, how):
    seq, model, news = rows(5000), list(rows(5000)), [tensor(i) for i in range(few)]
    place = {"extend": slice(5000, None), "insert": slice(70, 70), "replace": slice(70, 90)}[how]
    counts = done(lambda: seq.__setitem__(place, news) if how != "extend" else seq.extend(news))
    model[place] = news
    assert ("spliced" in counts) == (few <= FEW)
    assert ("slots_made" in counts) == (few > FEW)
    assert_holds(seq, model)


@pytest.mark.parametrize("more", [1, 63, 64, 65, 200])
def test_runs_beside_runs(more):
    """A sequence of many files or chunks has as many runs as it has; only edits that add runs may not."""
    seq = chained([rows(100) for _ in range(more)])
    model = [one for _ in range(more) for one in rows(100)]
    assert done(lambda: seq.erase(5)).keys() == ({"slots_made", "gap_moved"} if more == 64 else {"spliced"})
    assert done(lambda: seq.erase(5)).keys() == (set() if more == 64 else {"spliced"})
    del model[5:7]
    assert_holds(seq, model)
    assert is_slots(seq) == (more == 64)


@pytest.mark.parametrize(("each", "slots"), [(1, True), (7, True), (8, False), (100, False)])
@pytest.mark.parametrize("n", [64, 65, 130])
def test_short_runs_are_slots_where_that_is_smaller(each, slots, n):
    """A run takes as much as four slots: more than 64 are kept where each has eight elements."""
    seq = chained([rows(each) for _ in range(n)])
    assert is_slots(seq) == (slots and n > MOST_RUNS)
    assert_holds(seq, list(rows(each)) * n)
    backwards = seq[::-1]
    assert_holds(backwards, list(seq)[::-1])
    assert is_slots(backwards) == is_slots(seq)


@pytest.mark.slow
def test_many_appended_splits_are_spliced_a_few_times():
    """A splice copies all runs: a hundred thousand of them would take a hundred thousand times as long."""
    seq, parts = TensorSequence(dtype="int64"), 100_000
    array = np.arange(2 * parts)
    counts = done(lambda: [seq.extend(sq.split_to_sequence(array[2 * i : 2 * i + 2])) for i in range(parts)])
    assert counts.get("spliced", 0) <= MOST_RUNS
    assert counts["slots_made"] == 1
    assert counts["grown"] <= 60
    assert np.array_equal(seq.values(), array)
    seq._check()


# -- slots ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [63, 64, 65, 100, 128])
@pytest.mark.parametrize("at", [0, 0.5, 1])
def test_sizes_up_and_down_across_all_of_it(n, at):
    seq, model = slots(n), list(slots(n))
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
    seq = slots(64)
    other = seq.copy()
    model = list(seq)
    del seq[left:]
    assert_holds(seq, model[:left])
    assert_holds(other, model)


@pytest.mark.parametrize("n", range(1, 14))
@pytest.mark.parametrize("more", [1, 5, 6, 7, 8, 9, 30])
def test_room_for_some_more(n, more):
    """Slots that have grown for n elements are n + n/4 + 6: what goes into the last of them, and one more."""
    for position in (0, n // 2, n):
        seq, model = slots(n), list(slots(n))
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
