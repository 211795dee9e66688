"""Inference of tensor operators: what their rules say of types, shapes and numbers is so, whatever is fed."""

import math

import numpy as np
import onnx
import pytest
from onnx import helper
from support.models.lowering import session, unchecked
from support.models.operator_cases import CASES, ENDS, any_of, lengths, maybe
from support.models.soundness import inference_of, named_lengths, unsound, unsound_numbers
from support.random_cases import seeds

from seqcore.onnx._model import record
from seqcore.onnx._model.prepare import prepare
from seqcore.onnx._model.tensors import tensor_type, to_tensor_proto
from seqcore.onnx._model.weights import without_weights
from seqcore.onnx._model.writing import forget_shape, to_message
from seqcore.onnx._operators.tensor_operators import TensorOperator, _what_is_left

OPSETS = [7, 11, 13, 17, 21]
CASES_OF_EACH = seeds(6, 24)  # for each operator and version
# Operators that are younger than all of these versions → theirs.
YOUNG = {"Swish": 24}


class Graph:
    """A model that grows around a node, and its feed."""

    def __init__(self, rng):
        self.rng = rng
        self.nodes, self.inputs, self.constants, self.feed, self.names = [], [], [], {}, []

    def input(self, array):
        """Feed a tensor, of whose shape the model declares something, or nothing."""
        name = f"x{len(self.feed)}"
        shape = None if self.rng.integers(8) == 0 else [self.length(n) for n in array.shape]
        self.inputs.append(helper.make_tensor_value_info(name, tensor_type(array.dtype), shape))
        self.feed[name] = array
        return name

    def length(self, n):
        """What is declared of a length: it, a name, one that another has too, or nothing."""
        which = self.rng.integers(5)
        if which < 2:
            return n
        if which == 4:
            return None
        if which == 3 and self.names:
            return self.names[self.rng.integers(len(self.names))]
        self.names.append(f"N{len(self.names)}")
        return self.names[-1]

    def constant(self, array):
        name = f"c{len(self.constants)}"
        self.constants.append(to_tensor_proto(np.asarray(array), name))
        return name

    def given(self, one):
        """An input of a node, in one of the ways that it may come."""
        if one is None:
            return ""
        way = one.ways[self.rng.integers(len(one.ways))]
        if way == "constant":
            return self.constant(one.array)
        if way == "fed":
            return self.input(one.array)
        of = self.input(np.zeros(tuple(one.array), np.float32))
        return self.add("Shape", [of])

    def add(self, op_type, inputs, noutputs=1, **attributes):
        outputs = [f"v{len(self.nodes)}", *(f"v{len(self.nodes)}.{k}" for k in range(1, noutputs))]
        self.nodes.append(helper.make_node(op_type, inputs, outputs, **attributes))
        return outputs[0]

    def model(self, opset):
        """The model, all of whose values are outputs."""
        outputs = [onnx.ValueInfoProto(name=name) for node in self.nodes for name in node.output if name]
        graph = helper.make_graph(self.nodes, "g", self.inputs, outputs, self.constants)
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
        made.ir_version = {7: 3, 11: 6, 13: 7, 17: 8}.get(opset, 10)
        return made

    def results(self, opset):
        """What onnxruntime gives for all values; None where it can't, or won't, run the model.

        It gets the normal form, in which axes are counted from the front, without the inputs' shapes.
        """
        try:
            normal = to_message(prepare(*without_weights(self.model(opset), None)).model)
        except ValueError:
            return None
        for value in (*normal.graph.input, *normal.graph.output):
            forget_shape(value.type)
        try:
            used = session(normal)
            names = [one.name for one in used.get_outputs()]
            return dict(zip(names, used.run(None, self.feed), strict=True))
        except Exception:
            return None


