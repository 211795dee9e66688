"""explain: what becomes of a model's sequences and loops, and what runs where, in lines of text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from onnx import ModelProto, NodeProto

from seqcore.onnx._engines.engines import Compiled, engines_of
from seqcore.onnx._lowering.pipeline import Note
from seqcore.onnx._model.load import all_graphs, place_of
from seqcore.onnx._model.prepare import message_has_lists, prepare
from seqcore.onnx._model.prepared import Prepared
from seqcore.onnx._model.weights import open_model, without_weights
from seqcore.onnx._runtimes.sessions import Sessions
from seqcore.onnx._vmap.vectorize import LoopNote
from seqcore.onnx.lowering import lower_with_loops

# The most names in one line for sequences with the same note.
_MOST_NAMED = 4
# Where PyTorch's exporters write the lines of the source that a node comes from.
_TRACE = "pkg.torch.onnx.stack_trace"


def explain(
    given: Any, ragged_io: bool = False, shapes: Mapping[str, Sequence[int]] | None = None, unroll: int = 0
) -> list[str]:
    """Return lines that say what becomes of a model's sequences and loops, and what runs where, in order.

    With `ragged_io`, `shapes` and `unroll`, what `lower` with these options makes of each sequence and loop.
    """
    message, data = open_model(given)
    whole = ["the model has no sequences: onnxruntime runs it whole"]
    if not message_has_lists(message) and not (shapes or unroll):
        return whole
    _, lowered, written = lower_with_loops(given, ragged_io, packs=True, shapes=shapes, unroll=unroll)
    after = [f"    '{name}' {text}" for name, text in written.items()] or ["    none is left"]
    after = ["loops after lower with these shapes", *after] if shapes or unroll else []
    if not message_has_lists(message):
        return [*whole, *after]
    sources = _sources_of(message)
    engines = engines_of(*without_weights(message, place_of(given), data), Sessions(), 1)
    compiled = engines.compiled
    prepared = prepare(*without_weights(message, place_of(given), data))
    notes = _counted(_agreeing(compiled.notes, lowered), sources) or ["none in the end"]
    loops = ["loops", *(f"    {note}" for note in compiled.loops)] if compiled.loops else []
    summary = _summary(prepared, compiled.loops, lowered, _copying_loops(compiled))
    lines = [summary, "sequences", *(f"    {note}" for note in notes)]
    names = ", ".join(f"'{name}'" for name in engines.unranked)
    ranks = [f"    compiled anew for each rank of {names}: the model declares none"] if names else []
    return [*lines, *loops, *after, "what runs where, the first that can", *compiled.explain(), *ranks]


def _copying_loops(compiled: Compiled) -> set[str]:
    """Return the loops that copy a list in each iteration, since an edit of it leaves it in use."""
    steps = None if compiled.tiers[0].takes_all() else compiled.first_steps()
    if steps is None:
        return set()
    prepared, takes = steps.planner.prepared, steps.planner.takes
    return {
        loop.name
        for loop in prepared.model.graph.all_nodes()
        if loop.is_op("Loop")
        for node in loop.body.all_nodes()
        if node.is_op("SequenceInsert", "SequenceErase") and (node, node.inputs[0]) not in takes
        if not prepared.ancestors(node.inputs[0]).keys().isdisjoint(loop.body.inputs)
    }


def _summary(given: Prepared, loops: list[LoopNote], lowered: list[Note], copying: set[str]) -> str:
    """Return one line: what a session gains over onnxruntime, and whether `lower` frees the model.

    `copying` has the loops that don't make their lists in linear time.
    """
    gone = [note.loop for note in loops if note.is_vectorized]
    nwritten = sum(bool(note.written) for note in loops)
    names = [
        name
        for name, (node, _) in given.producers.items()
        if node.is_op("Loop", "SequenceMap")
        and given.is_sequence(name)
        and not {node.name, f"{node.name}/Loop"} & {*gone, *copying}
    ]
    gains = [f"runs all iterations of {_count(n, 'loop')} at once"] if (n := len(gone) - nwritten) else []
    if nwritten:
        gains.append(f"writes out {_count(nwritten, 'loop')}")
    if names:
        gains.append(f"makes {_count(len(names), 'list')} in linear time (quadratic in onnxruntime)")
    left = sum(not note.is_lowered for note in lowered)
    freed = f"leaves {_count(left, 'sequence')}" if left else "leaves no sequence"
    return f"a session {' and '.join(gains) or 'runs it as onnxruntime does'}; lower {freed}"


def _count(n: int, what: str) -> str:
    return f"{n} {what}{'' if n == 1 else 's'}"


def _sources_of(message: ModelProto) -> dict[str, str]:
    """Return where in the source nodes come from, by their names, if the exporter wrote that."""
    nodes = (node for graph in all_graphs(message) for node in graph.node)
    return {node.name: place for node in nodes if node.name and (place := _place_of(node))}


def _place_of(node: NodeProto) -> str:
    texts = [one.value for one in node.metadata_props if one.key == _TRACE] + [node.doc_string]
    # Tracebacks name the outermost call first, comments of TorchScript have one place.
    found = [
        re.findall(r'File "([^"]+)", line (\d+)', text) or re.findall(r"# (\S+):(\d+):\d+", text)
        for text in texts
    ]
    file, line = next((places[-1] for places in found if places), ("", ""))
    return f"{file}, line {line}" if file else ""


def _agreeing(notes: list[Note], lowered: list[Note]) -> Iterator[Note]:
    """Yield the notes of a session, with what `lower` does to a sequence where it does something else."""
    by_value = {note.value: note for note in lowered}
    for note in notes:
        other = by_value.get(note.value)
        if note.is_lowered or other is None:
            yield note
        elif other.is_lowered:
            made = other.text.removeprefix("becomes ")
            yield note._replace(text=f"{note.text}; with lower it becomes {made}")
        else:
            yield other


def _counted(notes: Iterable[Note], sources: dict[str, str]) -> list[str]:
    """Return a line for each note, one for those that are alike."""
    alike: dict[str, list[Note]] = {}
    for note in notes:
        alike.setdefault(note.text, []).append(note)
    lines = []
    for text, ones in alike.items():
        place = "" if ones[0].is_lowered else sources.get(ones[0].node, "")
        place = place and f" ({place})"
        names = [f"'{note.value}'" for note in ones]
        named = ", ".join([*names[:_MOST_NAMED], *["…"] * (len(names) > _MOST_NAMED)])
        many = f"{len(names)} sequences ({named}): each {text}{place}"
        lines.append(f"{named} {text}{place}" if len(names) == 1 else many)
    return lines
