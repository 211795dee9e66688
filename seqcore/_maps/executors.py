"""Run a map on workers: threads of its own, or those of an executor or a cluster (see `workers`).

A few chunks for each worker are submitted at a time. Where nothing has been measured, the first ones are
shares of the whole map. Each chunk comes back with its time, and later ones are sized by it. A worker ends a
chunk that takes much longer than it should, and the units left are submitted again.
"""

import math
import queue
import weakref
from functools import partial
from typing import Any

from seqcore._arguments.shown import described, shown
from seqcore._maps.outputs import Chunk, complete
from seqcore._maps.payloads import Payload, Reply, UnpickleError, run_payload
from seqcore._maps.sharing import FileNotVisible, SharedInputs
from seqcore._maps.workers import NoWorker

PENDING = 3  # submitted chunks for each worker
FIRST = 2  # … before one is measured
LATE = 2  # times as long as it should, after which a worker ends a chunk
DEATHS = "ActorDiedError", "WorkerCrashedError", "NodeDiedError", "KilledWorker"  # of Ray and Dask
FILE_REMEDY = "make it visible to workers by the same path, or map copy.deepcopy(seq), which pickles as data"
PICKLE_REMEDY = "define it at the top level of a module that the workers can import, or run it on threads"


def run_on_workers(job, workers):
    """Run a map on the workers of an executor or a cluster."""
    with SharedInputs(workers) as shared:
        job.work = job.work.with_broadcast_inputs([shared.share(one) for one in job.work.broadcast_inputs])
        Dispatch(job, workers, shared).run()


class _Submitted:
    """A chunk that was submitted: its units, and the task that the workers made of it."""

    def __init__(self, start, stop, payload):
        self.start, self.stop, self.payload, self.task = start, stop, payload, None


