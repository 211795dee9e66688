"""Streams of Arrow's arrays, both ways: chunks that are one sequence."""

import contextlib
import gc
import weakref

import pytest
from support.strategies import assert_holds, filled

from seqcore import TensorSequence, split_to_sequence

pa = pytest.importorskip("pyarrow")


def address(array):
    return array.__array_interface__["data"][0]


# --- out ---


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


# --- in ---


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
