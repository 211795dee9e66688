"""Lists by tensors: each gets a representation, if all that makes, carries or reads it can do with that.

s = SequenceConstruct (a, b)             s is a, b
l = Loop (n, true, s) <                  l/0, l/1 = Loop (n, true, a, b) <
    t = SequenceErase (p, 0)       ──▶
    q = SequenceInsert (t, x)
    (going, q)>                              (going, p/1, x)>

The representations of one call are either views, which are of single lists (`Pieces`, `Elements`), or packed:
lists that are the same in other iterations, branches or edits have one (`Rows`, `Joined`, `Numbers`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import reduce
from itertools import chain
from typing import Any

from seqcore.onnx._lists.boundary import FROM_EXTENTS, TO_TENSORS
from seqcore.onnx._lists.elements import carried_lists
from seqcore.onnx._lists.packed import Packed, are_rows, pack_as
from seqcore.onnx._model.graph import Graph, Model, Node
from seqcore.onnx._model.loop_parts import parts_of
from seqcore.onnx._model.prepared import Prepared
from seqcore.onnx._model.record import Declined, axis_from_front, record_of
from seqcore.onnx._model.types import join
from seqcore.onnx._rewrite.emit import Builder, Nodes
from seqcore.onnx._rewrite.prune import prune, read_names

# Which lists are replaced: those for which a view is enough; those outside of loops, with elements of one
# shape, where an edit that copies them all takes no longer; or all.
VIEWS, OUTSIDE, ALL = "views", "outside", "all"


def replace_lists(
    model: Model, prepared: Prepared, builder: Builder, which: str
) -> tuple[dict[str, str], dict[str, str]]:
    """Put tensors in the places of the lists that can do with that.

    Parameters
    ----------
    model : Model
        Changed in place.
    prepared : Prepared
        The types of this model.
    builder : Builder
        Of this model.
    which : str
        `VIEWS`, `OUTSIDE` or `ALL`.

    Returns
    -------
    (dict of str to str, dict of str to str)
        What became of those that are gone, and why others stay.
    """
    chosen = _Views(prepared, builder) if which == VIEWS else _PackedLists(prepared, builder, which)
    if chosen.forms:
        chosen.decline(read := read_names(model))
    if chosen.forms:
        _write(model, prepared, builder, chosen, read)
        builder.apply()
        prune(model)
    return {name: form.phrase for name, form in chosen.forms.items()}, chosen.reasons


class _Chosen:
    """Representations of lists.

    Attributes
    ----------
    forms : dict of str to Representation
    groups : dict of str to list of str
        The lists that stay if one does.
    reasons : dict of str to str
        Why others stay.
    restored : dict of str to Representation
        The lists that are made again of representations, for who reads them as lists.
    """

    def __init__(self, prepared: Prepared) -> None:
        self._prepared = prepared
        self.forms: dict[str, Any] = {}
        self.groups: dict[str, list[str]] = {}
        self.reasons: dict[str, str] = {}
        self.restored: dict[str, Any] = {}
        self._linked: dict[str, list[tuple[str, Node]]] = defaultdict(list)

    def decline(self, read: set[str]) -> None:
        """Have those lists stay that can't go, until all others can. Edits come after what they edit."""
        for node in self._prepared.model.graph.all_nodes():
            for one, other in record_of(node).continues(node) if node.graphs else ():
                self._linked[one].append((other, node))
                self._linked[other].append((one, node))
        while self.forms:
            before = len(self.forms) + len(self.restored)
            for name in [*self.restored.keys() - self.forms.keys()]:
                # A branch that never runs counts too: it returns as many values.
                if any(other not in self.forms for other, _ in self._linked[name]):
                    del self.restored[name]
            for name in reversed([*self.forms]):
                if name in self.forms and (why := self._why_not(name, read)):
                    for one in self.groups.get(name, [name]):
                        self.reasons[one] = why
                        del self.forms[one]
            if len(self.forms) + len(self.restored) == before:
                return

    def _why_not(self, name: str, read: set[str]) -> str:
        """Return why a list stays, "" if all that have to do with it can do without."""
        prepared = self._prepared
        if name in prepared.model.graph.inputs:
            return "it is an input of the model"
        for other, owner in self._linked.get(name, ()):
            if other not in self.forms and not (other in self.restored and other in owner.outputs):
                return f"'{owner.name}' {record_of(owner).verb}"
            # Where a condition is known, the branch that never runs may return another number of elements.
            if self.forms[name].count != (self.forms.get(other) or self.restored[other]).count:
                return f"a graph of '{owner.name}' has another number of elements"
        concerned = [*prepared.readers[name], prepared.producers.get(name, (None, None))]
        for node, graph in concerned:
            if node is not None:
                if why := record_of(node).why_not_lowered(node, self.forms, prepared, read):
                    return why
            elif graph is prepared.model.graph and name not in self.restored:
                return "the model returns it"
            elif graph not in (None, prepared.model.graph) and name not in self._linked:
                return "a graph inside returns it"
        return ""


