"""The code on the pages of docs/ and in README runs, and prints what they show."""

import importlib
from xml.etree import ElementTree

import pytest
from pages import ROOT, blocks_of, run

PAGES = sorted((ROOT / "docs").glob("*.md")) + [ROOT / "README.md"]
FIGURES = sorted((ROOT / "docs" / "figures").glob("*.svg"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_page(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(ROOT))
    run(page)


@pytest.mark.parametrize(
    ("name", "place"),
    [
        (name, f"{page.name}, line {block.line}")
        for page in PAGES
        for block in blocks_of(page)
        for name in block.needs
    ],
)
def test_needed_package(name, place):
    try:
        importlib.import_module(name)
    except ImportError:
        pytest.skip(f"{place} did not run: {name} is not installed")


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.name)
def test_figure(figure):
    root = ElementTree.parse(figure).getroot()
    names = [child.tag.partition("}")[2] for child in root]
    assert names[:2] == ["title", "desc"]
    assert all(child.text.strip() for child in root[:2])
    assert root.get("role") == "img"
    shown = [
        page.name for page in PAGES if f":::{{figure}} figures/{figure.name}\n" in page.read_text("utf-8")
    ]
    assert len(shown) == 1
    assert not [one for one in root.iter() if any("href" in name for name in one.attrib)]
