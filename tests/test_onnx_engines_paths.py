"""Which way a session takes: the quick ways are taken where they pay, and left where they don't."""

from itertools import pairwise

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from seqcore.onnx._models.graphs import all_graphs
from seqcore.onnx._plans.attempts import Attempts
from seqcore.onnx._plans.explain import explain
from seqcore.onnx._plans.guards import LONG
from seqcore.onnx._plans.rounds import Rounds
from sessions import assert_values, f32, floats, i64, model

from seqcore.onnx import InferenceSession

# The first element goes to the end, turned round: as often as a loop is told to.
TURN = """
    turn (seq(float[]) s, int64 n) => (seq(float[]) t) {
        zero = Constant <value = int64 {0}> ()
        t = Loop (n, "", s) <body = b (int64 i, bool go, seq(float[]) p) => (bool go, seq(float[]) r) {
            x = SequenceAt (p, zero)
            e = SequenceErase (p, zero)
            y = Neg (x)
            r = SequenceInsert (e, y)
        }>
    }
"""
# Rows of a tensor, doubled, go into a list: at the end, or where POSITION says.
COLLECT = """
    collect (float[N, 2] x, seq(float[]) s, int64 n, int64 position) => (seq(float[]) t) {
        t = Loop (n, "", s) <body = b (int64 i, bool go, seq(float[]) p) => (bool go, seq(float[]) q) {
            row = Gather (x, i)
            twice = Add (row, row)
            q = SequenceInsert (p, twice POSITION)
        }>
    }
"""
APPEND_ROWS, INSERT_ROWS = COLLECT.replace("POSITION", ""), COLLECT.replace("POSITION", ", position")


def turned(s, n):
    queue = list(s)
    for _ in range(n):
        queue.append(-queue.pop(0))
    return queue


def cut_of(used):
    return used._cut()


def schedule_of(text):
    return cut_of(InferenceSession(model(text))).planner.schedule


def operators(schedule):
    """The operators of each entry."""
    return [[node.op_type for node in entry.nodes] for entry in schedule.entries]


def explained(text):
    """What `explain` says of what runs where, without the operators' indentation."""
    lines = explain(model(text))
    return [line.removeprefix("    ") for line in lines[lines.index("what runs where") + 1 :]]


@pytest.fixture
def rounds(monkeypatch):
    """The rounds of loops named 't': for each the first iteration, and the one after the last."""
    ran, run = [], Rounds.run

    def spy(self, frame, first, length):
        results = run(self, frame, first, length)
        if self._node.name == "t":
            ran.append((first, first + results[0]))
        return results

    monkeypatch.setattr(Rounds, "run", spy)
    return ran


class Headed:
    """A session for a text, with what became of each attempt to run its head."""

    def __init__(self, text, **options):
        self.session = InferenceSession(model(text), **options)
        self.head = cut_of(self.session).head
        self.outcomes = []
        run = self.head.run

        def spy(frame):
            self.outcomes.append(run(frame))
            return self.outcomes[-1]

        self.head.run = spy

    def run(self, **feed):
        return self.session.run(None, feed)


