"""Random loops that make lists, before and after `lower`: the same results, and the same errors.

`python -m support.models.loop_judge --seed N` shows one that failed; `tests/support/models/loop_judge.py`
says how to run thousands.
"""

import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("ml_dtypes")

from support.models import loop_judge

AT_ONCE = 20


# Always these: of new ones a few in ten thousand are known to differ.
@pytest.mark.slow
@pytest.mark.mostly_at_night(11)
@pytest.mark.parametrize("first", range(0, 200, AT_ONCE))
def test_random_loops(first):
    for seed in range(first, first + AT_ONCE):
        case = loop_judge.Case(seed)
        found = case.findings()
        assert not found, f"python -m support.models.loop_judge --seed {seed}\n" + "\n".join(
            map(": ".join, found)
        )


@pytest.mark.slow
@pytest.mark.at_night
def test_most_models_run():
    """Random models that all fail would show nothing."""
    counted = loop_judge.Counter()
    for seed in range(40):
        loop_judge.Case(seed).findings(count=counted)
    assert counted["not valid"] <= 1
    assert counted["failing runs"] < 0.35 * counted["runs"]
