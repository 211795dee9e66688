"""What the tests of loops that become one operator share: bodies as text, feeds, and the comparison."""

import copy
import re
from unittest.mock import patch

import numpy as np
import onnx
from support.models.lowering import all_nodes, left_in, outcome, parse, session

from seqcore.onnx._lowering.pipeline import lower_prepared
from seqcore.onnx.lowering import lower, lower_with_report

DTYPES = {
    "float": "float32",
    "double": "float64",
    "int64": "int64",
    "int32": "int32",
    "bool": "bool",
    "uint8": "uint8",
}
MOST = 40  # so many rows there are
TRIPS = (0, 1, 3, MOST, MOST + 1)  # the last is one too many


def stacked(type_, length="N"):
    """The type of so many such tensors, one behind the other."""
    return type_.replace("[", f"[{length}, ", 1) if "[" in type_ else f"{type_}[{length}]"


def with_constants(code):
    """Code without its short constants, #3 or #(1, 2), and the initializers that they become."""
    constants = {}

    def name_of(match):
        text = match[1].strip("()")
        numbers = [int(number) for number in text.split(",") if number.strip()]
        type_ = f"int64[{len(numbers)}]" if match[1].startswith("(") else "int64"
        name = "k" + "_".join(str(number).replace("-", "m") for number in numbers) + "s" * ("[" not in type_)
        constants[name] = f"{type_} {name} = {{{', '.join(map(str, numbers))}}}"
        return name

    code = re.sub(r"#(-?\d+|\([^)]*\))", name_of, code)
    return code, list(constants.values())


def body(code, outs="float", x="", z="", w="", v="", states=""):
    """A graph whose loop gathers `a` from x and `b` from z, and then does what the code says.

    `w` and `v` are the same for all iterations. The code makes `e`, and `f` where there are two types, or
    nothing where there is none. States are given as `s: int64; t: float[2]`: they begin with the inputs s0
    and t0, the code makes s2 and t2 of s and t, and the last of them come out in front.
    """
    given = {name: stacked(type_) for name, type_ in (("x", x), ("z", z)) if type_}
    given |= {name: type_ for name, type_ in (("w", w), ("v", v)) if type_}
    carried = dict(one.split(": ") for one in states.split("; ") if one)
    made = dict(zip("ef", outs.split("; ") if outs else [], strict=False))
    code, constants = with_constants(code)
    initial = "".join(f", {name}0" for name in carried)
    before = "".join(f", {type_} {name}" for name, type_ in carried.items())
    after = "".join(f", {type_} {name}2" for name, type_ in carried.items())
    after += "".join(f", {type_} {name}" for name, type_ in made.items())
    last = [f"{type_} last_{name}" for name, type_ in carried.items()]
    last += [f"{stacked(type_, 'T')} all_{name}" for name, type_ in made.items()]
    results = [f"last_{name}" for name in carried] + [f"all_{name}" for name in made]
    inputs = [f"{type_} {name}" for name, type_ in given.items()]
    inputs += [f"{type_} {name}0" for name, type_ in carried.items()]
    return f"""g ({", ".join([*inputs, "int64 n"])}) => ({", ".join(last)}, int64 m)
    <{", ".join(["bool yes = {1}", *constants])}> {{
        {", ".join(results)} = Loop(n, yes{initial})
        <body = b (int64 i, bool c{before}) => (bool c2{after}) {{
            c2 = Identity(c)
            {"a = Gather(x, i)" * bool(x)} {"b = Gather(z, i)" * bool(z)}
            {code}
        }}>
        l = SequenceConstruct(n, n)
        m = SequenceLength(l)
    }}"""


def appending(code, after, outs, element="float[?, 3]", **types):
    """A graph whose loop appends what the code makes, `e`, to a list, l, which the rest reads."""
    code, constants = with_constants(code + "|" + after)
    code, after = code.split("|")
    given = [f"{stacked(types[name])} {name}" for name in "xz" if name in types]
    given += [f"{types[name]} {name}" for name in "wv" if name in types]
    return f"""g ({", ".join([*given, "int64 n"])}) => ({outs})
    <{", ".join(["bool yes = {1}", *constants])}> {{
        none = SequenceEmpty()
        l = Loop(n, yes, none) <body = b (int64 i, bool c, seq({element}) s) => (bool c2, seq({element}) t) {{
            c2 = Identity(c)
            {"a = Gather(x, i)" * ("x" in types)} {"b = Gather(z, i)" * ("z" in types)}
            {code}
            t = SequenceInsert(s, e)
        }}>
        {after}
    }}"""


