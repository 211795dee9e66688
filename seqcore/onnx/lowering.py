"""lower: replace sequence operators with tensor operators, for runtimes that are slow with or lack them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

from onnx import ModelProto, ValueInfoProto

import seqcore.onnx._operators  # noqa: F401  (which registers the records of all operators)
from seqcore._arguments.shown import shown
from seqcore.onnx._lists.boundary import open_sequences
from seqcore.onnx._lowering.pipeline import (
    Lowered,
    Note,
    lower_prepared,
    new_fault,
    with_few_iterations,
)
from seqcore.onnx._lowering.triton import prepare_for_triton
from seqcore.onnx._lowering.unroll import fix_shapes
from seqcore.onnx._model.load import parse, place_of
from seqcore.onnx._model.prepare import prepare
from seqcore.onnx._model.prepared import Prepared
from seqcore.onnx._model.repair import name_outputs
from seqcore.onnx._model.types import SEQUENCE, TENSOR, from_type_proto, to_type_proto
from seqcore.onnx._model.weights import without_fields, without_weights
from seqcore.onnx._model.writing import to_message
from seqcore.onnx._runtimes.sessions import refusal_of

__all__ = ["Note", "lower", "lower_with_report"]

TARGETS = ("openvino", "portable")


def lower(
    model: ModelProto | bytes | bytearray | memoryview | str | os.PathLike[Any],
    *,
    ragged_io: bool = False,
    target: str | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    unroll: int = 0,
) -> ModelProto:
    """Return an equivalent model in which tensor operators replace sequence operators where possible.

    - A list that a loop appends to becomes a scan output of the loop. If the model returns the list, it is
      split from that output.
    - An element taken from a split becomes a Gather, a Slice or an output of a Split.
    - A list of known length becomes separate tensors, also if a loop carries it.
    - A SequenceMap becomes a loop with scan outputs.
    - A loop with independent iterations becomes one vectorized operator.
    - Any other list becomes one tensor, or, if its elements differ in shape, a tensor of all values and one
      of the shapes; each edit copies these.

    A sequence stays if the rank of its elements is unknown, or if it is an input or output of the model (see
    `ragged_io`). Models of opset 13 and older stay as they are. Errors stay errors: joining an empty sequence
    and a position out of range fail in the lowered model too. An element that no output needs isn't computed,
    so it can't fail.

    Parameters
    ----------
    model : ModelProto, bytes, str or os.PathLike
        The model, a serialized model, or the path to a model file.
    ragged_io : bool, optional
        If True, also replace sequences among the model's inputs and outputs with tensors, in their places. A
        sequence `parts` becomes

        - `parts_values`, the elements joined along axis 0, and `parts_lengths`, int64 (n,), if the elements
          can differ along axis 0 only: `TensorSequence.values` and `lengths` give these, `from_lengths` takes
          them;
        - otherwise `parts_values` with all values in order, and `parts_extents`, int64 (n, rank), with the
          shapes of the elements;
        - only `parts_values` (n,), if the elements have rank 0.

        For inputs the declared shape of the elements decides, for outputs the inferred one. If a name is in
        use, a number is appended. Sequences of elements of unknown rank, and optional ones, stay. At run time
        it is an error if lengths are negative or don't sum to the length of the values.
    target : {"openvino", "portable"}, optional
        The runtimes to write for. The default suits onnxruntime, where the result was loaded if the given
        model can be.

        - "openvino" works around the differences of OpenVINO.
        - "portable" is for runtimes with few operators, such as tract, IREE, onnx2torch and tinygrad. The
          model has the oldest opset that its operators allow, no second way that saves memory for large
          inputs, and no checks at run time. These would raise an error for a position out of range, a join
          of no elements, and elements or `ragged_io` lengths that don't fit. Without them the result is
          arbitrary. A model without elements, or with a length of 0, may fail.
    shapes : mapping of str to tuple of int, optional
        Fixed shapes of inputs, by name; with `ragged_io` also of the tensors in the places of sequences. Then
        `lower` computes everything that only depends on shapes, and removes branches that are never taken.
    unroll : int, optional
        Loops with a known number of iterations, at most this many, are written out iteration by iteration
        unless they become one vectorized operator. The default, 0, writes out none.

    Returns
    -------
    ModelProto
        The lowered model, a copy: the argument is not modified. Inputs, outputs, opsets and metadata are
        unchanged, except with `ragged_io`, `shapes` and the target "portable"; lengths of inputs without a
        name get one, and outputs get the shape that is inferred, with the declared names. If nothing can be
        lowered, the result equals the model; otherwise functions are inlined and unused nodes removed.
        External data stay in their files, except small tensors, so save the lowered model into the same
        folder.

    Raises
    ------
    ValueError
        If the model is invalid or the target unknown, if `shapes` don't fit the inputs or the model, if
        `unroll` is negative, if either is given for a model of opset 13 or older, or if the model would get
        larger than ONNX's 2 GB.
    TypeError
        If `model` or a shape has another type.
    FileNotFoundError
        If there is no file at the path.

    Notes
    -----
    `python -m seqcore.onnx lower` does the same for files, and `python -m seqcore.onnx explain` shows how
    each sequence is compiled. A model of a hundred nodes takes a few milliseconds. Weights are copied, not
    read.

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

    >>> model = onnx.parser.parse_model('''
    ...     <ir_version: 8, opset_import: ["": 17]>
    ...     power (float[N] x, float[4] y) => (float[4] z) <bool yes = {1}> {
    ...         n = Size (x)
    ...         z = Loop (n, yes, y) <body = b (int64 i, bool c, float[4] s) => (bool d, float[4] t) {
    ...             d = Identity (c)
    ...             t = Mul (s, s)
    ...         }>
    ...     }''')
    >>> made = lower(model, target="portable", shapes={"x": (3,)}, unroll=128)
    >>> [node.op_type for node in made.graph.node]
    ['Mul', 'Mul', 'Mul', 'Identity']
    """
    return lower_with_report(model, ragged_io=ragged_io, target=target, shapes=shapes, unroll=unroll)[0]


def lower_with_report(
    model: ModelProto | bytes | bytearray | memoryview | str | os.PathLike[Any],
    *,
    ragged_io: bool = False,
    packs: bool = True,
    vectorizes: bool = True,
    target: str | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    unroll: int = 0,
) -> tuple[ModelProto, list[Note]]:
    """Lower a model as `lower` does, and return a `Note` for each sequence too.

    Parameters
    ----------
    model : ModelProto, bytes, str or os.PathLike
        The model, as in `lower`.
    ragged_io : bool, optional
        The same as in `lower`.
    packs : bool, optional
        If True, turn lists that remain loop-carried into tensors that each edit copies. A session doesn't
        need that.
    vectorizes : bool, optional
        If True, turn loops with independent iterations into one operator.
    target : {"openvino", "portable"}, optional
    shapes : mapping of str to tuple of int, optional
    unroll : int, optional
        The same as in `lower`.

    Returns
    -------
    ModelProto
        The lowered model.
    list of Note
        How each sequence was compiled.

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
    's' stays a list: it is an input of the model
    'rows' becomes pieces of 'x'
    """
    how = {"packs": packs, "vectorizes": vectorizes, "target": target, "shapes": shapes, "unroll": unroll}
    return lower_with_loops(model, ragged_io, **how)[:2]


def lower_with_loops(
    model: Any, ragged_io: bool, **how: Any
) -> tuple[ModelProto, list[Note], Mapping[str, str]]:
    """Lower a model as `lower_with_report` does, and return what `unroll` made of each loop, or why none."""
    target, unroll = how.get("target"), how.get("unroll", 0)
    if target is not None and target not in TARGETS:
        names = ", ".join(map(repr, TARGETS))
        raise ValueError(f"target must be one of {names} or None, got {shown(target)}")
    if not isinstance(how.get("shapes") or {}, Mapping):
        raise TypeError(f"shapes must map the names of inputs to shapes, got {shown(how['shapes'])}")
    if not isinstance(unroll, int):
        raise TypeError(f"unroll must be an integer, got {shown(unroll)}")
    if unroll < 0:
        raise ValueError(f"unroll must be 0 or more, got {unroll}")
    message, lowered, _ = _lower(parse(model), place_of(model), ragged_io, **how)
    return message, lowered.notes, lowered.unrolled


def lower_for_triton(
    model: ModelProto | bytes | bytearray | memoryview | str | os.PathLike[Any],
) -> tuple[ModelProto, str, list[Note]]:
    """Lower a model as `lower` does with `ragged_io`, with inputs that Triton Inference Server batches.

    Each request to Triton gives one element of each sequence, of any length, and gets a row of each output.

    Parameters
    ----------
    model : ModelProto, bytes, str or os.PathLike
        The model, as in `lower`.

    Returns
    -------
    ModelProto
        The lowered model. A sequence `parts` becomes `parts`, all values in one axis, and `parts_shapes`,
        int32 (n, rank), which Triton adds.
    str
        The text of the model's `config.pbtxt`.
    list of Note
        How each sequence was compiled.

    Raises
    ------
    ValueError
        If an input or output can't be part of a batch.

    Examples
    --------
    >>> import onnx
    >>> model = onnx.parser.parse_model('''
    ...     <ir_version: 8, opset_import: ["": 17]>
    ...     sums (seq(float[N]) parts) => (float[B] y) {
    ...         s = SequenceMap (parts) <
    ...             body = b (float[N] x) => (float t) { t = ReduceSum <keepdims = 0> (x) }>
    ...         y = ConcatFromSequence <axis = 0, new_axis = 1> (s)
    ...     }''')
    >>> lowered, config, _ = lower_for_triton(model)
    >>> [value.name for value in lowered.graph.input]
    ['parts', 'parts_shapes']
    """
    given = parse(model)
    message, lowered, inputs = _lower(given, place_of(model), True, packs=True)
    for value in (*message.graph.input, *message.graph.output):
        if not value.type.HasField("tensor_type"):
            raise ValueError(f"'{value.name}' can't be lowered to tensors, so Triton can't batch it")
    return message, prepare_for_triton(given, message, inputs), lowered.notes


def _lower(
    given: ModelProto, path: str | None, ragged_io: bool, shapes: Any = None, **how: Any
) -> tuple[ModelProto, Lowered, dict[str, list[str]]]:
    """Lower a message; return what became of it too, and the tensors in the places of inputs.

    `how` has options of `lower_prepared`.
    """
    prepared = prepare(*without_weights(given, path))
    lowered, inputs, before = _lower_opened(prepared, ragged_io, shapes or {}, how)
    made = lowered.prepared
    is_changed = made is not prepared
    if is_changed and how.get("target") is None:
        made = with_few_iterations(lowered)
    if is_changed and how.get("target") != "openvino" and (why := _why_refused(made, prepared)):
        notes = [note._replace(is_lowered=False, text=f"stays a list: {why}") for note in lowered.notes]
        lowered, inputs, is_changed = lowered._replace(notes=notes), {}, False
    if not is_changed:
        same = ModelProto()
        same.CopyFrom(given)
        name_outputs(same)
        prepared.weights.fill_small(same)
        return same, lowered, inputs
    _correct_outputs(made, before)
    _declare_loops(made)
    message = to_message(made.model)
    prepared.weights.fill(message, with_files=False)
    opsets = None if how.get("target") == "portable" else given.opset_import
    _keep_what_is_said(given, message, inputs, opsets)
    return message, lowered, inputs


def _why_refused(lowered: Prepared, given: Prepared) -> str:
    """Return why onnxruntime takes the given model and not the lowered one, "" where it is otherwise."""
    if lowered is given or not (why := refusal_of(lowered.model)) or refusal_of(given.model):
        return ""
    return f"onnxruntime refuses the lowered model: {why}"


def _correct_outputs(lowered: Prepared, before: Prepared) -> None:
    """Declare of outputs what is known, where the given model declares more, something else, or nothing.

    PyTorch declares the lengths of its example: onnxruntime only warns, onnx's full check fails, and IREE
    returns tensors of these lengths. In a list, onnxruntime believes them as soon as it knows all of them.
    Other runtimes want a shape. Names of lengths stay. More may be known of sequences than of the tensors in
    their places, so `before` is asked too.
    """
    declared = lowered.model.graph.declared
    for name in lowered.model.graph.outputs:
        type_ = lowered.type(name)
        said = from_type_proto(declared[name]).shape if name in declared else None
        known = type_.shape
        if type_.kind == SEQUENCE and said is not None and known != said:
            declared[name] = to_type_proto(type_, with_shape=True)
        if type_.kind != TENSOR or known is None:
            continue
        if len(told := before.shape(name) or ()) == len(known):
            known = tuple(a if isinstance(a, int) else b for a, b in zip(known, told, strict=True))
        if said is not None and len(said) == len(known):
            pairs = zip(known, said, strict=True)
            known = tuple(b if isinstance(b, str) else a for a, b in pairs)
        if known != said:
            declared[name] = to_type_proto(type_._replace(shape=known), with_shape=True)


def _declare_loops(lowered: Prepared) -> None:
    """Declare the types of what loops give: some runtimes infer nothing of states."""
    for graph in lowered.model.graph.all_graphs():
        for name in (name for node in graph.nodes if node.is_op("Loop") for name in node.outputs):
            type_ = lowered.type(name)
            if type_.kind == TENSOR and type_.number and name not in graph.outputs:
                plain = tuple(n if isinstance(n, int) else None for n in type_.shape or ())
                type_ = type_._replace(shape=None if type_.shape is None else plain)
                graph.declared[name] = to_type_proto(type_, with_shape=True)


def _lower_opened(
    prepared: Prepared, ragged_io: bool, shapes: Mapping[str, Sequence[int]], how: dict[str, Any]
) -> tuple[Lowered, dict[str, list[str]], Prepared]:
    """Lower a model, with its inputs and outputs where possible.

    Return the tensors in the places of inputs too (an input with a fixed shape is in its own place), and
    the prepared model with these inputs.
    """
    kept: set[str] = set()
    while True:
        opened = open_sequences(prepared, kept) if ragged_io else None
        if opened is not None and not opened.inputs and not opened.outputs:
            opened = None
        known = prepared if opened is None else opened.prepared
        fixed = fix_shapes(known, shapes) if shapes else known
        if shapes and (fault := new_fault(fixed.model, known.model)):
            raise ValueError(f"shapes {dict(shapes)} don't fit the model: {fault}")
        lowered = lower_prepared(fixed, is_fixed=bool(shapes), **how)
        inputs = {name: [name] for name in shapes}
        if opened is None:
            return lowered, inputs, fixed
        left = opened.left_in(lowered.prepared.model)
        if not left:
            return lowered, inputs | opened.inputs, fixed
        kept |= left


def _with_named_lengths(value: ValueInfoProto) -> ValueInfoProto:
    """Name the lengths of a tensor that have no name, as some runtimes want it; return the same message."""
    for axis, dim in enumerate(value.type.tensor_type.shape.dim):
        if not dim.WhichOneof("value"):
            dim.dim_param = f"{value.name}_{axis}"
    return value


def _keep_what_is_said(
    given: ModelProto, message: ModelProto, instead: dict[str, list[str]], opsets: Any
) -> None:
    """Give a lowered message the inputs, opsets and metadata of the model that it was made of.

    `instead` has the names of the tensors that it takes in place of sequences. It keeps its own opsets if
    `opsets` is None.
    """
    taken = {value.name: value for value in message.graph.input}
    inputs = []
    for value in given.graph.input:
        inputs += [taken[name] for name in instead[value.name]] if value.name in instead else [value]
    # Before they are deleted, since messages in a list are no more then.
    inputs = [_with_named_lengths(deepcopy(value)) for value in inputs]
    del message.graph.input[:]
    message.graph.input.extend(inputs)
    if opsets is not None:
        del message.opset_import[:]
        message.opset_import.extend(opsets)
    without_fields(given, message, "graph", "functions", "opset_import", "ir_version")
    message.graph.doc_string = given.graph.doc_string
    message.graph.metadata_props.extend(given.graph.metadata_props)
