"""Maps of bodies that work number by number: what ran in blocks, of which sizes, and what one by one."""

import numpy as np
import pytest
from support.bodies import pieces

import seqcore as sq
from seqcore._maps import elementwise

pytestmark = pytest.mark.usefixtures("blocks_of_few")
WAYS = {
    "serial": {},
    "threads": {},
    "threads_in_chunks": {"chunksize": 50},
    "inline": {"chunksize": 50},
    "thread_executor": {},
}


@pytest.fixture(params=WAYS)
def way(request, ways):
    return ways.get(request.param) | WAYS[request.param]


def ragged(count=300):
    return sq.TensorSequence([1 + np.arange(1 + i % 4, dtype=np.float32) for i in range(count)])


def run_in_blocks(blocks):
    """Return how many elements ran in blocks since the last call."""
    count = sum(stop - start for start, stop, ran in blocks if ran)
    blocks.clear()
    return count


class TestUfuncs:
    @pytest.mark.parametrize("shape", [(8,), (1, 8), (3, 1), (3, 8)])
    def test_a_whole_row(self, blocks, way, shape):
        seq = sq.split_to_sequence(np.ones((600, 3, 8)), 2)
        sq.sequence_map(np.add, seq, np.ones(shape), **way)
        assert run_in_blocks(blocks) == 300

    @pytest.mark.parametrize("shape", [(), (1,), (8,), (1, 8), (3, 1), (3, 8)])
    def test_one_number_or_row_for_each_element(self, blocks, way, shape):
        seq = sq.split_to_sequence(np.ones((900, 3, 8)), [1, 3, 5] * 100)
        lower = sq.split_to_sequence(np.ones((300, *shape)), keepdims=0)
        sq.sequence_map(np.add, seq, lower, **way)
        sq.sequence_map(np.add, lower, seq, **way)
        assert run_in_blocks(blocks) == 600

    def test_a_row_of_as_many_axes(self, blocks, way):
        sq.sequence_map(np.add, sq.split_to_sequence(np.ones((300, 8)), keepdims=0), np.ones(8), **way)
        assert run_in_blocks(blocks) == 300

    def test_other_callables_run_one_by_one(self, blocks):
        sq.sequence_map(lambda a: a + 1, ragged())
        sq.sequence_map(np.frompyfunc(lambda x: "a", 1, 1), ragged())
        sq.sequence_map(np.linalg.det, [np.eye(2)] * 10)
        assert run_in_blocks(blocks) == 0

    def test_elements_that_broadcast_run_one_by_one(self, blocks):
        other = ragged()
        other[130] = np.ones((2, 1), np.float32)
        sq.sequence_map(np.add, ragged(), other, max_workers=2, chunksize=100)
        assert sorted(ran for _, _, ran in blocks) == [False, True, True]


