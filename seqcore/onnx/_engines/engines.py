"""A model and the tiers that run it.

    run ──▶ twice at most, while sequences are short: the given model, whole ──▶ results
                  │ a third run, a long sequence, or an error: the model is compiled
                  ▼
            tiers, in order:
            short           onnxruntime runs the given model, while its sequences are short
            long            the same with any number of iterations, if no other way is quick
            tensors         onnxruntime runs the lowered model, if it needs no sequences
            large           as `long`, where few elements are too large for tensors
            steps           the lowered model in steps, if it has sequences
            given steps     the given model in steps: results, or the error with the node's name

Only `tensors` and `given steps` are there if the lowered model needs no sequences and is hardly larger.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from onnx import ModelProto

from seqcore.core.sequence import TensorSequence
from seqcore.onnx._engines.interface import Interface
from seqcore.onnx._engines.ragged_model import RaggedModel
from seqcore.onnx._engines.random_numbers import drawing_nodes, give_seeds
from seqcore.onnx._engines.steps_engine import StepsEngine
from seqcore.onnx._engines.tiers import GivenStepsTier, Run, StepsTier, Tier
from seqcore.onnx._engines.whole import WholeModel, carries_lists, has_lists, made_whole, quick_from, size_of
from seqcore.onnx._lowering.pipeline import lower_prepared, with_few_iterations
from seqcore.onnx._model.prepare import declare_types, prepare
from seqcore.onnx._model.prepared import Prepared
from seqcore.onnx._model.record import Declined
from seqcore.onnx._model.types import Shape, to_type_proto
from seqcore.onnx._model.weights import Weights
from seqcore.onnx._once import Once
from seqcore.onnx._runtimes.sessions import Sessions
from seqcore.onnx._thresholds import (
    AS_SMALL,
    FEW,
    HEAVY,
    LONG_TO_STACK,
    MOST_EDITED,
    MOST_RANKS,
    RUNS_AS_GIVEN,
)


class Engines:
    """A model that is ready to run.

    At first the given model runs whole, with checks, if it can: that takes little to make. It is compiled
    when it is about to run for the third time, or when a run turns out to be too long for that.

    Parameters
    ----------
    prepared : Prepared
    sessions : Sessions
    max_workers : int or None
        For SequenceMap nodes.

    Attributes
    ----------
    interface : Interface
    prepared : Prepared
    unranked : list of str
        The inputs whose rank isn't declared, or that of their elements: each fed rank has its own engines.
    """

    def __init__(self, prepared: Prepared, sessions: Sessions, max_workers: Any) -> None:
        self.interface = Interface(prepared)
        self.prepared, self._others = prepared, (sessions, max_workers)
        self._with_axes: dict[tuple[tuple[str, int], ...], Engines] = {}
        self._runs = 0
        drawing = drawing_nodes(prepared)
        # One engine takes all runs of a model that draws, as it has the generators, and of large weights.
        is_one = drawing or prepared.weights.nbytes >= HEAVY
        self.unranked = [] if is_one else self.interface.unranked
        first = Tier("short", lambda: made_whole(prepared, self.interface, sessions, max_workers))
        if drawing:
            give_seeds(drawing)
        self._first = None if drawing or first.get() is None else first
        self._compiled = Once(lambda: Compiled(prepared, self.interface, sessions, max_workers, first))
        if self._first is None:
            self._compiled.get()

    @property
    def compiled(self) -> Compiled:
        """The compiled model: it is made now, if it isn't there yet, and runs from now on."""
        compiled = self._compiled.get()
        self._first = None
        return compiled

    def compile_all(self) -> None:
        """Compile the model and make all tiers that give results, so that no run has to."""
        for tier in self.compiled.tiers:
            tier.get()
            if tier.takes_all():
                return

    def run(self, output_names: Any, feed: Any, options: Any) -> list[Any]:
        """Return the outputs of these names, of all if there are none."""
        if self.unranked and (ranks := self._ranks_in(feed)):
            return self._taking(ranks).run(output_names, feed, options)
        interface = self.interface
        if output_names and not (
            type(output_names) is list and all(map(interface.names.__contains__, output_names))
        ):
            interface.check_names(output_names, feed)
        run = Run(interface, output_names, feed, options)
        if run.axes:
            return self._taking(run.axes).run(output_names, feed, options)
        first = self._first  # another thread may compile the model
        if first is not None:
            self._runs += 1
            if self._runs <= RUNS_AS_GIVEN and (results := first.attempt(run)) is not None:
                return results
        for tier in self.compiled.tiers:
            if (results := tier.attempt(run)) is not None:
                return results
        raise AssertionError("the last tier returns or raises")

    def _ranks_in(self, feed: Any) -> tuple[tuple[str, int], ...]:
        """Return the ranks of fed tensors that the model doesn't declare, none if there were too many.

        Elements of other ranks than the first one run in steps.
        """
        ranks = []
        for name in self.unranked if type(feed) is dict else ():
            value = feed.get(name)
            if type(value) is list or type(value) is TensorSequence:
                value = next(iter(value), None)
            if type(value) is np.ndarray:
                ranks.append((name, value.ndim))
        axes = tuple(ranks)
        return axes if axes in self._with_axes or len(self._with_axes) < MOST_RANKS else ()

    def _taking(self, axes: tuple[tuple[str, int], ...]) -> Engines:
        """Return the engines of the same model, whose inputs of these names have so many axes."""
        if axes not in self._with_axes:
            given = self.prepared
            model = given.model.copy()
            for name, rank in axes:
                type_ = given.type(name)
                shape: Shape = (1,) * rank
                if name in self.unranked:  # a tensor's lengths get names, those of elements may differ
                    shape = tuple(f"{name}/{k}" if type_.is_tensor else None for k in range(rank))
                type_ = type_._replace(shape=shape)
                model.graph.declared[name] = to_type_proto(type_, with_shape=True)
            prepared = Prepared(model, given.weights, given.believes_elements)
            declare_types(model, prepared)
            made = Engines(prepared, *self._others)
            made.unranked = []
            self._with_axes[axes] = made
        return self._with_axes[axes]


