"""Sequences of a million elements, long chains of views and histories of copies: right, and freed without
recursion.
"""

import pickle
import sys
import tracemalloc
import weakref

import numpy as np
import pytest
from support.processes import output_of

import seqcore as sq
from seqcore import TensorSequence

# -- long sequences, long histories ----------------------------------------------------------------------

MANY = 100_000


@pytest.mark.slow
@pytest.mark.thread_unsafe
@pytest.mark.parametrize("n", [1_000_000, pytest.param(10_000_000, marks=pytest.mark.slow)])
@pytest.mark.at_night
def test_a_sequence_of_millions_of_pieces(n):
    array = np.arange(n, dtype=np.int32)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        seq = sq.split_to_sequence(array)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before <= 33 * n + 100_000  # for what is imported meanwhile
    assert len(seq) == n
    for position in (0, 1, n // 2, n - 1, -1, -n):
        assert seq[position].tolist() == [array[position]]
    with pytest.raises(IndexError, match=rf"position {n} is out of range .* \({-n} to {n - 1}\)"):
        seq[n]
    assert sum(len(piece) for piece in seq) == n
    del seq[::3]
    seq.reverse()
    expected = np.delete(array, np.s_[::3])[::-1]
    np.testing.assert_array_equal(sq.concat_from_sequence(seq, 0), expected)
    data = pickle.dumps(seq, protocol=5)
    assert len(data) < 4 * n + 24 * len(seq) + 1000
    assert pickle.loads(data) == seq
    del data
    seq.compact()
    assert seq.nbytes == seq.pinned_nbytes == 4 * len(expected)
    np.testing.assert_array_equal(sq.concat_from_sequence(seq, 0), expected)
    seq._check()


CHAIN = """
import sys, threading, weakref
import numpy as np
import seqcore as sq

class Sub(np.ndarray):
    pass

class Exporter:
    def __init__(self, element):
        self.kept, self.__array_interface__ = element, element.__array_interface__

WAYS = {
    "view": lambda e: e[:].T[...],
    "broadcast": lambda e: np.broadcast_to(e, e.shape),
    "subclass": lambda e: e.view(Sub)[:].view(Sub),
    "memoryview": memoryview,
    "array on a memoryview": lambda e: np.asarray(memoryview(e)),
    "dlpack": np.from_dlpack,
    "interface": Exporter,
    "next sequence": lambda e: sq.TensorSequence([e])[0],
    "split and split": lambda e: sq.split_to_sequence(e, 2)[0],
}
n, way = int(sys.argv[1]), sys.argv[2]

def chain():
    source = np.arange(2.0)
    gone = weakref.ref(source)
    seq = sq.TensorSequence([source])
    del source
    change = WAYS[way]
    for _ in range(n):
        seq.append(change(seq.pop()))
    assert seq[0].tolist() == [0, 1]
    assert gone() is not None
    assert seq.pinned_nbytes == 16
    seq.clear()
    assert gone() is None
    print("freed")

threading.stack_size(1 << 19)           # less than the usual, so that a shorter chain is too deep for it
thread = threading.Thread(target=chain)
thread.start()
thread.join()
"""
CHAINS = ("memoryview", "array on a memoryview", "dlpack", "interface")  # that no look at bases makes shorter
WAYS = [line.split(chr(34))[1] for line in CHAIN.splitlines() if line.endswith(",") and line[4:5] == chr(34)]


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.mostly_at_night(5)
def test_elements_put_back_over_and_over(way):
    """However long the chain of views that an element has come by, it is freed without a chain of calls."""
    if way == "dlpack" and np.lib.NumpyVersion(np.__version__) < "2.1.0":
        pytest.skip("NumPy 2.0 doesn't export what is read-only")
    n = MANY if way in CHAINS else MANY // 5
    assert output_of("-c", CHAIN, n, way) == "freed\n"


@pytest.mark.mostly_slow(7)
@pytest.mark.parametrize("edited", [False, True])
def test_a_long_history_of_copies(edited):
    source = np.zeros(3)
    gone = weakref.ref(source)
    seq = TensorSequence([source, source, source])
    del source
    keep = [seq]
    for i in range(MANY):
        seq = seq.copy()
        if edited:
            seq[i % 3] = seq[(i + 1) % 3]
            seq.append(seq.pop(0))
        if i % 2:
            keep.append(seq)
    assert all(len(one) == 3 for one in keep[::1000])
    seq._check()
    assert gone() is not None
    del seq, keep
    assert gone() is None


@pytest.mark.slow
def test_a_split_of_a_split_of_a_split():
    source = np.arange(1 << 16)
    gone = weakref.ref(source)
    seq = TensorSequence([source])
    del source
    while len(seq[0]) > 1:
        halves = TensorSequence(dtype="int64")
        for piece in seq:
            halves.extend(sq.split_to_sequence(piece, len(piece) // 2))
        seq = halves
    np.testing.assert_array_equal(sq.concat_from_sequence(seq, 0), np.arange(1 << 16))
    assert seq.pinned_nbytes == 8 << 16
    piece = halves = None
    seq.clear()
    assert gone() is None


DOUBLING = """
import resource, sys
import numpy as np
import seqcore as sq

seq = sq.split_to_sequence(np.arange(1 << 20), keepdims=0)
room = int(sys.argv[1]) << 20
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + room, used + room))
try:
    while True:
        n = len(seq)
        seq.extend(seq)
except MemoryError as error:
    assert str(error) == f"no memory for a sequence of {n} tensors", error
assert len(seq) == n
assert seq[n - 1] == (1 << 20) - 1
seq = seq[: n // 2]                 # a failure doesn't stay; all of them had as many runs as edits may make
seq.append(7)
assert len(seq) == n // 2 + 1
seq.clear()
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux bounds the memory of a process")
def test_a_sequence_doubled_until_there_is_no_memory():
    output_of("-c", DOUBLING, 256)
