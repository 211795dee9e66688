"""The interface of onnxruntime's session, for models with sequences and without."""

import copy
import inspect
import itertools
import pickle
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest
from onnxruntime.capi import onnxruntime_pybind11_state as state
from support.models.sessions import AGAIN, assert_values, f32, i64, model

import seqcore as sq
from seqcore.onnx import GraphBody, InferenceSession

THEIRS = ort.InferenceSession
PLAIN = "plain (float[N, 2] x) => (float[N, 2] y) { y = Neg (x) }"
PICKS = """
    picks (float[N, 2] x, int64 i) => (float[2] y, int64 n) {
        rows = SplitToSequence <keepdims = 0> (x)
        [pick] y = SequenceAt (rows, i)
        n = SequenceLength (rows)
    }
"""
LISTS = """
    lists (seq(float[N]) s, float[N] x) => (seq(float[N]) t, int64 n) {
        t = SequenceInsert (s, x)
        n = SequenceLength (t)
    }
"""
X = np.arange(6, dtype=np.float32).reshape(3, 2)


def plain():
    return InferenceSession(model(PLAIN))


def picks(**options):
    return InferenceSession(model(PICKS), **options)


def both():
    """Sessions without sequences and with them, what to feed, and `y`."""
    yield plain(), {"x": X}, -X
    yield picks(), {"x": X, "i": i64(1)}, X[1]


def public(kind):
    return {name: value for name, value in inspect.getmembers(kind) if not name.startswith("_")}


class TestSignatures:
    def test_every_method_is_there(self):
        used = plain()
        for name in public(THEIRS):
            assert callable(getattr(used, name)), name

    def test_parameters_are_theirs(self):
        ours = public(InferenceSession) | {"__init__": InferenceSession.__init__}
        for name in ours.keys() & {*public(THEIRS), "__init__"}:
            theirs = list(inspect.signature(getattr(THEIRS, name)).parameters.values())
            found = list(inspect.signature(ours[name]).parameters.values())
            positional = [one for one in theirs if one.kind is one.POSITIONAL_OR_KEYWORD]
            for one, other in zip(positional, found, strict=False):
                assert (one.name, one.default) == (other.name, other.default), name
            assert len(found) >= len(positional), name

    def test_bindings(self):
        ours, theirs = public(type(picks().io_binding())), public(ort.IOBinding)
        assert theirs.keys() - ours.keys() == {"get_outputs_as_ortvaluevector"}
        for name in ours.keys() & theirs.keys():
            one, other = (inspect.signature(each[name]).parameters for each in (ours, theirs))
            assert list(one) == list(other), name

    def test_what_lists_leave_out_says_why(self):
        used = picks()
        assert not hasattr(used, "get_tuning_results")
        with pytest.raises(AttributeError, match="this model has sequences"):
            _ = used.get_tuning_results
        with pytest.raises(AttributeError, match="no attribute 'what'"):
            _ = used.what
        with pytest.raises(AttributeError, match="no attribute 'what'"):
            _ = plain().what

    def test_keywords(self):
        data = model(PICKS).SerializeToString()
        used = InferenceSession(path_or_bytes=data, providers=["CPUExecutionProvider"], enable_fallback=0)
        assert_values(used.run(["n"], {"x": X, "i": i64(0)}), [i64(3)])
        with pytest.raises(TypeError, match="'max_worker'"):
            InferenceSession(data, max_worker=2)


class TestBindings:
    @pytest.mark.parametrize("kind", ["array", "OrtValue"])
    def test_tensors(self, kind):
        for used, feed, expected in both():
            binding = used.io_binding()
            for _ in range(AGAIN):
                for name, value in feed.items():
                    if kind == "array":
                        binding.bind_cpu_input(name, value)
                    else:
                        binding.bind_ortvalue_input(name, ort.OrtValue.ortvalue_from_numpy(value))
                binding.bind_output("y")
                used.run_with_iobinding(binding)
                assert_values(binding.copy_outputs_to_cpu(), [expected])
                assert_values([one.numpy() for one in binding.get_outputs()], [expected])
            binding.clear_binding_outputs()
            binding.clear_binding_inputs()

    def test_into_a_value(self):
        used = picks()
        binding = used.io_binding()
        binding.bind_cpu_input("x", X)
        binding.bind_cpu_input("i", i64(2))
        target = ort.OrtValue.ortvalue_from_numpy(np.zeros(2, np.float32))
        binding.bind_ortvalue_output("y", target)
        used.run_with_iobinding(binding)
        assert_values([target.numpy()], [X[2]])
        assert binding.get_outputs() == [target]
        binding.bind_ortvalue_output("y", ort.OrtValue.ortvalue_from_numpy(np.zeros(3, np.float32)))
        with pytest.raises(ValueError, match=r"shape \(2,\)"):
            used.run_with_iobinding(binding)

    def test_sequences(self):
        used = InferenceSession(model(LISTS))
        binding = used.io_binding()
        binding.bind_cpu_input("s", [f32(1, 2)])
        binding.bind_cpu_input("x", f32(3, 4))
        binding.bind_output("t")
        used.run_with_iobinding(binding)
        (t,) = binding.copy_outputs_to_cpu()
        assert t == sq.TensorSequence([f32(1, 2), f32(3, 4)])
        with pytest.raises(NotImplementedError, match="'t' is a sequence"):
            binding.get_outputs()

    def test_what_is_refused(self):
        binding = picks().io_binding()
        with pytest.raises(NotImplementedError, match="address"):
            binding.bind_input("x", "cpu", 0, np.float32, (3, 2), X.ctypes.data)
        with pytest.raises(NotImplementedError, match="new memory"):
            binding.bind_output("y", "cuda")
        with pytest.raises(ValueError, match="no output is bound"):
            picks().run_with_iobinding(binding)
        with pytest.raises(TypeError, match="io_binding"):
            picks().run_with_iobinding(plain().io_binding())

    def test_onnxruntimes_own_class(self):
        used = plain()
        binding = ort.IOBinding(used)
        binding.bind_cpu_input("x", X)
        binding.bind_output("y")
        used.run_with_iobinding(binding)
        assert_values(binding.copy_outputs_to_cpu(), [-X])