class TestHead:
    def test_short_runs_go_in_one(self):
        used = Headed(TURN)
        s = floats(1, 2, 3)
        for _ in range(5):
            assert_values(used.run(s=s, n=i64(4)), [turned(s, 4)])
        assert used.outcomes == [False, False, True, True, True]

    @pytest.mark.parametrize(("n", "quick"), [(0, True), (LONG, True), (LONG + 1, False)])
    def test_loops_of_so_many_iterations(self, n, quick):
        used = Headed(TURN)
        s = floats(1, 2, 3)
        for _ in range(4):
            assert_values(used.run(s=s, n=i64(n)), [turned(s, n)])
        assert used.outcomes[2] is quick

    @pytest.mark.parametrize(("n", "quick"), [(LONG, True), (LONG + 1, False)])
    def test_loops_until_a_condition_fails(self, n, quick):
        used = Headed("""until (seq(float[]) s, float[N] x, int64 n) => (seq(float[]) t) {
            yes = Constant <value = bool {1}> ()
            t = Loop ("", yes, s) <body = b (int64 i, bool go, seq(float[]) p) => (bool on, seq(float[]) q) {
                q = SequenceInsert (p, x)
                one = Constant <value = int64 {1}> ()
                next = Add (i, one)
                on = Less (next, n)
            }>
        }""")
        for _ in range(4):
            assert_values(used.run(s=[], x=f32(1), n=i64(n)), [[f32(1)] * n])
        assert used.outcomes[2] is quick

    @pytest.mark.parametrize("split", [None, 2, [1]])
    @pytest.mark.parametrize(("n", "quick"), [(LONG, True), (LONG + 1, False)])
    def test_splits_into_so_many_pieces(self, split, n, quick):
        """By default, by a length, and by lengths."""
        kind = "[K]" if isinstance(split, list) else ""
        used = Headed(f"""split (float[N] x, int64{kind} k) => (seq(float[]) t) {{
            s = SplitToSequence (x {", k" if split else ""})
            t = SequenceErase (s)
        }}""")
        lengths = [split or 1] * n if isinstance(split, int | None) else split * n
        x = np.arange(sum(lengths), dtype=np.float32)
        pieces = np.split(x, np.cumsum(lengths)[:-1])
        for _ in range(4):
            assert_values(used.run(x=x, k=i64(lengths if kind else split or 1)), [pieces[:-1]])
        # Lengths that a run brings may be what onnxruntime reads in its own way.
        assert used.outcomes[2] is (quick and split is None)

    def test_a_long_feed_is_not_handed_over(self):
        used = Headed(TURN)
        for n in (LONG, LONG, LONG, LONG + 1, LONG):
            s = floats(*[2] * n)
            assert_values(used.run(s=s, n=i64(1)), [turned(s, 1)])
        assert used.outcomes == [False, False, True, False, True]

    def test_a_true_error_is_named_by_the_plan(self):
        used = Headed(TURN)
        for _ in range(3):
            used.run(s=floats(1), n=i64(1))
        with pytest.raises(IndexError, match="SequenceAt 'x'"):
            used.run(s=[], n=i64(1))
        assert used.outcomes[2:] == [True, False]
        assert_values(used.run(s=floats(1), n=i64(1)), [turned(floats(1), 1)])

    def test_it_ends_where_onnxruntime_departs(self):
        """The elements may differ in rank, which ends onnxruntime's process at a join."""
        used = Headed("""g (seq(float[]) s, float[N] x) => (float[] y, seq(float[]) u) {
            t = SequenceInsert (s, x)
            y = ConcatFromSequence <axis = 0> (t)
            u = SequenceErase (t)
        }""")
        assert operators(cut_of(used.session).planner.schedule)[: used.head.length] == [["SequenceInsert"]]
        for _ in range(4):
            with pytest.raises(ValueError, match="ConcatFromSequence 'y'"):
                used.run(s=[np.ones((2, 2), np.float32)], x=f32(1))
        assert_values(used.run(s=[f32(1)], x=f32(2)), [f32(1, 2), [f32(1)]])
        assert used.outcomes[-1]

    def test_types_that_onnxruntime_lacks(self):
        used = Headed("""g (uint8[N] x) => (seq(uint8[]) t) {
            s = SplitToSequence (x)
            t = SequenceErase (s)
        }""")
        x = np.ones(3, np.uint8)
        for _ in range(4):
            assert_values(used.run(x=x), [[x[:1], x[:1]]])
        assert not any(used.outcomes)
        assert used.head.is_hopeless


