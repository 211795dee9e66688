"""from_arrow of memory that others own, without any package: what is shared, and that it is let go once."""

import gc

import numpy as np
import pytest
from support.arrow.c_data import FORMATS
from support.arrow.producers import Node, bits, fixed_size_lists, lists, numbers
from support.strategies import address, assert_holds, filled, laid_out

from seqcore import TensorSequence, concat_from_sequence

NUMBERS = [name for name in FORMATS if name not in ("bool", "string")]
from_arrow = TensorSequence.from_arrow


def offsets(*numbers, dtype="i8"):
    return np.array(numbers, dtype)


def pairs(name="int32"):
    """Lists [0, 1], [], [2, 3, 4] and their values."""
    values = filled(name, 5)
    return lists(offsets(0, 2, 2, 5), numbers(values)), [values[:2].copy(), values[:0], values[2:].copy()]


def shared(seq, *addresses):
    assert [address(one) for one in seq if one.size] == list(addresses)
    for one in seq:
        with pytest.raises(ValueError, match="WRITEABLE"):
            one.flags.writeable = True


# --- what is shared ---


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_are_elements_of_rank_0(name):
    values = filled(name, 5)
    expected = [*values[2:].copy()]
    node = numbers(values, offset=2)
    seq = from_arrow(node)
    assert seq.dtype == values.dtype
    assert_holds(seq, [np.array(one) for one in expected])
    shared(seq, *(address(values) + i * values.itemsize for i in range(2, 5)))
    del seq
    assert node.settled()


@pytest.mark.parametrize("dtype", ["i4", "i8"])
@pytest.mark.parametrize("name", NUMBERS)
def test_lists_are_elements_of_rank_1(name, dtype):
    values = filled(name, 9)
    copy = values.copy()
    node = lists(offsets(1, 3, 3, 4, 6, dtype=dtype), numbers(values, offset=2), offset=1)
    seq = from_arrow(node)
    assert seq.dtype == values.dtype
    assert_holds(seq, [copy[5:5], copy[5:6], copy[6:8]])
    shared(seq, *(address(values) + i * values.itemsize for i in (5, 6)))
    del seq
    assert node.settled()


@pytest.mark.parametrize("code", ["+vl", "+vL"])
def test_list_views(code):
    width = "i4" if code == "+vl" else "i8"
    values = filled("uint16", 8)
    copy = values.copy()
    starts, sizes = offsets(9, 5, 0, 7, 4, 1, dtype=width), offsets(9, 2, 3, 0, 3, 1, dtype=width)
    node = Node(code, 5, [None, starts, sizes], [numbers(values)], offset=1)
    seq = from_arrow(node)
    assert_holds(seq, [copy[5:7], copy[:3], copy[:0], copy[4:7], copy[1:2]])
    shared(seq, *(address(values) + 2 * i for i in (5, 0, 4, 1)))
    del seq
    assert node.settled()


def test_offsets_on_every_level():
    values = filled("float32", 60)
    copy = values.copy()
    inner = fixed_size_lists(3, 9, numbers(values, offset=4), offset=1)
    middle = fixed_size_lists(2, 3, inner, offset=1)
    node = lists(offsets(9, 0, 2, 2, 3, dtype="i4"), middle, offset=1)
    seq = from_arrow(node)
    rows = copy[4 + 3 * 3 :][: 3 * 6].reshape(3, 2, 3)
    assert_holds(seq, [rows[:2], rows[2:2], rows[2:]])
    shared(seq, address(values) + 13 * 4, address(values) + 25 * 4)
    del seq
    assert node.settled()


# Of 0, 1, 11, 12, 13 and more bytes: shorter ones than 13 are stored in their view.
WORDS = [
    "",
    "a",
    "ééééé.",
    "éééééé",
    "éééééé.",
    "語語語語",
    "語語語語.",
    "\U0001f600" * 3,
    "\U0001f600" * 4,
    "é語a",
]
WORDS += ["a\0b", "\0" * 13, "eleven byte", "twelve bytes", "thirteen byte", "", "x" * 300, "語" * 100, "xyz"]


@pytest.mark.parametrize("code", ["u", "U"])
def test_strings_are_copied(code):
    text = np.frombuffer("".join(WORDS).encode(), "u1").copy()
    ends = offsets(0, *np.cumsum([len(one.encode()) for one in WORDS]), dtype="i4" if code == "u" else "i8")
    n = len(WORDS)
    node = lists(offsets(0, 1, 3, n - 2), Node(code, n - 1, [None, ends, text], offset=1))
    seq = from_arrow(node)
    assert_holds(seq, [np.array(one, object) for one in (WORDS[1:2], WORDS[2:4], WORDS[4:-1])])
    assert node.settled()  # with the sequence still there
    assert seq[1].tolist() == WORDS[2:4]
    assert from_arrow(seq) == seq


