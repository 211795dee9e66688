"""sequence_map on executors: threads, processes, and any other of concurrent.futures' kind."""

import json
import multiprocessing
import os
import queue
import re
import subprocess
import sys
import threading
from concurrent.futures import CancelledError, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial

import numpy as np
import pytest
from support import bodies
from support.bodies import FailAt, Inline, Logged, Recording, Refusal, Unpicklable, numbers, within
from support.strategies import NAMES, assert_holds, filled

import seqcore as sq
from seqcore._maps import executors, payloads

pytestmark = pytest.mark.mostly_slow(7)

SLOW_START = {0: 0.001}  # so that the chunks stay small
CHUNKSIZES = pytest.mark.parametrize("chunksize", [None, 1, 7, 1000])


@pytest.fixture(scope="module")
def processes():
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield pool


@pytest.fixture(scope="module")
def threads():
    with ThreadPoolExecutor(2) as pool:
        yield pool


@pytest.fixture(params=["inline", "threads", "processes"])
def executor(request):
    return Inline() if request.param == "inline" else request.getfixturevalue(request.param)


def usable(executor):
    return executor.submit(abs, -3).result(20) == 3


class TestResults:
    @CHUNKSIZES
    @pytest.mark.parametrize("count", [1, 2, 7, 300])
    def test_order(self, executor, count, chunksize):
        result = sq.sequence_map(bodies.double, numbers(count), executor=executor, chunksize=chunksize)
        assert_holds(result, [np.array([2 * i]) for i in range(count)])
        assert usable(executor)

    @CHUNKSIZES
    def test_order_when_the_first_are_slow(self, executor, chunksize):
        result = sq.sequence_map(bodies.late_first, numbers(40), executor=executor, chunksize=chunksize)
        assert_holds(result, [*numbers(40)])

    @pytest.mark.parametrize("name", NAMES)
    def test_each_type(self, executor, name):
        tensors = [filled(name, shape, i) for i, shape in enumerate([(2, 3), (), (0, 2), (5,)])]
        result = sq.sequence_map(np.transpose, tensors, executor=executor, chunksize=2)
        assert_holds(result, [a.T for a in tensors])

    @CHUNKSIZES
    def test_several_outputs(self, executor, chunksize):
        results = sq.sequence_map(bodies.three, numbers(90), executor=executor, chunksize=chunksize)
        assert [result.dtype for result in results] == [np.int64, np.float64, object]
        assert_holds(results[0], [*numbers(90)])
        assert_holds(results[1], [np.array([i + 0.5]) for i in range(90)])
        assert [words.item() for words in results[2]] == [f"[{i}]" for i in range(90)]

    @CHUNKSIZES
    def test_sequences_are_indexed_and_arrays_go_whole(self, executor, chunksize):
        more = [np.arange(90), numbers(90, list), np.array(7), numbers(90, tuple)]
        result = sq.sequence_map(bodies.total, numbers(90), *more, executor=executor, chunksize=chunksize)
        assert_holds(result, [np.arange(90) + 3 * i + 7 for i in range(90)])

    @pytest.mark.parametrize("dtype", [None, "string"])
    def test_strings(self, executor, dtype):
        words = sq.split_to_sequence(np.array([f"wörd {i}" for i in range(99)]), 2)
        result = sq.sequence_map(bodies.loud, words, executor=executor, chunksize=5, output_dtypes=dtype)
        assert result.dtype == object
        assert [word for pair in result for word in pair] == [f"WÖRD {i}" for i in range(99)]

    def test_empty_input_is_not_sent(self):
        executor, types = Recording(), ("int8", "bool", str)
        results = sq.sequence_map(bodies.three, sq.sequence_empty(), executor=executor, output_dtypes=types)
        assert [(len(result), result.dtype) for result in results] == [(0, np.int8), (0, bool), (0, object)]
        assert executor.sizes == []

    def test_fewer_workers_than_chunks(self):
        with ThreadPoolExecutor(1) as executor:
            busy = executor.submit(threading.Event().wait, 0.05)
            result = sq.sequence_map(bodies.double, numbers(200, list), executor=executor, chunksize=1)
            assert busy.done()
        assert_holds(result, [np.array([2 * i]) for i in range(200)])


