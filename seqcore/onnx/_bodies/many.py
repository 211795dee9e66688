"""Running a body for many elements: in stacks, in copies, or singly.

A run of a session costs some 4 µs, whatever it computes. Small elements share that cost in one of two ways:

stack       The rows' tensors become one tensor with a new first axis, and the body runs once on it: for
            operators that work element by element and are exact, and rows of one shape.
copies      One model holds the body several times, and each copy takes a row: for other operators, and
            shapes that differ from row to row.

Either gives the same bits as singly. Bodies with control flow, random numbers, many nodes or large constants
run singly, as do large elements: threads can share those out more evenly.
"""

import threading

from seqcore.onnx._bodies.copies import COPIES, Copies, can_copy
from seqcore.onnx._bodies.stacks import plan_stack

# Arguments of more bytes gain nothing: copying them costs what a run costs.
_LARGE = 16384
# Rows of a stack at first and at most, and the most bytes of their arguments, so that they stay in the cache.
_FIRST, _MOST, _MOST_NBYTES = 32, 512, 1 << 18
# Fewer rows are as quick singly.
_FEW = 8
# The number of elements from which building pays: 0.5 ms for a stack, 0.7 ms and 0.3 ms a node for copies.
_STACK_PAYS, _COPIES_PAY, _A_NODE_MORE = 160, 300, 120
# Rows of another shape in a row, after which stacking is no longer tried in a call.
_MISSES = 3
# Which arguments are whole may change from call to call: so many combinations are built for.
_MOST_BUILT = 8


def run_singly(run, rows, start=0):
    """Return `run(row)` for each row; its exception gets the row's index, counted from `start`."""
    results = []
    try:
        for arrays in rows:
            results.append(run(arrays))
    except Exception as error:
        error.seqcore_element = start + len(results)
        raise
    return results


class ManyRunner:
    """Runs a program for many rows, each by the quickest of the ways that it can go.

    Parameters
    ----------
    program : Program
        Its `run` serves one row, its `assemble` makes rows of outputs from columns of what was computed.
    model : ModelProto
        As the runtime has it: typed, its outputs distinct, its inputs those that are used.
    fed : list of (str, int)
        The inputs and which argument each of them is.
    """

    def __init__(self, program, model, fed):
        self._program = program
        self._model = model
        self._fed = fed
        self._plan = plan_stack(model) if fed else None
        self._can_copy = bool(fed) and can_copy(model)
        self._building = threading.Lock()
        self._built = {}  # (way, names of whole arguments) → what runs it, None if nothing can
        self._asked = 0  # elements so far; two threads may lose a count, which only delays a decision

    def run(self, rows):
        """Return the outputs for each row of arguments, as a list of tuples."""
        n = len(rows)
        self._asked += n
        if n < _FEW or not (self._plan or self._can_copy):
            return run_singly(self._program.run, rows)
        whole = self._whole(rows)
        varying = [i for name, i in self._fed if name not in whole]
        results = []
        size, misses = _FIRST, 0
        while (start := len(results)) < n:
            nbytes = sum(rows[start][i].nbytes for i in varying)
            if nbytes > _LARGE or n - start < _FEW:
                results += run_singly(self._program.run, rows[start : start + COPIES], start)
                continue
            if misses < _MISSES and (stack := self._way("stack", whole)):
                limit = max(_FEW, _MOST_NBYTES // max(nbytes, 1))
                done = self._attempt(stack, rows[start : start + min(size, limit)])
                if done:
                    results += done
                    size, misses = min(2 * size, _MOST), 0
                    continue
                size, misses = _FIRST, misses + 1
            group = rows[start : start + COPIES]
            copies = self._way("copies", whole)
            done = self._attempt(copies, group) if copies else None
            results += done or run_singly(self._program.run, group, start)
        return results

    def _whole(self, rows):
        """Return the names of the inputs whose argument is one object in all rows, none if all are."""
        first, last = rows[0], rows[-1]
        whole = frozenset(
            name
            for name, i in self._fed
            if last[i] is first[i] and all(arrays[i] is first[i] for arrays in rows)
        )
        return whole if len(whole) < len(self._fed) else frozenset()

    def _attempt(self, way, rows):
        try:
            return self._program.assemble(rows, way.run(rows))
        except Exception:
            return None  # singly they fail again: at the right row, with the message for it

    def _way(self, kind, whole):
        """Return what runs rows in this way, None if nothing does or it doesn't pay yet."""
        try:
            return self._built[kind, whole]
        except KeyError:
            pass
        if kind == "stack":
            possible, pays = self._plan and self._plan.allows(whole), _STACK_PAYS
        else:
            possible, pays = self._can_copy, _COPIES_PAY + _A_NODE_MORE * len(self._model.graph.node)
        if not possible or len(self._built) >= _MOST_BUILT:
            return None
        # While one thread builds, the others go on singly.
        if self._asked < pays or not self._building.acquire(blocking=False):
            return None
        try:
            if (kind, whole) not in self._built:
                try:
                    build = self._plan.build if kind == "stack" else Copies
                    self._built[kind, whole] = build(self._model, self._fed, whole)
                except Exception:  # it was only for speed
                    self._built[kind, whole] = None
            return self._built[kind, whole]
        finally:
            self._building.release()
