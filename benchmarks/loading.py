"""Measure how long it takes to load the exported models (tests/models/exported), beside onnxruntime.

`python -m benchmarks.loading [PATTERN] [--profile]` prints a line for each model, the slowest last, and how
many lines and files seqcore.onnx has. Times are the CPU's in the calling thread, where both sides load:
other processes disturb them little. With --profile, it prints where the time of our loads goes.
"""

import argparse
import cProfile
import gc
import pstats
import re
import statistics
import time
from functools import partial
from pathlib import Path

from .exported import models

NROUNDS = 7


def lines_and_files():
    """Return how many lines and files seqcore.onnx has."""
    files = list((Path(__file__).parent.parent / "seqcore" / "onnx").rglob("*.py"))
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files), len(files)


def least_times(sides):
    """The least time of each side; they take turns."""
    times = [[] for _ in sides]
    for _ in range(NROUNDS):
        for own, side in zip(times, sides, strict=True):
            start = time.thread_time()
            side()
            own.append(time.thread_time() - start)
    return tuple(map(min, times))


def measured(chosen):
    """Yield each model's name, and the seconds of a load in our session and in onnxruntime's."""
    from onnxruntime import InferenceSession as Theirs

    from seqcore.onnx import InferenceSession as Ours

    for one in chosen:
        path = str(one.path)
        loads = [partial(Ours, path), partial(Theirs, path, providers=["CPUExecutionProvider"])]
        for load in loads:
            load()
        yield one.name, *least_times(loads)


def profile(chosen):
    """Print where the time of our loads goes, by functions."""
    from seqcore.onnx import InferenceSession

    for one in chosen:
        InferenceSession(str(one.path))
    profiler = cProfile.Profile()
    profiler.enable()
    for one in chosen:
        InferenceSession(str(one.path))
    profiler.disable()
    stats = pstats.Stats(profiler)
    stats.sort_stats("cumulative").print_stats("seqcore|onnx", 70)
    stats.sort_stats("tottime").print_stats(30)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pattern", nargs="?", default="")
    parser.add_argument("--profile", action="store_true")
    arguments = parser.parse_args()
    chosen = [one for one in models().values() if re.search(arguments.pattern, one.name)]
    if arguments.profile:
        profile(chosen)
        return
    gc.collect()
    gc.disable()
    cases = sorted(measured(chosen), key=lambda case: case[1] / case[2])
    width = max(len(name) for name, _, _ in cases)
    print(f"{'model':{width}}  load ms  theirs ms  ratio")
    for name, ours, theirs in cases:
        print(f"{name:{width}}{ours * 1e3:9.2f}{theirs * 1e3:11.2f}{ours / theirs:7.2f}")
    ratios = [ours / theirs for _, ours, theirs in cases]
    total = sum(ours for _, ours, _ in cases) / sum(theirs for _, _, theirs in cases)
    print(f"\nloading: median {statistics.median(ratios):.2f}, worst {max(ratios):.2f}, together {total:.2f}")
    print("seqcore.onnx: {} lines in {} files".format(*lines_and_files()))


if __name__ == "__main__":
    main()
