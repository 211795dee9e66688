"""Every exit of a sequence of a damaged file: `python damaged_exits.py calls|exports EACH KIND …`.

"calls" are those of the registry. "exports" are what other systems make of the sequence and of selections.
One number of the file is damaged, and each EACH-th pair of a damage and a call is tried. A line before each
call says which it is. The process must not end. The line behind a call that goes wrong begins with FAULT: an
export has to give the elements as they can be read one by one, and an error if one of them can't be read.
"""

import io
import itertools
import pickle
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa

sys.path[:0] = [str(Path(__file__).parents[1])]

from support.surface import CALLS, FITTING, Operands  # noqa: E402

import seqcore as sq  # noqa: E402

LENGTHS = [2, 3, 1, 4, 2, 5]
NUMBERS = [-1, 1, 17, 18, 2**20, 2**31 - 1, 2**40, 2**62, 2**63 - 1, -(2**63)]
SHAPES = [(2, 1), (1, 3), (2, 2), (3, 1)]

# What makes a file, and the arrays of numbers in it that say where elements are.
KINDS = {
    "lists": lambda: (
        sq.TensorSequence.from_lengths(np.arange(17), LENGTHS),
        [np.cumsum([0, *LENGTHS])],
    ),
    "lists of pairs": lambda: (
        sq.TensorSequence.from_lengths(np.arange(34.0).reshape(17, 2), LENGTHS),
        [np.cumsum([0, *LENGTHS])],
    ),
    "tensors": lambda: (
        sq.TensorSequence([np.arange(np.prod(shape)).reshape(shape) for shape in SHAPES]),
        [np.cumsum([0, 2, 3, 4, 3]).astype("<i4"), np.array(SHAPES, "<i4")],
    ),
    "strings": lambda: (
        sq.TensorSequence(
            [np.array([f"{i}{j}" * (j + 1) for j in range(n)], object) for i, n in enumerate(LENGTHS)]
        ),
        [np.cumsum([0, *LENGTHS])],
    ),
}


def damaged(kind):
    """Yield what was damaged, and the bytes of the file."""
    seq, numbers = KINDS[kind]()
    file = Path(tempfile.mkstemp(".arrow", dir=FOLDER)[1])
    sq.save(file, seq)
    data = file.read_bytes()
    for which, row in enumerate(numbers):
        width = row.dtype.itemsize
        for candidate in (row.astype("<i8"), row.astype("<i4")):
            where = data.find(candidate.tobytes())
            if where >= 0:
                width = candidate.dtype.itemsize
                break
        else:
            raise AssertionError(f"{kind}: no {row} in the file")
        for at, number in itertools.product(range(row.size), NUMBERS):
            if -(2 ** (8 * width - 1)) <= number < 2 ** (8 * width - 1):
                place = where + at * width
                yield (
                    f"{which}[{at}]={number}",
                    (data[:place] + number.to_bytes(width, "little", signed=True) + data[place + width :]),
                )


def written(seq):
    sink = io.BytesIO()
    table = pa.table(sq.Columns({"t": seq}))
    with pa.ipc.new_file(sink, table.schema) as to:
        to.write_table(table)
    return pa.ipc.open_file(sink).read_all()["t"].to_pylist()


VIEWS = {
    "all": lambda seq: seq,
    "a slice": lambda seq: seq[1:],
    "backwards": lambda seq: seq[::-1],
    "a selection": lambda seq: seq[[0, 2, 1]],
    "twice": lambda seq: seq + seq,
    "pickled": lambda seq: pickle.loads(pickle.dumps(seq)),
}
EXPORTS = {
    "array": lambda seq: pa.array(seq).to_pylist(),
    "chunked array": lambda seq: pa.chunked_array(seq).to_pylist(),
    "columns": lambda seq: pa.table(sq.Columns({"t": seq}))["t"].to_pylist(),
    "written": written,
    "saved": lambda seq: (sq.save(FOLDER / "saved.arrow", seq), sq.load(FOLDER / "saved.arrow").tolist())[1],
    "there and back": lambda seq: sq.TensorSequence.from_arrow(pa.array(seq)).tolist(),
}


def export(view, to):
    """Compare what another system gets with the elements as they can be read."""

    def call(seq):
        try:
            wanted = VIEWS[view](seq).tolist()
        except ValueError:
            wanted = "an error"
        found = EXPORTS[to](VIEWS[view](seq))
        if isinstance(found[0], dict):  # tensors of several shapes
            found = [np.reshape(one["data"], one["shape"]).tolist() for one in found]
        assert found == wanted, f"{found}, elements are {wanted}"

    return call


ERRORS = (
    *FITTING,
    NotImplementedError,
    AttributeError,
    KeyError,
    StopIteration,
    np.exceptions.ComplexWarning,
)


def attempt(name, call, path):
    print(name, flush=True)
    try:
        seq = sq.load(path)
    except ValueError:
        return
    try:
        call(seq)
    except ERRORS:
        pass
    except BaseException as error:
        print("FAULT", repr(error), flush=True)


def main(which, each, kinds):
    if which == "exports":
        calls = {f"{view}, {to}": export(view, to) for view, to in itertools.product(VIEWS, EXPORTS)}
    else:
        calls = {
            label: lambda seq, one=one: one(Operands(seq))
            for label, one in CALLS.items()
            if "seq" in one.uses and one.section not in ("files", "maps") and not one.raises
        }
    for kind in kinds:
        cases = itertools.product(damaged(kind), calls.items())
        for number, ((damage, data), (label, call)) in enumerate(itertools.islice(cases, 0, None, int(each))):
            path = FOLDER / f"{number}.arrow"
            path.write_bytes(data)
            attempt(f"{kind}, {damage}: {label}", call, path)
    print("ended")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        FOLDER = Path(folder)
        main(sys.argv[1], sys.argv[2], sys.argv[3:])
