"""Lists as arguments, results and branches, and what is done to them, scripted.

Run with PyTorch 2.13: `python export_lists.py [NAME ...]`. ONNX has no lists of lists, and neither has this.
"""

import torch
from common import main, module
from torch import Tensor


@module
class ListMeans(torch.nn.Module):
    """A list of tensors of different lengths as argument."""

    def forward(self, parts: list[Tensor]):
        out: list[Tensor] = []
        for part in parts:
            out.append(part.mean(0))
        return torch.stack(out), len(parts)


@module
class ListToList(torch.nn.Module):
    """A list in and a list out, of as many."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, x, parts: list[Tensor]):
        out: list[Tensor] = []
        for i in range(len(parts)):
            out.append(torch.tanh(self.layer(parts[i]) + x))
        return out


@module
class ListUpdates(torch.nn.Module):
    """Residual updates in place: `out[i] = out[i] + ...`, twice."""

    def forward(self, x):
        states: list[Tensor] = []
        for i in range(x.size(0)):
            states.append(x[i])
        for _ in range(2):
            for i in range(1, len(states)):
                states[i] = states[i] + 0.5 * states[i - 1]
        return torch.stack(states)


@module
class ListEnds(torch.nn.Module):
    """Front and back: `list + list`, `insert(0, x)`, and negative indices."""

    def forward(self, x):
        front = [x[0], x[-1]] + [x[0] - x[-1]]
        back: list[Tensor] = []
        for i in range(x.size(0)):
            if i % 2 == 0:
                front.insert(0, x[i])
            else:
                back.append(x[i] * 2)
        front.append(back[-1])
        return torch.stack(front), front[-1], front[-2], len(back)


@module
class BranchLists(torch.nn.Module):
    """Either branch makes a list of its own."""

    def forward(self, x):
        if bool(x.sum() > 0):
            out = [x[0], x[-1]]
            for i in range(x.size(0)):
                out.append(x[i] * 2)
        else:
            out = [-x[0]]
            for i in range(x.size(0)):
                out.insert(0, -x[i])
        return torch.stack(out), len(out)


@module
class Comprehension(torch.nn.Module):
    """List comprehensions, one after another."""

    def forward(self, x):
        rows = [x[i] * 2 for i in range(x.size(0))]
        shifted = [row + 1 for row in rows]
        return torch.stack(shifted), torch.stack([row.sum() for row in rows])


@module
class ReversedList(torch.nn.Module):
    """A list is turned around by a loop from its end."""

    def forward(self, x):
        rows: list[Tensor] = []
        for i in range(x.size(0)):
            rows.append(x[i] + i)
        turned: list[Tensor] = []
        for i in range(len(rows)):
            turned.append(rows[len(rows) - 1 - i])
        return turned


@module
class Accumulators(torch.nn.Module):
    """Ints and floats are counted beside a list, until there is enough."""

    def forward(self, x, enough):
        out: list[Tensor] = []
        total = torch.zeros(())
        count = 0
        i = 0
        while i < x.size(0) and bool(total < enough):
            row = x[i]
            if bool(row[0] > 0):
                total = total + row[0]
                out.append(row)
            else:
                count += 1
            i += 1
        return out, total, count


@module
class Flattened(torch.nn.Module):
    """Groups of lists, flattened as they come, with the group of each."""

    def forward(self, x, counts):
        flat: list[Tensor] = []
        group: list[Tensor] = []
        start = 0
        for i in range(counts.size(0)):
            inner: list[Tensor] = []
            for k in range(int(counts[i])):
                inner.insert(0, x[start + k])
            start += int(counts[i])
            for one in inner:
                flat.append(one)
                group.append(counts[i] * 0 + i)
        return torch.stack(flat), torch.stack(group)


@module
class Extended(torch.nn.Module):
    """Lists of two rows are added to a list in each step, and the list to another at the end."""

    def forward(self, x):
        out: list[Tensor] = []
        for i in range(x.size(0)):
            out += [x[i], -x[i]]
        return torch.stack(out)


@module
class NestedBranches(torch.nn.Module):
    """Branches within branches of a loop edit the list in three ways."""

    def forward(self, x, signs):
        out = [x[0]]
        for i in range(x.size(0)):
            if bool(signs[i] > 0):
                if bool(signs[i] > 1):
                    out.append(x[i])
                else:
                    out.insert(0, x[i])
            else:
                out[0] = x[i] * 2
        return torch.stack(out), len(out)


@module
class DoubleStates(torch.nn.Module):
    """A list of float64."""

    def forward(self, x):
        out = [x[0]]
        for i in range(1, x.size(0)):
            out.append(torch.sin(out[-1]) + x[i])
        return torch.stack(out)


@module
class BoolMasks(torch.nn.Module):
    """A list of masks, of booleans, each of the rows that are like one."""

    def forward(self, x):
        masks: list[Tensor] = []
        for i in range(x.size(0)):
            masks.append(x == x[i])
        return torch.stack(masks), masks


@module
class LongestOf(torch.nn.Module):
    """The longest of a list that comes in, and where it stands."""

    def forward(self, parts: list[Tensor]):
        at = 0
        for i in range(1, len(parts)):
            if parts[i].size(0) > parts[at].size(0):
                at = i
        return parts[at], at


@module
class KeptAndRest(torch.nn.Module):
    """A list is parted in two by what is in it; both come back."""

    def forward(self, x, mark):
        kept: list[Tensor] = []
        rest: list[Tensor] = []
        for i in range(x.size(0)):
            if bool(x[i].amax() > mark):
                kept.append(x[i])
            else:
                rest.append(x[i])
        return kept, rest, len(kept) - len(rest)


if __name__ == "__main__":
    main()
