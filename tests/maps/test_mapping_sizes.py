"""How much of a map goes out at once: chunks, batches and whole tensors, on both sides of each limit."""

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from support import bodies
from support.bodies import Inline, Recording, numbers

import seqcore as sq
from seqcore import mapping
from seqcore._maps import batches, elementwise, executors, job, sharing, work, workers
from seqcore._maps.job import Job
from seqcore._maps.outputs import Chunk


def pieces(count, nbytes):
    """So many elements of so many bytes each, of memory that is only looked at."""
    return sq.split_to_sequence(np.zeros((count, nbytes), np.uint8), keepdims=0)


def first_item(a):
    return a[:1]


class OneWorker(Inline):
    _max_workers = 1


OF_TWO = workers.Workers(None, 2)


class TestChunksForExecutors:
    @pytest.fixture(autouse=True)
    def quick(self, monkeypatch):
        """No time passes, so that nothing but limits and what is left decides."""
        monkeypatch.setattr("seqcore._maps.payloads.time.perf_counter", lambda: 0.0)
        monkeypatch.setattr(executors, "LIMIT", 1e9)  # the compiled loop has the real clock

    def sizes(self, jobs, *inputs, body=first_item):
        sq.sequence_map(body, *inputs, executor=OneWorker())
        return jobs[-1].sizes

    def test_no_chunk_weighs_more_than_4_mib(self, jobs):
        sizes = self.sizes(jobs, pieces(300, 1 << 17))
        assert max(sizes) == workers.Futures.chunk_nbytes >> 17 == 32
        assert sizes.count(32) > 4

    @pytest.mark.parametrize(
        ("nbytes", "most"), [(1 << 21, 2), ((1 << 21) + 1, 1), (1 << 22, 1), (1 << 23, 1)]
    )
    def test_heavy_elements(self, jobs, nbytes, most):
        assert max(self.sizes(jobs, pieces(20, nbytes))) == most

    def test_all_sequences_weigh(self, jobs):
        seqs = [pieces(300, 1 << 16), pieces(300, 1 << 16)]
        assert max(self.sizes(jobs, *seqs, body=lambda a, b: a[:1])) == 32

    def test_whole_tensors_do_not_weigh(self, jobs):
        whole = np.zeros(1 << 19, np.uint8)  # too small for a file
        assert max(self.sizes(jobs, pieces(300, 1 << 17), whole, body=lambda a, b: a[:1])) == 32
        assert max(self.sizes(jobs, pieces(300, 8), whole, body=lambda a, b: a[:1])) == 150

    def test_elements_without_bytes(self, jobs):
        assert max(self.sizes(jobs, pieces(300, 0), body=np.copy)) == 150

    def test_without_a_measurement_each_is_a_share_of_what_is_left(self, jobs):
        assert self.sizes(jobs, pieces(3000, 8))[:4] == [1500, 750, 375, 187]

    def test_at_the_end_they_become_smaller(self, jobs):
        sizes = self.sizes(jobs, pieces(3000, 8))
        behind = sizes[sizes.index(max(sizes)) :]
        assert behind == sorted(behind, reverse=True)

    def test_a_chunksize_that_is_given_goes_before_the_limit(self, jobs):
        sq.sequence_map(first_item, pieces(40, 1 << 20), executor=OneWorker(), chunksize=10)
        assert jobs[0].sizes == [10] * 4


