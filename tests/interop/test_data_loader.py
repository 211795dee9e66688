"""PyTorch's DataLoader takes sequences as they are: each element once an epoch, batches as sequences."""

from multiprocessing.reduction import ForkingPickler

import numpy as np
import pytest
from support import loaders
from support.processes import METHODS
from support.saved import Tagged, lies_in, needs_proc, ragged, saved
from support.strategies import assert_holds

import seqcore as sq
from seqcore import TensorSequence

torch = pytest.importorskip("torch")
from torch.utils.data import DataLoader, Subset  # noqa: E402

COUNT = 203
LENGTHS = [i % 7 for i in range(COUNT)]

# From 3.12 on: of the threads that the tests before have left behind.
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    """Element i has i % 7 rows, each of them i and i + 0.5."""
    values = np.repeat(np.arange(COUNT, dtype=np.float32), LENGTHS)[:, None] + np.float32([0, 0.5])
    seq = TensorSequence.from_lengths(values, LENGTHS)
    folder = tmp_path_factory.mktemp("data")
    sq.save(folder / "first", seq[:90])
    sq.save(folder / "second", iter([seq[90:100], seq[100:]]))
    return sq.load([folder / "first", folder / "second"])


def expected(i):
    return np.tile(np.float32([i, i + 0.5]), (LENGTHS[i], 1))


def loader_of(dataset, collate, seed=0, **options):
    generator = torch.Generator().manual_seed(seed)
    options = {"batch_size": 16, "shuffle": True, "generator": generator, **options}
    return DataLoader(dataset, collate_fn=collate, **options)


def order_of(seed, epochs=1):
    """The order in which PyTorch shuffles: what it does with one number for each element."""
    options = {"num_workers": 2, "persistent_workers": True, "multiprocessing_context": METHODS[0]}
    loader = loader_of(range(COUNT), list, seed, **(options if epochs > 1 else {}))
    return [[i for batch in loader for i in batch] for _ in range(epochs)]


def holds(batch, positions):
    """Whether a padded batch is of these elements."""
    kind, lengths, array, _ = batch
    assert kind == "TensorSequence"
    assert lengths.tolist() == [LENGTHS[i] for i in positions]
    for row, i in zip(array, positions, strict=True):
        assert np.array_equal(row[: LENGTHS[i]], expected(i))
        assert np.all(row[LENGTHS[i] :] == -1)
    return True


# --- in this process ---


@pytest.mark.parametrize("batch_size", [1, 16, 203, 500])
def test_batches_are_sequences(dataset, batch_size):
    (order,) = order_of(0)
    batches = list(loader_of(dataset, lambda batch: batch, batch_size=batch_size))
    assert all(type(batch) is TensorSequence for batch in batches)
    loaded = [element for batch in batches for element in batch]
    assert sorted(order) == list(range(COUNT))
    if batch_size == 16:
        assert_holds(sum(batches[1:], batches[0]), [expected(i) for i in order])
    assert len(loaded) == COUNT
    assert sorted(len(element) for element in loaded) == sorted(LENGTHS)


@pytest.mark.slow
def test_jagged_tensors(dataset):
    (order,) = order_of(3)
    seen = []
    for values, offsets in loader_of(dataset, loaders.flat, 3):
        jagged = torch.nested.nested_tensor_from_jagged(
            torch.from_numpy(np.array(values)), torch.from_numpy(offsets)
        )
        assert jagged.is_nested
        assert jagged.layout == torch.jagged
        seen += [row.numpy() for row in jagged.unbind()]
    assert all(np.array_equal(row, expected(i)) for row, i in zip(seen, order, strict=True))


def test_padded_tensors_as_pad_sequence_has_them(dataset):
    def both(batch):
        rows = [torch.from_numpy(np.array(element)) for element in batch]
        return torch.from_numpy(batch.to_padded()), torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)

    for ours, theirs in loader_of(dataset, both):
        assert torch.equal(ours, theirs)


# --- in workers ---


@pytest.mark.slow
@pytest.mark.parametrize("context", METHODS)
@pytest.mark.mostly_at_night(3)
def test_each_element_once_an_epoch(dataset, context):
    orders = order_of(11, epochs=2)
    loader = loader_of(
        dataset,
        loaders.padded,
        11,
        num_workers=2,
        multiprocessing_context=context,
        persistent_workers=True,
        timeout=100,
    )
    by = set()
    for order in orders:
        batches = list(loader)
        assert len(batches) == 13
        assert all(holds(batch, order[16 * i : 16 * i + 16]) for i, batch in enumerate(batches))
        assert sorted(order) == list(range(COUNT))
        by |= {batch[-1] for batch in batches}
    assert len(by) == 2
    del loader


@pytest.mark.slow
def test_workers_of_a_selection(dataset):
    """What goes to them is positions in files; elements of its own go as data."""
    seq = dataset[::-1][:60] + TensorSequence([np.float32([[7, 7]])])
    loader = DataLoader(
        seq, batch_size=10, collate_fn=loaders.elements, num_workers=1, multiprocessing_context="spawn"
    )
    found = [element for batch in loader for element in batch]
    model = [expected(i) for i in range(COUNT)][::-1][:60]
    assert_holds(TensorSequence(found), [*model, np.float32([[7, 7]])])


