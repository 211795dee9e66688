"""from_arrow of memory that others own, without any package: when it is let go; and streams of it."""

import gc
import pickle
import threading

import numpy as np
import pytest
from support.c_producers import Node, Stream
from support.strategies import assert_holds
from test_arrow_foreign import address, pairs, shared

from seqcore import TensorSequence, concat_from_sequence

from_arrow = TensorSequence.from_arrow


def test_the_last_element_lets_go():
    node, expected = pairs()
    seq = from_arrow(node)
    gc.collect()
    assert node.counts()[1] == 0
    element, other = seq[2], seq[:1]
    del seq
    gc.collect()
    assert node.counts()[1] == 0
    assert element.tolist() == expected[2].tolist()
    del element
    gc.collect()
    assert node.counts()[1] == 0
    assert other[0].tolist() == expected[0].tolist()
    del other
    gc.collect()
    assert node.counts() == [1, 1]
    assert node.settled()


@pytest.mark.parametrize(
    "let_go", [TensorSequence.clear, TensorSequence.compact, lambda seq: seq.__setitem__(slice(None), [])]
)
def test_edits_let_go(let_go):
    node, _ = pairs()
    seq = from_arrow(node)
    let_go(seq)
    gc.collect()
    assert node.counts() == [1, 1]
    seq._check()


def test_copies_and_pickles_stand_alone():
    node, expected = pairs()
    seq = from_arrow(node)
    copied = pickle.loads(pickle.dumps(seq))
    joined = concat_from_sequence(seq, 0)
    del seq
    assert node.settled()
    assert_holds(copied, expected)
    assert joined.tolist() == np.concatenate(expected).tolist()


def test_a_last_element_in_another_thread():
    node, _ = pairs()
    box = [from_arrow(node)[2]]
    thread = threading.Thread(target=lambda: box.pop().sum())
    thread.start()
    thread.join(60)
    assert not thread.is_alive()
    gc.collect()
    assert node.counts() == [1, 1]


def test_mixed_with_other_elements():
    node, expected = pairs()
    seq = from_arrow(node)
    seq.append(np.full((2, 2), 7, "int32"))
    del seq[0]
    assert_holds(seq, [*expected[1:], np.full((2, 2), 7, "int32")])
    del seq[:2]
    assert node.settled()
    assert_holds(seq, [np.full((2, 2), 7, "int32")])


# --- streams ---


def test_chunks_become_one_sequence():
    nodes, expected = zip(*(pairs() for _ in range(3)), strict=True)
    addresses = [address(one.children[0].buffers[1]) for one in nodes]
    stream = Stream(lambda: pairs()[0], nodes)
    seq = from_arrow(stream)
    assert stream.released == 1
    assert_holds(seq, [one for arrays in expected for one in arrays])
    shared(seq, *(start + 4 * i for start in addresses for i in (0, 2)))
    del seq[:3]
    gc.collect()
    assert [one.released for one in nodes] == [1, 0, 0]
    assert_holds(seq[:3], expected[1])
    del seq
    assert stream.settled()


@pytest.mark.parametrize("chunks", [0, 1, 3])
def test_streams_of_nothing(chunks):
    def empty():
        return Node("+L", 0, [None, None], [Node("e", 0, [None, None])])

    stream = Stream(empty, [empty() for _ in range(chunks)])
    seq = from_arrow(stream)
    assert_holds(seq, [])
    assert seq.dtype == "float16"
    assert stream.settled()


def test_a_stream_of_batches():
    def batch():
        return Node("+s", 3, [None], [pairs()[0]], name=b"")

    stream = Stream(batch, [batch(), batch()])
    assert_holds(from_arrow(stream), pairs()[1] * 2)
    assert stream.settled()


def test_a_message_stays_unread_where_nothing_fails():
    stream = Stream(lambda: pairs()[0], [pairs()[0]], message=b"nothing of the kind")
    assert len(from_arrow(stream)) == 3
    assert stream.settled()
