"""seqcore.onnx.GraphBody: every type, the odd graphs, and calls."""

import copy
import itertools
import pickle
import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from support.models.graphs import (
    ADD,
    ENOUGH,
    MAX,
    TYPES,
    UNTYPED,
    assert_same,
    floats,
    graph,
    node,
    parsed,
    runner_of,
    sample,
    singly,
    value,
)
from support.models.sessions import in_threads

from seqcore.dtypes import element_type
from seqcore.onnx import GraphBody


class TestTypes:
    @pytest.mark.parametrize("declared", [True, False])
    @pytest.mark.parametrize("name", TYPES)
    def test_every_type(self, name, declared):
        dtype = element_type(name)
        given = name if declared else None
        body = GraphBody(graph([node("Transpose", "x", "z")], [value("x", given)], [value("z", given)]))
        tensor = sample(dtype)
        result = body(tensor)
        assert body.check([name]) == (dtype,)
        assert (result.dtype, result.dtype.char) == (dtype, dtype.char)
        assert result.tolist() == tensor.T.tolist()
        assert body.input_dtypes == ((dtype,) if declared else (None,))
        assert_same(body.run_many([(tensor,)] * 20), [(result,)] * 20)

    @pytest.mark.parametrize("name", TYPES)
    def test_every_type_passes_through_and_as_capture(self, name):
        tensor = sample(element_type(name))
        given = graph([], [value("x", name)], [value("x", name), value("c", None)])
        body = GraphBody(given, captures={"c": tensor})
        for result in body(tensor):
            assert result.dtype == tensor.dtype
            assert result.tolist() == tensor.tolist()
            assert not np.shares_memory(result, tensor)

    @pytest.mark.parametrize("shape", [(), (0,), (0, 3), (1, 1)])
    @pytest.mark.parametrize("name", ["float32", "bool", "string", "bfloat16", "complex64"])
    def test_odd_shapes(self, name, shape):
        body = GraphBody(graph([node("Identity", "x", "z")], [value("x", name)], [value("z", name)]))
        result = body(sample(element_type(name), shape))
        assert type(result) is np.ndarray
        assert result.shape == shape

    def test_any_memory_layout(self):
        body = GraphBody(graph([node("Neg", "x", "z")], ["x"], ["z"]))
        base = np.arange(24, dtype=np.float32).reshape(4, 6)
        frozen = base.copy()
        frozen.flags.writeable = False
        layouts = [base.T, base[::-1], base[:, ::2], base[1:, 1:], base.astype(">f4"), frozen]
        for array in layouts:
            assert (body(array) == -array).all()
        assert_same(body.run_many([(a,) for a in [base[::-1]] * 300]), [(-base[::-1],)] * 300)

    def test_python_values_take_the_input_type(self):
        body = GraphBody(ADD)
        assert body([1, 2], [0.5]).tolist() == [1.5, 2.5]
        with pytest.raises(OverflowError) as caught:
            body(1e300, [1])
        assert caught.value.__notes__ == ["input 'x' of the body 'add'"]
        with pytest.raises(TypeError, match="masked"):
            body(np.ma.array([1.0]), 1)

    def test_untyped_inputs_are_compiled_for_each_combination(self):
        body = GraphBody(UNTYPED)
        assert body.input_dtypes == (None, None)
        assert body.output_dtypes == (None,)
        assert repr(body) == "<GraphBody 'g': (x: ?, y: ?) -> z: ?>"
        assert body(1, 2).dtype == np.int64
        assert body(1.5, 2.0) == 3.5
        assert body.check(["int8", "int8"]) == (np.dtype("int8"),)
        assert len(body._programs) == 3
        with pytest.raises(TypeError, match=r"doesn't take \(x: int8, y: float64\).*Type"):
            body.check(["int8", "float64"])

    def test_an_output_of_undefined_type(self):
        undefined = value("z")
        undefined.type.tensor_type.elem_type = TensorProto.UNDEFINED
        body = GraphBody(graph([node("Neg", "x", "z")], ["x"], [undefined]))
        assert body.output_dtypes == (np.dtype("float32"),)
        assert runner_of(body) == {"SessionRunner"}


