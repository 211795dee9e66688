"""Packing: the sequences that no other form has taken go on as tensors, in loops and branches too.

s = []                                   v, e = no numbers, no extents
t = Loop (n, true, s) <                  w, f = Loop (n, true, v, e) <
    q = SequenceInsert (p, x)       ──▶      b, c = Concat (a, x), Concat (d, Shape (x))
    (going, q)>                              (going, b, c)>

Sequences that are the same in other iterations, branches or edits have one form. So they go together, or
stay.
"""

from __future__ import annotations

from collections import defaultdict
from functools import reduce

from seqcore.onnx._lists.packed import Packed, pack_as
from seqcore.onnx._model.graph import Graph, Model, Node
from seqcore.onnx._model.prepared import Prepared
from seqcore.onnx._model.record import Declined, record_of
from seqcore.onnx._model.types import join
from seqcore.onnx._rewrite.effects import is_only_counted
from seqcore.onnx._rewrite.emit import Builder
from seqcore.onnx._rewrite.prune import prune, read_names


def pack_lists(model: Model, prepared: Prepared, builder: Builder) -> tuple[dict[str, str], dict[str, str]]:
    """Put packed lists in the places of the sequences that can be packed.

    Parameters
    ----------
    model : Model
    prepared : Prepared
        What is known of this model, as it is.
    builder : Builder
        Of this model.

    Returns
    -------
    (dict of str to str, dict of str to str)
        What became of those that are gone, and why others stay.
    """
    forms: dict[str, Packed] = {}
    stays: dict[str, str] = {}
    read = read_names(model)
    continued = _continued(prepared)
    for names in _families(prepared, continued):
        try:
            found = _forms_of(names, prepared, builder)
            if why := _why_not(names, found, prepared, read, continued):
                raise Declined(why)
        except Declined as reason:
            stays |= dict.fromkeys(names, str(reason))
        else:
            forms |= found
    if not forms:
        return {}, stays
    for name, form in forms.items():
        form.is_only_counted = is_only_counted(name, prepared, read)
        maker, place = prepared.producers.get(name, (None, None))
        # In a loop that leaves the list as it is, places are the same in all iterations.
        if maker is not None and any(
            node is not None and node.is_op("SequenceAt") and graph is not place
            for node, graph in prepared.readers[name]
        ):
            form.find_bounds(builder.after(maker))
    for graph in list(model.graph.all_graphs()):
        _take_in(graph, forms)
        for node in graph.nodes:
            if forms.keys().isdisjoint((*node.inputs, *node.outputs)):
                continue
            if node.graphs:
                node.inputs, node.outputs = _parts(node.inputs, forms), _parts(node.outputs, forms)
            else:
                is_read = any(name in read for name in node.outputs)
                record_of(node).pack(node, forms, builder.instead(node), prepared, is_read)
    builder.apply()
    prune(model)
    return {name: form.became for name, form in forms.items()}, stays


def _families(prepared: Prepared, continued: dict[str, list[str]]) -> list[list[str]]:
    """Return the sequences in groups, of which each has to go on in one form."""
    family: dict[str, list[str]] = {}
    for graph in prepared.model.graph.all_graphs():
        for name in (*graph.inputs, *(name for node in graph.nodes for name in node.outputs)):
            if prepared.is_sequence(name):
                family[name] = [name]
    for one, others in continued.items():
        for other in others:
            first, second = family.get(one), family.get(other)
            if first is None or second is None or first is second:
                continue
            if len(first) < len(second):
                first, second = second, first
            first += second
            family |= dict.fromkeys(second, first)
    return list({id(names): names for names in family.values()}.values())


def _continued(prepared: Prepared) -> dict[str, list[str]]:
    """Return for each name the others that are the same, passed on or edited."""
    continued: dict[str, list[str]] = defaultdict(list)
    for node in prepared.model.graph.all_nodes():
        for one, other in record_of(node).continues(node):
            continued[one].append(other)
            continued[other].append(one)
    return continued


def _forms_of(names: list[str], prepared: Prepared, builder: Builder) -> dict[str, Packed]:
    """Return the forms of a family. Raise `Declined` where it has none."""
    type_ = reduce(join, (prepared.type(name) for name in names))
    if not type_.number:
        raise Declined("the type of its elements is not known")
    if type_.shape is None:
        raise Declined("the rank of its elements is not known")
    return {name: pack_as(name, type_.number, type_.shape, builder) for name in names}


def _why_not(
    names: list[str],
    forms: dict[str, Packed],
    prepared: Prepared,
    read: set[str],
    continued: dict[str, list[str]],
) -> str:
    """Return why a family stays, "" if all who have to do with it can do with its forms."""
    model = prepared.model
    for name in names:
        if name in model.graph.inputs:
            return "it is an input of the model"
        for other in continued.get(name, ()):
            if not prepared.is_sequence(other):
                return f"'{other}' is the same, of which no type is known"
        nodes: list[Node | None] = [node for node, _ in prepared.readers[name]]
        if (maker := prepared.producer(name)) is not None:
            nodes.append(maker)
        for node in nodes:
            if node is None:
                if name in model.graph.outputs:
                    return "the model returns it"
            elif why := record_of(node).why_not_packed(node, forms, prepared, read):
                return why
    return ""


def _take_in(graph: Graph, forms: dict[str, Packed]) -> None:
    """Give a graph tensors where it takes and returns sequences."""
    for name in (name for name in dict.fromkeys((*graph.inputs, *graph.outputs)) if name in forms):
        graph.declared.pop(name, None)
        forms[name].declare(graph.declared)
    graph.inputs, graph.outputs = _parts(graph.inputs, forms), _parts(graph.outputs, forms)


def _parts(names: list[str], forms: dict[str, Packed]) -> list[str]:
    return [part for name in names for part in (forms[name].parts if name in forms else [name])]
