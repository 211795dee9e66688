"""sequence_map on a Dask cluster: two worker processes on this machine."""

import os
import signal
import threading
import uuid
from concurrent.futures import CancelledError

import numpy as np
import pytest
from support import bodies
from support.bodies import FailAt, Logged, Refusal, numbers
from support.strategies import NAMES, assert_holds, filled

import seqcore as sq

pytestmark = pytest.mark.mostly_slow(11)

distributed = pytest.importorskip("distributed")
Client, LocalCluster = distributed.Client, distributed.LocalCluster

CHUNKSIZES = pytest.mark.parametrize("chunksize", [None, 1, 7, 1000])


@pytest.fixture(scope="module")
def client():
    cluster = LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        processes=True,
        host="127.0.0.1",
        dashboard_address="127.0.0.1:0",  # a free port
    )
    with cluster, Client(cluster) as client:
        yield client


@pytest.fixture
def tasks(client, monkeypatch):
    """A list that gets a line for each task that is given to Dask."""
    submitted, submit = [], client.submit

    def counting(*args, **kwargs):
        submitted.append(args[0])
        return submit(*args, **kwargs)

    monkeypatch.setattr(client, "submit", counting)
    return submitted


def usable(client):
    return client.submit(abs, -3, pure=False).result(20) == 3


class TestResults:
    @CHUNKSIZES
    @pytest.mark.parametrize("count", [1, 2, 90])
    def test_order(self, client, count, chunksize):
        result = sq.sequence_map(bodies.double, numbers(count), executor=client, chunksize=chunksize)
        assert_holds(result, [np.array([2 * i]) for i in range(count)])
        assert usable(client)

    def test_order_when_the_first_are_slow(self, client):
        result = sq.sequence_map(bodies.late_first, numbers(40), executor=client, chunksize=2)
        assert_holds(result, [*numbers(40)])

    @pytest.mark.parametrize("name", NAMES)
    def test_each_type(self, client, name):
        tensors = [filled(name, shape, i) for i, shape in enumerate([(2, 3), (), (0, 2), (5,)])]
        result = sq.sequence_map(np.transpose, tensors, executor=client, chunksize=2)
        assert_holds(result, [a.T for a in tensors])

    @CHUNKSIZES
    def test_several_outputs(self, client, chunksize):
        results = sq.sequence_map(bodies.three, numbers(50), executor=client, chunksize=chunksize)
        assert [result.dtype for result in results] == [np.int64, np.float64, object]
        assert_holds(results[0], [*numbers(50)])
        assert_holds(results[1], [np.array([i + 0.5]) for i in range(50)])
        assert [words.item() for words in results[2]] == [f"[{i}]" for i in range(50)]

    @CHUNKSIZES
    def test_sequences_are_indexed_and_arrays_go_whole(self, client, chunksize):
        more = [np.arange(90), numbers(90, list), np.array(7), numbers(90, tuple)]
        result = sq.sequence_map(bodies.total, numbers(90), *more, executor=client, chunksize=chunksize)
        assert_holds(result, [np.arange(90) + 3 * i + 7 for i in range(90)])

    @pytest.mark.parametrize("dtype", [None, "string"])
    def test_strings(self, client, dtype):
        words = sq.split_to_sequence(np.array([f"wörd {i}" for i in range(99)]), 2)
        result = sq.sequence_map(bodies.loud, words, executor=client, chunksize=5, output_dtypes=dtype)
        assert result.dtype == object
        assert [word for pair in result for word in pair] == [f"WÖRD {i}" for i in range(99)]

    def test_body_of_any_kind(self, client):
        offset = np.array(5)
        result = sq.sequence_map(lambda a: a + offset, numbers(20), executor=client, chunksize=3)
        assert_holds(result, [np.array([i + 5]) for i in range(20)])

    def test_empty_input_is_not_sent(self, client, tasks):
        result = sq.sequence_map(np.copy, [], executor=client, output_dtypes="int8")
        assert (len(result), result.dtype) == (0, np.int8)
        assert tasks == []

    def test_equal_elements_are_not_taken_for_one(self, client):
        def body(a):
            return np.array(uuid.uuid4().hex, object)

        maps = [sq.sequence_map(body, [np.zeros(3)] * 20, executor=client, chunksize=2) for _ in range(2)]
        assert len({word.item() for result in maps for word in result}) == 40

    def test_maps_on_threads_inside(self, client):
        result = sq.sequence_map(bodies.mapped, numbers(15), executor=client, chunksize=4)
        assert_holds(result, [np.arange(7) + i for i in range(15)])

    def test_progress(self, client):
        calls = []
        sq.sequence_map(
            bodies.double,
            numbers(90),
            executor=client,
            chunksize=7,
            progress=lambda *call: calls.append(call),
        )
        assert calls == sorted(set(calls))
        assert calls[-1] == (90, 90)


