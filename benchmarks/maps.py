"""The rows about SequenceMap: serial, on threads, and of graphs beside onnxruntime."""

import multiprocessing
import os
import sys
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from threading import Thread

import numpy as np

import seqcore as sq

from .declare import OURS, Limit, Side, case, floats, optional


def small_arrays(count):
    return [row.copy() for row in floats(count, 8)]


def add_one(tensor):
    return tensor + 1


def identity(tensor):
    return tensor


def map_serially(body):
    arrays = small_arrays(20_000)
    seq = sq.TensorSequence(arrays)
    return {
        OURS: Side(lambda: sq.sequence_map(body, seq), noperations=len(arrays)),
        "list comprehension": Side(lambda: [body(array) for array in arrays], noperations=len(arrays)),
    }


@case("map of a + 1 over 20,000 x 8 float32, serial", Limit("list comprehension", 1.5, aim=1.1))
def map_add():
    return map_serially(add_one)


@case("map of the identity over 20,000 x 8 float32, serial", Limit("list comprehension", 6))
def map_identity():
    return map_serially(identity)


@case("map of the sum over 20,000 x 8 float32, serial", Limit("list comprehension", 1.5, aim=1.1))
def map_sum():
    return map_serially(np.ndarray.sum)


@case(
    "map of a + 1 over 20,000 x 8 float32, two threads",
    Limit("serial", 1.6),
    Limit("ThreadPoolExecutor.map", 6, at_least=True),
)
def map_add_on_two_threads():
    arrays = small_arrays(20_000)
    seq = sq.TensorSequence(arrays)
    executor = ThreadPoolExecutor(2)
    return {
        OURS: Side(lambda: sq.sequence_map(add_one, seq, max_workers=2), noperations=len(arrays)),
        "serial": Side(lambda: sq.sequence_map(add_one, seq), noperations=len(arrays)),
        "ThreadPoolExecutor.map": Side(lambda: [*executor.map(add_one, arrays)], noperations=len(arrays)),
    }


@case(
    f"map of np.sort over 100 x 20,000 float64, two threads on {os.cpu_count()} CPUs",
    Limit("serial", 1.7, at_least=True),
)
def map_sort_on_two_threads():
    seq = sq.split_to_sequence(floats(100, 20_000, dtype=np.float64), keepdims=0)
    return {
        OURS: Side(lambda: sq.sequence_map(np.sort, seq, max_workers=2)),
        "serial": Side(lambda: sq.sequence_map(np.sort, seq)),
    }


def digits(tensor):
    """Work in plain Python, about 100 µs for each number.

    CPython 3.13 counts the references to a module's numbers above 256 in all threads together: with `% 1009`
    in the loop, two threads take as long as one, however they are started.
    """
    number, total = int(tensor[0]), 0
    for power in range(1000):
        total += (number * power) % 251
    return [total]


def all_digits(arrays):
    return [digits(array) for array in arrays]


if not getattr(sys, "_is_gil_enabled", lambda: True)():

    @case(
        "map of a Python loop over 1,000 numbers, two threads without a GIL",
        Limit("serial", 1.7, at_least=True),
        Limit("two threads by hand", 1.1),
        Limit("two processes by hand", 1.1),
    )
    def map_python_on_two_threads():
        arrays = [np.arange(i, i + 1) for i in range(1000)]
        halves = arrays[:500], arrays[500:]
        seq = sq.TensorSequence(arrays)
        processes = ProcessPoolExecutor(2, multiprocessing.get_context("spawn"))

        def on_threads():
            threads = [Thread(target=all_digits, args=(half,)) for half in halves]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

        return {
            OURS: Side(lambda: sq.sequence_map(digits, seq, max_workers=2), noperations=len(arrays)),
            "serial": Side(lambda: sq.sequence_map(digits, seq), noperations=len(arrays)),
            "two threads by hand": Side(on_threads, noperations=len(arrays)),
            "two processes by hand": Side(
                lambda: [*processes.map(all_digits, halves)], noperations=len(arrays)
            ),
        }


def map_graph(count):
    """onnxruntime's SequenceMap of an Add, beside the same body in ours."""
    ort, onnx = optional("onnxruntime"), optional("onnx")
    if not (ort and onnx):
        return {}
    from onnx import TensorProto, helper

    from seqcore.onnx import GraphBody

    element = helper.make_tensor_type_proto(TensorProto.FLOAT, [8])
    sequence = helper.make_sequence_type_proto(element)
    body = helper.make_graph(
        [helper.make_node("Add", ["a", "b"], ["c"])],
        "add",
        [helper.make_value_info("a", element), helper.make_value_info("b", element)],
        [helper.make_value_info("c", element)],
    )
    graph = helper.make_graph(
        [helper.make_node("SequenceMap", ["x", "y"], ["z"], body=body)],
        "map",
        [helper.make_value_info("x", sequence), helper.make_value_info("y", sequence)],
        [helper.make_value_info("z", sequence)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    arrays = small_arrays(count)
    seq, ours = sq.TensorSequence(arrays), GraphBody(body, {"": 17})
    return {
        OURS: Side(lambda: sq.sequence_map(ours, seq, seq, max_workers=2), noperations=count),
        "onnxruntime": Side(lambda: session.run(None, {"x": arrays, "y": arrays}), noperations=count),
    }


@case("SequenceMap(Add) over 1,000 x 8 float32, two threads", Limit("onnxruntime", 1.5, at_least=True))
def map_graph_over_few():
    return map_graph(1_000)


@case(
    "SequenceMap(Add) over 10,000 x 8 float32, two threads",
    Limit("onnxruntime", 12, aim=60, at_least=True),
)
def map_graph_over_many():
    return map_graph(10_000)


@case(
    "the demo's recognizer over a page's lines, two threads",
    Limit("one by one, onnxruntime's threads", 0.9, at_least=True),
)
def map_recognizer():
    ort = optional("onnxruntime")
    if not (ort and optional("skimage") and optional("rapidocr")):
        return {}
    from seqcore import demo

    page, _, spans = demo.find_lines(demo.shipped_page())
    lines = sq.TensorSequence([page[top:bottom] for top, bottom in spans])
    ours, theirs = demo.Recognizer(demo.find_model()), demo.Recognizer(demo.find_model())
    theirs._session = ort.InferenceSession(demo.find_model(), providers=["CPUExecutionProvider"])
    return {
        OURS: Side(lambda: sq.sequence_map(ours, lines, max_workers=2, chunksize=1), noperations=len(lines)),
        "one by one, onnxruntime's threads": Side(lambda: [*map(theirs, lines)], noperations=len(lines)),
    }
