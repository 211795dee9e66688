"""Damaged models: a session and results, the same each time, or an exception that says what is wrong."""

import random
import warnings

import numpy as np
import onnxruntime
from hardening.fuzz.tape import Tape, bits
from onnx import ModelProto
from support.damage import flip
from support.models import damage

from seqcore import TensorSequence
from seqcore.onnx import InferenceSession, lower

MOST_BYTES = 1 << 13  # of a model that is given whole
MOST_DAMAGES = 3

onnxruntime.set_default_logger_severity(4)


def model_of(tape):
    """The bytes of a model: as they are, or those of a seed with damages, each from a number of its own."""
    if tape.below(8) == 0:
        return tape.rest()[:MOST_BYTES]
    data = tape.pick(damage.SEEDS)
    for _ in range(tape.between(0, MOST_DAMAGES)):
        how = tape.pick(damage.DAMAGES)
        rng = random.Random(tape.byte() << 8 | tape.byte())
        try:
            data = how(data, rng)
        except Exception:  # a damage of another kind has left no model to be damaged in this way
            data = flip(data, rng) if data else data
    return data


def run(data):
    tape = Tape(data)
    feed_by = random.Random(tape.byte())
    model = model_of(tape)
    check(model, feed_by)


def check(model, feed_by):
    outcome_of(lower, model)
    session = outcome_of(InferenceSession, model)
    if isinstance(session, Exception):
        return
    feed = damage.feed_for(ModelProto.FromString(model), feed_by)
    first = outcome_of(damage.run, session, feed)
    # A session may take another way after some runs, and does with threads for its maps.
    for other in (session, session, session, InferenceSession(model, max_workers=2)):
        again = outcome_of(damage.run, other, feed)
        assert alike(first, again), (first, again)
    stepwise = outcome_of(by_steps, session, feed)
    assert alike(first, stepwise), (first, stepwise)


def by_steps(session, feed):
    """The same without what compiles sequences away; None where there are none."""
    engines = session._engines
    return engines and damage.run(engines.compiled.tier("given steps").get(), feed)


def outcome_of(work, *arguments):
    """What some work returns or raises, if that is nothing that no model may bring about."""
    outcome = None

    def attempt():
        nonlocal outcome
        try:
            outcome = work(*arguments)
        except Exception as error:
            outcome = error
            raise

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fault = damage.fault_of(attempt)
    assert not fault, fault
    return outcome


def alike(results, others):
    """Whether two runs ended in the same way. A run that took too long was cut short."""
    if others is None or any("terminate" in str(one) for one in (results, others)):
        return True
    if isinstance(results, Exception) or isinstance(others, Exception):
        return isinstance(results, Exception) and isinstance(others, Exception)
    return len(results) == len(others) and all(map(alike_values, results, others))


def alike_values(one, other):
    if isinstance(one, TensorSequence):
        if not isinstance(other, TensorSequence) or (one.dtype, len(one)) != (other.dtype, len(other)):
            return False
        return all(map(alike_values, one, other))
    if not isinstance(one, np.ndarray) or not isinstance(other, np.ndarray):
        return one is other
    if bits(one)[:2] != bits(other)[:2]:
        return False
    if one.dtype.kind in "fc":  # the last bits may differ where onnxruntime fuses operators
        return np.allclose(one, other, 1e-3, 1e-3, equal_nan=True)
    return bits(one) == bits(other)


def seeds():
    """The small models whole, and every damage to each."""
    for data in damage.SEEDS:
        if len(data) < 2000:
            yield b"\1\0" + data
    for i in range(len(damage.SEEDS)):
        for j in range(0, len(damage.DAMAGES), 3):
            yield bytes([i, 1, i, 1, (i + j) % len(damage.DAMAGES), j, i])


FOUND = []  # inputs that once found a fault, with what it was
