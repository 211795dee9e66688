"""Damaged models, and what becomes of them: `damage.main(5, 9)` tries the cases from 5 to 8.

A damage is a function of a model's bytes and a `random.Random`, which returns other bytes. All follows from
the number of a case. Each is printed before it is tried, so that the last one is to blame for a crash.
"""

import contextlib
import faulthandler
import math
import os
import random
import re
import sys
import threading
import traceback
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import AttributeProto, ModelProto, TensorProto, helper
from support.damage import OF_BYTES
from support.models import variants

from seqcore.onnx import InferenceSession, lower

MODELS = Path(__file__).parents[2] / "models"
LARGEST = 2200  # bytes of a model that is damaged
HUGE = (-1, 0, 1, 2, 7, -7, 1 << 31, (1 << 31) - 1, 1 << 40, (1 << 63) - 1, -(1 << 63))

TEXTS = [
    """edit (seq(float[]) s, float[N] x, int64 i) => (seq(float[]) t, float[K] y, int64 n, float[M] joined) {
        a = SequenceInsert (s, x, i)
        t = SequenceErase (a)
        y = SequenceAt (t, i)
        n = SequenceLength (t)
        joined = ConcatFromSequence <axis = 0> (a)
    }""",
    """branch (seq(float[]) s, bool c, float[N] x) => (seq(float[]) t, int64 n) {
        t = If (c) <then_branch = a () => (seq(float[]) u) { u = SequenceInsert (s, x) },
                    else_branch = b () => (seq(float[]) v) { v = SequenceErase (s) }>
        n = SequenceLength (t)
    }""",
    """optional (optional(seq(float[])) o, optional(float[N]) p) => (seq(float[]) s, float[M] y, bool h) {
        h = OptionalHasElement (o)
        s = If (h) <then_branch = a () => (seq(float[]) u) { u = OptionalGetElement (o) },
                    else_branch = b () => (seq(float[]) v) { v = SequenceEmpty () }>
        hp = OptionalHasElement (p)
        y = If (hp) <then_branch = d () => (float[] q) { q = OptionalGetElement (p) },
                     else_branch = e () => (float[] r) { r = Constant <value = float[1] {2}> () }>
    }""",
    """nested (float[N, 3] x, int64 n, int64 m) => (seq(float[]) t, float[A, 3] y) {
        none = SequenceEmpty <dtype = 1> ()
        t = Loop (n, , none) <body = outer (int64 i, bool go, seq(float[]) s) => (bool on, seq(float[]) r) {
            inner = Loop (m, go, s) <body = deep (int64 j, bool g, seq(float[]) p)
                                          => (bool g2, seq(float[]) q) {
                k = Add (i, j)
                three = Constant <value = int64 {3}> ()
                at = Mod (k, three)
                row = Gather (x, at)
                q = SequenceInsert (p, row)
                g2 = Identity (g)
            }>
            size = SequenceLength (inner)
            four = Constant <value = int64 {4}> ()
            long = Greater (size, four)
            r = If (long) <then_branch = a () => (seq(float[]) u) { u = SequenceErase (inner) },
                           else_branch = b () => (seq(float[]) v) { v = Identity (inner) }>
            on = Identity (go)
        }>
        y = ConcatFromSequence <axis = 0, new_axis = 1> (t)
    }""",
    """scanned (float[2] x, float[N, 2] rows, seq(float[]) s) => (float[2] last, float[N, 2] y) {
        last, y = Scan <num_scan_inputs = 1, body = b (float[2] a, float[2] row) => (float[2] c, float[2] d) {
            zero = Constant <value = int64 {0}> ()
            e = SequenceAt (s, zero)
            c = Add (a, row)
            d = Mul (c, e)
        }> (x, rows)
    }""",
    """types (uint8[N] x, string[M] w, float16[N] h) => (seq(uint8[]) s, seq(string[]) t, float16[K] j) {
        s = SplitToSequence (x)
        t = SequenceConstruct (w, w)
        two = SequenceConstruct (h, h)
        j = ConcatFromSequence <axis = 0> (two)
    }""",
    """<ir_version: 8, opset_import: ["": 17, "own": 1]>
    called (seq(float[]) s, float[N] x) => (seq(float[]) t, float[M] y) {
        t = own.put <front = 1> (s, x)
        y = own.join (t)
    }
    <opset_import: ["": 17], domain: "own">
    put <front> (a, b) => (c) {
        k = Constant <value_int: int = @front> ()
        d = Neg (b)
        c = SequenceInsert (a, d, k)
    }
    <opset_import: ["": 17], domain: "own">
    join (a) => (b) { b = ConcatFromSequence <axis = 0> (a) }""",
    """weights (int64 i, bool c) => (float[K] y, seq(float[]) t)
    <float[3, 2] w = {1, 2, 3, 4, 5, 6}, int64[2] lengths = {1, 2}> {
        s = SplitToSequence <axis = 0> (w, lengths)
        y0 = SequenceAt (s, i)
        y = Flatten <axis = 0> (y0)
        t = Identity (s)
    }""",
]


