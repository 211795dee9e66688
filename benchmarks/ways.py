"""Bodies by ways to run them: `python -m benchmarks.ways ["np.sort" [serial "two threads" …]]`.

A cell has the time of an element, and in brackets its ratio to that of each loop by hand: a list
comprehension, and for several workers one over each of eight slices of a list of arrays. On threads the last
number is the ratio to our own serial map. The sides run in turns, and the least time of each counts.
"""

import importlib
import multiprocessing
import os
import sys
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import cache, partial

import numpy as np

import seqcore as sq

from .declare import Side, optional
from .measure import take_turns

NSLICES, NROUNDS, SECONDS = 8, 15, 0.05  # seconds: that the runs of a side take in a round
MORE, ITEMS = 10, 1 << 24  # other processes get more elements, because nobody sends them a few milliseconds


def loop(tensor, rounds):
    """Work in plain Python, about 50 ns a round."""
    total = len(tensor)
    for power in range(rounds):
        total += (total * power) % 251
    return np.array(total)


def plus_one(tensor):
    return tensor + 1


@cache
def compiled():
    helper = importlib.import_module("onnx").helper
    from seqcore.onnx import GraphBody

    value = [helper.make_tensor_value_info(name, 1, ["n"]) for name in "ab"]
    nodes = [helper.make_node("Softmax", ["a"], ["b"], axis=0)]
    return GraphBody(helper.make_graph(nodes, "softmax", value[:1], value[1:]), {"": 17})


# The body, the number of elements, and the items of each.
BODIES = {
    "Python, 1 µs": (partial(loop, rounds=10), 10_000, 1),
    "Python, 10 µs": (partial(loop, rounds=200), 10_000, 1),
    "Python, 100 µs": (partial(loop, rounds=2_000), 1_000, 1),
    "np.sort of 10": (np.sort, 10_000, 10),
    "np.sort of 200": (np.sort, 10_000, 200),
    "np.sort of 2,000": (np.sort, 10_000, 2_000),
    "np.sort of 20,000": (np.sort, 200, 20_000),
    "np.negative of 8": (np.negative, 10_000, 8),
    "a graph of 8": ("graph", 10_000, 8),
    "a graph of 20,000": ("graph", 1_000, 20_000),
    "np.negative, 10 elements": (np.negative, 10, 8),
    "a + 1, 10 elements": (plus_one, 10, 8),
}


def over_slice(body, arrays):
    return [body(array) for array in arrays]


def on_pool(pool):
    """Return a map's options for an executor, and a function that runs slices on it by hand."""
    return {"executor": pool}, lambda body, slices: [*pool.map(partial(over_slice, body), slices)]


@cache
def workers_of(way):
    """Return a map's options, and a function that runs slices by hand; None if a package isn't installed."""
    if way == "two threads":
        return {"max_workers": 2}, on_pool(ThreadPoolExecutor(2))[1]
    if way == "two processes":
        return on_pool(ProcessPoolExecutor(2, multiprocessing.get_context("spawn")))
    module = optional({"loky": "loky", "Dask": "distributed", "Ray": "ray"}[way])
    if not module:
        return None
    environment = {"PYTHONPATH": os.getcwd()}
    if way == "loky":
        return on_pool(module.get_reusable_executor(2, env=environment))
    if way == "Dask":
        # Its profiler reads other threads' frames, which can end a process without the GIL.
        importlib.import_module("dask").config.set({"distributed.worker.profile.enabled": False})
        client = module.Client(module.LocalCluster(2, threads_per_worker=1, dashboard_address="127.0.0.1:0"))
        return {"executor": client}, lambda body, slices: client.gather(
            client.map(partial(over_slice, body), slices, pure=False)
        )
    module.init(
        num_cpus=2, include_dashboard=False, log_to_driver=False, runtime_env={"env_vars": environment}
    )
    remote = module.remote(over_slice)
    return {"executor": module}, lambda body, slices: module.get([remote.remote(body, one) for one in slices])


def sides(name, way):
    """Return ours and the loops to compare with; nothing if a package isn't installed."""
    body, count, items = BODIES[name]
    if body == "graph":
        if not (optional("onnxruntime") and optional("onnx")):
            return {}
        body = compiled()
    if way not in HERE:
        count = max(count, min(MORE * count, ITEMS // items))
    numbers = np.random.default_rng(0).random((count, items), np.float32)
    seq = sq.split_to_sequence(numbers, keepdims=0)
    arrays = [element.copy() for element in seq]
    serial = partial(sq.sequence_map, body, seq)
    alone = partial(over_slice, body, arrays)
    if way == "serial":
        return {"ours": Side(serial, noperations=count), "alone": Side(alone, noperations=count)}
    if not (workers := workers_of(way)):
        return {}
    options, by_hand = workers
    size = -(-count // NSLICES)
    slices = [arrays[start : start + size] for start in range(0, count, size)]
    made = {
        "ours": Side(partial(serial, **options), noperations=count),
        "by hand": Side(partial(by_hand, body, slices), noperations=count),
    }
    if way == "two threads":
        made |= {"alone": Side(alone, noperations=count), "serial": Side(serial, noperations=count)}
    return made


def cell(name, way):
    """Return the time of an element in µs, and its ratio to that of each other side."""
    if not (made := sides(name, way)):
        return "not installed"
    least = {side: min(times) for side, times in take_turns(made, NROUNDS, SECONDS).items()}
    ours = least.pop("ours")
    return f"{ours * 1e6:.3g} ({', '.join(f'{ours / other:.2f}' for other in least.values())})"


def main(arguments):
    """Print a line for each body whose name has the word given, and a column for each way."""
    word, ways = (arguments[0] if arguments else ""), arguments[1:] or WAYS
    print("µs an element (ratios: two threads and more by hand, a list comprehension, our serial map)")
    print(f"{'body':26}", *(f"{way:26}" for way in ways))
    for name in BODIES:
        if word in name:
            print(f"{name:26}", *(f"{cell(name, way):26}" for way in ways), flush=True)


HERE = "serial", "two threads"
WAYS = [*HERE, "two processes", "loky", "Dask", "Ray"]

if __name__ == "__main__":
    # By its name, so that workers find the bodies.
    importlib.import_module("benchmarks.ways").main(sys.argv[1:])
