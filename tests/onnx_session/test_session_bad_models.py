"""Models that the session refuses, and what it says."""

import numpy as np
import onnx
import pytest
from support.models.sessions import (
    APPEND,
    APPEND_FEED,
    LOOP,
    TENSORS_ONLY,
    assert_values,
    constant,
    f32,
    i64,
    model,
    session,
)

from seqcore import TensorSequence
from seqcore.onnx import InferenceSession
from seqcore.onnx._model import checks, prepare

SPLITS_OF_NONE = {
    "a constant": "f (float[4, 8] x) => (seq(float[]) s) <int64 k = {0}> { s = SplitToSequence (x, k) }",
    "int32": "f (float[N] x) => (seq(float[]) s) <int32 k = {0}> { s = SplitToSequence (x, k) }",
    "a node": """f (float[4] x) => (seq(float[]) s) {
        k = Constant <value_int = 0> () s = SplitToSequence (x, k)
    }""",
    "another node": """f (float[4] x) => (seq(float[]) s) {
        k = Constant <value = int64 {0}> () s = SplitToSequence (x, k)
    }""",
    "in a branch": """f (float[4] x, bool c) => (seq(float[]) s) <int64 k = {0}> {
        s = If (c) <then_branch = a () => (seq(float[]) p) { p = SplitToSequence (x, k) },
                    else_branch = b () => (seq(float[]) q) { q = SequenceEmpty () }>
    }""",
}


