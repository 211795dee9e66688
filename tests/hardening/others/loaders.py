"""PyTorch's tests of its DataLoader, with a data set of sequences in place of TensorDataset.

PyTorch's wheel doesn't have them. They are in a checkout of torchdata, which keeps them for a loader of its
own: test/stateful_dataloader/test_dataloader.py. They need the packages expecttest and psutil.
"""

import re
from pathlib import Path

import torch
from hardening.others.outcomes import Report, run_rewritten
from torch.utils.data import Dataset

import seqcore as sq

EXCEPTIONS = {
    "TestDataLoader.test_get_worker_info": "fails without seqcore too, as it has a data set of its own",
}


class TensorDataset(Dataset):
    """Rows of tensors, as a sequence for each tensor."""

    def __init__(self, *tensors):
        assert len({len(tensor) for tensor in tensors}) == 1
        self.sequences = [sq.split_to_sequence(tensor, keepdims=0) for tensor in tensors]

    def __len__(self):
        return len(self.sequences[0])

    def __getitem__(self, which):
        return tuple(tensor_of(seq[which]) for seq in self.sequences)

    def __getitems__(self, positions):
        batches = [seq.__getitems__(positions) for seq in self.sequences]
        return list(zip(*(map(torch.tensor, batch) for batch in batches), strict=True))


def tensor_of(found):
    """Return an element, or the elements of a slice in one tensor, as TensorDataset does."""
    return torch.tensor(
        sq.concat_from_sequence(found, 0, 1) if isinstance(found, sq.TensorSequence) else found
    )


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
    # Those without our data set, about ends of processes that take a minute each, are left out.
    classes = "TensorDataset or RandomSplit or StackDataset or ConcatDataset or TestDataLoader"
    left_out = "Persistent or DeviceType or proper_exit or segfault or timeout or Spawn or large_sampler"
    outcomes = run_rewritten({"test_dataloader.py": text}, f"({classes}) and not ({left_out})", timeout=3600)
    return Report("PyTorch, DataLoader", outcomes, EXCEPTIONS)
