"""Files that are damaged in one telling place, or that other writers make of odd types.

`python odd_files.py folder` loads each, and sends it through every exit. Each case is printed before it is
tried, so that the last one is to blame for a crash. A wrong result without a crash is printed as a FAULT.
"""

import faulthandler
import os
import sys

import numpy as np
import pytest
from support import damaged_files
from support.saved import pa, write_table

import seqcore as sq

CASES = {}


def ours(path):
    sq.save(path, sq.TensorSequence([[1, 2], [], [3, 4, 5], [6]], "int64"))


def tensors(path):
    sq.save(path, sq.TensorSequence([np.ones((2, 3)), np.ones((3, 5))]))


def bytes_of(make, path):
    make(path)
    with open(path, "rb") as file:
        data = file.read()
    os.unlink(path)
    return data


def damaged(name, make, change):
    """A case whose bytes are those of another file, changed."""

    def write(path):
        data = change(bytes_of(make, path))
        with open(path, "wb") as file:
            file.write(data)

    CASES[name] = write


def changed(name, make, numbers, dtype, at, value):
    """A case with another number in a buffer that holds these."""
    before = np.array(numbers, dtype)
    after = before.copy()
    after[at] = value

    def change(data):
        assert data.count(before.tobytes()) == 1, (name, data.count(before.tobytes()))
        return data.replace(before.tobytes(), after.tobytes())

    damaged(f"{name}[{at}] = {value}", make, change)


def column(name, make, **options):
    """A case of pyarrow's with one column."""
    CASES[name] = lambda path: write_table(path, pa.table({"t": make()}), **options)


def table(name, make, **options):
    CASES[name] = lambda path: write_table(path, make(), **options)


# --- cut, and changed in what describes the file ---

for part in (0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.97, 0.99):
    damaged(f"cut at {part}", ours, lambda data, part=part: data[: int(len(data) * part)])
for count in (1, 2, 4, 6, 8, 10, 12):
    damaged(f"without the last {count} bytes", ours, lambda data, count=count: data[:-count])
for at in (16, 24, 40, 60, 100, 140, 200, 300, 400, 500):
    damaged(f"byte {at}", ours, lambda data, at=at: data[:at] + bytes([data[at] ^ 255]) + data[at + 1 :])
damaged("nothing", ours, lambda data: b"")
damaged("magic bytes alone", ours, lambda data: b"ARROW1\0\0")
damaged("magic bytes twice", ours, lambda data: b"ARROW1\0\0\0\0\0\0ARROW1")
for number in (0, 2**31 - 1, -1):
    footer = number.to_bytes(4, "little", signed=True)
    damaged(f"footer of {number} bytes", ours, lambda data, footer=footer: data[:-10] + footer + data[-6:])
for number in (2**40, -(2**40)):
    length = number.to_bytes(8, "little", signed=True)
    damaged(
        f"{number} rows", ours, lambda data, length=length: data.replace((4).to_bytes(8, "little"), length)
    )

# --- offsets, starts, lengths, shapes, indices, bitmaps ---

OFFSETS = [0, 2, 2, 5, 6]
for at, value in (
    *((1, 2**40), (2, 2**62), (1, -1), (1, 5), (4, 7), (4, 2**40), (4, -1), (0, 1), (0, -1), (0, 2**40)),
    *((3, 3), (3, 0)),
):
    changed("offsets", ours, OFFSETS, "i8", at, value)
for at, value in ((1, 2**30), (3, 2**30), (1, -1), (2, 1), (0, -5)):
    make = lambda path: write_table(path, pa.table({"t": ["ab", "", "cde"]}))  # noqa: E731
    changed("offsets of texts", make, [0, 2, 2, 5], "i4", at, value)


def views(path):
    starts, sizes = pa.array([0, 2, 5], pa.int32()), pa.array([2, 3, 1], pa.int32())
    write_table(path, pa.table({"t": pa.ListViewArray.from_arrays(starts, sizes, pa.array(range(6)))}))