def faults(graph, opset, results):
    """What is inferred, but not so."""
    model = graph.model(opset)
    prepared = prepare(*without_weights(model, None))
    lengths = named_lengths(model, graph.feed)
    numbers = inference_of(prepared).numbers
    for name, value in results.items():
        if why := unsound(prepared.type(name), value, lengths):
            yield f"'{name}' is {why}"
        if name in numbers and (why := unsound_numbers(numbers[name], value, lengths)):
            yield f"'{name}' has {why}"


def described(graph, opset):
    """A model and its feed, for who looks into a failure."""
    feed = {name: (array.dtype.name, array.shape, array.tolist()) for name, array in graph.feed.items()}
    return f"{onnx.printer.to_text(graph.model(opset))}\n{feed}"


def table():
    """The operators with a rule of their own; of the others onnx is asked."""
    records = record._RECORDS.items()
    return [name for name, one in records if isinstance(one, TensorOperator) and one._rule is not None]


def test_every_operator_has_cases():
    assert set(table()) <= set(CASES)


@pytest.mark.mostly_slow(5)
@pytest.mark.parametrize("op_type", sorted(CASES))
def test_of_one_node(op_type):
    ran = 0
    opsets = [YOUNG[op_type]] if op_type in YOUNG else OPSETS
    opsets = [opset for opset in opsets if onnx.defs.has(op_type, opset)]
    for opset in opsets:
        for seed in CASES_OF_EACH:
            rng = np.random.default_rng([seed, opset])
            case = CASES[op_type](rng, opset)
            graph = Graph(rng)
            graph.add(op_type, [graph.given(one) for one in case.inputs], case.outputs, **case.attributes)
            results = graph.results(opset)
            if results is None:
                continue
            ran += 1
            wrong = list(faults(graph, opset, results))
            assert not wrong, f"{wrong}\n{described(graph, opset)}"
    assert ran >= len(CASES_OF_EACH) * len(opsets) // 2


class Chain(Graph):
    """A graph of integers that are computed from shapes, and from what is known of those."""

    def __init__(self, rng):
        super().__init__(rng)
        self.values = {}  # a value's name → the value
        for _ in range(2):
            shape = lengths(rng, 1)
            name = self.input(np.zeros(shape, np.float32))
            self.values[self.add("Shape", [name])] = np.array(shape)

    def pick(self, rank=None):
        names = [name for name, value in self.values.items() if rank is None or value.ndim == rank]
        return names[self.rng.integers(len(names))] if names else None

    def known(self, values, dtype=np.int64):
        """A constant, and now and then what is fed."""
        make = self.constant if self.rng.integers(6) else self.input
        return make(np.array(values, dtype))

    def step(self):
        """Add a node that works on integers; nothing where the one that was picked can't."""
        rng, name = self.rng, self.pick()
        value = self.values[name]
        kind = STEPS[rng.integers(len(STEPS))]
        inputs, attributes, result = [name], {}, None
        if kind in ("Add", "Sub", "Mul"):
            other = self.pick() if rng.integers(2) else None
            if other is None:
                number = int(rng.integers(-1, 4))
                inputs.append(self.known(maybe(rng, number, [number])))
                result = NUMPY[kind](value, number)
                result = result.reshape(1) if value.ndim == 0 and self._rank_of(inputs[1]) else result
            else:
                shapes = value.shape, self.values[other].shape
                try:
                    np.broadcast_shapes(*shapes)
                except ValueError:
                    return
                inputs.append(other)
                result = NUMPY[kind](value, self.values[other])
        elif kind == "Concat":
            if value.ndim != 1:
                return
            inputs = [name, self.pick(1)]
            attributes = {"axis": int(rng.integers(-1, 1))}
            result = np.concatenate([self.values[one] for one in inputs])
        elif kind == "Gather":
            if value.ndim != 1 or not len(value):
                return
            at = rng.integers(-len(value), len(value), any_of(rng, [(), (1,), (2,), (1, 1)]))
            inputs.append(self.known(at))
            result = value[at]
        elif kind == "Slice":
            if value.ndim != 1:
                return
            start, end = any_of(rng, ENDS), any_of(rng, ENDS)
            step = any_of(rng, [1, 1, 2])
            inputs += [self.known([start]), self.known([end])]
            if rng.integers(2):
                inputs += [self.known([0]), self.known([step])]
            else:
                step = 1
            result = value[start:end:step]
        elif kind == "Unsqueeze":
            if value.ndim > 1:
                return
            axis = int(rng.integers(-value.ndim - 1, value.ndim + 1))
            inputs.append(self.known([axis]))
            result = np.expand_dims(value, axis)
        elif kind == "Squeeze":
            if 1 not in value.shape:
                return
            axis = value.shape.index(1)
            inputs.append(self.known([axis]))
            result = np.squeeze(value, axis)
        elif kind == "Reshape":
            wanted = any_of(rng, [[-1], [1, -1], [value.size]])
            if not value.size:
                return
            inputs.append(self.known(wanted))
            result = value.reshape(wanted)
        elif kind == "Transpose":
            result = value.T
        elif kind == "Cast":
            attributes = {"to": onnx.TensorProto.INT64}
            result = value
        else:
            result = value
        self.values[self.add(kind, inputs, **attributes)] = np.asarray(result)

    def _rank_of(self, name):
        if name in self.feed:
            return self.feed[name].ndim
        return next(len(one.dims) for one in self.constants if one.name == name)

    def use(self):
        """Add nodes whose shapes are what the integers say."""
        for name, value in list(self.values.items()):
            if value.ndim == 1 and value.size < 5 and ((value >= 0) & (value < 9)).all():
                self.add("ConstantOfShape", [name])
                ones = self.constant(np.ones([1] * int(self.rng.integers(0, 3)), np.float32))
                self.add("Expand", [ones, name])
                data = self.input(np.zeros(tuple(value), np.float32))
                flat = self.input(np.zeros(value.prod(), np.float32))
                if self.rng.integers(2):
                    self.add("Reshape", [data, name])
                if value.all():
                    self.add("Reshape", [flat, name])
                    self.add("Tile", [data, name])
            elif value.ndim == 0 and 0 <= value < 9:
                zero, one = self.constant(np.int64(0)), self.constant(np.int64(1))
                self.add("Range", [zero, name, one])


