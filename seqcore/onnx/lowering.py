"""lower: a model's sequences compiled away, for runtimes that are slow with them or don't have them."""

from typing import NamedTuple

import onnx

from seqcore.onnx._lowering.build import Builder, node_key
from seqcore.onnx._lowering.forms import Form, label, opset_of
from seqcore.onnx._lowering.lists import LIST_EDITS, Listed, find_lists
from seqcore.onnx._lowering.loops import find_loop_lists
from seqcore.onnx._lowering.maps import write_out_maps
from seqcore.onnx._lowering.prune import drop_aliases, is_op, prune, read_names
from seqcore.onnx._lowering.splits import find_splits
from seqcore.onnx._lowering.weights import with_weights, without_weights
from seqcore.onnx._models.declared import forget_states
from seqcore.onnx._models.facts import Facts
from seqcore.onnx._models.graphs import all_nodes
from seqcore.onnx._models.normal import copied, normal_form
from seqcore.onnx._models.reading import check_model, folder_of, load_model, with_external_data
from seqcore.onnx._models.runners import one_line
from seqcore.onnx._models.sinking import sink_constants

__all__ = ["Note", "lower", "lower_with_report"]

_SEQUENCE_OPS = (
    *("SequenceConstruct", "SequenceEmpty", "SequenceInsert", "SequenceErase", "SequenceAt"),
    *("SequenceLength", "SequenceMap", "SplitToSequence", "ConcatFromSequence"),
)


class Note(NamedTuple):
    """What became of a sequence: its name, the node that makes it, whether it is gone, and how or why not."""

    value: str
    node: str
    is_lowered: bool
    text: str

    def __str__(self):
        return f"'{self.value}' {self.text}"


def lower(model):
    """Return a model that computes the same with its sequences compiled away, where they can be.

    A list that a loop appends to becomes a scan output of the loop; what is picked from a split becomes a
    Gather, a Slice or the output of a Split; a list whose elements are known before the run becomes those; a
    SequenceMap becomes a loop with scan outputs. A sequence stays where one of its readers needs it as such,
    and where tensors would be wrong: if elements may differ in shape, for instance. Errors stay errors:
    joining an empty sequence fails in the lowered model too, and so does a position that is out of range.

    Parameters
    ----------
    model : ModelProto, bytes, str or os.PathLike
        A model, a serialized one, or the path to a model file, whose external data are loaded with it.

    Returns
    -------
    ModelProto
        A model of its own memory: the argument never changes. Inputs, outputs, opsets and metadata are as
        they were. Where nothing could be lowered the model comes back as it is; else functions are inlined,
        and what no output needs is gone.

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
    """
    return lower_with_report(model)[0]