class TestClaims:
    """Of the units that nobody has, how many go out next."""

    def job_of(self, n, chunksize=None, seconds=0.0):
        made = Job(work.ElementWork(np.copy, (pieces(n, 1),), n), None, chunksize, None)
        made.seconds = seconds
        return made

    @pytest.mark.parametrize(
        ("seconds", "size"), [(0.0, 250), (1e-4, 250), (2.5e-4, 200), (5e-3, 10), (0.1, 1), (1.0, 1)]
    )
    def test_chunks_for_executors(self, seconds, size):
        """A share of what is left, and no more than a chunk may take."""
        one = self.job_of(1000, seconds=seconds)
        assert executors._Dispatch(one, OF_TWO, None).size() == size

    @pytest.mark.parametrize(
        ("left", "seconds", "size"),
        [(1, 0.0, 1), (7, 0.0, 1), (1000, 0.0, 250), (7, 6e-3, 1), (8, 6e-3, 2), (12, 6e-3, 3)]
        + [(1000, 6e-3, 8), (12, 1e-3, 5), (1000, 1e-3, 50)],
    )
    def test_a_share_of_what_is_left(self, left, seconds, size):
        """For each worker two, but one where two are less than five milliseconds."""
        one = self.job_of(left, seconds=seconds)
        assert executors._Dispatch(one, OF_TWO, None).size() == size

    @pytest.mark.parametrize(("least", "size"), [(5e-3, 5), (2e-2, 20), (1.0, 25)])
    def test_workers_whose_tasks_cost_more_get_larger_ones(self, least, size, monkeypatch):
        monkeypatch.setattr(OF_TWO, "least", least)
        one = self.job_of(50, seconds=1e-3)
        one.claimed = 48
        assert executors._Dispatch(one, OF_TWO, None).size() == size

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

    @pytest.mark.parametrize(
        ("seconds", "in_batches", "ran"),
        [
            (0.0, False, [1, 15, 48]),
            (0.0, True, [1, 15, 240, 768]),
            (1e-5, False, [1, 15, 24]),
            (1e-4, False, [1, 3]),
            (1e-3, False, [1, 1]),
            (1e-2, False, [1, 1]),
        ],
    )
    def test_a_sample_has_so_many_units(self, monkeypatch, seconds, in_batches, ran):
        """Of the time that the sample takes, or as many as there may be."""
        now, sizes = [0.0], []

        def run(start, stop):
            sizes.append(stop - start)
            now[0] += sizes[-1] * seconds
            return Chunk(start, stop - start)

        monkeypatch.setattr(job.time, "perf_counter", lambda: now[0])
        one = self.job_of(3000)
        one.work.in_batches = in_batches
        one.outputs = mapping.Outputs(True, (np.dtype("uint8"),), one.work.name)
        one.run = run
        one.sample()
        assert sizes == ran
        assert one.seconds == pytest.approx(seconds)


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

    @pytest.mark.parametrize("at", [0, 1, 1023, 1024, 1025, 2048, 2049])
    @pytest.mark.parametrize("options", [{}, {"max_workers": 2, "chunksize": 1500}], ids=str)
    def test_a_failure_is_named(self, at, options):
        with pytest.raises(ValueError, match="no") as caught:
            sq.sequence_map(self.Body(at), numbers(2050), **options)
        assert caught.value.__notes__ == [f"raised for element {at} of a SequenceMap"]

    @pytest.mark.parametrize("at", [0, 1, 1024, 1030])
    def test_what_is_before_a_failure_is_kept(self, at):
        told = work.ElementWork(self.Body(at), (numbers(2050),), 2050)
        chunk = told.run(0, 2050, job.Bound(), (np.dtype("int64"),) * 2, False)
        assert chunk.count == at
        assert [int(a[0]) for a, _ in chunk.results] == list(range(at))


