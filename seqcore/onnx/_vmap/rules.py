"""Batching rules: operators on tensors for all iterations of a loop, each value with a leading axis.

A rule gets a node of the loop's body, with an input that varies between the iterations, and the `Tracer`. It
adds nodes and returns the values for the outputs. Axes behind the leading one
move by one, those counted from the back stay:

    one iteration        y: (3, 4) = Softmax (x: (3, 4), axis = 0)
    all n                y: (n, 3, 4) = Softmax (x: (n, 3, 4), axis = 1)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from onnx import TensorProto

from seqcore.onnx._model.graph import Node
from seqcore.onnx._model.positions import is_never_negative
from seqcore.onnx._model.record import Declined, axis_from_front
from seqcore.onnx._model.tensors import dtype_of
from seqcore.onnx._model.types import Shape
from seqcore.onnx._rewrite.emit import Nodes
from seqcore.onnx._thresholds import LONGEST_BRANCHES
from seqcore.onnx._vmap.tracer import Tracer, Value

Rule = Callable[[Node, Tracer], list[Value]]


def declined(node: Node, why: str) -> Declined:
    """Return the exception of a rule that can't vectorize a node."""
    return Declined(f"{why} at {node.label()}")


def _behind(axis: int) -> int:
    """Return an axis behind the one of iterations."""
    return axis + 1 if axis >= 0 else axis


def places_of(node: Node, axes: Iterable[int], rank: int) -> list[int]:
    """Return axes counted from the front. Raise `Declined` if one is out of range."""
    places = [axis_from_front(int(axis), rank) for axis in axes]
    if None in places:
        raise declined(node, "has an axis that is out of range")
    return [place for place in places if place is not None]


# Elementwise


def elementwise(node: Node, body: Tracer) -> list[Value]:
    """The first input varies; others are the same for all: bounds, slopes, what to cast like."""
    return body.vary(body.again(node, [body.name(node.inputs[0]), *_others(node, body)]))


def _others(node: Node, body: Tracer) -> list[str]:
    return [body.same(node, k) for k in range(1, len(node.inputs))]


def cast_like(node: Node, body: Tracer) -> list[Value]:
    """The second input may vary, because only its type matters."""
    made = body.again(node, [body.name(name) for name in node.inputs])
    return [Value(made[0], body.varies(node.inputs[0]))]


def broadcast(node: Node, body: Tracer) -> list[Value]:
    rank = max(body.rank(name) for name in node.inputs)
    return body.vary(body.again(node, [body.aligned(name, rank) for name in node.inputs]))


def broadcast_to_first(node: Node, body: Tracer) -> list[Value]:
    """The others are broadcast to the first input, which never becomes larger."""
    first, *others = node.inputs
    rank = body.rank(first)
    return body.vary(body.again(node, [body.rows(first), *(body.aligned(name, rank) for name in others)]))


# Along an axis


def along_axis(default: int) -> Rule:
    """The attribute `axis` says along which axis of the first input; the others are the same for all."""

    def rule(node: Node, body: Tracer) -> list[Value]:
        (axis,) = places_of(node, [node.attribute("axis", default)], body.rank_with_axes(node.inputs[0]))
        made = body.again(node, [body.name(node.inputs[0]), *_others(node, body)], axis=axis + 1)
        return body.vary(made)

    return rule


along_last = along_axis(-1)
along_first = along_axis(0)


def reduce(node: Node, body: Tracer) -> list[Value]:
    return body.vary(reduce_rows(node, body, body.name(node.inputs[0])))


def reduce_rows(node: Node, body: Tracer, tensor: str) -> list[str]:
    """Reduce a tensor that stands for the first input."""
    rank = body.rank_with_axes(node.inputs[0])
    axes = node.attribute("axes")
    is_input = axes is None and bool(node.input(1))
    if is_input:
        axes = body.integers(node, 1)
        if axes is None:
            raise declined(node, "reduces axes that only a run tells")
    if not axes:
        if node.attribute("noop_with_empty_axes", 0):
            raise declined(node, "may reduce no axes")
        axes = range(rank)
        is_input = node.op_type == "ReduceSum" or body.opset >= 18
    # onnxruntime (1.31) doesn't reduce a negative axis of a tensor without items.
    axes = [place + 1 for place in places_of(node, axes, rank)]
    if is_input:
        return body.again(node, [tensor, body.nodes.constant(axes)])
    return body.again(node, [tensor], axes=axes)


