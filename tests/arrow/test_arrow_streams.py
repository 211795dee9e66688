"""Streams of Arrow's arrays, both ways: chunks that are one sequence."""

import contextlib
import gc
import weakref

import numpy as np
import pytest
from support.strategies import assert_holds, filled, same

from seqcore import TensorSequence, split_to_sequence

pa = pytest.importorskip("pyarrow")

from support.arrow_values import ITEMS, SHARED_NAMES, addresses_of, chunks_of, sound  # noqa: E402


def address(array):
    return array.__array_interface__["data"][0]


def assert_chunks(chunked, arrays):
    for chunk in chunked.chunks:
        assert chunk.type == chunked.type
        sound(chunk)
    got = chunks_of(chunked)
    assert chunked.length() == len(got) == len(arrays)
    assert all(same(one, array) for one, array in zip(got, arrays, strict=True))


# --- out ---


@pytest.mark.parametrize("name", SHARED_NAMES)
def test_a_split_shares_memory(name):
    source = filled(name, (9, 2))
    for seq in (split_to_sequence(source, [2, 3, 4]), split_to_sequence(source, 1)[2:5]):
        made = pa.chunked_array(seq)
        got = [one for chunk in made.chunks for one in addresses_of(chunk)]
        assert got == [address(one) for one in seq]


def test_what_came_in_chunks_goes_out_in_order():
    chunks = [[[1, 2], []], [], [[3]], [[4, 5], [6]]]
    given = pa.chunked_array(chunks, pa.large_list(pa.int16()))
    made = pa.chunked_array(TensorSequence.from_arrow(given))
    assert made.to_pylist() == given.to_pylist()
    assert sound(pa.array(TensorSequence.from_arrow(given))).to_pylist() == given.to_pylist()


@pytest.mark.parametrize("kind", [pa.list_, pa.large_list])
def test_types_that_are_asked_for(kind):
    seq = split_to_sequence(filled("float32", 9), [2, 3, 4]) + split_to_sequence(filled("float32", 4), 2)
    made = pa.chunked_array(seq, kind(pa.float32()))
    assert made.type == kind(pa.float32())
    assert_chunks(made, list(seq))


def test_readers_of_batches_refuse_by_themselves():
    """A stream of lists is none of records: pyarrow says so, and nothing stays behind."""
    source = filled("int8", (4, 2))
    ref = weakref.ref(source)
    seq = split_to_sequence(source)
    with pytest.raises((pa.ArrowInvalid, TypeError)):
        pa.RecordBatchReader.from_stream(seq)
    assert len(seq) == 4
    del source, seq
    gc.collect()
    assert ref() is None


def test_a_stream_into_a_table_and_back():
    seq = split_to_sequence(filled("int64", (6, 2)), [1, 2, 3])
    table = pa.table({"x": pa.chunked_array(seq)})
    assert TensorSequence.from_arrow(table) == seq
    assert TensorSequence.from_arrow(table["x"]) == seq
    assert TensorSequence.from_arrow(table.to_reader()) == seq


# --- in ---


CHUNKS = [[], [[]], [[[1, 2], []]], [[[1, 2]], [], [[], [3]]], [[], [], [[4]]], [[[]], [[]]]]


@pytest.mark.parametrize("kind", [pa.list_, pa.large_list])
@pytest.mark.parametrize("chunks", CHUNKS, ids=str)
@pytest.mark.parametrize("name", ["bool", "int8", "float32"])
def test_chunks_become_one_sequence(name, chunks, kind):
    chunks = [[[bool(i) for i in one] if name == "bool" else one for one in rows] for rows in chunks]
    given = pa.chunked_array(chunks, kind(ITEMS[name]))
    seq = TensorSequence.from_arrow(given)
    assert seq.dtype == name
    assert_holds(seq, [np.array(one, name) for rows in chunks for one in rows])
    assert TensorSequence.from_arrow(pa.table({"x": given})) == seq


