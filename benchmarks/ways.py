"""Bodies by ways to run them: `python -m benchmarks.ways ["np.sort" [serial "two threads" …]]`.

Each map stands beside what one would write by hand for the same workers, and beside a loop. By hand means a
list comprehension, and for several workers one over each of eight slices of a list of arrays.

A cell has the largest of the ratios, so it tells how ours compares with the better loop. Each ratio is the
median of several processes, because a loop in Python is up to a tenth faster or slower in one process than in
another, depending on where its memory is. In a process it is the geometric mean of those of the rounds, in
which the sides run one after the other: two threads that take turns with the GIL have faster and slower
states, so that no single round is typical, and a machine that is slower for a while is so for both.
"""

import importlib
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import cache
from operator import truediv

import numpy as np

import seqcore as sq

from .declare import OURS, Side, optional
from .measure import take_turns

LIST = "list comprehension"
NSLICES = 8
HERE = "serial", "two threads"
# For other processes there are more elements, because nobody sends them work of a few milliseconds.
MORE, ITEMS = 10, 1 << 24
NROUNDS, NPROCESSES = 15, 5  # of a cell
FEWER_ROUNDS, FEWER_PROCESSES = 7, 3  # … of one with workers elsewhere, which takes longer
SECONDS = 8  # … that its rounds may take, or there are fewer of them


def loop(tensor, rounds):
    """Work in plain Python."""
    number = total = len(tensor)
    for power in range(rounds):
        total += (number * power) % 251
    return np.array(total)


def rounds_for(microseconds):
    """Return for how many rounds a loop takes so long here: two lengths are timed, the best of some runs."""
    short, long = 10, 1010
    tensor, best = np.zeros(1), {}
    for rounds in (short, long):
        runs = []
        for _ in range(20):
            since = time.perf_counter()
            for _ in range(100):
                loop(tensor, rounds)
            runs.append((time.perf_counter() - since) * 1e4)
        best[rounds] = min(runs)
    return max(1, round(short + (microseconds - best[short]) * (long - short) / (best[long] - best[short])))


# Other processes get the numbers from this one.
ROUNDS = json.loads(os.environ.setdefault("ROUNDS", json.dumps([rounds_for(10**k) for k in range(3)])))
ENVIRONMENT = {"PYTHONPATH": os.getcwd(), "ROUNDS": os.environ["ROUNDS"]}


def python_1(tensor):
    return loop(tensor, ROUNDS[0])


def python_10(tensor):
    return loop(tensor, ROUNDS[1])


def python_100(tensor):
    return loop(tensor, ROUNDS[2])


@cache
def compiled():
    helper = importlib.import_module("onnx").helper
    from seqcore.onnx import GraphBody

    value = [helper.make_tensor_value_info(name, 1, ["n"]) for name in "ab"]
    nodes = [helper.make_node("Softmax", ["a"], ["b"], axis=0)]
    return GraphBody(helper.make_graph(nodes, "softmax", value[:1], value[1:]), {"": 17})


# The body, the number of elements, and the items of each.
BODIES = {
    "Python, 1 µs": (python_1, 10_000, 1),
    "Python, 10 µs": (python_10, 3_000, 1),
    "Python, 100 µs": (python_100, 300, 1),
    "np.sort of 10": (np.sort, 20_000, 10),
    "np.sort of 200": (np.sort, 20_000, 200),
    "np.sort of 2,000": (np.sort, 3_000, 2_000),
    "np.sort of 20,000": (np.sort, 200, 20_000),
    "a graph of 8": ("graph", 10_000, 8),
    "a graph of 20,000": ("graph", 1000, 20_000),
}


def over_slice(body, arrays):
    return [body(array) for array in arrays]


