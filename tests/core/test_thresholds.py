"""Both sides of each threshold of the core: results are the same, and what it decides changes there.

The thresholds are in `core/limits.pxd`, those of parts of streams and files in `_arrow/layouts.py` and
`_files/parts.py`. That results are the same is also what a build with small thresholds shows.
"""

import itertools
import pickle

import numpy as np
import pytest
from seqcore.core.maps import chained
from support.counting import done, rows, slots, tensor
from support.runs import read_in_each_way
from support.strategies import assert_holds

import seqcore as sq
from seqcore import TensorSequence

pytestmark = pytest.mark.usual_limits

MOST_RUNS = 64
RUNS_OF_AN_EDIT = 32
SINGLE_RUNS = 16
RELEASE_FROM = 1024
ALONE_FROM = 4096
NUMBERS = [n + more for n in (SINGLE_RUNS, RUNS_OF_AN_EDIT, MOST_RUNS, 2 * MOST_RUNS) for more in (0, 1)]
NBYTES = [n + more for n in (1 << 12, 1 << 16, 1 << 17, 1 << 18) for more in (-8, 8)]


# -- results on both sides ------------------------------------------------------------------------------


def in_runs(n):
    """Runs of one to three rows of one array, with gaps between them."""
    seq, at = sq.split_to_sequence(np.arange(5 * n, dtype=np.int32)), 0
    parts = []
    for i in range(n):
        parts.append(seq[at : at + 1 + i % 3])
        at += 2 + i % 3
    return chained(parts)


def of_shapes(rank):
    def make(n):
        arrays = []
        for i in range(n):
            shape = [1 + (i + k) % 2 if k < 4 else 1 for k in range(rank)]
            arrays.append(np.arange(i, i + np.prod(shape), dtype=np.int32).reshape(shape))
        return TensorSequence(arrays, copy=True)

    return make


