"""Each allocation of each operation is made to fail in turn: a MemoryError, all as it was, nothing lost.

    python tests/hardening/failed_allocations.py [--malloc] [GROUP …]

runs each group of operations in a process of its own and prints a table. Two things can make allocations
fail: CPython's own hook, which sees those of the interpreter and of this library; and with `--malloc` a
library of a few lines that stands before the C library's `malloc`, which sees those of NumPy's data too. The
latter needs Linux, glibc and a C compiler.

Each allocation is failed alone, and together with the two behind it, until the operation is through.
Afterwards the sequence holds what it held, copies too, and each source has the references it had. That is
done several times over: an operation leaks where each time leaves more blocks, or more bytes, than before.
"""

import argparse
import copy
import ctypes
import functools
import gc
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
import threading
import traceback
from collections import Counter, namedtuple
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent.parent), str(HERE.parent)]

import numpy as np  # noqa: E402

import seqcore as sq  # noqa: E402

MOST = 2000  # allocations of one operation
TRIED = sys.version_info[:2] == (3, 11)
THROUGH = 25  # that did not fail, one behind the other, tell that an operation is through
SWEEPS = 4  # the first also looks at the contents, the others count

# `partly`: the operation is several edits, of which the first may hold when the last has failed.
# `loose`: it goes through code of NumPy, ctypes or the interpreter that makes another exception of a failed
# allocation, or leaks itself. Then any exception will do, allocations fail one at a time, and only references
# to sources are counted. Where such code ends the process differs from one Python to the next: these are run
# with the one that they were tried with.
Operation = namedtuple("Operation", "run partly make loose", defaults=(False, None, False))
GROUPS = {}

# Left out, for a failed allocation ends the process there (CPython 3.11, NumPy 2.4, protobuf 7, Cython 3.3):
#   np.errstate, on the way of Python floats        CPython's PyContextVar_Set
#   hashes of dtypes, on that of foreign bytes      NumPy's PyArray_DescrHash
#   and fixed-width strings
#   pickle of dtypes: __reduce_ex__ is in           NumPy's arraydescr_reduce
#   to_proto and from_proto                         protobuf's PyUpb_Message_New
#   bodies of maps that raise                       Cython, which takes it that an exception caught by name
#                                                   has a traceback; maps have one failure at a time for that
# or leaks or waits for ever in others:
#   hold and let_go by ctypes                       whose result is lost where it can't become an int
#   notebook tables                                 NumPy's unravel_index
#   Thread.start()                                  CPython waits for a thread that had no memory to begin
#   ThreadPoolExecutor                              as do its futures for a worker that had none


def group(function):
    GROUPS[function.__name__] = function
    return function


def loose(run, make=None):
    return Operation(run, False, make, True)


def loosely(operations):
    return {name: one._replace(loose=True) for name, one in operations.items()}


# -- what is operated on ---------------------------------------------------------------------------------

TENSOR, RANK3 = np.zeros(3, np.float32), np.zeros((2, 2, 2), np.float32)
BASE = np.arange(40, dtype=np.float32).reshape(20, 2)
MORE = [np.full(4, i, np.float32) for i in range(50)]
ROWS, RANK5, LENGTHS = np.zeros((3000, 2)), np.zeros((2,) * 5), np.array([1000, 2000])
WORDS = np.array([["to", "be"], ["or", "not"], ["to", "be"]], object)
WATCHED = [TENSOR, RANK3, BASE, *MORE, ROWS, RANK5, LENGTHS, WORDS]


def fresh():
    seq = sq.split_to_sequence(BASE)
    seq.insert(5, TENSOR)
    seq.append(RANK3)
    return seq


def uniform():
    return sq.split_to_sequence(BASE)


def words():
    seq = sq.split_to_sequence(WORDS)
    seq.append("that")
    return seq


def fails(error, function, *arguments, **options):
    try:
        function(*arguments, **options)
    except error:
        return
    raise AssertionError(f"no {error.__name__}")


def generated(tensors, error_at=None):
    for i, tensor in enumerate(tensors):
        if i == error_at:
            raise KeyError(i)
        yield tensor


# -- the operations --------------------------------------------------------------------------------------


