"""Random models of lists, numbers and tensors, with branches, loops and maps in one another.

Some are tidy: all tensors are vectors of whole numbers, and most positions are within, so that runs rarely
fail. In wild ones tensors have any rank, bodies may declare wrong shapes, positions and shapes need not fit,
and loops may be longer than thresholds. Both branches of an If have the same names inside.
"""

import numpy as np
from onnx import TensorProto, helper, numpy_helper

TENSOR, SEQUENCE, NUMBER, FLAG, SHAPE = "tensor", "sequence", "number", "flag", "shape"


class One(tuple):
    """A constant or an attribute that is drawn from these."""

    __slots__ = ()


AXES = {"axis": One((0, 0, -1)), "keepdims": One((0, 1))}
WITHIN = ("Mod", "1", ("Max", ("SequenceLength", "0"), 1))
POSITION = One((0, -1, 1, -2, 2, [0], [-1]))
# By subject: kinds of the inputs, the kind of the output, and the nodes: an expression of nested tuples
# (operator, input, ..., attributes), where a string is an input and a number or a list a constant.
SHARED = [
    ([], SEQUENCE, ("SequenceEmpty",)),
    ([TENSOR], SEQUENCE, ("SequenceConstruct", "0")),
    ([TENSOR, TENSOR], SEQUENCE, ("SequenceConstruct", "0", "1")),
    ([TENSOR, TENSOR, TENSOR], SEQUENCE, ("SequenceConstruct", "0", "1", "2")),
    ([SEQUENCE, TENSOR, NUMBER], SEQUENCE, ("SequenceInsert", "0", "1", "2")),
    ([SEQUENCE, TENSOR], SEQUENCE, ("SequenceInsert", "0", "1")),
    ([SEQUENCE, TENSOR], SEQUENCE, ("SequenceInsert", "0", "1")),
    ([SEQUENCE, NUMBER], SEQUENCE, ("SequenceErase", "0", "1")),
    ([SEQUENCE], SEQUENCE, ("SequenceErase", "0")),
    ([SEQUENCE], SEQUENCE, ("Identity", "0")),
]
TIDY = {
    "lists": [
        *SHARED,
        ([SEQUENCE, TENSOR, NUMBER], SEQUENCE, ("SequenceInsert", "0", "1", ("Mod", "2", 2))),
        ([SEQUENCE, NUMBER], SEQUENCE, ("SequenceErase", "0", WITHIN)),
        ([TENSOR], SEQUENCE, ("SplitToSequence", "0")),
        ([TENSOR, NUMBER], SEQUENCE, ("SplitToSequence", "0", ("Max", "1", 1))),
        ([TENSOR, NUMBER], SEQUENCE, ("SplitToSequence", "0", "1")),
        (
            [TENSOR, NUMBER],
            SEQUENCE,
            (
                "SplitToSequence",
                "0",
                ("Concat", ("Reshape", "1", [1]), ("Reshape", ("Sub", ("Size", "0"), "1"), [1]), {"axis": 0}),
            ),
        ),
    ],
    "reads": [
        ([SEQUENCE, NUMBER], TENSOR, ("SequenceAt", "0", "1")),
        ([SEQUENCE, NUMBER], TENSOR, ("SequenceAt", "0", WITHIN)),
        ([SEQUENCE], TENSOR, ("ConcatFromSequence", "0", {"axis": 0})),
        (
            [SEQUENCE],
            TENSOR,
            ("Reshape", ("ConcatFromSequence", "0", {"axis": -1, "new_axis": 1}), [-1]),
        ),
        ([SEQUENCE], NUMBER, ("SequenceLength", "0")),
    ],
    "tensors": [
        ([TENSOR, TENSOR], TENSOR, ("Concat", "0", "1", {"axis": 0})),
        ([TENSOR, NUMBER], TENSOR, ("Add", "0", "1")),
        ([TENSOR], TENSOR, ("Neg", "0")),
    ],
    "numbers": [
        ([TENSOR], NUMBER, ("Size", "0")),
        ([NUMBER, NUMBER], NUMBER, ("Add", "0", "1")),
        ([NUMBER], NUMBER, ("Sub", "0", 1)),
        ([NUMBER], NUMBER, ("Mod", "0", 4)),
        ([], NUMBER, ("Identity", One((-3, -2, -1, 0, 1, 2, 3)))),
        ([NUMBER, NUMBER], FLAG, ("Less", "0", "1")),
    ],
}
WILD = {
    "lists": [
        *SHARED,
        ([SEQUENCE, TENSOR], SEQUENCE, ("SequenceInsert", "0", "1", POSITION)),
        ([SEQUENCE], SEQUENCE, ("SequenceErase", "0", POSITION)),
        ([SEQUENCE, NUMBER], SEQUENCE, ("SequenceErase", "0", WITHIN)),
        ([TENSOR], SEQUENCE, ("SplitToSequence", "0", AXES)),
        # A constant split of 0 ends the process within onnx.
        ([TENSOR], SEQUENCE, ("SplitToSequence", "0", One((1, 2, [2], [0, 2])), AXES)),
        ([TENSOR, SHAPE], SEQUENCE, ("SplitToSequence", "0", "1", AXES)),
    ],
    "reads": [
        ([SEQUENCE], TENSOR, ("SequenceAt", "0", POSITION)),
        ([SEQUENCE, NUMBER], TENSOR, ("SequenceAt", "0", WITHIN)),
        ([SEQUENCE, NUMBER], TENSOR, ("SequenceAt", "0", "1")),
        (
            [SEQUENCE],
            TENSOR,
            ("ConcatFromSequence", "0", {"axis": One((0, 0, -1, 1)), "new_axis": One((0, 0, 1))}),
        ),
        ([SEQUENCE], NUMBER, ("SequenceLength", "0")),
    ],
    "tensors": [
        ([TENSOR], TENSOR, ("Neg", "0")),
        ([TENSOR], TENSOR, ("Reshape", "0", One(([-1], [1, -1], [-1, 3])))),
        ([TENSOR, SHAPE], TENSOR, ("Reshape", "0", "1")),
        ([TENSOR, SHAPE], TENSOR, ("Expand", "0", "1")),
        ([TENSOR], TENSOR, ("Slice", "0", One(([0], [1])), One(([0], [1], [2], [9], [-1])))),
        ([TENSOR], TENSOR, ("Unsqueeze", "0", [0])),
        ([TENSOR, NUMBER], TENSOR, ("Gather", "0", "1")),
        ([TENSOR], TENSOR, ("ReduceSum", "0", [0], {"keepdims": One((0, 1))})),
    ],
    "numbers": [
        ([TENSOR], SHAPE, ("Shape", "0")),
        ([SHAPE, SHAPE], SHAPE, ("Concat", "0", "1", {"axis": 0})),
        ([SHAPE], NUMBER, ("Gather", "0", One((0, -1, 1)), {"axis": 0})),
        ([TENSOR], NUMBER, ("Size", "0")),
        ([NUMBER], NUMBER, ("Add", "0", One((1, -1, 2)))),
        ([NUMBER], NUMBER, ("Mod", "0", One((2, 3, 5)))),
        ([], NUMBER, ("Identity", One((-3, -1, 0, 1, 2)))),
        ([NUMBER, NUMBER], FLAG, ("Less", "0", "1")),
    ],
}
SUBJECTS = ["lists"] * 6 + ["reads"] * 5 + ["tensors"] * 4 + ["numbers"] * 5


