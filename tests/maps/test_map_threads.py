"""Maps on threads: a pool for each map, forks, the end of the process, and no threads at all."""

import contextlib
import contextvars
import gc
import os
import sys
import threading
import time
import weakref

import numpy as np
import pytest
from support.bodies import COLOR, FailAt, Refusal, numbers, slowly, within
from support.processes import run_python
from support.strategies import assert_holds

import seqcore as sq
from seqcore._maps import threads

pytestmark = pytest.mark.thread_unsafe
ON_THREADS = {"max_workers": 2, "chunksize": 1}
GIL = getattr(sys, "_is_gil_enabled", lambda: True)()
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")


def run(script, seconds=60):
    """Run a script in a process of its own; return what it prints."""
    outcome = run_python("-W", "error", "-c", script, timeout=seconds)
    assert (outcome.returncode, outcome.stderr) == (0, "")
    return outcome.stdout


class TestWhere:
    @pytest.mark.parametrize("count", [2, 5])
    def test_with_a_chunksize_that_many_at_once_and_none_in_the_caller(self, count):
        barrier, seen = threading.Barrier(count), set()

        def meet(a):
            barrier.wait(20)
            seen.add(threading.get_ident())
            return a

        within(30, lambda: sq.sequence_map(meet, numbers(count), max_workers=count, chunksize=1))
        assert len(seen) == count
        assert threading.get_ident() not in seen

    @pytest.mark.parametrize("options", [ON_THREADS, {"max_workers": 2}])
    @pytest.mark.parametrize("fails", [False, True])
    def test_no_thread_is_left(self, options, fails):
        before = threading.active_count()
        with contextlib.suppress(KeyError):
            sq.sequence_map(FailAt({30: KeyError()} if fails else {}, {40: 0.02}), numbers(50), **options)
        assert threading.active_count() == before

    @pytest.mark.parametrize("options", [{}, ON_THREADS, {"max_workers": 2}])
    def test_context_variables_and_error_state_of_the_caller_hold(self, options):
        token = COLOR.set("green")
        try:
            result = sq.sequence_map(lambda a: np.array(COLOR.get(), object), numbers(100), **options)
        finally:
            COLOR.reset(token)
        assert {word.item() for word in result} == {"green"}
        with np.errstate(divide="ignore"):
            assert np.isinf(sq.sequence_map(lambda a: 1 / a, numbers(100), **options)[0])
        with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
            sq.sequence_map(lambda a: 1 / a, numbers(100), **options)

    def test_maps_nested_three_deep(self):
        def at_depth(depth, a):
            if depth == 0:
                return a
            results = sq.sequence_map(lambda b: at_depth(depth - 1, b + a), numbers(4), **ON_THREADS)
            return sq.concat_from_sequence(results, 0)

        result = within(60, lambda: at_depth(3, np.array([0])))
        assert result.tolist() == [i + j + k for i in range(4) for j in range(4) for k in range(4)]


class TestChoice:
    """Threads are tried twice, and the map goes on with them if they were faster than the calling thread."""

    def test_elements_that_wait_run_at_once(self):
        seen = set()
        body = lambda a: seen.add(threading.get_ident()) or time.sleep(2e-3) or a  # noqa: E731
        assert_holds(sq.sequence_map(body, numbers(60), max_workers=4), [*numbers(60)])
        assert len(seen) > 2


