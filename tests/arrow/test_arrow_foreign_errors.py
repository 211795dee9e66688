"""Producers that fail, lie or make no sense: from_arrow raises, and lets go of everything once."""

import contextlib
import ctypes
import gc
import itertools
import json
import re
import signal

import numpy as np
import pytest
from seqcore.core.arrow import read_schema
from support.arrow.c_data import Schema, release
from support.arrow.producers import Node, Stream, bits, fixed_size_lists, lists, numbers, settle
from support.damaged_elements import assert_damaged
from support.strategies import assert_holds

import seqcore as sq
from seqcore import TensorSequence

from_arrow = TensorSequence.from_arrow
NONSENSE = (TypeError, ValueError)


def rows():
    return lists(np.array([0, 2, 5]), numbers(np.arange(5)))


def refused(node, error=NONSENSE, match=None):
    """An error, and everything is released once."""
    with pytest.raises(error, match=match) as caught:
        from_arrow(node)
    text = str(caught.value)
    assert text
    del caught
    assert node.settled()
    return text


def survived(node):
    """An error or a sound sequence, and everything is released once."""
    with contextlib.suppress(*NONSENSE):
        from_arrow(node)._check()
    assert node.settled()


# --- streams that fail ---


@pytest.mark.parametrize("fails_at", ["schema", 0, 1, 2])
@pytest.mark.parametrize("errno", [5, 12, 22, 99999])
def test_the_producers_message(fails_at, errno):
    stream = Stream(rows, [rows(), rows()], fails_at=fails_at, errno=errno)
    with pytest.raises(Exception, match="the disk is gone") as caught:
        from_arrow(stream)
    assert isinstance(caught.value, (OSError, ValueError, RuntimeError, MemoryError, NotImplementedError))
    del caught
    assert stream.settled()


@pytest.mark.parametrize("message", [None, b"", b"\xff\xfe no UTF-8", b"x" * 10000, "§".encode()])
def test_odd_messages(message):
    stream = Stream(rows, [rows()], fails_at=1, message=message)
    with pytest.raises((OSError, ValueError, RuntimeError)) as caught:
        from_arrow(stream)
    assert str(caught.value)
    del caught
    assert stream.settled()


def test_the_chunks_before_are_let_go():
    chunks = [rows(), rows()]
    stream = Stream(rows, chunks, fails_at=2)
    with pytest.raises((OSError, RuntimeError, ValueError)):
        from_arrow(stream)
    gc.collect()
    assert [one.released for one in chunks] == [1, 1]
    assert stream.settled()


def test_a_chunk_with_nulls_names_the_element_of_all():
    def chunk(valid):
        return lists(np.array([0, 2, 4]), numbers(np.arange(4)), valid=bits(valid), null_count=-1)

    stream = Stream(rows, [chunk([1, 1]), chunk([1, 1]), chunk([1, 0])])
    assert "5" in refused(stream, TypeError, "null")


def test_a_type_without_a_counterpart_reads_no_chunk():
    def dates():
        return Node("tdD", 2, [None, np.arange(2, dtype="i4")])

    refused(Stream(dates, [dates()]), TypeError, "date")


@pytest.mark.parametrize("missing", ["get_schema", "get_next"])
def test_a_stream_without_a_function(missing):
    stream = Stream(rows, [rows()])
    setattr(stream.stream, missing, None)
    assert missing in refused(stream, ValueError, "damaged")
    assert stream.settled()


@pytest.mark.parametrize("fails_at", ["schema", 1])
def test_a_stream_that_can_not_say_why_it_failed(fails_at):
    stream = Stream(rows, [rows()], fails_at=fails_at)
    stream.stream.get_last_error = None
    refused(stream, OSError, "it gave no reason")
    assert stream.settled()


