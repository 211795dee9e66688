"""from_arrow of memory that others own, without any package: when it is let go; and streams of it."""

import gc

from support.arrow.producers import Stream
from support.races import together
from support.strategies import assert_holds
from test_arrow_foreign import address, pairs, shared

from seqcore import TensorSequence

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


def test_a_last_element_in_another_thread():
    node, _ = pairs()
    box = [from_arrow(node)[2]]
    together(lambda: box.pop().sum())
    gc.collect()
    assert node.counts() == [1, 1]


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


def test_a_message_stays_unread_where_nothing_fails():
    stream = Stream(lambda: pairs()[0], [pairs()[0]], message=b"nothing of the kind")
    assert len(from_arrow(stream)) == 3
    assert stream.settled()
