"""Elements are values: read-only, in shared memory, of a shape and type that nothing changes."""

import contextlib
import gc
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


# --- lifetime ---


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


@pytest.mark.parametrize("dtype", [">U2", np.dtypes.StringDType()])
def test_foreign_strings_are_converted(dtype):
    assert_holds(TensorSequence([np.array(["ab", "c"], dtype)]), [np.array(["ab", "c"], object)])


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


@pytest.mark.parametrize(
    "make",
    [HasArray, HasInterface, HasStruct, lambda: memoryview(rows()), lambda: np.from_dlpack(rows())],
)
def test_objects_that_are_arrays_to_numpy_go_in(make):
    seq = TensorSequence([make()])
    gc.collect()
    assert_holds(seq, [rows()])
    seq.append(make())
    assert_holds(seq, [rows(), rows()])


@pytest.mark.parametrize("result", [None, 5, "x", [1.0], object()])
def test_a_dishonest_array_method_is_an_error(result):
    class Dishonest:
        def __array__(self, dtype=None, copy=None):
            return result

    seq = TensorSequence(dtype="float32")
    with pytest.raises((TypeError, ValueError)):
        seq.append(Dishonest())
    assert_holds(seq, [])