class TestAttempts:
    def test_they_become_rare(self):
        attempts, tried = Attempts(), []
        for k in range(100):
            if attempts.is_due():
                tried.append(k)
                attempts.failed()
        assert tried == [0, 3, 8, 17, 34, 67]

    def test_they_never_cease(self):
        attempts = Attempts()
        tried = sum(attempts.is_due() and (attempts.failed() or 1) for _ in range(10000))
        assert tried >= 10000 // 260

    def test_a_success_counts_more(self):
        attempts = Attempts()
        attempts.failed()
        assert [attempts.is_due() for _ in range(3)] == [False, False, True]
        attempts.succeeded()
        assert attempts.is_due()
        attempts.failed()
        assert [attempts.is_due() for _ in range(3)] == [False, False, True]

    def test_a_session_whose_loops_are_long_seldom_tries(self):
        used = Headed(TURN)
        s = floats(1, 2)
        for _ in range(3):
            used.run(s=s, n=i64(1))
        session, tried = used.head._session, []

        class Spy:
            def run(self, *arguments):
                tried.append(None)
                return session.run(*arguments)

        used.head._session = Spy()
        for _ in range(40):
            assert_values(used.run(s=s, n=i64(LONG + 2)), [turned(s, LONG + 2)])
        assert len(tried) == 5
        for _ in range(40):
            used.run(s=s, n=i64(1))
        assert used.outcomes[-1]


class TestRounds:
    N = 1000

    def rows(self):
        return np.arange(2 * self.N, dtype=np.float32).reshape(self.N, 2)

    def check(self, text, feed, expected):
        used = InferenceSession(model(text))
        for _ in range(2):
            assert_values(used.run(None, feed), [expected])

    def test_a_loop_that_appends_stays_in_them(self, rounds):
        x, s = self.rows(), floats(1)
        feed = {"x": x, "s": s, "n": i64(self.N), "position": i64(0)}
        self.check(APPEND_ROWS, feed, [*s, *(2 * x)])
        assert len(rounds) > 4
        # In the second run all, as what runs them is there from the start.
        starts = [start for start, _ in rounds]
        second = rounds[starts.index(0) :]
        assert second[0][0] == 0
        assert second[-1][1] == self.N
        assert all(a[1] == b[0] for a, b in pairwise(second))

    def test_a_list_that_grows_leaves_them(self, rounds):
        x = self.rows()
        feed = {"x": x, "s": [], "n": i64(self.N), "position": i64(0)}
        self.check(INSERT_ROWS, feed, list(2 * x[::-1]))
        assert rounds
        assert max(stop for _, stop in rounds) < self.N

    def test_a_window_stays_in_them(self, rounds):
        s = floats(2, 2, 2)
        self.check(TURN, {"s": s, "n": i64(self.N)}, turned(s, self.N))
        assert rounds[-1][1] == self.N
        assert sum(stop - start for start, stop in rounds) > 1.8 * self.N

    def test_a_list_that_is_long_from_the_start_never_enters_them(self, rounds):
        s = floats(*[1] * 2000)
        self.check(TURN, {"s": s, "n": i64(self.N)}, turned(s, self.N))
        assert rounds == []

    def test_few_iterations_are_not_worth_them(self, rounds):
        s = floats(1)
        assert_values(InferenceSession(model(TURN)).run(None, {"s": s, "n": i64(60)}), [turned(s, 60)])
        assert rounds == []

    def test_an_error_in_them_is_named_by_a_step(self, rounds):
        x, n = self.rows()[:700], self.N
        used = InferenceSession(model(APPEND_ROWS))
        for _ in range(2):
            with pytest.raises(Exception, match="Gather") as caught:
                used.run(None, {"x": x, "s": [], "n": i64(n), "position": i64(0)})
            assert "in iteration 700 of Loop 't'" in caught.value.__notes__
        assert max(stop for _, stop in rounds) <= 700

    def test_loops_inside_are_guarded(self, rounds):
        """Of more than so many iterations inside, a round fails, and its iterations run as steps."""
        text = """g (float[K] x, int64 n, int64 m) => (seq(float[]) t) {
            none = SequenceEmpty ()
            zero = Constant <value = int64 {0}> ()
            t = Loop (n, "", none) <body = b (int64 i, bool go, seq(float[]) p)
                                           => (bool go, seq(float[]) r) {
                start = SequenceConstruct (x, x)
                inner = Loop (m, "", start) <body = c (int64 j, bool g, seq(float[]) q)
                                                   => (bool g, seq(float[]) w) {
                    y = SequenceAt (q, zero)
                    e = SequenceErase (q, zero)
                    z = Neg (y)
                    w = SequenceInsert (e, z)
                }>
                last = SequenceAt (inner, zero)
                r = SequenceInsert (p, last)
            }>
        }"""
        x = f32(1, 2)
        for m, quick in ((LONG, True), (LONG + 1, False)):
            rounds.clear()
            used = InferenceSession(model(text))
            for _ in range(2):
                found = used.run(None, {"x": x, "n": i64(200), "m": i64(m)})
                assert_values(found, [turned([x, x], m)[:1] * 200])
            assert bool(rounds) is quick


