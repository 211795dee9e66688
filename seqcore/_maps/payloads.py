"""The payloads sent to an executor's workers, and their replies.

An executor may pickle its tasks or not. If it does, the content is serialized to bytes here first, and
unpickled by the map's own code in the worker, because a process pool breaks if it unpickles in vain itself.
In the same process nothing is pickled::

    Payload ──pickle──▶ ReceivedPayload.run ──▶ Reply ──pickle──▶ Reply.chunk
       └─ same process: run ──▶ Chunk
"""

import contextvars
import importlib
import os
import pickle
import time
import traceback
from typing import Any

from seqcore._arguments.shown import described, shown_error
from seqcore._arguments.tensors import as_tensor
from seqcore._maps.outputs import Chunk
from seqcore._maps.sharing import FileNotVisible, fetch
from seqcore.core.maps import Bound, OutputError


class UnpickleError(Exception):
    """A worker could not unpickle its payload.

    Its arguments are the reason, and True if a file of a sequence is the reason.
    """


class Payload:
    """A part of a map's work, sent to a worker.

    `limit` are the seconds after which the worker starts no further unit, or None.
    """

    def __init__(self, start, work, bound, limit, dtypes, single, pickler):
        self.start = start  # which chunk of the map it is
        self.work, self.bound, self.limit = work, bound, limit
        self.dtypes, self.single, self.pickler = dtypes, single, pickler
        self.context = contextvars.copy_context()  # it doesn't cross processes
        self.failure = None  # the exception if it could not be pickled

    @property
    def content(self):
        return self.work, self.limit, self.dtypes, self.single

    def run(self, sent):
        return self.context.run(run_part, self.start, self.bound, sent, *self.content)

    def __reduce_ex__(self, protocol):
        content = self.content
        try:
            data, buffers = _pickled(content, importlib.import_module(self.pickler), protocol)
        except Exception as error:
            # The executor's own pickler may succeed; if it fails too, this is the reason.
            self.failure = error
            return ReceivedPayload, (self.start, None, content, self.pickler)
        return ReceivedPayload, (self.start, data, buffers, self.pickler)


class ReceivedPayload:
    """A payload, unpickled in another process."""

    def __init__(self, start, data, content, pickler):
        self.start, self.data, self.content, self.pickler = start, data, content, pickler

    def __reduce_ex__(self, protocol):
        # Dask's scheduler passes tasks on by pickling them again, and then the buffers are memoryviews.
        content = self.content if self.data is None else _sendable(self.content, protocol)
        return ReceivedPayload, (self.start, self.data, content, self.pickler)

    def run(self, sent):
        pickler = importlib.import_module(self.pickler)
        try:
            content: Any = self.content
            if self.data is not None:
                content = pickle.loads(self.data, buffers=content)
        except Exception as error:
            chunk = Chunk(self.start, 0, UnpickleError(described(error), getattr(error, "of_stored", False)))
        else:
            chunk = run_part(self.start, Bound(), sent, *content)
        return Reply(chunk, pickler)


def run_payload(payload, *sent):
    """Run a payload in a worker: the function that is submitted to the executor."""
    return payload.run(sent)


def run_part(start, bound, sent, work, limit, dtypes, single):
    try:
        work = work.with_broadcast_inputs([fetch(tensor, sent) for tensor in work.broadcast_inputs])
    except FileNotVisible as error:
        return Chunk(start, 0, error)
    began = time.perf_counter()
    if limit is not None:
        bound.end_at(began + limit)
    chunk = work.run(0, work.n, bound, dtypes, single, start == 0)
    chunk.began, chunk.seconds = began, time.perf_counter() - began
    chunk.start = start
    try:
        return chunk
    finally:
        del chunk  # its error may refer to this frame


# -- replies -----------------------------------------------------------------------------------------


class Reply:
    """A finished chunk, sent back in a form that pickles."""

    def __init__(self, chunk, pickler):
        if chunk.error is not None:
            trace = "".join(traceback.format_exception(chunk.error)).rstrip()
            chunk.note = f"in process {os.getpid()}:\n{trace}"
            chunk.error = PackedError(chunk.error, pickler)
        try:
            # Out-of-band data are not copied here, but read when the executor pickles the reply.
            self.data, self.buffers = _pickled(chunk, pickler)
        except Exception:
            _end_at_unpicklable(chunk, pickler)
            self.data, self.buffers = _pickled(chunk, pickler)

    def __reduce_ex__(self, protocol):
        return _reply, (self.data, _sendable(self.buffers, protocol))

    @property
    def nbytes(self):
        """The size in bytes of the data that its arrays will share."""
        return sum(memoryview(one).nbytes for one in self.buffers)

    def chunk(self, copied):
        """Return the chunk, in the caller's process, and if wanted in memory of its own."""
        buffers = map(bytes, self.buffers) if copied else self.buffers
        chunk = pickle.loads(self.data, buffers=buffers)
        if chunk.error is not None:
            chunk.error = chunk.error.error()
        return chunk


def _reply(data, buffers):
    reply = Reply.__new__(Reply)
    reply.data, reply.buffers = data, buffers
    return reply


class PackedError:
    """An exception in a form that pickles: its bytes, or its name and message if it doesn't pickle."""

    def __init__(self, error, pickler):
        self.output = None  # the index of the output, for an OutputError
        self.is_output = isinstance(error, OutputError)
        if self.is_output:
            self.output, error = error.args
        self.description = f"{type(error).__name__}, which can't be pickled: {shown_error(error)}"
        try:
            self.data = pickler.dumps(error)
        except BaseException:  # its own methods may raise anything
            self.data = None

    def error(self):
        error = _loaded(self.data)
        if error is None:
            error = RuntimeError(self.description)
        return OutputError(self.output, error) if self.is_output else error


def _loaded(data):
    """Return the exception that was pickled, or None if it can't be unpickled."""
    if data is None:
        return None
    try:
        error = pickle.loads(data)
    except KeyboardInterrupt:
        raise
    except BaseException:
        return None
    return error if isinstance(error, BaseException) else None


def _end_at_unpicklable(chunk, pickler):
    """Cut a chunk of results off at the first one that doesn't pickle, with an error for that one."""
    for i, result in enumerate(chunk.results or ()):
        try:
            pickler.dumps(result)
        except Exception as error:
            chunk.results, chunk.count = chunk.results[:i], i
            chunk.error = PackedError(OutputError(None, _reason_for(result, error)), pickler)
            return


def _reason_for(result, failure):
    try:
        for value in result if isinstance(result, tuple) else (result,):
            as_tensor(value)
    except Exception as error:
        return TypeError(f"{shown_error(error)} (nor can it be pickled: {described(failure)})")
    return TypeError(
        f"the body returned an object that can't be pickled ({described(failure)}): return arrays, or run "
        "the map on threads"
    )


def _pickled(value, pickler, protocol=5):
    """Return a pickle as bytes, and its out-of-band buffers."""
    buffers: list[pickle.PickleBuffer] = []
    data = pickler.dumps(value, protocol=5, buffer_callback=buffers.append)
    return data, _sendable(buffers, protocol)


def _sendable(buffers, protocol):
    """Return out-of-band buffers in a form that pickles, and is not copied where the protocol permits."""
    return [
        pickle.PickleBuffer(one) if protocol >= 5 else bytes(pickle.PickleBuffer(one).raw())
        for one in buffers
    ]
