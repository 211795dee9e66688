"""How much of a map goes out at once: chunks, batches and whole tensors, on both sides of each limit."""

import numpy as np
import pytest
from support.bodies import Inline, numbers, pieces

import seqcore as sq
from seqcore._maps import executors, job, work, workers
from seqcore._maps.job import Job


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


class TestClaims:
    """Of the units that nobody has, how many go out next."""

    def job_of(self, n, chunksize=None, seconds=0.0):
        made = Job(work.ElementWork(np.copy, (pieces(n, 1),), n), None, chunksize, None)
        made.seconds = seconds
        return made

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

    @pytest.mark.parametrize(("n", "is_called"), [(4, False), (3, False), (2, True)])
    def test_elements_that_cannot_be_joined_are_found_before_the_body_runs(self, n, is_called):
        """Where there is one batch, its own join finds them, and no batch before it has run."""
        called = []
        seq = [np.zeros((1, 2))] * (n - 1) + [np.zeros((1, 3))]
        with pytest.raises(ValueError, match=rf"element {n - 1}\b"):
            sq.map_batches(lambda batch: called.append(batch) or batch, seq, batch_size=2)
        assert called == []
