"""The first runs of a session: the given model goes whole, and is compiled when that is worth it."""

from support.models.engines import TURN, for_all_ranks, turned
from support.models.sessions import assert_values, floats, i64, in_threads

from seqcore.onnx._thresholds import LONG


def is_compiled(session):
    return bool(session._engines._compiled._made)


def turn(session, n, trips=3):
    elements = floats(*[2] * n)
    (found,) = session.run(None, {"s": elements, "n": i64(trips)})
    assert_values([found], [turned(elements, trips)])


def test_the_third_run_is_of_the_compiled_model():
    session = for_all_ranks(TURN)
    for _ in range(2):
        turn(session, 4)
        assert not is_compiled(session)
    turn(session, 4)
    assert is_compiled(session)
    assert session._engines.compiled.tiers[0].taken >= 1


def test_a_long_run_is_of_the_compiled_model():
    session = for_all_ranks(TURN)
    turn(session, LONG + 1, LONG + 1)
    assert is_compiled(session)


def test_threads_compile_once():
    session = for_all_ranks(TURN)
    in_threads(4, lambda k: [turn(session, 5) for _ in range(6)])
    assert len(session._engines._compiled._made) == 1


def test_another_thread_compiles_during_a_run():
    session = for_all_ranks(TURN)
    engines = session._engines

    class Compiling(int):
        def __add__(self, other):
            assert engines.compiled  # as another thread may have it now
            return int(self) + other

    engines._runs = Compiling()
    turn(session, 4)
    turn(session, 4)