def seeds():
    """The models that are damaged, as bytes, in an order of their own."""
    header = '<ir_version: 8, opset_import: ["" : 17]>\n'
    texts = [text if text.lstrip().startswith("<") else header + text for text in TEXTS]
    made = [onnx.parser.parse_model(text).SerializeToString() for text in texts]
    paths = sorted((MODELS / "exported").glob("*.onnx"))
    return made + [path.read_bytes() for path in paths if path.stat().st_size < LARGEST]


# Damage to bytes.


def repeat(data, rng):
    """All twice, or with part of another: protobuf merges them."""
    return data + (data if rng.random() < 0.3 else rng.choice(SEEDS))


# Damage to what the bytes say.


class NothingThere(Exception):
    """A model has nothing of what a damage is done to, and stays as it is."""


def on_model(damage):
    def apply(data, rng):
        model = ModelProto.FromString(data)
        for _ in range(rng.choice((1, 1, 1, 2, 3))):
            with contextlib.suppress(NothingThere):
                damage(model, rng)
        return model.SerializeToString()

    apply.__name__ = damage.__name__
    return apply


def graphs_of(model):
    return [*variants.graphs_of(model.graph)]


def roots_of(model):
    return [*graphs_of(model), *model.functions]


def nodes_of(model):
    return [node for graph in roots_of(model) for node in graph.node]


def values_of(model):
    return [value for graph in graphs_of(model) for value in (*graph.input, *graph.output, *graph.value_info)]


def names_of(model):
    names = [name for node in nodes_of(model) for name in (*node.input, *node.output)]
    return sorted({*names, *(value.name for value in values_of(model)), "", "nowhere"})


def pick(rng, things):
    if not len(things):
        raise NothingThere
    return rng.choice(things)


@on_model
def rename(model, rng):
    node = pick(rng, [node for node in nodes_of(model) if node.input or node.output])
    field = pick(rng, [field for field in (node.input, node.output) if len(field)])
    field[rng.randrange(len(field))] = rng.choice(names_of(model))


@on_model
def rename_value(model, rng):
    value = pick(rng, values_of(model))
    value.name = rng.choice(names_of(model))


@on_model
def drop_name(model, rng):
    node = pick(rng, nodes_of(model))
    field = pick(rng, [one for one in (node.input, node.output) if len(one)])
    del field[rng.randrange(len(field))]


@on_model
def add_name(model, rng):
    node = pick(rng, nodes_of(model))
    field = rng.choice((node.input, node.output))
    field.insert(rng.randrange(len(field) + 1), rng.choice(names_of(model)))


@on_model
def drop_value(model, rng):
    graph = rng.choice(roots_of(model))
    field = pick(rng, [field for field in (graph.input, graph.output) if len(field)])
    del field[rng.randrange(len(field))]


