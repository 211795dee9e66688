"""The site is built without a warning."""

import os
import subprocess
import sys

import pytest
from pages import ROOT

for needed in ("sphinx", "myst_parser", "furo", "onnx", "onnxruntime"):
    pytest.importorskip(needed)


def test_build(tmp_path):
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-n", "-q", "-b", "html"]
    folders = ["-d", tmp_path / "doctrees", ROOT / "docs", tmp_path / "site"]
    # From a folder without modules: what is imported is what is installed or on the path.
    path = os.pathsep.join(os.path.abspath(part) for part in sys.path)
    done = subprocess.run(
        [*command, *folders],
        env=os.environ | {"PYTHONPATH": path},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    pages = {page.stem for page in (ROOT / "docs").glob("*.md")}
    assert pages <= {page.stem for page in (tmp_path / "site").glob("*.html")}
