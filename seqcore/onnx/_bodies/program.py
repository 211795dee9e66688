"""Running a body for many elements: in copies, or singly.

A run of a session costs about 4 µs, whatever it computes. Small elements share that cost: one model holds the
body several times, and each copy takes a row. That gives the same bits as singly. Bodies with control flow,
random numbers, many nodes or large constants run singly, as do large elements: threads can share those out
more evenly. Elementwise bodies go another way before: see `FlatForm`.
"""

from __future__ import annotations

import threading
from typing import Any

from onnx import ModelProto, TensorProto

from seqcore.dtypes import STRING, type_name
from seqcore.onnx._model.load import operators_of
from seqcore.onnx._model.record import record_named
from seqcore.onnx._model.tensors import declared_dtype, dtype_of, from_tensor_proto, one_line, tensor_type
from seqcore.onnx._model.writing import forget_shape
from seqcore.onnx._once import Once
from seqcore.onnx._runtimes.runners import SessionRunner, make_runner
from seqcore.onnx._runtimes.sessions import REFUSALS, Refused
from seqcore.onnx._thresholds import (
    A_NODE_MORE,
    COPIES,
    COPIES_PAY,
    FLAT_PAYS,
    LEAST_ROWS,
    MOST_ARGUMENT_NBYTES,
    MOST_BUILT,
    MOST_COPIED_NBYTES,
    MOST_COPIED_NODES,
)


def run_singly(run, rows, start=0):
    """Return `run(row)` for each row; its exception gets the row's index, counted from `start`."""
    results = []
    try:
        for arrays in rows:
            results.append(run(arrays))
    except Exception as error:
        error.seqcore_element = start + len(results)  # type: ignore[attr-defined]
        raise
    return results


class ManyRunner:
    """Runs a program for many rows, each by the quicker of the ways that it can go.

    Parameters
    ----------
    program : Program
        Its `run` serves one row, its `assemble` makes rows of outputs from columns.
    model : ModelProto
        As the runtime has it: typed, its outputs distinct, its inputs those that are used.
    fed : list of (str, int)
        The inputs and which argument each of them is.

    Attributes
    ----------
    ncopies, nrefused : int
        The numbers of rows that ran in copies, and of those that onnxruntime refused so.
    why_no_copies : str
        The error of onnxruntime if it refused a model of copies.
    """

    def __init__(self, program, model, fed):
        self._program = program
        self._model = model
        self._fed = fed
        self._can_copy = bool(fed) and can_copy(model)
        self._built = {}  # names of whole arguments → what runs it in copies
        self._asked = 0  # elements so far; two threads may lose a count, which only delays a decision
        self.ncopies = self.nrefused = 0
        self.why_no_copies = ""

    def run(self, rows):
        """Return the outputs for each row of arguments, as a list of tuples."""
        n = len(rows)
        self._asked += n
        if n < LEAST_ROWS or not self._can_copy:
            return run_singly(self._program.run, rows)
        whole = self._whole(rows)
        varying = [i for name, i in self._fed if name not in whole]
        results: list[Any] = []
        while (start := len(results)) < n:
            group = rows[start : start + COPIES]
            nbytes = sum(rows[start][i].nbytes for i in varying)
            is_small = nbytes <= MOST_ARGUMENT_NBYTES and n - start >= LEAST_ROWS
            copies = self._copies(whole) if is_small else None
            done = self._attempt(copies, group) if copies else None
            results += done or run_singly(self._program.run, group, start)
        return results

    def _whole(self, rows):
        """Return the names of the inputs whose argument is one object in all rows, none if all are."""
        first, last = rows[0], rows[-1]
        whole = frozenset(
            name
            for name, i in self._fed
            if last[i] is first[i] and all(arrays[i] is first[i] for arrays in rows)
        )
        return whole if len(whole) < len(self._fed) else frozenset()

    def _attempt(self, copies, rows):
        try:
            results = copies.run(rows)
        except Refused:
            self.nrefused += len(rows)
            return None  # singly they fail again: at the right row, with the message for it
        self.ncopies += len(rows)
        return self._program.assemble(rows, results)

    def _copies(self, whole):
        """Return what runs rows in copies, None if that doesn't pay yet, or another thread builds it."""
        if whole not in self._built:
            pays = COPIES_PAY + A_NODE_MORE * len(self._model.graph.node)
            if self._asked < pays or len(self._built) >= MOST_BUILT:
                return None
            self._built.setdefault(whole, Once(lambda: self._build(whole)))
        return self._built[whole].get_unless_busy()

    def _build(self, whole):
        try:
            return Copies(self._model, self._fed, whole)
        except REFUSALS as refusal:  # it was only for speed
            self.why_no_copies = one_line(refusal)
            return None


