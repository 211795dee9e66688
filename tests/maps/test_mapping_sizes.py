"""How much of a map goes out at once: chunks, batches and whole tensors, on both sides of each limit."""

import pickle

import numpy as np
import pytest
from support import bodies
from support.bodies import Inline, Recording, numbers

import seqcore as sq
from seqcore._maps import batches, executors, job, sharing, work, workers
from seqcore._maps.job import Job


def pieces(count, nbytes):
    """So many elements of so many bytes each, of memory that is only looked at."""
    return sq.split_to_sequence(np.zeros((count, nbytes), np.uint8), keepdims=0)


class TestChunks:
    """How many units go into the next one: a share of what is left, of some bytes and seconds at most."""

    @pytest.mark.parametrize(
        ("n", "nbytes", "seconds", "least", "size"),
        [
            *[(1000, 1, 0.0, 5e-3, 250), (1000, 1, 2.5e-4, 5e-3, 200), (1000, 1, 5e-3, 5e-3, 10)],
            *[(1000, 1, 1.0, 5e-3, 1), (7, 1, 0.0, 5e-3, 1), (8, 1, 6e-3, 5e-3, 2), (12, 1, 1e-3, 5e-3, 5)],
            *[(50, 1, 1e-3, 2e-2, 20), (50, 1, 1e-3, 1.0, 25)],
            *[(300, 1 << 17, 0.0, 5e-3, 32), (20, 1 << 21, 0.0, 5e-3, 2), (20, (1 << 21) + 1, 0.0, 5e-3, 1)],
            *[(20, 1 << 23, 0.0, 5e-3, 1), (300, 0, 0.0, 5e-3, 75)],
        ],
    )
    def test_size(self, n, nbytes, seconds, least, size):
        workers_of_two = workers.Workers(None, 2)
        workers_of_two.least = least
        one = Job(work.ElementWork(np.copy, (pieces(n, nbytes),), n), None, None, None)
        one.seconds = seconds
        assert executors.Dispatch(one, workers_of_two).size() == size

    def test_a_chunksize_that_is_given_goes_before_the_limit(self):
        executor = Recording()
        sq.sequence_map(np.copy, pieces(40, 1 << 20), executor=executor, chunksize=10)
        assert len(executor.sizes) == 4


class TestClaims:
    """Of the units that nobody has, how many go out next."""

    def job_of(self, n, chunksize=None, seconds=0.0):
        made = Job(work.ElementWork(np.copy, (pieces(n, 1),), n), None, chunksize, None)
        made.seconds = seconds
        return made

    def test_all_of_them_go_out_once(self):
        one = self.job_of(23, chunksize=5)
        claims = []
        while claimed := one.claim(2):
            claims.append(claimed)
        assert claims == [(0, 5), (5, 10), (10, 15), (15, 20), (20, 23)]
        assert one.left == 0

    def test_none_behind_the_bound(self):
        one = self.job_of(23)
        one.bound.lower(5)
        assert one.claim(5) == (0, 5)
        assert one.left == 0
        assert one.claim(5) is None

    def test_what_is_given_back_goes_out_first(self):
        one = self.job_of(23)
        assert [one.claim(8), one.claim(8)] == [(0, 8), (8, 16)]
        one.give_back(12, 16)
        one.give_back(3, 8)
        one.give_back(16, 16)
        assert one.left == 7 + 4 + 5
        assert [one.claim(4), one.claim(4), one.claim(4)] == [(3, 7), (7, 8), (12, 16)]
        assert one.claim(100) == (16, 23)
        assert one.left == 0

    def test_what_is_given_back_behind_the_bound_stays(self):
        one = self.job_of(23)
        one.claim(16)
        one.give_back(9, 12)
        one.bound.lower(9)
        one.give_back(12, 16)
        assert one.left == 0
        assert one.claim(4) is None


