"""The planted mistakes of hardening/mutants can still be planted. Finding them takes an hour."""

from pathlib import Path

import pytest
from hardening.mutants.__main__ import MUTANTS

import seqcore

CORE = Path(seqcore.__file__).parent / "core"


@pytest.mark.skipif(not (CORE / "sequence.pyx").exists(), reason="an installed package has no sources")
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.what)
def test_each_has_its_place(mutant):
    assert (CORE / mutant.file).read_text(encoding="utf-8").count(mutant.before) == 1
    assert mutant.before != mutant.after
    for path in mutant.tests.split():
        assert (Path(__file__).parents[1] / path).exists(), path