@pytest.mark.slow
@pytest.mark.thread_unsafe
@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs signals")
def test_ctrl_c_in_a_type_of_endless_fields():
    """A few structs, each of which is twice a child of the next."""
    nodes, arrays = [Node("l", 0, [None, None])], []
    for _ in range(60):
        twice = ctypes.pointer(nodes[-1].schema)
        arrays.append((ctypes.POINTER(Schema) * 2)(twice, twice))
        nodes.append(Node("+s", 0, [None]))
        nodes[-1].schema.n_children, nodes[-1].schema.children = 2, arrays[-1]

    def handle(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, handle)
    gc.disable()  # what others have it call would run the handler too
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    try:
        with pytest.raises(KeyboardInterrupt):
            read_schema(nodes[-1].__arrow_c_schema__())
    finally:
        signal.signal(signal.SIGALRM, before)
        gc.enable()
    for node in nodes:
        node.schema.n_children = 0
        settle(node.schema, node.array)


# --- already released ---


@pytest.mark.parametrize("which", ["schema", "array", "both"])
def test_released_structs(which):
    node = rows()
    if which != "array":
        release(node.schema)
    if which != "schema":
        release(node.array)
    refused(node)


def test_a_stream_taken_twice():
    stream = Stream(rows, [rows()])
    seq = from_arrow(stream)
    with pytest.raises(NONSENSE, match="released"):
        from_arrow(stream)
    assert_holds(seq, [np.arange(2), np.arange(2, 5)])


# --- types ---


@pytest.mark.parametrize(
    "format",
    [
        *(b"", b"x", b"+", b"+x", b"ff", b"+lx", b"li", b"\xff", b"\xff\xfe", b" i", b"i ", b"+l:", b"I:3"),
        *(b"+w", b"+w:", b"+w:x", b"+w:-1", b"+w:1.5", b"+w:3x", b"+w: 3", b"+w:99999999999999999999"),
        *(b"+w:9223372036854775807", b"d:", b"d:19", b"w:", b"w:x", b"tss", b"ts", b"+u", b"+ud:"),
        b"x" * 10000,
    ],
)
def test_unknown_formats(format):
    for items in ([], [numbers(np.arange(4))]):
        refused(Node(format, 2, [None, np.array([0, 2, 4])], items))
        refused(lists(np.array([0, 1, 2]), Node(format, 2, [None, np.array([0, 2, 4])], items)))


def test_no_format():
    node = rows()
    node.schema.format = None
    refused(node)


@pytest.mark.parametrize("format", [b"+l", b"+L", b"+vl", b"+vL", b"+w:2", b"+s", b"+r", b"+m"])
def test_children_missing(format):
    count = {b"+r": 0, b"+w": 1, b"+s": 1, b"+v": 3}.get(format[:2], 2)
    for number in (0, 2):
        buffers = [None, np.array([0, 2, 4]), np.array([2, 2, 2])][:count]
        node = Node(format, 2, buffers, [numbers(np.arange(1, 9)) for _ in range(number)])
        (survived if number else refused)(node)


@pytest.mark.parametrize("n", [0, 2, -1, 2**40])
def test_children_of_one_and_not_of_the_other(n):
    for changed in ("schema", "array"):
        node = rows()
        getattr(node, changed).n_children = n
        refused(node)


def test_no_pointers_to_children():
    for changed in ("schema", "array"):
        node = rows()
        getattr(node, changed).children = None
        refused(node)
        node = rows()
        getattr(node, changed).children[0] = None
        refused(node)


MAKERS = {
    "numbers": lambda: numbers(np.arange(4)),
    "bools": lambda: Node("b", 4, [None, bits([1, 0, 0, 1])]),
    "lists": rows,
    "fixed": lambda: fixed_size_lists(2, 2, numbers(np.arange(4))),
    "text": lambda: Node("u", 1, [None, np.zeros(2, "i4"), np.zeros(4, "u1")]),
    "views of text": lambda: Node("vu", 1, [None, np.zeros(16, "u1"), np.zeros(1, "i8")]),
    "views": lambda: Node("+vl", 1, [None, np.zeros(1, "i4"), np.ones(1, "i4")], [numbers(np.arange(4))]),
}


