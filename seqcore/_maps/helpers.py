"""Threads that help with maps, and wait for the next map in between.

Starting and ending a thread takes up to a millisecond, and a new thread has no memory yet: what its first
results need has to come from the system, page by page, while the other threads wait. So a helper that is done
waits for a while, and the next map takes it::

    map ── ask(task) ──▶ the helper that was last at work, or a new one ── task.run ──▶ waits

There are as many helpers as were ever wanted at once, so no task waits for another one. A task that no helper
has begun can be withdrawn, so no map waits for a thread that doesn't come.
"""

import atexit
import os
import queue
import threading
from _thread import allocate_lock, start_new_thread
from contextlib import suppress
from typing import Any

from seqcore.core.system import in_main_interpreter, this_cpu

# Another interpreter than the first can't be ended beside threads, so there none stays.
STAYS = in_main_interpreter()
IDLE = 10.0 if STAYS else 0.0  # seconds that a helper waits for the next map
LOST = 10.0  # seconds after which a helper that was taken gets no task any more: Ctrl-C came in between

# The helpers that wait, the last one last. No lock guards it, which a fork might find locked: each change is
# one step of the list.
_waiting: list["Helper"] = []


class Task:
    """A call of `run()`, by a helper.

    Attributes
    ----------
    began : bool
        A helper runs it, or has.
    helper : Helper
        The thread that is to run it.
    cpus : set of int or None
        The CPUs to allow the helper again.
    """

    helper: "Helper"

    def __init__(self, run):
        self._run = run
        self._taken = allocate_lock()  # by a helper, or by whoever withdraws it
        self._lasts = allocate_lock()
        self._lasts.acquire()
        self.began = False
        self.cpus = None
        self.waits = False  # it was withdrawn, and its helper waits already

    def take(self):
        """Return whether the helper is to run it."""
        self.began = self._taken.acquire(blocking=False)
        return self.began

    def run(self):
        try:
            self._run()
        finally:
            self._run = None  # nothing of the map stays alive

    def end(self):
        self._lasts.release()

    def withdraw(self):
        """See that it doesn't begin any more. Its helper may be asked for another one at once."""
        works = self.helper.works
        if self._taken.acquire(blocking=False):
            self._run, self.waits = None, works
            if works:
                _waiting.append(self.helper)
            self._lasts.release()

    @property
    def lasts(self):
        """True until it has ended, or was withdrawn."""
        return self._lasts.locked()

    def wait(self):
        """Wait until it has ended, or was withdrawn."""
        with self._lasts:
            pass
        if self.began and not STAYS:
            self.helper.thread.join()


class Helper:
    """A thread that runs tasks, one after the other.

    Attributes
    ----------
    works : bool
        It has started, and not ended.
    """

    def __init__(self):
        self.tasks: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.works = False
        self.thread = threading.Thread(target=self._work, name="seqcore-map", daemon=True)

    def _work(self):
        self.works = True
        try:
            while (task := self._next()) is not None:
                self._do(task)
                task = None  # nothing of it while waiting
        finally:
            self.works = False

    def _do(self, task):
        if not task.take():
            task.wait()  # until it is known who tells that this helper waits
            if not task.waits:
                _waiting.append(self)
            return
        _allow_cpus(0, task.cpus)
        with suppress(BaseException):  # no memory to say what has failed: the map notices that the task ended
            task.run()
        try:
            _waiting.append(self)  # before the map ends, so that the next one finds it
        finally:
            task.end()

    def _next(self):
        """Wait for a task; return None if the thread is to end."""
        with suppress(queue.Empty):
            return self.tasks.get(timeout=IDLE)
        try:
            _waiting.remove(self)
        except ValueError:  # it has just been taken
            with suppress(queue.Empty):
                return self.tasks.get(timeout=LOST)
        return None


def ask(task):
    """Have a helper run a task.

    Raises
    ------
    RuntimeError, MemoryError
        If no thread can be started.
    """
    helper = task.helper = _next_waiting() or Helper()
    if helper.works:
        try:
            task.cpus = _keep_off_this_cpu(helper.thread.native_id)
            helper.tasks.put(task)
        except MemoryError:
            _waiting.append(helper)
            raise
        return
    helper.tasks.put(task)
    if STAYS:
        # Thread.start never returns if the new thread dies for lack of memory: not in this thread.
        start_new_thread(_start, (helper, task))
    else:
        _start(helper, task)


def end_waiting():
    """End the helpers that wait."""
    ending = []
    while (helper := _next_waiting()) is not None:
        helper.tasks.put(None)
        ending.append(helper.thread)
    for thread in ending:
        thread.join()


def _next_waiting():
    """Take the last helper that waits, None if none does. Some may have ended for lack of memory."""
    with suppress(IndexError):
        while not (helper := _waiting.pop()).works:
            pass
        return helper
    return None


def _start(helper, task):
    try:
        helper.thread.start()
    except (RuntimeError, MemoryError):
        task.withdraw()


def _keep_off_this_cpu(thread):
    """Allow a thread all CPUs of this thread but the one that this is on; return the CPUs of this thread.

    A thread that is woken may else get this CPU, and wait until this thread's time on it is up. Return None
    where the system has no such choice.
    """
    here = this_cpu()
    if here < 0:
        return None
    try:
        cpus = os.sched_getaffinity(0)
    except OSError:
        return None
    _allow_cpus(thread, (cpus - {here}) or cpus)
    return cpus


def _allow_cpus(thread, cpus):
    if cpus is not None:
        with suppress(OSError):  # they have just been taken from the process, or the thread has ended
            os.sched_setaffinity(thread, cpus)


atexit.register(end_waiting)
if hasattr(os, "register_at_fork"):
    # Python warns of a fork beside other threads; a child has none of them.
    os.register_at_fork(before=end_waiting, after_in_child=_waiting.clear)