STEPS = ["Add", "Sub", "Mul", "Concat", "Concat", "Gather", "Gather", "Slice", "Unsqueeze", "Squeeze"]
STEPS += ["Reshape", "Transpose", "Cast", "Identity"]
NUMPY = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply}


@pytest.mark.slow
@pytest.mark.parametrize("first", seeds(100, 400)[::100])
def test_of_integers(first):
    """What is known of numbers is so, and so are the shapes that are made of them."""
    ran = 0
    for seed in range(first, first + 100):
        graph = Chain(np.random.default_rng(seed))
        for _ in range(graph.rng.integers(1, 8)):
            graph.step()
        graph.use()
        results = graph.results(17)
        if results is None:
            continue
        ran += 1
        wrong = list(faults(graph, 17, results))
        assert not wrong, f"{wrong}\n{described(graph, 17)}"
    assert ran >= 60


def zeros(*shape):
    return np.zeros(shape, np.float32)


# Graphs whose values are at the edge of what the rules may say → what to feed.
NAMED = {"N": 5, "M": 7}


@pytest.mark.parametrize("first", seeds(2, 40))
def test_what_is_left_of_a_shape(first):
    """Names and numbers may stand several times on each side."""
    told = 0
    for seed in range(200):
        rng = np.random.default_rng([first, seed])
        old, rest = ([any_of(rng, ["N", "M", 2, 3, 6]) for _ in range(rng.integers(5))] for _ in range(2))
        size, known = (math.prod(NAMED.get(one, one) for one in shape) for shape in (old, rest))
        left = _what_is_left(tuple(old), [-1, *rest])
        if left is not None and size % known == 0:
            told += 1
            assert NAMED.get(left, left) == size // known
    assert told > 20