def test_string_views():
    """Each long string in a buffer of its own, and the first buffers not in use."""
    views, texts = np.zeros((len(WORDS), 16), "u1"), [None, np.zeros(0, "u1")]
    for row, word in zip(views, map(str.encode, WORDS), strict=True):
        row[:4] = np.frombuffer(np.int32(len(word)).tobytes(), "u1")
        if len(word) <= 12:
            row[4 : 4 + len(word)] = np.frombuffer(word, "u1")
        else:
            row[4:] = np.frombuffer(word[:4] + np.array([len(texts), 2], "<i4").tobytes(), "u1")
            texts.append(np.frombuffer(b".." + word, "u1").copy())
    sizes = np.array([0 if text is None else text.size for text in texts])
    for start in range(len(WORDS)):
        buffers = [None if one is None else one.copy() for one in (None, views.ravel(), *texts, sizes)]
        node = Node("vu", len(WORDS) - start, buffers, offset=start)
        seq = from_arrow(node)
        assert_holds(seq, [np.array(one, object) for one in WORDS[start:]])
        del seq
        assert node.settled()


def test_a_column_of_a_batch():
    node, expected = pairs()
    batch = Node("+s", 2, [None], [node], offset=1, name=b"")
    assert_holds(from_arrow(batch), expected[1:])
    gc.collect()
    assert batch.settled()
    two = Node(
        "+s", 3, [None], [pairs()[0], Node("i", 3, [None, np.zeros(3, "i4")], name=b"label")], name=b""
    )
    with pytest.raises(TypeError, match=r"item.*label"):
        from_arrow(two)
    assert two.settled()


# --- nulls ---


def test_a_bitmap_without_nulls():
    items = Node("l", 5, [bits([True] * 5), np.arange(5)], null_count=-1)
    node = lists(offsets(0, 2, 5), items, valid=bits([True] * 2), null_count=-1)
    assert_holds(from_arrow(node), [np.arange(2), np.arange(2, 5)])
    assert node.settled()


@pytest.mark.parametrize("count", [-1, 0])
def test_no_bitmap(count):
    node = lists(offsets(0, 2, 5), numbers(np.arange(5), null_count=count), null_count=count)
    assert_holds(from_arrow(node), [np.arange(2), np.arange(2, 5)])


# --- odd memory ---


@pytest.mark.parametrize("width", ["i4", "i8"])
def test_empty_arrays_have_no_buffers(width):
    code = "+l" if width == "i4" else "+L"
    for node, shape in [
        (Node("f", 0, [None, None]), ()),
        (Node(code, 0, [None, None], [Node("f", 0, [None, None])]), (0,)),
        (fixed_size_lists(3, 0, Node("f", 0, [None, None])), (3,)),
        (lists(np.zeros(1, width), Node("f", 0, [None, None])), (0,)),
    ]:
        seq = from_arrow(node)
        assert_holds(seq, [])
        assert seq.dtype == "float32"
        seq.append(np.zeros(shape, "float32"))
        assert node.settled()


def test_empty_elements_have_no_memory():
    for node, shape in [
        (lists(offsets(0, 0, 0), Node("f", 0, [None, None])), (0,)),
        (lists(offsets(0, 0, 0), Node("b", 0, [None, None])), (0,)),
        (lists(offsets(0, 0, 0), Node("U", 0, [None, None, None])), (0,)),
        (lists(offsets(0, 0, 0), fixed_size_lists(3, 0, Node("f", 0, [None, None]))), (0, 3)),
        (fixed_size_lists(0, 2, Node("f", 0, [None, None])), (0,)),
    ]:
        seq = from_arrow(node)
        assert seq.shapes == [shape] * 2
        seq._check()
        assert concat_from_sequence(seq, 0).size == 0
        del seq
        assert node.settled()


@pytest.mark.parametrize("name", ["int16", "float64"])
def test_unaligned_memory(name):
    values = laid_out(filled(name, 6), "unaligned")
    ends = laid_out(offsets(0, 2, 6), "unaligned")
    assert values.ctypes.data % 2
    copy = values.copy()
    node = lists(ends, numbers(values))
    seq = from_arrow(node)
    assert_holds(seq, [copy[:2], copy[2:]])
    assert concat_from_sequence(seq, 0).tolist() == copy.tolist()
    node = Node("+vL", 2, [None, laid_out(offsets(4, 0), "unaligned"), ends[:2]], [numbers(copy)])
    assert from_arrow(node).shapes == [(0,), (2,)]