@group
def edits():
    return {
        "put in one": Operation(lambda s: (s.append(TENSOR), s.append(RANK3), s.insert(3, TENSOR)), True),
        "append": Operation(lambda s: s.append(RANK3)),
        "insert": Operation(lambda s: s.insert(-3, TENSOR)),
        "extend by a list": Operation(lambda s: s.extend(MORE)),
        "extend by a generator": Operation(lambda s: s.extend(generated(MORE))),
        "extend by a failing generator": loose(lambda s: fails(KeyError, s.extend, generated(MORE, 30))),
        "extend by a sequence": Operation(lambda s: s.extend(s[3:9])),
        "extend by itself": Operation(lambda s: s.extend(s)),
        "+= a list": Operation(lambda s: s.__iadd__(MORE)),
        "replace": Operation(lambda s: s.__setitem__(2, RANK3)),
        "replace a slice": Operation(lambda s: s.__setitem__(slice(2, 6), MORE)),
        "replace a slice by less": Operation(lambda s: s.__setitem__(slice(2, 20), MORE[:1])),
        "replace all by itself": Operation(lambda s: s.__setitem__(slice(None), s)),
        "replace steps": Operation(lambda s: s.__setitem__(slice(None, None, 2), MORE[:11])),
        "replace steps backwards": Operation(lambda s: s.__setitem__(slice(None, None, -2), MORE[:11])),
        "replace steps by too few": Operation(
            lambda s: fails(ValueError, s.__setitem__, slice(None, None, 2), MORE[:3])
        ),
        "pop": Operation(lambda s: s.pop(7)),
        "erase": Operation(lambda s: s.erase(7)),
        "remove": Operation(lambda s: s.remove(RANK3)),
        "remove what isn't there": Operation(lambda s: fails(ValueError, s.remove, MORE[3])),
        "take out a slice": Operation(lambda s: s.__delitem__(slice(3, 9))),
        "take out steps": Operation(lambda s: s.__delitem__(slice(None, None, 3))),
        "take out steps backwards": Operation(lambda s: s.__delitem__(slice(None, None, -3))),
        "take out all": Operation(lambda s: s.__delitem__(slice(None))),
        "reverse": Operation(lambda s: s.reverse()),
        "clear": Operation(lambda s: s.clear()),
        "compact": Operation(lambda s: s.compact()),
        "a wrong type": loose(lambda s: fails(TypeError, s.append, ROWS)),
        "a wrong position": Operation(lambda s: fails(IndexError, s.insert, 99, TENSOR)),
        "a buffer": loose(lambda s: s.append(memoryview(TENSOR))),
    }


@group
def looks():
    part = BASE[4:5].copy()
    return {
        "one": Operation(lambda s: (s[3], s[-1], s[np.int64(2)])),
        "slices": Operation(lambda s: (s[2:9], s[::2], s[:])),
        "slices backwards": Operation(lambda s: (s[::-1], s[9:2:-3])),
        "no position": Operation(lambda s: fails(IndexError, s.__getitem__, 99)),
        "iterate": Operation(lambda s: [*s]),
        "iterate backwards": Operation(lambda s: [*reversed(s)]),
        "next": Operation(lambda s: (next(iter(s)), next(reversed(s)), iter(s).__length_hint__())),
        "shapes": Operation(lambda s: s.shapes),
        "nbytes": Operation(lambda s: s.nbytes),
        "pinned_nbytes": Operation(lambda s: s.pinned_nbytes),
        "pinned_nbytes of a buffer": Operation(
            lambda s: s.pinned_nbytes, make=lambda: sq.TensorSequence([memoryview(TENSOR)])
        ),
        "in": Operation(lambda s: (part in s, MORE[1] in s)),
        "index": Operation(lambda s: (s.index(part), s.index(part, 2, -1))),
        "index of what isn't there": Operation(lambda s: fails(ValueError, s.index, MORE[1])),
        "count": Operation(lambda s: s.count(TENSOR)),
        "==": Operation(lambda s: s == s[::-1][::-1]),
        "== of large elements": Operation(
            lambda s: s == s[:], make=lambda: sq.TensorSequence([LARGE, TENSOR])
        ),
        "repr": loose(repr),
        "length": Operation(lambda s: (len(s), bool(s), s.dtype)),
        "_check": Operation(lambda s: s._check()),
    }


LARGE = np.zeros(100_000, np.float32)
WATCHED.append(LARGE)


