"""seqcore.onnx.InferenceSession as a whole: models it takes, what it says of them, and how it runs."""

import copy
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

import onnx
import onnxruntime
from sessions import (
    assert_as_reference,
    assert_fails,
    assert_value,
    assert_values,
    by_reference,
    constant,
    f32,
    floats,
    i64,
    in_threads,
    model,
    reference,
    session,
    signature,
)

from seqcore import TensorSequence
from seqcore.onnx import InferenceSession

TENSORS_ONLY = """
    plain (float[N, 3] x, float[3] w, int64 k) => (float[N, 3] y, float[3] top, int64 more) {
        one = Constant <value = int64 {1}> ()
        t = Mul (x, w)
        y = Relu (t)
        [pick] top = Gather <axis = 0> (y, k)
        more = Add (k, one)
    }
"""
APPEND = """
    append (seq(float[]) s, float[N] x) => (seq(float[]) longer, int64 n, float[M] joined) {
        [put] longer = SequenceInsert (s, x)
        n = SequenceLength (longer)
        [join] joined = ConcatFromSequence <axis = 0> (longer)
    }
"""
LOOP = """
    loop (float[N, 2] x, int64 rounds) => (float[M, 2] y) {
        yes = Constant <value = bool {1}> ()
        [start] none = SequenceEmpty ()
        [again] all = Loop (rounds, yes, none) <body = b (int64 i, bool go, seq(float[]) s)
                                             => (bool on, seq(float[]) t) {
            [row] r = Gather <axis = 0> (x, i)
            [put] t = SequenceInsert (s, r)
            on = Identity (go)
        }>
        [join] y = ConcatFromSequence <axis = 0, new_axis = 1> (all)
    }
"""


def plain_feed(n=4, k=2):
    return {"x": np.arange(3 * n, dtype=np.float32).reshape(n, 3) - 5, "w": f32(1, 2, 3), "k": i64(k)}


class TestWithoutSequences:
    def test_results_are_onnxruntimes(self):
        given = model(TENSORS_ONLY)
        used, other = InferenceSession(given), reference(given)
        assert signature(used) == signature(other)
        for n in (1, 4, 100):
            feed = plain_feed(n, n - 1)
            for names in (None, ["more"], ["top", "y"]):
                assert_values(used.run(names, feed), other.run(names, feed))

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("q", f32(1)),
            ("w", np.ones(3)),
            ("w", f32(1, 2)),
            ("w", [f32(1, 2, 3)]),
            ("x", f32(1, 2, 3)),
            ("k", i64(9)),
        ],
    )
    def test_errors(self, name, value):
        """What onnxruntime refuses is refused; the node or the input is named."""
        given = model(TENSORS_ONLY)
        used, other = InferenceSession(given), reference(given)
        with pytest.raises(Exception, match=r"."):
            other.run(None, plain_feed() | {name: value})
        assert_fails(used, plain_feed() | {name: value}, Exception, "pick" if name == "k" else name)
        lacking = plain_feed()
        del lacking["w"]
        assert_fails(used, lacking, Exception, "w")
        assert_values(used.run(None, plain_feed()), other.run(None, plain_feed()))

    def test_control_flow_of_tensors(self):
        text = """
            g (float[N] x, bool c, int64 n) => (float[N] y, float[M, N] rows, float[N] z) {
                y, rows = Loop (n, c, x) <body = b (int64 i, bool go, float[N] a)
                                              => (bool on, float[N] d, e) {
                    d = Add (a, x)
                    e = Identity (d)
                    on = Identity (go)
                }>
                z = If (c) <then_branch = t () => (p) { p = Neg (x) },
                            else_branch = e () => (q) { q = Abs (y) }>
            }"""
        used = session(text)
        for c in (True, False):
            feed = {"x": f32(1, -2), "c": np.array(c), "n": i64(3)}
            assert_values(used.run(None, feed), by_reference(model(text), feed))

    def test_a_long_run_of_operators_costs_one_call(self):
        """The answer is right, at least, for a graph of a thousand nodes."""
        text = "".join(f"t{i + 1} = Add (t{i}, x)\n" for i in range(1000))
        given = model(f"g (float[N] x) => (float[N] t1000) {{ t0 = Identity (x)\n {text} }}")
        assert_as_reference(given, {"x": f32(1, 2)})