for at, value in ((1, 99), (1, -2), (2, 2**31 - 1)):
    changed("starts of views", views, [0, 2, 5], "i4", at, value)
for at, value in ((1, -3), (1, 2**31 - 1), (2, 0)):
    changed("lengths of views", views, [2, 3, 1], "i4", at, value)
for at, value in ((2, 2**30), (0, -2), (3, 0)):
    changed("shapes", tensors, [2, 3, 3, 5], "i4", at, value)
changed("offsets of tensors", tensors, [0, 6, 21], "i4", 1, 2**30)
lists_in_lists = lambda path: write_table(path, pa.table({"t": [[[1, 2], [3, 4]], [[5, 6]]]}))  # noqa: E731
changed("inner offsets", lists_in_lists, [0, 2, 4, 6], "i4", 2, 2**30)
encoded = lambda path: write_table(  # noqa: E731
    path,
    pa.table({"t": pa.DictionaryArray.from_arrays(pa.array([1, 0, 1, 1], pa.int32()), pa.array(["x", "y"]))}),
)
for value in (2**30, -1):
    changed("indices of a dictionary", encoded, [1, 0, 1, 1], "i4", 2, value)
changed("a column of several", lambda path: damaged_files.columns().save(path), [0, 2, 2, 5], "i8", 1, 2**40)

# --- nulls, names, rows ---