def slices_of(arrays):
    size = -(-len(arrays) // NSLICES)
    return [arrays[start : start + size] for start in range(0, len(arrays), size)]


@cache
def workers_of(way):
    """Return a map's options, and a function that runs slices by hand; None if a package isn't installed."""
    if way == "two threads":
        pool = ThreadPoolExecutor(2)
        return {"max_workers": 2}, lambda body, slices: [*pool.map(over_slice, [body] * len(slices), slices)]
    if way == "two processes":
        pool = ProcessPoolExecutor(2, multiprocessing.get_context("spawn"))
        return {"executor": pool}, lambda body, slices: [*pool.map(over_slice, [body] * len(slices), slices)]
    if way == "loky":
        if not (loky := optional("loky")):
            return None
        pool = loky.get_reusable_executor(2, env=ENVIRONMENT)
        return {"executor": pool}, lambda body, slices: [*pool.map(over_slice, [body] * len(slices), slices)]
    if way == "Dask":
        if not (distributed := optional("distributed")):
            return None
        # Its profiler reads other threads' frames, which can end a process without the GIL.
        importlib.import_module("dask").config.set({"distributed.worker.profile.enabled": False})
        cluster = distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0")
        client = distributed.Client(cluster)
        return {"executor": client}, lambda body, slices: client.gather(
            client.map(over_slice, [body] * len(slices), slices, pure=False)
        )
    if not (ray := optional("ray")):
        return None
    ray.init(
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
        runtime_env={"env_vars": ENVIRONMENT},
    )
    remote = ray.remote(over_slice)
    return {"executor": ray}, lambda body, slices: ray.get([remote.remote(body, one) for one in slices])


def sides(name, way):
    body, count, items = BODIES[name]
    if body == "graph":
        if not (optional("onnxruntime") and optional("onnx")):
            return {}
        body = compiled()
    if way != "serial" and workers_of(way) is None:
        return {}
    if way not in HERE:
        count = max(count, min(MORE * count, ITEMS // items))
    seq = sq.split_to_sequence(np.random.default_rng(0).random((count, items), np.float32), keepdims=0)
    arrays = [element.copy() for element in seq]
    made = {LIST: Side(lambda: [body(array) for array in arrays], noperations=count)}
    if way == "serial":
        return {OURS: Side(lambda: sq.sequence_map(body, seq), noperations=count)} | made
    options, by_hand = workers_of(way)
    slices = slices_of(arrays)
    return {
        OURS: Side(lambda: sq.sequence_map(body, seq, **options), noperations=count),
        "by hand": Side(lambda: by_hand(body, slices), noperations=count),
    } | (made if way == "two threads" else {})


def measure_here(name, way):
    """Return our mean time of an element in seconds, and its ratio to that by each loop, by its name."""
    if not (made := sides(name, way)):
        return {}
    nrounds = NROUNDS
    if way not in HERE:
        for _ in range(2):  # the first time the workers start
            since = time.perf_counter()
            for side in made.values():
                side.run()
        nrounds = max(1, min(FEWER_ROUNDS, int(SECONDS / (time.perf_counter() - since))))
    times = take_turns(made, nrounds, 0.01)
    ours = times.pop(OURS)
    ratios = {side: statistics.geometric_mean(map(truediv, ours, theirs)) for side, theirs in times.items()}
    return {OURS: statistics.mean(ours)} | ratios


def cell(name, way):
    """Return the time of an element in µs, and its ratio to that of the better loop by hand."""
    found = []
    for _ in range(NPROCESSES if way in HERE else FEWER_PROCESSES):
        command = [sys.executable, "-W", "ignore", "-m", "benchmarks.ways", "--cell", name, way]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            sys.exit(done.stderr)
        found.append(json.loads(done.stdout.splitlines()[-1]))
    if not found[0]:
        return "not installed"
    medians = {side: statistics.median(one[side] for one in found) for side in found[0]}
    ours = medians.pop(OURS)
    return f"{ours * 1e6:.3g} ({max(medians.values()):.2f})"


def main(arguments):
    """Print a line for each body whose name has the word given, and a column for each way."""
    if arguments[:1] == ["--cell"]:
        print("\n" + json.dumps(measure_here(*arguments[1:])))
        return
    word, ways = (arguments[0] if arguments else ""), arguments[1:] or WAYS
    print("µs an element (ratio to the better loop by hand)")
    print(f"{'body':20}", *(f"{way:18}" for way in ways))
    for name in BODIES:
        if word in name:
            print(f"{name:20}", *(f"{cell(name, way):18}" for way in ways), flush=True)


WAYS = [*HERE, "two processes", "loky", "Dask", "Ray"]

if __name__ == "__main__":
    # By its name, so that workers find the bodies.
    importlib.import_module("benchmarks.ways").main(sys.argv[1:])