class TestSizes:
    @pytest.mark.parametrize(
        ("nbytes", "is_flat"), [(elementwise.LARGE, True), (elementwise.LARGE + 1, False)]
    )
    def test_large_elements_run_one_by_one(self, blocks, nbytes, is_flat):
        sq.sequence_map(np.negative, pieces(5, nbytes))
        assert run_in_blocks(blocks) == 5 * is_flat
        small, large = (sq.TensorSequence([np.zeros(nbytes // size, f"u{size}")] * 5) for size in (1, 8))
        sq.sequence_map(np.negative, small)
        assert run_in_blocks(blocks) == 5 * is_flat
        sq.sequence_map(np.maximum, sq.TensorSequence([one[: nbytes // 8] for one in small]), large)
        assert run_in_blocks(blocks) == 5

    def test_the_largest_input_counts(self, blocks):
        ones, rows = pieces(5, 1), sq.split_to_sequence(np.zeros((5, 2000)), 1)
        sq.sequence_map(np.less, sq.split_to_sequence(np.zeros((5, 2000), np.uint8), 1), rows)
        assert run_in_blocks(blocks) == 0
        sq.sequence_map(np.add, ones, ones)
        assert run_in_blocks(blocks) == 5

    def test_blocks_of_so_many_bytes(self, blocks):
        """4 MiB for a ufunc, which goes through them once."""
        sq.sequence_map(np.negative, pieces(2100, 4096), output_dtypes="uint8")
        assert blocks == [(0, 1024, True), (1024, 2048, True), (2048, 2100, True)]

    def test_blocks_of_so_many_elements(self, blocks):
        n = elementwise.BLOCK + 1
        sq.sequence_map(np.negative, pieces(n, 1), output_dtypes="uint8")
        assert blocks == [(0, n - 1, True), (n - 1, n, True)]

    @pytest.mark.parametrize("at", [0, 9, 10, 11, 19, 20, 24])
    def test_the_element_that_fails_is_named_behind_blocks(self, monkeypatch, blocks, at):
        monkeypatch.setattr(elementwise, "BLOCK", 10)
        divisors = np.ones(25, np.int64)
        divisors[at] = 0
        seq = sq.split_to_sequence(divisors)
        with np.errstate(all="raise"), pytest.raises(FloatingPointError) as caught:
            sq.sequence_map(np.divmod, seq, seq, output_dtypes=("int64", "int64"))
        assert caught.value.__notes__ == [f"raised for element {at} of a SequenceMap"]
        start = at - at % 10
        assert blocks == [
            *((k, k + 10, True) for k in range(0, start, 10)),
            (start, min(start + 10, 25), False),
        ]


class TestGraphs:
    """Of graphs a session for blocks is made once there are elements enough for it."""

    @pytest.fixture
    def body_of(self):
        onnx = pytest.importorskip("onnx")
        pytest.importorskip("onnxruntime")
        from seqcore.onnx import GraphBody

        return lambda text: GraphBody(onnx.parser.parse_graph(text))

    SHAPED = "g (float[N] x) => (float[N] y, float[N] z) { y = Neg(x) z = Exp(y) }"
    OPEN = "g (float[] x) => (float[] y, float[] z) { y = Neg(x) z = Exp(y) }"

    def test_in_blocks(self, blocks, way, body_of):
        body = body_of(self.SHAPED)
        sq.sequence_map(body, ragged())
        blocks.clear()
        sq.sequence_map(body, ragged(), **way)
        assert run_in_blocks(blocks) == 300

    def test_at_once_where_the_bodys_own_session_takes_all_shapes(self, blocks, body_of):
        import onnx

        from seqcore.onnx import GraphBody

        graph = onnx.parser.parse_graph(self.OPEN)
        for value in (*graph.input, *graph.output):
            value.type.tensor_type.ClearField("shape")
        sq.sequence_map(GraphBody(graph), ragged(3))
        assert run_in_blocks(blocks) == 3

    @pytest.mark.parametrize(("opset", "is_flat"), [(6, False), (7, True)])
    def test_operators_that_broadcast_by_attributes_run_one_by_one(self, blocks, body_of, opset, is_flat):
        import onnx

        from seqcore.onnx import GraphBody

        body = GraphBody(onnx.parser.parse_graph(self.SHAPED), {"": opset})
        sq.sequence_map(body, ragged())
        assert run_in_blocks(blocks) == 300 * is_flat

    @pytest.mark.parametrize("first", ["sequence", "whole"])
    def test_an_input_that_is_given_out_is_an_elements_or_whole(self, body_of, first):
        """A form is kept for what is fed; the input that comes out is not."""
        onnx = pytest.importorskip("onnx")
        from seqcore.onnx import GraphBody

        graph = onnx.parser.parse_graph("g (float[] x, float[] y) => (float[] z) { z = Neg(x) }")
        graph.output.append(graph.input[1])
        for value in (*graph.input, *graph.output):
            value.type.tensor_type.ClearField("shape")
        body = GraphBody(graph)
        calls = {"sequence": [np.full((1, 1), 3, np.float32)], "whole": np.full(1, 3, np.float32)}
        for kind in (first, *(set(calls) - {first})):
            _, given = sq.sequence_map(body, [np.ones((1, 1), np.float32)], calls[kind])
            assert given[0].shape == ((1, 1) if kind == "sequence" else (1,))


@pytest.mark.parametrize("rows", [[2, 1, 5], [2, 1, 5] * 100, [2] * 300])
def test_tables_of_other_rows_behind_one_another(rows):
    """Each table's rows have a length of their own, and long tables are read as spans."""
    arrays = [np.arange(sum(rows) * width, dtype=np.float32).reshape(-1, width) for width in (3, 4, 3)]
    elements = [part for array in arrays for part in np.split(array, np.cumsum(rows)[:-1])]
    seq = sq.TensorSequence(dtype=np.float32)
    for array in arrays:
        seq.extend(sq.split_to_sequence(array, split=rows))
    for made in (sq.sequence_map(np.negative, seq), seq.astype(np.float64)):
        assert made.shapes == [element.shape for element in elements]
    assert sq.sequence_map(np.negative, seq) == sq.TensorSequence([-element for element in elements])
    assert list(map(np.array_equal, seq.astype(np.float64), elements)) == [True] * len(elements)
