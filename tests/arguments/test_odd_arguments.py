"""Whatever an argument is, its error is of a fitting kind, short, and leaves the sequence as it was."""

from functools import partial

import numpy as np
import pytest
from support.odd_values import HUGE, VALUES, assert_fitting, each_call, naming
from support.strategies import assert_holds

import seqcore as sq
from seqcore import TensorSequence
from seqcore.dtypes import type_name

MODEL = [np.arange(2), np.arange(3), np.arange(1)]
NEW = np.array([7])


def made():
    return TensorSequence(MODEL)


def _body_of(x):
    return lambda element: x


FUNCTIONS = {
    "element_type": lambda s, x: sq.element_type(x),
    "type_name": lambda s, x: type_name(x),
    "sequence_construct": lambda s, x: sq.sequence_construct(x),
    "sequence_construct, second": lambda s, x: sq.sequence_construct(NEW, x),
    "sequence_empty": lambda s, x: sq.sequence_empty(x),
    "sequence_length": lambda s, x: sq.sequence_length(x),
    "sequence_at, seq": lambda s, x: sq.sequence_at(x, 0),
    "sequence_at": lambda s, x: sq.sequence_at(s, x),
    "sequence_insert, seq": lambda s, x: sq.sequence_insert(x, NEW),
    "sequence_insert, tensor": lambda s, x: sq.sequence_insert(s, x),
    "sequence_insert into none": lambda s, x: sq.sequence_insert([], x),
    "sequence_insert, position": lambda s, x: sq.sequence_insert(s, NEW, x),
    "sequence_erase, seq": lambda s, x: sq.sequence_erase(x),
    "sequence_erase": lambda s, x: sq.sequence_erase(s, x),
    "split_to_sequence": lambda s, x: sq.split_to_sequence(x),
    "split_to_sequence, split": lambda s, x: sq.split_to_sequence(np.arange(6), x),
    "split_to_sequence, axis": lambda s, x: sq.split_to_sequence(np.zeros((2, 3)), axis=x),
    "split_to_sequence, lengths and axis": lambda s, x: sq.split_to_sequence(np.zeros((2, 3)), [1, 1], x),
    "split_to_sequence, too long, and axis": lambda s, x: sq.split_to_sequence(np.zeros((2, 3)), [HUGE], x),
    "split_to_sequence, keepdims": lambda s, x: sq.split_to_sequence(np.arange(3), keepdims=x),
    "concat_from_sequence": lambda s, x: sq.concat_from_sequence(x, 0),
    "concat_from_sequence, axis": lambda s, x: sq.concat_from_sequence(s, x),
    "concat_from_sequence, new axis": lambda s, x: sq.concat_from_sequence(s[:1], x, 1),
    "concat_from_sequence, new_axis": lambda s, x: sq.concat_from_sequence(s, 0, x),
}
MAPS = {
    "body": lambda s, x: sq.sequence_map(x, s),
    "result": lambda s, x: sq.sequence_map(_body_of(x), s),
    "second result": lambda s, x: sq.sequence_map(lambda e: x if len(e) == 3 else e, s),
    "one of two results": lambda s, x: sq.sequence_map(lambda e: (e, x), s),
    "result in a thread": lambda s, x: sq.sequence_map(_body_of(x), s, max_workers=2, chunksize=1),
    "sequence": lambda s, x: sq.sequence_map(np.negative, x),
    "further input": lambda s, x: sq.sequence_map(lambda a, b: a, s, x),
    "max_workers": lambda s, x: sq.sequence_map(np.negative, s, max_workers=x),
    "chunksize": lambda s, x: sq.sequence_map(np.negative, s, chunksize=x, max_workers=2),
    "executor": lambda s, x: sq.sequence_map(np.negative, s, executor=x),
    "output_dtypes": lambda s, x: sq.sequence_map(np.negative, s, output_dtypes=x),
    "batches, body": lambda s, x: sq.map_batches(x, s),
    "batches, result": lambda s, x: sq.map_batches(_body_of(x), s),
    "batches, second result": lambda s, x: sq.map_batches(lambda e: x if len(e) == 3 else e, s, batch_size=1),
    "batches, one of two results": lambda s, x: sq.map_batches(lambda e: (e, x), s),
    "batches, sequence": lambda s, x: sq.map_batches(np.negative, x),
    "batches, further input": lambda s, x: sq.map_batches(lambda a, b: a, s, x),
    "batch_size": lambda s, x: sq.map_batches(np.negative, s, batch_size=x),
    "batches, new_axis": lambda s, x: sq.map_batches(np.negative, s, new_axis=x),
    "batch_size, stacked": lambda s, x: sq.map_batches(np.negative, s, new_axis=1, batch_size=x),
    "batches, max_workers": lambda s, x: sq.map_batches(np.negative, s, max_workers=x),
    "batches, output_dtypes": lambda s, x: sq.map_batches(np.negative, s, output_dtypes=x),
}
MAKERS = {
    "TensorSequence": lambda s, x: TensorSequence(x),
    "TensorSequence of one": lambda s, x: TensorSequence([x]),
    "TensorSequence, dtype": lambda s, x: TensorSequence([[1]], dtype=x),
    "TensorSequence of floats": lambda s, x: TensorSequence([x], dtype="float32"),
    "TensorSequence of bytes": lambda s, x: TensorSequence([x], dtype="uint8"),
    "TensorSequence of strings": lambda s, x: TensorSequence([x], dtype="string"),
    "TensorSequence of complex": lambda s, x: TensorSequence([x], dtype="complex64"),
    "from_lengths, values": lambda s, x: TensorSequence.from_lengths(x, [1]),
    "from_lengths": lambda s, x: TensorSequence.from_lengths(np.arange(3), x),
    "from_offsets, values": lambda s, x: TensorSequence.from_offsets(x, [0, 1]),
    "from_offsets": lambda s, x: TensorSequence.from_offsets(np.arange(3), x),
    "from_padded, batch": lambda s, x: TensorSequence.from_padded(x, [1]),
    "from_padded": lambda s, x: TensorSequence.from_padded(np.zeros((2, 2)), x),
    "from_padded, side": lambda s, x: TensorSequence.from_padded(np.zeros((2, 2)), [1, 1], side=x),
    "from_arrow": lambda s, x: TensorSequence.from_arrow(x),
}
LOOKS = {
    "[x]": lambda s, x: s[x],
    "[[x]]": lambda s, x: s[[x]],
    "[[0, x]]": lambda s, x: s[[0, x]],
    "[(x,)]": lambda s, x: s[(x,)],
    "[x, 0]": lambda s, x: s[x, 0],
    "[x:]": lambda s, x: s[x:],
    "[:x]": lambda s, x: s[:x],
    "[::x]": lambda s, x: s[::x],
    "__getitems__": lambda s, x: s.__getitems__(x),
    "in": lambda s, x: x in s,
    "index": lambda s, x: s.index(x),
    "index, start": lambda s, x: s.index(NEW, x),
    "index, stop": lambda s, x: s.index(NEW, 0, x),
    "count": lambda s, x: s.count(x),
    "==": lambda s, x: s == x,
    "<": lambda s, x: s < x,
    "+": lambda s, x: s + x,
    "reflected +": lambda s, x: x + s,
    "*": lambda s, x: s * x,
    "lengths": lambda s, x: s.lengths(x),
    "offsets": lambda s, x: s.offsets(x),
    "astype": lambda s, x: s.astype(x),
    "to_padded, value": lambda s, x: s.to_padded(x),
    "to_padded, side": lambda s, x: s.to_padded(side=x),
    "to_padded, shape": lambda s, x: s.to_padded(shape=x),
    "to_padded, truncated to shape": lambda s, x: s.to_padded(shape=x, truncate=True),
    "to_padded, multiple_of": lambda s, x: s.to_padded(multiple_of=x),
    "to_padded of none, shape": lambda s, x: s[:0].to_padded(shape=x),
    "to_padded, out": lambda s, x: s.to_padded(out=x),
    "__arrow_c_array__": lambda s, x: s.__arrow_c_array__(x),
}
EDITS = {
    "insert, position": lambda s, x: s.insert(x, NEW),
    "insert": lambda s, x: s.insert(1, x),
    "append": lambda s, x: s.append(x),
    "extend": lambda s, x: s.extend(x),
    "extend with one": lambda s, x: s.extend([NEW, x]),
    "+=": lambda s, x: s.__iadd__(x),
    "[x] =": lambda s, x: s.__setitem__(x, NEW),
    "[[x]] =": lambda s, x: s.__setitem__([x], [NEW]),
    "[0] = x": lambda s, x: s.__setitem__(0, x),
    "[:] = x": lambda s, x: s.__setitem__(slice(None), x),
    "[x:] =": lambda s, x: s.__setitem__(slice(x, None), [NEW]),
    "[::x] =": lambda s, x: s.__setitem__(slice(None, None, x), [NEW]),
    "del [x]": lambda s, x: s.__delitem__(x),
    "del [[x]]": lambda s, x: s.__delitem__([x]),
    "del [x:]": lambda s, x: s.__delitem__(slice(x, None)),
    "pop": lambda s, x: s.pop(x),
    "erase": lambda s, x: s.erase(x),
    "remove": lambda s, x: s.remove(x),
}
FILES = {
    "save": lambda s, x: sq.save("here.arrow", x),
    "save, items": lambda s, x: sq.save("here.arrow", iter([NEW, x])),
    "save, path": lambda s, x: sq.save(x, s),
    "load": lambda s, x: sq.load(x),
    "load several": lambda s, x: sq.load([x, x]),
    "load, column": lambda s, x: sq.load("there.arrow", x),
}
# What is taken for a path may lead nowhere.
NAMED_BY_PATHS = ("body", "batches, body", *FILES)


@each_call(FUNCTIONS | MAPS | MAKERS | LOOKS)
def test_what_only_looks_leaves_the_sequence_as_it_was(call, values):
    function = (FUNCTIONS | MAPS | MAKERS | LOOKS)[call]
    others = (OSError,) if call in NAMED_BY_PATHS else ()
    for value in values:
        seq = made()
        with naming(value):
            assert_fitting(partial(function, seq), VALUES[value](), others)
            assert_holds(seq, MODEL)


@each_call(EDITS)
def test_an_edit_that_fails_leaves_the_sequence_as_it_was(call, values):
    for value in values:
        seq = made()
        with naming(value):
            if assert_fitting(partial(EDITS[call], seq), VALUES[value]()):
                seq._check()
                seq.tolist()
            else:
                assert_holds(seq, MODEL)


@each_call(FILES)
def test_files_by_odd_names(call, values, tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    for i, value in enumerate(values):
        (tmp_path / str(i)).mkdir()
        monkeypatch.chdir(tmp_path / str(i))
        seq = made()
        sq.save("there.arrow", seq)
        with naming(value):
            assert_fitting(partial(FILES[call], seq), VALUES[value](), (OSError,))
            assert_holds(seq, MODEL)
