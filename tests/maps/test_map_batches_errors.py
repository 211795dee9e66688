"""map_batches: errors, progress, executors, Ctrl-C and graphs."""

import numpy as np
import pytest
from support.bodies import numbers
from support.strategies import assert_holds
from test_map_batches import AXES, WORKERS, Seen

import seqcore as sq

pytestmark = pytest.mark.mostly_slow(3)

# --- errors ---


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


def test_progress_of_nothing():
    calls = []
    sq.map_batches(lambda b: b, [], progress=lambda *call: calls.append(call), output_dtypes="int8")
    assert calls == [(0, 0)]


# --- executors ---


# --- Ctrl-C, in a process of its own ---


def test_a_tuple_of_another_length():
    def body(batch):
        return (batch,) * (2 if batch[0] < 3 else 3)

    with pytest.raises(TypeError, match=r"elements 3 to 5.*a tuple of 3, expected one of 2 as before"):
        sq.map_batches(body, numbers(9), batch_size=3)


@pytest.mark.parametrize("function", [sq.sequence_map, sq.map_batches])
def test_no_output_dtypes(function):
    with pytest.raises(ValueError, match="output_dtypes is empty, expected a dtype, or one for each output"):
        function(np.copy, numbers(3), output_dtypes=())
