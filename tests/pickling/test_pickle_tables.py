"""What a pickle says of where its elements are is checked, number by number."""

import itertools
import pickle

import numpy as np
import pytest

import seqcore as sq
from seqcore import TensorSequence

BEYOND = (2**31, 2**62, 2**63 - 1)


def reduced(seq):
    """A function that makes the sequence again, with what is given in place of parts and order; and these."""
    make, (cls, dtype, parts, order), *_ = seq.__reduce_ex__(5)

    def again(parts=parts, order=order):
        made = make(cls, dtype, parts, order)
        made._check()
        # A read beside the memory would be here.
        assert [t.shape for t in made] == made.shapes
        return made.tolist()

    return again, parts, order


ROWS = np.arange(12).reshape(3, 4)


def test_offsets():
    again, ((kind, array, axis, offsets),), runs = reduced(sq.split_to_sequence(ROWS, [1, 2]))
    assert (kind, axis, offsets.tolist(), runs) == ("offsets", 0, [0, 1, 3], ((0, 0, 1, 2),))
    assert again() == [[[0, 1, 2, 3]], [[4, 5, 6, 7], [8, 9, 10, 11]]]
    for given in ([0, 3, 3], [0, 0, 3], [0, 2, 3]):
        parts = [("offsets", array, 0, np.array(given))]
        assert again(parts=parts) == [ROWS[a:b].tolist() for a, b in itertools.pairwise(given)]
    for given in (
        *([0, 1, 2], [0, 1, 4], [1, 2, 3], [0, 2, 1], [0, 4, 3], [0, -1, 3], [-1, 1, 3], []),
        *([0, number, 3] for number in BEYOND),
        *([0, 1, number] for number in BEYOND),
        *([0, -number, 3] for number in BEYOND),
        [0, -(2**63), 3],
    ):
        for dtype in (np.int64, *([np.uint64] if min(given, default=0) >= 0 else [])):
            with pytest.raises(ValueError, match="pickle"):
                again(parts=[("offsets", array, 0, np.array(given, dtype))])


def test_lengths_of_even_parts():
    again, ((kind, array, axis, length),), runs = reduced(sq.split_to_sequence(ROWS, 2))
    assert (kind, axis, length, runs) == ("even", 0, 2, ((0, 0, 1, 2),))
    for length, n in ((1, 3), (2, 2), (3, 1), (4, 1), *((number, 1) for number in (*BEYOND, 2**63, 10**30))):
        expected = [ROWS[i : i + length].tolist() for i in range(0, 3, length)]
        assert again([("even", array, 0, length)], ((0, 0, 1, n),)) == expected
        with pytest.raises(IndexError):
            again([("even", array, 0, length)], ((0, 0, 1, n + 1),))
    for length in (0, -1, -(2**63), -(10**30), True, 1.0, np.int64(2), None):
        with pytest.raises((ValueError, TypeError), match="length"):
            again([("even", array, 0, length)])


@pytest.mark.parametrize("axis", [0, 1])
def test_a_dropped_axis(axis):
    """Each element is one of the axis: no length but 1 is any, though the array would have room for it."""
    again, ((kind, array, dropped, length),), runs = reduced(
        sq.split_to_sequence(ROWS, axis=axis, keepdims=0)
    )
    assert (kind, dropped, length) == ("even", -1, 1)
    n = array.shape[0]
    assert runs == ((0, 0, 1, n),)
    for i in range(n):
        assert again(order=((0, i, 1, 1),)) == [array[i].tolist()]
        assert again(order=(None, np.array([i]))) == [array[i].tolist()]
    for length in (0, 2, n, -1):
        with pytest.raises(ValueError, match="length"):
            again(parts=[("even", array, -1, length)])
    for kind, *rest in (("offsets", np.arange(n + 1)), ("views", np.arange(n), np.ones(n, int))):
        with pytest.raises(ValueError, match="axis -1"):
            again(parts=[(kind, array, -1, *rest)])


def test_axes_out_of_range():
    for again, (part,), _ in (
        reduced(sq.split_to_sequence(ROWS)),
        reduced(sq.split_to_sequence(ROWS, [1, 0, 2])),
        reduced(TensorSequence.from_arrow(list_views())),
    ):
        kind, array, _, *rest = part
        assert len(again(order=((0, 0, 1, 1),))) == 1
        for axis in (-3, -2, array.ndim, 3, 2**40, 2**70, True, None, "0", 0.0):
            with pytest.raises(ValueError, match="axis"):
                again(parts=[(kind, array, axis, *rest)])
        for axis in (-1, 0):
            with pytest.raises(ValueError, match=r"rank 0|elements of length"):
                again(parts=[(kind, np.array(1), axis, *rest)])


