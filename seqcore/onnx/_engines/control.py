"""If and Scan, where sequences or optionals are in their graphs, as steps of a plan.

Each builder takes the node's entry in the schedule and the planner, and returns a function of a frame.
"""

from __future__ import annotations

import numpy as np

from seqcore.onnx._engines.planner import Planner
from seqcore.onnx._engines.schedule import Entry, Step
from seqcore.onnx._engines.stacked import Stacked, only_item


def if_step(entry: Entry, planner: Planner, in_loop: bool) -> Step:
    (node,) = entry.nodes
    condition = planner.place(node.inputs[0])

    def branch(schedule):
        plan = planner.plan_of(schedule, in_loop)
        outputs = planner.outputs_of(schedule.graph)
        places = [planner.place(name) for name in node.outputs]
        return plan, [(i, read) for i, read in zip(places, outputs, strict=True) if i]

    branches = branch(entry.inner["else_branch"]), branch(entry.inner["then_branch"])

    def step(frame):
        plan, outputs = branches[bool(only_item(frame[condition], "the condition"))]
        plan.run(frame)
        for i, read in outputs:
            frame[i] = read(frame)

    return step


def scan_step(entry: Entry, planner: Planner, in_loop: bool) -> Step:
    (node,) = entry.nodes
    schedule, body = entry.inner["body"], node.body
    scanned = node.attribute("num_scan_inputs", 0)
    states, scans_out = len(node.inputs) - scanned, len(node.outputs) - len(node.inputs) + scanned
    axes_in = node.attribute("scan_input_axes", [0] * scanned)
    backward_in = node.attribute("scan_input_directions", [0] * scanned)
    axes_out = node.attribute("scan_output_axes", [0] * scans_out)
    backward_out = node.attribute("scan_output_directions", [0] * scans_out)
    plan = planner.plan_of(schedule, in_loop=True)
    sources = [planner.place(name) for name in node.inputs]
    inputs = [planner.place(name) for name in body.inputs]
    outputs = planner.outputs_of(body)
    targets = [planner.place(name) for name in node.outputs]
    expected = [planner.expected(name, body) for name in body.outputs[states:]]

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
