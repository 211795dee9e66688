"""Exported models in other runtimes: how many run, and what stops the others.

`python -m benchmarks.runtimes --output FOLDER [--only tract,IREE] [--ways portable,fixed] [PATTERN]`

It makes an environment for each runtime in FOLDER, and runs the models of tests/models/exported in it in four
ways: as given, lowered, for the target "portable", and with fixed shapes too. Each runs at three sizes in a
process of its own, with limits of time and memory. It writes results.json and table.md, and fails if a result
is wrong that is not known to be.
"""

import argparse
import importlib
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import venv
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np

SIZES = (1, 4, 9)
WAYS = ("given", "lowered", "portable", "fixed")
SECONDS, NBYTES = 60, 8 << 30
TESTS = Path(__file__).parent.parent / "tests"


# Lowered models that are wrong without an error, through a fault of the runtime that the page on other
# runtimes has. None stands for all models.
KNOWN_FAULTS = {
    "IREE": {"list_ends", "kept_and_rest"},
    "MNN": {"overlap_add", "span_pooling"},
    "onnx2torch": {"beam_backpointers", "image_detections", "tf_softmax"},
    "tinygrad": {"nested_branches"},
    "OpenVINO": {"breadth_first", "kv_layers", "chunk_heads"},
    "ReferenceEvaluator": None,
}


# The runtimes. Each function takes the path of a model and a feed, and returns a function that runs it.


def onnxruntime(path, feed):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(path, options)
    return lambda feed: session.run(None, feed)


def tract(path, feed):
    import tract

    model = tract.onnx().load(path)
    names = [model.input_name(k) for k in range(model.input_count())]
    letters = {"f": "f", "i": "i", "u": "u"}
    for k, name in enumerate(names):
        array = feed[name]
        kind = array.dtype.kind
        dtype = "bool" if kind == "b" else f"{letters[kind]}{8 * array.itemsize}"
        model.set_input_fact(k, ",".join([*map(str, array.shape), dtype]))
    runnable = model.into_model().into_runnable()

    def as_array(tensor):
        try:
            return tensor.to_numpy()
        except tract.TractError as error:
            if "TDim" not in str(error):
                raise
            return tensor.convert_to(tract.DatumType.I64).to_numpy()  # integers that it computed from lengths

    return lambda feed: [as_array(one) for one in runnable.run([feed[name] for name in names])]


def iree(path, feed):
    import iree.runtime

    folder = Path(sys.executable).parent
    text, module = f"{path}.mlir", f"{path}.vmfb"
    quiet = {"check": True, "capture_output": True, "text": True, "timeout": SECONDS}
    target = ["--iree-hal-target-device=local", "--iree-hal-local-target-device-backends=llvm-cpu"]
    call([folder / "iree-import-onnx", path, "-o", text], **quiet)
    call([folder / "iree-compile", text, *target, "-o", module], **quiet)
    loaded = iree.runtime.load_vm_flatbuffer_file(module, driver="local-task")
    main = loaded[graph_name(path)]

    def run(feed):
        found = main(*[feed[name] for name in names_of(path)])
        return [np.asarray(one) for one in (found if isinstance(found, tuple | list) else [found])]

    return run


def call(command, **options):
    try:
        subprocess.run(command, **options)
    except subprocess.CalledProcessError as error:
        lines = [line for line in error.stderr.splitlines() if "error:" in line or "Error" in line]
        raise RuntimeError((lines or error.stderr.splitlines()[-1:] or [str(error)])[0]) from None


def onnx2torch(path, feed):
    import onnx2torch
    import torch

    module = onnx2torch.convert(path)

    def run(feed):
        with torch.no_grad():
            found = module(*[torch.from_numpy(np.array(feed[name])) for name in names_of(path)])
        return [one.numpy() for one in (found if isinstance(found, tuple | list) else [found])]

    return run


def tinygrad(path, feed):
    from tinygrad import Tensor
    from tinygrad.nn.onnx import OnnxRunner

    runner = OnnxRunner(path)
    return lambda feed: [
        one.numpy() if isinstance(one, Tensor) else np.asarray(one)
        for one in runner({name: Tensor(array) for name, array in feed.items()}).values()
    ]