def list_views():
    pa = pytest.importorskip("pyarrow")
    return pa.ListViewArray.from_arrays([3, 0, 3], [2, 3, 0], pa.array([*range(5)]))


def test_views():
    again, (part,), _ = reduced(TensorSequence.from_arrow(list_views()))
    kind, array, axis, starts, lengths = part
    assert (kind, axis, starts.tolist(), lengths.tolist()) == ("views", 0, [3, 0, 3], [2, 3, 0])
    assert again() == [[3, 4], [0, 1, 2], []]
    one = ((0, 0, 1, 1),)
    for start, length in ((0, 5), (5, 0), (0, 0), (4, 1)):
        found = again([("views", array, 0, np.array([start]), np.array([length]))], one)
        assert found == [[*range(start, start + length)]]
    pairs = [(0, 6), (5, 1), (6, 0), (-1, 1), (1, -1), (-1, 0), (0, 2**63 - 1), (2**63 - 1, 1)]
    for start, length in [
        *pairs,
        (2**63 - 1, 2**63 - 1),
        (-(2**63), 1),
        (-(2**63), -(2**63)),
        (2**62, 2**62),
    ]:
        with pytest.raises(ValueError, match="element 1 "):
            again([("views", array, 0, np.array([0, start]), np.array([0, length]))], one)
    with pytest.raises(IndexError):  # the shorter of both says how many there are
        again([("views", array, 0, np.array([0, 1]), np.array([0]))], ((0, 0, 1, 2),))


@pytest.mark.usual_limits
def test_shapes():
    seq = pickle.loads(pickle.dumps(TensorSequence([np.ones((1, 2)), np.zeros((2, 3))], copy=True)))
    again, (part,), _ = reduced(seq)
    kind, items, offsets, shapes = part
    assert (kind, offsets.tolist(), shapes.tolist()) == ("shaped", [0, 2, 8], [[1, 2], [2, 3]])
    assert again() == [[[1, 1]], [[0, 0, 0], [0, 0, 0]]]
    assert again([("shaped", items, offsets, np.array([[2, 1], [6, 1]]))])[0] == [[1], [1]]
    for shape in (
        *([1, 3], [2, 2], [0, 2], [-1, -2], [1, -2], [2**32, 2**32], [2**63 - 1, 2], [-(2**63), 2]),
        *([2**62, 4], [0, 0]),
    ):
        with pytest.raises(ValueError, match="element 0 "):
            again([("shaped", items, offsets, np.array([shape, [2, 3]]))])
    for given in ([0, 2, 9], [0, 9, 8], [-1, 2, 8], [0, 2, 7], [0, 2], [0, 2, 8, 8], [], [0, 2**62, 8]):
        with pytest.raises(ValueError, match=r"element|offsets"):
            again([("shaped", items, np.array(given, int), shapes)])
    empty = np.array([0, 0, 8])
    for shape in ([0, 5], [5, 0], [0, 2**59], [0, 0]):
        found = again([("shaped", items, empty, np.array([shape, [2, 4]]))], ((0, 0, 1, 1),))
        assert found == [[[]] * shape[0]]
    with pytest.raises(ValueError, match="element 0 "):
        again([("shaped", items, empty, np.array([[0, 2**60], [2, 4]]))])
    for odd in (items[::2], items.reshape(2, 4), np.array(1.0)):
        with pytest.raises(ValueError, match=r"one axis|offsets|element"):
            again([("shaped", odd, offsets, shapes)])
    for odd in (np.zeros((2, 0), int), np.ones((2, 65), int), shapes[0], shapes[None], shapes[:1]):
        with pytest.raises(ValueError, match=r"rank|shapes|offsets|tensors"):
            again([("shaped", items, offsets, odd)])