def cum_sum(node: Node, body: Tracer) -> list[Value]:
    body.rank_with_axes(node.inputs[0])
    axis = body.integers(node, 1)
    if axis is None or len(axis) != 1:
        raise declined(node, "adds up along an axis that only a run tells")
    place = body.nodes.constant(_behind(axis[0]))
    return body.vary(body.again(node, [body.name(node.inputs[0]), place]))


def one_hot(node: Node, body: Tracer) -> list[Value]:
    inputs = [body.name(node.inputs[0]), body.same(node, 1), body.same(node, 2)]
    return body.vary(body.again(node, inputs, axis=_behind(node.attribute("axis", -1))))


def concat(node: Node, body: Tracer) -> list[Value]:
    """All inputs have the axis that the attribute names."""
    body.rank_with_axes(node.inputs[0])
    axis = _behind(node.attribute("axis", 0))
    names = [body.name(name) if body.varies(name) else body.rows(name) for name in node.inputs]
    return body.vary(body.again(node, names, axis=axis))


# Products


def matmul(node: Node, body: Tracer) -> list[Value]:
    a, b = node.inputs
    ranks = body.rank_with_axes(a), body.rank_with_axes(b)
    if ranks == (1, 2) and not body.varies(b):
        # All rows at once.
        return body.vary(body.again(node, [body.name(a), body.name(b)]))
    return matmul_rows(node, body, body.name(a), body.name(b))


def matmul_rows(node: Node, body: Tracer, left: str, right: str) -> list[Value]:
    """Multiply what stands for the two inputs."""
    a, b = node.inputs
    ranks = body.rank(a), body.rank(b)
    nodes = body.nodes
    # A vector becomes a matrix of one row, or of one column.
    if ranks[0] == 1:
        left = nodes.unsqueeze(left, int(body.varies(a)))
    if ranks[1] == 1:
        right = nodes.unsqueeze(right, 1 + int(body.varies(b)))
    own = [max(rank, 2) for rank in ranks]
    rank = max(own)
    if not (body.varies(a) and body.varies(b)):
        body.fails_empty()  # onnxruntime (1.31) can't broadcast no matrix and some
    if body.varies(a):
        left = _in_front(left, rank - own[0], nodes)
    if body.varies(b):
        right = _in_front(right, rank - own[1], nodes)
    (made,) = body.again(node, [left, right])
    gone = [rank - 1] * (ranks[0] == 1) + [rank] * (ranks[1] == 1)
    return body.vary([nodes.squeeze(made, *gone) if gone else made])


def _in_front(name: str, more: int, nodes: Nodes) -> str:
    return nodes.unsqueeze(name, *range(1, 1 + more)) if more > 0 else name


def gemm(node: Node, body: Tracer) -> list[Value]:
    nodes = body.nodes
    sides = []
    for name, key in zip(node.inputs, ("transA", "transB"), strict=False):
        side = body.name(name)
        if node.attribute(key, 0):
            side = nodes.op("Transpose", side, perm=[0, 2, 1] if body.varies(name) else [1, 0])
        sides.append(side)
    if not (body.varies(node.inputs[0]) and body.varies(node.inputs[1])):
        body.fails_empty()  # onnxruntime (1.31) can't broadcast no matrix and some
    made = _times(nodes.op("MatMul", *sides), node.attribute("alpha", 1.0), node, body)
    if c := node.input(2):
        made = nodes.op("Add", made, _times(body.aligned(c, 2), node.attribute("beta", 1.0), node, body))
    return body.vary([made])


def _times(name: str, factor: float, node: Node, body: Tracer) -> str:
    if factor == 1.0:
        return name
    dtype = dtype_of(body.types[node.inputs[0]].number)
    if dtype is None or dtype.kind != "f":
        raise declined(node, f"multiplies by {factor} what isn't known to be floats")
    return body.nodes.op("Mul", name, body.nodes.constant([factor], dtype))


