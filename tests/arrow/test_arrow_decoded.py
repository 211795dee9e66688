"""Arrow's arrays whose values are decoded: dictionaries, runs, strings and bools of a byte."""

import gc

import numpy as np
import pytest
from support.strategies import assert_holds, filled

from seqcore import TensorSequence

pa = pytest.importorskip("pyarrow")

from support.arrow_values import ITEM_NAMES, ITEMS  # noqa: E402

from seqcore.core.fields import Chunk  # noqa: E402

from_arrow = TensorSequence.from_arrow
all_names = pytest.mark.parametrize("name", ITEM_NAMES)
needs_bool8 = pytest.mark.skipif(not hasattr(pa, "bool8"), reason="this pyarrow has no bool8")


def address(array):
    return array.__array_interface__["data"][0]


def taken(array, expected):
    seq = from_arrow(array)
    assert_holds(seq, expected)
    return seq


def slices_of(array):
    n = len(array)
    return [array[start:stop] for start in range(n + 1) for stop in range(start, n + 1)]


@pytest.mark.parametrize("index", [pa.int8(), pa.int32(), pa.uint8(), pa.uint64()])
@all_names
def test_dictionaries(name, index):
    words = pa.array(list(filled(name, 4)), ITEMS[name])
    codes = pa.array([3, 0, 0, 2, 1, 3], index)
    encoded = pa.DictionaryArray.from_arrays(codes, words)
    expected = filled(name, 4)[[3, 0, 0, 2, 1, 3]]
    taken(encoded, [np.array(one, expected.dtype) for one in expected])
    taken(encoded[2:4], [np.array(one, expected.dtype) for one in expected[2:4]])
    lists = pa.LargeListArray.from_arrays([0, 2, 2, 6], encoded)
    taken(lists, [expected[:2], expected[:0], expected[2:]])
    taken(lists[2:], [expected[2:]])
    fixed = pa.FixedSizeListArray.from_arrays(encoded, 2)
    taken(fixed[1:], [expected[2:4], expected[4:]])


@pytest.mark.parametrize("ends", [pa.int16(), pa.int32(), pa.int64()])
@all_names
def test_runs(name, ends):
    words = pa.array(list(filled(name, 4)), ITEMS[name])
    kind = pa.run_end_encoded(ends, words.type)
    encoded = pa.RunEndEncodedArray.from_arrays([2, 3, 7, 8], words, kind)  # pyarrow 16 fails with an array
    expected = filled(name, 4)[[0, 0, 1, 2, 2, 2, 2, 3]]
    for start in range(9):
        for stop in range(start, 9):
            part = expected[start:stop]
            taken(encoded[start:stop], [np.array(one, expected.dtype) for one in part])
    lists = pa.LargeListArray.from_arrays([0, 1, 4, 4, 8], encoded)
    pieces = [expected[:1], expected[1:4], expected[:0], expected[4:]]
    taken(lists, pieces)
    taken(lists[1:3], pieces[1:3])


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), *([pa.string_view()] if hasattr(pa, "string_view") else [])]
)
def test_strings(kind):
    words = ["", "é", "\U0001f600", "a\0b", "twelve bytes", "thirteen byte", "x" * 5000]
    array = pa.array(words, kind)
    for part in slices_of(array):
        taken(part, [np.array(one, object) for one in part.to_pylist()])
    lists = pa.LargeListArray.from_arrays([0, 2, 2, 7], array)
    seq = taken(lists, [np.array(one, object) for one in (words[:2], [], words[2:])])
    del array, lists
    gc.collect()
    assert seq[2].tolist() == words[2:]
    assert all(type(word) is str for word in seq[2])


@pytest.mark.thread_unsafe
def test_no_more_is_read_than_the_strings_that_are_wanted(monkeypatch):
    read, buffer = [], Chunk.buffer
    monkeypatch.setattr(
        Chunk, "buffer", lambda self, *args: read.append((args[0], *args[2:])) or buffer(self, *args)
    )
    taken(pa.array(["ab", "cde", "f", "ghij"]).slice(1, 2), [np.array(one, object) for one in ("cde", "f")])
    assert read == [(1, 1, 3), (2, 2, 4)]


@needs_bool8
def test_bool8():
    flags = np.array([1, 0, 0, 1, 1], "int8")
    array = pa.ExtensionArray.from_storage(pa.bool8(), pa.array(flags))
    for start in range(5):
        seq = taken(array[start:], [np.array(bool(one)) for one in flags[start:]])
        assert address(seq[0]) == address(flags) + start
    lists = pa.LargeListArray.from_arrays([0, 2, 2, 5], array)
    seq = taken(lists, [flags[:2].astype(bool), flags[:0].astype(bool), flags[2:].astype(bool)])
    assert [address(seq[0]), address(seq[2])] == [address(flags), address(flags) + 2]
    square = pa.FixedSizeListArray.from_arrays(array[1:], 2)
    seq = taken(square, list(flags[1:].astype(bool).reshape(2, 2)))
    assert address(seq[1]) == address(flags) + 3


@needs_bool8
@pytest.mark.parametrize("odd", [2, -1, 127, -128])
def test_bool8_of_other_numbers(odd):
    """What is not 0 is true; NumPy would make nonsense of it, so it is copied."""
    flags = np.array([1, 0, odd, 1, 0], "int8")
    array = pa.ExtensionArray.from_storage(pa.bool8(), pa.array(flags))
    expected = [np.array(bool(one)) for one in flags]
    seq = taken(array, expected)
    assert [one.view("u1").item() for one in seq] == [1, 0, 1, 1, 0]
    lists = pa.ListArray.from_arrays([0, 3, 5], array)
    seq = taken(lists, [flags[:3] != 0, flags[3:] != 0])
    assert np.concatenate(list(seq)).view("u1").tolist() == [1, 0, 1, 1, 0]
    assert flags[2] == odd


@pytest.mark.thread_unsafe
def test_dictionaries_of_strings_keep_nothing():
    pool = pa.total_allocated_bytes()
    encoded = pa.array(["long word " * 10, "another one " * 10] * 100).dictionary_encode()
    seq = from_arrow(encoded)
    del encoded
    gc.collect()
    assert pa.total_allocated_bytes() == pool
    assert seq[199].item() == "another one " * 10
