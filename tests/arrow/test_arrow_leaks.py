"""Nothing stays behind of what went to Arrow or came from there, errors included, over many rounds."""

import gc
import tracemalloc

import numpy as np
import pytest
from support.c_data import Chunks, release, taken
from support.c_producers import Node, Stream, bits, lists, numbers
from support.strategies import filled
from support.type_cache import clear_type_cache

from seqcore import TensorSequence, split_to_sequence

pytestmark = pytest.mark.thread_unsafe
from_arrow = TensorSequence.from_arrow


def leaks(action, rounds=200):
    """Whether memory of Python and NumPy grows with the rounds, after some that warm up.

    What is kept once comes at any time, and a leak each time: more than 16 bytes, in each of several counts.
    """
    for _ in range(20):
        action()
    return all(count(action, rounds) > 16 * rounds for _ in range(4))


def settle():
    gc.collect()
    clear_type_cache()


def count(action, rounds):
    settle()
    tracemalloc.start()
    try:
        for _ in range(5):
            action()
        settle()
        before, _ = tracemalloc.get_traced_memory()
        for _ in range(rounds):
            action()
        settle()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return after - before


SEQUENCES = {
    "numbers": split_to_sequence(filled("int32", (64, 2))),
    "rank 0": split_to_sequence(filled("int32", 64), keepdims=0),
    "bools": split_to_sequence(filled("bool", 64), 3),
    "strings": split_to_sequence(filled("string", 64), 3),
    "copies": split_to_sequence(filled("int32", (64, 2)), axis=1),
    "several memories": TensorSequence([filled("int32", n) for n in range(20)]),
    "variable shapes": TensorSequence([filled("int32", (n, 5 - n)) for n in range(5)]),
    "none": TensorSequence(dtype="int8"),
}
sequences = pytest.mark.parametrize("seq", SEQUENCES.values(), ids=SEQUENCES)


def take_all(seq):
    for one in taken(seq):
        release(one)
    chunks = Chunks(seq.__arrow_c_stream__())
    release(chunks.schema())
    while (array := chunks.next()).release:
        release(array)
    chunks.close()


def take_nothing(seq):
    seq.__arrow_c_schema__()
    seq.__arrow_c_array__()
    seq.__arrow_c_stream__()


def take_half(seq):
    schema, array = taken(seq)
    release(array)
    release(schema)
    chunks = Chunks(seq.__arrow_c_stream__())
    array = chunks.next()
    chunks.close()
    if array.release:
        release(array)


def go_round(seq):
    assert len(from_arrow(seq)) == len(seq)


@pytest.mark.mostly_slow(19)
@pytest.mark.parametrize("action", [take_all, take_nothing, take_half, go_round])
@sequences
def test_rounds(seq, action):
    assert not leaks(lambda: action(seq))


@pytest.mark.slow
def test_refused_rounds():
    odd = TensorSequence([filled("int32", 2), filled("int32", (2, 2))])
    complexes = TensorSequence([filled("complex64", 2)])
    whole = SEQUENCES["numbers"]

    def fail():
        for seq, error in ((odd, ValueError), (complexes, TypeError)):
            for give in (seq.__arrow_c_schema__, seq.__arrow_c_array__, seq.__arrow_c_stream__):
                with pytest.raises(error):
                    give()
        for give in (whole.__arrow_c_array__, whole.__arrow_c_stream__):
            with pytest.raises(TypeError):
                give(5)
        with pytest.raises(TypeError):
            from_arrow(5)

    assert not leaks(fail)


def producers():
    values = np.arange(100)
    yield "numbers", lambda: numbers(values.copy())
    yield "lists", lambda: lists(np.array([0, 2, 100]), numbers(values.copy()))
    yield (
        "nulls",
        lambda: lists(np.array([0, 2, 100]), numbers(values.copy()), valid=bits([1, 0]), null_count=1),
    )
    yield "no type", lambda: Node("tdD", 1, [None, values.copy()])
    yield "no format", lambda: Node("?", 1, [None, values.copy()])
    yield "offsets", lambda: lists(np.array([0, 200]), numbers(values.copy()))
    yield "stream", lambda: Stream(lambda: numbers(values.copy()), [numbers(values.copy()) for _ in range(3)])
    yield (
        "torn",
        lambda: Stream(
            lambda: numbers(values.copy()), [numbers(values.copy()) for _ in range(3)], fails_at=2
        ),
    )
    yield "two columns", lambda: Node("+s", 100, [None], [numbers(values.copy()), numbers(values.copy())])


@pytest.mark.parametrize(("name", "make"), list(producers()), ids=[*dict(producers())])
def test_each_producer_is_released(name, make):
    """Twenty times, so that what is kept once and for all is told from what is kept each time."""
    for _ in range(20):
        node = make()
        try:
            seq = from_arrow(node)
        except (TypeError, ValueError, OSError, RuntimeError):
            assert name not in ("numbers", "lists", "stream")
        else:
            assert name in ("numbers", "lists", "stream")
            del seq
        assert node.settled()


@pytest.mark.slow
def test_pyarrows_memory():
    pa = pytest.importorskip("pyarrow")
    gc.collect()
    pool = pa.total_allocated_bytes()
    refused = [pa.array([[1], None]), pa.array([[[1], [2, 3]]]), pa.table({"x": [1], "y": [2]}), pa.nulls(2)]

    def round_trips():
        given = pa.array([[1, 2], [], [3] * 100], pa.large_list(pa.int16()))
        seq = from_arrow(given)
        assert from_arrow(pa.array(seq)) == seq
        assert from_arrow(pa.chunked_array(seq)) == seq
        seq.__arrow_c_array__()
        seq.__arrow_c_stream__()
        pa.array(seq, pa.list_(pa.int16()))
        for one in refused:
            with pytest.raises((TypeError, ValueError)):
                from_arrow(one)

    assert not leaks(round_trips)
    refused.clear()
    gc.collect()
    assert pa.total_allocated_bytes() <= pool
