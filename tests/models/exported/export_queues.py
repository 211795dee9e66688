"""Queues, stacks and rings, scripted.

Run with PyTorch 2.13: `python export_queues.py [NAME ...]`.
"""

import torch
from common import main, module
from torch import Tensor


@module
class QueueDelays(torch.nn.Module):
    """What comes out of a queue of three is taken from what goes in."""

    def forward(self, x):
        queue: list[Tensor] = []
        out: list[Tensor] = []
        for i in range(x.size(0)):
            queue.append(x[i])
            if len(queue) > 3:
                oldest = queue.pop(0)
                out.append(x[i] - oldest)
            else:
                out.append(x[i])
        return torch.stack(out), len(queue)


@module
class BreadthFirst(torch.nn.Module):
    """The nodes of a graph in the order of a search, each once, and how deep each is."""

    def forward(self, edges, start):
        depth = torch.zeros(edges.size(0), dtype=torch.int64) - 1
        depth = depth.scatter(0, start.reshape(1), torch.zeros(1, dtype=torch.int64))
        queue = [start]
        order: list[Tensor] = []
        while len(queue) > 0:
            node = queue.pop(0).reshape(1)
            order.append(node)
            leads = edges.index_select(0, node)[0]
            below = depth.index_select(0, node) + 1
            for k in range(edges.size(0)):
                if bool(leads[k] > 0) and bool(depth[k] < 0):
                    depth = depth.scatter(0, torch.tensor([k]), below)
                    queue.append(torch.tensor(k))
        return torch.cat(order), depth


@module
class StackMachine(torch.nn.Module):
    """Codes: 0 pushes a row, 1 adds the two on top, 2 adds its row to the top."""

    def forward(self, codes, rows):
        stack: list[Tensor] = []
        for i in range(codes.size(0)):
            if bool(codes[i] == 0) or len(stack) == 0:
                stack.append(rows[i])
            elif bool(codes[i] == 1) and len(stack) > 1:
                a = stack.pop()
                b = stack.pop()
                stack.append(a + b)
            else:
                stack.append(stack.pop() + rows[i])
        return stack[-1], len(stack)


@module
class RingBuffer(torch.nn.Module):
    """The mean of the last four rows, which stand in a ring."""

    def forward(self, x):
        zero = torch.zeros(x.size(1))
        ring = [zero, zero, zero, zero]
        out: list[Tensor] = []
        for i in range(x.size(0)):
            ring[i % 4] = x[i]
            out.append(torch.stack(ring).mean(0))
        return torch.stack(out)


@module
class MergeSorted(torch.nn.Module):
    """Two sorted queues become one, by the first column."""

    def forward(self, a, b):
        left: list[Tensor] = []
        right: list[Tensor] = []
        for i in range(a.size(0)):
            left.append(a[i])
        for i in range(b.size(0)):
            right.append(b[i])
        out: list[Tensor] = []
        while len(left) > 0 and len(right) > 0:
            if bool(left[0][0] <= right[0][0]):
                out.append(left.pop(0))
            else:
                out.append(right.pop(0))
        for one in left:
            out.append(one)
        for one in right:
            out.append(one)
        return torch.stack(out)


@module
class ReplayMemory(torch.nn.Module):
    """A memory of at most `room` states, the oldest of which make way; each row asks it by dot product."""

    def __init__(self):
        super().__init__()
        self.key = torch.nn.Linear(8, 8)

    def forward(self, x, room):
        memory: list[Tensor] = [torch.zeros_like(x[0])]
        answers: list[Tensor] = []
        for i in range(x.size(0)):
            weights = torch.softmax(torch.stack(memory) @ self.key(x[i]), 0)
            answers.append(weights @ torch.stack(memory))
            memory.append(x[i])
            if len(memory) > int(room):
                memory.pop(0)
        return torch.stack(answers), memory


if __name__ == "__main__":
    main()
