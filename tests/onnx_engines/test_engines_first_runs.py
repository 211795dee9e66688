"""The first runs of a session: the given model goes whole, and is compiled when that is worth it."""

import threading

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from support.models.engines import APPEND_ROWS, TURN, turned
from support.models.sessions import assert_values, floats, i64, model

from seqcore.onnx import InferenceSession
from seqcore.onnx._thresholds import LONG


def used_for(text):
    session = InferenceSession(model(text))
    return session, session._engines


def is_compiled(engines):
    return bool(engines._compiled._made)


def turn(session, n, trips=3):
    elements = floats(*[2] * n)
    (found,) = session.run(None, {"s": elements, "n": i64(trips)})
    assert_values([found], [turned(elements, trips)])


def test_the_third_run_is_of_the_compiled_model():
    session, engines = used_for(TURN)
    for _ in range(2):
        turn(session, 4)
        assert not is_compiled(engines)
    turn(session, 4)
    assert is_compiled(engines)
    assert engines.compiled.tiers[0].taken >= 1


def test_a_long_run_is_of_the_compiled_model():
    session, engines = used_for(TURN)
    turn(session, LONG + 1, LONG + 1)
    assert is_compiled(engines)


def test_a_run_of_many_iterations_is_of_the_compiled_model():
    session, engines = used_for(TURN)
    turn(session, 3, LONG + 1)
    assert is_compiled(engines)


def test_an_error_names_the_node_in_the_first_run():
    session, _ = used_for(TURN)
    with pytest.raises(IndexError, match="SequenceAt"):
        session.run(None, {"s": [], "n": i64(1)})
    turn(session, 2)


def test_what_never_goes_whole_is_compiled_at_once():
    text = "f (seq(float[]) s) => (float[A] y) { y = ConcatFromSequence <axis = 0> (s) }"
    _, engines = used_for(text)
    assert is_compiled(engines)
    assert "whose ranks may differ" in engines.compiled.declined


def test_whoever_asks_for_what_becomes_of_it_has_it_compiled():
    session, engines = used_for(APPEND_ROWS)
    compiled = engines.compiled
    feed = {"x": np.ones((3, 2), np.float32), "s": [], "n": i64(3), "position": i64(0)}
    session.run(None, feed)
    assert engines.compiled is compiled
    assert engines._first is None


def test_threads_compile_once():
    session, engines = used_for(TURN)
    barrier = threading.Barrier(4)
    failed = []

    def work():
        barrier.wait()
        try:
            for _ in range(6):
                turn(session, 5)
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(60)
    assert not failed
    assert len(engines._compiled._made) == 1
