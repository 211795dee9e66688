"""Public calls are listed, give what NumPy or a list gives on every kind of sequence, and fail as listed."""

import numpy as np
import pytest
from support.results import same
from support.surface import CALLS, FITTING, SEQUENCES, Operands, made, public_names

ANSWERED = [label for label, one in CALLS.items() if one.answer]
ERRORS = [label for label, one in CALLS.items() if one.raises]


def needed(label):
    if CALLS[label].section == "files":
        pytest.importorskip("pyarrow")


def elements(seq):
    return [np.array(t) for t in seq]


def test_every_public_name_is_listed():
    assert public_names() - {one.name for one in CALLS.values()} == set()


@pytest.mark.parametrize("label", ANSWERED)
def test_a_call_gives_what_numpy_or_a_list_gives(label):
    needed(label)
    one = CALLS[label]
    operands = Operands(made(one.on))
    model = elements(operands.seq)
    result, wanted = one(operands), one.answered(operands, model)
    assert same(result, wanted), (result, wanted)
    assert same(operands.seq, model)


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[pytest.mark.at_night] * (kind == "large")) for kind in SEQUENCES]
)
@pytest.mark.mostly_at_night(3)
def test_calls_on_every_kind_of_sequence(kind):
    """Where NumPy has an answer, it is given, or refused by a fitting error: then nothing has changed."""
    made(kind)
    given, wrong = 0, []
    for label in ANSWERED:
        one = CALLS[label]
        if one.section == "files" or one.memory == "out":
            continue
        operands = Operands(made(kind))
        before, model = elements(operands.seq), elements(operands.seq)
        try:
            wanted = one.answered(operands, model)
        except Exception:
            continue  # it isn't for such sequences
        try:
            result = one(operands)
        except FITTING:
            assert same(operands.seq, before), label
        else:
            given += 1
            if not (same(result, wanted) and same(operands.seq, model)):
                wrong.append((label, result, wanted))
    assert [label for label, *_ in wrong] == [], wrong
    assert given > 60


@pytest.mark.parametrize("label", ERRORS)
def test_errors_are_as_listed_and_change_nothing(label):
    needed(label)
    one = CALLS[label]
    operands = Operands(made(one.on))
    before = elements(operands.seq)
    with pytest.raises(one.raises) as caught:
        one(operands)
    assert type(caught.value) is one.raises or one.raises is Exception
    assert same(operands.seq, before)
