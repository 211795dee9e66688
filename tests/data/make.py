"""Write files and pickles that every later version must be able to read.

    python tests/data/make.py VERSION

Run it for each release that changes what `sq.save` or pickles write, and commit the new folder beside this
file. Never write into the folder of an older version: it has what that version wrote.
`tests/packaging/test_older_versions.py` reads all folders.
"""

import pickle
import sys
from pathlib import Path

import numpy as np

import seqcore as sq

HERE = Path(__file__).parent
NUMBERS = (
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "float32",
    "float64",
)
LENGTHS = (2, 0, 3, 1)


def ragged(name, behind=()):
    """Return a list of arrays with values that count up, as the elements of a ragged sequence."""
    values = np.arange(sum(LENGTHS) * int(np.prod(behind, dtype=int))).reshape(-1, *behind)
    values = values % 2 == 0 if name == "bool" else values.astype(name)
    return np.split(values, np.cumsum(LENGTHS)[:-1])


def text():
    return [np.array(words, object) for words in (["a", "Ω mega"], [], ["", "x" * 70, "0"])]


def images():
    return [np.arange(h * w * 3, dtype=np.uint8).reshape(h, w, 3) for h, w in ((2, 3), (1, 4), (0, 2))]


# What the folders hold, as plain arrays: elements by the name of a file or of an entry of a pickle.
FILES = {
    **{name: ragged(name) for name in (*NUMBERS, "bool")},
    "points": ragged("float32", (2,)),
    "strings": text(),
    "images": images(),
    "several": [*ragged("int64"), *ragged("int64")],
}
COLUMNS = {
    "tokens": ragged("uint16"),
    "label": np.array([3, 1, 2, 0]),
    "box": np.arange(8, dtype=np.float32).reshape(4, 2),
    "name": np.array(["a", "b", "", "dd"], object),
}
MEMORY = {
    **{name: ragged(name) for name in (*NUMBERS, "bool", "complex64", "complex128")},
    "strings": text(),
    "images": images(),
    "even": list(np.arange(10.0).reshape(5, 2)),
    "last is shorter": np.split(np.arange(7), [3, 6]),
    "columns": np.split(np.arange(12).reshape(3, 4), [1, 2], axis=1),
    "scalars": [np.array(i) for i in range(3)],
    "reversed": ragged("int32")[::-1],
    "selected": [ragged("int32")[i] for i in (3, 0, 0, 2)],
    "edited": [np.array([7], np.int32), *ragged("int32")[1:], *ragged("int32")],
    "padded": ragged("int16"),
    "views": [ragged("int32")[i] for i in (2, 0, 3)],
    "windows": [np.arange(i, i + 4) for i in range(20)],
    "large": [np.full(1100, i, np.int16) for i in range(2)],
    "large, repeated": [np.full(1100, i % 2, np.int16) for i in range(5)],
    "many runs": [np.array([i]) for k in range(20) for i in range(k * 40, k * 40 + 20)],
    "none": [],
}
# Elements of the files above, in pickles that name these files.
BY_PATH = {
    "whole": ("points", slice(None)),
    "slice": ("points", slice(1, 3)),
    "backwards": ("int64", slice(None, None, -1)),
    "selection": ("uint8", [3, 0, 2, 0]),
    "of several parts": ("several", slice(2, 7)),
    "strings": ("strings", slice(None)),
    "images": ("images", slice(None, None, -1)),
}
# Elements of several files, and of memory between them.
JOINED = {
    "two files": [*FILES["int64"], *FILES["several"]],
    "a file and memory": [*FILES["int64"], *ragged("int64")[::-1], *FILES["int64"][:2]],
    "in any order": [(FILES["int64"] + ragged("int64"))[i] for i in (7, 0, 2, 5, 2, 6)],
}


def in_memory():
    """Return the sequences of MEMORY, each in the representation that its name says.

    Together their pickles have each kind of part, and of order, that `seqcore/core/pickling.pyx` knows.
    """
    made = {name: sq.TensorSequence(arrays, copy=True) for name, arrays in MEMORY.items() if arrays}
    for name in (*NUMBERS, "bool", "complex64", "complex128", "images"):
        made[name] = sq.TensorSequence(MEMORY[name])
    int32 = sq.TensorSequence.from_lengths(np.concatenate(ragged("int32")), LENGTHS)
    made["int32"] = int32
    made["even"] = sq.split_to_sequence(np.arange(10.0).reshape(5, 2), keepdims=0)
    made["last is shorter"] = sq.split_to_sequence(np.arange(7), 3)
    made["columns"] = sq.split_to_sequence(np.arange(12).reshape(3, 4), [1, 1, 2], axis=1)
    made["reversed"] = int32[::-1]
    made["selected"] = int32[[3, 0, 0, 2]]
    made["edited"] = int32 + int32
    made["edited"][0] = np.array([7], np.int32)
    padded = sq.TensorSequence(ragged("int16")).to_padded(-1)
    made["views"] = list_views(np.concatenate(ragged("int32")), [2, 0, 5], [3, 2, 1])
    made["windows"] = list_views(np.arange(23), range(20), [4] * 20)
    made["large"] = sq.TensorSequence(MEMORY["large"])
    made["large, repeated"] = made["large"][[0, 1, 0, 1, 0]]
    some = sq.split_to_sequence(np.arange(800))
    made["many runs"] = sum((some[i : i + 20] for i in range(0, 800, 40)), sq.TensorSequence(dtype="int64"))
    made["padded"] = sq.TensorSequence.from_padded(padded, LENGTHS)
    made["none"] = sq.TensorSequence(dtype="int8")
    return made


def list_views(values, starts, lengths):
    import pyarrow as pa

    return sq.TensorSequence.from_arrow(pa.ListViewArray.from_arrays(list(starts), lengths, values))


def joined(folder):
    """Return the sequences of JOINED."""
    file = sq.load(folder / "int64.arrow")
    memory = sq.TensorSequence.from_lengths(np.concatenate(ragged("int64")), LENGTHS)
    return {
        "two files": sq.load([folder / "int64.arrow", folder / "several.arrow"]),
        "a file and memory": file + memory[::-1] + file[:2],
        "in any order": (file + memory)[[7, 0, 2, 5, 2, 6]],
    }


def columns():
    return sq.Columns(COLUMNS | {"tokens": sq.TensorSequence(COLUMNS["tokens"])})


def bfloat16():
    import ml_dtypes

    return [array.astype(ml_dtypes.bfloat16) for array in ragged("float32")]


def main(version):
    folder = HERE / version
    folder.mkdir()  # fails if it is there
    for name, arrays in FILES.items():
        seq = sq.TensorSequence(arrays)
        sq.save(folder / f"{name}.arrow", iter([seq[:4], seq[4:]]) if name == "several" else seq)
    columns().save(folder / "columns.arrow")
    loaded = {name: sq.load(folder / f"{file}.arrow")[which] for name, (file, which) in BY_PATH.items()}
    loaded |= joined(folder) | {"columns": sq.load(folder / "columns.arrow")}
    pickles = {
        "memory": in_memory() | {"Columns": columns()},
        "bfloat16": sq.TensorSequence(bfloat16()),
        "by_path": loaded,
    }
    for name, value in pickles.items():
        for protocol in (4, 5):
            (folder / f"{name}-{protocol}.pickle").write_bytes(pickle.dumps(value, protocol))


if __name__ == "__main__":
    main(*sys.argv[1:])