class TestPlaces:
    def test_edits_at_the_last_use_are_in_place(self):
        assert [line.strip() for line in explained(TURN)][-4:] == [
            "seqcore      SequenceAt 'x'",
            "seqcore      SequenceErase 'e', in place",
            "onnxruntime  Neg",
            "seqcore      SequenceInsert 'r', in place",
        ]

    def test_edits_before_it_are_on_a_copy(self):
        text = """g (seq(float[]) s, float[N] x) => (seq(float[]) t, seq(float[]) u) {
            t = SequenceInsert (s, x)
            u = SequenceErase (s)
        }"""
        assert explained(text)[-2:] == [
            "seqcore      SequenceInsert 't': on a copy, since 's' is needed again",
            "seqcore      SequenceErase 'u', in place",
        ]

    def test_a_state_stays_one_object(self):
        """What a loop appends to is the same from the first iteration to the last."""
        cut = cut_of(InferenceSession(model(APPEND_ROWS)))
        (loop,) = cut._plan._steps
        iterate, seen = loop._iterate, []

        def spy(frame, *arguments):
            going = iterate(frame, *arguments)
            seen.append(frame[loop._inner[0]])
            return going

        loop._iterate = spy
        x = np.ones((20, 2), np.float32)
        (result,) = cut.run(None, {"x": x, "s": [], "n": i64(20), "position": i64(0)})
        assert len(seen) == 20
        assert all(one is result for one in seen)


class TestSchedule:
    def test_readers_go_before_who_edits(self):
        schedule = schedule_of("""g (seq(float[]) s, float[N] x) => (seq(float[]) t, int64 n, float[] y) {
            zero = Constant <value = int64 {0}> ()
            t = SequenceInsert (s, x)
            n = SequenceLength (s)
            y = SequenceAt (s, zero)
        }""")
        assert operators(schedule) == [["SequenceLength"], ["SequenceAt"], ["SequenceInsert"]]

    def test_a_reader_that_waits_for_a_part_goes_first_too(self):
        schedule = schedule_of("""g (seq(float[]) s, float[N] x) => (seq(float[]) t, float[] y) {
            t = SequenceInsert (s, x)
            n = SequenceLength (s)
            two = Constant <value = int64 {2}> ()
            i = Div (n, two)
            y = SequenceAt (s, i)
        }""")
        assert operators(schedule) == [["SequenceLength"], ["Div"], ["SequenceAt"], ["SequenceInsert"]]

    def test_parts_are_as_large_as_they_can_be(self):
        schedule = schedule_of("""g (seq(float[2]) s, float[2] x, int64 i) => (float[2] y, int64 m) {
            a = Exp (x)
            e = SequenceAt (s, i)
            b = Sin (a)
            n = SequenceLength (s)
            c = Mul (b, e)
            f = Cos (x)
            m = Neg (n)
            y = Add (c, f)
        }""")
        assert operators(schedule) == [
            ["Exp", "Sin", "Cos"],
            ["SequenceAt"],
            ["SequenceLength"],
            ["Mul", "Neg", "Add"],
        ]

    def test_parts_that_need_one_another_are_apart(self):
        schedule = schedule_of("""g (seq(float[]) s, int64 i) => (float[] y, float[] z) {
            a = Neg (i)
            e = SequenceAt (s, a)
            k = Size (e)
            z = SequenceAt (s, k)
            y = Exp (z)
        }""")
        assert operators(schedule) == [["Neg"], ["SequenceAt"], ["Size"], ["SequenceAt"], ["Exp"]]

    def test_control_flow_of_tensors_alone_stays_in_a_part(self):
        schedule = schedule_of("""g (seq(float[]) s, float[N] x, bool c) => (seq(float[]) t) {
            y = If (c) <then_branch = a () => (float[N] u) { u = Exp (x) },
                        else_branch = b () => (float[N] v) { v = Neg (x) }>
            z = Sin (y)
            t = SequenceInsert (s, z)
        }""")
        assert operators(schedule) == [["If", "Sin"], ["SequenceInsert"]]

    def test_dead_nodes_are_dropped(self):
        text = """g (seq(float[]) s, float[N] x) => (seq(float[]) t) {
            dead = Exp (x)
            gone = SequenceErase (s)
            n = SequenceLength (gone)
            t = SequenceInsert (s, x)
        }"""
        cut = cut_of(InferenceSession(model(text)))
        assert operators(cut.planner.schedule) == [["SequenceInsert"]]
        assert len(list(all_graphs(cut.planner.facts.model.graph))) == 1

    @pytest.mark.parametrize(
        ("node", "in_numpy"),
        [
            ("m = Add (n, n)", True),
            ("m = Mod (n, n)", False),
            ("a = Add (n, n) b = Sub (a, n) d = Mul (b, b) m = Add (d, n)", True),
            ("a = Add (n, n) b = Sub (a, n) d = Mul (b, b) f = Add (d, n) m = Add (f, d)", False),
            ("f = Cast <to = 1> (n) g = Add (f, f) m = Cast <to = 7> (g)", False),
        ],
    )
    def test_small_parts_run_in_numpy(self, node, in_numpy):
        """A few integers, not floats, and not many."""
        text = f"g (seq(float[]) s) => (int64 m) {{ n = SequenceLength (s) {node} }}"
        planner = cut_of(InferenceSession(model(text))).planner
        part = planner.schedule.entries[-1]
        assert (id(part.nodes[0]) in planner.small) is in_numpy
        assert explained(text)[-1].startswith("numpy" if in_numpy else "onnxruntime")