@pytest.mark.parametrize("kind", ["whole", "shuffled", "subset", "tagged"])
def test_few_bytes_go_to_a_spawned_worker(tmp_path, kind):
    seq = saved(tmp_path / "large", ragged([1000] * 500, "float32"))
    order = np.random.default_rng(0).permutation(500)
    dataset = {
        "whole": lambda: seq,
        "shuffled": lambda: seq[order],
        "subset": lambda: Subset(seq, order.tolist()),
        "tagged": lambda: Tagged(seq[:], "x"),
    }[kind]()
    nbytes = len(ForkingPickler.dumps(dataset))
    assert nbytes < (2_000 if kind == "whole" else 2_000 + 40 * 500)


@needs_proc
@pytest.mark.parametrize("copies", [1, 3])
def test_a_worker_has_the_file_and_no_copy(tmp_path, copies):
    """The pickle of a dataset brings what lies in the file, and not what it held."""
    path = tmp_path / "large"
    seq = saved(path, ragged([1000] * 50, "float32"))
    back = ForkingPickler.loads(ForkingPickler.dumps(seq))
    for _ in range(copies - 1):
        back = ForkingPickler.loads(ForkingPickler.dumps(back))
    assert all(lies_in(element, path) for element in back)


# --- every kind of batch, as PyTorch wants it ---

ROWS = 37
SIZES = [1 + i % 3 for i in range(ROWS)]
# Of one length the values of two rows in falling order are a view that goes backwards.
KINDS = {
    "even": lambda: TensorSequence.from_lengths(np.arange(2 * ROWS), [2] * ROWS),
    "rows": lambda: sq.split_to_sequence(np.arange(2 * ROWS).reshape(ROWS, 2), keepdims=0),
    "uneven": lambda: TensorSequence.from_lengths(np.arange(sum(SIZES)), SIZES),
    "reversed": lambda: TensorSequence.from_lengths(np.arange(2 * ROWS), [2] * ROWS)[::-1],
    "of a reversed array": lambda: sq.split_to_sequence(np.arange(2 * ROWS)[::-1], 2),
    "arrays": lambda: TensorSequence([np.arange(n)[::-1] for n in SIZES]),
    "of a batch": lambda: TensorSequence.from_padded(np.arange(3 * ROWS).reshape(ROWS, 3), SIZES),
}


def rows_of(kind):
    tokens = KINDS[kind]()
    numbers = sq.split_to_sequence(np.arange(ROWS, dtype=np.float32), keepdims=0)[::-1]
    where = np.arange(2.0 * ROWS).reshape(ROWS, 2)[::-1, ::-1]
    return sq.Columns({"tokens": tokens, "label": np.arange(ROWS), "where": where, "numbers": numbers})


def check_epochs(rows, kind, epochs, **options):
    tokens = KINDS[kind]()
    where = rows_of(kind)
    for epoch in range(epochs):
        seen = []
        for found in loader_of(rows, loaders.tensors, seed=epoch, **options):
            positions = found["label"].tolist()
            assert found["values"].tolist() == [x for i in positions for x in tokens[i].tolist()]
            assert found["values"].tolist() == found["joined"].tolist() == found["from_dlpack"].tolist()
            assert found["padded"][found["mask"]].tolist() == found["values"].tolist()
            assert found["where"].tolist() == [where[i]["where"].tolist() for i in positions]
            assert found["numbers"].tolist() == [ROWS - 1 - i for i in positions]
            seen += positions
        assert sorted(seen) == list(range(ROWS))


@pytest.mark.parametrize("kind", KINDS)
def test_each_batch_is_what_pytorch_takes(kind):
    rows = rows_of(kind)
    for batch_size in range(1, 6):
        check_epochs(rows, kind, 12, batch_size=batch_size)
    for options in ({"batch_size": 2}, {"max_tokens": 7}, {"capacity": 5}):
        sampler = sq.BatchSampler(rows["tokens"], **options)
        for epoch in range(4):
            sampler.set_epoch(epoch)
            batches = list(DataLoader(rows, batch_sampler=sampler, collate_fn=loaders.tensors))
            assert sorted({i for found in batches for i in found["label"].tolist()}) == list(range(ROWS))
    tokens = [found["values"] for found in loader_of(rows["tokens"], loaders.tensors, batch_size=2)]
    assert sorted(torch.cat(tokens).tolist()) == sorted(rows["tokens"].values().tolist())


@pytest.mark.parametrize("batch_size", [1, 2, 5])
def test_each_batch_of_workers_is_what_pytorch_takes(tmp_path, batch_size):
    rows = rows_of("even")
    rows.save(tmp_path / "rows.arrow")
    for one in (rows, sq.load(tmp_path / "rows.arrow")):
        options = {"num_workers": 2, "multiprocessing_context": METHODS[0]}
        check_epochs(one, "even", 2, batch_size=batch_size, **options)


def test_columns_that_workers_send_are_what_pytorch_takes():
    rows = rows_of("even")
    loader = loader_of(
        rows, loaders.identity, batch_size=2, num_workers=2, multiprocessing_context=METHODS[0]
    )
    for batch in loader:
        assert loaders.tensors(batch)["label"].tolist() == batch["label"].tolist()
