"""What loops keep from one iteration to the next: counts, tensors, and lists with what is done to them."""

from dataclasses import replace

import numpy as np
from onnx import helper
from support.models.loop_models import TYPES, Scope, Value, sequence_info
from support.models.loop_operators import a_condition


def info(value, shape=None):
    return helper.make_tensor_value_info(value.name, TYPES[value.dtype], shape)


def node(m, scope, op, inputs, word="l", **attributes):
    """A node that makes a sequence; its name."""
    name = m.fresh_name(word)
    scope.nodes.append(helper.make_node(op, inputs, [name], **attributes))
    return name


class List:
    """A list that a loop has as its state: `edit` adds what an iteration does with it."""

    def __init__(self, m, scope, element, kind):
        self.m, self.element, self.kind = m, element, kind
        self.dtype = element.dtype
        self.state = m.fresh_name("s")
        self.name = m.fresh_name("l")
        self.is_full = False  # whether it starts with elements

    def start(self, outer):
        m, e = self.m, self.element
        self.is_full = self.kind in ("update", "window", "middle") or (m.chance(0.08) and not m.is_plain)
        if self.is_full and not e.is_ragged:
            count = m.pick([1, 2, 3])
            return node(m, outer, "SequenceConstruct", [m.whole(e.dtype, e.shape).name for _ in range(count)])
        options = {"dtype": TYPES[e.dtype]} if e.dtype != "float32" or m.chance(0.3) else {}
        return node(m, outer, "SequenceEmpty", [], **options)

    def inserted(self, scope, state, *at):
        return node(self.m, scope, "SequenceInsert", [state, self.element.name, *at])

    def edit(self, scope):
        m, kind = self.m, self.kind
        if kind == "front":
            return self.inserted(scope, self.state, m.number(scope, 0).name)
        if kind == "some":
            condition = a_condition(m, scope)
            then, other = Scope(scope), Scope(scope)
            one = self.inserted(then, self.state)
            two = node(m, other, "Identity", [self.state])
            graphs = [
                helper.make_graph(inner.nodes, "b", [], [sequence_info(name, TYPES[self.dtype], None)])
                for inner, name in ((then, one), (other, two))
            ]
            if m.chance(0.3):
                graphs.reverse()
            return node(m, scope, "If", [condition.name], then_branch=graphs[0], else_branch=graphs[1])
        if kind == "window":
            longer = self.inserted(scope, self.state)
            return node(m, scope, "SequenceErase", [longer, m.number(scope, 0).name])
        if kind == "update":
            n = m.emit(scope, "SequenceLength", [self.state], "int64", (), 300, keep=False)
            at = m.emit(scope, "Mod", [scope.trip, n], "int64", (), 300, keep=False)
            less = node(m, scope, "SequenceErase", [self.state, at.name])
            return self.inserted(scope, less, at.name)
        if kind == "middle":
            return self.inserted(scope, self.state, m.number(scope, m.pick([-1, 1])).name)
        if kind == "twice":
            return self.inserted(scope, self.inserted(scope, self.state))
        return self.inserted(scope, self.state)


