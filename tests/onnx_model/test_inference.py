"""Inference on exported models: what it says of every value is so, in the main graph and in bodies.

Values of the main graph become outputs. Those in the bodies of loops and in branches are kept in lists, one
for each value, which go through all loops and branches as further states.
"""

from functools import cache

import onnx
import pytest
from support.models.exported import MODELS
from support.models.lowering import session
from support.models.soundness import named_lengths, unsound

from seqcore.onnx._engines.interface import Interface
from seqcore.onnx._lowering.pipeline import lower_prepared
from seqcore.onnx._model.graph import Node
from seqcore.onnx._model.load import parse, place_of
from seqcore.onnx._model.prepare import prepare
from seqcore.onnx._model.prepared import Prepared
from seqcore.onnx._model.record import Operator, record_named
from seqcore.onnx._model.types import UNKNOWN, join, sequence, tensor, to_type_proto
from seqcore.onnx._model.weights import without_weights
from seqcore.onnx._model.writing import to_message


@cache
def prepared_of(name):
    path = MODELS[name].path
    return prepare(*without_weights(parse(path), place_of(path)))


def feeds_of(name):
    """Feeds of several sizes, with none, one and many elements."""
    one = MODELS[name]
    for seed in range(2):
        for n in sorted({0, 1, one.least, 2, 3, 5, 9}):
            yield one.example(n, seed)


def session_of(message, prepared):
    # What is folded or fused is another model.
    return session(prepared.weights.fill(message), "DISABLE_ALL")


def exposed(prepared):
    """The model with all values of its main graph as outputs, and with no shapes declared."""
    message = to_message(prepared.model)
    del message.graph.output[:], message.graph.value_info[:]
    for node in message.graph.node:
        for name in filter(None, node.output):
            message.graph.output.append(onnx.ValueInfoProto(name=name))
    return message


class Keeper:
    """Lets a model keep what values in its bodies and branches are: each in a list that is an output."""

    def __init__(self, prepared):
        self.prepared = prepared
        self.model = prepared.model.copy()
        graph = self.model.graph
        self.names = list(self._names_of(graph.nodes))
        begin = []
        now = {}
        for name in self.names:
            now[name] = f"{name}/kept"
            number = prepared.element_number(name)
            begin.append(Node("SequenceEmpty", [], [now[name]], now[name], dtype=number))
        self._nkept = 0
        self._keep_in(graph.nodes, now)
        graph.nodes[:0] = begin
        self.outputs = [now[name] for name in self.names]

    def message(self):
        message = to_message(self.model)
        del message.graph.output[:], message.graph.value_info[:]
        message.graph.output.extend(onnx.ValueInfoProto(name=name) for name in self.outputs)
        return message

    def _names_of(self, nodes):
        """The tensors in the graphs of nodes, in all depths."""
        for node in nodes:
            for graph in node.graphs.values() if node.is_op("Loop", "If") else ():
                made = [name for inner in graph.nodes for name in inner.outputs]
                for name in filter(None, (*graph.inputs, *made)):
                    if self.prepared.is_tensor(name) and self.prepared.element_number(name):
                        yield name
                yield from self._names_of(graph.nodes)

    def _keep_in(self, nodes, now):
        """Have nodes hand the lists on; `now` has the name of each list at this point."""
        for node in nodes:
            names = list(self._names_of([node]))
            if names and node.is_op("Loop"):
                self._keep_in_loop(node, names, now)
            elif names and node.is_op("If"):
                self._keep_in_branches(node, names, now)

    def _fresh(self, name):
        self._nkept += 1
        return f"{name}/kept{self._nkept}"

    def _keep_in_graph(self, graph, names, now):
        own = [*graph.inputs, *(name for node in graph.nodes for name in node.outputs)]
        now = dict(now)
        self._keep_in(graph.nodes, now)
        for name in names:
            before, now[name] = now[name], self._fresh(name)
            # In a branch that isn't the value's own the list stays as it is.
            op_type, inputs = ("SequenceInsert", [before, name]) if name in own else ("Identity", [before])
            graph.nodes.append(Node(op_type, inputs, [now[name]], now[name]))
        return [now[name] for name in names]

    def _keep_in_loop(self, node, names, now):
        body = node.body
        states = len(body.inputs) - 2
        node.inputs += [""] * (2 - len(node.inputs)) + [now[name] for name in names]
        inside = {name: self._fresh(name) for name in names}
        own = list(body.inputs)
        given = self._keep_in_graph(body, names, now | inside)
        for name in names:
            kind = to_type_proto(sequence(self.prepared.element_number(name)))
            body.declared[inside[name]] = kind
        body.inputs = [*own, *inside.values()]
        body.outputs[1 + states : 1 + states] = given
        after = [self._fresh(name) for name in names]
        node.outputs[states:states] = after
        now |= dict(zip(names, after, strict=True))

    def _keep_in_branches(self, node, names, now):
        for graph in node.graphs.values():
            graph.outputs += self._keep_in_graph(graph, names, now)
        after = [self._fresh(name) for name in names]
        node.outputs += after
        now |= dict(zip(names, after, strict=True))