class TestSignatures:
    TEXTS = (
        TENSORS_ONLY,
        APPEND,
        LOOP,
        "g (optional(float[N]) a, float b) => (bool h, optional(float[N]) o)"
        "{ h = OptionalHasElement (a) o = Identity (a) }",
        "g (optional(seq(int64[])) a) => (bool h, optional(seq(int64[])) o)"
        "{ h = OptionalHasElement (a) o = Identity (a) }",
        "g (seq(string[]) a, seq(double[2, M]) b) => (seq(string[]) c, int64 n)"
        "{ c = Identity (a) n = SequenceLength (b) }",
        "g (float16[?, M, 3] a, bool[0] b) => (seq(float16[]) c, seq(bool[]) d)"
        "{ c = SequenceConstruct (a, a) d = SequenceConstruct (b) }",
        "g (uint8[2] a, int16 b) => (seq(uint8[]) c, int16 b) { c = SequenceConstruct (a) }",
        "g (float[N, 3] x) => (float[N, 6] y, int64 n)"
        "{ y = Concat <axis = 1> (x, x) s = SequenceConstruct (y) n = SequenceLength (s) }",
        "g (float[N] x) => (optional(seq(float[])) o) { s = SequenceConstruct (x) o = Optional (s) }",
    )

    @pytest.mark.parametrize("text", TEXTS)
    def test_as_onnxruntimes(self, text):
        given = model(text, 18)
        assert signature(InferenceSession(given)) == signature(reference(given))

    @pytest.mark.parametrize("name", ["uint8", "complex64", "complex128", "bfloat16", "uint64"])
    def test_types_beyond_onnxruntime(self, name):
        text = f"""g ({name}[N] x) => (seq({name}[]) s, {name}[N] y) {{
            s = SplitToSequence (x)
            y = Identity (x)
        }}"""
        inputs, outputs = signature(session(text, 24 if name == "bfloat16" else 17))
        assert inputs == [("x", f"tensor({name})", ["N"])]
        assert [value[:2] for value in outputs] == [("s", f"seq(tensor({name}))"), ("y", f"tensor({name})")]

    def test_an_initializer_that_is_an_input_too(self):
        given = model(
            "g (float[N] x, float[2] w) => (seq(float[]) y) { z = Add (x, w) y = SequenceConstruct (z) }"
        )
        given.graph.initializer.append(constant("w", f32(1, 2)))
        used = InferenceSession(given)
        assert signature(used) == signature(reference(given))
        assert_values(used.run(None, {"x": f32(1, 1)}), [[f32(2, 3)]])
        assert_values(used.run(None, {"x": f32(1, 1), "w": f32(5, 6)}), [[f32(6, 7)]])
        assert_values(used.run(None, {"x": f32(1, 1)}), [[f32(2, 3)]])

    def test_any_rank(self):
        given = model(
            "g (float[] x) => (seq(float[]) s, float[] y) { s = SequenceConstruct (x, x) y = Neg (x) }"
        )
        used = InferenceSession(given)
        assert signature(used) == signature(reference(given))
        for x in (f32(1, 2), np.ones((2, 3), np.float32), np.array(4, np.float32)):
            assert_values(used.run(None, {"x": x}), [[x, x], -x])

    @pytest.mark.parametrize("text", [TENSORS_ONLY, APPEND])
    def test_meta(self, text):
        given = model(text)
        given.producer_name, given.doc_string, given.model_version = "tests", "words", 7
        given.domain = "org.example"
        onnx.helper.set_model_props(given, {"author": "somebody"})
        found, expected = InferenceSession(given).get_modelmeta(), reference(given).get_modelmeta()
        for name in (
            "producer_name",
            "graph_name",
            "domain",
            "description",
            "version",
            "custom_metadata_map",
        ):
            assert getattr(found, name) == getattr(expected, name)

    @pytest.mark.parametrize("text", [TENSORS_ONLY, APPEND])
    def test_options(self, text):
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = 1
        providers = ["CPUExecutionProvider"]
        for used in (
            InferenceSession(model(text), options, providers, [{}]),
            InferenceSession(model(text), sess_options=options, providers=providers, provider_options=None),
            InferenceSession(model(text)),
        ):
            assert used.get_providers() == providers
            feed = plain_feed() if text is TENSORS_ONLY else {"s": [f32(1)], "x": f32(2)}
            expected = used.run(None, feed)
            quiet = onnxruntime.RunOptions()
            quiet.log_severity_level = 4
            assert_values(used.run(None, feed, quiet), expected)
            assert_values(used.run(None, feed, run_options=None), expected)


