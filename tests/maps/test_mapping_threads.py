"""The threads of maps: they stay for the next one, keep nothing of the last, and there may be none."""

import gc
import os
import subprocess
import sys
import threading
import time
import weakref

import numpy as np
import pytest
from support.bodies import numbers, within
from support.strategies import assert_holds

import seqcore as sq
from seqcore._maps import threads

pytestmark = pytest.mark.thread_unsafe
ON_THREADS = {"max_workers": 2, "chunksize": 1}


def run(script):
    """Run a script in a process of its own; return what it prints."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    outcome = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (outcome.returncode, outcome.stderr) == (0, "")
    return outcome.stdout


def threads_of_a_map(count=2):
    """The threads that a map runs on, all at once."""
    barrier, seen = threading.Barrier(count), set()

    def meet(a):
        barrier.wait(20)
        seen.add(threading.current_thread())
        return a

    sq.sequence_map(meet, numbers(count), max_workers=count, chunksize=1)
    return seen


def assert_none_is_busy(pool):
    for _ in range(500):
        if pool.busy == 0:
            return
        time.sleep(0.01)
    pytest.fail(f"{pool.busy} threads are busy")


class TestTheyStay:
    @pytest.mark.skipif(threads.KEPT == 0, reason="without a GIL threads end with their map")
    def test_for_the_next_map(self):
        first = threads_of_a_map()
        assert len(first) == 2
        for _ in range(100):
            assert threads_of_a_map() == first
        assert threading.current_thread() not in first

    def test_no_more_than_some(self):
        before = threading.active_count()
        seen = threads_of_a_map(threads.KEPT + 20)
        assert len(seen) == threads.KEPT + 20
        for _ in range(500):
            if threading.active_count() <= before + threads.KEPT:
                break
            time.sleep(0.01)
        assert threading.active_count() <= before + threads.KEPT
        assert_none_is_busy(threads.POOL)

    def test_more_maps_within_maps_than_stay(self):
        def at_depth(depth, a):
            if depth:
                sq.sequence_map(lambda b: at_depth(depth - 1, b), numbers(2), **ON_THREADS)
            return a

        assert (
            len(within(60, lambda: sq.sequence_map(lambda a: at_depth(5, a), numbers(3), **ON_THREADS))) == 3
        )
        assert_none_is_busy(threads.POOL)


class TestTheyKeepNothing:
    @pytest.mark.parametrize("fails", [False, True])
    def test_of_inputs_body_and_results(self, fails):
        for _ in range(20):
            alive = self.leftovers(fails)
            assert [one() for one in alive] == [None] * len(alive)

    def leftovers(self, fails):
        class Body:
            def __call__(self, a, whole):
                if fails and a[0] == 30:
                    raise KeyError(3)
                return a + 1

        array, whole, body = np.arange(40).reshape(-1, 1), np.zeros(3), Body()
        gc.disable()
        try:
            result = sq.sequence_map(body, sq.split_to_sequence(array), whole, **ON_THREADS)
        except KeyError:
            result = [np.zeros(1)]
        finally:
            gc.enable()
        if not getattr(sys, "_is_gil_enabled", lambda: True)():
            gc.collect()  # there functions, and what they close over, may wait for that
        return [weakref.ref(one) for one in (array, whole, body, result[0])]

    def test_of_context_variables(self):
        script = """
import contextvars, gc, weakref, numpy as np, seqcore as sq
class Thing: pass
variable = contextvars.ContextVar("variable")
def run():
    thing = Thing()
    variable.set(thing)
    sq.sequence_map(np.copy, [[1]] * 9, max_workers=2, chunksize=1)
    return weakref.ref(thing)
alive = contextvars.copy_context().run(run)
print(alive())
"""
        assert run(script) == "None\n"


class TestNone:
    """Where there are no threads to be had, the caller runs it all."""

    @pytest.mark.parametrize("allowed", [0, 1, 2])
    @pytest.mark.parametrize("where", ["pool", "thread"])
    def test_system_has_no_more(self, monkeypatch, allowed, where):
        start, started = threading.Thread.start, []

        def refusing(thread):
            if len(started) >= allowed:
                raise RuntimeError("can't start new thread")
            started.append(thread)
            start(thread)

        pool = threads.Pool()
        monkeypatch.setattr(threads, "POOL", pool)
        monkeypatch.setattr(threads, "KEPT", 8 if where == "pool" else 0)
        monkeypatch.setattr(threading.Thread, "start", refusing)
        result = sq.sequence_map(lambda a: a + 1, numbers(50), max_workers=4, chunksize=1)
        assert_holds(result, [np.array([i + 1]) for i in range(50)])
        assert_none_is_busy(pool)
        monkeypatch.undo()
        pool.end()

    def test_pool_that_loses_what_it_is_given(self, monkeypatch):
        class Forgetful(threads.Pool):
            def start(self, task):
                pass

        monkeypatch.setattr(threads, "POOL", Forgetful())
        monkeypatch.setattr(threads, "START_TIMEOUT", 0.01)
        result = sq.sequence_map(lambda a: a + 1, numbers(50), **ON_THREADS)
        assert_holds(result, [np.array([i + 1]) for i in range(50)])

    def test_at_the_end_of_the_interpreter(self):
        script = """
import atexit
def late():
    result = sq.sequence_map(np.negative, [[i] for i in range(50)], max_workers=2, chunksize=1)
    print([a[0] for a in result] == [-i for i in range(50)])
atexit.register(late)
import numpy as np, seqcore as sq
late()
"""
        assert run(script) == "True\nTrue\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
class TestFork:
    def test_leaves_no_thread_behind(self):
        script = """
import os, threading, numpy as np, seqcore as sq
def run():
    result = sq.sequence_map(np.negative, [[i] for i in range(50)], max_workers=2, chunksize=1)
    return [a[0] for a in result] == [-i for i in range(50)]
print(run())
if os.fork() == 0:
    assert threading.active_count() == 1
    os._exit(0 if run() else 1)
print(os.wait()[1], threading.active_count(), run())
"""
        environment = "import os; os.environ['OPENBLAS_NUM_THREADS'] = '1'\n"
        assert run(environment + script) == "True\n0 1 True\n"

    def test_while_a_map_runs(self):
        script = """
import os, warnings, numpy as np, seqcore as sq
np.ma       # else a thread may be importing it when another forks: the child would wait for that for ever
warnings.simplefilter("ignore")     # Python says that it may deadlock, which a map doesn't
def run(body):
    result = sq.sequence_map(body, [[i] for i in range(20)], max_workers=2, chunksize=1)
    return [a[0] for a in result] == [*range(20)]
def body(a):
    if a[0] == 3:
        if os.fork() == 0:
            os._exit(0 if run(np.copy) else 1)
        print(os.wait()[1], flush=True)
    return a
print(run(body), run(body))
"""
        assert run(script) == "0\n0\nTrue True\n"
