"""What an iteration of a loop does to a list: the elements that it puts at its ends, always or in branches.

state ──▶ SequenceInsert ──▶ If ──▶ next state        edits: Append, Branches
a slot for each element that an iteration may put at one end, in the order in which they come
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import zip_longest
from typing import NamedTuple

from seqcore.onnx._model.graph import BRANCHES, Graph, Node
from seqcore.onnx._model.loop_parts import parts_of
from seqcore.onnx._model.positions import position_of
from seqcore.onnx._model.prepared import Prepared

# An iteration that puts more into a list is no typical one: each slot is an output of the loop.
_MOST_SLOTS = 32


class Append(NamedTuple):
    """An insert at an end."""

    insert: Node
    at_front: bool


class Branches(NamedTuple):
    """What the branches of an If do, after what they have in common; k is which output the list is."""

    node: Node
    k: int
    edits: tuple[tuple[Edit, ...], tuple[Edit, ...]]


Edit = Append | Branches


class Merged(NamedTuple):
    """An element that the branches of an If give, or one of them."""

    node: Node
    k: int
    slots: tuple[Slot | None, Slot | None]


# The name of an element, or what two branches give.
Slot = str | Merged


class Read(NamedTuple):
    """A read of a list that is on its way through an iteration, at one place in all of them.

    Attributes
    ----------
    position : int
        From the front, or negative from the back.
    is_counted : bool
        Whether a run counts the position from the front: it is negative then, and no error, where there are
        fewer elements than it goes back.
    """

    node: Node
    value: str
    position: int
    is_counted: bool = False


class IterationEdits:
    """What an iteration does to a state of a loop.

    Attributes
    ----------
    why : str
        Why it can't be told, "" where it can.
    state, result : str
        The list in the body, before and after.
    counts : list of (Node, str)
        The nodes that count its elements on the way, and what they count.
    reads : list of Read
    """

    def __init__(self, prepared: Prepared, loop: Node, k: int, start_count: int | None) -> None:
        parts = parts_of(loop)
        self._prepared, self._loop, self._start_count = prepared, loop, start_count
        self.state, self.result = parts.states[k], parts.next_states[k]
        self.counts: list[tuple[Node, str]] = []
        self.reads: list[Read] = []
        self._edits: dict[str, tuple[Edit, ...]] = {self.state: ()}
        self._branch_outputs: set[tuple[int, int]] = set()
        self._depth = 0
        self.why = ""
        edits = self.edits_of(self.result)
        if edits is None:
            self.why = self.why or other_than_append(prepared, loop, self.state)
        elif not edits:
            self.why = "hands it on as it is"
        elif max(len(slots_of(edits, at_front)) for at_front in (False, True)) > _MOST_SLOTS:
            self.why = f"inserts into it more than {_MOST_SLOTS} times in an iteration"
        else:
            self.why = self._look_at_readers()

    def edits_of(self, value: str) -> tuple[Edit, ...] | None:
        """Return the edits that lead from the state to a list in the body, None where others do."""
        chain: list[tuple[str, tuple[Edit, ...]]] = []
        while value not in self._edits:
            if len(chain) + self._depth > 2 * _MOST_SLOTS:
                self.why = f"inserts into it more than {_MOST_SLOTS} times in an iteration"
                return None
            node = self._prepared.producer(value)
            if node is not None and node.is_op("SequenceInsert"):
                edit = self._append(node)
                if edit is None:
                    return None
                chain.append((value, (edit,)))
                value = node.inputs[0]
            elif node is not None and node.is_op("Identity"):
                chain.append((value, ()))
                value = node.inputs[0]
            elif node is not None and node.is_op("If"):
                self._depth += 1
                edits = self._merge(node, node.outputs.index(value))
                self._depth -= 1
                if edits is None:
                    return None
                self._edits[value] = edits
            else:
                return None
        edits = self._edits[value]
        for made, more in reversed(chain):
            edits = (*edits, *more)
            self._edits[made] = edits
        return edits

    def _append(self, insert: Node) -> Append | None:
        at_front = end_of(self._prepared, insert)
        if at_front is None:
            self.why = "inserts into it elsewhere than at an end"
            return None
        return Append(insert, at_front)

    def _merge(self, node: Node, k: int) -> tuple[Edit, ...] | None:
        both = []
        for key in BRANCHES:
            branch = node.graphs[key]
            edits = self.edits_of(branch.outputs[k])
            if edits is None:
                return None
            both.append(edits)
            self._branch_outputs.add((id(branch), k))
        one, other = both
        common = 0
        while common < min(len(one), len(other)) and one[common] == other[common]:
            common += 1
        if len(one) == len(other) == common:
            return one
        return (*one[:common], Branches(node, k, (one[common:], other[common:])))

    def puts_to(self, insert: Node, at_front: bool) -> bool:
        """Return whether an insert on the way is one at the front, or at the back."""
        edit = self._append(insert)
        return edit is not None and edit.at_front == at_front

    def _look_at_readers(self) -> str:
        returned = []
        for value in self._edits:
            for reader, graph in self._prepared.readers[value]:
                if reader is None:
                    if graph is self._loop.body:
                        returned.append(value)
                    elif (id(graph), graph.outputs.index(value)) not in self._branch_outputs:
                        return "gives it to a graph inside"
                elif reader.is_op("SequenceLength"):
                    self.counts.append((reader, value))
                elif reader.is_op("SequenceInsert", "Identity") and reader.outputs[0] in self._edits:
                    continue
                elif (read := self._read(reader, value)) is not None:
                    self.reads.append(read)
                else:
                    return f"reads it on the way, at '{reader.name}'"
        return "" if returned == [self.result] else "returns it twice"

    def _read(self, node: Node, value: str) -> Read | None:
        if not node.is_op("SequenceAt"):
            return None
        position = position_of(self._prepared, node.inputs[1])
        if position.value is not None:
            return Read(node, value, position.value)
        counted = self._counted(node.inputs[1], value)
        return None if counted is None or counted >= 0 else Read(node, value, counted, is_counted=True)

    def _counted(self, position: str, value: str) -> int | None:
        """Return where a position lies behind the end of a list, if that is the same in all iterations."""
        terms = terms_of(self._prepared, position)
        if terms is None:
            return None
        offset = terms.pop("", 0)
        lists = {name: times for name, times in terms.items() if name in self._edits}
        if lists == terms == {value: 1}:
            return offset
        own, more = self._length(value)
        if own is None:
            return None
        times = terms.pop(parts_of(self._loop).iteration, 0)
        for name, factor in terms.items():
            if name not in self._edits:
                return None
            length, _ = self._length(name)
            if length is None:
                return None
            offset += factor * length
            times += factor * more
        return offset - own if times == more else None

    def _length(self, value: str) -> tuple[int | None, int]:
        """Return how many elements a list has in the first iteration, and how many more in each later one."""
        before, each = (
            [slot for at_front in (False, True) for slot in slots_of(self.edits_of(name) or (), at_front)]
            for name in (value, self.result)
        )
        if self._start_count is None or not all(map(is_always_filled, (*before, *each))):
            return None, 0
        return self._start_count + len(before), len(each)


def terms_of(prepared: Prepared, name: str, depth: int = 8) -> dict[str, int] | None:
    """Return an integer as a sum of others: how often it has each, "" for 1; None where it is something else.

    Lists stand for their lengths.
    """
    constant = prepared.constant(name)
    if constant is not None:
        is_one = constant.size == 1 and constant.dtype.kind == "i"
        return {"": int(constant.reshape(-1)[0])} if is_one else None
    node = prepared.producer(name)
    if node is None:
        return {name: 1}
    if node.is_op("SequenceLength"):
        return {node.inputs[0]: 1}
    if node.is_op("Identity", "Squeeze", "Unsqueeze"):
        return terms_of(prepared, node.inputs[0], depth - 1) if depth else None
    if not node.is_op("Add", "Sub", "Mul") or not depth:
        return None
    one, other = (terms_of(prepared, given, depth - 1) for given in node.inputs)
    if one is None or other is None:
        return None
    if node.is_op("Mul"):
        if one.keys() - {""}:
            one, other = other, one
        return None if one.keys() - {""} else {key: one.get("", 0) * n for key, n in other.items()}
    sign = 1 if node.is_op("Add") else -1
    total = {key: one.get(key, 0) + sign * other.get(key, 0) for key in one | other}
    return {key: n for key, n in total.items() if n or not key}


def end_of(prepared: Prepared, insert: Node) -> bool | None:
    """Return whether an insert is one at the front; None where it may be elsewhere than at an end."""
    position = insert.input(2)
    if not position:
        return False
    if terms_of(prepared, position) == {insert.inputs[0]: 1}:
        return False
    return True if position_of(prepared, position).value == 0 else None


def slots_of(edits: tuple[Edit, ...], at_front: bool) -> list[Slot]:
    """Return the slots of what edits put at one end."""
    slots: list[Slot] = []
    for edit in edits:
        if isinstance(edit, Branches):
            one, other = (slots_of(branch, at_front) for branch in edit.edits)
            pairs: Iterable[tuple[Slot | None, Slot | None]] = zip_longest(one, other)
            slots += [Merged(edit.node, edit.k, pair) for pair in pairs]
        elif edit.at_front == at_front:
            slots.append(edit.insert.inputs[1])
    return slots


def elements_of(slot: Slot | None) -> Iterator[str]:
    """Yield the names of the elements that may be in a slot."""
    if isinstance(slot, Merged):
        for one in slot.slots:
            yield from elements_of(one)
    elif slot is not None:
        yield slot


def is_always_filled(slot: Slot | None) -> bool:
    """Return whether each iteration has an element for a slot."""
    if isinstance(slot, Merged):
        return all(is_always_filled(one) for one in slot.slots)
    return slot is not None


def other_than_append(prepared: Prepared, loop: Node, state: str) -> str:
    """Return what a loop does to a state, in a word."""
    reached, todo, words = {state}, [state], set()
    while todo:
        for node, _ in prepared.readers[todo.pop()]:
            if node is None:
                continue
            words.add(node.op_type)
            fresh = {name for name in node.outputs if prepared.is_sequence(name)} - reached
            reached |= fresh
            todo += fresh
    if "SequenceErase" in words:
        return "erases from it"
    if "Loop" in words:
        return "hands it on to a loop inside it"
    return "makes it anew"


def graphs_in(graph: Graph) -> set[int]:
    """Return the ids of a graph and of all inside it."""
    return {id(one) for one in graph.all_graphs()}
