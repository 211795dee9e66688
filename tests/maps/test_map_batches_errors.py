"""map_batches: errors, progress, executors, Ctrl-C and graphs."""

import json
import os
import subprocess
import sys
import threading

import numpy as np
import pytest
from support import bodies
from support.bodies import Refusal, numbers
from support.strategies import assert_holds
from test_map_batches import AXES, WORKERS, Seen, ragged, rows

import seqcore as sq

pytestmark = pytest.mark.mostly_slow(3)

# --- errors ---


@WORKERS
class TestOutputsOfAnotherLength:
    @pytest.mark.parametrize("change", [lambda b: b[:-1], lambda b: np.concatenate([b, b]), lambda b: b[:0]])
    def test_names_the_elements(self, max_workers, change):
        def body(batch):
            return change(batch) if batch[0] == 3 else batch

        with pytest.raises(ValueError, match="elements 3 to 5"):
            sq.map_batches(body, numbers(9), batch_size=3, max_workers=max_workers)
        with pytest.raises(ValueError, match=r"elements? 3\b"):
            sq.map_batches(body, numbers(9), batch_size=1, max_workers=max_workers)

    def test_stacked(self, max_workers):
        with pytest.raises(ValueError, match=r"elements?\b.*\b3\b"):
            sq.map_batches(
                lambda b: b[:-1] if b[0, 0] == 3 else b,
                numbers(9),
                new_axis=1,
                batch_size=3,
                max_workers=max_workers,
            )

    @AXES
    def test_rank_0(self, max_workers, new_axis):
        with pytest.raises(ValueError, match=r"elements?\b"):
            sq.map_batches(
                lambda b: b.sum(), numbers(9), new_axis=new_axis, batch_size=3, max_workers=max_workers
            )

    def test_of_the_second_output(self, max_workers):
        with pytest.raises(ValueError, match="elements 6 to 8"):
            sq.map_batches(
                lambda b: (b, b[1:] if b[0] == 6 else b), numbers(9), batch_size=3, max_workers=max_workers
            )


@WORKERS
class TestOutputsThatDoNotFit:
    def test_another_type_or_number_later(self, max_workers):
        others = [
            lambda b: b + 0.5,
            lambda b: (b, b),
            lambda b: (b,),
            lambda b: None,
            lambda b: b.astype("M8[s]"),
        ]
        for other in others:
            with pytest.raises(TypeError, match="elements 3 to 5"):
                sq.map_batches(
                    lambda b, other=other: other(b) if b[0] == 3 else b,
                    numbers(9),
                    batch_size=3,
                    max_workers=max_workers,
                )

    def test_output_dtypes(self, max_workers):
        options = {"batch_size": 3, "max_workers": max_workers}
        result = sq.map_batches(lambda b: b, numbers(9), output_dtypes="int64", **options)
        assert_holds(result, [*numbers(9)])
        results = sq.map_batches(
            lambda b: (b, b + 0.5), numbers(9), output_dtypes=("int64", float), **options
        )
        assert [one.dtype for one in results] == [np.int64, np.float64]
        for wrong in ("float32", ("int64", "int64"), ("int64",)):
            with pytest.raises(TypeError, match=r"element"):
                sq.map_batches(lambda b: b, numbers(9), output_dtypes=wrong, **options)


