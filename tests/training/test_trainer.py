"""`transformers.Trainer` on Columns, with a collate function of Columns."""

import numpy as np
import pytest

import seqcore as sq

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate")
from seqcore.torch import PadCollate  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # of other packages
    pytest.mark.thread_unsafe,
    pytest.mark.slow,
]
WORDS = 11


class Tiny(torch.nn.Module):
    """A model that guesses each token from itself."""

    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(WORDS, WORDS)
        self.seen = []

    def forward(self, input_ids, attention_mask, labels):
        assert attention_mask.sum() == (labels >= 0).sum()
        self.seen += [row[row >= 0].tolist() for row in labels]
        logits = self.table(input_ids)
        return {
            "loss": torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten()),
            "logits": logits,
        }


def collate(batch):
    """Return the arguments of the model's `forward`."""
    padded = PadCollate(dtype="int64")(batch[["tokens"]])
    ids, mask = padded["tokens"], padded["tokens_mask"]
    return {"input_ids": ids, "attention_mask": mask.long(), "labels": ids.masked_fill(~mask, -100)}


def columns():
    lengths = np.random.default_rng(0).integers(1, 9, 40)
    values = np.random.default_rng(1).integers(0, WORDS, lengths.sum())
    return sq.Columns({"tokens": sq.TensorSequence.from_lengths(values, lengths), "label": np.arange(40)})


@pytest.mark.parametrize("loaded", [False, True], ids=["in memory", "from a dataset"])
def test_an_epoch_trains_on_each_row_once(tmp_path, loaded):
    data, model = columns(), Tiny()
    if loaded:
        datasets = pytest.importorskip("datasets")
        datasets.Dataset.from_dict({"tokens": data["tokens"].tolist()}).save_to_disk(tmp_path / "set")
        rows = datasets.load_from_disk(tmp_path / "set").shuffle(seed=1)
        data = sq.Columns.from_dataset(rows)
    arguments = transformers.TrainingArguments(
        tmp_path / "out",
        remove_unused_columns=False,
        per_device_train_batch_size=8,
        num_train_epochs=1,
        report_to=[],
        save_strategy="no",
        use_cpu=True,
        disable_tqdm=True,
    )
    result = transformers.Trainer(model, arguments, train_dataset=data, data_collator=collate).train()
    assert result.global_step == 5
    assert np.isfinite(result.training_loss)
    assert sorted(model.seen) == sorted(data["tokens"].tolist())
