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
import ctypes
import functools
import gc
import os
import shutil
import subprocess
import sys
import tempfile
import traceback
from collections import Counter
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent.parent), str(HERE.parent)]

import numpy as np  # noqa: E402
from operations import GROUPS, WATCHED, OnThreads  # noqa: E402
from type_cache import clear_type_cache  # noqa: E402

import seqcore as sq  # noqa: E402

MOST = 2000  # allocations of one operation
TRIED = sys.version_info[:2] == (3, 11)
THROUGH = 25  # that did not fail, one behind the other, tell that an operation is through
SWEEPS = 4  # the first also looks at the contents, the others count
# What glibc keeps for a thread's next malloc counts as in use, so bytes would come and go in waves.
COUNTED = {"GLIBC_TUNABLES": "glibc.malloc.tcache_count=0"}

# Without the group with threads, which the C library's own mallocs would not spare, and that with pyarrow's.
MALLOC_GROUPS = [name for name in GROUPS if name not in ("maps", "files")]


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
    clear_type_cache()
    info = mallinfo() if mallinfo else None
    return sys.getallocatedblocks(), info.uordblks + info.hblkhd if info else 0


# -- the sweep -------------------------------------------------------------------------------------------


def contents(seq):
    seq._check()
    return [(t.shape, t.tobytes() if t.dtype != object else t.tolist()) for t in seq]


def is_clear(error):
    """Whether a failure is what it should be. CPython may lose one when it has no memory for a frame."""
    told = str(error)
    lost = told.startswith("<function ") and told.endswith("returned NULL without setting an exception")
    return isinstance(error, MemoryError) or lost or told == "error return without exception set"


class Sweep:
    """All allocations of one operation, failed one after the other."""

    def __init__(self, name, operation, maker, shared, in_a_row):
        self.name, self.operation, self.maker = name, operation, maker
        self.shared, self.in_a_row = shared, in_a_row
        self.tracing, self.trace = False, "no error"

    def attempt(self, number):
        """Fail an allocation; return the sequence, its copy or None, and the error's type or None."""
        maker = self.maker
        disarm, in_a_row = maker.disarm, self.in_a_row
        seq = self.operation.make()
        run, *arguments = self.operation.prepare(seq)
        keeper = seq.copy() if self.shared else None
        error = None
        try:
            if isinstance(run, OnThreads):
                run(functools.partial(maker.arm, number, in_a_row))
            else:
                maker.arm(number, in_a_row)
                # A call with *arguments, which CPython makes in C, loses them where there is no frame for it.
                if not arguments:
                    run()
                elif len(arguments) == 1:
                    run(arguments[0])
                elif len(arguments) == 2:
                    run(arguments[0], arguments[1])
                elif len(arguments) == 3:
                    run(arguments[0], arguments[1], arguments[2])
                else:
                    run(*arguments)
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
        before = contents(self.operation.make())
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
            # What is cached settles down; what leaks, leaks each time.
            leaks = not self.operation.loose and max(map(min, zip(*growth, strict=True))) > 0
            if not leaks:
                break
        now = [sys.getrefcount(array) for array in WATCHED]
        assert now == references, f"{self.name}: references were lost or leaked: {references} → {now}"
        if leaks:
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
    # What explains wrong arguments passes them on: CPython 3.11 loses them if a frame finds no memory.
    sq.pack, sq.BatchSampler.__init__ = sq.pack.__wrapped__, sq.BatchSampler.__init__.__wrapped__
    operations = {k: one for k, one in GROUPS[name]().items() if TRIED or not one.loose}
    for operation in operations.values():  # what is imported, cached and made once
        for _ in range(3):
            run, *arguments = operation.prepare(operation.make())
            run(*arguments)
    gc.collect()
    gc.freeze()
    gc.disable()  # it would allocate in between
    for label, operation in operations.items():
        failed, noticed = 0, Counter()
        print(f"{name}: {label}", end="\t", flush=True)  # says where it was, if the process dies
        for shared in (False, True):
            for in_a_row in (1,) if operation.alone else (1, 3):
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
    arguments, environment = [__file__, "--here", name], {"OPENBLAS_NUM_THREADS": "1"}
    if library is not None:
        environment["LD_PRELOAD"] = str(library)
        arguments.append("--malloc")
    return table_of(arguments, environment, timeout)


def table_of(arguments, environment, timeout):
    """Run a script in a process of its own, and return the table that it prints."""
    command = [sys.executable, "-X", "faulthandler", *arguments]
    environment = os.environ | COUNTED | environment
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
