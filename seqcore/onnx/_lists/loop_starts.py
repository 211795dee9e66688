"""What a list has before a loop puts more into it: nothing, named tensors, or a tensor of them all."""

from __future__ import annotations

from collections.abc import Callable

from seqcore.onnx._lists.forms import Form, Forms, Stack
from seqcore.onnx._lists.listed import Listed
from seqcore.onnx._model.graph import Node
from seqcore.onnx._model.types import NEVER, Shape
from seqcore.onnx._rewrite.emit import Nodes

_AFTER_ALL = (1 << 63) - 1


class Start:
    """A list as a loop starts with it.

    Attributes
    ----------
    shape : tuple of (int, str or None), or None
        Of all its elements; `NEVER` where there is none.
    element_type : int
    count : int or None
        How many there are, where that is known.
    least : int
        How many there are at least.
    """

    shape: Shape = NEVER
    element_type = 0
    count: int | None = 0
    least = 0

    def is_there(self) -> bool:
        """Return whether the tensors are made, now that it is settled which lists go."""
        return True

    def length(self, nodes: Nodes) -> str:
        raise NotImplementedError

    def element(self, nodes: Nodes, at_front: bool, j: int, zeros: Callable[[], str]) -> str:
        """Return element j from an end, counted from 1; zeros where it isn't there."""
        return zeros()

    def stacked(self, nodes: Nodes) -> str:
        """Return all as a tensor, "" for none."""
        return ""


class ListedStart(Start):
    """Tensors by their names."""

    def __init__(self, form: Listed) -> None:
        self._elements = list(form.elements)
        self.element_type = form.element_type
        self.count = self.least = len(self._elements)
        if self._elements:
            self.shape = form.common_shape()

    def length(self, nodes):
        return nodes.constant(self.count)

    def element(self, nodes, at_front, j, zeros):
        if j > self.count:
            return zeros()
        return self._elements[j - 1 if at_front else -j]

    def stacked(self, nodes):
        rows = [nodes.unsqueeze(name, 0) for name in self._elements]
        return nodes.op("Concat", *rows, axis=0) if len(rows) > 1 else rows[0] if rows else ""


class StackedStart(Start):
    """A tensor whose axis 0 runs over the elements."""

    def __init__(self, form: Form, stack: Stack) -> None:
        self._form = form
        self.element_type = stack.element_type
        self.shape = None if stack.shape is None else tuple(stack.shape)
        self.count = form.count
        self.least = form.count or int(stack.is_filled)

    def is_there(self):
        return not (isinstance(self._form, Stack) and self._form.is_declined)

    def length(self, nodes):
        return self._form.length(nodes, "")

    def element(self, nodes, at_front, j, zeros):
        tensor = self.stacked(nodes)
        start, end = ([j - 1], [j]) if at_front else ([-j], [_AFTER_ALL])
        there = nodes.slice(tensor, nodes.constant(start), nodes.constant(end), 0)
        if self.least < j:
            # What isn't there is not read; but something has to be.
            spare = nodes.unsqueeze(zeros(), 0)
            parts = [there, spare] if at_front else [*[spare] * j, there]
            there = nodes.op("Concat", *parts, axis=0)
        return nodes.op("Gather", there, nodes.constant(0 if at_front else -j), axis=0)

    def stacked(self, nodes):
        return self._form.stacked(nodes)


def start_of(forms: Forms, loop: Node, name: str) -> Start | str:
    """Return what a loop starts a list with, or why it can't be had as tensors."""
    where = f"the loop '{loop.name}'"
    producer = forms.prepared.producer(name)
    if producer is not None and producer.is_op("SequenceEmpty"):
        return Start()
    form = forms.found.get(name)
    if not isinstance(form, Form):
        return f"{where} doesn't start with an empty list"
    start: Start
    if isinstance(form, Listed):
        start = ListedStart(form)
    else:
        stack = form.as_stack()
        if isinstance(stack, str):
            return f"{where} starts with '{name}', where {stack}"
        start = StackedStart(form, stack)
    if start.shape is None or None in start.shape:
        return f"{where} starts with '{name}', whose elements may be of several shapes"
    return start
