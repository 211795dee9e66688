"""References and memory counted over each operation, its error paths too, repeated; and over many edits.

    python tests/hardening/leaks.py [--quick] [GROUP …]

runs each group of operations in a process of its own, and prints for each operation by what the process has
grown over how many rounds. An operation leaks where a source has another number of references than before,
or where blocks, bytes or pages grow with the rounds. After a warm-up an operation that does not leak ends
with what it began with, but for what is cached once.
"""

import argparse
import gc
import os
import random
import sys
import threading
import time
import tracemalloc
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent.parent), str(HERE.parent), str(HERE)]

from failed_allocations import in_use, table_of  # noqa: E402
from hardening.fuzz import edits  # noqa: E402
from leak_operations import GROUPS  # noqa: E402
from operations import WATCHED  # noqa: E402
from type_cache import clear_type_cache  # noqa: E402

ROUNDS, QUICK, FEWEST = 3000, 150, 60
SOME = 50  # blocks that come and go, in however few rounds
SECONDS, QUICK_SECONDS = 2.0, 0.03  # after which no more rounds are begun
# -- many edits -----------------------------------------------------------------------------------------


def many_edits(count, report):
    """Scripts of edits of all kinds, each beside a list; at the end nothing of them is left."""
    rng = random.Random(0)

    def run(rounds):
        for _ in range(rounds):
            edits.run(rng.randbytes(500))

    run(max(count // 5, 200))  # until all that is cached is
    gc.collect()
    before = Size()
    run(count)
    gc.collect()
    grown = Size() - before
    report("edits", count, grown)
    assert grown.blocks < 1000, "blocks were left behind"
    assert grown.pages < 2 << 20, "the process has grown"


# -- counting --------------------------------------------------------------------------------------------


class Size:
    """Blocks of Python's allocator, bytes of the C library's where that tells, and of the process's pages."""

    def __init__(self, counts=None):
        self.blocks, self.bytes, self.pages = counts or (*in_use(), resident())

    def __sub__(self, other):
        return Size((self.blocks - other.blocks, self.bytes - other.bytes, self.pages - other.pages))


def resident():
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def repeated(run, rounds, seconds):
    """Run as often as asked, but no longer; return how often."""
    until = time.perf_counter() + seconds
    for done in range(rounds):
        run()
        if done >= FEWEST and time.perf_counter() > until:
            return done + 1
    return rounds


def waits(thread):
    return thread is threading.main_thread() or "ThreadPool" in thread.name or thread.name == "seqcore-map"


def settle():
    # What threads leave they leave when they end.
    while not all(waits(thread) for thread in threading.enumerate()):
        time.sleep(0.001)
    for _ in range(3):  # without a GIL, once doesn't find all
        gc.collect()
    clear_type_cache()


def measure(name, run, rounds, seconds, report, spare):
    repeated(run, max(rounds // 10, 20), seconds)
    for _ in range(6):  # what is cached late doesn't come again and again
        settle()
        references = [sys.getrefcount(array) for array in WATCHED]
        before = Size()
        done = repeated(run, rounds, seconds)
        settle()
        grown = Size() - before
        now = [sys.getrefcount(array) for array in WATCHED]
        wrong = [k for k, (a, b) in enumerate(zip(references, now, strict=True)) if a != b]
        if not wrong and grown.blocks < max(done // 2, SOME) and grown.bytes < max(8 * done, spare):
            break
    report(name, done, grown)
    assert not wrong, f"{name}: sources {wrong} have other references than before: {references} → {now}"
    assert grown.blocks < max(done // 2, SOME), f"{name} leaves {grown.blocks} blocks in {done} rounds"
    assert grown.bytes < max(8 * done, spare), f"{name} leaves {grown.bytes} bytes in {done} rounds"
    assert grown.pages < (4 << 20) + 4 * spare, (
        f"{name} makes the process grow by {grown.pages} bytes in {done} rounds"
    )


def trace(run, rounds, seconds):
    """Bytes that a round leaves, as tracemalloc sees them: it says in which lines, too."""
    run()
    tracemalloc.start()
    try:
        settle()
        before, _ = tracemalloc.get_traced_memory()
        done = repeated(run, rounds, seconds)
        settle()
        return (tracemalloc.get_traced_memory()[0] - before) / done
    finally:
        tracemalloc.stop()


def run_group(name, quick):
    def report(label, rounds, grown):
        print(f"{name}: {label}\t{rounds}\t{grown.blocks}\t{grown.bytes}\t{grown.pages}", flush=True)

    if name == "edits":
        many_edits(100 if quick else 20_000, report)
        return
    rounds, seconds = (QUICK, QUICK_SECONDS) if quick else (ROUNDS, SECONDS)
    # onnxruntime keeps memory of its own in hand, up to a megabyte or two, which comes and goes.
    spare = 4 << 20 if name == "graphs" else 1 << 14
    operations = GROUPS[name]()
    gc.collect()
    gc.freeze()  # what packages keep, which each search for garbage would go through
    for label, run in operations.items():
        measure(label, run, rounds, seconds, report, spare)
        # Arrays that onnxruntime makes stay on tracemalloc's books where malloc's own show nothing left.
        if not quick and name != "graphs":
            traced = min(trace(run, rounds // 4, seconds) for _ in range(2))
            assert traced < 16, f"{label} leaves {traced:.0f} traced bytes in a round"


def start_group(name, quick, timeout=3000):
    """Run a group in a process of its own; return its table: operation, rounds, blocks, bytes, pages."""
    return table_of([__file__, "--here", name, *["--quick"] * quick], {}, timeout)


def main():
    names = [*GROUPS, "edits"]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=f"of {', '.join(names)}")
    parser.add_argument("--quick", action="store_true", help="few rounds, as in the suite")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.here:
        run_group(arguments.groups[0], arguments.quick)
        return
    for name in arguments.groups or names:
        table = start_group(name, arguments.quick)
        for row in table:
            print("{:55} {:9,} rounds: {:6,} blocks, {:8,} bytes, {:10,} of pages".format(*row))
        most = [max(column) for column in list(zip(*table, strict=True))[2:]]
        rounds = sum(row[1] for row in table)
        print(f"{name}: {len(table)} operations, {rounds:,} rounds; at most", end=" ")
        print(f"{most[0]:,} blocks, {most[1]:,} bytes, {most[2]:,} of pages more\n", flush=True)


if __name__ == "__main__":
    main()