@AXES
@WORKERS
class TestErrorsInTheBody:
    @pytest.mark.parametrize("kind", [Refusal, StopIteration, KeyError, ValueError])
    def test_comes_as_it_is_with_a_note(self, max_workers, new_axis, kind):
        error = kind("no")

        def body(batch):
            if (batch == 4).any():
                raise error
            return batch

        with pytest.raises(kind) as caught:
            sq.map_batches(body, numbers(9), new_axis=new_axis, batch_size=3, max_workers=max_workers)
        assert caught.value is error
        assert len([note for note in error.__notes__ if "element" in note]) == 1
        if new_axis == 0:
            assert any("elements 3 to 5" in note for note in error.__notes__)

    def test_the_first_failure_decides(self, max_workers, new_axis):
        def body(batch):
            if batch.ravel()[0] >= 3:
                raise Refusal(int(batch.ravel()[0]))
            return batch

        with pytest.raises(Refusal) as caught:
            sq.map_batches(body, numbers(60), new_axis=new_axis, batch_size=3, max_workers=max_workers)
        assert caught.value.args == (3,)

    def test_the_next_map_is_none_the_worse(self, max_workers, new_axis):
        options = {"new_axis": new_axis, "batch_size": 2, "max_workers": max_workers}
        with pytest.raises(ZeroDivisionError):
            sq.map_batches(lambda b: 1 // 0, numbers(9), **options)
        assert_holds(sq.map_batches(lambda b: b, numbers(9), **options), [*numbers(9)])


@WORKERS
class TestRefused:
    @AXES
    def test_unequal_lengths(self, max_workers, new_axis):
        body = Seen()
        for counts in ((3, 2), (2, 3), (0, 1), (3, 0)):
            given = [numbers(n) if n else sq.sequence_empty("int64") for n in counts]
            with pytest.raises(ValueError, match=rf"(?s)(?=.*\b{counts[0]}\b)(?=.*\b{counts[1]}\b)"):
                sq.map_batches(body, *given, new_axis=new_axis, max_workers=max_workers)
        assert body.batches == []

    @AXES
    @pytest.mark.parametrize("seq", [np.zeros((2, 3)), None, 3, "ab"], ids=repr)
    def test_no_sequence(self, max_workers, new_axis, seq):
        with pytest.raises(TypeError, match=type(seq).__name__):
            sq.map_batches(lambda b: b, seq, new_axis=new_axis, max_workers=max_workers)

    @pytest.mark.parametrize(
        ("options", "error"),
        [
            ({"batch_size": 0}, ValueError),
            ({"batch_size": -3}, ValueError),
            ({"batch_size": 2.0}, TypeError),
            ({"batch_size": "2"}, TypeError),
            ({"new_axis": 2}, ValueError),
            ({"new_axis": -1}, ValueError),
            ({"new_axis": "0"}, (TypeError, ValueError)),
            ({"new_axis": 0.5}, (TypeError, ValueError)),
            ({"new_axis": None}, (TypeError, ValueError)),
            ({"chunksize": 3}, TypeError),
            ({"progress": 1}, TypeError),
        ],
        ids=str,
    )
    def test_options(self, max_workers, options, error):
        body = Seen()
        with pytest.raises(error):
            sq.map_batches(body, numbers(3), max_workers=max_workers, **options)
        assert body.batches == []

    def test_no_body(self, max_workers):
        with pytest.raises(TypeError):
            sq.map_batches(3, numbers(3), max_workers=max_workers)

    def test_rank_0_can_only_be_stacked(self, max_workers):
        seq = sq.TensorSequence([np.array(i) for i in range(5)])
        with pytest.raises(ValueError, match=r"rank|shape|axis"):
            sq.map_batches(lambda b: b, seq, max_workers=max_workers)
        result = sq.map_batches(lambda b: b + 1, seq, new_axis=1, batch_size=2, max_workers=max_workers)
        assert_holds(result, [np.array(i + 1) for i in range(5)])

    @pytest.mark.parametrize("shapes", [[(2, 3), (2, 4)], [(2,), (2, 1)], [(1, 2), (3, 2), ()]], ids=str)
    def test_other_shapes_behind_axis_0_can_only_be_stacked(self, max_workers, shapes):
        seq = sq.TensorSequence([np.full(shape, i) for i, shape in enumerate(shapes)])
        with pytest.raises(ValueError, match=r"rank|shape|axis|axes"):
            sq.map_batches(lambda b: b, seq, batch_size=len(shapes), max_workers=max_workers)
        result = sq.map_batches(lambda b: -b, seq, new_axis=1, max_workers=max_workers)
        assert_holds(result, [np.asarray(-a) for a in seq])


@pytest.mark.parametrize("max_workers", [0, -1, 1.5])
def test_workers_that_make_no_sense(max_workers):
    with pytest.raises((ValueError, TypeError), match="max_workers"):
        sq.map_batches(lambda b: b, numbers(3), max_workers=max_workers)


# --- progress ---


@AXES
@WORKERS
@pytest.mark.parametrize("batch_size", [None, 1, 4, 100])
def test_progress_counts_elements(max_workers, new_axis, batch_size):
    calls, where = [], set()

    def progress(done, total):
        calls.append((done, total))
        where.add(threading.get_ident())

    options = {"new_axis": new_axis, "batch_size": batch_size, "max_workers": max_workers}
    sq.map_batches(lambda b: b, rows(50), progress=progress, **options)
    done = [done for done, _ in calls]
    assert done == sorted(set(done))
    assert done[0] > 0
    assert calls[-1] == (50, 50)
    assert {total for _, total in calls} == {50}
    assert where == {threading.get_ident()}


def test_progress_of_nothing():
    calls = []
    sq.map_batches(lambda b: b, [], progress=lambda *call: calls.append(call), output_dtypes="int8")
    assert calls == [(0, 0)]


def test_progress_that_fails_ends_the_map():
    def progress(done, total):
        raise Refusal("enough")

    body = Seen()
    with pytest.raises(Refusal, match="enough"):
        sq.map_batches(body, numbers(500), batch_size=1, progress=progress)
    assert len(body.batches) < 500


def test_progress_bar(capsys):
    pytest.importorskip("tqdm")
    sq.map_batches(lambda b: b, numbers(50), batch_size=7, progress=True)
    assert "50/50" in capsys.readouterr().err


# --- executors ---


def twice_and_sign(batch, more):
    return batch * 2 + more, batch > 3


def who(batch):
    return np.full(len(batch), os.getpid())


def fail_at_4(batch):
    if (batch == 4).any():
        raise Refusal("four")
    return batch


@AXES
@pytest.mark.parametrize("batch_size", [None, 1, 4, 100])
def test_executors(executor, batch_size, new_axis):
    seq = ragged("int64", [2, 0, 3, 1, 0, 4] * 4, (2,))
    options = {"executor": executor, "batch_size": batch_size, "new_axis": new_axis}
    results = sq.map_batches(twice_and_sign, seq, np.array([5, 6]), **options)
    assert_holds(results[0], [a * 2 + [5, 6] for a in seq])
    assert_holds(results[1], [a > 3 for a in seq])
    assert executor.submit(abs, -3).result(20) == 3
    calls = []
    sq.map_batches(bodies.double, seq, progress=lambda *call: calls.append(call), **options)
    assert calls[-1] == (24, 24)


@pytest.mark.parametrize("batch_size", [None, 1, 4])
def test_with_an_executor_no_body_runs_in_the_caller(threads, processes, batch_size):
    pids = sq.map_batches(who, numbers(20), executor=processes, batch_size=batch_size)
    assert os.getpid() not in {int(pid[0]) for pid in pids}
    where = set()
    body = Seen(lambda batch: where.add(threading.get_ident()) or batch)
    sq.map_batches(body, numbers(20), executor=threads, batch_size=batch_size)
    assert threading.get_ident() not in where


def test_errors_from_executors(executor):
    with pytest.raises(Refusal, match="four") as caught:
        sq.map_batches(fail_at_4, numbers(9), executor=executor, batch_size=3)
    assert any("elements 3 to 5" in note for note in caught.value.__notes__)
    assert_holds(
        sq.map_batches(bodies.double, numbers(3), executor=executor), [np.array([2 * i]) for i in range(3)]
    )


# --- Ctrl-C, in a process of its own ---

PRESSED = """
import json, os, signal, sys, threading, time
signal.signal(signal.SIGINT, signal.default_int_handler)    # a shell has it ignored in the background
from concurrent.futures import ThreadPoolExecutor
import seqcore as sq
from support import bodies

def press():
    while len(body.started()) < 5:
        time.sleep(0.01)
    time.sleep(0.1)     # all bodies are asleep
    pressed.append(time.monotonic())
    os.kill(os.getpid(), signal.SIGINT)

body, pressed = bodies.Logged(sys.argv[1], 0.2), []
way = eval(sys.argv[2])
threading.Thread(target=press, daemon=True).start()
try:
    sq.map_batches(body, bodies.numbers(2000), batch_size=2, **way)
except KeyboardInterrupt:
    took, started = time.monotonic() - pressed[0], len(body.started())
    time.sleep(0.8)
    print(json.dumps([took, len(body.started()) - started]))
assert len(sq.map_batches(bodies.double, bodies.numbers(9), batch_size=2, **way)) == 9
"""


@pytest.mark.slow
@pytest.mark.thread_unsafe
@pytest.mark.skipif(os.name != "posix", reason="needs signals")
@pytest.mark.parametrize("way", ["{}", "{'max_workers': 4}", "{'executor': ThreadPoolExecutor(4)}"])
def test_ctrl_c_starts_no_further_batch(way, tmp_path):
    outcome = subprocess.run(
        [sys.executable, "-c", PRESSED, str(tmp_path / "log"), way],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        start_new_session=True,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert outcome.returncode == 0, outcome.stderr
    took, more = json.loads(outcome.stdout)
    assert took < 5
    assert more == 0
    assert outcome.stderr == ""


def test_a_tuple_of_another_length():
    def body(batch):
        return (batch,) * (2 if batch[0] < 3 else 3)

    with pytest.raises(TypeError, match=r"elements 3 to 5.*a tuple of 3, expected one of 2 as before"):
        sq.map_batches(body, numbers(9), batch_size=3)


@pytest.mark.parametrize("function", [sq.sequence_map, sq.map_batches])
def test_no_output_dtypes(function):
    with pytest.raises(ValueError, match="output_dtypes is empty, expected a dtype, or one for each output"):
        function(np.copy, numbers(3), output_dtypes=())
