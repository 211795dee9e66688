"""The site is built without a warning; what people look for is found on it.

With the path of one in SEQCORE_SITE, that is looked at, and none is built.
"""

import json
import os
import re
from pathlib import Path

import pytest
from support.pages import ROOT, run_module
from support.surface import public_names

import seqcore

for needed in ("sphinx", "myst_parser", "furo", "matplotlib", "onnx", "onnxruntime"):
    pytest.importorskip(needed)

import seqcore.onnx  # noqa: E402

# Words that a recipe is searched by.
RECIPES = (
    "mean median percentiles variance argmax histogram normalize standardize softmax cumsum diff "
    "rolling one-hot embedding clip sort top-k reverse shuffle unique sliding n-grams truncate "
    "offsets separator flatten interleaved repeat duplicates deduplicate groupby bucket padding pack "
    "mask tokens pandas polars append"
)
EXPECTED = [  # a word that people search for, and a page that has to be among those found
    ("concatenate", "api/functions"),
    ("stack", "arrays"),
    ("vectorize", "maps"),
    ("ragged", "quickstart"),
    ("jagged", "interoperability"),
    ("awkward", "choosing"),
    ("zero-copy", "how-it-works"),
    ("memory-mapped", "files"),
    ("pad_sequence", "training"),
    ("slow", "models"),
    ("filter", "arrays"),
    ("quadratic", "index"),
    *((word, "recipes") for word in RECIPES.split()),
]

pytestmark = [pytest.mark.slow, pytest.mark.at_night, pytest.mark.thread_unsafe]


@pytest.fixture
def site(tmp_path):
    if "SEQCORE_SITE" in os.environ:
        return Path(os.environ["SEQCORE_SITE"])
    folders = ["-d", tmp_path / "doctrees", ROOT / "docs", tmp_path / "site"]
    done = run_module("sphinx", "-W", "--keep-going", "-n", "-q", "-b", "html", *folders)
    assert done.returncode == 0, done.stdout + done.stderr
    return tmp_path / "site"


def test_site(site):
    pages = {page.relative_to(ROOT / "docs").with_suffix("") for page in (ROOT / "docs").rglob("*.md")}
    assert pages <= {page.relative_to(site).with_suffix("") for page in site.rglob("*.html")}
    reference = "".join(page.read_text(encoding="utf-8") for page in (site / "api").glob("*.html"))
    assert [name for name in documented_names() if f'id="seqcore.{name}"' not in reference] == []
    assert not re.search("SupportsIndex|TensorOf|DTypeOf", reference), "an alias that READABLE lacks"
    search = searched(site / "searchindex.js")
    assert {page for word, page in EXPECTED if page not in search(word)} == set()
    for page in site.glob("*.html"):
        assert calls_without_link(page.read_text(encoding="utf-8")) == [], page.name


# Methods that Python or NumPy calls, and of which there is nothing to say.
UNSAID = {"__class_getitem__", "__copy__", "__deepcopy__", "__hash__", "__array_function__", "__repr__"}
UNSAID |= {"__reduce__", "__getstate__", "__setstate__", "__ge__", "__gt__", "__le__", "__lt__", "__ne__"}


def documented_names():
    """Return the names of functions and methods, which all have to be in the reference, as it writes them."""
    names = [name for name in public_names() if name.rpartition(".")[2] not in UNSAID] + [*seqcore.__all__]
    ours = {*vars(seqcore.TensorSequence)} | {*dir(seqcore.TensorSequence([0]))}
    return [
        *(
            f"TensorSequence.{name}" if name in ours and name not in seqcore.__all__ else name
            for name in names
        ),
        *(f"onnx.{name}" for name in seqcore.onnx.__all__),
        *(f"onnx.InferenceSession.{name}" for name in dir(seqcore.onnx.InferenceSession) if name[0] != "_"),
        *("torch.PadCollate", "torch.PackCollate"),
    ]


def searched(index):
    """Return a function that finds the pages with a word, as the search of the site does."""
    from sphinx.search.en import SearchEnglish

    found = json.loads(index.read_text(encoding="utf-8").removeprefix("Search.setIndex(").removesuffix(")"))
    stem = SearchEnglish({}).stem

    def search(words):
        pages = []
        for part in words.split("-"):
            numbers = [found[kind].get(stem(part), []) for kind in ("terms", "titleterms")]
            these = {one for some in numbers for one in (some if isinstance(some, list) else [some])}
            pages.append({found["docnames"][one] for one in these})
        return set.intersection(*pages)

    return search


def calls_without_link(page):
    """Return the calls of seqcore in the text of a page that don't lead to the reference."""
    text = re.sub(r"<h\d.*?</h\d>|<div class=\"highlight.*?</div>", "", page, flags=re.S)
    links = "".join(re.findall(r"<a [^>]*>.*?</a>", text, re.S))
    ours = re.compile(r'<code class="[^"]*"><span class="pre">((?:sq|seq)\.\w+)\(?')
    names = {f"sq.{name}" for name in seqcore.__all__}
    names |= {f"seq.{name}" for name in dir(seqcore.TensorSequence([0])) if name[0] != "_"}
    return [name for name in {*ours.findall(text)} - {*ours.findall(links)} if name in names]
