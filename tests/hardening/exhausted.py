"""Calls in a process that has no more memory: each ends with a result or a MemoryError, and all is as it was.

    python tests/hardening/exhausted.py [NAME …]

runs each call, or those whose names begin so, on large data in child processes of its own. Each child limits
its address space (RLIMIT_AS), fills the memory that its allocators have in hand, and makes the call with
some room: with none at all, 64 kB, and so on up to 64 MB, so that its allocations fail at different places.
They fail in `malloc` and in `mmap`, as they do on a machine whose memory is used up. Needs Linux.
"""

import collections
import ctypes
import errno
import gc
import itertools
import os
import pickle
import resource
import signal
import sys
import tempfile
import time
from functools import cached_property
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[2]), str(Path(__file__).parents[1])]

import numpy as np  # noqa: E402
from support.surface import CALLS, FITTING, Operands  # noqa: E402

import seqcore as sq  # noqa: E402

ROOMS = (0, *(1 << k for k in range(16, 27)))  # bytes
PATIENCE = 60  # seconds, after which a call hangs
N = 60_000  # elements

LENGTHS = np.arange(N) % 8
VALUES = np.arange(int(LENGTHS.sum()), dtype=np.float32)
BATCH = np.zeros((N, 8), np.float32)
RAGGED = sq.TensorSequence.from_lengths(VALUES, LENGTHS)
SHUFFLED = RAGGED[np.arange(N) * 7919 % N]
IMAGES = sq.split_to_sequence(VALUES[:200_000].reshape(100, 2000).T, 2)
WORDS = sq.TensorSequence([np.array(["to", "be"], object)])[np.zeros(N, int)]
COLUMNS = sq.Columns({"tokens": RAGGED, "words": WORDS, "label": np.arange(N), "box": BATCH[:, :4]})
ARRAYS = [np.zeros(2, np.float32)] * 20_000
FOLDER = tempfile.TemporaryDirectory()
FAILED = []  # sequences with a failed edit, and a copy of each from before


def path(name):
    return os.path.join(FOLDER.name, name)


def made():
    """What the calls take, made while there is memory."""
    COLUMNS.save(path("columns.arrow"))
    os.mkdir(path("folder"))
    for i in range(20):
        sq.save(path(f"folder/{i:02}.arrow"), RAGGED[:1000])
    return {
        "file": sq.load(path("columns.arrow")),
        "pickled": pickle.dumps(SHUFFLED),
        "mask": LENGTHS > 3,
        "positions": np.arange(N)[::-1].copy(),
    }


def edited(one):
    """Return a call that edits copies; after a failure a copy has to be as it was."""

    def call():
        for seq in (RAGGED.copy(), SHUFFLED.copy()):
            before, run = seq.copy(), one.bound(Large(seq))
            try:
                run()
            except MemoryError:
                FAILED.append((seq, before))
                raise

    return call


def looked(one):
    def call():
        for seq in (RAGGED, SHUFFLED):
            one(Large(seq))

    return call


def is_taken(one):
    """Whether such sequences are taken by a call: not if it is for two axes, or for no empty elements."""
    try:
        one(Large(RAGGED.copy()))
    except FITTING:
        return False
    return True


class Large(Operands):
    """Arguments as large as the sequences."""

    tensors = ARRAYS
    columns = COLUMNS

    @cached_property
    def others(self):
        return SHUFFLED

    @cached_property
    def indices(self):
        return np.arange(N)[::-1].copy()


# Calls that take too long on so many elements, or start threads.
SMALL = (
    "sequence_map",
    "map_batches",
    "__iter__",
    "__reversed__",
    "tolist",
    "__repr__",
    "_repr_html_",
    "pack",
)