class TestOddGraphs:
    def test_pass_through_shares_no_memory(self):
        body = GraphBody(graph([], ["x"], ["x", "x"]))
        x = np.ones(3, np.float32)
        first, second = body(x)
        for a, b in itertools.combinations([x, first, second], 2):
            assert not np.shares_memory(a, b)
        assert_same(body.run_many([(x,)] * 70), [(x, x)] * 70)

    @pytest.mark.parametrize("op", ["Identity", "Flatten", "Squeeze", "Relu", "Dropout"])
    def test_results_are_their_own(self, op):
        body = GraphBody(graph([node(op, "x", "a"), node("Identity", "a", "b")], ["x"], ["a", "b", "a"]))
        x = np.ones((2, 3), np.float32)
        results = [x, *body(x), *body(x)]
        results += itertools.chain.from_iterable(body.run_many([(x,)] * 3))
        for a, b in itertools.combinations(results, 2):
            assert not np.shares_memory(a, b)

    def test_many_results_are_their_own(self):
        for body in (GraphBody(ADD), GraphBody(MAX)):
            rows = [(x, x) for x in floats(ENOUGH)]
            body.run_many(rows)
            before = singly(body, rows[:40])
            results = body.run_many(rows[:40])
            results[0][0][:] = 7
            assert_same(results[1:], before[1:])
            assert all(result.flags.writeable for (result,) in results)

    def test_constants(self):
        nodes = [node("Constant", "", "c", value=numpy_helper.from_array(np.arange(3)))]
        weights = numpy_helper.from_array(np.float32([1, 2]), "w")
        body = GraphBody(graph(nodes, ["x"], [value("c", "int64"), "w", "w"], [weights]))
        x = np.zeros(1, np.float32)
        results = [*body(x), *body(x)]
        assert [result.tolist() for result in results[:3]] == [[0, 1, 2], [1, 2], [1, 2]]
        for a, b in itertools.combinations(results, 2):
            assert not np.shares_memory(a, b)
        assert_same(body.run_many([(x,)] * ENOUGH), [tuple(results[:3])] * ENOUGH)

    def test_no_inputs(self):
        body = GraphBody(graph([node("Constant", "", "z", value_float=2.0)], [], ["z"]))
        assert body() == 2
        assert_same(body.run_many([()] * 20), [(np.array(2, np.float32),)] * 20)

    def test_functions_of_a_model(self):
        model = onnx.parser.parse_model("""
            <ir_version: 10, opset_import: ["" : 21, "local" : 1]>
            g (float[N] x) => (float[N] z) { z = local.twice(x) }
            <domain: "local", opset_import: ["" : 21]>
            twice (a) => (b) { b = Add(a, a) }
        """)
        body = GraphBody(model)
        assert body([1, 2]).tolist() == [2, 4]
        assert_same(body.run_many([(x,) for x in floats(600)]), [(x + x,) for x in floats(600)])

    @pytest.mark.slow
    def test_random_operators_draw_for_each_element(self):
        body = GraphBody(graph([node("RandomNormalLike", "x", "z")], ["x"], ["z"]))
        results = body.run_many([(x,) for x in floats(ENOUGH)])
        assert len({result.tobytes() for (result,) in results}) == ENOUGH

    def test_other_domains(self):
        gelu = helper.make_node("Gelu", ["x"], ["z"], domain="com.microsoft")
        assert GraphBody(graph([gelu], ["x"], [value("z", None)]))(0) == 0
        binarizer = helper.make_node("Binarizer", ["x"], ["z"], domain="ai.onnx.ml", threshold=1.5)
        assert GraphBody(graph([binarizer], ["x"], ["z"]))([1, 2]).tolist() == [0, 1]

    def test_the_graph_may_change_afterwards(self):
        given = graph([node("Neg", "x", "z")], ["x"], ["z"])
        body = GraphBody(given)
        given.node[0].op_type = "Abs"
        assert body(2) == -2