@on_model
def add_value(model, rng):
    graph, value = rng.choice(graphs_of(model)), pick(rng, values_of(model))
    rng.choice((graph.input, graph.output)).add().CopyFrom(value)


@on_model
def change_type(model, rng):
    kind = pick(rng, values_of(model)).type
    if rng.random() < 0.4:
        other = rng.choice(values_of(model)).type
        copy = type(other)()
        copy.CopyFrom(other)
        if rng.random() < 0.3:
            kind.sequence_type.elem_type.CopyFrom(copy)
        elif rng.random() < 0.3:
            kind.optional_type.elem_type.CopyFrom(copy)
        else:
            kind.CopyFrom(copy)
        return
    while (which := kind.WhichOneof("value")) in ("sequence_type", "optional_type"):
        if rng.random() < 0.1:
            kind.Clear()
            return
        kind = getattr(kind, which).elem_type
    tensor = kind.tensor_type
    way = rng.randrange(4)
    if way == 0 or not tensor.HasField("shape"):
        tensor.elem_type = rng.choice((*range(24), 99))
    elif way == 1:
        tensor.ClearField("shape")
    elif way == 2 or not tensor.shape.dim:
        tensor.shape.dim.add(dim_value=rng.choice(HUGE))
    else:
        rng.choice(tensor.shape.dim).dim_value = rng.choice(HUGE)


@on_model
def change_operator(model, rng):
    node = pick(rng, nodes_of(model))
    way = rng.random()
    if way < 0.8:
        others = sorted({other.op_type for other in nodes_of(model)})
        node.op_type = rng.choice([*others, *OPERATORS])
    elif way < 0.9:
        node.domain = rng.choice(("ai.onnx", "ai.onnx.ml", "own", "com.microsoft", "strange"))
    else:
        node.op_type = rng.choice(("", "Nothing", "\n"))


@on_model
def change_attribute(model, rng):
    node = pick(rng, [node for node in nodes_of(model) if node.attribute])
    one = rng.choice(node.attribute)
    way = rng.randrange(6)
    if way == 0:
        node.attribute.remove(one)
    elif way == 1:
        node.attribute.add().CopyFrom(one)
    elif way == 2:
        one.type = rng.choice((*range(15), one.type))
    elif way == 3:
        one.name = rng.choice(("axis", "keepdims", "dtype", "body", "value", "", "then_branch", "to"))
    elif one.type == AttributeProto.INT:
        one.i = rng.choice(HUGE)
    elif one.type == AttributeProto.TENSOR:
        change_tensor(one.t, rng)
    elif one.type == AttributeProto.GRAPH and way == 4:
        one.ClearField("g")
    elif one.type == AttributeProto.GRAPH:
        one.g.CopyFrom(pick(rng, [ModelProto.FromString(rng.choice(SEEDS)).graph]))


@on_model
def add_attribute(model, rng):
    node = pick(rng, nodes_of(model))
    name = rng.choice(("axis", "keepdims", "new_axis", "dtype", "to", "value_int", "num_scan_inputs"))
    value = rng.choice((*HUGE, 1.5, "text", [1, 2], [-1], []))
    if value == []:
        node.attribute.append(AttributeProto(name=name, type=AttributeProto.INTS))
    else:
        node.attribute.append(helper.make_attribute(name, value))


@on_model
def change_constant(model, rng):
    tensors = [one for graph in graphs_of(model) for one in graph.initializer]
    tensors += [
        one.t for node in nodes_of(model) for one in node.attribute if one.type == AttributeProto.TENSOR
    ]
    change_tensor(pick(rng, tensors), rng)


