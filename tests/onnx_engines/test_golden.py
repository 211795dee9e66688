"""What becomes of the exported models stays as it is written down: see `golden`."""

import pytest
from support.models.exported import MODELS
from support.models.golden import differences, lowered, run, stored

GOLDEN = stored()


def test_every_model_is_written_down():
    assert GOLDEN.keys() == MODELS.keys()


def check(name, part, found):
    lines = list(differences(GOLDEN[name][part], found, part))
    assert not lines, "\n".join([f"'{name}' has changed (see tests/support/models/golden.py):", *lines])


@pytest.mark.mostly_slow(13)
@pytest.mark.parametrize("name", MODELS)
def test_what_lower_makes(name):
    check(name, "lower", lowered(MODELS[name].path))


@pytest.mark.mostly_slow(13)
@pytest.mark.parametrize("name", MODELS)
def test_what_a_session_runs(name):
    check(name, "session", run(MODELS[name].path))


def test_differences_are_told():
    before = {"nodes": 3, "notes": ["a", "b"], "lists": {"SequenceAt": 1}}
    assert not list(differences(before, before))
    after = {"nodes": 2, "notes": ["a", "c"], "lists": {}}
    told = ["nodes: 3 -> 2", "notes: - b", "notes: + c", "lists/SequenceAt: 1 -> None"]
    assert list(differences(before, after)) == told
    assert list(differences({"runs": [1, 2]}, {"runs": [2, 1]})) == ["runs: the order has changed"]
