"""A run that stops goes on with exactly the batches that were not trained on: loaders × workers × ranks.

Loaders whose packages aren't installed are skipped.
"""

import importlib

import numpy as np
import pytest

import seqcore as sq

torch = pytest.importorskip("torch")
from torch.utils.data import DataLoader  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # the other packages' own use of PyTorch

LENGTHS = np.random.default_rng(0).integers(1, 50, 200)
TOKENS = sq.TensorSequence.from_lengths(np.arange(LENGTHS.sum()), LENGTHS)
DATA = sq.Columns({"tokens": TOKENS, "at": np.arange(len(TOKENS))})
EPOCH = 1


def sampler_of(rank=0, world_size=1):
    return sq.BatchSampler(TOKENS, max_tokens=400, seed=3, rank=rank, world_size=world_size)


def order_of(epoch):
    sampler = sampler_of()
    sampler.set_epoch(epoch)
    return list(sampler)


def positions(batch):
    return torch.tensor(batch["at"])


def options(sampler, workers):
    return {"batch_sampler": sampler, "collate_fn": positions, "num_workers": workers}


# Each function trains on `stop` batches of EPOCH, or on the rest of it from a state, then on the next epoch.
# It returns the batches, the next epoch's batches, and a state that counts the batches trained on.


def with_data_loader(rank, world_size, workers, stop=None, state=None):
    sampler = sampler_of(rank, world_size)
    loader = DataLoader(DATA, **options(sampler, workers))
    return run(loader, sampler, sampler, stop, state)


def with_accelerate(rank, world_size, workers, stop=None, state=None):
    """The loader is prepared as of one process, because the sampler has its rank already."""
    prepare = importlib.import_module("accelerate.data_loader").prepare_data_loader
    sampler = sampler_of(rank, world_size)
    loader = prepare(DataLoader(DATA, **options(sampler, workers)), num_processes=1, process_index=0)
    return run(loader, loader, sampler, stop, state)


def with_accelerate_dividing(rank, world_size, workers, stop=None, state=None):
    """The sampler has no ranks, so that its state counts the batches of all."""
    prepare = importlib.import_module("accelerate.data_loader").prepare_data_loader
    sampler = sampler_of()
    loader = DataLoader(DATA, **options(sampler, workers))
    loader = prepare(loader, num_processes=world_size, process_index=rank, even_batches=True)
    return run(loader, loader, sampler, stop, state, of_state=world_size)


def run(loader, epochs, sampler, stop, state, of_state=1):
    if state is not None:
        sampler.load_state_dict(state)
    epochs.set_epoch(EPOCH)
    seen, state = [], None
    for batch in loader:
        seen.append(batch.tolist())
        if len(seen) == stop:
            # Because the loader has fetched more.
            state = sampler.state_dict(batches=min(len(seen) * of_state, len(sampler)))
            break
    if state is None:
        state = sampler.state_dict()
    if stop is not None:
        return seen, None, state
    epochs.set_epoch(EPOCH + 1)
    return seen, [batch.tolist() for batch in loader], state


def with_stateful_loader(rank, world_size, workers, stop=None, state=None):
    """By the sampler's state, because the loader's own state goes on with the same number of ranks only."""
    stateful = importlib.import_module("torchdata.stateful_dataloader").StatefulDataLoader
    sampler = sampler_of(rank, world_size)
    return run(stateful(DATA, **options(sampler, workers)), sampler, sampler, stop, state)


def with_lightning(rank, world_size, workers, stop=None, state=None):
    """The module loads the sampler's state when the epoch starts, for any number of ranks.

    Not by Lightning's checkpoint, which counts this epoch's batches as of the same number of ranks. A loader
    with workers fetches batches in iter(), which Lightning calls before it sets the epoch, and again after
    `on_train_epoch_start`, except in its epoch 0.
    """
    lightning = importlib.import_module("pytorch_lightning")
    sampler = sampler_of(rank, world_size)
    epochs, states = {EPOCH: [], EPOCH + 1: []}, []

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(1, 1)

        def on_train_epoch_start(self):
            if state is not None and self.current_epoch == EPOCH:
                sampler.load_state_dict(state)

        def training_step(self, batch, _):
            seen = epochs[self.current_epoch]
            seen.append(batch.tolist())
            if len(seen) == stop:
                states.append(sampler.state_dict(batches=len(seen)))
            return self.layer(batch[:, None].float()).sum()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 1e-9)

    trainer = lightning_trainer(enable_checkpointing=False, max_steps=-1 if stop is None else stop)
    progress = trainer.fit_loop.epoch_progress.current  # as a checkpoint of Lightning sets it
    progress.ready = progress.started = progress.processed = progress.completed = EPOCH
    trainer.fit(Module(), DataLoader(DATA, **options(sampler, workers)))
    return epochs[EPOCH], epochs[EPOCH + 1], states[0] if states else None


def lightning_trainer(**options):
    quiet = dict.fromkeys(["logger", "enable_progress_bar", "enable_model_summary"], False)
    return importlib.import_module("pytorch_lightning").Trainer(
        accelerator="cpu", use_distributed_sampler=False, max_epochs=EPOCH + 2, **quiet, **options
    )