def check_kept(keeper, session, feed):
    """How many values were looked at; none where onnxruntime fails."""
    try:
        results = session.run(keeper.outputs, feed)
    except Exception:
        return 0
    prepared = keeper.prepared
    lengths = named_lengths(to_message(prepared.model), feed)
    for name, values in zip(keeper.names, results, strict=True):
        for i, value in enumerate(values):
            why = unsound(prepared.type(name), value, lengths)
            assert not why, f"'{name}' is {why}, for the {i}th time, made by {prepared.producer(name)}"
    return sum(map(len, results))


def check_values(prepared, session, feed, names=None):
    """How many values were looked at; none where onnxruntime fails."""
    names = names or [one.name for one in session.get_outputs()]
    try:
        results = session.run(names, feed)
    except Exception:
        return 0
    lengths = named_lengths(to_message(prepared.model), feed)
    for name, value in zip(names, results, strict=True):
        why = unsound(prepared.type(name), value, lengths)
        assert not why, f"'{name}' is {why}, made by {prepared.producer(name)}"
    return len(names)


def feeds_for(name, prepared):
    """Feeds that are as the model declares them, where that is believed."""
    interface = Interface(prepared)
    return (feed for feed in feeds_of(name) if not prepared.believes_elements or interface.fits(feed))


def kinds_of(name):
    """Yield a model as it is given, as it is if its declared elements are believed, and that lowered."""
    given = prepared_of(name)
    believed = Prepared(given.model, given.weights, believes_elements=True)
    if believed.types != given.types:
        yield given
    yield believed
    lowered = lower_prepared(believed).prepared
    if lowered is not believed:
        yield lowered


@pytest.mark.mostly_slow(5)
@pytest.mark.parametrize("name", MODELS)
def test_values(name):
    for prepared in kinds_of(name):
        session = session_of(exposed(prepared), prepared)
        assert sum(check_values(prepared, session, feed) for feed in feeds_for(name, prepared))


@pytest.mark.mostly_slow(11)
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.mostly_at_night(5)
def test_values_inside(name):
    for prepared in kinds_of(name):
        keeper = Keeper(prepared)
        if keeper.names:
            session = session_of(keeper.message(), prepared)
            assert sum(check_kept(keeper, session, feed) for feed in feeds_for(name, prepared))


@pytest.mark.parametrize("known", [tensor(1, (2, None)), tensor(7, ()), sequence(1, ("N", 3), count=2)])
def test_of_a_branch_of_unknown_type_the_other_tells_all_but_the_shape(known):
    either = join(UNKNOWN, known)
    assert either == join(known, UNKNOWN)
    assert (either.kind, either.number, either.shape) == (known.kind, known.number, None)
    assert join(known, known) == known


def test_each_operator_on_sequences_has_a_record():
    """Without one, a session would run it on lists."""
    for schema in onnx.defs.get_all_schemas_with_history():
        types = [kind for value in (*schema.inputs, *schema.outputs) for kind in value.types]
        if not schema.domain and any(kind.startswith(("seq(", "optional(")) for kind in types):
            assert type(record_named(schema.name)) is not Operator, schema.name
