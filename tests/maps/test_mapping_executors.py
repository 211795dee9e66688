"""sequence_map on executors: threads, processes, and any other of concurrent.futures' kind."""

import multiprocessing
import queue
import re
import threading
import time
from concurrent.futures import CancelledError, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool

import numpy as np
import pytest
from support import bodies
from support.bodies import FailAt, Inline, Refusal, Unpicklable, numbers, within
from support.strategies import assert_holds

import seqcore as sq
from seqcore._maps import executors, workers

pytestmark = pytest.mark.mostly_slow(7)


class TestWhereItRuns:
    @pytest.mark.slow
    def test_body_that_an_initializer_has_prepared(self):
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(1, context, bodies.load_model, (3,)) as pool:
            result = sq.sequence_map(bodies.by_model, numbers(30), executor=pool)
        assert_holds(result, [np.array([3 * i]) for i in range(30)])
        assert bodies.MODEL == []


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
        return executor.sizes, executor.most

    @pytest.mark.parametrize("workers", [1, 2, 5])
    def test_shares_of_what_is_left(self, workers, monkeypatch):
        monkeypatch.setattr(executors, "LATE", 1e6)  # on a slow machine a chunk may end early
        sizes, most = self.sizes(np.copy, 5000, workers, monkeypatch)
        assert sum(sizes) == 5000
        left = 5000
        for size in sizes[: 2 * workers]:
            assert size == left // (2 * workers)
            left -= size
        assert len(sizes) < 30 * workers
        assert 2 * workers <= most <= 3 * workers

    def test_that_take_too_long_end_early(self, monkeypatch):
        """The units that a worker hasn't started are submitted again, in chunks of a suitable size."""

        def body(a):
            time.sleep(3e-3)
            called.append(int(a[0]))
            return a

        called = []
        monkeypatch.setattr(workers.Workers, "seconds", 1e-2)
        monkeypatch.setattr(executors, "LATE", 1)
        sizes, _ = self.sizes(body, 60, 2, monkeypatch)
        assert sorted(called) == [*range(60)]
        assert sizes[:4] == [15, 11, 8, 6]  # before anything is known
        assert max(sizes[4:]) <= 4
        first = called.index(15)
        assert 1 <= first <= 5  # units that the first chunk has begun
        assert called.index(first) > called.index(15 + 11)


class TestFailures:
    @pytest.mark.parametrize("error", [Unpicklable(3, reason="no"), Refusal(threading.Lock())])
    @pytest.mark.thread_unsafe
    def test_any_exception_as_it_is_from_a_thread(self, threads, error):
        with pytest.raises(type(error)) as caught:
            sq.sequence_map(FailAt({3: error}), numbers(9), executor=threads, chunksize=2)
        assert caught.value is error
        assert len(error.__notes__) == 1


@pytest.mark.slow
def test_elements_that_take_longer_than_to_look_for_losses(threads, monkeypatch):
    monkeypatch.setattr(workers.Workers, "patience", 0.01)
    body = lambda a: time.sleep(0.1) or a  # noqa: E731
    assert_holds(sq.sequence_map(body, numbers(4), executor=threads, chunksize=2), [*numbers(4)])


class TestTheExecutorsOwnFailures:
    def test_lambda_that_does_not_pickle(self, processes):
        with pytest.raises(TypeError, match=r"can't be pickled.*top level of a module"):
            sq.sequence_map(lambda a: a, numbers(9), executor=processes)

    @pytest.mark.slow
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

        for size, named in ((1, "element 0"), (2, "elements 0 to 1"), (9, "elements 0 to 8")):

            def run(size=size):
                return sq.sequence_map(bodies.double, numbers(9), executor=Cancelling(), chunksize=size)

            with pytest.raises(RuntimeError, match=rf"{named}\b(?! to).*cancelled") as caught:
                within(2, run)
            assert isinstance(caught.value.__cause__, CancelledError)

    @pytest.mark.parametrize("value", [None, 3, [], "chunk"])
    def test_what_is_no_chunk(self, value):
        class Forgetful(Inline):
            def submit(self, *args, **kwargs):
                return super().submit(lambda: value)

        with pytest.raises(RuntimeError, match=rf"elements 0 to 1\b.*{re.escape(repr(value))}"):
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

        with pytest.raises(RuntimeError, match=r"Failing.*elements 0 to 1\b.*no more") as caught:
            sq.sequence_map(bodies.double, numbers(9), executor=Failing())
        assert isinstance(caught.value.__cause__, Refusal)
