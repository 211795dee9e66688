"""Nothing that `explain` calls linear grows faster: work is counted at two sizes, not timed."""

import numpy as np
import pytest
from seqcore.core.store import counted
from support.models.exported import MODELS
from support.models.sessions import model

from seqcore.onnx import InferenceSession
from seqcore.onnx._engines import executable
from seqcore.onnx._runtimes import runners
from seqcore.onnx.explaining import explain

SIZES = 100, 200
# An iteration for each pair: the model itself does that many.
PAIRS = {"breadth_first"}


def is_called_linear(given):
    return "in linear time" in explain(given)[0]


@pytest.fixture
def work(monkeypatch):
    """A function that runs a model in steps: how often onnxruntime ran, and a list's slots were copied.

    Other engines run no list that is longer than a limit.
    """
    runs = []
    bare_run = executable.bare_run

    def counting(session):
        run = bare_run(session)

        def counted_run(*arguments):
            runs.append(session)
            return run(*arguments)

        return counted_run

    for module in (executable, runners):
        monkeypatch.setattr(module, "bare_run", counting)

    def work(given, feed_of):
        tiers = InferenceSession(given, compile="load")._engines.compiled.tiers
        steps = next(tier.get() for tier in tiers if "steps" in tier.name)
        found = []
        for n in SIZES:
            feed, before = feed_of(n), counted()["slots_copied"]
            runs.clear()
            steps.run(None, feed, None)
            found.append((len(runs), counted()["slots_copied"] - before))
        return found

    return work


@pytest.mark.at_night
@pytest.mark.parametrize("name", sorted(MODELS.keys() - PAIRS))
def test_lists_that_are_made_in_linear_time(name, work):
    given = MODELS[name].path
    if not is_called_linear(given):
        return
    (runs, copies), (more_runs, more_copies) = work(given, MODELS[name].example)
    assert more_runs <= 2.1 * runs + 4
    assert more_copies <= copies + 4  # each is of a whole list


SUMMARIES = {
    "replay_memory": "a session makes 2 lists in linear time (quadratic in onnxruntime); "
    "lower leaves 3 sequences",
    "merge_sorted": "a session runs all iterations of 2 loops at once and makes 5 lists in linear time "
    "(quadratic in onnxruntime); lower leaves no sequence",
    "sorted_by_length": "a session runs all iterations of 2 loops at once; lower leaves no sequence",
}


@pytest.mark.parametrize("name", SUMMARIES)
def test_lists_are_called_linear(name):
    assert explain(MODELS[name].path)[0] == SUMMARIES[name]


APPENDS = """g (float[N, 4] x, int64 n) => (seq(float[4]) l, float[M, 4] firsts)
    <bool yes = {1}, int64 zero = {0}> {
    none = SequenceEmpty ()
    l, firsts = Loop (n, yes, none) <
        body = b (int64 i, bool go, seq(float[4]) s) => (bool go, seq(float[4]) t, float[4] first) {
            row = Gather (x, i)
            t = SequenceInsert (s, row)
            other = SequenceInsert (EDITED, row, zero)
            first = SequenceAt (other, zero)
        }>
}"""


@pytest.mark.parametrize("edited", ["s", "t"])
def test_a_list_that_is_used_after_an_edit_is_copied(edited, work):
    given = model(APPENDS.replace("EDITED", edited))
    assert not is_called_linear(given)
    (_, copies), (_, more_copies) = work(
        given, lambda n: {"x": np.ones((n, 4), np.float32), "n": np.array(n)}
    )
    assert more_copies > 1.9 * copies
