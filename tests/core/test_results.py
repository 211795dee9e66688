"""Small results of maps are moved into blocks; large ones, and those that others have, stay in place."""

import errno
import mmap
import os
import sys

import numpy as np
import pytest
from support.bodies import numbers
from support.processes import output_of
from support.strategies import assert_holds

import seqcore as sq

SMALL = 1 << 12
LARGEST = 1 << 22


@pytest.mark.parametrize("options", [{}, {"max_workers": 2, "chunksize": 500}])
class TestBlocks:
    @pytest.mark.parametrize("dtype", ["bool", "int8", "float16", "int32", "float64", "complex128"])
    @pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 5), (3, 1, 2)])
    def test_of_one_shape(self, options, dtype, shape):
        self.check(lambda a: np.full(shape, a[0] % 100).astype(dtype), options)

    @pytest.mark.parametrize(
        "body",
        [
            lambda a: np.full((int(a[0]) % 7 + 1, 2), a[0]),
            lambda a: np.full([(2,), (1, 2), (), (3, 4)][int(a[0]) % 4], a[0]),
            lambda a: np.arange(a[0] % 3),
            np.sum,
            lambda a: int(a[0]),
            lambda a: a[0],
        ],
        ids=["other lengths", "other shapes, which give blocks up", "empty ones", "sum", "int", "item"],
    )
    def test_of(self, options, body):
        self.check(body, options)

    def check(self, body, options):
        result = sq.sequence_map(body, numbers(1000), **options)
        assert_holds(result, [np.asarray(body(a)) for a in numbers(1000)])

    def test_of_several_outputs(self, options):
        kept = [np.array([k]) for k in range(3)]

        def body(a):
            return a + 1, a.sum(), kept[int(a[0]) % 3], np.zeros(600) + a

        results = sq.sequence_map(body, numbers(1000), **options)
        assert_holds(results[0], [np.array([i + 1]) for i in range(1000)])
        assert_holds(results[1], [np.array(i) for i in range(1000)])
        assert_holds(results[2], [kept[i % 3] for i in range(1000)])
        assert_holds(results[3], [np.zeros(600) + i for i in range(1000)])
        assert all(np.shares_memory(results[2][i], kept[i % 3]) for i in range(9))


