"""A stranger called seqcore in the same folder: an import says so, whichever of the two it finds."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import seqcore

PACKAGE = Path(seqcore.__file__).parent


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder with a copy of the package, as pip leaves it."""
    folder = tmp_path_factory.mktemp("site-packages")
    shutil.copytree(PACKAGE, folder / "seqcore", ignore=shutil.ignore_patterns("*.c", "*.pyx", "__pycache__"))
    (folder / "seqcore_tensors-0.1.0.dist-info").mkdir()
    return folder


def started(folder, code):
    path = os.pathsep.join([str(folder), *filter(None, sys.path)])
    environment = os.environ | {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-W", "error", "-c", code]
    ended = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    return ended.returncode, ended.stderr


def test_alone_it_says_nothing(installed):
    code = "import seqcore, os; assert os.path.samefile(seqcore.__path__[0], 'seqcore')"
    assert started(installed, code) == (0, "")


@pytest.mark.parametrize("record", ["seqcore-1.2.dist-info", "seqcore-0.5.1-py3.11.egg-info"])
def test_a_stranger_beside_it_is_named(installed, record):
    (installed / record).mkdir()
    try:
        code, said = started(installed, "import seqcore")
    finally:
        (installed / record).rmdir()
    assert code == 1
    assert (
        f"RuntimeWarning: another project called seqcore is installed in {installed} too ({record})" in said
    )
    assert "pip uninstall seqcore seqcore-tensors, then pip install seqcore-tensors" in said


@pytest.mark.parametrize("module", ["seqcore.core.sequence", "seqcore.operators", "seqcore.mapping"])
def test_under_a_strangers_name_nothing_is_imported(installed, module, tmp_path):
    shutil.copytree(installed / "seqcore", tmp_path / "seqcore")
    (tmp_path / "seqcore" / "__init__.py").write_text('"""Sequences of bases."""')
    code, said = started(tmp_path, f"import {module}")
    assert code == 1
    assert "is another project's, which has overwritten this one: pip uninstall seqcore" in said