@group
def copies():
    taken = fresh().__reduce_ex__(5)
    pickled = pickle.dumps(fresh(), 5)
    buffers = []
    apart = pickle.dumps(sq.TensorSequence([LARGE, BASE]), 5, buffer_callback=buffers.append)
    damaged = (sq.TensorSequence, "float32", [(BASE, 0)], np.array([[0, 19, 2]]))
    return {
        "copy": Operation(lambda s: s.copy()),
        "copy.copy": Operation(copy.copy),
        "deepcopy": Operation(copy.deepcopy),
        "+": Operation(lambda s: (s + MORE, s + s)),
        "+ from the right": Operation(lambda s: MORE + s),
        "construct": Operation(lambda s: sq.TensorSequence(MORE, np.dtype("float32"))),
        "construct by a generator": Operation(lambda s: sq.TensorSequence(generated(MORE))),
        "construct copies": Operation(lambda s: sq.TensorSequence(MORE, copy=True)),
        "construct from a sequence": Operation(lambda s: sq.TensorSequence(s)),
        "construct copies of a sequence": Operation(lambda s: sq.TensorSequence(s, copy=True)),
        "construct nothing": Operation(lambda s: sq.TensorSequence(dtype="int8")),
        "construct without a type": Operation(lambda s: fails(ValueError, sq.TensorSequence)),
        "reduce": loose(lambda s: s.__reduce_ex__(5)),
        "restore": Operation(lambda s: taken[0](*taken[1])),
        "restore what is damaged": Operation(lambda s: fails(ValueError, taken[0], *damaged)),
        "unpickle": loose(lambda s: pickle.loads(pickled)),
        "unpickle out of band": loose(lambda s: pickle.loads(apart, buffers=buffers)),
    }  # fmt: skip


@group
def strings():
    taken = words().__reduce_ex__(5)
    return loosely(
        {
            "put in": Operation(lambda s: s.append(WORDS), make=words),
            "put in str": Operation(lambda s: s.extend(["a", ["b", "c"]]), make=words),
            "put in bytes": Operation(
                lambda s: fails(TypeError, s.append, np.array([b"a"], object)), make=words
            ),
            "split": Operation(lambda s: sq.split_to_sequence(WORDS, axis=1), make=words),
            "join": Operation(lambda s: sq.concat_from_sequence(s[:3], 0), make=words),
            "stack": Operation(lambda s: sq.concat_from_sequence(s[:3], 0, new_axis=1), make=words),
            "compact": Operation(lambda s: s.compact(), make=words),
            "look": Operation(lambda s: [*s], make=words),
            "==": Operation(lambda s: (s == s[:-1], s == s[::-1][::-1]), make=words),
            "find": Operation(lambda s: (s.index("that"), s.count([["to", "be"]]), "x" in s), make=words),
            "deepcopy": Operation(copy.deepcopy, make=words),
            "reduce": Operation(lambda s: s.__reduce_ex__(5), make=words),
            "restore": Operation(lambda s: taken[0](*taken[1]), make=words),
            "show": Operation(lambda s: repr(s), make=words),
        }
    )


@group
def operators():
    return {
        "construct": Operation(lambda s: sq.sequence_construct(*MORE[:5])),
        "empty": Operation(lambda s: (sq.sequence_empty("int8"), sq.sequence_empty())),
        "length": Operation(lambda s: (sq.sequence_length(s), sq.sequence_length(MORE[:3]))),
        "at": Operation(lambda s: (sq.sequence_at(s, 3), sq.sequence_at(s, np.array([2])))),
        "insert": Operation(lambda s: (sq.sequence_insert(s, TENSOR, 2), sq.sequence_insert([], TENSOR))),
        "erase": Operation(lambda s: (sq.sequence_erase(s, 2), sq.sequence_erase(MORE[:3]))),
        "split": Operation(lambda s: sq.split_to_sequence(ROWS)),
        "split and drop": Operation(lambda s: sq.split_to_sequence(RANK5, axis=2, keepdims=0)),
        "split evenly": Operation(lambda s: sq.split_to_sequence(ROWS, 7)),
        "split by lengths": Operation(lambda s: sq.split_to_sequence(ROWS, LENGTHS)),
        "split by a list": Operation(lambda s: sq.split_to_sequence(ROWS, [1000, 0, 2000])),
        "split wrongly": Operation(lambda s: fails(ValueError, sq.split_to_sequence, ROWS, [1, 2])),
        "split nothing": Operation(lambda s: sq.split_to_sequence(ROWS[:0])),
        "join": Operation(lambda s: sq.concat_from_sequence(s, 0), make=uniform),
        "join columns": Operation(lambda s: sq.concat_from_sequence(s, -1), make=uniform),
        "stack": Operation(lambda s: sq.concat_from_sequence(s, 1, new_axis=1), make=uniform),
        "join a list": Operation(lambda s: sq.concat_from_sequence(MORE, 0)),
        "join wrongly": Operation(lambda s: fails(ValueError, sq.concat_from_sequence, s, 0)),
    }