def change_tensor(tensor, rng):
    way = rng.randrange(6)
    if way == 0:
        tensor.data_type = rng.choice((*range(24), 99))
    elif way == 1:
        tensor.dims.append(rng.choice(HUGE))
    elif way == 2 and tensor.dims:
        tensor.dims[rng.randrange(len(tensor.dims))] = rng.choice(HUGE)
    elif way == 3:
        tensor.raw_data = rng.randbytes(rng.choice((0, 1, 4, 8, 9, 16)))
    elif way == 4 and tensor.data_type == TensorProto.INT64:
        tensor.ClearField("raw_data")
        tensor.int64_data[:] = [rng.choice(HUGE)] * min(max(math.prod(tensor.dims), 0), 9)
    elif way == 4:
        tensor.data_location = rng.choice((0, 1))
    else:
        tensor.name = rng.choice(("", "x", "s", "i", "none"))


@on_model
def add_initializer(model, rng):
    """A name gets a constant: an input a default, or something that a node makes."""
    graph = rng.choice(graphs_of(model))
    tensor = helper.make_tensor(rng.choice(names_of(model)), TensorProto.INT64, [], [rng.choice(HUGE)])
    if rng.random() < 0.8:
        graph.initializer.append(tensor)
    else:
        sparse = graph.sparse_initializer.add(dims=[3])
        sparse.values.CopyFrom(helper.make_tensor(tensor.name, TensorProto.FLOAT, [1], [2.0]))
        sparse.indices.CopyFrom(helper.make_tensor("", TensorProto.INT64, [1], [1]))


@on_model
def move_node(model, rng):
    """Another order, another graph, a second time, or away: values unmade, made twice, or in a circle."""
    graph = pick(rng, [graph for graph in roots_of(model) if graph.node])
    node = type(graph.node[0])()
    k = rng.randrange(len(graph.node))
    node.CopyFrom(graph.node[k])
    if rng.random() < 0.7:
        del graph.node[k]
    target = rng.choice((graph, graph, rng.choice(roots_of(model))))
    if rng.random() < 0.7:
        position = rng.randrange(len(target.node) + 1)
        nodes = [type(node).FromString(one.SerializeToString()) for one in target.node]
        del target.node[:]
        target.node.extend([*nodes[:position], node, *nodes[position:]])


@on_model
def change_version(model, rng):
    way = rng.randrange(5)
    if way == 0:
        model.ir_version = rng.choice((0, -1, 1, 3, 4, 7, 999, 1 << 40))
    elif way == 1:
        model.opset_import.add(domain=rng.choice(("", "own", "ai.onnx.ml")), version=rng.choice((0, 1, 13)))
    elif way == 2:
        del model.opset_import[:]
    elif model.opset_import:
        versions = (0, -1, 1, 7, 9, 10, 11, 12, 13, 16, 18, 21, 24, 26, 999, 1 << 40)
        rng.choice(model.opset_import).version = rng.choice(versions)


@on_model
def change_function(model, rng):
    function = pick(rng, model.functions)
    way = rng.randrange(6)
    if way == 0:
        function.name = rng.choice(("put", "join", "Neg", ""))
    elif way == 1:
        function.domain = rng.choice(("", "own", "other", "ai.onnx"))
    elif way == 2:
        del function.opset_import[:]
    elif way == 3:
        model.functions.add().CopyFrom(function)
    elif way == 4:  # it calls itself, or the other one
        call = function.node.add(op_type=rng.choice(("put", "join")), domain="own")
        call.input.extend(function.input)
        call.output.extend(function.output if rng.random() < 0.3 else ["again"])
    else:
        function.attribute.append(rng.choice(("front", "axis")))


OPERATORS = (
    *("ConcatFromSequence", "SequenceAt", "SequenceConstruct", "SequenceEmpty", "SequenceErase"),
    *("SequenceInsert", "SequenceLength", "SequenceMap", "SplitToSequence", "Optional", "If", "Loop", "Scan"),
    *("OptionalGetElement", "OptionalHasElement", "Identity", "Constant", "Add", "Split", "Concat", "Cast"),
)
DAMAGES = (
    *OF_BYTES,
    *(repeat, rename, rename_value, drop_name, add_name, drop_value, add_value),
    *(change_type, change_operator, change_attribute, add_attribute, change_constant, add_initializer),
    *(move_node, change_version, change_function),
)
SEEDS = seeds()
CALLS = next(k for k, data in enumerate(SEEDS) if ModelProto.FromString(data).functions)


