"""Another thread edits while a call has given the GIL away: the call goes by one moment, and loses nothing.

With the GIL a thread that waits for it gets it when the call gives it away, and at no other time: switches
are far apart here. Without a GIL it comes at any time. A round in which it came too early or too late says
nothing and is tried again.
"""

import random
import sys
import threading
import time
import warnings

import numpy as np
import pytest

import seqcore as sq
from seqcore import TensorSequence

pytestmark = pytest.mark.thread_unsafe  # the interval is that of all threads

LARGE = 1 << 19  # numbers: NumPy and the core take milliseconds for as many, without the GIL
ROUNDS = 200
WITH_GIL = getattr(sys, "_is_gil_enabled", lambda: True)()


@pytest.fixture(autouse=True)
def no_other_switches():
    before = sys.getswitchinterval()
    sys.setswitchinterval(100)
    yield
    sys.setswitchinterval(before)


def beside(call, edit):
    """The result of a call, which makes nothing large before, and whether an edit was made amid it."""
    running, ready, edited, failures = threading.Event(), threading.Event(), [], []

    def run():
        running.set()
        if WITH_GIL:
            ready.wait(60)
        while not ready.is_set():  # without one, a thread that has to wake up comes too late
            pass
        later = time.perf_counter() + (0 if WITH_GIL else random.random() / 500)
        while time.perf_counter() < later:
            pass
        try:
            edit()
        except BaseException as error:
            failures.append(error)
        edited.append(True)

    thread = threading.Thread(target=run)
    thread.start()
    running.wait(60)
    ready.set()
    awake = time.perf_counter() + 0.003
    while WITH_GIL and time.perf_counter() < awake:  # the thread wakes up, and waits for the GIL
        pass
    try:
        early = bool(edited)
        result = call()
        in_time = bool(edited) and not early
    finally:
        thread.join()
    if failures:
        raise failures[0]
    return result, in_time


def large(value):
    return np.full(LARGE, float(value))


def values_of(arrays):
    return [(len(a), float(a[0]), float(a[-1])) for a in arrays]


ONE, TWO, THREE = large(1), large(2), large(3)


def until_in_time(make, call, edit, check):
    """Rounds until the edit was made amid a call; each of them is checked."""
    for _ in range(ROUNDS):
        seq = make()
        result, in_time = beside(lambda seq=seq: call(seq), lambda seq=seq: edit(seq))
        seq._check()
        check(seq, result)
        if in_time:
            return
    raise AssertionError("the other thread never came in")


def three():
    return TensorSequence([ONE, TWO, THREE])


def before_three(seq):
    seq.insert(0, np.zeros(1))


# -- calls that edit -----------------------------------------------------------------------------------


def test_remove_takes_what_it_has_found():
    def check(seq, _):
        assert values_of(seq) == [(1, 0, 0), (LARGE, 1, 1), (LARGE, 3, 3)]

    until_in_time(three, lambda seq: seq.remove(TWO), before_three, check)


def test_remove_where_it_has_been_taken_meanwhile():
    def remove(seq):
        try:
            seq.remove(TWO)
        except ValueError:
            return False
        return True

    def check(seq, removed):
        assert values_of(seq) == [(LARGE, 1, 1), (LARGE, 3, 3)]
        assert removed == (not taken)
        taken.clear()

    taken = []

    def take(seq):
        if len(seq) == 3:  # else it has been removed before
            seq.erase(1)
            taken.append(True)

    until_in_time(three, remove, take, check)


# -- calls that read -----------------------------------------------------------------------------------


NEWS = [large(-1)] * 3  # made before, for some of the calls are short


def replaced(seq):
    """All is let go: whoever reads on without a hold of its own reads memory that is nobody's."""
    seq[:] = NEWS


OTHER = TensorSequence([large(1), large(2), large(3)])
BOTH = {(1.0, 2.0, 3.0), (-1.0, -1.0, -1.0)}
READS = {
    "join": lambda seq: sq.concat_from_sequence(seq, 0)[LARGE // 2 :: LARGE],
    "stack": lambda seq: sq.concat_from_sequence(seq, 1, 1)[-1],
    "values": lambda seq: seq[[1, 0, 2]].values()[LARGE - 1 :: LARGE][[1, 0, 2]],
    "to_padded": lambda seq: seq.to_padded(0, multiple_of=LARGE + 1)[:, -2],
    "astype": lambda seq: [t[-1] for t in seq.astype("float32")],
    "deepcopy": lambda seq: [t[-1] for t in TensorSequence(seq, copy=True)],
    "equality": lambda seq: (1.0, 2.0, 3.0) if seq == OTHER else (-1.0,) * 3,
    "index": lambda seq: (1.0, 2.0, 3.0) if THREE in seq else (-1.0,) * 3,
    "batches": lambda seq: [t[-1] for t in sq.map_batches(np.positive, seq, batch_size=1)],
    "map": lambda seq: [t[-1] for t in sq.sequence_map(np.positive, seq)],
}


@pytest.mark.parametrize("read", READS)
def test_what_is_read_is_of_one_moment(read):
    def check(seq, result):
        assert tuple(map(float, result)) in BOTH
        assert values_of(seq) == [(LARGE, -1, -1)] * 3

    until_in_time(lambda: TensorSequence([ONE, TWO, THREE], copy=True), READS[read], replaced, check)


def test_splits_and_lengths_of_many():
    """Pieces and lengths are written without the GIL: what is put in meanwhile is not in them."""
    n = 1 << 20
    array = np.zeros(n)

    def check(seq, result):
        made, lengths = result
        assert len(made) == n
        assert len(lengths) in (n, n + 1)
        assert lengths[-1] == 1
        assert len(seq) == n + 1

    until_in_time(
        lambda: sq.split_to_sequence(array),
        lambda seq: (sq.split_to_sequence(array), seq.lengths()),
        lambda seq: seq.append(np.zeros(1)),
        check,
    )


# -- arrays that are cut ---------------------------------------------------------------------------------


def test_a_cut_goes_by_the_shape_that_it_has_checked():
    lengths = np.ones(LARGE, np.int64)
    for _ in range(ROUNDS):
        array = np.zeros((LARGE, 2), np.int8)

        def turn(array=array):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # as later versions of NumPy have it
                array.shape = 2, LARGE

        def cut(array=array):
            try:
                return TensorSequence.from_lengths(array, lengths)
            except ValueError:
                if WITH_GIL:
                    raise
                return None  # it had the other shape from the beginning

        seq, in_time = beside(cut, turn)
        if in_time and seq is not None:
            assert (len(seq), seq.shapes[0], seq.shapes[-1]) == (LARGE, (1, 2), (1, 2))
            assert not seq.values().any()
            return
    raise AssertionError("the other thread never came in, or the shape was not kept")