class TestWhereItRuns:
    @CHUNKSIZES
    def test_never_in_the_caller(self, client, chunksize):
        result = sq.sequence_map(bodies.process, numbers(50), executor=client, chunksize=chunksize)
        assert {int(pid) for pid in result} <= {*client.run(os.getpid).values()}

    def test_context_variables_stay_here(self, client):
        token = bodies.COLOUR.set("green")
        try:
            result = sq.sequence_map(bodies.colour, numbers(10), executor=client, chunksize=3)
        finally:
            bodies.COLOUR.reset(token)
        assert {word.item() for word in result} == {"none"}


# Dask warns, and here that is an error, where a task brings more than 10 MB.
@pytest.mark.slow
class TestSizes:
    def test_many_small_elements_are_few_tasks(self, client, tasks):
        seq = sq.split_to_sequence(np.arange(20_000.0), 4)
        result = sq.sequence_map(bodies.double, seq, executor=client)
        assert_holds(result, [2 * a for a in seq])
        assert 2 <= len(tasks) <= 500  # by how long the first elements took, on a machine that may be busy

    def test_40_megabytes_of_one_array(self, client, tasks):
        tensor = np.arange(5_000_000.0)
        result = sq.sequence_map(bodies.double, sq.split_to_sequence(tensor, 5_000), executor=client)
        assert len(result) == 1000
        assert np.array_equal(sq.concat_from_sequence(result, 0), 2 * tensor)
        assert 8 <= len(tasks) <= 200


class TestWholeTensors:
    def test_nobody_can_write_into_them(self, client):
        wholes = np.zeros(3), np.zeros(1 << 18)
        assert not any(sq.sequence_map(bodies.whole_flags, numbers(20), *wholes, executor=client))

    # More than 10 MB: with a task they would bring a warning.
    def test_large_ones_travel_once(self, client, tasks, monkeypatch):
        table, scatter, scattered = np.arange(2_000_000.0), client.scatter, []

        def counting(tensor, **options):
            scattered.append(options["broadcast"])
            return scatter(tensor, **options)

        monkeypatch.setattr(client, "scatter", counting)
        result = sq.sequence_map(
            bodies.at_both, numbers(40), table, np.array(0.5), table + 1, executor=client, chunksize=2
        )
        assert_holds(result, [np.array(2 * i + 1.5) for i in range(40)])
        assert scattered == [True, True]
        assert len(tasks) == 20

    def test_in_one_process(self):
        cluster = LocalCluster(n_workers=1, processes=False, dashboard_address="127.0.0.1:0")
        table = np.arange(2_000_000.0)
        with cluster, Client(cluster) as client:
            result = sq.sequence_map(lambda a, b: b[a[0]], numbers(9), table, executor=client)
        assert_holds(result, [np.array(float(i)) for i in range(9)])

    def test_no_worker_to_scatter_to(self, client, monkeypatch):
        def scatter(tensor, **options):
            raise TimeoutError

        monkeypatch.setattr(client, "scatter", scatter)
        result = sq.sequence_map(bodies.at, numbers(9), np.arange(150_000.0), executor=client, chunksize=5)
        assert_holds(result, [np.array(float(i)) for i in range(9)])