class TestOrtValues:
    def test_both_kinds_of_models(self):
        value = ort.OrtValue.ortvalue_from_numpy
        (y,) = plain().run_with_ort_values(["y"], {"x": value(X)})
        assert_values([y.numpy()], [-X])
        used = picks()
        for _ in range(AGAIN):
            y, n = used.run_with_ort_values(None, {"x": value(X), "i": value(i64(1))})
            assert_values([y.numpy(), n.numpy()], [X[1], i64(3)])

    def test_sequences(self):
        used = InferenceSession(model(LISTS))
        feed = {"s": [f32(1, 2)], "x": ort.OrtValue.ortvalue_from_numpy(f32(3, 4))}
        (n,) = used.run_with_ort_values(["n"], feed)
        assert n.numpy() == 2
        with pytest.raises(NotImplementedError, match="'t' is a sequence"):
            used.run_with_ort_values(None, feed)


class TestAsync:
    def called(self, used, names, feed):
        done, seen = threading.Event(), []

        def callback(results, user_data, error):
            seen.append((results, user_data, error))
            done.set()

        used.run_async(names, feed, callback, "mine")
        assert done.wait(60)
        return seen[0]

    def test_results(self):
        results, data, error = self.called(picks(), ["y"], {"x": X, "i": i64(1)})
        assert_values(results, [X[1]])
        assert (data, error) == ("mine", "")

    def test_an_error(self):
        results, data, error = self.called(picks(), ["y"], {"x": X, "i": i64(7)})
        assert (results, data) == ([], "mine")
        assert "'pick'" in error


class TestErrors:
    def test_of_loading(self, tmp_path):
        path = tmp_path / "nothing.onnx"
        for kind, given in itertools.product((FileNotFoundError, state.NoSuchFile), (path, str(path))):
            with pytest.raises(kind, match=r"nothing\.onnx"):
                InferenceSession(given)
        broken = model("g (float[N] x) => (seq(float[]) s) { s = SplitToSequence (x, nothing) }")
        for kind in (ValueError, state.InvalidGraph, state.Fail, state.InvalidArgument):
            with pytest.raises(kind, match="nothing"):
                InferenceSession(broken)
        for kind in (ValueError, state.InvalidProtobuf):
            with pytest.raises(kind, match="can't be read"):
                InferenceSession(b"no model")

    @pytest.mark.parametrize(
        ("feed", "kind"),
        [
            ({"x": X}, ValueError),
            ({"x": X, "i": i64(0), "more": X}, ValueError),
            ({"x": X.astype(int), "i": i64(0)}, TypeError),
            ({"x": X[0], "i": i64(0)}, ValueError),
            ({"x": X, "i": i64(9)}, IndexError),
        ],
    )
    def test_of_runs(self, feed, kind):
        used = picks()
        for each in (kind, state.InvalidArgument, state.Fail, state.RuntimeException):
            with pytest.raises(each):
                used.run(None, feed)

    def test_keep_what_they_say(self):
        used = InferenceSession(
            model("""
            loop (float[N, 2] x, int64 n) => (seq(float[2]) t) <bool yes = {1}> {
                rows = SplitToSequence <keepdims = 0> (x)
                none = SequenceEmpty ()
                [again] t = Loop (n, yes, none) <body = b (int64 i, bool go, seq(float[2]) s)
                                                => (bool on, seq(float[2]) u) {
                    on = Identity (go)
                    [pick] r = SequenceAt (rows, i)
                    u = SequenceInsert (s, r)
                }>
            }""")
        )
        with pytest.raises(IndexError, match="'pick'") as raised:
            used.run(None, {"x": X, "n": i64(9)})
        assert raised.value.__notes__ == ["in iteration 3 of Loop 'again'"]
        assert raised.value.__traceback__ is not None
        again = pickle.loads(pickle.dumps(raised.value))
        assert (type(again), str(again)) == (type(raised.value), str(raised.value))

    def test_a_model_without_sequences(self):
        for kind in (TypeError, state.InvalidArgument):
            with pytest.raises(kind, match="'x'"):
                plain().run(None, {"x": "text"})


