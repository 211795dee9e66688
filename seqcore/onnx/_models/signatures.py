"""Whether nodes fit the graphs in them: onnx's checker doesn't count the values that go in and come out."""

from onnx import helper

from seqcore.onnx._models.graphs import all_nodes


def check_signatures(model):
    """Raise ValueError where a node of a model doesn't fit a graph of its own, or an input has no type.

    The model is one that onnx's checker takes: its nodes have the graphs that they need.
    """
    _check_inputs(model.graph)
    functions = {(one.domain, one.name, one.overload): one for one in model.functions}
    for node in all_nodes(model):
        fault = ""
        if function := functions.get((node.domain, node.op_type, node.overload)):
            fault = _call(node, function)
        elif node.domain in ("", "ai.onnx") and node.op_type in _FAULTS:
            # What a function takes from its call is not known here.
            known = [one for one in node.attribute if not one.ref_attr_name]
            fault = _FAULTS[node.op_type](node, {one.name: helper.get_attribute_value(one) for one in known})
        if fault:
            name = node.name or next(filter(None, node.output), "")
            raise ValueError(f"the model is not valid: {node.op_type} '{name}' {fault}")


def _check_inputs(graph):
    defaults = {one.name: one.data_type for one in graph.initializer}
    for value in graph.input:
        kind = value.type
        while (which := kind.WhichOneof("value")) in ("sequence_type", "optional_type"):
            kind = getattr(kind, which).elem_type
        number = kind.tensor_type.elem_type
        if which is None or (which == "tensor_type" and not number):
            raise ValueError(f"the model is not valid: its input '{value.name}' is of no type")
        if value.name in defaults and (kind is not value.type or number != defaults[value.name]):
            raise ValueError(f"the model is not valid: the default of '{value.name}' is of another type")


def _call(node, function):
    for kind, outer, inner in (
        ("input", node.input, function.input),
        ("output", node.output, function.output),
    ):
        if len(outer) > len(inner):
            return f"has {_count(outer, kind)}, its function {len(inner)}"
    return ""


def _if(node, given):
    for name in ("then_branch", "else_branch"):
        branch = given[name]
        if len(branch.input):
            return f"has a {name} with inputs"
        if len(branch.output) != len(node.output):
            return f"has {_count(node.output, 'output')}, its {name} {len(branch.output)}"
    return ""


def _loop(node, given):
    body = given["body"]
    states = max(len(node.input) - 2, 0)
    if len(body.input) != 2 + states:
        return f"has {_count(range(states), 'state')}, its body {_count(body.input, 'input')}"
    if len(body.output) < 1 + states or len(node.output) > len(body.output) - 1:
        return (
            f"has {_count(range(states), 'state')} and {_count(node.output, 'output')}, "
            f"its body {_count(body.output, 'output')}"
        )
    return ""


def _scan(node, given):
    body, scanned = given["body"], given.get("num_scan_inputs")
    if scanned is None:
        return ""
    states = len(node.input) - scanned
    if scanned < 1 or states < 0:
        return f"has {_count(node.input, 'input')}, of which it can't scan {scanned}"
    if len(body.input) != len(node.input):
        return f"has {_count(node.input, 'input')}, its body {len(body.input)}"
    if len(body.output) < states or len(node.output) != len(body.output):
        return f"has {_count(node.output, 'output')}, its body {len(body.output)}"
    lengths = {"input": scanned, "output": len(body.output) - states}
    for kind, length in lengths.items():
        for name in (f"scan_{kind}_axes", f"scan_{kind}_directions"):
            if len(given.get(name, range(length))) != length:
                return f"has {_count(range(length), f'scan {kind}')}, but {len(given[name])} {name}"
    return ""


def _map(node, given):
    body = given["body"]
    for kind, outer, inner in (("input", node.input, body.input), ("output", node.output, body.output)):
        if len(outer) != len(inner):
            return f"has {_count(outer, kind)}, its body {len(inner)}"
    return ""


def _count(things, what):
    return f"{len(things)} {what}{'' if len(things) == 1 else 's'}"


_FAULTS = {"If": _if, "Loop": _loop, "Scan": _scan, "SequenceMap": _map}