APPEND_FEED = {"s": [f32(1), f32(2, 3)], "x": f32(4)}
APPENDED = {"longer": [f32(1), f32(2, 3), f32(4)], "n": i64(3), "joined": f32(1, 2, 3, 4)}


class TestOutputs:
    @pytest.mark.parametrize(
        "names",
        [["longer"], ["n"], ["joined"], ["joined", "longer"], ["n", "n"], ["longer", "longer", "n"], ("n",)],
    )
    def test_some(self, names):
        found = session(APPEND).run(names, APPEND_FEED)
        assert_values(found, [APPENDED[name] for name in names])

    def test_all(self):
        used = session(APPEND)
        assert_values(used.run(None, APPEND_FEED), list(APPENDED.values()))
        assert_values(used.run([], APPEND_FEED), list(APPENDED.values()))  # as in onnxruntime

    def test_the_same_twice_is_not_one_object_that_changes(self):
        first, second = session(APPEND).run(["longer", "longer"], APPEND_FEED)
        first.clear()
        assert len(second) == 3

    def test_unknown(self):
        used = session(APPEND)
        for names in (["q"], ["n", "q"], ["s"]):
            with pytest.raises(Exception, match=rf"\b{names[-1]}\b"):
                used.run(names, APPEND_FEED)
            assert_values(used.run(["n"], APPEND_FEED), [i64(3)])

    def test_an_output_that_is_an_input(self):
        text = """g (seq(float[]) s, float[N] x) => (seq(float[]) s, float[N] x, seq(float[]) t) {
            t = SequenceInsert (s, x)
        }"""
        s, x = TensorSequence(floats(1, 2)), f32(9)
        found = session(text).run(None, {"s": s, "x": x})
        assert_values(found, [floats(1, 2), x, [*floats(1, 2), x]])
        found[0].clear()
        found[1][:] = 0
        assert_value(s, floats(1, 2))
        assert_value(x, f32(9))
        assert_value(found[2], [*floats(1, 2), f32(9)])

    def test_no_node_at_all(self):
        given = model("g (seq(float[]) s, int64 n) => (int64 n, seq(float[]) s) { }")
        assert_values(
            InferenceSession(given).run(None, {"s": floats(2, 0), "n": i64(4)}), [i64(4), floats(2, 0)]
        )

    def test_one_value_under_several_names(self):
        text = """g (float[N] x) => (seq(float[]) a, seq(float[]) b, seq(float[]) c) {
            a = SequenceConstruct (x)
            b = Identity (a)
            c = SequenceInsert (b, x)
        }"""
        a, b, c = session(text).run(None, {"x": f32(1)})
        assert_values([a, b, c], [[f32(1)], [f32(1)], [f32(1), f32(1)]])
        a.append(f32(2))
        c.clear()
        assert_value(b, [f32(1)])

    def test_unused_inputs(self):
        text = "g (seq(float[]) s, float[N] x, seq(int64[]) t) => (int64 n) { n = SequenceLength (s) }"
        assert_values(
            session(text).run(None, {"s": floats(1), "x": f32(1), "t": [i64([1])]}),
            [i64(1)],
        )


