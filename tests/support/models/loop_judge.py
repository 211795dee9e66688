"""Random loops before and after `lower`: what differs, from the command line as often as one likes.

    export PYTHONPATH=.:tests
    python -m support.models.loop_judge --count 5000    # what fails
    python -m support.models.loop_judge --only reshape  # bodies of an operator or two, of that function
    python -m support.models.loop_judge --seed 1234     # one model, both texts, and what each gave

Judge is onnxruntime with the model as it was, and where that fails, the session that takes it in steps.
"""

import argparse
import re
from collections import Counter

import numpy as np
import onnx
import onnxruntime
from support.models.loop_lists import a_model
from support.models.loop_operators import OPERATORS
from support.models.loop_pruning import nodes_of, prune
from support.models.ragged_io import HAS_RAGGED_IO, kinds_of, ragged_feed, ragged_results
from support.models.sessions import in_steps

from seqcore import TensorSequence
from seqcore.onnx import InferenceSession, lower

LENGTHS = [0, 1, 2, 3, 4, 5, 6]
TOLERANCES = {"float32": 1e-5, "float64": 1e-10, "float16": 2e-2}


def reference(model, optimizes=True):
    options = onnxruntime.SessionOptions()
    if not optimizes:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def made(make):
    """A session, or the words of the exception."""
    try:
        return make()
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def outcome(running, feed):
    """Results as a list, or the words of what went wrong."""
    if isinstance(running, str):
        return running
    try:
        results = running.run(None, dict(feed))
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return [list(one) if isinstance(one, TensorSequence) else one for one in results]


def difference(found, expected, bound, n=1):
    """What differs, in a word or two, or None. What no iteration made may have any shape of nothing."""
    if isinstance(expected, list):
        if not isinstance(found, list) or len(found) != len(expected):
            return "another number of elements"
        pairs = zip(found, expected, strict=True)
        return next(filter(None, (difference(a, b, bound) for a, b in pairs)), None)
    found, expected = np.asarray(found), np.asarray(expected)
    if found.dtype != expected.dtype:
        return f"type {found.dtype}, not {expected.dtype}"
    if found.shape != expected.shape:
        if n == 0 and found.size == expected.size == 0:
            return None
        return f"shape {found.shape}, not {expected.shape}"
    near = TOLERANCES.get(str(found.dtype))
    if near is None:
        return None if np.array_equal(found, expected) else "other numbers"
    with np.errstate(all="ignore"):
        close = np.allclose(found, expected, near, near * max(bound, 1), equal_nan=True)
    return None if close else "other numbers"


def kinds_and_names(model, part):
    """Name, kind and element type of inputs or outputs; shapes may be known better in a lowered model."""
    values = getattr(model.graph, part)
    return [(one.name, one.type.WhichOneof("value"), one.type.tensor_type.elem_type) for one in values]


