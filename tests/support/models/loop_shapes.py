"""Random operators that change shapes, or pick and place numbers; `loop_operators.py` has the others."""

import numpy as np
from onnx import helper
from support.models.loop_models import EIGHTHS, TYPES, Value
from support.models.loop_operators import FLOAT, NUMBERS, like, operator


@operator(3)
def gather(m, scope):
    """Constant positions in a value, or a value's numbers as positions in a table."""
    if m.chance(0.5):
        x = m.some(scope, rank=(1, 2, 3))
        axis = m.random.randrange(x.rank)
        if not x.shape[axis]:
            return None
        shape = m.pick([(), (1,), (2,), (2, 2)])
        at = np.array([m.random.randrange(-x.shape[axis], x.shape[axis]) for _ in range(int(np.prod(shape)))])
        index = m.constant(scope, at.astype(np.int64).reshape(shape))
    else:
        index = m.some(scope, ("int64", "int32"), rank=(0, 1, 2))
        n = m.pick([2, 3, 5])
        x, axis = m.whole(m.a_type(), m.pick([(n,), (n, 2), (n, 3)])), 0
        most = m.constant(scope, np.array(n, index.dtype))
        index = m.emit(scope, "Mod", [index, most], index.dtype, index.shape, n)
        shape = index.shape
    shape = (*x.shape[:axis], *shape, *x.shape[axis + 1 :])
    if len(shape) > 4:
        return None
    axis = axis - x.rank if m.chance(0.4) else axis
    return like(m, scope, "Gather", [x, index], x, shape=shape, **({"axis": axis} if axis else {}))


@operator()
def gather_elements(m, scope):
    x = m.some(scope, NUMBERS[:2], rank=(1, 2))
    axis = m.random.randrange(x.rank)
    if not x.size:
        return None
    index = m.some(scope, ("int64",), shape=x.shape)
    index = m.emit(scope, "Mod", [index, m.number(scope, x.shape[axis])], "int64", x.shape, x.shape[axis])
    return like(m, scope, "GatherElements", [x, index], x, axis=axis - x.rank * m.chance(0.4))


@operator(2)
def slices(m, scope):
    x = m.some(scope, rank=(1, 2, 3))
    axis = m.random.randrange(x.rank)
    step = m.pick([1, 1, 1, 2, -1])
    start, stop = m.pick([(0, 1), (1, 2**62), (0, -1), (-2, 2**62), (1, 3), (0, 2)])
    if step < 0:
        start, stop = m.pick([(-1, -(2**62)), (1, -(2**62))])
    kept = len(range(x.shape[axis])[slice(start, stop, step)])
    given = [m.ints(scope, one) for one in (start, stop, axis - x.rank * m.chance(0.4), step)]
    if axis == 0 and step == 1:
        given = given[: m.pick([2, 3, 4])]
    elif step == 1:
        given = given[:3]
    return like(m, scope, "Slice", [x, *given], x, shape=(*x.shape[:axis], kept, *x.shape[axis + 1 :]))


