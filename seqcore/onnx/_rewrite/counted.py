"""Loops that go on while a counter is below a limit: how often they run is known before the first iteration.

while i < n: …; i += 1     Loop (most, i < n) ⟨… i + 1 < n⟩  ⟶  Loop (min (most, max (n - i, 0)))

All of TensorFlow's loops are of this kind, and many `while` loops of PyTorch's scripted modules. TensorFlow's
exporter compares integers as float32, which are exact below 2**24; here they are compared as integers.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import numpy as np
from onnx import TensorProto

from seqcore.onnx._model.graph import Model, Node
from seqcore.onnx._model.loop_parts import parts_of
from seqcore.onnx._model.prepared import Prepared
from seqcore.onnx._model.record import record_of
from seqcore.onnx._rewrite.emit import Builder, Nodes

_INTEGERS = (TensorProto.INT32, TensorProto.INT64)
_WIDER = (TensorProto.INT64, TensorProto.FLOAT, TensorProto.DOUBLE)
# Of a comparison: whether its first input is the greater one, and whether both may be equal.
_COMPARISONS = {
    "Less": (False, False),
    "LessOrEqual": (False, True),
    "Greater": (True, False),
    "GreaterOrEqual": (True, True),
}
# How many nodes are followed from a condition back to its counter, one behind the other.
_DEPTH = 12
# Exporters write such a number of iterations where there is no limit.
_ENDLESS = 1 << 31
# Numbers up to here can be added. A limit may be the largest integer, which is none.
_LARGEST = 1 << 60
# Numbers up to here change little of the largest.
_SMALL = 1 << 40


class _Sum(NamedTuple):
    """Values, each so many times, and a number."""

    terms: dict[str, int]
    number: int

    def plus(self, other: _Sum, times: int = 1) -> _Sum:
        """Return this and another one, so many times."""
        terms = dict(self.terms)
        for name, k in other.terms.items():
            terms[name] = terms.get(name, 0) + times * k
        return _Sum({name: k for name, k in terms.items() if k}, self.number + times * other.number)


class _Gap(NamedTuple):
    """A condition: two sums, whose difference and a number are positive together.

    The sums stay apart, as each is added up like the model's own: it wraps around where that does.
    """

    greater: _Sum
    lesser: _Sum
    number: int


def count_iterations(model: Model, prepared: Prepared) -> bool:
    """Have loops pass their conditions on where the number of iterations is known before the first.

    Return whether there were such loops.
    """
    builder = Builder(model)
    has_changed = False
    for node in model.graph.all_nodes():
        if node.is_op("Loop") and not parts_of(node).passes_condition_on:
            has_changed |= _Counted(node, prepared).rewrite(builder.before(node))
    builder.apply()
    return has_changed


class _Counted:
    """A loop that decides in each iteration whether to go on."""

    def __init__(self, loop: Node, prepared: Prepared) -> None:
        self._loop, self._prepared, self._parts = loop, prepared, parts_of(loop)
        parts = self._parts
        self._inside = {*loop.body.inputs, *(name for node in loop.body.nodes for name in node.outputs)}
        # States that stay as they are → what they are. Counters → what they start with, and their steps.
        self._fixed: dict[str, str] = {}
        self._counters = {parts.iteration: (_Sum({}, 0), 1)}
        for state, initial, after in zip(parts.states, parts.initial, parts.next_states, strict=True):
            terms, step = self._sum(after)
            if terms == {state: 1} and not step:
                self._fixed[state] = initial
            elif terms == {state: 1} and max(abs(step), abs((start := self._sum(initial)).number)) < _LARGEST:
                self._counters[state] = start, step

    def rewrite(self, nodes: Nodes) -> bool:
        """Write before the loop how often it runs; return whether that is known."""
        parts = self._parts
        begins = parts.begins(self._prepared)
        after = self._gaps(parts.going_out)
        before = [] if begins else self._gaps(parts.condition)
        if after is None or not (after or parts.trips):
            return False
        falling = [self._falling(gap) for gap in after]
        for gap, _, fall in falling:
            for side in (gap.greater, gap.lesser):
                is_large = bool(side.terms) and abs(side.number) >= _LARGEST
                if fall <= 0 or is_large or not all(map(self._can_be_outside, side.terms)):
                    return False
        asked = [self._key(gap) for gap in before or ()]
        earlier = [self._key(gap) for _, gap, _ in falling]
        is_known = before is not None and all(key in earlier for key in asked)
        counts = [
            self._count(first, fall, 0, nodes)
            if is_known and key in asked
            else self._count(gap, fall, 1, nodes)
            for (gap, first, fall), key in zip(falling, earlier, strict=True)
            if not self._is_trip_count(gap, fall)
        ]
        if counts:
            most = self._prepared.integer(parts.trips) if parts.trips else _ENDLESS
            if most is None or most < _ENDLESS:
                counts.append(self._number(parts.trips, nodes))
            self._loop.inputs[0] = nodes.op("Min", *counts) if len(counts) > 1 else counts[0]
        if is_known and not begins:
            self._loop.inputs[1] = ""
        self._loop.body.outputs[0] = parts.going_in
        return True

    def _gaps(self, condition: str, depth: int = _DEPTH) -> list[_Gap] | None:
        """Return what has to be positive for a condition, None where it is of another kind."""
        if condition == self._parts.going_in or self._prepared.condition(condition) is True:
            return []
        node = self._prepared.producer(condition)
        if node is None or not depth:
            return None
        if node.is_op("Identity", "Cast"):
            return self._gaps(node.inputs[0], depth - 1)
        if node.is_op("And"):
            both = [self._gaps(name, depth - 1) for name in node.inputs]
            return None if None in both else [gap for one in both for gap in one or ()]
        is_denied = node.is_op("Not")
        if is_denied:
            node = self._prepared.producer(node.inputs[0])
        if node is None or not node.is_op(*_COMPARISONS):
            return None
        is_first, may_be_equal = _COMPARISONS[node.op_type]
        one, other = (self._sum(name) for name in node.inputs)
        greater, lesser = (one, other) if is_first != is_denied else (other, one)
        # Of integers, b >= a is b + 1 - a > 0, and what isn't a < b is a >= b.
        return [_Gap(greater, lesser, int(may_be_equal != is_denied))]

    def _sum(self, name: str, depth: int = _DEPTH) -> _Sum:
        """Return a value as what it is the sum of."""
        constant, node = self._prepared.constant(name), self._prepared.producer(name)
        if constant is not None and constant.size == 1 and constant.dtype.kind in "iuf":
            number = constant.item()
            return _Sum({}, int(number)) if float(number).is_integer() else _Sum({name: 1}, 0)
        if node is None or not depth:
            return _Sum({name: 1}, 0)
        if node.is_op("Identity", "Squeeze", "Unsqueeze") or self._widens(node):
            return self._sum(node.inputs[0], depth - 1)
        if node.is_op("Add", "Sub") and self._prepared.element_number(name) in _INTEGERS:
            one, other = (self._sum(part, depth - 1) for part in node.inputs)
            sum_ = one.plus(other, 1 if node.is_op("Add") else -1)
            # Of other values the model's own node has the sum: it may wrap around.
            counters = set(self._loop.body.inputs) - self._fixed.keys()
            if not counters.isdisjoint(sum_.terms) or all(map(self._is_length, sum_.terms)):
                return sum_
        return _Sum({name: 1}, 0)

    def _widens(self, node: Node) -> bool:
        """Return whether a node gives integers as they are in another type."""
        if not node.is_op("Cast"):
            return False
        number, made = map(self._prepared.element_number, (node.inputs[0], node.outputs[0]))
        return number in _INTEGERS and made in (*_WIDER, number)

    def _falling(self, gap: _Gap) -> tuple[_Gap, _Gap, int]:
        """Return a condition after the first iteration, one step earlier, and how much less it gets."""
        (greater, rise), (lesser, gain) = map(self._first, gap[:2])
        before = _Gap(
            greater._replace(number=greater.number - rise),
            lesser._replace(number=lesser.number - gain),
            gap.number,
        )
        return _Gap(greater, lesser, gap.number), before, gain - rise

    def _first(self, sum_: _Sum) -> tuple[_Sum, int]:
        """Return a sum in the first iteration, and how much more it is in each further one."""
        first, rise = _Sum({}, sum_.number), 0
        for name, k in sum_.terms.items():
            start, step = self._counters.get(name, (None, 0))
            if start is None:
                start = self._sum(self._fixed[name]) if name in self._fixed else _Sum({name: 1}, 0)
            first, rise = first.plus(start, k), rise + k * step
        return first, rise

    def _can_be_outside(self, name: str) -> bool:
        """Return whether a value is an integer that can be had before the loop."""
        is_one = self._prepared.shape(name) in ((), (1,))
        return is_one and self._prepared.element_number(name) in _INTEGERS and self._is_same(name)

    def _is_same(self, name: str, depth: int = _DEPTH) -> bool:
        """Return whether a value is the same in each iteration, and nothing fails to make it."""
        if name not in self._inside or name in self._fixed:
            return True
        node = self._prepared.producer(name)
        if node is None or not depth or not self._is_safe(node):
            return False
        return all(self._is_same(input_, depth - 1) for input_ in node.inputs)

    def _is_safe(self, node: Node | None) -> bool:
        """Return whether a node can run where it didn't: it draws no numbers, and doesn't fail."""
        while node is not None and node.is_op("Gather", "Slice", "Squeeze"):
            # Exporters read lengths that are there.
            if not all(self._prepared.is_constant(name) for name in node.inputs[1:]):
                return False
            node = self._prepared.producer(node.inputs[0])
            if node is not None and node.is_op("Shape"):
                return True
        if node is None:
            return False
        record = record_of(node)
        return record.never_fails and not record.draws and not node.graphs and len(node.outputs) == 1

    def _is_length(self, name: str) -> bool:
        """Return whether a value counts what is in memory or done, so that it is far below 2**60."""
        node = self._prepared.producer(name)
        while node is not None and node.is_op("Gather", "Slice", "Squeeze", "Unsqueeze", "Identity", "Cast"):
            name = node.inputs[0]
            node = self._prepared.producer(name)
        is_count = node is not None and node.is_op("Shape", "Size", "SequenceLength")
        return is_count or name in self._prepared.iterations

    def _outside(self, name: str, nodes: Nodes) -> str:
        """Return a value of the body as one before the loop."""
        if name not in self._inside:
            return name
        if name in self._fixed:
            return self._fixed[name]
        node = self._prepared.producers[name][0]
        return nodes.like(node, [self._outside(input_, nodes) for input_ in node.inputs])[0]

    def _key(self, gap: _Gap) -> Any:
        """Return the same for differences of what is computed in the same way."""
        difference, terms = gap.greater.plus(gap.lesser, -1), Counter[Any]()
        for name, k in difference.terms.items():
            terms[self._how(name)] += k
        return terms, difference.number + gap.number

    def _how(self, name: str, depth: int = _DEPTH) -> Any:
        name = self._fixed.get(name, name)
        constant, node = self._prepared.constant(name), self._prepared.producer(name)
        if constant is not None:
            return constant.dtype.str, constant.shape, constant.tobytes()
        if node is None or not depth or not self._is_safe(node):
            return name
        attributes = tuple(one.SerializeToString() for one in node.attribute_messages())
        return node.op_type, attributes, tuple(self._how(one, depth - 1) for one in node.inputs)

    def _is_trip_count(self, gap: _Gap, fall: int) -> bool:
        """Return whether a condition allows at least as many iterations as the trip count."""
        if not self._parts.trips or fall != 1:
            return False
        trips = _Gap(self._sum(self._parts.trips), _Sum({}, 0), 0)
        (terms, number), (most, other) = map(self._key, (gap, trips))
        return bool(terms == most and number + 1 >= other)

    def _count(self, gap: _Gap, fall: int, least: int, nodes: Nodes) -> str:
        """Write how often the loop runs, the first `least` times without a look at a condition."""
        parts, large = [], []
        more, is_length = gap.number + (least + 1) * fall - 1, True
        for side, k in ((gap.greater, 1), (gap.lesser, -1)):
            is_small = all(not self._is_int64(name) or self._is_length(name) for name in side.terms)
            is_sum = bool(side.number or len(side.terms) > 1)
            is_narrow = bool(side.terms) and is_sum and abs(side.number) < 1 << 31
            is_narrow &= all(map(self._is_int32, side.terms))
            number = self._scalar if is_narrow else self._number
            terms = [(number(name, nodes), times) for name, times in side.terms.items()]
            if is_narrow:
                total = self._total(terms, side.number, nodes, np.int32)
                parts.append((nodes.op("Cast", total, to=TensorProto.INT64), k))
            elif is_small:
                more += k * side.number
                parts += [(name, k * times) for name, times in terms]
            else:
                large.append((self._total(terms, side.number, nodes), k))
            is_plain = not is_sum or (is_small and not is_narrow)
            is_length &= is_plain and all(
                k * times > 0 and name in self._prepared.never_negative for name, times in side.terms.items()
            )
        more = max(-_LARGEST, min(more, _LARGEST))
        is_length &= more >= least * fall
        if len(large) == 1 and abs(more) < _SMALL:
            large = [(self._limited(one, nodes), k) for one, k in large]
        parts += large
        count = self._total(parts, more, nodes)
        if len(large) > 1 or (large and abs(more) >= _SMALL):
            # The difference of large numbers is exact unless it is large too: that shows in float64.
            wide = [(nodes.op("Cast", one, to=TensorProto.DOUBLE), k) for one, k in parts]
            total = self._total(wide, more, nodes, np.float64)
            is_exact = nodes.op("Less", nodes.op("Abs", total), nodes.constant(_LARGEST, np.float64))
            limited = nodes.op("Cast", self._limited(total, nodes, np.float64), to=TensorProto.INT64)
            count = nodes.op("Where", is_exact, count, limited)
        if fall > 1:
            count = nodes.op("Div", count, nodes.constant(fall))
        return count if is_length else nodes.op("Max", count, nodes.constant(least))

    def _limited(self, one: str, nodes: Nodes, dtype: Any = np.int64) -> str:
        least, most = (nodes.constant(number, dtype) for number in (-_LARGEST, _LARGEST))
        return nodes.op("Clip", one, least, most)

    def _total(self, parts: list[tuple[str, int]], more: int, nodes: Nodes, dtype: Any = np.int64) -> str:
        """Write the sum of values, each so many times, and of a number."""
        total = nodes.constant(more, dtype) if more or not any(k > 0 for _, k in parts) else ""
        for one, k in sorted(parts, key=lambda part: -part[1]):
            for _ in range(abs(k)):
                total = nodes.op("Add" if k > 0 else "Sub", total, one) if total else one
        return total

    def _number(self, name: str, nodes: Nodes) -> str:
        """Return a value before the loop, as an int64 of rank 0."""
        outside = self._scalar(name, nodes)
        return outside if self._is_int64(name) else nodes.op("Cast", outside, to=TensorProto.INT64)

    def _scalar(self, name: str, nodes: Nodes) -> str:
        """Return a value before the loop, of rank 0."""
        return nodes.of_rank(self._outside(name, nodes), 0, len(self._prepared.shape(name) or ()))

    def _is_int32(self, name: str) -> bool:
        return self._prepared.element_number(name) == TensorProto.INT32

    def _is_int64(self, name: str) -> bool:
        return self._prepared.element_number(name) == TensorProto.INT64
