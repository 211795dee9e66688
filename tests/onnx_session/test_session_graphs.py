"""Models of every make: functions, initializers, external data, odd names, omitted inputs."""

import numpy as np
import onnx
import pytest
from support.models.sessions import (
    assert_as_reference,
    assert_values,
    constant,
    f32,
    floats,
    i64,
    model,
    session,
    signature,
)

from seqcore.onnx import InferenceSession

pytestmark = pytest.mark.mostly_slow(5)

FUNCTIONS = '<ir_version: 8, opset_import: ["" : 17, "mine" : 1]>\n'


class TestFunctions:
    def test_in_a_loop_body_and_in_each_other(self):
        text = (
            FUNCTIONS
            + """
            g (float[N] x, int64 n) => (seq(float[]) t, float[M] y) {
                none = SequenceEmpty ()
                t = Loop (n, , none) <body = b (int64 i, bool go, seq(float[]) s)
                                            => (bool on, seq(float[]) r) {
                    f = Cast <to = 1> (i)
                    z = Mul (x, f)
                    r = mine.pair (s, z)
                    on = Identity (go)
                }>
                y = mine.joined (t)
            }
            <domain: "mine", opset_import: ["" : 17, "mine" : 1]>
            pair (s, x) => (r) { t = mine.single (s, x) y = mine.twice (x) r = mine.single (t, y) }
            <domain: "mine", opset_import: ["" : 17]>
            single (s, x) => (r) { r = SequenceInsert (s, x) }
            <domain: "mine", opset_import: ["" : 17]>
            twice (x) => (y) { y = Add (x, x) }
            <domain: "mine", opset_import: ["" : 17]>
            joined (s) => (y) { y = ConcatFromSequence <axis = 0> (s) }"""
        )
        x = f32(1, 2)
        rows = [x * np.float32(i) * k for i in range(3) for k in (1, 2)]
        rows = [row.astype(np.float32) for row in rows]
        assert_values(session(text).run(None, {"x": x, "n": i64(3)}), [rows, np.concatenate(rows)])

    def test_functions_of_tensors_alone(self):
        text = (
            FUNCTIONS
            + """
            g (float[N] x) => (float[N] y) { y = mine.twice (x) }
            <domain: "mine", opset_import: ["" : 17]>
            twice (x) => (y) { y = Add (x, x) }"""
        )
        assert_as_reference(model(text), {"x": f32(1, 2)})


class TestInitializers:
    @pytest.mark.parametrize("indices", [[1, 5], [[0, 1], [1, 2]]])
    def test_sparse_constants(self, indices):
        """Those that sequences take, and those that nodes of onnxruntime read as well."""
        given = model("""g (seq(float[]) s) => (seq(float[]) t, seq(float[]) u, float[2, 3] y) {
            t = SequenceInsert (s, k)
            u = SequenceConstruct (k, k)
            y = Add (k, k)
        }""")
        sparse = given.graph.sparse_initializer.add(dims=[2, 3])
        sparse.values.CopyFrom(constant("k", f32(7, 8)))
        sparse.indices.CopyFrom(constant("", i64(indices)))
        k = f32([0, 7, 0], [0, 0, 8])
        assert_values(session(given).run(None, {"s": floats(1)}), [[*floats(1), k], [k, k], k + k])

    def test_a_sparse_constant_is_a_default_where_it_is_an_input(self):
        given = model("""g (float[3] x, int64 i) => (seq(float[]) t, float[3] y) {
            s = SplitToSequence (x)
            t = SequenceErase (s, i)
            y = Neg (x)
        }""")
        sparse = given.graph.sparse_initializer.add(dims=[3])
        sparse.values.CopyFrom(constant("x", f32(7)))
        sparse.indices.CopyFrom(constant("", i64([1])))
        used = session(given)
        assert [one.name for one in used.get_inputs()] == ["i"]
        assert [one.name for one in used.get_overridable_initializers()] == ["x"]
        for feed, x in [({"x": f32(1, 2, 3)}, f32(1, 2, 3)), ({}, f32(0, 7, 0))]:
            found = used.run(None, {**feed, "i": i64(0)})
            assert_values(found, [np.split(x, 3)[1:], -x])

    def test_a_sparse_constant_that_fills_the_memory(self):
        given = model("g (seq(float[]) s) => (seq(float[]) t) { t = SequenceInsert (s, k) }")
        sparse = given.graph.sparse_initializer.add(dims=[1 << 50])
        sparse.values.CopyFrom(constant("k", f32(7, 8)))
        sparse.indices.CopyFrom(constant("", i64([1, 5])))
        with pytest.raises(ValueError, match="'k'"):
            session(given)


