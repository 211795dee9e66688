"""Run a map on threads of a pool, which is kept for later maps.

A running thread needs not be started, and keeps its malloc arena (glibc passes those of ended threads on,
other libraries may not), caches, and the thread-local data of the body. All maps share one pool::

    task ──▶ an idle thread, or a new one ──▶ idle again, before the map hears that the task is done
                                          └─▶ or it ends, if KEPT threads are idle already

No task ever waits for another, so nested maps can't deadlock. Before a fork idle threads are ended, and the
child starts without any; at the end of the interpreter running tasks are waited for.
"""

import atexit
import contextvars
import os
import queue
import sys
import threading
import time

from seqcore._maps.job import run_rest_serially
from seqcore._maps.outputs import Chunk

CHUNK = 1e-2  # seconds of work in a chunk
# The number of idle threads that are kept. None without a GIL: objects made in a thread are freed in it, so
# an idle one would keep unused results until the next garbage collection.
KEPT = max(8, 2 * (os.cpu_count() or 1)) if getattr(sys, "_is_gil_enabled", lambda: True)() else 0
START_TIMEOUT = 1.0  # seconds after which a task that has not started is cancelled


class Pool:
    """Running threads to reuse. A map uses several at once, and all maps share one pool."""

    def __init__(self):
        self._begin()

    def _begin(self):
        self.lock = threading.Lock()
        self.idle = []  # threads that wait for a task, or are about to
        self.threads = set()
        self.ended = False

    @property
    def busy(self):
        """The number of threads with a task."""
        with self.lock:
            return len(self.threads) - len(self.idle)

    def start(self, task):
        """Start a task on an idle or new thread; RuntimeError if no thread can be started."""
        with self.lock:
            if self.ended:
                raise RuntimeError("the interpreter is about to end")
            thread = self.idle.pop() if self.idle else None
            if thread is None:
                thread = PoolThread(self, task)
                self.threads.add(thread)
                task.thread = thread
            else:
                task.thread = thread
                thread.take(task)
                return
        try:
            thread.start()
        except BaseException:
            self.forget(thread)
            raise

    def rest(self, thread):
        """Keep a thread as idle; False if there are enough of them."""
        with self.lock:
            if self.ended or len(self.idle) >= KEPT:
                return False
            self.idle.append(thread)
            return True

    def forget(self, thread):
        with self.lock:
            self.threads.discard(thread)

    def end_idle(self):
        """End the idle threads, because a process with several threads should not fork."""
        with self.lock:
            idle, self.idle = self.idle, []
            for thread in idle:
                thread.take(None)
        for thread in idle:
            thread.join()

    def end(self):
        """Start no more threads, and wait for the running ones, which would crash at interpreter shutdown."""
        with self.lock:
            self.ended = True
            threads = [thread for thread in self.threads if thread is not threading.current_thread()]
        self.end_idle()
        for thread in threads:
            thread.join()


class PoolThread(threading.Thread):
    """A thread that runs one task after the other, and keeps no references to a finished map."""

    def __init__(self, pool, task):
        # A daemon, because `threading` would wait for idle threads at exit before `Pool.end` runs.
        super().__init__(name="seqcore-map", daemon=True)
        self.pool, self.task = pool, task
        self.stays = True
        self.woken = threading.Lock()
        self.woken.acquire()

    def take(self, task):
        """Wake the thread for a task, or None to end it. It allocates nothing, so it can't fail."""
        self.task = task
        self.woken.release()

    def run(self):
        pool = self.pool
        try:
            while self.task is not None:
                task, self.task = self.task, None
                try:
                    task.run()
                    self.stays = pool.rest(self)  # first, so that the next map finds this thread
                finally:
                    task.finish()
                task = None
                if not self.stays:
                    break
                self.woken.acquire()
        except MemoryError:
            pass  # this thread ends, and another one starts when it is needed
        finally:
            pool.forget(self)


POOL = Pool()
atexit.register(POOL.end)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=POOL.end_idle, after_in_child=POOL._begin)


class Task:
    """One worker of a map, run once by a thread."""

    def __init__(self, work, finished):
        context = contextvars.copy_context()  # a context can't be entered twice
        self._calls = [(context, work)]
        self.finished = finished
        self.thread = None

    def run(self):
        try:
            context, work = self._calls.pop()
        except IndexError:  # cancelled
            self.finished = None
            return
        context.run(work)

    def finish(self):
        finished, self.finished = self.finished, None
        if finished is not None:
            _put_finished(finished)

    def cancel(self):
        """Cancel a task that has not started; False if it has."""
        try:
            self._calls.pop()
        except IndexError:
            return False
        return True


def run_on_threads(job, workers):
    """Run a map on several threads; in the calling thread if none can be started."""
    if job.chunksize is None:
        job.sample()
        if not job.pays_on_threads:
            run_rest_serially(job)
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
        except BaseException as error:  # an internal failure, such as no memory
            finished.put(error)

    tasks = []
    try:
        for _ in range(min(workers, job.n - job.claimed)):
            task = Task(work, finished)
            try:
                POOL.start(task)
            except RuntimeError:  # no thread available, or the interpreter is about to end
                if task.cancel():
                    break
            tasks.append(task)
        failure = _gather(job, finished, tasks)
        for task in tasks:
            if task.thread is not None and not task.thread.stays:
                task.thread.join()
    except BaseException:  # Ctrl-C: running units go on, but no more are started
        job.bound.lower(0)
        raise
    if failure is not None:
        try:
            raise failure
        finally:
            del failure
    run_rest_serially(job)  # the units that no thread has claimed


def _put_finished(finished):
    """Signal that a thread is done. The caller waits for it, so retry while there is no memory."""
    while True:
        try:
            finished.put(None)
        except MemoryError:
            time.sleep(0.01)
        else:
            return


def _gather(job, finished, tasks):
    """Collect chunks until all threads are done; return the error of a failed chunk, or None.

    After a failure the threads stop by themselves: no unit after it is started.
    """
    failure, running, patience = None, len(tasks), START_TIMEOUT
    while running:
        try:
            item = finished.get(timeout=patience)
        except queue.Empty:
            # A pool that lost a thread would block forever. Started tasks do the remaining work.
            running -= sum([task.cancel() for task in tasks])
            patience = None
            continue
        if item is None:
            running -= 1
        elif failure is None:
            try:
                if not isinstance(item, Chunk):
                    raise item
                job.collect(item)
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
