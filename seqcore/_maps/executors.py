"""A map on an executor of the caller's, whose workers may be threads, processes or other machines.

A few chunks for each worker are on their way at a time. They begin small, for the body never runs in the
caller; each tells how long it took, and the next are made as large as that allows.
"""

import asyncio
import os
import queue
from concurrent.futures import BrokenExecutor, CancelledError

from seqcore._maps.lending import Lender, OutOfReach
from seqcore._maps.outputs import Chunk
from seqcore._maps.parcels import NotOpened, Parcel, Reply, run_away
from seqcore._shown import described, shown

CHUNK = 5e-2  # seconds of work that are handed out at once
CHUNK_NBYTES = 4 << 20  # and what they may weigh
ON_THEIR_WAY = 3  # chunks for each worker
GROWTH = 8  # how much larger than all before it a chunk may be
FILE_REMEDY = "let workers see it by the same path, or map copy.deepcopy(seq), which travels as data"
PICKLE_REMEDY = "define it at the top level of a module that the workers can import, or run it on threads"


def run_on_executor(job, executor, client):
    """On an executor; `client` is the Dask client behind it, or None."""
    with Lender(client) as lender:
        job.work = job.work.with_wholes([lender.lend(whole) for whole in job.work.wholes])
        _Dispatch(job, executor, client, lender).run()


class _Dispatch:
    """What is on its way, and what comes back."""

    def __init__(self, job, executor, client, lender):
        self.job, self.executor, self.client, self.lender = job, executor, client, lender
        self.workers = count_workers(executor, client)
        self.limit = max(1, CHUNK_NBYTES * job.n // max(job.work.nbytes, 1))
        self.pickler = "pickle" if client is None else "cloudpickle"
        self.pending = {}  # futures → the units that they are for, and the parcel
        self.finished = queue.SimpleQueue()

    def run(self):
        try:
            self.send_some()
            while self.pending:
                self.take_back(self.finished.get())
                self.send_some()
        except BaseException:
            self.job.bound.lower(0)
            for future in list(self.pending):
                future.cancel()
            raise

    def send_some(self):
        job = self.job
        while len(self.pending) < ON_THEIR_WAY * self.workers:
            if self.pending and job.outputs.dtypes is None and job.work.first_settles:
                return
            limit = min(self.limit, GROWTH * job.largest or 1)
            claimed = job.claim(self.workers, CHUNK, limit)
            if claimed is None:
                return
            self.send(*claimed)

    def send(self, start, stop):
        job = self.job
        bound, outputs = job.bound.shifted(start), job.outputs
        parcel = Parcel(job.work.part(start, stop), bound, outputs.dtypes, outputs.single, self.pickler)
        try:
            future = self.executor.submit(run_away, parcel, *self.lender.scattered)
        except MemoryError:
            raise
        except Exception as error:
            raise self.failure(start, stop, parcel, error) from error
        self.pending[future] = start, stop, parcel
        # Not concurrent.futures.wait, to which a future that others cancel is never done.
        future.add_done_callback(self.finished.put)

    def take_back(self, future):
        job = self.job
        start, stop, parcel = self.pending.pop(future)
        if future.cancelled() and not job.bound.allows(start):
            return  # by us, below
        try:
            chunk = future.result()
            if isinstance(chunk, Reply):
                chunk = chunk.chunk()
        except MemoryError:
            raise
        except (Exception, asyncio.CancelledError) as error:
            if self.client is None or not _took_a_result_for_an_error(error):
                raise self.failure(start, stop, parcel, error) from error
            self.send(start, stop)
            return
        if not isinstance(chunk, Chunk):
            raise self.lost(
                start, stop, f"it gave back {shown(chunk)}", "its futures are for what a call returns"
            )
        if isinstance(chunk.error, OutOfReach):
            self.lender.send_inline()
            self.send(start, stop)
            return
        if isinstance(chunk.error, NotOpened):
            why, of_stored = chunk.error.args
            what = "open a file that the sequence is in" if of_stored else "unpickle the body"
            remedy = FILE_REMEDY if of_stored else PICKLE_REMEDY
            raise self.lost(start, stop, f"a worker can't {what} ({why})", remedy) from chunk.error
        chunk.start = start
        job.measure(chunk)
        if chunk.error is not None:
            job.bound.lower(start + chunk.count)
            # What lies behind the failure need not begin.
            for other in [other for other, (at, *_) in self.pending.items() if not job.bound.allows(at)]:
                other.cancel()
        job.take_back(chunk)

    def failure(self, start, stop, parcel, error):
        """What to raise where the executor has failed, rather than the body."""
        said = described(error)
        if parcel.failure is not None:
            reason, parcel.failure = parcel.failure, None
            return TypeError(f"the map's body can't be pickled ({reason}): {PICKLE_REMEDY}")
        if isinstance(error, CancelledError | asyncio.CancelledError):
            return self.lost(start, stop, f"they were cancelled ({said})", "leave its futures to the map")
        if isinstance(error, BrokenExecutor):
            remedy = "see whether the body or an initializer ends its process, and make a new executor"
            return self.lost(start, stop, f"a worker has died ({said})", remedy)
        if "shutdown" in said:
            return self.lost(start, stop, f"it was shut down ({said})", "leave it open until the map ends")
        return self.lost(start, stop, said, "see whether it can run any other function")

    def lost(self, start, stop, reason, remedy):
        name = self.job.work.name(start, stop)
        kind = type(self.executor).__name__
        return RuntimeError(f"the executor ({kind}) has lost {name} of the map: {reason}; {remedy}")


def _took_a_result_for_an_error(error):
    """Whether Dask's executor had a result whose worker was lost before it looked at the state of the task.

    Then it unpacks the result as if it were an exception. What Dask loses it computes again; so do we.
    """
    names = Reply.__name__, Chunk.__name__
    return type(error) is TypeError and any(f"non-iterable {name} object" in str(error) for name in names)


def count_workers(executor, client):
    """How many calls an executor runs at once, as far as it tells."""
    count = getattr(executor, "_max_workers", None)
    if client is not None:
        count = sum(client.nthreads().values())
    return count if isinstance(count, int) and count > 0 else os.cpu_count() or 1