def mnn(path, feed):
    import _tools
    from MNN import expr, nn

    made = f"{path}.mnn"
    _tools.mnnconvert(
        ["mnnconvert", "-f", "ONNX", "--modelFile", path, "--MNNModel", made, "--bizCode", "none"]
    )
    if not os.path.exists(made):
        raise RuntimeError("its converter makes nothing")
    names, outputs = names_of(path), names_of(path, "output")
    net = nn.load_module_from_file(made, names, outputs)
    kinds = {"f": (np.float32, expr.float), "i": (np.int32, expr.int), "b": (np.int32, expr.int)}

    def run(feed):
        given = []
        for name in names:
            dtype, kind = kinds[feed[name].dtype.kind]
            array = np.ascontiguousarray(feed[name], dtype)
            given.append(expr.const(array, list(array.shape), expr.NCHW, kind))
        found = net.forward(given)
        if not found:
            raise RuntimeError("it returns nothing")  # how it says that it failed
        return [np.array(expr.convert(one, expr.NCHW).read()) for one in found]

    return run


def tvm(path, feed):
    import onnx
    import tvm
    from tvm import relax
    from tvm.relax.frontend.onnx import from_onnx

    shapes = {name: list(array.shape) for name, array in feed.items()}
    dtypes = {name: str(array.dtype) for name, array in feed.items()}
    module = from_onnx(onnx.load(path), shapes, dtypes)
    machine = relax.VirtualMachine(tvm.compile(module, "llvm"), tvm.cpu())

    def run(feed):
        found = machine["main"](*[tvm.runtime.tensor(feed[name]) for name in names_of(path)])
        return [one.numpy() for one in (found if isinstance(found, tuple | list | tvm.ir.Array) else [found])]

    return run


