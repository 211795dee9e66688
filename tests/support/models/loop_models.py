"""Random models whose loops make lists, with feeds.

A `Maker` knows of each value its type, its shape, how large its numbers get, and whether they are exact: fed
numbers are eighths, so that sums and products of them are the same in any order, and only what is exact is
compared, sorted or cast. `loop_operators.py` has the operators of the bodies, `loop_lists.py` the lists,
`judge.py` holds the results against each other.
"""

from dataclasses import dataclass, field

import numpy as np
from onnx import TensorProto, helper, numpy_helper

FLOATS, INTS = ("float32", "float64", "float16"), ("int64", "int32")
TYPES = {
    "float32": TensorProto.FLOAT,
    "float64": TensorProto.DOUBLE,
    "float16": TensorProto.FLOAT16,
    "int64": TensorProto.INT64,
    "int32": TensorProto.INT32,
    "bool": TensorProto.BOOL,
}
BITS = {"float32": 22, "float64": 50, "float16": 10, "int64": 40, "int32": 28, "bool": 2}
OPSETS = [14, 14, 16, 17, 17, 17, 18, 20, 21]
EIGHTHS = 3  # bits behind the point of numbers that are fed


sequence_info = helper.make_tensor_sequence_value_info


@dataclass(frozen=True)
class Value:
    """A tensor: `shape` has None where a length differs between iterations, `grain` bits behind the point.

    Where numbers aren't exact, `grain` is None. No number is larger than `bound`.
    """

    name: str
    dtype: str
    shape: tuple
    bound: float = 4
    grain: int | None = 0

    @property
    def rank(self):
        return len(self.shape)

    @property
    def is_ragged(self):
        return None in self.shape

    @property
    def size(self):
        return int(np.prod([1 if n is None else n for n in self.shape]))


@dataclass
class Scope:
    """A graph in the making: its nodes, its values, and the scope around it."""

    parent: "Scope | None" = None
    nodes: list = field(default_factory=list)
    values: list = field(default_factory=list)
    trip: Value | None = None  # the number of the iteration
    trips: str = ""  # the name of how many there are
    counters: list = field(default_factory=list)  # names of count states, with start and step
    group: str = "M"  # whose rows are as many as there are iterations

    def visible(self):
        return self.values + (self.parent.visible() if self.parent else [])

    def loop(self):
        """The scope of the loop around, or None."""
        return self if self.trip or self.parent is None else self.parent.loop()


