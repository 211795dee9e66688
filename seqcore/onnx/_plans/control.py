"""If and Scan, where sequences or optionals are in their graphs, as steps of a plan.

Each builder takes the node's entry in the schedule and the planner, and returns a function of a frame.
"""

import numpy as np
from onnx import AttributeProto

from seqcore.onnx._plans.stacked import Stacked
from seqcore.onnx._plans.steps import attributes, only_item


def if_step(entry, planner, in_loop):
    (node,) = entry.nodes
    names = [one.name for one in node.attribute if one.type == AttributeProto.GRAPH]
    inner = dict(zip(names, entry.inner, strict=True))
    condition = planner.place(node.input[0])

    def branch(schedule):
        plan = planner.plan_of(schedule, in_loop)
        outputs = planner.outputs_of(schedule.graph)
        places = [planner.place(name) for name in node.output]
        return plan, [(i, read) for i, read in zip(places, outputs, strict=True) if i]

    branches = branch(inner["else_branch"]), branch(inner["then_branch"])

    def step(frame):
        plan, outputs = branches[bool(only_item(frame[condition], "the condition"))]
        plan.run(frame)
        for i, read in outputs:
            frame[i] = read(frame)

    return step


def scan_step(entry, planner, in_loop):
    (node,) = entry.nodes
    (schedule,) = entry.inner
    body = schedule.graph
    (scanned,) = attributes(node, num_scan_inputs=0)
    states, scans_out = len(node.input) - scanned, len(node.output) - len(node.input) + scanned
    zeros_in, zeros_out = [0] * scanned, [0] * scans_out
    axes_in, backward_in, axes_out, backward_out = attributes(
        node,
        scan_input_axes=zeros_in,
        scan_input_directions=zeros_in,
        scan_output_axes=zeros_out,
        scan_output_directions=zeros_out,
    )
    plan = planner.plan_of(schedule, in_loop=True)
    sources = [planner.place(name) for name in node.input]
    inputs = [planner.place(value.name) for value in body.input]
    outputs = planner.outputs_of(body)
    targets = [planner.place(name) for name in node.output]
    expected = [planner.expected(value.name) for value in body.output[states:]]

    def step(frame):
        for source, i in zip(sources[:states], inputs, strict=False):
            frame[i] = frame[source]
        tensors = []
        for source, axis, backward in zip(sources[states:], axes_in, backward_in, strict=True):
            rows = np.moveaxis(frame[source], axis, 0)
            tensors.append(rows[::-1] if backward else rows)
        lengths = {len(rows) for rows in tensors}
        if len(lengths) > 1:
            raise ValueError(f"the inputs to scan have different lengths: {sorted(lengths)}")
        stacks = [Stacked(*what) for what in expected]
        for rows in zip(*tensors, strict=True):
            for i, row in zip(inputs[states:], rows, strict=True):
                frame[i] = np.asarray(row)
            plan.run(frame)
            values = [read(frame) for read in outputs]
            for i, value in zip(inputs[:states], values, strict=False):
                frame[i] = value
            for stack, value in zip(stacks, values[states:], strict=True):
                stack.append(value)
        results = [frame[i] for i in inputs[:states]]
        for stack, axis, backward in zip(stacks, axes_out, backward_out, strict=True):
            rows = stack.result()
            results.append(np.moveaxis(rows[::-1] if backward else rows, 0, axis))
        for i, value in zip(targets, results, strict=True):
            if i:
                frame[i] = value

    return step
