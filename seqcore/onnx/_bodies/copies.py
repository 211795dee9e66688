"""A model that holds a body several times, so that one run serves several elements."""

from itertools import chain

from onnx import ModelProto

from seqcore.onnx._model.load import operators_of
from seqcore.onnx._runtimes.runners import SessionRunner
from seqcore.onnx._runtimes.sessions import REFUSALS, Refused

# onnxruntime looks each fed name up by walking the inputs: more copies cost more for that than they save.
COPIES = 16
# From some nodes on the 4 µs of a run are little; weights would be packed again for every copy.
_MOST_NODES, _MOST_NBYTES = 12, 1 << 16

_RANDOM = frozenset(
    (
        *("Bernoulli", "Dropout", "Multinomial"),
        *("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"),
    )
)
_PURE_DOMAINS = ("", "ai.onnx.ml")


def can_copy(model):
    """Return whether copies of a model's graph in one graph do what it does: quickly, and with its bits."""
    return (
        len(model.graph.node) <= _MOST_NODES
        and not any(one.HasField("g") or one.graphs for node in model.graph.node for one in node.attribute)
        # Copies with a seed would draw the same numbers; operators of other domains may do anything.
        and all(name not in _RANDOM and domain in _PURE_DOMAINS for domain, name in operators_of(model))
        and not model.functions
        and not model.graph.sparse_initializer
        and model.ByteSize() <= _MOST_NBYTES
    )


class Copies:
    """A body in `COPIES` copies, each with arguments of its own but for those that are `whole`."""

    def __init__(self, model, fed, whole):
        self._varying = [i for name, i in fed if name not in whole]
        self._whole = [(name, i) for name, i in fed if name in whole]
        self._all_vary = self._varying == list(range(len(fed)))
        copied = _copied(model, whole)
        self._names = [value.name for value in copied.graph.input][len(self._whole) :]
        self._outputs = len(model.graph.output)
        self._runner = SessionRunner(copied)

    def run(self, rows):
        """Return a list for each output, with the result for each of at most `COPIES` rows."""
        n = len(rows)
        if n < COPIES:
            # A body is pure: what it computes again for the last row is thrown away.
            rows = rows + [rows[-1]] * (COPIES - n)
        if self._all_vary:
            values = chain.from_iterable(rows)
        else:
            values = (arrays[i] for arrays in rows for i in self._varying)
        feed = dict(zip(self._names, values, strict=True))
        for name, i in self._whole:
            feed[name] = rows[0][i]
        try:
            results = self._runner.run(feed)
        except REFUSALS as refusal:
            raise Refused(str(refusal)) from refusal
        return [results[k :: self._outputs][:n] for k in range(self._outputs)]


def _copied(model, whole):
    copied = ModelProto()
    copied.CopyFrom(model)
    graph = copied.graph
    for field in ("node", "input", "output", "value_info", "quantization_annotation"):
        graph.ClearField(field)
    graph.input.extend(value for value in model.graph.input if value.name in whole)
    # Constants are one for all. Other names get the copy's number; they are short since each is looked up.
    taken = {one.name for one in graph.initializer} | whole
    own = [value.name for value in model.graph.input if value.name not in whole]
    own += [name for node in model.graph.node for name in node.output if name]
    for k in range(COPIES):
        names = {name: name for name in taken} | {"": ""}
        for i, name in enumerate(own):
            names[name] = _fresh(f"{i}.{k}", taken)
        for value in model.graph.input:
            if value.name not in whole:
                graph.input.add().CopyFrom(value)
                graph.input[-1].name = names[value.name]
                _forget_symbols(graph.input[-1])
        for node in model.graph.node:
            one = graph.node.add()
            one.CopyFrom(node)
            one.name = f"{node.name}.{k}" if node.name else ""
            one.input[:] = [names[name] for name in node.input]
            one.output[:] = [names[name] for name in node.output]
        for value in model.graph.output:
            graph.output.add().CopyFrom(value)
            graph.output[-1].name = names[value.name]
            _forget_symbols(graph.output[-1])
    return copied


def _forget_symbols(value):
    """Clear the names for lengths: another copy's row may be of other lengths, which onnxruntime refuses."""
    for dim in value.type.tensor_type.shape.dim:
        dim.ClearField("dim_param")


def _fresh(name, taken):
    while name in taken:
        name += "."
    return name
