"""What maps take and refuse before they call the body."""

import functools

import numpy as np
import pytest
from support.bodies import numbers

import seqcore as sq

WORKERS = pytest.mark.parametrize("max_workers", [1, 2, 4, None])
MAPS = pytest.mark.parametrize(
    "run",
    [sq.sequence_map, sq.map_batches, functools.partial(sq.map_batches, new_axis=1)],
    ids=["elements", "batches", "stacked batches"],
)


@WORKERS
class TestResults:
    def test_identity_shares_memory(self, max_workers):
        tensor = np.zeros((4, 3))
        result = sq.sequence_map(lambda a: a, sq.split_to_sequence(tensor), max_workers=max_workers)
        assert all(np.shares_memory(piece, tensor) for piece in result)


@MAPS
@WORKERS
class TestRejectedBeforeTheFirstCall:
    @pytest.mark.parametrize("lengths", [(3, 2), (2, 3), (3, 3, 4), (3, 0), (0, 1)])
    @pytest.mark.parametrize("kind", [sq.TensorSequence, list])
    def test_unequal_lengths(self, run, max_workers, lengths, kind):
        calls = []
        choice = [sq.sequence_empty("int64"), *(numbers(n, kind) for n in range(1, 5))]
        sequences, first, last = [choice[n] for n in lengths], lengths[0], lengths[-1]
        with pytest.raises(ValueError, match=rf"\b({first}\b.*\b{last}|{last}\b.*\b{first})\b") as caught:
            run(lambda *tensors: calls.append(tensors), *sequences, max_workers=max_workers)
        assert calls == []
        wrong = next(i for i, n in enumerate(lengths) if n != first)
        assert ("a list counts as a sequence" in str(caught.value)) == isinstance(sequences[wrong], list)

    @pytest.mark.parametrize("seq", [np.zeros((2, 3)), None, 3, "ab"])
    def test_first_input_is_no_sequence(self, run, max_workers, seq):
        with pytest.raises(TypeError, match=type(seq).__name__):
            run(lambda a: a, seq, max_workers=max_workers)


@MAPS
@WORKERS
class TestEmptyInput:
    def test_needs_types(self, run, max_workers):
        with pytest.raises(ValueError, match="output_dtypes"):
            run(lambda a: a, sq.sequence_empty(), max_workers=max_workers)

    @pytest.mark.parametrize("dtype", ["int16", np.float64, np.dtype(bool), "string", "bfloat16"])
    def test_one_type_gives_one_sequence(self, run, max_workers, dtype):
        result = run(lambda a: a, sq.sequence_empty(), max_workers=max_workers, output_dtypes=dtype)
        assert isinstance(result, sq.TensorSequence)
        assert (len(result), result.dtype) == (0, sq.sequence_empty(dtype).dtype)

    def test_types_give_a_sequence_each(self, run, max_workers):
        dtypes = ("bool", "string")
        several = run(pytest.fail, [], np.zeros(3), max_workers=max_workers, output_dtypes=dtypes)
        assert isinstance(several, tuple)
        assert [(len(seq), seq.dtype) for seq in several] == [(0, bool), (0, object)]