class TestLimits:
    """A chunk ends soon after its time, but has at least one unit."""

    def late(self):
        bound = job.Bound()
        bound.end_at(1e-9)
        return bound

    def run(self, one, dtypes, single):
        chunk = one.run(2, one.n, self.late(), dtypes, single)
        assert chunk.error is None
        return chunk

    @pytest.mark.parametrize("dtypes", [None, (np.dtype("int64"),)])
    def test_elements(self, dtypes):
        called = []
        one = work.ElementWork(lambda a: called.append(int(a[0])) or a, (numbers(99),), 99)
        chunk = self.run(one, dtypes, True)
        assert called == [2]
        assert (chunk.start, chunk.count) == (2, 1)

    def test_python_values(self):
        chunk = self.run(work.ElementWork(lambda a: int(a[0]), (numbers(99),), 99), None, None)
        assert (chunk.count, chunk.results) == (1, [2])

    def test_rows_of_a_graph(self):
        body = TestGraphRows.Body()
        chunk = self.run(work.ElementWork(body, (numbers(2050),), 2050), None, False)
        assert body.calls == [work.FIRST_ROWS]
        assert chunk.count == work.FIRST_ROWS

    def test_rows_of_a_graph_before_the_end(self):
        body, bound = TestGraphRows.Body(), job.Bound()
        bound.end_at(1e12)
        work.ElementWork(body, (numbers(4050),), 4050).run(0, 4050, bound, None, False)
        assert body.calls == [16, 32, 64, 128, 256, 512, 1024, 1024, 4050 - 3056]

    def test_batches(self):
        one = batches.joined_work(np.copy, (numbers(99),), 99, 10, 1)
        chunk = self.run(one, None, None)
        assert chunk.count == 1
        assert [int(a[0]) for a in chunk.sequences[0]] == [*range(20, 30)]

    def test_blocks_of_a_ufunc(self):
        one = elementwise.elementwise_work(np.negative, (numbers(99),), 99)
        one.block = 10
        chunk = self.run(one, (np.dtype("int64"),), True)
        assert (chunk.count, chunk.in_blocks) == (10, 10)

    @pytest.mark.parametrize("limit", [0.0, 1e-4])
    @pytest.mark.parametrize("body", [np.copy, np.negative, np.sum, len, TestGraphRows.Body])
    def test_nothing_is_lost_or_done_twice(self, limit, body, monkeypatch):
        monkeypatch.setattr(executors, "LIMIT", limit)
        body = body() if isinstance(body, type) else body
        assert sq.sequence_map(body, numbers(3000), executor=Inline()) == sq.sequence_map(body, numbers(3000))

    def test_each_element_is_passed_once(self, monkeypatch):
        monkeypatch.setattr(executors, "LIMIT", 0.0)
        called = []
        with ThreadPoolExecutor(3) as pool:
            sq.sequence_map(lambda a: called.append(int(a[0])) or a, numbers(500), executor=pool)
        assert sorted(called) == [*range(500)]

    def test_the_units_left_are_not_run_after_a_failure(self, monkeypatch):
        monkeypatch.setattr(executors, "LIMIT", 0.0)
        body = bodies.FailAt({7: bodies.Refusal("no")})
        with pytest.raises(bodies.Refusal) as caught:
            sq.sequence_map(body, numbers(40), executor=Inline())
        assert caught.value.__notes__ == ["raised for element 7 of a SequenceMap"]


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

    @pytest.mark.parametrize("k", [0, 1])
    def test_the_input_whose_elements_differ_is_named(self, k):
        inputs = [[np.zeros((1, 2))] * 6, [np.zeros((1, 2))] * 6]
        inputs[k] = [*inputs[k][:5], np.zeros((1, 3))]
        with pytest.raises(ValueError, match=rf"element 5 of input {k} has shape \(1, 3\)"):
            sq.map_batches(lambda a, b: a, *inputs, batch_size=2)

    def test_shapes_of_the_second_input_count_for_a_stack(self):
        others = [np.full(1 + i % 2, i) for i in range(12)]
        shapes = []

        def body(a, b):
            shapes.append((a.shape, b.shape))
            return a[:, 0] + b.sum(1)

        result = sq.map_batches(body, numbers(12), others, new_axis=1, batch_size=4)
        assert [int(one) for one in result] == [i + i * (1 + i % 2) for i in range(12)]
        assert sorted(shapes) == [((2, 1), (2, 1)), ((2, 1), (2, 2)), ((4, 1), (4, 1)), ((4, 1), (4, 2))]

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

    def test_batches_of_shapes_go_in_the_order_of_their_first_elements(self):
        firsts = []
        seq = [np.full(1 + (i % 3), i) for i in range(12)]
        sq.map_batches(lambda batch: firsts.append(int(batch[0, 0])) or batch, seq, new_axis=1, batch_size=2)
        assert firsts == [0, 1, 2, 6, 7, 8]

    @pytest.mark.parametrize(("size", "more"), [(8, ""), (9, ", …")])
    def test_names_of_elements_that_stand_apart(self, size, more):
        seq = [np.full(1 + i % 2, i) for i in range(2 * size)]

        def body(batch):
            if batch.shape[1] == 2:
                raise bodies.Refusal
            return batch

        with pytest.raises(bodies.Refusal) as caught:
            sq.map_batches(body, seq, new_axis=1, batch_size=size)
        assert caught.value.__notes__ == [
            f"raised for elements 1, 3, 5, 7, 9, 11, 13, 15{more} of a SequenceMap"
        ]


class TestTogether:
    """What a batch gets of elements that lie together is no copy."""

    @pytest.mark.parametrize("new_axis", [0, 1])
    @pytest.mark.parametrize("step", [1, 2, -1])
    def test_views(self, new_axis, step):
        table = np.arange(60.0).reshape(20, 3)
        seq = sq.split_to_sequence(table)[::step]
        is_view = []
        sq.map_batches(
            lambda batch: is_view.append(np.shares_memory(batch, table)) or batch,
            seq,
            new_axis=new_axis,
            batch_size=5,
        )
        assert is_view == [True] * (len(seq) // 5)

    @pytest.mark.parametrize("new_axis", [0, 1])
    def test_a_copy_where_they_stand_unevenly(self, new_axis):
        table = np.arange(60.0).reshape(20, 3)
        seq = sq.split_to_sequence(table)[[0, 1, 3, 4, 5, 6]]
        is_view = []
        sq.map_batches(
            lambda batch: is_view.append(np.shares_memory(batch, table)) or batch,
            seq,
            new_axis=new_axis,
            batch_size=3,
        )
        assert is_view == [False, True]


class TestLending:
    @pytest.fixture
    def folder(self, monkeypatch, tmp_path):
        monkeypatch.setattr(sharing, "NewFile", sharing._NamedFile)
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
