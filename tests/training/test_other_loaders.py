"""Batches of a BatchSampler by the loops of others. They skip where those packages aren't installed."""

import warnings

import numpy as np
import pytest

import seqcore as sq

torch = pytest.importorskip("torch")

LENGTHS = np.random.default_rng(0).integers(1, 50, 200)
TOKENS = sq.TensorSequence.from_lengths(np.arange(LENGTHS.sum()), LENGTHS)
DATA = sq.Columns({"tokens": TOKENS, "at": np.arange(len(TOKENS))})


def sampler(epoch=0):
    made = sq.BatchSampler(TOKENS, max_tokens=400, seed=3)
    made.set_epoch(epoch)
    return made


def positions(batch):
    return torch.tensor(batch["at"])


def options():
    return {"batch_sampler": sampler(), "collate_fn": positions}


@pytest.mark.filterwarnings("ignore")  # torchdata's own use of PyTorch
@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("stop", [0, 3, 10])
def test_torchdata_resumes_in_mid_epoch(num_workers, stop):
    """With workers the loader is ahead; its state has what the loop has seen."""
    loaders = pytest.importorskip("torchdata.stateful_dataloader")

    def loader():
        return loaders.StatefulDataLoader(DATA, num_workers=num_workers, **options())

    interrupted = loader()
    interrupted.batch_sampler.set_epoch(1)
    batches = iter(interrupted)
    begun = [next(batches).tolist() for _ in range(stop)]
    state = interrupted.state_dict()
    resumed = loader()
    resumed.load_state_dict(state)
    resumed.batch_sampler.set_epoch(1)  # as a training loop does
    assert begun + [batch.tolist() for batch in resumed] == list(sampler(1))
    resumed.batch_sampler.set_epoch(2)
    assert [batch.tolist() for batch in resumed] == list(sampler(2))


def test_lightning_sets_the_epoch():
    lightning = pytest.importorskip("pytorch_lightning")
    seen = {0: [], 1: []}

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(1, 1)

        def training_step(self, batch, _):
            seen[self.current_epoch].append(batch.tolist())
            return self.layer(batch[:, None].float()).sum()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 1e-9)

    quiet = dict.fromkeys(
        ["logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"], False
    )
    with warnings.catch_warnings(action="ignore"):  # of Lightning, about workers and loggers
        trainer = lightning.Trainer(max_epochs=2, accelerator="cpu", **quiet)
        trainer.fit(Module(), torch.utils.data.DataLoader(DATA, **options()))
    assert seen == {epoch: list(sampler(epoch)) for epoch in seen}


def test_accelerate_sets_the_epoch():
    accelerate = pytest.importorskip("accelerate")
    loader = accelerate.Accelerator(cpu=True).prepare(torch.utils.data.DataLoader(DATA, **options()))
    for epoch in range(2):
        loader.set_epoch(epoch)
        assert [batch.tolist() for batch in loader] == list(sampler(epoch))
