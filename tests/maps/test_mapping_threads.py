"""The threads of maps: they wait for the next one, keep nothing of it, and there may be none."""

import _thread
import ctypes
import gc
import os
import queue
import subprocess
import sys
import threading
import time
import weakref
from concurrent.futures import Future
from ctypes.util import find_library
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from seqcore.core.system import set_float_environment
from support.bodies import FailAt, numbers, slowly, within
from support.strategies import assert_holds

import seqcore as sq
from seqcore._maps import helpers, threads
from seqcore._maps.job import Job
from seqcore._maps.outputs import Outputs
from seqcore._maps.pace import Pace
from seqcore._maps.threads import Team
from seqcore._maps.work import ElementWork

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


def map_threads():
    return {thread for thread in threading.enumerate() if thread.name == "seqcore-map"}


def waiting_threads():
    """The threads of maps, when all of them wait: one that was asked in vain may have to find that out."""
    until = time.monotonic() + 20
    while (waiting := {one.thread for one in helpers._waiting}) != map_threads():
        assert time.monotonic() < until
        time.sleep(1e-3)
    return waiting


@pytest.fixture
def no_helpers():
    helpers.end_waiting()
    yield
    helpers.end_waiting()


@pytest.mark.usefixtures("no_helpers")
class TestTheyWait:
    @pytest.mark.parametrize("options", [ON_THREADS, {"max_workers": 2}], ids=str)
    def test_for_the_next_map(self, options):
        seen, here = set(), threading.current_thread()
        for _ in range(20):
            sq.sequence_map(
                lambda a: seen.add(threading.current_thread()) or slowly(a), numbers(9), **options
            )
        assert seen - {here} <= waiting_threads()
        assert len(waiting_threads()) <= 4  # some may have come too late
        assert here in seen or "chunksize" in options

    def test_after_a_map_that_fails(self):
        for _ in range(5):
            with pytest.raises(KeyError):
                sq.sequence_map(FailAt({5: KeyError(5)}), numbers(9), **ON_THREADS)
        assert 2 <= len(waiting_threads()) <= 4

    def test_after_maps_within_maps(self):
        def at_depth(depth, a):
            if depth:
                sq.sequence_map(lambda b: at_depth(depth - 1, b), numbers(2), **ON_THREADS)
            return a

        result = within(60, lambda: sq.sequence_map(lambda a: at_depth(5, a), numbers(3), **ON_THREADS))
        assert len(result) == 3
        assert waiting_threads()

    def test_with_a_chunksize_the_caller_runs_nothing(self):
        assert threading.current_thread() not in threads_of_a_map(5)

    def test_not_for_long(self, monkeypatch):
        monkeypatch.setattr(helpers, "IDLE", 0.01)
        used = threads_of_a_map(3)
        for thread in used:
            thread.join(20)
        assert not any(thread.is_alive() for thread in used)
        assert not helpers._waiting

    def test_a_map_may_take_one_that_is_about_to_end(self, monkeypatch):
        monkeypatch.setattr(helpers, "IDLE", 1e-4)
        for _ in range(300):
            assert len(sq.sequence_map(np.copy, numbers(3), **ON_THREADS)) == 3

    def test_until_they_are_told_to_end(self):
        used = threads_of_a_map(3)
        helpers.end_waiting()
        assert not any(thread.is_alive() for thread in used)

    def test_several_threads_ask_at_once(self):
        results = []

        def run():
            for _ in range(50):
                results.append(sq.sequence_map(np.negative, numbers(4), **ON_THREADS))

        callers = [threading.Thread(target=run) for _ in range(4)]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join(60)
        assert len(results) == 200
        for result in results:
            assert_holds(result, [np.array([-i]) for i in range(4)])
        assert len(waiting_threads()) <= 16