class TestGraphRows:
    """A graph runs so many rows between two looks at the bound."""

    class Body:
        def __init__(self, fails_at=None):
            self.fails_at, self.calls = fails_at, []

        def check(self, dtypes):
            return (np.dtype("int64"), np.dtype("int64"))

        def run_many(self, rows):
            self.calls.append(len(rows))
            for k, (a,) in enumerate(rows):
                if a[0] == self.fails_at:
                    error = ValueError("no")
                    error.seqcore_element = k
                    raise error
            return [(a, -a) for (a,) in rows]

        def __call__(self, a):
            raise AssertionError

    @pytest.mark.parametrize(
        ("n", "calls"), [(1023, [1023]), (1024, [1024]), (1025, [1024, 1]), (2050, [1024, 1024, 2])]
    )
    def test_calls(self, n, calls):
        body = self.Body()
        first, second = sq.sequence_map(body, numbers(n))
        assert body.calls == calls
        assert first == numbers(n)
        assert second[n - 1] == 1 - n

    @pytest.mark.parametrize("at", [0, 1, 1024, 1030])
    def test_what_is_before_a_failure_is_kept(self, at):
        told = work.ElementWork(self.Body(at), (numbers(2050),), 2050)
        chunk = told.run(0, 2050, job.Bound(), (np.dtype("int64"),) * 2, False, True)
        assert chunk.count == at
        assert [int(a[0]) for a, _ in chunk.results] == list(range(at))


class TestLimits:
    """A chunk ends soon after its time, but has at least one unit."""

    def late(self):
        bound = job.Bound()
        bound.end_at(1e-9)
        return bound

    def run(self, one, dtypes, single):
        chunk = one.run(2, one.n, self.late(), dtypes, single, False)
        assert chunk.error is None
        return chunk

    @pytest.mark.parametrize("dtypes", [None, (np.dtype("int64"),)])
    def test_elements(self, dtypes):
        called = []
        one = work.ElementWork(lambda a: called.append(int(a[0])) or a, (numbers(99),), 99)
        chunk = self.run(one, dtypes, True)
        assert called == [2]
        assert (chunk.start, chunk.count) == (2, 1)

    def test_rows_of_a_graph_before_the_end(self):
        body, bound = TestGraphRows.Body(), job.Bound()
        bound.end_at(1e12)
        work.ElementWork(body, (numbers(4050),), 4050).run(0, 4050, bound, None, False, True)
        assert body.calls == [16, 32, 64, 128, 256, 512, 1024, 1024, 4050 - 3056]

    def test_batches(self):
        one = batches.joined_work(np.copy, (numbers(99),), 99, 10, 1)
        chunk = self.run(one, None, None)
        assert chunk.count == 1
        assert [int(a[0]) for a in chunk.sequences[0]] == [*range(20, 30)]

    @pytest.mark.parametrize("limit", [0.0, 1e-4])
    @pytest.mark.parametrize("body", [np.copy, np.negative, np.sum, len, TestGraphRows.Body])
    def test_nothing_is_lost_or_done_twice(self, limit, body, monkeypatch):
        monkeypatch.setattr(executors, "LATE", limit)
        body = body() if isinstance(body, type) else body
        assert sq.sequence_map(body, numbers(3000), executor=Inline()) == sq.sequence_map(body, numbers(3000))


