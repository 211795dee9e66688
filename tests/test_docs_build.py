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
    pages = {page.relative_to(ROOT / "docs").with_suffix("") for page in (ROOT / "docs").rglob("*.md")}
    site = tmp_path / "site"
    assert pages <= {page.relative_to(site).with_suffix("") for page in site.rglob("*.html")}
    reference = (site / "api" / "index.html").read_text(encoding="utf-8")
    public = [name for name in dir(seqcore.TensorSequence([0])) if name[0] != "_"]
    assert [name for name in public if f'id="seqcore.TensorSequence.{name}"' not in reference] == []
    assert [name for name in seqcore.__all__ if f'id="seqcore.{name}"' not in reference] == []
