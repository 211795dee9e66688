"""A model that is run in parts: what `InferenceSession` does where there are sequences."""

import functools

import numpy as np

from seqcore.core.sequence import TensorSequence
from seqcore.onnx._models.declared import forget_states
from seqcore.onnx._models.facts import Facts
from seqcore.onnx._models.graphs import from_tensor_proto
from seqcore.onnx._models.normal import normal_form
from seqcore.onnx._plans.feeds import Feed, NodeArg, check_is_feed, declares_shape
from seqcore.onnx._plans.head import Head
from seqcore.onnx._plans.loop import stop_if_told
from seqcore.onnx._plans.plan import Planner
from seqcore.onnx._plans.shares import feed_holders
from seqcore.onnx._plans.steps import own_copy


class CutModel:
    """A checked model, cut into parts that onnxruntime runs and steps of our own.

    Parameters
    ----------
    model : ModelProto
        Checked, its external data loaded.
    runtime : Runtime
        Makes the sessions.
    max_workers : int or None
        For SequenceMap nodes.
    lowered : ModelProto, optional
        The same with sequences compiled away, to be run in its place.
    """

    def __init__(self, model, runtime, max_workers, lowered=None):
        self._original = None
        if lowered is not None:
            self._original = functools.cache(lambda: CutModel(model, runtime, max_workers))
        normal = normal_form(model if lowered is None else lowered)
        forget_states(normal.graph)
        facts = Facts(normal, believes=False)
        graph = facts.model.graph
        planner = Planner(facts, runtime, max_workers)
        self.planner = planner
        self._plan = planner.plan
        defaults = {one.name: one for one in graph.initializer}
        self._inputs = {}  # name → its feed, its place, and what it is if it isn't fed
        self._required = []
        for value in graph.input:
            default = defaults.get(value.name)
            if default is not None:
                default = from_tensor_proto(default)
            elif value.type.WhichOneof("value") != "optional_type":
                self._required.append(value.name)
            self._inputs[value.name] = Feed(value.name, value.type), planner.place(value.name), default
        self._names = names = [value.name for value in graph.output]  # one may be there twice
        self._outputs = dict(zip(names, planner.outputs_of(graph), strict=True))
        holders = feed_holders(facts, planner.own)
        self._shared = {name for name in names if name in holders}
        self._fresh = {name for name in names if _is_fresh(name, facts, planner.own)}
        self._frame = planner.frame
        self.head = Head(planner)
        self._after_head = self._plan.starts[self.head.length]
        self.inputs = [NodeArg(value.name, value.type) for value in graph.input if value.name not in defaults]
        self.overridable = [
            NodeArg(value.name, value.type) for value in graph.input if value.name in defaults
        ]
        # The shapes that the model declares, else those that can be inferred.
        self.outputs = [
            NodeArg(value.name, value.type if declares_shape(value.type) else facts.types[value.name])
            for value in model.graph.output
        ]

    def run(self, output_names, feed, options=None):
        """Return the outputs of these names, of all if there are none: tensors of their own, sequences.

        Raises
        ------
        ValueError, TypeError
            If a feed is missing, unknown, or not what the model declares.
        Exception
            What a node raises; it is named.
        """
        stop_if_told(options)
        if isinstance(output_names, str):
            raise TypeError(f"output_names is a list of names, not the str {output_names!r}")
        check_is_feed(feed)
        frame = self._fed(feed)
        frame[0] = options
        for name in output_names or ():
            if name not in self._outputs:
                raise ValueError(f"the model has no output '{name}': it has {', '.join(self._outputs)}")
        try:
            self._plan.run(frame, self._after_head if self.head.run(frame) else 0)
        except Exception:
            # What is left of a sequence that was compiled away can't name its node: the model as it was can.
            if self._original is None:
                raise
            return self._original().run(output_names, feed, options)
        # Each is taken from the frame once, also where it is asked for twice.
        names = output_names or self._names
        results = {name: self._result(name, frame) for name in dict.fromkeys(names)}
        if len(results) == len(names):
            return list(results.values())
        return self._each_once(results, names)

    def _each_once(self, results, names):
        """Return results by name, a copy where one is asked for again."""
        given = set()
        return [_again(results[name], name in given or given.add(name)) for name in names]

    def _fed(self, feed):
        """Return a frame with the inputs, checked; what was not fed is what it is by default."""
        missing = [name for name in self._required if name not in feed]
        if missing:
            raise ValueError(f"the feed lacks {_quoted(missing)}: the model's inputs are {self._named()}")
        for name in feed:
            if name not in self._inputs:
                raise ValueError(f"the model has no input '{name}': its inputs are {self._named()}")
        frame = self._frame.copy()
        for name, (one, place, default) in self._inputs.items():
            frame[place] = one.check(feed[name]) if name in feed else default
        return frame

    def _named(self):
        return ", ".join(self._inputs) or "none"

    def _result(self, name, frame):
        value = self._outputs[name](frame)
        if isinstance(value, TensorSequence):
            if name in self._shared:
                value.compact()
            return value
        if isinstance(value, np.ndarray) and name not in self._fresh:
            return np.array(value)
        return value


def _is_fresh(name, facts, own):
    """Return whether a tensor's array is nobody else's: onnxruntime made it and no own node keeps it."""
    node, _ = facts.producers.get(name, (None, None))
    readers = facts.readers[name]
    return (
        node is not None
        and (id(node) not in own or node.op_type == "ConcatFromSequence")
        and sum(reader is None for reader, _ in readers) == 1
        and not any(id(reader) in own for reader, _ in readers)
    )


def _again(value, given):
    """Return a value, or a copy if it was given before."""
    if not given:
        return value
    return np.array(value) if isinstance(value, np.ndarray) else own_copy(value)


def _quoted(names):
    return ", ".join(f"'{name}'" for name in names)
