"""Random nodes of operators on tensors, valid by ONNX's text: what the tests of inference share.

A case is made by the operator's function below, of a generator and the version of the operators.
"""

from dataclasses import dataclass, field

import numpy as np
from onnx import TensorProto, helper

CASES = {}  # an operator → what makes a case of it
LENGTHS = [0, 1, 1, 2, 3, 4]
FLOATS, WHOLE = ["float32", "float64"], ["int32", "int64"]
NUMBERS = [*FLOATS, *WHOLE]


@dataclass
class Given:
    """An input of a node: a tensor, and the ways it may come ("fed", "constant", "shape": a Shape node's)."""

    array: np.ndarray
    ways: tuple = ("fed",)


@dataclass
class Case:
    """A node. An input that is None is left out."""

    inputs: list
    attributes: dict = field(default_factory=dict)
    outputs: int = 1


def case_of(op_types):
    """Register a function that makes the cases of some operators."""

    def put(make):
        for op_type in op_types.split():
            CASES[op_type] = make
        return make

    return put


def lengths(rng, least=0, most=3):
    return [int(n) for n in rng.choice(LENGTHS, rng.integers(least, most + 1))]


def tensor(rng, shape, dtype="float32"):
    """A tensor with small numbers."""
    if dtype == "string":
        return Given(
            np.array([str(n) for n in rng.integers(0, 9, int(np.prod(shape)))], object).reshape(shape)
        )
    values = rng.integers(0, 2, shape) if dtype == "bool" else rng.integers(1, 5, shape)
    return Given(np.asarray(values).astype(dtype))


def known(values, dtype="int64"):
    """Numbers that say something about shapes."""
    array = np.asarray(values, dtype)
    ways = ["constant", "constant", "fed"]
    if array.dtype == np.int64 and array.ndim == 1 and array.size < 5 and ((array >= 0) & (array < 9)).all():
        ways += ["shape", "shape"]
    return Given(array, tuple(ways))


def any_of(rng, values):
    return values[rng.integers(len(values))]


def maybe(rng, value, other=None):
    return value if rng.integers(2) else other


def an_axis(rng, rank):
    return int(rng.integers(-rank, rank))


def some_axes(rng, rank):
    """Different axes, some of them counted from the back."""
    axes = rng.permutation(rank)[: rng.integers(0, rank + 1)]
    return [int(k) - rank * int(rng.integers(2)) for k in axes]


def broadcastable(rng, n, most=3):
    """Shapes that broadcast."""
    full = lengths(rng, 0, most)
    shapes = []
    for _ in range(n):
        shape = full[rng.integers(len(full) + 1) :] if rng.integers(2) else full
        shapes.append([1 if rng.integers(4) == 0 else length for length in shape])
    return shapes


def attributes(rng, **choices):
    """Attributes with one of their values each; None leaves one out."""
    picked = {name: any_of(rng, values) for name, values in choices.items()}
    return {name: value for name, value in picked.items() if value is not None}


# Number by number


@case_of("Add Sub Mul Div")
def arithmetic(rng, opset):
    dtype = any_of(rng, NUMBERS)
    inputs = [tensor(rng, shape, dtype) for shape in broadcastable(rng, 2)]
    for one in inputs:
        if one.array.ndim == 1 and dtype == "int64":
            one.ways = known(one.array).ways
    return Case(inputs)


@case_of("Mod")
def modulo(rng, opset):
    return Case([tensor(rng, shape, any_of(rng, ["int64"])) for shape in broadcastable(rng, 2)])


@case_of("Pow")
def power(rng, opset):
    return Case([tensor(rng, shape, any_of(rng, NUMBERS)) for shape in broadcastable(rng, 2)])


@case_of("Max Min Sum Mean")
def of_many(rng, opset):
    return Case([tensor(rng, shape) for shape in broadcastable(rng, rng.integers(1, 4))])


@case_of("Equal Greater GreaterOrEqual Less LessOrEqual")
def comparison(rng, opset):
    dtype = any_of(rng, NUMBERS)
    return Case([tensor(rng, shape, dtype) for shape in broadcastable(rng, 2)])


