"""Building the nodes that stand in for sequence operators, in the form that a model's opset has."""

from collections import defaultdict

import numpy as np
from onnx import TensorProto, helper

from seqcore.onnx._models.graphs import all_graphs, to_tensor_proto
from seqcore.onnx._models.normal import fresh_name, replace_all

# An end that lies behind the last element.
_AFTER_ALL = (1 << 63) - 1


class Builder:
    """Nodes to put into a model in normal form: in place of others, or after them.

    Nothing changes until `apply`: those who look at the model meanwhile see it as it was.
    """

    def __init__(self, model, opset):
        self.opset = opset
        self._graph = model.graph
        self._taken = {one.name for one in (*model.graph.initializer, *model.graph.input)}
        self._node_names = set()
        for graph in all_graphs(model.graph):
            self._taken.update(value.name for value in graph.input)
            for node in graph.node:
                self._taken.update(node.output)
                self._node_names.add(node.name)
        self._constants = {}
        self._instead = {}
        self._after = defaultdict(list)
        self._types = {}

    def instead(self, node):
        """Return `Nodes` that replace a node: they have to make what it makes."""
        made = Nodes(self, node)
        self._instead[node_key(node)] = made.nodes
        return made

    def after(self, node):
        """Return `Nodes` that come right after a node."""
        made = Nodes(self, node)
        self._after[node_key(node)].append(made.nodes)
        return made

    def constant(self, values, dtype=np.int64):
        """Return the name of an initializer of the main graph: every scope sees it."""
        array = np.asarray(values, dtype)
        key = array.dtype.str, array.shape, array.tobytes()
        if key not in self._constants:
            word = "_".join(map(str, array.reshape(-1)[:4].tolist())) or "none"
            name = self.fresh(f"lowered/{word}")
            self._graph.initializer.append(to_tensor_proto(array, name))
            self._constants[key] = name
        return self._constants[key]

    def fresh(self, name):
        """Return a name for a value: this one, or one like it."""
        if name in self._taken:
            return fresh_name(name, self._taken)
        self._taken.add(name)
        return name

    def fresh_node_name(self, name):
        if name in self._node_names:
            return fresh_name(name, self._node_names)
        self._node_names.add(name)
        return name

    def declare(self, name, element_type, shape):
        if element_type and name:
            self._types[name] = helper.make_tensor_type_proto(element_type, shape)

    def apply(self):
        """Put the nodes into the model."""
        # Innermost first: a graph's nodes are copied when they are replaced, with the graphs inside them.
        for graph in reversed(list(all_graphs(self._graph))):
            keys = {node_key(node) for node in graph.node}
            if keys.isdisjoint(self._instead) and keys.isdisjoint(self._after):
                continue
            nodes = []
            for node in graph.node:
                key = node_key(node)
                nodes += self._instead.get(key, [node])
                for made in self._after.get(key, ()):
                    nodes += made
            declared = {value.name for value in (*graph.value_info, *graph.output)}
            for name in (name for node in nodes for name in node.output):
                if name in self._types and name not in declared:
                    value = graph.value_info.add(name=name)
                    value.type.CopyFrom(self._types[name])
            replace_all(graph.node, nodes)
        self._instead.clear()
        self._after.clear()
        self._types.clear()


class Nodes:
    """New nodes in a row, named after the node that they stand for."""

    def __init__(self, builder, origin):
        self.nodes = []
        self.builder = builder
        self.constant = builder.constant
        self.declares = True
        self.label = origin.name or node_key(origin)

    def declare(self, name, element_type, shape):
        """Say of which type a value is that is made: onnx infers less than is known."""
        if self.declares:
            self.builder.declare(name, element_type, shape)

    def op(self, op_type, *inputs, out="", **attributes):
        """Add a node, and return the name of its output: `out`, or a fresh one."""
        return self.ops(op_type, inputs, [out], **attributes)[0]

    def ops(self, op_type, inputs, outputs, **attributes):
        """Add a node with several outputs; an empty name stands for a fresh one."""
        fresh = self.builder.fresh
        outputs = [name or fresh(f"{self.label}/{op_type}_output") for name in outputs]
        name = self.builder.fresh_node_name(f"{self.label}/{op_type}")
        self.nodes.append(helper.make_node(op_type, inputs, outputs, name, **attributes))
        return outputs

    def squeeze(self, tensor, axis, out=""):
        return self._with_axis("Squeeze", tensor, axis, out)

    def unsqueeze(self, tensor, axis, out=""):
        return self._with_axis("Unsqueeze", tensor, axis, out)

    def _with_axis(self, op_type, tensor, axis, out):
        if self.builder.opset < 13:
            return self.op(op_type, tensor, axes=[axis], out=out)
        return self.op(op_type, tensor, self.constant([axis]), out=out)

    def split(self, tensor, lengths, axis):
        """Add a Split with constant lengths, and return the names of its outputs."""
        if self.builder.opset < 13:
            return self.ops("Split", [tensor], [""] * len(lengths), axis=axis, split=lengths)
        return self.ops("Split", [tensor, self.constant(lengths)], [""] * len(lengths), axis=axis)

    def slice(self, tensor, start, end, axis, out=""):
        """Add a Slice from a start to an end, which are tensors of shape [1]."""
        return self.op("Slice", tensor, start, end, self.constant([axis]), out=out)

    def length(self, tensor, axis=0, out=""):
        """Return the length of a tensor's axis, as a scalar."""
        return self.op("Gather", self.op("Shape", tensor), self.constant(axis), axis=0, out=out)

    def join_axes(self, *parts):
        """Return a shape that is made of shapes and constants."""
        parts = [part if isinstance(part, str) else self.constant(part) for part in parts]
        return self.op("Concat", *parts, axis=0) if len(parts) > 1 else parts[0]

    def fail_if(self, bad):
        """Return a scalar that is 0 where a boolean scalar is false; where it is true, the model fails.

        What is computed from it can't be had without the check: a Gather from one element at position 1 is
        an error, in whatever runtime, and no optimizer drops it.
        """
        position = self.op("Cast", bad, to=TensorProto.INT64)
        return self.op("Gather", self.constant([0]), position, axis=0)

    def fail_unless_equal(self, one, other):
        return self.fail_if(self.op("Not", self.op("Equal", one, other)))

    def bound(self, tensor, zero, out=""):
        """Return a copy of a tensor with axes, bound to a scalar of `fail_if`."""
        return self.slice(tensor, self.unsqueeze(zero, 0), self.constant([_AFTER_ALL]), 0, out=out)

    def checked(self, tensor, zero, out=""):
        """Return a tensor as it is, bound to a scalar of `fail_if`, without copying it.

        Of one Reshape after another, onnxruntime leaves out the first, whatever its shape comes from, if it
        knows the shape of the last. So this is for checks that a last shape would make again.
        """
        return self.op("Reshape", tensor, self.op("Add", self.op("Shape", tensor), zero), out=out)

    def position(self, position, rank):
        """Return a `Position` as a tensor of rank 0 or 1: in ONNX's own examples it is of either."""
        if position.value is not None:
            return self.constant(np.full((1,) * rank, position.value))
        if position.rank == rank:
            return position.name
        return self.op("Reshape", position.name, self.constant([1] * rank))


def node_key(node):
    """Return what tells a node from all others of a normal model: its first output."""
    return next(filter(None, node.output), "")
