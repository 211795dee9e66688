"""The passes by which sequences are compiled away, in their order."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import onnx

from seqcore.onnx._lists.accumulate import accumulate_lists
from seqcore.onnx._lists.replace import ALL, OUTSIDE, VIEWS, replace_lists
from seqcore.onnx._lists.scans import drop_spares
from seqcore.onnx._lowering.openvino import (
    copy_outputs_of_ifs,
    cut_stacks_of_no_iteration,
    drop_axes_of_conditions,
    give_conditions_nodes,
    keep_counts_from_negative,
    make_empty_constants,
    take_known_branches,
)
from seqcore.onnx._lowering.portable import fold_constants, make_portable, oldest_opset
from seqcore.onnx._lowering.unroll import WRITTEN_OUT, short_loops, unroll_loops
from seqcore.onnx._model.equal_nodes import drop_equal_nodes
from seqcore.onnx._model.graph import Model, Node
from seqcore.onnx._model.prepared import Prepared
from seqcore.onnx._model.record import record_of
from seqcore.onnx._model.tensors import one_line
from seqcore.onnx._model.writing import forget_shape, to_message
from seqcore.onnx._rewrite.counted import count_iterations
from seqcore.onnx._rewrite.emit import OLDEST_OPSET, Builder
from seqcore.onnx._rewrite.few import keep_few_iterations
from seqcore.onnx._rewrite.maps import write_out_maps
from seqcore.onnx._rewrite.prune import give_bounds_an_axis, prune
from seqcore.onnx._vmap.vectorize import LoopNote, vectorize_loops


class Note(NamedTuple):
    """A sequence, the node that makes it, whether it was lowered, and how or why not."""

    value: str
    node: str
    is_lowered: bool
    text: str

    def __str__(self) -> str:
        return f"'{self.value}' {self.text}"


class Lowered(NamedTuple):
    """A model with its sequences compiled away, as far as that goes.

    Attributes
    ----------
    prepared : Prepared
        The lowered model, or the given one if nothing could be lowered.
    notes : list of Note
    loops : list of LoopNote
    unrolled : mapping of str to str
        The loops that `unroll` asks for → that each is written out, or why it stays.
    """

    prepared: Prepared
    notes: list[Note]
    loops: list[LoopNote]
    unrolled: Mapping[str, str] = MappingProxyType({})


def lower_prepared(
    given: Prepared,
    keep_maps: bool = False,
    is_checked: bool = True,
    packs: bool = False,
    vectorizes: bool = True,
    target: str | None = None,
    is_fixed: bool = False,
    unroll: int = 0,
) -> Lowered:
    """Compile the sequences of a model away.

    Parameters
    ----------
    given : Prepared
        It stays as it is.
    keep_maps : bool, optional
        If True, keep SequenceMap nodes, because the runtime has threads for them. Otherwise they become
        loops, if these have no sequence operators in the end.
    is_checked : bool, optional
        If True, give up a lowered model that onnx finds a fault in.
    packs : bool, optional
        If True, pack the other sequences, for a runtime without sequences: see `packed`.
    vectorizes : bool, optional
        If True, vectorize loops.
    target : str, optional
        With "openvino", also write what OpenVINO needs; with "portable", what most runtimes take: see
        `portable`.
    is_fixed : bool, optional
        If True, the inputs have fixed shapes: compute what is known then.
    unroll : int, optional
        The largest number of iterations of a loop that is written out.
    """
    is_rewritten = bool(target == "portable" or is_fixed or unroll)
    if not is_rewritten and not any(record_of(node).is_of_lists for node in given.model.graph.all_nodes()):
        return Lowered(given, [], [])
    if given.model.opset < OLDEST_OPSET and (is_fixed or unroll):
        raise ValueError(
            f"shapes and unroll need opset {OLDEST_OPSET} or later: the model has {given.model.opset}"
        )
    if given.model.opset < OLDEST_OPSET:
        why = f"stays a list: the model has opset {given.model.opset}, export it with {OLDEST_OPSET} or later"
        nodes = ((name, node) for name, (node, _) in given.producers.items() if given.is_sequence(name))
        return Lowered(given, [Note(name, node.name, False, why) for name, node in nodes], [])
    normal = given.model.copy()
    if target == "portable":
        normal.opsets[""] = oldest_opset(normal, given, OLDEST_OPSET)
    has_changed = packs and take_known_branches(normal, given)
    has_changed |= give_bounds_an_axis(normal, given)
    has_changed |= count_iterations(normal, given)
    has_changed |= prune(normal)
    known = given.again(normal, is_same=not has_changed)
    unrolled: dict[str, str] = {}
    written: list[LoopNote] = []
    if is_fixed or unroll:
        write_out_maps(normal, known, Builder(normal), set())
        known = fold_constants(given.again(normal))
    # Maps become loops on trial: where an operator is left that was written for one, it stays as it was.
    whole_maps = {node.name for node in normal.graph.all_nodes() if keep_maps and node.is_op("SequenceMap")}
    why_maps_stay: dict[str, str] = {}
    while True:
        trial = _Trial(known, whole_maps, packs, target)
        trial.run(vectorizes)
        if is_fixed or unroll:
            known, became = unroll_loops(known, trial.loops_left(), unroll)
            unrolled |= became
        else:
            known, became = unroll_loops(known, short_loops(known, trial.loops_left()))
            written += [LoopNote(name, True, "", written=text) for name, text in became.items()]
        if any(text.startswith(WRITTEN_OUT) for text in became.values()):
            continue
        if not (failed := trial.maps_left()):
            break
        for name in failed:
            why_maps_stay |= trial.why_map_stays(name)
        whole_maps |= failed
    trial.add_reasons(why_maps_stay)
    loops = [*trial.loops, *written]
    # Each copy of a loop's body has the sequences of the body.
    notes = [
        note for note in _Notes(known, trial).all() if note.value in given.producers or not note.is_lowered
    ]
    lowered = trial.prepared
    if drop_equal_nodes(lowered.model, lowered.small_constant):
        lowered = lowered.again(lowered.model)
    if target == "openvino" and trial.replaced:
        lowered = _for_openvino(lowered)
    if target == "portable":
        lowered = make_portable(lowered)
    elif is_fixed or unroll:
        lowered = fold_constants(lowered)
    if not is_rewritten and not trial.replaced and not any(note.is_vectorized for note in loops):
        return Lowered(given, notes, loops)
    if is_checked and (fault := new_fault(lowered.model, given.model)):
        # More is known of tensors than of sequences: that they never fit, for instance.
        if is_fixed:
            raise ValueError(f"shapes don't fit the model: {fault}")
        why = f"stays a list: a lowered model would not be valid: {fault}"
        return Lowered(given, [note._replace(is_lowered=False, text=why) for note in notes], loops)
    return Lowered(lowered, notes, loops, unrolled)


def with_few_iterations(lowered: Lowered) -> Prepared:
    """Return a lowered model whose loops are quick for few iterations too, for onnxruntime; it is changed."""
    kept = {note.loop for note in lowered.loops if note.otherwise == "loop" or note.is_padded}
    made = lowered.prepared
    keep_few_iterations(made, kept)
    prune(made.model)
    return made.again(made.model)


def new_fault(made: Model, given: Model) -> str:
    """Return what the checker finds in a model, "" if nothing, or if the given one has a fault too."""
    fault = _fault_of(made)
    return "" if fault and _fault_of(given) else fault


def _fault_of(model: Model) -> str:
    """Return what the checker finds in a model when it infers all shapes, "" if nothing.

    What the file says of its outputs' shapes does not count: of `unbind` exporters say other than they get.
    """
    message = to_message(model, weights_are_inputs=True)
    try:
        onnx.checker.check_model(message)
        for value in message.graph.output:
            forget_shape(value.type)
        onnx.shape_inference.infer_shapes(message, check_type=True, strict_mode=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        return one_line(error)
    return ""


def _for_openvino(prepared: Prepared) -> Prepared:
    """Return what is known of a model that was changed for OpenVINO."""
    model = prepared.model
    builder = Builder(model)
    keep_counts_from_negative(model, prepared, builder)
    cut_stacks_of_no_iteration(model, prepared, builder)
    drop_axes_of_conditions(model, prepared, builder)
    copy_outputs_of_ifs(model, prepared, builder)
    give_conditions_nodes(model)
    make_empty_constants(model)
    return prepared.again(model)


class _Trial:
    """A model lowered as far as possible, except some maps.

    Attributes
    ----------
    prepared : Prepared
        The lowered model.
    replaced : dict of str to str
        Sequences that are gone → what they became.
    packed : dict of str to str
        Those among them that were packed, states of loops too.
    reasons : dict of str to str
        Sequences that stay → why, if that is known.
    loops : list of LoopNote
    """

    def __init__(
        self,
        known: Prepared,
        whole_maps: set[str],
        packs: bool,
        target: str | None,
    ) -> None:
        self._known, self._packs = known, packs
        self.replaced: dict[str, str] = {}
        self.packed: dict[str, str] = {}
        self.reasons: dict[str, str] = {}
        self.loops: list[LoopNote] = []
        self._settled: set[str] = set()
        self._why_carried: dict[str, str] = {}
        self._model = known.model.copy()
        self._builder = Builder(self._model, target=target)
        # The copy's nodes are others, but its names are the same.
        self._written = write_out_maps(self._model, known, self._builder, whole_maps)
        self.prepared = known.again(self._model, is_same=not self._written)

    def run(self, vectorizes: bool) -> None:
        """Lower the model as far as that goes, with loops vectorized or not."""
        self._lower_all()
        outer = {node.name for node in self._model.graph.nodes}
        # A loop that is one operator may leave pieces where there was a list, and so free others; and one
        # inside of another frees that.
        while vectorizes and (done := self._vectorize()):
            if not self._lower_all() and done <= outer:
                break
            outer = {node.name for node in self._model.graph.nodes}
        if self._packs and self._has_lists():
            if prune(self._model):
                self.prepared = self._known.again(self._model)
            if self._replace(ALL) and drop_spares(self.prepared):
                prune(self._model)
                self.prepared = self._known.again(self._model)

    def _left(self) -> set[str]:
        """Return the names of what operators on sequences make that are left."""
        nodes = self.prepared.model.graph.all_nodes()
        return {name for node in nodes if record_of(node).is_of_lists for name in node.outputs}

    def _lower_all(self) -> bool:
        """Lower what can be until nothing changes; return whether there was something."""
        has_changed = False
        while self._has_lists() and (self._accumulate() or self._replace(VIEWS) or self._replace(OUTSIDE)):
            has_changed = True
        return has_changed

    def _accumulate(self) -> bool:
        """Make scan outputs of lists in loops; return whether there was one."""
        replaced, self._why_carried = accumulate_lists(self._model, self.prepared, self._builder, self._packs)
        return self._is_done(replaced)

    def _is_done(self, replaced: dict[str, str]) -> bool:
        """Note what became of sequences; return whether there was one."""
        self.replaced = replaced | self.replaced
        if replaced:
            self.prepared = self._known.again(self._model)
        return bool(replaced)

    def _replace(self, which: str) -> bool:
        """Replace lists by tensors; return whether there was one."""
        replaced, reasons = replace_lists(self._model, self.prepared, self._builder, which)
        if which != VIEWS:
            self.packed |= replaced
        if which != OUTSIDE:
            self.reasons = reasons if which == ALL else reasons | self._why_carried
        return self._is_done(replaced)

    def _vectorize(self) -> set[str]:
        """Make one operator of each loop where that goes; return which loops have changed."""
        notes = vectorize_loops(self._model, self.prepared, self._builder, self._settled, self._packs)
        done = [note for note in notes if note.is_vectorized or note.is_padded]
        self.loops = [*(note for note in self.loops if note.is_vectorized), *notes]
        if done:
            prune(self._model)
            self.prepared = self._known.again(self._model)
        return {note.loop for note in done}

    def _has_lists(self) -> bool:
        return any(record_of(node).is_of_lists for node in self.prepared.model.graph.all_nodes())

    def loops_left(self) -> set[str]:
        """Return the names of the loops that are left."""
        return {node.name for node in self.prepared.model.graph.all_nodes() if node.is_op("Loop")}

    def maps_left(self) -> set[str]:
        """Return the names of the maps whose loops still have sequence operators.

        For a runtime without threads for maps, a loop that only reads sequences is as good.
        """
        left = self._left()
        if self._packs:
            nodes = self.prepared.model.graph.all_nodes()
            left -= {name for node in nodes if record_of(node).only_reads for name in node.outputs}
        return {name for name, outputs in self._written.items() if outputs & left}

    def add_reasons(self, reasons: dict[str, str]) -> None:
        """Add reasons why sequences stay, where no other is known."""
        self.reasons = reasons | self.reasons

    def why_map_stays(self, name: str) -> dict[str, str]:
        """Return for each output of a map why it stays."""
        node = next(one for one in self._known.model.graph.all_nodes() if one.name == name)
        own = [self.reasons[one] for one in node.outputs if one in self.reasons]
        inputs = [one for one in node.inputs if self._known.is_sequence(one) and one not in self.replaced]
        if own:
            why = own[0]
        elif inputs:
            why = f"'{name}' maps over '{inputs[0]}', which stays"
        else:
            why = f"'{name}' can't be written as a loop"
        return dict.fromkeys(node.outputs, why)


class _Notes:
    """The notes on sequences, except those on states in loops."""

    def __init__(self, known: Prepared, trial: _Trial) -> None:
        self._known, self._trial = known, trial
        self._inputs = set(known.model.graph.inputs)

    def all(self) -> list[Note]:
        known, trial = self._known, self._trial
        left = {name for node in trial.prepared.model.graph.all_nodes() for name in node.outputs}
        parts = self._parts()
        notes = [
            Note(name, "", False, "stays a list: it is an input of the model")
            for name in known.model.graph.inputs
            if known.is_sequence(name)
        ]
        for name, (node, _) in known.producers.items():
            if name in trial.replaced and not (name in left and trial.prepared.is_sequence(name)):
                if name in trial.packed and name in parts:
                    continue
                notes.append(Note(name, node.name, True, trial.replaced[name]))
            elif not (known.is_sequence(name) or name in trial.reasons) or name not in left:
                continue
            elif name not in parts:
                notes.append(Note(name, node.name, False, f"stays a list: {self._why(name, node)}"))
        return notes

    def _parts(self) -> set[str]:
        """Return the names of the lists that loops start with, and of those inside a loop's body."""
        known, parts = self._known, set()
        for name, (node, _) in known.producers.items():
            if node.is_op("SequenceEmpty"):
                if all(reader is not None and reader.is_op("Loop") for reader, _ in known.readers[name]):
                    parts.add(name)
            elif _makes_from_one(node):
                source = node.inputs[0]
                if source in parts or (source not in known.producers and source not in self._inputs):
                    parts.add(name)
        return parts

    def _why(self, name: str, node: Node) -> str:
        if name in self._trial.reasons:
            return self._trial.reasons[name]
        if _makes_from_one(node):
            return f"it is made from '{node.inputs[0]}', which stays"
        if node.is_op("If"):
            return f"a branch of '{node.name}' makes it"
        return f"it comes from '{node.name}' ({node.op_type})"


def _makes_from_one(node: Node) -> bool:
    return node.is_op("SequenceInsert", "SequenceErase", "Identity")