@pytest.mark.parametrize("kind", MAKERS)
def test_another_number_of_buffers(kind):
    node = MAKERS[kind]()
    right = node.array.n_buffers
    for n in (-1, *range(right)):
        node = MAKERS[kind]()
        node.array.n_buffers = n
        survived(node)
    if kind not in ("fixed", "views of text"):
        node = MAKERS[kind]()
        node.array.n_buffers = right - 1
        refused(node)


def test_no_buffers():
    for make in (rows, MAKERS["numbers"]):
        node = make()
        node.array.buffers = None
        refused(node)
    refused(Node("l", 4, [None, None]))
    refused(Node("+L", 1, [None, None], [numbers(np.arange(4))]))
    refused(lists(np.array([0, 4]), Node("l", 4, [None, None])))
    refused(lists(np.array([0, 4]), Node("b", 4, [None, None])))
    refused(Node("u", 1, [None, np.array([0, 4], "i4"), None]))


@pytest.mark.parametrize(
    "make", [lambda one: fixed_size_lists(1, 1, one), lambda one: lists(np.array([0, 1]), one)]
)
def test_types_of_many_levels(make):
    """NumPy has 64 dimensions."""
    node = numbers(np.arange(1))
    for _ in range(60):
        node = make(node)
    assert from_arrow(node)[0].shape == (1,) * 60
    assert node.settled()
    for levels in (70, 300):
        node = numbers(np.arange(1))
        for _ in range(levels):
            node = make(node)
        refused(node)


# --- numbers ---


@pytest.mark.parametrize("field", ["length", "offset"])
@pytest.mark.parametrize("number", [-2, -(2**63)])
def test_numbers_below_0(field, number):
    for make in (rows, lambda: numbers(np.arange(4)), lambda: fixed_size_lists(2, 2, numbers(np.arange(4)))):
        node = make()
        setattr(node.array, field, number)
        refused(node)


@pytest.mark.parametrize(
    "ends",
    [(-1, 2, 3, 5), (0, 2, 3, 6), (0, 2, 3, 2**40), (5, 4, 3, 2), (-(2**62), 2, 3)],
)
def test_the_first_or_the_last_offset_is_out_of_the_child(ends):
    refused(lists(np.array(ends), numbers(np.arange(5))))
    if max(map(abs, ends)) < 2**31:
        refused(lists(np.array(ends, "i4"), numbers(np.arange(5))))


@pytest.mark.parametrize(
    ("ends", "damaged"),
    [((0, 3, 2, 5), {1}), ((0, -(2**62), 2, 3), {0, 1}), ((0, 2**62, 2, 3), {0, 1}), ((2, 1, 5), {0, 1})],
)
def test_other_offsets_out_of_the_child(ends, damaged):
    """The array is taken; each element that they spoil is an error when it is used, and no other."""
    pairs = enumerate(itertools.pairwise(ends))
    elements = [None if at in damaged else np.arange(*pair) for at, pair in pairs]
    for width in ("i8", "i4") if max(map(abs, ends)) < 2**31 else ("i8",):
        node = lists(np.array(ends, width), numbers(np.arange(5)))
        seq = from_arrow(node)
        assert_damaged(seq, damaged, elements)
        del seq
        assert node.settled()


@pytest.mark.parametrize("code", ["+vl", "+vL"])
@pytest.mark.parametrize(
    ("start", "size"),
    [(-1, 2), (-4, 0), (4, 2), (6, 0), (0, 6), (0, -1), (2, -1), (2**31 - 1, 1), (2**31 - 1, 2**31 - 1)],
)
def test_views_out_of_the_child(code, start, size):
    width = "i4" if code == "+vl" else "i8"
    node = Node(
        code, 2, [None, np.array([0, start], width), np.array([1, size], width)], [numbers(np.arange(5))]
    )
    refused(node, ValueError, "a list view reaches outside of its values")


def test_children_too_short():
    refused(fixed_size_lists(3, 2, numbers(np.arange(5))))
    refused(fixed_size_lists(3, 1, numbers(np.arange(5)), offset=1))
    refused(lists(np.array([0, 2]), fixed_size_lists(3, 2, numbers(np.arange(5)))))
    refused(fixed_size_lists(2**40, 2**40, numbers(np.arange(5))))
    refused(Node("+s", 3, [None], [numbers(np.arange(2))]))


