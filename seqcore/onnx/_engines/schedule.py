"""The order in which a graph runs: tensor parts, cut as large as they can be, and own nodes between them.

    Loop body   Gather Mul │ SequenceInsert SequenceLength │ Greater │ If
                part       │ own            own            │ part    │ own

A node is own if it has to do with sequences or optionals, as an input, as an output or anywhere in its
graphs. The others form parts: all that can run at one point runs in one session of onnxruntime.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable
from typing import Any

from seqcore.onnx._model.graph import Graph, Node, reads_of
from seqcore.onnx._model.prepared import Prepared
from seqcore.onnx._model.record import record_of

# The values of a run, each in its place, and what works on them.
Frame = list[Any]
Step = Callable[[Frame], None]


class Entry:
    """A part (several nodes, `own` is False) or one own node, with the schedules of its graphs."""

    def __init__(
        self,
        nodes: list[Node],
        reads: dict[str, None],
        inner: dict[str, Schedule] | None = None,
        own: bool = False,
    ) -> None:
        self.nodes = nodes
        self.reads = reads  # the names that the nodes read, in all depths
        self.inner = inner or {}  # by the names of the attributes
        self.own = own


class Schedule:
    """A graph and the entries that run it, in order.

    Building takes time in proportion to the nodes, and for own nodes that wait together to their product.
    """

    def __init__(self, graph: Graph, prepared: Prepared) -> None:
        self.graph = graph
        self.entries: list[Entry] = []
        self._prepared = prepared
        self._nodes = graph.nodes
        self._reads = [reads_of(node) for node in self._nodes]
        self._own = [is_own(node, prepared) for node in self._nodes]
        self._fill()

    def _fill(self):
        makers = {name: i for i, node in enumerate(self._nodes) for name in node.outputs if name}
        self._misses = [{makers[name] for name in reads if name in makers} for reads in self._reads]
        self._waiters: list[list[int]] = [[] for _ in self._nodes]  # for each node, who waits for it
        self._readers: dict[str, set[int]] = {}  # name → the nodes that have yet to read it
        for i, reads in enumerate(self._reads):
            for name in reads:
                self._readers.setdefault(name, set()).add(i)
            for other in self._misses[i]:
                self._waiters[other].append(i)
        self._ready: dict[bool, list[int]] = {
            True: [],
            False: [],
        }  # own? → the nodes that could run now, in the graph's order
        for i, misses in enumerate(self._misses):
            if not misses:
                self._ready[self._own[i]].append(i)
        while self._ready[True] or self._ready[False]:
            self._run_part()
            self._run_own()

    def _run_part(self):
        part = []
        while self._ready[False]:
            part.append(self._start(False, 0))
        if part:
            reads: dict[str, Any] = {}
            for i in part:
                reads |= self._reads[i]
            # In the graph's order, which is one that its nodes can run in.
            self.entries.append(Entry([self._nodes[i] for i in sorted(part)], reads))

    def _run_own(self):
        while ready := self._ready[True]:
            # Readers of a sequence go before its edits, so that the edit can be made in place.
            k = next((k for k, i in enumerate(ready) if not self._disturbs(i)), None)
            if k is None:
                if self._ready[False]:
                    return  # those that it would disturb may be waiting for a part
                k = 0  # each disturbs another: one pays for a copy
            i = self._start(True, k)
            node = self._nodes[i]
            inner = {name: Schedule(graph, self._prepared) for name, graph in node.graphs.items()}
            self.entries.append(Entry([node], self._reads[i], inner, own=True))

    def _start(self, own, k):
        """Take the k-th node that is ready; what waited for it alone becomes ready."""
        i = self._ready[own].pop(k)
        for name in self._reads[i]:
            self._readers[name].discard(i)
        for other in self._waiters[i]:
            self._misses[other].discard(i)
            if not self._misses[other]:
                insort(self._ready[self._own[other]], other)
        return i

    def _disturbs(self, i):
        """Return whether a node makes a value of a sequence that others have yet to read as well."""
        if record_of(self._nodes[i]).only_reads:
            return False
        waiters = self._waiters[i]
        for name in self._reads[i]:
            readers = self._readers[name]
            if len(readers) == 1 or self._prepared.is_tensor(name):
                continue
            # They can't all be waiting for this node if they are so many: no set is made for each of them.
            if len(readers) > 1 + len(waiters) or readers - {i} - set(waiters):
                return True
        return False


def is_own(node: Node, prepared: Prepared) -> bool:
    """Return whether a node has to do with sequences or optionals, in any depth."""
    if record_of(node).is_of_lists or not _are_tensors(prepared, (*node.inputs, *node.outputs)):
        return True
    return any(
        not _are_tensors(prepared, (*graph.inputs, *graph.outputs))
        or any(is_own(child, prepared) for child in graph.nodes)
        for graph in node.graphs.values()
    )


def _are_tensors(prepared, names):
    return all(prepared.is_tensor(name) for name in names)
