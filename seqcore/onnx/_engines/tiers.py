"""The tiers of a session: each gives a run's results, or falls back to the next.

A tier is made at its first need, and may decline then. It is tried where it is due and the feed suits it, and
fails for reasons that the next one copes with; its record says which. A failure of ours is none of these: it
reaches the caller. `Compiled` has the list of them, in order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from seqcore._arguments.shown import add_note
from seqcore.core.maps import taken_feed
from seqcore.onnx._engines.interface import Interface
from seqcore.onnx._model.record import Declined
from seqcore.onnx._model.tensors import one_line
from seqcore.onnx._once import Once
from seqcore.onnx._runtimes.sessions import REFUSALS, Refused
from seqcore.onnx._thresholds import MOST_DOUBLINGS

# Exceptions for values that don't fit. Any other exception of steps is a bug of ours.
_OF_DATA: tuple[type[Exception], ...] = (
    *(IndexError, TypeError, ValueError, OverflowError, MemoryError),
    *REFUSALS,
)


class Run:
    """A run, as the tiers get it.

    Attributes
    ----------
    names, feed, options
        As a session gets them.
    checked : dict or None
        The feed with its tensors as onnxruntime takes them; sequences are lists or `TensorSequence`. None
        where the feed isn't a mapping, or a name in it isn't that of an input.
    axes : tuple of (str, int)
        The scalars that are fed as arrays of one element, and how many axes these have: onnxruntime takes
        such an array where a scalar is declared, and hands it on with its axes.
    failed : BaseException or None
        Why the last tier failed.

    Raises
    ------
    TypeError, ValueError
        As `Feed.check`.
    """

    # Most runs set none of these.
    failed: BaseException | None = None
    axes: tuple[tuple[str, int], ...] = ()
    _fits: bool | None = None

    def __init__(self, interface: Interface, names: Any, feed: Any, options: Any) -> None:
        self._interface, self.names, self.feed, self.options = interface, names, feed, options
        is_dict = type(feed) is dict or isinstance(feed, Mapping)
        self.checked = taken_feed(feed, interface.types, self._take) if is_dict else None

    def _take(self, name: str, value: Any) -> Any:
        """Return the attribute `checked` for an input that has to be looked at, or set `axes`."""
        one = self._interface.feeds[name]
        if one.is_scalar and issubclass(type(value), np.ndarray) and value.ndim and value.size == 1:
            self.axes += ((name, value.ndim),)
            return None
        return one.check(value)

    def fell_back(self, error: BaseException | None) -> None:
        """Note why a tier failed."""
        self.failed = error

    def fits(self) -> bool:
        """Return whether elements of fed sequences have the declared shapes; raise where a name is wrong."""
        if self._fits is None:
            self._interface.check_names(self.names, self.feed)
            self._fits = self._interface.fits(self.feed)
        return self._fits


class Attempts:
    """A record of successes and failures, which decides when to try again.

    Threads may lose a count, which only moves the next attempt.

    Attributes
    ----------
    taken, failures : int
        The numbers of successes and failures.
    reason : str
        Why it failed last.
    """

    def __init__(self) -> None:
        self.taken = self.failures = 0
        self.reason = ""
        self._in_a_row = 0
        self._skip = 0

    def is_due(self) -> bool:
        """Return whether to take this chance."""
        if self._skip > 0:
            self._skip -= 1
            return False
        return True

    def failed(self, reason: BaseException | None = None) -> None:
        """Let some chances go by."""
        self.failures += 1
        self.reason = "" if reason is None else one_line(reason)
        self._in_a_row = min(self._in_a_row + 1, MOST_DOUBLINGS)
        self._skip = 1 << self._in_a_row

    def succeeded(self) -> None:
        """Forget the failures in a row."""
        self.taken += 1
        self._in_a_row = 0


class Tier(Attempts):
    """A way to run a model, with its record.

    Parameters
    ----------
    name : str
    make : callable
        Returns what runs the model. It has `feed_of(run)`, which gives None for a feed that doesn't suit it,
        `run(names, feed, options)`, `explain()`, and `may_be_long`, True if it fails where lists are long.

    Attributes
    ----------
    made : object or None
        What `make` returned: None until the first need, and if it declined.
    declined : str
        Why it declined.
    """

    # The exceptions that the next tier copes with, and those that decline.
    copes_with: tuple[type[Exception], ...] = (Refused,)
    declines_by: tuple[type[Exception], ...] = (Declined,)

    def __init__(self, name: str, make: Callable[[], Any]) -> None:
        super().__init__()
        self.name, self.declined = name, ""
        self.made: Any = None
        self._once = Once(lambda: self._make(make))

    def _make(self, make: Callable[[], Any]) -> Any:
        try:
            self.made = make()
        except self.declines_by as why:
            self.declined = str(why)
        return self.made

    def get(self) -> Any:
        """Return what runs the model, made now if need be; None if it declined."""
        return self._once.get()

    def attempt(self, run: Run) -> list[Any] | None:
        """Return the outputs of a run, None where the next tier has to give them."""
        made = self.made or self.get_for(run)
        if made is None or (self._skip and not self.is_due()):
            return None
        feed = made.feed_of(run)
        if feed is None:
            return None
        try:
            results = made.run(run.names, feed, run.options)
        except self.copes_with as error:
            run.fell_back(error.__cause__ if isinstance(error, Refused) else error)
            self.failed(run.failed)
            if not made.may_be_long:
                self._skip = 0  # it was a true error, which says nothing about the next run
            return self.after_failure(error)
        self.succeeded()
        return results

    def get_for(self, run: Run) -> Any:
        """Return what runs the model, for a run."""
        return self.get()

    def after_failure(self, error: Exception) -> list[Any] | None:
        """Leave the run to the next tier, or raise the error."""
        return None

    def takes_all(self) -> bool:
        """Return whether later tiers are for true errors alone."""
        return self.made is not None and not self.made.may_be_long


class StepsTier(Tier):
    """A lowered model in steps.

    What is left of a sequence that was compiled away can't name its node: the given model can. It fails as
    well, or its results are the better ones.
    """

    copes_with = _OF_DATA
    declines_by: tuple[type[Exception], ...] = (Declined, ValueError)


class GivenStepsTier(StepsTier):
    """The given model in steps: it returns the results, or raises an error that names the node."""

    declines_by = ()

    def get_for(self, run: Run) -> Any:
        try:
            return self.get()
        except ValueError as why:
            # The weights may be gone, with what the user gave.
            if run.failed is None:
                raise
            add_note(run.failed, f"the node can't be named: {one_line(why)}")
            raise run.failed from None

    def after_failure(self, error: Exception) -> list[Any] | None:
        raise error
