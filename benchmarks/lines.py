"""Count the lines that ten tasks of training take: `python -m benchmarks.lines` prints the table of the docs.

Each task is what a user writes beside imports and the training loop. The tests run the code
(tests/training/test_lines.py), and all sides give the same results. `SORTED` and the like are lines that
several sides have in common.

Given are `tokens`, `tags` and `labels` as lists of tensors and numbers, `seed`, `epoch`, `rank` and `step`, a
file `rows.parquet` and a file `lines.txt`; for seqcore `data`, for datasets `rows`, for mmap_ninja `mapped`,
for MosaicML's streaming `stream`.
"""

SORTED = """\
rng = random.Random(f"{seed} {epoch}")
order = sorted(rng.sample(range(len(lengths)), len(lengths)), key=lengths.__getitem__)
batches = [order[first : first + 32] for first in range(0, len(order), 32)]
rng.shuffle(batches)
"""
RANKED = """\
batches += batches[: -len(batches) % 4]
batches = batches[rank::4]
"""
PADDED = """\
ids = torch.nn.utils.rnn.pad_sequence(some, batch_first=True)
mask = torch.arange(ids.shape[1]) < torch.tensor([len(one) for one in some])[:, None]
"""
PACKED = """\
packs = []  # of each its space and its positions
for i in sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True):
    at = bisect.bisect_left(packs, (lengths[i],))
    space, pack = packs.pop(at) if at < len(packs) else (4096, ())
    bisect.insort(packs, (space - lengths[i], (*pack, i)))
"""
FLAT = """\
ids, sizes = torch.cat(some), torch.tensor([len(one) for one in some])
cu_seqlens = torch.nn.functional.pad(sizes.cumsum(0), (1, 0)).to(torch.int32)
max_seqlen, position_ids = int(sizes.max()), torch.cat([torch.arange(size) for size in sizes])
"""
RESUMED = """\
state = {"epoch": epoch, "step": step}
batches = batches[state["step"] :]
"""