def test_runs():
    again, _, _ = reduced(sq.split_to_sequence(np.arange(10), 2))
    model = [[i, i + 1] for i in range(0, 10, 2)]
    as_array = lambda runs: np.array(runs, np.int64)  # noqa: E731
    for form in (tuple, as_array):
        for first, step, n in ((0, 1, 5), (4, -1, 5), (1, 2, 2), (4, -4, 2), (2, 1, 1)):
            assert again(order=form([(0, first, step, n)])) == [model[first + i * step] for i in range(n)]
        assert again(order=form([(0, 4, -2, 3), (0, 4, 1, 1)])) == [model[i] for i in (4, 2, 0, 4)]
        for run in (
            *((0, 0, 1, 6), (0, 5, 1, 1), (0, -1, 1, 1), (0, 4, 1, 2), (0, 0, -1, 2), (0, 0, 3, 3)),
            *((0, 0, 0, 2), (0, 0, 1, 0), (0, 0, 1, -1), (1, 0, 1, 1), (-1, 0, 1, 1), (2**62, 0, 1, 1)),
            *((0, 2**62, 1, 1), (0, 0, 2**62, 5), (0, 0, 2**63 - 1, 3), (0, 1, -(2**63), 3)),
            *((0, 0, 1, 2**63 - 1), (0, 0, 2**61, 9), (0, 4, -(2**61), 9), (0, 0, 2**62, 2**62)),
        ):
            for runs in ([run], [(0, 0, 1, 1), run], [run, (0, 0, 1, 1)]):
                with pytest.raises((ValueError, IndexError), match=r"pickle is damaged: .*run"):
                    again(order=form(runs))
    for run in ((0, 0, 1), (0, 0, 1, 1, 1), (), (0, 0, 1, 1.0), (0, 0, 1, None), (0, 0, True, 1), "0011"):
        with pytest.raises(TypeError, match=r"pickle is damaged: .*run"):
            again(order=(run,))
    huge = 10**30
    for run in ((0, 2**63, 1, 1), (0, 0, huge, 2), (0, 4, -huge, 2), (0, 0, 1, huge), (huge, 0, 1, 1)):
        with pytest.raises((ValueError, IndexError), match=r"pickle is damaged: .*run"):
            again(order=(run,))
    for order in (np.zeros((1, 3), int), np.zeros((1, 5), int), np.zeros(4, int), np.zeros((1, 4, 1), int)):
        with pytest.raises(ValueError, match="shape"):
            again(order=order)
    for order in (np.zeros((1, 4)), np.zeros((1, 4), object), None, 5, [(0, 0, 1, 1)], {}, "runs", b"runs"):
        with pytest.raises(TypeError, match="pickle is damaged"):
            again(order=order)
    for order in (5, (5,), ((0, 0, 1, 1), 5)):
        with pytest.raises(TypeError):
            again(order=order)


@pytest.mark.parametrize("step", [1, -1, 99, 2**63 - 1, 0, 10**30, -(2**63)])
def test_the_step_of_one_element(step):
    """It leads nowhere."""
    again, _, _ = reduced(sq.split_to_sequence(np.arange(10), 2))
    assert again(order=((0, 2, step, 1),)) == [[4, 5]]
    assert again(order=((0, 2, step, 1), (0, 3, 1, 2))) == [[4, 5], [6, 7], [8, 9]]


def test_numbers():
    again, _, _ = reduced(sq.split_to_sequence(np.arange(10), 2))
    model = [[i, i + 1] for i in range(0, 10, 2)]
    for dtype in ("uint8", "uint16", "uint32", "uint64", "int8", "int64", ">i4"):
        numbers = np.array([4, 0, 0, 3], dtype)
        assert again(order=(None, numbers)) == [model[i] for i in (4, 0, 0, 3)]
        assert again(order=(np.zeros(4, dtype), numbers)) == [model[i] for i in (4, 0, 0, 3)]
    assert again(order=(None, np.array([], "uint8"))) == []
    for number in (-1, 5, 255, *BEYOND, -(2**63)):
        for at in range(3):
            numbers = np.zeros(3, np.int64)
            numbers[at] = number
            with pytest.raises(IndexError, match="number that its part doesn't have"):
                again(order=(None, numbers))
    with pytest.raises(ValueError, match="too large"):
        again(order=(None, np.array([2**63], np.uint64)))
    for numbers in (np.zeros(3), np.zeros(3, object), np.zeros(3, bool), np.zeros(3, "U1")):
        with pytest.raises(TypeError, match="numbers"):
            again(order=(None, numbers))
    for numbers in (np.zeros((3, 1), int), np.array(0)):
        with pytest.raises(ValueError, match="shape"):
            again(order=(None, numbers))


