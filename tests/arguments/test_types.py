"""Element types, and what Python values become."""

import decimal
import sys

import ml_dtypes
import numpy as np
import pytest
from support.strategies import NAMES, assert_holds, dtype_of, filled

from seqcore import TensorSequence, element_type, sequence_empty, split_to_sequence

pytestmark = pytest.mark.mostly_slow(2)


def holds(seq, *arrays):
    assert_holds(seq, list(arrays))
    return True


# --- the types ---


@pytest.mark.parametrize("name", NAMES)
def test_types_have_names(name):
    names = [name, dtype_of(name), dtype_of(name).type]
    names += {
        "string": [str, object, "object", "O"],
        "bool": [bool],
        "float64": [float],
        "complex128": [complex],
    }.get(name, [])
    for dtype in names:
        assert TensorSequence(dtype=dtype).dtype == dtype_of(name)
        assert TensorSequence([filled(name, 2)], dtype).dtype == dtype_of(name)
        assert sequence_empty(dtype).dtype == dtype_of(name)


@pytest.mark.parametrize(
    "kind", ["byte", "short", "intc", "int_", "long", "longlong", "intp", "double", "single", "half"]
)
def test_c_types_are_the_types_of_their_size(kind):
    """On any one platform two of NumPy's C types are the same element type under two type numbers."""
    array = np.arange(3).astype(kind)
    name = ("int" if array.dtype.kind == "i" else "float") + str(8 * array.itemsize)
    seq = TensorSequence([array], dtype=name)
    assert np.shares_memory(seq[0], array)
    seq.append(array.astype(seq.dtype))
    holds(seq, array, array)
    assert seq == TensorSequence([array, array])


@pytest.mark.parametrize(
    "array",
    [
        np.array([b"x", b"y"]),
        np.array([1, 2], "datetime64[s]"),
        np.array([1, 2], "timedelta64[s]"),
        np.zeros(2, "i4,f4"),
        np.zeros(2, np.dtype([("a", "i4")])),
        np.zeros(2, "V4"),
        np.array([1, 2], object),
        np.array(["a", None], object),
        np.array(["a", b"b"], object),
        np.array(["a", 1], object),
        np.array(["a", float("nan")], object),
        np.array([["a", "b"], ["c", ["d"]]], object),
        np.array([None], object),
        np.zeros(2, ml_dtypes.float8_e4m3fn),
        np.zeros(2, ml_dtypes.int4),
        np.datetime64("2020-01-01"),
        np.void(b"xyz"),
        np.bytes_(b"x"),
    ],
    ids=lambda a: repr(a).replace("\n", ""),
)
def test_other_types_are_type_errors(array):
    with pytest.raises(TypeError):
        TensorSequence([array])
    for name in NAMES:
        seq = TensorSequence([filled(name, 2)])
        with pytest.raises(TypeError):
            seq.append(array)
        holds(seq, filled(name, 2))
    with pytest.raises(TypeError):
        split_to_sequence(np.atleast_1d(array))


@pytest.mark.skipif(np.dtype(np.longdouble).itemsize == 8, reason="longdouble is a double here")
@pytest.mark.parametrize("dtype", [np.longdouble, np.clongdouble])
def test_long_doubles_are_type_errors(dtype):
    with pytest.raises(TypeError):
        TensorSequence([np.zeros(2, dtype)])
    with pytest.raises(TypeError):
        TensorSequence(dtype=dtype)
    with pytest.raises(TypeError):
        TensorSequence(dtype="float64").append(np.zeros(2, dtype))


def test_the_last_wrong_object_of_many_is_found():
    array = np.array(["x"] * 10_000 + [None], object)
    with pytest.raises(TypeError):
        TensorSequence([array])
    with pytest.raises(TypeError):
        TensorSequence([array[::-1]])
    holds(TensorSequence([array[:-1]]), array[:-1])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("other", NAMES)
def test_a_mismatch_is_a_type_error_that_names_both(name, other):
    if name == other:
        return
    seq, wrong = TensorSequence([filled(name, 2)]), filled(other, 2)
    named = [{"string": "(string|str|object)"}.get(n, rf"\b{n}\b") for n in (name, other)]
    match = rf"(?s)(?=.*{named[0]})(?=.*{named[1]})"
    for put in (
        seq.append,
        lambda wrong: seq.insert(0, wrong),
        lambda wrong: seq.extend([wrong]),
        lambda wrong: seq.__setitem__(0, wrong),
        lambda wrong: seq.__setitem__(slice(0, 0), [wrong]),
        lambda wrong: TensorSequence([wrong], dtype=name),
        lambda wrong: TensorSequence([filled(name, 2), wrong]),
        lambda wrong: seq.extend(TensorSequence([wrong])),
        lambda wrong: seq + TensorSequence([wrong]),
        lambda wrong: TensorSequence(TensorSequence([wrong]), dtype=name),
    ):
        with pytest.raises(TypeError, match=match):
            put(wrong)
    holds(seq, filled(name, 2))


# --- strings ---


def test_missing_strings_are_type_errors():
    for missing in (None, np.nan):
        texts = np.array(["a", missing], np.dtypes.StringDType(na_object=missing))
        with pytest.raises(TypeError):
            TensorSequence([texts])


def test_numpy_strings_are_strings():
    seq = TensorSequence([np.str_("a")], dtype=str)
    seq.append(np.array([np.str_("b")], object))
    holds(seq, np.array("a", object), np.array(["b"], object))


# --- Python values where there is no type yet ---


def test_the_first_tensor_sets_the_type_of_those_after():
    holds(TensorSequence([np.float32(1), 2, [3]]), *[np.array(v, "float32") for v in (1, 2, [3])])
    holds(TensorSequence([1.5, 2, True]), np.array(1.5), np.array(2.0), np.array(1.0))
    for values in ([1, 1.5], [1, 1j], ["a", 1], [1, "a"], [True, 2], [np.int8(1), np.int16(1)], [1, None]):
        with pytest.raises(TypeError):
            TensorSequence(values)
    with pytest.raises(OverflowError):
        TensorSequence([np.int8(1), 200])


@pytest.mark.parametrize(
    "value", [None, [None], b"a", [b"a"], object(), [1, None], decimal.Decimal(1), {}, 2**64, [2**70]]
)
def test_what_numpy_makes_no_tensor_of_is_refused(value):
    with pytest.raises((TypeError, OverflowError)):
        TensorSequence([value])


def test_no_dtype_is_not_a_dtype():
    with pytest.raises(TypeError, match="dtype must not be None: expected one of bool"):
        element_type(None)


def test_dtypes_that_numpy_does_not_promote():
    seq = TensorSequence(dtype="bfloat16")
    with pytest.raises(TypeError, match=r"the dtype of the sequence is bfloat16: convert the value$"):
        seq.append([np.int64(1)])


def test_bfloat16_without_its_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with pytest.raises(ImportError, match="bfloat16 needs the package ml_dtypes: pip install ml_dtypes"):
        TensorSequence(dtype="bfloat16")
