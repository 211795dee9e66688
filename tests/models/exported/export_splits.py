"""Loops over unbind, split and chunk, scripted.

Run with PyTorch 2.13: `python export_splits.py [NAME ...]`.
"""

import torch
from common import main, module
from torch import Tensor


@module
class UnbindRows(torch.nn.Module):
    """A layer for each row of an unbound tensor."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 4)

    def forward(self, x):
        out: list[Tensor] = []
        for row in x.unbind(0):
            out.append(torch.relu(self.layer(row)))
        return torch.stack(out)


@module
class UnbindRecurrence(torch.nn.Module):
    """A recurrent cell, unrolled over an unbound tensor."""

    def __init__(self):
        super().__init__()
        self.step = torch.nn.Linear(8, 8)
        self.again = torch.nn.Linear(8, 8)

    def forward(self, x):
        h = torch.zeros(x.size(1), 8)
        out: list[Tensor] = []
        for step in x.unbind(0):
            h = torch.tanh(self.step(step) + self.again(h))
            out.append(h)
        return torch.stack(out), h


@module
class UnbindReversed(torch.nn.Module):
    """From the last row to the first, by negative indices."""

    def forward(self, x):
        rows = x.unbind(0)
        out = [rows[-1]]
        for i in range(1, len(rows)):
            out.append(out[-1] * 0.5 + rows[-1 - i])
        return torch.stack(out)


@module
class UnbindPairs(torch.nn.Module):
    """Two unbound tensors side by side, and a list that begins with both."""

    def forward(self, x, y):
        out = [x[0], y[0]]
        for a, b in zip(x.unbind(0), y.unbind(0)):  # noqa: B905  (scripts know no strict)
            out.append(a * b + out[-1])
        return torch.stack(out)


@module
class UnbindColumns(torch.nn.Module):
    """Columns with their numbers."""

    def forward(self, x):
        total = torch.zeros(x.size(0))
        out: list[Tensor] = []
        for i, column in enumerate(x.unbind(1)):
            total = total + column * i
            out.append(total.amax())
        return torch.stack(out), total


@module
class UnbindEdits(torch.nn.Module):
    """What is unbound is a list like others: it loses its first, and gets another."""

    def forward(self, x):
        rows = list(x.unbind(0))
        first = rows.pop(0)
        rows.append(first * 2)
        for i in range(len(rows)):
            rows[i] = rows[i] - first
        return torch.stack(rows), rows[-1]


@module
class UnbindOut(torch.nn.Module):
    """The list itself comes out, and a part of it."""

    def forward(self, x):
        rows = x.unbind(0)
        kept: list[Tensor] = []
        for row in rows:
            if bool(row.sum() > 0):
                kept.append(row)
        return rows, kept


@module
class ChunkThirds(torch.nn.Module):
    """Three chunks of rows, the last of which may be shorter, in another order."""

    def forward(self, x):
        parts = x.chunk(3)
        out: list[Tensor] = []
        for i in range(len(parts)):
            out.append(parts[len(parts) - 1 - i] * 2)
        return torch.cat(out), parts[-1]


@module
class SplitBlocks(torch.nn.Module):
    """Attention within blocks of four rows; the last block may be shorter."""

    def forward(self, x):
        out: list[Tensor] = []
        for block in x.split(4):
            out.append(torch.softmax(block @ block.t(), 1) @ block)
        return torch.cat(out)


@module
class SplitBlockNorms(torch.nn.Module):
    """A number for each block of two rows, and a running maximum."""

    def forward(self, x):
        norms: list[Tensor] = []
        highest = torch.zeros(())
        for block in x.split(2):
            norm = (block * block).sum().sqrt()
            highest = torch.maximum(highest, norm)
            norms.append(norm)
        return torch.stack(norms), highest


@module
class ChunkHeads(torch.nn.Module):
    """Heads are chunks of the width: four of them, whatever the length."""

    def forward(self, x):
        out: list[Tensor] = []
        for head in x.chunk(4, 1):
            out.append(torch.softmax(head @ head.t(), 1) @ head)
        return torch.cat(out, 1)


@module
class SplitPairs(torch.nn.Module):
    """Two tensors go side by side."""

    def forward(self, x, y):
        left, right = x.split(1), y.split(1)
        out: list[Tensor] = []
        for i in range(min(len(left), len(right))):
            out.append(left[i] * right[i] + left[i])
        return torch.cat(out)


@module
class GatedSplits(torch.nn.Module):
    """The four gates of an LSTM by sizes that stand in the code."""

    def forward(self, x, c):
        out: list[Tensor] = []
        for i in range(x.size(0)):
            parts = x[i].split([4, 4, 4, 4])
            c = torch.sigmoid(parts[1]) * c + torch.sigmoid(parts[0]) * torch.tanh(parts[2])
            out.append(torch.sigmoid(parts[3]) * torch.tanh(c))
        return torch.stack(out), c


@module
class WindowAttention(torch.nn.Module):
    """Attention within windows of an image's patches, whose ends `marks` has, as in Qwen-VL."""

    def __init__(self):
        super().__init__()
        self.queries_keys_values = torch.nn.Linear(8, 24)

    def forward(self, x, marks):
        n = x.size(0)
        q, k, v = self.queries_keys_values(x).view(1, n, 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
        sizes: list[int] = (marks[1:] - marks[:-1]).tolist()
        keys, values = k.split(sizes, 2), v.split(sizes, 2)
        out: list[Tensor] = []
        for i, query in enumerate(q.split(sizes, 2)):
            shares = torch.softmax(query @ keys[i].transpose(2, 3) / 2, -1)
            out.append((shares @ values[i]).transpose(1, 2))
        return torch.cat(out, 1).view(n, 8)


@module
class RepeatedPhonemes(torch.nn.Module):
    """Each row as often as its duration says, as speech models stretch phonemes to frames."""

    def forward(self, x, durations):
        frames: list[Tensor] = []
        for i in range(x.size(0)):
            frames.append(x[i].unsqueeze(0).expand(int(durations[i]), -1))
        return torch.cat(frames)


@module
class InterleavedRows(torch.nn.Module):
    """The same by PyTorch's function, which exports a loop over splits into single rows."""

    def forward(self, x, counts):
        return torch.repeat_interleave(x, counts, 0)


if __name__ == "__main__":
    main()
