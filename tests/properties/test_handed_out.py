"""What calls hand out: arrays that PyTorch takes, and that belong to the caller, whatever is done to them.

Each public call is made on every kind of sequence. No array that it returns has a negative stride. Elements
and `values()` are read-only, and everything else can be written into. Then all that was returned is spoiled,
and neither the sequence nor Columns have changed.
"""

import contextlib
import functools
import warnings

import numpy as np
import pytest
from support.results import arrays_in, same
from support.surface import CALLS, FITTING, SEQUENCES, Operands, made

LOOKS = [one for one in CALLS.values() if not one.raises and one.section != "files" and one.memory != "out"]
ELEMENTS = ("__iter__", "__reversed__", "__getitem__", "pop")  # calls whose arrays are elements
# Kinds whose elements were given with strides that PyTorch refuses.
TURNED = ("turned", "turned rows", "one turned", "turned columns", "a field")
SELECTED = ("Columns.__getitem__, a mask", "Columns.__getitem__, two falling", "Columns.__getitems__")
KINDS = [kind for kind in SEQUENCES if kind not in ("large", "thousands")]  # as the others, and longer
WHOSE = {
    "sequences": [one for one in LOOKS if not one.name.startswith("Columns") and "reduce" not in one.name],
    "columns": [one for one in LOOKS if one.name.startswith("Columns")],
}


def results(calls, kind):
    """Yield each of these calls that a kind of sequence takes, with its operands and its result."""
    made(kind)
    for one in calls:
        if not one.uses and kind != "mixed":
            continue
        operands = Operands(made(kind))
        try:
            result = one(operands)
        except (*FITTING, AttributeError, StopIteration, np.exceptions.ComplexWarning):
            continue
        yield one, operands, result


@functools.cache
def handed_out(whose):
    """Return the arrays that calls hand out: call, kind of sequence, where, the array, whether an element."""
    return [
        (one, kind, f"{where} ({kind})", array, element)
        for kind in KINDS
        for one, _, result in results(WHOSE[whose], kind)
        for where, array, element in arrays_in(result, one.label, one.name in ELEMENTS)
    ]


@pytest.mark.parametrize("whose", WHOSE)
def test_no_stride_is_negative(whose):
    wrong = [
        where
        for _, kind, where, array, element in handed_out(whose)
        if min(array.strides, default=0) < 0 and not (element and kind in TURNED)
    ]
    assert wrong == []


def test_arrays_are_aligned():
    everything = handed_out("sequences") + handed_out("columns")
    wrong = [
        where
        for _, kind, where, array, element in everything
        if not (array.flags.aligned or (element and kind == "a field"))
    ]
    assert wrong == []


def test_elements_and_values_are_read_only():
    wrong = [
        where
        for one, _, where, array, element in handed_out("sequences")
        if array.flags.writeable and (element or one.name == "values")
    ]
    assert wrong == []


def test_other_results_can_be_written_into():
    wrong = [
        where
        for one, _, where, array, element in handed_out("sequences")
        if not (array.flags.writeable or element or one.name in ("values", "offsets"))
    ]
    assert wrong == []


def test_columns_that_were_selected_can_be_written_into():
    wrong = [
        where
        for one, _, where, array, element in handed_out("columns")
        if one.label in SELECTED and not (element or array.flags.writeable)
    ]
    assert wrong == []


@pytest.mark.parametrize("whose", WHOSE)
def test_pytorch_takes_each_array(whose):
    torch = pytest.importorskip("torch")
    wrong = []
    for _, kind, where, array, element in handed_out(whose):
        if array.dtype.kind not in "OV" and not (element and kind in TURNED):
            try:
                if array.flags.writeable:
                    torch.from_numpy(array)
                torch.tensor(array)
            except ValueError as error:
                wrong.append((where, str(error)))
    assert wrong == []


# --- spoiled ---


def spoil(result):
    """Do to what was returned whatever Python and NumPy let anybody do to it."""
    for _, array, _ in [*arrays_in(result)]:
        for damage in (
            lambda a: a.setflags(write=True),
            lambda a: a.fill("no" if a.dtype == object else 1),
            lambda a: a.sort(axis=0),
            lambda a: a.byteswap(inplace=True),
            lambda a: setattr(a, "shape", (1, -1)),
            lambda a: setattr(a, "strides", (0,) * a.ndim),
            lambda a: setattr(a, "dtype", np.dtype("V1")),
            lambda a: a.resize(1000, refcheck=False),
            lambda a: a.resize(0, refcheck=False),
        ):
            taken = contextlib.suppress(ValueError, TypeError, AttributeError)
            with warnings.catch_warnings(action="ignore"), taken:
                damage(array)
    if isinstance(result, list | dict) and result:
        result.clear()


def wholes(operands):
    """Return copies of the array columns that the call was made on, if it was."""
    columns = vars(operands).get("columns", {"b": 0, "c": 0})
    return [np.array(columns[name]) for name in "bc"]


@pytest.mark.parametrize("whose", WHOSE)
def test_what_was_returned_is_the_callers(whose):
    wrong = []
    for kind in KINDS:
        for one, operands, result in results(WHOSE[whose], kind):
            before, columns = operands.seq.tolist(), wholes(operands)
            spoil(result)
            if operands.seq.tolist() != before or not same(wholes(operands), columns):
                wrong.append((one.label, kind))
    assert wrong == []
