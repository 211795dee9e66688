"""Random operators for the bodies of loops: each adds nodes to a scope, and returns a value, or None.

Shapes are those of an iteration, and what comes out is well-formed but for what is wrong on purpose.
"""

import numpy as np
from onnx import helper
from support.models.loop_models import FLOATS, INTS, TYPES, Scope

OPERATORS = []
UNARY = ["Neg", "Abs", "Relu", "Sigmoid", "Tanh", "Exp", "Sqrt", "Floor", "Ceil", "Identity"]
UNARY += ["LeakyRelu", "Softplus", "Erf"]
NUMBERS = (*FLOATS, *INTS)
FLOAT = ("float32", "float64")  # onnxruntime has no kernels for many operators of float16


def operator(weight=1):
    def add(made):
        OPERATORS.extend([made] * weight)
        return made

    return add


def like(m, scope, op, inputs, model, bound=None, grain=0, dtype=None, shape=None, **attributes):
    """A node whose result is like a value but for what is given."""
    return m.emit(
        scope,
        op,
        inputs,
        dtype or model.dtype,
        model.shape if shape is None else shape,
        model.bound if bound is None else bound,
        model.grain if grain == 0 else grain,
        **attributes,
    )


def clipped(m, scope, x, most):
    """A float no larger than that."""
    if x.bound <= most:
        return x
    low, high = (m.constant(scope, np.array(one, x.dtype)) for one in (-most, most))
    return like(m, scope, "Clip", [x, low, high], x, most, x.grain, keep=False)


def partner(m, scope, x, dtype=None):
    """A value that broadcasts with another, of other rank at times; and the shape of both."""
    shape = list(x.shape)
    way = m.pick(["same", "same", "scalar", "fewer", "ones", "more"])
    if x.is_ragged:
        way = m.pick(["same", "scalar", "fewer"])
        shape = [1, *shape[1:]]
    if way == "scalar":
        shape = []
    elif way == "fewer":
        shape = shape[m.random.randint(0, len(shape)) :]
    elif way == "ones":
        shape = [1 if m.chance(0.5) else n for n in shape]
    elif way == "more" and len(shape) < 4:
        shape = [m.pick([1, *m.dims]), *shape]
    y = m.some(scope, (dtype or x.dtype,), shape=tuple(shape))
    return y, broadcast(x.shape, y.shape)


def broadcast(a, b):
    if None in a:
        return a
    return np.broadcast_shapes(a, b)


@operator(8)
def unary(m, scope):
    x = m.some(scope, FLOATS, ragged=True)
    op = m.pick(UNARY)
    if x.dtype == "float16" and op in ("Softplus", "Erf", "LeakyRelu"):
        op = "Tanh"
    if x.dtype == "float64" and op in ("Softplus", "Erf", "LeakyRelu"):
        op = "Sigmoid"
    if op in ("Neg", "Abs", "Relu", "Identity"):
        return like(m, scope, op, [x], x)
    if op in ("Floor", "Ceil"):
        return like(m, scope, op, [x], x, x.bound + 1, 0) if x.grain is not None else None
    if op == "LeakyRelu":
        return like(m, scope, op, [x], x, None, None, alpha=0.1)
    if op == "Exp":
        return like(m, scope, op, [clipped(m, scope, x, 3)], x, 21, None)
    if op == "Sqrt":
        if x.grain is None:  # what is nearly 0 has a steep root
            return None
        x = like(m, scope, "Abs", [x], x)
        return like(m, scope, op, [x], x, x.bound, None)
    return like(m, scope, op, [x], x, x.bound + 1 if op == "Softplus" else 1, None)


@operator(3)
def whole_unary(m, scope):
    x = m.some(scope, (*INTS, "bool"), ragged=True)
    op = "Not" if x.dtype == "bool" else m.pick(["Neg", "Abs", "Identity"])
    return like(m, scope, op, [x], x)


