"""The rows of the table "How fast", each declared once: what runs, beside which peers, to which ratio."""

import os
from collections import deque
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import seqcore as sq

from .declare import OURS, Limit, Side, case, floats, optional


def small_arrays(count):
    return [row.copy() for row in floats(count, 8)]


# --- split ---


@case(
    "split 100,000 x 8 float32 into rows",
    Limit("slicing list comprehension", 1 / 25, aim=1 / 60),
    Limit("torch.split", 1 / 80),
    Limit("np.array_split", 1 / 100),
)
def split_rows():
    array = floats(100_000, 8)
    sides = {
        OURS: Side(lambda: sq.split_to_sequence(array)),
        "slicing list comprehension": Side(lambda: [array[i : i + 1] for i in range(len(array))]),
        "np.array_split": Side(lambda: np.array_split(array, len(array))),
    }
    if torch := optional("torch"):
        tensor = torch.from_numpy(array)
        sides["torch.split"] = Side(lambda: torch.split(tensor, 1))
    return sides


@case("split 8 x 100,000 float32 into columns", Limit("slicing list comprehension", 1 / 20))
def split_columns():
    array = floats(8, 100_000)
    return {
        OURS: Side(lambda: sq.split_to_sequence(array, axis=1)),
        "slicing list comprehension": Side(lambda: [array[:, i : i + 1] for i in range(array.shape[1])]),
    }


@case("split 100,000 x 8 float32 into 20,000 uneven parts", Limit("np.split", 1 / 50))
def split_unevenly():
    array = floats(100_000, 8)
    bounds = np.sort(np.random.default_rng(1).integers(0, len(array), 19_999, endpoint=True))
    lengths = np.diff(bounds, prepend=0, append=len(array))
    return {
        OURS: Side(lambda: sq.split_to_sequence(array, lengths)),
        "np.split": Side(lambda: np.split(array, bounds)),
    }


# --- join ---


@case(
    "join 100,000 x 8 float32 from its rows",
    Limit("memory copy of the result", 3, aim=1.5),
    Limit("np.concatenate", 1 / 12),
)
def join_rows():
    array = floats(100_000, 8)
    seq = sq.split_to_sequence(array)
    rows = [array[i : i + 1] for i in range(len(array))]
    return {
        OURS: Side(lambda: sq.concat_from_sequence(seq, 0)),
        "memory copy of the result": Side(array.copy),
        "np.concatenate": Side(lambda: np.concatenate(rows)),
    }


@case("join 30,000 whole arrays of 1 to 8 x 8 float32", Limit("np.concatenate", 1 / 2))
def join_whole_arrays():
    arrays = [floats(rows, 8) for rows in np.random.default_rng(1).integers(1, 8, 30_000, endpoint=True)]
    seq = sq.TensorSequence(arrays)
    return {
        OURS: Side(lambda: sq.concat_from_sequence(seq, 0)),
        "np.concatenate": Side(lambda: np.concatenate(arrays)),
    }


# --- look ---


@case("iterate over 100,000 pieces of 1 x 8", Limit("iterate over an array's rows", 1.3, aim=1))
def iterate():
    array = floats(100_000, 8)
    seq = sq.split_to_sequence(array)

    def drain(items):
        return Side(lambda: deque(items, maxlen=0), noperations=len(items))

    return {OURS: drain(seq), "iterate over an array's rows": drain(array)}


def look_up(positions):
    array = floats(100_000, 8)

    def each(items):
        def run():
            for i in positions:
                items[i]

        return Side(run, noperations=len(positions))

    return {OURS: each(sq.split_to_sequence(array)), "array[i]": each(array)}


@case("seq[i] of 100,000 pieces of 1 x 8, in order", Limit("array[i]", 1))
def look_up_in_order():
    return look_up(range(100_000))


@case("seq[i] of 100,000 pieces of 1 x 8, at random", Limit("array[i]", 1))
def look_up_at_random():
    return look_up(np.random.default_rng(1).permutation(100_000).tolist())


# --- edit ---


def sequence_at_cursor(nelements):
    """A sequence whose last edit was in its middle, and that middle."""
    seq, middle = sq.split_to_sequence(floats(nelements, 1)), nelements // 2
    seq.insert(middle, seq[0])
    seq.erase(middle)
    return seq, middle


