"""Damaged files, and what becomes of them: `python damaged_files.py folder 1 rows` tries each byte of a kind.

A case is a kind of file, a damage and an offset. Each is printed before it is tried, so that the last one is
to blame for a crash. With 3::5 in place of 1, every fifth case is tried, from number 3 on. A wrong result
without a crash is printed as a FAULT.
"""

import contextlib
import faulthandler
import itertools
import math
import os
import pickle
import sys
import tempfile
import traceback

import numpy as np
from support.damage import OTHERS, every_damage, every_other
from support.saved import pa, write_column, write_table

import seqcore as sq

LISTS = [[1, 2], [], [3, 4, 5]]
TEXTS = [["a", "é"], [], ["日本語 and more than twelve bytes"]]


def column(array):
    return pa.table({"tensors": array})


def by_us(path, *parts):
    sq.save(path, iter(parts))


def by_pyarrow(path, array, compression=None):
    write_column(path, array, max_chunksize=2, compression=compression)


def as_stream(path, table):
    compression = "lz4" if table.num_columns == 3 else None
    write_table(path, table, max_chunksize=2, stream=True, compression=compression)


def columns():
    """A column of each kind: numbers, lists, fixed sizes, texts, images."""
    images = [np.ones((2, 2), "int8"), np.ones((1, 3), "int8"), np.ones((0, 2), "int8")]
    return sq.Columns(
        {
            "label": np.arange(3, dtype="int16"),
            "tokens": sq.TensorSequence(LISTS, "int32"),
            "box": np.ones((3, 2), "float32"),
            "words": sq.TensorSequence([np.array(some, object) for some in TEXTS]),
            "image": sq.TensorSequence(images),
        }
    )


def rows(name, start=0):
    values = (np.arange(start, start + 12) % 7).astype(name)
    return sq.split_to_sequence(values.reshape(4, 3), [2, 0, 2])


def wider(name):
    return sq.TensorSequence([np.ones((2, 4), name)])


def runs():
    return pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array([1.5, 2.5]))


KINDS = {
    "numbers": lambda path: by_us(path, sq.TensorSequence([1, 2, 3])),
    "rows": lambda path: by_us(path, sq.TensorSequence(LISTS[:1] + LISTS[2:])),
    "matrices": lambda path: by_us(path, rows("int16"), rows("int16", 5)),
    "other widths": lambda path: by_us(path, rows("float32"), wider("float32")),
    "bools": lambda path: by_us(path, rows("bool")),
    "texts": lambda path: by_us(path, sq.TensorSequence([np.array(some, object) for some in TEXTS])),
    "compressed rows": lambda path: by_pyarrow(path, pa.array([[1] * 90, [2] * 70]), "lz4"),
    "compressed texts": lambda path: by_pyarrow(path, pa.array([["abc"] * 90, ["é"] * 70]), "zstd"),
    "list": lambda path: by_pyarrow(path, pa.array(LISTS)),
    "list view": lambda path: by_pyarrow(path, pa.array(LISTS, pa.list_view(pa.int32()))),
    "fixed sizes": lambda path: by_pyarrow(path, pa.array([[1, 2], [3, 4]], pa.list_(pa.int8(), 2))),
    "lists in lists": lambda path: by_pyarrow(path, pa.array([[[1, 2]], [[3, 4], [5, 6]]])),
    "bits": lambda path: by_pyarrow(path, pa.array([[True, False, True], [False]])),
    "view of texts": lambda path: by_pyarrow(path, pa.array(TEXTS, pa.list_(pa.string_view()))),
    "dictionary": lambda path: by_pyarrow(path, pa.array(["x", "y", "x"]).dictionary_encode()),
    "runs": lambda path: by_pyarrow(path, runs()),
    "tensors": lambda path: by_pyarrow(path, pa.FixedShapeTensorArray.from_numpy_ndarray(np.ones((2, 2, 3)))),
    "columns": lambda path: columns().save(path),
    "stream": lambda path: as_stream(path, column(pa.array(LISTS))),
    "stream of texts": lambda path: as_stream(path, column(pa.array(TEXTS))),
    "stream of columns": lambda path: as_stream(path, pa.table(columns())),
    "compressed stream": lambda path: as_stream(
        path, pa.table({"a": [[1] * 90, [2] * 70], "b": [1, 2], "c": ["x" * 99, "y" * 99]})
    ),
}
if int(pa.__version__.partition(".")[0]) < 18:
    del KINDS["runs"]  # which can't be made
    del KINDS["view of texts"]  # of which pyarrow itself crashes


