"""Run a map on threads: a pool of `concurrent.futures` that is made for the map and ends with it.

::

    calling thread   sample ──▶ … waits … ──▶ sample ──▶ … waits … ──▶ the rest, on whichever was faster
    pool                        trial                    trial

A pool of its own can't be waited for by a map within the map, isn't there in a forked process or at exit,
and keeps nothing of the map. It runs the chunks of `executors`, which never pickle here.
"""

import os
import sys
import threading
from concurrent.futures import CancelledError, ThreadPoolExecutor

from seqcore._maps.executors import Dispatch
from seqcore._maps.job import run_serially
from seqcore._maps.workers import NoWorker, Workers

SHARE = 1 / 32  # of the remaining work, for a trial
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
    """The threads of one map."""

    seconds = 1e-2
    least = 2e-4
    patience = 1.0

    def __init__(self, count):
        super().__init__(ThreadPoolExecutor(count, "seqcore-map"), count)
        self.process = os.getpid()

    def __enter__(self):
        return self

    def __exit__(self, kind, *exc_info):
        # Ctrl-C doesn't wait for the elements that run.
        self.executor.shutdown(kind is None or issubclass(kind, Exception), cancel_futures=True)

    def submit(self, done, function, *args):
        if os.getpid() != self.process:  # the calling thread forked, in a body or a progress callback
            raise NoWorker
        call = _Call(done, function, args, self.process)
        try:
            call.future = self.executor.submit(call.run)
        except (RuntimeError, MemoryError) as error:  # the pool may have it all the same
            if call.take():
                raise NoWorker from error
        return call

    def cancel(self, call):
        if call.take():
            call.done(_cancelled)

    def loss(self, calls):
        if os.getpid() != self.process:
            return RuntimeError("the process was forked during a map on threads, which only its parent has")
        if any(call.is_lost(self.executor._threads) for call in calls):
            return MemoryError("a thread of the map has ended for lack of memory")
        return None


class _Call:
    """A function that a thread calls at most once, and that nobody calls once it was taken."""

    def __init__(self, done, function, args, process):
        self.done, self.function, self.args, self.process = done, function, args, process
        self.taken = threading.Lock()
        self.future = self.thread = None
        self.ended = False

    def is_lost(self, threads):
        """Return whether it will not run any more, and hasn't told its result unless just now."""
        if self.ended or (self.future is not None and self.future.done()):
            return True
        return not any(one.is_alive() for one in ([self.thread] if self.thread else threads))

    def take(self):
        return self.taken.acquire(blocking=False)

    def run(self):
        if not self.take():
            return
        try:
            self.thread = threading.current_thread()
            chunk = self.function(*self.args)
            if os.getpid() != self.process:
                # The body forked, and this is the child: it has neither the other threads nor the caller.
                status = chunk.error.code if isinstance(chunk.error, SystemExit) else chunk.error
                os._exit(status if isinstance(status, int) else status is not None)
            self.done(lambda: chunk)
        finally:
            self.ended = True


def _cancelled():
    raise CancelledError