@pytest.mark.parametrize("name", SHARED_NAMES)
def test_chunks_and_their_slices_share_memory(name):
    sources = [filled(name, (n, 2)) for n in (6, 4, 8)]
    given = pa.chunked_array([pa.array(split_to_sequence(one, [2, len(one) - 2])) for one in sources])
    seq = TensorSequence.from_arrow(given)
    starts = [address(one) + at * 2 * one.itemsize for one in sources for at in (0, 2)]
    assert [address(one) for one in seq] == starts
    for start in range(6):
        for stop in range(start, 7):
            part = TensorSequence.from_arrow(given[start:stop])
            assert_holds(part, list(seq[start:stop]))
            assert [address(one) for one in part] == starts[start:stop]


def test_slices_of_length_0():
    given = pa.chunked_array([[[1, 2], [3]], [[4]]])
    for part in (
        given[0:0],
        given[1:1],
        given[3:],
        pa.chunked_array([given.chunk(0)[2:], given.chunk(1)[:0]]),
    ):
        seq = TensorSequence.from_arrow(part)
        assert_holds(seq, [])
        assert seq.dtype == "int64"


def test_a_chunk_lives_as_long_as_its_elements():
    sources = [filled("int32", (n, 2)) for n in (6, 4, 8)]
    refs = [weakref.ref(one) for one in sources]
    seq = TensorSequence.from_arrow(pa.chunked_array([pa.array(split_to_sequence(one)) for one in sources]))
    del sources
    gc.collect()
    assert all(ref() is not None for ref in refs)
    del seq[6:10]
    gc.collect()
    assert [ref() is None for ref in refs] == [False, True, False]
    one = seq[0]
    seq.clear()
    gc.collect()
    assert [ref() is None for ref in refs] == [False, True, True]
    del one
    gc.collect()
    assert refs[0]() is None


def test_chunks_of_other_extents_are_one_sequence():
    """Fixed sizes are part of the type; those of tensors are not."""
    kind = pa.array(TensorSequence([filled("int8", (2, 3)), filled("int8", (2, 4))])).type
    parts = [
        [filled("int8", (2, 3)), filled("int8", (1, 4))],
        [filled("int8", (5, 1)), filled("int8", (0, 7))],
    ]
    given = pa.chunked_array([pa.array(TensorSequence(one)) for one in parts], kind)
    assert_holds(TensorSequence.from_arrow(given), parts[0] + parts[1])


def test_inner_lengths_may_differ_between_elements_of_several_chunks():
    given = pa.chunked_array([[[[1, 2], [3, 4]], []], [[[5], [6]]]], pa.list_(pa.list_(pa.int32())))
    seq = TensorSequence.from_arrow(given)
    assert seq.dtype == "int32"
    assert seq[0].tolist() == [[1, 2], [3, 4]]
    assert seq[2].tolist() == [[5], [6]]
    assert seq.shapes[2] == (2, 1)


def test_dictionaries_that_differ_by_chunk():
    chunks = [pa.array([["a"], ["b", "a"]]), pa.array([["c"], []])]
    encoded = [pa.ListArray.from_arrays(one.offsets, one.values.dictionary_encode()) for one in chunks]
    seq = TensorSequence.from_arrow(pa.chunked_array(encoded))
    assert_holds(seq, [np.array(one, object) for one in (["a"], ["b", "a"], ["c"], [])])


@pytest.mark.parametrize("number", [2, 50])
def test_a_reader_that_fails(number):
    schema = pa.schema([("x", pa.list_(pa.int32()))])

    def batches():
        for i in range(number):
            yield pa.record_batch([pa.array([[i]], pa.list_(pa.int32()))], schema=schema)
        raise ValueError("the disk is gone")

    with pytest.raises(Exception, match="the disk is gone"):
        TensorSequence.from_arrow(pa.RecordBatchReader.from_batches(schema, batches()))


def test_a_reader_is_used_up():
    reader = pa.table({"x": [[1, 2], [3]]}).to_reader()
    assert len(TensorSequence.from_arrow(reader)) == 2
    with contextlib.suppress(TypeError, ValueError):
        assert len(TensorSequence.from_arrow(reader)) == 0