def damaged(number):
    """The bytes of a case, and what was done to them."""
    rng = random.Random(number)
    k = rng.randrange(len(SEEDS))
    damage = rng.choice(DAMAGES)
    k = CALLS if damage is change_function else k
    return damage(SEEDS[k], rng), f"case {number}: {damage.__name__} of seed {k}"


# What to feed.


def feed_for(model, rng):
    """Small feeds, of the types that a model declares as far as there are such values."""
    return {value.name: value_for(value.type, rng) for value in model.graph.input}


def value_for(kind, rng):
    which = kind.WhichOneof("value")
    if which == "optional_type":
        return None if rng.random() < 0.4 else value_for(kind.optional_type.elem_type, rng)
    if which == "sequence_type":
        return [value_for(kind.sequence_type.elem_type, rng) for _ in range(rng.choice((0, 3, 3, 3)))]
    if which != "tensor_type":
        return np.zeros(2, np.float32)
    dims = [
        min(max(dim.dim_value, 0), 9) if dim.HasField("dim_value") else 3
        for dim in kind.tensor_type.shape.dim[:6]
    ]
    if not kind.tensor_type.HasField("shape"):
        dims = [2]
    try:
        dtype = helper.tensor_dtype_to_np_dtype(kind.tensor_type.elem_type)
    except KeyError:
        dtype = np.dtype("float32")
    if dtype.kind == "O":
        return np.full(dims, "text", object)
    if not dims and dtype == np.int64:
        return np.array(rng.choice((0, 1, 1, 2, 70)))
    return np.ones(dims, dtype)


# One trial.

# What no model, however damaged, may bring about, as it tells nobody what is wrong with the model.
FAULTS = (
    *(AssertionError, AttributeError, KeyError, MemoryError, NameError, RecursionError, StopIteration),
    *(SystemError, ZeroDivisionError),
)
FAULTY_WORDS = re.compile(r"to unpack|list index out of range|zip\(\) argument")


def fault_of(work, *arguments):
    """What is wrong with the exception that some work raises, "" if there is none, or it is one to show."""
    try:
        work(*arguments)
    except Exception as error:
        # A node may ask for more memory than there is.
        named = isinstance(error, MemoryError) and hasattr(error, "seqcore_node")
        if (isinstance(error, FAULTS) and not named) or FAULTY_WORDS.search(str(error)):
            return traceback.format_exc()
    return ""


def trial(data, number):
    """What is wrong with what becomes of a model: lowered, and run several times."""
    made = []
    if fault := fault_of(lower, data) or fault_of(lambda: made.append(InferenceSession(data))):
        return fault
    rng = random.Random(number)
    model = ModelProto.FromString(data) if made else ModelProto()
    feeds = [feed_for(model, rng), feed_for(model, rng)]
    # The first again and again: a session may take another way after some runs.
    for feed in (feeds[0], *feeds, *feeds):
        if made and (fault := fault_of(run, made[0], feed)):
            return fault
    return ""


def run(session, feed):
    options = onnxruntime.RunOptions()
    options.log_severity_level = 4
    # A loop that never ends may be what the model asks for.
    timer = threading.Timer(1, lambda: setattr(options, "terminate", True))
    timer.start()
    try:
        return session.run(None, feed, options)
    finally:
        timer.cancel()


def main(first, last):
    onnxruntime.set_default_logger_severity(4)
    if sys.platform == "linux" and "libasan" not in os.environ.get("LD_PRELOAD", ""):  # which needs terabytes
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
    for number in range(first, last):
        data, what = damaged(number)
        print(what, flush=True)
        faulthandler.dump_traceback_later(30, exit=True)
        if fault := trial(data, number):
            print("FAULT", what, fault, flush=True)
    faulthandler.cancel_dump_traceback_later()