def test_several_parts():
    """Each element's number is for its own part."""
    seq = TensorSequence([np.arange(1000), np.arange(600), ROWS, np.arange(1000) + 5])
    seq = seq[[0, 3, 2, 1, 0]]
    again, parts, (which, numbers) = reduced(seq)
    assert [kind for kind, _ in parts] == ["whole"] * 4
    assert which.tolist() == [0, 1, 2, 3, 0]
    assert again(order=(np.array([1, 1, 3, 0]), np.zeros(4, int)))[2] == [*range(600)]
    for part in (-1, 4, 255, *BEYOND, -(2**63)):
        with pytest.raises(ValueError, match="beyond its 4 parts"):
            again(order=(np.array([0, part]), np.zeros(2, int)))
    for number in (1, 2, -1, 255):
        with pytest.raises(IndexError, match="number"):
            again(order=(np.array([0, 3]), np.array([0, number])))
    for odd in (None, np.zeros(4, int), np.zeros(6, int)):
        with pytest.raises(ValueError, match="which one each element"):
            again(order=(odd, numbers))
    for odd in (np.zeros(5), 0, [0] * 5, "abcde"):
        with pytest.raises(TypeError, match="parts"):
            again(order=(odd, numbers))
    rows = sq.split_to_sequence(ROWS)
    again, parts, _ = reduced(rows + seq[:1] + rows[::-1])
    assert again(order=((1, 0, 1, 1), (0, 2, -1, 3))) == [[*range(1000)], *rows[::-1].tolist()]
    for run in ((1, 0, 1, 2), (1, 1, 1, 1), (0, 3, 1, 1), (2, 0, 1, 1)):
        with pytest.raises((ValueError, IndexError), match="a run"):
            again(order=((0, 0, 1, 3), run))
    assert again(parts=[], order=()) == []
    with pytest.raises(ValueError, match="part 0, but there are 0 parts"):
        again(parts=[], order=((0, 0, 1, 1),))
    with pytest.raises(ValueError, match="beyond its 0 parts"):
        again(parts=[], order=(np.array([0]), np.array([0])))


def test_parts_that_are_none():
    again, (part,), _ = reduced(sq.split_to_sequence(ROWS))
    kind, array, axis, length = part
    for odd in (
        *((), (kind,), (kind, array), (kind, array, axis), (*part, 1), [*part], None, 5, "even", array),
        *(("Even", *part[1:]), (None, *part[1:]), (5, *part[1:]), ("padded", *part[1:])),
        *((kind, None, axis, length), (kind, ROWS.tolist(), axis, length), (kind, memoryview(array), 0, 1)),
        *(("whole", array, 0), ("whole", None), ("whole",), ("file",), ("file", "x"), ("file", array)),
    ):
        with pytest.raises((TypeError, ValueError), match=r"pickle sequence|pickle is damaged"):
            again(parts=[odd])
        with pytest.raises((TypeError, ValueError), match=r"pickle sequence|pickle is damaged"):
            again(parts=[part, odd])
    for odd in (array.astype("int32"), array.astype("float64"), array.astype(object), array.astype("U1")):
        with pytest.raises(TypeError, match=r"int64|dtype"):
            again(parts=[(kind, odd, axis, length)])
    for odd in ((part,), None, {}, array, iter([part])):
        with pytest.raises(TypeError, match="list of parts"):
            again(parts=odd)


def test_numbers_of_others_are_copied():
    """What is given may be changed later, or be memory of a pickle's buffers."""
    array, offsets = np.arange(3), np.array([0, 1, 3])
    make, (cls, dtype, _, runs), *_ = TensorSequence.from_offsets(array, offsets).__reduce_ex__(5)
    seq = make(cls, dtype, [("offsets", array, 0, offsets)], runs)
    views = make(cls, dtype, [("views", array, 0, offsets[:2], lengths := np.array([1, 2]))], ((0, 0, 1, 2),))
    shaped = make(cls, dtype, [("shaped", array, offsets, shapes := np.array([[1], [2]]))], runs)
    offsets[:] = lengths[:] = shapes[:] = 2**60
    for one in (seq, views[:1] + views[:0], shaped):
        one._check()
    assert seq.tolist() == [[0], [1, 2]]
    assert views.tolist() == [[0], [1, 2]]
    assert shaped.tolist() == [[0], [1, 2]]


def test_a_dropped_axis_stays_dropped():
    """Elements of a dropped axis, in any order and from anywhere, come back as they were."""
    seq = sq.split_to_sequence(ROWS, axis=1, keepdims=0)
    for one in (seq[::-1], seq[[2, 2, 0]], seq[1:3], seq + sq.split_to_sequence(ROWS)):
        back = pickle.loads(pickle.dumps(one))
        assert back == one
        assert back.shapes == one.shapes
        again, *_ = reduced(back)
        assert again() == one.tolist()
