"""What takes long ends beside threads that never stop to edit."""

import numpy as np
import pytest
from support.races import beside

import seqcore as sq

pytestmark = [pytest.mark.thread_unsafe, pytest.mark.usefixtures("frequent_switches")]

N = 2000
WIDTH = 4096  # so long that the GIL is given away while they are compared or copied, and edits are quicker


def at_the_end(seq, tensor):
    seq.append(tensor)
    seq.erase(-1)


def at_the_front(seq, tensor):
    seq.insert(0, tensor)
    seq.erase(0)


def in_the_middle(seq, tensor):
    seq.insert(N // 3, tensor)
    seq.erase(N // 3)


def turned_round(seq, tensor):
    seq.reverse()


EDITS = [at_the_end, at_the_front, in_the_middle, turned_round]
BOTH = pytest.mark.parametrize("kind", ["numbers", "strings"])
EDITORS = pytest.mark.parametrize("edit", EDITS)


def rows(kind, n=N, width=WIDTH):
    """Elements that differ in their last item alone, and the array that they are cut from."""
    array = np.zeros((n, width if kind == "numbers" else 2), np.int64)
    array[:, -1] = np.arange(1, n + 1)
    if kind == "strings":
        array = array.astype(str).astype(object)
    return sq.split_to_sequence(array, keepdims=0), array


def lasts(tensors):
    return [tensor[-1] for tensor in tensors]


@pytest.mark.slow
@BOTH
@EDITORS
def test_remove_ends(kind, edit):
    seq, array = rows(kind)
    goes = [array[-1 - i].copy() for i in range(5)]
    beside(lambda: edit(seq, array[0]), lambda: [seq.remove(tensor) for tensor in goes])
    seq._check()
    assert sorted(lasts(seq)) == sorted(lasts(array)[:-5])


@EDITORS
def test_remove_of_what_is_not_there_ends(edit):
    seq, array = rows("numbers")

    def remove():
        with pytest.raises(ValueError, match="no element equals an ndarray"):
            seq.remove(np.zeros_like(array[0]))

    beside(lambda: edit(seq, array[0]), remove)
    assert len(seq) == N
    seq._check()


def test_remove_takes_the_first():
    """Of two that are equal the one in front goes, wherever edits have moved it."""
    seq, array = rows("numbers")
    wanted = np.zeros_like(array[0])
    for _ in range(5):
        first, second = wanted.copy(), wanted.copy()
        seq.insert(N // 2, first)
        seq.append(second)
        beside(lambda: at_the_front(seq, array[0]), lambda: seq.remove(wanted))
        assert seq.count(wanted) == 1
        assert np.shares_memory(seq.pop(), second)


@pytest.mark.slow
def test_tolist_is_of_one_moment():
    seq, array = rows("numbers", 3 * 16_384, 2)
    forth, back = array.tolist(), array[::-1].tolist()
    seen = []
    beside(seq.reverse, lambda: seen.extend(seq.tolist() for _ in range(5)))
    assert all(one in (forth, back) for one in seen)
