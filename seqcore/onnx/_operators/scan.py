"""Scan: a graph along an axis of tensors."""

from seqcore.onnx._model.record import Operator, axis_from_front, register
from seqcore.onnx._model.types import NEVER, tensor
from seqcore.onnx._operators.if_ import count_of


@register("Scan")
class Scan(Operator):
    verb = "takes it in"

    def fault(self, node):
        if not all(node.inputs):
            return "has an input without a name"
        body, scanned = node.body, node.attribute("num_scan_inputs")
        if scanned is None:
            return ""
        states = len(node.inputs) - scanned
        if scanned < 1 or states < 0:
            return f"has {count_of(node.inputs, 'input')}, and can't scan {scanned} of them"
        if len(body.inputs) != len(node.inputs):
            return f"has {count_of(node.inputs, 'input')}, its body {len(body.inputs)}"
        if len(body.outputs) < states or len(node.outputs) != len(body.outputs):
            return f"has {count_of(node.outputs, 'output')}, its body {len(body.outputs)}"
        lengths = {"input": scanned, "output": len(body.outputs) - states}
        for kind, length in lengths.items():
            for name in (f"scan_{kind}_axes", f"scan_{kind}_directions"):
                given = node.attribute(name, range(length))
                if len(given) != length:
                    return f"has {count_of(range(length), f'scan {kind}')}, but {len(given)} {name}"
        return ""

    def infer(self, node, known):
        body, scanned = node.body, node.attribute("num_scan_inputs", 0)
        states = len(node.inputs) - scanned
        axes = node.attribute("scan_input_axes", [0] * scanned)
        for name, inner, axis in zip(node.inputs[states:], body.inputs[states:], axes, strict=False):
            known.types[inner] = _row_of(known.type(name), axis)
        # Before opset 9 the first input is one of lengths, and the batch has an axis of its own.
        initial = [known.type(name) for name in node.inputs[:states]]
        known.follow_loop(body, body.inputs[:states], body.outputs[:states], initial)
        final = [known.type(name) for name in body.inputs[:states]]
        length = None
        for name, axis in zip(node.inputs[states:], axes, strict=False):
            shape = known.shape(name)
            k = None if shape is None else axis_from_front(axis, len(shape))
            length = shape[k] if length is None and shape is not None and k is not None else length
        scans = body.outputs[states:]
        into = node.attribute("scan_output_axes", [0] * len(scans))
        stacked = [_stacked(known.type(name), axis, length) for name, axis in zip(scans, into, strict=False)]
        if known.model.opset < 9:
            stacked = [tensor(type_.number) for type_ in stacked]
        return [*final, *stacked]


def _row_of(type_, axis):
    if type_.shape is None:
        return tensor(type_.number)
    k = axis_from_front(axis, len(type_.shape))
    return tensor(type_.number, None if k is None else type_.shape[:k] + type_.shape[k + 1 :])


def _stacked(type_, axis, length):
    """Return the type of a scan output: that of a row, with an axis more."""
    if type_.shape is None or type_.shape == NEVER:
        return tensor(type_.number)
    # Without an iteration, lengths that only have a name are 0.
    shape = [one if isinstance(one, int) else None for one in type_.shape]
    k = axis_from_front(axis, len(shape) + 1)
    return tensor(type_.number, None if k is None else (*shape[:k], length, *shape[k:]))
