"""Models by PyTorch's newer exporter.

Run with PyTorch 2.13 and onnxscript 0.7: `python export_dynamo.py [NAME ...]`. It unrolls loops and lists,
and makes a Split of whatever it can count; a sequence is left of a split into parts of one length along an
axis of unknown length. `chunk` along such an axis doesn't export: the length of its parts is no constant.
"""

import torch
from common import main, module
from torch import Tensor


@module
class DynamoBlocks(torch.nn.Module):
    """The first three blocks of four rows."""

    def forward(self, x):
        parts = torch.ops.aten.split.Tensor(x, 4)
        return torch.tanh(parts[0]) + parts[1] * parts[2]


@module
class DynamoGates(torch.nn.Module):
    """Gates and values are splits of one tensor of unknown width."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(6, 3)

    def forward(self, x):
        parts: list[Tensor] = torch.ops.aten.split.Tensor(x, 6, 1)
        return torch.sigmoid(self.layer(parts[0])) * self.layer(parts[1]), parts[0]


@module
class DynamoPrefix(torch.nn.Module):
    """Two tensors are split, and parts of both joined."""

    def forward(self, x, y):
        left = torch.ops.aten.split.Tensor(x, 2)
        right = torch.ops.aten.split.Tensor(y, 2)
        return left[0] + right[0], torch.stack([left[0], right[1]]).mean(0)


if __name__ == "__main__":
    main()
