"""What goes to an executor's workers, and what comes back.

Executors pickle what they carry, or don't. What is pickled becomes bytes here, before the executor sees it,
and is opened by the map's own code on the other side: what can't be unpickled breaks a process pool, so it
must not be the pool that tries. In the same process nothing is pickled at all::

    Parcel ──pickle──▶ Arrived.run ──▶ Reply ──pickle──▶ Reply.chunk
       └─ same process: run ──▶ Chunk
"""

import contextvars
import importlib
import os
import pickle
import time
import traceback

from seqcore._maps.lending import OutOfReach, fetch
from seqcore._maps.outputs import Chunk
from seqcore._shown import described, shown_error
from seqcore._tensors import as_tensor
from seqcore.core.calls import Bound, OutputError


class NotOpened(Exception):
    """A worker could not unpickle what it was sent; NotOpened(why, whether a file is why)."""


class Parcel:
    """A part of a map's work on its way to a worker."""

    def __init__(self, work, bound, dtypes, single, pickler):
        self.work, self.bound = work, bound
        self.dtypes, self.single, self.pickler = dtypes, single, pickler
        self.context = contextvars.copy_context()  # which doesn't cross processes
        self.failure = None  # why it could not be pickled

    def run(self, scattered):
        return self.context.run(run_part, self.work, self.bound, self.dtypes, self.single, scattered)

    def __reduce_ex__(self, protocol):
        content = self.work, self.dtypes, self.single
        try:
            data, buffers = _pickled(content, importlib.import_module(self.pickler), protocol)
        except Exception as error:
            # The executor's own pickler may know more; if not, it fails too, and this has been why.
            self.failure = error
            return Arrived, (None, content, self.pickler)
        return Arrived, (data, buffers, self.pickler)


class Arrived:
    """A parcel in another process."""

    def __init__(self, data, content, pickler):
        self.data, self.content, self.pickler = data, content, pickler

    def run(self, scattered):
        pickler = importlib.import_module(self.pickler)
        try:
            content = self.content
            if self.data is not None:
                content = pickle.loads(self.data, buffers=content)
        except Exception as error:
            chunk = Chunk(0, 0, NotOpened(described(error), getattr(error, "of_stored", False)))
        else:
            chunk = run_part(content[0], Bound(), *content[1:], scattered)
        return Reply(chunk, pickler)


def run_away(parcel, *scattered):
    """Run a part where an executor has brought it."""
    return parcel.run(scattered)


def run_part(work, bound, dtypes, single, scattered):
    try:
        work = work.with_wholes([fetch(whole, scattered) for whole in work.wholes])
    except OutOfReach as error:
        return Chunk(0, 0, error)
    began = time.perf_counter()
    chunk = work.run(0, work.n, bound, dtypes, single)
    chunk.seconds = time.perf_counter() - began
    return chunk


# -- the way back ------------------------------------------------------------------------------------


class Reply:
    """A chunk on its way home, which will pickle."""

    def __init__(self, chunk, pickler):
        if chunk.error is not None:
            trace = "".join(traceback.format_exception(chunk.error)).rstrip()
            chunk.note = f"in process {os.getpid()}:\n{trace}"
            chunk.error = PackedError(chunk.error, pickler)
        try:
            # Out of band the data are not copied, but looked at when the executor pickles the reply.
            self.data, self.buffers = _pickled(chunk, pickler)
        except Exception:
            _drop_what_does_not_pickle(chunk, pickler)
            self.data, self.buffers = _pickled(chunk, pickler)

    def __reduce_ex__(self, protocol):
        buffers = self.buffers if protocol >= 5 else [bytes(one.raw()) for one in self.buffers]
        return _reply, (self.data, buffers)

    def chunk(self):
        """The chunk, in the caller's process."""
        chunk = pickle.loads(self.data, buffers=self.buffers)
        if chunk.error is not None:
            chunk.error = chunk.error.error()
        return chunk


def _reply(data, buffers):
    reply = Reply.__new__(Reply)
    reply.data, reply.buffers = data, buffers
    return reply


class PackedError:
    """An exception that the caller unpickles, or learns the name of."""

    def __init__(self, error, pickler):
        self.output = None  # an OutputError's: which output
        self.is_output = isinstance(error, OutputError)
        if self.is_output:
            self.output, error = error.args
        self.description = f"{type(error).__name__}, which can't be pickled: {shown_error(error)}"
        try:
            self.data = pickler.dumps(error)
        except BaseException:  # whatever its own methods raise
            self.data = None

    def error(self):
        error = _loaded(self.data)
        if error is None:
            error = RuntimeError(self.description)
        return OutputError(self.output, error) if self.is_output else error


def _loaded(data):
    """The exception of a pickle; None where that brings nothing of the kind."""
    if data is None:
        return None
    try:
        error = pickle.loads(data)
    except KeyboardInterrupt:
        raise
    except BaseException:
        return None
    return error if isinstance(error, BaseException) else None


def _drop_what_does_not_pickle(chunk, pickler):
    """Let a chunk of bare results end with the first that doesn't pickle."""
    for i, result in enumerate(chunk.results or ()):
        try:
            pickler.dumps(result)
        except Exception as error:
            chunk.results, chunk.count = chunk.results[:i], i
            chunk.error = PackedError(OutputError(None, _why_no_tensor(result, error)), pickler)
            return


def _why_no_tensor(result, failure):
    try:
        for value in result if isinstance(result, tuple) else (result,):
            as_tensor(value)
    except Exception as error:
        return TypeError(f"{shown_error(error)} (nor can it be pickled: {described(failure)})")
    return TypeError(
        f"the body returned what can't be pickled ({described(failure)}): let it return arrays, "
        "or run it on threads"
    )


def _pickled(value, pickler, protocol=5):
    """Bytes, and the data that is large enough to stay out of them."""
    buffers = []
    data = pickler.dumps(value, protocol=5, buffer_callback=buffers.append)
    return data, buffers if protocol >= 5 else [bytes(one.raw()) for one in buffers]