class TestExplain:
    def test_a_loop(self):
        assert explained(APPEND_ROWS) == [
            "onnxruntime  all of it in one go, as long as the sequences are short",
            "seqcore      Loop 't', in rounds in onnxruntime: its sequences are only appended to",
            "    onnxruntime  Gather, Add",
            "    seqcore      SequenceInsert 'q', in place",
        ]
        assert (
            explained(TURN)[1]
            == "seqcore      Loop 't', in rounds in onnxruntime while its sequences are short"
        )

    def test_branches(self):
        text = """g (seq(float[]) s, bool c, float[N] x) => (seq(float[]) t) {
            t = If (c) <then_branch = a () => (seq(float[]) u) { y = Exp (x) u = SequenceInsert (s, y) },
                        else_branch = b () => (seq(float[]) v) { v = Identity (s) }>
        }"""
        assert explained(text) == [
            "onnxruntime  all of it in one go, as long as the sequences are short",
            "seqcore      If 't'",
            "    then_branch",
            "        onnxruntime  Exp",
            "        seqcore      SequenceInsert 'u', in place",
            "    else_branch",
            "        seqcore      Identity 'v'",
        ]

    def test_what_onnxruntime_does_not_run(self):
        text = """g (optional(seq(float[])) o) => (bool h) { h = OptionalHasElement (o) }"""
        assert explained(text) == ["seqcore      OptionalHasElement 'h'"]

    def test_what_is_lowered_whole(self):
        text = """g (float[N, 2] x, int64 i) => (float[2] y) {
            s = SplitToSequence <keepdims = 0> (x)
            y = SequenceAt (s, i)
        }"""
        assert explain(model(text)) == [
            "sequences",
            "    's' becomes pieces of 'x'",
            "what runs where",
            "    onnxruntime  the lowered model, whole",
        ]

    def test_what_comes_and_goes(self):
        assert explained("g (seq(float[]) s) => (seq(float[]) s2) { s2 = Identity (s) }")[-1] == (
            "seqcore      Identity 's2'"
        )
