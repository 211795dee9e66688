"""The lines of user code that Benchmarks counts: they run, agree with each other, and are as many."""

import bisect
import itertools
import random
import sys
from pathlib import Path

import numpy as np
import pytest
from support.pages import ROOT

import seqcore as sq

torch = pytest.importorskip("torch")
pa = pytest.importorskip("pyarrow")
from pyarrow import parquet  # noqa: E402

sys.path.append(str(ROOT))  # where the benchmarks are
from benchmarks import lines  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # other packages' own
    pytest.mark.thread_unsafe,
]
CASES = [(task, side) for task, codes in lines.TASKS.items() for side in codes]
LENGTHS = np.random.default_rng(0).integers(1, 400, 500)


@pytest.fixture
def names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)
    tokens = [torch.from_numpy(rng.integers(0, 999, length)) for length in LENGTHS]
    tags = [one % 7 for one in tokens]
    labels = rng.integers(0, 5, len(tokens)).tolist()
    data = sq.Columns({"tokens": tokens, "tags": tags, "label": labels})
    parquet.write_table(pa.table(data), "rows.parquet")
    Path("lines.txt").write_text("".join(" ".join(map(str, one.tolist())) + "\n" for one in tokens))
    return {
        **{"np": np, "sq": sq, "torch": torch, "bisect": bisect, "itertools": itertools, "random": random},
        **{"parquet": parquet, "tokens": tokens, "tags": tags, "labels": labels, "data": data},
        **{"seed": 3, "epoch": 2, "rank": 1, "step": 3},
    }


def prepare(names, side):
    if side == "datasets":
        names["datasets"] = datasets = pytest.importorskip("datasets")
        datasets.disable_progress_bars()
        names["rows"] = datasets.Dataset(pa.table(names["data"]))
    if side == "mmap_ninja":
        names["RaggedMmap"] = RaggedMmap = pytest.importorskip("mmap_ninja").RaggedMmap
        names["mapped"] = RaggedMmap.from_lists("mmap", [one.numpy() for one in names["tokens"]])
    if side == "streaming":
        streaming = pytest.importorskip("streaming")
        names["MDSWriter"], names["StreamingDataset"] = streaming.MDSWriter, streaming.StreamingDataset
        with streaming.MDSWriter(out="mds", columns={"tokens": "ndarray"}) as out:
            for one in names["tokens"]:
                out.write({"tokens": one.numpy()})
        names["stream"] = streaming.StreamingDataset(local="mds", batch_size=1)


def check(names, task):
    """Whether the names that a task has made are right."""
    tokens = names["tokens"]
    if task.startswith("pad"):
        assert names["ids"].shape == names["mask"].shape == (32, max(LENGTHS[:32]))
        assert torch.equal(names["ids"][names["mask"]], torch.cat(tokens[:32]))
    elif task.startswith("pack"):
        ids, bounds = names["ids"], names["cu_seqlens"]
        assert len(ids) == bounds[-1] <= 4096
        assert bounds.dtype == torch.int32
        assert names["max_seqlen"] == bounds.diff().max()
        assert torch.equal(
            names["position_ids"], torch.arange(len(ids)) - bounds[:-1].repeat_interleave(bounds.diff())
        )
    elif task.startswith("blocks"):
        assert np.array_equal(
            np.concatenate(list(names["blocks"])), torch.cat(tokens)[: len(names["blocks"]) * 512]
        )
        assert len(names["blocks"]) == LENGTHS.sum() // 512
    elif "file" in task:
        found = names["found"] if "columns" in task else {"tokens": names["found"]}
        for name, column in (("tokens", tokens), ("tags", names["tags"]), ("label", names["labels"])):
            if name in found:
                assert np.array_equal(found[name], column[7])
        assert "columns" not in task or len(found) == 3
    else:
        batches = names["batches"]
        count = -(-len(tokens) // 32)
        assert len(batches) == (
            count if "ranks" not in task and "resume" not in task else count // 4 - 3 * ("resume" in task)
        )
        assert len({i for batch in batches for i in batch}) == sum(map(len, batches))


@pytest.mark.mostly_slow(11)
@pytest.mark.parametrize(("task", "side"), CASES)
def test_code(names, task, side):
    prepare(names, side)
    exec(compile(lines.TASKS[task][side], task, "exec"), names)
    check(names, task)


def test_ours_are_at_most_four_lines():
    assert len(lines.TASKS) == 10
    assert all(lines.count(codes["seqcore"]) <= 4 for codes in lines.TASKS.values())


def test_the_page_has_the_table():
    page = ROOT / "docs" / "benchmarks.md"
    assert lines.table() in page.read_text(encoding="utf-8")