@operator(10)
def binary(m, scope):
    x = m.some(scope, NUMBERS, ragged=True)
    y, shape = partner(m, scope, x)
    grain = None if x.grain is None or y.grain is None else max(x.grain, y.grain)
    ops = ["Add", "Sub", "Mul", "Add", "Mul"]
    ops += ["Min", "Max"]
    ops += ["Div"] if x.dtype in FLOATS else ["Mod"]
    op = m.pick(ops)
    bound = x.bound * y.bound if op == "Mul" else x.bound + y.bound
    if op in ("Div", "Mod"):
        y = like(m, scope, "Abs", [y], y, keep=False)
        one = m.constant(scope, np.array(1, x.dtype))
        y = like(m, scope, "Add", [y, one], y, y.bound + 1, keep=False)
        if y is None:
            return None
        bound = x.bound if op == "Div" else y.bound
        return like(m, scope, op, [x, y], x, bound, None if op == "Div" else grain, shape=shape)
    if op == "Mul" and grain is not None:
        grain = x.grain + y.grain
    inputs = [y, x] if m.chance(0.4) and not x.is_ragged else [x, y]
    return m.emit(scope, op, inputs, x.dtype, shape, bound, grain)


@operator(4)
def comparison(m, scope):
    x = m.some(scope, NUMBERS[:2] + INTS, exact=True, ragged=True)
    y, shape = partner(m, scope, x)
    if y.grain is None:
        return None
    op = m.pick(["Less", "Greater", "Equal", "GreaterOrEqual", "LessOrEqual"])
    return m.emit(scope, op, [x, y], "bool", shape, 1)


@operator(2)
def logic(m, scope):
    x = m.some(scope, ("bool",), ragged=True)
    y, shape = partner(m, scope, x)
    return m.emit(scope, m.pick(["And", "Or", "Xor"]), [x, y], "bool", shape, 1)


@operator(3)
def where(m, scope):
    x = m.some(scope, ("float32", "int64", "float64"), ragged=True)
    y, shape = partner(m, scope, x)
    condition = m.some(scope, ("bool",), shape=() if x.is_ragged or m.chance(0.3) else x.shape)
    grain = None if x.grain is None or y.grain is None else max(x.grain, y.grain)
    return like(m, scope, "Where", [condition, x, y], x, max(x.bound, y.bound), grain, shape=shape)


@operator(2)
def clip(m, scope):
    x = m.some(scope, NUMBERS, ragged=True)
    if x.dtype == "int32":
        return None
    low, high = (m.constant(scope, np.array(one, x.dtype)) for one in (-1, 3))
    given = m.pick([[x, low, high], [x, low], [x, "", high]])
    return like(m, scope, "Clip", given, x, max(x.bound, 3))


@operator(3)
def cast(m, scope):
    x = m.some(scope, (*NUMBERS[:2], *INTS, "bool"), exact=True, ragged=True)
    to = m.pick(["float32", "float64", "int64", "int32", "bool"])
    grain = x.grain if to in FLOATS else 0
    return m.emit(scope, "Cast", [x], to, x.shape, 1 if to == "bool" else x.bound, grain, to=TYPES[to])


@operator(5)
def matmul(m, scope):
    a = m.some(scope, (*FLOAT, "int64"), rank=(1, 2, 3))
    k, n = a.shape[-1], m.pick(m.dims)
    shape = m.pick([(k,), (k, n), (k, n)])
    if a.rank == 3 and m.chance(0.4):
        shape = (m.pick([1, a.shape[0]]), k, n)
    b = m.some(scope, (a.dtype,), shape=shape, own=0.5)
    if m.chance(0.3) and a.rank > 1:  # (n, k) times (k, …)
        a, b = m.some(scope, (a.dtype,), shape=(n, a.shape[-2]), own=0.5), a
    if not a.shape[-1] or not a.size * b.size:  # onnxruntime does as it likes there
        return None
    shape = np.matmul(np.zeros(a.shape), np.zeros(b.shape)).shape
    grain = None if a.grain is None or b.grain is None else a.grain + b.grain
    return m.emit(scope, "MatMul", [a, b], a.dtype, shape, a.bound * b.bound * a.shape[-1], grain)


