"""Run a map on threads: a pool of `concurrent.futures` that is made for the map and ends with it.

::

    calling thread   sample ──▶ … waits … ──▶ sample ──▶ … waits … ──▶ the rest, on whichever was faster
    pool                        trial                    trial

A pool of its own can't be waited for by a map within the map, isn't there in a forked process or at exit,
and keeps nothing of the map. It runs the chunks of `executors`, which never pickle here.
"""

import os
import queue
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from seqcore._maps.executors import Dispatch
from seqcore._maps.job import run_serially
from seqcore._maps.workers import NoWorker, Workers

SHARE = 1 / 8  # of the remaining work, for a trial
TRIAL = 3e-4, 2e-3  # seconds of it for each thread, at least and at most
GAIN, CLEAR = 1.1, 1.5  # times as fast as one thread, from which threads are worth it, and clearly so
NOT_WORTH_IT = 5e-4  # seconds of work that threads would not speed up
# Units of up to so many seconds gain less, or lose, because each needs the GIL: the shorter they are, the
# more work must pay for a trial. And seconds of a unit that always loses.
SWITCH, TINY = (7e-5, 4e-6) if getattr(sys, "_is_gil_enabled", lambda: True)() else (0.0, 0.0)


def run_on_threads(job, workers):
    """Run a map on up to so many threads, or in the calling thread if that is faster.

    With a chunksize nothing is measured, and all units run on the threads.
    """
    if job.chunksize is not None:
        with _Pool(min(workers, -(-job.n // job.chunksize))) as pool:
            Dispatch(job, pool).run()
    else:
        job.sample()
        if worth_a_trial(job):
            with _Pool(min(workers, job.left)) as pool:
                dispatch = Dispatch(job, pool)
                if _gains(job, dispatch):
                    dispatch.run()
    run_serially(job)  # what is left if threads don't gain, or none can be started


def worth_a_trial(job):
    """Return whether threads may pay for the units that are left, a trial included."""
    seconds = job.seconds
    if job.left < 2 or seconds < max(job.work.small, TINY):
        return False
    return seconds * job.left >= NOT_WORTH_IT * (1 + (SWITCH / max(seconds, 1e-9)) ** 2)


def _gains(job, dispatch):
    """Return whether the pool runs more units in a second than the calling thread, by trying both."""
    alone = 1 / max(job.seconds, 1e-9)
    together = dispatch.trial(SHARE, *TRIAL)
    if together >= CLEAR * alone:
        return True
    # Either may have been disturbed, or not have warmed up.
    job.sample()
    alone = max(alone, 1 / max(job.seconds, 1e-9))
    return max(together, dispatch.trial(SHARE, *TRIAL)) >= GAIN * alone


class _Pool(Workers):
    """The threads of one map.

    The executor starts them, each with one task, which runs calls from a queue of our own until the map ends.
    Then the executor is let go: its own queue hands out tasks under a lock in Python code, which stays locked
    if there is no memory to return from there. Its threads end with their tasks.
    """

    seconds = 1e-2
    least = 2e-4

    def __init__(self, count):
        super().__init__(ThreadPoolExecutor(count, "seqcore-map"), count)
        self.process = os.getpid()
        self.calls: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.started = 0
        self.threads = self.executor._threads
        self.closed = False

    def __enter__(self):
        return self

    def __exit__(self, kind, *exc_info):
        self.closed = True
        self.let_go()
        with suppress(MemoryError):  # without this they end a moment later
            for _ in range(self.started):
                self.calls.put(None)
        if kind is None or issubclass(kind, Exception):  # Ctrl-C doesn't wait for the elements that run
            for thread in self.threads:
                thread.join()

    def let_go(self):
        """Have the threads end with their task."""
        executor, self.executor = self.executor, None
        if executor is not None:
            executor.shutdown(wait=False)

    def submit(self, done, function, *args):
        if self.executor is not None:
            try:
                self.executor.submit(self.work)
                self.started += 1
            except (RuntimeError, MemoryError):  # go on with those that there are
                self.count = self.started
            if self.started == self.count:
                self.let_go()
        if not self.started or os.getpid() != self.process:  # the calling thread may have forked
            raise NoWorker
        call = _Call(done, function, args)
        self.calls.put(call)
        return call

    def work(self):
        while not self.closed:
            with suppress(queue.Empty):
                if (call := self.calls.get(timeout=self.patience)) is not None:
                    try:
                        call.run(self.process)
                    finally:  # there may be no memory for its result, nor to call it
                        call.ended = True
            call = None  # nothing of the map while it waits

    def cancel(self, call):
        """Let it run: the bound of the map has no unit of it start."""

    def loss(self, calls):
        if os.getpid() != self.process:
            return RuntimeError("the process was forked during a map on threads, which only its parent has")
        if any(call.is_lost(self.threads) for call in calls):
            return MemoryError("a thread of the map has ended for lack of memory")
        return None


class _Call:
    """A function that a thread calls."""

    def __init__(self, done, function, args):
        self.done, self.function, self.args = done, function, args
        self.ended = False

    def run(self, process):
        chunk = self.function(*self.args)
        if os.getpid() != process:
            # The body forked, and this is the child: it has neither the other threads nor the caller.
            status = chunk.error.code if isinstance(chunk.error, SystemExit) else chunk.error
            os._exit(status if isinstance(status, int) else status is not None)
        self.done([chunk].pop)
        del chunk  # its error may refer to this frame

    def is_lost(self, threads):
        """Return whether it will not run any more, and hasn't told its result unless just now."""
        return self.ended or not any(one.is_alive() for one in threads)
