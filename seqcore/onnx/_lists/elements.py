"""Lists whose elements have names: constructed, edited at constant positions, or carried by loops."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from seqcore.onnx._lists.representations import Representation
from seqcore.onnx._model.graph import Node
from seqcore.onnx._model.positions import position_of
from seqcore.onnx._model.prepared import Prepared
from seqcore.onnx._model.record import Declined
from seqcore.onnx._model.types import SEQUENCE, Length, Shape
from seqcore.onnx._rewrite.emit import Builder
from seqcore.onnx._thresholds import MOST_CARRIED


class Elements(Representation):
    """Tensors by their names.

    Parameters
    ----------
    prepared : Prepared
    name : str
        Of the list.
    parts : list of str, optional
        The names of the elements.
    source : Elements, optional
        Without `parts`: the list that it is, edited.
    edit : (int, int, list of str), optional
        The range of positions in that, and the elements that come there instead.
    is_carried : bool, optional
        If True, the elements are values of a loop or a branch that carries them: they are not made yet.
    """

    phrase = "becomes its elements"

    def __init__(
        self,
        prepared: Prepared,
        name: str,
        parts: Sequence[str] = (),
        source: Elements | None = None,
        edit: tuple[int, int, list[str]] = (0, 0, []),
        is_carried: bool = False,
    ) -> None:
        self._prepared, self._name, self._source, self._edit = prepared, name, source, edit
        self.element_type = prepared.element_number(name)
        if source is None:
            self.parts, self.count, self.is_static = list(parts), len(parts), not is_carried
            # The type of a carried list is all that is known of each element.
            self._own: dict[str, Shape] = dict.fromkeys(parts, prepared.shape(name)) if is_carried else {}
        else:
            start, stop, new = edit
            self.count = (source.count or 0) + start - stop + len(new)
            self._own, self.is_static = source._own, source.is_static

    @functools.cached_property
    def parts(self) -> list[str]:
        """The names of the elements, worked out when they are asked for: edits cost no copies before."""
        edits, form = [], self
        while "parts" not in form.__dict__ and form._source is not None:
            edits.append(form._edit)
            form = form._source
        names = list(form.parts)
        for start, stop, new in reversed(edits):
            names[start:stop] = new
        return names

    @functools.cached_property
    def _shapes(self) -> list[Shape]:
        return [self._own[one] if one in self._own else self._prepared.shape(one) for one in self.parts]

    def carried(self, nodes):
        return self.parts

    def restore(self, nodes, out):
        nodes.op("SequenceConstruct", *self.parts, out=out)

    def why_not_at(self, position):
        return "where is known only at run time" if position.value is None else ""

    def why_not_join(self, axis, stacks, prepared):
        ranks = {None if shape is None else len(shape) for shape in self._shapes}
        if len(ranks) > 1 or None in ranks:
            # Where one is empty and of another rank, onnxruntime's Concat may end the process.
            return "their ranks aren't known" if None in ranks else "their ranks differ"
        rank = ranks.pop() + stacks
        if not -rank <= axis < rank:
            return f"axis {axis} is out of range"
        for k in self._kept_axes(axis, stacks):
            if len({n for n in self._lengths(k) if isinstance(n, int)}) > 1:
                return f"their lengths on axis {k} differ"
        return ""

    def _lengths(self, k: int) -> list[Length]:
        return [None if shape is None else shape[k] for shape in self._shapes]

    def _kept_axes(self, axis: int, stacks: bool) -> list[int]:
        """The axes on which elements that are joined have to have one length."""
        rank = len(self._shapes[0] or ())
        return [k for k in range(rank) if stacks or k != axis % rank]

    def why_not_shape_of_join(self):
        # A runtime that infers the shape leaves out the Concat, and the error where the elements don't fit.
        if all(shape is not None and all(isinstance(n, int) for n in shape) for shape in self._shapes):
            return ""
        return "no more than the shape of that is read, and their shapes aren't known"

    def at(self, nodes, position, out):
        return nodes.op("Identity", self.parts[position.value], out=out)

    def length(self, nodes, out):
        return nodes.op("Identity", nodes.constant(self.count), out=out)

    def join(self, nodes, axis, stacks, out):
        parts = list(self.parts)
        kept = self._kept_axes(axis, stacks)
        differing = [k for k in kept if len(found := {*self._lengths(k)}) > 1 or None in found]
        if differing and len(parts) > 1:
            # onnxruntime's Concat passes by empty tensors, of whatever lengths.
            places = nodes.constant(differing)
            lengths = [nodes.op("Gather", nodes.op("Shape", name), places, axis=0) for name in parts]
            wrong = nodes.join_axes(*(nodes.op("Sub", lengths[0], other) for other in lengths[1:]))
            parts[0] = nodes.checked(parts[0], nodes.require_zero(nodes.sum_of_sizes(wrong)))
        if stacks:
            parts = [nodes.unsqueeze(name, axis) for name in parts]
        nodes.op("Concat", *parts, axis=axis, out=out)


def edited(
    source: Representation | None, node: Node, inserts: bool | None, prepared: Prepared
) -> Elements | None:
    """Return a list of named elements after an insert, an erase or neither, None for another list.

    Raises
    ------
    Declined
        If a run tells which elements it has then.
    """
    if not isinstance(source, Elements):
        return None
    edit: tuple[int, int, list[str]] = (0, 0, [])
    if inserts is not None:
        n = source.count or 0
        position = n - (not inserts)
        if given := node.input(1 + inserts):
            fixed = position_of(prepared, given).value
            if fixed is None:
                raise Declined(f"where '{node.name}' edits is known only at run time")
            position = fixed
        if not -n <= position < n + inserts:
            raise Declined(f"position {position} at '{node.name}' is out of range for {n} elements")
        at = position + n if position < 0 else position
        edit = at, at + (not inserts), node.inputs[1:2] if inserts else []
    return Elements(prepared, node.outputs[0], source=source, edit=edit)


def carried_lists(node: Node, prepared: Prepared, builder: Builder) -> dict[str, Elements]:
    """Return the lists of a few elements, always as many, that a loop or a branch carries, with new names.

    l = Loop (n, c, start) <p ⟶ t = SequenceErase (p, 0), u = SequenceInsert (t, x)>
    ──▶
    l/0, l/1 = Loop (n, c, first of start, second of start) <p/0, p/1 ⟶ p/1, x>
    """
    names = list(node.outputs)
    if node.is_op("Loop"):
        names += node.body.inputs[2:]
    found = {}
    for name in names:
        type_ = prepared.type(name)
        if type_.kind == SEQUENCE and type_.number and type_.count and type_.count <= MOST_CARRIED:
            own = [builder.fresh(f"{name}/{k}") for k in range(type_.count)]
            found[name] = Elements(prepared, name, own, is_carried=True)
    return found
