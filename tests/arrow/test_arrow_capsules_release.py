"""Who owns what stands in Arrow's capsules, and when it is let go: moved, released, or never taken."""

import ctypes
import gc
import sys
import weakref
from functools import partial

import numpy as np
import pytest
from support.arrow.c_data import (
    Array,
    ArrayStream,
    Chunks,
    Schema,
    children,
    decode,
    look,
    move,
    release,
    take,
    taken,
)
from support.races import together
from support.strategies import filled

from seqcore import TensorSequence, split_to_sequence

ROWS = filled("int32", (6, 2)).tolist()
LISTS = [[row] for row in ROWS]


def rows():
    """A sequence that shares memory, and a reference that tells when nobody needs that any more."""
    source = filled("int32", (6, 2))
    return split_to_sequence(source), weakref.ref(source)


def gone(ref):
    return ref() is None or (gc.collect() >= 0 and ref() is None)


def test_the_schema_keeps_nothing():
    seq, ref = rows()
    schema, array = taken(seq)
    del seq
    release(schema)
    assert not gone(ref)
    release(array)
    assert gone(ref)
    seq, ref = rows()
    alone = take(seq.__arrow_c_schema__(), Schema)
    del seq
    assert gone(ref)
    assert alone.format == b"+L"
    release(alone)


def test_capsules_that_nobody_takes():
    seq, ref = rows()
    capsules = [seq.__arrow_c_schema__(), seq.__arrow_c_array__(), seq.__arrow_c_stream__()]
    del seq
    assert not gone(ref)
    del capsules
    assert gone(ref)


@pytest.mark.parametrize("first", [0, 1])
def test_half_a_pair_that_nobody_takes(first):
    seq, ref = rows()
    pair = list(seq.__arrow_c_array__())
    one = take(pair[first], (Schema, Array)[first])
    del seq, pair
    gc.collect()
    release(one)
    assert gone(ref)


def test_capsules_without_their_structs_release_nothing():
    seq, ref = rows()
    pair = seq.__arrow_c_array__()
    schema, array = take(pair[0], Schema), take(pair[1], Array)
    assert not look(pair[0], Schema).release
    assert not look(pair[1], Array).release
    del pair, seq
    gc.collect()
    assert decode(schema, array) == LISTS
    release(schema)
    release(array)
    assert gone(ref)


def test_released_within_the_capsule():
    seq, ref = rows()
    pair = seq.__arrow_c_array__()
    stream = seq.__arrow_c_stream__()
    del seq
    for capsule, kind in [*zip(pair, (Schema, Array), strict=True), (stream, ArrayStream)]:
        release(look(capsule, kind))
    assert gone(ref)
    del pair, stream, capsule
    gc.collect()


def test_a_release_marks_all_that_is_left():
    seq = TensorSequence([filled("int8", (2, 3)), filled("int8", (1, 4))])
    for struct in taken(seq):
        below = [one for child in children(struct) for one in (child, *children(child))]
        assert len(below) == 4
        assert all(one.release for one in below)
        release(struct)


@pytest.mark.parametrize("shapes", [[(2, 3), (1, 3)], [(2, 3), (1, 4)], [(2,), (0,)]])
@pytest.mark.parametrize("later", [False, True])
def test_children_can_be_moved_out(shapes, later):
    """A consumer may keep one child alone, and release its parent before or after."""
    arrays = [filled("int32", shape) for shape in shapes]
    schema, array = taken(TensorSequence(arrays))
    expected = decode(children(schema)[0], children(array)[0])
    kinds, arrays = [move(one) for one in children(schema)], [move(one) for one in children(array)]
    if not later:
        release(schema)
        release(array)
    gc.collect()
    assert decode(kinds[0], arrays[0]) == expected
    for one in (*arrays, *kinds):
        release(one)
    if later:
        release(array)
        release(schema)


@pytest.mark.parametrize("order", ["parent first", "child first"])
def test_a_moved_child_keeps_the_memory(order):
    seq, ref = rows()
    schema, array = taken(seq)
    del seq
    inner = move(children(children(array)[0])[0])
    assert inner.length == 12
    if order == "parent first":
        release(array)
        assert not gone(ref)
        values = np.frombuffer((ctypes.c_int32 * 12).from_address(inner.buffers[1]), "i4")
        assert values.tolist() == np.ravel(ROWS).tolist()
        del values
        release(inner)
    else:
        release(inner)
        release(array)
    assert gone(ref)
    release(schema)


@pytest.mark.parametrize("taken_from", ["array", "stream"])
def test_a_release_from_another_thread(taken_from):
    """One that Python has never seen lets go without the GIL, as Rust's and C++'s consumers do."""
    seq, ref = rows()
    if taken_from == "array":
        structs = list(taken(seq))
    else:
        chunks = Chunks(seq.__arrow_c_stream__())
        structs = [chunks.schema(), chunks.next(), chunks.stream]
    del seq
    together(*(partial(release, one) for one in structs))
    assert not any(one.release for one in structs)
    del structs
    assert gone(ref)


@pytest.mark.skipif(sys.platform == "win32", reason="no POSIX threads")
def test_a_release_from_a_thread_that_is_not_pythons():
    seq, ref = rows()
    schema, array = taken(seq)
    del seq
    library = ctypes.CDLL(None)
    for one in (array, schema):
        handle = ctypes.c_void_p()
        start = ctypes.cast(one.release, ctypes.c_void_p)
        if library.pthread_create(ctypes.byref(handle), None, start, ctypes.byref(one)):
            pytest.skip("no thread")
        library.pthread_join(handle, None)
        assert not one.release
    assert gone(ref)


# --- streams ---


def test_a_stream():
    seq, ref = rows()
    chunks = Chunks(seq.__arrow_c_stream__())
    del seq
    first, again = chunks.schema(), chunks.schema()
    assert first.format == again.format == b"+L"
    release(again)
    got = []
    while (array := chunks.next()).release:
        got += decode(first, array)
        assert array.null_count == 0
        release(array)
    assert got == LISTS
    for _ in range(3):
        assert not chunks.next().release
    assert chunks.last_error() in (None, b"")
    last = chunks.schema()
    chunks.close()
    assert last.format == b"+L"
    release(first)
    release(last)
    assert gone(ref)


def test_a_stream_goes_on_in_another_thread():
    seq, ref = rows()
    chunks = Chunks(seq.__arrow_c_stream__())
    del seq
    got = []

    def read():
        schema = chunks.schema()
        while (array := chunks.next()).release:
            got.extend(decode(schema, array))
            release(array)
        release(schema)
        chunks.close()

    together(read)
    assert got == LISTS
    assert gone(ref)
