"""Whatever an argument is, its error is of a fitting kind, short, and leaves the sequence as it was."""

from importlib.util import find_spec

import numpy as np
import pytest
from support.odd_values import VALUES, assert_fitting, each_call, naming
from support.results import same
from support.surface import CALLS, Operands, made

# Arguments made by recipe that may be anything; the others are what the call is made on.
GIVEN = ("tensor", "tensors", "others", "indices", "replacements", "element", "out", "path", "saved")
# These calls do something to the argument themselves.
PREPARED = ("__getitem__, a list: indices", "__setitem__, a long slice: tensors")
ARGUMENTS = {
    f"{label}: {name}": (one, name)
    for label, one in CALLS.items()
    if not one.raises
    for name, parameter in one.parameters.items()
    if (parameter.default is not parameter.empty or name in GIVEN)
    and name != "protocol"
    and f"{label}: {name}" not in PREPARED
}


def check(call, value, tmp_path, monkeypatch):
    one, name = ARGUMENTS[call]
    others = ()
    if one.section == "files":
        pytest.importorskip("pyarrow")
        others = (OSError,)  # what is taken for a path may lead nowhere
    elif name == "body":
        others = (
            OSError,
            *([ImportError] if find_spec("onnxruntime") is None else []),
        )  # the path of a model
    elif one.name.startswith("Columns"):
        others = (KeyError,)
    monkeypatch.chdir(tmp_path)
    operands = Operands(made(one.on))
    before = [np.array(t) for t in operands.seq]
    with naming(value):
        taken = assert_fitting(lambda x: one(operands, **{name: x}), VALUES[value](), others)
        operands.seq._check()
        if not (taken and one.edits):
            assert same(operands.seq, before)


# Bounds of slices go as Python and NumPy have them: NumPy before 2.3 takes its bools, with a warning.
@pytest.mark.filterwarnings("ignore:In future, it will be an error for 'np.bool'")
@each_call(ARGUMENTS)
@pytest.mark.mostly_at_night(2)
def test_an_odd_argument_is_taken_or_refused(call, values, tmp_path, monkeypatch):
    for i, value in enumerate(values):
        (tmp_path / str(i)).mkdir()
        check(call, value, tmp_path / str(i), monkeypatch)