def read_all(seq):
    """Read each number and each text; an element that is damaged is the error of each call that uses it."""
    seq._check()
    assert len(seq) < 1 << 20, len(seq)
    damaged = []
    for at in range(len(seq)):
        try:
            element = seq[at]
        except ValueError as error:
            assert f"element {at}" in str(error), error  # noqa: PT017
            assert "can't be read" in str(error), error  # noqa: PT017
            damaged.append(at)
            continue
        assert element.nbytes < 1 << 20, element.shape
        if element.size:
            element.tolist()
    both = seq[::-1] + seq
    both._check()
    assert len(pickle.loads(pickle.dumps(seq))) == len(seq)  # by its path
    # Whole runs go out as they are; other elements are copied.
    uses = [(read, both) for read in USES] + [(read, seq) for read in IN_PLACE]
    for read, one in uses + [(stored, seq)] * bool(damaged):
        try:
            read(one)
        except (ValueError, OverflowError, OSError) as error:  # a consumer of a stream has an OSError
            told = "can't be read" in str(error) or "has changed" in str(error)
            if not (damaged and told) and read not in MAY_FAIL:
                raise
        else:
            assert not damaged or read not in USES_OF_EACH, "a damaged element was read"
    whole = seq.copy()
    del whole[damaged]
    assert len(list(whole)) == len(seq) - len(damaged)
    whole.compact()
    whole.reverse()
    return len(pickle.dumps(whole)) + len(repr(whole))


def compacted(seq):
    seq = seq[:]
    seq.compact()


def passed_over(seq):
    """Go on after each damaged element."""
    elements, found = iter(seq), 0
    for _ in range(len(seq)):
        with contextlib.suppress(ValueError):
            next(elements)
            found += 1
    assert next(elements, None) is None
    return found


def summed(seq):
    return None if seq.dtype == object else seq.reduce(np.add, axis=None)


def packed(seq):
    return sq.pack(seq, 2**62)


def padded(seq):
    """Pad, unless an element without data is so wide that the batch needs gigabytes."""
    shapes = seq.shapes
    alike = len({len(shape) for shape in shapes}) == 1
    if alike and len(shapes) * math.prod(map(max, zip(*shapes, strict=True))) > 1 << 24:
        return None
    return seq.to_padded()


def exported(seq):
    """What another system gets must be sound, because it trusts it."""
    array = pa.array(seq)
    array.validate(full=True)
    return array.nbytes


def streamed(seq):
    array = pa.chunked_array(seq)
    array.validate(full=True)
    return array.nbytes


def stored(seq):
    with tempfile.TemporaryDirectory() as folder:
        sq.save(os.path.join(folder, "again.arrow"), seq)
        return len(sq.load(os.path.join(folder, "again.arrow")))


# What may fail where ranks or lengths are such, too.
MAY_FAIL = (
    packed,
    sq.TensorSequence.segment_ids,
    sq.TensorSequence.values,
    sq.TensorSequence.lengths,
    sq.TensorSequence.offsets,
    padded,
    exported,
    streamed,
    stored,
)
IN_PLACE = sq.TensorSequence.offsets, exported, streamed
USES_OF_EACH = (summed, sq.TensorSequence.tolist, compacted, list, lambda seq: seq.shapes)
USES = (*MAY_FAIL[:-1], *USES_OF_EACH, passed_over, repr, lambda seq: seq == seq[:], lambda seq: seq.nbytes)


def fault_of(path):
    """What is wrong with how a file loads, "" if it loads soundly or an error says what is the matter."""
    try:
        seq = sq.load(path)
    except (ValueError, OSError, TypeError) as error:
        # A TypeError is for types and nulls that a damage has brought in.
        return "" if path in str(error) else "file not named: " + traceback.format_exc()
    except MemoryError as error:
        # What is compressed may say that it needs more than there is.
        return "" if path in str(error) else traceback.format_exc()
    except Exception:
        return traceback.format_exc()
    try:
        if isinstance(seq, sq.Columns):
            read_columns(seq, path)
        else:
            read_all(seq)
    except Exception:
        return "when read: " + traceback.format_exc()
    return ""


