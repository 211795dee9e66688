"""onnx's reference evaluator, with a Loop of our own: in onnx 1.23 scan outputs get no new axis."""

import numpy as np
from onnx.reference import ReferenceEvaluator
from onnx.reference.ops import op_loop

from seqcore.onnx._model.tensors import declared_dtype


class Loop(op_loop.Loop):
    """Loop-1 and later, by ONNX's text."""

    op_domain = ""

    def _run(self, trips=None, going=None, *states, context=None, body=None, **rest):
        conditional = going is not None  # else what the body says of going on is ignored
        trips = None if trips is None else np.asarray(trips).item()
        going = not conditional or np.asarray(going).item()
        iteration, condition, *names = self.body.input_names
        iterations = []
        while going and (trips is None or len(iterations) < trips):
            numbers = {iteration: np.array(len(iterations)), condition: np.array(True)}
            values = (context or {}) | numbers | dict(zip(names, states, strict=True))
            goes_on, *outputs = self._run_body(values, **rest)
            states, scans = outputs[: len(names)], outputs[len(names) :]
            iterations.append(scans)
            if conditional or trips is None:
                going = np.asarray(goes_on).item()
        if iterations:
            return *states, *map(np.stack, zip(*iterations, strict=True))
        return *states, *map(_nothing, self._declared()[1 + len(names) :])

    def _declared(self):
        """What the body declares of its outputs."""
        return next(attribute.g for attribute in self.onnx_node.attribute if attribute.name == "body").output


def _nothing(output):
    """A scan output without iterations. Lengths that aren't declared are 0."""
    dtype = declared_dtype(output)
    if dtype is None:
        raise ValueError(f"the scan output '{output.name}' has no values, and its type is not known")
    return np.zeros([0, *(dim.dim_value for dim in output.type.tensor_type.shape.dim)], dtype)


def evaluator_of(model):
    """Return what runs a model in NumPy, node by node."""
    return ReferenceEvaluator(model, new_ops=[Loop])
