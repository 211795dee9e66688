"""Lists that a loop appends to: they become scan outputs of the loop."""

from onnx import TensorProto, helper

from seqcore.onnx._lowering.build import node_key
from seqcore.onnx._lowering.forms import Stack, label, position_of, trusted
from seqcore.onnx._lowering.prune import attribute_of, body_of, is_op
from seqcore.onnx._models.departures import is_told_by_size

# An end that lies before the first element, wherever a Slice of step -1 starts.
_BEFORE_ALL = -(1 << 63)


def find_loop_lists(facts):
    """Yield the sequences that come out of loops with their form, or with why they have none."""
    for name, (node, graph) in facts.producers.items():
        if is_op(node, "Loop") and facts.is_sequence(name):
            found = _read_loop(facts, node, list(node.output).index(name))
            yield name, found if isinstance(found, str) else LoopList(facts, node, graph, name, *found)


def _read_loop(facts, loop, k):
    """Return the insert into a loop's state, whether at the front, and what counts; or why it is no list."""
    where = f"the loop {label(loop)}"
    body = body_of(loop)
    state, result = body.input[2 + k].name, body.output[1 + k].name
    start, _ = facts.producers.get(loop.input[2 + k], (None, None))
    if not is_op(start, "SequenceEmpty"):
        return f"{where} doesn't start with an empty list"
    insert, graph = facts.producers.get(result, (None, None))
    if graph is not body or not is_op(insert, "SequenceInsert") or insert.input[0] != state:
        return f"{where} {_other_than_append(facts, body, state)}"
    counts, returned = [], []
    for value, more in ((state, 0), (result, 1)):
        for reader, _ in facts.readers[value]:
            if is_op(reader, "SequenceLength"):
                counts.append((reader, more))
            elif reader is None:
                returned.append(value)
            elif node_key(reader) != node_key(insert):
                return f"{where} reads it on the way, at {label(reader)}"
    if returned != [result]:
        return f"{where} returns it twice"
    at_front = False
    if len(insert.input) > 2 and insert.input[2]:
        counter, _ = facts.producers.get(insert.input[2], (None, None))
        at_back = is_op(counter, "SequenceLength") and counter.input[0] == state
        at_front = not at_back and position_of(facts, insert.input[2]).value == 0
        if not at_back and not at_front:
            return f"{where} inserts into it elsewhere than at an end"
    return insert, at_front, counts


def _other_than_append(facts, body, state):
    """Return what a loop does to a state, in a word."""
    reached, todo, ops = {state}, [state], []
    while todo:
        for node, _ in facts.readers[todo.pop()]:
            if node is None:
                continue
            ops.append(node.op_type)
            fresh = {name for name in node.output if facts.is_sequence(name)} - reached
            reached |= fresh
            todo += fresh
    if "SequenceErase" in ops:
        return "erases from it"
    if "Loop" in ops:
        return "hands it on to a loop inside it"
    if ops.count("SequenceInsert") > 1:
        return "inserts into it more than once in a round"
    if "SequenceInsert" in ops:
        return "inserts into it only in some rounds"
    return "makes it anew"


class LoopList(Stack):
    """A list that a loop appends to, once in each round and unconditionally."""

    def __init__(self, facts, loop, graph, name, insert, at_front, counts):
        self.node, self.graph = loop, graph
        self._insert, self._at_front, self._counts = insert, at_front, counts
        shape = trusted(facts, facts.shape(insert.input[1]))
        proven = shape is not None and None not in shape
        # Where elements of several shapes would be an error anyway, the loop may as well fail. But
        # onnxruntime's sees no more of a shape than its size.
        stacked = any(
            is_op(node, "ConcatFromSequence") and attribute_of(node, "new_axis", 0) and place is graph
            for node, place in facts.readers[name]
        )
        element_type = facts.element_number(insert.input[1]) or facts.element_number(name)
        self._is_proven = proven
        super().__init__("", element_type, shape, proven or stacked, _runs_at_least_once(facts, loop))
        self.became = f"becomes a scan output of {label(loop)}"

    def why_not(self, node, facts, read):
        if self.element_type == TensorProto.UNDEFINED:
            return "the type of its elements is not known"
        return super().why_not(node, facts, read)

    def prepare(self, builder, facts):
        """Give the loop the scan output, and its body the counts of what the state would hold."""
        body = body_of(self.node)
        scan = self._insert.input[1]
        # A runtime wants its outputs to come from nodes, and each once.
        made = {name for node in body.node for name in node.output}
        if scan not in made or any(value.name == scan for value in body.output):
            scan = builder.after(self._insert).op("Identity", scan)
        while len(self.node.output) < len(body.output) - 1:
            self.node.output.append(builder.fresh(f"{node_key(self.node)}/unread"))
        body.output.append(helper.make_tensor_value_info(scan, self.element_type, self.shape))
        self.tensor = builder.fresh(f"{node_key(self.node)}/stack")
        self.node.output.append(self.tensor)
        if not self._is_proven and not is_told_by_size(self.shape):
            self._check_shapes(builder, body, scan)
        for node, more in self._counts:
            nodes = builder.instead(node)
            number = nodes.op("Reshape", body.input[0].name, nodes.constant([]))
            nodes.op("Add", number, nodes.constant(more), out=node.output[0])
        if self._at_front:
            nodes = builder.after(self.node)
            back, axis = nodes.constant([-1]), nodes.constant([0])
            self.tensor = nodes.op("Slice", self.tensor, back, nodes.constant([_BEFORE_ALL]), axis, back)

    def _check_shapes(self, builder, body, scan):
        """Let rounds that differ in shape fail: onnxruntime looks only at how many bytes they make (1.31)."""
        shape = builder.after(self._insert).op("Shape", scan)
        body.output.append(helper.make_tensor_value_info(shape, TensorProto.INT64, [self._rank]))
        shapes = builder.fresh(f"{node_key(self.node)}/shapes")
        self.node.output.append(shapes)
        nodes = builder.after(self.node)
        start, end = nodes.constant([0]), nodes.constant([1])
        same = nodes.op("Equal", shapes, nodes.slice(shapes, start, end, 0))
        differing = nodes.op("Cast", nodes.op("Not", same), to=TensorProto.INT64)
        count = nodes.op("ReduceSum", differing, keepdims=0)
        zero = nodes.fail_if(nodes.op("Greater", count, nodes.constant(0)))
        self.tensor = nodes.bound(self.tensor, zero)


def _runs_at_least_once(facts, loop):
    trips, condition = loop.input[:2]
    if trips:
        trips = facts.constant(trips)
        if trips is None or trips.size != 1 or trips.reshape(-1)[0] < 1:
            return False
    return not condition or is_true(facts, condition)


def is_true(facts, name):
    """Return whether a value is the constant true."""
    constant = facts.constant(name)
    return constant is not None and constant.size == 1 and bool(constant.reshape(-1)[0])
