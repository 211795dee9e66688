"""Recurrent networks by hand, whose states are lists, scripted.

Run with PyTorch 2.13: `python export_states.py [NAME ...]`.
"""

import torch
from common import main, module
from torch import Tensor


@module
class StackedLstm(torch.nn.Module):
    """Two layers of LSTM cells; a list has the state of each layer."""

    def __init__(self):
        super().__init__()
        self.gates = torch.nn.Parameter(torch.randn(2, 32, 16) / 4)

    def forward(self, x):
        hs = [torch.zeros(8), torch.zeros(8)]
        cs = [torch.zeros(8), torch.zeros(8)]
        out: list[Tensor] = []
        for i in range(x.size(0)):
            below = x[i]
            for layer in range(2):
                gates = self.gates[layer] @ torch.cat([below, hs[layer]])
                a, b, c, d = gates.chunk(4)
                cs[layer] = torch.sigmoid(b) * cs[layer] + torch.sigmoid(a) * torch.tanh(c)
                hs[layer] = torch.sigmoid(d) * torch.tanh(cs[layer])
                below = hs[layer]
            out.append(below)
        return torch.stack(out), hs, torch.stack(cs)


@module
class Bidirectional(torch.nn.Module):
    """Forwards and backwards; the latter's list grows at its front."""

    def __init__(self):
        super().__init__()
        self.forth = torch.nn.Linear(8, 8)
        self.back = torch.nn.Linear(8, 8)

    def forward(self, x):
        forwards: list[Tensor] = []
        backwards: list[Tensor] = []
        h = torch.zeros(8)
        for i in range(x.size(0)):
            h = torch.tanh(self.forth(h) + x[i])
            forwards.append(h)
        h = torch.zeros(8)
        for i in range(x.size(0)):
            h = torch.tanh(self.back(h) + x[x.size(0) - 1 - i])
            backwards.insert(0, h)
        return torch.cat([torch.stack(forwards), torch.stack(backwards)], 1)


@module
class SkipStates(torch.nn.Module):
    """Each state comes from the last and the one three before."""

    def forward(self, x):
        states = [torch.zeros(8), torch.zeros(8), torch.zeros(8)]
        for i in range(x.size(0)):
            states.append(torch.tanh(x[i] + 0.5 * states[-1] - 0.3 * states[-3]))
        return torch.stack(states), states[-1]


@module
class TreeStates(torch.nn.Module):
    """A tree, bottom up: node k joins two earlier nodes."""

    def __init__(self):
        super().__init__()
        self.join = torch.nn.Linear(16, 8)

    def forward(self, leaves, children):
        nodes: list[Tensor] = []
        for i in range(leaves.size(0)):
            nodes.append(leaves[i])
        for i in range(children.size(0)):
            left, right = nodes[int(children[i, 0])], nodes[int(children[i, 1])]
            nodes.append(torch.tanh(self.join(torch.cat([left, right]))))
        return nodes[-1], torch.stack(nodes)


@module
class EarlyExit(torch.nn.Module):
    """Steps until the state hardly moves, or there were enough of them."""

    def __init__(self):
        super().__init__()
        self.step = torch.nn.Linear(8, 8)

    def forward(self, x, limit):
        states = [x]
        moved = True
        while moved and len(states) <= int(limit):
            state = torch.cos(self.step(states[-1]) * 3)
            moved = bool((state - states[-1]).abs().amax() > 1e-3)
            states.append(state)
        return torch.stack(states), len(states)


@module
class BatchedGru(torch.nn.Module):
    """A GRU over a batch, with the outputs of all steps."""

    def __init__(self):
        super().__init__()
        self.gates = torch.nn.Linear(12, 16)
        self.new = torch.nn.Linear(12, 8)

    def forward(self, x):
        h = torch.zeros(x.size(1), 8)
        out: list[Tensor] = []
        for i in range(x.size(0)):
            reset, update = torch.sigmoid(self.gates(torch.cat([x[i], h], 1))).chunk(2, 1)
            new = torch.tanh(self.new(torch.cat([x[i], reset * h], 1)))
            h = update * h + (1 - update) * new
            out.append(h)
        return torch.stack(out, 1), h


if __name__ == "__main__":
    main()
