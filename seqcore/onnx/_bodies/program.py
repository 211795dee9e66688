"""A body for given types: what to run, and where each output comes from."""

import threading

from onnx import ModelProto

from seqcore.dtypes import STRING, type_name
from seqcore.onnx._bodies.flat import FlatForm, declared_extents, plan_flat
from seqcore.onnx._bodies.many import ManyRunner, run_singly
from seqcore.onnx._model.tensors import declared_dtype, dtype_of, from_tensor_proto, tensor_type
from seqcore.onnx._runtimes.runners import make_runner

# The number of elements from which a session of its own for flat arguments pays.
FLAT_PAYS = 160


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
        self._runner = make_runner(typed, self._label) if runs else None
        self.output_dtypes = tuple(self._output_dtypes(model.graph.output))
        self._many = ManyRunner(self, typed, self._fed) if runs and self._runner.copies_well else None
        self._typed = typed
        self._extents = tuple(map(declared_extents, model.graph.input))
        self._flat_plan = plan_flat(typed) if runs and self._runner.copies_well else None
        self._flat = {}  # the names of whole inputs → its form, None if it has none
        self._building = threading.Lock()
        self._asked = 0  # elements so far; two threads may lose a count, which only delays a decision
        plain = [("run", k) for k in range(len(typed.graph.output))]
        self._plain = runs and self._sources == plain

    def _drop_the_unused(self, typed):
        computed = {}
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
    computed = {}
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
