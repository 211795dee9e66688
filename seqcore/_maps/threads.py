"""Run a map on threads: the calling thread and helpers, as many as `pace` finds to be fastest.

::

    calling thread   claim ─ run ─ collect ─ claim ─ run ─ collect ─ …
    helper           claim ─ run ─▶ finished        waits while fewer threads are wanted, leaves with the map

The calling thread works like the helpers, so it never waits for one that hasn't begun: a map takes as many
threads as come. Only if the caller gives a chunksize, all units run on helpers.

A helper that waits has claimed nothing, so nested maps can't deadlock.
"""

import contextvars
import queue
import threading
import time
from functools import partial
from typing import Any

from seqcore._maps import helpers
from seqcore._maps.job import run_serially
from seqcore._maps.outputs import Chunk, raise_for
from seqcore._maps.pace import Pace, worth_a_trial
from seqcore.core.counters import count_units

PATIENCE = 1.0  # seconds to wait for the first helper, or until one that had no memory to report is missed
SHORT = 1e-3  # seconds to wait for a helper to pause
LATE = 1.5  # times as long as expected, after which a chunk ends
WORTH_DIVIDING = 4e-4  # seconds of work that another worker has, from which half of it is taken


def run_on_threads(job, workers):
    """Run a map on up to so many threads."""
    if job.chunksize is not None:
        Team(job, None, min(workers, -(-job.n // job.chunksize))).run()
        return
    job.sample()
    left = job.n - job.claimed
    if left < 2 or job.seconds < job.work.small or not worth_a_trial(job.seconds, left):
        run_serially(job)
        return
    workers = min(workers, left)
    Team(job, Pace(job.seconds, workers, job.work.least), workers - 1).run()


class Team:
    """The threads of one map.

    Parameters
    ----------
    job : Job
    pace : Pace or None
        The number of threads that work; None if all helpers do, and the calling thread only collects.
    most : int
        The largest number of helpers.
    """

    def __init__(self, job, pace, most):
        self.job, self.pace, self.most = job, pace, most
        # The lock guards all that follows, and claims. Take it, not the condition, whose `__enter__` is
        # Python code: without memory to return from that, nobody would release the lock.
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        self.tasks = []  # of the helpers
        self.closed = False
        self.running = [0] * (most + 1)  # by worker: chunks that are claimed, and not collected
        self.ends = [0.0] * (most + 1)  # by worker: when it is expected to have finished what it has claimed
        self.bounds = [job.bound.shifted(0) for _ in self.running]  # by worker: paused to stop within a chunk
        self.finished: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.failure = None

    def run(self):
        try:
            with self.lock:
                self._ask_helpers()
            if self.pace is None:
                self._wait_for_helpers()
            while True:
                if (claimed := self._claim(0)) is not None:
                    self._take(*self._run(0, *claimed))
                elif any(self.running):
                    self._take(*self._next_finished())
                else:
                    break
                self._take_finished()
        except BaseException:  # Ctrl-C: running units go on, but no more are started
            self.job.bound.lower(0)
            self._close()
            raise
        self._close()
        self._wait_for_the_end()
        failure, self.failure = self.failure, None
        if failure is None and self.job.added < self.job.n:
            failure = _died()
        if failure is not None:
            try:
                raise failure
            finally:
                del failure  # it refers to this frame

    # -- work --------------------------------------------------------------------------------------------

    def _claim(self, worker):
        """Return the next units for a worker as (start, stop), or None at the end of the map."""
        with self.lock:
            size = None if self.pace is None else self._size(worker)
            if self.closed or not self.job.left:
                return None
            claimed = self.job.claim(size)
            if claimed is not None:  # a failure of another thread may have ended the map just now
                self.running[worker] += 1
                if self.pace is not None:
                    now, seconds = time.perf_counter(), (claimed[1] - claimed[0]) * self.pace.seconds
                    self.ends[worker] = now + seconds
                    self.bounds[worker].pause(False)
                    self.bounds[worker].end_at(now + LATE * seconds)
            return claimed

    def _size(self, worker):
        """Wait until a worker is wanted, and return how many units it may claim. The lock is held."""
        while not self.closed and (self.job.left or self._divide(worker)):
            if worker < self.pace.width and self.job.left:
                size = self.pace.size(worker, self.job.left, time.perf_counter())
                if worker < self.pace.width:  # it still is
                    return size
            # With an end, because those who wanted to wake it may have had no memory for that.
            self.changed.wait(PATIENCE)
        return None

    def _divide(self, worker):
        """Have the worker with the most work give back what it hasn't begun.

        Return whether to wait for that. The calling thread doesn't, because it has to collect it.
        """
        others = [k for k, n in enumerate(self.running) if n and k != worker]
        if worker >= self.pace.width or not others:
            return False
        most = max(others, key=self.ends.__getitem__)
        least = max(WORTH_DIVIDING, 2 * self.pace.seconds)  # a single unit can't be divided
        if self.ends[most] < time.perf_counter() + least:
            return False
        self.bounds[most].pause(True)
        return worker > 0

    def _run(self, worker, start, stop):
        began = time.perf_counter()
        chunk = self.job.run(start, stop, self.bounds[worker])
        ended = time.perf_counter()
        if chunk.count < stop - start and chunk.error is None:
            with self.lock:
                self.job.give_back(start + chunk.count, stop)
                self.changed.notify_all()
        return chunk, worker, began, ended

    def _help(self, worker):
        try:
            while (claimed := self._claim(worker)) is not None:
                self.finished.put(self._run(worker, *claimed))
        except BaseException as error:  # an internal failure, such as no memory
            self.finished.put((error, worker, 0.0, 0.0))

    def _take(self, chunk, worker, began, ended):
        """Collect a finished chunk. After a failure only count those that run, until there are none."""
        failed = not isinstance(chunk, Chunk)
        together = worker > 0 or any(self.running[1:])
        with self.lock:
            self.running[worker] -= self.running[worker] > 0
            if not failed and self.pace is not None:
                before = self.pace.width
                self.pace.finished(worker, chunk.count, began, ended)
                if self.pace.width > before:
                    self._ask_helpers()
                for other in range(self.pace.width, before):
                    self.bounds[other].pause(True)
        if self.failure is not None:
            return
        try:
            if failed:
                raise chunk
            count_units(chunk.count, together)
            if worker == 0 and isinstance(chunk.error, KeyboardInterrupt):
                self.job.bound.lower(0)  # as for Ctrl-C elsewhere
                raise_for(chunk.error, self.job.work.name(chunk.start + chunk.count))
            if chunk.count or chunk.error is not None:
                self.job.collect(chunk)
        except BaseException as error:
            if not isinstance(error, Exception) and self.job.bound.allows(self.job.n):
                raise  # no unit has failed: it is Ctrl-C in this thread
            self.failure = error
            self.job.bound.lower(self.job.added)

    def _next_finished(self):
        """Wait for the next chunk that a helper finishes, or for the end of one that has claimed units."""
        while True:
            try:
                return self.finished.get(timeout=PATIENCE)
            except queue.Empty:
                for worker, task in enumerate(self.tasks, 1):
                    if self.running[worker] and not task.lasts and self.finished.empty():
                        return _died(), worker, 0.0, 0.0

    def _take_finished(self):
        """Collect what helpers have finished, and wait for those that were paused within short units."""
        while (pausing := self._is_one_pausing()) or not self.finished.empty():
            try:
                item = self.finished.get(timeout=SHORT if pausing else None)
            except queue.Empty:
                return
            self._take(*item)

    def _is_one_pausing(self):
        return self.pace is not None and any(self.running[self.pace.width :]) and self.pace.seconds < SHORT

    def _wait_for_helpers(self):
        """Collect what helpers finish, until nothing is left, or none of them begins."""
        until = time.monotonic() + PATIENCE
        while self.job.left and any(
            task.lasts and (task.began or time.monotonic() < until) for task in self.tasks
        ):
            try:
                item = self.finished.get(timeout=PATIENCE if self.job.claimed else 0.01)
            except queue.Empty:
                continue
            self._take(*item)

    # -- helpers -----------------------------------------------------------------------------------------

    def _ask_helpers(self):
        """Wake the helpers that are wanted, and ask for those that are missing. The lock is held."""
        self.changed.notify_all()
        while len(self.tasks) < (self.most if self.pace is None else self.pace.width - 1):
            context = contextvars.copy_context()  # a context can't be entered twice
            self.tasks.append(helpers.Task(partial(context.run, self._help, len(self.tasks) + 1)))
            try:
                helpers.ask(self.tasks[-1])
            except (RuntimeError, MemoryError):  # go on with those that there are
                self.tasks.pop().withdraw()
                self.most = len(self.tasks)
                if self.pace is not None:
                    self.pace.limit(1 + self.most)
                return

    def _close(self):
        """Let the helpers go."""
        with self.lock:
            self.closed = True
            for task in self.tasks:
                task.withdraw()
            self.changed.notify_all()

    def _wait_for_the_end(self):
        """Wait until no helper has a reference to the map."""
        for task in self.tasks:
            task.wait()


def _died():
    """Return what to raise for a helper that had no memory to say what became of its units."""
    return MemoryError("a thread of the map has ended for lack of memory")
