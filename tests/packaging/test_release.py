"""What a release says of itself: one name, one version, and a README that can be read far from here."""

import ast
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

import seqcore

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(not (ROOT / "setup.py").exists(), reason="outside of the repository")


@pytest.fixture
def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def function_of_setup(name, **names):
    """A function of setup.py, which would build if it were imported."""
    tree = ast.parse((ROOT / "setup.py").read_text(encoding="utf-8"))
    (function,) = (one for one in tree.body if getattr(one, "name", "") == name)
    exec(compile(ast.Module([function], []), "setup.py", "exec"), names)
    return names[name]


@pytest.fixture
def readme(monkeypatch):
    """README as an index of packages gets it."""
    monkeypatch.chdir(ROOT)
    return function_of_setup("readme", re=re, tomllib=tomllib, Path=Path)()


def test_links_lead_into_the_repository(readme, project):
    home = project["urls"]["Repository"]
    links = re.findall(r"(!?)\[[^\]]*\]\(([^)\s]+)", readme)
    assert len(links) > 5
    for picture, link in links:
        if link.startswith(f"{home}/actions/workflows/"):  # a badge, and what it is about
            assert link.removesuffix("/badge.svg").endswith("/test.yml")
        elif link.startswith(home):
            kind, _, path = link.removeprefix(f"{home}/").partition("/main/")
            assert kind == ("raw" if picture else "blob")
            assert (ROOT / path.partition("#")[0]).exists(), path
        else:
            assert link.startswith("https://"), link


def test_one_version_everywhere():
    dated = re.search(r"^## \[(.+?)\] - (\d{4}-\d\d-\d\d)$", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.M)
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert dated[1] == seqcore.__version__
    assert f"\nversion: {dated[1]}\n" in citation
    assert f"\ndate-released: {dated[2]}\n" in citation


@pytest.mark.slow
def test_nobody_is_told_to_install_a_stranger(project):
    assert project["name"] == "seqcore-tensors"
    names = []
    if shutil.which("git"):
        command = ["git", "ls-files", "-z"]
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
        names = listed.stdout.split("\0")[:-1]
    names = names or [str(path) for path in ROOT.rglob("*.md")]
    stranger = re.compile(
        r"""pip install (?:-\w+ )*["']?seqcore\b(?!-tensors)|["'`]seqcore\[|\bseqcore\[\w+\]"""
    )
    told = []
    for name in names:
        path = ROOT / name
        if path.suffix in (".md", ".py", ".pyx", ".toml", ".yml", ".sh", ".cff") and path != Path(__file__):
            text = path.read_text(encoding="utf-8")
            told += [f"{name}: {found[0]}" for found in stranger.finditer(text)]
    assert told == []
