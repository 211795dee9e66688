"""What is encoded: read once, and no more of it than elements see; and ragged elements, which are named."""

import gc

import numpy as np
import pytest
from support.strategies import address, assert_holds

from seqcore import TensorSequence
from seqcore.core.fields import Chunk

pa = pytest.importorskip("pyarrow")

from_arrow = TensorSequence.from_arrow
INDICES = np.random.default_rng(0).integers(0, 5_000, 20_000)
needs_bool8 = pytest.mark.skipif(not hasattr(pa, "bool8"), reason="this pyarrow has no bool8")


def int64s(*lists):
    return [np.array(one, np.int64) for one in lists]


def taken(array, expected):
    seq = from_arrow(array)
    assert_holds(seq, expected)
    return seq


@pytest.mark.slow
def test_a_dictionary_of_many_chunks_is_decoded_once():
    whole = pa.DictionaryArray.from_arrays(
        pa.array(INDICES.astype("i4")), pa.array([f"w{i}" for i in range(5_000)])
    )
    chunks = pa.chunked_array([whole.slice(i, 200) for i in range(0, len(whole), 200)])
    seq = from_arrow(chunks)
    assert [str(word) for word in seq] == [f"w{i}" for i in INDICES]
    # Objects of the same strings: decoded anew for each chunk, they would be others.
    first = {}
    assert all(first.setdefault(str(word), word[()]) is word[()] for word in seq)


def test_other_dictionaries_in_one_stream_are_told_apart():
    def encoded(letter):
        words = pa.array([f"{letter}{i}" for i in range(100)])
        return pa.DictionaryArray.from_arrays(pa.array(np.arange(0, 100, 2, dtype="i4")), words)

    seq = from_arrow(pa.chunked_array([encoded(letter) for letter in "abcdefgh" * 20]))
    assert [str(word) for word in seq] == [f"{a}{i}" for a in "abcdefgh" * 20 for i in range(0, 100, 2)]


def test_dictionaries_within_a_dictionary_are_told_apart():
    """Of two chunks whose lists lie in the same memory and refer to other words."""
    numbers, bounds = pa.array(np.arange(100, dtype="i4")), pa.array(np.arange(101, dtype="i4"))
    scattered = pa.array(np.arange(0, 100, 2, dtype="i4"))

    def encoded(letter):
        words = pa.DictionaryArray.from_arrays(numbers, pa.array([f"{letter}{i}" for i in range(100)]))
        return pa.DictionaryArray.from_arrays(scattered, pa.ListArray.from_arrays(bounds, words))

    seq = from_arrow(pa.chunked_array([encoded("a"), encoded("b")]))
    assert seq.tolist() == [[f"{a}{i}"] for a in "ab" for i in range(0, 100, 2)]


def test_lists_that_nobody_refers_to_may_have_nulls():
    values = pa.array([[1, None], [2, 3], [4]])
    seq = from_arrow(pa.DictionaryArray.from_arrays(pa.array([1, 2, 1]), values))
    assert_holds(seq, int64s([2, 3], [4], [2, 3]))
    with pytest.raises(TypeError, match="element 2 has nulls"):
        from_arrow(pa.DictionaryArray.from_arrays(pa.array([1, 2, 0, 0]), values))


RAGGED = {
    "two levels": (pa.array([[[1], [2]], [[3, 4], [5]]]), 1),
    "sliced": (pa.array([[[1]], [[1], [2]], [[3, 4], [5]]])[1:], 1),
    "three levels": (pa.array([[[[1], [2]]], [[[3], [5]]], [[[3], [5, 6]]]]), 2),
    "of one size": (pa.array([[[1], [1]], [[1], [1, 2]]], pa.list_(pa.list_(pa.int64()), 2)), 1),
}


@pytest.mark.parametrize(("array", "at"), RAGGED.values(), ids=RAGGED)
def test_the_ragged_element_is_named(array, at):
    with pytest.raises(ValueError, match=f"^element {at} is ragged.*lists of"):
        from_arrow(array)


HAVE_NULLS = {
    "two levels": pa.array([[[1, 2], [3, 4]], [[5, None], [6, 7]]]),
    "three levels": pa.array([[[[1], [2]]], [[[3, 4], [5, None]]]]),
    "of strings": pa.array([[[["a"], ["b"]]], [[["c", None]]]]),
}


@pytest.mark.parametrize("array", HAVE_NULLS.values(), ids=HAVE_NULLS)
def test_the_element_with_a_null_is_named_at_any_level(array):
    with pytest.raises(TypeError, match=r"^element 1 has nulls"):
        from_arrow(array)
    with pytest.raises(TypeError, match=r"^element 0 has nulls"):
        from_arrow(array[1:])


def test_no_number_is_rounded_for_a_type_that_is_asked_for():
    seq = TensorSequence([np.array([2**53 + 1])])
    asked = pa.list_(pa.float64()).__arrow_c_schema__()
    made = pa.Array._import_from_c_capsule(*seq.__arrow_c_array__(asked))
    assert made.type == pa.large_list(pa.int64())
    assert made.to_pylist() == [[2**53 + 1]]


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
