"""The code on the pages of docs/ and in README runs, and prints what they show."""

import re
import sys
from xml.etree import ElementTree

import pytest
from support.pages import ROOT, blocks_of, is_there, run

import seqcore as sq

PAGES = sorted((ROOT / "docs").rglob("*.md")) + [ROOT / "README.md"]
NEEDS = sorted({(page, need) for page in PAGES for block in blocks_of(page) for need in block.needs})
# Those that take a second or more.
SLOW = {
    "c-api.md",
    "interoperability.md",
    "maps.md",
    "models.md",
    "other-runtimes.md",
    "training.md",
    "files.md",
}
FIGURES = sorted((ROOT / "docs" / "figures").glob("*.svg"))

pytestmark = pytest.mark.thread_unsafe


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=[pytest.mark.slow] * (page.name in SLOW), id=page.name) for page in PAGES],
)
def test_page(page, tmp_path, monkeypatch, kept_builds):
    monkeypatch.chdir(tmp_path)
    # Where the benchmarks are, and what a page has built.
    monkeypatch.setattr(sys, "path", [*sys.path, str(ROOT), str(tmp_path)])
    run(page, kept_builds)


@pytest.mark.parametrize(("page", "need"), NEEDS, ids=lambda value: getattr(value, "name", value))
def test_needed_package(page, need):
    if not is_there(need):
        lines = ", ".join(str(block.line) for block in blocks_of(page) if need in block.needs)
        pytest.skip(f"no {need}: the code at these lines of {page.name} did not run: {lines}")


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.name)
def test_figure(figure):
    root = ElementTree.parse(figure).getroot()
    names = [child.tag.partition("}")[2] for child in root]
    assert names[:2] == ["title", "desc"]
    assert all(child.text.strip() for child in root[:2])
    assert root.get("role") == "img"
    places = [f":::{{figure}} {folder}figures/{figure.name}\n" for folder in ("", "../")]
    assert sum(place in page.read_text("utf-8") for page in PAGES for place in places) == 1
    assert not [one for one in root.iter() if any("href" in name for name in one.attrib)]


@pytest.mark.parametrize(
    "made",
    [sq.TensorSequence([1]), sq.Columns({"a": [1]}), sq.BatchSampler([1], batch_size=1)],
    ids=lambda made: type(made).__name__,
)
def test_the_reference_has_every_public_name(made):
    reference = "".join(page.read_text("utf-8") for page in (ROOT / "docs" / "api").glob("*.md"))
    there = set(re.findall(rf"auto(?:method|attribute):: {type(made).__name__}\.(\w+)", reference))
    internal = {"inner", "of", "sequences"}  # of Columns, for the package's own modules
    assert there == {name for name in dir(made) if name[0] != "_"} - internal
