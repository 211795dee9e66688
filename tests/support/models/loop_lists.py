"""Loops over random bodies, the lists that they make, and what becomes of these."""

import numpy as np
from onnx import helper
from support.models import loop_shapes  # noqa: F401  (its operators are among those of loop_operators)
from support.models.loop_models import TYPES, Maker, Scope, Value, sequence_info
from support.models.loop_operators import OPERATORS, like, operator
from support.models.loop_states import History, List, info, node, states_of


def list_info(name, dtype, shape=None):
    return sequence_info(name, TYPES[dtype], shape)


def a_loop(m, outer):
    """A loop; what it makes: lists, and values of the outer graph."""
    body = Scope(outer)
    i, on = m.fresh_name("i"), m.fresh_name("on")
    body.trip = Value(i, "int64", (), 300)
    body.values.append(body.trip)
    if m.chance(0.12):  # as often as a list that is fed has elements
        name, pick = m.list_input(body)
        body.trips = m.emit(outer, "SequenceLength", [name], "int64", (), 300, keep=False)
        for _ in range(m.pick([1, 1, 2])):
            pick()
    elif m.chance(0.6):  # as often as a tensor has rows
        rows = m.whole(m.a_type(), m.shape(), "N")
        shape = m.emit(outer, "Shape", [rows], "int64", (1,), 300, keep=False)
        body.trips = m.emit(outer, "Gather", [shape, m.number(outer, 0)], "int64", (), 300, keep=False)
    else:
        m.inputs.setdefault("n", ("int64", [], lambda sizes, rng: sizes["n"]))
        body.trips = "n"
    body.group = "N"
    states = states_of(m, outer, body)
    history = History(m, body) if not m.is_plain and m.chance(0.35) else None
    if history:
        history.look(body)
    for _ in range(m.random.randint(1, 2) if m.is_short else m.random.randint(3, 14)):
        m.pick(OPERATORS)(m, body)

    def an_element(kind):
        own = [one for one in body.values if one.name.startswith("v")]
        if kind == "any" and own and (m.is_short or m.chance(0.85)):
            return own[-1] if m.is_short else m.pick(own[-2:])
        fitting = [one for one in own if not one.is_ragged]
        return m.pick(fitting[-3:]) if fitting and m.chance(0.85) else m.fresh(body, m.a_type(), m.shape())

    lists = []
    for _ in range(m.pick([1, 1, 1, 2, 2, 3])):
        kind = m.pick(["end"] * 8 + ["front", "some", "some", "window", "update", "middle", "twice"])
        if m.is_plain:
            kind = "end"
        element = an_element("any" if kind in ("end", "front", "some") else "one")
        lists.append(List(m, body, element, kind))
    if history:
        history.settle(body)
        lists.append(history)
    scans = [an_element("one") for _ in range(m.pick([0, 0, 0, 1, 2] if lists else [1, 2]))]
    scans = [m.emit(body, "Identity", [one], one.dtype, one.shape, one.bound, one.grain) for one in scans]
    if m.chance(0.08) and lists and lists[0].kind == "end":  # what is in it counts
        n = m.emit(body, "SequenceLength", [lists[0].state], "int64", (), 300)
        lists[0].element = like(m, body, "Mul", [n, m.number(body, 2)], n, 600)
        lists[0].dtype = "int64"
    nexts = [follow() for *_, follow in states]
    edited = [one.edit(body) for one in lists]
    is_over_early = m.chance(0.12) and not m.is_plain
    if is_over_early:
        later = m.emit(body, "Less", [body.trip, m.number(body, m.pick([0, 2, 200]))], "bool", (), keep=False)
        going = later.name
    else:
        going = node(m, body, "Identity", [on], "on")
    flag = helper.make_tensor_value_info
    inputs = [flag(i, TYPES["int64"], []), flag(on, TYPES["bool"], [])]
    inputs += [flag(name, TYPES[dtype], m.pick([None, shape])) for _, name, dtype, shape, _ in states]
    inputs += [list_info(one.state, one.dtype) for one in lists]
    outputs = [flag(going, TYPES["bool"], []), *map(info, nexts)]
    outputs += [list_info(name, one.dtype) for name, one in zip(edited, lists, strict=True)]
    outputs += [info(one) for one in scans]
    starts = [one.start(outer) for one in lists]
    names = [m.fresh_name("v") for _ in states] + [one.name for one in lists]
    scanned = [m.fresh_name("v") for _ in scans]
    # Without a condition to begin with, the text ignores that of the body, and onnxruntime doesn't.
    yes = "" if m.chance(0.3) and not is_over_early else m.constant(outer, np.array(True)).name
    trips = body.trips if isinstance(body.trips, str) else body.trips.name
    outer.nodes.append(
        helper.make_node(
            "Loop",
            [trips, yes, *(start for start, *_ in states), *starts],
            names + scanned,
            body=helper.make_graph(body.nodes, "body", inputs, outputs),
        )
    )
    values = [
        Value(name, one.dtype, (None, *one.shape), one.bound, one.grain)
        for name, one in zip(scanned, scans, strict=True)
    ]
    values += [
        Value(name, dtype, tuple(shape), 1e3, None)
        for name, (_, _, dtype, shape, _) in zip(names, states, strict=False)
    ]
    return lists, values


