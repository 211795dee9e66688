"""map_batches: what the body sees, how its results come back, and what is refused."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from support.bodies import numbers
from support.strategies import assert_holds

import seqcore as sq

WORKERS = pytest.mark.parametrize("max_workers", [1, 2, None])
AXES = pytest.mark.parametrize("new_axis", [0, 1])


def rows(count, width=2):
    return sq.split_to_sequence(np.arange(count * width).reshape(count, width), keepdims=0)


class Seen:
    """A body that keeps what it gets."""

    def __init__(self, body=lambda *batches: batches[0]):
        self.batches, self.body, self.lock = [], body, threading.Lock()

    def __call__(self, *batches):
        with self.lock:
            self.batches.append(batches)
        return self.body(*batches)


# --- what the body sees ---


@WORKERS
def test_a_batch_is_a_view_where_elements_lie_together(max_workers):
    table = np.arange(60.0).reshape(30, 2)
    for seq, new_axis in (
        (sq.split_to_sequence(table, [3, 0, 7, 15, 5]), 0),
        (sq.split_to_sequence(table), 0),
        (sq.split_to_sequence(table, keepdims=0), 1),
        (sq.split_to_sequence(table, 5), 1),
    ):
        for batch_size in (None, 2, 100):
            body = Seen()
            sq.map_batches(body, seq, new_axis=new_axis, batch_size=batch_size, max_workers=max_workers)
            assert all(np.shares_memory(batch, table) for (batch,) in body.batches if batch.size)


@AXES
@WORKERS
def test_batches_and_whole_tensors_are_read_only(max_workers, new_axis):
    whole = np.arange(2)
    for seq in (rows(6), sq.TensorSequence([np.array([i, i]) for i in range(6)])):
        body = Seen()
        sq.map_batches(body, seq, seq, whole, 5, new_axis=new_axis, batch_size=2, max_workers=max_workers)
        assert not any(one.flags.writeable for batches in body.batches for one in batches)
        assert all(type(one) is np.ndarray for batches in body.batches for one in batches)
    assert whole.flags.writeable

    def write(batch, more):
        more[...] = 7
        return batch

    with pytest.raises(ValueError, match="read-only"):
        sq.map_batches(write, rows(6), whole, new_axis=new_axis, batch_size=2, max_workers=max_workers)
    assert whole.tolist() == [0, 1]


@WORKERS
def test_results_are_as_long_as_elements(max_workers):
    """Also where these are as long together as if each had the first one's length."""
    even = sq.split_to_sequence(np.arange(9.0), 2)
    more = even[:2] + [np.arange(1.0), np.arange(3.0)]
    for seq in (even, even[::-1], even[::2], even[1:], more, more[::-1]):
        found = sq.map_batches(np.negative, seq, batch_size=len(seq), max_workers=max_workers)
        assert_holds(found, [-one for one in seq])


# --- against sequence_map ---


class TestOnAnExecutor:
    def test_each_worker_gets_batches(self):
        seq, calls = sq.split_to_sequence(np.zeros(50_000), 5), []
        with ThreadPoolExecutor(4) as executor:
            result = sq.map_batches(lambda a: calls.append(len(a)) or a, seq, executor=executor)
        assert len(result) == 10_000
        assert len(calls) >= 8

    def test_lists_have_the_type_of_the_first_batch(self):
        """No batch starts before it is known: of whole numbers it would be another."""
        seq = [np.full(2, 0.5)] + [np.full(2, 1.0)] * 40

        def body(batch):
            return [[0.5] if batch[0, 0] < 1 else [1]] * len(batch)

        with ThreadPoolExecutor(2) as executor:
            result = sq.map_batches(body, seq, batch_size=1, new_axis=True, executor=executor)
        assert result.dtype == np.float64
        assert result.values().tolist() == [0.5] + [1.0] * 40


# --- errors ---


@WORKERS
class TestRefused:
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
    )
    def test_options(self, max_workers, options, error):
        body = Seen()
        with pytest.raises(error):
            sq.map_batches(body, numbers(3), max_workers=max_workers, **options)
        assert body.batches == []

    def test_rank_0_can_only_be_stacked(self, max_workers):
        seq = sq.TensorSequence([np.array(i) for i in range(5)])
        with pytest.raises(ValueError, match=r"rank|shape|axis"):
            sq.map_batches(lambda b: b, seq, max_workers=max_workers)
        result = sq.map_batches(lambda b: b + 1, seq, new_axis=1, batch_size=2, max_workers=max_workers)
        assert_holds(result, [np.array(i + 1) for i in range(5)])

    @pytest.mark.parametrize("shapes", [[(2, 3), (2, 4)], [(2,), (2, 1)], [(1, 2), (3, 2), ()]])
    def test_other_shapes_behind_axis_0_can_only_be_stacked(self, max_workers, shapes):
        seq = sq.TensorSequence([np.full(shape, i) for i, shape in enumerate(shapes)])
        with pytest.raises(ValueError, match=r"rank|shape|axis|axes"):
            sq.map_batches(lambda b: b, seq, batch_size=len(shapes), max_workers=max_workers)
        result = sq.map_batches(lambda b: -b, seq, new_axis=1, max_workers=max_workers)
        assert_holds(result, [np.asarray(-a) for a in seq])


@pytest.mark.parametrize("at", [1, 3])
def test_an_element_that_cannot_be_joined_is_named(at):
    seq = sq.TensorSequence([np.zeros((k, 2 if k < at else 3)) for k in range(5)])
    words = rf"element {at} of input 1 has shape \({at}, 3\), but element 0 has \(0, 2\)"
    with pytest.raises(ValueError, match=words):
        sq.map_batches(np.add, seq[[0] * 5], seq, batch_size=2)


@pytest.mark.parametrize("max_workers", [0, -1, 1.5])
def test_workers_that_make_no_sense(max_workers):
    with pytest.raises((ValueError, TypeError), match="max_workers"):
        sq.map_batches(lambda b: b, numbers(3), max_workers=max_workers)


# --- Ctrl-C, in a process of its own ---


@pytest.mark.parametrize(
    ("before", "then", "message"),
    [
        (2, 3, "a tuple of 3, expected one of 2 as before"),
        (0, 2, "a tuple of 2, expected one tensor as for"),
        (2, 0, "one tensor, expected a tuple of 2 as for"),
    ],
)
def test_another_number_of_outputs(before, then, message):
    def body(batch):
        count = before if batch[0] < 3 else then
        return (batch,) * count if count else batch

    with pytest.raises(TypeError, match=f"elements 3 to 5.*the body returned {message}"):
        sq.map_batches(body, numbers(9), batch_size=3)


@pytest.mark.parametrize("function", [sq.sequence_map, sq.map_batches])
def test_no_output_dtypes(function):
    with pytest.raises(ValueError, match="output_dtypes is empty, expected a dtype, or one for each output"):
        function(np.copy, numbers(3), output_dtypes=())