@operator(4)
def reshape(m, scope):
    x = m.some(scope, rank=(0, 1, 2, 3), ragged=False)
    way = m.pick(["flat", "zero", "split", "one", "list", "merge", "flatten"])
    n, size = list(x.shape), x.size
    shape, result = [-1], (size,)
    if way == "flatten":
        axis = m.random.randint(0, x.rank)
        front = int(np.prod(n[:axis]))
        named = axis - x.rank if m.chance(0.3) and axis < x.rank else axis
        back = int(np.prod(n[axis:]))
        return like(m, scope, "Flatten", [x], x, shape=(front, back), axis=named) if x.rank else None
    if 0 in n and way != "list":
        return None
    if way == "zero" and x.rank > 1:
        shape, result = m.pick([([0, -1], (n[0], size // n[0])), ([-1, n[-1]], (size // n[-1], n[-1]))])
    elif way == "split":
        by = m.pick([k for k in range(1, size + 1) if size % k == 0])
        shape, result = m.pick([[by, -1], [-1, size // by], [by, size // by]]), (by, size // by)
    elif way == "one":
        shape, result = [1, *n], (1, *n)
    elif way == "list":
        shape = result = n
    elif way == "merge" and x.rank == 3:
        shape, result = m.pick([([0, -1], (n[0], n[1] * n[2])), ([-1, n[2]], (n[0] * n[1], n[2]))])
    elif way == "flat" and size == 1 and m.chance(0.5):
        shape, result = [], ()
    if m.chance(0.15) and len(result):  # of another value's shape
        shape = m.whole("float32", tuple(result))
        shape = m.emit(scope, "Shape", [shape], "int64", (len(result),), 100)
        return like(m, scope, "Reshape", [x, shape], x, shape=result) if 0 not in result else None
    return like(m, scope, "Reshape", [x, m.ints(scope, *shape)], x, shape=result)


@operator(3)
def transpose(m, scope):
    x = m.some(scope, rank=(1, 2, 3))
    order = m.random.sample(range(x.rank), x.rank)
    if m.chance(0.3):
        return like(m, scope, "Transpose", [x], x, shape=x.shape[::-1])
    return like(m, scope, "Transpose", [x], x, shape=[x.shape[k] for k in order], perm=order)


@operator(3)
def concat(m, scope):
    x = m.some(scope, rank=(1, 2, 3))
    axis, all_of = m.random.randrange(x.rank), [x]
    for _ in range(m.pick([1, 1, 2])):
        n = m.pick([x.shape[axis], m.pick(m.dims)])
        all_of.append(m.some(scope, (x.dtype,), shape=(*x.shape[:axis], n, *x.shape[axis + 1 :])))
    m.random.shuffle(all_of)
    length = sum(one.shape[axis] for one in all_of)
    grains = [one.grain for one in all_of]
    return like(
        m,
        scope,
        "Concat",
        all_of,
        x,
        max(one.bound for one in all_of),
        None if None in grains else max(grains),
        shape=(*x.shape[:axis], length, *x.shape[axis + 1 :]),
        axis=axis - x.rank * m.chance(0.4),
    )


@operator(3)
def expand(m, scope):
    x = m.some(scope, (*FLOAT, "int64", "bool"))
    shape = [m.pick([1, 2, 3]) if n == 1 else n if m.chance(0.7) else 1 for n in x.shape]
    if m.chance(0.4):
        shape = [m.pick([1, 2]), *shape]
    result = np.broadcast_shapes(tuple(shape), x.shape)
    return like(m, scope, "Expand", [x, m.ints(scope, *shape)], x, shape=result) if len(result) < 5 else None


@operator(3)
def ranks(m, scope):
    x = m.some(scope)
    if 1 in x.shape and m.chance(0.5):
        return m.squeezed(scope, x, x.shape.index(1))
    return m.unsqueezed(scope, x, m.random.randint(0, x.rank)) if x.rank < 4 else None


@operator(2)
def split(m, scope):
    x = m.some(scope, rank=(1, 2, 3))
    axis = m.random.randrange(x.rank)
    n = x.shape[axis]
    if n < 2:
        return None
    first = n // 2 if n % 2 == 0 and m.chance(0.5) else m.random.randint(1, n - 1)
    inputs, options, names = (
        [x.name],
        {"axis": axis - x.rank * m.chance(0.4)},
        [m.fresh_name(), m.fresh_name()],
    )
    if 2 * first == n and m.chance(0.5):
        options |= {"num_outputs": 2} if m.opset >= 18 else {}
    else:
        inputs.append(m.ints(scope, first, n - first).name)
    scope.nodes.append(helper.make_node("Split", inputs, names, **options))
    made = [
        Value(name, x.dtype, (*x.shape[:axis], k, *x.shape[axis + 1 :]), x.bound, x.grain)
        for name, k in zip(names, (first, n - first), strict=True)
    ]
    scope.values += made
    return m.pick(made)


@operator(2)
def pad(m, scope):
    x = m.some(scope, FLOAT, rank=(1, 2, 3))
    pads = [m.pick([0, 0, 1, 2]) for _ in range(2 * x.rank)]
    shape = [n + a + b for n, a, b in zip(x.shape, pads[: x.rank], pads[x.rank :], strict=True)]
    inputs = [x, m.ints(scope, *pads)]
    if m.chance(0.4):
        inputs.append(m.constant(scope, np.array(0.5, x.dtype)))
    return like(m, scope, "Pad", inputs, x, shape=shape)


@operator(2)
def sizes(m, scope):
    x = m.some(scope, ragged=True)
    if m.fails:  # where only a shape is read, onnxruntime may drop what fails
        return None
    if m.chance(0.3):
        return m.emit(scope, "Size", [x], "int64", (), 5000)
    return m.emit(scope, "Shape", [x], "int64", (x.rank,), 300)


@operator()
def filled(m, scope):
    """ConstantOfShape, Tile, Range, OneHot and Trilu."""
    way = m.pick(["ConstantOfShape", "Tile", "Range", "OneHot", "Trilu"])
    if way == "ConstantOfShape":
        shape = m.shape()
        value = helper.make_tensor("", TYPES["float32"], [1], [0.5])
        return m.emit(scope, way, [m.ints(scope, *shape)], "float32", shape, 1, EIGHTHS, value=value)
    if way == "Range":
        a, b = (m.number(scope, one) for one in (1, 4))
        return m.emit(scope, way, [a, b, m.number(scope, 1)], "int64", (3,), 4)
    if way == "OneHot":
        x = m.some(scope, ("int64",), rank=(1, 2))
        values = m.constant(scope, np.array([0, 1], "float32"))
        axis = m.pick([-1, 0])
        shape = (3, *x.shape) if axis == 0 else (*x.shape, 3)
        return m.emit(scope, way, [x, m.number(scope, 3), values], "float32", shape, 1, axis=axis)
    if way == "Trilu":
        x = m.some(scope, FLOAT, rank=(2, 3))
        return like(m, scope, way, [x], x, upper=m.pick([0, 1]))
    x = m.some(scope, FLOAT, rank=(1, 2))
    times = [m.pick([1, 2]) for _ in x.shape]
    shape = [a * b for a, b in zip(x.shape, times, strict=True)]
    return like(m, scope, way, [x, m.ints(scope, *times)], x, shape=shape)


@operator()
def scatter(m, scope):
    x = m.some(scope, ("float32", "int64"), rank=(1, 2))
    if not x.size:
        return None
    if m.chance(0.5):
        at = m.constant(scope, np.array([[m.random.randrange(x.shape[0])]]))
        new = m.some(scope, (x.dtype,), shape=(1, *x.shape[1:]))
        op, options = "ScatterND", {}
    else:
        at = m.constant(scope, np.zeros([1] * x.rank, np.int64))
        new = m.some(scope, (x.dtype,), shape=(1,) * x.rank)
        op, options = "ScatterElements", {"axis": m.random.randrange(-x.rank, x.rank)}
    grain = None if x.grain is None or new.grain is None else max(x.grain, new.grain)
    return like(m, scope, op, [x, at, new], x, max(x.bound, new.bound), grain, **options)


@operator(3)
def varying(m, scope):
    """What has another length in each iteration: rows from starts to ends, or those that a mask keeps."""
    loop = scope.loop()
    if loop.trip is None:
        return None
    x = m.whole(m.a_type(), m.pick([(), (2,), (3,)]), "M")
    m.needs["M"].append(lambda n: 4)
    one = m.ints(scope, 1)
    if m.chance(0.3):
        start = m.emit(scope, "Reshape", [m.number(scope, 0), one], "int64", (1,), 1, keep=False)
        stop = m.emit(scope, "Reshape", [loop.trip, one], "int64", (1,), 300, keep=False)
    else:
        at = m.position(scope, "M")
        start = m.emit(scope, "Reshape", [at, one], "int64", (1,), 300, keep=False)
        n = m.pick([1, 2])
        stop = m.emit(scope, "Add", [start, m.ints(scope, n)], "int64", (1,), 300, keep=False)
        if m.chance(0.6):
            i = m.emit(scope, "Mod", [loop.trip, m.number(scope, 3)], "int64", (), 300, keep=False)
            stop = m.emit(scope, "Add", [stop, i], "int64", (1,), 300, keep=False)
    return m.emit(
        scope, "Slice", [x, start, stop, m.ints(scope, 0)], x.dtype, (None, *x.shape), x.bound, x.grain
    )
