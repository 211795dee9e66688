"""Loaded sequences in other processes: pools and loaders of every start method open the files themselves."""

import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.reduction import ForkingPickler

import numpy as np
import pytest
from support import bodies, loaders
from support.processes import METHODS
from support.saved import Tagged, look_at, ragged, sum_of, touched
from support.strategies import assert_holds

import seqcore as sq
from seqcore import TensorSequence

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")


@pytest.fixture(scope="module", params=METHODS)
def context(request):
    return multiprocessing.get_context(request.param)


@pytest.fixture(scope="module")
def pool(context):
    with ProcessPoolExecutor(2, mp_context=context) as pool:
        yield pool


@pytest.fixture
def seq(tmp_path):
    paths = [tmp_path / "a b.arrow", tmp_path / "c.arrow"]
    sq.save(paths[0], ragged([i % 5 for i in range(200)], "float64"))
    sq.save(paths[1], iter([ragged([3, 0], "float64", start=5), ragged([2, 9], "float64")]))
    for path in paths:
        touched(path, 1_000_000_000)
    return sq.load(paths)


@pytest.mark.slow
def test_sums(pool, seq):
    asked = [seq, seq[::-1], seq[[203, 5, 5, 0]], seq[:0], seq[5:60] + seq[200:]]
    asked.append(seq + TensorSequence([[7.0]]))
    assert list(pool.map(sum_of, asked)) == [sum_of(one) for one in asked]


@pytest.mark.slow
def test_elements_arrive_as_they_are(pool, seq):
    kind, arrays, read_only = pool.submit(look_at, seq).result(60)
    assert kind is TensorSequence
    assert read_only
    assert_holds(seq, arrays)


@pytest.mark.mostly_slow(3)
def test_what_comes_from_a_process_is_a_path_too(pool, seq):
    back = pool.submit(loaders.identity, seq[::-1]).result(60)
    assert_holds(back, list(seq[::-1]))
    assert len(ForkingPickler.dumps(back)) < 2_000 + 8 * len(back)


@pytest.mark.mostly_slow(3)
def test_a_changed_file_is_an_error_there(pool, seq, tmp_path):
    assert pool.submit(sum_of, seq).result(60) == sum_of(seq)
    touched(tmp_path / "c.arrow", 2_000_000_000)
    with pytest.raises(ValueError, match=r"c\.arrow.*has changed"):
        loads(seq)
    assert pool.submit(sum_of, seq[:200]).result(60) == sum_of(seq[:200])


def loads(seq):
    return ForkingPickler.loads(ForkingPickler.dumps(seq))


@pytest.mark.slow
def test_processes_that_get_it_as_an_argument(context, seq):
    """With fork it is simply there, with the others it is opened again."""
    answers = context.SimpleQueue()
    processes = [context.Process(target=put_sum, args=(answers, seq[i:])) for i in range(3)]
    for process in processes:
        process.start()
    found = sorted(answers.get() for _ in processes)
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    assert found == sorted(sum_of(seq[i:]) for i in range(3))


def put_sum(answers, seq):
    answers.put(sum_of(seq))


@pytest.mark.slow
def test_whoever_saves_in_a_forked_process(pool, tmp_path):
    paths = [str(tmp_path / f"{i}.arrow") for i in range(6)]
    assert list(pool.map(save_ones, paths)) == [None] * 6
    assert sum_of(sq.load(paths)) == 60
    assert sorted(os.listdir(tmp_path)) == [os.path.basename(path) for path in paths]


def save_ones(path):
    sq.save(path, (np.ones(5) for _ in range(2)))


@pytest.mark.mostly_slow(5)
def test_attributes_arrive(pool, seq):
    assert pool.submit(tag_and_sum, Tagged(seq, "x")).result(60) == ("Tagged", "x", sum_of(seq))


def tag_and_sum(seq):
    return type(seq).__name__, seq.tag, sum_of(seq)


@pytest.mark.mostly_slow(5)
def test_a_map_in_a_worker_over_what_was_loaded(pool, seq):
    (found,) = pool.map(doubled, [seq[:40]])
    assert_holds(found, [2 * element for element in seq[:40]])


def doubled(seq):
    return sq.sequence_map(bodies.double, seq)


def write_and_read(folder, number):
    """Save sequences of one value to a few paths, and load them; return how many loads were complete."""
    complete = 0
    for i in range(40):
        path = os.path.join(folder, f"{i % 3}.arrow")
        value = 100 * number + i
        some = sq.split_to_sequence(np.full(1 + value % 50, value))
        sq.save(path, iter([some, some]))
        values = sq.load(path).values()
        complete += values.size % 2 == 0 and values.size > 0 and bool((values == values.flat[0]).all())
        assert len(sq.load(folder)) > 0
    return complete


@pytest.mark.slow
def test_two_processes_write_to_the_same_files(pool, tmp_path):
    """Each load has all of one sequence, and no temporary file remains."""
    assert list(pool.map(write_and_read, [str(tmp_path)] * 2, range(2))) == [40] * 2
    assert sorted(os.listdir(tmp_path)) == ["0.arrow", "1.arrow", "2.arrow"]