# A model that holds a body several times, so that one run serves several elements.


_PURE_DOMAINS = ("", "ai.onnx.ml")


def can_copy(model):
    """Return whether copies of a model's graph in one graph do what it does: quickly, and with its bits."""
    return (
        len(model.graph.node) <= MOST_COPIED_NODES
        and not any(one.HasField("g") or one.graphs for node in model.graph.node for one in node.attribute)
        # Copies with a seed would draw the same numbers; operators of other domains may do anything.
        and all(
            not record_named(name).draws and domain in _PURE_DOMAINS for domain, name in operators_of(model)
        )
        and not model.functions
        and not model.graph.sparse_initializer
        and model.ByteSize() <= MOST_COPIED_NBYTES
    )


class Copies:
    """A body in `COPIES` copies, each with arguments of its own except the broadcast ones."""

    def __init__(self, model, fed, whole):
        self._varying = [i for name, i in fed if name not in whole]
        self._whole = [(name, i) for name, i in fed if name in whole]
        copied = _copied(model, whole)
        self._names = [value.name for value in copied.graph.input][len(self._whole) :]
        self._outputs = len(model.graph.output)
        self._runner = SessionRunner(copied)

    def run(self, rows):
        """Return a list for each output, with the result for each of at most `COPIES` rows."""
        n = len(rows)
        if n < COPIES:
            # A body is pure: what it computes again for the last row is thrown away.
            rows = rows + [rows[-1]] * (COPIES - n)
        values = (arrays[i] for arrays in rows for i in self._varying)
        feed = dict(zip(self._names, values, strict=True))
        for name, i in self._whole:
            feed[name] = rows[0][i]
        try:
            results = self._runner.run(feed)
        except REFUSALS as refusal:
            raise Refused(str(refusal)) from refusal
        return [results[k :: self._outputs][:n] for k in range(self._outputs)]


def _copied(model, whole):
    copied = ModelProto()
    copied.CopyFrom(model)
    graph = copied.graph
    for field in ("node", "input", "output", "value_info", "quantization_annotation"):
        graph.ClearField(field)
    graph.input.extend(value for value in model.graph.input if value.name in whole)
    # Constants are one for all. Other names get the copy's number; they are short since each is looked up.
    taken = {one.name for one in graph.initializer} | whole
    own = [value.name for value in model.graph.input if value.name not in whole]
    own += [name for node in model.graph.node for name in node.output if name]
    for k in range(COPIES):
        names = {name: name for name in taken} | {"": ""}
        for i, name in enumerate(own):
            names[name] = _fresh(f"{i}.{k}", taken)
        for value in model.graph.input:
            if value.name not in whole:
                graph.input.add().CopyFrom(value)
                graph.input[-1].name = names[value.name]
                _forget_symbols(graph.input[-1])
        for node in model.graph.node:
            one = graph.node.add()
            one.CopyFrom(node)
            one.name = f"{node.name}.{k}" if node.name else ""
            one.input[:] = [names[name] for name in node.input]
            one.output[:] = [names[name] for name in node.output]
        for value in model.graph.output:
            graph.output.add().CopyFrom(value)
            graph.output[-1].name = names[value.name]
            _forget_symbols(graph.output[-1])
    return copied


