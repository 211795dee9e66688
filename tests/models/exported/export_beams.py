"""Beam searches, whose beams are lists, scripted.

Run with PyTorch 2.13: `python export_beams.py [NAME ...]`.
"""

import torch
from common import main, module
from torch import Tensor


@module
class BeamSearch(torch.nn.Module):
    """Three beams, each a tensor that grows; `table` has the scores of what may follow what."""

    def forward(self, table, steps):
        start = table[0].topk(3)
        totals = start[0]
        beams: list[Tensor] = []
        for k in range(3):
            beams.append(start[1][k].reshape(1))
        for _ in range(int(steps)):
            candidates: list[Tensor] = []
            for k in range(3):
                candidates.append(table[int(beams[k][-1])] + totals[k])
            totals, flat = torch.cat(candidates).topk(3)
            longer: list[Tensor] = []
            for k in range(3):
                at = int(flat[k])
                word = flat[k] % table.size(0)
                longer.append(torch.cat([beams[at // table.size(0)], word.reshape(1)]))
            beams = longer
        return torch.stack(beams), totals


@module
class BeamBackpointers(torch.nn.Module):
    """Beams by their parents: two lists of what was chosen, walked back at the end."""

    def forward(self, scores):
        totals = torch.zeros(4)
        parents: list[Tensor] = []
        words: list[Tensor] = []
        for i in range(scores.size(0)):
            both = (totals.unsqueeze(1) + scores[i]).reshape(-1)
            totals, at = both.topk(4)
            parents.append(at // scores.size(2))
            words.append(at % scores.size(2))
        k = torch.tensor(0)
        path: list[Tensor] = []
        i = len(words) - 1
        while i >= 0:
            path.insert(0, words[i][k])
            k = parents[i][k]
            i -= 1
        return torch.stack(path), totals


@module
class FinishedBeams(torch.nn.Module):
    """A beam that meets 0 goes to the finished ones; returns those, and how many are alive."""

    def forward(self, table, first, limit):
        alive: list[Tensor] = []
        for k in range(first.size(0)):
            alive.append(first[k].reshape(1))
        finished: list[Tensor] = []
        step = 0
        while len(alive) > 0 and step < int(limit):
            longer: list[Tensor] = []
            for beam in alive:
                word = table[beam[-1]].argmax().reshape(1)
                grown = torch.cat([beam, word])
                if bool(word[0] == 0):
                    finished.append(grown)
                else:
                    longer.append(grown)
            alive = longer
            step += 1
        return finished, len(alive), step


@module
class Viterbi(torch.nn.Module):
    """The best path of labels through emissions: a list of backpointers."""

    def __init__(self):
        super().__init__()
        self.moves = torch.nn.Parameter(torch.randn(5, 5))

    def forward(self, emissions):
        back: list[Tensor] = []
        total = emissions[0]
        for i in range(1, emissions.size(0)):
            best, at = (total.unsqueeze(1) + self.moves).max(0)
            back.append(at)
            total = best + emissions[i]
        label = total.argmax()
        path = [label]
        for i in range(len(back)):
            label = back[len(back) - 1 - i][label]
            path.append(label)
        return torch.stack(path).flip(0), total.amax()


if __name__ == "__main__":
    main()
