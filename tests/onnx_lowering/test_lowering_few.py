"""Few iterations of a loop that becomes one operator go one by one where that takes fewer nodes."""

import numpy as np
import onnx
import pytest
from support.models.exported import MODELS
from support.models.lowering import all_nodes, assert_same, outcome, parse, session

from seqcore.onnx import lower

# How many nodes an iteration has beside three → up to how many iterations go one by one.
MOST = {1: 4, 7: 3, 16: 2, 60: 1}
LENGTHS = [[], [3], [2, 1], [0, 2], [2, 3, 1], [2, 0, 3, 1], [1] * 5, [1] * 9, [2, 99]]


def sentences(nnodes):
    """A loop over parts of x, one behind the other, whose lengths are fed."""
    body = "".join(f"a{k + 1} = Neg(a{k}) " for k in range(nnodes - 1))
    return parse(f"""g (float[N, 2] x, int64[B] lengths) => (float[C, 2] y, int64 end)
    <bool yes = {{1}}, int64 zero = {{0}}, int64[1] first = {{0}}> {{
        shape = Shape(lengths)
        n = Gather(shape, zero)
        none = SequenceEmpty()
        end, l = Loop(n, yes, zero, none) <body = b (int64 i, bool c, int64 s, seq(float[2]) t) =>
            (bool c2, int64 s2, seq(float[2]) t2) {{
            c2 = Identity(c)
            length = Gather(lengths, i)
            s2 = Add(s, length)
            start = Unsqueeze(s, first)
            stop = Unsqueeze(s2, first)
            a0 = Slice(x, start, stop, first)
            {body}
            e = ReduceMean<axes = [0], keepdims = 0>(a{nnodes - 1})
            t2 = SequenceInsert(t, e)
        }}>
        y = ConcatFromSequence<axis = 0, new_axis = 1>(l)
    }}""")


def few_of(result):
    """Up to how many iterations go one by one, 0 if none: what the one choice by number compares to."""
    made = {name: node for node in result.graph.node for name in node.output}
    constants = {one.name: onnx.numpy_helper.to_array(one) for one in result.graph.initializer}
    choices = [node for node in result.graph.node if node.op_type == "If"]
    compared = [made[node.input[0]] for node in choices]
    return sum(int(constants[node.input[1]]) for node in compared if node.op_type == "Greater")


@pytest.mark.parametrize("nnodes", MOST)
def test_as_many_as_take_fewer_nodes(nnodes):
    model = sentences(nnodes)
    result = lower(model)
    assert few_of(result) == MOST[nnodes]
    assert sum(node.op_type == "Loop" for node in all_nodes(result)) == 2
    one, other = session(model), session(result)
    for lengths in LENGTHS:
        feed = {
            "x": np.arange(12, dtype=np.float32).reshape(6, 2) / 8,
            "lengths": np.array(lengths, np.int64),
        }
        assert_same(outcome(one, feed), outcome(other, feed))


@pytest.mark.parametrize("name", ["ragged_softmax", "repeated_phonemes"])
def test_what_is_computed_for_many_iterations_alone(name):
    """What fails in place of the loop, by a position out of range, is for few alone."""
    graph = lower(MODELS[name].path).graph
    assert not any(node.op_type == "Range" for node in graph.node)
    (choice,) = (node for node in graph.node if node.op_type == "If")
    (few,) = (one.g for one in choice.attribute if one.name == "else_branch")
    (trips,) = (node.input[0] for node in few.node if node.op_type == "Loop")
    (check,) = (node for node in few.node if trips in node.output)
    assert check.op_type == "Gather"
    assert check.input[0] in {one.name for one in few.initializer}


def test_other_targets():
    assert few_of(lower(sentences(1), target="openvino")) == 0


@pytest.mark.parametrize("rate", [1, 0])
def test_a_choice_of_the_model_stays(rate):
    """Its branches don't do the same, whatever the number of iterations."""
    powers = " ".join(f"v{k + 1} = Mul(v{k}, rate)" for k in range(10))
    model = parse(f"""g (float v0, float rate, float[N] x, int64 n) => (float y, seq(float) l)
    <bool yes = {{1}}, float zero = {{0}}> {{
        none = SequenceEmpty()
        l = Loop(n, yes, none) <body = b (int64 i, bool g, seq(float) s) => (bool g2, seq(float) s2) {{
            g2 = Identity(g)
            e = Gather(x, i)
            s2 = SequenceInsert(s, e)
        }}>
        {powers}
        c = Greater(v10, zero)
        y = If(c) <then_branch = d () => (float t) {{ t = Neg(v9) }}, else_branch = e () => (float f) {{
            f = Loop(n, yes, zero) <body = h (int64 j, bool go, float sum) => (bool on, float sum2) {{
                on = Identity(go)
                half = Exp(sum)
                sum2 = Add(half, half)
            }}>
        }}>
    }}""")
    one, other = session(model), session(lower(model))
    for n in (0, 1, 3, 9):
        feed = {"v0": np.float32(3), "rate": np.float32(rate), "x": np.ones(9, np.float32), "n": np.array(n)}
        assert_same(outcome(one, feed), outcome(other, feed))
