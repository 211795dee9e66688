"""Run a map on workers of the caller, which may be threads, processes or other machines (see `workers`).

A few chunks for each worker are submitted at a time. The body never runs in the calling thread to be
measured, so the first chunks are shares of the whole map. Each reply has its time, and later chunks are sized
by it. A worker ends a chunk that takes much longer than it should, and the units left are submitted again.
"""

import asyncio
import queue
from concurrent.futures import BrokenExecutor, CancelledError
from typing import Any

from seqcore._arguments.shown import described, shown
from seqcore._maps.outputs import Chunk, complete
from seqcore._maps.payloads import Payload, Reply, UnpickleError, run_payload
from seqcore._maps.sharing import FileNotVisible, SharedInputs

CHUNK = 5e-2  # seconds of work in a chunk
PENDING = 3  # submitted chunks for each worker
FIRST = 2  # … before one is measured
LIMIT = 2 * CHUNK  # seconds after which a worker ends a chunk
ATTEMPTS = 5  # to have a chunk computed that the workers ask for again
DEATHS = "ActorDiedError", "WorkerCrashedError", "NodeDiedError"  # Ray's
FILE_REMEDY = "make it visible to workers by the same path, or map copy.deepcopy(seq), which pickles as data"
PICKLE_REMEDY = "define it at the top level of a module that the workers can import, or run it on threads"


def run_on_workers(job, workers):
    """Run a map on the workers of an executor, a pool or a cluster."""
    with SharedInputs(workers) as shared:
        job.work = job.work.with_broadcast_inputs([shared.share(one) for one in job.work.broadcast_inputs])
        _Dispatch(job, workers, shared).run()


class _Submitted:
    """A chunk that was submitted: its units, and the task that the workers made of it."""

    def __init__(self, start, stop, payload):
        self.start, self.stop, self.payload = start, stop, payload
        self.task, self.attempts = None, 0