class _Views(_Chosen):
    """Views of single lists: pieces of a tensor, and elements with names, also where loops carry these."""

    def __init__(self, prepared: Prepared, builder: Builder) -> None:
        super().__init__(prepared)
        for node in prepared.model.graph.all_nodes():
            if node.is_op("Loop", "If"):
                # Outside of other loops, who reads it as a list gets it made once, of its elements.
                is_outside = node in prepared.model.graph.nodes
                for name, carried in carried_lists(node, prepared, builder).items():
                    restores = is_outside and name in node.outputs
                    (self.restored if restores else self.forms)[name] = carried
        for name, (node, _) in prepared.producers.items():
            if not (name in self.forms or name in self.restored) and prepared.is_sequence(name):
                try:
                    form = record_of(node).represent(node, self.forms, prepared)
                except Declined as why:
                    self.reasons[name] = str(why)
                else:
                    if form is not None:
                        self.forms[name] = form


class _PackedLists(_Chosen):
    """Packed lists: one representation for those that are the same, passed on or edited."""

    def __init__(self, prepared: Prepared, builder: Builder, which: str) -> None:
        super().__init__(prepared)
        self._may_be_beside_lists = which == OUTSIDE or builder.is_for_openvino
        graph = prepared.model.graph
        repeated = _repeated(graph) if which == OUTSIDE else set()
        for names in _families(prepared):
            type_ = reduce(join, (prepared.type(name) for name in names))
            if which == OUTSIDE and not (are_rows(type_.shape) and repeated.isdisjoint(names)):
                continue
            if not type_.number or type_.shape is None:
                what = "rank" if type_.number else "type"
                self.reasons |= dict.fromkeys(names, f"the {what} of its elements is not known")
                continue
            self.groups |= dict.fromkeys(names, names)
            pays = which == OUTSIDE and any(_is_edited(prepared.producer(name)) for name in names)
            axes = _axes_of(names, prepared)
            for name in names:
                self.forms[name] = pack_as(name, type_.number, type_.shape, prepared, builder, axes)
                if pays and name in graph.outputs:
                    self.restored[name] = self.forms[name]

    def decline(self, read: set[str]) -> None:
        super().decline(read)
        if self._may_be_beside_lists:
            return
        # A loop that carries one list needs a runtime with lists, and is slower if the others are tensors.
        for loop in self._prepared.model.graph.all_nodes():
            final = parts_of(loop).final if loop.is_op("Loop") else ()
            lists = [name for name in final if self._prepared.is_sequence(name) and name not in self.forms]
            if not lists:
                continue
            for name in self.forms.keys() & {*loop.inputs, *loop.outputs, *_made_in(loop.body)}:
                for one in self.groups[name]:
                    self.reasons[one] = f"'{loop.name}' carries '{lists[0]}' as a list"
                    self.forms.pop(one, None)
        super().decline(read)


def _made_in(body: Graph) -> Iterator[str]:
    """Yield the names in a graph, in all depths."""
    for graph in body.all_graphs():
        yield from graph.inputs
        yield from (name for node in graph.nodes for name in node.outputs)


def _families(prepared: Prepared) -> list[list[str]]:
    """Return the sequences in groups that need one representation each."""
    family = {name: [name] for name in prepared.types if prepared.is_sequence(name)}
    for one, others in prepared.origins.items():
        for other in others:
            first, second = family.get(one), family.get(other)
            if first is None or second is None or first is second:
                continue
            if len(first) < len(second):
                first, second = second, first
            first += second
            family |= dict.fromkeys(second, first)
    return list({id(names): names for names in family.values()}.values())


