"""What the tests of lowering share: models as text, run before and after."""

import numpy as np
import onnx
import onnxruntime

from seqcore.onnx.lowering import lower_with_report

SEQUENCE_OPS = {
    *("SequenceConstruct", "SequenceEmpty", "SequenceInsert", "SequenceErase", "SequenceAt"),
    *("SequenceLength", "SequenceMap", "SplitToSequence", "ConcatFromSequence"),
}
OPSETS = [14, 21]  # axes of reductions are inputs from 18 on


def all_nodes(model):
    """Yield the nodes of a model in all depths, those of its functions too."""
    todo = [model.graph, *model.functions]
    while todo:
        for node in todo.pop(0).node:
            yield node
            todo += [one.g for one in node.attribute if one.HasField("g")]


def parse(text, opset=17):
    """A checked model from a graph's text."""
    model = unchecked(text, opset)
    onnx.checker.check_model(model, full_check=True)
    return model


def unchecked(text, opset=17):
    ir = 6 if opset == 11 else 7 if opset < 15 else 8 if opset < 19 else 10
    return onnx.parser.parse_model(f'<ir_version: {ir}, opset_import: ["": {opset}]>\n{text}')


def session(model, level="ENABLE_ALL"):
    """A silent session of onnxruntime on one thread; `level` is that of its optimizations."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, f"ORT_{level}")
    options.log_severity_level = 4
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def outcome(running, feed):
    """The results, or None where it fails: wording and kinds of errors differ."""
    feed = {name: array if isinstance(array, list) else np.asarray(array) for name, array in feed.items()}
    try:
        return running.run(None, feed)
    except Exception:
        return None


def left_in(model):
    """The sequence operators in a model."""
    return sorted(node.op_type for node in all_nodes(model) if node.op_type in SEQUENCE_OPS)


def ops(model):
    return [node.op_type for node in all_nodes(model)]


def quick_report(model):
    """The model without the lists that take no copies, its loops as loops, and the notes."""
    return lower_with_report(model, packs=False, vectorizes=False)


def with_open_lengths(given, output):
    """A given declaration without the lengths that are left open in a lowered one."""
    copied = onnx.ValueInfoProto()
    copied.CopyFrom(given)
    if copied.type.HasField("sequence_type"):  # a wrong length of an element counts for onnxruntime
        element, known = (one.type.sequence_type.elem_type.tensor_type for one in (copied, output))
        element.ClearField("shape")
        if known.HasField("shape"):
            element.shape.CopyFrom(known.shape)
        return copied
    dims = copied.type.tensor_type.shape.dim
    for dim, lowered_dim in zip(dims, output.type.tensor_type.shape.dim, strict=True):
        if not lowered_dim.HasField("dim_value"):
            dim.CopyFrom(lowered_dim)
    return copied


def lowered(model, packs=True, target=None):
    """A lowered model, which is valid, has the same face, and whose making leaves the argument alone."""
    before = model.SerializeToString(deterministic=True)
    result, _ = lower_with_report(model, packs=packs, vectorizes=packs, target=target)
    assert model.SerializeToString(deterministic=True) == before
    onnx.checker.check_model(result, full_check=True)
    assert list(result.graph.input) == list(model.graph.input)
    for output, given in zip(result.graph.output, model.graph.output, strict=True):
        assert output == with_open_lengths(given, output)
    assert list(result.opset_import) == list(model.opset_import)
    return result


def assert_same(one, other):
    assert (one is None) == (other is None), (one, other)
    if one is not None:
        for first, second in zip(one, other, strict=True):
            if isinstance(first, list):
                assert_same(first, second)
            else:
                assert np.asarray(first).dtype == np.asarray(second).dtype
                np.testing.assert_array_equal(first, second)


def check(text, feeds, opset=17, gone=True, succeeds=True, packs=True):
    """Lower a model; it has to do what it did, for each feed, and the sequences have to be gone or stay.

    `gone` is True where all go, False where the model stays as it is, or says which operators are left.

    Those that stay may be packed, and loops become one operator: then it has to do the same too, but where
    onnxruntime departs from ONNX's text (`packs=False`).
    """
    model = text if isinstance(text, onnx.ModelProto) else parse(text, opset)
    result = lowered(model, packs=False)
    if gone is False:
        assert result == model
    else:
        assert left_in(result) == ([] if gone is True else gone)
    before, after = session(model), session(result)
    packed = session(lowered(model)) if packs else session(lower_with_report(model, packs=False)[0])
    outcomes = [outcome(before, feed) for feed in feeds]
    assert any(one is not None for one in outcomes) == succeeds
    for feed, one in zip(feeds, outcomes, strict=True):
        assert_same(one, outcome(after, feed))
        assert_same(one, outcome(packed, feed))
    return result, after


def rows(n, width=4, seed=0, dtype="float32"):
    return np.random.default_rng(seed + n).integers(0, 100, (n, width)).astype(dtype)
