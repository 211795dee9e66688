"""The rows about loaders of training data: batches of a file, and the memory of workers."""

import functools
import itertools
import pickle

import numpy as np

import seqcore as sq

from . import workers
from .declare import OURS, Limit, Side, case, optional
from .files import COUNT, folder, stored


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


# --- what people hold ---

ROWS = 20_000


@case(
    "a padded batch of 32 of Megatron's .bin and .idx, 20 to 119 uint16",
    Limit("its reader's way, and pad_sequence", 1 / 3),
)
def pad_pair():
    if not (torch := optional("torch")):
        return {}
    lengths = np.random.default_rng(1).integers(20, 120, COUNT)
    tokens = np.random.default_rng(2).integers(0, 50_000, lengths.sum(), dtype=np.uint16)
    path = folder() / "corpus.idx"
    sq.save(path, sq.TensorSequence.from_lengths(tokens, lengths))
    seq, memory = sq.load(path), np.memmap(path.with_suffix(".bin"), mode="r")
    starts = 2 * (np.cumsum(lengths) - lengths)
    batches = np.random.default_rng(3).permutation(COUNT)[: COUNT // 32 * 32].reshape(-1, 32).tolist()

    def read(i):
        return torch.from_numpy(np.frombuffer(memory, np.uint16, lengths[i], starts[i]).astype(np.int64))

    def side(pad):
        turns = itertools.cycle(batches)
        return Side(lambda: [pad(next(turns)) for _ in range(100)], noperations=100)

    pad_sequence = torch.nn.utils.rnn.pad_sequence
    return {
        OURS: side(lambda batch: torch.from_numpy(seq[batch].to_padded(dtype="int64"))),
        "its reader's way, and pad_sequence": side(
            lambda batch: pad_sequence([read(i) for i in batch], batch_first=True)
        ),
    }


@case(
    "a padded batch of 32 of a shuffled datasets.Dataset, 4 to 512 uint16",
    Limit('its format "torch", and pad_sequence', 1 / 10),
)
def pad_dataset():
    torch, datasets = optional("torch"), optional("datasets")
    if not (torch and datasets and optional("pyarrow")):
        return {}
    rows = datasets.load_from_disk(labeled()[2]).select_columns(["tokens"]).shuffle(seed=1)
    columns, theirs = sq.Columns.from_dataset(rows), rows.with_format("torch")
    batches = np.random.default_rng(3).permutation(ROWS).reshape(-1, 32).tolist()

    def side(pad):
        turns = itertools.cycle(batches)
        return Side(lambda: [pad(next(turns)) for _ in range(20)], noperations=20)

    pad_sequence = torch.nn.utils.rnn.pad_sequence
    return {
        OURS: side(lambda batch: torch.from_numpy(columns[batch]["tokens"].to_padded(dtype="int64"))),
        'its format "torch", and pad_sequence': side(
            lambda batch: pad_sequence(theirs[batch]["tokens"], batch_first=True)
        ),
    }


DOCUMENTS = 1_000_000


@functools.cache
def pair_of_documents():
    """A Megatron pair of a million documents of ten tokens."""
    path = folder() / "documents.idx"
    tokens = np.resize(np.arange(50_000, dtype=np.uint16), 10 * DOCUMENTS)
    sq.save(path, sq.TensorSequence.from_lengths(tokens, np.full(DOCUMENTS, 10)))
    return path


@case("open a .bin and .idx of Megatron with 10⁶ documents", Limit(None, 5e-3))
def open_pair():
    path = pair_of_documents()
    return {OURS: Side(lambda: sq.load(path))}


@case("the pickle of a .bin and .idx of Megatron with 10⁶ documents", Limit(None, 1000), unit="bytes")
def pickle_pair():
    seq = sq.load(pair_of_documents())
    return {OURS: Side(lambda: len(pickle.dumps(seq)))}


@case("lengths() of a .bin and .idx of Megatron with 10⁶ documents", Limit("np.diff of offsets", 8))
def lengths_of_pair():
    seq, offsets = sq.load(pair_of_documents()), np.arange(DOCUMENTS + 1)
    return {OURS: Side(seq.lengths), "np.diff of offsets": Side(lambda: np.diff(offsets))}


@case("the pickle of a shuffled datasets.Dataset, bytes a row", Limit(None, 8), unit="bytes")
def pickle_dataset():
    datasets = optional("datasets")
    if not (optional("torch") and datasets and optional("pyarrow")):
        return {}
    columns = sq.Columns.from_dataset(datasets.load_from_disk(labeled()[2]).shuffle(seed=1), ["tokens"])
    return {OURS: Side(lambda: len(pickle.dumps(columns)) / len(columns))}


# --- samplers ---


def first_batch(**kind):
    lengths = np.random.default_rng(7).lognormal(5, 1, 10_000_000).astype(np.int32) % 4096

    def first():
        sampler = sq.BatchSampler(lengths, **kind)
        sampler.set_epoch(1)
        return next(iter(sampler))

    return {
        OURS: Side(first),
        'np.argsort(lengths, kind="stable")': Side(lambda: np.argsort(lengths, kind="stable")),
    }


FIRST = Limit('np.argsort(lengths, kind="stable")', 1.5, aim=0.7)


@case("BatchSampler over 10⁷ lengths, to its first batch: max_tokens=16384", FIRST, most_rounds=3)
def first_padded():
    return first_batch(max_tokens=16_384)


@case("BatchSampler over 10⁷ lengths, to its first batch: capacity=8192", FIRST, most_rounds=3)
def first_pack():
    return first_batch(capacity=8192)


def evenly(lengths):
    """PyTorch's sampler for one rank of four, and its batches of 32."""
    sampler = optional("torch").utils.data.distributed.DistributedSampler(lengths, 4, 0)
    return list(optional("torch").utils.data.BatchSampler(sampler, 32, drop_last=False))


@case(
    "an epoch of positions for one rank of four, 10⁶ elements, batches of 32",
    Limit("DistributedSampler, of any lengths", 1),
    most_rounds=5,
)
def epoch_of_positions():
    if not optional("torch"):
        return {}
    lengths = np.random.default_rng(7).integers(1, 2000, 1_000_000)
    return {
        OURS: Side(lambda: list(sq.BatchSampler(lengths, batch_size=32, rank=0, world_size=4))),
        "DistributedSampler, of any lengths": Side(lambda: evenly(lengths)),
    }


# --- an epoch, from the file to the last batch ---


def labeled():
    """A file of tokens and labels, the same as a list of tensors and as a folder of `datasets`, or None."""
    torch, datasets = optional("torch"), optional("datasets")
    lengths = np.clip(np.random.default_rng(3).lognormal(4, 0.7, ROWS).astype(int), 4, 512)
    tokens = sq.TensorSequence.from_lengths(
        np.random.default_rng(4).integers(0, 32_000, lengths.sum(), dtype=np.uint16), lengths
    )
    labels = np.random.default_rng(5).integers(0, 5, ROWS)
    columns = sq.Columns({"tokens": tokens, "label": labels})
    paths = [folder() / name for name in ("labeled.arrow", "labeled.pt", "labeled")]
    columns.save(paths[0])
    rows = [
        (torch.from_numpy(one.astype(np.int64)), int(label))
        for one, label in zip(tokens, labels, strict=True)
    ]
    torch.save(rows, paths[1])
    if datasets:
        datasets.disable_progress_bars()
        datasets.Dataset(pyarrow_table(columns)).save_to_disk(paths[2])
    return paths


def pyarrow_table(columns):
    import pyarrow as pa

    return pa.table(columns)


def similar_lengths(lengths, size=32):
    """Return batches of similar length, shuffled, as users write them."""
    order = np.argsort(lengths, kind="stable")
    batches = [order[first : first + size].tolist() for first in range(0, len(order), size)]
    np.random.default_rng(0).shuffle(batches)
    return batches


def pad_rows(rows):
    from torch import arange, tensor
    from torch.nn.utils.rnn import pad_sequence

    ids = [tokens for tokens, _ in rows]
    lengths = tensor([len(one) for one in ids])
    padded = pad_sequence(ids, batch_first=True)
    mask = arange(padded.shape[1]) < lengths[:, None]
    return padded, mask, tensor([label for _, label in rows])


@case(
    "an epoch of 20,000 rows: from a file, batches of 32 of similar length, padded",
    Limit("a list of tensors", 1 / 2),
    Limit("Hugging Face datasets", 1 / 5),
    most_rounds=5,
)
def epoch():
    torch = optional("torch")
    if not (torch and optional("pyarrow")):
        return {}
    arrow, pickled, hub = labeled()
    loader = torch.utils.data.DataLoader

    def padded(batch):
        ids, mask = batch["tokens"].to_padded(dtype="int64", return_mask=True)
        return torch.from_numpy(ids), torch.from_numpy(mask), torch.tensor(batch["label"])

    def of_columns():
        columns = sq.load(arrow)
        sampler = sq.BatchSampler(columns["tokens"], batch_size=32)
        return sum(ids.shape[0] for ids, _, _ in loader(columns, batch_sampler=sampler, collate_fn=padded))

    def of_list():
        rows = torch.load(pickled)
        batches = similar_lengths([len(tokens) for tokens, _ in rows])
        return sum(ids.shape[0] for ids, _, _ in loader(rows, batch_sampler=batches, collate_fn=pad_rows))

    def of_datasets():
        rows = optional("datasets").load_from_disk(hub)
        batches = similar_lengths([len(tokens) for tokens in rows.with_format("numpy")["tokens"]])
        pad = loader(
            rows.with_format("torch"),
            batch_sampler=batches,
            collate_fn=lambda rows: pad_rows([(row["tokens"], row["label"]) for row in rows]),
        )
        return sum(ids.shape[0] for ids, _, _ in pad)

    assert of_columns() == of_list() == ROWS
    sides = {OURS: Side(of_columns), "a list of tensors": Side(of_list)}
    if optional("datasets"):
        assert of_datasets() == ROWS
        sides["Hugging Face datasets"] = Side(of_datasets)
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
    "private memory of a spawned worker: .bin and .idx of Megatron, 10⁷ documents",
    Limit("an Arrow file of them", 1.2),
    unit="bytes",
)
def spawned_with_pair():
    if not (optional("pyarrow") and workers.can_measure()):
        return {}
    return {
        OURS: Side(lambda: workers.measured("pair", "spawn")["own"]),
        "an Arrow file of them": Side(lambda: workers.measured("documents", "spawn")["own"]),
    }


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