class TestWhereItRuns:
    @CHUNKSIZES
    @pytest.mark.parametrize("options", [{}, {"output_dtypes": "int64"}, {"progress": lambda *call: None}])
    def test_never_in_the_caller(self, processes, chunksize, options):
        result = sq.sequence_map(
            bodies.process, numbers(50), executor=processes, chunksize=chunksize, **options
        )
        assert os.getpid() not in {int(pid) for pid in result}

    def test_body_that_an_initializer_has_prepared(self):
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(1, context, bodies.load_model, (3,)) as pool:
            result = sq.sequence_map(bodies.by_model, numbers(30), executor=pool)
        assert_holds(result, [np.array([3 * i]) for i in range(30)])
        assert bodies.MODEL == []

    @pytest.mark.parametrize(("pool", "seen"), [("threads", "green"), ("processes", "none")])
    def test_context_variables_hold_in_threads_alone(self, request, pool, seen):
        pool = request.getfixturevalue(pool)
        token = bodies.COLOUR.set("green")
        try:
            result = sq.sequence_map(bodies.colour, numbers(100), executor=pool, chunksize=3)
        finally:
            bodies.COLOUR.reset(token)
        assert {word.item() for word in result} == {seen}

    def test_errstate_holds_in_threads(self, threads):
        with np.errstate(divide="ignore"):
            assert np.isinf(sq.sequence_map(bodies.one_over, numbers(9), executor=threads, chunksize=2)[0])
        with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
            sq.sequence_map(bodies.one_over, numbers(9), executor=threads, chunksize=2)

    @CHUNKSIZES
    def test_maps_on_threads_inside(self, executor, chunksize):
        map_all = partial(sq.sequence_map, bodies.mapped, numbers(15), executor=executor, chunksize=chunksize)
        result = within(20, map_all)
        assert_holds(result, [np.arange(7) + i for i in range(15)])

    def test_map_inside_on_the_same_pool(self):
        with ThreadPoolExecutor(4) as pool:

            def body(a):
                return sum(sq.sequence_map(lambda b: b + a, numbers(5), executor=pool, chunksize=1))

            result = within(20, lambda: sq.sequence_map(body, numbers(3), executor=pool, chunksize=1))
        assert_holds(result, [np.array([10 + 5 * i]) for i in range(3)])

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
    def test_forked_child_maps_on_threads_after_its_parent_did(self):
        script = """
import os, signal, seqcore as sq

def run():
    result = sq.sequence_map(lambda a: a + 1, [[i] for i in range(99)], max_workers=2, chunksize=3)
    return [a[0] for a in result] == [*range(1, 100)]

assert run()
child = os.fork()
if child == 0:
    signal.alarm(20)
    os._exit(0 if run() else 1)
assert os.waitpid(child, 0)[1] == 0 and run()
"""
        subprocess.run([sys.executable, "-c", script], check=True, timeout=300)


class TestChunks:
    def sizes(self, body, count, workers, monkeypatch, **options):
        """How many elements each chunk had, and how many were on their way at once."""

        class Slow(Executor):
            """Runs what it has when the map waits for it."""

            _max_workers = workers

            def __init__(self):
                self.sizes, self.calls, self.most = [], [], 0

            def submit(self, function, parcel, *args):
                future = Future()
                self.sizes.append(parcel.work.n)
                self.calls.append((future, function, parcel, args))
                self.most = max(self.most, len(self.calls))
                return future

        executor = Slow()

        class Waking(queue.SimpleQueue):
            def get(self, timeout=None):
                future, function, parcel, args = executor.calls.pop(0)
                future.set_result(function(parcel, *args))
                return super().get()

        monkeypatch.setattr(executors.queue, "SimpleQueue", Waking)
        result = sq.sequence_map(body, numbers(count), executor=executor, **options)
        assert_holds(result, [*numbers(count)])
        assert sum(executor.sizes) == count
        return executor.sizes, executor.most

    @pytest.mark.parametrize("workers", [1, 2, 5])
    def test_begin_small_and_grow(self, workers, monkeypatch):
        sizes, most = self.sizes(np.copy, 5000, workers, monkeypatch)
        assert {*sizes[:workers]} == {1}
        assert max(sizes) >= 64
        assert len(sizes) < 60 * workers
        assert 2 * workers <= most <= 3 * workers

    def test_slow_elements_stay_alone(self, monkeypatch):
        def body(a):
            clock.append(clock[-1] + 0.03)
            return a

        clock = [0.0]
        monkeypatch.setattr(payloads.time, "perf_counter", lambda: clock[-1])
        sizes, _ = self.sizes(body, 60, 2, monkeypatch)
        assert {*sizes} == {1}

    def test_as_given(self, monkeypatch):
        sizes, most = self.sizes(np.copy, 100, 2, monkeypatch, chunksize=30)
        assert sizes == [30, 30, 30, 10]
        assert most == 4


