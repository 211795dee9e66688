"""Maps over loaded sequences: processes and Dask's workers get paths and positions, not the elements."""

import pickle

import numpy as np
import pytest
from support import bodies
from support.bodies import Recording
from support.saved import look_at, needs_proc, pa, saved, write_column
from support.strategies import assert_holds

import seqcore as sq
from seqcore import TensorSequence

COUNT = 400


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    """Element i is 2,000 times the number i."""
    values = np.repeat(np.arange(COUNT, dtype=np.float64), 2_000)
    rows = np.split(values, 4)
    parts = (TensorSequence.from_lengths(row, [2_000] * 100) for row in rows)
    return saved(tmp_path_factory.mktemp("files") / "large.arrow", parts)


def doubles(positions):
    return [np.full(2_000, 2.0 * i) for i in positions]


def sent(executor):
    """All the bytes that went to an executor."""
    return sum(size + sum(buffers) for size, buffers in executor.sizes)


# --- processes ---


@pytest.mark.slow
@pytest.mark.parametrize("chunksize", [None, 1, 7, 1000])
def test_processes(processes, loaded, chunksize):
    result = sq.sequence_map(bodies.double, loaded[::3], executor=processes, chunksize=chunksize)
    assert_holds(result, doubles(range(0, COUNT, 3)))


@pytest.mark.slow
@pytest.mark.parametrize("chunksize", [None, 1, 20])
def test_chunks_are_small(loaded, chunksize):
    executor = Recording()
    result = sq.sequence_map(bodies.double, loaded, executor=executor, chunksize=chunksize)
    assert_holds(result, doubles(range(COUNT)))
    assert sent(executor) <= 4_000 * len(executor.sizes) + 40 * COUNT
    assert sent(executor) < loaded.nbytes / 2


@pytest.mark.parametrize("new_axis", [0, 1])
def test_batches_are_small(loaded, new_axis):
    executor = Recording()
    order = np.random.default_rng(0).permutation(COUNT)
    result = sq.map_batches(bodies.double, loaded[order], batch_size=50, executor=executor, new_axis=new_axis)
    assert_holds(result, doubles(order))
    assert len(executor.sizes) >= 3
    assert sent(executor) <= 4_000 * len(executor.sizes) + 40 * COUNT


@needs_proc
def test_results_are_no_paths(processes, loaded):
    """Also where the body gives back what it got."""
    result = sq.sequence_map(np.positive, loaded[:20], executor=processes, chunksize=5)
    _, arrays, _ = look_at(result)
    assert_holds(result, arrays)
    assert len(pickle.dumps(result)) > result.nbytes


def test_a_compressed_file(processes, tmp_path):
    column = pa.array([[float(i)] * 50 for i in range(40)])
    seq = sq.load(write_column(tmp_path / "a", column, compression="lz4", max_chunksize=9))
    result = sq.sequence_map(bodies.double, seq, executor=processes, chunksize=3)
    assert_holds(result, [np.full(50, 2.0 * i) for i in range(40)])
