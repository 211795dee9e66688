"""Declare the rows of the table: the work, the peers, and the ratio that is promised."""

import importlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

OURS = "seqcore"


@dataclass(frozen=True)
class Side:
    """One contender of a case.

    Where a run changes what it works on, `fresh` makes that anew for each run, outside the clock. Where it
    works in another process, it may tell how many seconds that took, instead of being clocked.
    """

    run: Callable
    fresh: Callable | None = None
    noperations: int = 1
    tells_seconds: bool = False


@dataclass(frozen=True)
class Limit:
    """A peer and the ratio to it: ours / peer is at most the target, or peer / ours at least.

    Without a peer, the target is that of ours itself.
    """

    peer: str | None
    target: float
    aim: float | None = None
    at_least: bool = False


@dataclass(frozen=True)
class Case:
    """A row: a title, limits, and a function that makes the sides, by name; a missing side isn't installed.

    No sides at all means that ours needs a package that isn't installed. In seconds, sides are clocked; in
    another unit, they run once, and return how many. `most_rounds` is for peers that take seconds.
    """

    title: str
    limits: tuple[Limit, ...]
    make_sides: Callable[[], dict[str, Side]]
    unit: str = "s"
    most_rounds: int | None = None

    @property
    def group(self):
        """The name of the file that declares it."""
        return self.make_sides.__module__.rpartition(".")[2]


CASES: list[Case] = []


def case(title, *limits, unit="s", most_rounds=None):
    def declare(make_sides):
        CASES.append(Case(title, limits, make_sides, unit, most_rounds))
        return make_sides

    return declare


def optional(module):
    """The module, or None where it isn't installed."""
    try:
        return importlib.import_module(module)
    except ImportError:
        return None


def floats(*shape, dtype=np.float32):
    return np.random.default_rng(0).random(shape, dtype)
