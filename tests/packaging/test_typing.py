"""The stubs are true, and type checkers infer and refuse what they should.

The checkers get a copy of the package's typed parts: so they find it in the same way in a checkout, in an
editable install and in site-packages, and tell what is wrong in it, which they don't in site-packages.
"""

import ast
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import seqcore as sq

HERE = Path(__file__).parent
PACKAGE = Path(sq.__file__).parent
SETTINGS = HERE.parents[1] / "pyproject.toml"
USES = ("test_typing_uses.py", "typing_refused.py")

# What types these packages lack is no fault of the stubs. Those that only the demo needs are not even read.
MYPY = """
[mypy]
disable_error_code = annotation-unchecked
[mypy-google.protobuf.*,onnxruntime.*,pyarrow.*,tqdm.*,seqcore.core.*]
ignore_missing_imports = true
[mypy-matplotlib.*,PIL.*,skimage.*]
ignore_missing_imports = true
follow_imports = skip
[mypy-seqcore.*]
follow_imports = silent
"""

PYRIGHT = {
    "include": USES,
    "extraPaths": ["path"],
    "typeCheckingMode": "strict",
    "reportUnnecessaryTypeIgnoreComment": "error",
}

# Regular expressions of what stubtest may find.
ALLOWED = """
seqcore\\._typing                          # aliases that the stubs share: at run time there is no such module
seqcore(\\.onnx)?\\.error                   # the name in an `except` clause, which is gone after it
seqcore\\.core\\.sequence\\.__(pyx_capi|test)__   # Cython's
seqcore\\.core\\.sequence\\.(Convertible|Gathering|Ragged)   # its bases, and what it is made from
seqcore\\.mapping\\.(sequence_map|map_batches)   # which have their options by Unpack; see the test below
# Sources without stubs, compared with themselves: the demo, and what is private but for the core.
seqcore\\.(demo|(onnx\\.)?_\\w+)\\..*
seqcore\\.core\\.(?!sequence)\\w+.*
"""

pytestmark = pytest.mark.thread_unsafe


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the package's typed parts under `path`, what is to be checked, and the settings."""
    folder = tmp_path_factory.mktemp("typing")
    typed = [file for file in PACKAGE.rglob("*") if file.suffix in (".py", ".pyi") or file.name == "py.typed"]
    for file in typed:
        copy = folder / "path" / "seqcore" / file.relative_to(PACKAGE)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, copy)
    for name in USES:
        shutil.copy(HERE / name, folder)
    (folder / "mypy.ini").write_text(MYPY)
    (folder / "allowed.txt").write_text(ALLOWED)
    (folder / "pyrightconfig.json").write_text(json.dumps(PYRIGHT))
    return folder


def run(folder, module, *arguments):
    pytest.importorskip(module.partition(".")[0])
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    here = {"PYTHONPATH": str(PACKAGE.parent), "MYPYPATH": str(folder / "path")}
    result = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=folder,
        env=os.environ | here,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.mark.at_night
def test_stubs_are_true(folder):
    settings = ("--mypy-config-file", "mypy.ini", "--allowlist", "allowed.txt")
    assert "no issues found" in run(folder, "mypy.stubtest", "seqcore", *settings)


@pytest.mark.at_night
def test_mypy_agrees_with_uses(folder):
    assert "no issues found in 2 source files" in run(folder, "mypy", "--strict", *USES)


@pytest.mark.slow
@pytest.mark.skipif(not SETTINGS.exists(), reason="outside of the repository")
@pytest.mark.at_night
def test_mypy_agrees_with_bodies(folder):
    out = run(folder, "mypy", "--config-file", str(SETTINGS))
    assert "no issues found" in out


@pytest.mark.at_night
def test_pyright_agrees_with_uses(folder):
    out = run(folder, "basedpyright", "--pythonpath", sys.executable, "--outputjson")
    assert json.loads(out)["summary"]["filesAnalyzed"] == 2


def test_public_modules_have_types():
    """In a stub where the code is compiled or has many overloads, else where it stands."""
    modules = [file.relative_to(PACKAGE) for file in PACKAGE.rglob("*.py")]
    public = [file for file in modules if not re.search(r"(^|/)_|^core/", file.as_posix())]
    files = [PACKAGE / file for file in public]
    plain = [file for file in files if not file.with_suffix(".pyi").exists()]
    assert {file.stem for file in plain} == {
        *("columns", "demo", "dtypes", "files", "mapping", "operators", "packing", "samplers", "torch"),
        *("backend", "body", "explaining", "lowering", "protos", "session"),
    }
    for file in plain:
        if file.stem == "demo":
            continue
        tree = ast.parse(file.read_text(encoding="utf-8"))
        for one in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
            if not one.name.startswith("_") or one.name == "__init__":
                arguments = [*one.args.args, *one.args.kwonlyargs]
                untyped = {arg.arg for arg in arguments if not arg.annotation} - {"self", "cls"}
                assert not untyped, f"{file.stem}.{one.name}"
                assert one.returns, f"{file.stem}.{one.name}"


def test_each_method_of_the_compiled_class_has_a_stub_with_its_parameters():
    """Of names alone, what stubtest finds at night."""
    (module,) = PACKAGE.glob("core/*.pyi")
    (stub,) = (
        node for node in ast.parse(module.read_text(encoding="utf-8")).body if isinstance(node, ast.ClassDef)
    )
    described = {node.target.id: set() for node in stub.body if isinstance(node, ast.AnnAssign)}
    for node in stub.body:
        if isinstance(node, ast.FunctionDef):
            arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            described.setdefault(node.name, set()).update(one.arg for one in arguments)
    kinds = [kind for kind in sq.TensorSequence.__mro__ if kind.__module__.startswith("seqcore")]
    own = {name for kind in kinds for name in vars(kind)} & {*dir(sq.TensorSequence([0]))}
    hidden = {
        "_check",
        "__pyx_vtable__",
        "__array__",
    }  # seqcore/core/sequence.pyi has the reason for the last
    assert own - {*dir(object)} - hidden <= {*described} <= own | {"__init__"}
    for name in described:
        if name[0] != "_" and callable(method := getattr(sq.TensorSequence, name)):
            assert {*inspect.signature(method).parameters} == described[name] - {"cls"}, name


def test_options_of_maps_are_those_of_the_functions():
    """Overloads have them by Unpack, which stubtest doesn't look into."""
    tree = ast.parse((PACKAGE / "mapping.py").read_text(encoding="utf-8"))
    options = {
        node.name: [one.target.id for one in node.body]
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and node.name in ("_Options", "_BatchOptions")
    }
    for function, name in ((sq.sequence_map, "_Options"), (sq.map_batches, "_BatchOptions")):
        parameters = inspect.signature(function).parameters.values()
        keywords = {one.name for one in parameters if one.kind is one.KEYWORD_ONLY}
        assert {*options[name], "output_dtypes"} == keywords


def test_signatures_show():
    """In `help` and editors; that they are those of the stubs is stubtest's."""
    assert str(inspect.signature(sq.TensorSequence)) == "(tensors=(), dtype=None, *, copy=False)"
    assert str(inspect.signature(sq.TensorSequence.pop)) == "(self, /, position=-1)"
    for owner in (sq, sq.TensorSequence):
        for name in dir(owner):
            if not name.startswith("_") and callable(getattr(owner, name)):
                assert inspect.signature(getattr(owner, name)), name
                assert "--" not in getattr(owner, name).__doc__.partition("\n")[0]
