"""The last engine: a model in steps, which runs everything and names the node where something fails."""

from __future__ import annotations

from typing import Any

import numpy as np

from seqcore.core.sequence import TensorSequence
from seqcore.onnx._engines.aliasing import feed_holders
from seqcore.onnx._engines.interface import Interface
from seqcore.onnx._engines.loop import stop_if_told
from seqcore.onnx._engines.planner import Planner, own_copy
from seqcore.onnx._model.prepared import Prepared
from seqcore.onnx._model.record import record_of
from seqcore.onnx._runtimes.sessions import Sessions


class StepsEngine:
    """A model, cut into parts that onnxruntime runs and steps of our own.

    Parameters
    ----------
    prepared : Prepared
    interface : Interface
        Of the same model, or of one with the same inputs and outputs.
    sessions : Sessions
    max_workers : int or None
        For SequenceMap nodes.

    Attributes
    ----------
    taken, failures : int
        How many runs went well, and how many didn't. Threads may lose some.
    """

    def __init__(
        self, prepared: Prepared, interface: Interface, sessions: Sessions, max_workers: int | None
    ) -> None:
        self.planner = planner = Planner(prepared, sessions, max_workers)
        self._interface = interface
        self._plan = planner.plan
        self._places = {name: planner.place(name) for name in prepared.model.graph.inputs}
        names = prepared.model.graph.outputs
        self._outputs = dict(zip(names, planner.outputs_of(prepared.model.graph), strict=True))
        holders = feed_holders(prepared, planner.own)
        self._shared = {name for name in names if name in holders}
        self._fresh = {name for name in names if _is_fresh(name, prepared, planner.own)}
        self._frame = planner.frame
        self.taken = self.failures = 0

    def run(self, output_names: Any, feed: Any, options: Any) -> list[Any]:
        """Return the outputs of these names, of all if there are none: tensors of their own, sequences.

        Raises
        ------
        ValueError, TypeError
            If a feed is missing, unknown, or not what the model declares.
        Exception
            What a node raises; it is named.
        """
        try:
            results = self._run(output_names, feed, options)
        except Exception:
            self.failures += 1
            raise
        self.taken += 1
        return results

    def _run(self, output_names: Any, feed: Any, options: Any) -> list[Any]:
        stop_if_told(options)
        frame = self._frame.copy()
        frame[0] = options
        for name, one in self._interface.feeds.items():
            default = self._interface.defaults.get(name)
            frame[self._places[name]] = one.check(feed[name]) if name in feed else default
        self._plan.run(frame)
        # Each is taken from the frame once, also where it is asked for twice.
        names = output_names or self._interface.names
        results = {name: self._result(name, frame) for name in dict.fromkeys(names)}
        if len(results) == len(names):
            return list(results.values())
        return [_again(results[name], name in names[:k]) for k, name in enumerate(names)]

    def _result(self, name, frame):
        value = self._outputs[name](frame)
        if isinstance(value, TensorSequence):
            if name in self._shared:
                value.compact()
            return value
        if isinstance(value, np.ndarray) and name not in self._fresh:
            return np.array(value)
        return value


def _is_fresh(name, prepared, own):
    """Return whether a tensor's array is nobody else's: it was made anew, and no own node keeps it."""
    node = prepared.producer(name)
    readers = prepared.readers[name]
    return (
        node is not None
        and (node not in own or not any(target == name for _, target in record_of(node).shares(node)))
        and sum(reader is None for reader, _ in readers) == 1
        and not any(reader in own for reader, _ in readers)
    )


def _again(value, given):
    """Return a value, or a copy if it was given before."""
    if not given:
        return value
    return np.array(value) if isinstance(value, np.ndarray) else own_copy(value)
