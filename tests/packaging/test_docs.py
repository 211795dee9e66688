"""The code on the pages of docs/ and in README runs, and prints what they show."""

import re
import sys
from xml.etree import ElementTree

import pytest
from support.pages import ROOT, blocks_of, file_of, is_there, run

PAGES = sorted((ROOT / "docs").rglob("*.md")) + [ROOT / "README.md"]
NEEDS = sorted({(page, need) for page in PAGES for block in blocks_of(page) for need in block.needs})
# Those that take a second or more, or many: what is compiled in c-api.md is compiled in test_embedding too.
SLOW = {"interoperability.md", "maps.md", "models.md", "training.md", "files.md"}
AT_NIGHT = {"c-api.md", "other-runtimes.md"}
FIGURES = sorted((ROOT / "docs" / "figures").glob("*.svg"))

pytestmark = pytest.mark.thread_unsafe


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(
            page,
            marks=[pytest.mark.slow] * (page.name in SLOW) + [pytest.mark.at_night] * (page.name in AT_NIGHT),
            id=page.name,
        )
        for page in PAGES
    ],
)
def test_page(page, tmp_path, monkeypatch, kept_builds):
    monkeypatch.chdir(tmp_path)
    # Where the benchmarks are, and what a page has built.
    monkeypatch.setattr(sys, "path", [*sys.path, str(ROOT), str(tmp_path)])
    monkeypatch.setenv("MPLBACKEND", "agg")  # pictures need no window
    run(page, kept_builds)


def test_the_first_blocks_are_narrow():
    for page in (ROOT / "docs").glob("*.md"):
        blocks = [block for block in blocks_of(page) if block.language in ("python", "shell")][:2]
        lines = [line for block in blocks if not file_of(block) for line in block.text.splitlines()]
        assert [line for line in lines if len(line) > 72] == [], page.name


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


@pytest.mark.skipif(not (ROOT / "setup.py").exists(), reason="outside of the repository")
def test_files_that_the_pages_on_structure_name_are_there():
    for page in (ROOT / "docs" / "contributing").glob("*.md"):
        names = re.findall(r"`((?:\w+/)*\w+\.(?:py|pyx|pxd|pyi|md))`", page.read_text("utf-8"))
        places = [ROOT, *(ROOT / "seqcore" / folder for folder in ("", "core", "onnx", "_files", "_maps"))]
        missing = [name for name in names if not any((place / name).exists() for place in places)]
        assert missing == [], page.name


def test_both_sides_of_each_row_are_equal():
    """The tables of "Coming from" have an expression or a statement of another library, and ours."""
    page = ROOT / "docs" / "coming-from.md"
    names, compared = {}, 0
    for section in re.split(r"^## ", page.read_text("utf-8"), flags=re.M):
        blocks = [block for block in blocks_of(page) if block.text in section]
        if not all(block.can_run for block in blocks):
            continue
        for block in blocks:
            exec(block.text, names)
        for theirs, ours in re.findall(r"^\| `(.+)` \| `(.+)` \|$", section, re.M):
            assert as_lists(value_of(theirs, names)) == as_lists(value_of(ours, names)), ours
            compared += 1
    assert compared > 20


def value_of(code, names):
    """Return the value of an expression, or the list or sequence that it changes."""
    changed = {name: names[name].copy() for name in ("arrays", "seq")}
    names = names | changed
    try:
        value = eval(code, names)
    except SyntaxError:
        value = exec(code, names)
    return names[re.match(r"(?:del )?(\w+)", code)[1]] if value is None else value


def as_lists(value):
    if getattr(value, "is_nested", False):
        value = value.unbind()
    if hasattr(value, "tolist"):
        value = value.tolist()
    return [as_lists(one) for one in value] if isinstance(value, list | tuple) else round(value, 6)
