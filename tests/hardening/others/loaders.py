"""PyTorch's tests of its DataLoader, with a data set of sequences in place of TensorDataset.

PyTorch's wheel doesn't have them. They are in a checkout of torchdata, which keeps them for a loader of its
own: test/stateful_dataloader/test_dataloader.py.
"""

import re
from pathlib import Path

import torch
from hardening.others.outcomes import Report, run_rewritten
from torch.utils.data import Dataset

import seqcore as sq

EXCEPTIONS = {}


class TensorDataset(Dataset):
    """Rows of tensors, as Columns of sequences."""

    def __init__(self, *tensors):
        assert len({len(tensor) for tensor in tensors}) == 1
        rows = {str(i): sq.split_to_sequence(tensor, keepdims=0) for i, tensor in enumerate(tensors)}
        self.columns = rows

    def __len__(self):
        return len(self.columns["0"])

    def __getitem__(self, which):
        found = [seq[which] for seq in self.columns.values()]
        return tuple(
            torch.tensor(sq.concat_from_sequence(one, 0, 1) if isinstance(one, sq.TensorSequence) else one)
            for one in found
        )

    def __getitems__(self, positions):
        rows = [map(torch.tensor, seq[positions]) for seq in self.columns.values()]
        return list(zip(*rows, strict=True))


def run(file):
    """Run the tests of a file that has PyTorch's."""
    text = Path(file).read_text(encoding="utf-8")
    text = text.replace(
        "from torchdata.stateful_dataloader import StatefulDataLoader as DataLoader",
        "from torch.utils.data import DataLoader",
    )
    text, n = re.subn(r"^    TensorDataset,\n", "", text, flags=re.M)
    assert n == 1, f"{file} has no import of TensorDataset"
    text = text.replace(
        "import torch\n", "import torch\nfrom hardening.others.loaders import TensorDataset\n", 1
    )
    outcomes = run_rewritten(
        {"test_dataloader.py": text},
        "TensorDataset or RandomSplit or StackDataset or ConcatDataset or TestDataLoader",
    )
    return Report("PyTorch, DataLoader", outcomes, EXCEPTIONS)
