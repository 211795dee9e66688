"""Threads that give one sequence to Arrow and take it back, while others edit it."""

import gc
import threading

import numpy as np
import pytest
from support.arrow.c_data import Chunks, decode, release, taken
from support.races import together
from support.strategies import filled

from seqcore import TensorSequence, split_to_sequence

pytestmark = pytest.mark.usefixtures("frequent_switches")

ROUNDS = 100
from_arrow = TensorSequence.from_arrow


def rows(count=40):
    """Element i is a row of two times i."""
    return split_to_sequence(np.repeat(np.arange(count), 2).reshape(count, 2), keepdims=0)


def repeat(action):
    return lambda: [action() for _ in range(ROUNDS)]


def edit(seq):
    def run():
        for i in range(ROUNDS):
            seq.append(np.full(2, 100 + i))
            seq.insert(0, np.full(2, 200 + i))
            del seq[1]
            seq[0] = np.full(2, 300 + i)
            seq.reverse()
            seq.extend(rows(3))
            del seq[40:]

    return run


def whole(lists):
    """Each element is one that the sequence had: never half of one."""
    for one in lists:
        assert len(one) == 2
        assert one[0] == one[1]


def test_arrays_beside_edits():
    seq = rows()

    def give():
        schema, array = taken(seq)
        whole(decode(schema, array))
        release(schema)
        release(array)

    def stream():
        chunks = Chunks(seq.__arrow_c_stream__())
        schema, got = chunks.schema(), []
        while (array := chunks.next()).release:
            got += decode(schema, array)
            release(array)
        whole(got)
        release(schema)
        chunks.close()

    together(repeat(give), repeat(stream), edit(seq), edit(seq))
    seq._check()


def test_from_arrow_beside_edits():
    seq = rows()

    def go_round():
        back = from_arrow(seq)
        back._check()
        whole([one.tolist() for one in back])

    together(repeat(go_round), repeat(go_round), edit(seq))
    seq._check()


def test_a_type_that_comes_and_goes():
    """An export sees elements of one shape or of two, and gives a whole array of that type."""
    seq = rows()
    kinds = set()

    def give():
        for _ in range(ROUNDS):
            schema, array = taken(seq)
            kinds.add(schema.format)
            assert array.length == len(decode(schema, array))
            release(schema)
            release(array)

    def change():
        for _ in range(ROUNDS):
            seq[:] = [filled("int64", (2, 3)), filled("int64", (1, 4))]
            seq[:] = [filled("int64", (2, 3)), filled("int64", (1, 3))]
            seq[:] = rows(3)
            seq.clear()

    together(give, give, change)
    assert kinds <= {b"+L", b"+s"}
    seq._check()


def test_one_stream_by_several_threads():
    """Chunks are given once each."""
    parts = [split_to_sequence(filled("int32", 1000, start), 10) for start in range(8)]
    seq = sum(parts[1:], parts[0])
    chunks, lock, got = Chunks(seq.__arrow_c_stream__()), threading.Lock(), []

    def read():
        while True:
            with lock:  # a stream is for one thread at a time
                array = chunks.next()
            if not array.release:
                return
            got.append(array.length)
            release(array)

    together(read, read, read)
    assert sum(got) == len(seq)
    chunks.close()


@pytest.mark.thread_unsafe
def test_elements_that_die_in_many_threads():
    pa = pytest.importorskip("pyarrow")
    pool = pa.total_allocated_bytes()
    for _ in range(10):
        seq = from_arrow(pa.chunked_array([[[i, i]] * 50 for i in range(4)], pa.list_(pa.int64())))
        shares = [[seq[i] for i in range(start, 200, 4)] for start in range(4)]
        del seq
        together(*(one.clear for one in shares))
    gc.collect()
    assert pa.total_allocated_bytes() == pool