class TestTheyKeepNothing:
    @pytest.mark.parametrize("fails", [False, True])
    def test_of_inputs_body_and_results(self, fails):
        for _ in range(10):
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
        if not GIL:
            gc.collect()  # there functions, and what they close over, may wait for that
        return [weakref.ref(one) for one in (array, whole, body, result[0])]

    @pytest.mark.parametrize("options", [{}, ON_THREADS, {"output_dtypes": "float64"}])
    def test_an_error_that_is_let_go_keeps_nothing(self, options):
        self.check_let_go(0, options)

    def test_an_error_behind_the_one_that_is_raised_keeps_nothing(self):
        """Its thread ends after the map has failed, and nobody takes its result."""
        self.check_let_go(0.05, ON_THREADS)

    def check_let_go(self, seconds, options):
        """Without a search for cycles: what an error refers to does not refer to it. The second is late."""

        def fail(tensor):
            time.sleep(tensor[0] * seconds)
            raise KeyError(3)

        array = np.arange(4.0)
        alive = weakref.ref(array)
        seq = sq.TensorSequence([array[:1], array[1:]])
        del array
        gc.disable()
        try:
            with contextlib.suppress(KeyError):
                sq.sequence_map(fail, seq, **options)
            seq.clear()
            assert alive() is None
        finally:
            gc.enable()

    def test_of_context_variables(self):
        class Thing:
            pass

        variable = contextvars.ContextVar("variable")

        def run():
            thing = Thing()
            variable.set(thing)
            sq.sequence_map(np.copy, numbers(9), **ON_THREADS)
            return weakref.ref(thing)

        alive = contextvars.copy_context().run(run)
        gc.collect()
        assert alive() is None


class TestNone:
    """Where there are no threads to be had, or no memory, the map ends, with its result or an error."""

    @pytest.fixture(params=[{"chunksize": 1}, {}])
    def options(self, request):
        return {"max_workers": 4, **request.param}

    @pytest.mark.parametrize("allowed", [0, 1, 2])
    @pytest.mark.parametrize("error", [RuntimeError("can't start new thread"), MemoryError()])
    def test_system_has_no_more(self, monkeypatch, allowed, error, options):
        start, started, lock, ran = threading.Thread.start, [], threading.Lock(), []

        def refusing(thread):
            with lock:
                if len(started) >= allowed:
                    raise error
                started.append(thread)
            start(thread)

        def body(a):
            ran.append((int(a[0]), threading.get_ident()))
            return slowly(a)

        caller = []

        def run():
            caller.append(threading.current_thread())
            monkeypatch.setattr(threading.Thread, "start", refusing)
            return sq.sequence_map(body, numbers(50), **options)

        assert_holds(within(30, run), [*numbers(50)])
        assert sorted(number for number, _ in ran) == [*range(50)]
        assert len({ident for _, ident in ran}) <= allowed + 1

    @pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
    @pytest.mark.parametrize("at", [0, 7, 49])
    @pytest.mark.parametrize("where", ["before", "after"])
    def test_a_thread_without_memory_for_its_result(self, monkeypatch, options, at, where):
        run_call, seen = threads._Call.run, []

        def fail(call, process):
            seen.append(1)
            if len(seen) == at + 1:
                if where == "before":
                    raise MemoryError
                monkeypatch.setattr(call, "done", lambda result: 1 / 0)
            run_call(call, process)

        monkeypatch.setattr(threads._Pool, "patience", 0.05)
        monkeypatch.setattr(threads._Call, "run", fail)
        error = None
        try:
            result = within(30, lambda: sq.sequence_map(slowly, numbers(50), **options))
        except MemoryError as caught:
            error = caught
        if len(seen) <= at:
            assert error is None
            assert_holds(result, [*numbers(50)])
        else:
            assert "lack of memory" in str(error)

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

    def test_at_the_end_of_the_threads(self):
        """When Python joins its threads, no new ones start any more."""
        script = """
import threading, numpy as np, seqcore as sq
def late():
    threading.main_thread().join()
    import time; time.sleep(0.2)
    result = sq.sequence_map(np.negative, [[i] for i in range(50)], max_workers=2, chunksize=1)
    print([a[0] for a in result] == [-i for i in range(50)])
threading.Thread(target=late).start()
"""
        assert run(script) == "True\n"


FORKING = """
import os, signal, sys, threading, time, warnings, numpy as np, seqcore as sq
np.ma       # else a thread may be importing it when another forks: the child would wait for that for ever
warnings.simplefilter("ignore")     # Python says that it may deadlock, which a map doesn't
def run(body, **options):
    result = sq.sequence_map(body, [[i] for i in range(40)], **{"max_workers": 2, "chunksize": 1} | options)
    return [a[0] for a in result] == [*range(40)]
"""


