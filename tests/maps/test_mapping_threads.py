"""The threads of maps: they end with it, keep nothing of it, and there may be none."""

import _thread
import gc
import os
import queue
import subprocess
import sys
import threading
import time
import weakref
from concurrent.futures import Future

import numpy as np
import pytest
from support.bodies import FailAt, numbers, slowly, within
from support.strategies import assert_holds

import seqcore as sq
from seqcore._maps import threads
from seqcore._maps.job import Job

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


class TestTheyEnd:
    @pytest.mark.slow
    @pytest.mark.parametrize("options", [ON_THREADS, {"max_workers": 2}], ids=str)
    def test_with_the_map(self, options):
        for _ in range(20):
            before, seen = {*threading.enumerate()}, set()
            sq.sequence_map(
                lambda a, seen=seen: seen.add(threading.current_thread()) or slowly(a), numbers(9), **options
            )
            assert not {*threading.enumerate()} - before
            assert len(seen) <= 2  # the second may come too late
            assert threading.current_thread() in seen or "chunksize" in options

    def test_with_a_map_that_fails(self):
        before = {*threading.enumerate()}
        with pytest.raises(KeyError):
            sq.sequence_map(FailAt({5: KeyError(5)}), numbers(9), **ON_THREADS)
        assert not {*threading.enumerate()} - before

    def test_with_maps_within_maps(self):
        before = {*threading.enumerate()}

        def at_depth(depth, a):
            if depth:
                sq.sequence_map(lambda b: at_depth(depth - 1, b), numbers(2), **ON_THREADS)
            return a

        result = within(60, lambda: sq.sequence_map(lambda a: at_depth(5, a), numbers(3), **ON_THREADS))
        assert len(result) == 3
        assert not {*threading.enumerate()} - before

    def test_with_a_chunksize_the_caller_runs_nothing(self):
        assert threading.current_thread() not in threads_of_a_map(5)


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

    @pytest.mark.slow
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

    @pytest.fixture(params=[{"chunksize": 1}, {}], ids=str)
    def options(self, request):
        return {"max_workers": 4, **request.param}

    @pytest.mark.mostly_slow(7)
    @pytest.mark.parametrize("allowed", [0, 1, 2])
    @pytest.mark.parametrize("error", [RuntimeError("can't start new thread"), MemoryError()], ids=repr)
    def test_system_has_no_more(self, monkeypatch, allowed, error, options):
        start, started = threading.Thread.start, []

        def refusing(thread):
            if len(started) >= allowed:
                raise error
            started.append(thread)
            start(thread)

        seen = set()
        monkeypatch.setattr(threading.Thread, "start", refusing)
        result = sq.sequence_map(
            lambda a: seen.add(threading.get_ident()) or slowly(a), numbers(50), **options
        )
        assert_holds(result, [np.array([i]) for i in range(50)])
        assert len(seen) <= allowed + 1
        assert not any(thread.is_alive() for thread in started)

    @pytest.mark.mostly_slow(5)
    @pytest.mark.parametrize("error", [RuntimeError("can't start new thread"), MemoryError()], ids=repr)
    def test_not_even_the_one_that_starts_others(self, monkeypatch, error, options):
        def refusing(*args):
            raise error

        monkeypatch.setattr(threads, "start_new_thread", refusing)
        result = sq.sequence_map(slowly, numbers(50), **options)
        assert_holds(result, [np.array([i]) for i in range(50)])

    @pytest.mark.slow
    def test_a_thread_that_dies_before_it_has_started(self, monkeypatch, options):
        """CPython's Thread.start waits for ever for a thread that ends for lack of memory."""
        released = threading.Event()
        monkeypatch.setattr(threading.Thread, "start", lambda thread: released.wait(60))
        monkeypatch.setattr(threads, "PATIENCE", 0.05)
        try:
            outcome = Future()
            _thread.start_new_thread(
                lambda: outcome.set_result(sq.sequence_map(slowly, numbers(50), **options)), ()
            )
            assert_holds(outcome.result(30), [np.array([i]) for i in range(50)])
        finally:
            released.set()

    @pytest.mark.slow
    @pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
    @pytest.mark.parametrize("puts", [1, 2, 5])
    def test_a_map_ends_where_a_thread_has_no_memory_to_say_so(self, monkeypatch, puts):
        class Short(queue.Queue):
            asked = failed = 0

            def put(self, item):
                self.asked += 1
                if self.asked >= puts and self.failed < 3:
                    self.failed += 1
                    raise MemoryError
                super().put(item)

        monkeypatch.setattr(threads.queue, "SimpleQueue", Short)
        with pytest.raises(MemoryError):
            within(20, lambda: sq.sequence_map(slowly, numbers(6), **ON_THREADS))

    @pytest.mark.slow
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
    @pytest.mark.slow
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

    @pytest.mark.slow
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


@pytest.mark.slow
def test_a_failure_while_another_thread_claims(monkeypatch):
    """The map ends, although that thread finds units left and then none that it may have."""
    failed, claim = threading.Event(), Job.claim

    def claim_late(job, size):
        if job.claimed > 5:
            failed.wait(5)
            time.sleep(0.05)  # until the failure counts
        return claim(job, size)

    def body(array):
        if array[0] == 5:
            time.sleep(0.05)  # until the other thread is at its claim
            failed.set()
            raise ValueError("element 5")
        return array

    monkeypatch.setattr(Job, "claim", claim_late)
    rows = sq.split_to_sequence(np.arange(100))
    done = []

    def run():
        with pytest.raises(ValueError, match="element 5"):
            sq.sequence_map(body, rows, max_workers=2, chunksize=1)
        done.append(True)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(20)
    assert done
