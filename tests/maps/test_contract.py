"""What a map promises, in each way to run it."""

import os
import re
import threading
import time

import numpy as np
import pytest
from support import bodies
from support.bodies import FailAt, Logged, Refusal, numbers, within
from support.strategies import NAMES, assert_holds, filled
from support.ways import IN_OTHERS, IN_THIS_PROCESS, each

import seqcore as sq
from seqcore._maps.job import REPORT

pytestmark = pytest.mark.thread_unsafe
CHUNKSIZES = pytest.mark.parametrize("chunksize", [None, 1, 7])


@pytest.fixture(params=each([*IN_THIS_PROCESS, "pickled", *IN_OTHERS]))
def way(request, ways):
    return ways.get(request.param)


@pytest.fixture(params=each(["inline", "thread_executor", *IN_OTHERS]))
def executor(request, ways):
    return ways.get(request.param)["executor"]


@pytest.fixture(params=each(IN_OTHERS))
def processes(request, ways):
    return ways.get(request.param)["executor"]


class TestResults:
    def test_each_type(self, way):
        for name in NAMES:
            tensors = [filled(name, shape, i) for i, shape in enumerate([(2, 3), (), (0, 2), (5,)])]
            assert_holds(sq.sequence_map(np.transpose, tensors, **way), [a.T for a in tensors])

    @pytest.mark.parametrize("nbytes", [800, 2 << 20])
    def test_nobody_can_write_into_broadcast_inputs(self, way, nbytes):
        tensor = np.arange(nbytes // 8)
        assert not any(sq.sequence_map(bodies.whole_flags, numbers(20), tensor, **way))
        result = sq.sequence_map(bodies.at, numbers(20), tensor, **way)
        assert [int(one) for one in result] == list(range(20))

    @CHUNKSIZES
    def test_maps_within(self, way, chunksize):
        options = {"chunksize": chunksize, **way}
        result = within(60, lambda: sq.sequence_map(bodies.mapped, numbers(15), **options))
        assert_holds(result, [np.arange(7) + i for i in range(15)])


class TestWhereItRuns:
    @CHUNKSIZES
    @pytest.mark.parametrize("options", [{}, {"output_dtypes": "int64"}, {"progress": lambda *call: None}])
    def test_never_in_the_caller(self, processes, chunksize, options):
        options = {"executor": processes, "chunksize": chunksize, **options}
        result = sq.sequence_map(bodies.process, numbers(50), **options)
        assert os.getpid() not in {int(pid) for pid in result}


class TestFailures:
    @pytest.mark.mostly_slow(5)
    def test_all_before_it_run_and_few_after_it(self, way, tmp_path):
        body = Logged(str(tmp_path / "log"), 0.002, fails_at=20)
        with pytest.raises(Refusal):
            sq.sequence_map(body, numbers(1000), **way)
        ran = body.started()
        assert {*range(21)} <= {*ran}
        assert len({*ran}) == len(ran) < 900

    @pytest.mark.parametrize("kind", [Refusal, KeyError, KeyboardInterrupt, SystemExit])
    def test_the_traceback_of_another_process(self, processes, kind):
        with pytest.raises(kind) as caught:
            sq.sequence_map(FailAt({3: kind("nope")}), numbers(9), executor=processes, chunksize=2)
        assert caught.value.args == ("nope",)
        (note,) = [note for note in caught.value.__notes__ if "Traceback" in note]
        assert re.search(r"bodies\.py.*\n.*raise failure", note)

    @pytest.mark.parametrize("body", [bodies.raise_unpicklable, bodies.raise_with_lock])
    def test_an_exception_that_does_not_pickle(self, processes, body):
        with pytest.raises(
            RuntimeError, match=r"(Unpicklable|Refusal), which can't be pickled: .*3"
        ) as caught:
            sq.sequence_map(body, numbers(9), executor=processes, chunksize=2)
        assert any("element 3" in note for note in caught.value.__notes__)
        assert any("Traceback" in note for note in caught.value.__notes__)

    @pytest.mark.parametrize("kind", ["nothing", "refuses", "silent"])
    @pytest.mark.parametrize("chunksize", [None, 2])
    def test_an_exception_whose_pickle_is_none(self, processes, kind, chunksize):
        word = np.array(kind, object)
        with pytest.raises(RuntimeError, match=r"can't be pickled") as caught:
            sq.sequence_map(bodies.raise_odd, numbers(9), word, executor=processes, chunksize=chunksize)
        assert any("element 3" in note for note in caught.value.__notes__)
        assert any("Traceback" in note for note in caught.value.__notes__)

    @pytest.mark.parametrize("dtype", [None, "int64"])
    @pytest.mark.parametrize(
        ("body", "at"), [(bodies.junk, 3), (bodies.only_junk, 0), (bodies.listed_junk, 3)]
    )
    @pytest.mark.parametrize("chunksize", [None, 2])
    def test_a_result_that_does_not_pickle(self, executor, body, at, dtype, chunksize):
        options = {"executor": executor, "chunksize": chunksize, "output_dtypes": dtype}
        with pytest.raises(TypeError, match=rf"element {at} of the map.*\bJunk\b"):
            sq.sequence_map(body, numbers(9), **options)
        assert len(sq.sequence_map(bodies.double, numbers(5), executor=executor)) == 5

    @CHUNKSIZES
    def test_a_body_that_does_not_pickle(self, processes, chunksize):
        body = FailAt({3: threading.Lock()})
        with pytest.raises(TypeError, match=r"can't be pickled.*top level of a module") as caught:
            sq.sequence_map(body, numbers(9), executor=processes, chunksize=chunksize)
        assert caught.value.__cause__ is not None
        assert len(sq.sequence_map(bodies.double, numbers(5), executor=processes)) == 5

    def test_a_body_that_does_not_unpickle(self, processes):
        with pytest.raises(RuntimeError, match=r"elements \d to \d\b.*LookupError: not on this.*top level"):
            sq.sequence_map(bodies.BreaksOnArrival(), numbers(9), executor=processes, chunksize=2)
        assert len(sq.sequence_map(bodies.double, numbers(5), executor=processes)) == 5


class TestProgress:
    @pytest.mark.parametrize("chunksize", [None, 5])
    def test_it_is_told_while_the_map_runs(self, way, chunksize):
        """A body of a millisecond is measured first: not all elements are one chunk."""
        calls = []
        options = {"chunksize": chunksize, **way, "progress": lambda done, total: calls.append(done)}
        sq.sequence_map(bodies.slowly, numbers(200), **options)
        assert len(calls) > 1
        assert calls == sorted(calls)
        assert calls[-1] == 200

    def test_it_is_told_after_each_slow_element(self):
        calls = []

        def body(element):
            time.sleep(1.2 * REPORT)
            return element

        sq.sequence_map(body, numbers(4), max_workers=1, progress=lambda done, total: calls.append(done))
        assert calls[-3:] == [2, 3, 4]

    @pytest.mark.mostly_slow(13)
    @CHUNKSIZES
    @pytest.mark.parametrize(("kind", "at"), [(Refusal, 1), (Refusal, 50), (KeyboardInterrupt, 50)])
    @pytest.mark.mostly_at_night(7)
    def test_an_exception_ends_the_map(self, way, kind, at, chunksize):
        error, calls = kind("enough"), []

        def progress(done, total):
            calls.append(done)
            if done >= at:
                raise error

        with pytest.raises(kind) as caught:
            sq.sequence_map(
                bodies.slowly, numbers(90), **{"chunksize": chunksize, **way, "progress": progress}
            )
        assert caught.value is error
        assert len([done for done in calls if done >= at]) == 1
        assert len(sq.sequence_map(bodies.double, numbers(9), **way)) == 9
