"""Lists whose elements a loop assigns one by one: scan outputs of it, and the elements that it leaves."""

from __future__ import annotations

from seqcore.onnx._lists.cuts import shape_tensor, zeros
from seqcore.onnx._lists.scans import Start, add_scan, why_checks_are_lost, with_lengths
from seqcore.onnx._lists.trace import terms_of
from seqcore.onnx._model.graph import Node
from seqcore.onnx._model.loop_parts import parts_of
from seqcore.onnx._model.positions import erase_before
from seqcore.onnx._model.prepared import Prepared
from seqcore.onnx._model.record import Declined
from seqcore.onnx._model.types import NEVER, join_shapes
from seqcore.onnx._rewrite.emit import AFTER_ALL, Builder


def assigned(prepared: Prepared, loop: Node, k: int) -> Assigned | None:
    """Return a list whose elements a loop assigns one by one, None for another."""
    try:
        return Assigned(prepared, loop, k)
    except Declined:
        return None


class Assigned:
    """A list whose element i + offset iteration i of a loop assigns: output k of the loop.

        l = Loop (n, c, start) <s[i + 1] = x>    ──▶    rows = Loop (n, c) <x>
                                                        l = the first of start, rows, and the rest of start

    Raises
    ------
    Declined
        If the loop does something else.
    """

    def __init__(self, prepared: Prepared, loop: Node, k: int) -> None:
        parts = parts_of(loop)
        self.node, self._k, self._name = loop, k, parts.final[k]
        self._prepared, self._state = prepared, parts.states[k]
        insert = self._source(parts.next_states[k])
        erase = (
            None if insert is None or not insert.is_op("SequenceInsert") else erase_before(prepared, insert)
        )
        if insert is None or erase is None or erase.inputs[0] != self._state:
            raise Declined("assigns no element")
        self._element, self._anchor = insert.inputs[1], insert
        self.start = Start(prepared, parts.initial[k])
        self._shape = join_shapes(self.start.shape, prepared.shape(self._element))
        self._number = prepared.element_number(self._element)
        is_proven = self._shape not in (None, NEVER) and None not in (self._shape or ())
        if not is_proven or not self._number or self.start.count == 0:
            raise Declined("assigns elements whose shapes may differ")
        if self.start.why_not(prepared) or why_checks_are_lost(prepared, loop):
            raise Declined("starts with a list that can't be stacked")
        at = [erase.inputs[1]]
        self._reads: list[Node] = []
        for reader, _ in prepared.readers[self._state]:
            if reader is not None and reader.is_op("SequenceAt", "SequenceLength"):
                self._reads.append(reader)
                at += reader.inputs[1:]
            elif reader is not erase:
                raise Declined("does more than to read it and to assign an element")
        is_left_alone = len(prepared.readers[insert.outputs[0]]) == 1 and insert in loop.body.nodes
        terms = [{"": 0} | (terms_of(prepared, one) or {}) for one in at]
        self._offset = terms[0][""]
        if not is_left_alone or any(one != {"": self._offset, parts.iteration: 1} for one in terms):
            raise Declined("reads or assigns elements elsewhere than at its number")

    def _source(self, name: str) -> Node | None:
        node = self._prepared.producer(name)
        while node is not None and node.is_op("Identity") and len(self._prepared.readers[name]) == 1:
            name = node.inputs[0]
            node = self._prepared.producer(name)
        return node

    def write(self, builder: Builder, read: set[str]) -> None:
        """Give the loop a scan output, and its body the elements before the loop."""
        loop, start = self.node, self.start
        for reader in self._reads:
            inputs = [start.name, *reader.inputs[1:]]
            builder.instead(reader).op(reader.op_type, *inputs, out=reader.outputs[0])
        value = builder.after(self._anchor).op("Identity", self._element)
        name = builder.fresh(f"{self._name}/stack")
        stack = add_scan(builder, loop, value, name, self._number, self._shape)
        before, nodes = builder.before(loop), builder.after(loop)
        shape = shape_tensor(before, self._prepared, self._shape)
        rows = start.rows(before, lambda: zeros(before, self._number, shape))
        if not all(isinstance(length, int) for length in self._shape or ()):
            stack = with_lengths(nodes, stack, shape)
        first, second, offset = nodes.constant([0]), nodes.constant([1]), nodes.constant([self._offset])
        count = nodes.slice(nodes.op("Shape", stack), first, second, 0)
        end = nodes.op("Add", count, offset) if self._offset else count
        bad = nodes.op("Less", nodes.slice(nodes.op("Shape", rows), first, second, 0), end)
        if self._offset:
            # Without an iteration nothing is assigned, wherever that would be.
            bad = nodes.op("And", bad, nodes.op("Less", first, count))
        end = nodes.op("Add", end, nodes.fail_if(nodes.squeeze(bad, 0)))
        parts = [stack, nodes.slice(rows, end, nodes.constant([AFTER_ALL]), 0)]
        if self._offset:
            parts.insert(0, nodes.slice(rows, first, offset, 0))
        loop.outputs[self._k] = builder.fresh(f"{self._name}/list")  # which nobody reads
        whole = nodes.op("Concat", *parts, axis=0)
        nodes.op("SplitToSequence", whole, axis=0, keepdims=0, out=self._name)
