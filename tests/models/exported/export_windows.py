"""Sliding windows and lists of fixed length, scripted.

Run with PyTorch 2.13: `python export_windows.py [NAME ...]`.
"""

import torch
from common import main, module
from torch import Tensor


@module
class SlidingMeans(torch.nn.Module):
    """Frames of four rows, two apart."""

    def forward(self, x):
        frames: list[Tensor] = []
        for i in range(0, x.size(0) - 3, 2):
            frames.append(x[i : i + 4].mean(0))
        return torch.stack(frames)


@module
class RollingStates(torch.nn.Module):
    """A dilated convolution step by step: its list always has five states."""

    def __init__(self):
        super().__init__()
        self.w = torch.nn.Linear(16, 8)

    def forward(self, x):
        zero = torch.zeros(x.size(1))
        window = [zero, zero, zero, zero, zero]
        out: list[Tensor] = []
        for i in range(x.size(0)):
            window.pop(0)
            window.append(x[i])
            out.append(torch.relu(self.w(torch.cat([window[0], window[-1]]))))
        return torch.stack(out), window


@module
class WhileWindows(torch.nn.Module):
    """Windows as long as there are any, two apart."""

    def forward(self, x, width: int):
        out: list[Tensor] = []
        i = 0
        while i + width <= x.size(0):
            out.append(x[i : i + width].amax(0))
            i += 2
        return torch.stack(out)


@module
class OverlapAdd(torch.nn.Module):
    """Frames that overlap by half are added where they meet.

    `out[-1] = …` exports as an insertion before the last but one: the position has to be counted.
    """

    def forward(self, frames):
        half = frames.size(1) // 2
        out: list[Tensor] = [frames[0, :half]]
        for i in range(frames.size(0)):
            out[len(out) - 1] = out[-1] + frames[i, :half]
            out.append(frames[i, half:])
        return torch.cat(out)


@module
class DeltaFeatures(torch.nn.Module):
    """Each row's neighbors, the ends repeated."""

    def forward(self, x):
        padded: list[Tensor] = [x[0]]
        for i in range(x.size(0)):
            padded.append(x[i])
        padded.append(padded[-1])
        out: list[Tensor] = []
        for i in range(1, len(padded) - 1):
            delta = (padded[i + 1] - padded[i - 1]) * 0.5
            out.append(torch.cat([padded[i], delta]))
        return torch.stack(out)


@module
class MovingMedian(torch.nn.Module):
    """The median of at most `width` values so far."""

    def forward(self, x, width):
        window: list[Tensor] = []
        out: list[Tensor] = []
        for i in range(x.size(0)):
            window.append(x[i])
            while len(window) > int(width):
                window.pop(0)
            ordered = torch.stack(window).sort()[0]
            out.append(ordered[len(window) // 2])
        return torch.stack(out)


@module
class ConvStream(torch.nn.Module):
    """Convolves chunks of a signal with the tail of the chunk before."""

    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv1d(2, 3, 3)

    def forward(self, x):
        tail = torch.zeros(2, 2)
        out: list[Tensor] = []
        for part in x.split(4, 1):
            both = torch.cat([tail, part], 1)
            out.append(self.conv(both.unsqueeze(0))[0])
            tail = both[:, -2:]
        return torch.cat(out, 1), tail


if __name__ == "__main__":
    main()