class Maker:
    """Draws a model: `random` is a `random.Random`, or what draws like one."""

    def __init__(self, random):
        self.random, self.pick = random, random.choice
        self.opset = self.pick(OPSETS)
        self.dims = [self.pick([1, 2, 2, 3, 4, 5]) for _ in range(3)]
        if self.chance(0.06):
            self.dims[0] = 0
        self.types = [self.pick(["float32"] * 6 + ["float64", "int64", "int32"]), "float32"]
        self.types += [self.pick(["int64", "bool", "float64", "float32", "int32"])]
        if self.chance(0.05):
            self.types.append("float16")
        self.fails = self.chance(0.12)  # whether positions may be out of range
        self.is_plain = self.chance(0.45)  # whether iterations don't depend on each other
        self.is_short = self.is_plain and self.chance(0.4)  # an operator or two
        self.count = 0
        self.lists = set()  # inputs that are sequences
        self.inputs = {}  # name → type, shape as declared, and what makes a feed
        self.needs = {"N": [lambda n: n], "M": [lambda n: 1]}  # how many rows a group has for n iterations
        self.initializers, self.outputs = [], []
        self.outer = Scope()
        self.rows_known = {}

    def chance(self, share):
        return self.random.random() < share

    def fresh_name(self, word="v"):
        self.count += 1
        return f"{word}{self.count}"

    def shape(self, rank=None):
        rank = self.pick([0, 1, 1, 2, 2, 2, 3]) if rank is None else rank
        return tuple(self.pick(self.dims) for _ in range(rank))

    def a_type(self, of=None):
        known = [one for one in self.types if of is None or one in of]
        return self.pick(known) if known else of[0]

    # what nodes are made with

    def emit(self, scope, op, inputs, dtype, shape, bound=4.0, grain=0, keep=True, **attributes):
        """Add a node; None where its numbers could get too large."""
        if bound > (2**20 if dtype in INTS else 1e3 if dtype == "float16" else 1e5):
            return None
        if grain is not None and grain + np.log2(max(bound, 1)) > BITS[dtype]:
            grain = None
        name = self.fresh_name()
        names = [one.name if isinstance(one, Value) else one for one in inputs]
        scope.nodes.append(helper.make_node(op, names, [name], **attributes))
        value = Value(name, dtype, tuple(shape), bound, grain)
        if keep:
            scope.values.append(value)
        return value

    def constant(self, scope, array, keep=False):
        """A constant: an initializer of the model, or a node in the scope."""
        array = np.asarray(array)
        name = self.fresh_name("c")
        if self.chance(0.5):
            self.initializers.append(numpy_helper.from_array(array, name))
        else:
            scope.nodes.append(helper.make_node("Constant", [], [name], value=numpy_helper.from_array(array)))
        value = Value(name, str(array.dtype), array.shape, float(np.abs(array).max(initial=1)), EIGHTHS)
        if keep:
            scope.values.append(value)
        return value

    def ints(self, scope, *values):
        return self.constant(scope, np.array(values, np.int64))

    def number(self, scope, value):
        return self.constant(scope, np.array(value, np.int64))

    @staticmethod
    def numbers(rng, dtype, shape):
        if dtype == "bool":
            return rng.random(shape) < 0.5
        if dtype in INTS:
            return rng.integers(-4, 5, shape).astype(dtype)
        return (rng.integers(-16, 17, shape) / 8).astype(dtype)

    @staticmethod
    def traits(dtype):
        """How large fed numbers are, and how exact."""
        return (1, 0) if dtype == "bool" else (4, 0) if dtype in INTS else (2, EIGHTHS)

    def declared(self, shape, group=None):
        """A shape as an input has it: lengths known, named, or not."""
        way = self.pick(["known", "known", "named", "none"])
        lengths = [
            n
            if way == "known" or (way == "named" and self.chance(0.5))
            else f"d{n}"
            if way == "named"
            else None
            for n in shape
        ]
        if group is None:
            return lengths
        return [group if self.chance(0.8) else None, *lengths]

    # what comes from around the loop

    def whole(self, dtype, shape, rows=None):
        """A tensor of the outer graph; `rows` is the group that says the length of a first axis more."""
        key = (dtype, shape, rows)
        if key in self.rows_known and self.chance(0.6):
            return self.rows_known[key]
        bound, grain = self.traits(dtype)
        if rows is None and self.chance(0.3):
            rng = np.random.default_rng(self.random.randrange(1 << 30))
            value = self.constant(self.outer, self.numbers(rng, dtype, shape))
            value = Value(value.name, dtype, shape, bound, grain)
        else:
            name = self.fresh_name("x")

            def make(sizes, rng):
                return self.numbers(rng, dtype, (*([sizes[rows]] if rows else []), *shape))

            self.inputs[name] = (dtype, self.declared(shape, rows), make)
            value = Value(name, dtype, shape, bound, grain)
        if dtype != "bool" and self.chance(0.25):
            op = self.pick(["Neg", "Abs", "Identity"])
            name = self.fresh_name("o")
            self.outer.nodes.append(helper.make_node(op, [value.name], [name]))
            value = Value(name, dtype, shape, bound, grain)
        self.rows_known[key] = value
        return value

    def list_input(self, scope):
        """A sequence that is fed, of n elements; in the body the one of this iteration."""
        dtype, name = self.a_type(), self.fresh_name("x")
        shape = self.shape()
        is_ragged = bool(shape) and self.chance(0.6)

        def make(sizes, rng):
            longest = shape[:1] if not is_ragged else None
            return [
                self.numbers(rng, dtype, (*(longest or [rng.integers(1, 5)] if shape else []), *shape[1:]))
                for _ in range(sizes["n"])
            ]

        self.lists.add(name)
        self.inputs[name] = (dtype, [None, *self.declared(shape[1:])] if shape else [], make)
        bound, grain = self.traits(dtype)
        shape = (None, *shape[1:]) if is_ragged else shape

        def pick():
            return self.emit(scope, "SequenceAt", [name, scope.trip], dtype, shape, bound, grain)

        return name, pick

    def positions(self, group):
        """An input with positions in rows of a group, as many as the same group has rows."""
        key = ("positions", group)
        if key not in self.rows_known:
            name, least = self.fresh_name("p"), self.pick([0, 0, -1])
            beyond = int(self.fails and self.chance(0.4))

            def make(sizes, rng):
                n = sizes[group]
                return rng.integers(least * n, max(n + beyond, 1), n)

            self.inputs[name] = ("int64", [group], make)
            self.rows_known[key] = Value(name, "int64", (), 300, None)
        return self.rows_known[key]

    def position(self, scope, group):
        """A position that depends on the iteration, and notes how many rows that needs."""
        loop = scope.loop()
        i, need = loop.trip, self.needs[group].append
        kinds = ["i", "i", "i", "back", "last"]
        if group != loop.group:  # there are as many as are needed
            kinds += ["next", "twice", "counter", "i", "wrapped"]
        kinds += ["read"]
        kind = self.pick(kinds)
        late = -1 if self.fails and self.chance(0.3) else 0
        extra = {"keep": False}
        if kind == "back" and loop.trips:
            less = self.emit(scope, "Sub", [loop.trips, self.number(scope, 1)], "int64", (), 300, **extra)
            if group != loop.group:
                need(lambda n: n + late)
            return self.emit(scope, "Sub", [less, i], "int64", (), 300, **extra)
        if kind == "next":
            need(lambda n: n + 1 + late)
            return self.emit(scope, "Add", [i, self.number(scope, 1)], "int64", (), 300, **extra)
        if kind == "twice":
            need(lambda n: 2 * n - 1 + late)
            return self.emit(scope, "Mul", [self.number(scope, 2), i], "int64", (), 600, **extra)
        if kind == "wrapped":
            need(lambda n: 3)
            return self.emit(scope, "Mod", [i, self.number(scope, 3)], "int64", (), 3, **extra)
        if kind == "counter" and loop.counters:
            name, start, step = self.pick(loop.counters)
            need(lambda n: start + step * (n - 1) + 1 + late if n else 0)
            return Value(name, "int64", ())
        if kind == "last":
            need(lambda n: 1)
            return self.number(scope, self.pick([0, -1]))
        if kind == "read":
            read = self.positions(group)
            if group != loop.group:
                need(lambda n: n + late)
            return self.emit(scope, "Gather", [read, i], "int64", (), 300, **extra)
        if group != loop.group:
            need(lambda n: n + late)
        return i

    def row(self, scope, dtype, shape):
        """What an iteration takes of a tensor around it, one of this shape."""
        group = self.pick(["N", "N", "M"])
        at = self.position(scope, group)
        rows = self.whole(dtype, shape, group)
        bound, grain = rows.bound, rows.grain
        way = self.pick(["gather"] * 4 + ["gather 1", "slice"])
        if way == "gather 1":
            at = self.emit(scope, "Reshape", [at, self.ints(scope, 1)], "int64", (1,), 300, keep=False)
            taken = self.emit(scope, "Gather", [rows, at], dtype, (1, *shape), bound, grain)
            return self.squeezed(scope, taken, 0)
        if way == "slice" and at is scope.loop().trip:
            start = self.unsqueezed(scope, at, 0)
            stop = self.emit(scope, "Add", [start, self.ints(scope, 1)], "int64", (1,), 600, keep=False)
            taken = self.emit(scope, "Slice", [rows, start, stop, self.ints(scope, 0)], dtype, (1, *shape))
            return self.squeezed(scope, Value(taken.name, dtype, (1, *shape), bound, grain), 0)
        return self.emit(scope, "Gather", [rows, at], dtype, shape, bound, grain, axis=0)

    def squeezed(self, scope, value, axis):
        shape = [n for k, n in enumerate(value.shape) if k != axis]
        axis = axis - value.rank if self.chance(0.3) else axis
        inputs = [value, self.ints(scope, axis)]
        return self.emit(scope, "Squeeze", inputs, value.dtype, shape, value.bound, value.grain)

    def unsqueezed(self, scope, value, axis):
        shape = [*value.shape[:axis], 1, *value.shape[axis:]]
        axis = axis - len(shape) if self.chance(0.3) else axis
        inputs = [value, self.ints(scope, axis)]
        return self.emit(scope, "Unsqueeze", inputs, value.dtype, shape, value.bound, value.grain)

    def fresh(self, scope, dtype, shape):
        """A value of this type and shape: of an iteration, of the outer graph, or a constant."""
        way = self.random.random()
        if scope.loop().trip and way < (0.85 if self.is_short else 0.6):
            return self.row(scope, dtype, shape)
        if way < 0.95:
            return self.whole(dtype, shape)
        rng = np.random.default_rng(self.random.randrange(1 << 30))
        made = self.constant(scope, self.numbers(rng, dtype, shape))
        return Value(made.name, dtype, shape, *self.traits(dtype))

    def some(self, scope, of=None, rank=None, shape=None, exact=False, ragged=False, own=0.8):
        """A value that fits, one that is there or a fresh one."""
        found = [
            one
            for one in scope.visible()
            if (of is None or one.dtype in of)
            and (rank is None or one.rank in rank)
            and (shape is None or one.shape == shape)
            and (one.grain is not None or not exact)
            and (ragged or not one.is_ragged)
        ]
        if found and self.chance(own * (0.3 if self.is_short else 1)):
            made = [one for one in found if one in scope.values and one.name[0] == "v"]
            return self.pick(made[-2:] if made and self.chance(0.85) else found)
        shape = self.shape(self.pick(list(rank)) if rank else None) if shape is None else shape
        return self.fresh(scope, self.a_type(of), shape)

    def model(self):
        """The model, of what was made so far."""
        graph = helper.make_graph(
            self.outer.nodes,
            "loops",
            [
                (sequence_info if name in self.lists else helper.make_tensor_value_info)(
                    name, TYPES[dtype], shape
                )
                for name, (dtype, shape, _) in self.inputs.items()
            ],
            self.outputs,
            self.initializers,
        )
        opset = self.opset
        ir = 7 if opset < 15 else 8 if opset < 19 else 10
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir)

    def feed(self, n, rng):
        """A feed for about n iterations."""
        more = int(rng.integers(0, 3))
        sizes = {"N": n, "M": max(*(need(n) for need in self.needs["M"]), 0) + more * (not self.fails)}
        made = {name: make({**sizes, "n": n}, rng) for name, (_, _, make) in self.inputs.items()}
        return {name: one if name in self.lists else np.asarray(one) for name, one in made.items()}

    def drawn_feed(self, n):
        return self.feed(n, np.random.default_rng(self.random.randrange(1 << 30)))