class Dispatch:
    """The submitted chunks of a map, and their results."""

    def __init__(self, job, workers, shared=None):
        self.job, self.workers, self.shared = job, workers, shared
        self.limit = max(1, workers.chunk_nbytes * job.n // max(job.work.nbytes, 1))
        self.most = PENDING * workers.count  # chunks at a time
        self.lent = 0  # bytes of results that stay in memory of the workers
        self.began, self.ended = math.inf, 0.0  # of the chunks of a trial
        self.pending = {}  # submitted chunks by their start
        # The start of a chunk, and a function that gives its result.
        self.finished: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def run(self, size=None):
        """Run all units that may be claimed; return early if no worker can be started."""
        try:
            self.submit_some(size)
            while self.pending:
                self.collect(*self.next_finished())
                self.submit_some(size)
        except BaseException:
            self.job.bound.lower(0)
            for one in self.pending.values():
                if one.task is not None:  # Ctrl-C may have come before the executor returned it
                    self.workers.cancel(one.task)
            raise

    def trial(self, share, least, most):
        """Run a share of the units left, a chunk for each worker; return how many ran in a second.

        It counts from when the first worker began, so that a short trial isn't about how a thread starts.
        """
        job, count = self.job, self.workers.count
        seconds = max(job.seconds, 1e-9)
        size = max(1, int(min(most, max(least, share * job.left * seconds / count)) / seconds))
        before, self.began, self.ended = job.claimed, math.inf, 0.0
        job.stop = min(job.n, before + size * count)
        self.run(size)
        ran, job.stop = job.claimed - before, job.n
        return ran / max(self.ended - self.began, 1e-9)

    def submit_some(self, size):
        job, workers = self.job, self.workers
        limit = None if job.chunksize or size else LATE * workers.seconds
        most = min(self.most, workers.count * (PENDING if job.seconds or job.chunksize else FIRST))
        while len(self.pending) < most:
            dtypes, single = job.outputs.types
            if self.pending and dtypes is None and job.work.first_sets_types:
                return
            claimed = job.claim(size or self.size())
            if claimed is None:
                return
            start, stop = claimed
            bound, part = job.bound.shifted(start), job.work.part(start, stop)
            payload = Payload(start, part, bound, limit, dtypes, single, workers.pickler)
            try:
                self.submit(_Submitted(start, stop, payload))
            except NoWorker:
                job.give_back(start, stop)
                self.most = most = len(self.pending)

    def size(self):
        """Return how many units go into the next chunk. Towards the end chunks become smaller."""
        job, workers = self.job, self.workers
        size = job.left // (2 * workers.count)
        if job.seconds:  # measured
            least = min(job.n // workers.count, int(workers.least / job.seconds))
            size = min(max(size, least), int(workers.seconds / job.seconds))
        return max(1, min(size, self.limit))

    def submit(self, one):
        start, finished = one.start, weakref.ref(self.finished)
        self.pending[start] = one
        sent = () if self.shared is None else self.shared.sent
        try:
            one.task = self.workers.submit(partial(_put, finished, start), run_payload, one.payload, *sent)
        except (MemoryError, NoWorker):
            del self.pending[start]
            raise
        except Exception as error:
            del self.pending[start]
            raise self.failure(one, error) from error

    def next_finished(self):
        """Return the next result, but raise if it will not come."""
        while True:
            try:
                return self.finished.get(timeout=self.workers.patience)
            except queue.Empty:
                for start, one in self.pending.items():
                    if self.workers.has_ended(one.task):
                        return start, one.task.result
                loss = self.workers.loss([one.task for one in self.pending.values()])
            if loss is not None and self.finished.empty():
                raise loss

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
        except BaseException as error:
            if not (isinstance(error, Exception) or _is_cancelled(error)):
                raise
            if not job.bound.allows(start):
                return  # it was cancelled, below
            raise self.failure(one, error) from error
        self.check(one, chunk)
        if isinstance(chunk.error, FileNotVisible):
            self.shared.inline = True
            self.submit(one)
            return
        job.measure(chunk)
        self.began, self.ended = min(self.began, chunk.began), max(self.ended, chunk.began + chunk.seconds)
        if chunk.error is None:
            job.give_back(start + chunk.count, one.stop)
        else:
            job.bound.lower(start + chunk.count)
            # Units after the failure need not start.
            for other in self.pending.values():
                if not job.bound.allows(other.start):
                    self.workers.cancel(other.task)
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
            raise self.lost(one, reason, remedy) from chunk.error
        elif chunk.start != one.start:
            reason = f"its task has the result of {self.job.work.name(chunk.start)}"
            remedy = "submit must make a new task for each call"
        elif not self.is_complete(one, chunk):
            reason = f"its task has {chunk.count} results, expected {one.stop - one.start}"
            remedy = "submit must make a new task for each call"
        else:
            return
        raise self.lost(one, reason, remedy)

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
        from concurrent.futures import BrokenExecutor

        said, payload = described(error).partition("\n")[0], one.payload
        if payload.failure is not None:
            reason, payload.failure = payload.failure, None
            return TypeError(f"the map's body can't be pickled ({reason}): {PICKLE_REMEDY}")
        if _is_cancelled(error):
            return self.lost(one, f"they were cancelled ({said})", "don't cancel its futures during a map")
        if isinstance(error, BrokenExecutor) or type(error).__name__ in DEATHS:
            remedy = "check whether the body or an initializer ends the process, and make a new executor"
            return self.lost(one, f"a worker has died ({said})", remedy)
        if "shutdown" in said or "not running" in said:
            return self.lost(one, f"it was shut down ({said})", "keep it open until the map ends")
        return self.lost(one, said, "check whether it can run any other function")

    def lost(self, one, reason, remedy):
        name, kind = self.job.work.name(one.start, one.stop), self.workers.name
        return RuntimeError(f"the executor ({kind}) has lost {name} of the map: {reason}; {remedy}")


def _put(finished, start, result):
    """Put a result into the queue of a map, unless it has ended: then its error would keep it."""
    queue = finished()
    if queue is not None:
        queue.put((start, result))


def _is_cancelled(error):
    """Return whether an exception is that of a cancelled task, of `concurrent.futures`, asyncio or Dask."""
    return any(kind.__name__ in ("CancelledError", "FutureCancelledError") for kind in type(error).__mro__)