column("null number", lambda: pa.array([1, None, 3]))
column("null list", lambda: pa.array([[1], None]))
column("null in a list", lambda: pa.array([[1, None]]))
column("null text", lambda: pa.array(["a", None]))
column("nulls alone", lambda: pa.nulls(3))
table("no columns", lambda: pa.table({}))
table("no columns of 3 rows", lambda: pa.table({"a": [1, 2, 3]}).select([]))
table("no rows", lambda: pa.table({"a": pa.array([], pa.int64()), "b": pa.array([], pa.list_(pa.int8()))}))
table("no batches", lambda: pa.table({"a": pa.chunked_array([], pa.list_(pa.int8()))}))
table("a batch for each row", lambda: pa.table({"a": [1, 2, 3], "b": [[1], [], [2]]}), max_chunksize=1)
table("one name twice", lambda: pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"]))
table("no name", lambda: pa.table({"": [1, 2]}))
table("no name and another", lambda: pa.table({"": [1, 2], "b": [3, 4]}))
table("odd names", lambda: pa.table({"a\nb": [1], "日本": [2], " ": [3]}))
table("NUL in a name", lambda: pa.table({"a\0b": [1], "c": [2]}))
table("300 columns", lambda: pa.table({f"c{i}": [[i]] for i in range(300)}))
table("one bad of many", lambda: pa.table({"a": [1], "b": pa.array([1], pa.date32()), "c": [2]}))

# --- types ---

for kind, value in (
    *((pa.binary(), b"a"), (pa.large_binary(), b"a"), (pa.binary(2), b"ab"), (pa.date32(), 1)),
    *((pa.timestamp("us", "UTC"), 1), (pa.decimal128(5), 1), (pa.duration("s"), 1), (pa.time64("us"), 1)),
    *((pa.month_day_nano_interval(), (1, 2, 3)), (pa.map_(pa.string(), pa.int8()), [("a", 1)])),
    (pa.struct([("x", pa.int8()), ("y", pa.int8())]), {"x": 1, "y": 2}),
    (pa.list_(pa.struct([("x", pa.int8()), ("y", pa.int8())])), [{"x": 1, "y": 2}]),
):
    column(f"{kind}", lambda kind=kind, value=value: pa.array([value], kind))
for kind, values in (
    *((pa.list_(pa.int64(), 0), [[], []]), (pa.list_(pa.list_(pa.int8(), 0), 2), [[[], []]])),
    *(
        (pa.list_(pa.list_(pa.int8()), 2), [[[1], [2]], [[3], [4]]]),
        (pa.large_list(pa.string()), [["a"], []]),
    ),
    *((pa.list_(pa.list_(pa.string(), 2)), [[["a", "b"]]]), (pa.float16(), [np.float16(1)])),
    *((pa.bool_(), [True, False, True]), (pa.list_(pa.bool_()), [[True], [False]] * 9)),
    *((pa.struct([("x", pa.int8())]), [{"x": 1}]), (pa.list_(pa.list_(pa.int8())), [[[1], [2, 3]]])),
    (pa.list_(pa.dictionary(pa.int8(), pa.string())), [["a", "b"], ["a"]]),
):
    column(f"{kind} of {len(values)}", lambda kind=kind, values=values: pa.array(values, kind))
column("61 levels", lambda: pa.array([eval("[" * 60 + "1" + "]" * 60)]))
column("bits from the middle", lambda: pa.array([True, False] * 9)[3:])
column("bytes that are no text", lambda: pa.array([b"\xff\xfe"]).view(pa.string()))
column("zstd", lambda: pa.array([[1] * 90, [2]]), compression="zstd")
column("a stream in lz4", lambda: pa.array([[1] * 90, [2]]), compression="lz4", stream=True)
column("metadata of version 4", lambda: pa.array([[1], [2]]), metadata_version=pa.ipc.MetadataVersion.V4)


def by_polars(name, make):
    def write(path):
        polars = pytest.importorskip("polars")
        make(polars).write_ipc(path, compression="uncompressed")

    CASES[f"polars: {name}"] = write


by_polars("lists", lambda pl: pl.DataFrame({"a": [[1, 2], []], "b": ["x", "y"]}))
by_polars("arrays", lambda pl: pl.DataFrame({"a": pl.Series([[1, 2], [3, 4]], dtype=pl.Array(pl.Int8, 2))}))
by_polars("categories", lambda pl: pl.DataFrame({"a": pl.Series(["x", "y"], dtype=pl.Categorical)}))
by_polars("enum", lambda pl: pl.DataFrame({"a": pl.Series(["x", "y"], dtype=pl.Enum(["x", "y"]))}))
by_polars("int128", lambda pl: pl.DataFrame({"a": pl.Series([1], dtype=pl.Int128)}))
by_polars("nulls", lambda pl: pl.DataFrame({"a": [None, None]}))
by_polars("dates", lambda pl: pl.DataFrame({"a": [1], "d": pl.Series([1]).cast(pl.Date)}))
by_polars("structs", lambda pl: pl.DataFrame({"a": [{"x": 1, "y": 2}]}))
by_polars("no rows", lambda pl: pl.DataFrame({"a": []}))


def by_duckdb(query):
    def write(path):
        duckdb = pytest.importorskip("duckdb")
        write_table(path, duckdb.sql(query).to_arrow_table())

    CASES[f"duckdb: {query}"] = write


by_duckdb("select [1, 2] as a, 'x' as b union all select [3], 'y'")
by_duckdb("select 1::hugeint a")
by_duckdb("select uuid() a, 1 b")
by_duckdb("select '101'::bit a")
by_duckdb("select [1, 2]::int[2] a")
by_duckdb("select time '12:00' a")
by_duckdb("select 'a'::enum('a', 'b') x")


def main(folder):
    for number, (name, write) in enumerate(CASES.items()):
        print("case", ascii(name), flush=True)
        faulthandler.dump_traceback_later(60, exit=True)
        path = os.path.join(folder, f"{number}.arrow")
        try:
            write(path)
        except (pytest.skip.Exception, pa.ArrowNotImplementedError) as error:  # of older versions
            print("not made:", error)
            continue
        if fault := damaged_files.fault_of(path):
            print("FAULT", ascii(fault), flush=True)
    faulthandler.cancel_dump_traceback_later()
    print("ended", len(CASES))


if __name__ == "__main__":
    main(*sys.argv[1:])