class _Dispatch:
    """The submitted chunks of a map, and their results."""

    def __init__(self, job, workers, shared):
        self.job, self.workers, self.shared = job, workers, shared
        self.limit = max(1, workers.chunk_nbytes * job.n // max(job.work.nbytes, 1))
        self.lent = 0  # bytes of results that stay in memory of the workers
        self.pending = {}  # submitted chunks by their start
        # The start of a chunk, and a function that gives its result.
        self.finished: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def run(self):
        try:
            self.submit_some()
            while self.pending:
                self.collect(*self.next_finished())
                self.submit_some()
        except BaseException:
            self.job.bound.lower(0)
            for one in self.pending.values():
                self.cancel(one)
            raise

    def submit_some(self):
        job = self.job
        limit = None if job.chunksize else LIMIT
        most = self.workers.count * (PENDING if job.seconds or job.chunksize else FIRST)
        while len(self.pending) < most:
            if self.pending and job.outputs.dtypes is None and job.work.first_sets_types:
                return
            claimed = job.claim(self.size())
            if claimed is None:
                return
            start, stop = claimed
            bound, outputs = job.bound.shifted(start), job.outputs
            part = job.work.part(start, stop)
            self.submit(
                _Submitted(
                    start,
                    stop,
                    Payload(start, part, bound, limit, outputs.dtypes, outputs.single, self.workers.pickler),
                )
            )

    def size(self):
        """Return how many units go into the next chunk. Towards the end chunks become smaller."""
        job = self.job
        size = job.left // (2 * self.workers.count)
        if job.seconds:  # measured
            least = min(job.n // self.workers.count, int(self.workers.least / job.seconds))
            size = min(max(size, least), int(CHUNK / job.seconds))
        return max(1, min(size, self.limit))

    def submit(self, one):
        one.attempts += 1
        finished, start = self.finished, one.start
        self.pending[start] = one
        try:
            one.task = self.workers.submit(
                lambda result: finished.put((start, result)), run_payload, one.payload, *self.shared.sent
            )
        except MemoryError:
            raise
        except Exception as error:
            del self.pending[start]
            raise self.failure(one, error) from error

    def cancel(self, one):
        if one.task is not None:  # Ctrl-C may have come before the executor returned it
            self.workers.cancel(one.task)

    def next_finished(self):
        """Return the next result, but raise if it may never come because workers were lost."""
        while True:
            try:
                return self.finished.get(timeout=self.workers.patience)
            except queue.Empty:
                loss = self.workers.loss()
            if loss is not None and self.finished.empty():
                first, last = min(self.pending), max(one.stop for one in self.pending.values())
                raise self.lost(first, last, *loss)

    def collect(self, start, result):
        job = self.job
        one = self.pending.pop(start, None)
        if one is None:
            return  # an executor that calls back twice
        try:
            chunk = result()
            if isinstance(chunk, Reply):
                chunk = chunk.chunk(self.must_copy(chunk))
        except MemoryError:
            raise
        except (Exception, asyncio.CancelledError) as error:
            if not job.bound.allows(start):
                return  # it was cancelled, below
            if one.attempts < ATTEMPTS and self.workers.runs_again(error):
                self.submit(one)
                return
            raise self.failure(one, error) from error
        self.check(one, chunk)
        if isinstance(chunk.error, FileNotVisible):
            self.shared.send_inline()
            self.submit(one)
            return
        job.measure(chunk)
        if chunk.error is None:
            job.give_back(start + chunk.count, one.stop)
        else:
            job.bound.lower(start + chunk.count)
            # Units after the failure need not start.
            for other in self.pending.values():
                if not job.bound.allows(other.start):
                    self.cancel(other)
        job.collect(chunk)

    def must_copy(self, reply):
        """Return whether a reply's data would be too much in memory of the workers."""
        if self.workers.lends is None:
            return False
        self.lent += reply.nbytes
        return self.lent > self.workers.lends

    def check(self, one, chunk):
        """Raise if a result is not that of its chunk."""
        if not isinstance(chunk, Chunk):
            reason, remedy = f"its task has {shown(chunk)}", "its tasks must have the result of the call"
        elif isinstance(chunk.error, UnpickleError):
            why, of_stored = chunk.error.args
            what = "open a file that the sequence is in" if of_stored else "unpickle the body"
            reason, remedy = f"a worker can't {what} ({why})", FILE_REMEDY if of_stored else PICKLE_REMEDY
            raise self.lost(one.start, one.stop, reason, remedy) from chunk.error
        elif chunk.start != one.start:
            reason = f"its task has the result of {self.job.work.name(chunk.start)}"
            remedy = "submit must make a new task for each call"
        elif not self.is_complete(one, chunk):
            reason = f"its task has {chunk.count} results, expected {one.stop - one.start}"
            remedy = "submit must make a new task for each call"
        else:
            return
        raise self.lost(one.start, one.stop, reason, remedy)

    def is_complete(self, one, chunk):
        """Return whether a chunk has the results of all its units, or has ended at a failure or its limit."""
        units, size = chunk.count, one.stop - one.start
        if not isinstance(units, int) or not 0 <= units <= size:
            return False
        if chunk.results is not None:
            count = len(chunk.results)
        else:
            count = complete(chunk.sequences) if chunk.sequences else 0
        if count != self.job.work.elements(one.start, one.start + units):  # a batch has several
            return False
        if chunk.ends or chunk.error is not None or not self.job.bound.allows(one.start + units):
            return True
        return units == size or (units > 0 and one.payload.limit is not None)

    def failure(self, one, error):
        """Return the exception for a failure of the executor, not of the body."""
        said, payload, units = described(error).partition("\n")[0], one.payload, (one.start, one.stop)
        if payload.failure is not None:
            reason, payload.failure = payload.failure, None
            return TypeError(f"the map's body can't be pickled ({reason}): {PICKLE_REMEDY}")
        if isinstance(error, CancelledError | asyncio.CancelledError):
            return self.lost(*units, f"they were cancelled ({said})", "don't cancel its futures during a map")
        if isinstance(error, BrokenExecutor) or type(error).__name__ in DEATHS:
            remedy = "check whether the body or an initializer ends the process, and make a new executor"
            return self.lost(*units, f"a worker has died ({said})", remedy)
        if "shutdown" in said or "not running" in said:
            return self.lost(*units, f"it was shut down ({said})", "keep it open until the map ends")
        return self.lost(*units, said, "check whether it can run any other function")

    def lost(self, start, stop, reason, remedy):
        name = self.job.work.name(start, stop)
        kind = self.workers.name
        return RuntimeError(f"the executor ({kind}) has lost {name} of the map: {reason}; {remedy}")