@case_of("And Or Xor")
def of_conditions(rng, opset):
    return Case([tensor(rng, shape, "bool") for shape in broadcastable(rng, 2)])


@case_of("BitwiseAnd BitwiseOr BitwiseXor")
def of_bits(rng, opset):
    return Case([tensor(rng, shape, "int32") for shape in broadcastable(rng, 2)])


@case_of("BitShift")
def shift(rng, opset):
    shapes = broadcastable(rng, 2)
    return Case(
        [tensor(rng, shape, "uint32") for shape in shapes], attributes(rng, direction=["LEFT", "RIGHT"])
    )


@case_of("Where")
def where(rng, opset):
    one, *others = broadcastable(rng, 3)
    dtype = any_of(rng, [*NUMBERS, "string"])
    return Case([tensor(rng, one, "bool"), *(tensor(rng, shape, dtype) for shape in others)])


@case_of("PRelu")
def slope(rng, opset):
    shape = lengths(rng)
    own = [maybe(rng, length, 1) for length in shape[rng.integers(len(shape) + 1) :]]
    return Case([tensor(rng, shape), tensor(rng, own)])


@case_of("Not")
def negation(rng, opset):
    return Case([tensor(rng, lengths(rng), "bool")])


@case_of("BitwiseNot")
def of_a_few_bits(rng, opset):
    return Case([tensor(rng, lengths(rng), "int32")])


@case_of("Neg Abs Sign")
def of_a_number(rng, opset):
    return Case([tensor(rng, lengths(rng), any_of(rng, NUMBERS))])


@case_of(
    "Ceil Cos Erf Exp Floor LeakyRelu Log Relu Sigmoid Sin Sqrt Tanh Acos Acosh Asin Asinh Atan Atanh Celu "
    "Cosh Elu Gelu HardSigmoid HardSwish Mish Reciprocal Round Selu Shrink Sinh Softplus Softsign Swish Tan "
    "ThresholdedRelu IsInf IsNaN"
)
def of_a_float(rng, opset):
    return Case([tensor(rng, lengths(rng))])


@case_of("Identity")
def identity(rng, opset):
    return Case([tensor(rng, lengths(rng), any_of(rng, [*NUMBERS, "bool", "string"]))])


@case_of("Cast")
def cast(rng, opset):
    to = any_of(rng, [TensorProto.FLOAT, TensorProto.INT64, TensorProto.INT32, TensorProto.STRING])
    return Case([tensor(rng, lengths(rng), any_of(rng, NUMBERS))], {"to": to})


@case_of("CastLike")
def cast_like(rng, opset):
    return Case([tensor(rng, lengths(rng), any_of(rng, NUMBERS)) for _ in range(2)])


@case_of("Clip")
def clip(rng, opset):
    bounds = [maybe(rng, tensor(rng, [])), maybe(rng, tensor(rng, []))]
    return Case([tensor(rng, lengths(rng)), *bounds])


# Along an axis


@case_of("Softmax LogSoftmax Hardmax")
def along_an_axis(rng, opset):
    shape = lengths(rng, 1)
    return Case(
        [tensor(rng, shape)], attributes(rng, axis=[None if opset > 12 else 0, an_axis(rng, len(shape))])
    )


@case_of("CumSum")
def running_sum(rng, opset):
    shape = lengths(rng, 1)
    return Case([tensor(rng, shape), known(an_axis(rng, len(shape)))])


@case_of("LayerNormalization")
def normed_layer(rng, opset):
    shape = [max(n, 1) for n in lengths(rng, 1)]
    axis = an_axis(rng, len(shape))
    return Case([tensor(rng, shape), tensor(rng, shape[axis:])], {"axis": axis}, int(rng.integers(1, 4)))


@case_of("InstanceNormalization")
def normed_instances(rng, opset):
    shape = [max(n, 1) for n in lengths(rng, 3, 4)]
    return Case([tensor(rng, shape), tensor(rng, shape[1:2]), tensor(rng, shape[1:2])])


@case_of("Dropout")
def dropout(rng, opset):
    return Case([tensor(rng, lengths(rng))], outputs=int(rng.integers(1, 3)))


