"""Random operators that change shapes, or pick and place numbers; `loop_operators.py` has the others."""

import numpy as np
from support.models.loop_operators import FLOAT, like, operator


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
def sizes(m, scope):
    x = m.some(scope, ragged=True)
    if m.fails:  # where only a shape is read, onnxruntime may drop what fails
        return None
    if m.chance(0.3):
        return m.emit(scope, "Size", [x], "int64", (), 5000)
    return m.emit(scope, "Shape", [x], "int64", (x.rank,), 300)


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
