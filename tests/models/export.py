"""Exports the models beside this file: PyTorch list code, scripted, and some of ONNX's own making.

Run in this folder with PyTorch 2.13 and onnx 1.23: `python export.py`. The tests read the files
alone. `tests/onnx_session/test_session_models.py` has for each model what it computes, in NumPy.
"""

import warnings
from pathlib import Path

import onnx
import torch
from torch import Tensor

FOLDER = Path(__file__).parent
OPSET = 17
MODULES = {}  # a file's name → the module, and the arguments to export with


def example(**arguments):
    def register(module):
        name = "".join(f"_{c.lower()}" if c.isupper() else c for c in module.__name__).lstrip("_")
        MODULES[name] = module, arguments
        return module

    return register


def rows(n, k=4):
    return torch.arange(n * k, dtype=torch.float32).reshape(n, k) / 10


@example(x=rows(7))
class AppendStack(torch.nn.Module):
    def forward(self, x):
        out: list[Tensor] = []
        for i in range(x.size(0)):
            out.append(x[i] * 2 + 1)
        return torch.stack(out)


@example(x=rows(7))
class InsertFront(torch.nn.Module):
    def forward(self, x):
        out: list[Tensor] = []
        for i in range(x.size(0)):
            out.insert(0, x[i] * 2)
        return torch.stack(out)


@example(x=rows(7))
class AppendPop(torch.nn.Module):
    def forward(self, x):
        out: list[Tensor] = []
        for i in range(x.size(0)):
            out.append(x[i])
            if bool(x[i, 0] > 0.5):
                out.pop()
        return torch.stack(out)


@example(x=rows(7), n=torch.tensor([1, 2, 3, 4, 0, 2, 3]))
class VaryingSlices(torch.nn.Module):
    def forward(self, x, n):
        out: list[Tensor] = []
        for i in range(x.size(0)):
            k = int(n[i])
            out.append(x[i, :k])
        return torch.cat(out, 0)


@example(x=rows(7))
class Window(torch.nn.Module):
    def forward(self, x):
        window: list[Tensor] = []
        total = torch.zeros_like(x[0])
        for i in range(x.size(0)):
            window.append(x[i])
            if len(window) > 5:
                window.pop(0)
            total = total + window[0] * window[-1]
        return total, torch.stack(window)


@example(x=rows(7))
class SplitIndex(torch.nn.Module):
    def forward(self, x):
        parts = x.split(1)
        total = torch.zeros_like(parts[0])
        for i in range(len(parts)):
            total = total + parts[i] * 0.5
        return total


@example(x=torch.rand(3, 4, 2))
class Nested(torch.nn.Module):
    def forward(self, x):
        planes: list[Tensor] = []
        for i in range(x.size(0)):
            plane: list[Tensor] = []
            for j in range(x.size(1)):
                plane.append(x[i, j] * i + j)
            planes.append(torch.stack(plane))
        return torch.stack(planes)


@example(table=torch.rand(9, 9), start=torch.tensor(4), limit=torch.tensor(20))
class Greedy(torch.nn.Module):
    """The likeliest token follows, until it is token 0 or there are enough."""

    def forward(self, table, start, limit):
        token = start
        out = [start]
        while len(out) < int(limit):
            token = table[token].argmax()
            out.append(token)
            if bool(token == 0):
                break
        return torch.stack(out)


@example(tokens=torch.zeros(7, 3, dtype=torch.int64), order=torch.zeros(7, 3, dtype=torch.int64))
class Beams(torch.nn.Module):
    """In each step beam k goes on from beam order[k]."""

    def forward(self, tokens, order):
        beams: list[Tensor] = []
        for k in range(tokens.size(1)):
            beams.append(tokens[0, k : k + 1])
        for t in range(1, tokens.size(0)):
            longer: list[Tensor] = []
            for k in range(tokens.size(1)):
                longer.append(torch.cat([beams[int(order[t, k])], tokens[t, k : k + 1]]))
            beams = longer
        return torch.stack(beams)


@example(x=rows(7))
class SeveralLists(torch.nn.Module):
    def forward(self, x):
        low: list[Tensor] = []
        high: list[Tensor] = []
        marks: list[Tensor] = []
        for i in range(x.size(0)):
            if bool(x[i].sum() < 0):
                low.append(x[i])
            else:
                high.append(x[i] + 1)
            marks.append(x[i, 0] * len(high))
        for one in high:
            low.append(one)
        return len(low), len(high), torch.stack(low), torch.stack(marks)


@example(x=rows(7), front=torch.tensor(True))
class ThroughIf(torch.nn.Module):
    def forward(self, x, front):
        out = [x[0]]
        for i in range(x.size(0)):
            out.append(x[i])
        if bool(front):
            out.insert(0, x[-1] * 2)
        else:
            out.pop(0)
        out.append(x[0] - 1)
        return torch.stack(out)


@example(x=rows(7))
class SplitSizes(torch.nn.Module):
    def forward(self, x):
        parts = torch.split(x, [2, 1, x.size(0) - 3])
        out: list[Tensor] = []
        for i in range(len(parts)):
            out.append(parts[len(parts) - 1 - i])
        return torch.cat(out), parts[0]


