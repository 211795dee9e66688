"""The tiers of a session: each may give a run's results, and falls back to the next.

A tier is a function of a `Run` that returns the outputs, or None where it isn't due, the feed doesn't suit
it, or it failed for a reason that the next one copes with. A failure of ours is none of these: it reaches the
caller. `Compiled` has the list of them, in order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from seqcore._arguments.shown import add_note
from seqcore.onnx._engines.interface import Interface
from seqcore.onnx._engines.steps_engine import StepsEngine
from seqcore.onnx._engines.whole import WholeModel
from seqcore.onnx._model.tensors import one_line
from seqcore.onnx._once import Once
from seqcore.onnx._runtimes.sessions import REFUSALS, Refused

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
    failed : BaseException or None
        Why the last tier failed.
    is_fed_long : bool
        True if a tier found the feed too long, or not what was prepared for.
    """

    __slots__ = ("_fits", "_interface", "failed", "feed", "is_fed_long", "names", "options")

    def __init__(self, interface: Interface, names: Any, feed: Any, options: Any) -> None:
        self._interface, self.names, self.feed, self.options = interface, names, feed, options
        self.failed: BaseException | None = None
        self.is_fed_long = False
        self._fits: bool | None = None

    def fits(self) -> bool:
        """Return whether elements of fed sequences have the declared shapes; raise where a name is wrong."""
        if self._fits is None:
            self._interface.check_names(self.names, self.feed)
            self._fits = self._interface.fits(self.feed)
        return self._fits


Tier = Callable[[Run], list[Any] | None]


def whole_tier(get: Callable[[Run], WholeModel | None]) -> Tier:
    """Return the tier of a model in onnxruntime, in one go, as long as there is one."""

    def tier(run: Run) -> list[Any] | None:
        whole = get(run)
        # Where no sequence is left, only true errors are refusals.
        if whole is None or not (not whole.has_lists or whole.attempts.is_due()):
            return None
        values = whole.feed_of(run.feed)
        if values is None:
            run.is_fed_long = True
            return None
        if not whole.allows(values):
            return None
        try:
            results = whole.run(run.names, values, run.options)
        except Refused as refusal:
            run.failed = refusal.__cause__
            whole.attempts.failed(run.failed)
            return None
        whole.attempts.succeeded()
        return results

    return tier


def lowered_steps_tier(steps: Once[StepsEngine], learn: Callable[[StepsEngine], None]) -> Tier:
    """Return the tier of a lowered model in steps.

    What is left of a sequence that was compiled away can't name its node: the model as it was can. It fails
    as well, or its results are the better ones.
    """

    def tier(run: Run) -> list[Any] | None:
        if not run.fits():
            return None
        try:
            results = steps.get().run(run.names, run.feed, run.options)
        except _OF_DATA as error:
            run.failed = error
            return None
        learn(steps.get())
        return results

    return tier


def given_steps_tier(
    steps: Once[StepsEngine], unsure: Once[StepsEngine], learn: Callable[[StepsEngine], None]
) -> Tier:
    """Return the last tier: the given model in steps, or one without beliefs where the feed doesn't fit."""

    def tier(run: Run) -> list[Any] | None:
        try:
            made = (steps if run.fits() else unsure).get()
        except ValueError as why:
            # The weights may be gone, with what the user gave.
            if run.failed is None:
                raise
            add_note(run.failed, f"the node can't be named: {one_line(why)}")
            raise run.failed from None
        results = made.run(run.names, run.feed, run.options)
        learn(made)
        return results

    return tier
