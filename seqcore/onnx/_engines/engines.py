"""A model and the engines that run it, in their order, with why one isn't taken.

    run ──▶ twice at most, while sequences are short: the model as it is, whole ──▶ results
                  │ a third run, a long sequence, or an error: the model is compiled
                  ▼
            whole: onnxruntime runs the model in one go, if it can, is due and the feed is short ──▶ results
                  │ refuses: too long, or an error
                  ▼
            long: where no sequence is left in the lowered model, onnxruntime runs that ──▶ results
                  else it runs the model as long as its sequences are short, however long its loops
                  │ refuses: too long, or an error
                  ▼
            steps of the lowered model, if sequences are left in it ──▶ results
                  │ fails
                  ▼
            steps of the model as it was ──▶ results, or the error with the node's name

The lowered model is `whole` itself where it is no larger than the model as it was.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any

from onnx import ModelProto

from seqcore.onnx._engines.checked_model import FEW, LONG, copies_little
from seqcore.onnx._engines.interface import Interface
from seqcore.onnx._engines.steps_engine import StepsEngine, lines_of
from seqcore.onnx._engines.tiers import Run, Tier, given_steps_tier, lowered_steps_tier, whole_tier
from seqcore.onnx._engines.whole import WholeModel, carries_lists, has_lists, has_lists_inside, size_of
from seqcore.onnx._lowering.pipeline import Note, lower_prepared
from seqcore.onnx._model.load import folder_of, parse, path_of
from seqcore.onnx._model.prepare import declare_types, message_has_lists, prepare
from seqcore.onnx._model.prepared import Prepared
from seqcore.onnx._model.record import Declined
from seqcore.onnx._model.types import to_type_proto
from seqcore.onnx._model.weights import HEAVY, Weights, without_weights
from seqcore.onnx._once import Once
from seqcore.onnx._rewrite.emit import Builder
from seqcore.onnx._rewrite.maps import write_out_maps
from seqcore.onnx._runtimes.sessions import Sessions
from seqcore.onnx._vmap.loop import LoopNote

# The most names in one line for sequences with the same note.
_MOST_NAMED = 4
# So many runs are not worth a compiled model.
_RUNS_AS_GIVEN = 2
# From so many iterations on, a loop without sequences is quicker than one with them.
LONG_FOR_LOOPS = 64


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
    has_source : bool
        If True, the weights can be read again: those of a path lie in its file.

    Attributes
    ----------
    interface : Interface
    """

    def __init__(self, prepared: Prepared, sessions: Sessions, max_workers: Any, has_source: bool) -> None:
        self.interface = Interface(prepared)
        self._prepared, self._others = prepared, (sessions, max_workers, has_source)
        self._with_axes: dict[tuple[tuple[str, int], ...], Engines] = {}
        self._first: WholeModel | None = None
        self._runs = 0
        first: WholeModel | Declined
        try:
            first = self._first = made_whole(prepared, self.interface, sessions, max_workers)
        except Declined as why:
            first = why
        self._compiled = Once(
            lambda: Compiled(prepared, self.interface, sessions, max_workers, has_source, first)
        )
        if self._first is None:
            self._compiled.get()

    @property
    def compiled(self) -> Compiled:
        """The compiled model: it is made now, if it isn't there yet, and runs from now on."""
        compiled = self._compiled.get()
        self._first = None
        return compiled

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
        if self._runs <= _RUNS_AS_GIVEN:
            run = Run(interface, output_names, feed, options)
            if (results := whole_tier(lambda _: first)(run)) is not None:
                return results
        return self.compiled.run(output_names, feed, options)

    def _taking(self, axes: tuple[tuple[str, int], ...]) -> Engines:
        """Return the engines of the same model, whose scalar inputs of these names have so many axes."""
        if axes not in self._with_axes:
            given = self._prepared
            model = given.model.copy()
            for name, rank in axes:
                type_ = given.type(name)._replace(shape=(1,) * rank)
                model.graph.declared[name] = to_type_proto(type_, with_shape=True)
            prepared = Prepared(model, given.weights, given.believes_elements)
            declare_types(model, prepared)
            self._with_axes[axes] = Engines(prepared, *self._others)
        return self._with_axes[axes]