def some(type_, nrows=None, seed=0):
    """Numbers of a type such as `float[2, 3]`, for so many rows: small integers, fit as indices."""
    word, shape = re.fullmatch(r"(\w+)(?:\[([^\]]*)\])?", type_).groups()
    shape = tuple(int(n) for n in (shape or "").split(",") if n.strip())
    if nrows is not None:
        shape = (nrows, *shape)
    random = np.random.default_rng(seed)
    lowest, highest = (-4, 5) if word in ("float", "double") else (0, 2)
    return random.integers(lowest, highest, shape).astype(DTYPES[word])


def feeds_for(x="", z="", w="", v="", states="", trips=TRIPS):
    """Feeds for `body`, one for each number of iterations."""
    tensors = {name: some(type_, MOST, k) for k, (name, type_) in enumerate((("x", x), ("z", z))) if type_}
    tensors |= {
        name: some(type_, None, 2 + k) for k, (name, type_) in enumerate((("w", w), ("v", v))) if type_
    }
    for name, type_ in (one.split(": ") for one in states.split("; ") if one):
        tensors[f"{name}0"] = some(type_, None, 4)
    return [{**tensors, "n": np.array(n)} for n in trips]


def takes_first(result, feeds):
    """For each feed, whether a lowered model's one If runs all iterations at once.

    Where few iterations run one by one, that is the If of its first branch.
    """
    graph, nodes = onnx.GraphProto(name="choice"), list(result.graph.node)
    graph.input.extend(result.graph.input)
    graph.initializer.extend(result.graph.initializer)
    is_more = True
    while is_more:
        (k,) = (k for k, node in enumerate(nodes) if node.op_type == "If")
        graph.output.append(onnx.helper.make_tensor_value_info(nodes[k].input[0], onnx.TensorProto.BOOL, []))
        (first,) = (one.g for one in nodes[k].attribute if one.name == "then_branch")
        is_more = first.name == "more"
        nodes[k:] = first.node if is_more else []
        graph.initializer.extend(first.initializer if is_more else [])
    graph.node.extend(nodes)
    running = session(
        onnx.ModelProto(ir_version=result.ir_version, opset_import=result.opset_import, graph=graph)
    )
    return [all(map(bool, running.run(None, feed))) for feed in feeds]


def vectorized(model, packs=False):
    """A model with its loops as operators, valid and with the same face, and the notes on its loops."""
    done = []

    def lower_and_note(*args, **kwargs):
        done.append(lower_prepared(*args, **kwargs))
        return done[-1]

    choosing = patch("seqcore.onnx._rewrite.few.MOST_ONE_BY_ONE", 0)  # one choice, whatever the number
    with choosing, patch("seqcore.onnx.lowering.lower_prepared", lower_and_note):
        result, _ = lower_with_report(model, packs=packs)
    onnx.checker.check_model(result, full_check=True)
    assert_declared_alike(result, model)
    return result, done[0].loops


def assert_declared_alike(result, model):
    """Inputs and outputs are as they were, but lengths of inputs have names, and outputs shapes.

    A length of an output is free if it isn't known, whatever the model declares.
    """
    graph, model = copy.deepcopy(result).graph, copy.deepcopy(model)
    for value, given in zip(graph.input, model.graph.input, strict=True):
        for dim, before in zip(
            value.type.tensor_type.shape.dim, given.type.tensor_type.shape.dim, strict=True
        ):
            if not before.WhichOneof("value"):
                dim.Clear()
        assert value == given
    for value, given in zip(graph.output, model.graph.output, strict=True):
        if given.type.HasField("tensor_type") and not given.type.tensor_type.HasField("shape"):
            value.type.tensor_type.ClearField("shape")
        for dim, said in zip(value.type.tensor_type.shape.dim, given.type.tensor_type.shape.dim, strict=True):
            if not dim.WhichOneof("value"):
                said.Clear()
        assert value == given


