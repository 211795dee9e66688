"""Arrays and sequences changed at random while Python code of the package runs: results are sound."""

import pickle
import random
import sys
import warnings

import numpy as np
import pytest
from support.random_cases import seeds

import seqcore as sq
from seqcore import TensorSequence

pytestmark = pytest.mark.thread_unsafe  # a profile function is asked for one thread

SHAPES = [(6, 4), (24,), (1,), (8, 2), (2, 2, 4)]
TYPES = [np.int8, np.int16, np.int32, np.int64, np.float32, np.float64]
ROWS = [[0], [1, 0], [1] * 6, [1] * 8]


def sevens(shape, dtype):
    """An array all of whose bytes are 7, in any type."""
    bytes_ = np.full(int(np.prod(shape)) * np.dtype(dtype).itemsize, 7, np.uint8)
    return bytes_.view(dtype).reshape(shape)


def assert_sound(array, sources):
    """Nothing was read beside the memory of the sources: that would hardly be of sevens, or of one number."""
    if array.size and not np.all(np.ascontiguousarray(array).reshape(-1).view(np.uint8) == 7):
        begin = array.ctypes.data
        assert not any(one.ctypes.data <= begin < one.ctypes.data + one.nbytes for one in sources)
        assert np.all(array == array.reshape(-1)[0])  # converted, from what it was for a while


def change(rng, seq, arrays):
    array = rng.choice(arrays)
    n = array.size
    try:
        what = rng.randrange(10)
        if what < 4:
            array.dtype = rng.choice(TYPES)
        elif what < 8:
            array.shape = rng.choice([(n,), (1, n), (n, 1), (2, n // 2), (n // 2, 2), ()])
        elif what == 8:
            rng.choice([seq.clear, seq.reverse, seq.compact])()
        else:
            seq.extend(seq[:3])
    except (AttributeError, TypeError, ValueError):
        pass  # an array that can't be so


CALLS = [
    lambda seq, a, b, row: TensorSequence([a, b]),
    lambda seq, a, b, row: TensorSequence([a, b], copy=True),
    lambda seq, a, b, row: seq.append(a),
    lambda seq, a, b, row: seq.insert(0, a),
    lambda seq, a, b, row: seq.extend([a, b]),
    lambda seq, a, b, row: seq.__setitem__(slice(0, 1), [a, b]),
    lambda seq, a, b, row: seq.__setitem__(row, [a] * row.size),
    lambda seq, a, b, row: seq.remove(a),
    lambda seq, a, b, row: seq[row],
    lambda seq, a, b, row: seq + [a],
    lambda seq, a, b, row: sq.split_to_sequence(a),
    lambda seq, a, b, row: sq.split_to_sequence(a, 2, axis=-1),
    lambda seq, a, b, row: sq.split_to_sequence(a, row),
    lambda seq, a, b, row: sq.split_to_sequence(a, keepdims=0),
    lambda seq, a, b, row: TensorSequence.from_lengths(a, row),
    lambda seq, a, b, row: TensorSequence.from_lengths(a, [1] * len(a)),
    lambda seq, a, b, row: TensorSequence.from_offsets(a, [0, len(a)]),
    lambda seq, a, b, row: TensorSequence.from_padded(a, row),
    lambda seq, a, b, row: TensorSequence.from_padded(a, [1] * len(a)),
    lambda seq, a, b, row: sq.map_batches(lambda batch: a, seq, batch_size=1, new_axis=1),
    lambda seq, a, b, row: sq.map_batches(lambda batch: a, seq, batch_size=2),
    lambda seq, a, b, row: sq.sequence_map(lambda tensor: a, seq),
    lambda seq, a, b, row: sq.concat_from_sequence(seq, 0),
    lambda seq, a, b, row: seq.values(),
    lambda seq, a, b, row: pickle.loads(pickle.dumps(seq, 5)),
    lambda seq, a, b, row: remade(seq, [(a, 0), (b, -1)], [[0, 0, 1], [1, 0, 1], [0, 1, 1]]),
]


def remade(seq, parts, table):
    make, (cls, name, *_), *_ = seq.__reduce_ex__(5)
    return make(cls, name, parts, np.array(table))


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(10, 40))
def test_whatever_is_changed_a_result_is_sound(seed):
    rng = random.Random(seed)
    inside = False

    def profile(frame, event, arg):
        nonlocal inside
        if not inside and rng.random() < often:
            inside = True
            change(rng, seq, arrays)
            inside = False

    done = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of shapes that are set, and of numbers that are converted
        for _ in range(1000):
            dtype, often = rng.choice(TYPES), rng.choice([0.02, 0.1, 0.3])
            kinds = [dtype, np.dtype(dtype, metadata={"unit": "m"})]
            arrays = [sevens(rng.choice(SHAPES), rng.choice(kinds)) for _ in range(2)]
            arrays.append(np.array(rng.choice(ROWS), np.int64))
            seq = TensorSequence([sevens((3, 2), dtype), sevens((3, 2), dtype)])
            call, result = rng.choice(CALLS), None
            sys.setprofile(profile)
            try:
                result = call(seq, *arrays)
                done += 1
            except (IndexError, TypeError, ValueError):
                pass  # of what they have become
            finally:
                sys.setprofile(None)
            for found in (seq, result):
                if isinstance(found, TensorSequence):
                    found._check()
                for tensor in found if isinstance(found, TensorSequence) else [found]:
                    if tensor is not None:
                        assert_sound(tensor, arrays)
    assert done > 300