def folded(node: Node, body: Tracer) -> list[Value]:
    """The iterations go into the axis of samples, which is the first: weights are the same for all."""
    nodes, name = body.nodes, node.inputs[0]
    body.rank_with_axes(name)
    body.fails_empty()
    merged = nodes.merge_first_axes(body.name(name), (body.types[name].shape or ())[1:])
    own = nodes.join_axes(body.count, nodes.unsqueeze(body.length(name, 0), 0))
    results = []
    for made in body.again(node, [merged, *_others(node, body)]):
        rest = nodes.slice(nodes.op("Shape", made), nodes.constant([1]), nodes.constant([1 << 30]), 0)
        results.append(nodes.reshape(made, nodes.join_axes(own, rest)))
    return body.vary(results)


# Picking


def gather(node: Node, body: Tracer) -> list[Value]:
    data, indices = node.inputs
    if data in body.shapes_of_several and body.integers(node, 1) == [0]:
        lengths = body.shapes_of_several[data]
        rank = body.rank(indices)
        return body.vary([body.nodes.unsqueeze(lengths, *range(1, 1 + rank)) if rank else lengths])
    rank = body.rank_with_axes(data)
    (axis,) = places_of(node, [node.attribute("axis", 0)], rank)
    nodes = body.nodes
    if not body.varies(indices):
        made = body.again(node, [body.name(data), body.name(indices)], axis=axis + 1)
        return body.vary(made)
    own = body.rank(indices)
    if not (own or axis) and (rows := body.in_order(data, indices)):
        return body.vary([rows])
    if not body.varies(data):
        at = body.guarded(body.name(indices), own, body.name(data), axis)
        (rows,) = body.again(node, [body.name(data), at])
        if axis:
            order = [axis, *range(axis), *range(axis + 1, rank + own)]
            rows = nodes.op("Transpose", rows, perm=order)
        return body.vary([rows])
    # Each iteration has data and indices of its own: the picked axis comes first, and then goes back.
    tensor = body.name(data)
    if axis:
        order = [0, axis + 1, *(k + 1 for k in range(rank) if k != axis)]
        tensor = nodes.op("Transpose", tensor, perm=order)
    at = nodes.op("Cast", nodes.unsqueeze(body.name(indices), own + 1), to=TensorProto.INT64)
    picked = nodes.op("GatherND", tensor, at, batch_dims=1)
    if axis:
        order = [
            0,
            *(own + 1 + k for k in range(axis)),
            *(1 + k for k in range(own)),
            *(own + 1 + k for k in range(axis, rank - 1)),
        ]
        picked = nodes.op("Transpose", picked, perm=order)
    return body.vary([picked])


def gather_nd(node: Node, body: Tracer) -> list[Value]:
    data, indices = node.inputs
    nbatch = node.attribute("batch_dims", 0)
    if not nbatch and not body.varies(data):
        return body.vary(body.again(node, [body.name(data), body.name(indices)]))
    return body.vary(body.again(node, [body.rows(data), body.rows(indices)], batch_dims=nbatch + 1))


def slice_(node: Node, body: Tracer) -> list[Value]:
    """Bounds are the same for all. Axes that aren't named are the first ones."""
    data = body.name(node.inputs[0])
    rank = body.rank_with_axes(node.inputs[0])
    if node.input(3):
        axes = body.integers(node, 3)
        if axes is None:
            raise declined(node, "cuts axes that only a run tells")
        places = list(map(_behind, axes))
    else:
        shapes = [body.types[name].shape for name in node.inputs[1:3] if name in body.types]
        known = [shape[0] for shape in shapes if shape and isinstance(shape[0], int)]
        if not known or known[0] > rank:
            raise declined(node, "cuts so many axes as only a run tells")
        places = list(range(1, 1 + known[0]))
    if any(body.varies(name) for name in node.inputs[1:3]):
        if len(places) > 1:
            raise declined(node, "cuts another length in each iteration")
        return _cut(node, body, places[0] - 1 if places[0] > 0 else places[0] + rank)
    starts, ends = body.same(node, 1), body.same(node, 2)
    steps = [body.same(node, 4)] if node.input(4) else []
    made = body.again(node, [data, starts, ends, body.nodes.constant(places), *steps])
    return body.vary(made)


