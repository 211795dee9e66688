"""Positions, as the operators on sequences get them."""

from __future__ import annotations

from typing import Any, NamedTuple

from seqcore.onnx._model.graph import Node
from seqcore.onnx._model.prepared import Prepared


class Position(NamedTuple):
    """A position: its name, its number and rank where they are known, and whether it is never negative."""

    name: str
    value: int | None
    rank: int | None
    is_from_front: bool = False


def position_of(prepared: Prepared, name: str) -> Position:
    """Return the `Position` that a tensor is."""
    is_from_front = is_never_negative(prepared, name)
    return Position(name, prepared.integer(name), prepared.type(name).rank, is_from_front)


def is_never_negative(prepared: Prepared, name: str) -> bool:
    """Return whether integers are known not to be negative, as lengths are."""
    constant = prepared.constant(name)
    return name in prepared.never_negative if constant is None else bool((constant >= 0).all())


def erase_before(prepared: Prepared, insert: Node) -> Node | None:
    """Return the erase that an insert follows if the two assign an element, None otherwise.

    t = SequenceErase (s, p); u = SequenceInsert (t, x, p)    that is    s[p] = x
    """
    erase = prepared.producer(insert.inputs[0])
    if erase is None or not erase.is_op("SequenceErase") or not (erase.input(1) and insert.input(2)):
        return None
    one, other = erase.inputs[1], insert.inputs[2]
    # From the back, an insert counts one element less.
    is_known = is_never_negative(prepared, one) or _is_last(prepared, one, erase.inputs[0])
    if not (is_known or _is_not_negative_at(insert, one, prepared)):
        return None
    is_same = one == other or prepared.integer(one) == prepared.integer(other) is not None
    is_alone = [node for node, _ in prepared.readers[erase.outputs[0]]] == [insert]
    graphs = {id(prepared.producers[node.outputs[0]][1]) for node in (erase, insert)}
    return erase if is_same and is_alone and len(graphs) == 1 else None


def _is_not_negative_at(node: Node, name: str, prepared: Prepared) -> bool:
    """Return whether an If around a node has asked that an integer isn't negative, as a -1 for none is."""
    graph = prepared.producers[node.outputs[0]][1]
    for choice in prepared.model.graph.all_nodes():
        if choice.is_op("If") and graph in choice.graphs.values():
            asked, holds = prepared.producer(choice.inputs[0]), graph is choice.graphs["then_branch"]
            while asked is not None and asked.is_op("Cast", "Identity", "Not"):
                holds ^= asked.is_op("Not")
                asked = prepared.producer(asked.inputs[0])
            if asked is None or not asked.is_op("Less", "Greater", "LessOrEqual", "GreaterOrEqual"):
                return False
            least, is_equal = prepared.integer(asked.inputs[1]), asked.op_type.endswith("Equal")
            if asked.inputs[0] != name or asked.op_type.startswith("Greater") != holds or least is None:
                return False
            # It is greater, or not less, than a number.
            return least + (is_equal != holds) >= 0
    return False


def _is_last(prepared: Prepared, name: str, sequence: str) -> bool:
    """Return whether a position is len(sequence) - 1, which an erase of no element refuses."""
    node = prepared.producer(name)
    if node is None or not node.is_op("Sub") or prepared.integer(node.inputs[1]) != 1:
        return False
    length = prepared.producer(node.inputs[0])
    return length is not None and length.is_op("SequenceLength") and length.inputs == [sequence]


def insert_after(prepared: Prepared, erase: Node) -> Node | None:
    """Return the insert that follows an erase if the two assign an element, None otherwise."""
    readers = prepared.readers[erase.outputs[0]]
    insert = readers[0][0] if len(readers) == 1 else None
    is_next = insert is not None and insert.is_op("SequenceInsert")
    return insert if insert is not None and is_next and erase_before(prepared, insert) is erase else None


def guard_position(node: Node, k: int, prepared: Prepared, checks: Any) -> None:
    """Let a node fail whose input k may be no single position.

    onnxruntime takes the first of several, and what lies in memory where there is none.
    """
    if node.input(k):
        checks.want_one_item(node, k, prepared)
