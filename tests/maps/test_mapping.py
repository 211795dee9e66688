"""sequence_map with callables, serial and threaded: order, types, errors, and what the body sees."""

import contextlib
import contextvars
import gc
import random
import sys
import threading
import time
import weakref

import numpy as np
import pytest
from support.strategies import NAMES, assert_holds, filled

import seqcore as sq

GIL = getattr(sys, "_is_gil_enabled", lambda: True)()

WORKERS = pytest.mark.parametrize("max_workers", [1, 2, 4, None])
THREADS = pytest.mark.parametrize("max_workers", [2, 4])
COLOUR = contextvars.ContextVar("COLOUR", default="none")


def numbers(count, kind=sq.TensorSequence):
    return kind([np.array([i]) for i in range(count)])


def within(seconds, function):
    """Call the function, but fail where it takes so long that it must hang."""
    outcome = []
    thread = threading.Thread(target=lambda: outcome.append(function()), daemon=True)
    thread.start()
    thread.join(seconds)
    assert not thread.is_alive(), "deadlock"
    return outcome[0]


@WORKERS
class TestResults:
    @pytest.mark.parametrize("count", [1, 2, 3, 7, 100, 1001])
    def test_order(self, max_workers, count):
        result = sq.sequence_map(lambda a: a * 2, numbers(count), max_workers=max_workers)
        assert_holds(result, [np.array([2 * i]) for i in range(count)])

    @pytest.mark.slow
    def test_order_when_the_first_are_slow(self, max_workers):
        wait = random.Random(0)

        def body(a):
            time.sleep(wait.random() * 0.01)
            return a

        assert_holds(sq.sequence_map(body, numbers(20), max_workers=max_workers), [*numbers(20)])

    @pytest.mark.parametrize("name", NAMES)
    def test_each_type(self, max_workers, name):
        tensors = [filled(name, shape, i) for i, shape in enumerate([(2, 3), (), (0, 2), (5,)])]
        assert_holds(sq.sequence_map(lambda a: a.T, tensors, max_workers=max_workers), [a.T for a in tensors])

    @pytest.mark.parametrize("kind", [sq.TensorSequence, list, tuple])
    def test_each_kind_of_sequence(self, max_workers, kind):
        first, second = numbers(9, kind), numbers(9, kind)
        result = sq.sequence_map(np.add, first, second, max_workers=max_workers)
        assert isinstance(result, sq.TensorSequence)
        assert [int(a[0]) for a in result] == [2 * i for i in range(9)]
        assert len(first) == 9

    def test_several_outputs(self, max_workers):
        results = sq.sequence_map(
            lambda a: (a, a + 0.5, np.array(str(a), object)), numbers(50), max_workers=max_workers
        )
        assert isinstance(results, tuple)
        assert [result.dtype for result in results] == [np.int64, np.float64, object]
        assert_holds(results[0], [*numbers(50)])
        assert_holds(results[1], [np.array([i + 0.5]) for i in range(50)])
        assert [words.item() for words in results[2]] == [f"[{i}]" for i in range(50)]

    def test_tuple_of_one_is_a_tuple(self, max_workers):
        (result,) = sq.sequence_map(lambda a: (a,), numbers(5), max_workers=max_workers)
        assert_holds(result, [*numbers(5)])

    def test_sequences_are_indexed_and_arrays_go_whole(self, max_workers):
        whole, scalar = np.arange(3), np.array(7)
        result = sq.sequence_map(
            lambda a, b, c, d, e: a + b.sum() + c + d + e,
            numbers(30),
            whole,
            numbers(30, list),
            scalar,
            numbers(30, tuple),
            max_workers=max_workers,
        )
        assert [int(a[0]) for a in result] == [3 * i + 3 + 7 for i in range(30)]

    def test_array_as_long_as_the_sequence_goes_whole_too(self, max_workers):
        result = sq.sequence_map(lambda a, b: b, numbers(4), np.arange(4), max_workers=max_workers)
        assert_holds(result, [np.arange(4)] * 4)

    def test_scalars_and_views_as_outputs(self, max_workers):
        tensors = [np.arange(6.0).reshape(2, 3) + i for i in range(8)]
        sums, turned = sq.sequence_map(lambda a: (a.sum(), a[::-1, ::2].T), tensors, max_workers=max_workers)
        assert_holds(sums, [np.array(a.sum()) for a in tensors])
        assert_holds(turned, [a[::-1, ::2].T for a in tensors])

    def test_body_gets_read_only_elements(self, max_workers):
        flags = []
        sq.sequence_map(lambda a: flags.append(a.flags.writeable) or a, numbers(10), max_workers=max_workers)
        assert flags == [False] * 10

    def test_identity_shares_memory(self, max_workers):
        tensor = np.zeros((4, 3))
        result = sq.sequence_map(lambda a: a, sq.split_to_sequence(tensor), max_workers=max_workers)
        assert all(np.shares_memory(piece, tensor) for piece in result)