class TestWhatIsMoved:
    def moved(self, body):
        """Whether results have one owner, as elements of a block have."""
        result = sq.sequence_map(body, numbers(100))
        return result[50].base is result[51].base

    @pytest.mark.usual_limits
    def test_small_results(self):
        assert self.moved(lambda a: np.zeros(SMALL // 8) + a)

    def test_no_larger_ones(self):
        assert not self.moved(lambda a: np.zeros(SMALL // 8 + 1) + a)

    def test_none_that_the_body_keeps(self):
        kept = []

        def body(a):
            kept.append(a + 1)
            return kept[-1]

        result = sq.sequence_map(body, numbers(100))
        assert all(np.shares_memory(*pair) for pair in zip(result, kept, strict=True))
        kept[3][0] = 99
        assert result[3][0] == 99

    def test_none_in_a_tuple_that_the_body_keeps(self):
        kept = []

        def body(a):
            kept.append((a + 1, a + 2))
            return kept[-1]

        first, second = sq.sequence_map(body, numbers(100))
        assert all(np.shares_memory(one, pair[0]) for one, pair in zip(first, kept, strict=True))
        assert all(np.shares_memory(one, pair[1]) for one, pair in zip(second, kept, strict=True))

    def test_no_views(self):
        table = np.arange(400).reshape(100, 4)
        result = sq.sequence_map(lambda a: table[a[0], 1:3], numbers(100))
        assert all(np.shares_memory(one, table) for one in result)

    def test_none_in_another_order(self):
        body = lambda a: np.asfortranarray(np.arange(6).reshape(2, 3) + a)  # noqa: E731
        result = sq.sequence_map(body, numbers(100))
        assert_holds(result, [np.arange(6).reshape(2, 3) + i for i in range(100)])
        assert result[50].flags.f_contiguous

    @pytest.mark.slow
    def test_what_is_large_for_one_block(self):
        n = 3 * LARGEST // SMALL
        result = sq.sequence_map(lambda a: np.zeros(SMALL // 8) + a, numbers(n))
        assert [one[0] for one in result] == list(range(n))
        assert result.pinned_nbytes <= 1.4 * result.nbytes


class TestErrors:
    @pytest.mark.parametrize("at", [1, 2, 50, 99])
    @pytest.mark.parametrize("wrong", [np.array(["a"], object), np.array([0.5]), None, (1, 2)])
    def test_results_before_an_error(self, at, wrong):
        with pytest.raises(TypeError, match=rf"element {at}\b"):
            sq.sequence_map(lambda a: wrong if a[0] == at else a + 1, numbers(100))

    def test_a_foreign_byte_order_and_a_subclass(self):
        class Own(np.ndarray):
            pass

        def body(a):
            return [a + 1, (a + 1).astype(">i8"), (a + 1).view(Own)][int(a[0]) % 3]

        assert_holds(sq.sequence_map(body, numbers(99)), [np.array([i + 1]) for i in range(99)])


def lines(a):
    return np.full(64, a[0])


@pytest.mark.usual_limits
def test_without_mappings(monkeypatch):
    """A process may have only so many; blocks are then memory like any other."""
    asked = []

    def none(*args, **options):
        asked.append(args)
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    monkeypatch.setattr(mmap, "mmap", none)
    result = sq.sequence_map(lines, numbers(1000))
    assert asked
    assert_holds(result, [np.full(64, i) for i in range(1000)])
    result._check()


@pytest.mark.usual_limits
@pytest.mark.parametrize("n", [1000, 2700, 3600, 5300, 12_000])
def test_blocks_take_the_memory_of_the_results(monkeypatch, n):
    """None is made larger than needed and then copied, at any number of results of 800 bytes."""
    sizes, new = [], mmap.mmap

    def noted(descriptor, size, **options):
        sizes.append(size)
        return new(descriptor, size, **options)

    monkeypatch.setattr(mmap, "mmap", noted)
    result = sq.sequence_map(lambda a: np.zeros(100) + a, numbers(n))
    assert 0.8 * result.nbytes <= sum(sizes) <= 1.1 * result.nbytes


@pytest.mark.slow
@pytest.mark.thread_unsafe
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_within_a_map():
    """Parent and child each go on with a block of their own."""
    status = []

    def body(a):
        if a[0] == 600:
            status.append(os.fork())
        return lines(a) + (1 if status == [0] else 0)

    result = sq.sequence_map(body, numbers(1000))
    right = all(
        np.array_equal(element, np.full(64, i + (i >= 600 and status == [0])))
        for i, element in enumerate(result)
    )
    if status == [0]:
        os._exit(0 if right else 1)
    assert right
    assert os.waitpid(status[0], 0)[1] == 0


RESIDENT = """
import gc, sys
import numpy as np, seqcore as sq

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096

items, workers = map(int, sys.argv[1:])
n = 100_000_000 // (8 * items)
seq = sq.split_to_sequence(np.arange(float(n)))
gc.collect()
before = resident()
result = sq.sequence_map(lambda a: np.full(items, a[0]), seq, max_workers=workers)
used = resident() - before
del result
print(used, resident() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.slow
@pytest.mark.mostly_at_night(5)
@pytest.mark.parametrize("items", [8, 64, 512])
@pytest.mark.parametrize("max_workers", [1, 2])
def test_memory_goes_back_to_the_system(items, max_workers):
    """In a process of its own, for other tests have objects and threads."""
    used, left = map(int, output_of("-c", RESIDENT, items, max_workers).split())
    assert used < 160_000_000
    # The C library keeps some memory for each thread: how much depends on how they took turns.
    assert left < (20_000_000 if max_workers == 1 else 0.9 * used)
