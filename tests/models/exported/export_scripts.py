"""Functions of onnxscript with sequences. Run with onnxscript 0.7: `python export_scripts.py [NAME ...]`.

`tests/onnx_engines/test_exported.py` has what they compute, in NumPy.
"""

from common import main, onnx_model
from onnxscript import FLOAT, INT64, graph, script
from onnxscript import opset18 as op


@script(default_opset=op)
def script_relu_rows(x: FLOAT[None, 8]) -> FLOAT[None, 8]:
    rows = op.SequenceEmpty()
    n = op.Squeeze(op.Shape(x, start=0, end=1))
    for i in range(n):
        rows = op.SequenceInsert(rows, op.Relu(op.Gather(x, i)))
    return op.ConcatFromSequence(rows, axis=0, new_axis=1)


@script(default_opset=op)
def script_softmax_map(x: FLOAT[None, 8], sizes: INT64[None]) -> FLOAT[None, 8]:
    @graph()
    def one(part: FLOAT[None, 8]) -> FLOAT[None, 8]:
        return op.Softmax(part, axis=0)

    parts = op.SplitToSequence(x, sizes, axis=0)
    return op.ConcatFromSequence(op.SequenceMap(parts, body=one), axis=0)


@script(default_opset=op)
def script_positive_rows(x: FLOAT[None, 4]) -> INT64:
    rows = op.SequenceEmpty()
    n = op.Squeeze(op.Shape(x, start=0, end=1))
    for i in range(n):
        row = op.Gather(x, i)
        if op.ReduceSum(row, keepdims=0) > 0.0:  # noqa: SIM108  (onnxscript has no such expression)
            rows = op.SequenceInsert(rows, row)
        else:
            rows = op.Identity(rows)
    return op.SequenceLength(rows)


@script(default_opset=op)
def script_fifo(x: FLOAT[None, 4]) -> FLOAT[None, 4]:
    zero = op.Constant(value_int=0)
    first = op.Gather(x, zero)
    queue = op.SequenceConstruct(first, first, first)
    out = op.SequenceEmpty()
    n = op.Squeeze(op.Shape(x, start=0, end=1))
    for i in range(n):
        oldest = op.SequenceAt(queue, op.Constant(value_int=0))
        out = op.SequenceInsert(out, op.Gather(x, i) - oldest)
        queue = op.SequenceErase(queue, op.Constant(value_int=0))
        queue = op.SequenceInsert(queue, op.Gather(x, i))
    return op.ConcatFromSequence(out, axis=0, new_axis=1)


@script(default_opset=op)
def script_fibonacci(a: FLOAT[4], b: FLOAT[4], limit: FLOAT) -> FLOAT[None, 4]:
    states = op.SequenceConstruct(a, b)
    going = op.ReduceSum(a, keepdims=0) < limit
    while going:
        last = op.SequenceAt(states, op.Constant(value_int=-1))
        before = op.SequenceAt(states, op.Constant(value_int=-2))
        state = (last + before) * 0.51
        states = op.SequenceInsert(states, state)
        going = op.Cast(op.SequenceLength(states), to=1) < limit
    return op.ConcatFromSequence(states, axis=0, new_axis=1)


@script(default_opset=op)
def script_front_inserts(x: FLOAT[None, 4]) -> FLOAT[None, 4]:
    parts = op.SplitToSequence(x, axis=0)
    out = op.SequenceEmpty()
    n = op.SequenceLength(parts)
    for i in range(n):
        part = op.SequenceAt(parts, i)
        out = op.SequenceInsert(out, part * 2.0, op.Constant(value_int=0))
    return op.ConcatFromSequence(out, axis=0)


FUNCTIONS = [
    script_relu_rows,
    script_softmax_map,
    script_positive_rows,
    script_fifo,
    script_fibonacci,
    script_front_inserts,
]


def made(function):
    def make():
        return function.to_model_proto()

    make.__name__ = function.name
    return onnx_model(make)


for function in FUNCTIONS:
    made(function)

if __name__ == "__main__":
    main()
