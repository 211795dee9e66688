"""The `config.pbtxt` with which Triton Inference Server batches requests of different lengths.

In its documentation ("Ragged Batching") each request has one element of a sequence. Triton joins the values
of a batch along one axis, and adds the shapes of the elements as a batch input:

    parts: seq(float[N, 4])    ──▶    parts: float[T], parts_shapes: int32[B, 2]
                                      parts_values, parts_lengths = Reshape (parts), Gather (parts_shapes)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, TensorShapeProto, ValueInfoProto, helper

from seqcore.onnx._model.graph import fresh_name
from seqcore.onnx._model.tensors import to_tensor_proto

_MOST_IN_A_BATCH = 64
_TYPES = {
    TensorProto.BOOL: "BOOL",
    TensorProto.BFLOAT16: "BF16",
    TensorProto.FLOAT16: "FP16",
    TensorProto.FLOAT: "FP32",
    TensorProto.DOUBLE: "FP64",
    TensorProto.STRING: "STRING",
    **{
        getattr(TensorProto, word): word
        for word in (f"{kind}{bits}" for kind in ("INT", "UINT") for bits in (8, 16, 32, 64))
    },
}


def prepare_for_triton(given: ModelProto, lowered: ModelProto, inputs: Mapping[str, Sequence[str]]) -> str:
    """Give a lowered model the inputs that Triton feeds, and return its `config.pbtxt`.

    Parameters
    ----------
    given, lowered : ModelProto
        The model before it was lowered, and after that, which is changed.
    inputs : mapping of str to sequence of str
        The names of sequences among the inputs, and of the tensors in their places.

    Raises
    ------
    ValueError
        If Triton can't batch an input or output.
    """
    graph = lowered.graph
    taken = {name for node in graph.node for name in (*node.input, *node.output)}
    taken |= {one.name for one in (*graph.input, *graph.output, *graph.initializer)}
    after = {value.name: value for value in graph.input}
    nodes: list[NodeProto] = []
    blocks: list[str] = []
    fed: list[ValueInfoProto] = []
    for value in given.graph.input:
        if value.name not in inputs:
            blocks.append(_block("input", value.name, *_row_of(after[value.name], "input")))
            fed.append(_copy(after[value.name]))
            continue
        name, shapes = fresh_name(value.name, taken), fresh_name(f"{value.name}_shapes", taken)
        element = value.type.sequence_type.elem_type.tensor_type
        dims = _dims(element.shape)
        fed.append(helper.make_tensor_value_info(name, element.elem_type, [None]))
        nodes += _nodes_in(inputs[value.name], name, shapes, dims, graph.initializer, taken)
        if not dims:
            blocks.append(_block("input", name, element.elem_type, dims))
            continue
        fed.append(helper.make_tensor_value_info(shapes, TensorProto.INT32, [None, len(dims)]))
        blocks.append(_block("input", name, element.elem_type, dims, "allow_ragged_batch: true"))
        lines = ["kind: BATCH_ITEM_SHAPE", f'target_name: "{shapes}"', "data_type: TYPE_INT32"]
        blocks.append(_text_of("batch_input", [*lines, f'source_input: "{name}"']))
    outputs = {value.name for value in given.graph.output}
    for value in graph.output:
        if value.name not in outputs:
            raise ValueError(
                f"output '{value.name}' is part of a sequence, but Triton returns a row to each request: "
                "return a tensor whose axis 0 is that of the batch"
            )
        blocks.append(_block("output", value.name, *_row_of(value, "output")))
    own = [_copy(node) for node in graph.node]
    for field, messages in (("input", fed), ("node", [*nodes, *own])):
        graph.ClearField(field)
        getattr(graph, field).extend(messages)
    head = f'backend: "onnxruntime"\nmax_batch_size: {_MOST_IN_A_BATCH}'
    return "\n".join([head, *blocks, "dynamic_batching { }", ""])


def _copy(message):
    copied = type(message)()
    copied.CopyFrom(message)
    return copied


def _dims(shape: TensorShapeProto) -> list[int]:
    return [dim.dim_value if dim.HasField("dim_value") else -1 for dim in shape.dim]


def _row_of(value: ValueInfoProto, what: str) -> tuple[int, list[int]]:
    """Return the type of a tensor, and its shape without axis 0, the axis of the batch."""
    dims = _dims(value.type.tensor_type.shape)
    if not dims or dims[0] != -1:
        shape = ", ".join("?" if n < 0 else str(n) for n in dims)
        raise ValueError(
            f"{what} '{value.name}' has shape ({shape}), but Triton batches along axis 0: expected an axis 0 "
            "of any length"
        )
    return value.type.tensor_type.elem_type, dims[1:]


def _block(what: str, name: str, number: int, dims: list[int], more: str = "") -> str:
    if number not in _TYPES:
        raise ValueError(f"{what} '{name}' has a type that Triton doesn't support")
    lines = [f'name: "{name}"', f"data_type: TYPE_{_TYPES[number]}"]
    lines.append(f"dims: [ {', '.join(map(str, dims or [1]))} ]")
    return _text_of(what, [*lines, *filter(None, [more, "" if dims else "reshape: { shape: [ ] }"])])


def _text_of(what: str, lines: list[str]) -> str:
    return "\n".join([f"{what} [", "  {", *(f"    {line}" for line in lines), "  }", "]"])


def _nodes_in(
    tensors: Sequence[str], name: str, shapes: str, dims: list[int], constants, taken: set[str]
) -> list[NodeProto]:
    """Return the nodes that make the tensors of a sequence from the inputs that Triton feeds."""

    def constant(numbers):
        made = fresh_name(f"{name}/{'_'.join(map(str, numbers)) or 'first'}", taken)
        constants.append(to_tensor_proto(np.array(numbers or 0, np.int64), made))
        return made

    if not dims:
        return [helper.make_node("Identity", [name], [tensors[0]])]
    values, extents = tensors
    if -1 in dims[1:]:
        return [
            helper.make_node("Identity", [name], [values]),
            helper.make_node("Cast", [shapes], [extents], to=TensorProto.INT64),
        ]
    lengths = fresh_name(f"{extents}/int32", taken)
    return [
        helper.make_node("Reshape", [name, constant([-1, *dims[1:]])], [values]),
        helper.make_node("Gather", [shapes, constant([])], [lengths], axis=1),
        helper.make_node("Cast", [lengths], [extents], to=TensorProto.INT64),
    ]
