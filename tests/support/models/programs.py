"""Random programs over sequences, as ONNX models and in plain Python.

All tensors are int64 vectors and all numbers int64 scalars, so that a program is always well typed;
positions and lengths that don't fit, and joins of nothing, are errors on both sides. Nodes that no result
depends on may be left out, so that an error in one of them need not show.
"""

from dataclasses import dataclass, field

from hypothesis import strategies as st
from onnx import TensorProto, helper
from support.models.sessions import i64

SEQUENCE, TENSOR, NUMBER, FLAG = "sequence", "tensor", "number", "flag"


@dataclass
class Block:
    """A graph: `inputs` and `results` are pairs of name and kind."""

    inputs: list
    steps: list = field(default_factory=list)
    results: list = field(default_factory=list)


@dataclass
class Step:
    """An operation of `OPERATIONS`, a constant, or one of if, loop and map, which have blocks."""

    operation: str
    inputs: list
    outputs: list
    blocks: list = field(default_factory=list)
    constant: int = 0


class Refused(Exception):
    """What ONNX calls an error."""


class Failed:
    """Stands for a value that an error left unmade, and for all that depends on it."""


# In plain Python, from ONNX's text.


def place(position, lowest, highest, n):
    if not lowest <= position <= highest:
        raise Refused
    return position + n if position < 0 else position


def insert(s, t, p):
    p = place(p, -len(s), len(s), len(s))
    return [*s[:p], t, *s[p:]]


def erase(s, p):
    p = place(p, -len(s), len(s) - 1, len(s))
    return s[:p] + s[p + 1 :]


def at(s, p):
    return s[place(p, -len(s), len(s) - 1, len(s))]


def pieces(t, k):
    if k < 1:
        raise Refused
    return [t[i : i + k] for i in range(0, len(t), k)]


def cut(t, k):
    if not 0 <= k <= len(t):
        raise Refused
    return [t[:k], t[k:]]


def join(s):
    if not s:
        raise Refused
    return i64([x for t in s for x in t])


def interleave(s):
    if len({len(t) for t in s}) != 1:
        raise Refused
    return i64([x for row in zip(*s, strict=True) for x in row])


# Kinds of the inputs, the kind of the output, what it means in Python, and the nodes: an expression of nested
# tuples (operator, input, ..., attributes), where a string is an input and a number or a list a constant.
OPERATIONS = {
    "nothing": ([], SEQUENCE, lambda: [], ("SequenceEmpty", {"dtype": TensorProto.INT64})),
    "pair": ([TENSOR, TENSOR], SEQUENCE, lambda a, b: [a, b], ("SequenceConstruct", "0", "1")),
    "insert": ([SEQUENCE, TENSOR, NUMBER], SEQUENCE, insert, ("SequenceInsert", "0", "1", "2")),
    "append": ([SEQUENCE, TENSOR], SEQUENCE, lambda s, t: [*s, t], ("SequenceInsert", "0", "1")),
    "erase": ([SEQUENCE, NUMBER], SEQUENCE, erase, ("SequenceErase", "0", "1")),
    "pop": ([SEQUENCE], SEQUENCE, lambda s: erase(s, -1), ("SequenceErase", "0")),
    "copy": ([SEQUENCE], SEQUENCE, list, ("Identity", "0")),
    "rows": ([TENSOR], SEQUENCE, lambda t: pieces(t, 1), ("SplitToSequence", "0")),
    "pieces": ([TENSOR, NUMBER], SEQUENCE, pieces, ("SplitToSequence", "0", "1")),
    "cut": (
        [TENSOR, NUMBER],
        SEQUENCE,
        cut,
        (
            "SplitToSequence",
            "0",
            (
                "Concat",
                ("Reshape", "1", [1]),
                ("Reshape", ("Sub", ("Size", "0"), "1"), [1]),
                {"axis": 0},
            ),
        ),
    ),
    "at": ([SEQUENCE, NUMBER], TENSOR, at, ("SequenceAt", "0", "1")),
    "join": ([SEQUENCE], TENSOR, join, ("ConcatFromSequence", "0", {"axis": 0})),
    "interleave": (
        [SEQUENCE],
        TENSOR,
        interleave,
        ("Reshape", ("ConcatFromSequence", "0", {"axis": -1, "new_axis": 1}), [-1]),
    ),
    "both": ([TENSOR, TENSOR], TENSOR, lambda a, b: join([a, b]), ("Concat", "0", "1", {"axis": 0})),
    "plus": ([TENSOR, NUMBER], TENSOR, lambda t, k: t + k, ("Add", "0", "1")),
    "negative": ([TENSOR], TENSOR, lambda t: -t, ("Neg", "0")),
    "length": ([SEQUENCE], NUMBER, len, ("SequenceLength", "0")),
    "size": ([TENSOR], NUMBER, len, ("Size", "0")),
    "sum": ([NUMBER, NUMBER], NUMBER, lambda a, b: a + b, ("Add", "0", "1")),
    "less": ([NUMBER], NUMBER, lambda a: a - 1, ("Sub", "0", 1)),
    "few": ([NUMBER], NUMBER, lambda a: a % 4, ("Mod", "0", 4)),
    "within": (
        [SEQUENCE, NUMBER],
        NUMBER,
        lambda s, k: k % max(len(s), 1),
        ("Mod", "1", ("Max", ("SequenceLength", "0"), 1)),
    ),
    "below": ([NUMBER, NUMBER], FLAG, lambda a, b: a < b, ("Less", "0", "1")),
}


