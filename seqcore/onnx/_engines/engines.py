"""A model and the tiers that run it.

    run ──▶ twice at most, while sequences are short: the given model, whole ──▶ results
                  │ a third run, a long sequence, or an error: the model is compiled
                  ▼
            tiers, in order:
            whole           onnxruntime runs the given model or the lowered one, whichever is smaller
            lowered whole   if that was the given one, and onnxruntime is quick with long lists in the other
            long            else the lowered model as long as its sequences are short, however long its loops
            ragged          the model with tensors in place of lists everywhere, if none is left; second if it
                            is quick with short lists, too, and `large` is then the first for longer ones
            lowered steps   if there are sequences left in the lowered model
            given steps     results, or the error with the node's name
            unsure steps    the same where fed elements are not as the model declares them

See `tiers` for when each is tried.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from onnx import ModelProto

from seqcore.onnx._engines.interface import Interface
from seqcore.onnx._engines.ragged_model import RaggedModel
from seqcore.onnx._engines.random_numbers import drawing_nodes, give_seeds
from seqcore.onnx._engines.steps_engine import StepsEngine
from seqcore.onnx._engines.tiers import (
    GivenStepsTier,
    LongLoopsTier,
    LoweredWholeTier,
    RaggedTier,
    Run,
    StepsTier,
    Tier,
    WholeTier,
)
from seqcore.onnx._engines.whole import (
    WholeModel,
    carries_lists,
    has_lists,
    has_lists_inside,
    made_whole,
    size_of,
)
from seqcore.onnx._lowering.pipeline import lower_prepared
from seqcore.onnx._model.prepare import declare_types, prepare
from seqcore.onnx._model.prepared import Prepared
from seqcore.onnx._model.record import Declined
from seqcore.onnx._model.types import to_type_proto
from seqcore.onnx._model.weights import Weights
from seqcore.onnx._once import Once
from seqcore.onnx._runtimes.sessions import Sessions
from seqcore.onnx._thresholds import (
    FEW,
    HEAVY,
    LONG,
    LONG_TO_COPY,
    MOST_EDITED,
    MOST_TO_CONVERT,
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
    """

    def __init__(self, prepared: Prepared, sessions: Sessions, max_workers: Any) -> None:
        self.interface = Interface(prepared)
        self.prepared, self._others = prepared, (sessions, max_workers)
        self._with_axes: dict[tuple[tuple[str, int], ...], Engines] = {}
        self._runs = 0
        first = WholeTier("whole", lambda: made_whole(prepared, self.interface, sessions, max_workers))
        if drawing := drawing_nodes(prepared):
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
        interface = self.interface
        if output_names and not (
            type(output_names) is list and all(map(interface.names.__contains__, output_names))
        ):
            interface.check_names(output_names, feed)
        if interface.scalars and (axes := interface.axes_of_scalars(feed)):
            return self._taking(axes).run(output_names, feed, options)
        first = self._first
        if first is None:
            return self._compiled.get().run(output_names, feed, options)
        self._runs += 1
        if self._runs <= RUNS_AS_GIVEN:
            results = first.attempt(Run(interface, output_names, feed, options))
            if results is not None:
                return results
        return self.compiled.run(output_names, feed, options)

    def _taking(self, axes: tuple[tuple[str, int], ...]) -> Engines:
        """Return the engines of the same model, whose scalar inputs of these names have so many axes."""
        if axes not in self._with_axes:
            given = self.prepared
            model = given.model.copy()
            for name, rank in axes:
                type_ = given.type(name)._replace(shape=(1,) * rank)
                model.graph.declared[name] = to_type_proto(type_, with_shape=True)
            prepared = Prepared(model, given.weights, given.believes_elements)
            declare_types(model, prepared)
            self._with_axes[axes] = Engines(prepared, *self._others)
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
    first : WholeTier
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
        first: WholeTier,
    ) -> None:
        self.interface, self._sessions, self._max_workers = interface, sessions, max_workers
        # With several workers, maps are better left to them. If onnx finds a fault, onnxruntime refuses.
        lowered, self.notes, self.loops, _ = lower_prepared(
            given, keep_maps=max_workers != 1, is_checked=False
        )
        self.has_lists = has_lists(lowered)
        has_lowered_steps = lowered is not given and self.has_lists
        self.tiers: list[Tier]
        if drawing_nodes(given):
            self.tiers = list(self._drawing_tiers(given, lowered))
            self.first_steps()
            return
        self.tiers = [
            *self._whole_tiers(given, lowered, first),
            *([self._steps_tier("lowered steps", lowered)] if has_lowered_steps else []),
            self._steps_tier("given steps", given),
            GivenStepsTier("unsure steps", lambda: self._steps_of(_without_beliefs(given))),
        ]
        if self.whole is None and self.tier("ragged") is None:
            self.first_steps()  # a model that can't run raises now

    def _whole_tiers(self, given: Prepared, lowered: Prepared, first: WholeTier) -> Iterator[Tier]:
        """Yield the tiers that run a model whole: of the smaller of two first."""
        candidates, second = [first], None
        if lowered is not given:
            lowered_whole = WholeTier("whole", lambda: self._made_whole(lowered))
            if size_of(given) >= size_of(lowered):
                candidates.insert(0, lowered_whole)
            else:
                candidates.append(lowered_whole)
                if any(note.is_vectorized for note in self.loops) or not has_lists_inside(lowered):
                    # No list is left in its loops, or only in those for large iterations: it is quick.
                    first = candidates[0] = self._up_to(FEW, first)
                    second = LoweredWholeTier("lowered whole", lambda: self._made_whole(lowered))
        whole = next((one for one in candidates if one.get() is not None), candidates[0])
        ragged = RaggedTier("ragged", lambda: self._made_ragged(given))
        is_second = second is not None and whole is first
        made = ragged.get() if self.interface.has_sequences or (self.has_lists and not is_second) else None
        if second is not None and is_second and made is None:
            yield from (first, second)
            return
        is_soon = made is not None and (made.is_quick or made.is_linear)
        if made is not None and is_soon:
            yield self._up_to(MOST_TO_CONVERT if made.is_quick else LONG_TO_COPY, whole)
            yield ragged
            if not self.interface.has_sequences:
                yield WholeTier("large", whole.get)
        else:
            yield whole
        if carries_lists(lowered) and given.weights.nbytes < HEAVY:
            most = MOST_EDITED if made is None else LONG
            yield LongLoopsTier("long", lambda: self._made_whole(lowered, most_elements=most))
        if made is not None and not is_soon:
            yield ragged

    def _drawing_tiers(self, given: Prepared, lowered: Prepared) -> Iterator[Tier]:
        """Yield the one tier that runs a model with random numbers, and one that names nodes in errors."""
        unsure = _without_beliefs(given)
        one = unsure if self.interface.declares_elements else lowered
        yield self._steps_tier("lowered steps", one)
        yield GivenStepsTier("unsure steps", lambda: self._steps_of(unsure))

    def _up_to(self, longest: int, tier: WholeTier) -> WholeTier:
        """Return a tier for at most so many elements and iterations."""
        whole = tier.get()
        if whole is None or whole.limit <= longest:
            return tier
        limited = WholeTier("whole", lambda: self._made_whole(whole.prepared, longest=longest))
        return tier if limited.get() is None else limited

    def _made_whole(self, prepared: Prepared, **limits: Any) -> WholeModel:
        return made_whole(prepared, self.interface, self._sessions, self._max_workers, **limits)

    def _made_ragged(self, given: Prepared) -> RaggedModel:
        if given.weights.nbytes >= HEAVY and not self.interface.has_sequences:
            raise Declined("its weights would be held twice")
        has_maps = any(node.is_op("SequenceMap") for node in given.model.graph.all_nodes())
        if has_maps and self._max_workers != 1:
            raise Declined("its maps are for several workers")
        return RaggedModel(given, self.interface, self._sessions)

    def _steps_of(self, prepared: Prepared) -> StepsEngine:
        return StepsEngine(prepared, self.interface, self._sessions, self._max_workers)

    def _steps_tier(self, name: str, prepared: Prepared) -> StepsTier:
        kind = GivenStepsTier if name == "given steps" else StepsTier
        return kind(name, lambda: self._steps_of(prepared))

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
        """Why the first tier declined that did, "" for none."""
        return next((one.declined for one in self.tiers if one.declined), "")

    def run(self, output_names: Any, feed: Any, options: Any) -> list[Any]:
        """Return the outputs of these names, of all if there are none."""
        run = Run(self.interface, output_names, feed, options)
        for tier in self.tiers:
            if (results := tier.attempt(run)) is not None:
                return results
        raise AssertionError("the last tier returns or raises")

    def explain(self) -> Iterator[str]:
        """Yield lines that say what runs where, in order, and why not elsewhere."""
        for tier in self.tiers:
            yield from (f"    {line}" for line in tier.explain())
            if tier.takes_all():
                return


def _without_beliefs(prepared: Prepared) -> Prepared:
    """Return what is known of a model where elements of fed sequences are not as it declares them."""
    model = prepared.model.copy()
    unsure = Prepared(model, prepared.weights)
    declare_types(model, unsure)
    return unsure
