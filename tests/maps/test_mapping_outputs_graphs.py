"""Graphs of three outputs as bodies: the element that fails is named, and the outputs keep their order."""

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("ml_dtypes")

from support.models.engines import for_all_ranks
from support.models.graphs import ENOUGH, parsed
from support.models.sessions import assert_values, model, said

import seqcore as sq
from seqcore.onnx import GraphBody, InferenceSession
from seqcore.onnx.explaining import explain

WAYS = ("serial", "threads", "threads_in_chunks", "inline", "thread_executor", "pickled")
N = 40
# The second of three outputs fails where `at` is out of range; what it gives is an element of another row.
PICKS = """g (float[N] x, int64[M] at) => (float[N] a, float[M] b, int64[M] c) {
    a = Neg(x) b = Gather(x, at) c = Mul(at, at)
}"""
# By number: of a shape that doesn't fit the second output fails alone.
NUMBERS = """g (float[N] x, float[M] w) => (float[N] a, float[K] b, float[N] c) {
    a = Neg(x) b = Add(x, w) c = Exp(x)
}"""


@pytest.fixture(params=WAYS)
def way(request, ways):
    return ways.get(request.param) | ({"chunksize": 17} if request.param in WAYS[-2:] else {})


def rows(n, width=3, seed=0):
    return sq.split_to_sequence(np.random.default_rng(seed).random((n, width), np.float32), keepdims=0)


def places(n, wrong=()):
    return sq.TensorSequence([np.array([9 if i in wrong else i % 3]) for i in range(n)])


@pytest.mark.parametrize("is_warm", [False, True], ids=["singly", "in copies"])
class TestPicks:
    def body(self, is_warm):
        body = GraphBody(parsed(PICKS))
        if is_warm:
            sq.sequence_map(body, rows(2 * ENOUGH), places(2 * ENOUGH))
            (program,) = body._programs.values()
            assert program._many.ncopies > 0
        return body

    @pytest.mark.parametrize("at", [0, 1, 15, 16, 17, 39])
    def test_the_element_is_named(self, way, is_warm, at):
        with pytest.raises(Exception, match=r"(?i)gather|indices") as caught:
            sq.sequence_map(self.body(is_warm), rows(N), places(N, {at, 39}), **way)
        assert f"raised for element {at} of a SequenceMap" in caught.value.__notes__


@pytest.mark.parametrize("is_warm", [False, True], ids=["singly", "in blocks"])
class TestNumbers:
    def body(self, is_warm):
        body = GraphBody(parsed(NUMBERS))
        if is_warm:
            sq.sequence_map(body, rows(300), rows(300, seed=1))
        return body

    @pytest.mark.parametrize("at", [0, 1, 16, 39])
    def test_the_element_is_named(self, way, is_warm, at):
        others = [np.ones(2 if i in (at, 39) else 3, np.float32) for i in range(N)]
        with pytest.raises(Exception, match=r"(?i)broadcast|dimension") as caught:
            sq.sequence_map(self.body(is_warm), rows(N), others, **way)
        assert f"raised for element {at} of a SequenceMap" in caught.value.__notes__


class TestNodes:
    """A SequenceMap node with three outputs, whose body picks, whole in onnxruntime and as steps."""

    TEXT = """g (seq(float[]) s, seq(int64[]) at) => (seq(float[]) t, seq(float[]) u, seq(int64[]) v) {
        [the_map] t, u, v = SequenceMap (s, at) <body = b (float[M] x, int64[K] k)
                                                 => (float[M] y, float[K] z, int64[K] w) {
            y = Neg (x) [inside] z = Gather (x, k) w = Mul (k, k)
        }>
    }"""
    IN_A_LIST = TEXT.replace(
        "[inside] z = Gather (x, k)",
        "l = SequenceConstruct (x, y) z1 = SequenceAt (l, k) [inside] z = Identity (z1)",
    )

    @pytest.mark.parametrize("workers", [1, 2])
    @pytest.mark.parametrize("n", [40, 600])
    def test_the_element_and_the_node_are_named(self, n, workers):
        used = for_all_ranks(self.TEXT, max_workers=workers)
        for wrong in (0, 17, n - 1):
            with pytest.raises(Exception, match=r"(?i)gather|indices") as caught:
                used.run(None, {"s": rows(n), "at": places(n, {wrong, n - 1})})
            assert f"element {wrong} of a SequenceMap" in said(caught)
            assert "the_map" in said(caught) or "inside" in said(caught)
        steps = used._engines.compiled.tier("given steps")
        assert (steps.taken, steps.failures) == (0, 3)

    def test_a_body_with_lists_names_its_element(self):
        used = InferenceSession(model(self.IN_A_LIST), max_workers=2)
        at = [np.array([i % 2]) for i in range(40)]
        x = rows(40)
        found = used.run(None, {"s": x, "at": at})
        assert_values([found[1]], [[-a if i % 2 else a for i, a in enumerate(x)]])
        for wrong in (0, 17, 39):
            bad = [np.array([2]) if i in (wrong, 39) else one for i, one in enumerate(at)]
            with pytest.raises(IndexError, match="SequenceAt") as caught:
                used.run(None, {"s": x, "at": bad})
            assert f"element {wrong} of a SequenceMap" in said(caught)

    def test_explain_says_what_runs_them(self):
        assert any("the_map" in line for line in explain(model(self.TEXT)))


def test_types_of_no_elements():
    """The graph says them."""
    found = sq.sequence_map(GraphBody(parsed(PICKS)), rows(N)[:0], places(N)[:0])
    assert [(len(one), one.dtype) for one in found] == [(0, np.float32), (0, np.float32), (0, np.int64)]
