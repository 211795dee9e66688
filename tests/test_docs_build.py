"""The site is built without a warning."""

import pytest
from pages import ROOT, run_module

import seqcore

for needed in ("sphinx", "myst_parser", "furo", "onnx", "onnxruntime"):
    pytest.importorskip(needed)

pytestmark = [pytest.mark.slow, pytest.mark.thread_unsafe]


def test_build(tmp_path):
    folders = ["-d", tmp_path / "doctrees", ROOT / "docs", tmp_path / "site"]
    done = run_module("sphinx", "-W", "--keep-going", "-n", "-q", "-b", "html", *folders)
    assert done.returncode == 0, done.stdout + done.stderr
    pages = {page.stem for page in (ROOT / "docs").glob("*.md")}
    assert pages <= {page.stem for page in (tmp_path / "site").glob("*.html")}
    reference = (tmp_path / "site" / "api.html").read_text(encoding="utf-8")
    public = [name for name in dir(seqcore.TensorSequence([0])) if name[0] != "_"]
    assert [name for name in public if f'id="seqcore.TensorSequence.{name}"' not in reference] == []
    assert [name for name in seqcore.__all__ if f'id="seqcore.{name}"' not in reference] == []
