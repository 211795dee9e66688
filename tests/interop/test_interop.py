"""Arrays of other libraries by their protocols, with stand-ins; and buffers, which Python brings itself."""

import array
import ctypes
import gc
import mmap
import pickle

import numpy as np
import pytest
from support.strategies import NUMERIC_NAMES, assert_holds, filled, laid_out, same

from seqcore import TensorSequence, sequence_construct, sequence_insert, sequence_map, split_to_sequence

READ_ONLY_DLPACK = np.lib.NumpyVersion(np.__version__) >= "2.1.0"


def refused(value, error, match=None):
    """No way of putting a value in takes it, and the sequence stays as it was."""
    seq = TensorSequence([filled("float32", 2)])
    for put in (
        lambda: TensorSequence([value]),
        lambda: TensorSequence([value], dtype="float32"),
        lambda: TensorSequence([value], copy=True),
        lambda: TensorSequence([filled("float32", 2), value]),
        lambda: sequence_construct(value),
        lambda: sequence_insert(seq, value),
        lambda: split_to_sequence(value),
        lambda: sequence_map(lambda x: value, seq),
        lambda: seq.append(value),
        lambda: seq.insert(0, value),
        lambda: seq.extend([filled("float32", 2), value]),
        lambda: seq.__setitem__(0, value),
        lambda: seq.__setitem__(slice(0, 1), [filled("float32", 3), value]),
    ):
        with pytest.raises(error, match=match):
            put()
    assert_holds(seq, [filled("float32", 2)])


# --- on a GPU ---


class OnDevice:
    """What CuPy's arrays have: memory that the CPU can't read, and a method that says so."""

    device = (2, 0)
    __cuda_array_interface__ = None  # only asked for, never read

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **keywords):
        raise AssertionError("nobody on the host can read this")


class LikeCuPy(OnDevice):
    def __array__(self, dtype=None, copy=None):
        raise TypeError("not by itself: ask for a copy on the host by .get()")


class Managed(OnDevice):
    """Memory of CUDA that the CPU reads, too."""

    device = (13, 0)

    def __dlpack__(self, **keywords):
        return filled("float32", 2).__dlpack__(**keywords)


def test_cupys_own_error_names_the_remedy():
    refused(LikeCuPy(), TypeError, r"\.get\(\)")


def test_memory_of_a_device_is_a_type_error_that_names_the_remedy():
    refused(OnDevice(), TypeError, r"OnDevice.*copy it to the host.*\.get\(\)")


def test_so_it_is_without_dlpack():
    class Interface:
        __cuda_array_interface__ = None

    refused(Interface(), TypeError, r"Interface.*copy it to the host")


def test_managed_memory_goes_in():
    assert_holds(TensorSequence([Managed()]), [filled("float32", 2)])


# --- DLPack alone ---


class HasDLPack:
    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **keywords):
        return self.array.__dlpack__(**keywords)

    def __dlpack_device__(self):
        return (1, 0)


@pytest.mark.parametrize("layout", ["plain", "transposed", "strided", "reversed"])
@pytest.mark.parametrize("name", NUMERIC_NAMES)
def test_dlpack_is_taken_by_reference(name, layout):
    source = laid_out(filled(name, (2, 3)), layout)
    seq = TensorSequence([HasDLPack(source)])
    seq.append(HasDLPack(source))
    assert np.shares_memory(seq[0], source)
    source[...] = source[::-1, ::-1].copy()
    assert_holds(seq, [source, source])


@pytest.mark.parametrize("shape", [(), (0,), (3, 0)])
def test_odd_shapes_go_through_dlpack(shape):
    assert_holds(TensorSequence([HasDLPack(filled("int16", shape))]), [filled("int16", shape)])


@pytest.mark.skipif(not READ_ONLY_DLPACK, reason="NumPy 2.0 doesn't export what is read-only")
def test_elements_go_back_in_through_dlpack():
    source = filled("int32", (2, 3))
    element = TensorSequence([HasDLPack(TensorSequence([source])[0])])[0]
    assert np.shares_memory(element, source)


@pytest.mark.parametrize("error", [BufferError, RuntimeError, NotImplementedError])
def test_what_dlpack_refuses_is_a_type_error_with_its_words(error):
    class Refuses(HasDLPack):
        def __dlpack__(self, **keywords):
            raise error("too odd a layout")

    refused(Refuses(None), TypeError, "Refuses, by DLPack: too odd a layout")


def test_half_of_dlpack_is_a_type_error():
    class Half:
        def __dlpack__(self, **keywords):
            return filled("int8", 2).__dlpack__(**keywords)

    refused(Half(), TypeError, "__dlpack_device__")


