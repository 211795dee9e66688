"""Where two conditions guard one decision: a case for each of them alone."""

import pickle

import numpy as np
import pytest
from seqcore.core.maps import Bound

import seqcore as sq
from seqcore import TensorSequence

pytestmark = pytest.mark.mostly_slow(1)  # none is: a planted mistake may show in one case alone


def contents(seq):
    seq._check()
    return seq.tolist()


def loosened(seq):
    """The same elements in slots: an index makes them."""
    return seq[np.arange(len(seq))]


class TestPositions:
    @pytest.mark.parametrize("dtype", ["int8", "int16", "uint8", "uint32", "uint64", "bool"])
    @pytest.mark.parametrize("shape", [(), (1,)])
    def test_arrays_of_other_integers_are_none(self, dtype, shape):
        position = np.ones(shape, dtype)
        with pytest.raises(TypeError, match="int32 or int64"):
            sq.sequence_at([[1], [2]], position)

    @pytest.mark.parametrize("dtype", ["int32", "int64"])
    @pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
    def test_arrays_of_one_index(self, dtype, shape):
        assert sq.sequence_at([[1], [2]], np.ones(shape, dtype)).tolist() == [2]


# What is done to elements 0 to 3, and what is there then.
EDITS = {
    "append": (lambda seq: seq.append([9]), [0, 1, 2, 3, 9]),
    "insert at the gap": (lambda seq: seq.insert(2, [9]), [0, 1, 9, 2, 3]),
    "replace": (lambda seq: seq.__setitem__(1, [9]), [0, 9, 2, 3]),
    "replace some": (lambda seq: seq.__setitem__([0, 2], [[8], [9]]), [8, 1, 9, 3]),
    "replace every second": (lambda seq: seq.__setitem__(slice(None, None, 2), [[8], [9]]), [8, 1, 9, 3]),
    "replace a slice": (lambda seq: seq.__setitem__(slice(1, 2), [[7], [8], [9]]), [0, 7, 8, 9, 2, 3]),
    "erase": (lambda seq: seq.erase(1), [0, 2, 3]),
    "erase some": (lambda seq: seq.__delitem__([0, 2]), [1, 3]),
    "erase every second": (lambda seq: seq.__delitem__(slice(None, None, 2)), [1, 3]),
    "erase backwards": (lambda seq: seq.__delitem__(slice(3, None, -2)), [0, 2]),
    "reverse": (lambda seq: seq.reverse(), [3, 2, 1, 0]),
    "extend": (lambda seq: seq.extend([[8], [9]]), [0, 1, 2, 3, 8, 9]),
    "clear": (lambda seq: seq.clear(), []),
}


class TestSharing:
    """An edit of one sequence is not seen in another, whichever of the two is edited, and where."""

    @pytest.mark.parametrize("make", [sq.split_to_sequence, list], ids=["runs", "slots"])
    @pytest.mark.parametrize(("edit", "expected"), EDITS.values(), ids=EDITS)
    def test_copies(self, edit, expected, make):
        for edits_the_first in (True, False):
            seq = TensorSequence(make(np.arange(4).reshape(4, 1)), "int64")
            seq.insert(2, [5])  # the gap is at 3
            seq.erase(2)  # and now at 2
            before = contents(seq)
            copy = seq.copy()
            edited, other = (seq, copy) if edits_the_first else (copy, seq)
            edit(edited)
            assert [int(np.ravel(item)[0]) for item in contents(edited)] == expected
            assert contents(other) == before

    @pytest.mark.parametrize(
        "key",
        [slice(None, None, 2), [0, 2], np.array([True, False, True, False])],
    )
    def test_the_sequence_that_is_assigned_keeps_its_elements(self, key):
        one = loosened(sq.split_to_sequence(np.arange(4)))
        other = loosened(sq.split_to_sequence(np.arange(4) + 10))[:2]
        one[key] = other
        assert contents(one) == [[10], [1], [11], [3]]
        assert contents(other) == [[10], [11]]

    def test_the_sequence_that_extends_keeps_its_elements(self):
        one, other = (loosened(sq.split_to_sequence(np.arange(4) + k)) for k in (0, 10))
        kept = other.copy()
        one.extend(other)
        assert contents(one) == [[i] for i in (0, 1, 2, 3, 10, 11, 12, 13)]
        assert contents(other) == contents(kept) == [[10], [11], [12], [13]]