@WORKERS
class TestSnapshot:
    @pytest.mark.parametrize("kind", [sq.TensorSequence, list])
    @pytest.mark.parametrize("edit", ["clear", "reverse", "pop", "append"])
    def test_edits_during_the_map_do_not_count(self, max_workers, kind, edit):
        seq = numbers(40, kind)

        def body(a):
            if len(seq):
                seq.append(np.array([99])) if edit == "append" else getattr(seq, edit)()
            return a

        assert_holds(sq.sequence_map(body, seq, max_workers=max_workers), [*numbers(40)])

    def test_second_sequence_too(self, max_workers):
        seq = numbers(40)

        def body(a, b):
            seq.clear()
            return a + b

        result = sq.sequence_map(body, numbers(40), seq, max_workers=max_workers)
        assert [int(a[0]) for a in result] == [2 * i for i in range(40)]


@WORKERS
class TestRejectedBeforeTheFirstCall:
    @pytest.mark.parametrize("lengths", [(3, 2), (2, 3), (3, 3, 4), (3, 0), (0, 1)], ids=str)
    @pytest.mark.parametrize("kind", [sq.TensorSequence, list])
    def test_unequal_lengths(self, max_workers, lengths, kind):
        calls = []
        choice = [sq.sequence_empty("int64"), *(numbers(n, kind) for n in range(1, 5))]
        sequences, first, last = [choice[n] for n in lengths], lengths[0], lengths[-1]
        with pytest.raises(ValueError, match=rf"\b({first}\b.*\b{last}|{last}\b.*\b{first})\b"):
            sq.sequence_map(lambda *tensors: calls.append(tensors), *sequences, max_workers=max_workers)
        assert calls == []

    @pytest.mark.parametrize("seq", [np.zeros((2, 3)), None, 3, "ab"], ids=repr)
    def test_first_input_is_no_sequence(self, max_workers, seq):
        with pytest.raises(TypeError, match=type(seq).__name__):
            sq.sequence_map(lambda a: a, seq, max_workers=max_workers)


@WORKERS
class TestEmptyInput:
    def test_needs_types(self, max_workers):
        with pytest.raises(ValueError, match="output_dtypes"):
            sq.sequence_map(lambda a: a, sq.sequence_empty(), max_workers=max_workers)

    @pytest.mark.parametrize("dtype", ["int16", np.float64, np.dtype(bool), "string", "bfloat16"], ids=str)
    def test_one_type_gives_one_sequence(self, max_workers, dtype):
        result = sq.sequence_map(
            lambda a: a, sq.sequence_empty(), max_workers=max_workers, output_dtypes=dtype
        )
        assert isinstance(result, sq.TensorSequence)
        assert (len(result), result.dtype) == (0, sq.sequence_empty(dtype).dtype)

    def test_several_types_give_a_tuple(self, max_workers):
        results = sq.sequence_map(
            lambda a: a,
            sq.sequence_empty(),
            sq.sequence_empty("bool"),
            np.zeros(3),
            max_workers=max_workers,
            output_dtypes=("int16", "string"),
        )
        assert isinstance(results, tuple)
        assert [(len(result), result.dtype) for result in results] == [(0, np.int16), (0, object)]

    def test_types_that_agree_change_nothing(self, max_workers):
        result = sq.sequence_map(lambda a: a, numbers(3), max_workers=max_workers, output_dtypes="int64")
        assert_holds(result, [*numbers(3)])


