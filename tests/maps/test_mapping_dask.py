"""sequence_map on a Dask cluster: two worker processes on this machine."""

import uuid
from concurrent.futures import CancelledError

import numpy as np
import pytest
from support import bodies
from support.bodies import Logged, numbers
from support.strategies import assert_holds

import seqcore as sq

pytestmark = pytest.mark.mostly_slow(11)

distributed = pytest.importorskip("distributed")
Client, LocalCluster = distributed.Client, distributed.LocalCluster


@pytest.fixture
def client(ways):
    return ways.get("dask")["executor"]


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
    @pytest.mark.slow
    def test_equal_elements_are_not_taken_for_one(self, client):
        def body(a):
            return np.array(uuid.uuid4().hex, object)

        maps = [sq.sequence_map(body, [np.zeros(3)] * 20, executor=client, chunksize=2) for _ in range(2)]
        assert len({word.item() for result in maps for word in result}) == 40


class TestWholeTensors:
    # More than 10 MB: with a task they would bring a warning.
    @pytest.mark.slow
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

    @pytest.mark.slow
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


@pytest.mark.slow
class TestLostWorkers:
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

    @pytest.mark.at_night
    def test_cluster_restarted_half_way(self, client, tmp_path):
        body, restarted = Logged(str(tmp_path / "log"), 1.0), []  # others are still on when it ends

        def progress(done, total):
            if not restarted:
                restarted.append(done)
                client.restart()

        with pytest.raises(RuntimeError, match=r"lost element.* of the map") as caught:
            sq.sequence_map(body, numbers(100), executor=client, chunksize=1, progress=progress)
        assert isinstance(caught.value.__cause__, CancelledError)
