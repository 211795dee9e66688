"""The operators on tensors alone: what types and shapes they give, and which of them are elementwise.

onnxruntime runs them all. A row of the table says what is known of some; of others onnx is asked for types,
and the worst is believed of everything else.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from onnx import TensorProto

from seqcore.onnx._model.graph import Node
from seqcore.onnx._model.inference import Inference
from seqcore.onnx._model.record import Operator, axis_from_front, register_record
from seqcore.onnx._model.tensors import from_tensor_proto
from seqcore.onnx._model.types import UNKNOWN, Length, Shape, Type, tensor
from seqcore.onnx._thresholds import MOST_FOLLOWED
from seqcore.onnx._vmap import ragged, rules, safety
from seqcore.onnx._vmap.tracer import BatchRule

Rule = Callable[[Node, "Inference"], Type]


class TensorOperator(Operator):
    """An operator on tensors: `rule` tells the type of its first output."""

    def __init__(
        self,
        rule: Rule | None = None,
        *,
        never_fails: bool = False,
        broadcasts: bool = False,
        elementwise: bool = False,
        draws: bool = False,
        numpy: Callable[..., Any] | None = None,
        batch_rule: BatchRule | None = None,
    ) -> None:
        self._rule = rule
        default = _BROADCAST_RULE if broadcasts else _ELEMENTWISE_RULE if elementwise else None
        self.batch_rule = batch_rule or default
        self.never_fails, self.draws, self.numpy = never_fails, draws, numpy
        self.broadcasts, self.elementwise = broadcasts, elementwise

    def infer(self, node: Node, known: Inference) -> list[Type]:
        if self._rule is None:
            return known.by_onnx(node)
        if not all(known.type(name).is_tensor for name in node.inputs if name):
            return [UNKNOWN] * len(node.outputs)  # `check_kinds` says so
        first = self._rule(node, known)
        return [first] + [UNKNOWN] * (len(node.outputs) - 1)

    def shares(self, node: Node) -> Iterator[tuple[str, str]]:
        return iter(())  # onnxruntime's results have memory of their own


_BROADCAST_RULE = BatchRule(
    rules.broadcast,
    ragged.broadcast,
    fits=safety.broadcast_fits,
    adds_none=safety.broadcast_adds_none,
    runs_empty=True,
)
_ELEMENTWISE_RULE = BatchRule(rules.elementwise, ragged.elementwise, runs_empty=True, adds_none=True)
_SOFTMAX_RULE = BatchRule(rules.along_last, ragged.softmax, adds_none=True)
_ALONG_LAST_RULE = BatchRule(rules.along_last, ragged.along_last, adds_none=True)
_REDUCE_RULE = BatchRule(rules.reduce, ragged.reduce, runs_empty=True, adds_none=True)
_FOLDED_RULE = BatchRule(rules.folded)


# Rules


def same(node: Node, known: Inference) -> Type:
    """The type and shape of the first input."""
    type_ = known.type(node.inputs[0])
    return tensor(type_.number, type_.shape) if type_.is_tensor else UNKNOWN


def broadcast(node: Node, known: Inference) -> Type:
    """The first input's type, all inputs' shapes broadcast."""
    return tensor(known.type(node.inputs[0]).number, _broadcast(node.inputs, known))


def compare(node: Node, known: Inference) -> Type:
    return tensor(TensorProto.BOOL, _broadcast(node.inputs, known))


def _comparison(function: Callable[[Any, Any], bool]) -> Rule:
    def rule(node: Node, known: Inference) -> Type:
        type_ = compare(node, known)
        one, other = (known.numbers_of(name) for name in node.inputs)
        if type_.rank in (0, 1) and one and other and len(one) == len(other):
            pairs = zip(one, other, strict=True)
            made = [int(function(a, b)) if _are_integers(a, b) else None for a, b in pairs]
            if made.count(None) < len(made):
                known.numbers[node.outputs[0]] = tuple(made)
        return type_

    return rule


def negation(node: Node, known: Inference) -> Type:
    numbers = known.numbers_of(node.inputs[0])
    if numbers is not None and _are_integers(*numbers):
        known.numbers[node.outputs[0]] = tuple(int(not number) for number in numbers)
    return same(node, known)


def where(node: Node, known: Inference) -> Type:
    type_ = tensor(known.type(node.inputs[1]).number, _broadcast(node.inputs, known))
    taken, one, other = (known.numbers_of(name) for name in node.inputs)
    is_followed = type_.number == TensorProto.INT64 and type_.rank in (0, 1)
    if is_followed and taken and one and other and len(taken) == len(one) == len(other):
        rows = zip(taken, one, other, strict=True)
        known.numbers[node.outputs[0]] = tuple(
            (a if is_taken else b) if isinstance(is_taken, int) or a == b else None for is_taken, a, b in rows
        )
    return type_


def _broadcast(names: list[str], known: Inference) -> Shape:
    shapes = [known.shape(name) for name in names]
    if known.model.opset < 7:  # before, binary operators broadcast by attributes
        return shapes[0]
    lengths: list[Any] = []
    for shape in shapes:
        if shape is None:
            return None
        lengths = [1] * (len(shape) - len(lengths)) + lengths
        for k, length in enumerate(reversed(shape), 1):
            lengths[-k] = _one_of(lengths[-k], length)
    return tuple(lengths)


def _one_of(one: Length, other: Length) -> Length:
    """The length of an axis on which two tensors are broadcast."""
    if one == other or other == 1:
        return one
    if one == 1:
        return other
    if isinstance(one, int):
        return one  # the other has to be that, or 1
    return other if isinstance(other, int) else None


def cast(node: Node, known: Inference) -> Type:
    if node.attribute("to") == TensorProto.INT64:
        _pass_numbers(node, known)
    elif node.attribute("to") == TensorProto.BOOL:
        numbers = known.numbers_of(node.inputs[0])
        if numbers is not None and _are_integers(*numbers):
            known.numbers[node.outputs[0]] = tuple(int(n != 0) for n in numbers)
    return tensor(node.attribute("to", 0), known.shape(node.inputs[0]))


def cast_like(node: Node, known: Inference) -> Type:
    return tensor(known.type(node.inputs[1]).number, known.shape(node.inputs[0]))


def condition_like(node: Node, known: Inference) -> Type:
    return tensor(TensorProto.BOOL, known.shape(node.inputs[0]))


def shape_of(node: Node, known: Inference) -> Type:
    shape = known.shape(node.inputs[0])
    if shape is None:
        return tensor(TensorProto.INT64, (None,))
    shape = shape[node.attribute("start", 0) : node.attribute("end", None)]
    known.numbers[node.outputs[0]] = shape
    return tensor(TensorProto.INT64, (len(shape),))


def size_of(node: Node, known: Inference) -> Type:
    shape = known.shape(node.inputs[0])
    lengths = [length for length in shape or () if isinstance(length, int)]
    if shape is not None and len(lengths) == len(shape):
        known.numbers[node.outputs[0]] = (math.prod(lengths),)
    return tensor(TensorProto.INT64, ())


def matmul(node: Node, known: Inference) -> Type:
    number = known.type(node.inputs[0]).number
    one, other = (known.shape(name) for name in node.inputs[:2])
    if one is None or other is None or not one or not other:
        return tensor(number)
    rows = one[-2:-1]
    columns = other[-1:] if len(other) > 1 else ()
    batches: list[Any] = []
    for shape in (one[:-2], other[:-2]):
        batches = [1] * (len(shape) - len(batches)) + batches
        for k, length in enumerate(reversed(shape), 1):
            batches[-k] = _one_of(batches[-k], length)
    return tensor(number, (*batches, *rows, *columns))


def gemm(node: Node, known: Inference) -> Type:
    number = known.type(node.inputs[0]).number
    one, other = (known.shape(name) for name in node.inputs[:2])
    if one is None or other is None or len(one) != 2 or len(other) != 2:
        return tensor(number, (None, None))
    rows = one[1] if node.attribute("transA", 0) else one[0]
    columns = other[0] if node.attribute("transB", 0) else other[1]
    return tensor(number, (rows, columns))


def gather(node: Node, known: Inference) -> Type:
    number = known.type(node.inputs[0]).number
    data, indices = (known.shape(name) for name in node.inputs[:2])
    if data is None or indices is None:
        return tensor(number)
    axis = axis_from_front(node.attribute("axis", 0), len(data))
    if axis is None:
        return tensor(number)
    numbers, at = known.numbers_of(node.inputs[0]), known.numbers_of(node.inputs[1])
    if numbers is not None and at is not None and len(indices) < 2 and len(data) == 1:
        picked = [k for k in at if isinstance(k, int) and -len(numbers) <= k < len(numbers)]
        if len(picked) == len(at):
            known.numbers[node.outputs[0]] = tuple(numbers[k] for k in picked)
    return tensor(number, (*data[:axis], *indices, *data[axis + 1 :]))


def unsqueeze(node: Node, known: Inference) -> Type:
    type_, axes = known.type(node.inputs[0]), _axes_of(node, known)
    if type_.shape is None or axes is None:
        return tensor(type_.number)
    rank = len(type_.shape) + len(axes)
    places = {axis_from_front(axis, rank) for axis in axes}
    if None in places or len(places) < len(axes):
        return tensor(type_.number)
    _pass_numbers(node, known, rank)
    rest = iter(type_.shape)
    return tensor(type_.number, tuple(1 if k in places else next(rest) for k in range(rank)))


def squeeze(node: Node, known: Inference) -> Type:
    type_, axes = known.type(node.inputs[0]), _axes_of(node, known)
    if type_.shape is None:
        return tensor(type_.number)
    if axes is None:
        is_told = not node.input(1) and not any(length is None for length in type_.shape)
        if not is_told or any(isinstance(length, str) for length in type_.shape):
            return tensor(type_.number)
        axes = [k for k, length in enumerate(type_.shape) if length == 1]
    elif not axes:
        return tensor(type_.number)  # to onnxruntime that is none given
    places = {axis_from_front(axis, len(type_.shape)) for axis in axes}
    _pass_numbers(node, known, len(type_.shape) - len(places))
    return tensor(type_.number, tuple(n for k, n in enumerate(type_.shape) if k not in places))


def _axes_of(node: Node, known: Inference) -> list[int] | None:
    given = node.attribute("axes")
    if given is None and node.input(1):
        axes = known.constant(node.input(1))
        given = None if axes is None else axes.reshape(-1)
    return None if given is None else list(map(int, given))


def _pass_numbers(node: Node, known: Inference, rank: int = 1) -> None:
    """Hand integers on from the first input to an output of a rank."""
    if rank < 2 and (numbers := known.numbers_of(node.inputs[0])) is not None:
        known.numbers[node.outputs[0]] = numbers


def concat(node: Node, known: Inference) -> Type:
    number = known.type(node.inputs[0]).number
    shapes = [known.shape(name) for name in node.inputs]
    ranks = {None if shape is None else len(shape) for shape in shapes}
    rank = ranks.pop()
    if rank is None or ranks:
        return tensor(number)
    axis = axis_from_front(node.attribute("axis", 0), rank)
    if axis is None:
        return tensor(number)
    parts = [known.numbers_of(name) for name in node.inputs]
    if rank == 1 and number == TensorProto.INT64 and any(part for part in parts):
        for k, shape in enumerate(shapes):
            n = shape[0] if shape else None
            if parts[k] is None and isinstance(n, int) and n <= MOST_FOLLOWED:
                parts[k] = (None,) * n
    if rank == 1 and all(part is not None for part in parts):
        known.numbers[node.outputs[0]] = tuple(n for part in parts if part for n in part)
    lengths: list[Any] = []
    for k in range(rank):
        own = [shape[k] for shape in shapes if shape is not None]
        if k == axis:
            numbers = [length for length in own if isinstance(length, int)]
            lengths.append(sum(numbers) if len(numbers) == len(own) else None)
        else:
            lengths.append(next((length for length in own if isinstance(length, int)), own[0]))
    return tensor(number, tuple(lengths))


def transpose(node: Node, known: Inference) -> Type:
    type_ = known.type(node.inputs[0])
    if type_.shape is None:
        return tensor(type_.number)
    order = node.attribute("perm", list(range(len(type_.shape)))[::-1])
    if sorted(order) != list(range(len(type_.shape))):
        return tensor(type_.number)
    return tensor(type_.number, tuple(type_.shape[k] for k in order))


def reshape(node: Node, known: Inference) -> Type:
    type_, wanted = known.type(node.inputs[0]), _wanted(node.input(1), known)
    if wanted is None:
        return tensor(type_.number)
    old = type_.shape
    name = next((length for length in wanted if isinstance(length, str)), None)
    # A tensor without items, where only this length is 0, has no other that could be copied for it.
    is_safe = name and all(
        all(one == name or (isinstance(one, int) and one > 0) for one in lengths) and lengths.count(name) == 1
        for lengths in (wanted, old or ())
    )
    lengths: list[Any] = []
    for k, length in enumerate(wanted):
        if not node.attribute("allowzero", 0):
            own = old[k] if old is not None and k < len(old) else None
            if length == 0:
                length = own
            elif isinstance(length, str) and length != own and not is_safe:
                length = None  # it may be 0 in a run
        lengths.append(length)
    if -1 in lengths:
        lengths[lengths.index(-1)] = _what_is_left(old, lengths)
    _pass_numbers(node, known, len(lengths))
    return tensor(type_.number, tuple(lengths))


def _what_is_left(old: Shape, lengths: list[Any]) -> Length:
    """The length for -1 in a Reshape."""
    if old is None:
        return None
    before, after = list[Any](old), [length for length in lengths if length != -1]
    for name in [length for length in after if isinstance(length, str)]:
        if name in before:
            before.remove(name)
            after.remove(name)
    known = next((length for length in before if isinstance(length, str)), None)
    if known is not None:
        before.remove(known)
    if not all(isinstance(length, int) for length in (*before, *after)):
        return None
    size, rest = math.prod(map(int, before)), math.prod(map(int, after))
    if known is not None:
        return known if size == rest > 0 else None
    return size // rest if rest and size % rest == 0 else None


def resize(node: Node, known: Inference) -> Type:
    """Its sizes are the shape, whatever it gets."""
    sizes = known.numbers_of(node.inputs[3]) if node.input(3) else None
    policy = node.attribute("keep_aspect_ratio_policy", b"stretch")
    if sizes is None or policy != b"stretch" or node.attribute("axes") is not None:
        return known.by_onnx(node)[0]
    return tensor(known.type(node.inputs[0]).number, tuple(sizes))


def expand(node: Node, known: Inference) -> Type:
    type_, wanted = known.type(node.inputs[0]), _wanted(node.inputs[1], known)
    if type_.shape is None or wanted is None:
        return tensor(type_.number)
    rank = max(len(type_.shape), len(wanted))
    numbers = known.numbers_of(node.inputs[0]) if rank == 1 else None
    if (
        numbers is not None
        and len(numbers) == 1
        and isinstance(wanted[0], int)
        and 0 < wanted[0] <= MOST_FOLLOWED
    ):
        known.numbers[node.outputs[0]] = numbers * wanted[0]
    own, lengths = ((1,) * (rank - len(one)) + tuple(one) for one in (type_.shape, wanted))
    return tensor(type_.number, tuple(_one_of(a, b) for a, b in zip(own, lengths, strict=True)))


def _wanted(name: str, known: Inference) -> tuple[Length, ...] | None:
    """Return the shape that a vector of lengths stands for, None where not even the rank is known."""
    numbers = known.numbers_of(name)
    if numbers is not None:
        return numbers
    vector = known.shape(name)
    rank = vector[0] if vector is not None and len(vector) == 1 else None
    return (None,) * rank if isinstance(rank, int) else None


def constant_of_shape(node: Node, known: Inference) -> Type:
    number = node.tensor("value").data_type if "value" in node.attribute_names() else TensorProto.FLOAT
    shape = _wanted(node.inputs[0], known)
    if number == TensorProto.INT64 and shape is not None and len(shape) == 1:
        n = shape[0]
        if isinstance(n, int) and n <= MOST_FOLLOWED:
            known.numbers[node.outputs[0]] = (
                int(from_tensor_proto(node.tensor("value")).reshape(-1)[0]),
            ) * n
    return tensor(number, shape)


def slice_(node: Node, known: Inference) -> Type:
    type_ = known.type(node.inputs[0])
    if type_.shape is None:
        return tensor(type_.number)
    rank = len(type_.shape)
    if len(node.inputs) < 3:  # before opset 10 in attributes
        starts, ends = node.attribute("starts"), node.attribute("ends")
        axes, steps = node.attribute("axes"), None
    else:
        starts, ends, axes, steps = (
            known.numbers_of(node.input(k)) if node.input(k) else None for k in (1, 2, 3, 4)
        )
        if (node.input(3) and axes is None) or (node.input(4) and steps is None):
            return tensor(type_.number, (None,) * rank)
    if axes is None:
        # So many axes as there are starts, which may not be known.
        given = starts if starts is not None else ends
        axes = range(rank if given is None else len(given))
    lengths: list[Any] = list(type_.shape)
    for i, axis in enumerate(axes):
        k = axis_from_front(axis, rank) if isinstance(axis, int) else None
        if k is None:
            return tensor(type_.number, (None,) * rank)
        start, end = (_item(one, i) for one in (starts, ends))
        step = 1 if steps is None else _item(steps, i)
        length, lengths[k] = lengths[k], None
        if all(isinstance(one, int) for one in (start, end, step, length)) and step:
            stop = None if step < 0 and end < -length else end
            # Going backwards, onnxruntime begins with the first item where a start lies before it, and takes
            # the largest integers for an end that is before all.
            is_told = step > 0 or (-length <= start and end not in (2**31 - 1, 2**63 - 1))
            lengths[k] = len(range(*slice(start, stop, step).indices(length))) if is_told else None
    numbers = known.numbers_of(node.inputs[0])
    fixed: list[Any] = [one[0] if one else None for one in (starts, ends, steps or [1])]
    if rank == 1 and numbers is not None and all(isinstance(one, int) for one in fixed) and fixed[2] == 1:
        known.numbers[node.outputs[0]] = numbers[fixed[0] : fixed[1]]
    return tensor(type_.number, tuple(lengths))


def _item(numbers: Any, i: int) -> Any:
    return numbers[i] if numbers is not None and i < len(numbers) else None


def reduce(node: Node, known: Inference) -> Type:
    type_, axes = known.type(node.inputs[0]), _axes_of(node, known)
    keeps = node.attribute("keepdims", 1)
    if type_.shape is None:
        is_all = axes is None and not node.input(1) and not keeps
        return tensor(type_.number, () if is_all and not node.attribute("noop_with_empty_axes", 0) else None)
    if axes is None or not axes:
        if (axes is None and node.input(1)) or node.attribute("noop_with_empty_axes", 0):
            return tensor(type_.number, (None,) * len(type_.shape) if keeps else None)
        axes = list(range(len(type_.shape)))
    places = {axis_from_front(axis, len(type_.shape)) for axis in axes}
    if keeps:
        return tensor(type_.number, tuple(1 if k in places else n for k, n in enumerate(type_.shape)))
    return tensor(type_.number, tuple(n for k, n in enumerate(type_.shape) if k not in places))


def arg_reduce(node: Node, known: Inference) -> Type:
    shape = known.shape(node.inputs[0])
    if shape is None:
        return tensor(TensorProto.INT64)
    k = axis_from_front(node.attribute("axis", 0), len(shape))
    if k is None:
        return tensor(TensorProto.INT64)
    kept = (1,) if node.attribute("keepdims", 1) else ()
    return tensor(TensorProto.INT64, (*shape[:k], *kept, *shape[k + 1 :]))


def range_(node: Node, known: Inference) -> Type:
    numbers: list[Any] = [known.numbers_of(name) for name in node.inputs]
    number = known.type(node.inputs[0]).number
    if all(one is not None and len(one) == 1 and isinstance(one[0], int) for one in numbers):
        start, end, step = (one[0] for one in numbers if one)
        return tensor(number, (len(range(start, end, step)),) if step else (None,))
    return tensor(number, (None,))


def _arithmetic(function: Callable[[Any, Any], int | None]) -> Rule:
    def rule(node: Node, known: Inference) -> Type:
        type_ = broadcast(node, known)
        one, other = (known.numbers_of(name) for name in (*node.inputs, "")[:2])
        is_followed = type_.number == TensorProto.INT64 and type_.rank in (0, 1) and len(node.inputs) == 2
        if is_followed and one and other:
            n = max(len(one), len(other))
            one, other = (numbers * n if len(numbers) == 1 else numbers for numbers in (one, other))
            pairs = zip(one, other, strict=False)
            numbers = [function(a, b) if _are_integers(a, b) else None for a, b in pairs]
            if len(numbers) == n:
                known.numbers[node.outputs[0]] = tuple(
                    number if number is not None and abs(number) < 1 << 62 else None for number in numbers
                )
        return type_

    return rule


def _quotient(a: int, b: int) -> int | None:
    """Return a / b as ONNX's Div rounds it, towards 0; None for no result."""
    return None if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _are_integers(*lengths: Length) -> bool:
    return all(isinstance(length, int) for length in lengths)


