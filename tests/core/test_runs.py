"""Runs of every kind: read in each way, and edited by scripts of hardening/fuzz until they are slots."""

import numpy as np
import pytest
from hardening.fuzz import edits
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.random_cases import examples
from support.runs import KINDS, Numbers, read_in_each_way


@settings(
    max_examples=examples(200), suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@given(
    st.lists(st.binary(min_size=9, max_size=9), min_size=1, max_size=3), st.binary(min_size=100, max_size=400)
)
def test_a_script(tables, data):
    edits.run(edits.beginning_with(tables) + data)


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_each_kind_in_each_way(kind):
    """As it comes, from behind, with steps, selected, joined with itself, and behind many edits."""
    numbers = Numbers()
    seq, model = kind(numbers, [3, 0, 1, 4, 2, 0, 0, 1, 2, 3, 1, 1, 4])
    n = len(model)
    order = np.arange(n) * 5 % n
    for one, expected in (
        (seq, model),
        (seq[::-1], model[::-1]),
        (seq[::3], model[::3]),
        (seq[n - 2 :: -2], model[n - 2 :: -2]),
        (seq[1:-1][::2][::-1], model[1:-1][::2][::-1]),
        (seq[order], [model[i] for i in order]),
        (seq + seq[::-1] + seq[order], model + model[::-1] + [model[i] for i in order]),
        (seq[:0], []),
        (seq[n // 2 : n // 2 + 1], model[n // 2 : n // 2 + 1]),
    ):
        read_in_each_way(one, list(expected))
        edited, changed = one.copy(), list(expected)
        for i in range(90):
            new = numbers.array(1)
            edited.insert(i % (len(changed) + 1), new)
            changed.insert(i % (len(changed) + 1), new)
            if i % 3 == 0:
                edited.erase(-1)
                changed.pop()
        read_in_each_way(edited, changed)
        read_in_each_way(one, list(expected))