@pytest.mark.usefixtures("no_helpers")
class TestTasks:
    def test_a_task_that_is_withdrawn_does_not_run(self):
        for _ in range(100):
            ran = []
            task, other = (helpers.Task(partial(ran.append, k)) for k in (1, 2))
            helpers.ask(task)
            task.withdraw()
            helpers.ask(other)
            other.wait()
            task.wait()
            assert sorted(ran) == [1] * task.began + [2]

    def test_a_helper_that_has_ended_is_not_asked(self, monkeypatch):
        monkeypatch.setattr(helpers, "IDLE", 1e-3)
        first = helpers.Task(lambda: None)
        helpers.ask(first)
        first.wait()
        first.helper.thread.join(20)
        helpers._waiting.append(first.helper)  # as if it had had no memory to leave
        second = helpers.Task(lambda: None)
        helpers.ask(second)
        second.wait()
        assert second.began
        assert second.helper is not first.helper

    def test_a_helper_whose_task_is_withdrawn_is_asked_again(self):
        first = helpers.Task(lambda: None)
        helpers.ask(first)
        first.wait()
        (helper,) = helpers._waiting
        for _ in range(100):
            task = helpers.Task(lambda: None)
            helpers.ask(task)
            task.withdraw()
            task.wait()
            assert helpers._waiting == [helper]

    def test_a_task_that_runs_can_not_be_withdrawn(self):
        began, goes_on = threading.Event(), threading.Event()
        task = helpers.Task(lambda: began.set() or goes_on.wait(20))
        helpers.ask(task)
        assert began.wait(20)
        task.withdraw()
        assert task.began
        assert task.lasts
        goes_on.set()
        task.wait()
        assert not task.lasts

    def test_a_withdrawal_that_is_interrupted(self, monkeypatch):
        """Ctrl-C may come after the task was taken, and before its helper can know that."""
        monkeypatch.setattr(helpers, "LOST", 0.02)
        first, task = helpers.Task(lambda: None), helpers.Task(lambda: None)
        helpers.ask(first)
        first.wait()
        assert task.take()
        helpers.ask(task)
        task.helper.thread.join(20)
        assert not helpers._waiting
        helpers.end_waiting()

    @pytest.mark.parametrize("options", [ON_THREADS, {"max_workers": 2}], ids=str)
    def test_a_helper_that_has_no_memory_to_begin(self, monkeypatch, options):
        def refuse(*args):
            raise MemoryError

        monkeypatch.setattr(helpers, "set_float_environment", refuse)
        result = within(20, lambda: sq.sequence_map(slowly, numbers(9), **options))
        assert_holds(result, [np.array([i]) for i in range(9)])

    def test_a_task_that_fails_ends_and_its_helper_waits(self):
        def fail():
            raise MemoryError

        task = helpers.Task(fail)
        helpers.ask(task)
        task.wait()
        assert len(helpers._waiting) == 1


@pytest.mark.skipif(
    sys.platform != "linux" or os.uname().machine not in ("x86_64", "aarch64"),
    reason="names the file of the C library, and how to round",
)
@pytest.mark.usefixtures("no_helpers")
def test_helpers_round_like_the_caller():
    """Also those that were started before it chose how to round."""
    library = ctypes.CDLL(find_library("m"))
    threads_of_a_map(2)
    upward = {"x86_64": 0x800, "aarch64": 0x400000}[os.uname().machine]
    seq = sq.split_to_sequence(np.arange(1.0, 41.0))

    def run():
        return [one.hex() for one in sq.sequence_map(lambda a: a / np.float64(7), seq, **ON_THREADS).values()]

    before, nearest = library.fegetround(), run()
    assert library.fesetround(upward) == 0
    try:
        up, alone = run(), [(one / np.float64(7)).item().hex() for one in seq]
    finally:
        library.fesetround(before)
    assert up == alone != nearest
    assert run() == nearest


def test_an_environment_of_another_size_is_refused():
    with pytest.raises(ValueError, match="got 3"):
        set_float_environment(b"abc")


@pytest.mark.skipif(helpers.this_cpu() < 0, reason="only Linux tells the CPU of a thread")
@pytest.mark.usefixtures("no_helpers")
class TestCpus:
    @pytest.mark.parametrize("k", [0, -1])
    def test_helpers_have_those_of_the_caller(self, k):
        """Also if it may use fewer than when they were started."""
        threads_of_a_map(2)
        before, seen = os.sched_getaffinity(0), []
        one = sorted(before)[k]

        def body(a):
            seen.append(os.sched_getaffinity(0))
            return a

        try:
            os.sched_setaffinity(0, {one})
            sq.sequence_map(body, numbers(9), **ON_THREADS)
            assert seen == [{one}] * 9
        finally:
            os.sched_setaffinity(0, before)
        sq.sequence_map(body, numbers(9), **ON_THREADS)
        assert seen[9:] == [before] * 9
        assert os.sched_getaffinity(0) == before

    def test_a_system_that_refuses(self, monkeypatch):
        def refuse(*args):
            raise PermissionError(1, "Operation not permitted")

        threads_of_a_map(2)
        for name in ("sched_setaffinity", "sched_getaffinity"):
            monkeypatch.setattr(os, name, refuse)
            assert len(sq.sequence_map(np.copy, numbers(9), **ON_THREADS)) == 9


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