def read_columns(columns, path):
    """Read all columns, and all together; what is damaged is an error that says so."""
    for one in columns.sequences.values():
        read_all(one)
    back = pickle.loads(pickle.dumps(columns))
    assert back.names == columns.names
    for use in (
        list,
        lambda columns: columns[::-1] == back[::-1],
        lambda columns: [columns[name] for name in columns.names],
        lambda columns: columns[[0, -1]] if len(columns) else None,
        lambda columns: pa.table(columns).validate(full=True),
        lambda columns: columns.save(f"{path}.again"),
    ):
        with contextlib.suppress(ValueError, OverflowError):
            use(columns)


# Pickles by path.


def mixed(seq):
    return seq[1:] + sq.TensorSequence([np.ones((2, 2), seq.dtype)]) + seq[:1]


def of_files(folder):
    paths = [os.path.join(folder, name) for name in ("rows.arrow", "widths.arrow", "texts.arrow")]
    for path, kind in zip(paths, ("matrices", "other widths", "texts"), strict=True):
        KINDS[kind](path)
    rows, widths, texts = map(sq.load, paths)
    order = [5, 0, 1, 1, 3]
    return rows, rows[order], widths[::-1] + widths, rows[::2] + rows[:1], texts[[2, 0]], mixed(rows)


def of_memory(folder):
    rows = np.arange(12, dtype="int64").reshape(3, 4)
    return (
        sq.split_to_sequence(rows),
        sq.split_to_sequence(rows, axis=1, keepdims=0),
        sq.split_to_sequence(rows[::-1, ::2], [1, 0, 2]),
        sq.split_to_sequence(np.array([["a", "b"], ["c", "d"]], object)),
        sq.TensorSequence([rows, rows.T, rows[0, 0], rows[:0]]),
        sq.TensorSequence(dtype="float32"),
    )


PICKLED = {"pickles": of_files, "pickles of memory": of_memory}


def bound_memory():
    """Let the process take 2 GB more, because damaged counts mustn't cost."""
    if sys.platform == "linux" and "libasan" not in os.environ.get("LD_PRELOAD", ""):  # has bounds of its own
        import resource

        with open("/proc/self/statm") as file:
            used = int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + 2**31, used + 2**31))


def pickles(sequences, first, step):
    """Try states that differ from those of sequences at one place."""
    bound_memory()
    survived = refused = 0
    for seq in sequences:
        make, arguments, *rest = seq.__reduce_ex__(5)
        for other in itertools.islice(every_other(arguments, [*OTHERS, max]), first, None, step):
            if not isinstance(other, tuple):
                continue
            print(f"case {other!r}"[:300], flush=True)
            try:
                back = make(*other)
                if rest and rest[0] is not None:
                    back.__setstate__(rest[0])
            except (MemoryError, SystemError):
                print("FAULT", traceback.format_exc(), flush=True)
            except Exception:
                refused += 1
            else:
                read_all(back)
                survived += 1
    print(refused, survived)


def main(folder, cases, *kinds):
    first, _, step = cases.rpartition("::")
    first, step = int(first or 0), int(step)
    if kinds[0] in PICKLED:
        pickles(PICKLED[kinds[0]](folder), first, step)
        kinds = ()
    for kind in kinds:
        path = os.path.join(folder, "damaged.arrow")
        KINDS[kind](path)
        assert not fault_of(path), fault_of(path)
        with open(path, "rb") as file:
            data = file.read()
        faults = 0
        for what, other in itertools.islice(every_damage(data), first, None, step):
            print(f"case {kind}: {what}", flush=True)
            faulthandler.dump_traceback_later(60, exit=True)
            os.unlink(path)  # what is still mapped must stay as it is
            with open(path, "xb") as file:
                file.write(other)
            if fault := fault_of(path):
                faults += 1
                print("FAULT", fault, flush=True)
            if faults > 20:
                break
    faulthandler.cancel_dump_traceback_later()
    print("ended")


if __name__ == "__main__":
    main(*sys.argv[1:])
