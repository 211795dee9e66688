"""The sequence and optional operators as steps of a plan.

Each builder takes a node and the planner and returns a function of a frame. What a step makes of a sequence
it makes in place where it may take it: see `lifetimes`.
"""

import numpy as np
from onnx import TensorProto, helper

from seqcore.core.operations import element_at
from seqcore.core.sequence import TensorSequence
from seqcore.onnx._models.graphs import dtype_of
from seqcore.operators import concat_from_sequence, split_to_sequence


def own_copy(value):
    """Return a value that may be edited while the other is kept: of sequences a copy, others never change."""
    return value.copy() if type(value) is TensorSequence else value


def only_item(tensor, what):
    """Return the one item of a tensor that ONNX wants to have one, as a value of Python."""
    try:
        return tensor.item()
    except ValueError:
        raise ValueError(f"{what} is one value, not a tensor of shape {tensor.shape}") from None


def attributes(node, **defaults):
    """Return the values of a node's attributes, in the order of their defaults."""
    given = {one.name: helper.get_attribute_value(one) for one in node.attribute}
    return [given.get(name, default) for name, default in defaults.items()]


def _input(node, i):
    return node.input[i] if i < len(node.input) else ""


def _empty(node, planner):
    (number,) = attributes(node, dtype=TensorProto.FLOAT)
    dtype = _dtype(number)
    to = planner.place(node.output[0])

    def step(frame):
        frame[to] = TensorSequence(dtype=dtype)

    return step


def _dtype(number):
    dtype = dtype_of(number)
    if dtype is None:
        raise ValueError(f"there are no sequences of {TensorProto.DataType.Name(number).lower()} tensors")
    return dtype


def _construct(node, planner):
    places = [planner.place(name) for name in node.input]
    to = planner.place(node.output[0])

    def step(frame):
        frame[to] = TensorSequence([frame[i] for i in places])

    return step


def _insert(node, planner):
    source = planner.reader(node, node.input[0])
    tensor, to = planner.place(node.input[1]), planner.place(node.output[0])
    position = _input(node, 2)
    if not position:

        def step(frame):
            sequence = source(frame)
            sequence.append(frame[tensor])
            frame[to] = sequence

    else:
        at = planner.place(position)

        def step(frame):
            sequence = source(frame)
            sequence.insert(frame[at], frame[tensor])
            frame[to] = sequence

    return step


def _erase(node, planner):
    source = planner.reader(node, node.input[0])
    to = planner.place(node.output[0])
    at = planner.place(_input(node, 1))  # the place of "" is never a position: see below
    last = not _input(node, 1)

    def step(frame):
        sequence = source(frame)
        sequence.erase(-1 if last else frame[at])
        frame[to] = sequence

    return step


def _at(node, planner):
    sequence, position, to = map(planner.place, (*node.input, node.output[0]))

    def step(frame):
        frame[to] = element_at(frame[sequence], frame[position])

    return step


def _length(node, planner):
    sequence, to = planner.place(node.input[0]), planner.place(node.output[0])

    def step(frame):
        frame[to] = np.array(len(frame[sequence]))

    return step


def _split(node, planner):
    axis, keepdims = attributes(node, axis=0, keepdims=1)
    tensor, to = planner.place(node.input[0]), planner.place(node.output[0])
    split = planner.place(_input(node, 1))
    whole = not _input(node, 1)

    def step(frame):
        lengths = None if whole else frame[split]
        frame[to] = split_to_sequence(frame[tensor], lengths, axis=axis, keepdims=keepdims)

    return step


def _concat(node, planner):
    axis, new_axis = attributes(node, axis=None, new_axis=0)
    sequence, to = planner.place(node.input[0]), planner.place(node.output[0])

    def step(frame):
        frame[to] = concat_from_sequence(frame[sequence], axis, new_axis)

    return step


def _pass_on(node, planner):
    """Identity, and an Optional that holds something."""
    source, to = planner.reader(node, node.input[0]), planner.place(node.output[0])

    def step(frame):
        frame[to] = source(frame)

    return step


def _optional(node, planner):
    if _input(node, 0):
        return _pass_on(node, planner)
    to = planner.place(node.output[0])

    def step(frame):
        frame[to] = None

    return step


def _has_element(node, planner):
    to = planner.place(node.output[0])
    value = planner.place(_input(node, 0))
    given = bool(_input(node, 0))

    def step(frame):
        frame[to] = np.array(given and frame[value] is not None)

    return step


def _get_element(node, planner):
    source, to = planner.reader(node, node.input[0]), planner.place(node.output[0])
    name = node.input[0]

    def step(frame):
        value = source(frame)
        if value is None:
            raise ValueError(f"the optional '{name}' is empty: ask OptionalHasElement first")
        frame[to] = value

    return step


SEQUENCE_STEPS = {
    "ConcatFromSequence": _concat,
    "Identity": _pass_on,
    "Optional": _optional,
    "OptionalGetElement": _get_element,
    "OptionalHasElement": _has_element,
    "SequenceAt": _at,
    "SequenceConstruct": _construct,
    "SequenceEmpty": _empty,
    "SequenceErase": _erase,
    "SequenceInsert": _insert,
    "SequenceLength": _length,
    "SplitToSequence": _split,
}
