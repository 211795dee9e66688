"""References and memory counted over each operation, its error paths too, repeated; and over a million edits.

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
import weakref
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent.parent), str(HERE.parent), str(HERE)]

import numpy as np  # noqa: E402
from failed_allocations import in_use, table_of  # noqa: E402
from leak_operations import GROUPS  # noqa: E402
from operations import WATCHED, fails  # noqa: E402
from support.type_cache import clear_type_cache  # noqa: E402

import seqcore as sq  # noqa: E402

ROUNDS, QUICK, FEWEST = 3000, 150, 60
SOME = 50  # blocks that come and go, in however few rounds
SECONDS, QUICK_SECONDS = 2.0, 0.03  # after which no more rounds are begun
# -- a million edits -------------------------------------------------------------------------------------


def million_edits(count, report):
    """Edits of all kinds beside a list; at the end both are the same, and all sources are let go."""
    rng = random.Random(0)
    sources = [np.arange(i, i + 6.0).reshape(3, 2) for i in range(50)]
    gone = [weakref.ref(source) for source in sources]
    seq, model = sq.TensorSequence(dtype="float64"), []
    others = [seq.copy() for _ in range(3)]

    def some():
        source = rng.choice(sources)
        return [source, source[0], source[1:], source[:, ::-1]][rng.randrange(4)]

    def step():
        kind, n = rng.randrange(16), len(model)
        i = rng.randrange(n + 1)
        if n > 200:
            del seq[i : i + 90], model[i : i + 90]
        elif kind < 4 or n < 5:
            tensor = some()
            seq.insert(i, tensor)
            model.insert(i, tensor)
        elif kind < 6:
            j = rng.randrange(n)
            seq.pop(j)
            model.pop(j)
        elif kind == 6:
            j = rng.randrange(n)
            seq[j] = model[j] = some()
        elif kind == 7:
            news = [some() for _ in range(rng.randrange(4))]
            seq[i : i + 3] = model[i : i + 3] = news
        elif kind == 8:
            step = rng.choice([2, 5, -2, -7])
            del seq[i::step], model[i::step]
        elif kind == 9:
            seq.reverse()
            model.reverse()
        elif kind == 10:
            source = rng.choice(sources)
            seq.extend(sq.split_to_sequence(source, keepdims=0))
            model.extend(source)
        elif kind == 11:
            others[rng.randrange(3)] = seq[i:] if rng.random() < 0.5 else seq.copy()
        elif kind == 12 and rng.random() < 0.1:
            seq.compact()
        elif kind == 13:
            chosen = [rng.randrange(-n, n) for _ in range(rng.randrange(4))]
            others[rng.randrange(3)] = seq[chosen]
            news = [some() for _ in chosen]
            seq[chosen] = news
            for j, tensor in zip(chosen, news, strict=True):
                model[j] = tensor
        elif kind == 14:
            gone_ones = {rng.randrange(n) for _ in range(rng.randrange(4))}
            if rng.random() < 0.5:
                del seq[[*gone_ones]]
            else:
                del seq[[j in gone_ones for j in range(n)]]
            model[:] = [tensor for j, tensor in enumerate(model) if j not in gone_ones]
        else:
            fails(IndexError, seq.insert, n + 1, sources[0])
            fails(TypeError, seq.extend, [sources[0], 1j])

    def run(rounds):
        for _ in range(rounds):
            step()

    run(count // 5)  # until all that is cached is
    gc.collect()
    before = Size()
    run(count)
    gc.collect()
    grown = Size() - before
    seq._check()
    assert len(seq) == len(model)
    for element, array in zip(seq, model, strict=True):
        np.testing.assert_array_equal(element, array)
    del element, array
    sources.clear()
    model.clear()
    seq.clear()
    for other in others:
        other.clear()
    gc.collect()
    assert not [ref for ref in gone if ref() is not None], "sources were not let go"
    report("edits", count, grown)
    assert grown.blocks < 3000, "blocks were left behind"  # of 200 elements more or less
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
        million_edits(30_000 if quick else 1_000_000, report)
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
