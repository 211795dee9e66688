"""What the workers of data loaders do; other processes import it from here."""

import os
import warnings

import numpy as np

import seqcore as sq


def padded(batch):
    """The type of a batch, its lengths, its elements padded, and by whom."""
    return type(batch).__name__, batch.lengths(), batch.to_padded(-1), os.getpid()


def identity(batch):
    return batch


def flat(batch):
    return batch.values(), batch.offsets()


def tensors(batch):
    """The tensors that the pages make of Columns and sequences, without a warning."""
    import torch

    with warnings.catch_warnings(action="error"):
        columns = batch if type(batch).__name__ == "Columns" else {"tokens": batch}
        tokens = columns["tokens"]
        ids, mask = tokens.to_padded(dtype="int64", return_mask=True)
        found = {
            "padded": torch.from_numpy(ids),
            "mask": torch.from_numpy(mask),
            "values": torch.tensor(tokens.values()),
            "from_dlpack": torch.from_dlpack(tokens.values()).clone(),
            "cu_seqlens": torch.tensor(tokens.offsets("int32")),
            "lengths": torch.from_numpy(tokens.lengths()),
            "position_ids": torch.from_numpy(tokens.position_ids()),
            "segment_ids": torch.from_numpy(tokens.segment_ids()),
            "sums": torch.from_numpy(tokens.reduce(np.sum)),
            "joined": torch.from_numpy(sq.concat_from_sequence(tokens, 0)),
        }
        for name in ("label", "where", "numbers"):
            if name in columns:
                found[name] = torch.from_numpy(columns[name])
                assert torch.equal(torch.tensor(columns[name]), found[name])
    return found


def elements(batch):
    return [np.array(element) for element in batch]
