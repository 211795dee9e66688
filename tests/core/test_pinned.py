"""pinned_nbytes: the distinct buffers that elements keep alive, beside a slow and obvious model."""

import array
import ctypes
import mmap

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import seqcore as sq
from seqcore import TensorSequence

N = 512  # items of float64 in each memory
NBYTES = 8 * N


class Kind(np.ndarray):
    nbytes = 10**12  # which is a lie

    @property
    def base(self):
        return np.zeros(7)  # this one too


class Foreign:
    """Shows an array by NumPy's interface, and tells nothing else."""

    def __init__(self, shown):
        self.shown = shown
        self.__array_interface__ = shown.__array_interface__


class Capsule:
    def __init__(self, shown):
        self.shown = shown

    def __dlpack__(self, **options):
        return self.shown.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.shown.__dlpack_device__()


# Arrays of N items that lead to a memory of NBYTES, and who keeps it.
MEMORIES = {
    "array": lambda folder: np.zeros(N),
    "fortran": lambda folder: np.zeros((N // 8, 8), order="F"),
    "reversed": lambda folder: np.zeros(N)[::-1],
    "subclass": lambda folder: np.zeros(N).view(Kind),
    "subclass that owns": lambda folder: Kind((N,)),
    "matrix": lambda folder: np.zeros((N // 8, 8)).view(np.recarray),
    "memmap": lambda folder: np.memmap(folder / "map", np.float64, "w+", shape=N),
    "mmap": lambda folder: np.frombuffer(mmap.mmap(-1, NBYTES)),
    "bytes": lambda folder: np.frombuffer(bytes(NBYTES)),
    "bytearray": lambda folder: np.frombuffer(bytearray(NBYTES)),
    "memoryview": lambda folder: np.frombuffer(memoryview(bytes(NBYTES))),
    "memoryview of a memoryview": lambda folder: np.frombuffer(memoryview(memoryview(bytearray(NBYTES))[:])),
    "array.array": lambda folder: np.frombuffer(array.array("d", [0.0] * N)),
    "ctypes": lambda folder: np.frombuffer((ctypes.c_double * N)()),
    "memoryview of an array": lambda folder: np.asarray(memoryview(np.zeros(N))),
    "windows": lambda folder: np.lib.stride_tricks.sliding_window_view(np.zeros(N), 5),
    "strided": lambda folder: np.lib.stride_tricks.as_strided(np.zeros(N), (N // 2,), (16,)),
    "broadcast": lambda folder: np.broadcast_to(np.zeros(N), (3, N)),
    "element": lambda folder: TensorSequence([np.zeros(N)])[0],
    "memoryview of an element": lambda folder: np.asarray(memoryview(TensorSequence([np.zeros(N)])[0])),
    "split": lambda folder: sq.split_to_sequence(np.zeros(N), N // 2)[1],
    "compact": lambda folder: np.asarray(memoryview(TensorSequence([np.zeros(N)], copy=True)[0])),
}
ALL_MEMORIES = pytest.mark.parametrize("name", MEMORIES)


@ALL_MEMORIES
def test_a_part_keeps_all_of_it(name, tmp_path):
    whole = MEMORIES[name](tmp_path)
    assert TensorSequence([whole]).pinned_nbytes == NBYTES
    assert TensorSequence([whole[:2]]).pinned_nbytes == NBYTES
    assert TensorSequence([whole[:3], whole[-2:], whole[1:2][:1]]).pinned_nbytes == NBYTES
    assert TensorSequence([np.asarray(whole[5:]), whole[::2]]).pinned_nbytes == NBYTES
    parts = sq.split_to_sequence(whole)
    assert parts.pinned_nbytes == parts[1:3].pinned_nbytes == NBYTES


@ALL_MEMORIES
def test_memories_of_each_kind_together(name, tmp_path):
    ours, others = MEMORIES[name](tmp_path), np.zeros(10)
    tensors = [tensor for _ in range(50) for tensor in (ours[:1], others[:1])]
    assert TensorSequence(tensors).pinned_nbytes == NBYTES + 80
    shuffled = [tensors[i] for i in np.random.default_rng(0).permutation(100)]
    assert TensorSequence(shuffled).pinned_nbytes == NBYTES + 80


def test_memory_that_does_not_tell():
    """It counts from the first to the last of the elements, whether they overlap or not."""
    told = np.zeros(N)
    for shown in (Foreign(told), Capsule(told)):
        tensor = TensorSequence([shown])[0]
        assert TensorSequence([tensor]).pinned_nbytes == NBYTES
        assert TensorSequence([tensor[:2]]).pinned_nbytes == 16
        assert TensorSequence([tensor[2:3], tensor[-1:]]).pinned_nbytes == NBYTES - 16
        assert TensorSequence([tensor[2:3], tensor[:5], tensor[4:3:-1]]).pinned_nbytes == 40
        assert TensorSequence([told[:1], tensor[7:9]]).pinned_nbytes == NBYTES + 16
        assert TensorSequence([tensor[:0]]).pinned_nbytes == 0


def test_keepers_that_have_let_go():
    """NumPy doesn't hold on to the buffer that it was given, so that neither tells where elements are."""
    kept = bytearray(NBYTES)
    tensor = np.frombuffer(memoryview(kept))
    assert TensorSequence([tensor[:2]]).pinned_nbytes == NBYTES
    tensor.base.release()
    assert TensorSequence([tensor[:2]]).pinned_nbytes == 16


def test_a_chain_that_bites_its_tail():
    """What NumPy puts between a strided view and its array has an attribute that anybody can set."""
    view = np.lib.stride_tricks.as_strided(np.zeros(N), (4,), (8,))
    between, kept = view.base, view.base.base
    between.base = view[:1]
    assert TensorSequence([view]).pinned_nbytes == 32
    between.base = kept
    assert TensorSequence([view]).pinned_nbytes == NBYTES


def buffer_of(tensor):
    """The object at the end of the chain, and the bytes of its buffer."""
    keeper = tensor
    while True:
        if isinstance(keeper, memoryview):
            keeper = keeper.obj
        elif isinstance(keeper, np.ndarray) and keeper.base is not None:
            keeper = keeper.base
        else:
            return id(keeper), memoryview(keeper).nbytes


@given(st.data())
def test_as_the_model_counts(data):
    memories = [
        np.zeros(20),
        np.frombuffer(bytes(160)),
        np.zeros((4, 5)).view(np.recarray),
        np.asarray(memoryview(np.zeros(30))[2:22]),
        np.frombuffer(memoryview(bytearray(200))[8:168]),
    ]
    tensors = []
    for _ in range(data.draw(st.integers(0, 12))):
        tensor = data.draw(st.sampled_from(tensors + memories))
        if tensor.ndim and len(tensor):
            start = data.draw(st.integers(0, len(tensor) - 1))
            tensor = tensor[start :: data.draw(st.sampled_from([1, 2, -1]))]
        tensors.append(tensor)
    kept = dict(map(buffer_of, tensors))
    assert TensorSequence(tensors, dtype="float64").pinned_nbytes == sum(kept.values())
