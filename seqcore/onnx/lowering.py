"""lower: a model's sequences compiled away, for runtimes that are slow with them or don't have them."""

from __future__ import annotations

import os
from copy import deepcopy
from typing import Any

from onnx import ModelProto

from seqcore.onnx._lists.boundary import open_sequences
from seqcore.onnx._lowering.pipeline import Lowered, Note, lower_prepared
from seqcore.onnx._model.load import folder_of, parse
from seqcore.onnx._model.prepare import prepare
from seqcore.onnx._model.prepared import Prepared
from seqcore.onnx._model.weights import without_weights
from seqcore.onnx._model.writing import to_message

__all__ = ["Note", "lower", "lower_with_report"]


def lower(
    model: ModelProto | bytes | bytearray | memoryview | str | os.PathLike[Any], *, ragged_io: bool = False
) -> ModelProto:
    """Return a model that computes the same with its sequences compiled away, where they can be.

    A list that a loop appends to becomes a scan output of the loop; what is picked from a split becomes a
    Gather, a Slice or the output of a Split; a list whose elements are known before the run becomes those,
    also where a loop hands on as many as it got; a SequenceMap becomes a loop with scan outputs. Any other
    list becomes a tensor of its elements, or, where these differ in shape, a tensor of all their numbers and
    one of their extents, which each edit copies. A sequence stays where the rank of its elements isn't known,
    and where the model takes or gives it. A loop whose iterations don't depend on each other becomes one
    operator: all iterations at once. Errors stay errors: joining an empty sequence fails in the lowered model
    too, and so does a position that is out of range.

    Parameters
    ----------
    model : ModelProto, bytes, str or os.PathLike
        A model, a serialized one, or the path to a model file.
    ragged_io : bool, optional
        Whether sequences that the model takes and gives go in and out as tensors, in their places. A sequence
        `parts` becomes

        - `parts_values`, the elements joined along axis 0, and `parts_lengths`, int64 (n,), their lengths on
          it, where they can differ on no other axis: what `TensorSequence.values` and `lengths` return, and
          `from_lengths` takes;
        - else `parts_values` with all numbers, one element behind the other, and `parts_extents`, int64
          (n, rank), their shapes;
        - `parts_values` (n,) alone, where they are of rank 0.

        Of what it takes, the declared shape of the elements decides, of what it gives, what is known of them.
        Where a name is taken, a number is put behind it. Sequences of elements of unknown rank stay, and
        optional ones. In a run, lengths that are negative or don't sum up are an error.

    Returns
    -------
    ModelProto
        A model of its own memory: the argument never changes. Inputs and outputs, but for `ragged_io`, opsets
        and metadata are as they were. Where nothing could be lowered the model comes back as it is; else
        functions are inlined, and what no output needs is gone. What it keeps in files beside it stays there:
        save the lowered model into the same folder.

    Raises
    ------
    ValueError
        If the model is invalid.
    TypeError
        If `model` is nothing of the kind.
    FileNotFoundError
        If there is no file at the path.

    Notes
    -----
    `python -m seqcore.onnx lower` does it for files, and `python -m seqcore.onnx explain` tells what becomes
    of each sequence. Takes some milliseconds for a model of a hundred nodes; weights are copied, not read.

    Examples
    --------
    >>> import onnx
    >>> model = onnx.parser.parse_model('''
    ...     <ir_version: 8, opset_import: ["": 17]>
    ...     pick (float[N, 4] x, int64 i) => (float[4] y) {
    ...         rows = SplitToSequence <keepdims = 0> (x)
    ...         y = SequenceAt (rows, i)
    ...     }''')
    >>> [node.op_type for node in lower(model).graph.node]
    ['Gather']

    >>> model = onnx.parser.parse_model('''
    ...     <ir_version: 8, opset_import: ["": 17]>
    ...     drop (seq(float[N, 4]) parts, int64 i) => (seq(float[N, 4]) rest) {
    ...         rest = SequenceErase (parts, i)
    ...     }''')
    >>> graph = lower(model, ragged_io=True).graph
    >>> [value.name for value in graph.input]
    ['parts_values', 'parts_lengths', 'i']
    >>> [value.name for value in graph.output]
    ['rest_values', 'rest_lengths']
    """
    return lower_with_report(model, ragged_io=ragged_io)[0]