@pytest.mark.parametrize("make", [str, Path.read_bytes, lambda path: memoryview(path.read_bytes())])
def test_onnxruntimes_own_format(make, tmp_path):
    path, options = tmp_path / "model.ort", ort.SessionOptions()
    options.optimized_model_filepath = str(path)
    options.add_session_config_entry("session.save_model_format", "ORT")
    ort.InferenceSession(model(PLAIN).SerializeToString(), options)
    assert_values(InferenceSession(make(path)).run(["y"], {"x": X}), [-X])


def test_pickles_say_what_to_pickle():
    for used in (plain(), picks()):
        for call in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match="the path or the bytes of its model"):
                call(used)


class TestProviders:
    def test_are_set_anew(self):
        for used, feed, expected in both():
            for _ in range(AGAIN):
                assert_values(used.run(["y"], feed), [expected])
                used.set_providers(["CPUExecutionProvider"])
            assert used.get_providers() == ["CPUExecutionProvider"]

    def test_a_model_that_was_compiled_when_loaded_is_so_again(self):
        for compile in ("load", "lazy"):
            used = picks(compile=compile)
            used.set_providers(["CPUExecutionProvider"])
            assert (used._engines._first is None) == (compile == "load")

    def test_that_do_not_fit(self):
        used = picks(enable_fallback=0)
        with pytest.raises(ValueError, match="same length"):
            used.set_providers(["CPUExecutionProvider"], [{}, {}])
        assert_values(used.run(["y"], {"x": X, "i": i64(1)}), [X[1]])

    def test_that_are_not_there(self):
        for used in (plain(), picks()):
            with pytest.warns(match="Foo"), pytest.raises(RuntimeError, match="Provider Type: Foo"):
                used.set_providers(["Foo"])

    def test_fallback(self):
        for used, feed in ((plain(), {"x": X}), (picks(), {"x": X, "i": i64(1)})):
            for switch, is_enabled in [(used.disable_fallback, False), (used.enable_fallback, True)] * 2:
                switch()
                for _ in range(AGAIN):
                    used.run(["y"], feed)
                made = used._made_sessions()
                assert made
                assert all(one._enable_fallback is is_enabled for one in made)


def test_profiling(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for kind, (_, feed, expected) in zip(("plain", "lists"), both(), strict=True):
        options = ort.SessionOptions()
        options.enable_profiling = True
        options.profile_file_prefix = kind
        used = InferenceSession(model(PLAIN if kind == "plain" else PICKS), options)
        assert_values(used.run(["y"], feed), [expected])
        assert used.get_profiling_start_time_ns() > 0
        name = used.end_profiling()
        assert name.startswith(kind)
        assert (tmp_path / name).exists()
    assert picks().end_profiling() == ""


class TestCompile:
    def test_at_loading(self):
        used = picks(compile="load")
        assert used._engines._first is None
        tiers = used._engines.compiled.tiers
        assert tiers[0].made is not None
        before = [tier.made for tier in tiers]
        for n in (3, 3, 3, 700, 3):
            used.run(None, {"x": np.ones((n, 2), np.float32), "i": i64(1)})
        assert [tier.made for tier in tiers] == before

    def test_makes_what_long_sequences_need(self):
        used = InferenceSession(model(LISTS), compile="load")
        before = [tier.made for tier in used._engines.compiled.tiers]
        for n in (3, 700):
            used.run(None, {"s": [f32(1, 2)] * n, "x": f32(1, 2)})
        assert [tier.made for tier in used._engines.compiled.tiers] == before

    def test_lazily(self):
        assert picks()._engines._first is not None

    def test_another_word(self):
        with pytest.raises(ValueError, match="'lazy' or 'load', got 'now'"):
            picks(compile="now")


def test_imports_wait_until_they_are_needed():
    """The reference evaluator and the compiler take longer to import than onnxruntime."""
    script = (
        "import sys, seqcore.onnx;"
        "assert 'onnx.reference' not in sys.modules;"
        "assert not [name for name in sys.modules if name.startswith('seqcore.onnx.')];"
        "assert {'lower', 'InferenceSession'} <= set(dir(seqcore.onnx));"
        "seqcore.onnx.lowering.lower_with_report; seqcore.onnx.InferenceSession;"
        "assert 'onnx.reference' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
    import seqcore.onnx

    with pytest.raises(AttributeError, match="no attribute 'what'"):
        _ = seqcore.onnx.what
    assert GraphBody is seqcore.onnx.body.GraphBody