def _forget_symbols(value):
    """Clear the names for lengths: another copy's row may be of other lengths, which onnxruntime refuses."""
    for dim in value.type.tensor_type.shape.dim:
        dim.ClearField("dim_param")


def _fresh(name, taken):
    while name in taken:
        name += "."
    return name


# A body for given types: what to run, and where each output comes from.


class Program:
    """A body for one combination of input types.

    Outputs that no node computes (an input, an initializer, the same output again) never reach the runtime,
    which would refuse some of them: `_sources` says for each output what it is a copy of.
    """

    def __init__(self, model, dtypes):
        self._label = f"the body '{model.graph.name}'"
        self._dtypes = dtypes
        self.takes_strings = STRING in dtypes
        typed = ModelProto()
        typed.CopyFrom(model)
        for value, dtype in zip(typed.graph.input, dtypes, strict=True):
            value.type.tensor_type.elem_type = tensor_type(dtype)
        for value in typed.graph.output:
            if declared_dtype(value) is None:
                value.ClearField("type")  # onnxruntime infers a type that is missing, but reads 0 as an error
        self._sources = list(_sources(typed))
        self._drop_the_unused(typed)
        # Which arguments the runtime gets.
        names = [value.name for value in model.graph.input]
        self._fed = [(value.name, names.index(value.name)) for value in typed.graph.input]
        runs = bool(typed.graph.output)
        self._runner: Any = make_runner(typed, self._label) if runs else None
        self.output_dtypes = tuple(self._output_dtypes(model.graph.output))
        copies_well = self._runner is not None and self._runner.copies_well
        self._many = ManyRunner(self, typed, self._fed) if copies_well else None
        self._typed = typed
        self._extents = tuple(map(declared_extents, model.graph.input))
        self._flat_plan = plan_flat(typed) if copies_well else None
        self._flat = {}  # the names of whole inputs → its form, None if it has none
        self._building = threading.Lock()
        self._asked = 0  # elements so far; two threads may lose a count, which only delays a decision
        plain = [("run", k) for k in range(len(typed.graph.output))]
        self._plain = runs and self._sources == plain

    def _drop_the_unused(self, typed):
        computed: dict[str, Any] = {}
        for value, (kind, _) in zip(typed.graph.output, self._sources, strict=True):
            if kind == "run":
                computed.setdefault(value.name, value)
        outputs = list(computed.values())
        used = _used_names(typed.graph)
        inputs = [value for value in typed.graph.input if value.name in used]
        for values, kept in ((typed.graph.output, outputs), (typed.graph.input, inputs)):
            kept = [_copy(value) for value in kept]
            del values[:]
            values.extend(kept)

    def _output_dtypes(self, outputs):
        for value, (kind, what) in zip(outputs, self._sources, strict=True):
            if kind == "run":
                dtype = self._runner.output_dtypes[what]
                if dtype is None and self._runner.output_types:
                    raise ValueError(
                        f"output '{value.name}' of {self._label} is a {self._runner.output_types[what]}, "
                        "none of the tensors that sequences have"
                    )
            else:
                dtype = self._dtypes[what] if kind == "input" else what.dtype
            declared = declared_dtype(value)
            if declared is not None and dtype is not None and dtype != declared:
                raise ValueError(
                    f"{self._label} is not a valid graph: it declares its output '{value.name}' as "
                    f"{type_name(declared)}, but it is {type_name(dtype)}"
                )
            yield declared if dtype is None else dtype

    def run(self, arrays):
        """Return the outputs for one element's arguments, as a tuple."""
        return self._run(arrays, self._runner)

    def _run(self, arrays, runner):
        computed = runner.run({name: arrays[i] for name, i in self._fed}) if runner else ()
        return tuple(computed) if self._plain else tuple(self._outputs(arrays, computed))

    def flat_form(self, whole, elements):
        """Return the `FlatForm` where the arguments of these numbers are whole; None if there is none.

        A session costs half a millisecond: it is made once there have been `elements` enough, here and in
        calls before, to pay for it.
        """
        self._asked += elements
        if self._given_whole(whole):
            return None  # not kept: forms are kept by the inputs that are fed
        names = frozenset(name for name, i in self._fed if i in whole)
        try:
            return self._flat[names]
        except KeyError:
            pass
        if self._flat_plan is None or not self._flat_plan.allows(names):
            self._flat[names] = None
            return None
        free = all(self._extents[i] is None for name, i in self._fed if name not in names)
        if not free and self._asked < FLAT_PAYS:
            return None
        with self._building:
            if names not in self._flat:
                runner = self._runner if free else self._flat_plan.build(self._typed, names)
                self._flat[names] = FlatForm(self._run, runner, self._flat_plan.shapes, self._extents)
            return self._flat[names]

    def _given_whole(self, whole):
        """Return whether an output is a constant or a broadcast argument."""
        return any(kind == "constant" or (kind == "input" and what in whole) for kind, what in self._sources)

    def run_many(self, rows):
        """Return the outputs for each row of arguments, as a list of tuples."""
        if self._many is not None:
            return self._many.run(rows)
        return run_singly(self.run, rows)

    def assemble(self, rows, columns):
        """Return the outputs for rows, where `columns` has a list for each of the runtime's outputs."""
        if self._plain:
            return list(zip(*columns, strict=True))
        return [
            tuple(self._outputs(arrays, computed))
            for arrays, computed in zip(rows, zip(*columns, strict=True), strict=True)
        ]

    def _outputs(self, arrays, computed):
        given = set()
        for kind, what in self._sources:
            if kind == "input":
                yield arrays[what].copy()
            elif kind == "constant":
                yield what.copy()
            elif what in given:
                yield computed[what].copy()
            else:
                given.add(what)
                yield computed[what]


