"""Lists that are put together behind a loop or a split, by more elements at their ends: joined once.

rows = Loop …    l = insert (rows, x)    ──▶    l = Concat (rows, Unsqueeze (x))
"""

from __future__ import annotations

from functools import reduce

from seqcore.onnx._lists.forms import Form, Forms, Stack
from seqcore.onnx._lists.listed import Listed
from seqcore.onnx._lists.loop_edits import end_of
from seqcore.onnx._model.graph import Node
from seqcore.onnx._model.types import join_shapes


class Grown(Stack):
    """A tensor whose axis 0 runs over the elements, and some elements in front of it and behind.

    Attributes
    ----------
    node : Node
        The last insert.
    start_name : str
        The list that this puts an element to.
    source : Form
        What there was before all inserts.
    front, back : list of str
        What they put to its ends.
    """

    def __init__(
        self, forms: Forms, node: Node, source: Form, stack: Stack, front: list[str], back: list[str]
    ) -> None:
        prepared = forms.prepared
        self.node, self.start_name = node, node.inputs[0]
        self.source, self.front, self.back = source, front, back
        given = None if stack.shape is None else tuple(stack.shape)
        shape = reduce(join_shapes, map(prepared.shape, (*front, *back)), given)
        is_uniform = given is not None and shape is not None and None not in shape
        super().__init__("", stack.element_type, shape, is_uniform, is_filled=True)
        self.became = f"becomes '{self.start_name}' and '{node.inputs[1]}', joined"

    def why_not_started(self):
        if not self.is_uniform:
            return "their shapes may differ"
        if isinstance(self.source, Stack) and self.source.is_declined:
            return f"it is made from '{self.start_name}', which stays"
        return ""

    def prepare(self, builder, prepared):
        nodes = builder.after(self.node)
        front, back = ([nodes.unsqueeze(name, 0) for name in names] for names in (self.front, self.back))
        self.tensor = nodes.op("Concat", *front, self.source.stacked(nodes), *back, axis=0)


def grown_list(forms: Forms, node: Node) -> Grown | None:
    """Return a list after an insert at an end; None where nothing can be said."""
    prepared = forms.prepared
    found = forms.found.get(node.inputs[0])
    at_front = end_of(prepared, node)
    places = [prepared.producers.get(name, (None, None))[1] for name in (node.inputs[0], node.outputs[0])]
    # What another graph makes of it, that may do again and again.
    if (
        not isinstance(found, Form)
        or isinstance(found, Listed)
        or at_front is None
        or places[0] is not places[1]
    ):
        return None
    source, front, back = found, [], []
    if isinstance(found, Grown):
        source, front, back = found.source, found.front, found.back
    stack = source.as_stack()
    if isinstance(stack, str):
        return None
    more = [node.inputs[1]]
    ends = ([*more, *front], back) if at_front else (front, [*back, *more])
    grown = Grown(forms, node, source, stack, *ends)
    found.takers += (grown,)
    return grown
