"""Every public call beside edits by another thread: the result of a moment, or a fitting error."""

import time

import numpy as np
import pytest
from support.races import together
from support.random_cases import examples
from support.surface import CALLS, FITTING, Operands, made

pytestmark = [pytest.mark.thread_unsafe, pytest.mark.slow, pytest.mark.usefixtures("frequent_switches")]

# Calls of the registry that need no file, and are none of other systems.
LABELS = [label for label, one in CALLS.items() if one.section != "files" and not one.raises]
FITS = *FITTING, StopIteration
ROUNDS = examples(40)
SECONDS = 20  # for them; sanitizers take ten times as long, and get through fewer


def edit(seq, tensor, ended):
    """Edit a sequence in all ways, between none and a few dozen elements, until the calls have ended."""
    while not ended:
        seq.append(tensor)
        seq.insert(0, tensor)
        seq[len(seq) // 2 : len(seq) // 2 + 2] = [tensor]
        seq.reverse()
        seq += seq[:3]
        if len(seq) > 40:
            del seq[::2]
        if len(seq) > 60:
            seq.clear()
        seq.compact()


@pytest.mark.parametrize("kind", ["mixed", "ragged", "shuffled", "words"])
def test_every_call_beside_edits(kind):
    seq, ended, failures, given = made(kind), [], [], []
    tensor = Operands(seq).tensor

    def call():
        until = time.monotonic() + SECONDS
        try:
            for i in range(ROUNDS):
                if i and time.monotonic() > until:
                    break
                for label in LABELS:
                    try:
                        CALLS[label](Operands(seq))
                        given.append(label)
                    except FITS:
                        pass
                    except BaseException as error:
                        failures.append((label, error))
        finally:
            ended.append(True)

    together(call, lambda: edit(seq, tensor, ended))
    assert failures == []
    assert len({*given}) > 100  # most calls have a result, and not only errors
    seq._check()
    assert all(isinstance(one, np.ndarray) for one in seq)
