"""Threads that help with maps, and wait for the next map in between.

Starting and ending a thread takes up to a millisecond, and a new thread has no memory yet: what its first
results need has to come from the system, page by page, while the other threads wait. So a helper that is done
waits for a while, and the next map takes it::

    map ── ask(task) ──▶ the helper that was last at work, or a new one ── task.run ──▶ waits

There are as many helpers as were ever wanted at once, so no task waits for another one. A task that no helper
has begun can be withdrawn, so no map waits for a thread that doesn't come.
"""

from __future__ import annotations

import atexit
import os
import queue
import sys
import threading
from _thread import allocate_lock, start_new_thread
from contextlib import suppress
from typing import Any

from seqcore.core.system import float_environment, in_main_interpreter, set_float_environment, this_cpu

# Another interpreter than the first can't be ended beside threads, so there a helper ends with its task.
STAYS = in_main_interpreter()
IDLE = 10.0  # seconds that a helper waits for the next map
# Without the GIL, Python frees an object that a waiting thread has made only when that thread runs again. So
# it wakes after so many seconds, then after twice as many, and so on.
NAP = IDLE if getattr(sys, "_is_gil_enabled", lambda: True)() else 5e-3
LOST = 10.0  # seconds to wait for what comes at once, if Ctrl-C hasn't come in between
SOON = 1.0  # seconds to wait for a thread that is ending, or until one that died is missed

# The helpers that wait, the last one last. No lock guards it, which a fork might find locked: each change is
# one step of the list.
_waiting: list[Helper] = []


class Task:
    """A call of `run()`, by a helper.

    Attributes
    ----------
    began : bool
        A helper runs it, or has.
    helper : Helper or None
        The thread that is to run it, once it has been asked.
    """

    def __init__(self, run):
        self._run = run
        self._taken = allocate_lock()  # by a helper, or by whoever withdraws it
        self._lasts = allocate_lock()
        self._lasts.acquire()
        self.began = False
        self.helper: Helper | None = None
        self.waits = False  # it was withdrawn, and its helper waits already
        self.cpus = None  # to allow the helper again
        self.floats = float_environment()

    def take(self):
        """Return whether the helper is to run it."""
        self.began = self._taken.acquire(blocking=False)
        return self.began

    def run(self):
        """Run it as the thread would that made it: on its CPUs, with its rounding."""
        try:
            set_float_environment(self.floats)
            _allow_cpus(0, self.cpus)
            self._run()
        finally:
            self._run = None  # nothing of the map stays alive

    def end(self):
        self._lasts.release()

    def withdraw(self):
        """See that it doesn't begin any more. Its helper may be asked for another one at once."""
        helper = self.helper if STAYS and self.helper is not None and self.helper.works else None
        if self._taken.acquire(blocking=False):
            self._run, self.waits = None, helper is not None
            self._lasts.release()
            if helper is not None:
                _waiting.append(helper)

    def is_settled(self):
        """Return whether it is known who tells that the helper of a withdrawn task waits."""
        if not self._lasts.acquire(timeout=LOST):
            return False
        self._lasts.release()
        return True

    @property
    def lasts(self):
        """True until it has ended, or was withdrawn, or its helper has died, as in a forked child."""
        has_died = self.began and self.helper is not None and not self.helper.thread.is_alive()
        return self._lasts.locked() and not has_died

    def wait(self):
        """Wait until it doesn't last any more."""
        while not self._lasts.acquire(timeout=SOON):
            if not self.lasts:
                return
        self._lasts.release()
        if not STAYS and self.helper is not None and self.helper.thread.ident is not None:
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
        self.thread = threading.Thread(target=self._work, name="seqcore-map", daemon=STAYS)

    def _work(self):
        self.works = True
        try:
            while (task := self._next()) is not None and self._do(task) and STAYS:
                task = None  # nothing of it while waiting
                if threading.main_thread() is self.thread:
                    break  # the task forked: in the child, that ends with it
        finally:
            self.works = False

    def _do(self, task):
        """Run a task that wasn't withdrawn; return whether this helper waits now."""
        if not task.take():
            if not task.is_settled():
                return False
            if not task.waits:
                _waiting.append(self)
            return True
        # Nothing here may need memory: nobody would end the task.
        try:
            task.run()
        except BaseException:  # the map notices that the task ended without a result
            pass
        finally:
            try:
                if STAYS:
                    _waiting.append(self)  # before the map ends, so that the next one finds it
            finally:
                task.end()
        return True

    def _next(self):
        """Wait for a task; return None if the thread is to end."""
        slept, nap = 0.0, NAP
        while slept < IDLE:
            with suppress(queue.Empty):
                return self.tasks.get(timeout=min(nap, IDLE))
            slept, nap = slept + nap, 2 * nap
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
        except (MemoryError, RuntimeError):
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
    for _ in range(len(_waiting)):
        if (helper := _next_waiting()) is not None:
            helper.tasks.put(None)
            ending.append(helper.thread)
    for thread in ending:
        thread.join(SOON)  # this may be a signal handler, which has interrupted what the thread waits for


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