@pytest.mark.parametrize("sound", [0, 1, 2])
def test_columns_shorter_than_their_table(sound):
    """A table says how many rows it has, and from which on; each column has to have them."""

    def column(k, short):
        values = np.arange(6 if k == sound else short)
        return numbers(values, name=b"abc"[k : k + 1])

    for short, options in ((2, {}), (5, {"offset": 3}), (0, {})):
        table = Node("+s", 3, [None], [column(k, short) for k in range(3)], **options)
        with pytest.raises(ValueError, match=r"column '[ab]': the Arrow array is damaged: items . to ."):
            sq.Columns.from_arrow(table)
        assert table.settled()
    nested = lists(np.array([0, 2, 4]), numbers(np.arange(4)), name=b"n")
    table = Node("+s", 3, [None], [nested])
    with pytest.raises(ValueError, match="column 'n': the Arrow array is damaged"):
        sq.Columns.from_arrow(table)
    assert table.settled()


@pytest.mark.parametrize("shape", [[-1, -3], [2, 2], [3, -1], [2**70], []])
@pytest.mark.parametrize("length", [0, 2])
def test_shapes_that_no_tensor_has(shape, length):
    metadata = {
        b"ARROW:extension:name": b"arrow.fixed_shape_tensor",
        b"ARROW:extension:metadata": json.dumps({"shape": shape}).encode(),
    }
    column = fixed_size_lists(3, length, numbers(np.arange(3 * length)), name=b"t", metadata=metadata)
    table = Node("+s", length, [None], [column])
    with pytest.raises(
        ValueError, match="column 't': the shape of an Arrow tensor of 3 items must have that"
    ):
        sq.Columns.from_arrow(table)
    assert table.settled()


@pytest.mark.parametrize("index", [-1, 3, 127])
def test_dictionary_indices_out_of_it(index):
    words = Node("g", 3, [None, np.array([0.5, 1.5, 2.5])])
    refused(Node("c", 3, [None, np.array([2, index, 0], "i1")], dictionary=words))


@pytest.mark.parametrize("code", ["u", "U"])
@pytest.mark.parametrize("place", range(5))
@pytest.mark.parametrize("end", [-1, 11, 2**31 - 1, -(2**31)])
def test_string_offsets_that_fall_at_each_place(code, place, end):
    ends = np.array([2, 4, 6, 8, 10], "i4" if code == "u" else "i8")
    if place == 4:
        end = min(end, 7)  # nothing says how long the data are
    ends[place] = end
    node = Node(code, 4, [None, ends, np.zeros(16, "u1")])
    refused(node, ValueError, "the offsets of its strings decrease")


