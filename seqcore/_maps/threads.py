"""A map on threads, which stay for the next one.

A thread that is there already needs not be started, and keeps what it has of its own: its malloc arena (glibc
hands those of ended threads on as well, other libraries may not), caches, thread-local data of the body.
So the threads of a map come from a pool that all maps share::

    seat ──▶ an idle thread, or a new one ──▶ idle again, before the map hears that the seat is done
                                          └─▶ or at its end, where KEPT are idle already

No seat ever waits for another, so nested maps can't wait for each other. Before a fork idle threads are let
go, and the child has none; when the interpreter ends, what runs is waited for.
"""

import atexit
import contextvars
import os
import queue
import sys
import threading
import time

from seqcore._maps.job import run_rest_here
from seqcore._maps.outputs import Chunk

CHUNK = 1e-2  # seconds of work that are handed out at once
# Threads that may stay. None without a GIL: what a thread has made, it also has to let go, and an idle one
# would keep results that nobody has any more until the next search for cycles.
KEPT = max(8, 2 * (os.cpu_count() or 1)) if getattr(sys, "_is_gil_enabled", lambda: True)() else 0
NEVER_BEGAN = 1.0  # seconds after which a thread that has not begun is not waited for


class Pool:
    """Threads that are already there. A map uses several at once, several maps use one pool."""

    def __init__(self):
        self._begin()

    def _begin(self):
        self.lock = threading.Lock()
        self.idle = []  # threads that wait, or are about to
        self.threads = set()
        self.ended = False

    @property
    def busy(self):
        """How many threads have a seat."""
        with self.lock:
            return len(self.threads) - len(self.idle)

    def start(self, seat):
        """Have a seat taken by a thread; RuntimeError if there is none to be had."""
        with self.lock:
            if self.ended:
                raise RuntimeError("the interpreter is about to end")
            thread = self.idle.pop() if self.idle else None
            if thread is None:
                thread = PoolThread(self, seat)
                self.threads.add(thread)
                seat.thread = thread
            else:
                seat.thread = thread
                thread.take(seat)
                return
        try:
            thread.start()
        except BaseException:
            self.forget(thread)
            raise

    def rest(self, thread):
        """Count a thread among the idle ones; False where there are enough."""
        with self.lock:
            if self.ended or len(self.idle) >= KEPT:
                return False
            self.idle.append(thread)
            return True

    def forget(self, thread):
        with self.lock:
            self.threads.discard(thread)

    def let_go(self):
        """End the threads that are idle; a process with several threads should not fork."""
        with self.lock:
            idle, self.idle = self.idle, []
            for thread in idle:
                thread.take(None)
        for thread in idle:
            thread.join()

    def end(self):
        """Start no more, and wait for those that run: what they run would not stand the interpreter's end."""
        with self.lock:
            self.ended = True
            threads = [thread for thread in self.threads if thread is not threading.current_thread()]
        self.let_go()
        for thread in threads:
            thread.join()


class PoolThread(threading.Thread):
    """A thread that takes one seat after the other. What it then has left of a map is nothing."""

    def __init__(self, pool, seat):
        # A daemon, for `threading` would wait for idle ones at the end before anybody could let them go.
        super().__init__(name="seqcore-map", daemon=True)
        self.pool, self.seat = pool, seat
        self.stays = True
        self.woken = threading.Lock()
        self.woken.acquire()

    def take(self, seat):
        """Wake the thread for a seat, or None to end it. It allocates nothing, so it can't fail."""
        self.seat = seat
        self.woken.release()

    def run(self):
        pool = self.pool
        try:
            while self.seat is not None:
                seat, self.seat = self.seat, None
                try:
                    seat.run()
                    self.stays = pool.rest(self)  # first, so that the next map finds this thread
                finally:
                    seat.say_done()
                seat = None
                if not self.stays:
                    break
                self.woken.acquire()
        except MemoryError:
            pass  # this thread ends, and another one begins where it is needed
        finally:
            pool.forget(self)


POOL = Pool()
atexit.register(POOL.end)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=POOL.let_go, after_in_child=POOL._begin)


class Seat:
    """A worker of a map, which a thread takes once."""

    def __init__(self, work, finished):
        context = contextvars.copy_context()  # one can't be entered twice
        self.tasks = [(context, work)]
        self.finished = finished
        self.thread = None

    def run(self):
        try:
            context, work = self.tasks.pop()
        except IndexError:  # cancelled
            self.finished = None
            return
        context.run(work)

    def say_done(self):
        finished, self.finished = self.finished, None
        if finished is not None:
            _say_done(finished)

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
        for seat in seats:
            if seat.thread is not None and not seat.thread.stays:
                seat.thread.join()
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
