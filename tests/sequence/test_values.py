"""Elements are values: read-only, in shared memory, of a shape and type that nothing changes."""

import array
import contextlib
import gc
import tracemalloc
import warnings
import weakref

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import (
    LAYOUTS,
    NAMES,
    NUMBER_NAMES,
    arrays,
    assert_holds,
    filled,
    laid_out,
    number_names,
    same,
)

from seqcore import TensorSequence, split_to_sequence


def rows(count=6, name="float32"):
    return filled(name, (count, 4))


def views_of(element):
    """Arrays that see the element's memory."""
    yield element
    yield element[...]
    yield element.view()
    yield element.T
    yield element.reshape((*element.shape, 1))
    yield np.asarray(element)
    yield np.array(element, copy=False)
    yield element.view(np.ndarray)
    yield np.lib.stride_tricks.as_strided(element, writeable=False)


# --- read-only ---


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_elements_cannot_be_made_writeable(name, layout):
    source = laid_out(filled(name, (2, 3)), layout)
    seq = TensorSequence([source])
    for element in (seq[0], next(iter(seq)), next(reversed(seq)), seq.copy()[0], seq[:][0], seq.pop()):
        for view in views_of(element):
            assert not view.flags.writeable
            with pytest.raises(ValueError, match=r"(?i)writeable"):
                view.flags.writeable = True
            with pytest.raises(ValueError, match=r"(?i)writeable"):
                view.setflags(write=True)


@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 0), (2, 3)])
@pytest.mark.parametrize("name", NAMES)
def test_pieces_and_odd_shapes_are_read_only_too(name, shape):
    whole, pieces = (
        TensorSequence([filled(name, shape)]),
        split_to_sequence(filled(name, (2, *shape)), keepdims=0),
    )
    fresh = TensorSequence([filled(name, shape)], copy=True)
    compacted = TensorSequence([filled(name, shape)])
    compacted.compact()
    for seq in (whole, pieces, fresh, compacted):
        assert seq[0].shape == shape
        assert not seq[0].flags.writeable
        with pytest.raises(ValueError, match=r"(?i)writeable"):
            seq[0].flags.writeable = True


@pytest.mark.parametrize("name", ["int8", "float64", "string"])
def test_writing_to_an_element_is_an_error(name):
    element = TensorSequence([filled(name, 3)])[0]
    with pytest.raises(ValueError, match="read-only"):
        element[0] = element[1]
    with pytest.raises(ValueError, match="read-only"):
        element.sort()
    with pytest.raises(ValueError, match="read-only"):
        element += element
    with pytest.raises(ValueError, match="read-only"):
        np.copyto(element, element[::-1])


@pytest.mark.parametrize("make", [lambda: TensorSequence([rows()]), lambda: split_to_sequence(rows())])
def test_no_base_of_an_element_gives_a_writable_buffer(make):
    element = make()[0]
    assert memoryview(element).readonly
    assert not np.frombuffer(element, np.uint8).flags.writeable
    base = element.base
    while base is not None:
        if isinstance(base, np.ndarray):
            with pytest.raises(ValueError, match=r"(?i)writeable"):
                base.flags.writeable = True
        else:
            with contextlib.suppress(TypeError, BufferError):
                assert memoryview(base).readonly
            viewed = np.asarray(base)
            assert viewed.dtype == object or not viewed.flags.writeable
        base = getattr(base, "base", None)


