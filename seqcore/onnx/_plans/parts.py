"""Tensor parts: nodes cut out of a model, which run in a session of onnxruntime."""

import math
import threading

import onnxruntime
from onnx import ModelProto, helper, parser

from seqcore.core.sequence import TensorSequence
from seqcore.onnx._models.graphs import all_graphs, dtype_of, free_names, reads_of, subgraphs, tensor_type
from seqcore.onnx._models.reading import restamp
from seqcore.onnx._models.runners import make_runner, one_line
from seqcore.onnx._models.sinking import sink_constants

# Numbers in the weights of a part.
_HEAVY = 1 << 18


class Runtime:
    """How sessions of onnxruntime are made: with what the user gave, or with what suits a part.

    Parameters
    ----------
    sess_options : onnxruntime.SessionOptions or None
    providers, provider_options : sequence or None
        As onnxruntime's InferenceSession takes them.
    """

    def __init__(self, sess_options=None, providers=None, provider_options=None):
        self.sess_options = sess_options
        self.providers = providers
        self.provider_options = provider_options

    def whole_session(self, model):
        """Return a session on the path or bytes of a whole model, just as the user asked for it."""
        return self._session(model, self.sess_options)

    def probe(self):
        """Return a session on next to nothing, to ask for what all sessions have in common."""
        text = '<ir_version: 8, opset_import: ["": 13]> probe (float x) => (float y) { y = Identity(x) }'
        return self.session(parser.parse_model(text).SerializeToString())

    def session(self, model):
        """Return a session on a model that has much to compute at once."""
        return self._session(model, self.sess_options or _quiet())

    def part_session(self, model):
        """Return a session on one of what may be many parts of a model."""
        return self._session(model, self.sess_options or _for_parts())

    def busy_session(self, model):
        """Return a session on a model that runs again and again, in turn with others."""
        return self._session(model, self.sess_options or _for_loops())

    def _session(self, model, options):
        return onnxruntime.InferenceSession(
            model, options, providers=self.providers, provider_options=self.provider_options
        )


def _quiet():
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # what goes wrong becomes an exception
    return options


def _for_parts():
    options = _quiet()
    # Threads that wait busily would be in the way of another session's.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return options


def _for_loops():
    options = _for_parts()
    # The results of a loop live long in sequences: an arena would round each up to 256 bytes.
    options.enable_cpu_mem_arena = False
    options.enable_mem_pattern = False
    return options


def cut_out(nodes, inputs, outputs, facts, name):
    """Return a model of some nodes.

    Parameters
    ----------
    nodes : list of NodeProto
    inputs : dict of str to TypeProto
        What the nodes take from outside, with their types.
    outputs : list of str
        What is wanted of what they make.
    facts : Facts
        About the model that they stand in: its constants come along.
    name : str
        A name for the graph.
    """
    model = ModelProto(ir_version=facts.model.ir_version)
    model.opset_import.extend(facts.model.opset_import)
    graph = model.graph
    graph.name = name
    graph.node.extend(nodes)
    for one, kind in inputs.items():
        graph.input.add(name=one).type.CopyFrom(kind)
    for one in outputs:
        graph.output.add(name=one)
    free = [one for one in free_names(graph) if one not in inputs]
    graph.initializer.extend(facts.initializers[one] for one in free if one in facts.initializers)
    sparse = {one.values.name: one for one in facts.model.graph.sparse_initializer}
    graph.sparse_initializer.extend(sparse[one] for one in free if one in sparse)
    sink_constants(graph)
    restamp(model)
    return model


def is_heavy(model):
    """Return whether a model holds so many weights that what it computes takes longer than any overhead."""
    return sum(math.prod(one.dims) for one in model.graph.initializer) >= _HEAVY


def taken_from_outside(nodes):
    """Return the names of the values that nodes, or graphs inside them, read and don't make."""
    made = {name for node in nodes for name in node.output}
    return set().union(*map(reads_of, nodes)) - made