CORNERS = {
    "sum of a column and a row of numbers": (
        """g (float[A, B] x) => (float[] y) {
            one = Constant <value_ints = [1]> () back = Constant <value_ints = [-1]> ()
            s = Shape (x) u = Unsqueeze (s, one) c = Add (u, s)
            w = Reshape (c, back) y = ConstantOfShape (w)
        }""",
        {"x": zeros(1, 2)},
    ),
    "sum that overflows": (
        """g (float[A] x) => (float[] y) {
            a = Constant <value = uint8[1] {200}> () b = Constant <value = uint8[1] {100}> ()
            c = Add (a, b) d = Cast <to = 7> (c) y = ConstantOfShape (d)
        }""",
        {"x": zeros(1)},
    ),
    "product that overflows": (
        """g (float[A] x) => (float[] y) {
            a = Constant <value = int32[1] {65536}> ()
            c = Mul (a, a) d = Cast <to = 7> (c) y = ConstantOfShape (d)
        }""",
        {"x": zeros(1)},
    ),
    "number too large for its type": (
        """g (float[N] x) => (float[] y) {
            a = Constant <value = uint64[1] {18446744073709551615}> ()
            b = Cast <to = 7> (a) y = Reshape (x, b)
        }""",
        {"x": zeros(3)},
    ),
    "reshape to a length that is 0": (
        "g (float[N] x, float[7] z) => (float[] y) { s = Shape (x) y = Reshape (z, s) }",
        {"x": zeros(0), "z": zeros(7)},
    ),
    "reshape to lengths of which one is 0": (
        "g (float[N, 4] x, float[M, 4] z) => (float[] y) { s = Shape (x) y = Reshape (z, s) }",
        {"x": zeros(0, 4), "z": zeros(3, 4)},
    ),
    "slice of as many axes as only a run tells": (
        """g (float[N, 4] x, int64[K] s, int64[K] e) => (float[] y) {
            t = Constant <value_ints = [1]> () y = Slice (x, s, e, , t)
        }""",
        {"x": zeros(2, 4), "s": np.array([0]), "e": np.array([1])},
    ),
    "slice along axes that only a run tells": (
        """g (float[4, 5] x, int64[K] a) => (float[] y) {
            s = Constant <value_ints = [1]> () e = Constant <value_ints = [3]> () y = Slice (x, s, e, a)
        }""",
        {"x": zeros(4, 5), "a": np.array([1])},
    ),
    "slice backwards from before the start": (
        """g (float[4] x) => (float[] y) {
            s = Constant <value_ints = [-10]> () e = Constant <value_ints = [-100]> ()
            a = Constant <value_ints = [0]> () t = Constant <value_ints = [-1]> () y = Slice (x, s, e, a, t)
        }""",
        {"x": zeros(4)},
    ),
    "slices backwards to the largest integers": (
        """g (float[4, 5] x) => (float[] y) {
            s = Constant <value_ints = [2, 2]> () t = Constant <value_ints = [-1, -1]> ()
            e = Constant <value_ints = [2147483647, 9223372036854775807]> () y = Slice (x, s, e, , t)
        }""",
        {"x": zeros(4, 5)},
    ),
    "scan output without a trip": (
        """g (float[N, 4] x, int64 n) => (float[] y) {
            y = Loop (n, "") <body = b (int64 i, bool c) => (bool d, float[] r) {
                r = Neg (x) d = Identity (c)
            }>
        }""",
        {"x": zeros(3, 4), "n": np.array(0)},
    ),
    "scan output of no trips": (
        """g (float[N] x) => (float[] y) {
            n = Constant <value = int64 {0}> ()
            y = Loop (n, "") <body = b (int64 i, bool c) => (bool d, float[] r) {
                r = Neg (x) d = Identity (c)
            }>
        }""",
        {"x": zeros(3)},
    ),
    "scan output that a condition ends": (
        """g (float[4] x, bool k) => (float[] y) {
            n = Constant <value = int64 {3}> ()
            y = Loop (n, k) <body = b (int64 i, bool c) => (bool d, float[] r) {
                r = Neg (x) d = Identity (c)
            }>
        }""",
        {"x": zeros(4), "k": np.array(False)},
    ),
    "outputs of a Scan over 3 rows": (
        """g (float[N, 4] x, float[2, N] y) => (float[] z) {
            o = Constant <value_floats = [0.0, 0.0, 0.0, 0.0]> ()
            s, z, w, v = Scan <num_scan_inputs = 2, scan_input_axes = [0, -1], scan_output_axes = [0, 1, -2],
                body = b (float[4] t, float[4] r, float[2] q)
                => (float[4] u, float[4] a, float[2] c, float[2, 4] d) {
                    u = Add (t, r) a = Neg (u) c = Abs (q)
                    k = Constant <value_ints = [2, 4]> () d = Expand (r, k)
                }> (o, x, y)
        }""",
        {"x": zeros(3, 4), "y": zeros(2, 3)},
    ),
    "outputs of a Scan along its first axes": (
        """g (float[3, 4] x) => (float[] y) {
            o = Constant <value_floats = [0.0, 0.0, 0.0, 0.0]> ()
            s, y = Scan <num_scan_inputs = 1, body = b (float[4] t, float[4] r) => (float[4] u, float[4] a) {
                u = Add (t, r) a = Neg (u)
            }> (o, x)
        }""",
        {"x": zeros(3, 4)},
    ),
    "numbers of two axes": (
        """g (float[A, B] x) => (float[] y) {
            zero = Constant <value_ints = [0]> () back = Constant <value_ints = [-1]> () s = Shape (x)
            u = Unsqueeze (s, zero) v = Concat <axis = 0> (u, u) w = Reshape (v, back) y = ConstantOfShape (w)
        }""",
        {"x": zeros(1, 2)},
    ),
    "a length of a Reshape that is 0": (
        """g (float[A, 6] x) => (float[] y) {
            s = Shape (x) o = Constant <value_ints = [0]> () n = Gather (s, o)
            k = Constant <value_ints = [3, 2]> () c = Concat <axis = 0> (n, k) y = Reshape (x, c)
        }""",
        {"x": zeros(0, 6)},
    ),
    "two names for several lengths": (
        """g (float[A, B] x, float[A, B] z) => (float[] y) {
            s = Shape (x) q = Shape (z) c = Concat <axis = 0> (s, q) y = ConstantOfShape (c)
        }""",
        {"x": zeros(3, 4), "z": zeros(1, 2)},
    ),
}


