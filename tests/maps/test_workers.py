"""What is special about each kind of workers: lost ones, lost results, and what is not one."""

import multiprocessing
import multiprocessing.pool
import os
import pickle
import signal
import types
from concurrent import futures
from concurrent.futures import Executor, Future, ThreadPoolExecutor

import numpy as np
import pytest
from seqcore.core.maps import Bound
from support import bodies
from support.bodies import Inline, Recording, numbers, within
from support.strategies import assert_holds

import seqcore as sq
from seqcore._maps import payloads, workers
from seqcore._maps.outputs import Chunk
from seqcore._maps.work import ElementWork

pytestmark = pytest.mark.thread_unsafe


@pytest.fixture
def copies(monkeypatch):
    """For each reply, whether its data is copied."""
    seen, chunk = [], payloads.Reply.chunk
    monkeypatch.setattr(
        payloads.Reply, "chunk", lambda self, copied: seen.append(copied) or chunk(self, copied)
    )
    return seen


class TestLostResults:
    """A result that is another chunk's, or none, is an error: never a None or a wrong element."""

    @pytest.mark.parametrize("chunksize", [1, 3, None])
    def test_one_future_for_all_calls(self, chunksize):
        class Caching(Inline):
            future = None

            def submit(self, *args):
                self.future = self.future or super().submit(*args)
                return self.future

        with pytest.raises(RuntimeError, match=r"has lost element.* result of .*new task for each"):
            within(9, lambda: sq.sequence_map(np.copy, numbers(9), executor=Caching(), chunksize=chunksize))

    @pytest.mark.parametrize("count", [0, 1, 4, -1, 10**12, None])
    def test_a_chunk_of_another_count(self, count):
        """Some of its results are missing, or it has those of others too."""

        class Mixing(Inline):
            def submit(self, function, payload, *args):
                future = super().submit(function, payload, *args)
                if payload.start == 3:
                    future.result().count = count
                return future

        with pytest.raises(RuntimeError, match=f"has lost elements 3 to 5 .*{count} results, expected 3"):
            within(9, lambda: sq.sequence_map(np.copy, numbers(9), executor=Mixing(), chunksize=3))

    @pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, MemoryError])
    def test_ctrl_c_while_a_chunk_is_submitted(self, kind):
        cancelled = []

        class Submitting(Executor):
            def submit(self, function, payload, *args):
                if payload.start == 3:
                    raise kind("out")
                future = Future()
                future.cancel = lambda: cancelled.append(payload.start)
                return future

        with pytest.raises(kind, match="out"):
            within(9, lambda: sq.sequence_map(np.copy, numbers(9), executor=Submitting(), chunksize=3))
        assert cancelled == [0]

    def test_a_future_that_ends_twice(self):
        class Twice(Executor):
            def submit(self, function, *args):
                future = Future()
                future.add_done_callback = lambda callback: [callback(future), callback(future)]
                future.set_result(function(*args))
                return future

        result = within(9, lambda: sq.sequence_map(np.copy, numbers(9), executor=Twice(), chunksize=2))
        assert_holds(result, [*numbers(9)])


@pytest.mark.parametrize("copied", [False, True])
def test_results_that_arrive_in_memory_that_is_lent(copied):
    sequence = sq.TensorSequence([np.arange(1000)])
    reply = payloads.Reply(Chunk(0, 1, None, None, (sequence,), True), pickle)
    reply.buffers = memory = [bytearray(one.raw()) for one in reply.buffers]
    (arrived,) = reply.chunk(copied).sequences
    assert_holds(arrived, [np.arange(1000)])
    shared = [np.shares_memory(arrived[0], np.frombuffer(one, np.uint8)) for one in memory if one]
    assert any(shared) is not copied


def work_of(sequence):
    return ElementWork(np.negative, (sequence,), len(sequence))


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_a_payload_that_is_passed_on_is_pickled_once_more(kind):
    """Dask's scheduler unpickles a task, and pickles it for the worker, with buffers of its own."""
    sequence = sq.split_to_sequence(np.arange(4000).reshape(4, 1000), keepdims=0)
    payload, sent = payloads.Payload(7, work_of(sequence), Bound(), None, None, None, "pickle"), []
    data = pickle.dumps(payload, protocol=5, buffer_callback=sent.append)
    arrived = [kind(bytes(one.raw())) for one in sent]
    passed, buffers = pickle.loads(data, buffers=arrived), []
    data = pickle.dumps(passed, protocol=5, buffer_callback=buffers.append)
    assert len(data) < 2000
    assert all(
        np.shares_memory(np.frombuffer(one, np.uint8), np.frombuffer(before, np.uint8))
        for one, before in zip(buffers, arrived, strict=True)
    )
    for again in (
        pickle.loads(data, buffers=buffers),
        *(pickle.loads(pickle.dumps(passed, k)) for k in (2, 5)),
    ):
        chunk = again.run(()).chunk(False)
        assert chunk.start == 7
        assert_holds(chunk.sequences[0], [-element for element in sequence])