def _sources(model):
    """Yield for each output of a model where it comes from: an input, a constant, or the runtime's n-th."""
    inputs = {value.name: i for i, value in enumerate(model.graph.input)}
    constants = {one.name: one for one in model.graph.initializer}
    computed: dict[str, int] = {}
    for output in model.graph.output:
        name = output.name
        if name in inputs:
            yield "input", inputs[name]
        elif name in constants and dtype_of(constants[name].data_type) is not None:
            yield "constant", from_tensor_proto(constants[name])
        else:
            yield "run", computed.setdefault(name, len(computed))


def _used_names(graph):
    """Return the names that nodes read, in all depths: more than a graph's own where they are shadowed."""
    used = set()
    for node in graph.node:
        used.update(node.input)
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                used |= _used_names(inner) | {output.name for output in inner.output}
    return used


def _copy(value):
    copy = type(value)()
    copy.CopyFrom(value)
    return copy


# Elementwise bodies: one run for many elements, whatever their shapes.
#
# Each number of such a body's outputs depends on one number of each element, and on tensors and constants
# that are broadcast to the element. So it gives the same for the items of many elements in a row, cut back:
#
#     x: [[1 2] [3 4]], [5 6]          x: [1 2 3 4 5 6]
#     Exp(x) * 2, twice                Exp(x) * 2, once
#
# The last bits may differ, as in any batch: where a vector instruction ends, a tensor's last numbers go
# another way, and which numbers are last is not the same.

# Before, binary operators broadcast by attributes.
_OLDEST_OPSET = 7
# Numbers that onnxruntime casts to one by one. Not uint32: of floats out of its range, which is undefined, a
# tensor's last numbers become others than those before them.
_NUMBERS = frozenset(
    (
        *(TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BOOL),
        *(TensorProto.INT8, TensorProto.INT16, TensorProto.INT32, TensorProto.INT64),
        *(TensorProto.UINT8, TensorProto.UINT16, TensorProto.UINT64),
    )
)