def with_the_gap_inside(n):
    seq = sq.split_to_sequence(np.arange(n + 1, dtype=np.int32))[np.arange(n)[::-1]]
    seq.insert(n // 2, seq[0])
    seq.erase(n // 2)
    return seq


def of_two_lengths(n):
    """Two even blocks, with the gap between them: of even pieces lengths are not read."""
    seq = sq.split_to_sequence(np.arange(2 * n, dtype=np.int32), 2)
    seq += sq.split_to_sequence(np.arange(3 * (n // 2), dtype=np.int32), 3)
    seq.insert(n, seq[0])
    seq.erase(n)
    return seq


KINDS = {
    "rows": lambda n: sq.split_to_sequence(np.arange(n, dtype=np.int32)),
    "uneven": lambda n: TensorSequence.from_lengths(
        np.arange(sum(i % 3 for i in range(n)), dtype=np.int32), np.arange(n) % 3
    ),
    "runs": in_runs,
    "shapes of rank 2": of_shapes(2),
    "shapes of rank 5": of_shapes(5),
    "shapes of rank 63": of_shapes(63),
    "gap inside": with_the_gap_inside,
    "two lengths": of_two_lengths,
}


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_of_elements(kind):
    for n in NUMBERS:
        seq = KINDS[kind](n)
        model = [np.array(one) for one in seq]
        read_in_each_way(seq, model)
        seq.compact()
        read_in_each_way(seq[::-1] + seq[: n // 2], model[::-1] + model[: n // 2])


def element(nbytes, dtype):
    if dtype == "string":
        return np.array([f"s{i % 7}" for i in range(nbytes // 8)], object)
    return np.arange(nbytes // np.dtype(dtype).itemsize).astype(dtype)


def changed(array, at):
    array = array.copy()
    array[at] = "other" if array.dtype == object else not array[at]
    return array


@pytest.mark.parametrize("dtype", ["int64", "uint8", "string"])
def test_numbers_of_bytes(dtype):
    """Wherever the difference is, comparisons see it; and joins, batches and pickles have all of it."""
    for nbytes in NBYTES:
        array = element(nbytes, dtype)
        cut = len(array) // 3
        parts = [array[cut:], array[:cut], array[:0]]
        seq, same = TensorSequence(parts), TensorSequence(parts, copy=True)
        assert seq == same
        assert np.array_equal(seq.values(), np.concatenate(parts))
        assert_holds(pickle.loads(pickle.dumps(seq)), parts)
        filler = "x" if dtype == "string" else 1
        batch = seq.to_padded(filler)
        assert np.array_equal(batch[0], parts[0])
        assert (batch[2] == filler).all()
        seq.compact()
        assert_holds(seq, parts)
        for which, at in itertools.product((0, 1), (0, -1)):
            other = same.copy()
            other[which] = changed(parts[which], at)
            assert seq != other
            assert other[which] not in seq
            assert other.index(other[which].copy()) == which
            other.remove(parts[1 - which])
            assert len(other) == 2


@pytest.mark.parametrize("n", [RELEASE_FROM - 1, RELEASE_FROM])
@pytest.mark.parametrize("at", [0, 500, -1])
def test_lengths_at_fault_among_many(n, at):
    def given(value):
        lengths = np.ones(n, np.int64)
        lengths[at] = value
        return lengths

    for value, what in ((-1, "negative"), (n, "exceed"), (0, r"the sum of \w+ is"), (2**62, "exceed")):
        with pytest.raises(ValueError, match=what):
            TensorSequence.from_lengths(np.zeros(n), given(value))
        with pytest.raises(ValueError, match=what):
            sq.split_to_sequence(np.zeros(n), given(value))
    seq = TensorSequence([np.zeros(2)] * n)
    seq[at] = np.zeros(())
    with pytest.raises(ValueError, match=f"element {at % n} has rank 0"):
        seq.lengths()
    with pytest.raises(ValueError, match=f"element {at % n if at % n else 1} "):
        sq.concat_from_sequence(seq, 0, 1)


# -- what the thresholds decide: runs and slots ----------------------------------------------------------


class Budget:
    """What edits of runs may spend until slots would have been cheaper, as `splice` decides it."""

    def __init__(self, n, nruns=1):
        self.n, self.nruns, self.spent = n, nruns, 0

    def allows(self, n, nruns):
        """Whether an edit to so many elements and runs splices; if it does, it is paid."""
        spent = self.spent + nruns + RUNS_OF_AN_EDIT
        if spent > max(self.n, 4 * RUNS_OF_AN_EDIT) or nruns > MOST_RUNS >= self.nruns:
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


@pytest.mark.parametrize("few", [1, SINGLE_RUNS - 1, SINGLE_RUNS, SINGLE_RUNS + 1, 40])
@pytest.mark.parametrize("how", ["extend", "insert", "replace"])
def test_a_few_arrays_become_runs(few, how):
    seq, model, news = rows(5000), list(rows(5000)), [tensor(i) for i in range(few)]
    place = {"extend": slice(5000, None), "insert": slice(70, 70), "replace": slice(70, 90)}[how]
    counts = done(lambda: seq.__setitem__(place, news) if how != "extend" else seq.extend(news))
    model[place] = news
    assert ("spliced" in counts) == (few <= SINGLE_RUNS)
    assert ("slots_made" in counts) == (few > SINGLE_RUNS)
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


@pytest.mark.parametrize("left", [15, 16, 17])
def test_a_buffer_that_others_share_is_not_cut_short(left):
    seq = slots(64)
    other = seq.copy()
    model = list(seq)
    del seq[left:]
    assert_holds(seq, model[:left])
    assert_holds(other, model)


# -- pickles -------------------------------------------------------------------------------------------


def buffers_of(seq):
    buffers = []
    data = pickle.dumps(seq, protocol=5, buffer_callback=buffers.append)
    assert_holds(pickle.loads(data, buffers=buffers), list(seq))
    return [buffer.raw().nbytes for buffer in buffers if buffer.raw().nbytes]


@pytest.mark.parametrize(
    ("total", "alone"),
    [(2 * ALONE_FROM - 8, False), (2 * ALONE_FROM, True), (2 * ALONE_FROM + 8, True)],
)
def test_where_arrays_begin_to_go_alone(total, alone):
    sizes = [
        ALONE_FROM,
        ALONE_FROM // 2,
        total - ALONE_FROM - ALONE_FROM // 2,
    ]
    seq = TensorSequence([np.zeros(nbytes // 8) for nbytes in sizes])
    assert sorted(buffers_of(seq)) == sorted([*sizes, 3, 3] if alone else [total, 4 * 8])


@pytest.mark.parametrize("used", [49, 50, 51])
def test_a_stretch_goes_as_it_is_where_half_of_it_is_used(used):
    """Of 100 rows the first, the last and some between: those alone where they are less than half."""
    array = np.arange(100 * 128).reshape(100, 128)
    seq = sq.split_to_sequence(array)[[*range(used - 1), 99]]
    # Two runs of one stretch, or copied together.
    assert sorted(buffers_of(seq)) == [100 * 1024 if used >= 50 else used * 1024]


@pytest.mark.parametrize("times", [199, 200, 201])
def test_what_repeats_goes_once(times):
    """A stretch that elements use again and again is sent as it is, not once for each."""
    array = np.arange(100 * 16).reshape(100, 16)
    seq = sq.split_to_sequence(array)[[*range(100), *[0] * (times - 100)]]
    assert sorted(buffers_of(seq)) == sorted([times, array.nbytes])
    lone = TensorSequence([np.arange(8)] * times)
    assert sorted(buffers_of(lone)) == sorted([times, 64])


@pytest.mark.slow
@pytest.mark.parametrize("n", [255, 256, 257, 65535, 65536, 65537])
def test_numbers_take_as_few_bytes_as_they_need(n):
    """The largest number decides, which is n - 1."""
    array = np.arange(n, dtype=np.int8)
    order = np.arange(n)[::-1].copy()
    order[:2] = order[1::-1]  # no run
    width = 1 if n <= 256 else 2 if n <= 65536 else 4
    assert sorted(buffers_of(sq.split_to_sequence(array)[order])) == sorted([n * width, n])


@pytest.mark.parametrize("nruns", [1, 2, 7, 8, 9, 64])
def test_runs_are_pickled_as_integers_where_they_are_few(nruns):
    seq = sq.split_to_sequence(np.arange(7000))
    parts = [seq[i * 101 : i * 101 + 100] for i in range(nruns)]
    seq = parts[0]
    for part in parts[1:]:
        seq = seq + part
    _, (_, _, _, order), *_ = seq.__reduce_ex__(5)
    assert isinstance(order, tuple) == (nruns <= 8)
    assert np.array_equal(order, [[0, 101 * i, 1, 100] for i in range(nruns)])
    assert_holds(pickle.loads(pickle.dumps(seq)), list(seq))


# -- parts of streams and files --------------------------------------------------------------------------


def parts_of(seq):
    pa = pytest.importorskip("pyarrow")
    chunks = pa.chunked_array(seq).chunks
    assert [row for chunk in chunks for row in chunk.to_pylist()] == seq.tolist()
    return len(chunks)


@pytest.mark.parametrize(("nbytes", "parts"), [((1 << 16) - 8, 1), (1 << 16, 3), ((1 << 16) + 8, 3)])
def test_a_part_for_each_large_memory(nbytes, parts):
    """Three memories: each its part, where on average they have as much as a large one."""
    assert parts_of(TensorSequence([np.zeros(nbytes // 8) for _ in range(3)])) == parts


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
