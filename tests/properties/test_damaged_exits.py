"""Every exit over damaged data: a result that is right or an error, and never the end of the process."""

import pytest
from support.processes import lines_of

KINDS = ["lists", "lists of pairs", "tensors", "strings"]


def run(which, each, *kinds):
    pytest.importorskip("pyarrow")
    from support import damaged_exits

    lines = lines_of(damaged_exits, which, str(each), *kinds)
    assert lines[-1] == "ended"
    assert len(lines) > 80


def test_public_calls():
    run("calls", 151, *KINDS)


def test_exports_of_lists():
    run("exports", 61, "lists", "lists of pairs")


def test_exports_of_what_is_decoded():
    run("exports", 61, "tensors", "strings")


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("which", ["calls", "exports"])
@pytest.mark.at_night
def test_all_damages(which, kind):
    run(which, 1, kind)