class TestFailures:
    def test_asynchronous_client(self):
        calls = []

        class Asynchronous:
            asynchronous = True
            get_executor = calls.append

        with pytest.raises(TypeError, match="asynchronous"):
            sq.sequence_map(bodies.double, numbers(9), executor=Asynchronous())
        assert calls == []

    @pytest.mark.parametrize("kind", ["nothing", "refuses", "silent"])
    def test_exception_whose_pickle_is_none(self, client, kind):
        with pytest.raises(RuntimeError, match="can't be pickled") as caught:
            sq.sequence_map(
                bodies.raise_odd, numbers(9), np.array(kind, object), executor=client, chunksize=2
            )
        assert any("element 3" in note for note in caught.value.__notes__)

    @pytest.mark.parametrize("chunksize", [None, 1, 7])
    def test_result_that_does_not_pickle(self, client, chunksize):
        with pytest.raises(TypeError, match=r"element 3 of the map.*\bJunk\b"):
            sq.sequence_map(bodies.listed_junk, numbers(9), executor=client, chunksize=chunksize)
        assert usable(client)

    def test_body_that_does_not_pickle(self, client):
        with pytest.raises(TypeError, match=r"body can't be pickled"):
            sq.sequence_map(FailAt({3: threading.Lock()}), numbers(9), executor=client, chunksize=2)
        assert usable(client)

    def test_body_that_does_not_unpickle(self, client):
        with pytest.raises(RuntimeError, match="LookupError: not on this machine"):
            sq.sequence_map(bodies.BreaksOnArrival(), numbers(9), executor=client, chunksize=2)
        assert usable(client)

    @pytest.mark.mostly_slow(11)
    @CHUNKSIZES
    @pytest.mark.parametrize("later", ["raise", "type", "number"])
    @pytest.mark.parametrize("first", ["raise", "type", "number"])
    def test_first_failing_element_decides(self, client, first, later, chunksize):
        def failure(kind, at):
            return {"raise": Refusal(at), "type": np.array([0.5]), "number": (np.array([at]),) * 2}[kind]

        failures = {at: failure(later, at) for at in (6, 20, 39)} | {5: failure(first, 5)}
        body = FailAt(failures, {0: 0.001, 5: 0.02})
        with pytest.raises(Refusal if first == "raise" else TypeError, match=r"element 5\b"):
            sq.sequence_map(body, numbers(40), executor=client, chunksize=chunksize)
        assert usable(client)

    @pytest.mark.parametrize("kind", [Refusal, KeyError, KeyboardInterrupt, SystemExit])
    def test_exception_as_it_is_with_notes(self, client, kind):
        with pytest.raises(kind, match=r"element 20\b") as caught:
            sq.sequence_map(FailAt({20: kind("nope")}), numbers(40), executor=client, chunksize=3)
        assert caught.value.args == ("nope",)
        (note,) = [note for note in caught.value.__notes__ if "Traceback" in note]
        assert "raise failure" in note
        assert usable(client)

    def test_exception_that_does_not_pickle_is_named(self, client):
        with pytest.raises(RuntimeError, match=r"\bUnpicklable\b.*\b3\b") as caught:
            sq.sequence_map(bodies.raise_unpicklable, numbers(9), executor=client, chunksize=2)
        assert any("element 3" in note for note in caught.value.__notes__)

    def test_exception_of_a_local_class(self, client):
        class Local(Exception):
            pass

        def body(a):
            raise Local("nope")

        with pytest.raises(Local, match="nope"):
            sq.sequence_map(body, numbers(9), executor=client, chunksize=2)

    @pytest.mark.slow
    def test_behind_a_failure_few_run(self, client, tmp_path):
        body = Logged(str(tmp_path / "log"), 0.005, fails_at=20)
        with pytest.raises(Refusal):
            sq.sequence_map(body, numbers(2000), executor=client, chunksize=10)
        assert usable(client)
        assert {*range(21)} <= {*body.started()}
        assert len(body.started()) < 1000


@pytest.mark.slow
class TestLostWorkers:
    def test_killed_half_way(self, client, tmp_path):
        body, killed = Logged(str(tmp_path / "log"), 0.02), []
        pids = client.run(os.getpid)

        def progress(done, total):
            if done >= 20 and not killed:
                killed.append(next(iter(pids.values())))
                os.kill(killed[0], signal.SIGKILL if os.name == "posix" else signal.SIGTERM)

        result = sq.sequence_map(body, numbers(100), executor=client, chunksize=3, progress=progress)
        assert len(killed) == 1
        assert_holds(result, [*numbers(100)])
        assert {*body.started()} == {*range(100)}
        client.wait_for_workers(2, timeout=20)
        assert usable(client)

    @pytest.mark.thread_unsafe
    def test_a_worker_lost_behind_its_result(self, client, monkeypatch):
        """Dask's executor looks at the state once it has the result, which may be "lost" by then."""
        lost, original = [], distributed.Future._result

        async def with_a_loss(self, raiseit=True):
            result = await original(self, raiseit)
            if len(lost) < 3:
                lost.append(self.key)
                self._state.status = "lost"
            return result

        monkeypatch.setattr(distributed.Future, "_result", with_a_loss)
        result = sq.sequence_map(bodies.slowly, numbers(100), executor=client, chunksize=7)
        assert_holds(result, [*numbers(100)])
        assert len(lost) == 3
        assert usable(client)

    def test_cluster_restarted_half_way(self, client, tmp_path):
        body, restarted = Logged(str(tmp_path / "log"), 1.0), []  # others are still on when it ends

        def progress(done, total):
            if not restarted:
                restarted.append(done)
                client.restart()

        with pytest.raises(RuntimeError, match=r"lost element.* of the map") as caught:
            sq.sequence_map(body, numbers(100), executor=client, chunksize=1, progress=progress)
        assert isinstance(caught.value.__cause__, CancelledError)
