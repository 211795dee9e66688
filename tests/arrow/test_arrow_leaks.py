"""Nothing stays behind of what went to Arrow or came from there, errors included, over many rounds."""

import gc
import tracemalloc

import numpy as np
import pytest
from support.c_producers import Node, Stream, bits, lists, numbers
from support.type_cache import clear_type_cache

from seqcore import TensorSequence

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