def plan_flat(model):
    """Return the `FlatPlan` of a typed model, None where it is not elementwise."""
    domains = {one.domain: one.version for one in model.opset_import}
    graph = model.graph
    if domains.get("", 0) < _OLDEST_OPSET or graph.sparse_initializer:
        return None
    dtypes = [declared_dtype(value) for value in graph.input]
    if not all(dtype is not None and dtype.kind in "biuf" for dtype in dtypes):
        return None
    reads = {value.name: frozenset([value.name]) for value in graph.input}
    reads |= {constant.name: frozenset() for constant in graph.initializer}
    shapes = [tuple(constant.dims) for constant in graph.initializer]
    whole = []  # what bounds and slopes are computed from
    for node in graph.node:
        if node.domain:
            return None
        if node.op_type == "Constant":
            shape = _shape_of_constant(node)
            if shape is None:
                return None
            shapes.append(shape)
        elif node.op_type in ("Clip", "PRelu"):
            whole += [reads[name] for name in node.input[1:] if name]
        elif not _works_by_number(node):
            return None
        # The second input of CastLike contributes a type only.
        names = node.input[:1] if node.op_type == "CastLike" else node.input
        own = frozenset().union(*(reads[name] for name in names if name))
        reads |= dict.fromkeys(node.output, own)
    return FlatPlan([reads[output.name] for output in graph.output], frozenset().union(*whole), shapes)


def _works_by_number(node):
    if node.op_type in ("Cast", "CastLike"):
        # To strings a number takes more than one.
        return all(attribute.i in _NUMBERS for attribute in node.attribute if attribute.name == "to")
    record = record_named(node.op_type)
    return record.broadcasts or record.elementwise


def _shape_of_constant(node):
    """Return the shape of a constant's value, None if it isn't a dense tensor."""
    if len(node.attribute) == 1:
        (attribute,) = node.attribute
        if attribute.name == "value":
            return tuple(attribute.t.dims)
        if attribute.name in ("value_float", "value_int"):
            return ()
        if attribute.name in ("value_floats", "value_ints"):
            return (len(attribute.floats) + len(attribute.ints),)
    return None


class FlatPlan:
    """A body that is elementwise, before it is known which arguments are broadcast.

    Attributes
    ----------
    shapes : list of tuple of int
        Those of the constants, which elements must be broadcast with to their own shape.
    """

    def __init__(self, reads, never_varying, shapes):
        self._reads = reads  # for each output the names of the inputs that it depends on
        self._never_varying = never_varying  # the names of inputs that must be whole
        self.shapes = shapes

    def allows(self, whole):
        """Return whether each output has the shape of what varies; `whole` names the inputs that don't."""
        return all(names - whole for names in self._reads) and self._never_varying <= whole

    def build(self, model, whole):
        """Return a runner of a model whose inputs, except those named, take any shape."""
        flat = ModelProto()
        flat.CopyFrom(model)
        for value in flat.graph.input:
            if value.name not in whole:
                forget_shape(value.type)
        for value in flat.graph.output:
            value.ClearField("type")
        del flat.graph.value_info[:]
        return SessionRunner(flat)


def declared_extents(value):
    """The extents that onnxruntime holds an input to, -1 for any; None where it takes every rank."""
    tensor = value.type.tensor_type
    if not tensor.HasField("shape"):
        return None
    return tuple(dim.dim_value if dim.HasField("dim_value") else -1 for dim in tensor.shape.dim)


class FlatForm:
    """A body that takes the items of many elements at once, with some of its arguments whole.

    Attributes
    ----------
    shapes : list of tuple of int
        Of the constants that elements are broadcast with. None may make an element larger.
    extents : tuple
        For each argument what its elements must have: a tuple with -1 for any extent, or None for all shapes.
    """

    def __init__(self, run, runner, shapes, extents):
        self._run, self._runner = run, runner
        self.shapes, self.extents = shapes, extents

    def run(self, arguments):
        """Return the outputs for a list of arguments: a tuple of arrays, each of the arguments' shape."""
        return self._run(arguments, self._runner)
