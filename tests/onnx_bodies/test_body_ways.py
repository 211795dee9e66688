"""seqcore.onnx.GraphBody: which rows run in copies, on both sides of each limit, and that none is refused."""

import numpy as np
import onnx
import pytest
from support.models.graphs import ADD, ENOUGH, assert_same, floats, parsed, singly

from seqcore.onnx import GraphBody
from seqcore.onnx._bodies import program
from seqcore.onnx._bodies.program import can_copy
from seqcore.onnx._thresholds import COPIES

PAYS = program.COPIES_PAY + program.A_NODE_MORE  # for a body of one node


def many_of(body):
    (program,) = body._programs.values()
    return program._many


def rows_of(n, width=8):
    return [(x, x) for x in floats(n, (width,))]


@pytest.fixture
def body():
    """One that has run often enough for copies."""
    made = GraphBody(ADD)
    made.run_many(rows_of(PAYS))
    made.run_many(rows_of(COPIES))
    many_of(made).ncopies = 0
    return made


def in_copies(body, rows):
    """How many of some rows went in copies."""
    runner = many_of(body)
    before = runner.ncopies
    assert_same(body.run_many(rows), singly(body, rows))
    assert runner.nrefused == 0
    assert runner.why_no_copies == ""
    return runner.ncopies - before


class TestLimits:
    @pytest.mark.parametrize(
        ("n", "copied"), [(1, 0), (7, 0), (8, 8), (15, 15), (16, 16), (23, 16), (24, 24), (39, 32), (40, 40)]
    )
    def test_few_rows_run_singly(self, body, n, copied):
        assert in_copies(body, rows_of(n)) == copied

    @pytest.mark.parametrize(("width", "is_small"), [(2048, True), (2049, False)])
    def test_large_arguments_run_singly(self, body, width, is_small):
        """16 KiB of both together."""
        assert program.MOST_ARGUMENT_NBYTES == 2 * 4 * 2048
        assert in_copies(body, rows_of(COPIES, width)) == COPIES * is_small

    def test_whole_arguments_are_not_counted(self, body):
        whole = floats(1, (4096,))[0]
        rows = [(x, whole) for x in floats(COPIES, (1,))]
        assert in_copies(body, rows) == COPIES

    def test_each_group_is_looked_at(self, body):
        rows = [*rows_of(COPIES), *rows_of(COPIES, 5000), *rows_of(COPIES)]
        assert in_copies(body, rows) == 2 * COPIES

    @pytest.mark.parametrize(("before", "copied"), [(PAYS - 9, 0), (PAYS - 8, 8), (PAYS - 7, 8)])
    def test_copies_are_built_after_so_many_elements(self, before, copied):
        body = GraphBody(ADD)
        body.run_many(rows_of(before))
        assert in_copies(body, rows_of(8)) == copied

    def test_each_node_more_makes_copies_dearer(self):
        body = GraphBody(parsed("g (float[N] x) => (float[N] z) { y = Neg(x) z = Exp(y) }"))
        rows = [(x,) for x in floats(PAYS + program.A_NODE_MORE - 1)]
        assert in_copies(body, rows) == 0
        assert in_copies(body, rows[:8]) == 8

    def test_so_many_combinations_of_whole_arguments(self):
        names = "abcd"
        inputs = ", ".join(f"float[N] {name}" for name in names)
        body = GraphBody(parsed(f"g ({inputs}) => (float[N] z) {{ z = Sum({', '.join(names)}) }}"))
        whole = floats(1)[0]
        for number, bits in enumerate(range(program.MOST_BUILT + 2)):
            own = iter(floats(4 * 500, seed=number))
            rows = [tuple(whole if bits >> k & 1 else next(own) for k in range(4)) for _ in range(500)]
            body.run_many(rows)
            runner = many_of(body)
            before = runner.ncopies
            body.run_many(rows[:16])
            assert runner.ncopies - before == 16 * (number < program.MOST_BUILT)
        assert len(runner._built) == program.MOST_BUILT

    @pytest.mark.parametrize(("nodes", "goes"), [(11, True), (12, True), (13, False)])
    def test_bodies_of_many_nodes_run_singly(self, nodes, goes):
        chain = " ".join(f"t{k + 1} = Neg(t{k})" for k in range(nodes))
        graph = parsed(f"g (float[N] t0) => (float[N] t{nodes}) {{ {chain} }}")
        assert can_copy(onnx.helper.make_model(graph)) is goes
        body = GraphBody(graph)
        rows = [(x,) for x in floats(2 * ENOUGH)]
        body.run_many(rows)
        assert many_of(body).ncopies == 2 * ENOUGH * goes

    @pytest.mark.parametrize("more", [0, 1])
    def test_bodies_of_many_bytes_run_singly(self, more):
        model = onnx.helper.make_model(ADD)
        model.doc_string = "a"
        model.doc_string += "a" * (program.MOST_COPIED_NBYTES - model.ByteSize() - 4)
        model.doc_string += "a" * (program.MOST_COPIED_NBYTES - model.ByteSize() + more)
        assert model.ByteSize() == program.MOST_COPIED_NBYTES + more
        assert can_copy(model) is (more == 0)

    def test_arguments_that_are_whole_in_the_first_and_last_row_alone(self, body):
        own, others = floats(COPIES), floats(COPIES, seed=1)
        rows = list(zip(own, [*others[:-1], others[0]], strict=True))
        assert in_copies(body, rows) == COPIES


class TestWhatFails:
    """Rows behind a group that went in copies keep their numbers, also of three outputs."""

    TEXT = """g (float[N] x, int64[M] at) => (float[N] a, float[M] b, float[N] c) {
        a = Neg(x) b = Gather(x, at) c = Exp(x)
    }"""

    def rows(self, n, wrong=()):
        return [(x, np.array([8 if i in wrong else i % 8])) for i, x in enumerate(floats(n))]

    @pytest.mark.parametrize("at", [0, 1, 15, 16, 17, 31, 32, 39])
    @pytest.mark.parametrize("warm", [False, True])
    def test_the_row_is_named(self, at, warm):
        body = GraphBody(parsed(self.TEXT))
        if warm:
            body.run_many(self.rows(2 * ENOUGH))
            assert many_of(body).ncopies > 0
        with pytest.raises(Exception, match=r"Gather|index|indices") as caught:
            body.run_many(self.rows(40, {at, 39}))
        assert caught.value.seqcore_element == at
        assert many_of(body).nrefused == warm * min(16, 40 - at // 16 * 16)

    def test_refused_rows_are_counted_and_run_singly(self, monkeypatch):
        """Where copies alone are refused, all results are there, and somebody can see it."""
        body = GraphBody(parsed(self.TEXT))
        body.run_many(self.rows(2 * ENOUGH))
        runner = many_of(body)

        def refuse(self, rows):
            raise program.Refused("no")

        monkeypatch.setattr(program.Copies, "run", refuse)
        before, rows = runner.ncopies, self.rows(40)
        assert_same(body.run_many(rows), singly(body, rows))
        assert (runner.ncopies - before, runner.nrefused) == (0, 40)
