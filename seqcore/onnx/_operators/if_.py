"""If: one of two graphs."""

from seqcore.onnx._engines.control import if_step
from seqcore.onnx._model.graph import BRANCHES
from seqcore.onnx._model.record import Operator, register
from seqcore.onnx._model.types import join
from seqcore.onnx._vmap.rules import choose
from seqcore.onnx._vmap.tracer import BatchRule


@register("If")
class If(Operator):
    takes_tensors = True
    verb = "returns it from a branch"
    batch_rule = BatchRule(choose, runs_empty=True, in_branch=True)

    def fault(self, node):
        for name in BRANCHES:
            branch = node.graphs[name]
            if branch.inputs:
                return f"has a {name} with inputs"
            if len(branch.outputs) != len(node.outputs):
                return f"has {count_of(node.outputs, 'output')}, its {name} {len(branch.outputs)}"
        return ""

    def infer(self, node, known):
        made = []
        for name in BRANCHES:
            known.follow(node.graphs[name])
            made.append([known.type(one) for one in node.graphs[name].outputs])
        if (fixed := known.condition(node.inputs[0])) is not None:
            return made[0 if fixed else 1]
        return [join(one, other) for one, other in zip(*made, strict=True)]

    def aliases(self, node):
        for name in BRANCHES:
            yield from zip(node.graphs[name].outputs, node.outputs, strict=True)

    def shares(self, node):
        return self.aliases(node)

    def may_repeat(self, node):
        return False

    def step(self, entry, planner, in_loop):
        return if_step(entry, planner, in_loop)


def count_of(things, what):
    """Return `2 outputs`."""
    return f"{len(things)} {what}{'' if len(things) == 1 else 's'}"
