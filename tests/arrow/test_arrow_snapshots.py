"""What was given to Arrow stays as it was, for as long as somebody has it and no longer."""

import copy
import gc
import weakref

import pytest
from support.strategies import filled

from seqcore import TensorSequence, split_to_sequence

pa = pytest.importorskip("pyarrow")

from support.arrow_values import elements_of, sound  # noqa: E402

SOURCES = {
    "split": lambda a: split_to_sequence(a, [1, 0, 2, 3]),
    "without the axis": lambda a: split_to_sequence(a, keepdims=0),
    "slice": lambda a: split_to_sequence(a)[1:4],
    "whole": lambda a: TensorSequence([a]),
    "offsets": lambda a: TensorSequence.from_offsets(a, [0, 2, 6]),
}
sources = pytest.mark.parametrize("make", SOURCES.values(), ids=SOURCES)


def lists_of(seq):
    return [one.tolist() for one in seq]


def gone(ref):
    return ref() is None or (gc.collect() >= 0 and ref() is None)


def other(seq):
    """An element that fits among the others and equals none."""
    return filled("string" if seq.dtype == object else seq.dtype.name, seq[0].shape, start=50)


EDITS = {
    "clear": lambda seq: seq.clear(),
    "erase": lambda seq: seq.erase(0),
    "insert": lambda seq: seq.insert(0, other(seq)),
    "append": lambda seq: seq.append(other(seq)),
    "append of another rank": lambda seq: seq.append(other(seq)[None, None]),
    "assign": lambda seq: seq.__setitem__(0, other(seq)),
    "assign to all": lambda seq: seq.__setitem__(slice(None), []),
    "compact": lambda seq: seq.compact(),
    "reverse": lambda seq: seq.reverse(),
    "+=": lambda seq: seq.__iadd__(seq.copy()),
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
@pytest.mark.parametrize("name", ["int32", "bool", "string"])
@sources
def test_edits_do_not_show(make, name, edit):
    seq = make(filled(name, (6, 2)))
    before = lists_of(seq)
    made, chunked = pa.array(seq), pa.chunked_array(seq)
    pair, stream = seq.__arrow_c_array__(), seq.__arrow_c_stream__()
    edit(seq)
    for one in (
        made,
        pa.Array._import_from_c_capsule(*pair),
        chunked.combine_chunks(),
        pa.ChunkedArray._import_from_c_capsule(stream).combine_chunks(),
    ):
        assert sound(one).to_pylist() == before
    seq._check()


@sources
def test_memory_lives_as_long_as_the_consumer(make):
    source = filled("int32", (6, 2))
    ref = weakref.ref(source)
    made = pa.array(make(source))
    del source
    assert not gone(ref)
    tail = made[-1:]
    item = tail[0].values
    values = lists_of(elements_of(tail))
    del made
    assert not gone(ref)
    assert lists_of(elements_of(tail)) == values
    del tail
    assert not gone(ref)
    assert item.to_pylist() == values[0]
    del item
    assert gone(ref)


def test_an_array_of_numpys_view_keeps_it_too():
    source = filled("int32", (6, 2))
    ref = weakref.ref(source)
    numbers = pa.array(split_to_sequence(source)).values.values.to_numpy()
    del source
    assert not gone(ref)
    assert numbers.tolist() == filled("int32", 12).tolist()
    assert not numbers.flags.writeable
    del numbers
    assert gone(ref)


def test_the_same_capsules_twice():
    seq = split_to_sequence(filled("int32", (6, 2)))
    pair, stream, schema = seq.__arrow_c_array__(), seq.__arrow_c_stream__(), seq.__arrow_c_schema__()
    pa.DataType._import_from_c_capsule(schema)
    made = pa.Array._import_from_c_capsule(*pair)
    chunked = pa.ChunkedArray._import_from_c_capsule(stream)
    for take in (
        lambda: pa.Array._import_from_c_capsule(*pair),
        lambda: pa.Array._import_from_c_capsule(seq.__arrow_c_array__()[0], pair[1]),
        lambda: pa.ChunkedArray._import_from_c_capsule(stream),
        lambda: pa.DataType._import_from_c_capsule(schema),
    ):
        with pytest.raises(pa.ArrowInvalid, match="released"):
            take()
    assert sound(made).to_pylist() == chunked.to_pylist() == lists_of(seq)


def test_a_writable_array_that_was_put_in_shows():
    """As it does in the sequence: no copy is no copy."""
    source = filled("int32", (6, 2))
    seq = split_to_sequence(source)
    made = pa.array(seq)
    source[0] = 77
    assert made[0].as_py() == [[77, 77]] == seq[0].tolist()


@pytest.mark.thread_unsafe
def test_elements_of_arrow_go_back_without_their_sequence():
    given = pa.array([[1, 2], [], [3]], pa.large_list(pa.int32()))
    expected = given.to_pylist()
    pool = pa.total_allocated_bytes()
    made = pa.array(TensorSequence.from_arrow(given))
    given_buffer = weakref.ref(given)
    del given
    gc.collect()
    assert given_buffer() is None
    assert sound(made).to_pylist() == expected
    assert pa.array(copy.copy(TensorSequence.from_arrow(made))).to_pylist() == expected
    del made
    gc.collect()
    assert pa.total_allocated_bytes() < pool
