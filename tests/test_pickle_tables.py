"""What a pickle says of where its elements lie is checked, number by number."""

import pickle

import numpy as np
import pytest

import seqcore as sq
from seqcore import TensorSequence


def state(make, arguments):
    """A function that makes the sequence again, with what is given in place of parts and table."""
    cls, dtype, parts, table = arguments

    def again(parts=parts, table=table):
        made = make(cls, dtype, parts, np.array(table))
        made._check()
        # Whoever reads beside the memory reads here.
        assert [t.shape for t in made] == made.shapes
        return made.tolist()

    return again, parts, table


def taken_apart(seq):
    make, arguments, *_ = seq.__reduce_ex__(5)
    return state(make, arguments)


ROWS = np.arange(12).reshape(3, 4)


def test_a_kept_axis():
    again, (part,), table = taken_apart(sq.split_to_sequence(ROWS, [1, 2]))
    assert part[1] == 0
    assert table.tolist() == [[0, 0, 1], [0, 1, 2]]
    assert again() == [[[0, 1, 2, 3]], [[4, 5, 6, 7], [8, 9, 10, 11]]]
    for row in ([0, 0, 3], [0, 3, 0], [0, 2, 1], [0, 0, 0]):  # to the last number that there is
        assert again(table=[row]) == [ROWS[row[1] : row[1] + row[2]].tolist()]
    for row in (
        [0, 0, 4],
        [0, 3, 1],
        [0, 4, 0],
        [0, -1, 1],
        [0, 1, -1],
        [0, 2**63 - 1, 1],
        [0, 1, 2**63 - 1],
        [0, 2**63 - 1, 2**63 - 1],
        [1, 0, 1],
        [-1, 0, 1],
        [2**63 - 1, 0, 1],
    ):
        for rows in ([row], [[0, 0, 1], row], [row, [0, 0, 1]]):
            with pytest.raises(ValueError, match=f"element {rows.index(row)} "):
                again(table=rows)


@pytest.mark.parametrize("axis", [0, 1])
def test_a_dropped_axis(axis):
    """Each element is one of the axis: no length but 1 is any, though the array would have room for it."""
    again, ((array, dropped),), table = taken_apart(sq.split_to_sequence(ROWS, axis=axis, keepdims=0))
    assert dropped == -1
    n = len(table)
    assert array.shape[0] == n
    assert table.tolist() == [[0, i, 1] for i in range(n)]
    for i in range(n):
        assert again(table=[[0, i, 1]]) == [array[i].tolist()]
    for row in ([0, 0, 0], [0, 0, 2], [0, n, 0], [0, n, 1], [0, -1, 1], [0, 0, n], [0, 0, -1]):
        for rows in ([row], [[0, 0, 1], row]):
            with pytest.raises(ValueError, match=f"element {len(rows) - 1} "):
                again(table=rows)


def test_axes_out_of_range():
    again, ((array, _),), _ = taken_apart(sq.split_to_sequence(ROWS))
    for axis in (-1, 0, 1):
        assert len(again(parts=[(array, axis)], table=[[0, 0, 1]])) == 1
    for axis in (-2, 2, 3, 2**40):
        with pytest.raises(ValueError, match="axis"):
            again(parts=[(array, axis)])
    for axis in (-1, 0):
        with pytest.raises(ValueError, match="rank 0"):
            again(parts=[(np.array(1), axis)], table=[[0, 0, 1]])


def test_several_parts():
    """Each element's numbers are for its own part."""
    seq = TensorSequence([np.arange(1000), np.arange(600), ROWS])
    again, parts, _ = taken_apart(seq)
    assert len(parts) == 3
    assert again(table=[[1, 0, 600], [0, 999, 1], [2, 0, 3]])[1] == [999]
    for row in ([1, 0, 601], [1, 600, 1], [2, 0, 600], [3, 0, 1]):
        with pytest.raises(ValueError, match="element 1 "):
            again(table=[[0, 0, 1000], row])
    with pytest.raises(ValueError, match="element 0 "):
        again(parts=[])
    assert again(parts=[], table=np.zeros((0, 3), int)) == []
    for table in (np.zeros((1, 2), int), np.zeros(3, int), np.zeros((1, 3, 1), int), np.zeros((1, 4), int)):
        with pytest.raises(ValueError, match="shape"):
            again(table=table)


def test_what_is_dropped_stays_dropped():
    """Elements of a dropped axis, in any order and from anywhere, come back as they were."""
    seq = sq.split_to_sequence(ROWS, axis=1, keepdims=0)
    for one in (seq[::-1], seq[[2, 2, 0]], seq[1:3], seq + sq.split_to_sequence(ROWS)):
        back = pickle.loads(pickle.dumps(one))
        assert back == one
        assert back.shapes == one.shapes
        again, *_ = taken_apart(back)
        assert again() == one.tolist()