def viewed(*rows, texts=(b"x" * 22,), size=22):
    """Views of strings: each the 16 bytes, or a length, a prefix, a buffer and a place in it."""
    views = b"".join(row if isinstance(row, bytes) else np.array(row, "<i4").tobytes() for row in rows)
    texts = [None if text is None else np.frombuffer(text, "u1").copy() for text in texts]
    sizes = np.full(len(texts), size)
    return Node("vu", len(views) // 16, [None, np.frombuffer(views, "u1").copy(), *texts, sizes])


@pytest.mark.parametrize(
    "bad", [b"\xff\xfe", b"\xed\xa0\x80", b"\xc3", b"a" * 13 + b"\xc3", b"\xf4\x90\x80\x80" * 4]
)
@pytest.mark.parametrize("place", range(3))
def test_strings_that_are_not_utf8(bad, place):
    """The strings before it are released, and the error gives positions within the string itself."""
    words = [b"first", "語".encode(), b"last"]
    words[place] = bad
    with pytest.raises(UnicodeDecodeError) as caught:
        bad.decode()
    message = re.escape(f"the Arrow array has a string that is not UTF-8: {caught.value}")
    ends, text = np.cumsum([0, *map(len, words)]), np.frombuffer(b"".join(words) + b"\xa9", "u1").copy()
    refused(Node("U", 3, [None, ends, text]), ValueError, message)
    rows = [(np.int32(len(word)).tobytes() + word).ljust(16, b"\xa9") for word in words]
    if len(bad) > 12:
        rows[place] = (len(bad), 0, 0, 2)
    refused(viewed(*rows, texts=[b".." + bad + b"\xa9"]), ValueError, message)


def listed(values, name, ends=(0, 2, 4)):
    return lists(np.array(ends), values, name=name)


@pytest.mark.parametrize(
    ("data", "shape", "message"),
    [
        (lambda: numbers(np.arange(2), name=b"data"), [[1], [1]], "data .* must be lists, got"),
        (lambda: listed(numbers(np.arange(4)), b"data"), np.ones((2, 1)), "shapes .* must be lists of int"),
        (
            lambda: listed(lists(np.array([0, 1, 2, 3, 4]), numbers(np.arange(4))), b"data"),
            [[2], [2]],
            "data .* must be lists of numbers, got nested lists",
        ),
    ],
)
def test_tensors_of_other_parts(data, shape, message):
    shape = np.asarray(shape)
    shapes = fixed_size_lists(shape.shape[1], 2, numbers(shape.ravel()), name=b"shape")
    marks = {b"ARROW:extension:name": b"arrow.variable_shape_tensor", b"ARROW:extension:metadata": b"{}"}
    refused(Node("+s", 2, [None], [data(), shapes], metadata=marks), ValueError, message)


@pytest.mark.parametrize("ends", [np.array([1.0, 2.0]), np.array([1, 2], "int8"), np.array([1, 2], "uint32")])
def test_run_ends_of_other_types(ends):
    children = [numbers(ends, name=b"run_ends"), numbers(np.arange(2.0), name=b"values")]
    refused(Node("+r", 2, [], children), ValueError, "the run ends of an Arrow array must be integers")


# --- offsets and views that lead elsewhere ---


@pytest.mark.parametrize(
    "view", [(20, 0, 0, 3), (20, 0, 0, -1), (20, 0, 1, 0), (20, 0, -1, 0), (-1, 0, 0, 0)]
)
@pytest.mark.parametrize("place", range(3))
def test_views_of_strings_out_of_their_buffers(view, place):
    rows = [(20, 0, 0, 2), (12, 0x61616161, 0x61616161, 0x61616161), (13, 0, 0, 9)]
    from_arrow(viewed(*rows))
    rows[place] = view
    refused(viewed(*rows), ValueError, f"string {place} is outside of its buffers")


@pytest.mark.parametrize("size", [-(2**63), -1, 0, 21])
def test_views_of_strings_in_a_buffer_of_another_size(size):
    refused(viewed((20, 0, 0, 2), size=size), ValueError, "string 0 is outside of its buffers")


def test_views_of_strings_from_too_far_on():
    node = viewed((1, 0, 0, 0))
    node.array.offset = 2**60
    refused(node, ValueError, "it has 1 items from")


@pytest.mark.parametrize("extreme", [2**31 - 1, -(2**31), 2**31 - 20])
@pytest.mark.parametrize("which", [0, 2, 3])
def test_extreme_views_of_strings(extreme, which):
    view = [20, 0, 0, 0]
    view[which] = extreme
    refused(viewed(view), ValueError, "string 0 is outside of its buffers")


def test_views_of_strings_without_their_buffer():
    refused(viewed((20, 0, 0, 0), texts=[None]), ValueError, "lacks a buffer that its type requires")
    assert len(from_arrow(viewed((12, 0, 0, 0), texts=[None]))) == 1
    refused(viewed((20, 0, 0, 0), texts=[]), ValueError, "string 0 is outside of its buffers")


def test_lists_of_lists_whose_offsets_decrease():
    inner = lists(np.array([0, 3, 2, 5]), numbers(np.arange(5)))
    refused(lists(np.array([0, 1, 3]), inner), ValueError, "the offsets of its lists decrease")