def wanted_outside(nodes, facts):
    """Return the values that nodes make and others read, in the order in which they are made."""
    inside = {id(node) for node in nodes}
    for node in nodes:
        for graph in subgraphs(node):
            inside.update(id(child) for inner in all_graphs(graph) for child in inner.node)
    return [
        name
        for node in nodes
        for name in node.output
        if any(reader is None or id(reader) not in inside for reader, _ in facts.readers[name])
    ]


class TensorPart:
    """Some nodes as one step: it takes tensors from their places in a frame and puts tensors there.

    It is compiled when it is made. Only where onnx infers no type for what it takes, that waits for the
    first run: types never change in a model, so they are those of all runs.

    Raises
    ------
    ValueError
        If the nodes can't be run.
    """

    def __init__(self, nodes, facts, place, runtime, in_loop):
        self._nodes = nodes
        self._facts = facts
        self._runtime = runtime
        self._in_loop = in_loop
        self.outputs = wanted_outside(nodes, facts)
        inputs = sorted(taken_from_outside(nodes) - facts.constants)
        self._from = [(name, place(name)) for name in inputs]
        self._to = [place(name) for name in self.outputs]
        self._compiling = threading.Lock()
        self._run = None
        if all(facts.element_number(name) for name in inputs):
            self._compile(None)

    def __call__(self, frame):
        if self._run is None:
            self._compile(frame)
        results = self._run({name: frame[i] for name, i in self._from}, frame[0])
        for i, tensor in zip(self._to, results, strict=True):
            frame[i] = tensor

    def _compile(self, frame):
        with self._compiling:
            if self._run is not None:
                return
            inputs = {}
            for name, i in self._from:
                number = self._facts.element_number(name) or tensor_type(frame[i].dtype)
                inputs[name] = helper.make_tensor_type_proto(number, None)
            model = cut_out(self._nodes, inputs, self.outputs, self._facts, "part")
            if self._in_loop:
                make = self._runtime.busy_session
            else:
                make = self._runtime.session if is_heavy(model) else self._runtime.part_session
            first, last = self._nodes[0].name, self._nodes[-1].name
            label = f"the node '{first}'" if first == last else f"the part from '{first}' to '{last}'"
            self._run = make_runner(model, label, make).run


class ForeignNode:
    """A node that takes or gives sequences and is none of ONNX's sequence operators, run in onnxruntime.

    For example `ZipMap`, whose sequence of maps is passed on as onnxruntime gives it.
    """

    def __init__(self, node, facts, place, runtime):
        inputs = {name: facts.types[name] for name in dict.fromkeys(node.input) if name in facts.types}
        inputs = {name: kind for name, kind in inputs.items() if name not in facts.constants}
        self._names = [name for name in node.output if name]
        model = cut_out([node], inputs, self._names, facts, "node")
        try:
            session = runtime.part_session(model.SerializeToString())
        except Exception as error:
            raise ValueError(f"{node.op_type} '{node.name}' can't be run: {one_line(error)}") from error
        self._session = session
        self._from = [(name, place(name)) for name in inputs]
        self._to = [(place(name), _sequence_dtype(name, facts)) for name in self._names]

    def __call__(self, frame):
        feed = {name: frame[i] for name, i in self._from}
        for name, value in feed.items():
            if isinstance(value, TensorSequence):
                feed[name] = list(value)
        results = self._session.run(self._names, feed, frame[0])
        for (i, dtype), value in zip(self._to, results, strict=True):
            # Before 1.28, onnxruntime's results may lie in the feed's memory.
            frame[i] = value if dtype is None else TensorSequence(value, dtype=dtype, copy=True)


def _sequence_dtype(name, facts):
    kind = facts.types.get(name)
    if kind is None or kind.WhichOneof("value") != "sequence_type":
        return None
    element = kind.sequence_type.elem_type
    return dtype_of(element.tensor_type.elem_type) if element.HasField("tensor_type") else None