@WORKERS
class TestOutputsThatDoNotFit:
    @pytest.mark.parametrize("at", [1, 7, 39])
    def test_another_type_later(self, max_workers, at):
        with pytest.raises(TypeError, match=rf"element {at}\b"):
            sq.sequence_map(
                lambda a: a.astype(float) if a[0] == at else a, numbers(40), max_workers=max_workers
            )

    @pytest.mark.parametrize("other", [lambda a: a, lambda a: (a,), lambda a: (a, a, a)])
    @pytest.mark.parametrize("at", [1, 39])
    def test_another_number_later(self, max_workers, at, other):
        def body(a):
            return other(a) if a[0] == at else (a, a)

        with pytest.raises(TypeError, match=rf"element {at}\b"):
            sq.sequence_map(body, numbers(40), max_workers=max_workers)

    @pytest.mark.parametrize("at", [0, 1, 39])
    @pytest.mark.parametrize("value", [np.zeros(1, "M8[s]"), None, b"a", np.array([None])], ids=repr)
    def test_no_tensor(self, max_workers, at, value):
        with pytest.raises(TypeError):
            sq.sequence_map(lambda a: value if a[0] == at else a, numbers(40), max_workers=max_workers)


class Refusal(Exception):
    def __init__(self, number, *, reason):
        super().__init__(number)
        self.reason = reason