@case("insert and erase at the cursor, n = 10⁶", Limit("the same, n = 10³", 1.6))
def edit_at_cursor():
    def edit(nelements):
        seq, cursor = sequence_at_cursor(nelements)
        tensor = floats(1, 1)

        def run():
            insert, erase = seq.insert, seq.erase
            for _ in range(5_000):
                insert(cursor, tensor)
                erase(cursor)

        return Side(run, noperations=5_000)

    return {OURS: edit(10**6), "the same, n = 10³": edit(10**3)}


@case("insert at the cursor 10,000 times, n = 10³", Limit("list.append", 5, aim=3))
def insert_at_cursor():
    seq, cursor = sequence_at_cursor(10**3)
    tensor = floats(1, 1)
    positions = range(cursor, cursor + 10_000)

    def run_insert(insert):
        for position in positions:
            insert(position, tensor)

    def run_append(append):
        for _ in positions:
            append(tensor)

    def fresh():
        copy = seq.copy()
        copy.insert(cursor, tensor)
        return copy.insert

    return {
        OURS: Side(run_insert, fresh, len(positions)),
        "list.append": Side(run_append, lambda: [].append, len(positions)),
    }


@case("append, per element, up to 10⁶", Limit("the same, up to 10⁴", 2))
def append():
    tensor = floats(8)

    def fill(nelements):
        def run(append):
            for _ in range(nelements):
                append(tensor)

        return Side(run, lambda: sq.sequence_empty().append, nelements)

    return {OURS: fill(10**6), "the same, up to 10⁴": fill(10**4)}


@case("500 inserts within ±8 of a cursor, n = 10⁶", Limit("list.insert", 1 / 150))
def edit_near_cursor():
    seq, cursor = sequence_at_cursor(10**6)
    offsets = np.random.default_rng(1).integers(-8, 8, 500, endpoint=True)
    return insert_sides(seq, (cursor + offsets).tolist(), start=cursor)


@case("2,000 inserts at random positions, n = 10⁵", Limit("list.insert", 1))
def insert_anywhere():
    seq = sq.split_to_sequence(floats(10**5, 1))
    return insert_sides(seq, np.random.default_rng(1).integers(0, len(seq), 2_000).tolist(), start=len(seq))


def insert_sides(seq, positions, start):
    """The same inserts into copies of a sequence and of the list of its elements, after one at the start."""
    tensor, elements = seq[0], [*seq]

    def run(insert):
        for position in positions:
            insert(position, tensor)

    def fresh(items):
        def make():
            copy = items.copy()
            copy.insert(start, tensor)
            return copy.insert

        return make

    return {
        OURS: Side(run, fresh(seq), len(positions)),
        "list.insert": Side(run, fresh(elements), len(positions)),
    }


@case("memory of a split piece, of 10⁶", Limit("(bytes)", 48, aim=32), unit="bytes")
def piece_memory():
    array = floats(10**6, 1)
    return {OURS: Side(lambda: sq.split_to_sequence(array), noperations=len(array))}


# --- map ---


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
    Limit("serial", 1.6, at_least=True),
)
def map_sort_on_two_threads():
    seq = sq.split_to_sequence(floats(100, 20_000, dtype=np.float64), keepdims=0)
    return {
        OURS: Side(lambda: sq.sequence_map(np.sort, seq, max_workers=2)),
        "serial": Side(lambda: sq.sequence_map(np.sort, seq)),
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
    "the demo's recogniser over a page's lines, two threads",
    Limit("one by one, onnxruntime's threads", 0.9, at_least=True),
)
def map_recogniser():
    ort = optional("onnxruntime")
    if not (ort and optional("skimage") and optional("rapidocr")):
        return {}
    from seqcore import demo

    page, _, spans = demo.find_lines(demo.shipped_page())
    lines = sq.TensorSequence([page[top:bottom] for top, bottom in spans])
    ours, theirs = demo.Recogniser(demo.find_model()), demo.Recogniser(demo.find_model())
    theirs._session = ort.InferenceSession(demo.find_model(), providers=["CPUExecutionProvider"])
    return {
        OURS: Side(lambda: sq.sequence_map(ours, lines, max_workers=2, chunksize=1), noperations=len(lines)),
        "one by one, onnxruntime's threads": Side(lambda: [*map(theirs, lines)], noperations=len(lines)),
    }