def engines_of(
    given: Any, weightless: ModelProto, weights: Weights, sessions: Sessions, max_workers: Any
) -> Engines:
    """Return a model that is ready to run.

    Parameters
    ----------
    given : str, os.PathLike, bytes or ModelProto
        The model as the user passed it.
    weightless, weights : ModelProto and Weights
        Its two parts: see `without_weights`.
    sessions : Sessions
    max_workers : int or None
        For SequenceMap nodes.
    """
    # Feeds are looked at, and what doesn't fit runs in steps of a model that believes nothing.
    prepared = prepare(weightless, weights, believes_elements=True)
    return Engines(prepared, sessions, max_workers, has_source=isinstance(given, str | os.PathLike))


class Compiled:
    """A model with its sequences compiled away, as far as that goes, and the engines that run it.

    Parameters
    ----------
    given : Prepared
    interface : Interface
    sessions : Sessions
    max_workers : int or None
        As `Engines` has them.
    has_source : bool
        If True, the weights can be read again.
    first : WholeModel or Declined
        The given model, whole, or why it can't be.

    Attributes
    ----------
    whole : WholeModel or None
        The first engine, None where it declined.
    declined : str
        Why it did.
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
        max_workers: Any,
        has_source: bool,
        first: WholeModel | Declined,
    ) -> None:
        self.interface, self._sessions, self._max_workers = interface, sessions, max_workers
        # With several workers, maps are better left to them. If onnx finds a fault, onnxruntime refuses.
        lowered, self.notes, self.loops = lower_prepared(given, keep_maps=max_workers != 1, is_checked=False)
        self._is_lowered = lowered is not given
        self._has_lists = has_lists(lowered)
        self.whole: WholeModel | None = None
        self.declined = ""
        self._long: Once[WholeModel | None] | None = None
        self._has_second = False  # True if that is the lowered model, at every length
        self._choose_whole(given, lowered, first)
        self._may_learn = self.whole is not None and self.whole.limit < LONG and self._long is None
        if self._long is None and carries_lists(lowered) and given.weights.nbytes < HEAVY:
            self._long = Once(lambda: self._whole_or_none(lowered, counts_elements=True))
        self._lowered_steps = Once(lambda: self._steps_of(lowered))
        self._given_steps = Once(lambda: self._steps_of(given))
        self._unsure_steps = Once(lambda: self._steps_of(_without_beliefs(given)))
        if self.whole is None:
            # A model that can't run raises now, except if only its lowered model can't.
            try:
                self._first_steps().get()
            except ValueError as fault:
                if self._first_steps() is self._given_steps:
                    raise
                self._is_lowered, self.declined = False, str(fault)
                self._given_steps.get()
        if given.weights.nbytes >= HEAVY and not has_source:
            self._let_go(given)
        # Tried in this order.
        self.tiers: list[Tier] = [
            whole_tier(lambda _: self.whole),
            whole_tier(self._long_whole),
            *([lowered_steps_tier(self._lowered_steps, self._learn)] if self._has_lowered_steps() else []),
            given_steps_tier(self._given_steps, self._unsure_steps, self._learn),
        ]

    def _choose_whole(self, given: Prepared, lowered: Prepared, given_whole: WholeModel | Declined) -> None:
        """Make the first engine of the smaller of two models, and the second of the lowered one."""
        first, *others = [lowered, given] if self._is_lowered else [given]
        if others and size_of(given) < size_of(lowered):
            first, others = given, [lowered]
        has_second = first is given and bool(others) and self._is_quick_where_long(lowered)
        for prepared in (first, *others):
            try:
                longest = self._limit_with_second() if has_second else LONG
                if prepared is not given:
                    self.whole = self._made_whole(prepared, longest)
                elif isinstance(given_whole, Declined):
                    raise given_whole
                elif given_whole.limit > longest:
                    self.whole = self._made_whole(given_whole.prepared, longest)
                else:
                    self.whole = given_whole
            except Declined as why:
                self.declined = self.declined or str(why)
                continue
            if prepared is given and self._is_lowered and self._is_quick_where_long(lowered):
                self._has_second = True
                self._long = Once(lambda: self._whole_or_none(lowered))
            return

    def _is_quick_where_long(self, lowered: Prepared) -> bool:
        """Return whether onnxruntime is quick with the lowered model where sequences are long.

        It has none left in its loops, or only in those for large iterations.
        """
        return not has_lists_inside(lowered) or any(note.is_vectorised for note in self.loops)

    def _limit_with_second(self) -> int:
        """Return from how many iterations on the lowered model is the quicker one."""
        return FEW if any(note.is_vectorised for note in self.loops) else LONG_FOR_LOOPS

    def _whole_or_none(self, lowered: Prepared, counts_elements: bool = False) -> WholeModel | None:
        try:
            return self._made_whole(lowered, counts_elements=counts_elements)
        except Declined as why:
            self.declined = self.declined or str(why)
            return None

    def _made_whole(
        self, prepared: Prepared, longest: int = LONG, counts_elements: bool = False
    ) -> WholeModel:
        return made_whole(
            prepared, self.interface, self._sessions, self._max_workers, longest, counts_elements
        )

    def _first_steps(self) -> Once[StepsEngine]:
        """Return the steps that come first: of the lowered model, if there are sequences left in it."""
        return self._lowered_steps if self._has_lowered_steps() else self._given_steps

    def _has_lowered_steps(self) -> bool:
        return self._is_lowered and self._has_lists

    def _steps_of(self, prepared: Prepared) -> StepsEngine:
        return StepsEngine(prepared, self.interface, self._sessions, self._max_workers)

    def _let_go(self, prepared: Prepared) -> None:
        """Let the weights go that sessions have: those of a path lie in its file."""
        if self.interface.declares_elements or (self.whole and self.whole.has_lists):
            return  # steps may be made that need them
        kept: set[str] = set()
        if self.whole is None:
            kept = self._first_steps().get().planner.still_needed()
        prepared.weights.keep_only(kept)

    def run(self, output_names: Any, feed: Any, options: Any) -> list[Any]:
        """Return the outputs of these names, of all if there are none."""
        run = Run(self.interface, output_names, feed, options)
        for tier in self.tiers:
            if (results := tier(run)) is not None:
                return results
        raise AssertionError("the last tier returns or raises")

    def _learn(self, steps: StepsEngine) -> None:
        """Learn from what steps did whether loops copy little: then runs may go whole."""
        counts, whole = steps.planner.counts, self.whole
        if whole is not None and self._may_learn and copies_little(counts.iterations, counts.copied):
            self._may_learn = False
            try:
                self.whole = WholeModel(whole.prepared, self.interface, self._sessions, copies_little=True)
            except Declined as why:
                self.declined = str(why)  # the one that there is goes on

    def _long_whole(self, run: Run) -> WholeModel | None:
        """Return what runs whole where the first engine refused, made at the first need; None for nothing."""
        is_wanted = self._has_second or not run.is_fed_long
        return self._long.get() if self._long is not None and is_wanted else None

    def explain(self) -> Iterator[str]:
        """Yield lines that say what runs where, in order, and why not elsewhere."""
        if self.whole is not None and not self.whole.has_lists:
            yield "    onnxruntime  the lowered model, whole"
            return
        if self.whole is not None:
            yield "    onnxruntime  all of it in one go, as long as the sequences are short"
        else:
            yield f"    not in one go in onnxruntime: {self.declined}"
        if self._has_second:
            yield "    onnxruntime  the lowered model, whole, where they are long"
            return
        if self._long is not None and self._long.get() is not None:
            yield "    onnxruntime  the same where only loops are long"
        steps = self._first_steps().get()
        yield from lines_of(steps.planner.schedule, steps.planner, "    ")


def made_whole(
    prepared: Prepared,
    interface: Interface,
    sessions: Sessions,
    max_workers: Any,
    longest: int = LONG,
    counts_elements: bool = False,
) -> WholeModel:
    """Return a model that runs whole, its maps as loops where that is what it takes.

    Raises
    ------
    Declined
        If it can't.
    """
    has_maps = any(node.is_op("SequenceMap") for node in prepared.model.graph.all_nodes())
    if has_maps and max_workers != 1:
        raise Declined("its maps are for several workers")
    try:
        return WholeModel(prepared, interface, sessions, longest, counts_elements=counts_elements)
    except Declined:
        if not has_maps:
            raise
        # Checks can be put into a loop, which a map is.
        model = prepared.model.copy()
        write_out_maps(model, prepared, Builder(model), kept=set())
        model_of_loops = prepared.again(model)
        return WholeModel(model_of_loops, interface, sessions, longest, counts_elements=counts_elements)


def _without_beliefs(prepared: Prepared) -> Prepared:
    """Return what is known of a model where elements of fed sequences are not as it declares them."""
    model = prepared.model.copy()
    unsure = Prepared(model, prepared.weights)
    declare_types(model, unsure)
    return unsure


def _path_of(given: Any) -> str | None:
    return path_of(given) if isinstance(given, str | os.PathLike) else None


def explain(given: Any) -> list[str]:
    """Return lines that say what becomes of a model's sequences and loops, and what runs where, in order."""
    message = parse(given)
    if not message_has_lists(message):
        return ["the model has no sequences: onnxruntime runs it whole"]
    engines = engines_of(given, *without_weights(message, folder_of(given), _path_of(given)), Sessions(), 1)
    compiled = engines.compiled
    prepared = prepare(*without_weights(message, folder_of(given)))
    lowered = lower_prepared(prepared, packs=True)
    notes = _counted(_agreeing(compiled.notes, lowered.notes)) or ["none in the end"]
    loops = ["loops", *(f"    {note}" for note in compiled.loops)] if compiled.loops else []
    gains = [f"    {line}" for line in _gains(prepared, compiled.loops)]
    lines = ["sequences", *(f"    {note}" for note in notes), *loops, "gain over onnxruntime", *gains]
    return [*lines, "what runs where", *compiled.explain()]