@operator(6)
def reduction(m, scope):
    x = m.some(scope, (*FLOAT, "int64", "int32"), rank=(0, 1, 2, 3), ragged=m.chance(0.5))
    if x.is_ragged:  # of nothing, onnxruntime's sums have odd shapes
        more = m.fresh(scope, x.dtype, (1, *x.shape[1:]))
        x = like(m, scope, "Concat", [x, more], x, max(x.bound, more.bound), x.grain, axis=0)
    op = m.pick(
        ["ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceSum", "ReduceL2", "ReduceSumSquare"]
    )
    if x.dtype in INTS and op in ("ReduceMean", "ReduceL2", "ReduceSumSquare"):
        op = "ReduceSum"
    if not x.size:
        return None
    if op == "ReduceL2" and x.grain is None:
        return None
    keep = int(m.chance(0.5))
    axes = sorted(m.random.sample(range(x.rank), m.random.randint(0, x.rank)))
    if x.is_ragged and 0 not in axes:
        axes = [0, *axes]
    over = axes or list(range(x.rank))
    shape = [1 if k in over else n for k, n in enumerate(x.shape) if keep or k not in over]
    count = int(np.prod([300 if x.shape[k] is None else x.shape[k] for k in over] or [1]))
    bound, grain = x.bound, x.grain
    if op in ("ReduceSum", "ReduceL2"):
        bound = x.bound * max(count, 1)
    if op == "ReduceSumSquare":
        bound, grain = x.bound**2 * max(count, 1), None if grain is None else 2 * grain
    if op in ("ReduceMean", "ReduceL2"):
        grain = None
    named = [k - x.rank if m.chance(0.4) else k for k in axes]
    options = {} if keep else {"keepdims": 0}
    inputs = [x]
    if axes and m.opset < 18 and op != "ReduceSum":
        options["axes"] = named
    elif axes:
        inputs.append(m.ints(scope, *named))
    return m.emit(scope, op, inputs, x.dtype, shape, bound, grain, **options)


@operator(3)
def softmax(m, scope):
    x = m.some(scope, FLOAT, rank=(1, 2, 3))
    x = clipped(m, scope, x, 8)
    options = {"axis": m.random.randrange(-x.rank, x.rank)} if m.chance(0.7) else {}
    op = m.pick(["Softmax", "Softmax", "LogSoftmax"])
    return like(m, scope, op, [x], x, 1 if op == "Softmax" else 30, None, **options)


def a_condition(m, scope):
    """A bool of the iteration, or of the outer graph."""
    loop = scope.loop()
    way = m.pick(["few", "even", "read", "value", "outer"])
    if loop.trip is None or way == "outer":
        return m.whole("bool", ())
    if way == "few":
        return m.emit(scope, "Less", [loop.trip, m.number(scope, m.pick([0, 1, 2, 3]))], "bool", (), 1)
    if way == "even":
        rest = m.emit(scope, "Mod", [loop.trip, m.number(scope, 2)], "int64", (), 2)
        return m.emit(scope, "Equal", [rest, m.number(scope, 0)], "bool", (), 1)
    if way == "read":
        return m.row(scope, "bool", ())
    return m.some(scope, ("bool",), shape=())


@operator(3)
def branches(m, scope):
    """An If whose branches have results of one shape."""
    condition = a_condition(m, scope)
    like_this = m.some(scope, ragged=m.chance(0.3))
    graphs, results = [], []
    for word in ("then_branch", "else_branch"):
        inner = Scope(scope)
        way = m.pick(["same", "changed", "other"])
        x = like_this
        if way == "other" and not x.is_ragged:
            x = m.some(inner, (x.dtype,), shape=x.shape)
        op = (
            "Identity"
            if way == "same"
            else "Not"
            if x.dtype == "bool"
            else m.pick(["Neg", "Abs", "Identity"])
        )
        x = like(m, inner, op, [x], x)
        results.append(x)
        out = helper.make_tensor_value_info(x.name, TYPES[x.dtype], None)
        graphs.append((word, helper.make_graph(inner.nodes, word, [], [out])))
    grains = [one.grain for one in results]
    grain = None if None in grains else max(grains)
    bound = max(one.bound for one in results)
    return like(m, scope, "If", [condition], like_this, bound, grain, **dict(graphs))
