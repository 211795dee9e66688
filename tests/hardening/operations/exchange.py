"""Operations that exchange data: Arrow capsules, columns, and files."""

import os
import tempfile
import types

import numpy as np

import seqcore as sq
from operations.operands import (
    BASE,
    MORE,
    RANK3,
    WATCHED,
    WORDS,
    Operation,
    fails,
    group,
    loose,
    loosely,
    uniform,
)


@group
def arrow():
    """Capsules given away, taken, and left alone; their layouts are made in Python."""
    take = sq.TensorSequence.from_arrow

    def by_stream(s):
        return take(types.SimpleNamespace(__arrow_c_stream__=s.__arrow_c_stream__))

    def out_and_in(s):
        return take(s), by_stream(s)

    def mixed():
        return sq.TensorSequence([RANK3, np.zeros((1, 3, 2), np.float32)])

    def texts():
        return sq.split_to_sequence(WORDS)

    asked = sq.TensorSequence([RANK3]).__arrow_c_schema__()
    for seq in (uniform(), mixed(), texts()):
        out_and_in(seq)  # so that what is imported on the way is there
    return {
        "schema": loose(lambda s: s.__arrow_c_schema__(), uniform),
        "array": loose(lambda s: s.__arrow_c_array__(), uniform),
        "array of a type": loose(lambda s: s.__arrow_c_array__(asked), uniform),
        "array of tensors": loose(lambda s: s.__arrow_c_array__(), mixed),
        "array of strings": loose(lambda s: s.__arrow_c_array__(), texts),
        "stream": loose(lambda s: s.__arrow_c_stream__(), uniform),
        "out and in": loose(out_and_in, uniform),
        "out and in, tensors": loose(out_and_in, mixed),
        "out and in, strings": loose(out_and_in, texts),
        "not two ranks": loose(lambda s: fails(ValueError, s.__arrow_c_array__)),
    }


@group
def columns():
    rows = sq.split_to_sequence(BASE)
    ours = sq.Columns({"a": rows, "b": np.arange(len(rows)), "c": list(range(len(rows)))})
    taken, chosen = ours.__reduce__(), np.arange(len(rows)) % 3 == 0
    WATCHED.append(chosen)

    def by_stream(s):
        stream = types.SimpleNamespace(__arrow_c_stream__=ours.__arrow_c_stream__)
        return sq.Columns.from_arrow(stream)

    by_stream(None)
    return loosely(
        {
            "make": Operation(lambda s: sq.Columns({"s": s, "n": np.arange(len(s))})),
            "make of lists": Operation(lambda s: sq.Columns({"s": MORE[:3], "n": [1, 2, 3]})),
            "lengths differ": Operation(lambda s: fails(ValueError, sq.Columns, {"s": s, "n": [1]})),
            "a row": Operation(lambda s: (ours[3], ours[-1])),
            "rows": Operation(lambda s: list(ours[:4])),
            "a slice": Operation(lambda s: (ours[3:9], ours[::-2])),
            "a selection": Operation(lambda s: (ours[[3, 0]], ours[chosen])),
            "for a loader": Operation(lambda s: ours.__getitems__([3, 0])),
            "a column": Operation(lambda s: (ours[::2]["a"], ours[::2]["b"])),
            "what they are": Operation(lambda s: (repr(ours), ours.dtypes, ours.nbytes, ours == ours[:])),
            "restore": Operation(lambda s: taken[0](*taken[1])),
            "a stream": Operation(lambda s: ours.__arrow_c_stream__()),
            "out and in": Operation(by_stream),
        }
    )


@group
def files():
    """Through pyarrow, whose own failures are MemoryErrors too."""
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        return {}
    folder = tempfile.TemporaryDirectory()

    def path(name, folder=folder):  # which lives as long as this
        return os.path.join(folder.name, name)

    rows = sq.split_to_sequence(BASE)
    both = sq.Columns({"a": rows, "b": np.arange(len(rows))})
    both.save(path("both.arrow"))
    os.mkdir(path("parts"))
    for i in range(3):
        sq.save(path(f"parts/{i}.arrow"), rows[i : i + 4])

    def saved(s):
        try:
            sq.save(path("saved.arrow"), s)
        finally:
            left = [name for name in os.listdir(folder.name) if name.endswith(".part")]
            for name in left:
                os.remove(path(name))
            assert not left, "a temporary file was left behind"

    return loosely(
        {
            "save": Operation(saved, make=uniform),
            "save columns": Operation(lambda s: saved(both)),
            "save what has two ranks": Operation(lambda s: fails(ValueError, saved, s)),
            "load": Operation(lambda s: sq.load(path("parts/0.arrow"))[1]),
            "load columns": Operation(lambda s: sq.load(path("both.arrow"))[1]),
            "load one column": Operation(lambda s: sq.load(path("both.arrow"), "b")[1]),
            "load a folder": Operation(lambda s: sq.load(path("parts")).lengths()),
            "load a pattern": Operation(lambda s: sq.load(path("parts/*.arrow")).lengths()),
            "load nothing": Operation(lambda s: fails(FileNotFoundError, sq.load, path("none/*.arrow"))),
        }
    )