@pytest.mark.slow
class TestRay:
    def test_not_connected(self, monkeypatch):
        ray = pytest.importorskip("ray")
        monkeypatch.setattr(ray, "is_initialized", lambda: False)
        with pytest.raises(ValueError, match=r"ray\.init\(\)"):
            sq.sequence_map(np.copy, numbers(3), executor=ray)

    def test_killed_workers_lose_nothing(self, ways, tmp_path):
        executor = ways.get("ray")["executor"]
        body = bodies.DieOnce(str(tmp_path / "died"), 20)
        assert_holds(sq.sequence_map(body, numbers(100), executor=executor, chunksize=3), [*numbers(100)])
        assert (tmp_path / "died").exists()

    def test_broadcast_inputs_are_put_once(self, ways, monkeypatch):
        ray, put, calls = ways.get("ray")["executor"], None, []
        put = ray.put
        monkeypatch.setattr(ray, "put", lambda value: calls.append(value) or put(value))
        table = np.arange(1_000_000.0)
        result = sq.sequence_map(
            bodies.at_both, numbers(40), table, np.array(0.5), table + 1, executor=ray, chunksize=2
        )
        assert_holds(result, [np.array(2 * i + 1.5) for i in range(40)])
        assert len(calls) == 2

    def test_results_stay_in_the_object_store_up_to_a_part_of_it(self, ways, copies, monkeypatch):
        options = ways.get("ray")
        assert 1 << 20 < workers.workers_of(options["executor"]).lends < 1 << 40
        node = {"Resources": {"object_store_memory": 8 << 20}, "Alive": True}
        monkeypatch.setattr(options["executor"], "nodes", lambda: [node])
        seq = sq.TensorSequence([np.full(1 << 17, k) for k in range(5)])  # of a megabyte each
        assert sq.sequence_map(bodies.double, seq, **options, chunksize=1) == sq.sequence_map(
            bodies.double, seq
        )
        assert copies == [False, False, True, True, True]


class Pickling(Recording):
    """Pickles results too, as an executor of processes does."""

    def submit(self, function, /, *args):
        done = super().submit(function, *args)
        return Inline.submit(self, lambda: pickle.loads(pickle.dumps(done.result())))


def test_a_file_that_workers_cannot_see(tmp_path):
    pytest.importorskip("pyarrow")
    path = tmp_path / "numbers.arrow"
    sq.save(path, numbers(9))

    class Elsewhere(Pickling):
        def submit(self, function, payload, *args):
            path.unlink(missing_ok=True)
            return super().submit(function, payload, *args)

    with pytest.raises(RuntimeError, match=r"can't open a file that the sequence is in .*by the same path"):
        sq.sequence_map(bodies.double, sq.load(path), executor=Elsewhere())


@pytest.mark.parametrize(
    ("lends", "expected"),
    [(None, [False] * 4), (0, [True] * 4), (79, [True] * 4), (80, [False, *[True] * 3]), (320, [False] * 4)],
)
def test_results_that_are_too_many_for_memory_of_workers_are_copied(copies, monkeypatch, lends, expected):
    monkeypatch.setattr(workers.Futures, "lends", lends)
    seq = numbers(40)
    assert sq.sequence_map(bodies.double, seq, executor=Pickling(), chunksize=10) == sq.sequence_map(
        bodies.double, seq
    )
    assert copies == expected


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
class TestLoky:
    def test_a_body_that_is_nowhere_to_import(self, ways):
        pool = ways.get("loky")["executor"]
        assert sq.sequence_map(lambda a: a + 1, numbers(9), executor=pool, chunksize=2) == sq.sequence_map(
            lambda a: a + 1, numbers(9)
        )

    def test_a_worker_that_is_killed(self, ways):
        pool = ways.get("loky")["executor"]
        pids = []

        def progress(done, total):
            if not pids:
                pids.append(next(iter(pool._processes)))
                os.kill(pids[0], signal.SIGKILL)

        with pytest.raises(RuntimeError, match=r"lost element.*died"):
            sq.sequence_map(bodies.slowly, numbers(900), chunksize=5, executor=pool, progress=progress)


def test_other_interpreters_are_refused(monkeypatch):
    kind = getattr(futures, "InterpreterPoolExecutor", type("Stand-in", (ThreadPoolExecutor,), {}))
    monkeypatch.setattr(futures, "InterpreterPoolExecutor", kind, raising=False)
    with kind(1) as executor, pytest.raises(TypeError, match="max_workers=, or a ProcessPoolExecutor"):
        sq.sequence_map(np.copy, numbers(3), executor=executor)


@pytest.mark.parametrize("executor", ["threads", 2, [], types, multiprocessing, multiprocessing.Pool])
def test_what_has_no_workers(executor):
    with pytest.raises(TypeError, match=r"executor must be a concurrent\.futures\.Executor, .*a Dask Client"):
        sq.sequence_map(np.copy, numbers(3), executor=executor)


def test_pools_of_multiprocessing_are_refused():
    """A worker of theirs that dies is replaced, and its task never ends."""
    with (
        multiprocessing.pool.ThreadPool(1) as pool,
        pytest.raises(TypeError, match=r"pool of multiprocessing\.pool.*pass .*\.ProcessPoolExecutor"),
    ):
        sq.sequence_map(np.copy, numbers(3), executor=pool)


class TestResultsThatNeverCome:
    def test_a_future_that_ends_and_calls_nobody_back(self, monkeypatch):
        monkeypatch.setattr(workers.Workers, "patience", 0.05)

        class Silent(Inline):
            def submit(self, *args):
                future = super().submit(*args)
                future.add_done_callback = lambda callback: None
                return future

        result = within(30, lambda: sq.sequence_map(np.copy, numbers(9), executor=Silent(), chunksize=2))
        assert_holds(result, [*numbers(9)])

    def test_an_executor_that_is_shut_down_and_drops_its_tasks(self):
        pool = ThreadPoolExecutor(1)

        def progress(done, total):
            pool.shutdown(wait=False, cancel_futures=True)

        with pytest.raises(RuntimeError, match=r"lost elements? \d.*(cancelled|shut down)"):
            within(
                30,
                lambda: sq.sequence_map(
                    bodies.slowly, numbers(99), executor=pool, chunksize=2, progress=progress
                ),
            )