def lower_with_report(
    model: ModelProto | bytes | bytearray | memoryview | str | os.PathLike[Any],
    keep_maps: bool = False,
    *,
    ragged_io: bool = False,
    packs: bool = True,
    vectorises: bool = True,
) -> tuple[ModelProto, list[Note]]:
    """Return what `lower` returns, and a `Note` for each sequence.

    Parameters
    ----------
    model : ModelProto, bytes, str or os.PathLike
        As for `lower`, which tells what is raised.
    keep_maps : bool, optional
        Whether SequenceMap nodes stay, for a runtime that has threads for them.
    ragged_io : bool, optional
        As for `lower`.
    packs : bool, optional
        Whether lists that stay as state become tensors that each edit copies. A session has no use for them.
    vectorises : bool, optional
        Whether loops become one operator where they can.

    Returns
    -------
    (ModelProto, list of Note)

    Examples
    --------
    >>> import onnx
    >>> model = onnx.parser.parse_model('''
    ...     <ir_version: 8, opset_import: ["": 17]>
    ...     pick (seq(float[4]) s, float[N, 4] x, int64 i) => (float[4] y, float[4] z) {
    ...         rows = SplitToSequence <keepdims = 0> (x)
    ...         y = SequenceAt (rows, i)
    ...         z = SequenceAt (s, i)
    ...     }''')
    >>> lowered, notes = lower_with_report(model)
    >>> print(*notes, sep="\\n")
    's' stays: it is an input of the model
    'rows' becomes pieces of 'x'
    """
    given = parse(model)
    prepared = prepare(*without_weights(given, folder_of(model)))
    inputs: dict[str, list[str]] = {}
    if ragged_io:
        (lowered, notes, _), inputs = _lower_opened(prepared, keep_maps, packs, vectorises)
    else:
        lowered, notes, _ = lower_prepared(prepared, keep_maps, packs=packs, vectorises=vectorises)
    if lowered is prepared:
        same = ModelProto()
        same.CopyFrom(given)
        return same, notes
    message = to_message(lowered.model)
    prepared.weights.filled_model(message, with_files=False)
    _keep_what_is_said(given, message, inputs)
    return message, notes


def _lower_opened(
    prepared: Prepared, keep_maps: bool, packs: bool, vectorises: bool
) -> tuple[Lowered, dict[str, list[str]]]:
    """Lower a model, and what it takes and gives too, but for what can't; tell what it takes instead."""
    kept: set[str] = set()
    while True:
        opened = open_sequences(prepared, kept)
        if not opened.inputs and not opened.outputs:
            return lower_prepared(prepared, keep_maps, packs=packs, vectorises=vectorises), {}
        lowered = lower_prepared(opened.prepared, keep_maps, packs=packs, vectorises=vectorises)
        left = opened.left_in(lowered.prepared.model)
        if not left:
            return lowered, opened.inputs
        kept |= left


def _keep_what_is_said(given: ModelProto, message: ModelProto, instead: dict[str, list[str]]) -> None:
    """Give a lowered message the inputs, opsets and metadata of the model that it was made of.

    `instead` has the names of the tensors that it takes in place of sequences.
    """
    taken = {value.name: value for value in message.graph.input}
    inputs = []
    for value in given.graph.input:
        inputs += [taken[name] for name in instead[value.name]] if value.name in instead else [value]
    # Before they are deleted, since messages in a list are no more then.
    inputs = [deepcopy(value) for value in inputs]
    del message.graph.input[:]
    message.graph.input.extend(inputs)
    del message.opset_import[:]
    message.opset_import.extend(given.opset_import)
    made = {*("graph", "functions", "opset_import", "ir_version")}
    for field, value in given.ListFields():
        if field.name in made:
            continue
        if hasattr(value, "extend"):
            getattr(message, field.name).extend(value)
        else:
            setattr(message, field.name, value)
    message.graph.doc_string = given.graph.doc_string
    message.graph.metadata_props.extend(given.graph.metadata_props)
