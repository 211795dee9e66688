"""Whatever a call does, also one that fails: what it held is let go with it, and raw memory too."""

import contextlib
import tracemalloc
import weakref

import numpy as np
import pytest
from support.counting import rows, tensor

import seqcore as sq
from seqcore import TensorSequence

NOTHING = TensorSequence.__new__(TensorSequence)

# What is done to a sequence of six (1, 4) tensors, with new tensors that a function makes.
CALLS = {
    "insert": lambda seq, new: seq.insert(3, new()),
    "insert nowhere": lambda seq, new: seq.insert(999, new()),
    "insert far in front": lambda seq, new: seq.insert(-999, new()),
    "append": lambda seq, new: seq.append(new()),
    "append another type": lambda seq, new: seq.append(new().astype(float)),
    "extend": lambda seq, new: seq.extend([new(), new()]),
    "extend by what fails": lambda seq, new: seq.extend([new(), 1.5]),
    "extend by itself": lambda seq, new: seq.extend(seq),
    "extend by a sequence": lambda seq, new: seq.extend(TensorSequence([new()])),
    "set": lambda seq, new: seq.__setitem__(2, new()),
    "set nowhere": lambda seq, new: seq.__setitem__(999, new()),
    "set a slice": lambda seq, new: seq.__setitem__(slice(1, 3), [new() for _ in range(5)]),
    "set a slice to less": lambda seq, new: seq.__setitem__(slice(1, 6), [new()]),
    "set a slice to itself": lambda seq, new: seq.__setitem__(slice(1, 3), seq),
    "set every other": lambda seq, new: seq.__setitem__(slice(None, None, 2), [new() for _ in range(3)]),
    "set every other to too many": lambda seq, new: seq.__setitem__(slice(None, None, 2), [new(), new()]),
    "set a slice of step 0": lambda seq, new: seq.__setitem__(slice(None, None, 0), [new()]),
    "set some": lambda seq, new: seq.__setitem__([1, 1, 3], [new() for _ in range(3)]),
    "set some to too few": lambda seq, new: seq.__setitem__([1, 1, 3], [new()]),
    "set some nowhere": lambda seq, new: seq.__setitem__([1, 999], [new(), new()]),
    "set some to itself": lambda seq, new: seq.__setitem__([5, 4, 3, 2, 1, 0], seq),
    "set by a mask": lambda seq, new: seq.__setitem__([True] * 6, [new() for _ in range(6)]),
    "set by a long mask": lambda seq, new: seq.__setitem__([True] * 7, [new() for _ in range(7)]),
    "get": lambda seq, new: (seq[1], seq[-1], seq[1:4], seq[::-2], seq[[0, 0]], seq[[True] * 6]),
    "get nowhere": lambda seq, new: seq[999],
    "get some nowhere": lambda seq, new: seq[[0, 999]],
    "get by a short mask": lambda seq, new: seq[[True] * 5],
    "pop": lambda seq, new: (seq.pop(0), seq.pop()),
    "pop nowhere": lambda seq, new: seq.pop(999),
    "erase nowhere": lambda seq, new: seq.erase(-999),
    "delete": lambda seq, new: (seq.__delitem__(0), seq.__delitem__(slice(1, 3))),
    "delete every other": lambda seq, new: seq.__delitem__(slice(None, None, -2)),
    "delete all": lambda seq, new: seq.__delitem__(slice(None)),
    "delete some": lambda seq, new: seq.__delitem__([1, -1, 1]),
    "delete some nowhere": lambda seq, new: seq.__delitem__([1, 999]),
    "delete by a mask": lambda seq, new: seq.__delitem__([True, False] * 3),
    "delete by a long mask": lambda seq, new: seq.__delitem__([True] * 7),
    "remove": lambda seq, new: seq.remove(seq[3]),
    "remove what is not there": lambda seq, new: seq.remove(new()),
    "look": lambda seq, new: (seq.count(new()), seq[2] in seq, seq.index(seq[5])),
    "look in vain": lambda seq, new: seq.index(new()),
    "look for another type": lambda seq, new: new().astype(float) in seq,
    "compare": lambda seq, new: (seq == seq.copy(), seq == seq[:3], seq == seq[:5] + [new()]),
    "reverse": lambda seq, new: seq.reverse(),
    "compact": lambda seq, new: seq.compact(),
    "clear": lambda seq, new: seq.clear(),
    "read": lambda seq, new: (seq.values(), seq.lengths(), seq.offsets(), seq.shapes, seq.pinned_nbytes),
    "pad": lambda seq, new: (seq.to_padded(out=np.zeros((6, 1, 4), int)), seq.to_padded(shape=(0, 4))),
    "join": lambda seq, new: (sq.concat_from_sequence(seq, 1), sq.concat_from_sequence(seq, 9)),
    "join what doesn't fit": lambda seq, new: sq.concat_from_sequence(seq + [new()[0]], 0),
    "into one without a type": lambda seq, new: NOTHING.extend(seq),
    "into a slice of one": lambda seq, new: NOTHING.__setitem__(slice(None), seq),
    "into some of one": lambda seq, new: NOTHING.__setitem__([0], seq[:1]),
    "astype": lambda seq, new: (seq.astype("int64"), seq.astype("float32"), seq.astype("string")),
    "arrow": lambda seq, new: TensorSequence.from_arrow(seq[::-1])[1:],
    "arrow left where it is": lambda seq, new: (seq.__arrow_c_array__(), seq.__arrow_c_stream__()),
    "iterate": lambda seq, new: (next(iter(seq)), [*reversed(seq)]),
}


def call(name, seq, new):
    with contextlib.suppress(IndexError, TypeError, ValueError):
        CALLS[name](seq, new)


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("shared", [False, True])
def test_arrays_are_let_go(name, shared):
    alive = []

    def new(value=-1):
        alive.append(weakref.ref(array := tensor(value)))
        return array

    table = np.arange(12).reshape(3, 4)
    alive.append(weakref.ref(table))
    seq = sq.split_to_sequence(table) + [new(20), new(21), new(22)]
    del table
    other = seq.copy() if shared else None
    call(name, seq, new)
    seq._check()
    assert other is None or other.tolist() == [[row] for row in np.arange(12).reshape(3, 4).tolist()] + [
        [[i] * 4] for i in (20, 21, 22)
    ]
    del seq, other
    assert [one() for one in alive] == [None] * len(alive)


@pytest.mark.thread_unsafe
@pytest.mark.parametrize("name", CALLS)
def test_raw_memory_is_let_go(name):
    """Slots, marks and structs are no objects: their bytes are counted, of so many elements that it tells."""

    def rounds(n):
        for _ in range(n):
            seq = rows(500, 4)[::-1]
            call(name, seq, tensor)

    rounds(3)
    tracemalloc.start()
    try:
        rounds(3)
        before = tracemalloc.get_traced_memory()[0]
        rounds(20)
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert grown < 5000  # 250 bytes a round: less than a mark for each element