def any_failed(values):
    return any(value is Failed for value in values)


class Plain:
    """Runs programs in plain Python; `failures` counts the errors."""

    def __init__(self):
        self.failures = 0

    def run(self, block, arguments, outer):
        """The results of a block; those that an error left unmade are `Failed`."""
        values = outer | dict(zip((name for name, _ in block.inputs), arguments, strict=True))
        for step in block.steps:
            given = [values.get(name) for name in step.inputs]
            run = {"if": self.choose, "loop": self.repeat, "map": self.apply}.get(step.operation, self.simply)
            # Where there is no telling what runs, nothing is made.
            unknown = any_failed(given[:2] if step.operation == "loop" else given)
            made = [Failed] * len(step.outputs) if unknown else run(step, given, values)
            values.update(zip(step.outputs, made, strict=True))
        return [values[name] for name, _ in block.results]

    def simply(self, step, given, values):
        if step.operation == "constant":
            return [step.constant]
        try:
            return [OPERATIONS[step.operation][2](*given)]
        except Refused:
            self.failures += 1
            return [Failed]

    def choose(self, step, given, values):
        return self.run(step.blocks[0 if given[0] else 1], [], values)

    def repeat(self, step, given, values):
        trips, go, *states = given
        rows = []
        for i in range(trips):
            # Without a condition for the first iteration, those that the body gives are ignored.
            if step.inputs[1] and not go:
                break
            go, *results = self.run(step.blocks[0], [i, True, *states], values)
            if step.inputs[1] and go is Failed:
                return [Failed] * len(step.outputs)
            states = results[: len(states)]
            rows.append(results[len(states) :])
        columns = list(zip(*rows, strict=True)) or [()] * (len(step.outputs) - len(states))
        return [
            *states,
            *(Failed if any_failed(column) else i64(column) for column in columns),
        ]

    def apply(self, step, given, values):
        sequence, *whole = given
        rows = [self.run(step.blocks[0], [element, *whole], values) for element in sequence]
        columns = list(zip(*rows, strict=True)) or [()] * len(step.outputs)
        return [Failed if any_failed(column) else list(column) for column in columns]


# As ONNX models.


def declared(name, kind):
    if kind == SEQUENCE:
        return helper.make_tensor_sequence_value_info(name, TensorProto.INT64, None)
    element = TensorProto.BOOL if kind == FLAG else TensorProto.INT64
    return helper.make_tensor_value_info(name, element, [None] if kind == TENSOR else [])