def calls(given):
    file, mask, positions = given["file"], given["mask"], given["positions"]
    registered = {
        label: edited(one) if one.edits else looked(one)
        for label, one in CALLS.items()
        if "seq" in one.uses
        and not (one.raises or one.partly or one.memory == "out" or one.name in SMALL)
        and one.section not in ("arrow", "files", "columns")
        and is_taken(one)
    }
    return registered | {
        "insert many": lambda: [RAGGED.copy().insert(i * 50, VALUES[:3]) for i in range(200)],
        "append many": lambda: [s.append(VALUES[:3]) for s in (SHUFFLED.copy(),) for _ in range(N)],
        "pop many": lambda: [s.pop() for s in (SHUFFLED.copy(), RAGGED.copy()) for _ in range(N)],
        "split": lambda: sq.split_to_sequence(VALUES),
        "split by lengths": lambda: sq.split_to_sequence(VALUES, LENGTHS),
        "from offsets": lambda: sq.TensorSequence.from_offsets(VALUES, RAGGED.offsets().tolist()),
        "from padded": lambda: sq.TensorSequence.from_padded(BATCH, LENGTHS),
        "join columns": lambda: sq.concat_from_sequence(IMAGES, 0),
        "join strings": lambda: WORDS.values(),
        "tolist": lambda: SHUFFLED.tolist(),
        "pinned": lambda: (SHUFFLED.pinned_nbytes, sq.TensorSequence(ARRAYS[:100]).pinned_nbytes),
        "pad strings": lambda: WORDS.to_padded(),
        "reduce columns": lambda: IMAGES.reduce(np.max, axis=0),
        "reduce by NumPy": lambda: IMAGES.reduce(np.hypot, axis=1),
        "pack": lambda: sq.pack(LENGTHS, 64),
        "pack, spaces far apart": lambda: sq.pack(LENGTHS, 2**62),
        "pack first": lambda: sq.pack(RAGGED, 64, strategy="first_fit_decreasing"),
        "pack next": lambda: sq.pack(LENGTHS.tolist(), 64, strategy="next_fit"),
        "sample sizes": lambda: list(sq.BatchSampler(LENGTHS, batch_size=64)),
        "sample tokens": lambda: list(sq.BatchSampler(RAGGED, max_tokens=640)),
        "sample packs": lambda: list(sq.BatchSampler(LENGTHS, capacity=640)),
        "map": lambda: sq.sequence_map(lambda a: a + 1, RAGGED[:20_000]),
        "map elementwise": lambda: sq.sequence_map(np.sqrt, SHUFFLED),
        "map sums": lambda: sq.sequence_map(np.sum, SHUFFLED),
        "map batches": lambda: sq.map_batches(lambda b: b + 1, SHUFFLED, batch_size=1000),
        "map on threads": lambda: sq.sequence_map(lambda a: a + 1, RAGGED[:20_000], max_workers=2),
        "pickle": lambda: pickle.dumps(SHUFFLED),
        "unpickle": lambda: pickle.loads(given["pickled"]),
        "columns": lambda: sq.Columns({"a": RAGGED, "b": ARRAYS * 3, "c": LENGTHS.tolist()}),
        "select columns": lambda: (COLUMNS[mask], COLUMNS[positions]["box"], file[positions]["label"]),
        "stream": lambda: sq.Columns.from_arrow(COLUMNS),
        "export": lambda: (SHUFFLED.__arrow_c_array__(), IMAGES.__arrow_c_array__()),
        "save": lambda: sq.save(path("saved.arrow"), SHUFFLED),
        "save columns": lambda: COLUMNS[mask].save(path("columns.arrow")),
        "load": lambda: sq.load(path("columns.arrow"))["words"],
        "load a folder": lambda: sq.load(path("folder")).values(),
        "load a pattern": lambda: sq.load(path("folder/*.arrow")).lengths(),
    }


# -- a child -------------------------------------------------------------------------------------------


def address_space():
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def fill(room):
    """Allocate all memory except for some room, and return a function that frees it."""
    gc.disable()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    libc = ctypes.CDLL(None)
    libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    libc.free.argtypes = [ctypes.c_void_p]
    taken = []
    limit = address_space()
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    # In pieces that a large array or store could take.
    nbytes = 1 << 24
    while nbytes >= 1 << 12:
        block = libc.malloc(nbytes)
        if block:
            taken.append(block)
        else:
            nbytes //= 2
    resource.setrlimit(resource.RLIMIT_AS, (limit + room, hard))

    def give_back():
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        for block in taken:
            libc.free(block)

    return give_back


def attempt(call, room):
    """In a child: 0 for a result, 1 for a MemoryError, or an exception."""
    give_back = fill(room)
    try:
        call()
        return 0
    except MemoryError:
        return 1
    except OSError as error:  # of a system call, such as one that lists a folder
        if error.errno != errno.ENOMEM:
            raise
        return 1
    finally:
        give_back()
        for seq, before in FAILED:
            seq._check()
            assert seq.lengths().tolist() == before.lengths().tolist(), "a failed edit has changed elements"
        for seq in (RAGGED, SHUFFLED, IMAGES, WORDS):
            seq._check()
        assert (len(RAGGED), len(SHUFFLED), len(WORDS), len(COLUMNS)) == (N,) * 4
        assert RAGGED.nbytes == SHUFFLED.nbytes == VALUES.nbytes
        left = [name for name in os.listdir(FOLDER.name) if name.endswith(".part")]
        assert not left, f"{left} was left behind"
        assert len(sq.load(path("columns.arrow"))) in (N, int((LENGTHS > 3).sum()))


def outcome(call, room):
    """Make a call in a child, with some room; return how it ended."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(PATIENCE)
        code = 2
        try:
            code = attempt(call, room)
        except BaseException as error:
            os.write(writing, repr(error).encode()[:4000])
        os._exit(code)
    os.close(writing)
    with open(reading, "rb") as said:
        reason = said.read().decode()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        return "it hangs" if number == signal.SIGALRM else f"it died: {signal.Signals(number).name}"
    return ["a result", "a MemoryError", reason][min(os.WEXITSTATUS(status), 2)]


def main(*names):
    """Return what went wrong, and print a line for each call."""
    total, faults = collections.Counter(), []
    began = time.monotonic()
    for name, call in calls(made()).items():
        if names and not name.startswith(names):
            continue
        found = collections.Counter()
        for room in ROOMS:
            how = outcome(call, room)
            if how not in ("a result", "a MemoryError"):
                faults.append(f"{name}, with {room:,} bytes of room: {how}")
                print(f"FAULT {faults[-1]}", flush=True)
                how = "a fault"
            found[how] += 1
            total[how] += 1
        print(f"{name:25}", ", ".join(f"{n} × {how}" for how, n in sorted(found.items())), flush=True)
    print(f"{sum(total.values())} calls in {time.monotonic() - began:.0f} s:", dict(total))
    return faults


if __name__ == "__main__":
    sys.exit(1 if main(*itertools.islice(sys.argv, 1, None)) else 0)