def openvino(path, feed):
    import openvino

    used = openvino.Core().compile_model(path, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    names = {name for one in used.inputs for name in one.names}

    def run(feed):
        found = used({name: array for name, array in feed.items() if name in names})
        return [found[one] for one in used.outputs]

    return run


def evaluator(path, feed):
    from onnx.reference import ReferenceEvaluator

    used = ReferenceEvaluator(path)
    return lambda feed: used.run(None, feed)


def names_of(path, field="input"):
    import onnx

    return [value.name for value in getattr(onnx.load(path).graph, field)]


def graph_name(path):
    import onnx

    return onnx.load(path).graph.name


class Runtime(NamedTuple):
    """The way to run a model, what pip installs and what to import first, and if a model is for one shape."""

    function: Callable
    packages: list
    imports: str
    is_fixed: bool = False


RUNTIMES = {
    "onnxruntime": Runtime(onnxruntime, ["onnxruntime"], "onnxruntime"),
    "tract": Runtime(tract, ["tract"], "tract", is_fixed=True),
    "IREE": Runtime(iree, ["iree-base-compiler[onnx]", "iree-base-runtime"], "onnx"),
    "onnx2torch": Runtime(onnx2torch, ["onnx2torch"], "onnx2torch"),
    "tinygrad": Runtime(tinygrad, ["tinygrad"], "tinygrad.nn.onnx", is_fixed=True),
    "MNN": Runtime(mnn, ["MNN"], "onnx"),
    "TVM": Runtime(tvm, ["apache-tvm"], "tvm.relax.frontend.onnx", is_fixed=True),
    "OpenVINO": Runtime(openvino, ["openvino"], "onnx"),
    "ReferenceEvaluator": Runtime(evaluator, ["onnx"], "onnx.reference"),
}


# In the environment of a runtime: a process for each case.


def run_cases(runtime, folder, chosen):
    """Run cases, each in a process, and print what comes of each as a line of JSON."""
    function, _, imports, is_fixed = RUNTIMES[runtime]
    importlib.import_module(imports)
    for case in json.loads((Path(folder) / "cases.json").read_text()):
        if case["way"] in chosen:
            if runtime == "OpenVINO" and case["way"] == "lowered":
                case["files"] = case["openvino"]
            result = run_apart(function, is_fixed, case, folder)
            one = {key: case[key] for key in ("model", "way", "has_lists")}
            print(json.dumps({**one, "runtime": runtime, "result": result}), flush=True)


def run_apart(function, is_fixed, case, folder):
    """Return "right", "wrong: …" or "fails: …"."""
    with tempfile.TemporaryDirectory() as scratch:
        answer = Path(scratch) / "answer"
        child = os.fork()
        if child == 0:
            os.setsid()
            with open(os.devnull, "w") as nothing:
                os.dup2(nothing.fileno(), 1)
                os.dup2(nothing.fileno(), 2)
            resource.setrlimit(resource.RLIMIT_CPU, (2 * SECONDS, 2 * SECONDS))
            resource.setrlimit(resource.RLIMIT_DATA, (NBYTES, NBYTES))
            try:
                answer.write_text(outcome(function, is_fixed, case, folder, scratch))
            except BaseException as error:
                lines = [line.strip() for line in str(error).splitlines() if line.strip()]
                answer.write_text(f"fails: {type(error).__name__}: {' · '.join(lines)[:600]}")
            os._exit(0)
        return wait_for(child, answer)


def wait_for(child, answer):
    """Return what a child wrote, or how it ended; end it and its children when its time is up."""
    signal.signal(signal.SIGALRM, lambda *_: os.killpg(child, signal.SIGKILL))
    signal.alarm(SECONDS)
    _, status = os.waitpid(child, 0)
    is_late = signal.alarm(0) == 0
    if answer.exists():
        return answer.read_text()
    what = "takes too long" if is_late else f"ends the process (signal {os.WTERMSIG(status)})"
    return f"fails: {what} at size {answer.with_name('size').read_text()}"


def outcome(function, is_fixed, case, folder, scratch):
    """Run a case at all sizes. A model for fixed shapes is another file for each."""
    run, last = None, None
    for size, name in case["files"].items():
        with np.load(Path(folder) / f"{case['model']}-{size}.npz") as stored:
            feed = {key[3:]: stored[key] for key in stored if key.startswith("in/")}
            expected = [stored[f"out/{k}"] for k in range(sum(key.startswith("out/") for key in stored))]
        (Path(scratch) / "size").write_text(size)
        if run is None or is_fixed or name != last:
            path = shutil.copy(Path(folder) / name, Path(scratch) / f"{size}.onnx")
            run, last = function(str(path), feed), name
        found = [np.asarray(one) for one in run(feed)]
        if why := difference(found, expected):
            return f"wrong: at size {size} {why}"
    return "right"


def difference(found, expected):
    if len(found) != len(expected):
        return f"it returns {len(found)} tensors, not {len(expected)}"
    for k, (one, other) in enumerate(zip(found, expected, strict=True)):
        if not one.size and not other.size:
            continue
        if one.shape != other.shape:
            return f"output {k} has the shape {one.shape}, not {other.shape}"
        if not np.allclose(one.astype(np.float64), other.astype(np.float64), 1e-3, 1e-4, equal_nan=True):
            return f"output {k} has other numbers"
    return ""


# In the environment of seqcore: the models, and the tables.


def write_cases(folder, pattern, ways):
    """Write the models in all ways, their feeds and onnxruntime's answers."""
    sys.path.insert(0, str(TESTS))
    models = importlib.import_module("support.models.exported").MODELS
    cases = [
        case
        for name, one in models.items()
        if re.search(pattern, name)
        for case in cases_of(one, folder, ways)
    ]
    (folder / "cases.json").write_text(json.dumps(cases))


def cases_of(one, folder, ways):
    """Return the cases of a model, after their files are written."""
    import onnx
    from support.models.ragged_io import as_tensors

    from seqcore.onnx import InferenceSession, lower

    def write(file, message):
        (folder / file).write_bytes(message.SerializeToString())
        return dict.fromkeys(SIZES, file)

    given, plain = onnx.load(one.path), lower(one.path, ragged_io=True)
    graph = given.graph
    has_lists = any(value.type.HasField("sequence_type") for value in (*graph.input, *graph.output))
    files = {
        "given": write(f"{one.name}-given.onnx", given),
        "lowered": write(f"{one.name}-lowered.onnx", plain),
        "openvino": write(f"{one.name}-openvino.onnx", lower(one.path, ragged_io=True, target="openvino")),
        "portable": write(f"{one.name}-portable.onnx", lower(one.path, ragged_io=True, target="portable")),
        "fixed": {},
    }
    inputs, outputs = ([value.name for value in part] for part in (plain.graph.input, plain.graph.output))
    session = InferenceSession(one.path)
    for size in SIZES:
        feed = one.example(max(size, one.least), seed=size)
        found = session.run(None, feed)
        results = dict(zip([value.name for value in session.get_outputs()], found, strict=True))
        fed, expected = as_tensors(feed, inputs), as_tensors(results, outputs)
        stored = {f"in/{key}": value for key, value in fed.items()}
        stored |= {f"out/{k}": expected[key] for k, key in enumerate(outputs)}
        np.savez(folder / f"{one.name}-{size}.npz", **stored)
        shapes = {key: value.shape for key, value in fed.items()}
        if "fixed" in ways:
            made = lower(one.path, ragged_io=True, target="portable", shapes=shapes, unroll=128)
            files["fixed"][size] = write(f"{one.name}-fixed-{size}.onnx", made)[size]
    for way in ways:
        if not (has_lists and way == "given"):
            own = {"files": files[way], "openvino": files["openvino"]}
            yield {"model": one.name, "way": way, "has_lists": has_lists, **own}


def environment(runtime, folder):
    """Return the Python of a runtime's environment, made where it is missing; None where pip can't."""
    place = folder / re.sub(r"\W", "", runtime)
    python = place / "bin" / "python"
    if not python.exists():
        venv.create(place, with_pip=True)
        install = [python, "-m", "pip", "install", "-q", "numpy", "onnx", *RUNTIMES[runtime].packages]
        if subprocess.run(install).returncode:
            shutil.rmtree(place)
            return None
    return python


def version_of(runtime, python):
    package = RUNTIMES[runtime].packages[0].partition("[")[0]
    code = f"import importlib.metadata as m; print(m.version({package!r}))"
    return subprocess.run([python, "-c", code], capture_output=True, text=True).stdout.strip()


def run_runtime(runtime, python, folder, ways):
    """Return the results of a runtime's cases."""
    # tinygrad compiles with clang, and interprets without it.
    options = {"DEV": "CPU" if shutil.which("clang") else "PYTHON", "OMP_NUM_THREADS": "1"}
    command = [python, __file__, "--run", runtime, "--cases", folder, "--ways", ",".join(ways)]
    lines = folder / f"{runtime}.jsonl"
    with open(lines, "w") as file:
        subprocess.run(command, stdout=file, env=os.environ | options)
    return [json.loads(line) for line in lines.read_text().splitlines()]


def reason_of(result):
    """Return what stops a model, without names and numbers, so that they can be counted."""
    text = re.sub(r"(?<![A-Za-z])\d+(\.\d+)?|'[^']*/[^']*'|\"[^\"]*/[^\"]*\"|/\S+", "…", result)
    return text[:110]


def is_known(runtime, model):
    """Return whether a wrong result is a known fault of the runtime."""
    faults = KNOWN_FAULTS.get(runtime, ())
    return faults is None or model in faults


def table(results, versions):
    """Return the results as Markdown: how many are right, and what stops the rest most often."""
    lines = [
        f"{len({one['model'] for one in results})} models; + those with lists among inputs or outputs; "
        "(w) wrong without an error",
        "",
        f"| runtime | {' | '.join(WAYS)} |",
        f"|---|{'---|' * len(WAYS)}",
    ]
    for runtime, version in versions.items():
        cells = []
        for way in WAYS:
            own = [one for one in results if (one["runtime"], one["way"]) == (runtime, way)]
            right = Counter(one["has_lists"] for one in own if one["result"] == "right")
            wrong = sum(one["result"].startswith("wrong") for one in own)
            cells.append(f"{right[False]} + {right[True]}{f' ({wrong} w)' if wrong else ''}" if own else "")
        lines.append(f"| {runtime} {version} | {' | '.join(cells)} |")
    for runtime in versions:
        for way in WAYS[1:]:
            own = [one for one in results if (one["runtime"], one["way"]) == (runtime, way)]
            stopped = Counter(reason_of(one["result"]) for one in own if one["result"] != "right")
            if stopped:
                lines += ["", f"{runtime}, {way}:", ""]
                lines += [f"- {n}: {text}" for text, n in stopped.most_common(8)]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(prog="python -m benchmarks.runtimes")
    parser.add_argument("pattern", nargs="?", default="")
    parser.add_argument("--output", type=Path, help="the folder for environments, models and tables")
    parser.add_argument("--only", default=",".join(RUNTIMES), help="runtimes")
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--run", help=argparse.SUPPRESS)
    parser.add_argument("--cases", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.run:
        run_cases(given.run, given.cases, given.ways.split(","))
        return
    folder = given.output.absolute()
    cases = folder / "cases"
    shutil.rmtree(cases, ignore_errors=True)
    cases.mkdir(parents=True)
    write_cases(cases, given.pattern, given.ways.split(","))
    pythons = {runtime: environment(runtime, folder) for runtime in given.only.split(",")}
    for runtime in [runtime for runtime, python in pythons.items() if python is None]:
        print(f"{runtime}: can't be installed", file=sys.stderr)
        del pythons[runtime]
    versions = {runtime: version_of(runtime, python) for runtime, python in pythons.items()}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        done = [
            pool.submit(run_runtime, runtime, python, cases, given.ways.split(","))
            for runtime, python in pythons.items()
        ]
    results = [result for one in done for result in one.result()]
    (folder / "results.json").write_text(json.dumps({"versions": versions, "results": results}, indent=1))
    (folder / "table.md").write_text(table(results, versions))
    print(table(results, versions))
    wrong = [one for one in results if one["result"].startswith("wrong") and one["way"] != "given"]
    if new := [one for one in wrong if not is_known(one["runtime"], one["model"])]:
        sys.exit(f"wrong without an error: {new}")


if __name__ == "__main__":
    main()