def lower_with_report(model, keep_maps=False):
    """Return what `lower` returns, and a `Note` for each sequence.

    Parameters
    ----------
    model : ModelProto, bytes, str or os.PathLike
        As for `lower`, which tells what is raised.
    keep_maps : bool, optional
        Whether SequenceMap nodes stay, for a runtime that has threads for them.

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
    given = with_external_data(load_model(model), folder_of(model))
    hollow = without_weights(given)
    check_model(hollow)
    if not any(is_op(node, *_SEQUENCE_OPS) for node in all_nodes(hollow)):
        return copied(given), []
    normal = normal_form(hollow)
    drop_aliases(normal, Facts(normal).is_sequence)
    prune(normal)
    lowering = _Lowering(normal, keep_maps)
    if not lowering.became:
        return copied(given), lowering.notes()
    sink_constants(lowering.model.graph)
    # A runtime would believe what is declared on the way, and leave out checks that find it wrong.
    forget_states(lowering.model.graph)
    fault = _fault_of(lowering.model)
    if fault and not _fault_of(hollow):
        # More is known of tensors than of sequences: that they never fit, for instance.
        why = f"stays: a lowered model would not be valid: {fault}"
        return copied(given), [note._replace(is_lowered=False, text=why) for note in lowering.notes()]
    return with_weights(lowering.model, given), lowering.notes()


def _fault_of(model):
    """Return what the checker finds in a model when it infers all shapes, "" if nothing."""
    try:
        onnx.checker.check_model(model, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        return one_line(error)
    return ""


class _Lowering:
    """A model in normal form, lowered as far as it goes.

    Attributes
    ----------
    model : ModelProto
        The lowered model.
    became : dict of str to str
        Sequences that are gone → what they became.
    stays : dict of str to str
        Sequences that stay → why, for those of which something is known.
    """

    def __init__(self, normal, keep_maps):
        self._facts = Facts(normal, believes=False)
        self._maps = {}  # the outputs of maps that stay → why
        kept = set()
        if keep_maps:
            kept = {node_key(node) for node in all_nodes(normal) if is_op(node, "SequenceMap")}
        while True:
            # Maps are written out on trial: where an operator of a map's loop is left, the map stays.
            self.model = copied(normal)
            self.became, self.stays = {}, {}
            builder = Builder(self.model, opset_of(normal))
            written = write_out_maps(self.model, self._facts, builder, kept)
            while self._lower_once(builder):
                pass
            left = {
                name for node in all_nodes(self.model) if is_op(node, *_SEQUENCE_OPS) for name in node.output
            }
            failed = {key for key, outputs in written.items() if outputs & left}
            if not failed:
                break
            for key in failed:
                self._explain_map(key)
            kept |= failed

    def _lower_once(self, builder):
        """Lower what can be in the model as it is; return whether there was something."""
        facts = self._last = Facts(self.model, believes=False)
        forms, self.stays = {}, {}
        for find in (find_loop_lists, find_splits, find_lists):
            for name, form in find(facts):
                (forms if isinstance(form, Form) else self.stays)[name] = form
        read = read_names(self.model)
        # A list goes only if each edit of it does: those come after it.
        for name in reversed(list(forms)):
            if why := _why_not(name, forms[name], facts, forms, read):
                self.stays[name] = why
                del forms[name]
        for name, form in forms.items():
            form.plan(facts, name, read)
            form.prepare(builder, facts)
            for node, _ in facts.readers[name]:
                if not is_op(node, *LIST_EDITS):
                    nodes = builder.instead(node)
                    form.serve(node, nodes, facts, node.output[0] in read)
            self.became[name] = form.became
        builder.apply()
        prune(self.model)
        return bool(forms)

    def _explain_map(self, key):
        node, _ = self._facts.producers[key]
        own = [self.stays[name] for name in node.output if name in self.stays]
        inputs = [name for name in node.input if self._facts.is_sequence(name) and name not in self.became]
        if own:
            why = own[0]
        elif inputs:
            why = f"{label(node)} maps over '{inputs[0]}', which stays"
        else:
            why = f"{label(node)} can't be written as a loop"
        self._maps |= dict.fromkeys(node.output, why)

    def notes(self):
        """Return a `Note` for each sequence that there was, but for the states in loops."""
        facts = self._facts
        left = {name for node in all_nodes(self.model) for name in node.output}
        parts = self._parts()
        notes = [
            Note(value.name, "", False, "stays: it is an input of the model")
            for value in self.model.graph.input
            if facts.is_sequence(value.name)
        ]
        for name, (node, _) in facts.producers.items():
            if name in self.became:
                notes.append(Note(name, node.name, True, self.became[name]))
            elif not (facts.is_sequence(name) or name in self.stays) or name not in left:
                continue
            elif name not in parts:
                notes.append(Note(name, node.name, False, f"stays: {self._why(name, node)}"))
        return notes

    def _parts(self):
        """Return the names of what loops start with, and of what is on its way through a loop's body."""
        facts = self._facts
        inputs = {value.name for value in self.model.graph.input}
        parts = set()
        for name, (node, _) in facts.producers.items():
            if is_op(node, "SequenceEmpty"):
                if all(is_op(reader, "Loop") for reader, _ in facts.readers[name]):
                    parts.add(name)
            elif is_op(node, *LIST_EDITS, "Identity"):
                source = node.input[0]
                if source in parts or (source not in facts.producers and source not in inputs):
                    parts.add(name)
        return parts

    def _why(self, name, node):
        if name in self._maps:
            return self._maps[name]
        if name in self.stays:
            return self.stays[name]
        if is_op(node, *LIST_EDITS, "Identity"):
            return f"it is made from '{node.input[0]}', which stays"
        if is_op(node, "If"):
            return f"a branch of {label(node)} makes it"
        return f"it comes from {label(node)} ({node.op_type})"


def _why_not(name, form, facts, forms, read):
    """Return why a sequence can't be lowered, "" if all its readers can do without it."""
    for node, _ in facts.readers[name]:
        if isinstance(form, Listed) and is_op(node, *LIST_EDITS) and node.output[0] in forms:
            continue
        if why := form.why_not(node, facts, read):
            return why
    return ""