@pytest.mark.parametrize("capsule", [None, 5, "x"])
def test_what_is_no_capsule_is_an_error(capsule):
    class Dishonest(HasDLPack):
        def __dlpack__(self, **keywords):
            return capsule

    refused(Dishonest(None), (TypeError, ValueError))


def test_errors_of_other_libraries_come_through():
    class TornError(Exception):
        pass

    class Torn:
        def __array__(self, dtype=None, copy=None):
            raise TornError("no data any more")

    refused(Torn(), TornError, "no data any more")
    with pytest.raises(TornError):
        TensorSequence([[1.0]]).index(Torn())


# --- nulls and tables ---


class Column:
    """What Arrow's arrays have: nulls are counted, and NaN to NumPy."""

    def __init__(self, items, null_count=None, **parts):
        self.array = np.array(items)
        self.null_count = int(np.isnan(self.array).sum()) if null_count is None else null_count
        vars(self).update(parts)

    def __array__(self, dtype=None, copy=None):
        return self.array


class LikePandas:
    def __init__(self, values, dtype):
        self.values, self.dtype = np.array(values), dtype

    def __array__(self, dtype=None, copy=None):
        return self.values

    def isna(self):
        return np.isnan(self.values)


NAN = float("nan")


@pytest.mark.parametrize(
    "column",
    [
        Column([1.0, NAN]),
        Column([1.0, NAN], lambda: 1),
        Column([1.0, NAN], 0, dictionary=Column([NAN])),
        Column([1.0, NAN], 0, values=Column([NAN])),
        Column([1.0, NAN], 0, chunks=[Column([1.0]), Column([NAN], 0, dictionary=Column([NAN]))]),
        LikePandas([1.0, NAN], "Int64"),
    ],
    ids=["Arrow", "Polars", "dictionary", "runs", "chunks", "pandas"],
)
def test_nulls_never_become_nan(column):
    refused(column, TypeError, f"{type(column).__name__} with nulls.*fill or drop")
    assert column not in TensorSequence([[1.0, NAN]])


def test_nan_that_is_no_null_goes_in():
    for column in (
        Column([1.0, NAN], 0),
        Column([1.0, NAN], lambda: 0, chunks=[Column([1.0, NAN], 0)]),
        LikePandas([1.0, NAN], np.dtype(float)),
    ):
        assert np.isnan(TensorSequence([column])[0]).tolist() == [False, True]
    assert_holds(TensorSequence([LikePandas([1.0, 2.0], "Float64")]), [np.array([1.0, 2.0])])


def test_tables_are_type_errors():
    class Table(Column):
        columns = ("a", "b")

        def __arrow_c_stream__(self, requested_schema=None):
            raise AssertionError("nobody asks for the data")

    refused(Table([[1.0, 2.0]]), TypeError, "Table, which is a table.*columns")


def test_columns_that_are_something_else_are_no_table():
    assert_holds(TensorSequence([Column([1.0], 0, columns="a name of its own")]), [np.array([1.0])])


def test_rows_that_are_arrays_are_type_errors():
    rows = np.empty(2, object)
    rows[:] = [np.zeros(2), np.zeros(3)]
    refused(Column(rows, 0), TypeError, "Column whose items are arrays: TensorSequence.list")


def test_masks_are_not_lost():
    refused(np.ma.array([1, 2], mask=[0, 1]), TypeError, "mask")


# --- what elements give ---


@pytest.mark.parametrize("layout", ["plain", "transposed", "strided", "reversed"])
@pytest.mark.parametrize("name", NUMERIC_NAMES)
def test_elements_give_read_only_dlpack_or_none(name, layout):
    source = laid_out(filled(name, (2, 3)), layout)
    element = TensorSequence([source])[0]
    with pytest.raises(BufferError):
        element.__dlpack__()
    if READ_ONLY_DLPACK:
        taken = np.from_dlpack(element)
        assert np.shares_memory(taken, source)
        assert not taken.flags.writeable
        assert same(taken, source)
    else:
        with pytest.raises(BufferError):
            np.from_dlpack(element)


@pytest.mark.parametrize("name", ["bfloat16", "string"])
def test_elements_that_dlpack_has_no_type_for_refuse(name):
    with pytest.raises(BufferError):
        np.from_dlpack(TensorSequence([filled(name, 2)])[0])