class TestLoopsWithoutKernels:
    """onnxruntime has no Max of uint16: onnx's reference evaluator runs these, with a Loop of ours."""

    TEXT = """
        g (uint16[] x, int64 last{inputs}) => (uint16{rows} y1, uint16[] y, int64[T] numbers) {{
            y, y1, numbers = Loop ({trips}, {going}, x) <body = b (int64 i, bool go, uint16[] a)
                    => (bool on, uint16[] more, uint16{row} r, int64 number) {{
                more = Add (a, x)
                r = Max (a, x)
                number = Identity (i)
                on = Less (i, last)
            }}>
        }}
    """

    @pytest.mark.parametrize("shape", [(), (2,), (2, 3)], ids=str)
    @pytest.mark.parametrize(
        ("trips", "going", "last", "n"),
        [
            (4, None, 100, 4),
            (4, None, 1, 2),  # as in onnxruntime: in the text, what the body says is ignored
            (0, None, 100, 0),
            (4, True, 100, 4),
            (4, True, 1, 2),
            (4, False, 100, 0),
            (None, True, 1, 2),
            (None, False, 1, 0),
        ],
    )
    def test_loop(self, shape, trips, going, last, n):
        given = [("int64 trips", trips), ("bool going", going)]
        text = self.TEXT.format(
            inputs="".join(f", {declared}" for declared, value in given if value is not None),
            trips='""' if trips is None else "trips",
            going='""' if going is None else "going",
            row=f"{[*shape]}" if shape else "",
            rows=str(["T", *shape]).replace("'", ""),
        )
        x = np.ones(shape, np.uint16)
        feed = [np.array(value) for _, value in given if value is not None]
        rows = np.multiply.outer(np.arange(1, n + 1, dtype=np.uint16), x)
        expected = (rows, x * np.uint16(n + 1), np.arange(n))
        assert_same([GraphBody(parsed(text))(x, np.array(last), *feed)], [expected])

    @pytest.mark.parametrize(
        ("number", "axis", "expected"), [("int64", "", [0, 1]), ("int64[1]", ", 1", [[0], [1]])]
    )
    def test_states_and_values_of_the_graph_around(self, number, axis, expected):
        body = GraphBody(
            parsed(f"""
                g (uint16[N] x, int64 n) => (uint16[N] y, int64[T{axis}] numbers) {{
                    twice = Add (x, x)
                    y, numbers = Loop (n, "", x) <body = b ({number} i, bool go, uint16[N] a)
                            => (bool on, uint16[N] c, {number} j) {{
                        most = Max (a, twice)
                        c = Add (most, x)
                        on = Identity (go)
                        j = Identity (i)
                    }}>
                }}
            """)
        )
        y, numbers = body(np.array([1, 2], np.uint16), np.array(2))
        assert y.tolist() == [4, 8]
        assert numbers.tolist() == expected


NEG = node("Neg", "x", "z")
FLOAT8 = helper.make_tensor("f", 17, [1], [1.0])
SEQUENCE = helper.make_tensor_sequence_value_info("x", 1, None)