def as_graph(block, name):
    nodes = []
    for step in block.steps:
        graphs = [as_graph(inner, f"{name}_{k}") for k, inner in enumerate(step.blocks)]
        if step.operation == "constant":
            nodes.append(helper.make_node("Constant", [], step.outputs, value_int=step.constant))
        elif step.operation == "if":
            branches = dict(zip(("then_branch", "else_branch"), graphs, strict=True))
            nodes.append(helper.make_node("If", step.inputs, step.outputs, **branches))
        elif graphs:
            operator = {"loop": "Loop", "map": "SequenceMap"}[step.operation]
            nodes.append(helper.make_node(operator, step.inputs, step.outputs, body=graphs[0]))
        else:
            add_nodes(nodes, OPERATIONS[step.operation][3], step.inputs, step.outputs[0])
    inputs, outputs = ([declared(*pair) for pair in pairs] for pairs in (block.inputs, block.results))
    return helper.make_graph(nodes, name, inputs, outputs)


def add_nodes(nodes, expression, inputs, output):
    """Add the nodes of an expression; what they make on the way is named after the output."""
    operator, *rest = expression
    attributes = rest.pop() if rest and isinstance(rest[-1], dict) else {}
    read = []
    for k, one in enumerate(rest):
        name = f"{output}.{k}"
        if isinstance(one, str):
            name = inputs[int(one)]
        elif isinstance(one, tuple):
            add_nodes(nodes, one, inputs, name)
        else:
            value = {"value_ints" if isinstance(one, list) else "value_int": one}
            nodes.append(helper.make_node("Constant", [], [name], **value))
        read.append(name)
    nodes.append(helper.make_node(operator, read, [output], **attributes))


# Random ones.


# What makes a value of an outer scope one of the block's own, as a result must be.
LOCALS = {SEQUENCE: "copy", TENSOR: "negative", NUMBER: "less"}


