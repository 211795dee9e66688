"""docs/errors.md: what its tables quote is what the messages say."""

import re

import numpy as np
import pytest
from support.pages import ROOT

import seqcore as sq

PAGE = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8").partition("\n## What you'd type\n")[0]
ROWS = re.findall(r"^\| `([^`]+)` \| (.+?) \| .+ \|$", PAGE.partition("\n## Dtypes")[2], re.M)


def test_the_tables_are_read():
    assert len(ROWS) > 45


@pytest.mark.parametrize(("mistake", "words"), ROWS, ids=[mistake for mistake, _ in ROWS])
def test_message(mistake, words):
    names = {
        "np": np,
        "sq": sq,
        "seq": sq.TensorSequence([np.arange(n, dtype=np.float32) for n in (3, 2, 4)]),
        "ints": sq.TensorSequence([[1, 2], [3]]),
    }
    for package in ("awkward", "pandas", "torch"):
        if f"{package}." in mistake:
            names[package] = pytest.importorskip(package)
    before = names["seq"].copy()
    errors = TypeError, ValueError, IndexError, KeyError, OverflowError, AttributeError
    with pytest.raises(errors) as raised:
        exec(mistake, names)
    assert words in str(raised.value)
    assert names["seq"] == before