class TestExternalData:
    @pytest.fixture
    def path(self, tmp_path):
        given = model("g (seq(float[]) s) => (seq(float[]) t) { t = SequenceInsert (s, w) }")
        given.graph.initializer.append(constant("w", f32(7)))
        path = tmp_path / "model.onnx"
        onnx.save(given, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
        return path

    def test_the_file_is_missing(self, path):
        path.with_name("weights.bin").unlink()
        with pytest.raises(Exception, match=r"weights\.bin"):
            InferenceSession(path)

    def test_bytes_do_not_know_their_folder(self, path):
        for other in (path.read_bytes(), onnx.load(path, load_external_data=False)):
            with pytest.raises(Exception, match=r"weights\.bin|path"):
                InferenceSession(other)


class TestNames:
    ODD = ("/layer.0/Add_output_0", "x y", "a:0", "ünï", "%1", "1", "if", "x'y", "out(0)", "a\\b")

    @pytest.mark.parametrize("first", range(len(ODD)))
    def test_odd_names_of_values(self, first):
        """Each name in each role: input, output, within, of a body's own."""
        text = """g (seq(float[]) S, float[N] X, int64 K) => (seq(float[]) T, float[N] Y) {
            Y = Neg (X)
            T = Loop (K, , S) <body = b (int64 I, bool G, seq(float[]) P) => (bool G, seq(float[]) Q) {
                Z = Add (Y, X)
                Q = SequenceInsert (P, Z)
            }>
        }"""
        s, x = floats(1), f32(1, 2)
        names = dict(zip("SXKTYIGPQZ", [*self.ODD[first:], *self.ODD[:first]], strict=True))
        given = model(text)
        for role, name in names.items():
            rename(given.graph, role, name)
        feed = {names["S"]: s, names["X"]: x, names["K"]: i64(2)}
        used = InferenceSession(given)
        assert_values(used.run(None, feed), [[*s, f32(0, 0), f32(0, 0)], -x])
        assert [value[0] for value in signature(used)[0]] == list(feed)


def rename(graph, old, new):
    """Give a value of a graph, or of those within it, another name."""
    for value in (*graph.input, *graph.output, *graph.value_info, *graph.initializer):
        if value.name == old:
            value.name = new
    for node in graph.node:
        for names in (node.input, node.output):
            names[:] = [new if name == old else name for name in names]
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                rename(attribute.g, old, new)


class TestSameNames:
    def test_the_same_names_in_both_branches_and_inside_of_them(self):
        """As exporters number values: what a graph in a branch reads is its own branch's."""

        def branch(operator):
            return f"""a = {operator} (x)
                l = Loop (n, "", s) <body = b (int64 i, bool go, seq(float[]) p)
                                            => (bool on, seq(float[]) q) {{
                    on = Identity (go)
                    f = Cast <to = 1> (i)
                    b = Mul (a, f)
                    q = If (c) <
                        then_branch = t () => (seq(float[]) r) {{ d = Add (a, b) r = SequenceInsert (p, d) }},
                        else_branch = e () => (seq(float[]) r) {{ d = Sub (a, b) r = SequenceInsert (p, d) }}
                    >
                }}>"""

        text = f"""g (seq(float[]) s, float[N] x, bool c, int64 n) => (seq(float[]) y) {{
            y = If (c) <then_branch = u () => (seq(float[]) l) {{ {branch("Neg")} }},
                        else_branch = v () => (seq(float[]) l) {{ {branch("Abs")} }}>
        }}"""
        used, x = session(text), f32(1, 3)
        for feed, a in (({"c": np.array(True)}, -x), ({"c": np.array(False)}, x)):
            sign = 1 if feed["c"] else -1
            rows = [a + sign * a * k for k in range(4)]
            for _ in range(4):  # whole at first, compiled from the third run on
                assert_values(used.run(None, {"s": [], "x": x, "n": np.array(4), **feed}), [rows])


class TestOmitted:
    def test_an_optional_output_that_is_not_made(self):
        text = """g (seq(float[]) s, float[N] x) => (seq(float[]) t) {
            y, "" = Dropout (x)
            t = SequenceInsert (s, y)
        }"""
        assert_values(session(text).run(None, {"s": [], "x": f32(1, 3)}), [[f32(1, 3)]])


class TestLarge:
    def test_a_graph_of_many_sequence_operators(self):
        lines = "\n".join(
            f"y{i} = Add (x, y{i - 1}) s{i} = SequenceInsert (s{i - 1}, y{i})" for i in range(1, 200)
        )
        text = f"""g (seq(float[]) s0, float[N] x) => (seq(float[]) s199, float[N] y199) {{
            y0 = Identity (x)
            {lines}
        }}"""
        x = f32(1, 2)
        rows = [x * np.float32(i + 1) for i in range(200)]
        assert_values(session(text).run(None, {"s0": [], "x": x}), [rows[1:], rows[-1]])

    def test_deep_nesting(self):
        """Twenty branches within each other, each of which inserts into what the one around it has made."""
        body = "s20 = SequenceInsert (s19, x)"
        for depth in range(19, 0, -1):
            inner = f"o{depth + 1}" if depth < 19 else "s20"
            body = f"""s{depth} = SequenceInsert (s{depth - 1}, x)
                o{depth} = If (c) <
                    then_branch = t{depth} () => (seq(float[]) {inner}) {{ {body} }},
                    else_branch = e{depth} () => (seq(float[]) z{depth}) {{
                        z{depth} = Identity (s{depth})
                    }}>"""
        text = f"g (seq(float[]) s0, float[N] x, bool c) => (seq(float[]) o1) {{ {body} }}"
        used, x = session(text), f32(1)
        assert_values(used.run(None, {"s0": [], "x": x, "c": np.array(True)}), [[x] * 20])
        assert_values(used.run(None, {"s0": [], "x": x, "c": np.array(False)}), [[x]])
