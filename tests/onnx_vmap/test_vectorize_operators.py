"""Each operator with a batching rule, in a loop of one node: at once, it does what its iterations do.

The nodes are those of the tests of inference. Each tensor that one takes is another in each iteration, or the
same for all; axes and shapes are constants or fed.
"""

import re

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from support.models.lowering import session
from support.models.operator_cases import CASES
from support.models.vectorizing import check_same, vectorized
from support.random_cases import seeds

from seqcore.onnx._model import record
from seqcore.onnx._model.tensors import tensor_type, to_tensor_proto

OPSETS = [14, 17, 21]
ROWS = 3
PRODUCTS = ("MatMul", "Gemm")  # whose sides have ranks of their own
TRIPS = (0, 1, ROWS, ROWS + 1)  # the last is one too many
WITH_RULE = sorted(
    name
    for name, one in record._RECORDS.items()
    if one.batch_rule is not None and name in CASES and onnx.defs.has(name, OPSETS[-1])
)


# Why a loop of these nodes may go iteration by iteration.
MAY_STAY = re.compile(
    "works on strings|goes by another '|only a run tells|is not known"
    "|without axes where one is wanted|may reduce no axes|(makes|cuts) another|cuts with a step"
)


class Body:
    """A loop around a node, and its feed."""

    def __init__(self, op_type, case, opset, rng):
        self.opset, self.rng = opset, rng
        self.inputs, self.constants, self.feed, self.outside, self.nodes = [], [], {}, [], []
        self.rows = {}  # a name in the body → the tensor of the first iteration
        tensors = [k for k, one in enumerate(case.inputs) if one is not None and one.ways == ("fed",)]
        leading = rng.integers(len(tensors)) if tensors and rng.integers(2) else 0
        self.leading = tensors[leading] if tensors else None  # it varies, others may
        names = [self.given(k, one) for k, one in enumerate(case.inputs)]
        noutputs = case.outputs if op_type in ("Split", "TopK") else 1  # of others only the first is needed
        self.results = [f"e{k}" for k in range(noutputs)]
        self.node = helper.make_node(op_type, names, self.results, **case.attributes)

    def declared(self, name, array):
        self.inputs.append(helper.make_tensor_value_info(name, tensor_type(array.dtype), array.shape))
        self.feed[name] = array

    def given(self, k, one):
        if one is None:
            return ""
        name, way = f"v{k}", one.ways[self.rng.integers(len(one.ways))]
        self.rows[name] = one.array
        if way == "constant":
            self.constants.append(to_tensor_proto(np.asarray(one.array), name))
        elif way == "shape":
            self.declared(f"x{k}", np.zeros(tuple(one.array), np.float32))
            self.outside.append(helper.make_node("Shape", [f"x{k}"], [name]))
        elif way == "fed" and self.rng.random() < (1 if k == self.leading else 0.3):
            flat = one.array.reshape(-1)
            others = [self.rng.permutation(flat).reshape(one.array.shape) for _ in range(ROWS - 1)]
            self.declared(f"x{k}", np.stack([one.array, *others]))
            self.nodes.append(helper.make_node("Gather", [f"x{k}", "i"], [name]))
        else:
            self.declared(name, one.array)
        return name

    def results_of_one(self):
        """What the node gives in onnxruntime for the first iteration; None if it doesn't run it."""
        inputs = [
            helper.make_tensor_value_info(name, tensor_type(array.dtype), array.shape)
            for name, array in self.rows.items()
        ]
        outputs = [onnx.ValueInfoProto(name=name) for name in self.results]
        model = self.model_of(helper.make_graph([self.node], "g", inputs, outputs))
        try:
            return session(model).run(None, self.rows)
        except Exception:
            return None

    def model_of(self, graph):
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)

    def model(self, given):
        declared = helper.make_tensor_value_info
        going = helper.make_node("Identity", ["c"], ["c2"])
        kinds = [(tensor_type(one.dtype), one.shape) for one in given]
        results = [declared(name, *kind) for name, kind in zip(self.results, kinds, strict=True)]
        body = helper.make_graph(
            [going, *self.nodes, self.node],
            "b",
            [declared("i", TensorProto.INT64, []), declared("c", TensorProto.BOOL, [])],
            [declared("c2", TensorProto.BOOL, []), *results],
        )
        scans = [f"all_{name}" for name in self.results]
        nodes = [
            *self.outside,
            helper.make_node("Loop", ["n", "yes"], scans, body=body),
            helper.make_node("SequenceConstruct", ["n"], ["l"]),  # without a list, nothing is lowered
            helper.make_node("SequenceLength", ["l"], ["m"]),
        ]
        outputs = [
            declared(name, kind, ["T", *shape]) for name, (kind, shape) in zip(scans, kinds, strict=True)
        ]
        yes = helper.make_tensor("yes", TensorProto.BOOL, [], [True])
        return self.model_of(
            helper.make_graph(
                nodes,
                "g",
                [*self.inputs, declared("n", TensorProto.INT64, [])],
                [*outputs, declared("m", TensorProto.INT64, [])],
                [*self.constants, yes],
            )
        )


def is_valid(model):
    try:
        onnx.checker.check_model(model, full_check=True)
        session(model)
    except Exception:
        return False
    return True


def one_by_day_of_each_rule():
    seen = set()
    for name in WITH_RULE:
        rule = record._RECORDS[name].batch_rule
        yield pytest.param(name, marks=[pytest.mark.at_night] * (rule in seen))
        seen.add(rule)


@pytest.mark.mostly_slow(7)
@pytest.mark.parametrize("op_type", [*one_by_day_of_each_rule()])
def test_at_once_as_one_by_one(op_type):
    at_once = tried = 0
    for seed in seeds(24 if op_type in PRODUCTS else 8, 40):
        opset = OPSETS[seed % len(OPSETS)]
        if not onnx.defs.has(op_type, opset):
            continue
        rng = np.random.default_rng([seed, opset])
        case = CASES[op_type](rng, opset)
        if op_type == "Squeeze" and not all(one.array.size for one in case.inputs[1:]):
            continue  # without axes: onnx says none is squeezed, onnxruntime squeezes all
        made = Body(op_type, case, opset, rng)
        if not made.nodes or (given := made.results_of_one()) is None:
            continue
        model = made.model(given)
        if not is_valid(model):  # as onnx infers some of their shapes
            continue
        result, notes = vectorized(model)
        tried += 1
        assert notes
        assert [
            note.why_not for note in notes if not (note.is_vectorized or MAY_STAY.search(note.why_not))
        ] == []
        at_once += all(note.is_vectorized for note in notes)
        # onnxruntime leaves out a Gather of which only a shape is asked, and its error.
        trips = TRIPS[:-1] if op_type in ("Shape", "Size") else TRIPS
        check_same(model, result, [{**made.feed, "n": np.array(n)} for n in trips])
    assert at_once or tried < 4 or op_type == "Range"  # each of whose inputs says how long it is