TASKS = {
    "pad a batch, with a mask": {
        "seqcore": """\
ids, mask = data["tokens"][:32].to_padded(dtype="int64", return_mask=True)
ids, mask = torch.from_numpy(ids), torch.from_numpy(mask)
""",
        "lists": "some = tokens[:32]\n" + PADDED,
        "datasets": 'some = list(rows.with_format("torch")[:32]["tokens"])\n' + PADDED,
        "mmap_ninja": "some = [torch.from_numpy(mapped[i]) for i in range(32)]\n" + PADDED,
        "streaming": 'some = [torch.from_numpy(stream[i]["tokens"]) for i in range(32)]\n' + PADDED,
    },
    "pack to 4,096 tokens, with cu_seqlens": {
        "seqcore": """\
some = data["tokens"][sq.pack(data["tokens"], 4096)[0]]
ids, cu_seqlens = torch.tensor(some.values(), dtype=torch.int64), torch.from_numpy(some.offsets("int32"))
max_seqlen, position_ids = int(some.lengths().max()), torch.from_numpy(some.position_ids())
""",
        "lists": "lengths = list(map(len, tokens))\n"
        + PACKED
        + "some = [tokens[i] for i in packs[0][1]]\n"
        + FLAT,
        "datasets": 'lengths = list(map(len, rows["tokens"]))\n'
        + PACKED
        + 'some = [rows.with_format("torch")[i]["tokens"] for i in packs[0][1]]\n'
        + FLAT,
        "mmap_ninja": "lengths = [len(one) for one in mapped]\n"
        + PACKED
        + "some = [torch.from_numpy(mapped[i]) for i in packs[0][1]]\n"
        + FLAT,
        "streaming": 'lengths = [len(stream[i]["tokens"]) for i in range(len(stream))]\n'
        + PACKED
        + 'some = [torch.from_numpy(stream[i]["tokens"]) for i in packs[0][1]]\n'
        + FLAT,
    },
    "blocks of 512 tokens": {
        "seqcore": 'blocks = sq.split_to_sequence(data["tokens"].values(), 512)[:-1]\n',
        "lists": "ids = torch.cat(tokens)\nblocks = ids[: len(ids) // 512 * 512].view(-1, 512)\n",
        "datasets": """\
def grouped(batch):
    ids = list(itertools.chain(*batch["tokens"]))
    return {"tokens": [ids[first : first + 512] for first in range(0, len(ids) - 511, 512)]}
blocks = rows.map(grouped, batched=True, batch_size=None, remove_columns=rows.column_names)["tokens"]
""",
        "mmap_ninja": """\
ids = np.concatenate(list(mapped))
blocks = ids[: len(ids) // 512 * 512].reshape(-1, 512)
""",
        "streaming": """\
ids = np.concatenate([stream[i]["tokens"] for i in range(len(stream))])
blocks = ids[: len(ids) // 512 * 512].reshape(-1, 512)
""",
    },
    "batches of similar length": {
        "seqcore": 'batches = list(sq.BatchSampler(data["tokens"], batch_size=32))\n',
        "lists": "lengths = list(map(len, tokens))\n" + SORTED,
        "datasets": 'lengths = list(map(len, rows["tokens"]))\n' + SORTED,
        "mmap_ninja": "lengths = [len(one) for one in mapped]\n" + SORTED,
        "streaming": 'lengths = [len(stream[i]["tokens"]) for i in range(len(stream))]\n' + SORTED,
    },
    "random batches for four ranks": {
        "seqcore": "one = np.ones(len(data), int)\n"
        "batches = list(sq.BatchSampler(one, batch_size=32, rank=rank, world_size=4))\n",
        **dict.fromkeys(
            ["lists", "datasets", "mmap_ninja", "streaming"],
            """\
sampler = torch.utils.data.DistributedSampler(tokens, num_replicas=4, rank=rank, seed=seed)
batches = list(torch.utils.data.BatchSampler(sampler, 32, drop_last=False))
""",
        ),
    },
    "batches of similar length for four ranks": {
        "seqcore": """\
batches = list(sq.BatchSampler(data["tokens"], batch_size=32, rank=rank, world_size=4))
""",
        "lists": "lengths = list(map(len, tokens))\n" + SORTED + RANKED,
        "datasets": 'lengths = list(map(len, rows["tokens"]))\n' + SORTED + RANKED,
        "mmap_ninja": "lengths = [len(one) for one in mapped]\n" + SORTED + RANKED,
        "streaming": 'lengths = [len(stream[i]["tokens"]) for i in range(len(stream))]\n' + SORTED + RANKED,
    },
    "resume these in mid-epoch": {
        "seqcore": """\
sampler = sq.BatchSampler(data["tokens"], batch_size=32, rank=rank, world_size=4)
sampler.load_state_dict(sampler.state_dict() | {"epoch": epoch, "batches": 4 * step})
batches = list(sampler)
""",
        "lists": "lengths = list(map(len, tokens))\n" + SORTED + RANKED + RESUMED,
        "datasets": 'lengths = list(map(len, rows["tokens"]))\n' + SORTED + RANKED + RESUMED,
        "mmap_ninja": "lengths = [len(one) for one in mapped]\n" + SORTED + RANKED + RESUMED,
        "streaming": 'lengths = [len(stream[i]["tokens"]) for i in range(len(stream))]\n'
        + SORTED
        + RANKED
        + RESUMED,
    },
    "three columns in one file": {
        "seqcore": """\
sq.save("rows.arrow", sq.Columns({"tokens": tokens, "tags": tags, "label": labels}))
found = sq.load("rows.arrow")[7]
""",
        "lists": """\
torch.save(list(zip(tokens, tags, labels)), "rows.pt")
found = dict(zip(["tokens", "tags", "label"], torch.load("rows.pt")[7]))
""",
        "datasets": """\
made = {"tokens": [one.numpy() for one in tokens], "tags": [one.numpy() for one in tags], "label": labels}
datasets.Dataset.from_dict(made).save_to_disk("rows")
found = datasets.load_from_disk("rows").with_format("numpy")[7]
""",
        "mmap_ninja": """\
for name, column in {"tokens": tokens, "tags": tags}.items():
    RaggedMmap.from_lists(f"mmap_{name}", [one.numpy() for one in column])
np.save("labels.npy", labels)
found = {"tokens": RaggedMmap("mmap_tokens")[7], "tags": RaggedMmap("mmap_tags")[7]}
found["label"] = np.load("labels.npy", mmap_mode="r")[7]
""",
        "streaming": """\
with MDSWriter(out="rows_mds", columns={"tokens": "ndarray", "tags": "ndarray", "label": "int"}) as out:
    for one, tag, label in zip(tokens, tags, labels):
        out.write({"tokens": one.numpy(), "tags": tag.numpy(), "label": label})
found = StreamingDataset(local="rows_mds", batch_size=1)[7]
""",
    },
    "Parquet to a mapped file": {
        "seqcore": """\
sq.save("rows.arrow", map(sq.Columns.from_arrow, parquet.ParquetFile("rows.parquet").iter_batches()))
found = sq.load("rows.arrow")["tokens"][7]
""",
        "datasets": """\
found = datasets.Dataset.from_parquet("rows.parquet", cache_dir="cache").with_format("numpy")[7]["tokens"]
""",
        "mmap_ninja": """\
batches = parquet.ParquetFile("rows.parquet").iter_batches()
given = (np.asarray(one) for batch in batches for one in batch["tokens"].to_pylist())
found = RaggedMmap.from_generator("mmap_parquet", given, 1024)[7]
""",
        "streaming": """\
with MDSWriter(out="parquet_mds", columns={"tokens": "ndarray"}) as out:
    for batch in parquet.ParquetFile("rows.parquet").iter_batches():
        for one in batch["tokens"].to_pylist():
            out.write({"tokens": np.asarray(one)})
found = StreamingDataset(local="parquet_mds", batch_size=1)[7]["tokens"]
""",
    },
    "a text of numbers to a mapped file": {
        "seqcore": """\
sq.save("text.arrow", (np.int64(line.split()) for line in open("lines.txt")))
found = sq.load("text.arrow")[7]
""",
        "datasets": """\
lines = datasets.load_dataset("text", data_files="lines.txt", cache_dir="cache")["train"]
found = lines.map(lambda row: {"ids": list(map(int, row["text"].split()))}).with_format("numpy")[7]["ids"]
""",
        "mmap_ninja": """\
given = (np.int64(line.split()) for line in open("lines.txt"))
found = RaggedMmap.from_generator("mmap_text", given, 1024)[7]
""",
        "streaming": """\
with MDSWriter(out="text_mds", columns={"ids": "ndarray"}) as out:
    for line in open("lines.txt"):
        out.write({"ids": np.int64(line.split())})
found = StreamingDataset(local="text_mds", batch_size=1)[7]["ids"]
""",
    },
}
SIDES = ["seqcore", "lists", "datasets", "mmap_ninja", "streaming"]


def count(code):
    """Return the lines of code."""
    return len(code.splitlines())


def table():
    """Return the table of the docs: a line for each task."""
    lines = [f"| task | {' | '.join(SIDES)} |", f"|---|{'---|' * len(SIDES)}"]
    for task, codes in TASKS.items():
        cells = [str(count(codes[side])) if side in codes else "not mapped" for side in SIDES]
        lines.append(f"| {task} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(table(), end="")
