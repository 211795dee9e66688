"""Offsets that somebody changes while they are read: `python changing_offsets.py FOLDER SECONDS`.

A thread writes into a file that another sequence of this process has loaded: what reads it ends with a result
or
a ValueError, whatever it finds. The last line says how many of each there were.
"""

import contextlib
import faulthandler
import mmap
import os
import pickle
import random
import sys
import threading
import time

import numpy as np
from support.saved import pa, shaped_table, write_table

import seqcore as sq
from seqcore import TensorSequence

N = 3000


def write(path, kind):
    """A file, and where in it are numbers that say where elements are."""
    lengths = [3, 0, 4, 1] * (N // 4)
    ends = np.cumsum([0, *lengths])
    width = "<i8" if kind == "large_list" else "<i4"
    values = pa.array([f"text {i}" for i in range(ends[-1])]) if kind == "texts" else np.arange(ends[-1])
    if kind == "tensors":
        shapes = np.column_stack([lengths, np.ones(N, int)])
        table = shaped_table(values, ends, shapes)
        targets = [ends.astype(width).tobytes(), shapes.astype("<i4").tobytes()]
    else:
        of = pa.LargeListArray if kind == "large_list" else pa.ListArray
        array = of.from_arrays(pa.array(ends, pa.int64() if kind == "large_list" else pa.int32()), values)
        table = pa.table({"t": array})
        targets = [ends.astype(width).tobytes()]
    write_table(path, table)
    with open(path, "rb") as file:
        data = file.read()
    return [(data.index(one), one, int(width[2])) for one in targets]


def change(path, targets, stop):
    """Write numbers over others and back again."""
    rng = random.Random(7)
    odd = [-1, 0, 1, 5, N, 2**31 - 1, -(2**31), 2**20]
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
        while not stop.is_set():
            start, whole, width = rng.choice(targets)
            for _ in range(50):
                at = rng.randrange(len(whole) // width) * width
                number = rng.choice([*odd, *([2**62, -(2**63), 2**63 - 1, 2**61] if width == 8 else [])])
                number = number if rng.random() < 0.5 else rng.randrange(2 * N)
                memory[start + at : start + at + width] = number.to_bytes(width, "little", signed=True)
            time.sleep(rng.random() / 500)
            if rng.random() < 0.7:
                memory[start : start + len(whole)] = whole


def uses(seq, path, i):
    order = np.random.default_rng(i).permutation(len(seq))
    some = seq[order]
    each = [seq[k] for k in ()]
    batch = np.zeros((len(seq), 50), seq.dtype) if seq.dtype != object else None
    return {
        "join": lambda: sq.concat_from_sequence(seq, 0),
        "join of a selection": lambda: sq.concat_from_sequence(some, 0),
        "join backwards": lambda: sq.concat_from_sequence(seq[::-1], 0),
        "values": some.values,
        "stack": lambda: sq.concat_from_sequence(seq[::4], 0, 1),
        "padded": seq.to_padded,
        "padded into": lambda: some.to_padded(out=batch) if batch is not None else None,
        "tolist": some.tolist,
        "lengths": seq.lengths,
        "offsets": some.offsets,
        "shapes": lambda: seq.shapes,
        "nbytes": lambda: some.nbytes,
        "compact": lambda: some.copy().compact(),
        "astype": lambda: seq.astype("float32") if seq.dtype != object else None,
        "==": lambda: seq == some,
        "count": lambda: some.count(np.zeros(3, seq.dtype)),
        "map": lambda: sq.sequence_map(np.negative, seq) if seq.dtype != object else None,
        "batches": lambda: sq.map_batches(lambda a: a, some, batch_size=100),
        "save": lambda: sq.save(f"{path}-{i % 3}", some),
        "save in order": lambda: sq.save(f"{path}-{i % 3}", seq),
        "pickle": lambda: pickle.dumps(some + [np.zeros(1, seq.dtype)] if seq.dtype != object else some),
        "Arrow": lambda: pa.array(seq),
        "Arrow of a selection": lambda: TensorSequence.from_arrow(some).tolist(),
        "iterate": lambda: [each.append(one.sum()) for one in seq] if seq.dtype != object else list(seq),
        "deep": lambda: TensorSequence(seq, copy=True),
        "unpickle": lambda: pickle.loads(pickle.dumps(some)),
    }


def main(folder, seconds):
    faulthandler.dump_traceback_later(float(seconds) * 8 + 120, exit=True)
    results = refused = 0
    for kind in ("list", "large_list", "texts", "tensors"):
        path = os.path.join(folder, f"{kind}.arrow")
        targets = write(path, kind)
        seq, stop = sq.load(path), threading.Event()
        thread = threading.Thread(target=change, args=(path, targets, stop))
        thread.start()
        end, i = time.monotonic() + float(seconds), 0
        try:
            while time.monotonic() < end:
                for name, use in uses(seq, path, i).items():
                    print(kind, name, flush=True)
                    try:
                        use()
                    except (ValueError, OverflowError):
                        refused += 1
                    else:
                        results += 1
                    if time.monotonic() > end:
                        break
                i += 1
        finally:
            stop.set()
            thread.join()
    with contextlib.suppress(Exception):
        faulthandler.cancel_dump_traceback_later()
    print(results, refused)


if __name__ == "__main__":
    main(*sys.argv[1:])
