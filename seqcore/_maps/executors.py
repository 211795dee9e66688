"""Run a map on an executor of the caller, whose workers may be threads, processes or other machines.

A few chunks for each worker are submitted at a time. The first ones are small, because the body never runs in
the calling thread to be measured; each reply has its time, and later chunks are sized by it.
"""

import asyncio
import os
import queue
from concurrent.futures import BrokenExecutor, CancelledError

from seqcore._arguments.shown import described, shown
from seqcore._maps.outputs import Chunk
from seqcore._maps.payloads import Payload, Reply, UnpickleError, run_payload
from seqcore._maps.sharing import FileNotVisible, SharedInputs

CHUNK = 5e-2  # seconds of work in a chunk
CHUNK_NBYTES = 4 << 20  # bytes of input in a chunk, at most
PENDING = 3  # submitted chunks for each worker
GROWTH = 8  # the largest factor from one chunk to the next
FILE_REMEDY = "make it visible to workers by the same path, or map copy.deepcopy(seq), which pickles as data"
PICKLE_REMEDY = "define it at the top level of a module that the workers can import, or run it on threads"


def run_on_executor(job, executor, client):
    """Run a map on an executor; `client` is the Dask client behind it, or None."""
    with SharedInputs(client) as shared:
        job.work = job.work.with_broadcast_inputs([shared.share(one) for one in job.work.broadcast_inputs])
        _Dispatch(job, executor, client, shared).run()


class _Dispatch:
    """The submitted chunks of a map, and their results."""

    def __init__(self, job, executor, client, shared):
        self.job, self.executor, self.client, self.shared = job, executor, client, shared
        self.workers = count_workers(executor, client)
        self.limit = max(1, CHUNK_NBYTES * job.n // max(job.work.nbytes, 1))
        self.pickler = "pickle" if client is None else "cloudpickle"
        self.pending = {}  # future → start and stop of its units, and the payload
        self.finished = queue.SimpleQueue()

    def run(self):
        try:
            self.send_some()
            while self.pending:
                self.collect(self.finished.get())
                self.send_some()
        except BaseException:
            self.job.bound.lower(0)
            for future in list(self.pending):
                future.cancel()
            raise

    def send_some(self):
        job = self.job
        while len(self.pending) < PENDING * self.workers:
            if self.pending and job.outputs.dtypes is None and job.work.first_sets_types:
                return
            limit = min(self.limit, GROWTH * job.largest or 1)
            claimed = job.claim(self.workers, CHUNK, limit)
            if claimed is None:
                return
            self.send(*claimed)

    def send(self, start, stop):
        job = self.job
        bound, outputs = job.bound.shifted(start), job.outputs
        payload = Payload(job.work.part(start, stop), bound, outputs.dtypes, outputs.single, self.pickler)
        try:
            future = self.executor.submit(run_payload, payload, *self.shared.scattered)
        except MemoryError:
            raise
        except Exception as error:
            raise self.failure(start, stop, payload, error) from error
        self.pending[future] = start, stop, payload
        # Not concurrent.futures.wait, which never returns if others cancel a future.
        future.add_done_callback(self.finished.put)

    def collect(self, future):
        job = self.job
        start, stop, payload = self.pending.pop(future)
        if future.cancelled() and not job.bound.allows(start):
            return  # we did it, below
        try:
            chunk = future.result()
            if isinstance(chunk, Reply):
                chunk = chunk.chunk()
        except MemoryError:
            raise
        except (Exception, asyncio.CancelledError) as error:
            if self.client is None or not _misread_result(error):
                raise self.failure(start, stop, payload, error) from error
            self.send(start, stop)
            return
        if not isinstance(chunk, Chunk):
            raise self.lost(
                start, stop, f"its future has {shown(chunk)}", "its futures must have the result of the call"
            )
        if isinstance(chunk.error, FileNotVisible):
            self.shared.send_inline()
            self.send(start, stop)
            return
        if isinstance(chunk.error, UnpickleError):
            why, of_stored = chunk.error.args
            what = "open a file that the sequence is in" if of_stored else "unpickle the body"
            remedy = FILE_REMEDY if of_stored else PICKLE_REMEDY
            raise self.lost(start, stop, f"a worker can't {what} ({why})", remedy) from chunk.error
        chunk.start = start
        job.measure(chunk)
        if chunk.error is not None:
            job.bound.lower(start + chunk.count)
            # Units after the failure need not start.
            for other in [other for other, (at, *_) in self.pending.items() if not job.bound.allows(at)]:
                other.cancel()
        job.collect(chunk)

    def failure(self, start, stop, payload, error):
        """Return the exception for a failure of the executor, not of the body."""
        said = described(error)
        if payload.failure is not None:
            reason, payload.failure = payload.failure, None
            return TypeError(f"the map's body can't be pickled ({reason}): {PICKLE_REMEDY}")
        if isinstance(error, CancelledError | asyncio.CancelledError):
            return self.lost(
                start, stop, f"they were cancelled ({said})", "don't cancel its futures during a map"
            )
        if isinstance(error, BrokenExecutor):
            remedy = "check whether the body or an initializer ends the process, and make a new executor"
            return self.lost(start, stop, f"a worker has died ({said})", remedy)
        if "shutdown" in said:
            return self.lost(start, stop, f"it was shut down ({said})", "keep it open until the map ends")
        return self.lost(start, stop, said, "check whether it can run any other function")

    def lost(self, start, stop, reason, remedy):
        name = self.job.work.name(start, stop)
        kind = type(self.executor).__name__
        return RuntimeError(f"the executor ({kind}) has lost {name} of the map: {reason}; {remedy}")


def _misread_result(error):
    """Return whether Dask's executor misread a result as an error.

    That happens if the worker of a result is lost before the executor checks the state of the task: it then
    unpacks the result as if it were an exception. Dask would compute a lost result again, and so does a map.
    """
    names = Reply.__name__, Chunk.__name__
    return type(error) is TypeError and any(f"non-iterable {name} object" in str(error) for name in names)


def count_workers(executor, client):
    """Return the number of workers of an executor; the number of CPUs if it doesn't say."""
    count = getattr(executor, "_max_workers", None)
    if client is not None:
        count = sum(client.nthreads().values())
    return count if isinstance(count, int) and count > 0 else os.cpu_count() or 1