def read(m, outer, made, ways=None):
    """Something that is read from a list: a value of the outer graph, or None."""
    e, name = made.element, made.name
    way = m.pick(ways or ["stack"] * 3 + ["join"] * 3 + ["at", "last", "count", "map", "again"])
    if way == "stack" and not e.is_ragged:
        axis = m.random.randrange(-e.rank - 1, e.rank + 1) if m.chance(0.4) else 0
        shape = list(e.shape)
        shape.insert(axis % (e.rank + 1), None)
        options = {"axis": axis, "new_axis": 1}
        return m.emit(outer, "ConcatFromSequence", [name], e.dtype, shape, e.bound, e.grain, **options)
    if way in ("join", "stack") and e.rank:
        axis = m.pick([0, 0, m.random.randrange(-e.rank, e.rank)]) if not e.is_ragged else 0
        shape = [None if k == axis % e.rank else n for k, n in enumerate(e.shape)]
        return m.emit(outer, "ConcatFromSequence", [name], e.dtype, shape, e.bound, e.grain, axis=axis)
    if way == "at":
        if m.chance(0.5):
            m.inputs.setdefault(
                "k",
                (
                    "int64",
                    [],
                    lambda sizes, rng: rng.integers(-2, 3) if rng.random() < 0.3 else rng.integers(-1, 1),
                ),
            )
            at = "k"
        else:
            at = m.number(outer, m.pick([0, -1, 0, -1, 1, -2]))
        return m.emit(outer, "SequenceAt", [name, at], e.dtype, e.shape, e.bound, e.grain)
    if way == "last":
        n = m.emit(outer, "SequenceLength", [name], "int64", (), 300)
        at = m.emit(outer, "Sub", [n, m.number(outer, 1)], "int64", (), 300)
        return m.emit(outer, "SequenceAt", [name, at], e.dtype, e.shape, e.bound, e.grain)
    if way == "map" and m.opset >= 17 and e.dtype != "bool":
        mapped = a_map(m, outer, name, e)
        return read(m, outer, mapped, ["stack", "join", "count"])
    if way == "again":
        return again(m, outer, made)
    return m.emit(outer, "SequenceLength", [name], "int64", (), 300)


def a_map(m, scope, sequence, element):
    """A SequenceMap over a list; the list that it makes."""
    inner = Scope(scope)
    x = Value(m.fresh_name("i"), element.dtype, element.shape, element.bound, element.grain)
    y = like(m, inner, m.pick(["Neg", "Abs"]), [x], x)
    inputs, values = [sequence], [x]
    if m.chance(0.5):
        w = m.whole(element.dtype, ())
        if m.chance(0.5):  # the map's own input, or one from around it
            inputs.append(w.name)
            w = Value(m.fresh_name("i"), w.dtype, (), w.bound, w.grain)
            values.append(w)
        y = like(m, inner, "Add", [y, w], y, y.bound + 2, keep=False) or y
    graph = helper.make_graph(inner.nodes, "each", list(map(info, values)), [info(y)])
    made = List(m, scope, y, "map")
    scope.nodes.append(helper.make_node("SequenceMap", inputs, [made.name], body=graph))
    return made


