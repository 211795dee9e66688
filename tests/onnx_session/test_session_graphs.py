"""Models of every make: functions, initializers, external data, odd names, omitted inputs."""

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

import onnx
from onnx import helper
from support.models.sessions import (
    assert_as_reference,
    assert_fails,
    assert_values,
    by_reference,
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
    def test_sequences_through_a_function(self):
        text = (
            FUNCTIONS
            + """
            g (seq(float[]) s, float[N] x) => (seq(float[]) t, int64 n) {
                u = mine.put_twice (s, x)
                t = mine.put_twice (u, x)
                n = SequenceLength (t)
            }
            <domain: "mine", opset_import: ["" : 17]>
            put_twice (p, x) => (out) {
                y = Neg (x)
                a = SequenceInsert (p, x)
                out = SequenceInsert (a, y)
            }"""
        )
        s, x = floats(1), f32(3)
        assert_values(session(text).run(None, {"s": s, "x": x}), [[*s, x, -x, x, -x], i64(5)])

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

    def test_with_control_flow_and_attributes(self):
        text = (
            FUNCTIONS
            + """
            g (seq(float[]) s, bool c) => (float[M] y, float[K, L] z) {
                y = mine.joined <axis = 0, new_axis = 0> (s, c)
                z = mine.joined <axis = 0, new_axis = 1> (s, c)
            }
            <domain: "mine", opset_import: ["" : 17]>
            joined <axis, new_axis> (s, c) => (y) {
                t = If (c) <
                    then_branch = a () => (p) { p = SequenceErase (s) },
                    else_branch = b () => (q) { q = Identity (s) }>
                y = ConcatFromSequence <axis: int = @axis, new_axis: int = @new_axis> (t)
            }"""
        )
        s = floats(2, 2, 2)
        used = session(text)
        for c, kept in ((True, s[:2]), (False, s)):
            found = used.run(None, {"s": s, "c": np.array(c)})
            assert_values(found, [np.concatenate(kept), np.stack(kept)])

    def test_functions_of_tensors_alone(self):
        text = (
            FUNCTIONS
            + """
            g (float[N] x) => (float[N] y) { y = mine.twice (x) }
            <domain: "mine", opset_import: ["" : 17]>
            twice (x) => (y) { y = Add (x, x) }"""
        )
        assert_as_reference(model(text), {"x": f32(1, 2)})

    def test_an_error_in_a_function(self):
        text = (
            FUNCTIONS
            + """
            g (seq(float[]) s, int64 k) => (float[N] y) { y = mine.take (s, k) }
            <domain: "mine", opset_import: ["" : 17]>
            take (s, k) => (y) { [take_it] y = SequenceAt (s, k) }"""
        )
        used = session(text)
        assert_fails(used, {"s": floats(1), "k": i64(1)}, IndexError, "take_it")
        assert_values(used.run(None, {"s": floats(1), "k": i64(0)}), floats(1))

    def test_an_input_that_a_call_omits(self):
        text = (
            FUNCTIONS
            + """
            g (seq(float[]) s, float[N] x, int64 k) => (seq(float[]) t, seq(float[]) u) {
                t = mine.put (s, x)
                u = mine.put (s, x, k)
            }
            <domain: "mine", opset_import: ["" : 17]>
            put (s, x, k) => (t) { t = SequenceInsert (s, x, k) }"""
        )
        s, x = floats(1, 2), f32(3)
        found = session(text).run(None, {"s": s, "x": x, "k": i64(0)})
        assert_values(found, [[*s, x], [x, *s]])


class TestInitializers:
    TEXT = """
        g (seq(float[]) s, int64 n) => (seq(float[]) t, float[M] y) {
            t = Loop (n, , s) <body = b (int64 i, bool go, seq(float[]) p) => (bool go, seq(float[]) q) {
                x = Gather <axis = 0> (w, i)
                a = SequenceInsert (p, x, at)
                q = SequenceInsert (a, v)
            }>
            y = ConcatFromSequence <axis = 0> (t)
        }
    """

    def made(self, rows=4):
        given = model(self.TEXT)
        w = np.arange(rows * 3, dtype=np.float32).reshape(rows, 3)
        given.graph.initializer.extend([constant("w", w), constant("at", i64(0)), constant("v", f32(7))])
        return given, w

    def expected(self, w, s, n):
        out = [*w[:n][::-1], *s, *[f32(7)] * n]
        return [out, np.concatenate(out)]

    def test_used_in_a_body(self):
        given, w = self.made()
        for n in (0, 1, 4):
            feed = {"s": floats(1, 2), "n": i64(n)}
            assert_values(InferenceSession(given).run(None, feed), self.expected(w, floats(1, 2), n))
            assert_as_reference(given, feed)

    @pytest.mark.parametrize("name", ["w", "at", "v"])
    def test_a_default_that_a_feed_overrides(self, name):
        given, w = self.made()
        kind = onnx.TensorProto.INT64 if name == "at" else onnx.TensorProto.FLOAT
        shape = {"w": ["R", 3], "at": [], "v": ["K"]}[name]
        given.graph.input.append(helper.make_tensor_value_info(name, kind, shape))
        used, s = InferenceSession(given), floats(1, 2)
        assert [value.name for value in used.get_inputs()] == ["s", "n"]
        feed = {"s": s, "n": i64(2)}
        assert_values(used.run(None, feed), self.expected(w, s, 2))
        other = {"w": w[:2] + 1, "at": i64(1), "v": f32(8, 9)}[name]
        assert_values(used.run(None, feed | {name: other}), by_reference(given, feed | {name: other}))
        assert_values(used.run(None, feed), self.expected(w, s, 2))

    def test_an_initializer_as_output(self):
        given = model("g (seq(float[]) s) => (int64 n, float[2] w) { n = SequenceLength (s) }")
        given.graph.initializer.append(constant("w", f32(1, 2)))
        used = InferenceSession(given)
        for _ in range(2):
            n, w = used.run(None, {"s": floats(1)})
            assert_values([n, w], [i64(1), f32(1, 2)])
            w[:] = 0

    def test_initializers_of_a_body(self):
        given = model("""g (seq(float[]) s, int64 n) => (seq(float[]) t) {
            t = Loop (n, , s) <body = b (int64 i, bool go, seq(float[]) p) => (bool go, seq(float[]) q) {
                q = SequenceInsert (p, w)
            }>
        }""")
        given.graph.node[0].attribute[0].g.initializer.append(constant("w", f32(1, 2)))
        found = session(given).run(None, {"s": floats(1), "n": i64(2)})
        assert_values(found, [[*floats(1), f32(1, 2), f32(1, 2)]])

    def test_constants_of_every_form(self):
        text = """g (seq(float[]) s, seq(string[]) u)
            => (seq(float[]) a, seq(float[]) b, seq(string[]) c, seq(string[]) d, seq(float[]) e) {
            one = Constant <value_float = 1.5> ()
            many = Constant <value_floats = [1.0, 2.0]> ()
            word = Constant <value_string = "word"> ()
            words = Constant <value_strings = ["a", "é"]> ()
            place = Constant <value_int = 0> ()
            places = Constant <value_ints = [-1]> ()
            a = SequenceInsert (s, one, place)
            b = SequenceInsert (s, many, places)
            c = SequenceInsert (u, word)
            d = SequenceInsert (u, words)
            e = SequenceErase (a, places)
        }"""
        s = floats(1)
        found = session(text).run(None, {"s": s, "u": []})
        one = np.array(1.5, np.float32)
        words = [[np.array("word", object)], [np.array(["a", "é"], object)]]
        assert_values(found, [[one, *s], [f32(1, 2), *s], *words, [one]])

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
    @pytest.mark.parametrize("size", [3, 3000])
    def test_weights_in_a_file(self, tmp_path, size):
        given, w = TestInitializers().made(size)
        path = tmp_path / "model.onnx"
        onnx.save(given, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
        assert (tmp_path / "weights.bin").exists()
        s = floats(1, 2)
        for given in (path, str(path)):
            used = InferenceSession(given)
            for n in (0, 3):
                found = used.run(None, {"s": s, "n": i64(n)})
                assert_values(found, TestInitializers().expected(w, s, n))

    def test_a_model_without_sequences(self, tmp_path):
        given = model("g (float[N] x) => (float[N] y) { y = Add (x, w) }")
        given.graph.initializer.append(constant("w", f32(1)))
        path = tmp_path / "model.onnx"
        onnx.save(given, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
        assert_values(InferenceSession(path).run(None, {"x": f32(1, 2)}), [f32(2, 3)])

    def test_the_file_is_missing(self, tmp_path):
        given, _ = TestInitializers().made()
        path = tmp_path / "model.onnx"
        onnx.save(given, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
        (tmp_path / "weights.bin").unlink()
        with pytest.raises(Exception, match=r"weights\.bin"):
            InferenceSession(path)

    def test_bytes_do_not_know_their_folder(self, tmp_path):
        given, _ = TestInitializers().made()
        path = tmp_path / "model.onnx"
        onnx.save(given, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
        for other in (path.read_bytes(), onnx.load(path, load_external_data=False)):
            with pytest.raises(Exception, match=r"weights\.bin|path"):
                InferenceSession(other)


class TestNames:
    ODD = ("/layer.0/Add_output_0", "x y", "a:0", "ünï", "%1", "1", "if", "x'y", "out(0)", "a\\b")

    @pytest.mark.slow
    @pytest.mark.parametrize("name", ODD)
    def test_odd_names_of_values(self, name):
        """The name in each role: input, output, within, of a body's own."""
        text = """g (seq(float[]) S, float[N] X, int64 K) => (seq(float[]) T, float[N] Y) {
            Y = Neg (X)
            T = Loop (K, , S) <body = b (int64 I, bool G, seq(float[]) P) => (bool G, seq(float[]) Q) {
                Z = Add (Y, X)
                Q = SequenceInsert (P, Z)
            }>
        }"""
        s, x = floats(1), f32(1, 2)
        for role in "SXKTYIGPQZ":
            given = model(text)
            rename(given.graph, role, name)
            feed = {name if key == role else key: value for key, value in (("S", s), ("X", x), ("K", i64(2)))}
            used = InferenceSession(given)
            assert_values(used.run(None, feed), [[*s, f32(0, 0), f32(0, 0)], -x])
            assert [value[0] for value in signature(used)[0]] == list(feed)

    def test_names_that_sessions_may_make_up(self):
        """Names with numbers behind, that a renaming could fall upon."""
        text = """g (seq(float[]) s, float[N] x, float[N] x_1, float[N] x_2, bool c)
            => (seq(float[]) s_1, float[N] y) {
            s_1 = If (c) <
                then_branch = a () => (seq(float[]) t) { z = Add (x, x_1) t = SequenceInsert (s, z) },
                else_branch = b () => (seq(float[]) t) { z = Add (x, x_2) t = SequenceInsert (s, z) }>
            z = Neg (x)
            t = Neg (x_1)
            z_1 = Add (z, t)
            y = Add (z_1, x_2)
        }"""
        x, x_1, x_2 = f32(1), f32(20), f32(300)
        for c, z in ((True, f32(21)), (False, f32(301))):
            feed = {"s": [], "x": x, "x_1": x_1, "x_2": x_2, "c": np.array(c)}
            assert_values(session(text).run(None, feed), [[z], f32(279)])

    def test_a_graph_without_a_name(self):
        given = model("g (seq(float[]) s) => (int64 n) { n = SequenceLength (s) }")
        given.graph.name = "g g/g"
        assert_values(session(given).run(None, {"s": floats(1)}), [i64(1)])

    def test_nodes_of_one_name(self):
        given = model("""g (seq(float[]) s, float[N] x) => (seq(float[]) t, float[N] y) {
            [same] y = Neg (x)
            [same] z = Neg (y)
            [same] t = SequenceInsert (s, z)
        }""")
        assert_values(session(given).run(None, {"s": [], "x": f32(1)}), [[f32(1)], f32(-1)])

    def test_ai_onnx_is_the_default_domain(self):
        text = """<ir_version: 8, opset_import: ["ai.onnx" : 17]>
            g (seq(float[]) s, float[N] x) => (int64 n, float[N] y) { n = SequenceLength (s) y = Neg (x) }"""
        given = model(text)
        try:
            onnx.checker.check_model(given)
        except onnx.checker.ValidationError:  # up to onnx 1.21, which doesn't know the longer name
            with pytest.raises(ValueError, match="No opset import for domain ''"):
                InferenceSession(given)
        else:
            assert_as_reference(given, {"s": floats(1), "x": f32(1)})


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


class TestOmitted:
    def test_empty_strings_for_inputs_and_outputs(self):
        text = """g (seq(float[]) s, float[N] x, float hi, int64 n) => (seq(float[]) t, float[N] y, int64 k) {
            y = Clip (x, "", hi)
            a = SequenceInsert (s, y, "")
            t = SequenceErase (a, "")
            u, "" = Loop (n, "", t) <body = b (int64 i, bool go, seq(float[]) p)
                                          => (bool go, seq(float[]) q, float[N] r) {
                q = SequenceInsert (p, y)
                r = Identity (y)
            }>
            k = SequenceLength (u)
        }"""
        s, x = floats(1), f32(1, 5)
        feed = {"s": s, "x": x, "hi": np.array(2, np.float32), "n": i64(3)}
        assert_values(session(text).run(None, feed), [s, f32(1, 2), i64(4)])

    def test_an_unused_output_of_a_loop(self):
        text = """g (seq(float[]) s, int64 n) => (int64[T] sizes) {
            "", sizes = Loop (n, "", s) <body = b (int64 i, bool go, seq(float[]) p)
                                             => (bool go, seq(float[]) q, int64 size) {
                size = SequenceLength (p)
                q = SequenceErase (p)
            }>
        }"""
        assert_values(session(text).run(None, {"s": floats(1, 1), "n": i64(2)}), [i64([2, 1])])

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
