"""The rows about loaders of training data: batches of a file, and the memory of workers."""

import itertools
import pickle

import numpy as np

from . import workers
from .declare import OURS, Limit, Side, case, optional
from .files import COUNT, stored


@case(
    "a padded batch of 32 at random from a loaded file, 1 to 399 float32",
    Limit("a list, and torch's pad_sequence", 1 / 3),
)
def pad_batches():
    if not optional("pyarrow"):
        return {}
    seq, arrays = stored(399)
    batches = np.random.default_rng(2).permutation(COUNT).reshape(-1, 32).tolist()

    def side(pad):
        turns = itertools.cycle(batches)  # all of the file, so that caches don't hold what is read
        return Side(lambda: [pad(next(turns)) for _ in range(100)], noperations=100)

    sides = {OURS: side(lambda batch: seq.__getitems__(batch).to_padded())}
    if torch := optional("torch"):
        tensors, pad_sequence = [torch.from_numpy(array) for array in arrays], torch.nn.utils.rnn.pad_sequence
        sides["a list, and torch's pad_sequence"] = side(
            lambda batch: pad_sequence([tensors[i] for i in batch], batch_first=True)
        )
    return sides


# --- workers ---


def of_workers(ours, method, which):
    """Measure the memory of a worker, with our data set and with a list of arrays."""
    if not (optional("pyarrow") and workers.can_measure()):
        return {}
    return {
        OURS: Side(lambda: workers.measured(ours, method)[which]),
        "a list of arrays": Side(lambda: workers.measured("list", method)[which]),
    }


@case(
    "dirtied by a forked worker in an epoch: split array of 240 MB",
    Limit("a list of arrays", 1 / 10),
    unit="bytes",
)
def dirtied_of_split():
    return of_workers("split", "fork", "dirtied")


@case(
    "dirtied by a forked worker in an epoch: loaded file of 240 MB",
    Limit("a list of arrays", 1 / 10),
    unit="bytes",
)
def dirtied_of_loaded():
    return of_workers("loaded", "fork", "dirtied")


@case(
    "private memory of a spawned worker: loaded file of 240 MB",
    Limit("a list of arrays", 1 / 2),
    unit="bytes",
)
def spawned_with_loaded():
    return of_workers("loaded", "spawn", "own")


@case(
    "sent to a spawned worker: loaded file of 200 MB",
    Limit("a list of arrays", 1 / 1000),
    unit="bytes",
)
def pickled_for_worker():
    if not optional("pyarrow"):
        return {}
    seq, arrays = stored(999)
    return {
        OURS: Side(lambda: len(pickle.dumps(seq))),
        "a list of arrays": Side(lambda: len(pickle.dumps(arrays))),
    }