def bfloat16():
    import ml_dtypes

    array = np.arange(12).astype(ml_dtypes.bfloat16).reshape(6, 2)
    WATCHED.append(array)

    def make():
        return sq.split_to_sequence(array)

    taken = make().__reduce_ex__(5)
    return {
        "bfloat16: put in": Operation(lambda s: s.append(array), make=make),
        "bfloat16: join": Operation(lambda s: sq.concat_from_sequence(s, 0), make=make),
        "bfloat16: compact": Operation(lambda s: s.compact(), make=make),
        "bfloat16: ==": Operation(lambda s: s == s[::-1][::-1], make=make),
        "bfloat16: restore": Operation(lambda s: taken[0](*taken[1]), make=make),
        "bfloat16: reduce": Operation(lambda s: s.__reduce_ex__(5), make=make),
        "bfloat16: empty": Operation(lambda s: sq.sequence_empty("bfloat16")),
    }


@group
def more_types():
    operations = {
        f"{name}: all": Operation(
            lambda s: (s.append(s[0]), s.compact(), sq.concat_from_sequence(s, 0), s == s[::-1]),
            True,
            lambda name=name: sq.split_to_sequence(np.ones((4, 2), name)),
        )
        for name in ("bool", "uint8", "int64", "complex128")
    }
    try:
        return operations | bfloat16()
    except ImportError:
        return operations


@group
def c_api():
    import c_api as api

    memory, shape = np.arange(6, dtype=np.float32), api.extents(2, 3)
    address = memory.ctypes.data
    lengths = api.extents(1, 19)
    WATCHED.append(memory)

    return loosely(
        {
            "new_sequence": Operation(
                lambda s: (api.new_sequence("int8"), api.is_sequence(s), api.type_num(s))
            ),
            "at": Operation(lambda s: (api.at(s, 3), api.size(s))),
            "insert": Operation(lambda s: api.insert(s, -2, RANK3)),
            "append": Operation(lambda s: api.append(s, RANK3)),
            "replace": Operation(lambda s: api.replace(s, 2, RANK3)),
            "erase": Operation(lambda s: api.erase(s, 2)),
            "insert_memory": Operation(lambda s: api.insert_memory(s, 3, address, 2, shape, None, memory)),
            "insert_memory without items": Operation(
                lambda s: api.insert_memory(s, 3, None, 2, api.extents(0, 3), None, memory)
            ),
            "insert_memory nowhere": Operation(
                lambda s: fails(IndexError, api.insert_memory, s, 99, address, 2, shape, None, memory)
            ),
            "split": Operation(lambda s: (api.split(ROWS, 0, 7, 0), api.split(ROWS, 1, 1, 1))),
            "split_lengths": Operation(lambda s: api.split_lengths(BASE, 0, lengths, 2)),
            "join": Operation(lambda s: (api.join(s[:3], 0, 0), api.join(s[:3], 1, 1))),
            "no sequence": Operation(lambda s: fails(TypeError, api.hold, 7)),
        }
    )


@group
def maps():
    def several(a):
        return a + 1, a.sum()

    def numbers():
        return sq.split_to_sequence(np.arange(6.0))

    def made(run, partly=False):
        return Operation(run, partly, numbers)

    return loosely(
        {
            "serial": made(lambda s: sq.sequence_map(lambda a: a + 1, s)),
            "two outputs": made(lambda s: sq.sequence_map(several, s)),
            "two inputs": made(lambda s: sq.sequence_map(np.add, s, s)),
            "a whole tensor": made(lambda s: sq.sequence_map(np.add, s, np.float64(3))),
            "types given": made(lambda s: sq.sequence_map(several, s, output_dtypes=["float64", float])),
            "of nothing": made(lambda s: sq.sequence_map(abs, s[:0], output_dtypes="int8")),
            "a list": made(lambda s: sq.sequence_map(lambda a: a, MORE[:4])),
            "reported": made(lambda s: sq.sequence_map(lambda a: a, s, progress=lambda done, total: None)),
            "on threads": made(OnThreads(lambda a: a + 1)),
        }
    )


class OnThreads:
    """A map on two threads, whose allocations fail from the moment on when both have been started.

    Not while they start: Thread.start() of CPython waits for ever for a thread that had no memory to begin.
    """

    def __init__(self, body):
        self.body = body

    def __call__(self, seq, arm=lambda: None):
        both, here = threading.Barrier(2, arm, timeout=10), threading.local()

        def body(a):
            if not hasattr(here, "begun"):
                here.begun = True
                both.wait()
            return self.body(a)

        sq.sequence_map(body, seq, max_workers=2, chunksize=1)


