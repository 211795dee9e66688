"""A model whose sequences go in and out as values and lengths, and whose loops carry them as tensors.

onnxruntime takes and gives a sequence element by element. If the lowered model takes the elements joined, and
their lengths, a long sequence costs little more than the copy of its values. Sequences whose elements differ
in more than their first axis stay, at the ends.

A loop that stays copies a list that is one tensor at each edit. While the list is small, that takes less time
than onnxruntime's edits, if the iterations have about as many nodes. With twice as many it takes less time
than steps, and than onnxruntime's edits of long lists. Loops inside of others always do: there, few
iterations of each make long lists.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from seqcore.onnx._engines.copied_states import limit_sizes
from seqcore.onnx._engines.interface import Interface
from seqcore.onnx._engines.whole import WholeModel, carries_lists, has_lists, has_nested_lists, size_of
from seqcore.onnx._lists.boundary import open_sequences
from seqcore.onnx._lowering.pipeline import lower_prepared, with_few_iterations
from seqcore.onnx._model.loop_parts import parts_of
from seqcore.onnx._model.prepared import Prepared
from seqcore.onnx._model.record import Declined
from seqcore.onnx._model.tensors import dtype_of
from seqcore.onnx._runtimes.sessions import Sessions
from seqcore.onnx._thresholds import (
    FEW,
    LITTLE_LARGER,
    LONG_TO_PAD,
    LONG_TO_STACK,
    MANY_TRIPS,
    MOST_LARGER,
    MOST_LARGER_THAN_STEPS,
    MOST_TO_CONVERT,
)


class RaggedModel:
    """A model that onnxruntime runs in one go on values and lengths, and tensors in place of lists.

    Parameters
    ----------
    prepared : Prepared
        The given model.
    interface : Interface
    sessions : Sessions

    Attributes
    ----------
    run : callable
        As that of an `Executable`.
    may_be_long : bool
        True if a run may fail because a list in a loop gets long.
    prepared : Prepared
        The model that runs.
    quick_from : int
        With more elements or iterations it takes no longer than the given model.

    Raises
    ------
    Declined
        If a sequence would be left in it.
    """

    def __init__(self, prepared: Prepared, interface: Interface, sessions: Sessions) -> None:
        self._interface = interface
        nodes = list(prepared.model.graph.all_nodes())
        if not any(node.is_op("Loop", "SequenceMap") for node in nodes):
            raise Declined("it has no loop")  # steps edit its lists in place, and copy nothing
        opened = open_sequences(prepared, kept=set(), is_for_session=True)
        found = lower_prepared(opened.prepared, is_checked=False, packs=True)
        lowered, _, loops, _ = found
        if carries_lists(lowered):
            raise Declined("its loops carry sequences that can't be tensors")
        makes_lists = carries_lists(prepared) or any(node.is_op("SequenceMap") for node in nodes)
        if has_lists(lowered) and not makes_lists:
            raise Declined("its loops only read sequences")
        if lowered is not opened.prepared:
            lowered = with_few_iterations(found)
        _check_conditions(lowered)
        self._inputs = opened.inputs
        self._shapes = {name: prepared.shape(name) or () for name in opened.inputs}
        self._dtypes = {name: dtype_of(prepared.type(name).number) for name in opened.inputs}
        given_states = {name for node in nodes for graph in node.graphs.values() for name in graph.inputs}
        is_limited = limit_sizes(lowered, given_states)
        size, given_size = (size_of(one, MANY_TRIPS) for one in (lowered, prepared))
        is_much = size > MOST_LARGER_THAN_STEPS * given_size and not has_nested_lists(prepared)
        if is_much and (is_limited or not makes_lists):
            raise Declined("iterations of its loops have many nodes more then")
        if is_limited:
            lowered = lowered.again(lowered.model)
        # A padded list isn't copied again and again, unless its elements differ much in length.
        is_linear = not is_limited or any(note.is_padded for note in loops)
        is_little_larger = size <= LITTLE_LARGER * given_size
        self.quick_from = LONG_TO_PAD if is_linear or is_little_larger else LONG_TO_STACK
        if size <= MOST_LARGER * given_size:
            self.quick_from = MOST_TO_CONVERT if opened.inputs else FEW
        self.prepared = lowered
        self._model = WholeModel(
            lowered, Interface(lowered), sessions, outputs=interface.names, parts=opened.outputs
        )
        self.run = self._model.run
        self.may_be_long = is_limited or self._model.may_be_long

    def explain(self) -> Iterator[str]:
        """Yield a line that says what runs where."""
        yield "onnxruntime  the whole lowered model, with values and lengths in place of lists"

    def feed_of(self, run: Any) -> dict[str, Any] | None:
        """Return what onnxruntime is fed, None where elements are not as the model declares them."""
        if run.checked is None or not self._inputs:
            return self._model.feed_of(run)
        if not run.fits():
            return None
        feed = {}
        for name, value in run.checked.items():
            if name not in self._inputs:
                feed[name] = value
                continue
            checked = self._interface.feeds[name].check(value)
            values, *lengths = self._inputs[name]
            feed[values] = checked.values() if len(checked) else self._no_values(name)
            if lengths:
                feed[lengths[0]] = checked.lengths()
        return self._model.feed_for(feed)

    def _no_values(self, name: str) -> np.ndarray:
        behind = [length if isinstance(length, int) else 0 for length in self._shapes[name][1:]]
        return np.empty((0, *behind), self._dtypes[name])


def _check_conditions(prepared: Prepared) -> None:
    """Raise Declined where a condition may have several items: onnxruntime takes the first."""
    for node in prepared.model.graph.all_nodes():
        names = [node.inputs[0]] if node.is_op("If") else []
        if node.is_op("Loop"):
            parts = parts_of(node)
            names = [parts.trips, parts.condition, parts.going_out]
        if any(name and prepared.shape(name) not in ((), (1,)) for name in names):
            raise Declined(f"{node.label()} may have a condition of several items")
