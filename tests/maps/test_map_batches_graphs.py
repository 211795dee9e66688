"""map_batches with ONNX graphs as bodies."""

import numpy as np
import pytest
from support.strategies import assert_holds

import seqcore as sq

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

HEADER = '<ir_version: 8, opset_import: ["" : 17]>\n'
WORKERS = pytest.mark.parametrize("max_workers", [1, 2, None])
SIZES = pytest.mark.parametrize("batch_size", [None, 1, 3, 100])

DOUBLE = "g (float[N, 2] x) => (float[N, 2] y) { y = Add(x, x) }"
PROJECT = (
    "g (float[N, 2] x, float[2, 3] w) => (float[N, 3] y, bool[N, 3] z) { y = MatMul(x, w) z = Greater(y, y) }"
)
SHORTER = "g (float[N, 2] x) => (float[M, 2] y) { y = Concat<axis = 0>(x, x) }"


def model(text):
    return onnx.parser.parse_model(HEADER + text)


def ragged(lengths=(2, 0, 3, 1, 0, 4)):
    table = np.arange(sum(lengths) * 2, dtype=np.float32).reshape(-1, 2)
    return sq.split_to_sequence(table, lengths)


@SIZES
@WORKERS
def test_joined(max_workers, batch_size):
    options = {"batch_size": batch_size, "max_workers": max_workers}
    result = sq.map_batches(model(DOUBLE), ragged(), **options)
    assert_holds(result, [a + a for a in ragged()])
    weights = np.arange(6, dtype=np.float32).reshape(2, 3)
    results = sq.map_batches(model(PROJECT), ragged(), weights, **options)
    assert isinstance(results, tuple)
    assert_holds(results[0], [a @ weights for a in ragged()])
    assert_holds(results[1], [np.zeros((len(a), 3), bool) for a in ragged()])


@SIZES
@WORKERS
def test_stacked(max_workers, batch_size):
    options = {"batch_size": batch_size, "max_workers": max_workers, "new_axis": 1}
    body = model("g (float[N, K] x) => (float[N, K] y) { y = Softmax<axis = -1>(x) }")
    shapes = [2, 3, 2, 1, 3, 3]
    seq = sq.TensorSequence([np.arange(n, dtype=np.float32) for n in shapes])
    result = sq.map_batches(body, seq, **options)
    assert result.shapes == [(n,) for n in shapes]
    for found, a in zip(result, seq, strict=True):
        assert np.allclose(found, np.exp(a) / np.exp(a).sum(), rtol=1e-5)


def test_a_model_a_graph_and_a_path(tmp_path):
    onnx.save(model(DOUBLE), tmp_path / "model.onnx")
    for body in (model(DOUBLE), model(DOUBLE).graph, str(tmp_path / "model.onnx"), tmp_path / "model.onnx"):
        assert_holds(sq.map_batches(body, ragged(), batch_size=2), [a + a for a in ragged()])


@WORKERS
def test_output_of_another_length(max_workers):
    with pytest.raises(ValueError, match="elements 0 to 1"):
        sq.map_batches(model(SHORTER), ragged([2, 1, 3]), batch_size=2, max_workers=max_workers)


@WORKERS
def test_wrong_inputs(max_workers):
    with pytest.raises((TypeError, ValueError), match=r"double|float64|int64"):
        sq.map_batches(model(DOUBLE), sq.TensorSequence([np.zeros((1, 2))]), max_workers=max_workers)
    with pytest.raises((TypeError, ValueError)):
        sq.map_batches(model(DOUBLE), ragged(), ragged(), max_workers=max_workers)


@WORKERS
def test_a_batch_that_fails_is_named(max_workers):
    """In elements of three columns the graph's second axis doesn't hold."""
    seq = sq.TensorSequence([np.zeros((1, 2 if i < 3 else 3), np.float32) for i in range(6)])
    body = model("g (float[N, 1, 2] x) => (float[N, 1, 2] y) { y = Add(x, x) }")
    with pytest.raises(Exception, match=r"element.*\b3\b"):
        sq.map_batches(body, seq, new_axis=1, batch_size=3, max_workers=max_workers)