class TestRuns:
    """Runs of one table, which may be one, two or many, by their first elements and their steps."""

    @pytest.mark.parametrize("left", [slice(0, 3), slice(0, 6, 2), slice(5, 2, -1), slice(4, 5)])
    @pytest.mark.parametrize(
        "right",
        [
            slice(3, 6),
            slice(6, 9),
            slice(6, 12, 2),
            slice(2, None, -1),
            slice(5, 6),
            slice(3, 4),
            slice(7, 11, 3),
        ],
    )
    def test_joined(self, left, right):
        numbers = list(range(12))
        seq = sq.split_to_sequence(np.arange(12))
        both = seq[left] + seq[right]
        model = numbers[left] + numbers[right]
        assert contents(both) == [[i] for i in model]
        for key in (slice(None, None, -1), slice(None, None, 2), slice(1, -1)):
            assert contents(both[key]) == [[i] for i in model[key]]
        assert contents(pickle.loads(pickle.dumps(both))) == [[i] for i in model]
        assert contents(loosened(both)) == [[i] for i in model]
        both.reverse()
        assert contents(both) == [[i] for i in model[::-1]]

    @pytest.mark.parametrize(
        "key",
        [slice(None), slice(None, None, -1), slice(None, None, 3), slice(1, None, 3)],
    )
    def test_a_shorter_last_part_at_either_end(self, key):
        array = np.arange(22).reshape(11, 2)
        seq = sq.split_to_sequence(array, 3)
        parts = [array[0:3], array[3:6], array[6:9], array[9:11]]
        assert seq[key].lengths().tolist() == [len(part) for part in parts[key]]
        assert np.array_equal(seq[key].values(), np.concatenate(parts[key]))
        for joined in (seq[key] + seq[key], loosened(seq[key])):
            assert np.array_equal(
                joined.values(), np.concatenate(parts[key] * (len(joined) // len(parts[key])))
            )
        with pytest.raises(ValueError, match="shape"):
            sq.concat_from_sequence(seq, 0, new_axis=1)
        with pytest.raises(ValueError, match="shape"):
            sq.concat_from_sequence(seq[::-1], 0, new_axis=1)

    def test_a_shorter_last_part_among_many_rows_in_any_order(self):
        array = np.arange(401)
        seq = sq.split_to_sequence(array, 2)
        order = np.random.default_rng(0).permutation(len(seq))
        expected = [array[2 * i : 2 * i + 2] for i in order]
        assert np.array_equal(seq[order].values(), np.concatenate(expected))
        with pytest.raises(ValueError, match="shape"):
            sq.concat_from_sequence(seq[order], 0, new_axis=1)

    def test_rows_of_two_tables_in_any_order(self):
        first, second = np.arange(200.0).reshape(100, 2), np.arange(200.0, 400.0).reshape(100, 2)
        seq = sq.split_to_sequence(first) + sq.split_to_sequence(second)
        order = np.random.default_rng(0).permutation(100)
        order = np.concatenate([order, order + 100, order])
        assert np.array_equal(seq[order].values(), np.concatenate([first, second])[order])
        # Numbers at equal distances, and then in another table.
        assert np.array_equal(seq[np.arange(0, 200, 3)].values(), np.concatenate([first, second])[::3])

    @pytest.mark.parametrize("step", [1, -1, 3, -2])
    @pytest.mark.parametrize("length", [1, 3])
    def test_a_short_run_before_a_long_one(self, step, length):
        """Elements are read in blocks, so that the next span begins in the middle of the long run."""
        first, second = np.arange(10).reshape(5, 2), np.arange(3002).reshape(1501, 2)
        parts = [second[i : i + length] for i in range(0, 1501, length)]
        expected = [*(first[i : i + 1] for i in range(5)), *parts[::step]]
        seq = sq.split_to_sequence(first) + sq.split_to_sequence(second, length)[::step]
        assert seq.lengths().tolist() == [len(part) for part in expected]
        assert np.array_equal(seq.values(), np.concatenate(expected))
        assert seq.to_padded().shape == (len(expected), length, 2)
        assert seq == TensorSequence(expected)
        assert seq.astype("float32") == TensorSequence(expected).astype("float32")
        if length == 1:
            assert np.array_equal(sq.concat_from_sequence(seq, 0, new_axis=1), np.stack(expected))
            assert np.array_equal(sq.concat_from_sequence(seq, 1), np.concatenate(expected, 1))

    def test_numbers_at_equal_distances_that_lead_into_another_table(self):
        """A slot is a table's id and a number of 37 bits: past these it would be in the next table."""
        n = 2**37 - 1
        several = [sq.split_to_sequence(np.broadcast_to(np.int8(k), (n,))) for k in range(4)]
        ends = [seq[[n - 3, n - 1]] for seq in several]
        fronts = [seq[[0, 2]] for seq in several]
        for i in range(4):
            for k in range(4):
                for both in (ends[i] + fronts[k], fronts[i] + ends[k]):
                    assert sq.concat_from_sequence(both, 0, new_axis=1).ravel().tolist() == [i, i, k, k]

    def test_rows_with_space_between_them(self):
        table = np.arange(800).reshape(200, 4)
        seq = sq.split_to_sequence(table[:, :2])
        order = np.concatenate([np.arange(50, 100), np.random.default_rng(0).permutation(200)])
        assert np.array_equal(seq[order].values(), table[order, :2])
        # Pairs of neighbors, without the axis that they were split along.
        seq = sq.split_to_sequence(table[:, :2], keepdims=0)
        order = (2 * np.random.default_rng(0).permutation(100)[:, None] + [0, 1]).ravel()
        assert np.array_equal(sq.concat_from_sequence(seq[order], 0, new_axis=1), table[order, :2])
        assert np.array_equal(seq[order].values(), table[order, :2].ravel())

    def test_offsets_of_part_of_a_table(self):
        values = np.arange(10)
        seq = TensorSequence.from_lengths(values, [1, 2, 3, 4])
        for key in (slice(1, None), slice(None, 3), slice(None, None, 2), slice(None, None, -1), slice(0, 1)):
            lengths = [1, 2, 3, 4][key]
            assert seq[key].offsets().tolist() == [0, *np.cumsum(lengths)]
            assert seq[key].lengths().tolist() == lengths

    def test_arrays_that_are_neighbors_in_memory(self):
        """Elements of several arrays are no view, even where one ends at the other's beginning."""
        memory = bytearray(32)
        arrays = [np.frombuffer(memory, np.int64, 2, offset) for offset in (0, 16)]
        seq = TensorSequence(arrays)
        assert seq.values().tolist() == [0, 0, 0, 0]
        assert contents(sq.sequence_map(np.negative, seq)) == [[0, 0], [0, 0]]


class TestPickles:
    def test_views_whose_ends_are_in_the_middle(self):
        """The first and the last view reach less far than one between them."""
        pa = pytest.importorskip("pyarrow", minversion="17")
        values = pa.array(np.arange(20))
        views = pa.LargeListViewArray.from_arrays([8, 2, 15, 9], [2, 5, 5, 1], values)
        seq = TensorSequence.from_arrow(views)
        expected = [[8, 9], [2, 3, 4, 5, 6], [15, 16, 17, 18, 19], [9]]
        assert contents(seq) == expected
        assert contents(pickle.loads(pickle.dumps(seq))) == expected
        assert contents(pickle.loads(pickle.dumps(seq[::-1]))) == expected[::-1]

    @pytest.mark.parametrize("order", [[3, 2, 1], [1, 3, 2], [2, 1], [3, 1, 3, 0]])
    def test_numbers_that_fall(self, order):
        seq = TensorSequence.from_lengths(np.arange(2000), [500] * 4)
        for one in (seq[order], seq[order] + seq[:1], seq[::-1]):
            assert pickle.loads(pickle.dumps(one)) == one

    def test_runs_of_several_steps(self, tmp_path):
        pytest.importorskip("pyarrow")
        sq.save(tmp_path / "a", TensorSequence.from_lengths(np.arange(300), [1, 2] * 100))
        seq = sq.load(tmp_path / "a")
        for one in (seq[0:10] + seq[10:20:2], seq[10:0:-1] + seq[0:1], seq[0:4:2] + seq[4:8:2] + seq[8:9]):
            assert pickle.loads(pickle.dumps(one)) == one


def test_a_bound_is_moved_forward_alone():
    bound = Bound()
    part = bound.shifted(10)
    bound.lower(20)
    bound.lower(30)
    assert [bound.allows(i) for i in (19, 20, 25)] == [True, False, False]
    assert [part.allows(i) for i in (9, 10)] == [True, False]
    part.lower(5)
    part.lower(7)
    assert [bound.allows(i) for i in (14, 15, 16)] == [True, False, False]


class TestOverlaps:
    """to_padded writes to `out` directly, but not where an element has even one item of it."""

    @pytest.mark.parametrize("shared", [-1, 0, 1, 2])
    @pytest.mark.parametrize("backwards", [False, True])
    @pytest.mark.parametrize("falls", [False, True], ids=["out rises", "out falls"])
    def test_at_each_end(self, shared, backwards, falls):
        for before in (True, False):
            memory = np.arange(20)
            # The last row must read what the first one would have written.
            out = memory[8:14][:: -1 if falls else 1].reshape(2, 3)
            element = memory[8 - 4 + shared : 8 + shared] if before else memory[14 - shared : 18 - shared]
            element = element[::-1] if backwards else element
            for rows in ([element[:3], element[1:]], [element[1:], element[:3]]):
                expected = np.array(rows)
                assert TensorSequence(rows).to_padded(out=out) is out
                assert np.array_equal(out, expected)

    def test_a_value_whose_bytes_differ_late(self):
        for value in (0x0101010102, 0x0201010101, 0x01010101, 0x0101010101010101):
            batch = TensorSequence([[1], [1] * 9]).to_padded(value)
            assert batch[0].tolist() == [1, *[value] * 8]


class TestEquality:
    @pytest.mark.parametrize("which", [0, 1])
    def test_layouts_that_differ_on_one_side_alone(self, which):
        cube = np.arange(24).reshape(2, 3, 4)
        layouts = [cube, np.asfortranarray(cube), cube.transpose(1, 0, 2).copy().transpose(1, 0, 2)]
        other = cube.copy()
        other[1, 2, 3] = 9
        for layout in layouts:
            for first, second in ((cube, layout), (layout, cube)):
                pair = [TensorSequence([first, first]), TensorSequence([second, cube])]
                assert pair[which] == pair[1 - which]
            changed = np.empty_like(layout)
            changed[...] = other
            assert TensorSequence([cube, cube]) != TensorSequence([cube, changed])
            assert TensorSequence([cube, changed]) != TensorSequence([cube, cube])

    def test_layouts_that_change_on_one_side_of_a_table(self):
        cube = np.arange(24).reshape(2, 3, 4)
        table = sq.split_to_sequence(cube, keepdims=0)
        for rows in ([cube[0], np.asfortranarray(cube[1])], [np.asfortranarray(cube[0]), cube[1]]):
            assert table == TensorSequence(rows)
            assert TensorSequence(rows) == table
        # The same bytes in memory, but another element.
        other = np.asfortranarray(np.empty((3, 4), cube.dtype))
        other.T.reshape(-1)[:] = cube[1].reshape(-1)
        assert table != TensorSequence([cube[0], other])
        assert TensorSequence([cube[0], other]) != table


class TestMemory:
    def test_shared_memory_counts_once(self):
        array = np.zeros(100)
        seq = TensorSequence([array[:60], array[40:], array[::-1]])
        assert seq.pinned_nbytes == 800
        memory = memoryview(bytearray(800))
        seq = TensorSequence([np.frombuffer(memory[:480]), np.frombuffer(memory[320:])])
        assert seq.pinned_nbytes == 800

    def test_negative_strides_count(self):
        class Lender:
            """An array's memory whose size nobody tells."""

            def __init__(self, array):
                self.array = array
                self.__array_interface__ = array.__array_interface__

        array = np.arange(100.0)
        assert TensorSequence([np.asarray(Lender(array[::-1]))]).pinned_nbytes == 800
        assert TensorSequence([np.asarray(Lender(array[::-2]))]).pinned_nbytes == 99 * 8 + 0

    def test_a_share_of_part_of_a_sequence_is_let_go(self):
        import sys

        array = np.zeros((50, 2))
        before = sys.getrefcount(array)
        seq = loosened(sq.split_to_sequence(array))
        for key in (slice(0, 30), slice(10, None), slice(None, None, 2), slice(None)):
            part = seq[key]
            part._check()
            del part
        del seq
        assert sys.getrefcount(array) == before
