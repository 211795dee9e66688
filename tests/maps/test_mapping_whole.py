"""Whole tensors of a map: read-only wherever they come, and large ones travel once."""

import os
import pickle
import signal
from types import SimpleNamespace

import numpy as np
import pytest
from support import bodies
from support.bodies import FailAt, Inline, Recording, Refusal, numbers, within
from support.processes import run_python
from support.strategies import assert_holds

import seqcore as sq
from seqcore._maps import sharing

LARGE = 2 << 20  # bytes


@pytest.fixture(params=["serial", "threads_in_chunks", "thread_executor", "process_executor", "pickled"])
def way(request, ways):
    return ways.get(request.param)


@pytest.fixture
def folder(monkeypatch, tmp_path):
    """Where the files go, if they have names."""
    monkeypatch.setattr(sharing, "NAMELESS", False)
    monkeypatch.setattr(sharing.tempfile, "tempdir", str(tmp_path))
    return tmp_path


class Watching(Recording):
    """Says what files there are when a chunk has arrived, and lets a test do something to them."""

    def __init__(self, folder, act=lambda path: None):
        super().__init__()
        self.folder, self.act, self.seen = folder, act, set()

    def submit(self, function, parcel, *args):
        pickle.dumps(parcel, protocol=5, buffer_callback=lambda buffer: None)
        for path in self.folder.iterdir():
            self.seen.add(path.name)
            self.act(path)
        return super().submit(function, parcel, *args)


def table(dtype=np.float64, nbytes=LARGE):
    return (np.arange(nbytes // np.dtype(dtype).itemsize) % 1000).astype(dtype)


def test_nobody_can_write_into_them(way):
    wholes = np.zeros(3), table(), np.array(["a"], object), np.array(3.0), np.float32(3)
    result = sq.sequence_map(bodies.whole_flags, numbers(20), *wholes, **way)
    assert not any(result)
    assert wholes[0].flags.writeable
    wholes[0][0] = 1


@pytest.mark.skipif(not sharing.NAMELESS, reason="files have names here")
class TestNameless:
    """On Linux the system deletes what a map shares, however its process ends."""

    @pytest.fixture
    def descriptors(self):
        return lambda: len(os.listdir("/proc/self/fd"))

    @pytest.mark.parametrize("pages", [0, 1 << 40])
    def test_on_disk_where_memory_is_short(self, processes, monkeypatch, descriptors, pages, tmp_path):
        sysconf = os.sysconf
        monkeypatch.setattr(os, "sysconf", lambda name: pages if name == "SC_AVPHYS_PAGES" else sysconf(name))
        monkeypatch.setattr(sharing.tempfile, "tempdir", str(tmp_path))
        sq.sequence_map(bodies.at, numbers(5), table(), executor=processes)
        before = descriptors()
        result = sq.sequence_map(bodies.at, numbers(50), table(), executor=processes)
        assert_holds(result, [np.array(float(i)) for i in range(50)])
        assert descriptors() <= before  # fewer, if what an earlier test has left is closed meanwhile
        assert list(tmp_path.iterdir()) == []

    def test_nothing_is_sent_with_the_chunks(self):
        executor = Recording()
        sq.sequence_map(bodies.at, numbers(50), table(), executor=executor, chunksize=5)
        assert max(size + sum(buffers) for size, buffers in executor.sizes) < 5000

    @pytest.mark.slow
    @pytest.mark.skipif(not os.path.isdir("/dev/shm"), reason="no shared memory")
    @pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGKILL])
    def test_a_process_that_is_killed_leaves_nothing(self, by, tmp_path):
        script = """
import os, sys
import numpy as np, seqcore as sq
from concurrent.futures import ThreadPoolExecutor
from support import bodies
class Killing(bodies.Recording):
    def submit(self, *args):
        future = super().submit(*args)
        os.kill(os.getpid(), int(sys.argv[1]))
        return future
sq.sequence_map(bodies.at, bodies.numbers(50), np.arange(1 << 20), executor=Killing())
"""

        def shared_files():  # without the locks of other tests' processes
            return {
                name for name in os.listdir("/dev/shm") if not name.startswith(("sem.", "pym-", "torch_"))
            }

        before = shared_files()
        done = run_python("-c", script, int(by), timeout=60, TMPDIR=str(tmp_path))
        assert done.returncode == -by
        assert not shared_files() - before
        assert list(tmp_path.iterdir()) == []

    def test_another_file_by_the_same_path(self):
        """As on another machine, where the process of that number is another one."""
        one, other = block_of(table()), block_of(table() + 1)
        got = sharing.BlockTensor(one.path, one.token, 0, table().shape, table().dtype, False)
        assert_holds(sq.TensorSequence([got.fetch(())]), [table()])
        got.path = other.path
        with pytest.raises(sharing.FileNotVisible):
            got.fetch(())
        one.close()
        other.close()

    def test_a_chunk_that_pickles_after_the_map(self):
        """A cancelled one may, in a thread of the executor: nobody would free its block."""
        for made_before in (False, True):
            with sharing.SharedInputs(SimpleNamespace(send=lambda tensor: None)) as inputs:
                shared = inputs.share(table())
                before = shared.__reduce__()[0] if made_before else None
            assert before is (sharing.BlockTensor if made_before else None)
            rebuild, args = shared.__reduce__()
            np.testing.assert_array_equal(rebuild(*args), table())
            assert (inputs.block is not None) is made_before

    def test_a_pipe_by_the_same_path(self, tmp_path):
        """As after a map whose descriptor has become another one's. Nobody waits for what the pipe says."""
        os.mkfifo(tmp_path / "pipe")
        got = sharing.BlockTensor(tmp_path / "pipe", b"token", 0, table().shape, table().dtype, False)
        with pytest.raises(sharing.FileNotVisible):
            within(5, lambda: got.fetch(()))

    def test_several_are_in_one_block(self, processes):
        """Each is aligned, whatever is before it."""
        tables = table(np.int8, LARGE + 3), table(), table(np.float32, LARGE + 4)
        result = sq.sequence_map(bodies.at_all, numbers(50), *tables, executor=processes)
        assert_holds(result, [np.array([i, i, i, 1.0]) for i in range(50)])


