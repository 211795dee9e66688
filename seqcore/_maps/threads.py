"""A map on threads, which stay for the next one.

A thread that is there already needs not be started, and keeps what it has of its own: its malloc arena (glibc
hands those of ended threads on as well, other libraries may not), caches, thread-local data of the body.
So the threads of a map come from a pool that all maps share::

    seats ──▶ ThreadPoolExecutor: a thread for each, an idle one or a new one
                    └─ beyond KEPT at once ──▶ threads that end with the map

No seat ever waits for another, so nested maps can't wait for each other. Before a fork idle threads are let
go, and the child has none.
"""

import contextvars
import os
import queue
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from seqcore._maps.job import run_rest_here
from seqcore._maps.outputs import Chunk

CHUNK = 1e-2  # seconds of work that are handed out at once
KEPT = max(8, 2 * (os.cpu_count() or 1))  # threads that may stay
NEVER_BEGAN = 1.0  # seconds after which a thread that has not begun is not waited for


class Pool:
    """Threads that are already there. A map uses several at once, several maps use one pool."""

    def __init__(self):
        self._begin()

    def _begin(self):
        self.lock = threading.Lock()
        self.executor = None
        self.busy = 0  # seats that were given a thread of the pool

    def start(self, seat):
        """Have a seat called on a thread. RuntimeError: there is none, though the seat may yet be called."""
        with self.lock:
            if self.busy < KEPT:
                if self.executor is None:
                    # It starts a thread where none is idle, however many that makes: its own limit would
                    # count threads that have died for want of memory.
                    self.executor = ThreadPoolExecutor(sys.maxsize, thread_name_prefix="seqcore-map")
                self.busy += 1
                seat.pool = self
                try:
                    self.executor.submit(seat)
                except BaseException:
                    self._leave(seat)
                    raise
                return
        threading.Thread(target=seat, name="seqcore-map").start()

    def leave(self, seat):
        with self.lock:
            self._leave(seat)

    def _leave(self, seat):
        # Once: the executor may say that it has no thread, and still call the seat later.
        if seat.pool is self:
            seat.pool = None
            self.busy -= 1

    def before_fork(self):
        """A process with several threads should not fork: end them, if no map is running on them."""
        with self.lock:
            executor = None
            if self.busy == 0:
                executor, self.executor = self.executor, None
        if executor is not None:
            executor.shutdown()

    def after_fork(self):
        self._begin()


POOL = Pool()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=POOL.before_fork, after_in_child=POOL.after_fork)


class Seat:
    """A worker of a map, which a thread calls once. What the thread then has left of the map is nothing."""

    def __init__(self, work, finished):
        context = contextvars.copy_context()  # one can't be entered twice
        self.tasks = [(context, work)]
        self.finished = finished
        self.pool = None

    def __call__(self):
        try:
            self.run()
            POOL.leave(self)
        finally:
            finished, self.finished = self.finished, None
            if finished is not None:
                _say_done(finished)

    def run(self):
        try:
            context, work = self.tasks.pop()
        except IndexError:  # cancelled
            self.finished = None
            return
        context.run(work)

    def cancel(self):
        """Make a call that has not begun do nothing; False where it has."""
        try:
            self.tasks.pop()
        except IndexError:
            return False
        return True


def run_on_threads(job, workers):
    """On as many threads; where there are none, here."""
    if job.chunksize is None:
        job.sample()
        if not job.pays_on_threads:
            run_rest_here(job)
            return
    finished = queue.SimpleQueue()
    lock = threading.Lock()

    def work():
        try:
            while True:
                with lock:
                    claimed = job.claim(workers, CHUNK)
                if claimed is None:
                    return
                finished.put(job.run(*claimed))
        except BaseException as error:  # a failure of ours, such as no memory
            finished.put(error)

    seats = []
    try:
        for _ in range(min(workers, job.n - job.claimed)):
            seat = Seat(work, finished)
            try:
                POOL.start(seat)
            except RuntimeError:  # no thread to spare, or the interpreter is about to end
                if seat.cancel():
                    break
            seats.append(seat)
        failure = _gather(job, finished, seats)
    except BaseException:  # Ctrl-C: what runs, runs on, but nothing more is started
        job.bound.lower(0)
        raise
    if failure is not None:
        try:
            raise failure
        finally:
            del failure
    run_rest_here(job)  # what no thread has claimed


def _say_done(finished):
    """Tell that a thread is done: the caller waits for it, so also where there is no memory at the moment."""
    while True:
        try:
            finished.put(None)
        except MemoryError:
            time.sleep(0.01)
        else:
            return


def _gather(job, finished, seats):
    """Take chunks back until all threads are done; return what a chunk has failed with.

    After a failure the threads stop by themselves: no unit behind it is started.
    """
    failure, running, patience = None, len(seats), NEVER_BEGAN
    while running:
        try:
            item = finished.get(timeout=patience)
        except queue.Empty:
            # A pool that lost a thread would let a seat wait for ever. Those that have begun do the work.
            running -= sum([seat.cancel() for seat in seats])
            patience = None
            continue
        if item is None:
            running -= 1
        elif failure is None:
            try:
                if not isinstance(item, Chunk):
                    raise item
                job.take_back(item)
            except Exception as error:
                failure = error
            except BaseException as error:
                if job.bound.allows(job.n):
                    raise  # no unit has failed: it is Ctrl-C in this thread
                failure = error
            if failure is not None:
                job.bound.lower(job.added)
    try:
        return failure
    finally:
        del failure  # it refers to this frame
