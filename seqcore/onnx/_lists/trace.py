"""One iteration of a loop, and a list: the elements that it puts at its ends, and its reads.

    state ──▶ SequenceInsert (e) ──▶ If {SequenceInsert (f)} {…} ──▶ next state
    Ends ()                Ends (back=(e))                   Ends (back=(e, Merged (f, None)))

An addition is an element that an iteration may put at an end: its name, or what the branches of an If give.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from typing import NamedTuple

from seqcore.onnx._model.graph import BRANCHES, Node
from seqcore.onnx._model.loop_parts import parts_of
from seqcore.onnx._model.positions import position_of
from seqcore.onnx._model.prepared import Prepared
from seqcore.onnx._model.record import Declined
from seqcore.onnx._thresholds import MOST_ADDITIONS


class Merged(NamedTuple):
    """An element that the branches of an If give, or one of them; k is which output the list is."""

    node: Node
    k: int
    additions: tuple[Addition | None, Addition | None]


Addition = str | Merged


class Ends(NamedTuple):
    """The additions at the front of a list and at its back, each in the order of the inserts."""

    front: tuple[Addition, ...] = ()
    back: tuple[Addition, ...] = ()

    def at(self, at_front: bool) -> tuple[Addition, ...]:
        return self.front if at_front else self.back

    def all(self) -> tuple[Addition, ...]:
        return self.front + self.back


class Read(NamedTuple):
    """A SequenceAt at the same position in each iteration, negative from the back.

    `is_computed` if the model computes the position, counted from the front: if the list is shorter than
    that, it is negative then, and not an error.
    """

    node: Node
    value: str
    position: int
    is_computed: bool = False


class Trace:
    """The lists that an iteration makes of state k of a loop.

    Attributes
    ----------
    state, result : str
        The list before the iteration and after it.
    ends : dict of str to Ends
        The lists, and what they have beside the elements of the state.
    lengths : list of (Node, str)
        The SequenceLength nodes, and the list of each.
    reads : list of Read

    Raises
    ------
    Declined
        If an iteration does something else.
    """

    def __init__(self, prepared: Prepared, loop: Node, k: int, start_count: int | None) -> None:
        parts = parts_of(loop)
        self._prepared, self._loop, self._start_count = prepared, loop, start_count
        self.state, self.result = parts.states[k], parts.next_states[k]
        self.ends = {self.state: Ends()}
        self.lengths: list[tuple[Node, str]] = []
        self.reads: list[Read] = []
        self._branch_outputs: set[tuple[int, int]] = set()
        self._at_iteration: list[Node] = []
        if max(map(len, self._follow(self.result))) > MOST_ADDITIONS:
            raise Declined(f"inserts into it more than {MOST_ADDITIONS} times in an iteration")
        # TensorFlow's TensorArrays are written at the iteration's number.
        for node in self._at_iteration:
            if self._from_end(node.inputs[2], node.inputs[0]) != 0:
                raise Declined("inserts into it elsewhere than at an end")
        self._find_readers()

    def _follow(self, value: str, depth: int = 0) -> Ends:
        """Return the ends of a list, and note those of all lists between it and the state."""
        if value in self.ends:
            return self.ends[value]
        if depth > 2 * MOST_ADDITIONS:
            raise Declined(f"inserts into it more than {MOST_ADDITIONS} times in an iteration")
        node = self._prepared.producer(value)
        if node is not None and node.is_op("Identity"):
            ends = self._follow(node.inputs[0], depth + 1)
        elif node is not None and node.is_op("SequenceInsert"):
            at_front = end_of(self._prepared, node)
            if at_front is None:
                if parts_of(self._loop).iteration not in (terms_of(self._prepared, node.inputs[2]) or {}):
                    raise Declined("inserts into it elsewhere than at an end")
                self._at_iteration.append(node)
            front, back = self._follow(node.inputs[0], depth + 1)
            new = (node.inputs[1],)
            ends = Ends(front + new, back) if at_front else Ends(front, back + new)
        elif node is not None and node.is_op("If"):
            ends = self._merge(node, node.outputs.index(value), depth)
        else:
            raise Declined(self._other_than_insert())
        self.ends[value] = ends
        return ends

    def _merge(self, node: Node, k: int, depth: int) -> Ends:
        both = []
        for key in BRANCHES:
            branch = node.graphs[key]
            both.append(self._follow(branch.outputs[k], depth + 1))
            self._branch_outputs.add((id(branch), k))
        merged = []
        for pair in zip(*both, strict=True):
            each = zip_longest(*pair)
            merged.append(tuple(one if one == two else Merged(node, k, (one, two)) for one, two in each))
        return Ends(*merged)

    def _other_than_insert(self) -> str:
        """Return what a loop does to a state, in a word."""
        reached, todo, words = {self.state}, [self.state], set()
        while todo:
            for node, _ in self._prepared.readers[todo.pop()]:
                if node is not None:
                    words.add(node.op_type)
                    new = {name for name in node.outputs if self._prepared.is_sequence(name)} - reached
                    reached |= new
                    todo += new
        if "SequenceErase" in words:
            return "erases from it"
        return "hands it on to a loop inside it" if "Loop" in words else "makes it anew"

    def _find_readers(self) -> None:
        returned = []
        for value in self.ends:
            for reader, graph in self._prepared.readers[value]:
                if reader is None:
                    if graph is self._loop.body:
                        returned.append(value)
                    elif (id(graph), graph.outputs.index(value)) not in self._branch_outputs:
                        raise Declined("gives it to a graph inside")
                elif reader.is_op("SequenceLength"):
                    self.lengths.append((reader, value))
                elif reader.is_op("SequenceInsert", "Identity") and reader.outputs[0] in self.ends:
                    continue
                elif (read := self._read(reader, value)) is not None:
                    self.reads.append(read)
                else:
                    raise Declined(f"reads it on the way, at '{reader.name}'")
        if returned != [self.result]:
            raise Declined("returns it twice")

    def _read(self, node: Node, value: str) -> Read | None:
        if not node.is_op("SequenceAt"):
            return None
        position = position_of(self._prepared, node.inputs[1])
        if position.value is not None:
            return Read(node, value, position.value)
        computed = self._from_end(node.inputs[1], value)
        return None if computed is None or computed >= 0 else Read(node, value, computed, is_computed=True)

    def _from_end(self, position: str, value: str) -> int | None:
        """Return where a position lies behind the end of a list, if that is the same in all iterations."""
        terms = terms_of(self._prepared, position)
        if terms is None:
            return None
        offset = terms.pop("", 0)
        if terms == {value: 1}:
            return offset
        # As a number of elements, and how many more in each later iteration.
        slope = terms.pop(parts_of(self._loop).iteration, 0)
        for name, factor in [*terms.items(), (value, -1)]:
            length = self._length(name)
            if length is None:
                return None
            offset += factor * length[0]
            slope += factor * length[1]
        return None if slope else offset

    def _length(self, value: str) -> tuple[int, int] | None:
        """Return the length of a list in the first iteration, and by how much it grows in each."""
        if value not in self.ends or self._start_count is None:
            return None
        before, each = self.ends[value].all(), self.ends[self.result].all()
        if not all(map(is_always_filled, (*before, *each))):
            return None
        return self._start_count + len(before), len(each)


def terms_of(prepared: Prepared, name: str, depth: int = 8) -> dict[str, int] | None:
    """Return an integer as a sum: a factor for each term, "" for 1; None if it is something else.

    A list stands for its length.
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
    """Return whether an insert is at the front, False at the back; None where it may be elsewhere."""
    position = insert.input(2)
    if not position or terms_of(prepared, position) == {insert.inputs[0]: 1}:
        return False
    return True if position_of(prepared, position).value == 0 else None


def elements_of(addition: Addition | None) -> Iterator[str]:
    """Yield the names of the elements that may be in an addition."""
    if isinstance(addition, Merged):
        for one in addition.additions:
            yield from elements_of(one)
    elif addition is not None:
        yield addition


def is_always_filled(addition: Addition | None) -> bool:
    """Return whether each iteration has an element for an addition."""
    if isinstance(addition, Merged):
        return all(map(is_always_filled, addition.additions))
    return addition is not None