class Maker:
    """Draws programs. Names count on from the scope around, so that those of siblings are the same."""

    def __init__(self, draw):
        self.draw = draw

    def pick(self, known, kind):
        """A value of a kind: of the latest three mostly."""
        names = [name for name, other in known if other == kind]
        recent = names[-3:] if self.draw(st.integers(0, 3)) else names
        return self.draw(st.sampled_from(recent))

    def block(self, inputs, outer, kinds, depth):
        """A block with results of some kinds; `outer` has what it sees of the scopes around."""
        block = Block(inputs)
        known = [*outer, *inputs]
        for _ in range(self.draw(st.integers(1, 6 if depth else 10))):
            self.step(block, known, depth)
        local = {name for name, _ in known[len(outer) :]}
        for kind in kinds:
            if kind == FLAG:
                operands = [self.pick(known, NUMBER), self.pick(known, NUMBER)]
                name = self.add(block, known, "below", operands, [FLAG])[0]
            else:
                name = self.pick(known, kind)
                if name not in local:
                    name = self.add(block, known, LOCALS[kind], [name], [kind])[0]
            block.results.append((name, kind))
        return block

    def add(self, block, known, operation, inputs, kinds, blocks=(), constant=0):
        outputs = [f"v{len(known) + k}" for k in range(len(kinds))]
        known.extend(zip(outputs, kinds, strict=True))
        block.steps.append(Step(operation, inputs, outputs, list(blocks), constant))
        return outputs

    def step(self, block, known, depth):
        structures = ["if", "loop", "loop", "map"] if depth < 2 else []
        operations = [name for name, (_, kind, *_) in OPERATIONS.items() if kind != FLAG]
        operation = self.draw(st.sampled_from(["constant", *operations, *structures]))
        if operation == "constant":
            self.add(block, known, operation, [], [NUMBER], constant=self.draw(st.integers(-3, 3)))
        elif operation in OPERATIONS:
            kinds, kind, *_ = OPERATIONS[operation]
            inputs = [self.pick(known, kind) for kind in kinds]
            if operation in ("at", "insert", "erase"):
                inputs[-1] = self.position(block, known, inputs)
            self.add(block, known, operation, inputs, [kind])
        else:
            getattr(self, f"add_{operation}")(block, known, depth)

    def position(self, block, known, inputs):
        """A position in the first input: as it comes at times, else one that is within."""
        if self.draw(st.integers(0, 7)) == 0:
            return inputs[-1]
        return self.add(block, known, "within", [inputs[0], inputs[-1]], [NUMBER])[0]

    def kinds(self):
        return self.draw(
            st.lists(st.sampled_from([SEQUENCE, SEQUENCE, TENSOR, NUMBER]), min_size=1, max_size=3)
        )

    def flag(self, block, known):
        operands = [self.pick(known, NUMBER), self.pick(known, NUMBER)]
        return self.add(block, known, "below", operands, [FLAG])[0]

    def add_if(self, block, known, depth):
        flag, kinds = self.flag(block, known), self.kinds()
        branches = [self.block([], known, kinds, depth + 1) for _ in range(2)]
        self.add(block, known, "if", [flag], kinds, branches)

    def add_loop(self, block, known, depth):
        trips = self.add(block, known, "few", [self.pick(known, NUMBER)], [NUMBER])[0]
        go = self.flag(block, known) if self.draw(st.booleans()) else ""
        kinds = self.kinds()
        states = [self.pick(known, kind) for kind in kinds]
        scanned = [NUMBER] * self.draw(st.integers(0, 1))
        parameters = [NUMBER, FLAG, *kinds]
        inputs = [(f"v{len(known) + k}", kind) for k, kind in enumerate(parameters)]
        body = self.block(inputs, known, [FLAG, *kinds, *scanned], depth + 1)
        self.add(block, known, "loop", [trips, go, *states], [*kinds, *[TENSOR] * len(scanned)], [body])

    def add_map(self, block, known, depth):
        whole = self.draw(st.sampled_from([[], [TENSOR], [NUMBER]]))
        arguments = [self.pick(known, kind) for kind in [SEQUENCE, *whole]]
        inputs = [(f"v{len(known) + k}", kind) for k, kind in enumerate([TENSOR, *whole])]
        results = self.draw(st.sampled_from([[TENSOR], [TENSOR, TENSOR]]))
        body = self.block(inputs, known, results, depth + 1)
        self.add(block, known, "map", arguments, [SEQUENCE] * len(results), [body])


@st.composite
def programs(draw):
    """A program, and inputs for three runs, the last with a long sequence."""
    block = Maker(draw).block([("s", SEQUENCE), ("t", TENSOR), ("k", NUMBER)], [], [], 0)
    made = [pair for pair in kinds_within(block) if pair[1] != FLAG]
    block.results = draw(st.lists(st.sampled_from(made), min_size=1, unique=True) | st.just(made[-1:]))
    vectors = st.lists(st.integers(-9, 9), max_size=4).map(i64)
    arguments = st.tuples(st.lists(vectors, max_size=4), vectors, st.integers(-2, 3))
    short = [draw(arguments), draw(arguments)]
    long = [i64(range(i % 3)) for i in range(draw(st.integers(20, 300)))]
    return block, [*short, (long, *short[0][1:])]


def kinds_within(block):
    """Names and kinds of what a block makes."""
    for step in block.steps:
        if step.operation == "constant":
            yield step.outputs[0], NUMBER
        elif step.operation in OPERATIONS:
            yield step.outputs[0], OPERATIONS[step.operation][1]
        elif step.operation == "map":
            yield from ((name, SEQUENCE) for name in step.outputs)
        else:
            kinds = [kind for _, kind in step.blocks[0].results]
            if step.operation == "loop":
                states = len(step.inputs) - 2
                kinds = [*kinds[1 : 1 + states], *[TENSOR] * (len(kinds) - 1 - states)]
            yield from zip(step.outputs, kinds, strict=True)