def _gains(given: Prepared, loops: list[LoopNote]) -> Iterator[str]:
    """Yield lines that say which loops and lists of a model take less time than in onnxruntime."""
    vectorised = [note.loop for note in loops if note.is_vectorised]
    for loop in vectorised:
        yield f"'{loop}': vectorized"
    names = [
        f"'{name}'"
        for name, (node, _) in given.producers.items()
        if node.is_op("Loop", "SequenceMap")
        and given.is_sequence(name)
        and not {node.name, f"{node.name}/Loop"} & {*vectorised}
    ]
    if names:
        yield f"{_few(names)}: linear instead of quadratic time in the length of the list"
    if not vectorised and not names:
        yield "none: no loop makes a list"


def _agreeing(notes: list[Note], lowered: list[Note]) -> Iterator[Note]:
    """Yield the notes of a session, with what `lower` does to a sequence where it does something else."""
    by_value = {note.value: note for note in lowered}
    for note in notes:
        other = by_value.get(note.value)
        if note.is_lowered or other is None:
            yield note
        elif other.is_lowered:
            made = other.text.removeprefix("becomes ")
            yield note._replace(text=f"{note.text}; lower replaces it with {made}")
        else:
            yield other


def _counted(notes: Iterable[Note]) -> list[str]:
    """Return a line for each note, one for those that are alike."""
    values: dict[str, list[str]] = {}
    for note in notes:
        values.setdefault(note.text, []).append(f"'{note.value}'")
    lines = []
    for text, names in values.items():
        named = _few(names)
        lines.append(
            f"{named} {text}" if len(names) == 1 else f"{len(names)} sequences ({named}): each {text}"
        )
    return lines


def _few(names: list[str]) -> str:
    return ", ".join([*names[:_MOST_NAMED], *["…"] * (len(names) > _MOST_NAMED)])