@WORKERS
class TestErrorsInTheBody:
    @pytest.mark.parametrize("at", [0, 1, 39])
    @pytest.mark.parametrize("kind", [Refusal, StopIteration, IndexError, TypeError, KeyError])
    def test_comes_as_it_is_with_a_note(self, max_workers, kind, at):
        error = kind(1, reason="no") if kind is Refusal else kind(1)

        def body(a):
            if a[0] == at:
                raise error
            return a

        with pytest.raises(kind) as caught:
            sq.sequence_map(body, numbers(40), max_workers=max_workers)
        assert caught.value is error
        assert len([note for note in error.__notes__ if f"element {at}" in note]) == 1

    @pytest.mark.parametrize("pause", [0, 0.02])
    @pytest.mark.parametrize("later", ["raise", "type", "number"])
    @pytest.mark.parametrize("first", ["raise", "type", "number"])
    def test_first_failing_element_decides(self, max_workers, first, later, pause):
        def body(a):
            failure = {5: first, 6: later, 20: later, 39: later}.get(int(a[0]))
            if a[0] == 5:
                time.sleep(pause)
            if failure == "raise":
                raise Refusal(int(a[0]), reason="late")
            return {"type": a + 0.5, "number": (a, a)}.get(failure, a)

        expected = Refusal if first == "raise" else TypeError
        with pytest.raises(expected, match=r"element 5\b"):
            sq.sequence_map(body, numbers(40), max_workers=max_workers)

    def test_what_comes_before_still_runs(self, max_workers):
        ran = set()

        def body(a):
            ran.add(int(a[0]))
            time.sleep(0.0005)
            if a[0] in (30, 31, 60):
                raise Refusal(int(a[0]), reason="stop")
            return a

        with pytest.raises(Refusal, match="30"):
            sq.sequence_map(body, numbers(200), max_workers=max_workers)
        assert set(range(31)) <= ran

    def test_what_has_not_started_is_dropped(self, max_workers):
        failed, late = threading.Event(), []

        def body(a):
            if failed.is_set():
                late.append(int(a[0]))
            time.sleep(0.001)
            if a[0] == 3:
                failed.set()
                raise Refusal(3, reason="stop")
            return a

        with pytest.raises(Refusal):
            sq.sequence_map(body, numbers(2000), max_workers=max_workers)
        assert len(late) <= 20  # that the others start until they hear of it

    def test_the_next_map_is_none_the_worse(self, max_workers):
        with pytest.raises(ZeroDivisionError):
            sq.sequence_map(lambda a: 1 // 0, numbers(9), max_workers=max_workers)
        assert_holds(sq.sequence_map(lambda a: a, numbers(9), max_workers=max_workers), [*numbers(9)])


class TestThreads:
    def test_one_worker_is_the_calling_thread(self):
        seen = []
        sq.sequence_map(lambda a: seen.append(threading.get_ident()) or a, numbers(20), max_workers=1)
        assert {*seen} == {threading.get_ident()}

    @pytest.mark.slow
    @THREADS
    def test_that_many_run_at_once(self, max_workers):
        running, most, lock = 0, 0, threading.Lock()

        def body(a):
            nonlocal running, most
            with lock:
                running += 1
                most = max(most, running)
            time.sleep(0.002)
            with lock:
                running -= 1
            return a

        sq.sequence_map(body, numbers(200), max_workers=max_workers)
        assert most == max_workers

    @WORKERS
    def test_context_variables_of_the_caller_hold(self, max_workers):
        token = COLOUR.set("green")
        try:
            result = sq.sequence_map(
                lambda a: np.array(COLOUR.get(), object), numbers(100), max_workers=max_workers
            )
        finally:
            COLOUR.reset(token)
        assert {word.item() for word in result} == {"green"}

    @WORKERS
    def test_errstate_of_the_caller_holds(self, max_workers):
        def body(a):
            return np.array([1.0]) / (0.0 if a[0] == 50 else 1.0)

        with np.errstate(divide="ignore"):
            result = sq.sequence_map(body, numbers(100), max_workers=max_workers)
        assert np.isinf(result[50][0])
        with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
            sq.sequence_map(body, numbers(100), max_workers=max_workers)

    @WORKERS
    @pytest.mark.parametrize("inner_workers", [1, 2, 4])
    def test_nested_maps(self, max_workers, inner_workers):
        def inner(a):
            return sq.sequence_map(lambda b: b + a, numbers(7), max_workers=inner_workers)

        def body(a):
            return sq.concat_from_sequence(inner(a), 0)

        result = within(20, lambda: sq.sequence_map(body, numbers(15), max_workers=max_workers))
        assert_holds(result, [np.arange(7) + i for i in range(15)])

    def test_maps_nested_three_deep(self):
        def at_depth(depth, a):
            if depth == 0:
                return a
            results = sq.sequence_map(lambda b: at_depth(depth - 1, b + a), numbers(4), max_workers=3)
            return sq.concat_from_sequence(results, 0)

        result = within(20, lambda: at_depth(3, np.array([0])))
        assert result.tolist() == [i + j + k for i in range(4) for j in range(4) for k in range(4)]

    def test_maps_from_several_threads(self):
        def run():
            for _ in range(10):
                result = sq.sequence_map(lambda a: a + 1, numbers(30), max_workers=2)
                assert [int(a[0]) for a in result] == [*range(1, 31)]
            return True

        outcomes = []
        threads = [threading.Thread(target=lambda: outcomes.append(run()), daemon=True) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        assert outcomes == [True] * 4


@pytest.mark.parametrize(
    "options", [{}, {"max_workers": 2, "chunksize": 1}, {"output_dtypes": "float64"}], ids=str
)
def test_an_error_that_is_let_go_keeps_nothing(options):
    """Without a search for cycles: what it refers to does not refer to it."""

    def fail(tensor):
        raise KeyError(3)

    array = np.zeros(3)
    alive = weakref.ref(array)
    seq = sq.sequence_map(np.copy, sq.TensorSequence([array, array]))
    seq.append(array)
    del array
    gc.disable()
    try:
        with contextlib.suppress(KeyError):
            sq.sequence_map(fail, seq, **options)
        seq.clear()
        until = time.monotonic() + (0 if GIL else 20)  # without it a thread that made the error has to wake
        while alive() is not None and time.monotonic() < until:
            time.sleep(1e-3)
        assert alive() is None
    finally:
        gc.enable()