class Case:
    """A model and its feeds, which can be looked at again after an edit of the model."""

    def __init__(self, seed, only=None):
        self.seed = seed
        self.maker, self.model = a_model(seed, only)
        rng = np.random.default_rng(seed)
        chosen = [1, int(rng.integers(2, 7)), int(rng.choice(LENGTHS))]
        if seed % 10 == 3:
            chosen.append(300)
        if seed % 3 == 0:
            chosen.append(0)
        self.feeds = [(n, self.maker.feed(n, rng)) for n in chosen]

    def findings(self, model=None, count=None):
        """What goes wrong: kind and words for each. `count` gathers what the models were like."""
        model = model or self.model
        count = Counter() if count is None else count
        try:
            onnx.checker.check_model(model, full_check=True)
        except Exception:
            count["not valid"] += 1
            return []
        before = made(lambda: reference(model))
        try:
            changed = lower(model)
        except Exception as error:
            return [(f"lower: {type(error).__name__}", str(error))]
        try:
            onnx.checker.check_model(changed, full_check=True)
        except Exception as error:
            return [("lowered: not valid", str(error))]
        for part in ("input", "output"):
            if kinds_and_names(changed, part) != kinds_and_names(model, part):
                return [(f"lowered: other {part}s", "")]
        after = before if changed == model else made(lambda: reference(changed))
        count["lowered"] += changed != model
        operators = {one.op_type for one in nodes_of(changed.graph)}
        count["no sequences left"] += not any("Sequence" in one for one in operators)
        count["no loop left"] += "Loop" not in operators
        ours, slow = made(lambda: InferenceSession(model)), None
        ragged = self.ragged(model, before)
        if isinstance(ragged, list):
            return ragged
        if isinstance(after, str) and not isinstance(before, str):
            return [("lowered: doesn't load", after)]
        found = []
        for n, feed in self.feeds:
            feed = {one.name: feed[one.name] for one in model.graph.input}
            expected = outcome(before, feed)
            may_fail = isinstance(expected, str)
            if may_fail:  # where steps give something, the error is of what nobody reads
                slow = slow or made(lambda: in_steps(model))
                expected = outcome(slow, feed)
            count["runs"] += 1
            count["failing runs"] += may_fail
            for name, running in (("lowered", after), ("session", ours)):
                got = outcome(running, feed)
                if may_fail and isinstance(got, str):
                    continue
                wrong = self.compare(model, got, expected, n)
                if wrong and wrong[0] == "fails" and self.loses_an_error(model, feed):
                    continue
                if wrong and (wrong[0] != "no error" or self.is_read(model, feed)):
                    found.append((f"{name}: {wrong[0]}", f"n = {n}: {wrong[1]}"))
            if ragged:
                found += self.ragged_findings(ragged, model, feed, expected, n, may_fail)
        return found

    def ragged(self, model, before):
        """The lowered model whose sequences that go in or out are tensors too; findings; or None.

        It is None, too, where onnxruntime lacks an operator for the model as it was (`before` has its words).
        """
        kinds = kinds_of([*model.graph.input, *model.graph.output])
        if not HAS_RAGGED_IO or not kinds:
            return None
        try:
            changed = lower(model, ragged_io=True)
            onnx.checker.check_model(changed, full_check=True)
        except Exception as error:
            return [(f"ragged_io: {type(error).__name__}", str(error))]
        running = made(lambda: reference(changed))
        if not isinstance(running, str):
            return changed, running, kinds
        lacking = running.partition(" node with name")[0]
        if running.startswith("NotImplemented") and isinstance(before, str) and before.startswith(lacking):
            return None
        return [("ragged_io: doesn't load", running)]

    def ragged_findings(self, ragged, model, feed, expected, n, may_fail):
        changed, running, kinds = ragged
        names = [one.name for one in changed.graph.input]
        got = outcome(running, ragged_feed(feed, names, kinds))
        if isinstance(expected, str) or isinstance(got, str):
            if not isinstance(expected, str) and not may_fail:
                return [("ragged_io: fails", f"n = {n}: {got}")]
            if not isinstance(got, str) and self.is_read(model, feed):
                return [("ragged_io: no error", f"n = {n}: expected {expected}")]
            return []
        outputs = [one.name for one in model.graph.output]
        names = [one.name for one in changed.graph.output]
        bound = max(self.maker.bounds.get(name, 1e3) for name in outputs)
        pairs = zip(names, got, ragged_results(expected, outputs, names, kinds), strict=True)
        for name, a, b in pairs:
            empty = n if np.asarray(b).size else 0  # of no element only the type is known
            if wrong := difference(a, b, bound, empty):
                text = f"n = {n}: {name}: {wrong}\n{a!r}\nnot\n{b!r}"
                return [(f"ragged_io: {re.sub(r'[(].*', '', wrong)}", text)]
        return []

    def loses_an_error(self, model, feed):
        """Whether onnxruntime fails too, unless it optimizes, and reads no element whose shape it knows."""
        return isinstance(outcome(made(lambda: reference(model, optimizes=False)), feed), str)

    def is_read(self, model, feed):
        """Whether a run still fails without what nobody reads: errors there need not stay."""
        smaller = onnx.ModelProto()
        smaller.CopyFrom(model)
        prune(smaller)
        feed = {one.name: feed[one.name] for one in smaller.graph.input}
        return isinstance(outcome(made(lambda: in_steps(smaller)), feed), str)

    def compare(self, model, got, expected, n):
        if isinstance(expected, str):
            return None if isinstance(got, str) else ("no error", f"expected {expected}")
        if isinstance(got, str):
            return "fails", got
        for one, a, b in zip(model.graph.output, got, expected, strict=True):
            if wrong := difference(a, b, self.maker.bounds.get(one.name, 1e3), n):
                return re.sub(r"\(.*", "", wrong), f"{one.name}: {wrong}\n{a!r}\nnot\n{b!r}"
        return None


def search(first, count, only=None):
    """Look at models of these seeds, and print what fails; the last seed is of one that ends the process."""
    counted = Counter()
    for seed in range(first, first + count):
        print(f"seed {seed}", end="\r", flush=True)
        for kind, words in Case(seed, only).findings(count=counted):
            print(f"seed {seed}: {kind} {words[:100]!r}", flush=True)
    print(f"{count} models: {dict(counted)}")


def show(seed, only=None):
    """All of one model."""
    case = Case(seed, only)
    changed = lower(case.model)
    print(onnx.printer.to_text(case.model), "\n", onnx.printer.to_text(changed))
    for n, feed in case.feeds:
        print(f"--- n = {n}: {feed}")
        for word, make in (
            ("given", lambda: reference(case.model)),
            ("in steps", lambda: in_steps(case.model)),
            ("lowered", lambda: reference(changed)),
            ("session", lambda: InferenceSession(case.model)),
        ):
            print(f"{word}: {outcome(made(make), feed)}")
    for kind, words in case.findings():
        print(f"{kind}: {words}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--only", choices=sorted({one.__name__ for one in OPERATORS}), help="in bodies")
    given = parser.parse_args()
    if given.seed is not None:
        show(given.seed, given.only)
    else:
        search(given.first, given.count, given.only)


if __name__ == "__main__":
    main()
