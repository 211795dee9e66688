"""The first runs of a session: the given model goes whole, and is compiled when that is worth it."""

import threading

from support.models.engines import TURN, turned
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