# The table


def _rows(op_types: str, rule: Rule | None, **known: Any) -> None:
    for op_type in op_types.split():
        register_record(op_type, TensorOperator(rule, **known))


_BROADCAST = {"broadcasts": True}
_SAFE = {"broadcasts": True, "never_fails": True}

_rows("Add", _arithmetic(lambda a, b: a + b), numpy=np.add, **_SAFE)
_rows("Sub", _arithmetic(lambda a, b: a - b), numpy=np.subtract, **_SAFE)
_rows("Mul", _arithmetic(lambda a, b: a * b), numpy=np.multiply, **_SAFE)
_rows("Div", _arithmetic(_quotient), batch_rule=_BROADCAST_RULE._replace(divides=safety.divides), **_SAFE)
_rows("Max", _arithmetic(max), **_SAFE)
_rows("Min", _arithmetic(min), **_SAFE)
_rows("Pow", broadcast, **_SAFE)
_rows("Mod", broadcast, batch_rule=_BROADCAST_RULE._replace(divides=safety.divides), **_BROADCAST)
_rows("Sum Mean", broadcast, **_BROADCAST)
_rows(
    "PRelu",
    same,
    batch_rule=_BROADCAST_RULE._replace(apply=rules.broadcast_to_first, ragged=None),
    **_BROADCAST,
)
_rows("Where", where, **_SAFE)
_rows("Equal", _comparison(lambda a, b: a == b), numpy=np.equal, **_SAFE)
_rows("Greater", _comparison(lambda a, b: a > b), numpy=np.greater, **_SAFE)
_rows("GreaterOrEqual", _comparison(lambda a, b: a >= b), numpy=np.greater_equal, **_SAFE)
_rows("Less", _comparison(lambda a, b: a < b), numpy=np.less, **_SAFE)
_rows("LessOrEqual", _comparison(lambda a, b: a <= b), numpy=np.less_equal, **_SAFE)
_rows("And", _comparison(lambda a, b: a and b), numpy=np.logical_and, **_SAFE)
_rows("Or", _comparison(lambda a, b: a or b), numpy=np.logical_or, **_SAFE)
_rows("Xor", compare, numpy=np.logical_xor, **_SAFE)
_rows("BitwiseAnd BitwiseOr BitwiseXor", broadcast, broadcasts=True)
_rows("BitShift", broadcast, **_BROADCAST)
_rows("Not", negation, elementwise=True, never_fails=True, numpy=np.logical_not)
_rows("Neg Abs BitwiseNot", same, elementwise=True, never_fails=True)
_rows(
    "Ceil Cos Erf Exp Floor LeakyRelu Log Relu Sigmoid Sin Sqrt Tanh",
    same,
    elementwise=True,
    never_fails=True,
)
_rows(
    "Acos Acosh Asin Asinh Atan Atanh Celu Cosh Elu Gelu HardSigmoid HardSwish Mish Reciprocal Round Selu "
    "Shrink Sign Sinh Softplus Softsign Swish Tan ThresholdedRelu",
    same,
    elementwise=True,
)
_rows("IsInf IsNaN", condition_like, elementwise=True)
_rows("Cast", cast, elementwise=True, never_fails=True)
_rows(
    "CastLike",
    cast_like,
    elementwise=True,
    batch_rule=_ELEMENTWISE_RULE._replace(apply=rules.cast_like, ragged=None),
)
_rows("Clip", same, never_fails=True, batch_rule=_ELEMENTWISE_RULE)
_rows("Softmax", same, never_fails=True, batch_rule=_SOFTMAX_RULE)
_rows("LogSoftmax Hardmax", same, batch_rule=_SOFTMAX_RULE._replace(runs_empty=True))
_rows(
    "CumSum",
    same,
    batch_rule=BatchRule(rules.cum_sum, runs_empty=True, adds_none=True),
)
_rows("ScatterElements", same, batch_rule=BatchRule(rules.concat))
_rows("ScatterND", same)
_rows("Dropout", same, draws=True)
_rows("LayerNormalization", same, batch_rule=_ALONG_LAST_RULE)
_rows("InstanceNormalization", same, batch_rule=_FOLDED_RULE)
_rows("Trilu", None, batch_rule=_ELEMENTWISE_RULE._replace(runs_empty=False))
_rows("Shape", shape_of, never_fails=True, batch_rule=BatchRule(rules.shape, ragged.shape))
_rows("Size", size_of, never_fails=True, batch_rule=BatchRule(rules.size))
_rows(
    "MatMul",
    matmul,
    never_fails=True,
    batch_rule=BatchRule(rules.matmul, ragged.matmul, fits=safety.matmul_fits),
)
_rows("Gemm", gemm, never_fails=True, batch_rule=BatchRule(rules.gemm, ragged.gemm, fits=safety.gemm_fits))
_rows(
    "Transpose",
    transpose,
    never_fails=True,
    batch_rule=BatchRule(rules.transpose, ragged.transpose, adds_none=True),
)
_rows(
    "Unsqueeze",
    unsqueeze,
    never_fails=True,
    batch_rule=BatchRule(rules.unsqueeze, ragged.unsqueeze, adds_none=True),
)
_rows(
    "Squeeze",
    squeeze,
    batch_rule=BatchRule(
        rules.squeeze,
        ragged.squeeze,
        runs_empty=safety.squeeze_runs_empty,
        adds_none=True,
    ),
)
_rows("Flatten", None, never_fails=True, batch_rule=BatchRule(rules.flatten, adds_none=True))
_rows(
    "Gather",
    gather,
    batch_rule=BatchRule(
        rules.gather, ragged.gather, runs_empty=safety.gather_runs_empty, in_branch=safety.gather_in_branch
    ),
)
_rows("GatherND", None, batch_rule=BatchRule(rules.gather_nd))
_rows("GatherElements", None, batch_rule=BatchRule(rules.concat))
_rows(
    "Concat",
    concat,
    batch_rule=BatchRule(
        rules.concat,
        ragged.concat,
        fits=safety.concat_fits,
        minds_shapes_only=True,
        adds_none=True,
        runs_empty=True,
    ),
)
_rows("Split", None, batch_rule=BatchRule(rules.along_first, adds_none=True))
_rows("Reshape", reshape, batch_rule=BatchRule(rules.reshape, runs_empty=True, adds_none=True))
_rows("Resize", resize)
_rows("Expand", expand, batch_rule=BatchRule(rules.expand))
_rows("Tile", None, batch_rule=BatchRule(rules.tile))
_rows("Pad", None, batch_rule=BatchRule(rules.pad))
_rows(
    "ConstantOfShape",
    constant_of_shape,
    batch_rule=BatchRule(rules.only_same, fits=safety.is_shape, minds_shapes_only=True),
)
_rows(
    "Slice",
    slice_,
    batch_rule=BatchRule(rules.slice_, ragged.slice_, runs_empty=True, adds_none=True),
)
_rows("Range", range_, batch_rule=BatchRule(rules.only_same))
_rows("NonZero", None, batch_rule=BatchRule(rules.only_same))
_rows("ReduceMean ReduceSum", reduce, never_fails=True, batch_rule=_REDUCE_RULE)
_rows("ReduceMax ReduceMin", reduce, batch_rule=_REDUCE_RULE._replace(in_branch=safety.extreme_in_branch))
_rows(
    "ReduceProd ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceSumSquare",
    reduce,
    batch_rule=_REDUCE_RULE,
)
_rows("ArgMax ArgMin", arg_reduce, batch_rule=BatchRule(rules.along_first, runs_empty=True))
_rows("TopK", None, batch_rule=_ALONG_LAST_RULE)
_rows("OneHot", None, batch_rule=BatchRule(rules.one_hot))
_rows("Einsum", None, batch_rule=BatchRule(rules.einsum))
_rows("Bernoulli Multinomial RandomNormal RandomNormalLike RandomUniform RandomUniformLike", None, draws=True)
_rows("Conv ConvTranspose", None, batch_rule=_FOLDED_RULE)
_rows("AveragePool GlobalAveragePool GlobalMaxPool LRN", None, batch_rule=_FOLDED_RULE)
_rows("DepthToSpace SpaceToDepth", None, batch_rule=_FOLDED_RULE)