# Whose threads the C library's own mallocs would not spare.
MALLOC_GROUPS = [name for name in GROUPS if name != "maps"]


# -- making them fail ------------------------------------------------------------------------------------


class Hook:
    """CPython's own: it sees the allocations of the interpreter's three domains."""

    def __init__(self):
        import _testcapi

        self.testcapi = _testcapi

    def arm(self, number, in_a_row):
        self.testcapi.set_nomemory(number, number + in_a_row)

    def disarm(self):
        self.testcapi.remove_mem_hooks()


class Malloc:
    """The library of failing_malloc.c, which this process was started with."""

    def __init__(self):
        # Of this kind for the GIL: nothing of ours is allocated between the call and the operation.
        self.fail = ctypes.PyDLL(None).fail_allocation
        self.fail.argtypes = [ctypes.c_long, ctypes.c_int]

    def arm(self, number, in_a_row):
        self.fail(number, in_a_row)

    def disarm(self):
        self.fail(0, 0)


class MallInfo(ctypes.Structure):
    # Of which `uordblks` is what is in use, and `hblkhd` what was mapped.
    _fields_ = [
        *((name, ctypes.c_size_t) for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd")),
        *((name, ctypes.c_size_t) for name in ("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")),
    ]


def _malloc_statistics():
    try:
        function = ctypes.CDLL(None).mallinfo2
    except (AttributeError, OSError, TypeError):
        return None
    function.restype = MallInfo
    return function


mallinfo = _malloc_statistics()


def in_use():
    """Blocks of Python's allocator, and bytes of the C library's where that tells."""
    info = mallinfo() if mallinfo else None
    return sys.getallocatedblocks(), info.uordblks + info.hblkhd if info else 0


# -- the sweep -------------------------------------------------------------------------------------------


def contents(seq):
    seq._check()
    return [(t.shape, t.tobytes() if t.dtype != object else t.tolist()) for t in seq]


def is_clear(error):
    """Whether a failure is what it should be. CPython may lose one when it has no memory for a frame."""
    return isinstance(error, MemoryError) or str(error) == "error return without exception set"


class Sweep:
    """All allocations of one operation, failed one after the other."""

    def __init__(self, name, operation, maker, shared, in_a_row):
        self.name, self.operation, self.maker = name, operation, maker
        self.shared, self.in_a_row = shared, in_a_row
        self.make = operation.make or fresh
        self.tracing, self.trace = False, "no error"

    def attempt(self, number):
        """Fail an allocation; return the sequence, its copy or None, and the error's type or None."""
        run, maker = self.operation.run, self.maker
        disarm, in_a_row = maker.disarm, self.in_a_row
        seq = self.make()
        keeper = seq.copy() if self.shared else None
        error = None
        try:
            if isinstance(run, OnThreads):
                run(seq, functools.partial(maker.arm, number, in_a_row))
            else:
                maker.arm(number, in_a_row)
                run(seq)
        except Exception as failure:
            while True:  # the next ones may have been kept for here
                try:
                    disarm()
                    break
                except MemoryError:
                    pass
            if not (self.operation.loose or is_clear(failure)):
                raise
            error = type(failure) if isinstance(failure, MemoryError) else Exception
            if self.tracing:
                self.trace = "".join(traceback.format_exception(failure))
        finally:
            disarm()
        return seq, keeper, error

    def look_at(self, number, before):
        seq, keeper, error = self.attempt(number)
        where = f"{self.name}: allocation {number}{' and two behind it' if self.in_a_row > 1 else ''}"
        if error is not None and not self.operation.partly:
            assert contents(seq) == before, f"{where} left the sequence changed"
        seq._check()
        assert keeper is None or contents(keeper) == before, f"{where} changed a copy"
        return error

    def count(self, number):
        return self.attempt(number)[2] is not None

    def run(self):
        """Return how many allocations were failed, and by error how many were noticed."""
        before = contents(self.make())
        last = number = 0
        noticed = Counter()
        while number < min(MOST, last + THROUGH):
            number += 1
            error = self.look_at(number, before)
            if error is not None:
                last = number
                noticed[error] += 1
        assert number < MOST, f"{self.name}: more than {MOST} allocations"
        self.look_for_leaks(number)
        return last, noticed

    def look_for_leaks(self, number):
        gc.collect()
        references = [sys.getrefcount(array) for array in WATCHED]
        growth = []
        for _ in range(SWEEPS):
            gc.collect()
            start = in_use()
            for k in range(1, number + 1):
                self.count(k)
            gc.collect()
            stop = in_use()
            growth.append([b - a for a, b in zip(start, stop, strict=True)])
        now = [sys.getrefcount(array) for array in WATCHED]
        assert now == references, f"{self.name}: references were lost or leaked: {references} → {now}"
        # What is cached settles down; what leaks, leaks each time.
        if not self.operation.loose and max(map(min, zip(*growth, strict=True))) > 0:
            culprits = "\n".join(self.culprits(number))
            assert not culprits, f"{self.name} leaks: {culprits}"

    def culprits(self, number, rounds=20):
        """What each allocation that leaks is for: the traceback of its failure."""
        for k in range(1, number + 1):
            self.attempt(k)
            start = in_use()
            for _ in range(rounds):
                self.attempt(k)
            grown = [b - a for a, b in zip(start, in_use(), strict=True)]
            if max(grown) >= rounds:
                self.tracing, self.trace = True, "no error"
                self.attempt(k)
                self.tracing = False
                yield f"allocation {k} leaves {grown} blocks and bytes in {rounds} rounds:\n{self.trace}"


def run_group(name, malloc):
    """Run a group here, and print a line for each operation."""
    maker = Malloc() if malloc else Hook()
    operations = {k: one for k, one in GROUPS[name]().items() if TRIED or not one.loose}
    for operation in operations.values():  # what is imported, cached and made once
        for _ in range(3):
            operation.run((operation.make or fresh)())
    gc.collect()
    gc.freeze()
    gc.disable()  # it would allocate in between
    for label, operation in operations.items():
        failed, noticed = 0, Counter()
        print(f"{name}: {label}", end="\t", flush=True)  # says where it was, if the process dies
        for shared in (False, True):
            for in_a_row in (1,) if operation.loose else (1, 3):
                more, errors = Sweep(label, operation, maker, shared, in_a_row).run()
                failed, noticed = failed + more, noticed + errors
        print(f"{failed}\t{noticed[MemoryError]}\t{noticed[Exception]}", flush=True)


# -- the command -----------------------------------------------------------------------------------------


def compile_malloc(folder):
    """Return the path of the library that makes mallocs fail, or None where it can't be had."""
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if sys.platform != "linux" or compiler is None or not hasattr(ctypes.CDLL(None), "__libc_malloc"):
        return None
    library = Path(folder, "failing_malloc.so")
    built = subprocess.run(
        [compiler, "-O2", "-shared", "-fPIC", "-o", library, HERE / "failing_malloc.c"], check=False
    )
    return library if built.returncode == 0 else None


def start_group(name, library=None, timeout=600):
    """Run a group in a process of its own; return its table: operation, failed, MemoryErrors, others."""
    environment = dict(os.environ, OPENBLAS_NUM_THREADS="1")
    command = [sys.executable, "-X", "faulthandler", __file__, "--here", name]
    if library is not None:
        environment["LD_PRELOAD"] = str(library)
        command.append("--malloc")
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=timeout, check=False
    )
    if done.returncode != 0:
        raise AssertionError(f"{done.stdout[-300:]}\n{done.stderr[-3000:]}")
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    return [(label, *map(int, counts)) for label, *counts in rows]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=f"of {', '.join(GROUPS)}")
    parser.add_argument("--malloc", action="store_true", help="fail malloc instead of Python's allocators")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.here:
        run_group(arguments.groups[0], arguments.malloc)
        return
    total = np.zeros(3, int)
    with tempfile.TemporaryDirectory() as folder:
        library = compile_malloc(folder) if arguments.malloc else None
        if arguments.malloc and library is None:
            raise SystemExit("--malloc needs Linux, glibc and a C compiler")
        for name in arguments.groups or (MALLOC_GROUPS if arguments.malloc else GROUPS):
            table = start_group(name, library)
            sums = np.array([row[1:] for row in table] or [(0, 0, 0)]).sum(0)
            for label, *counts in [*table, (f"{name}: together", *sums)]:
                print(
                    "{:50} {:7,} failed, {:7,} a MemoryError, {:5,} another exception".format(label, *counts)
                )
            print(flush=True)
            total += sums
    print("{:,} allocations failed: {:,} MemoryErrors, {:,} other exceptions".format(*total))


if __name__ == "__main__":
    main()