def again(m, outer, made):
    """A second loop over the elements of a list, which makes another."""
    body, e = Scope(outer), made.element
    i, on = m.fresh_name("i"), m.fresh_name("on")
    n = m.emit(outer, "SequenceLength", [made.name], "int64", (), 300, keep=False)
    x = m.emit(body, "SequenceAt", [made.name, i], e.dtype, e.shape, e.bound, e.grain)
    y = x if x.dtype == "bool" else like(m, body, m.pick(["Neg", "Abs", "Identity"]), [x], x)
    other = List(m, body, y, "end")
    longer = other.edit(body)
    still = node(m, body, "Identity", [on], "on")
    graph = helper.make_graph(
        body.nodes,
        "again",
        [
            helper.make_tensor_value_info(i, TYPES["int64"], []),
            helper.make_tensor_value_info(on, TYPES["bool"], []),
            list_info(other.state, y.dtype),
        ],
        [helper.make_tensor_value_info(still, TYPES["bool"], []), list_info(longer, y.dtype)],
    )
    yes = m.constant(outer, np.array(True)).name
    start = node(m, outer, "SequenceEmpty", [], dtype=TYPES[y.dtype])
    outer.nodes.append(helper.make_node("Loop", [n.name, yes, start], [other.name], body=graph))
    return read(m, outer, other, ["stack", "join", "count", "at"])


@operator(2)
def inner_list(m, scope):
    """A list within a body: mapped, or made by a loop of its own, and joined."""
    if m.opset >= 17 and m.chance(0.5):
        x = m.some(scope, ("float32", "int64"))
        others = [m.some(scope, (x.dtype,), shape=x.shape) for _ in range(m.pick([0, 1, 2]))]
        made = node(m, scope, "SequenceConstruct", [one.name for one in (x, *others)])
        bound, grains = max(one.bound for one in (x, *others)), [one.grain for one in (x, *others)]
        e = Value("", x.dtype, x.shape, bound, None if None in grains else max(grains))
        mapped = a_map(m, scope, made, e)
        if m.chance(0.5):
            at = m.number(scope, m.pick([0, -1, len(others)]))
            return like(m, scope, "SequenceAt", [mapped.name, at], mapped.element)
        axis, e = m.random.randint(0, x.rank), mapped.element
        shape = [*x.shape[:axis], 1 + len(others), *x.shape[axis:]]
        return like(m, scope, "ConcatFromSequence", [mapped.name], e, shape=shape, axis=axis, new_axis=1)
    # The rows of a value, through a split or a loop.
    x = m.some(scope, ("float32", "int64"), rank=(1, 2, 3))
    if not x.size:
        return None
    pieces = node(m, scope, "SplitToSequence", [x.name], axis=0, keepdims=0)
    at = m.number(scope, m.pick([0, -1, x.shape[0] - 1]))
    return like(m, scope, "SequenceAt", [pieces, at], x, shape=x.shape[1:])


def a_model(random):
    """A maker that has made a model, and the model."""
    m = Maker(random)
    outer, results, scanned, given_out = m.outer, [], set(), []
    for _ in range(1 if m.is_plain else m.pick([1, 1, 1, 1, 2])):
        lists, values = a_loop(m, outer)
        results += [one for one in values if m.chance(0.8)]
        scanned |= {one.name for one in values}
        for made in lists:
            for _ in range(m.pick([1, 1, 2, 3])):
                results.append(read(m, outer, made))
            if m.chance(0.1):
                given_out.append(list_info(made.name, made.dtype, [None] * made.element.rank))
        outer.values = [one for one in outer.values if not one.is_ragged]
    results = [one for one in results if one is not None] or [m.whole("float32", ())]
    for k, one in enumerate(results):
        if one.dtype in ("float32", "int64") and m.chance(0.3):
            results[k] = like(m, outer, m.pick(["Neg", "Abs"]), [one], one)
        elif m.chance(0.1) and one.name not in scanned and not m.fails:  # scanned: any rank for no trip
            results[k] = m.emit(outer, "Shape", [one], "int64", (one.rank,), 300)
    unique = {one.name: one for one in results}
    m.outputs = [info(one, [None] * one.rank) for one in unique.values()] + given_out
    m.bounds = {one.name: one.bound for one in unique.values()}
    m.bounds |= {made.name: 1e3 for made in given_out}
    return m, m.model()
