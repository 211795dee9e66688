"""What the caller sees and does while sequence_map runs: progress, and Ctrl-C."""

import json
import os
import sys

import numpy as np
import pytest
from support import bodies
from support.bodies import FailAt, Refusal, numbers
from support.processes import run_python

import seqcore as sq

pytestmark = pytest.mark.thread_unsafe


@pytest.fixture(params=["serial", "threads", "inline", "thread_executor", "process_executor"])
def way(request, ways):
    return ways.get(request.param)


class TestCallback:
    def test_of_nothing(self, way):
        calls = []
        sq.sequence_map(np.copy, [], progress=lambda *call: calls.append(call), output_dtypes="int8", **way)
        assert calls == [(0, 0)]

    @pytest.mark.parametrize(
        "progress",
        [0, 1, 2.5, "", "bar", (), [print]],
    )
    def test_neither_bool_nor_callable(self, progress):
        calls = []
        with pytest.raises(TypeError, match=type(progress).__name__):
            sq.sequence_map(lambda a: calls.append(a) or a, numbers(3), progress=progress)
        assert calls == []


class TestBar:
    def test_shows_and_ends(self, way, capsys):
        sq.sequence_map(bodies.double, numbers(50), progress=True, **way)
        out, err = capsys.readouterr()
        assert out == ""
        assert "0/50" in err
        assert "50/50" in err
        assert "100%" in err
        assert err.endswith("\n")

    @pytest.mark.parametrize("error", [Refusal(), KeyboardInterrupt()])
    def test_ends_on_failure(self, way, capsys, error):
        with pytest.raises(type(error)):
            sq.sequence_map(FailAt({20: error}), numbers(50), progress=True, chunksize=4, **way)
        err = capsys.readouterr().err
        assert "/50" in err
        assert "50/50" not in err
        assert err.endswith("\n")

    def test_without_tqdm(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "tqdm.auto", None)
        with pytest.raises(ImportError, match="pip install tqdm"):
            sq.sequence_map(bodies.double, numbers(3), progress=True)


# Ctrl-C is tried in processes of its own. Each maps a body, gets the signal, and tells how long the
# KeyboardInterrupt took to come, and how many elements were started after it had.
SLOW_BODY = """
import json, multiprocessing, os, signal, sys, threading, time
signal.signal(signal.SIGINT, signal.default_int_handler)    # a shell has it ignored in the background
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
import seqcore as sq
from support import bodies

def press():
    while len(body.started()) < 5:
        time.sleep(0.01)
    time.sleep(0.1)     # all bodies are asleep
    pressed.append(time.monotonic())
    os.kill(whom * os.getpid(), signal.SIGINT)

body, pressed = bodies.Logged(sys.argv[1], 0.2), []
spawn = multiprocessing.get_context("spawn")
way, whom = eval(sys.argv[2]), int(sys.argv[3])
threading.Thread(target=press, daemon=True).start()
try:
    sq.sequence_map(body, bodies.numbers(1000), **way)
except KeyboardInterrupt:
    took, started = time.monotonic() - pressed[0], len(body.started())
    time.sleep(0.8)
    print(json.dumps([took, len(body.started()) - started]))
if whom == 1:
    assert len(sq.sequence_map(bodies.double, bodies.numbers(9), **way)) == 9
"""
COMPILED_BODY = """
import functools, json, os, signal, threading, time
signal.signal(signal.SIGINT, signal.default_int_handler)
import numpy as np, seqcore as sq

def press():
    pressed.append(time.monotonic())
    os.kill(os.getpid(), signal.SIGINT)

body = functools.partial(np.add.reduce, keepdims=True)
tensor, pressed = np.ones(1_000_000), []
began = time.perf_counter()
sq.sequence_map(body, [tensor] * 100)
many = int(500 / (time.perf_counter() - began))
threading.Timer(0.2, press).start()
try:
    sq.sequence_map(body, [tensor] * many)
except KeyboardInterrupt:
    print(json.dumps([time.monotonic() - pressed[0], 0]))
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="needs signals")
class TestCtrlC:
    def press(self, script, *arguments):
        """Run a script; return what it tells, and what it has complained about."""
        outcome = run_python("-c", script, *arguments, start_new_session=True)
        assert outcome.returncode == 0, outcome.stderr
        return *json.loads(outcome.stdout), outcome.stderr

    @pytest.mark.mostly_at_night(2)
    @pytest.mark.parametrize("way", ["{}", "{'max_workers': 4}", "{'executor': ThreadPoolExecutor(4)}"])
    def test_starts_no_further_element(self, way, tmp_path):
        took, more, stderr = self.press(SLOW_BODY, str(tmp_path / "log"), way, "1")
        assert took < 5
        assert more == 0
        assert stderr == ""

    # For one process, or for its group too, as a terminal sends it.
    @pytest.mark.mostly_at_night(2)
    @pytest.mark.parametrize("whom", ["-1", "1"])
    def test_on_processes(self, tmp_path, whom):
        way = "{'executor': ProcessPoolExecutor(2, spawn)}"
        took, more, stderr = self.press(SLOW_BODY, str(tmp_path / "log"), way, whom)
        assert took < 5
        assert more <= 5  # the pool's queue keeps hold of three chunks, and each worker of one
        assert whom == "-1" or stderr == ""

    def test_compiled_body(self):
        took, _, stderr = self.press(COMPILED_BODY)
        assert took < 1
        assert stderr == ""