@example(x=rows(7))
class Unbind(torch.nn.Module):
    def forward(self, x):
        planes = torch.unbind(x)
        total = planes[-1]
        for i in range(len(planes)):
            total = total * 0.5 + planes[i]
        return total


@example(x=rows(7))
class Chunk(torch.nn.Module):
    def forward(self, x):
        parts = torch.chunk(x, 3)
        return parts[-1] * 2, parts[0], len(parts)


@example(x=rows(7))
class Recurrence(torch.nn.Module):
    def forward(self, x):
        out = [torch.zeros_like(x[0])]
        for i in range(x.size(0)):
            out.append(torch.tanh(x[i] + out[-1]))
        return torch.stack(out)


@example(x=rows(7), at=torch.tensor([0, 1, 2, 3, 4, 5, 6]))
class Assign(torch.nn.Module):
    def forward(self, x, at):
        out = list(x.unbind())
        for i in range(at.size(0)):
            k = int(at[i])
            out[k] = out[k] * 2 + x[i]
        return torch.stack(out)


@example(x=rows(7))
class Returned(torch.nn.Module):
    """Returns the list itself."""

    def forward(self, x):
        out: list[Tensor] = []
        for i in range(x.size(0)):
            if bool(x[i, 1] > 0):
                out.append(x[i, :2])
        return out, len(out)


@example(x=rows(7))
class ListPlusList(torch.nn.Module):
    def forward(self, x):
        ends = [x[0], x[-1]] + [x[0] - x[-1]]
        for i in range(x.size(0)):
            ends.append(x[i])
        return torch.stack(ends), len(ends)


@example(image=torch.rand(12, 9), boxes=torch.tensor([[0, 0, 3, 4], [1, 2, 5, 9]]))
class Crops(torch.nn.Module):
    """Crops of an image, as a list; a box is top, left, bottom, right."""

    def forward(self, image, boxes):
        out: list[Tensor] = []
        for i in range(boxes.size(0)):
            box = boxes[i]
            out.append(image[int(box[0]) : int(box[2]), int(box[1]) : int(box[3])])
        return out


# PyTorch exports no SequenceMap: what maps over the crops is ONNX text, put behind the exported model.
MAPPED_CROPS = """
    <ir_version: 8, opset_import: ["" : 17]>
    mapped (seq(float[]) crops, float gain, float[2] offsets) => (float[M] sums, seq(float[]) scaled) {
        first = Constant <value = int64 {0}> ()
        offset = Gather <axis = 0> (offsets, first)
        total, scaled = SequenceMap (crops, gain) <body = one (float[H, W] crop, float by) => (s, z) {
            t = Mul (crop, by)
            z = Add (t, offset)
            s = ReduceSum <keepdims = 0> (z)
        }>
        sums = ConcatFromSequence <axis = 0, new_axis = 1> (total)
    }
"""
# All of it by hand: two sequences, a capture from within a loop, several outputs.
MAP_CAPTURES = """
    <ir_version: 8, opset_import: ["" : 17]>
    map_captures (float[x_n, 4] x, int64 rounds) => (float[M, 4] y, float[R] sums) {
        parts = SplitToSequence <axis = 0, keepdims = 0> (x)
        yes = Constant <value = bool {1}> ()
        last, sums = Loop (rounds, yes, parts) <body = again (int64 i, bool go, seq(float[]) was)
                                                    => (bool on, seq(float[]) now, float sum) {
            step = Cast <to = 1> (i)
            now = SequenceMap (was, parts) <body = one (float[4] a, float[4] b) => (float[4] c) {
                t = Mul (a, b)
                u = Add (t, step)
                c = Tanh (u)
            }>
            all = ConcatFromSequence <axis = 0> (now)
            sum = ReduceSum <keepdims = 0> (all)
            on = Identity (go)
        }>
        y = ConcatFromSequence <axis = 0, new_axis = 1> (last)
    }
"""


def export(name, folder=FOLDER):
    """Export a module, and return the path of its model."""
    module, arguments = MODULES[name]
    path = folder / f"{name}.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            torch.jit.script(module()),
            tuple(arguments.values()),
            str(path),
            dynamo=False,
            opset_version=OPSET,
            input_names=list(arguments),
            dynamic_axes={key: {0: f"{key}_n"} for key, value in arguments.items() if value.dim()},
        )
    return path


def map_crops(folder=FOLDER):
    crops = onnx.load(folder / "crops.onnx")
    mapped = onnx.parser.parse_model(MAPPED_CROPS)
    joint = [(crops.graph.output[0].name, "crops")]
    onnx.save(onnx.compose.merge_models(crops, mapped, joint), folder / "mapped_crops.onnx")


if __name__ == "__main__":
    for name in MODULES:
        export(name)
    map_crops()
    onnx.save(onnx.parser.parse_model(MAP_CAPTURES), FOLDER / "map_captures.onnx")
    for path in sorted(FOLDER.glob("*.onnx")):
        onnx.checker.check_model(path, full_check=True)
        print(f"{path.name:24}{path.stat().st_size:6} bytes")