class TestMemory:
    TEXT = """
        g (float[N] x, seq(float[]) s, bool c) => (seq(float[]) a, float[N] y, seq(float[]) b, float[M] z) {
            a = SequenceInsert (s, x)
            b = SplitToSequence (x)
            zero = Constant <value = int64 {0}> ()
            first = SequenceAt (a, zero)
            z = Identity (first)
            y = If (c) <then_branch = t () => (p) { p = Identity (x) },
                        else_branch = e () => (q) { q = SequenceAt (a, zero) }>
        }
    """

    @pytest.mark.parametrize("c", [True, False])
    def test_results_and_feeds_are_apart(self, c):
        x, old = f32(1, 2, 3), [f32(4, 5), f32(6)]
        s = TensorSequence(old)
        used = session(self.TEXT)
        found = used.run(None, {"x": x, "s": s, "c": np.array(c)})
        expected = [[*old, x], x if c else old[0], [f32(1), f32(2), f32(3)], old[0]]
        expected = copy.deepcopy(expected)
        assert_values(found, expected)
        assert len(s) == 2
        x[:] = 70
        old[0][:] = 80
        s.clear()
        assert_values(found, expected)
        for one in found:
            if isinstance(one, np.ndarray):
                one[:] = 90
                assert not np.shares_memory(one, x)
        assert_values([found[0], found[2]], [expected[0], expected[2]])
        assert_value(x, f32(70, 70, 70))
        assert_value(old[0], f32(80, 80))
        assert_values(
            used.run(["a"], {"x": f32(1), "s": (f32(2),), "c": np.array(c)}),
            [[f32(2), f32(1)]],
        )

    def test_constants_stay(self):
        text = """g (float[2] x) => (seq(float[]) s, float[2] k) {
            k = Constant <value = float[2] {1, 2}> ()
            s = SequenceConstruct (k, x, k)
        }"""
        used = session(text)
        for _ in range(3):
            s, k = used.run(None, {"x": f32(3, 4)})
            assert_values([s, k], [[f32(1, 2), f32(3, 4), f32(1, 2)], f32(1, 2)])
            k[:] = 9
            s.clear()

    def test_results_are_writable_arrays(self):
        joined = session(APPEND).run(["joined"], {"s": [f32(1)], "x": f32(2)})[0]
        assert joined.flags.writeable
        assert joined.flags.c_contiguous

    def test_a_run_keeps_nothing_of_another(self):
        used = session(LOOP)
        for n in (3, 1, 5):
            x = np.random.default_rng(n).random((n, 2), np.float32)
            first = used.run(None, {"x": x, "rounds": i64(n)})
            second = used.run(None, {"x": x + 1, "rounds": i64(n)})
            assert_values(first, [x])
            assert_values(second, [x + 1])