def _axes_of(names: list[str], prepared: Prepared) -> set[int | None]:
    """Return along which axes a family is joined, made of tensors, or goes out as such.

    None stands for another axis than those of the elements, or for all of them.
    """
    axes = set[int | None]()
    for name in names:
        maker, rank = prepared.producer(name), prepared.type(name).rank
        if maker is not None and maker.is_op("SplitToSequence"):
            # Rows are of one length, and may stand one behind the other too.
            keeps = maker.attribute("keepdims", 1)
            axes.add(axis_from_front(maker.attribute("axis", 0), rank) if keeps else 0)
        elif maker is not None and maker.op_type == FROM_EXTENTS:
            axes.add(None)
        for node, graph in prepared.readers[name]:
            if node is None and graph is prepared.model.graph:
                axes.add(None)
            elif node is not None and node.op_type == TO_TENSORS:
                are_joined = len(node.outputs) == 2 and min(node.attribute("shape")[1:], default=0) >= 0
                axes.add(0 if are_joined else None)
            elif node is not None and node.is_op("ConcatFromSequence"):
                is_stack = bool(node.attribute("new_axis", 0))
                axes.add(None if is_stack else axis_from_front(node.attribute("axis", 0), rank))
    return axes


def _repeated(graph: Graph) -> set[str]:
    """Return the names in graphs that may run several times."""
    return {
        name
        for node in graph.all_nodes()
        if record_of(node).may_repeat(node)
        for body in node.graphs.values()
        for name in _made_in(body)
    }


def _is_edited(maker: Node | None) -> bool:
    return maker is not None and maker.is_op("SequenceInsert", "SequenceErase", "If")


def _write(model: Model, prepared: Prepared, builder: Builder, chosen: _Chosen, read: set[str]) -> None:
    """Put the representations in the places of their lists."""
    forms = chosen.forms
    restored = {
        name: form
        for name, form in chosen.restored.items()
        if name in forms or (name in prepared.origins and forms.keys() >= {*prepared.origins[name]})
    }
    fronts: dict[str, list[Node]] = defaultdict(list)
    for name, form in forms.items():
        form.plan(name, prepared, read)
        maker = prepared.producer(name)
        form.prepare(Nodes(builder, name, fronts[name]) if maker is None else builder.after(maker))
    for name, form in restored.items():
        form.restore(builder.after(prepared.producers[name][0]), name)
    given = restored | forms
    for graph in list(model.graph.all_graphs()):
        for node in graph.nodes:
            if node.graphs:
                before = builder.before(node)
                inputs = [forms[name].carried(before) if name in forms else [name] for name in node.inputs]
                outputs = [given[name].parts if name in given else [name] for name in node.outputs]
                node.inputs, node.outputs = list(chain(*inputs)), list(chain(*outputs))
                continue
            if forms.keys().isdisjoint((*node.inputs, *node.outputs)):
                continue
            is_read = any(name in read for name in node.outputs)
            nodes = builder.instead(node, declares=is_read or not record_of(node).only_reads)
            made = forms.get(node.outputs[0])
            if made is None or isinstance(made, Packed):  # nothing has to be made for a view
                record_of(node).lower(node, forms, nodes, prepared, is_read)
        if graph is not model.graph:
            _write_ends(graph, forms, fronts, prepared, builder)


def _write_ends(
    graph: Graph, forms: dict[str, Any], fronts: dict[str, list[Node]], prepared: Prepared, builder: Builder
) -> None:
    """Give a graph tensors where it takes and returns lists."""
    end = Nodes(builder, graph.name or "graph", graph.nodes)
    ends: list[list[str]] = [[], []]
    for names, found in zip((graph.inputs, graph.outputs), ends, strict=True):
        for name in names:
            if name not in forms:
                found.append(name)
                continue
            is_input = found is ends[0]
            tensors = forms[name].parts if is_input else _own(forms[name], graph, ends[1], end)
            types = forms[name].carried_types(prepared.type(name), len(tensors))
            graph.declared.pop(name, None)
            graph.declared |= zip(tensors, types, strict=True)
            found += tensors
    front = [node for name in graph.inputs for node in fronts.get(name, ())]
    graph.inputs, graph.outputs = ends
    graph.nodes = [*front, *graph.nodes]


def _own(form: Any, graph: Graph, others: list[str], end: Nodes) -> list[str]:
    """Return the tensors that a graph returns for a list: nodes of its own make them, each for that alone."""
    tensors = form.carried(end)
    if isinstance(form, Packed):
        return tensors
    made = {name for node in graph.nodes for name in node.outputs} - {*others, *graph.outputs}
    found: list[str] = []
    for name in tensors:
        found.append(name if name in made and name not in found else end.op("Identity", name))
    return found
