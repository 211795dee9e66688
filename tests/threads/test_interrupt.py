"""Ctrl-C in loops over many elements, and other threads beside them."""

import functools
import gc
import operator
import os
import signal
import sys
import sysconfig
import threading
import time

import numpy as np
import pytest
from support.processes import run_python

import seqcore as sq
from seqcore import TensorSequence

pytestmark = [
    pytest.mark.mostly_slow(11),
    pytest.mark.thread_unsafe,
    pytest.mark.skipif(os.name != "posix", reason="needs signals"),
]

# Each element has a hundred million items in little memory, and there are so many that no comparison ends.
ENDLESS = """
import os, signal, sys, threading
signal.signal(signal.SIGINT, signal.default_int_handler)    # a shell has it ignored in the background
import numpy as np, seqcore as sq

def endless(last):
    array = np.arange(20_000.0)
    array[-1] = last
    windows = np.lib.stride_tricks.sliding_window_view(array, 10_000)
    return sq.TensorSequence([windows])[np.zeros(1_000_000, int)]

seq, same, other = endless(1), endless(1), endless(2)
threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    {call}
except KeyboardInterrupt:
    seq._check()
    assert len(seq) == len(same) == 1_000_000
    assert not seq.pop().flags.writeable
    print("interrupted")
"""


# Elements of one table, of a terabyte of zeros that takes no memory.
ROWS = """
import mmap, os, signal, threading
signal.signal(signal.SIGINT, signal.default_int_handler)
import numpy as np, seqcore as sq

flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
zeros = np.frombuffer(mmap.mmap(-1, 1 << 40, flags, mmap.PROT_READ), np.int8)
seq = sq.TensorSequence.from_offsets(zeros, np.arange(0, zeros.size + 1, 1 << 20))
threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    {call}
except KeyboardInterrupt:
    seq._check()
    print("interrupted")
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "call",
    [
        *("other[0] in seq", "seq.index(other[0])", "seq.count(same[0])", "seq.remove(other[0])"),
        *("seq == same", "seq.reduce(np.add, axis=None)"),
    ],
)
@pytest.mark.mostly_at_night(5)
def test_ends_what_would_not_end(call):
    interrupted(ENDLESS.format(call=call))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="needs more memory than there is")
@pytest.mark.parametrize("call", ["seq.reduce(np.add)", "seq.reduce(np.max)", "seq.reduce(np.mean)"])
def test_ends_a_reduction_of_rows(call):
    interrupted(ROWS.format(call=call))


def interrupted(script):
    outcome = run_python("-c", script, timeout=120, start_new_session=True)
    assert (outcome.stdout, outcome.stderr) == ("interrupted\n", "")


class Interrupt(Exception):
    pass


def many():
    """A few elements, over and over."""
    return sq.split_to_sequence(np.arange(10.0))[np.arange(600_000) % 10]


def arrays():
    return [np.zeros(1)] * 600_000


def texts():
    return TensorSequence([np.array(["a"], object)])[np.zeros(6_000_000, int)]


# What makes an object or more for each element, or keeps the GIL: with what it is called.
LOOPS = {
    "shapes": (many, operator.attrgetter("shapes")),
    "tolist": (many, operator.methodcaller("tolist")),
    "made": (arrays, TensorSequence),
    "extended": (arrays, sq.sequence_empty("float64").extend),
    "pickled": (lambda: TensorSequence(arrays()), operator.methodcaller("__reduce_ex__", 5)),
    "pinned": (
        lambda: TensorSequence([np.zeros(1), np.zeros(1)] * 600_000),
        operator.attrgetter("pinned_nbytes"),
    ),
    "texts": (texts, operator.methodcaller("__contains__", ["b"])),
    "counted": (texts, operator.methodcaller("count", ["a"])),
}
ALL_LOOPS = pytest.mark.parametrize("name", LOOPS)


@ALL_LOOPS
@pytest.mark.at_night  # on a busy machine a handler may not come twice
def test_handlers_run_meanwhile(name):
    """A handler that comes a second time raises. If none ran before the end, only the first would come."""
    make, body = LOOPS[name]
    given, seen, kept = make(), [], []

    def handle(*_):
        seen.append(1)
        if len(seen) == 2:
            raise Interrupt

    def run():
        signal.setitimer(signal.ITIMER_REAL, 1e-3, 1e-3)
        kept.append(body(given))  # to let go of much takes long too
        signal.setitimer(signal.ITIMER_REAL, 0)

    before = signal.signal(signal.SIGALRM, handle)
    gc.disable()  # what others have it call would run handlers too
    try:
        with pytest.raises(Interrupt):
            run()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        gc.enable()
    if isinstance(given, TensorSequence):
        given._check()


@pytest.mark.skipif(bool(sysconfig.get_config_var("Py_GIL_DISABLED")), reason="there is no GIL to give away")
@ALL_LOOPS
def test_other_threads_run_meanwhile(name):
    make, body = LOOPS[name]
    given, steps, ended = make(), [], False

    def step():
        while not ended:
            steps.append(1)
            time.sleep(0)

    other = threading.Thread(target=step, daemon=True)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-3)
    try:
        other.start()
        calls = [steps.__len__, functools.partial(body, given), steps.__len__]
        # One call of all, so that nobody comes in between the loop's end and the count.
        before, _, after = list(map(operator.call, calls))
    finally:
        ended = True
        sys.setswitchinterval(interval)
    other.join(30)
    assert after > before