@needs_fork
class TestFork:
    def test_a_child_maps_after_its_parent_did(self):
        script = """
print(run(np.copy), threading.active_count())
if os.fork() == 0:
    signal.alarm(30)
    os._exit(0 if threading.active_count() == 1 and run(np.copy) else 1)
print(os.wait()[1], run(np.copy))
"""
        assert run(FORKING + script) == "True 1\n0 True\n"

    def test_a_child_of_a_body_maps(self):
        script = """
def body(a):
    if a[0] == 3:
        if os.fork() == 0:
            signal.alarm(30)
            os._exit(0 if run(np.copy) else 1)
        print(os.wait()[1], flush=True)
    return a
print(run(body), run(body))
"""
        assert run(FORKING + script) == "0\n0\nTrue True\n"

    @pytest.mark.parametrize(
        ("leaves", "status"), [("sys.exit()", 0), ("sys.exit(3)", 3), ("pass", 0), ("1 / 0", 1)]
    )
    def test_a_child_that_returns_from_a_body_in_a_thread_ends(self, leaves, status):
        """It has neither the calling thread nor the other ones."""
        script = f"""
def body(a):
    if a[0] == 7 and os.fork() == 0:
        signal.alarm(30)
        {leaves}
    return a
print(run(body))
print(os.waitstatus_to_exitcode(os.wait()[1]))
"""
        assert run(FORKING + script) == f"True\n{status}\n"

    @pytest.mark.parametrize("leaves", ["sys.exit()", "pass", "1 / 0"])
    def test_a_child_that_returns_from_a_body_in_the_calling_thread_goes_on(self, leaves):
        script = f"""
parent, forked = os.getpid(), []
def body(a):
    if threading.current_thread() is threading.main_thread() and a[0] == 1 and not forked:
        forked.append(1)
        if os.fork() == 0:
            signal.alarm(30)
            {leaves}
    time.sleep(1e-3)
    return a
try:
    ended = run(body, chunksize=None)
except BaseException as error:
    ended = type(error).__name__
if os.getpid() != parent:
    os._exit(ended not in (True, "SystemExit", "ZeroDivisionError"))
print(ended, os.wait()[1])
"""
        assert run(FORKING + script) == "True 0\n"

    def test_a_child_that_returns_from_progress_gets_an_error(self):
        """The threads that it would wait for are in the parent."""
        script = """
parent, forked = os.getpid(), []
def progress(done, total):
    if not forked:
        forked.append(1)
        if os.fork() == 0:
            signal.alarm(30)
try:
    ended = run(lambda a: time.sleep(1e-2) or a, progress=progress)
except RuntimeError as error:
    ended = str(error)
if os.getpid() != parent:
    os._exit("the process was forked" not in str(ended))
print(ended, os.wait()[1])
"""
        assert run(FORKING + script) == "True 0\n"


def test_a_failure_waits_for_the_elements_that_run():
    ended = []

    def body(a):
        if a[0] == 1:
            raise Refusal
        time.sleep(0.05)
        ended.append(int(a[0]))
        return a

    before = threading.active_count()
    with pytest.raises(Refusal):
        sq.sequence_map(body, numbers(50), max_workers=3, chunksize=1)
    assert 0 in ended
    assert threading.active_count() == before


@pytest.mark.skipif(os.name != "posix", reason="needs signals")
@pytest.mark.parametrize("options", ["max_workers=2", "max_workers=2, chunksize=1"])
def test_ctrl_c_while_a_body_never_returns(options):
    """The call returns. The end of the process waits for the body, as with every pool of the library."""
    script = f"""
import os, signal, threading, time, numpy as np, seqcore as sq
signal.signal(signal.SIGINT, signal.default_int_handler)
def body(a):
    if threading.current_thread() is not threading.main_thread():
        stuck.set()
        while True: time.sleep(0.01)
    time.sleep(1e-3)
    return a
def press():
    stuck.wait()
    time.sleep(0.1)
    os.kill(os.getpid(), signal.SIGINT)
stuck = threading.Event()
threading.Thread(target=press, daemon=True).start()
try:
    sq.sequence_map(body, [[i] for i in range(1000)], {options})
except KeyboardInterrupt:
    print("out", flush=True)
os._exit(0)
"""
    assert run(script) == "out\n"