def _cut(node: Node, body: Tracer, axis: int) -> list[Value]:
    """A Slice from another start to another end in each iteration, along the first axis."""
    data = node.inputs[0]
    if axis != 0:
        raise declined(node, "cuts another length in each iteration")
    nodes = body.nodes
    total, zero = body.length(data, 0), nodes.constant(0)
    starts, lengths = starts_and_lengths(node, body, total)
    longest = body.longest(lengths)
    row = nodes.constant(1)
    for k in range(1, body.rank(data)):
        row = nodes.op("Mul", row, body.length(data, k)) if k > 1 else body.length(data, k)
    body.padded.append((lengths, longest, row))
    if body.varies(data) and body.integers(node, 1) == [0]:
        end = nodes.unsqueeze(longest, 0)
        return [Value(nodes.slice(body.name(data), nodes.constant([0]), end, 1), True, lengths)]
    tensor = body.name(data)
    last = nodes.op("Sub", total, nodes.constant(1))
    places = nodes.op("Add", nodes.unsqueeze(starts, 1), nodes.op("Range", zero, longest, nodes.constant(1)))
    places = nodes.op("Min", places, last)
    if body.varies(data):
        # The rows of all iterations stand one behind the other.
        tensor = nodes.merge_first_axes(tensor, (body.types[data].shape or ())[1:])
        first = nodes.op("Mul", nodes.op("Range", zero, body.number(), nodes.constant(1)), total)
        places = nodes.op("Add", places, nodes.unsqueeze(first, 1))
    return [Value(nodes.op("Gather", tensor, places, axis=0), True, lengths)]


def starts_and_lengths(node: Node, body: Tracer, total: str) -> tuple[str, str]:
    """Return where a Slice starts in each iteration, and how long it is then: two vectors.

    It cuts along one axis, which is `total` long.
    """
    if node.input(4) and body.integers(node, 4) != [1]:
        raise declined(node, "cuts with a step")
    nodes = body.nodes
    zero = nodes.constant(0)
    cut = _lengths_of_pieces(node, body)
    bounds: list[str] = []
    for name in node.inputs[1:3]:
        bound = body.rows(name)
        if body.rank(name):
            bound = nodes.squeeze(bound, 1)
        if body.types[name].number != TensorProto.INT64:
            bound = nodes.op("Cast", bound, to=TensorProto.INT64)
        if cut is not None:
            bounds.append(nodes.op("Min", bound, total) if bounds and not cut else bound)
            continue
        if is_never_negative(body.prepared, name):
            bounds.append(nodes.op("Min", bound, total))
            continue
        back = nodes.op("Where", nodes.op("Less", bound, zero), nodes.op("Add", bound, total), bound)
        bounds.append(nodes.clip(back, zero, total))
    starts, ends = bounds
    lengths = cut or nodes.op("Sub", ends, starts)
    return starts, lengths if cut is not None else nodes.op("Max", lengths, zero)


def _lengths_of_pieces(node: Node, body: Tracer) -> str | None:
    """Return the lengths of the pieces of a split if a Slice makes these, "" for lengths that aren't at hand.

    Their bounds are known to lie in the tensor, except the last end. None stands for another Slice.
    """
    makers = [body.prepared.producer(name) for name in node.inputs[1:3]]
    if not all(maker and maker.is_op("Gather") for maker in makers):
        return None
    (starts, one), (ends, other) = (maker.inputs for maker in makers if maker)
    cuts = body.nodes.builder.cuts
    if one != other or (node.inputs[0], starts, ends) not in cuts:
        return None
    tables = zip(node.inputs[1:3], (starts, ends), strict=True)
    is_in_order = all(body.name(name) == table for name, table in tables)
    return cuts[node.inputs[0], starts, ends] if is_in_order else ""


# Shapes


def shape(node: Node, body: Tracer) -> list[Value]:
    """It is the same in all iterations."""
    nodes = body.nodes
    start, end = ends_of_shape(node, body.rank(node.inputs[0]))
    lengths = nodes.op("Shape", body.name(node.inputs[0]))
    return [Value(nodes.slice(lengths, nodes.constant([start + 1]), nodes.constant([end + 1]), 0), False)]


def ends_of_shape(node: Node, rank: int) -> tuple[int, int]:
    """Return between which axes a Shape looks."""
    start, end, _ = slice(node.attribute("start", 0), node.attribute("end", rank)).indices(rank)
    return start, end