class TestThreads:
    @pytest.mark.parametrize("workers", [1, 2])
    def test_one_session_from_four(self, workers):
        text = """
            g (float[N] x, int64 n) => (seq(float[]) all, float[M] y) {
                parts = SplitToSequence (x)
                [map] scaled = SequenceMap (parts) <body = m (float[1] a) => (float[1] b) { b = Add (a, a) }>
                all = Loop (n, , scaled) <body = b (int64 i, bool go, seq(float[]) s)
                                              => (bool go, seq(float[]) t) {
                    at = SequenceAt (s, i)
                    t = SequenceInsert (s, at)
                }>
                [join] y = ConcatFromSequence <axis = 0> (all)
            }
        """
        used = session(text, max_workers=workers)

        def work(k):
            for n in (5, 1, 30):
                x = np.arange(n, dtype=np.float32) + 100 * k
                expected = [*(x + x), *(x + x)[: n // 2]]
                found = used.run(None, {"x": x, "n": i64(n // 2)})
                assert_values(found, [[f32(v) for v in expected], f32(*expected)])
                assert_fails(used, {"x": x, "n": i64(2 * n + k + 5), "q": x}, Exception, "q")
            return k

        assert in_threads(4, work) == [0, 1, 2, 3]

    def test_failures_in_one_thread(self):
        used = session(LOOP)

        def work(k):
            x = np.full((50, 2), k, np.float32)
            for _ in range(5):
                if k % 2:
                    assert_fails(used, {"x": x, "rounds": i64(51)}, Exception, "row")
                else:
                    assert_values(used.run(None, {"x": x, "rounds": i64(50)}), [x])

        in_threads(4, work)


class TestBadModels:
    @pytest.mark.parametrize("text", [TENSORS_ONLY, APPEND, LOOP])
    def test_truncated(self, text, tmp_path):
        data = model(text).SerializeToString()
        for given in (b"", b"no model at all", data[:-3], data[: len(data) // 2]):
            with pytest.raises(ValueError, match=r"^[^\n]+$"):
                InferenceSession(given)
            path = tmp_path / "truncated.onnx"
            path.write_bytes(given)
            with pytest.raises(ValueError, match=r"^[^\n]+$"):
                InferenceSession(path)

    def test_a_file_of_another_kind(self, tmp_path):
        path = tmp_path / "words.onnx"
        path.write_text("no model at all")
        with pytest.raises(ValueError, match=r"words\.onnx"):
            InferenceSession(path)

    @pytest.mark.parametrize("kind", [str, Path])
    def test_no_file(self, kind, tmp_path):
        with pytest.raises(FileNotFoundError, match=r"none\.onnx"):
            InferenceSession(kind(tmp_path / "none.onnx"))

    @pytest.mark.parametrize("given", [None, 3, object(), [], {"x": 1}, np.zeros(3), TensorSequence([1])])
    def test_wrong_type(self, given):
        with pytest.raises(TypeError, match=type(given).__name__):
            InferenceSession(given)

    def test_a_graph_is_no_model(self):
        with pytest.raises(TypeError, match="GraphProto"):
            InferenceSession(model(APPEND).graph)

    @pytest.mark.parametrize(
        ("text", "name"),
        [
            ("g (seq(float[]) s) => (int64 n) { [odd_one] n = SequenceSize (s) }", "odd_one|SequenceSize"),
            ("g (seq(float[]) s) => (int64 n) { [odd_one] n = SequenceLength (q) }", "odd_one"),
            ("g (seq(float[]) s) => (int64 n) { [odd_one] n = SequenceLength () }", "odd_one"),
            (
                "g (float[N] x) => (seq(float[]) s) { [odd_one] s = SplitToSequence <axis = 1.5> (x) }",
                "odd_one",
            ),
            ("g (seq(float[]) s) => (float[N] x) { [odd_one] x = ConcatFromSequence (s) }", "odd_one"),
            (
                "g (float[N] x, int64[N] y) => (seq(float[]) s) { [odd_one] s = SequenceConstruct (x, y) }",
                "odd_one",
            ),
            (
                "g (seq(float[]) s, int64[N] y) => (seq(float[]) t) { [odd_one] t = SequenceInsert (s, y) }",
                "odd_one",
            ),
            (
                "g (float[N] s) => (int64 n) { [odd_one] n = SequenceLength (s) }",
                "odd_one",
            ),
            (
                "g (seq(float[]) s) => (seq(float[]) n) { [odd_one] n = Abs (s) }",
                "odd_one",
            ),
            (
                "g (seq(float[]) s, bool c) => (int64 n) { n = If (c) <"
                "then_branch = t () => (int64 a) { [odd_one] a = SequenceLength (q) },"
                "else_branch = e () => (int64 b) { b = SequenceLength (s) }> }",
                "odd_one",
            ),
        ],
    )
    def test_rejected_by_the_checker(self, text, name, capfd):
        with pytest.raises(ValueError, match=name) as caught:
            session(text)
        assert "\n" not in str(caught.value)
        assert capfd.readouterr() == ("", "")

    def test_defined_twice(self):
        text = "g (seq(float[]) s) => (int64 n) { n = SequenceLength (s) [odd_one] n = SequenceLength (s) }"
        with pytest.raises(ValueError, match=r"\bn\b"):
            session(text)

    def test_an_unknown_opset(self):
        with pytest.raises(ValueError, match="99"):
            session(APPEND, opset=99)

    def test_an_unknown_domain(self):
        text = """<ir_version: 8, opset_import: ["" : 17, "strange" : 1]>
            g (float[N] x) => (seq(float[]) s) { y = strange.Thing (x) s = SequenceConstruct (y) }"""
        with pytest.raises(Exception, match="Thing"):
            session(text)

    def test_the_model_may_change_afterwards(self):
        given = model(APPEND)
        used = InferenceSession(given)
        given.graph.node[0].op_type = "Nothing"
        del given.graph.output[:]
        assert_values(used.run(["n"], APPEND_FEED), [i64(3)])