def engines_of(weightless: ModelProto, weights: Weights, sessions: Sessions, max_workers: Any) -> Engines:
    """Return a model that is ready to run.

    Parameters
    ----------
    weightless, weights : ModelProto and Weights
        Its two parts: see `without_weights`.
    sessions : Sessions
    max_workers : int or None
        For SequenceMap nodes.
    """
    # Feeds are looked at, and what doesn't fit runs in steps of a model that believes nothing.
    prepared = prepare(weightless, weights, believes_elements=True)
    return Engines(prepared, sessions, max_workers)


class Compiled:
    """A model with its sequences compiled away, as far as that goes, and the tiers that run it.

    Parameters
    ----------
    given : Prepared
    interface : Interface
    sessions : Sessions
    max_workers : int or None
        As `Engines` has them.
    first : Tier
        The given model, whole.

    Attributes
    ----------
    tiers : list of Tier
        Tried in this order.
    has_lists : bool
        True if there are sequences left in the lowered model.
    notes : list of Note
        A note for each sequence.
    loops : list of LoopNote
        A note for each loop.
    """

    def __init__(
        self,
        given: Prepared,
        interface: Interface,
        sessions: Sessions,
        max_workers: int | None,
        first: Tier,
    ) -> None:
        self.interface, self._sessions, self._max_workers = interface, sessions, max_workers
        # With several workers, maps are better left to them. If onnx finds a fault, onnxruntime refuses.
        found = lower_prepared(given, keep_maps=max_workers != 1, is_checked=False)
        lowered, self.notes, self.loops, _ = found
        self.has_lists = has_lists(lowered)
        if lowered is not given and not self.has_lists:
            lowered = with_few_iterations(found)
        # Of elements of another shape than declared nothing is known: those are for the last tier.
        unsure = _without_beliefs(given) if interface.declares_elements else given
        is_drawing = bool(drawing_nodes(given))
        if is_drawing and interface.declares_elements:
            lowered = unsure  # one engine has to take all runs, as it has the generators
        self.tiers: list[Tier] = [] if is_drawing else self._whole_tiers(given, lowered, first)
        if lowered is not unsure and (self.has_lists or is_drawing):
            self.tiers.append(StepsTier("steps", lambda: self._steps_of(lowered)))
        self.tiers.append(GivenStepsTier("given steps", lambda: self._steps_of(unsure)))
        if all(one.made is None for one in self.tiers):
            self.first_steps()  # a model that can't run raises now

    def _whole_tiers(self, given: Prepared, lowered: Prepared, first: Tier) -> list[Tier]:
        """Return the tiers that run a model whole: with lists, while they are short, and without."""
        make = partial(self._made_ragged, given) if self.has_lists else partial(self._made_whole, lowered)
        tensors = Tier("tensors", make)
        made = tensors.get()
        candidates = [first]
        if lowered is not given:
            written_out = given if first.made is None else first.made.prepared
            times = 1 if self.has_lists else AS_SMALL
            is_smaller = size_of(lowered) <= times * size_of(written_out)
            if is_smaller and made is not None and not self.has_lists:
                return [tensors]
            if self.has_lists:
                candidates.insert(not is_smaller, Tier("short", partial(self._made_whole, lowered)))
        short = next((one for one in candidates if one.get() is not None), candidates[0])
        tiers, longest = [short], 0
        if made is not None:
            longest = made.quick_from if self.has_lists else FEW
            if longest == FEW:  # or fewer, by their nodes
                longest = quick_from(made.prepared, given if short.made is None else short.made.prepared)
            tiers = [self._up_to(longest, short)] if longest else []
        many = partial(self._made_whole, lowered, most_elements=MOST_EDITED)
        carries = carries_lists(lowered)
        if made is None:
            return [*tiers, Tier("long", many)] if carries else tiers
        if carries and longest == LONG_TO_STACK:
            tiers.append(Tier("long", partial(self._made_whole, lowered, most_elements=longest)))
        is_limited = carries and made.may_be_long
        return [*tiers, tensors, Tier("large", many)] if is_limited else [*tiers, tensors]

    def _up_to(self, longest: int, tier: Tier) -> Tier:
        """Return a tier for at most so many elements and iterations."""
        whole = tier.get()
        if whole is None or whole.limit <= longest:
            return tier
        limited = Tier("short", partial(self._made_whole, whole.prepared, longest=longest))
        return tier if limited.get() is None else limited

    def _made_whole(self, prepared: Prepared, **limits: int) -> WholeModel:
        return made_whole(prepared, self.interface, self._sessions, self._max_workers, **limits)

    def _made_ragged(self, given: Prepared) -> RaggedModel:
        if given.weights.nbytes >= HEAVY and not self.interface.has_sequences:
            raise Declined("its weights would be held twice")
        if self._max_workers != 1 and _has_maps(given):
            raise Declined("its maps are for several workers")
        return RaggedModel(given, self.interface, self._sessions)

    def _steps_of(self, prepared: Prepared) -> StepsEngine:
        return StepsEngine(prepared, self.interface, self._sessions, self._max_workers)

    def first_steps(self) -> StepsEngine:
        """Return the steps that come first, made now."""
        return next(steps for one in self.tiers if isinstance(one, StepsTier) and (steps := one.get()))

    def tier(self, name: str) -> Tier | None:
        """Return the tier of a name, None if it isn't there."""
        return next((one for one in self.tiers if one.name == name), None)

    @property
    def whole(self) -> WholeModel | None:
        """The model of the first tier, None if it declined."""
        return self.tiers[0].made

    @property
    def declined(self) -> str:
        """Why the first tier declined, "" if it did not."""
        return self.tiers[0].declined

    def explain(self) -> Iterator[str]:
        """Yield lines that say what runs where, in order, and why not elsewhere."""
        if self.declined:
            yield f"    not the whole model in onnxruntime: {self.declined}"
        for tier in self.tiers:
            if (made := tier.get()) is not None:
                yield from (f"    {line}" for line in made.explain())
            if tier.takes_all():
                return


def _has_maps(prepared: Prepared) -> bool:
    return any(node.is_op("SequenceMap") for node in prepared.model.graph.all_nodes())


def _without_beliefs(prepared: Prepared) -> Prepared:
    """Return what is known of a model where elements of fed sequences are not as it declares them."""
    model = prepared.model.copy()
    unsure = Prepared(model, prepared.weights)
    declare_types(model, unsure)
    return unsure