def block_of(tensor):
    return sharing.Block([sharing.SharedTensor(tensor, None, 0)])


class TestLarge:
    @pytest.mark.mostly_slow(5)
    @pytest.mark.parametrize("layout", ["F", "stepped", "turned", "empty axis", "strings"])
    def test_layouts(self, folder, layout):
        whole = table().reshape(512, -1)
        whole = {
            "F": lambda: np.asfortranarray(whole),
            "stepped": lambda: np.repeat(whole, 2, axis=1)[:, ::2],
            "turned": lambda: whole.reshape(512, 32, -1).transpose(1, 2, 0),
            "empty axis": lambda: np.empty((512, 0, 10**6)),
            "strings": lambda: np.full((100, 2000), "é", object),
        }[layout]()
        layouts = []

        def body(a, got):
            layouts.append(got.flags.f_contiguous)
            return got[int(a[0])]

        class Here(Recording):
            def submit(self, function, parcel, *args):
                parcel.work.body = bodies.at
                return super().submit(function, parcel, *args)

        result = sq.sequence_map(body, numbers(20), whole, executor=Here())
        assert_holds(result, list(whole[:20]))
        sq.sequence_map(body, numbers(20), whole, executor=Inline())
        assert set(layouts) == {whole.flags.f_contiguous}

    def test_travel_once(self, folder):
        executor = Watching(folder)
        result = sq.sequence_map(bodies.at, numbers(500), table(), executor=executor, chunksize=5)
        assert_holds(result, [np.array(float(i)) for i in range(500)])
        assert len(executor.seen) == 1
        assert max(size + sum(buffers) for size, buffers in executor.sizes) < 5000
        assert list(folder.iterdir()) == []

    def test_threads_write_no_file(self, folder, monkeypatch, ways):
        monkeypatch.setattr(sharing, "Block", lambda tensors: pytest.fail("made a block"))
        whole = table()
        for way in ("serial", "threads_in_chunks", "thread_executor"):
            result = sq.sequence_map(lambda a, b: b, numbers(50), whole, **ways.get(way))
            assert all(np.shares_memory(one, whole) for one in result)

    @pytest.mark.parametrize("error", [Refusal(), KeyboardInterrupt()])
    @pytest.mark.parametrize("by", ["body", "progress"])
    def test_file_is_gone_after_a_failure(self, folder, error, by):
        executor = Watching(folder)

        def progress(done, total):
            if by == "progress":
                raise error

        body = FailAt({20: Refusal()} if by == "body" else {})
        with pytest.raises(Refusal if by == "body" else type(error)):
            sq.sequence_map(
                bodies.First(body), numbers(50), table(), executor=executor, progress=progress, chunksize=4
            )
        assert len(executor.seen) == 1
        assert list(folder.iterdir()) == []

    @pytest.mark.parametrize("failure", ["no place", "full"])
    def test_no_place_for_a_file(self, monkeypatch, folder, failure):
        def full(block, data):
            raise OSError(28, "disk full")

        if failure == "no place":
            monkeypatch.setattr(sharing.tempfile, "tempdir", str(folder / "nowhere"))
        else:
            monkeypatch.setattr(sharing.Block, "write", full)
        executor = Recording()
        result = sq.sequence_map(bodies.at, numbers(20), table(), executor=executor, chunksize=10)
        assert_holds(result, [np.array(float(i)) for i in range(20)])
        assert min(max(buffers) for _, buffers in executor.sizes) == LARGE
        assert list(folder.iterdir()) == []

    @pytest.mark.parametrize(
        "damage",
        [
            os.remove,
            lambda path: path.write_bytes(b"short"),
            lambda path: path.write_bytes(b"?" * (LARGE + 16)),
        ],
    )
    def test_worker_that_does_not_see_the_file(self, folder, damage):
        executor = Watching(folder, damage)
        result = sq.sequence_map(bodies.at, numbers(30), table(), executor=executor, chunksize=3)
        assert_holds(result, [np.array(float(i)) for i in range(30)])
        carried = [max(buffers, default=0) == LARGE for _, buffers in executor.sizes]
        assert 1 <= sum(carried) <= 11
        assert list(folder.iterdir()) == []
