"""A model and the engines that run it, in their order, with why one isn't taken.

    run ──▶ onnxruntime whole, if it can, is due and the feed is short ──▶ results
                  │ refuses: too long, or an error
                  ▼
            steps of the lowered model, if sequences are left in it ──▶ results
                  │ fails
                  ▼
            steps of the model as it was ──▶ results, or the error with the node's name
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from onnx import ModelProto

from seqcore.onnx._engines.explain import lines_of
from seqcore.onnx._engines.interface import Interface
from seqcore.onnx._engines.steps_engine import StepsEngine
from seqcore.onnx._engines.whole import Declined, WholeModel, has_lists
from seqcore.onnx._lowering.passes import lower_prepared
from seqcore.onnx._model.load import HEAVY, folder_of, parse, path_of
from seqcore.onnx._model.prepared import Prepared, message_has_lists, prepare
from seqcore.onnx._once import Once
from seqcore.onnx._runtimes.sessions import REFUSALS, Sessions


class Engines:
    """A model that is ready to run.

    Parameters
    ----------
    given : str, os.PathLike, bytes or ModelProto
        What the user gave.
    message : ModelProto
        What it was parsed to. It is not held.
    sessions : Sessions
    max_workers : int or None
        For SequenceMap nodes.

    Attributes
    ----------
    interface : Interface
    whole : WholeModel or None
        The first engine, None where it declined.
    declined : str
        Why it did.
    notes : list of Note
        What became of the model's sequences.
    """

    def __init__(
        self, given: Any, message: ModelProto, sessions: Sessions, max_workers: Any
    ) -> None:
        prepared = prepare(message, folder_of(given))
        del message
        self._sessions, self._max_workers = sessions, max_workers
        self.interface = Interface(prepared)
        # With several workers, maps are better left to them.
        believing = prepared
        if self.interface.declares_elements:
            # Feeds are looked at, and what doesn't fit goes another way.
            believing = Prepared(prepared.model, prepared.weights, believes_elements=True)
        lowered, self.notes = lower_prepared(believing, keep_maps=max_workers != 1)
        self._is_lowered = lowered is not prepared
        self.whole: WholeModel | None = None
        self.declined = ""
        try:
            self.whole = WholeModel(lowered, self.interface, sessions)
        except Declined as why:
            self.declined = str(why)
        self._lowered_steps = Once(lambda: self._steps_of(lowered))
        self._given_steps = Once(lambda: self._steps_of(prepared))
        if self.whole is None:
            # Whatever can't be run says so now.
            (self._lowered_steps if has_lists(lowered) else self._given_steps).get()
        if prepared.weights.nbytes >= HEAVY and not (self.whole and self.whole.has_lists):
            self._let_go(given, prepared)
        self._has_lists = has_lists(lowered)

    def _steps_of(self, prepared: Prepared) -> StepsEngine:
        return StepsEngine(prepared, self.interface, self._sessions, self._max_workers)

    def _let_go(self, given: Any, prepared: Prepared) -> None:
        """Let the weights go: sessions have them. For what else needs them, the file is read again."""
        prepared.weights.buffers = {}
        source = _Source(given)

        def again() -> StepsEngine:
            return self._steps_of(prepare(source.read(), folder_of(given)))

        self._given_steps = Once(again)

    def run(self, output_names: Any, feed: Any, options: Any) -> list[Any]:
        """Return the outputs of these names, of all if there are none."""
        whole = self.whole
        self.interface.check_names(output_names, feed)
        if not self.interface.fits(feed):
            return self._given_steps.get().run(output_names, feed, options)
        if whole is not None and whole.attempts.is_due():
            values = whole.feed_of(feed)
            if values is not None:
                try:
                    results = whole.run(output_names, values, options)
                except REFUSALS as refusal:
                    whole.attempts.failed(refusal)
                else:
                    whole.attempts.succeeded()
                    return results
        if self._is_lowered and self._has_lists:
            try:
                return self._lowered_steps.get().run(output_names, feed, options)
            except Exception:
                # What is left of a sequence that was compiled away can't name its node: the model as it was
                # can. It fails as well, or its results are the better ones.
                return self._given_steps.get().run(output_names, feed, options)
        return self._given_steps.get().run(output_names, feed, options)

    def explain(self) -> Iterator[str]:
        """Yield lines that say what runs where, in order, and why not elsewhere."""
        if self.whole is not None and not self.whole.has_lists:
            yield "    onnxruntime  the lowered model, whole"
            return
        if self.whole is not None:
            yield "    onnxruntime  all of it in one go, as long as the sequences are short"
        else:
            yield f"    not in one go in onnxruntime: {self.declined}"
        steps = (self._lowered_steps if self._is_lowered and self._has_lists else self._given_steps).get()
        yield from lines_of(steps.planner.schedule, steps.planner, "    ")


def explain(given: Any) -> list[str]:
    """Return lines that say what becomes of a model's sequences, and what of it runs where, in order."""
    message = parse(given)
    if not message_has_lists(message):
        return ["the model has no sequences: onnxruntime runs it whole"]
    engines = Engines(given, message, Sessions(), 1)
    notes = [f"    {note}" for note in engines.notes] or ["    none in the end"]
    return ["sequences", *notes, "what runs where", *engines.explain()]


class _Source:
    """Where a model came from, if it can be had again."""

    def __init__(self, given: Any) -> None:
        self._path = path_of(given) if isinstance(given, str | os.PathLike) else None
        self._stamp = self._stamp_now()

    def _stamp_now(self) -> tuple[int, int] | None:
        if self._path is None:
            return None
        found = os.stat(self._path)
        return found.st_size, found.st_mtime_ns

    def read(self) -> ModelProto:
        """Return the model.

        Raises
        ------
        RuntimeError
            If it has changed, or was given as bytes, which nobody keeps.
        """
        if self._path is None:
            raise RuntimeError(
                "the node that failed can't be named: that needs the model's weights again, "
                "which only a path can give"
            )
        if self._stamp_now() != self._stamp:
            raise RuntimeError(
                f"the node that failed can't be named: the file {self._path} was changed since it was loaded"
            )
        return parse(self._path)

