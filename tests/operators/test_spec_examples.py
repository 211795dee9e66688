"""Every example in the operators' texts, and those that onnx tests its backends with."""

import importlib

import numpy as np
import pytest
from support.strategies import dtype_of
from test_split import assert_same

import seqcore as sq

onnx = pytest.importorskip("onnx")

NODE_CASES = {
    "sequenceinsert": ["test_sequence_insert_at_back", "test_sequence_insert_at_front"],
    "splittosequence": [
        "test_split_to_sequence_1",
        "test_split_to_sequence_2",
        "test_split_to_sequence_nokeepdims",
    ],
    "sequence_map": [
        "test_sequence_map_identity_1_sequence",
        "test_sequence_map_identity_2_sequences",
        "test_sequence_map_identity_1_sequence_1_tensor",
        "test_sequence_map_add_2_sequences",
        "test_sequence_map_add_1_sequence_1_tensor",
        "test_sequence_map_extract_shapes",
    ],
}
MODEL_CASES = [f"test_sequence_model{number}" for number in range(1, 9)]


def attributes(node):
    return {item.name: onnx.helper.get_attribute_value(item) for item in node.attribute}


def run_graph(nodes, values):
    """Run a graph of sequence operators, and the few that the examples' bodies have, with this library."""
    for node in nodes:
        inputs = [values[name] if name else None for name in node.input]
        outputs = OPERATORS[node.op_type](*inputs, **attributes(node))
        values |= zip(node.output, outputs if isinstance(outputs, tuple) else (outputs,), strict=True)
    return values


def run_map(*inputs, body):
    def call(*tensors):
        values = run_graph(body.node, dict(zip([item.name for item in body.input], tensors, strict=True)))
        outputs = tuple(values[item.name] for item in body.output)
        return outputs if len(outputs) > 1 else outputs[0]

    return sq.sequence_map(call, *inputs)


OPERATORS = {
    "SequenceAt": sq.sequence_at,
    "SequenceConstruct": sq.sequence_construct,
    "SequenceEmpty": sq.sequence_empty,
    "SequenceErase": sq.sequence_erase,
    "SequenceInsert": sq.sequence_insert,
    "SequenceLength": sq.sequence_length,
    "SequenceMap": run_map,
    "SplitToSequence": sq.split_to_sequence,
    "ConcatFromSequence": sq.concat_from_sequence,
    "Add": np.add,
    "Identity": lambda tensor: tensor,
    "Shape": lambda tensor: np.array(tensor.shape, np.int64),
}


def collect(monkeypatch, module):
    """Let onnx generate the examples of one of its modules: name -> what it passes to `expect`."""
    cases = {}

    def record(proto, *, name, inputs, outputs, **_):
        cases[name] = proto, inputs, outputs

    module = importlib.import_module(f"onnx.backend.test.case.{module}")
    monkeypatch.setattr(module, "expect", record)
    for exporter in vars(module).values():
        if isinstance(exporter, type) and exporter.__module__ == module.__name__:
            for name, export in vars(exporter).items():
                if name.startswith("export"):
                    export.__func__()
    return cases


def assert_equal(got, expected):
    if isinstance(expected, list):
        assert isinstance(got, sq.TensorSequence)
        for element, tensor in zip(got, expected, strict=True):
            assert_same(element, tensor)
    else:
        assert_same(np.asarray(got), np.asarray(expected))


@pytest.mark.parametrize(
    ("module", "name"), [(module, name) for module, names in NODE_CASES.items() for name in names]
)
@pytest.mark.parametrize("kind", [sq.TensorSequence, list])
def test_node_cases_of_onnx(monkeypatch, module, name, kind):
    node, inputs, outputs = collect(monkeypatch, f"node.{module}")[name]
    inputs = [kind(value) if isinstance(value, list) else value for value in inputs]
    values = run_graph([node], dict(zip(node.input, inputs, strict=True)))
    for output, expected in zip(node.output, outputs, strict=True):
        assert_equal(values[output], expected)


@pytest.mark.parametrize("name", MODEL_CASES)
def test_model_cases_of_onnx(monkeypatch, name):
    model, inputs, outputs = collect(monkeypatch, "model.sequence")[name]
    values = {item.name: onnx.numpy_helper.to_array(item) for item in model.graph.initializer}
    names = [item.name for item in model.graph.input if item.name not in values]
    values = run_graph(model.graph.node, values | dict(zip(names, inputs, strict=True)))
    for output, expected in zip(model.graph.output, outputs, strict=True):
        assert_equal(values[output.name], expected)


def test_onnx_has_no_further_cases(monkeypatch):
    """A newer onnx may bring more; then they belong in the lists above."""
    for module, names in NODE_CASES.items():
        assert set(collect(monkeypatch, f"node.{module}")) <= set(names)
    assert set(collect(monkeypatch, "model.sequence")) <= set(MODEL_CASES)


class TestTextOfSequenceInsert:
    sequence = (np.array([1, 2, 3, 4]), np.array([5, 6, 7]), np.array([8, 9]))

    def test_at_back(self):
        inserted = sq.sequence_insert(self.sequence, np.array([10, 11, 12]))
        assert [tensor.tolist() for tensor in inserted] == [[1, 2, 3, 4], [5, 6, 7], [8, 9], [10, 11, 12]]

    def test_at_front(self):
        inserted = sq.sequence_insert(self.sequence, np.array([-2, -1, 0]), np.array([0]))
        assert [tensor.tolist() for tensor in inserted] == [[-2, -1, 0], [1, 2, 3, 4], [5, 6, 7], [8, 9]]


class TestTextOfSplitToSequence:
    def test_last_chunk_is_smaller(self):
        assert sq.split_to_sequence(np.zeros((7, 2)), 3).shapes == [(3, 2), (3, 2), (1, 2)]

    def test_lengths_may_be_zero(self):
        assert sq.split_to_sequence(np.zeros((2, 7)), [3, 0, 4], axis=1).shapes == [(2, 3), (2, 0), (2, 4)]

    def test_keepdims_counts_only_without_split(self):
        assert sq.split_to_sequence(np.zeros((2, 3)), keepdims=0).shapes == [(3,)] * 2
        assert sq.split_to_sequence(np.zeros((2, 3)), np.array(1), keepdims=0).shapes == [(1, 3)] * 2


@pytest.mark.parametrize("operator", ["SequenceEmpty", "SequenceConstruct", "SplitToSequence", "SequenceMap"])
def test_each_type_of_the_schemas(operator):
    """What opset 17 allows in a sequence, the library takes by the same name."""
    constraint = onnx.defs.get_schema(operator, 17).type_constraints
    allowed = {text for item in constraint for text in item.allowed_type_strs if text.startswith("seq(")}
    names = {text.removeprefix("seq(tensor(").removesuffix("))") for text in allowed}
    names = {{"float": "float32", "double": "float64"}.get(name, name) for name in names}
    assert len(names) == 15
    for name in names:
        assert sq.sequence_empty(name).dtype == dtype_of(name)