class TestBatches:
    def sizes(self, seq, **options):
        """How many elements the batches have."""
        lengths = []

        def body(batch):
            lengths.append(len(batch))
            return batch

        sq.map_batches(body, seq, new_axis=1, **options)
        return lengths

    @pytest.mark.parametrize(
        ("nbytes", "most"), [(1 << 12, 128), ((1 << 12) + 1, 127), (1 << 19, 1), (1 << 20, 1)]
    )
    def test_so_many_bytes_by_default(self, nbytes, most):
        sizes = self.sizes(pieces(300, nbytes))
        assert sizes == [most] * (300 // most) + [300 % most] * (300 % most > 0)

    def test_more_bytes_for_a_ufunc(self):
        made = batches._bounds(np.negative, (pieces(3000, 4096),), 3000, None, 1)
        assert made.tolist() == [0, 1024, 2048, 3000]

    @pytest.mark.parametrize(("n", "bounds"), [(127, 1), (128, 1), (129, 2), (256, 2), (257, 3)])
    def test_the_last_batch(self, n, bounds):
        made = batches._bounds(len, (pieces(n, 4096),), n, None, 1)
        assert len(made) == bounds + 1
        assert made[-1] == n
        assert np.diff(made).min() > 0

    @pytest.mark.parametrize(
        ("n", "nbytes", "size"),
        [
            (800, 1024, 100),  # four for each of two workers
            (801, 1024, 101),
            (100, 1024, 16),  # … but no less than 16 KiB
            (100, 1025, 15),
            (128, 1024, 16),
            (129, 1024, 17),
            (100, 1 << 14, 13),
            (3, 1 << 15, 1),
        ],
    )
    def test_some_for_each_worker(self, n, nbytes, size):
        assert batches._chosen_size(1 << 19, nbytes, n, 2) == size

    @pytest.mark.parametrize("nbytes", [0, 1, 1 << 14, 1 << 20])
    def test_one_worker_gets_all_that_suits(self, nbytes):
        assert batches._chosen_size(1 << 19, nbytes, 100, 1) == max(1, (1 << 19) // max(nbytes, 1))

    @pytest.mark.parametrize(("n", "is_called"), [(4, False), (3, False), (2, True)])
    def test_elements_that_cannot_be_joined_are_found_before_the_body_runs(self, n, is_called):
        """Where there is one batch, its own join finds them, and no batch before it has run."""
        called = []
        seq = [np.zeros((1, 2))] * (n - 1) + [np.zeros((1, 3))]
        with pytest.raises(ValueError, match=rf"element {n - 1}\b"):
            sq.map_batches(lambda batch: called.append(batch) or batch, seq, batch_size=2)
        assert called == []

    def test_names_of_several_batches(self):
        """As they are lost with an executor."""
        joined = batches.joined_work(len, (numbers(9),), 9, 2, 1)
        assert [joined.name(0), joined.name(0, 2), joined.name(1, 5)] == [
            *("elements 0 to 1", "elements 0 to 3", "elements 2 to 8")
        ]
        assert joined.name(4) == joined.name(4, 5) == "element 8"
        seq = sq.TensorSequence([np.zeros(1 + i % 2) for i in (0, 1, 2, 3, 5, 4)])
        stacked = batches.stacked_work(len, (seq,), 6, 2, 1)
        assert [stacked.name(0), stacked.name(0, 2), stacked.name(2, 4)] == [
            *("elements 0, 2", "elements 0 to 3", "elements 4 to 5")
        ]
        seq = sq.TensorSequence([np.zeros(length) for length in (1, 2, 3, 2, 3, 1)])
        stacked = batches.stacked_work(len, (seq,), 6, 2, 1)  # which takes 0 and 5, 1 and 3, 2 and 4
        assert stacked.name(0, 2) == "elements 0, 1, 3, 5"


class TestLending:
    @pytest.fixture
    def folder(self, monkeypatch, tmp_path):
        monkeypatch.setattr(sharing, "NAMELESS", False)
        monkeypatch.setattr(sharing.tempfile, "tempdir", str(tmp_path))
        return tmp_path

    @pytest.mark.parametrize(("nbytes", "is_lent"), [(sharing.LARGE - 8, False), (sharing.LARGE, True)])
    def test_from_a_megabyte_on(self, folder, nbytes, is_lent):
        seen = []

        class Watching(Recording):
            def submit(self, function, parcel, *others):
                pickle.dumps(parcel, protocol=5, buffer_callback=lambda buffer: None)
                seen.append(len(list(folder.iterdir())))
                return super().submit(function, parcel, *others)

        executor = Watching()
        table = np.arange(nbytes // 8)
        result = sq.sequence_map(bodies.at, numbers(40), table, executor=executor, chunksize=20)
        assert [int(one) for one in result] == list(range(40))
        assert seen == [is_lent] * 2
        assert [sum(buffers) > nbytes for _, buffers in executor.sizes] == [not is_lent] * 2