@pytest.mark.usefixtures("no_helpers")
class TestNone:
    """Where there are no threads to be had, the caller runs it all."""

    @pytest.fixture(params=[{"chunksize": 1}, {}], ids=str)
    def options(self, request):
        return {"max_workers": 4, **request.param}

    @pytest.mark.mostly_slow(7)
    @pytest.mark.parametrize("allowed", [0, 1, 2])
    @pytest.mark.parametrize("error", [RuntimeError("can't start new thread"), MemoryError()], ids=repr)
    def test_system_has_no_more(self, monkeypatch, allowed, error, options):
        start, started, lock = threading.Thread.start, [], threading.Lock()

        def refusing(thread):
            with lock:
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
        assert waiting_threads() == {*started}

    @pytest.mark.mostly_slow(5)
    @pytest.mark.parametrize("error", [RuntimeError("can't start new thread"), MemoryError()], ids=repr)
    def test_not_even_the_one_that_starts_others(self, monkeypatch, error, options):
        def refusing(*args):
            raise error

        monkeypatch.setattr(helpers, "start_new_thread", refusing)
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

        monkeypatch.setattr(threads, "queue", SimpleNamespace(SimpleQueue=Short, Empty=queue.Empty))
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
import os, threading, time, numpy as np, seqcore as sq
from seqcore._maps import helpers
def run():
    body = lambda a: time.sleep(0.001) or -a
    result = sq.sequence_map(body, [[i] for i in range(50)], max_workers=2, chunksize=1)
    return [a[0] for a in result] == [-i for i in range(50)]
print(run(), threading.active_count())
while len(helpers._waiting) < 2:
    time.sleep(0.001)    # one may have been asked in vain, and has to find that out
if os.fork() == 0:
    assert threading.active_count() == 1
    os._exit(0 if run() else 1)
print(os.wait()[1], threading.active_count(), run())
"""
        environment = "import os; os.environ['OPENBLAS_NUM_THREADS'] = '1'\n"
        assert run(environment + script) == "True 3\n0 1 True\n"

    @pytest.mark.slow
    @pytest.mark.parametrize("options", ["", ", chunksize=1"])
    @pytest.mark.parametrize("leaves", ["sys.exit()", "pass", "1 / 0"])
    def test_a_child_that_goes_on_with_the_map(self, options, leaves):
        """It has no other threads, and ends all the same."""
        script = f"""
import os, sys, threading, time, warnings, numpy as np, seqcore as sq
np.ma
warnings.simplefilter("ignore")
parent, here = os.getpid(), threading.current_thread()
forked = []
def body(a):
    time.sleep(0.001)
    if a[0] > 5 and not forked and ({bool(options)} or threading.current_thread() is here):
        forked.append(1)
        if os.fork() == 0:
            {leaves}
    return a
try:
    result = sq.sequence_map(body, [[i] for i in range(40)], max_workers=2{options})
except BaseException:
    result = []
if os.getpid() != parent:
    os._exit(0)
print(os.wait()[1], len(result))
"""
        assert run(script) == "0 40\n"

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


class TestDivision:
    """At the end of a map a worker takes half of what another one has not begun."""

    @pytest.fixture
    def team(self):
        work = ElementWork(np.copy, (sq.split_to_sequence(np.arange(100)),), 100)
        return Team(Job(work, Outputs(True, None, work.name), None, None), Pace(1e-3, 2), 1)

    @pytest.mark.parametrize(
        ("worker", "other", "seconds", "divides", "waits"),
        [
            (1, 0, 9.0, True, True),
            (0, 1, 9.0, True, False),
            (1, 0, 1e-4, False, False),
            (1, 0, -1.0, False, False),
        ],
    )
    def test_of_a_long_chunk(self, team, worker, other, seconds, divides, waits):
        team.running[other], team.ends[other] = 1, time.perf_counter() + seconds
        assert team._divide(worker) is waits
        assert team.bounds[other].allows(50) is not divides
        assert team.bounds[worker].allows(50)

    def test_only_by_a_worker_that_is_wanted(self, team):
        team.running[0], team.ends[0], team.pace.width = 1, time.perf_counter() + 9.0, 1
        assert not team._divide(1)
        assert team.bounds[0].allows(50)

    def test_of_nothing(self, team):
        assert not team._divide(0)
        assert not team._divide(1)

    @pytest.mark.parametrize("slow", [range(32), range(32, 64), range(0, 64, 7), range(64)], ids=str)
    def test_changes_no_result(self, slow):
        ran = []

        def body(a):
            ran.append(int(a))
            time.sleep(1e-3 if int(a) in slow else 1e-4)
            return a + 1

        result = sq.sequence_map(body, sq.split_to_sequence(np.arange(64), keepdims=0), max_workers=3)
        assert [*map(int, result)] == [*range(1, 65)]
        assert sorted(ran) == [*range(64)]


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
