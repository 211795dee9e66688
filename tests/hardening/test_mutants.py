"""The planted mistakes of hardening/mutants can still be planted. Finding them takes an hour."""

from pathlib import Path

import pytest
from hardening.mutants.__main__ import MUTANTS
from hardening.mutants.planted import CORE

TESTS = Path(__file__).parents[1]


@pytest.mark.skipif(not CORE.exists(), reason="outside of the repository")
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.what)
def test_each_has_its_place(mutant):
    assert len(mutant.places()) == 1
    assert mutant.before != mutant.after
    for path in mutant.tests.split():
        assert (TESTS / path).exists(), path