@case_of("ScatterElements")
def scattered(rng, opset):
    shape = lengths(rng, 1)
    axis = an_axis(rng, len(shape))
    at = [min(n, 2) for n in shape]
    indices = rng.integers(0, max(shape[axis], 1), at)
    return Case([tensor(rng, shape), Given(indices), tensor(rng, at)], {"axis": axis})


@case_of("ScatterND")
def scattered_slices(rng, opset):
    shape = [max(n, 1) for n in lengths(rng, 1)]
    at = lengths(rng, 0, 2)
    deep = int(rng.integers(1, len(shape) + 1))
    indices = np.stack([rng.integers(0, n, at) for n in shape[:deep]], -1)
    return Case([tensor(rng, shape), Given(indices), tensor(rng, [*at, *shape[deep:]])])


# Shapes


@case_of("Shape")
def shape_of(rng, opset):
    ends = {"start": [None, *range(-4, 5)], "end": [None, *range(-4, 5)]} if opset >= 15 else {}
    return Case([tensor(rng, lengths(rng))], attributes(rng, **ends))


@case_of("Size")
def size_of(rng, opset):
    return Case([tensor(rng, lengths(rng))])


@case_of("Transpose")
def transposed(rng, opset):
    shape = lengths(rng)
    perm = [int(k) for k in rng.permutation(len(shape))]
    return Case([tensor(rng, shape)], attributes(rng, perm=[None, perm] if shape else [None]))


def with_axes(rng, given, axes, opset, since, **more):
    """A case with axes: as an attribute, and since some version as an input."""
    if axes is None:
        return Case([given], more)
    if opset < since:
        return Case([given], {"axes": axes} | more)
    return Case([given, known(axes)], more)


@case_of("Unsqueeze")
def with_more_axes(rng, opset):
    shape = lengths(rng, 0, 2)
    more = int(rng.integers(1, 3))
    rank = len(shape) + more
    axes = [int(k) - rank * int(rng.integers(2)) for k in rng.permutation(rank)[:more]]
    given = tensor(rng, shape, any_of(rng, ["float32", "int64"]))
    return with_axes(rng, given, axes, opset, 13)


@case_of("Squeeze")
def with_less_axes(rng, opset):
    shape = lengths(rng, 0, 4)
    single = [k for k, n in enumerate(shape) if n == 1]
    axes = [k - len(shape) * int(rng.integers(2)) for k in single if rng.integers(2)]
    if opset < 13 and not axes:
        axes = None
    return with_axes(rng, tensor(rng, shape), maybe(rng, axes), opset, 13)


@case_of("Flatten")
def flattened(rng, opset):
    shape = lengths(rng)
    return Case([tensor(rng, shape)], attributes(rng, axis=[int(rng.integers(-len(shape), len(shape) + 1))]))