LOADERS = {
    "DataLoader": ("torch", with_data_loader),
    "StatefulDataLoader": ("torchdata", with_stateful_loader),
    "Accelerate": ("accelerate", with_accelerate),
    "Accelerate, dividing": ("accelerate", with_accelerate_dividing),
    "Lightning": ("pytorch_lightning", with_lightning),
}


@pytest.mark.mostly_slow(5)
@pytest.mark.parametrize("after", [1, 2, 4])
@pytest.mark.parametrize("before", [1, 2, 4])
@pytest.mark.parametrize("where", ["end", "middle"])
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("name", LOADERS)
@pytest.mark.mostly_at_night(11)
def test_goes_on_with_what_was_not_trained_on(name, workers, where, before, after):
    package, train = LOADERS[name]
    pytest.importorskip(package)
    order, following = order_of(EPOCH), order_of(EPOCH + 1)
    stop = len(sampler_of(0, before)) if where == "end" else 2
    first = [train(rank, before, workers, stop=stop) for rank in range(before)]
    states = [state for _, _, state in first]
    assert states[1:] == states[:-1]
    turns = [batch for turn in zip(*[seen for seen, _, _ in first], strict=True) for batch in turn]
    assert turns == (order + order)[: before * stop]
    rest = [train(rank, after, workers, state=states[0]) for rank in range(after)]
    turns = [batch for turn in zip(*[seen for seen, _, _ in rest], strict=True) for batch in turn]
    left = order[before * stop :]
    assert turns[: len(left)] == left
    assert len(turns) - len(left) < after
    turns = [batch for turn in zip(*[seen for _, seen, _ in rest], strict=True) for batch in turn]
    assert turns[: len(following)] == following


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("stop", [0, 3, 10])
def test_the_state_of_torchdatas_loader(num_workers, stop):
    """It has the sampler's, and what the loop has seen."""
    loaders = pytest.importorskip("torchdata.stateful_dataloader")

    def loader():
        return loaders.StatefulDataLoader(DATA, **options(sampler_of(), num_workers))

    interrupted = loader()
    interrupted.batch_sampler.set_epoch(1)
    batches = iter(interrupted)
    begun = [next(batches).tolist() for _ in range(stop)]
    state = interrupted.state_dict()
    resumed = loader()
    resumed.load_state_dict(state)
    resumed.batch_sampler.set_epoch(1)  # as a training loop does
    assert begun + [batch.tolist() for batch in resumed] == order_of(1)
    resumed.batch_sampler.set_epoch(2)
    assert [batch.tolist() for batch in resumed] == order_of(2)


@pytest.mark.mostly_at_night(3)
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("stop", [3, len(order_of(0)), len(order_of(0)) + 4, "an epoch"])
def test_a_checkpoint_of_lightning(tmp_path, workers, stop):
    """The hooks are those of the page on training.

    A checkpoint in mid-epoch skips `on_train_epoch_start`. One at the end of an epoch goes on with the next
    one, which a loader with workers has to know in iter(): Lightning's issue 21938.
    """
    lightning = pytest.importorskip("pytorch_lightning")
    sampler = sampler_of()

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer, self.seen, self.trained = torch.nn.Linear(1, 1), [], 0

        def on_train_epoch_start(self):
            self.trained = 0

        def on_train_batch_start(self, batch, _):
            self.trained += 1

        def training_step(self, batch, _):
            self.seen.append(batch.tolist())
            return self.layer(batch[:, None].float()).sum()

        def on_save_checkpoint(self, checkpoint):
            checkpoint["sampler"] = sampler.state_dict(batches=self.trained)
            checkpoint["epoch_ended"] = self.trainer.is_last_batch

        def on_load_checkpoint(self, checkpoint):
            sampler.load_state_dict(checkpoint["sampler"])
            if checkpoint["epoch_ended"]:
                sampler.set_epoch(checkpoint["sampler"]["epoch"] + 1)

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 1e-9)

    every = {} if stop == "an epoch" else {"every_n_train_steps": stop, "save_top_k": -1}
    saves = lightning.callbacks.ModelCheckpoint(dirpath=tmp_path, filename="saved", **every)
    steps = len(order_of(0)) if stop == "an epoch" else stop
    first, second = Module(), Module()
    lightning_trainer(callbacks=[saves], max_steps=steps).fit(
        first, DataLoader(DATA, **options(sampler, workers))
    )
    sampler = sampler_of()
    lightning_trainer(enable_checkpointing=False).fit(
        second, DataLoader(DATA, **options(sampler, workers)), ckpt_path=tmp_path / "saved.ckpt"
    )
    assert len(first.seen) == steps
    assert first.seen + second.seen == order_of(0) + order_of(1) + order_of(2)


def test_lightning_and_accelerate_set_the_epoch():
    accelerate = pytest.importorskip("accelerate")
    loader = accelerate.Accelerator(cpu=True).prepare(DataLoader(DATA, **options(sampler_of(), 0)))
    for epoch in range(2):
        loader.set_epoch(epoch)
        assert [batch.tolist() for batch in loader] == order_of(epoch)