class TestTypesThatAWorkerFinds:
    """A chunk settles its types before those of the map are known."""

    @CHUNKSIZES
    @pytest.mark.parametrize(
        ("first", "later"),
        [
            (1.5, 1),
            (np.float64(1.5), 1),
            (2.0, [3, 4]),
            ((1.5, "a"), (1, "b")),
            ((np.float64(2), 1.5), (1, 2)),
        ],
        ids=str,
    )
    def test_python_values_adapt_to_the_first(self, executor, first, later, chunksize):
        body = FailAt({0: first} | dict.fromkeys(range(1, 20), later))
        expected = sq.sequence_map(body, numbers(20))
        assert sq.sequence_map(body, numbers(20), executor=executor, chunksize=chunksize) == expected

    @pytest.mark.mostly_slow(5)
    @CHUNKSIZES
    @pytest.mark.parametrize(
        "other",
        [np.array([0.5]), 0.5, (), (np.array([1]),), (np.array([1]),) * 2, None, np.zeros(1, "M8[s]")],
    )
    @pytest.mark.parametrize("at", [7, 8, 14])
    def test_other_types_later(self, executor, other, at, chunksize):
        body = FailAt(dict.fromkeys(range(at, 20), other if other is not None else Refusal))
        errors = []
        for options in ({}, {"executor": executor, "chunksize": chunksize}):
            with pytest.raises(TypeError, match=rf"element {at} of the map") as caught:
                sq.sequence_map(body, numbers(20), **options)
            errors.append(str(caught.value))
        assert errors[0] == errors[1]


class TestWhatTravels:
    """For each chunk, one buffer with its part of each source, and one with a table of the pieces."""

    def buffers(self, body, *sequences, chunksize):
        executor = Recording()
        sq.sequence_map(body, *sequences, executor=executor, chunksize=chunksize)
        assert max(pickled for pickled, _ in executor.sizes) < 2000
        return [sorted(sizes, reverse=True) for _, sizes in executor.sizes]

    @pytest.mark.parametrize("axis", [0, 1])
    @pytest.mark.parametrize("chunksize", [1, 100, 300])
    def test_part_of_a_source(self, axis, chunksize):
        pieces = sq.split_to_sequence(np.zeros((900, 900)), axis=axis)
        buffers = self.buffers(np.copy, pieces, chunksize=chunksize)
        assert len(buffers) == 900 // chunksize
        for data, *table in buffers:
            assert data == chunksize * 7200
            assert sum(table) <= chunksize * 32

    def test_two_sequences_of_two_sources(self):
        left = sq.split_to_sequence(np.zeros((40, 100)))
        right = sq.split_to_sequence(np.zeros((40, 100), np.float32))
        for data, more, *tables in self.buffers(np.add, left, right, chunksize=20):
            assert (data, more) == (20 * 800, 20 * 400)
            assert sum(tables) <= 40 * 32

    def test_sources_that_take_turns(self):
        left, right = (sq.split_to_sequence(np.zeros((40, 100))) for _ in range(2))
        turns = sq.TensorSequence([a for pair in zip(left, right, strict=True) for a in pair])
        for buffers in self.buffers(np.copy, turns, chunksize=20):
            assert len(buffers) <= 3
            assert 20 * 800 <= sum(buffers) <= 20 * (800 + 32)


def failures_of(at):
    return {"raise": Refusal(at), "type": np.array([0.5]), "number": (np.array([at]),) * 2}