def test_each_look_is_a_new_array():
    seq = TensorSequence([rows()])
    assert seq[0] is not seq[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        seq[0].shape = (24,)
        element = seq[0]
        element.shape = (3, 8)
        element.dtype = np.int32
    assert_holds(seq, [rows()])


# --- shared memory ---


@given(arrays(number_names))
def test_elements_share_memory_with_the_source(source):
    for element in (
        TensorSequence([source])[0],
        TensorSequence([source]).copy()[0],
        TensorSequence([source])[:][0],
    ):
        assert same(element, source)
        if source.size:
            assert np.shares_memory(element, source)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("axis", [0, 1])
def test_pieces_share_memory_with_the_source(layout, axis):
    source = laid_out(filled("int32", (4, 6)), layout)
    pieces = split_to_sequence(source, axis=axis)
    assert all(np.shares_memory(piece, source) for piece in pieces)


@given(arrays())
def test_copy_detaches(source):
    before = source.copy()
    seq = TensorSequence([source, source], copy=True)
    assert not np.shares_memory(seq[0], source)
    if source.flags.writeable:
        source[...] = filled("string", ())[()] if source.dtype == object else 1
        source[...] = np.roll(source, 1)
    assert_holds(seq, [before, before])


@pytest.mark.parametrize("layout", [*LAYOUTS[:6]])
def test_strings_are_always_copied_in(layout):
    source = laid_out(filled("string", (2, 3)), layout)
    seq = TensorSequence([source], dtype="string")
    seq.append(source)
    seq.insert(0, source)
    seq[0:0] = [source]
    pieces = split_to_sequence(source, keepdims=0)
    source[...] = "changed"
    for element in seq:
        assert same(element, filled("string", (2, 3)))
    assert_holds(pieces, list(filled("string", (2, 3))))


def test_strings_stay_alive_with_their_elements():
    texts = np.array([f"text {i}" * 3 for i in range(5)], object)
    element = TensorSequence([texts])[0]
    del texts
    gc.collect()
    assert element.tolist() == [f"text {i}" * 3 for i in range(5)]


# --- the caller's array object ---

CHANGES = {
    "flat": lambda a: setattr(a, "shape", (-1,)),
    "other shape": lambda a: setattr(a, "shape", (3, 8)),
    "other type": lambda a: setattr(a, "dtype", np.int32),
    "narrower type": lambda a: setattr(a, "dtype", np.int8),
    "byte order": lambda a: setattr(a, "dtype", np.dtype(">f4")),
    "strides": lambda a: setattr(a, "strides", (4, 24)),
    "read-only": lambda a: a.setflags(write=False),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("make", [lambda a: TensorSequence([a]), split_to_sequence], ids=["whole", "split"])
def test_changing_the_array_object_does_not_show(change, make):
    source = rows()
    seq, expected = make(source), [np.array(element) for element in make(source)]
    before = seq[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        change(source)
    assert_holds(seq, expected)
    assert same(before, expected[0])
    assert_holds(seq.copy(), expected)


@pytest.mark.parametrize("make", [lambda a: TensorSequence([a]), split_to_sequence], ids=["whole", "split"])
def test_an_array_cannot_be_resized_under_a_sequence(make):
    source = np.arange(1000, dtype="int64")
    seq = make(source)
    expected = [np.array(element) for element in seq]
    with contextlib.suppress(ValueError):
        source.resize(10)
    assert_holds(seq, expected)


def test_a_bytearray_cannot_be_resized_under_a_sequence():
    room = bytearray(range(200))
    seq = TensorSequence([np.frombuffer(room, np.uint8)])
    with pytest.raises(BufferError):
        room.extend(bytes(10_000))
    seq.clear()
    room.extend(bytes(10_000))


# --- lifetime ---


@pytest.mark.parametrize("make", [lambda a: TensorSequence([a]), lambda a: split_to_sequence(a, 3)])
def test_elements_outlive_the_sequence(make):
    seq = make(rows())
    expected = [np.array(element) for element in seq]
    first, last = seq[0], seq[-1][1:]
    seq.clear()
    del seq
    gc.collect()
    assert same(first, expected[0])
    assert same(last, expected[-1][1:])


def let_go(seq):
    """Every way for a sequence to let its sources go."""
    yield lambda: seq.clear()
    yield lambda: seq.__delitem__(slice(None))
    yield lambda: [seq.pop() for _ in range(len(seq))] and None
    yield lambda: [seq.erase(0) for _ in range(len(seq))] and None
    yield lambda: seq.__setitem__(slice(None), [np.zeros(1, "float32")])
    yield lambda: seq.compact()


@pytest.mark.parametrize("way", range(6))
@pytest.mark.parametrize(
    "make", [lambda a: TensorSequence([a, a[1:], a]), split_to_sequence], ids=["whole", "split"]
)
def test_sources_are_let_go(way, make):
    source = rows()
    ref = weakref.ref(source)
    seq = make(source)
    other = seq.copy()
    element = seq[0]
    del source
    list(let_go(seq))[way]()
    gc.collect()
    assert ref() is not None
    other.clear()
    gc.collect()
    assert ref() is not None
    assert element.shape[-1] == 4
    del element
    gc.collect()
    assert ref() is None


@pytest.mark.parametrize("make", [lambda a: TensorSequence([a]), split_to_sequence], ids=["whole", "split"])
def test_a_sequence_takes_its_sources_with_it(make):
    source = rows()
    ref = weakref.ref(source)
    seq = make(source)
    del source
    assert ref() is not None
    del seq
    gc.collect()
    assert ref() is None


@pytest.mark.parametrize(
    ("make", "keywords"),
    [(rows, {"copy": True}), (lambda: filled("string", 5), {}), (lambda: rows().astype(">f4"), {})],
    ids=["copy", "strings", "foreign"],
)
def test_sources_copied_at_the_door_are_not_kept(make, keywords):
    source = make()
    ref = weakref.ref(source)
    seq = TensorSequence([source], **keywords)
    del source
    gc.collect()
    assert ref() is None
    assert len(seq) == 1


@pytest.mark.parametrize("name", NAMES)
def test_compact_works_for_every_type_and_twice(name):
    model = [filled(name, (2, 3)), filled(name, 0), filled(name, ()), filled(name, 6)[::-2]]
    seq = TensorSequence(model)
    seq.compact()
    seq.compact()
    assert_holds(seq, model)
    pieces = split_to_sequence(filled(name, (3, 4)), axis=1)
    pieces.erase(1)
    pieces.compact()
    assert_holds(pieces, [filled(name, (3, 4))[:, i : i + 1] for i in (0, 2, 3)])


# --- what can be put in ---


class Sub(np.ndarray):
    """A subclass of ndarray."""


def test_subclasses_come_out_as_plain_arrays(tmp_path):
    mapped = np.memmap(tmp_path / "data", "float32", "w+", shape=(6, 4))
    mapped[...] = rows()
    for source in (rows().view(Sub), rows().view(np.recarray), mapped):
        assert_holds(TensorSequence([source]), [rows()])
        assert_holds(split_to_sequence(source, 6), [rows()])
        assert np.shares_memory(TensorSequence([source])[0], source)


@pytest.mark.parametrize(
    "masked", [np.ma.masked_array([1.0, 2.0], [0, 1]), np.ma.masked_array([1.0]), np.ma.masked]
)
def test_masked_arrays_are_type_errors(masked):
    seq = TensorSequence(dtype="float64")
    for put in (
        seq.append,
        lambda m: seq.insert(0, m),
        lambda m: seq.extend([m]),
        lambda m: TensorSequence([m]),
    ):
        with pytest.raises(TypeError, match=r"(?i)mask"):
            put(masked)
    assert_holds(seq, [])


@pytest.mark.parametrize("name", [n for n in NUMBER_NAMES if n != "bfloat16"])
@pytest.mark.parametrize("order", "<>")
def test_foreign_byte_orders_are_converted(name, order):
    native = filled(name, (2, 3))
    foreign = native.astype(native.dtype.newbyteorder(order))
    seq = TensorSequence([foreign])
    seq.append(native)
    seq[1:1] = [foreign[::-1]]
    assert_holds(seq, [native, native[::-1], native])
    assert seq[0].dtype.isnative
    assert_holds(split_to_sequence(foreign, keepdims=0), list(native))


def test_foreign_strings_are_converted():
    assert_holds(TensorSequence([np.array(["ab", "c"], ">U2")]), [np.array(["ab", "c"], object)])


@given(arrays(number_names, layouts=st.just("unaligned")))
def test_unaligned_arrays_go_in(source):
    seq = TensorSequence([source])
    assert_holds(seq, [source])
    assert seq == TensorSequence([source.copy()])
    if source.ndim:
        assert_holds(split_to_sequence(source, keepdims=0), list(source.copy()))


def test_read_only_arrays_go_in():
    source = rows()
    source.flags.writeable = False
    assert_holds(TensorSequence([source]), [rows()])
    assert_holds(TensorSequence([np.frombuffer(b"abcd", np.uint8)]), [np.array([97, 98, 99, 100], np.uint8)])


@pytest.mark.parametrize("make", [bytearray, bytes, lambda b: array.array("B", b), lambda b: memoryview(b)])
def test_arrays_on_buffers_share_them(make):
    room = make(bytes(range(8)))
    seq = TensorSequence([np.frombuffer(room, np.uint8)])
    if not memoryview(room).readonly:
        room[0] = 99
    assert_holds(seq, [np.array([room[0], *range(1, 8)], np.uint8)])
    del room
    gc.collect()
    assert seq[0][7] == 7


class HasArray:
    def __array__(self, dtype=None, copy=None):
        return rows()


class HasInterface:
    __array_interface__ = rows().__array_interface__
    kept = None

    def __init__(self):
        self.kept = rows()
        self.__array_interface__ = self.kept.__array_interface__


class HasStruct:
    def __init__(self):
        self.kept = rows()

    @property
    def __array_struct__(self):
        return self.kept.__array_struct__


class HasDLPack:
    def __dlpack__(self, **keywords):
        return rows().__dlpack__(**keywords)

    def __dlpack_device__(self):
        return (1, 0)


@pytest.mark.parametrize(
    "make",
    [HasArray, HasInterface, HasStruct, lambda: memoryview(rows()), lambda: np.from_dlpack(HasDLPack())],
)
def test_objects_that_are_arrays_to_numpy_go_in(make):
    seq = TensorSequence([make()])
    gc.collect()
    assert_holds(seq, [rows()])
    seq.append(make())
    assert_holds(seq, [rows(), rows()])


def test_objects_that_speak_dlpack_alone_are_tensors_or_type_errors():
    try:
        seq = TensorSequence([HasDLPack()])
    except TypeError:
        seq = TensorSequence([np.from_dlpack(HasDLPack())])
    assert_holds(seq, [rows()])


@pytest.mark.parametrize("result", [None, 5, "x", [1.0], object()])
def test_a_dishonest_array_method_is_an_error(result):
    class Dishonest:
        def __array__(self, dtype=None, copy=None):
            return result

    seq = TensorSequence(dtype="float32")
    with pytest.raises((TypeError, ValueError)):
        seq.append(Dishonest())
    assert_holds(seq, [])


# --- round and round ---


def test_elements_put_back_make_no_chains():
    """An element that goes back in counts on the same source, not on an array object."""
    seq = TensorSequence([rows()])
    for _ in range(50_000):
        element = seq[0][:]
        seq[0] = element
    ref = weakref.ref(element)
    del element
    gc.collect()
    assert ref() is None
    assert_holds(seq, [rows()])
    assert seq.pinned_nbytes == rows().nbytes


def test_a_source_is_let_go_after_many_rounds():
    source = rows()
    ref = weakref.ref(source)
    seq = TensorSequence([source])
    del source
    for _ in range(1000):
        seq.append(seq[0][::-1].T)
        del seq[0]
    seq.clear()
    gc.collect()
    assert ref() is None


def refused(edit):
    with contextlib.suppress(TypeError, IndexError):
        edit()
        raise AssertionError("nothing was raised")


ROUNDS = {
    "put and get": lambda seq: (seq.append(seq[0]), seq.pop()),
    "slices": lambda seq: seq[::2] + seq[1:],
    "slice assignment": lambda seq: seq.__setitem__(slice(1, 3), seq[1:3]),
    "split": lambda seq: split_to_sequence(seq[0])[1:],
    "iterate": lambda seq: [list(seq), list(reversed(seq))],
    "copies": lambda seq: (seq.copy(), TensorSequence(seq, copy=True)),
    "compact": lambda seq: seq.compact(),
    "compare": lambda seq: (seq == seq.copy(), seq[1] in seq),
    "converted": lambda seq: TensorSequence([seq[0].astype(">f4"), [1.5, 2]], dtype="float32"),
    "refused": lambda seq: refused(lambda: seq.extend([seq[0], np.zeros(1)])),
    "lost position": lambda seq: refused(lambda: seq.insert(99, seq[0])),
    "shown": lambda seq: (repr(seq), seq._repr_html_(), seq.shapes, seq.nbytes, seq.pinned_nbytes),
}


# Enough for the smallest leak to exceed what interpreters without a GIL free late.
ROUNDS_COUNTED = 4000


@pytest.mark.mostly_slow(7)
@pytest.mark.parametrize("work", ROUNDS.values(), ids=ROUNDS)
def test_nothing_is_left_behind(work):
    seq = TensorSequence([rows(), rows(2), rows(1)])
    for _ in range(100):
        work(seq)
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for _ in range(ROUNDS_COUNTED):
            work(seq)
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < ROUNDS_COUNTED * 16
    assert_holds(seq, [rows(), rows(2), rows(1)])
