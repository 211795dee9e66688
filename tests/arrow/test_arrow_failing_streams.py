"""A stream of ours that fails on its way says so to its consumer: it isn't taken for one that has ended."""

import contextlib
import signal
import time

import numpy as np
import pytest
from seqcore.core.arrow import read_stream, stream_capsule

from seqcore import TensorSequence
from seqcore._arrow.layouts import layout_of

SEQ = TensorSequence([[1, 2], [3]])
LAYOUT = layout_of(SEQ)


class Stream:
    def __init__(self, columns, field=LAYOUT.field):
        self.columns, self.field = columns, field

    def __arrow_c_stream__(self, requested_schema=None):
        return stream_capsule(self.field, iter(self.columns))


def columns(good, error=None):
    for _ in range(good):
        yield LAYOUT.column(SEQ)
    if error is not None:
        raise error


@pytest.mark.parametrize("good", [0, 1, 3])
def test_a_stream_that_ends(good):
    assert len(TensorSequence.from_arrow(Stream(columns(good)))) == 2 * good


@pytest.mark.parametrize("good", [0, 1, 3])
@pytest.mark.parametrize("error", [ValueError("too long"), KeyError("x"), MemoryError("no more")])
def test_a_stream_that_fails(good, error):
    expected = MemoryError if isinstance(error, MemoryError) else OSError
    stream = read_stream(Stream(columns(good, error)).__arrow_c_stream__())
    for _ in range(good):
        assert next(stream) is not None
    with pytest.raises(expected, match=f"{type(error).__name__}: .*{error.args[0]}"):
        next(stream)
    with pytest.raises(expected, match=str(error.args[0])):
        TensorSequence.from_arrow(Stream(columns(good, error)))


@pytest.fixture
def interruptible():
    """A shell has the signal ignored in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.thread_unsafe
@pytest.mark.parametrize("good", [0, 2])
def test_ctrl_c_is_a_keyboard_interrupt(interruptible, good):
    """It is not lost in the exceptions that consumers make of errors, ours and others'."""
    stream = read_stream(Stream(columns(good, KeyboardInterrupt())).__arrow_c_stream__())
    for _ in range(good):
        assert next(stream) is not None
    with pytest.raises(KeyboardInterrupt):
        next(stream)
    with pytest.raises(KeyboardInterrupt):
        TensorSequence.from_arrow(Stream(columns(good, KeyboardInterrupt())))
    pa = pytest.importorskip("pyarrow")

    def export():
        with contextlib.suppress(pa.ArrowException):
            pa.chunked_array(Stream(columns(good, KeyboardInterrupt())))
        time.sleep(1)  # where a handler comes in at the latest

    with pytest.raises(KeyboardInterrupt):
        export()


def test_what_is_no_column():
    """Of a column that can't be given away nothing is left to release."""
    for wrong in (object(), 0, LAYOUT):
        stream = read_stream(Stream([LAYOUT.column(SEQ), wrong]).__arrow_c_stream__())
        next(stream)
        with pytest.raises(OSError, match="Error: "):
            next(stream)


def test_a_type_that_is_none():
    """The schema fails, before any array."""
    with pytest.raises(OSError, match="AttributeError"):
        read_stream(stream_capsule(object(), iter([])))


def test_other_libraries_hear_of_it():
    pa = pytest.importorskip("pyarrow")
    with pytest.raises(Exception, match="too long"):
        pa.chunked_array(Stream(columns(2, ValueError("too long"))))
    assert pa.chunked_array(Stream(columns(2))).to_pylist() == [[1, 2], [3]] * 2
    assert np.array_equal(TensorSequence.from_arrow(pa.chunked_array(Stream(columns(1))))[0], [1, 2])