def size(node: Node, body: Tracer) -> list[Value]:
    nodes = body.nodes
    (lengths, *_) = shape(Node("Shape", node.inputs, node.outputs, node.name), body)[0]
    return [Value(nodes.product(lengths), False)]


def reshape(node: Node, body: Tracer) -> list[Value]:
    """A 0 in front takes over the number of iterations, and zeros behind it still mean their own place."""
    nodes = body.nodes
    tensor, wanted = body.name(node.inputs[0]), body.same(node, 1)
    if not body.varies(node.inputs[0]):
        raise declined(node, "goes by another shape in each iteration")
    fixed = _without_rest(body.integers(node, 1), body.types[node.inputs[0]].shape)
    if fixed is None or -1 in fixed:
        body.fails_empty()
    if node.attribute("allowzero", 0) and (fixed is None or 0 in fixed):
        count = nodes.slice(nodes.op("Shape", tensor), nodes.constant([0]), nodes.constant([1]), 0)
        whole = nodes.join_axes(count, wanted)
        return body.vary([nodes.reshape(tensor, whole)])
    whole = nodes.join_axes([0], wanted) if fixed is None else nodes.constant([0, *fixed])
    return body.vary([nodes.op("Reshape", tensor, whole)])


def _without_rest(wanted: list[int] | None, shape: Shape) -> list[int] | None:
    """Return the shape that a Reshape wants, with a length in place of -1 if the tensor's shape tells."""
    if wanted is None or wanted.count(-1) != 1 or 0 in wanted or shape is None:
        return wanted
    lengths = [length for length in shape if isinstance(length, int)]
    others = -math.prod(wanted)
    if len(lengths) < len(shape) or math.prod(lengths) % others:
        return wanted
    return [math.prod(lengths) // others if length == -1 else length for length in wanted]


def flatten(node: Node, body: Tracer) -> list[Value]:
    lengths = body.types[node.inputs[0]].shape or ("",)
    fixed = [length for length in lengths if isinstance(length, int) and length]
    if len(fixed) < len(lengths):
        raise declined(node, "flattens lengths that only a run tells")
    axis = node.attribute("axis", 1)
    axis += len(fixed) * (axis < 0)
    whole = body.nodes.constant([0, math.prod(fixed[:axis]), math.prod(fixed[axis:])])
    return body.vary([body.nodes.op("Reshape", body.name(node.inputs[0]), whole)])


def transpose(node: Node, body: Tracer) -> list[Value]:
    order = node.attribute("perm", list(range(body.rank(node.inputs[0])))[::-1])
    made = body.again(node, [body.name(node.inputs[0])], perm=[0, *(k + 1 for k in order)])
    return body.vary(made)


def unsqueeze(node: Node, body: Tracer) -> list[Value]:
    axes = _axes_of(node, body)
    return body.vary([body.nodes.unsqueeze(body.name(node.inputs[0]), *map(_behind, axes))])


def squeeze(node: Node, body: Tracer) -> list[Value]:
    if not node.input(1):
        known = body.types[node.inputs[0]].shape
        if known is None or not all(isinstance(length, int) for length in known):
            raise declined(node, "squeezes axes that only a run tells")
        axes = [k for k, length in enumerate(known) if length == 1]
        if not axes:
            return body.vary([body.nodes.op("Identity", body.name(node.inputs[0]))])
    elif not (axes := _axes_of(node, body)):
        raise declined(node, "squeezes none of its axes, which means all to onnxruntime,")
    return body.vary([body.nodes.squeeze(body.name(node.inputs[0]), *map(_behind, axes))])


def _axes_of(node: Node, body: Tracer) -> list[int]:
    axes = body.integers(node, 1)
    if axes is None:
        raise declined(node, "goes by axes that only a run tells")
    return axes


def expand(node: Node, body: Tracer) -> list[Value]:
    nodes = body.nodes
    wanted = body.same(node, 1)
    lengths = body.types[node.inputs[1]].shape if node.inputs[1] in body.types else None
    n = lengths[0] if lengths and len(lengths) == 1 else None
    if not isinstance(n, int):
        raise declined(node, "expands to a rank that only a run tells")
    own = body.rank(node.inputs[0])
    ones = nodes.constant([1] * (1 + max(own - n, 0)))
    tensor = body.aligned(node.inputs[0], max(own, n))
    return body.vary([nodes.op("Expand", tensor, nodes.join_axes(ones, wanted))])


def tile(node: Node, body: Tracer) -> list[Value]:
    repeats = body.nodes.join_axes([1], body.same(node, 1))
    return body.vary(body.again(node, [body.name(node.inputs[0]), repeats]))


def pad(node: Node, body: Tracer) -> list[Value]:
    """No padding before and behind the iterations: the pads are all starts, then all ends."""
    nodes = body.nodes
    rank = body.rank_with_axes(node.inputs[0])
    if node.input(3):
        raise declined(node, "names the axes that it pads")
    pads = body.same(node, 1)
    middle, end, zero = nodes.constant([rank]), nodes.constant([2 * rank]), nodes.constant([0])
    whole = nodes.join_axes([0], nodes.slice(pads, zero, middle, 0), [0], nodes.slice(pads, middle, end, 0))
    value = [body.same(node, 2)] if node.input(2) else []
    return body.vary(body.again(node, [body.name(node.inputs[0]), whole, *value]))


def einsum(node: Node, body: Tracer) -> list[Value]:
    """A letter more, in front of what varies and of the result."""
    sides = node.attribute("equation", b"").decode().replace(" ", "").split("->")
    letter = next((one for one in "zyxwvutsrq" if one not in "".join(sides)), "")
    if len(sides) != 2 or "." in "".join(sides) or not letter:
        raise declined(node, "has no letter to spare")
    terms = [
        letter * body.varies(name) + term for name, term in zip(node.inputs, sides[0].split(","), strict=True)
    ]
    equation = f"{','.join(terms)}->{letter}{sides[1]}"
    return body.vary(body.again(node, [body.name(name) for name in node.inputs], equation=equation))


def only_same(node: Node, body: Tracer) -> list[Value]:
    """Decline: the output would have another shape in each iteration."""
    raise declined(node, "makes another shape in each iteration")


# If: both branches for all iterations, and a Where.
#
#     y = If (c) {a = Neg (x)} {b = Exp (x)}    ──▶    y = Where (c, Neg (x), Exp (x))
#
# So branches have to be short, and nothing in them may fail in an iteration that would not have taken them. A
# position is 0 there.

# onnxruntime's Where takes these.
_CHOSEN = ("float32", "float64", "int32", "int64", "uint8")


def choose(node: Node, body: Tracer) -> list[Value]:
    """The rule for If."""
    condition = node.inputs[0]
    then, otherwise = node.graphs["then_branch"], node.graphs["else_branch"]
    if sum(1 for branch in (then, otherwise) for _ in branch.all_nodes()) > LONGEST_BRANCHES:
        raise Declined(f"has long branches at {node.label()}")
    nodes = body.nodes
    taken = body.rows(condition)
    if body.rank(condition):
        taken = nodes.op("Reshape", taken, nodes.constant([-1]))
    not_taken = nodes.op("Not", taken)
    for branch, where in ((then, taken), (otherwise, not_taken)):
        with body.where(where):
            body.follow(branch.nodes)
    made = []
    for one, other in zip(then.outputs, otherwise.outputs, strict=True):
        if one == other or (not body.varies(one) and body.name(one) == body.name(other)):
            made.append(body.values.get(one, Value(one, False)))
            continue
        made.append(Value(_chosen(node, one, other, taken, body), True))
    return made


def _chosen(node: Node, one: str, other: str, taken: str, body: Tracer) -> str:
    nodes, types = body.nodes, body.types
    dtype = dtype_of(types[one].number)
    if body.lengths(one) or body.lengths(other):
        raise Declined(f"has elements of several lengths at {node.label()}")
    shape = types[one].shape
    if shape is None or None in shape or shape != types[other].shape:
        raise Declined(f"may get values of several shapes from {node.label()}")
    if len(shape):
        taken = nodes.unsqueeze(taken, *range(1, 1 + len(shape)))
    if dtype == "bool":
        yes = nodes.op("And", taken, body.name(one))
        return nodes.op("Or", yes, nodes.op("And", nodes.op("Not", taken), body.name(other)))
    if dtype is None or dtype.name not in _CHOSEN:
        raise Declined(f"chooses between values of such a type at {node.label()}")
    return nodes.op("Where", taken, body.name(one), body.name(other))
