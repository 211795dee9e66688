"""Decoders that emit token after token, scripted.

Run with PyTorch 2.13: `python export_decoders.py [NAME ...]`.

Caches of keys and values are lists, one tensor for each step or one for each layer.
"""

import torch
from common import main, module
from torch import Tensor

WIDTH, WORDS = 8, 12


@module
class GreedyGru(torch.nn.Module):
    """The likeliest token goes back in, until it is the end, 0, or there are enough."""

    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(WORDS, WIDTH)
        self.update = torch.nn.Linear(2 * WIDTH, WIDTH)
        self.head = torch.nn.Linear(WIDTH, WORDS)

    def forward(self, state, start, limit):
        token = start
        tokens: list[Tensor] = []
        count = 0
        while count < int(limit):
            state = torch.tanh(self.update(torch.cat([self.embed(token), state])))
            scores = self.head(state)
            token = scores.argmax()
            count += 1
            tokens.append(token)
            if bool(token == 0):
                break
        return torch.stack(tokens), state, count


@module
class KvCache(torch.nn.Module):
    """One layer of attention over all steps so far, whose keys and values are lists."""

    def __init__(self):
        super().__init__()
        self.q = torch.nn.Linear(WIDTH, WIDTH)
        self.k = torch.nn.Linear(WIDTH, WIDTH)
        self.v = torch.nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        keys: list[Tensor] = []
        values: list[Tensor] = []
        out: list[Tensor] = []
        for i in range(x.size(0)):
            keys.append(self.k(x[i]))
            values.append(self.v(x[i]))
            scores = torch.stack(keys) @ self.q(x[i])
            out.append(torch.softmax(scores * 0.35, 0) @ torch.stack(values))
        return torch.stack(out), len(keys)


@module
class KvLayers(torch.nn.Module):
    """Three layers, whose caches grow by concatenation: a list with one tensor for each layer."""

    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.randn(3, WIDTH, WIDTH) / 3)

    def forward(self, x):
        caches: list[Tensor] = []
        for _ in range(3):
            caches.append(torch.zeros(1, x.size(1)))
        out: list[Tensor] = []
        for i in range(x.size(0)):
            h = x[i]
            for layer in range(3):
                caches[layer] = torch.cat([caches[layer], h.unsqueeze(0)])
                scores = torch.softmax(caches[layer] @ (self.w[layer] @ h), 0)
                h = torch.tanh(scores @ caches[layer] + h)
            out.append(h)
        return torch.stack(out), caches[-1]


@module
class CtcCollapse(torch.nn.Module):
    """The best path: repeated labels count once, blanks (0) not at all; with the sum of what was sure."""

    def forward(self, logits):
        best = logits.argmax(1)
        sure = torch.softmax(logits, 1).amax(1)
        labels: list[Tensor] = []
        last = torch.tensor(0)
        total = torch.tensor(0.0)
        for i in range(best.size(0)):
            if bool(best[i] != last) and bool(best[i] != 0):
                labels.append(best[i])
                total = total + sure[i]
            last = best[i]
        return labels, len(labels), total


@module
class PointerDecoder(torch.nn.Module):
    """Points at the row that fits best of those that are left, and takes it out of the list."""

    def __init__(self):
        super().__init__()
        self.query = torch.nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        left: list[Tensor] = []
        for i in range(x.size(0)):
            left.append(x[i])
        state = x.mean(0)
        order: list[Tensor] = []
        while len(left) > 0:
            scores = torch.stack(left) @ self.query(state)
            at = int(scores.argmax())
            state = torch.tanh(left.pop(at) + state)
            order.append(state)
        return torch.stack(order)


@module
class Nucleus(torch.nn.Module):
    """Tokens from the likeliest on, until their probabilities add up to p: a float beside a list."""

    def forward(self, logits, p):
        values, tokens = torch.softmax(logits, 0).sort(descending=True)
        kept: list[Tensor] = []
        mass = torch.zeros(())
        i = 0
        while i < values.size(0) and bool(mass < p):
            mass = mass + values[i]
            kept.append(tokens[i])
            i += 1
        return torch.stack(kept), mass


@module
class Speculative(torch.nn.Module):
    """Takes the draft's tokens as long as the model agrees, then one of its own."""

    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(WORDS, WIDTH)

    def forward(self, draft, start):
        accepted: list[Tensor] = []
        logs: list[Tensor] = []
        token = start
        agrees = True
        i = 0
        while agrees and i < draft.size(0):
            scores = self.embed.weight @ self.embed(token)
            logs.append(torch.log_softmax(scores, 0).amax())
            if bool(scores[draft[i]] > -4):
                token = draft[i]
            else:
                token = scores.argmax()
                agrees = False
            accepted.append(token)
            i += 1
        return torch.stack(accepted), torch.stack(logs), i


@module
class CrossAttention(torch.nn.Module):
    """A decoder that looks at an encoder's list of states in each step."""

    def __init__(self):
        super().__init__()
        self.encode = torch.nn.Linear(WIDTH, WIDTH)
        self.mix = torch.nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, source, steps):
        states: list[Tensor] = []
        h = torch.zeros(source.size(1))
        for i in range(source.size(0)):
            h = torch.tanh(self.encode(source[i]) + h)
            states.append(h)
        memory = torch.stack(states)
        out: list[Tensor] = []
        for _ in range(int(steps)):
            seen = torch.softmax(memory @ h, 0) @ memory
            h = torch.tanh(self.mix(torch.cat([h, seen])))
            out.append(h)
        return torch.stack(out)


if __name__ == "__main__":
    main()