class History(List):
    """A list that the body reads on the way. Whole numbers alone: they are exact, however long it goes on."""

    def __init__(self, m, scope):
        kinds = ["end", "end", "window", "update", "front", "capped", "stack", "last"]
        super().__init__(m, scope, Value("", "int64", m.shape(m.pick([0, 1, 1, 2])), 4), m.pick(kinds))
        self.is_full, self.count = True, m.pick([1, 2, 3])

    def look(self, scope):
        """Add what is read of it to the values of the body."""
        m, e = self.m, self.element
        for _ in range(m.pick([1, 1, 2])):
            way = m.pick(["last", "first", "some", "all", "all", "count"])
            if way == "count":
                m.emit(scope, "SequenceLength", [self.state], "int64", (), 300)
            elif way == "all":
                axis = m.random.randint(0, e.rank)
                if self.kind in ("window", "update"):  # it is always as long
                    shape = [*e.shape[:axis], self.count, *e.shape[axis:]]
                    m.emit(
                        scope, "ConcatFromSequence", [self.state], "int64", shape, 4, axis=axis, new_axis=1
                    )
                elif e.size:
                    every = m.emit(
                        scope, "ConcatFromSequence", [self.state], "int64", (), keep=False, axis=0, new_axis=1
                    )
                    m.emit(scope, "ReduceSum", [every, m.ints(scope, 0)], "int64", e.shape, 1300, keepdims=0)
            else:
                at = m.number(scope, {"last": -1, "first": 0}.get(way, 0))
                if way == "some":
                    n = m.emit(scope, "SequenceLength", [self.state], "int64", (), 300, keep=False)
                    at = m.emit(scope, "Mod", [scope.trip, n], "int64", (), 300, keep=False)
                m.emit(scope, "SequenceAt", [self.state, at], "int64", e.shape, 4)

    def settle(self, scope):
        """Choose what goes in: a value of the body, made small."""
        m, e = self.m, self.element
        made = m.some(scope, ("int64",), shape=e.shape)
        small = m.emit(scope, "Mod", [made, m.number(scope, 5)], "int64", e.shape, 4, keep=False)
        self.element = replace(e, name=small.name)

    def start(self, outer):
        e = self.element
        rows = [self.m.whole("int64", e.shape).name for _ in range(self.count)]
        return node(self.m, outer, "SequenceConstruct", rows)

    def edit(self, scope):
        m = self.m
        if self.kind not in ("capped", "stack", "last"):
            return super().edit(scope)
        then, other = Scope(scope), Scope(scope)
        if self.kind == "capped":  # as long as that at most
            longer = self.inserted(scope, self.state)
            n = m.emit(scope, "SequenceLength", [longer], "int64", (), 300, keep=False)
            condition = m.emit(scope, "Greater", [n, m.number(scope, 3)], "bool", (), 1, keep=False)
            one = node(m, then, "SequenceErase", [longer, m.number(then, 0).name])
            two = node(m, other, "Identity", [longer])
        else:  # the last one goes, or another comes; or it takes the place of the last one
            n = m.emit(scope, "SequenceLength", [self.state], "int64", (), 300, keep=False)
            some = m.emit(scope, "Greater", [n, m.number(scope, 1)], "bool", (), 1, keep=False)
            condition = m.emit(scope, "And", [some, a_condition(m, scope)], "bool", (), 1, keep=False)
            one = node(m, then, "SequenceErase", [self.state, *[m.number(then, -1).name] * m.chance(0.5)])
            if self.kind == "last":
                one = self.inserted(then, one)
            two = self.inserted(other, self.state)
        graphs = [
            helper.make_graph(inner.nodes, "b", [], [sequence_info(name, TYPES["int64"], None)])
            for inner, name in ((then, one), (other, two))
        ]
        return node(m, scope, "If", [condition.name], then_branch=graphs[0], else_branch=graphs[1])


def states_of(m, outer, body):
    """Count states, and states that are tensors: of each its start, its name, and what makes the next."""
    made = []
    for _ in range(m.pick([0, 0, 0, 1, 1, 2]) if not m.is_plain else m.pick([0, 0, 0, 1])):
        name, start, step = m.fresh_name("s"), m.pick([0, 0, 1, 3]), m.pick([1, 2, 1, 0])
        body.counters.append((name, start, step))
        body.values.append(Value(name, "int64", (), 700))

        def count(name=name, step=step):
            return m.emit(body, "Add", [name, m.number(body, step)], "int64", (), 700, keep=False)

        made.append((m.number(outer, start).name, name, "int64", [], count))
    for _ in range(m.pick([0, 0, 0, 0, 1, 1]) if not m.is_plain else 0):
        dtype, shape = m.pick(["float32", "int64"]), m.shape()
        first = m.whole(dtype, shape)
        state = Value(m.fresh_name("s"), dtype, shape, first.bound, first.grain if dtype == "int64" else None)
        if m.chance(0.6):  # else nobody in the body reads it
            body.values.append(state)

        def follow(state=state, dtype=dtype, shape=shape):
            new = m.fresh(body, dtype, shape)
            way = m.pick(["max", "delay", "sum"])
            if way == "max":
                return m.emit(body, "Max", [state, new], dtype, shape, keep=False)
            if way == "sum" and dtype == "float32":
                half = m.emit(
                    body, "Mul", [state, m.constant(body, np.float32(0.5))], dtype, shape, keep=False
                )
                return m.emit(body, "Add", [half, new], dtype, shape, keep=False)
            return m.emit(body, "Identity", [new], dtype, shape, keep=False)

        made.append((first.name, state.name, dtype, list(shape), follow))
    return made