class TestReading:
    def test_captures(self):
        text = parsed("g (float[N] x) => (float[N] z) { t = Add(x, a) z = Mul(t, b) }")
        weights = np.float32([1, 2])
        body = GraphBody(text, captures={"a": weights, "b": np.float32(3), "x": "unused", "more": object()})
        weights[:] = 0
        assert body([1, 1]).tolist() == [6, 9]
        with pytest.raises(ValueError, match=r"'g' uses 'a', 'b' and doesn't define them: .* captures"):
            GraphBody(text)
        with pytest.raises(ValueError, match="uses 'b' and doesn't define it"):
            GraphBody(text, captures={"a": weights})
        with pytest.raises(TypeError) as caught:
            GraphBody(text, captures={"a": weights, "b": None})
        assert caught.value.__notes__ == ["capture 'b' of the body 'g'"]

    def test_opset_imports(self):
        # Until opset 12, Softmax flattened what came after the axis.
        softmax = graph([node("Softmax", "x", "z", axis=0)], ["x"], ["z"])
        x = np.zeros((2, 2), np.float32)
        assert GraphBody(softmax)(x).tolist() == [[0.5, 0.5]] * 2
        assert GraphBody(softmax, {"ai.onnx": 11})(x).tolist() == [[0.25, 0.25]] * 2
        assert GraphBody(softmax, [helper.make_opsetid("", 11)])(x).tolist() == [[0.25, 0.25]] * 2
        with pytest.raises(ValueError, match=r"opset 99 of 'ai.onnx': onnx .* knows them up to"):
            GraphBody(softmax, {"": 99})
        with pytest.raises(ValueError, match="has its own opset imports"):
            GraphBody(helper.make_model(softmax), {"": 11})
        for version in (0, -1, 2**63, 2**64 - 1):
            with pytest.raises(ValueError, match=f"the opset '' has no version {version}"):
                GraphBody(softmax, {"": version})
        with pytest.raises(TypeError, match=r"opset_imports must be a dict such as \{'': 17\}, got 13"):
            GraphBody(softmax, 13)

    def test_path(self, tmp_path):
        weights = numpy_helper.from_array(np.arange(4096, dtype=np.float32), "w")
        model = helper.make_model(graph([node("Add", "x w", "z")], ["x"], ["z"], [weights]))
        path = tmp_path / "body.onnx"
        onnx.save(model, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
        assert (tmp_path / "weights.bin").exists()
        for given in (path, str(path)):
            assert GraphBody(given)(1)[-1] == 4096
        with pytest.raises(ValueError, match="'w' of the body has its data in a file"):
            GraphBody(onnx.load(path, load_external_data=False))
        with pytest.raises(FileNotFoundError):
            GraphBody(tmp_path / "none.onnx")
        (tmp_path / "bad.onnx").write_bytes(b"no model")
        with pytest.raises(ValueError, match=r"bad.onnx can't be read"):
            GraphBody(tmp_path / "bad.onnx")

    def test_names(self):
        body = GraphBody(graph([node("Split", "x", "a b", num_outputs=2)], ["x"], ["a", "b"], name=""))
        assert (body.name, body.input_names, body.output_names) == ("body", ("x",), ("a", "b"))
        assert body.output_dtypes == (np.dtype("float32"),) * 2
        assert repr(body) == "<GraphBody 'body': (x: float32) -> (a: float32, b: float32)>"

    @pytest.mark.parametrize(
        ("given", "message"),
        [
            (graph([node("Foo", "x", "z")], ["x"], ["z"]), "No Op registered for Foo.*; of a model"),
            (graph([helper.make_node("Foo", ["x"], ["z"], domain="q")], ["x"], ["z"]), "can't be run: .*Foo"),
            (
                graph([node("Add", "x y", "z")], ["x", value("y", "float64")], ["z"]),
                "'g' is not a valid .*Type",
            ),
            (graph([NEG], ["x"], [value("z", "float64")]), "'g' is not a valid .*Type"),
            (graph([NEG], [value("x", "string")], [value("z", None)]), "not a valid .*string"),
            (graph([NEG, NEG], ["x"], ["z"]), "not a valid graph: .*SSA"),
            (graph([], ["x"], [value("x", "int8")]), "output 'x' as int8, but it is float32"),
            (graph([NEG], ["x"], []), "has no outputs"),
            (graph([node("Cast", "x", "z", to=17)], ["x"], [value("z", None)]), "'z' of .*float8"),
            (graph([], ["x"], [value("f", None)], [FLOAT8]), "'f' of .*float8"),
            (graph([node("SequenceConstruct", "x", "z")], ["x"], [value("z", None)]), "'z'.*seq"),
            (graph([], [SEQUENCE], [value("x", None)]), "'x' of the body is of type sequence"),
        ],
    )
    def test_invalid(self, given, message):
        with pytest.raises(ValueError, match=message):
            GraphBody(given)

    def test_not_a_graph(self):
        with pytest.raises(TypeError, match="got 3 of type int"):
            GraphBody(3)

    @pytest.mark.slow
    def test_missing_packages_are_named(self):
        code = "import sys; sys.modules['onnxruntime'] = None; import seqcore.onnx"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        said = 'ImportError: seqcore.onnx needs the package onnxruntime: pip install "seqcore-tensors[onnx]"'
        assert said in done.stderr


class TestCalls:
    def test_errors_before_the_first_call(self):
        body = GraphBody(ADD)
        with pytest.raises(TypeError, match=r"^the body 'add' takes 2 inputs \(x, y\), got 1$"):
            body.check(["float32"])
        with pytest.raises(TypeError, match=r"^input 'y' of the body 'add' takes float32, got float64$"):
            body.check(["float32", "float64"])
        with pytest.raises(TypeError, match="takes 2 inputs"):
            body(1, 2, 3)
        with pytest.raises(TypeError, match="input 'x' of the body 'add' takes float32, got int64"):
            body(np.arange(3), np.arange(3))
        assert body.check([np.float32, ">f4"]) == (np.dtype("float32"),)

    def test_errors_of_the_runtime_and_silence(self, capfd):
        body = GraphBody(ADD)
        with pytest.raises(Exception, match="broadcast") as caught:
            body([1, 2], [1, 2, 3])
        assert type(caught.value).__module__.startswith("onnxruntime")
        declared = GraphBody(graph([node("Neg", "x", "z")], [value("x", shape=[2])], [value("z", shape=[3])]))
        assert declared([1, 2]).tolist() == [-1, -2]
        with pytest.raises(Exception, match="Got: 3 Expected: 2"):
            declared([1, 2, 3])
        assert capfd.readouterr() == ("", "")

    def test_reference_evaluator(self):
        inputs = [value("x", "bfloat16"), value("y", "bfloat16")]
        body = GraphBody(graph([node("Add", "x y", "z")], inputs, [value("z", None)]))
        assert runner_of(body) == {"ReferenceRunner"}
        x = np.arange(4).astype(element_type("bfloat16"))
        assert body.output_dtypes == (x.dtype,)
        assert body(x, x).tolist() == [0, 2, 4, 6]
        rows = [(x, x), (x, x[:3])]
        with pytest.raises(TypeError, match="'Add'") as caught:  # onnx's word for shapes that don't fit
            body.run_many(rows)
        assert caught.value.seqcore_element == 1

    def test_bfloat16_beside_other_types_in_onnxruntime(self):
        nodes = [node("Identity", "x", "a"), node("Neg", "y", "b")]
        nodes.append(node("Cast", "y", "t", to=TensorProto.STRING))
        outputs = [value("a", None), value("t", None), value("b", None)]
        body = GraphBody(graph(nodes, [value("x", "bfloat16"), value("y", "int64")], outputs))
        assert runner_of(body) == {"SessionRunner"}
        x = np.arange(6).astype(element_type("bfloat16")).reshape(2, 3)
        y = np.arange(6).reshape(2, 3)
        for given in (x[:, ::2], x.T, x[0, 0]):
            a, t, b = body(given, y.T)
            assert (a.tolist(), a.dtype) == (given.tolist(), x.dtype)
            assert (t.tolist(), b.tolist()) == (y.T.astype(str).tolist(), (-y.T).tolist())

    def test_bfloat16_beside_strings(self):
        nodes = [node("Identity", "x", "a"), node("Identity", "s", "t")]
        inputs = [value("x", "bfloat16"), value("s", "string")]
        body = GraphBody(graph(nodes, inputs, [value("a", None), value("t", None)]))
        a, t = body(np.ones(2, element_type("bfloat16")), ["é", ""])
        assert (a.tolist(), t.tolist()) == ([1, 1], ["é", ""])

    def test_pickle_and_copy(self):
        given = parsed("g (float[N] x) => (float[N] z) { z = Add(x, k) }")
        body = GraphBody(given, captures={"k": np.float32(4)})
        for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
            other = pickle.loads(pickle.dumps(body, protocol))
            assert repr(other) == repr(body)
            assert other([1]) == 5
            assert other.check(["float32"]) == body.output_dtypes
        assert copy.copy(body)([1]) == copy.deepcopy(body)([1]) == 5

    @pytest.mark.slow
    def test_threads_share_a_body(self):
        for given in (ADD, MAX, UNTYPED):
            body = GraphBody(given)
            rows = [(x, x[::-1].copy()) for x in floats(700)]
            expected = singly(GraphBody(given), rows)
            parts = [rows[k : k + 100] for k in range(0, 700, 100)]
            for result in in_threads(4, lambda _, body=body, parts=parts: [*map(body.run_many, parts)]):
                assert_same([*itertools.chain(*result)], expected)
