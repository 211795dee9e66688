"""Damaged files, and what becomes of them: `damaged_files.main(folder, "rows", …)` tries every byte of each kind.

A case is a kind of file, a damage and an offset. Each is printed before it is tried, so that the last one is to
blame for a crash. What is wrong but no crash is printed as a FAULT.
"""

import faulthandler
import os
import pickle
import sys
import traceback

import numpy as np
import pyarrow as pa

import seqcore as sq

LISTS = [[1, 2], [], [3, 4, 5]]
TEXTS = [["a", "é"], [], ["日本語 and more than twelve bytes"]]


def column(array):
    return pa.table({"tensors": array})


def by_us(path, *parts):
    sq.save(path, iter(parts))


def by_pyarrow(path, array, compression=None):
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.OSFile(path, "wb") as sink, pa.ipc.new_file(sink, column(array).schema, options=options) as to:
        to.write_table(column(array), max_chunksize=2)


def rows(name, start=0):
    values = (np.arange(start, start + 12) % 7).astype(name)
    return sq.split_to_sequence(values.reshape(4, 3), [2, 0, 2])


def runs():
    return pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array([1.5, 2.5]))


KINDS = {
    "numbers": lambda path: by_us(path, sq.TensorSequence([1, 2, 3])),
    "rows": lambda path: by_us(path, sq.TensorSequence(LISTS[:1] + LISTS[2:])),
    "matrices": lambda path: by_us(path, rows("int16"), rows("int16", 5)),
    "other widths": lambda path: by_us(
        path, rows("float32"), sq.TensorSequence([np.ones((2, 2), "float32")])
    ),
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
}
WORDS = (b"\xff\xff\xff\xff", b"\xff\xff\xff\x7f", b"\0\0\0\x80", b"\0\0\0\0", b"\1\0\0\0", b"\0\0\1\0")


def damages(data):
    """What it is called, and the bytes of each damaged file."""
    for i in range(len(data)):
        yield f"cut at {i}", data[:i]
        for bits in (0x01, 0x80, 0xFF):
            yield f"flip {bits:#x} at {i}", data[:i] + bytes([data[i] ^ bits]) + data[i + 1 :]
    for i in range(0, len(data) - 3, 4):
        for word in WORDS:
            if data[i : i + 4] != word:
                yield f"word {word.hex()} at {i}", data[:i] + word + data[i + 4 :]
    for i in range(0, len(data) - 7, 8):
        for number in (-1, 1 << 40, 1 << 62, -(1 << 63)):
            yield (
                f"number {number} at {i}",
                data[:i] + number.to_bytes(8, "little", signed=True) + data[i + 8 :],
            )
    for i in range(0, len(data), 8):
        yield f"without 8 at {i}", data[:i] + data[i + 8 :]
        yield f"8 more at {i}", data[:i] + bytes(8) + data[i:]
        yield f"zeros from {i}", data[:i] + bytes(len(data) - i)
    yield "twice", data + data


def read_all(seq):
    """Read each number and each text."""
    seq._check()
    assert len(seq) < 1 << 20, len(seq)
    for element in seq:
        assert element.nbytes < 1 << 20, element.shape
        if element.size:
            element.tolist()
    copy = seq[::-1] + seq
    copy.compact()
    copy.reverse()
    return len(pickle.dumps(seq)) + len(repr(seq))


def fault_of(path):
    """What is wrong with how a file loads, "" if it loads soundly or an error says what is the matter."""
    try:
        seq = sq.load(path)
    except (ValueError, OSError, TypeError) as error:
        # A TypeError is for types and nulls that a damage has brought in.
        return "" if path in str(error) else "file not named: " + traceback.format_exc()
    except Exception:
        return traceback.format_exc()
    try:
        read_all(seq)
    except Exception:
        return "when read: " + traceback.format_exc()
    return ""


def main(folder, *kinds):
    for kind in kinds:
        path = os.path.join(folder, "damaged.arrow")
        KINDS[kind](path)
        assert not fault_of(path), fault_of(path)
        with open(path, "rb") as file:
            data = file.read()
        faulthandler.dump_traceback_later(120, exit=True)
        faults = 0
        for what, other in damages(data):
            print(f"case {kind}: {what}", flush=True)
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
