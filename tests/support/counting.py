"""What the core's counters say of an action, and sequences to try it on."""

import numpy as np
from seqcore.core.store import counted

import seqcore as sq


def done(action):
    """What an action has counted, without what it hasn't."""
    before = counted()
    action()
    after = counted()
    return {name: after[name] - before[name] for name in after if after[name] != before[name]}


def rows(n=6, width=4):
    return sq.split_to_sequence(np.arange(n * width).reshape(n, width))


def slots(n=6, width=4):
    """The same elements as slots, as a selection has them, rather than as a run."""
    return rows(n, width)[np.arange(n)]


def tensor(value=0):
    return np.full((1, 4), value)
