"""What was given to Arrow stays as it was, for as long as somebody has it and no longer."""

import pytest
from support.strategies import filled

from seqcore import TensorSequence, split_to_sequence

pa = pytest.importorskip("pyarrow")

from support.arrow.values import sound  # noqa: E402

SOURCES = {
    "split": lambda a: split_to_sequence(a, [1, 0, 2, 3]),
    "without the axis": lambda a: split_to_sequence(a, keepdims=0),
    "slice": lambda a: split_to_sequence(a)[1:4],
    "whole": lambda a: TensorSequence([a]),
    "offsets": lambda a: TensorSequence.from_offsets(a, [0, 2, 6]),
}
sources = pytest.mark.parametrize("make", SOURCES.values(), ids=SOURCES)


def other(seq):
    """An element that fits among the others and equals none."""
    return filled("string" if seq.dtype == object else seq.dtype.name, seq[0].shape, start=50)


EDITS = {
    "clear": lambda seq: seq.clear(),
    "erase": lambda seq: seq.erase(0),
    "insert": lambda seq: seq.insert(0, other(seq)),
    "append": lambda seq: seq.append(other(seq)),
    "append of another rank": lambda seq: seq.append(other(seq)[None, None]),
    "assign": lambda seq: seq.__setitem__(0, other(seq)),
    "assign to all": lambda seq: seq.__setitem__(slice(None), []),
    "compact": lambda seq: seq.compact(),
    "reverse": lambda seq: seq.reverse(),
    "+=": lambda seq: seq.__iadd__(seq.copy()),
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
@pytest.mark.parametrize("name", ["int32", "bool", "string"])
@sources
def test_edits_do_not_show(make, name, edit):
    seq = make(filled(name, (6, 2)))
    before = seq.tolist()
    made, chunked = pa.array(seq), pa.chunked_array(seq)
    pair, stream = seq.__arrow_c_array__(), seq.__arrow_c_stream__()
    edit(seq)
    for one in (
        made,
        pa.Array._import_from_c_capsule(*pair),
        chunked.combine_chunks(),
        pa.ChunkedArray._import_from_c_capsule(stream).combine_chunks(),
    ):
        assert sound(one).to_pylist() == before
    seq._check()


def test_a_writable_array_that_was_put_in_shows():
    """As it does in the sequence: no copy is no copy."""
    source = filled("int32", (6, 2))
    seq = split_to_sequence(source)
    made = pa.array(seq)
    source[0] = 77
    assert made[0].as_py() == [[77, 77]] == seq[0].tolist()
