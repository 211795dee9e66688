"""Tensor parts: nodes cut out of a model, which run in a session of onnxruntime."""

import math
import threading

import onnxruntime
from onnx import ModelProto, TypeProto, helper

from seqcore.onnx._graphs import all_graphs, free_names, reads_of, subgraphs, tensor_type
from seqcore.onnx._model import restamp
from seqcore.onnx._runners import make_runner

# A part of a loop that holds so many weights is worth threads of its own.
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
        """Return a session on a model of nothing, to ask for what all sessions have in common."""
        model = helper.make_model(helper.make_graph([], "probe", [], []), ir_version=8)
        return self.session(model.SerializeToString())

    def session(self, model):
        """Return a session on a model that runs once in a while."""
        return self._session(model, self.sess_options or _quiet())

    def busy_session(self, model):
        """Return a session on a small model that runs in a loop: threads of its own would only idle."""
        return self._session(model, self.sess_options or _single())

    def _session(self, model, options):
        return onnxruntime.InferenceSession(
            model, options, providers=self.providers, provider_options=self.provider_options
        )


def _quiet():
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # what goes wrong becomes an exception
    return options


def _single():
    options = _quiet()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
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
    restamp(model)
    return model


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

    It is compiled at its first run, for the types that it then meets. Types in a model never change, so
    they are those of all runs.
    """

    def __init__(self, nodes, facts, place, runtime, in_loop):
        self._nodes = nodes
        self._facts = facts
        self._runtime = runtime
        self._in_loop = in_loop
        self.label = f"the part from '{nodes[0].name}' to '{nodes[-1].name}'"
        self.outputs = wanted_outside(nodes, facts)
        self.inputs = sorted(taken_from_outside(nodes) - facts.constants)
        self._from = [(name, place(name)) for name in self.inputs]
        self._to = [place(name) for name in self.outputs]
        self._run = None
        self._compiling = threading.Lock()

    def __call__(self, frame):
        run = self._run or self._compiled(frame)
        results = run({name: frame[i] for name, i in self._from}, frame[0])
        for i, tensor in zip(self._to, results, strict=True):
            frame[i] = tensor

    def _compiled(self, frame):
        with self._compiling:
            if self._run is None:
                inputs = {}
                for name, i in self._from:
                    inputs[name] = kind = TypeProto()
                    number = self._facts.element_number(name) or tensor_type(frame[i].dtype)
                    kind.tensor_type.elem_type = number
                model = cut_out(self._nodes, inputs, self.outputs, self._facts, "part")
                light = sum(math.prod(one.dims) for one in model.graph.initializer) < _HEAVY
                make = self._runtime.busy_session if self._in_loop and light else self._runtime.session
                self._run = make_runner(model, self.label, make).run
            return self._run