@case_of("Reshape")
def reshaped(rng, opset):
    shape = lengths(rng)
    size = int(np.prod(shape))
    if size == 0:
        wanted = any_of(rng, [shape, [0], [*shape[1:], *shape[:1]]])
    else:
        wanted = any_of(rng, [shape, shape[::-1], [size], [1, size], [*shape[:1], size // (shape or [1])[0]]])
    wanted = [
        0 if k < len(shape) and n == shape[k] and rng.integers(4) == 0 else n for k, n in enumerate(wanted)
    ]
    if wanted and rng.integers(2):
        wanted[rng.integers(len(wanted))] = -1
    allow = {"allowzero": [None, None, 0, 1]} if opset >= 14 else {}
    given = tensor(rng, shape, any_of(rng, ["float32", "int64"]))
    return Case([given, known(np.array(wanted, np.int64))], attributes(rng, **allow))


@case_of("Expand")
def expanded(rng, opset):
    shape, wanted = broadcastable(rng, 2)
    return Case([tensor(rng, shape), known(np.array(wanted, np.int64))])


@case_of("Resize")
def resized(rng, opset):
    shape = [max(n, 1) for n in lengths(rng, 1)]
    sizes = [int(n) for n in rng.integers(1, 6, len(shape))]
    policies = [None, "stretch", "not_larger", "not_smaller"] if opset >= 18 else [None]
    more = attributes(rng, mode=["nearest"], keep_aspect_ratio_policy=policies)
    if opset >= 18 and rng.integers(3) == 0:
        axis = int(rng.integers(len(shape)))
        sizes, more = sizes[:1], more | {"axes": [axis]}
    if rng.integers(4):
        sized = [None, known(np.array(sizes, np.int64))]
    else:
        sized = [known(np.array([2.0] * len(sizes), np.float32))]
    roi = [known(np.zeros(0, np.float32))] if opset < 13 else [None]
    return Case([tensor(rng, shape), *roi, *sized], more)


@case_of("ConstantOfShape")
def filled(rng, opset):
    value = helper.make_tensor(
        "v", any_of(rng, [TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL]), [1], [1]
    )
    return Case([known(np.array(lengths(rng), np.int64))], attributes(rng, value=[None, value]))


@case_of("Range")
def numbers(rng, opset):
    dtype = any_of(rng, ["int64", "int32", "float32"])
    return Case(
        [
            known(value, dtype)
            for value in (rng.integers(-3, 9), rng.integers(-3, 9), any_of(rng, [1, 2, -1, -3]))
        ]
    )


# Joins and picks


@case_of("Concat")
def joined(rng, opset):
    shape = lengths(rng, 1)
    axis = an_axis(rng, len(shape))
    dtype = any_of(rng, ["float32", "int64"])
    inputs = []
    for _ in range(rng.integers(1, 4)):
        own = list(shape)
        own[axis] = int(any_of(rng, LENGTHS))
        inputs.append(tensor(rng, own, dtype))
        if dtype == "int64" and len(shape) == 1:
            inputs[-1] = known(inputs[-1].array)
    return Case(inputs, {"axis": axis})


@case_of("Gather")
def gathered(rng, opset):
    shape = lengths(rng, 1)
    axis = an_axis(rng, len(shape))
    n = shape[axis]
    indices = rng.integers(-n, n, lengths(rng, 0, 2)) if n else np.zeros([0], np.int64)
    dtype = any_of(rng, ["float32", "int64"])
    data = tensor(rng, shape, dtype)
    if dtype == "int64" and len(shape) == 1:
        data = known(data.array)
    return Case(
        [data, known(np.asarray(indices))], attributes(rng, axis=[axis, axis, None if axis == 0 else axis])
    )


ENDS = [-(2**63), -100, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 100, 2**31 - 1, 2**63 - 1]


@case_of("Slice")
def sliced(rng, opset):
    shape = lengths(rng, 1)
    if len(shape) == 1 and rng.integers(2):
        data = known(tensor(rng, shape, "int64").array)
    else:
        data = tensor(rng, shape)
    axes = some_axes(rng, len(shape)) or [0]
    has_axes = rng.integers(4) > 0
    if not has_axes:
        axes = list(range(len(axes)))
    starts, ends = ([any_of(rng, ENDS) for _ in axes] for _ in range(2))
    steps = [any_of(rng, [1, 1, 2, -1, -2, 7]) for _ in axes]
    inputs = [data, known(starts), known(ends)]
    if has_axes:
        inputs.append(known(axes))
    if rng.integers(2):
        inputs += [None] * (not has_axes) + [known(steps)]
    return Case(inputs)


# Sums


@case_of("MatMul")
def product(rng, opset):
    n, m, k = (int(one) for one in rng.integers(1, 5, 3))
    one, other = broadcastable(rng, 2, 2)
    return any_of(
        rng,
        [
            Case([tensor(rng, [*one, n, k]), tensor(rng, [*other, k, m])]),
            Case([tensor(rng, [k]), tensor(rng, [*other, k, m])]),
            Case([tensor(rng, [*one, n, k]), tensor(rng, [k])]),
            Case([tensor(rng, [k]), tensor(rng, [k])]),
        ],
    )


@case_of("Gemm")
def product_and_sum(rng, opset):
    n, m, k = (int(one) for one in rng.integers(1, 5, 3))
    flips = attributes(rng, transA=[None, 0, 1], transB=[None, 0, 1], alpha=[None, 0.5], beta=[None, 2.0])
    one = [k, n] if flips.get("transA") else [n, k]
    other = [m, k] if flips.get("transB") else [k, m]
    added = any_of(rng, [None, [n, m], [m], [1, m], [n, 1], []])
    return Case(
        [tensor(rng, one), tensor(rng, other), *([] if added is None else [tensor(rng, added)])], flips
    )


@case_of(
    "ReduceMean ReduceSum ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp "
    "ReduceSumSquare"
)
def reduced(rng, opset, since=18):
    shape = [max(n, 1) if rng.integers(4) else n for n in lengths(rng)]
    axes = maybe(rng, some_axes(rng, len(shape)))
    more = attributes(rng, keepdims=[None, 0, 1])
    if opset >= since:
        more |= attributes(rng, noop_with_empty_axes=[None, 0, 1])
    elif not axes:
        axes = None
    return with_axes(rng, tensor(rng, shape), axes, opset, since, **more)


@case_of("ReduceSum")
def summed(rng, opset):
    return reduced(rng, opset, since=13)


@case_of("ArgMax ArgMin")
def extreme(rng, opset):
    shape = lengths(rng, 1)
    axis = an_axis(rng, len(shape))
    shape[axis] = max(shape[axis], 1)
    shape[0] = max(shape[0], 1)
    return Case([tensor(rng, shape)], attributes(rng, axis=[axis, None], keepdims=[None, 0, 1]))


# Operators whose types onnx tells, and that have a batching rule


def constant(values, dtype="int64"):
    return Given(np.asarray(values, dtype), ("constant",))


def filled_shape(rng, n=None):
    """A shape without an axis of length 0, and one of its axes, whose length may be given."""
    shape = [int(length) for length in rng.integers(1, 4, rng.integers(1, 4))]
    axis = an_axis(rng, len(shape))
    if n is not None:
        shape[axis] = n
    return shape, axis


@case_of("Split")
def parts(rng, opset):
    shape, axis = filled_shape(rng, 4)
    if rng.integers(2):
        return Case([tensor(rng, shape), constant([1, 3])], {"axis": axis}, 2)
    return Case([tensor(rng, shape)], {"axis": axis} | ({"num_outputs": 2} if opset >= 18 else {}), 2)


@case_of("TopK")
def largest(rng, opset):
    shape, axis = filled_shape(rng, 3)
    options = {"axis": axis, "largest": int(rng.integers(2))}
    return Case([tensor(rng, shape), constant([rng.integers(1, 4)])], options, 2)


@case_of("GatherElements")
def picked_elements(rng, opset):
    shape, axis = filled_shape(rng)
    return Case([tensor(rng, shape), Given(rng.integers(0, shape[axis], shape))], {"axis": axis})


@case_of("GatherND")
def picked_slices(rng, opset):
    width = int(rng.integers(1, 3))
    return Case([tensor(rng, [2, 3, 2]), Given(rng.integers(0, 2, [int(rng.integers(1, 4)), width]))])


@case_of("OneHot")
def one_hot(rng, opset):
    shape, axis = filled_shape(rng)
    values = tensor(rng, [2])
    values.ways = ("constant",)
    return Case([Given(rng.integers(-4, 4, shape)), constant(4), values], {"axis": axis})


@case_of("Tile")
def tiled(rng, opset):
    shape, _ = filled_shape(rng)
    return Case([tensor(rng, shape), constant(rng.integers(0, 3, len(shape)))])


@case_of("Pad")
def padded(rng, opset):
    shape, _ = filled_shape(rng)
    mode = any_of(rng, ["constant", "edge"])
    inputs = [tensor(rng, shape), constant(rng.integers(0, 3, 2 * len(shape)))]
    if mode == "constant" and rng.integers(2):
        inputs.append(constant(0.5, "float32"))
    return Case(inputs, {"mode": mode})


@case_of("Trilu")
def triangle(rng, opset):
    inputs = [tensor(rng, [*filled_shape(rng)[0], 3])]
    inputs += [constant(rng.integers(-1, 2))] if rng.integers(2) else []
    return Case(inputs, attributes(rng, upper=[None, 0, 1]))