class TestFailures:
    @CHUNKSIZES
    @pytest.mark.parametrize("at", [0, 1, 39])
    def test_exception_with_a_note(self, executor, at, chunksize):
        body = FailAt({at: Refusal("nope")}, SLOW_START)
        with pytest.raises(Refusal, match="nope") as caught:
            sq.sequence_map(body, numbers(40), executor=executor, chunksize=chunksize)
        assert len([note for note in caught.value.__notes__ if re.search(rf"element {at}\b", note)]) == 1
        assert usable(executor)

    def test_remote_traceback_is_a_note(self, processes):
        with pytest.raises(Refusal) as caught:
            sq.sequence_map(FailAt({3: Refusal()}), numbers(9), executor=processes, chunksize=2)
        (note,) = [note for note in caught.value.__notes__ if "Traceback" in note]
        assert re.search(r"bodies\.py.*\n.*raise failure", note)

    @pytest.mark.mostly_slow(5)
    @CHUNKSIZES
    @pytest.mark.parametrize("later", ["raise", "type", "number"])
    @pytest.mark.parametrize("first", ["raise", "type", "number"])
    def test_first_failing_element_decides(self, executor, first, later, chunksize):
        failures = {at: failures_of(at)[later] for at in (6, 20, 39)}
        failures[5] = failures_of(5)[first]
        expected = Refusal if first == "raise" else TypeError
        body = FailAt(failures, {**SLOW_START, 5: 0.02})
        with pytest.raises(expected, match=r"element 5\b"):
            sq.sequence_map(body, numbers(40), executor=executor, chunksize=chunksize)

    def test_before_all_run_behind_few(self, executor, tmp_path):
        body = Logged(str(tmp_path / "log"), 0.005, fails_at=20)
        with pytest.raises(Refusal):
            sq.sequence_map(body, numbers(2000), executor=executor, chunksize=10)
        assert usable(executor)
        ran = body.started()
        assert {*range(21)} <= {*ran}
        assert len({*ran}) == len(ran) < 1000

    @pytest.mark.parametrize("body", [bodies.raise_unpicklable, bodies.raise_with_lock])
    def test_exception_that_does_not_pickle_is_named(self, processes, body):
        with pytest.raises(RuntimeError, match=r"\b(Unpicklable|Refusal)\b.*\b3\b") as caught:
            sq.sequence_map(body, numbers(9), executor=processes, chunksize=2)
        assert any("element 3" in note for note in caught.value.__notes__)
        assert any("Traceback" in note for note in caught.value.__notes__)
        assert usable(processes)

    @pytest.mark.parametrize("kind", ["nothing", "refuses", "silent"])
    @CHUNKSIZES
    def test_exception_whose_pickle_is_none(self, processes, kind, chunksize):
        word = np.array(kind, object)
        with pytest.raises(RuntimeError, match=r"can't be pickled") as caught:
            sq.sequence_map(bodies.raise_odd, numbers(9), word, executor=processes, chunksize=chunksize)
        assert any("element 3" in note for note in caught.value.__notes__)
        assert any("Traceback" in note for note in caught.value.__notes__)
        assert usable(processes)

    @pytest.mark.parametrize("dtype", [None, "int64"])
    @pytest.mark.parametrize(
        ("body", "at"), [(bodies.junk, 3), (bodies.only_junk, 0), (bodies.listed_junk, 3)]
    )
    @CHUNKSIZES
    def test_result_that_does_not_pickle(self, processes, executor, body, at, dtype, chunksize):
        with pytest.raises(TypeError, match=rf"element {at} of the map.*\bJunk\b"):
            sq.sequence_map(body, numbers(9), executor=executor, chunksize=chunksize, output_dtypes=dtype)
        assert usable(executor)

    @pytest.mark.parametrize("error", [Unpicklable(3, reason="no"), Refusal(threading.Lock())], ids=type)
    @pytest.mark.thread_unsafe
    def test_any_exception_as_it_is_from_a_thread(self, threads, error):
        with pytest.raises(type(error)) as caught:
            sq.sequence_map(FailAt({3: error}), numbers(9), executor=threads, chunksize=2)
        assert caught.value is error
        assert len(error.__notes__) == 1

    def test_traceback_note_of_an_exception_with_its_own_reduce(self, processes):
        with pytest.raises(json.JSONDecodeError) as caught:
            sq.sequence_map(bodies.raise_json, numbers(9), executor=processes, chunksize=2)
        assert any("Traceback" in note for note in caught.value.__notes__)


