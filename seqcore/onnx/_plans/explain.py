"""What of a model runs where, as text."""

from collections import Counter

from onnx import AttributeProto

from seqcore.onnx._models.reading import folder_of, has_sequences, load_model, with_external_data
from seqcore.onnx._plans.cut import CutModel
from seqcore.onnx._plans.parts import Runtime
from seqcore.onnx.lowering import lower_with_report


def explain(path):
    """Return lines that say what becomes of a model's sequences, and what of it runs where, in order."""
    model = with_external_data(load_model(path), folder_of(path))
    lowered, notes = lower_with_report(model)
    if not has_sequences(model):
        return ["the model has no sequences: onnxruntime runs it whole"]
    lines = ["sequences", *(f"    {note}" for note in notes or ["none in the end"]), "what runs where"]
    if not has_sequences(lowered):
        return [*lines, "    onnxruntime  the lowered model, whole"]
    cut = CutModel(model, Runtime(), 1, lowered)
    total, first = len(cut.planner.schedule.entries), cut.head.length
    if not cut.head.is_hopeless and first:
        what = "all of it" if first == total else f"the first {first} of {total} steps"
        lines.append(f"    onnxruntime  {what} in one go, as long as the sequences are short")
    return [*lines, *_lines(cut.planner.schedule, cut.planner, "    ")]


def _lines(schedule, planner, indent):
    if not schedule.entries:
        yield f"{indent}nothing to run"
    for entry in schedule.entries:
        if not entry.own:
            who = "numpy      " if id(entry.nodes[0]) in planner.small else "onnxruntime"
            yield f"{indent}{who}  {_counted(entry.nodes)}"
            continue
        (node,) = entry.nodes
        yield f"{indent}seqcore      {node.op_type} '{node.name}'{_remark(node, planner)}"
        graphs = [one.name for one in node.attribute if one.type == AttributeProto.GRAPH]
        for name, inner in zip(graphs, entry.inner, strict=True):
            if len(graphs) > 1:
                yield f"{indent}    {name}"
            yield from _lines(inner, planner, indent + "    " * (1 + (len(graphs) > 1)))


def _counted(nodes):
    """Return `Gather x2, Mul`: operators in the order in which they first come."""
    counts = Counter(node.op_type for node in nodes)
    return ", ".join(f"{name} x{n}" if n > 1 else name for name, n in counts.items())


def _remark(node, planner):
    edited = node.input[0] if node.input else ""
    if node.op_type in ("SequenceInsert", "SequenceErase"):
        taken = (id(node), edited) in planner.takes
        return ", in place" if taken else f": on a copy, since '{edited}' is needed again"
    rounds = planner.rounds.get(id(node))
    if rounds is None:
        return ""
    if rounds.appended and not rounds.carried:
        return ", in rounds in onnxruntime: its sequences are only appended to"
    if rounds.carried:
        return ", in rounds in onnxruntime while its sequences are short"
    return ", in onnxruntime where it has iterations enough"