def assert_like(one, other):
    """Equal, but for the last digits: other instructions add and raise in another order."""
    assert (one is None) == (other is None), (one, other)
    for first, second in zip(one or [], other or [], strict=True):
        if isinstance(first, list):
            assert len(first) == len(second)
            assert_like(first, second)
            continue
        assert np.asarray(first).dtype == np.asarray(second).dtype
        assert np.ndim(first) == np.ndim(second)
        if np.shape(first)[:1] == np.shape(second)[:1] == (0,):
            # Without an iteration, onnxruntime has 0 for each length that it doesn't know before the run.
            pairs = zip(np.shape(first), np.shape(second), strict=True)
            assert all(own == other or not (own and other) for own, other in pairs)
            continue
        assert np.shape(first) == np.shape(second)
        if np.asarray(first).dtype.kind == "f":
            np.testing.assert_allclose(first, second, rtol=2e-5, atol=1e-6)
        else:
            np.testing.assert_array_equal(first, second)


def check_same(model, result, feeds, same=assert_like):
    """Two models give the same of each feed, or both fail; return what comes out."""
    before, after = session(model), session(result)
    outcomes = [outcome(before, feed) for feed in feeds]
    for feed, one in zip(feeds, outcomes, strict=True):
        same(one, outcome(after, feed))
    return outcomes


def check_at_once(text, feeds, opset=17, nloops=0, same=assert_like):
    """Each loop becomes one operator, such that so many are left for what is large, and does what it did."""
    model = parse(text, opset)
    result, notes = vectorized(model)
    assert [str(note) for note in notes if not note.is_vectorized] == []
    assert notes
    assert sum(node.op_type == "Loop" for node in all_nodes(result)) == nloops
    check_same(model, lower(model), feeds, same)
    return result, check_same(model, result, feeds, same)


def check_stays(text, why, feeds, opset=17):
    """A loop goes iteration by iteration, for this reason, and does what it did."""
    model = parse(text, opset)
    result, notes = vectorized(model)
    assert [note.why_not for note in notes] == [why]
    assert "Loop" in [node.op_type for node in all_nodes(result)]
    return result, check_same(model, result, feeds)


def check_rule(code, outs, opset=17, **types):
    """A loop with this body is one operator, with none beside it for what is large."""
    _, outcomes = check_at_once(body(code, outs, **types), feeds_for(**types), opset)
    # The last gathers one row too many.
    assert [one is not None for one in outcomes] == [n <= MOST for n in TRIPS]


def check_no_rule(code, outs, why, opset=17, **types):
    check_stays(body(code, outs, **types), why, feeds_for(**types), opset)


# Where the parts of 12 items begin and end.
BOUNDS = {
    "one length": ([0, 1, 2, 5, 8], [4, 5, 6, 9, 12]),
    "several": ([0, 3, 3, 11, 0], [1, 5, 12, 12, 12]),
    "from the back": ([-12, -4, 0, -99, 3], [-8, -1, 99, 3, -1]),
    "some empty": ([0, 3, 12, 9, 4], [2, 3, 99, 2, 9]),
    "all empty": ([0, 3, 12, 9, 4], [0, 1, 12, -9, 4]),
}
FILLED = [word for word in BOUNDS if "empty" not in word]
PART = "p = Slice(w, a, b, #(0))"
ENDS = {"x": "int64[1]", "z": "int64[1]"}


def feeds_of_parts(bounds=tuple(BOUNDS), trips=(0, 1, 2, 5), **types):
    given = feeds_for(**ENDS, **types, trips=trips)
    feeds = []
    for word in bounds:
        starts, ends = (np.array(side)[:, None] for side in BOUNDS[word])
        feeds += [feed | {"x": starts, "z": ends} for feed in given]
    return feeds


def check_list(text, feeds, opset=17):
    """A loop that appends to a list becomes one operator; for other runtimes, no list is left either."""
    result, outcomes = check_at_once(text, feeds, opset, 1)
    if "seq(" not in text.split("<bool")[0]:
        portable, _ = vectorized(parse(text, opset), packs=True)
        assert left_in(portable) == []
        check_same(parse(text, opset), portable, feeds)
    return result, outcomes