class TestRefused:
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

    @pytest.mark.parametrize("given", [None, 3, object(), [], {"x": 1}, np.zeros(3), TensorSequence([1])])
    def test_wrong_type(self, given):
        with pytest.raises(TypeError, match=type(given).__name__):
            InferenceSession(given)

    def test_a_graph_is_no_model(self):
        with pytest.raises(TypeError, match="GraphProto"):
            InferenceSession(model(APPEND).graph)

    @pytest.mark.parametrize(
        "text",
        [
            "g (seq(float[]) s) => (int64 n) { [odd_one] n = SequenceSize (s) }",
            "g (seq(float[]) s) => (int64 n) { [odd_one] n = SequenceLength (q) }",
            "g (seq(float[]) s) => (int64 n) { [odd_one] n = SequenceLength () }",
            "g (float[N] x) => (seq(float[]) s) { [odd_one] s = SplitToSequence <axis = 1.5> (x) }",
            "g (seq(float[]) s) => (float[N] x) { [odd_one] x = ConcatFromSequence (s) }",
            "g (float[N] x, int64[N] y) => (seq(float[]) s) { [odd_one] s = SequenceConstruct (x, y) }",
            "g (seq(float[]) s, int64[N] y) => (seq(float[]) t) { [odd_one] t = SequenceInsert (s, y) }",
            "g (float[N] s) => (int64 n) { [odd_one] n = SequenceLength (s) }",
            "g (seq(float[]) s) => (seq(float[]) n) { [odd_one] n = Abs (s) }",
            """g (seq(float[]) s, bool c) => (int64 n) {
                n = If (c) <then_branch = t () => (int64 a) { [odd_one] a = SequenceLength (q) },
                            else_branch = e () => (int64 b) { b = SequenceLength (s) }>
            }""",
        ],
    )
    def test_rejected_by_the_checker(self, text, capfd):
        with pytest.raises(ValueError, match="SequenceSize" if "Size" in text else "odd_one") as caught:
            session(text)
        assert "\n" not in str(caught.value)
        assert capfd.readouterr() == ("", "")

    @pytest.mark.parametrize(
        ("node", "what"),
        [
            (
                "t, m = If (c) <then_branch = a () => (seq(float[]) u) { u = SequenceInsert (s, x) },"
                "else_branch = b () => (seq(float[]) v) { v = SequenceErase (s) }>",
                "has 2 outputs, its then_branch 1",
            ),
            (
                "t = If (c) <then_branch = a (float[N] q) => (seq(float[]) u) { u = SequenceInsert (s, q) },"
                "else_branch = b () => (seq(float[]) v) { v = SequenceErase (s) }>",
                "has a then_branch with inputs",
            ),
            (
                "t = Loop (n, c, s) <body = b (int64 i, bool g, seq(float[]) u, float[N] y)"
                "=> (bool g, seq(float[]) v) { v = SequenceInsert (u, y) }>",
                "has 1 state, its body 4 inputs",
            ),
            (
                "t = Loop (n, c, s) <body = b (int64 i, bool g, seq(float[]) u) => (bool g) { }>",
                "has 1 state and 1 output, its body 1 output",
            ),
            (
                "t, m = Loop (n, c, s) <body = b (int64 i, bool g, seq(float[]) u)"
                "=> (bool g, seq(float[]) v) { v = SequenceInsert (u, x) }>",
                "has 1 state and 2 outputs, its body 2 outputs",
            ),
            (
                't = Loop (n, c, "") <body = b (int64 i, bool g, seq(float[]) u)'
                "=> (bool g, seq(float[]) v) { v = SequenceInsert (u, x) }>",
                "has a state without a name",
            ),
            ('t = SequenceConstruct (x, "")', "has an input without a name"),
            (
                't = SequenceMap (s, "") <body = b (float[] e, float[] d) => (float[] f) { f = Neg (e) }>',
                "has an input without a name",
            ),
            (
                "t, m = SequenceMap (s) <body = b (float[] e) => (float[] f) { f = Neg (e) }>",
                "has 2 outputs, its body 1",
            ),
            (
                "t = SequenceMap (s, x) <body = b (float[] e) => (float[] f) { f = Neg (e) }>",
                "has 2 inputs, its body 1",
            ),
            (
                "m = Scan <num_scan_inputs = 2, body = b (float e) => (float f) { f = Neg (e) }> (x)"
                "t = Identity (s)",
                "has 1 input, and can't scan 2 of them",
            ),
            (
                "m, k = Scan <num_scan_inputs = 1, body = b (float e) => (float f) { f = Neg (e) }> (x)"
                "t = Identity (s)",
                "has 2 outputs, its body 1",
            ),
            (
                "m = Scan <num_scan_inputs = 1, scan_input_axes = [0, 0], body = b (float e) => (float f)"
                "{ f = Neg (e) }> (x) t = Identity (s)",
                "has 1 scan input, but 2 scan_input_axes",
            ),
        ],
    )
    def test_graphs_that_do_not_fit_their_node(self, node, what):
        text = f"g (seq(float[]) s, bool c, int64 n, float[N] x) => (seq(float[]) t) {{ {node} }}"
        given = model(text)
        given.graph.node[0].name = "odd_one"
        with pytest.raises(ValueError, match=f"'odd_one' {what}"):
            session(given)

    @pytest.mark.parametrize(
        ("inputs", "branch", "what"),
        [
            (
                "optional(seq(float[])) o",
                "u = SequenceInsert (o, x)",
                "SequenceInsert 'u' doesn't take 'o'.*optional",
            ),
            (
                "optional(float[N]) o",
                "u = SequenceInsert (s, o)",
                "SequenceInsert 'u' doesn't take 'o'.*optional",
            ),
            ("float[N] o", "u = SequenceErase (o)", "SequenceErase 'u' doesn't take 'o'.*tensor"),
            ("float[N] o", "v = Neg (s) u = SequenceInsert (s, v)", "Neg 'v' doesn't take 's'.*sequence"),
            (
                "float[N] o",
                "n = Constant <value = int64[1] {2}> () e = SequenceEmpty () v = Slice (e, n, n) "
                "u = SequenceInsert (s, v)",
                "Slice 'v' doesn't take 'e'.*sequence",  # PyTorch's `l[:2]` of an empty list
            ),
        ],
    )
    def test_what_a_branch_captures(self, inputs, branch, what):
        """onnx itself takes these: it looks at no types of captures."""
        text = f"""g (seq(float[]) s, bool c, float[N] x, {inputs}) => (seq(float[]) t) {{
            t = If (c) <then_branch = a () => (seq(float[]) u) {{ {branch} }},
                        else_branch = b () => (seq(float[]) w) {{ w = SequenceErase (s) }}>
        }}"""
        with pytest.raises(ValueError, match=what):
            session(text)

    @pytest.mark.parametrize("condition", ["v", "on"])
    def test_a_condition_that_is_a_sequence(self, condition):
        text = f"""g (seq(float[]) s, bool c, int64 n, float[N] x) => (seq(float[]) t) {{
            t = Loop (n, c, s) <body = b (int64 i, bool go, seq(float[]) u)
                                     => (bool {condition}, seq(float[]) v) {{
                v = SequenceInsert (u, x)
                on = Identity (s)
            }}>
        }}"""
        with pytest.raises(ValueError, match=r"Loop 't' passes|Identity 'on' passes"):
            session(text)

    def test_a_state_that_may_be_empty(self):
        """The body takes it for a sequence."""
        text = """g (optional(seq(float[])) o, int64 n, float[N] x) => (seq(float[]) t) {
            t = Loop (n, "", o) <body = b (int64 i, bool go, seq(float[]) u) => (bool go, seq(float[]) v) {
                v = SequenceInsert (u, x)
            }>
        }"""
        with pytest.raises(ValueError, match="optional"):
            session(text)

    def test_a_sequence_of_sequences(self):
        """Where a body captures it, onnx doesn't look."""
        text = """g (seq(seq(float[])) s, float[2] x, float[N, 2] rows) => (float[2] last, float[R, 2] y) {
            last, y = Scan <num_scan_inputs = 1, body = b (float[2] a, float[2] row)
                                                       => (float[2] c, float[2] d) {
                zero = Constant <value = int64 {0}> ()
                e = SequenceAt (s, zero)
                c = Add (a, row)
                d = Mul (c, e)
            }> (x, rows)
        }"""
        with pytest.raises(ValueError, match="doesn't take 's', which is of type sequence of sequence"):
            session(text)

    @pytest.mark.parametrize("name", SPLITS_OF_NONE)
    def test_a_split_by_which_onnx_would_divide(self, monkeypatch, name):
        """Before 1.23 it does, and ends the process."""
        for module in (checks, prepare):
            monkeypatch.setattr(module, "ONNX_DIVIDES", True)
        with pytest.raises(ValueError, match=r"SplitToSequence '[sp]' splits into parts of length 0"):
            session(SPLITS_OF_NONE[name])

    @pytest.mark.skipif(checks.ONNX_DIVIDES, reason="onnx would divide by 0")
    @pytest.mark.parametrize("name", SPLITS_OF_NONE)
    def test_a_split_by_which_it_does_not(self, name):
        """It fails in the run, if it runs."""
        used, x = session(SPLITS_OF_NONE[name]), np.ones((4, 8)[: 1 + ("4, 8" in SPLITS_OF_NONE[name])], "f")
        feed = {"x": x} | ({"c": np.array(True)} if "branch" in name else {})
        with pytest.raises(ValueError, match="SplitToSequence"):
            used.run(None, feed)
        if "branch" in name:
            assert len(used.run(None, feed | {"c": np.array(False)})[0]) == 0

    @pytest.mark.parametrize("maker", ["s = SequenceEmpty ()", "s = other.make (x)"])
    def test_a_map_in_a_function_over_values_without_a_type(self, maker):
        """The inliner of some versions of onnx ended the process."""
        text = f"""<ir_version: 8, opset_import: ["": 17, "loc": 1, "other": 1]>
            g (float[N] x) => (int64 n) {{ n = loc.f (x) }}
            <domain: "loc", opset_import: ["": 17, "other": 1]>
            f (x) => (n) {{
                {maker}
                t = SequenceMap (s, x) <body = b (e, k) => (q) {{ q = Neg (e) }}>
                n = SequenceLength (t)
            }}"""
        given = onnx.parser.parse_model(text)
        if "other" in maker:
            with pytest.raises(ValueError, match=r"can't be run: .*other:make"):
                InferenceSession(given)
        else:
            (found,) = InferenceSession(given).run(None, {"x": np.ones(4, np.float32)})
            assert found == 0

    def test_another_split_of_the_same_name(self, monkeypatch):
        for module in (checks, prepare):
            monkeypatch.setattr(module, "ONNX_DIVIDES", True)
        text = """f (float[4] x, bool c) => (int64 n) <int64 k = {0}> {
            n = If (c) <then_branch = a () => (int64 p) <int64 k = {2}> {
                            s = SplitToSequence (x, k) p = SequenceLength (s)
                        }, else_branch = b () => (int64 q) { q = Identity (k) }>
        }"""
        (found,) = session(text).run(None, {"x": np.ones(4, np.float32), "c": np.array(True)})
        assert found == 2

    @pytest.mark.parametrize("name", ["s", "x"])
    def test_an_input_without_a_type(self, name):
        given = model(APPEND)
        value = next(value for value in given.graph.input if value.name == name)
        kind = value.type.tensor_type if name == "x" else value.type.sequence_type.elem_type.tensor_type
        kind.elem_type = 0
        with pytest.raises(ValueError, match=f"'{name}' is of no type"):
            session(given)
        value.type.Clear()
        with pytest.raises(ValueError, match=f"'{name}' is of no type"):
            session(given)

    @pytest.mark.parametrize("data", [b"", b"four", b"eleven bytes"])
    def test_a_constant_of_another_size(self, data):
        given = model("g (seq(float[]) s) => (seq(float[]) t) { t = SequenceInsert (s, k) }")
        given.graph.initializer.append(constant("k", f32(1, 2)))
        given.graph.initializer[0].raw_data = data
        with pytest.raises(ValueError, match=r"\bk\b"):
            session(given)

    @pytest.mark.parametrize("node", ["t = SequenceInsert (s, k)", "x = Neg (k) t = SequenceInsert (s, x)"])
    def test_a_constant_of_no_type(self, node):
        given = model(f"g (seq(float[]) s) => (seq(float[]) t) {{ {node} }}")
        given.graph.initializer.append(constant("k", f32(1, 2)))
        given.graph.initializer[0].data_type = 99
        with pytest.raises(ValueError, match="99"):
            session(given)

    def test_a_default_of_another_type(self):
        given = model(APPEND)
        given.graph.initializer.append(constant("s", f32(1, 2)))
        with pytest.raises(ValueError, match="default of 's'"):
            session(given)
        given.graph.initializer[0].CopyFrom(constant("x", i64([1, 2])))
        with pytest.raises(ValueError, match="default of 'x'"):
            session(given)

    @pytest.mark.parametrize(
        ("function", "what"),
        [
            ("put (a) => (c) { c = SequenceErase (a) }", "put 'odd_one' has 2 inputs, its function 1"),
            ("put (a, b) => () { c = SequenceErase (a) }", "put 'odd_one' has 1 output, its function 0"),
            ("put (a, b) => (c) { d = SequenceErase (a) }", "'t'"),
            ("put (a, b, q) => (c) { [odd_one] c = SequenceInsert (q, b) }", "odd_one"),
            ("put (a, b) => (c) { c = own.put (a, b) }", "own"),
        ],
    )
    def test_a_function_that_does_not_fit_its_call(self, function, what):
        text = f"""<ir_version: 8, opset_import: ["": 17, "own": 1]>
            g (seq(float[]) s, float[N] x) => (seq(float[]) t) {{ [odd_one] t = own.put (s, x) }}
            <opset_import: ["": 17], domain: "own"> {function}"""
        with pytest.raises(ValueError, match=what):
            session(text)

    def test_vectors_without_end(self, monkeypatch):
        """onnx, where it may propagate data, makes an object for each number of a vector."""
        infer = onnx.shape_inference.infer_shapes

        def spy(given, *arguments, data_prop=False, **options):
            assert not data_prop
            return infer(given, *arguments, data_prop=data_prop, **options)

        monkeypatch.setattr(onnx.shape_inference, "infer_shapes", spy)
        session(f"""g (float[{1 << 40}] x) => (seq(float[]) s, float[K] y) {{
            s = SplitToSequence <keepdims = 0> (x)
            y = Add (x, x)
        }}""")

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