class Program:
    """Draws a model: `random` is a `random.Random`, or what draws like one."""

    def __init__(self, random, is_tidy):
        self.random, self.pick, self.is_tidy = random, random.choice, is_tidy
        self.operations = TIDY if is_tidy else WILD
        self.element = TensorProto.INT64 if is_tidy else TensorProto.FLOAT
        self.dtype = np.int64 if is_tidy else np.float32
        self.lies = not is_tidy and self.chance(0.3)  # whether bodies declare shapes that aren't so
        self.is_long = not is_tidy and self.chance(0.3)  # whether loops are longer than the limits
        self.nodes, self.outputs, self.shapes, self.count = [], [], {}, 0

    def chance(self, share):
        return self.random.random() < share

    def fresh(self):
        self.count += 1
        return f"v{self.count}"

    def declared(self, name, kind, inside=True):
        """What a graph declares of a value."""
        lies = inside and self.lies
        if kind == SEQUENCE:
            shape = self.pick([None, [2], [None, 3], [7]]) if lies else None
            return helper.make_tensor_sequence_value_info(name, self.element, shape)
        types = {TENSOR: self.element, FLAG: TensorProto.BOOL}
        shape = [] if kind in (NUMBER, FLAG) and (self.is_tidy or (inside and self.chance(0.7))) else None
        if kind == TENSOR and self.is_tidy:
            shape = [None]
        if kind == TENSOR and lies:
            shape = self.pick([None, [2], [None, 3], [5, 5], ["N"]])
        return helper.make_tensor_value_info(name, types.get(kind, TensorProto.INT64), shape)

    def recent(self, known, kind):
        """The name of a value of a kind, or None: of the latest mostly."""
        names = [name for name, other in known if other == kind]
        return self.pick(names[-4:] if self.chance(0.7) else names) if names else None

    def add(self, nodes, known, expression, inputs, kind):
        """Add the nodes of an expression; the name of what they make, or None without such inputs."""
        if None in inputs:
            return None
        name = self.fresh()
        self.add_nodes(nodes, expression, inputs, name)
        known.append((name, kind))
        return name

    def add_nodes(self, nodes, expression, inputs, output):
        """Add the nodes of an expression; what they make on the way is named after the output."""
        operator, *rest = expression
        attributes = rest.pop() if rest and isinstance(rest[-1], dict) else {}
        attributes = {
            name: self.pick(one) if isinstance(one, One) else one for name, one in attributes.items()
        }
        if operator == "SequenceEmpty":
            attributes = {"dtype": self.element}
        read = []
        for k, one in enumerate(rest):
            name = f"{output}.{k}"
            if isinstance(one, str):
                name = inputs[int(one)]
            elif isinstance(one, tuple) and not isinstance(one, One):
                self.add_nodes(nodes, one, inputs, name)
            else:
                one = self.pick(one) if isinstance(one, One) else one
                array = np.array(one, bool if isinstance(one, bool) else np.int64)
                nodes.append(helper.make_node("Constant", [], [name], value=numpy_helper.from_array(array)))
            read.append(name)
        nodes.append(helper.make_node(operator, read, [output], **attributes))

    def block(self, nodes, known, depth, count):
        """Add so many operations, some of which are branches, loops and maps."""
        for _ in range(count):
            structures = ["If", "Loop", "Loop", "Map"] if depth < 2 else []
            chosen = self.pick(SUBJECTS + structures)
            if chosen in structures:
                getattr(self, f"add_{chosen}")(nodes, known, depth)
                continue
            kinds, kind, expression = self.pick(self.operations[chosen])
            # In a long loop, a join of what it goes into doubles in each round.
            if not (self.is_long and depth and expression[0] == "ConcatFromSequence"):
                self.add(nodes, known, expression, [self.recent(known, one) for one in kinds], kind)

    def result(self, nodes, known, kind, first):
        """The name of a value of the block's own: what it has made, mostly."""
        own = [name for name, other in known[first:] if other == kind]
        if own and self.chance(0.5):
            return self.pick(own[-3:])
        name = self.pick(own[-3:]) if own and self.chance(0.6) else self.recent(known, kind)
        return self.add(nodes, known, ("Identity", "0"), [name], kind)

    def kinds(self, known, choices):
        return [
            one for one in self.random.choices(choices, k=self.pick([1, 1, 2, 3])) if self.recent(known, one)
        ]

    def outputs_of(self, nodes, known, operator, inputs, kinds, **graphs):
        names = [self.fresh() for _ in kinds]
        nodes.append(helper.make_node(operator, inputs, names, **graphs))
        known += zip(names, kinds, strict=True)

    def give_names(self, nodes, results, inputs):
        """Give a value that a graph returns twice, or gets and returns, a name for each.

        Onnxruntime (1.32) leaves the first of two unmade, and counts on in an iteration's number.
        """
        for k, one in enumerate(results):
            if one in results[:k] or one in inputs:
                results[k] = self.fresh()
                nodes.append(helper.make_node("Identity", [one], [results[k]]))

    def add_If(self, nodes, known, depth):
        numbers = [self.recent(known, NUMBER), self.recent(known, NUMBER)]
        condition = self.recent(known, FLAG) or self.add(nodes, known, ("Less", "0", "1"), numbers, FLAG)
        kinds = self.kinds(known, [TENSOR, SEQUENCE, SEQUENCE, NUMBER, SHAPE])
        branches, start, ends = {}, self.count, []
        for word in ("then_branch", "else_branch"):
            inner, seen, self.count = [], [*known], start
            self.block(inner, seen, depth + 1, self.random.randint(1, 3))
            results = [self.result(inner, seen, kind, len(known)) for kind in kinds]
            self.give_names(inner, results, [])
            branches[word] = helper.make_graph(inner, "b", [], [*map(self.declared, results, kinds)])
            ends.append(self.count)
        self.count = max(ends)
        if kinds:
            self.outputs_of(nodes, known, "If", [condition], kinds, **branches)

    def add_Loop(self, nodes, known, depth):
        trips = self.add(nodes, known, ("Mod", "0", One((3, 4, 5))), [self.recent(known, NUMBER)], NUMBER)
        if self.is_long and not depth:
            trips = self.add(nodes, known, ("Add", "0", One((65, 200, 520))), [trips], NUMBER)
        go = ""
        if self.chance(0.5):
            go = self.add(nodes, known, ("Identity", True), [], FLAG)
            if self.chance(0.2):
                go = self.recent(known, FLAG)
        kinds = self.kinds(known, [SEQUENCE, SEQUENCE, NUMBER] + ([] if self.is_long else [TENSOR, SHAPE]))
        states = [self.recent(known, kind) for kind in kinds]
        if SEQUENCE in kinds and self.chance(0.6):
            states[kinds.index(SEQUENCE)] = self.add(nodes, known, ("SequenceEmpty",), [], SEQUENCE)
        first = len(known)
        inputs = [(self.fresh(), kind) for kind in (NUMBER, FLAG, *kinds)]
        inner, seen = [], [*known, *inputs]
        self.block(inner, seen, depth + 1, self.random.randint(1, 5))
        results = []
        for (state, _), kind in zip(inputs[2:], kinds, strict=True):
            appended = [state, self.recent(seen, TENSOR)]
            if kind == SEQUENCE and self.chance(0.6):
                results.append(self.add(inner, seen, ("SequenceInsert", "0", "1"), appended, SEQUENCE))
            else:
                results.append(self.result(inner, seen, kind, first))
        # Of tensors, what there is without an iteration depends on the engine.
        scans = [self.result(inner, seen, NUMBER, first)] if self.chance(0.3) else []
        self.give_names(inner, results, [inputs[0][0]])
        # Without a condition to begin with, the text ignores that of the body, and onnxruntime doesn't.
        going = self.add(inner, seen, ("Identity", "0"), [inputs[1][0]], FLAG)
        if go and self.chance(0.4):
            last = One((0, 2, 70, 512) if self.is_long else (0, 2))
            going = self.add(inner, seen, ("Less", "0", last), [inputs[0][0]], FLAG)
        types = [TensorProto.INT64, TensorProto.BOOL]
        body = helper.make_graph(
            inner,
            "b",
            [
                helper.make_tensor_value_info(one, kind, [])
                for (one, _), kind in zip(inputs, types, strict=False)
            ]
            + [self.declared(*one) for one in inputs[2:]],
            [helper.make_tensor_value_info(going, TensorProto.BOOL, [])]
            + [*map(self.declared, results, kinds)]
            + [self.declared(name, NUMBER) for name in scans],
        )
        kinds += [TENSOR if self.is_tidy else SHAPE] * len(scans)
        if kinds:
            self.outputs_of(nodes, known, "Loop", [trips, go, *states], kinds, body=body)

    def add_Map(self, nodes, known, depth):
        given = [
            SEQUENCE,
            *self.pick([[], [TENSOR], [SEQUENCE], [NUMBER]] if self.is_tidy else [[], [TENSOR], [SEQUENCE]]),
        ]
        names = [self.recent(known, kind) for kind in given]
        if None in names:
            return
        inputs = [(self.fresh(), TENSOR if kind == SEQUENCE else kind) for kind in given]
        inner, seen = [], [*known, *inputs]
        self.block(inner, seen, depth + 1, self.random.randint(1, 3))
        results = [self.result(inner, seen, TENSOR, len(known)) for _ in range(self.pick([1, 2]))]
        values = [self.declared(*one) for one in inputs], [self.declared(one, TENSOR) for one in results]
        body = helper.make_graph(inner, "b", *values)
        self.outputs_of(nodes, known, "SequenceMap", names, [SEQUENCE] * len(results), body=body)

    def model(self):
        """The model. What it declares of its inputs' shapes is in `shapes`."""
        wild = {
            "x": (TENSOR, self.pick([None, ["N", 3], [None, 3], ["N", "N"]])),
            "w": (TENSOR, self.pick([None, [2], ["N"], [None]])),
            "s": (SEQUENCE, self.pick([None, [2], [None, 3]])),
            "n": (NUMBER, []),
            "m": (NUMBER, self.pick([[], [None]])),
            "v": (SHAPE, ["K"]),
        }
        tidy = {"s": (SEQUENCE, [None]), "t": (TENSOR, [None]), "k": (NUMBER, [])}
        self.shapes = tidy if self.is_tidy else wild
        known = [(name, kind) for name, (kind, _) in self.shapes.items()]
        first = len(known)
        self.block(self.nodes, known, 0, self.random.randint(3, 12))
        made = [one for one in known[first:] if one[1] != FLAG][-8:] or [
            (self.add(self.nodes, known, ("Identity", "0"), [known[0][0]], known[0][1]), known[0][1])
        ]
        self.outputs = self.random.sample(made, min(len(made), self.pick([1, 2, 3])))
        values = [
            helper.make_tensor_sequence_value_info(name, self.element, shape)
            if kind == SEQUENCE
            else helper.make_tensor_value_info(
                name, self.element if kind == TENSOR else TensorProto.INT64, shape
            )
            for name, (kind, shape) in self.shapes.items()
        ]
        outputs = [self.declared(*one, inside=False) for one in self.outputs]
        graph = helper.make_graph(self.nodes, "program", values, outputs)
        opset = self.pick([17, 17, 18, 21])
        return helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8 if opset < 19 else 10
        )

    def feeds(self):
        """Feeds for some runs, one of them with a long list."""
        rng = np.random.default_rng(self.random.randrange(1 << 30))

        def numbers(shape):
            return rng.integers(-9, 9, shape).astype(self.dtype)

        def array(shape):
            if shape is None:
                shape = self.pick([[2, 3], [2], [0, 3], [0], [1, 2, 3], [3, 0], [6]])
            return numbers([n if isinstance(n, int) else int(rng.integers(5)) for n in shape])

        def value(kind, shape, is_long):
            if kind == SEQUENCE:
                count = int(rng.integers(20, 300)) if is_long else self.pick([0, 1, 2, 3, 4])
                if self.is_tidy:
                    return [numbers(i % 3) if is_long else numbers(rng.integers(4)) for i in range(count)]
                if shape:
                    return [array(shape) for _ in range(count)]
                shapes = self.pick([[[2]], [[1, 3], [0, 3]], [[2], [2], [1, 3], [0, 3]]])
                return [numbers(self.pick(shapes)) for _ in range(count)]
            if kind == SHAPE:
                return np.array(self.pick([[2], [1, 1], [2, 3], [6], [0], [-1], []]), np.int64)
            if kind == NUMBER:
                number = self.pick([0, 1, 2, 3, -1, 7])
                return np.array(number if shape == [] else [number])
            return array(shape)

        return [
            {name: value(*one, is_long) for name, one in self.shapes.items()}
            for is_long in (False, False, True)
        ]