@pytest.mark.parametrize("name", NUMERIC_NAMES)
def test_elements_give_read_only_buffers(name):
    source = filled(name, (2, 3))
    seq = TensorSequence([source, source[:, ::2]])
    for element, expected in zip(seq, (source, source[:, ::2]), strict=True):
        with memoryview(element) as view:
            assert view.readonly
            assert view.c_contiguous == expected.flags.c_contiguous
            assert same(np.asarray(view), expected)


def test_interfaces_of_elements_say_read_only():
    assert TensorSequence([filled("int8", 2)])[0].__array_interface__["data"][1] is True


# --- buffers ---


class Pair(ctypes.Structure):
    _fields_ = (("x", ctypes.c_int32), ("y", ctypes.c_int32))


@pytest.mark.parametrize(
    ("buffer", "expected"),
    [
        (array.array("h", [1, 2]), np.array([1, 2], np.int16)),
        (array.array("d", []), np.array([], np.float64)),
        (bytearray(b"ab"), np.array([97, 98], np.uint8)),
        (memoryview(b"abcd")[::2], np.array([97, 99], np.uint8)),
        (memoryview(b"abcd").cast("B", (2, 2)), np.array([[97, 98], [99, 100]], np.uint8)),
        (memoryview(b"\0\1").cast("?"), np.array([False, True])),
        (memoryview(np.array([1.5], np.float16)), np.array([1.5], np.float16)),
        (memoryview(np.array([1, 2], ">i4")), np.array([1, 2], np.int32)),
        (memoryview(np.array(2.5)), np.array(2.5)),
        (memoryview(np.array(["a", "b"], object)), np.array(["a", "b"], object)),
        (pickle.PickleBuffer(b"ab"), np.array([97, 98], np.uint8)),
        ((ctypes.c_float * 2)(1, 2), np.array([1, 2], np.float32)),
        ((ctypes.c_int16 * 2 * 1)((1, 2)), np.array([[1, 2]], np.int16)),
        ((ctypes.c_int32.__ctype_be__ * 2)(1, 2), np.array([1, 2], np.int32)),
        ((ctypes.c_bool * 2)(True, False), np.array([True, False])),
        (ctypes.c_int64(5), np.array(5, np.int64)),
    ],
)
def test_buffers_go_in(buffer, expected):
    seq = TensorSequence([buffer], dtype=expected.dtype)
    seq.append(buffer)
    gc.collect()
    assert_holds(seq, [expected, expected])
    assert expected in seq


@pytest.mark.parametrize(
    ("buffer", "match"),
    [
        ((ctypes.c_void_p * 2)(), "c_void_p_Array_2.*no dtype in NumPy"),
        ((ctypes.c_wchar * 2)(), "c_wchar_Array_2.*no dtype in NumPy"),
        (memoryview(b"abcdefgh").cast("P"), "memoryview.*no dtype in NumPy"),
        (memoryview(b"ab").cast("c"), "element type"),
        ((ctypes.c_char * 2)(), "element type"),
        ((Pair * 2)(), "element type"),
        ((ctypes.py_object * 2)(None, 1), "str"),
        (b"ab", "np.frombuffer"),
    ],
)
def test_buffers_of_other_types_are_type_errors(buffer, match):
    refused(buffer, TypeError, match)


def test_memory_that_is_gone_is_a_value_error():
    view, room = memoryview(b"ab"), mmap.mmap(-1, 8)
    view.release()
    room.close()
    refused(view, ValueError, "released")
    refused(room, ValueError, "closed")


def test_buffers_are_shared_and_can_neither_move_nor_close():
    row, text, room = array.array("h", [1, 2]), bytearray(b"ab"), mmap.mmap(-1, 2)
    floats, wrapped = (ctypes.c_float * 2)(), bytearray(b"ab")
    buffers = (row, text, room, floats, np.frombuffer(wrapped, np.uint8))
    numbers = [TensorSequence([one]) for one in buffers]
    del buffers
    row[0], text[0], room[0], floats[0], wrapped[0] = 9, 9, 9, 9, 9
    assert [seq[0][0] for seq in numbers] == [9] * 5
    longer = [lambda one=one: one.extend(bytes(999)) for one in (text, wrapped)]
    for change in (lambda: row.extend(row), *longer, room.close):
        with pytest.raises(BufferError):
            change()
    for seq in numbers:
        seq.clear()
    for change in (lambda: row.extend(row), *longer, room.close):
        change()


def test_a_released_view_leaves_its_memory_to_the_sequence():
    view = memoryview(bytearray(b"ab"))
    seq = TensorSequence([view])
    view.release()
    assert seq[0].tolist() == [97, 98]
