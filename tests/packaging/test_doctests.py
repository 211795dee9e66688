"""The examples in the docstrings hold, in compiled modules too, and each public function has one."""

import doctest
import importlib.util
import pkgutil
import re

import pytest

import seqcore as sq

FOUND = [*pkgutil.walk_packages(sq.__path__, "seqcore.")]
MODULES = ["seqcore", *(module.name for module in FOUND)]
PUBLIC = [module.name for module in FOUND if "._" not in module.name and ".core" not in module.name]
PACKAGES = ["seqcore", *(module.name for module in FOUND if module.ispkg and module.name in PUBLIC)]

pytestmark = pytest.mark.thread_unsafe


def load(name):
    """Import a module, or skip the test where a package that it needs is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        if (error.name or "seqcore").split(".")[0] == "seqcore":
            raise
        pytest.skip(f"{error.name} is not installed")


@pytest.mark.parametrize("name", MODULES)
def test_module(name, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    runner, lacking = doctest.DocTestRunner(), set()
    module = load(name)
    for test in doctest.DocTestFinder().find(module):
        source = "".join(one.source for one in test.examples)
        needed = {
            *(["pyarrow"] if "sq.save(" in source else []),  # imported when it is used
            *re.findall(r"^(?:import|from) (\w+)", source, re.M),
        }
        missing = {one for one in needed if importlib.util.find_spec(one) is None}
        lacking |= missing
        if not missing:
            runner.run(test)
    assert runner.failures == 0, capsys.readouterr().out
    if lacking:
        pytest.skip(f"not installed: {', '.join(sorted(lacking))}")


def test_examples_of_compiled_modules_are_found():
    assert "seqcore.core.sequence" in MODULES
    assert doctest.testmod(load("seqcore.core.sequence")).attempted > 0


@pytest.mark.parametrize("package", PACKAGES)
def test_public_names_have_examples(package):
    module = load(package)
    names = {*vars(module), *module.__all__}  # some are imported at their first use
    public = {name: value for name in names if name[0] != "_" and callable(value := getattr(module, name))}
    assert public
    find = doctest.DocTestFinder(recurse=False).find
    assert [name for name in public if not any(test.examples for test in find(public[name], name))] == []