class TestTheExecutorsOwnFailures:
    @pytest.mark.parametrize("body", [lambda a: a, FailAt({3: threading.Lock()})], ids=["lambda", "lock"])
    @CHUNKSIZES
    def test_body_that_does_not_pickle(self, processes, body, chunksize):
        with pytest.raises(TypeError, match=r"can't be pickled.*top level of a module") as caught:
            sq.sequence_map(body, numbers(9), executor=processes, chunksize=chunksize)
        assert caught.value.__cause__ is not None
        assert usable(processes)

    def test_body_that_does_not_unpickle(self, processes):
        with pytest.raises(RuntimeError, match=r"elements \d to \d\b.*LookupError: not on this.*top level"):
            sq.sequence_map(bodies.BreaksOnArrival(), numbers(9), executor=processes, chunksize=2)
        assert usable(processes)

    def test_executor_with_a_pickler_of_its_own(self):
        class Loky(Recording):
            def submit(self, function, parcel, *args):
                parcel.__reduce_ex__(5)
                assert parcel.failure is not None
                return Inline.submit(self, function, parcel, *args)

        assert len(sq.sequence_map(lambda a: a, numbers(9), executor=Loky())) == 9

    @pytest.mark.parametrize("kind", ["Reply", "Chunk"])
    def test_results_that_are_taken_for_errors(self, kind):
        """Dask's executor may do so once; one that does so again and again must end the map."""

        class Unpacking(Executor):
            def submit(self, *args):
                future = Future()
                future.set_exception(TypeError(f"cannot unpack non-iterable {kind} object"))
                return future

        with pytest.raises(RuntimeError, match="cannot unpack"):
            within(5, lambda: sq.sequence_map(bodies.double, numbers(9), executor=Unpacking()))

    def test_worker_that_dies(self):
        context = multiprocessing.get_context("spawn")
        with (
            ProcessPoolExecutor(1, mp_context=context) as pool,
            pytest.raises(RuntimeError, match=r"element.* of the map.*died.*new executor") as caught,
        ):
            within(100, lambda: sq.sequence_map(bodies.die, numbers(9), executor=pool, chunksize=2))
        assert isinstance(caught.value.__cause__, BrokenProcessPool)

    @pytest.mark.parametrize("after", [0, 2])
    def test_executor_that_is_shut_down(self, after):
        executor = ThreadPoolExecutor(1)

        def progress(done, total):
            if done >= after:
                executor.shutdown(wait=False)

        if not after:
            executor.shutdown()
        with pytest.raises(RuntimeError, match=r"elements \d+ to \d+ .*shut ?down.*open") as caught:
            sq.sequence_map(bodies.double, numbers(99), executor=executor, chunksize=2, progress=progress)
        assert isinstance(caught.value.__cause__, RuntimeError)

    @pytest.mark.parametrize("notified", [True, False])
    def test_chunk_that_others_cancel(self, notified):
        class Cancelling(Inline):
            def submit(self, *args, **kwargs):
                future = Future()
                future.cancel()
                if notified:
                    future.set_running_or_notify_cancel()
                return future

        with pytest.raises(RuntimeError, match=r"elements 0 to 1\b.*cancelled") as caught:
            within(2, lambda: sq.sequence_map(bodies.double, numbers(9), executor=Cancelling(), chunksize=2))
        assert isinstance(caught.value.__cause__, CancelledError)

    @pytest.mark.parametrize("value", [None, 3, [], "chunk"], ids=repr)
    def test_what_is_no_chunk(self, value):
        class Forgetful(Inline):
            def submit(self, *args, **kwargs):
                return super().submit(lambda: value)

        with pytest.raises(RuntimeError, match=rf"element 0\b.*{re.escape(repr(value))}"):
            sq.sequence_map(bodies.double, numbers(9), executor=Forgetful())

    @pytest.mark.parametrize("where", ["submit", "result"])
    def test_failure_of_the_executors_own(self, where):
        class Failing(Inline):
            def submit(self, *args, **kwargs):
                if where == "submit":
                    raise Refusal("no more")
                future = Future()
                future.set_exception(Refusal("no more"))
                return future

        with pytest.raises(RuntimeError, match=r"Failing.*element 0\b.*no more") as caught:
            sq.sequence_map(bodies.double, numbers(9), executor=Failing())
        assert isinstance(caught.value.__cause__, Refusal)

    def test_executor_with_a_client_of_its_own(self):
        executor = Inline()
        executor._client = object()
        assert len(sq.sequence_map(bodies.double, numbers(9), executor=executor, chunksize=2)) == 9

    @pytest.mark.parametrize("executor", ["threads", 2, [], ThreadPoolExecutor, multiprocessing], ids=str)
    def test_no_executor(self, executor):
        calls = []
        with pytest.raises(TypeError, match=type(executor).__name__):
            sq.sequence_map(lambda a: calls.append(a) or a, numbers(3), executor=executor)
        assert calls == []