@pytest.mark.parametrize("name", CORNERS)
def test_corners(name):
    """In the normal form, as engines run it."""
    text, feed = CORNERS[name]
    given = unchecked(text)
    prepared = prepare(*without_weights(given, None))
    message = to_message(prepared.model)
    del message.graph.output[:], message.graph.value_info[:]
    for node in message.graph.node:
        message.graph.output.extend(onnx.ValueInfoProto(name=one) for one in node.output)
    used = session(message)
    lengths, numbers = named_lengths(given, feed), inference_of(prepared).numbers
    names = [one.name for one in used.get_outputs()]
    for one, value in zip(names, used.run(None, feed), strict=True):
        why = unsound(prepared.type(one), value, lengths)
        assert not why, f"'{one}' is {why}"
        why = unsound_numbers(numbers[one], value, lengths) if one in numbers else ""
        assert not why, f"'{one}' has {why}"


def test_the_opposites_of_conditions_are_known():
    text = """g (float[N] x) => (bool[2] both, bool same) <bool[2] c = {1, 0}, int64 three = {3}> {
        both = Not (c)
        less = Less (three, three)
        same = Not (less)
    }"""
    prepared = prepare(*without_weights(unchecked(text), None))
    assert prepared.numbers["both"] == (0, 1)
    assert (prepared.condition("less"), prepared.condition("same")) == (False, True)
