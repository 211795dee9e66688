"""The public surface: each call, its arguments by recipe, what NumPy or a list gives, and its errors.

A `Call` has a `label` such as "to_padded, masked". The part before the comma is the public name: methods of
TensorSequence stand alone, others have their class in front ("Columns.names"). `run` is the call. Its
parameters say what it takes: one with a default is an argument as it stands, one without is made by the
recipe of that name, a property of `Operands`, so that it fits the sequence `seq`:

    call("append", lambda seq, tensor: seq.append(tensor), edits=True, answer=SAME)

- `answer` has the same parameters, or fewer, with a list of arrays in place of `seq`, and returns what `run`
  has to return. `SAME` is `run` itself on that list. A call with `edits` changes `seq`; its answer, the list.
- `raises` is the error that the call ends with.
- `on` names the one of SEQUENCES that the call is made for, though most calls take any.
- `touches` says which elements are read: "each" by itself, "one", "join" (together), or "none" (they are only
  moved or counted). Where it is empty, that depends on the sequence.
- `memory` is how the call stands a failed allocation: "strict" with a MemoryError, nothing is left behind,
  "loose" where code of others may raise something else, "out" where such code ends the process or leaks.
- `partly`: it is several edits, and the first may hold when the last has failed.

Use them so:

    for one in CALLS.values():
        operands = Operands(SEQUENCES[one.on]())
        one(operands)                       # or one.bound(operands), which prepares the arguments alone
        one(operands, position=99)          # with another argument

`public_names()` lists the names that have to be here. Odd arguments, failed and exhausted allocations, leaks,
damaged data, threads, the reference, and the properties in tests/properties go by this list.
"""

import atexit
import copy
import inspect
import os
import pickle
import shutil
import tempfile
import types
from functools import cache, cached_property, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import seqcore as sq
from seqcore import BatchSampler, Columns, TensorSequence

SAME = "the same on a list"
FITTING = (TypeError, ValueError, IndexError, OverflowError)


@cache
def parameters_of(function):
    return inspect.signature(function).parameters


class Call(NamedTuple):
    label: str
    run: object
    answer: object = None
    raises: object = None
    edits: bool = False
    on: str = "mixed"
    touches: str = ""
    memory: str = "strict"
    partly: bool = False
    section: str = ""

    @property
    def name(self):
        return self.label.partition(",")[0]

    @property
    def parameters(self):
        return parameters_of(self.run)

    @property
    def uses(self):
        """The recipes that it takes: none if it is the same call on every sequence."""
        return [one.name for one in self.parameters.values() if one.default is one.empty]

    def arguments(self, operands, function=None, **instead):
        function = function or self.run
        wanted = parameters_of(function).values()
        return {
            one.name: instead[one.name]
            if one.name in instead
            else getattr(operands, one.name)
            if one.default is one.empty
            else one.default
            for one in wanted
        }

    def bound(self, operands, **instead):
        """Return the call with its arguments made."""
        return partial(self.run, *self.arguments(operands, **instead).values())

    def __call__(self, operands, **instead):
        return self.bound(operands, **instead)()

    def answered(self, operands, model):
        """Return what the answer returns for a list of arrays, which it edits if the call does."""
        function = self.run if self.answer == SAME else self.answer
        return function(**self.arguments(operands, function, seq=model))


# -- what calls are made on ------------------------------------------------------------------------------

TENSOR, RANK3 = np.zeros(3, np.float32), np.zeros((2, 2, 2), np.float32)
BASE = np.arange(40, dtype=np.float32).reshape(20, 2)
MORE = [np.full(4, i, np.float32) for i in range(50)]
LISTS = [[1.5, 2], [3], []] * 20
WORDS = np.array([["to", "be"], ["or", "not"], ["to", "be"]], object)
LARGE = np.zeros(100_000, np.float32)
ROWS, RANK5, EACH = np.zeros((3000, 2)), np.zeros((2,) * 5), np.array([1000, 2000])
OFFSETS, LENGTHS = np.array([0, 3, 3, 20]), np.array([3, 0, 17])
MASK = np.arange(4) < np.array([[0], [1], [4], [2], [3]])
BATCH, LARGE_NUMBERS = np.zeros((5, 4, 2), np.float32), np.arange(1000, 1020)
SIZES = np.arange(40) % 7
SOURCES = [i % 2 for i in range(len(SIZES))]  # of a mixture
WATCHED = [TENSOR, RANK3, BASE, *MORE, ROWS, RANK5, EACH, WORDS, LARGE]
WATCHED += [BATCH, MASK, LARGE_NUMBERS, SIZES]


def _mixed():
    seq = sq.split_to_sequence(BASE)
    seq.insert(5, TENSOR)
    seq.append(RANK3)
    return seq


def _texts():
    seq = sq.split_to_sequence(WORDS)
    seq.append("that")
    return seq


@cache
def scratch():
    """The folder of this process's files."""
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def _loaded(make):
    @cache
    def path():
        handle, name = tempfile.mkstemp(".arrow", dir=scratch())
        os.close(handle)
        sq.save(name, make())
        return name

    return lambda: sq.load(path())


def _bfloat16():
    import ml_dtypes

    return sq.split_to_sequence(np.arange(12).astype(ml_dtypes.bfloat16).reshape(6, 2))


def _ragged():
    return TensorSequence.from_offsets(BASE, OFFSETS)


def _even():
    return sq.split_to_sequence(BASE)


SEQUENCES = {
    "mixed": _mixed,  # two ranks, in slots
    "two ranks": _mixed,
    "even": _even,
    "ragged": _ragged,  # with an empty element
    "shuffled": lambda: sq.split_to_sequence(BASE, 3)[[3, 0, 5, 1, 2, 4]],
    "backwards": lambda: sq.split_to_sequence(np.arange(20), 3)[::-1],
    "single rows": lambda: TensorSequence.from_lengths(np.arange(6), [1] * 6)[::-2],
    "turned": lambda: TensorSequence([BASE[::-1], BASE[:5, ::-1]]),
    "turned rows": lambda: sq.split_to_sequence(BASE[::-1]),
    "one turned": lambda: TensorSequence([LARGE_NUMBERS[::-1]]),
    "columns": lambda: sq.split_to_sequence(BASE, 1, axis=1),
    "rows of a matrix": lambda: sq.split_to_sequence(BASE, keepdims=0),
    "a row of a matrix": lambda: sq.split_to_sequence(BASE, keepdims=0)[4:5],
    "upright": lambda: TensorSequence([BASE[:6].T, BASE[6:9].T]),
    "arrays": lambda: TensorSequence([BASE[:3], BASE[2:9], TENSOR.reshape(1, 3)[:, :2]]),
    "numbers": lambda: sq.split_to_sequence(LARGE_NUMBERS, keepdims=0),
    "shapes": lambda: TensorSequence([RANK3, np.zeros((1, 3, 2), np.float32)]),
    "padded": lambda: TensorSequence.from_padded(BATCH, [0, 1, 4, 2, 3]),
    "words": _texts,
    "pairs of words": lambda: sq.split_to_sequence(WORDS),
    "bools": lambda: sq.split_to_sequence(np.arange(12) % 3 == 0, 5),
    "complex": lambda: sq.split_to_sequence(np.ones((4, 2), "complex128")),
    "bytes": lambda: sq.split_to_sequence(np.ones((4, 2), np.uint8)),
    "thousands": lambda: TensorSequence.from_lengths(ROWS, [3000]),
    "large": lambda: TensorSequence([LARGE, TENSOR]),
    "empty": lambda: sq.sequence_empty("float32"),
    "bfloat16": _bfloat16,
    "loaded": _loaded(_ragged),
    "loaded shapes": _loaded(lambda: TensorSequence([np.ones((2, 3)), np.ones((1, 2))])),
}
NEEDS = {"bfloat16": "ml_dtypes", "loaded": "pyarrow", "loaded shapes": "pyarrow"}  # packages


def made(name):
    """Return a sequence, or skip the test if a package is missing."""
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    return SEQUENCES[name]()


class Operands:
    """Arguments that fit a sequence. Each is made when a call asks for it, and is the same from then on."""

    def __init__(self, seq):
        self.seq = seq

    @cached_property
    def tensor(self):
        if self.seq.dtype == np.float32:
            return TENSOR
        return np.full(2, "x", object) if self.seq.dtype == object else np.ones(2, self.seq.dtype)

    @cached_property
    def tensors(self):
        return MORE[:5] if self.seq.dtype == np.float32 else [self.tensor, self.tensor[:1]] * 2

    @cached_property
    def others(self):
        """Another sequence of the same type."""
        return TensorSequence(self.tensors)

    @property
    def generated(self):
        return (tensor for tensor in self.tensors)

    @cached_property
    def element(self):
        return self.seq[len(self.seq) // 2] if len(self.seq) else self.tensor

    @cached_property
    def last(self):
        return len(self.seq) - 1

    @cached_property
    def indices(self):
        n = len(self.seq)
        return np.array([n - 1, 0, -1, n // 2] if n else [], np.int64)

    @cached_property
    def replacements(self):
        return [self.tensor] * len(self.indices)

    @cached_property
    def mask(self):
        return np.arange(len(self.seq)) % 2 == 0

    @cached_property
    def masked(self):
        return [self.tensor] * int(self.mask.sum())

    @cached_property
    def lengths(self):
        return self.seq.lengths()

    @cached_property
    def pickled(self):
        return pickle.dumps(self.seq, 5)

    @cached_property
    def out_of_band(self):
        buffers = []
        return pickle.dumps(self.seq, 5, buffer_callback=buffers.append), buffers

    @cached_property
    def reduced(self):
        return self.seq.__reduce_ex__(5)

    @cached_property
    def out(self):
        return np.empty_like(self.seq.to_padded())

    @cached_property
    def schema(self):
        return self.seq.__arrow_c_schema__()

    @property
    def stream(self):
        return types.SimpleNamespace(__arrow_c_stream__=self.seq.__arrow_c_stream__)

    @cached_property
    def columns(self):
        n = len(self.seq)
        return Columns({"a": self.seq, "b": np.arange(n), "c": np.arange(4 * n).reshape(n, 4)})

    @property
    def columns_stream(self):
        return types.SimpleNamespace(__arrow_c_stream__=self.columns.__arrow_c_stream__)

    @property
    def sampler(self):
        return BatchSampler(SIZES, batch_size=4)

    # Where calls find and leave files.

    @cached_property
    def folder(self):
        return Path(tempfile.mkdtemp(dir=scratch()))

    @cached_property
    def path(self):
        return self.folder / "written.arrow"

    @cached_property
    def saved(self):
        sq.save(self.folder / "saved.arrow", self.seq)
        return self.folder / "saved.arrow"

    @cached_property
    def saved_columns(self):
        self.columns.save(self.folder / "columns.arrow")
        return self.folder / "columns.arrow"

    @cached_property
    def parts(self):
        (self.folder / "parts").mkdir()
        for i in range(3):
            sq.save(self.folder / f"parts/{i}.arrow", _even()[i : i + 4])
        return self.folder / "parts"


# -- what calls give -------------------------------------------------------------------------------------


def lengths_of(seq):
    return np.array([len(t) for t in seq], np.int64)


def values_of(seq):
    return np.concatenate(seq)


def padded(seq, value=0):
    """One array of elements that are brought to one shape."""
    shape = np.max([t.shape for t in seq], axis=0)
    out = np.full((len(seq), *shape), value, seq[0].dtype)
    for row, t in zip(out, seq, strict=True):
        row[tuple(map(slice, t.shape))] = t
    return out


def windows_of(t, size, step, partial=True):
    """Return the windows of one array, one after the other."""
    found = []
    for begin in range(0, len(t), step):
        window = t[begin : begin + size]
        if partial or len(window) == size:
            found.append(window)
        if begin + size >= len(t):
            break
    return found


def all_windows(seq, size, step=None, partial=True):
    return [window for t in seq for window in windows_of(t, size, step or size, partial)]


def window_ids(seq, size, step=None, partial=True):
    return np.repeat(np.arange(len(seq)), [len(windows_of(t, size, step or size, partial)) for t in seq])


def rows_at(seq, position):
    empty = "" if seq[0].dtype == object else 0
    rows = [t[position] if -len(t) <= position < len(t) else np.full(t.shape[1:], empty) for t in seq]
    return np.stack(rows).astype(seq[0].dtype)


def reduced(seq, how, axis=0, **options):
    return np.stack([how(t, axis=axis, **options) for t in seq])


def equal(t, u):
    return t.shape == u.shape and t.dtype == u.dtype and bool(np.all(t == u))


def find(seq, tensor):
    """Return the position of the first element that equals a tensor."""
    return next(i for i, t in enumerate(seq) if equal(t, tensor))


def several(t):
    return t + t, t[..., :1]


# -- the calls -------------------------------------------------------------------------------------------

CALLS = {}


def section(name, calls, on="mixed", memory="strict"):
    """Add calls of one subject; `on` and `memory` are for those that don't say their own."""
    for one in calls:
        assert one.label not in CALLS, one.label
        CALLS[one.label] = one._replace(
            section=name,
            on=on if one.on == "mixed" else one.on,
            memory=memory if one.memory == "strict" else one.memory,
        )


call = Call


def edit(label, run, answer=SAME, **flags):
    return Call(label, run, answer, edits=True, touches=flags.pop("touches", "none"), **flags)


def error(label, kind, run, **flags):
    return Call(label, run, raises=kind, **flags)


def _delete(seq, key):
    del seq[key]


def _view_of(tensor):
    # An odd value goes in as it is.
    return tensor[..., :1].T if isinstance(tensor, np.ndarray) else tensor


def _assign(seq, key, value):
    seq[key] = value


def _assign_each(seq, positions, values):
    for i, value in zip(positions, values, strict=True):
        seq[i] = value


def _without(seq, positions):
    gone = {int(i) % len(seq) for i in positions}
    seq[:] = [t for i, t in enumerate(seq) if i not in gone]


def _failing(tensors):
    yield from tensors
    raise KeyError


section("edits", [
    edit("append", lambda seq, tensor: seq.append(tensor)),
    edit("append, three", lambda seq, tensor: (seq.append(tensor), seq.insert(0, tensor), seq.append(tensor)),
         partly=True),
    edit("append, a memoryview", lambda seq, tensor: seq.append(memoryview(tensor)),
         lambda seq, tensor: seq.append(tensor), memory="loose"),
    edit("append, a view of an element", lambda seq, element: seq.append(_view_of(element)),
         touches=""),
    edit("append, Python numbers", lambda seq: (seq.append(np.int64(3)), seq.append(5), seq.append([1, 2])),
         None, on="numbers", partly=True),
    edit("append, floats", lambda seq: seq.append([[1, 2.5], [3, 4]]), None, memory="out"),
    edit("append, foreign bytes", lambda seq: seq.append(np.arange(3, dtype=">f4")), None, memory="out"),
    edit("append, text", lambda seq: seq.append(np.array(["a", "bc"])), None, on="words", memory="out"),
    edit("insert", lambda seq, tensor: seq.insert(len(seq) // 2, tensor)),
    edit("insert, from the back", lambda seq, tensor, position=-1: seq.insert(position, tensor),
         lambda seq, tensor: seq.insert(len(seq) - 1, tensor)),
    edit("insert, position", lambda seq, tensor, position=1: seq.insert(position, tensor)),
    edit("extend", lambda seq, tensors: seq.extend(tensors)),
    edit("extend, a generator", lambda seq, generated: seq.extend(generated)),
    edit("extend, a sequence", lambda seq, others: seq.extend(others)),
    edit("extend, itself", lambda seq: seq.extend(seq)),
    edit("extend, many arrays", lambda seq: seq.extend(MORE), lambda seq: seq.extend(MORE)),
    edit("extend, lists", lambda seq: seq.extend(LISTS), None),
    edit("extend, lists and arrays", lambda seq: seq.extend([*LISTS, *MORE, [[1.5]], *MORE, 2]), None),
    edit("append, a list", lambda seq: seq.append([[1, 2], [3, 4]]), None),
    edit("__iadd__", lambda seq, tensors: seq.__iadd__(tensors), lambda seq, tensors: seq.__iadd__(tensors)),
    edit("__setitem__", lambda seq, tensor, key=1: _assign(seq, key, tensor)),
    edit("__setitem__, a slice", lambda seq, tensors: _assign(seq, slice(1, 3), tensors)),
    edit("__setitem__, a long slice",
         lambda seq, tensors, start=1: _assign(seq, slice(start, 20), tensors[:1])),
    edit("__setitem__, all", lambda seq, tensors: _assign(seq, slice(None), tensors)),
    edit("__setitem__, all by itself", lambda seq: _assign(seq, slice(None), seq)),
    edit("__setitem__, steps", lambda seq, masked, step=2: _assign(seq, slice(None, None, step), masked)),
    edit("__setitem__, steps backwards", lambda seq, tensor: _assign(
        seq, slice(None, None, -2), [tensor] * -(-len(seq) // 2))),
    edit("__setitem__, indices", lambda seq, indices, replacements: _assign(seq, indices, replacements),
         lambda seq, indices, replacements: _assign_each(seq, indices, replacements)),
    edit("__setitem__, its own", lambda seq, indices: _assign(seq, indices, seq[indices]),
         lambda seq: None),
    edit("__setitem__, a mask", lambda seq, mask, masked: _assign(seq, mask, masked),
         lambda seq, mask, masked: _assign_each(seq, np.flatnonzero(mask), masked), memory="loose"),
    edit("__delitem__", lambda seq, key=0: _delete(seq, key)),
    edit("__delitem__, a slice", lambda seq, start=1: _delete(seq, slice(start, 9))),
    edit("__delitem__, steps", lambda seq, step=3: _delete(seq, slice(None, None, step))),
    edit("__delitem__, steps backwards", lambda seq, step=-3: _delete(seq, slice(None, None, step))),
    edit("__delitem__, all", lambda seq: _delete(seq, slice(None))),
    edit("__delitem__, indices", lambda seq, indices: _delete(seq, indices),
         lambda seq, indices: _without(seq, indices)),
    edit("__delitem__, a mask", lambda seq, mask: _delete(seq, mask),
         lambda seq, mask: _without(seq, np.flatnonzero(mask))),
    edit("__delitem__, nothing", lambda seq: _delete(seq, []), lambda seq: None),
    edit("pop", lambda seq, position=-1: seq.pop(position), touches="one"),
    edit("erase", lambda seq, position=-1: seq.erase(position),
         lambda seq, position=-1: _delete(seq, position)),
    edit("remove", lambda seq, tensor, element: seq.remove(element),
         lambda seq, element: _delete(seq, find(seq, element)), touches="each"),
    edit("reverse", lambda seq: seq.reverse()),
    edit("clear", lambda seq: seq.clear()),
    edit("compact", lambda seq: seq.compact(), lambda seq: None, touches="each"),
    error("append, another type", TypeError, lambda seq: seq.append(ROWS), memory="loose"),
    error("append, too large", OverflowError, lambda seq: seq.append([1e300]), memory="out"),
    error("append, ragged lists", ValueError, lambda seq: seq.append([[1], [1, 2]]), memory="out"),
    error("append, a masked array", TypeError, lambda seq: seq.append(np.ma.ones(3)), memory="out"),
    error("append, an object", TypeError, lambda seq: seq.append(object()), memory="out"),
    error("append, bytes among words", TypeError, lambda seq: seq.append(np.array([b"a"], object)),
          on="words",
          memory="loose"),
    error("insert, nowhere", IndexError, lambda seq, tensor: seq.insert(99, tensor)),
    error("extend, what fails", KeyError, lambda seq, tensors: seq.extend(_failing(tensors)), memory="loose"),
    error("extend, lists that fail", KeyError, lambda seq: seq.extend(_failing([*LISTS, *MORE])),
          memory="loose"),
    error("extend, lists among words", TypeError,
          lambda seq: seq.extend([["a"], [["b"], ["c"]], [["d"], [1]]]),
          on="words", memory="loose"),
    error("extend, another type", TypeError, lambda seq, tensor: seq.extend([tensor, 1j]), memory="out"),
    error("extend, another sequence", TypeError, lambda seq: seq.extend(TensorSequence([1])), memory="out"),
    error("__setitem__, nowhere", IndexError, lambda seq, tensor: _assign(seq, 99, tensor)),
    error("__setitem__, another type", TypeError, lambda seq: _assign(seq, 1, ROWS), memory="out"),
    error("__setitem__, another type in a slice", TypeError, lambda seq, tensor: _assign(
        seq, slice(3), [tensor, 1j]), memory="out"),
    error("__setitem__, too few steps", ValueError, lambda seq, tensor: _assign(
        seq, slice(None, None, 2), [tensor])),
    error("__setitem__, too few", ValueError, lambda seq, indices, tensor: _assign(seq, indices, [tensor])),
    error("__setitem__, indices nowhere", IndexError, lambda seq, tensor: _assign(seq, [99], [tensor])),
    error("__delitem__, nowhere", IndexError, lambda seq: _delete(seq, -99)),
    error("__delitem__, indices nowhere", IndexError, lambda seq: _delete(seq, [1, 99])),
    error("pop, nothing", IndexError, lambda seq: seq.pop(), on="empty"),
    error("pop, no position", TypeError, lambda seq: seq.pop("x"), memory="out"),
    error("erase, nowhere", IndexError, lambda seq: seq.erase(99)),
    error("remove, what isn't there", ValueError, lambda seq: seq.remove(MORE[3])),
    error("remove, another type", ValueError, lambda seq: seq.remove(ROWS), memory="out"),
])  # fmt: skip

section("looks", [
    call("__getitem__", lambda seq, key=-1: seq[key], SAME, touches="one"),
    call("__getitem__, by NumPy's", lambda seq: seq[np.int64(1)], SAME, touches="one"),
    call("__getitem__, a slice", lambda seq, start=1: seq[start:9], SAME, touches="none"),
    call("__getitem__, slice stop", lambda seq, stop=9: seq[:stop], SAME, touches="none"),
    call("__getitem__, all", lambda seq: seq[:], SAME, touches="none"),
    call("__getitem__, steps", lambda seq, step=2: seq[::step], SAME, touches="none"),
    call("__getitem__, backwards", lambda seq: seq[::-1], SAME, touches="none"),
    call("__getitem__, steps backwards", lambda seq: seq[9:0:-3], SAME, touches="none"),
    call("__getitem__, a list", lambda seq, indices: seq[indices.tolist()],
         lambda seq, indices: [seq[i] for i in indices], touches="none"),
    call("__getitem__, an odd list", lambda seq, key=0: seq[[0, key]], lambda seq: [seq[0], seq[0]]),
    call("__getitem__, a list of bools", lambda seq, mask: seq[mask.tolist()],
         lambda seq, mask: [t for t, taken in zip(seq, mask, strict=True) if taken], touches="none",
         memory="loose"),
    call("__getitem__, indices", lambda seq, indices: seq[indices],
         lambda seq, indices: [seq[i] for i in indices], touches="none"),
    call("__getitem__, small integers", lambda seq: seq[np.array([1, 0], np.uint8)],
         lambda seq: [seq[1], seq[0]], touches="none", memory="loose"),
    call("__getitem__, a mask", lambda seq, mask: seq[mask],
         lambda seq, mask: [t for t, taken in zip(seq, mask, strict=True) if taken], touches="none"),
    call("__getitems__", lambda seq, indices: seq.__getitems__(indices),
         lambda seq, indices: [seq[i] for i in indices], touches="none"),
    call("__iter__", lambda seq: [*seq], SAME, touches="each"),
    call("__iter__, its hint", lambda seq: (next(iter(seq)), iter(seq).__length_hint__()),
         lambda seq: (seq[0], len(seq)), touches="one"),
    call("__reversed__", lambda seq: [*reversed(seq)], SAME, touches="each"),
    call("__contains__", lambda seq, element: (element in seq, MORE[1] in seq),
         lambda seq: (bool(seq), any(equal(t, MORE[1]) for t in seq)), touches="each"),
    call("__contains__, no tensor", lambda seq, tensor: seq in seq, lambda seq: False),
    call("__len__", lambda seq: len(seq), SAME, touches="none"),
    call("__len__, as a bool", lambda seq: bool(seq), SAME, touches="none"),
    call("dtype", lambda seq: seq.dtype, touches="none"),
    call("shapes", lambda seq: seq.shapes, lambda seq: [t.shape for t in seq], touches="each"),
    call("nbytes", lambda seq: seq.nbytes, touches="each"),
    call("pinned_nbytes", lambda seq: seq.pinned_nbytes),
    call("index", lambda seq, element: seq.index(element), lambda seq, element: find(seq, element),
         touches="each"),
    call("index, from", lambda seq, element, start=0, stop=None: seq.index(element, start, stop),
         lambda seq, element: find(seq, element)),
    call("count", lambda seq, element: seq.count(element),
         lambda seq, element: sum(equal(t, element) for t in seq), touches="each"),
    call("__eq__", lambda seq: seq == seq[::-1][::-1], lambda seq: True),
    call("__eq__, others", lambda seq, others: seq == others, memory="strict"),
    call("__eq__, of large elements", lambda seq: seq == seq[:], lambda seq: True, on="large"),
    call("__eq__, a list", lambda seq, tensors: seq == tensors, lambda seq: False, memory="out"),
    call("__ne__", lambda seq: seq != seq[:], lambda seq: False),
    call("__repr__", lambda seq: repr(seq), memory="loose"),
    call("_repr_html_", lambda seq: seq._repr_html_(), on="backwards", memory="loose"),
    call("_check", lambda seq: seq._check(), lambda seq: None, touches="none"),
    call("__array__", lambda seq: np.asarray(seq), lambda seq: np.stack(seq), on="columns"),
    call("tolist", lambda seq: seq.tolist(), lambda seq: [t.tolist() for t in seq], touches="each"),
    call("tolist, of numbers", lambda seq: seq.tolist(), lambda seq: [t.tolist() for t in seq], on="numbers"),
    error("__getitem__, nowhere", IndexError, lambda seq: seq[99]),
    error("__getitem__, indices nowhere", IndexError, lambda seq: seq[[1, 99]]),
    error("__getitem__, a tuple", TypeError, lambda seq, key=0: seq[(key,)], memory="out"),
    error("__getitem__, two", TypeError, lambda seq, key=0: seq[key, 0], memory="out"),
    error("__getitem__, a short mask", IndexError, lambda seq, mask: seq[mask[:1]]),
    error("__getitem__, a step of 0", ValueError, lambda seq: seq[::0], memory="out"),
    error("index, what isn't there", ValueError, lambda seq: seq.index(MORE[1])),
    error("__array_ufunc__, an operator", TypeError, lambda seq: seq * 2, memory="loose"),
    error("__array_function__", TypeError, lambda seq: np.mean(seq), memory="out"),
    error("__lt__", TypeError, lambda seq, others: seq < others, memory="out"),
    error("__le__", TypeError, lambda seq, others: seq <= others, memory="out"),
    error("__gt__", TypeError, lambda seq, others: seq > others, memory="out"),
    error("__ge__", TypeError, lambda seq, others: seq >= others, memory="out"),
    error("__hash__", TypeError, lambda seq: hash(seq), memory="out"),
    error("dtype, is read-only", AttributeError, lambda seq: setattr(seq, "dtype", None), memory="out"),
    error("sort", AttributeError, lambda seq: seq.sort(), memory="loose"),
])  # fmt: skip

section("copies", [
    call("copy", lambda seq: seq.copy(), SAME, touches="none"),
    call("__copy__", lambda seq: copy.copy(seq), SAME, touches="none"),
    call("__deepcopy__", lambda seq: copy.deepcopy(seq), SAME, touches="each"),
    call("__add__", lambda seq, tensors: seq + tensors, SAME, touches="none"),
    call("__add__, itself", lambda seq: seq + seq, SAME, touches="none"),
    call("__radd__", lambda seq, tensors: tensors + seq, SAME, touches="none"),
    call("TensorSequence", lambda seq, tensors, dtype=None: TensorSequence(tensors, dtype),
         lambda seq, tensors: tensors),
    call("TensorSequence, of a generator", lambda generated: TensorSequence(generated),
         lambda generated: [*generated]),
    call("TensorSequence, lists", lambda: TensorSequence([[], *LISTS])),
    call("TensorSequence, a generator of lists", lambda: TensorSequence(one for one in LISTS * 9)),
    call("TensorSequence, copies", lambda tensors: TensorSequence(tensors, copy=True),
         lambda tensors: tensors),
    call("TensorSequence, of a sequence", lambda seq: TensorSequence(seq), lambda seq: seq, touches="none"),
    call("TensorSequence, copy of a sequence", lambda seq: TensorSequence(seq, copy=True), lambda seq: seq),
    call("TensorSequence, empty", lambda dtype="int8": TensorSequence(dtype=dtype), lambda: []),
    call("TensorSequence, numbers", lambda number=1: TensorSequence([number]), memory="out"),
    call("TensorSequence, dtype", lambda dtype="int8": TensorSequence([[1]], dtype=dtype), memory="out"),
    *[call(f"TensorSequence, {dtype}", lambda number=1, dtype=dtype: TensorSequence([number], dtype=dtype),
           memory="out") for dtype in ("float32", "uint8", "complex64")],
    call("TensorSequence, string", lambda text="a": TensorSequence([text], dtype="string"), memory="out"),
    call("__reduce__", lambda seq: seq.__reduce_ex__(5), memory="loose"),
    call("__reduce__, restored", lambda reduced: reduced[0](*reduced[1]), lambda seq: seq),
    call("__reduce__, unpickled", lambda pickled: pickle.loads(pickled), lambda seq: seq, memory="loose"),
    call("__reduce__, out of band", lambda out_of_band: pickle.loads(out_of_band[0], buffers=out_of_band[1]),
         lambda seq: seq, on="large", memory="loose"),
    *[call(f"__reduce__, protocol {k}", lambda seq, protocol=k: pickle.loads(pickle.dumps(seq, protocol)),
           lambda seq: seq, memory="out") for k in range(6)],
    call("astype", lambda seq, dtype="int32": seq.astype(dtype), memory="loose", touches="each"),
    call("__class_getitem__", lambda: TensorSequence[np.float32], memory="out"),
    error("TensorSequence, without a type", ValueError, lambda: TensorSequence()),
    error("TensorSequence, of an array", TypeError, lambda tensor: TensorSequence(tensor), memory="out"),
    error("TensorSequence, no type", TypeError, lambda: TensorSequence((), "datetime64"), memory="out"),
    error("__init__, twice", TypeError, lambda seq, tensors: seq.__init__(tensors), memory="out"),
    error("__reduce__, damaged", ValueError, lambda reduced: reduced[0](
        TensorSequence, "float32", [("offsets", BASE, 0, np.array([0, 19, 2]))], ((0, 0, 1, 1),))),
    error("__reduce__, cut off", Exception, lambda pickled: pickle.loads(pickled[:-40]), memory="out"),
    error("__reduce__, buffers are missing", pickle.UnpicklingError, lambda out_of_band: pickle.loads(
        out_of_band[0], buffers=[]), on="large", memory="out"),
])  # fmt: skip

section("ragged", [
    call("values", lambda seq: seq.values(), lambda seq: values_of(seq), on="even", touches="join"),
    call("values, joined", lambda seq: seq.values(), lambda seq: values_of(seq), on="arrays", touches="join"),
    call("lengths", lambda seq, dtype="int64": seq.lengths(dtype), lambda seq: lengths_of(seq), on="even",
         touches="each"),
    call("offsets", lambda seq, dtype="int64": seq.offsets(dtype),
         lambda seq: np.cumsum([0, *lengths_of(seq)]), on="arrays", touches="ends"),
    call("segment_ids", lambda seq, dtype="int64": seq.segment_ids(dtype),
         lambda seq: np.repeat(np.arange(len(seq)), lengths_of(seq)), on="ragged", touches="each",
         memory="loose"),
    call("position_ids", lambda seq, dtype="int32": seq.position_ids(dtype),
         lambda seq: np.concatenate([np.arange(len(t), dtype="int32") for t in seq]), on="ragged",
         touches="each", memory="loose"),
    call("position_ids, started", lambda seq, lengths, start=3: seq.position_ids(start=start),
         lambda seq, lengths: np.concatenate([np.arange(3, 3 + len(t)) for t in seq]), on="ragged",
         memory="loose"),
    call("position_ids, each started", lambda seq, lengths: seq.position_ids(start=lengths),
         lambda seq, lengths: np.concatenate([np.arange(n, 2 * n) for n in lengths]), on="ragged",
         memory="loose"),
    call("from_lengths", lambda values=BASE, lengths=LENGTHS: TensorSequence.from_lengths(values, lengths),
         lambda: np.split(BASE, [3, 3])),
    call("from_offsets", lambda values=BASE, offsets=OFFSETS: TensorSequence.from_offsets(values, offsets),
         lambda: np.split(BASE, [3, 3])),
    call("from_padded", lambda batch=BATCH, lengths=(0, 1, 4, 2, 3), side="right": TensorSequence.from_padded(
        batch, lengths, side=side), lambda: [row[:n] for row, n in zip(BATCH, (0, 1, 4, 2, 3), strict=True)]),
    call("from_padded, left", lambda: TensorSequence.from_padded(BATCH, [0, 1, 4, 2, 3], side="left"),
         lambda: [row[4 - n :] for row, n in zip(BATCH, (0, 1, 4, 2, 3), strict=True)], memory="loose"),
    call("from_padded, a mask", lambda lengths=MASK, side="right": TensorSequence.from_padded(
        BATCH, lengths, side=side), lambda: [row[:n] for row, n in zip(BATCH, MASK.sum(1), strict=True)],
        memory="loose"),
    call("from_padded, a mask of integers", lambda: TensorSequence.from_padded(
        BATCH, MASK[:, ::-1].astype(np.int8), side="left"),
        lambda: [row[4 - n :] for row, n in zip(BATCH, MASK.sum(1), strict=True)], memory="loose"),
    call("from_padded, columns", lambda: TensorSequence.from_padded(BATCH.transpose(1, 0, 2), [5] * 4),
         lambda: [*BATCH.transpose(1, 0, 2)]),
    call("to_padded", lambda seq, padding_value=0, side="right", shape=None, multiple_of=None, truncate=False,
         dtype=None: seq.to_padded(padding_value, side=side, shape=shape, multiple_of=multiple_of,
                                   truncate=truncate, dtype=dtype),
         lambda seq: padded(seq), on="ragged", touches="each", memory="loose"),
    call("to_padded, masked",
         lambda seq, return_mask=True: seq.to_padded(return_mask=return_mask, side="left"),
         on="ragged", memory="loose"),
    call("to_padded, into", lambda seq, out: seq.to_padded(out=out), on="even", memory="loose"),
    call("to_padded, cut", lambda seq, shape=2: seq.to_padded(shape=shape, truncate=True), on="ragged",
         memory="loose"),
    call("to_padded, cast", lambda seq, dtype="float64": seq.to_padded(dtype=dtype, return_mask=True),
         on="shuffled", memory="loose", touches="each"),
    call("to_padded, none", lambda seq, shape=(2, 3): seq[:0].to_padded(shape=shape), memory="out"),
    error("values, of two ranks", ValueError, lambda seq: seq.values()),
    error("lengths, that don't fit", OverflowError, lambda seq: seq.lengths("int8"), on="thousands",
          memory="loose"),
    error("position_ids, that don't fit", OverflowError, lambda seq: seq.position_ids("int8"), on="thousands",
          memory="loose"),
    error("from_offsets, falling", ValueError, lambda: TensorSequence.from_offsets(BASE, OFFSETS[::-1])),
    error("from_padded, a mask with gaps", ValueError, lambda: TensorSequence.from_padded(
        BATCH, ~MASK), memory="loose"),
    error("position_ids, of other lengths", ValueError, lambda seq: seq.position_ids(start=[1]), on="ragged",
          memory="loose"),
    error("from_padded, too long", ValueError, lambda: TensorSequence.from_padded(BATCH, [9] * 5)),
    error("to_padded, too long", ValueError, lambda seq: seq.to_padded(shape=2), on="ragged", memory="loose"),
])  # fmt: skip

section("reductions", [
    call("reduce", lambda seq, how=np.add, axis=0, initial=None, dtype=None: seq.reduce(
        how, axis=axis, dtype=dtype, **({} if initial is None else {"initial": initial})),
        lambda seq: reduced(seq, np.add.reduce), on="ragged"),
    call("reduce, slots", lambda seq: seq.reduce(np.add), lambda seq: reduced(seq, np.add.reduce),
         on="shuffled"),
    call("reduce, columns", lambda seq: seq.reduce(np.add, axis=1),
         lambda seq: reduced(seq, np.add.reduce, 1), on="upright"),
    call("reduce, maximum", lambda seq: seq.reduce(np.maximum, initial=3.0),
         lambda seq: reduced(seq, np.max, initial=3), on="ragged"),
    call("reduce, all", lambda seq: seq.reduce(np.prod, axis=None), lambda seq: reduced(seq, np.prod, None)),
    call("reduce, mean", lambda seq: seq.reduce(np.mean, axis=None), lambda seq: reduced(seq, np.mean, None)),
    call("reduce, argmax", lambda seq: seq.reduce(np.argmax, axis=None),
         lambda seq: reduced(seq, np.argmax, None)),
    call("reduce, any", lambda seq: seq.reduce(np.any), lambda seq: reduced(seq, np.any), on="shuffled"),
    call("reduce, cast", lambda seq: seq.reduce(np.add, dtype="float64"),
         lambda seq: reduced(seq, np.add.reduce, dtype="float64"), on="ragged", touches="each"),
    call("reduce, hypot", lambda seq: seq.reduce(np.hypot), lambda seq: reduced(seq, np.hypot.reduce),
         on="shuffled"),
    error("reduce, an empty element", ValueError, lambda seq: seq.reduce(np.max), on="ragged"),
    error("reduce, other shapes", ValueError, lambda seq: seq.reduce(np.add, axis=1)),
    error("reduce, no reduction", TypeError, lambda seq: seq.reduce(np.sin)),
], memory="loose")  # fmt: skip

section("rows", [
    call("windows", lambda seq, size=2, step=None, partial=True: seq.windows(size, step, partial=partial),
         lambda seq: all_windows(seq, 2), on="ragged", touches="each"),
    call("windows, that overlap", lambda seq: seq.windows(3, 2), lambda seq: all_windows(seq, 3, 2)),
    call("windows, whole ones", lambda seq: seq.windows(3, 1, partial=False),
         lambda seq: all_windows(seq, 3, 1, False), on="shuffled", touches="each"),
    call("windows, with gaps", lambda seq: seq.windows(1, 3), lambda seq: all_windows(seq, 1, 3),
         on="columns"),
    call("windows, their elements", lambda seq, return_ids=True: seq.windows(2, 1, return_ids=return_ids),
         lambda seq: (all_windows(seq, 2, 1), window_ids(seq, 2, 1)), on="padded"),
    call("windows, of several sources", lambda seq: (seq[::-1] + seq[:1] + seq).windows(2),
         lambda seq: all_windows(seq[::-1] + seq[:1] + seq, 2)),
    call("windows, of separate arrays", lambda seq, return_ids=True: seq.windows(2, return_ids=return_ids),
         lambda seq: (all_windows(seq, 2), window_ids(seq, 2)), on="arrays"),
    call("truncate, separate arrays", lambda seq: seq.truncate(1, side="left"),
         lambda seq: [t[-1:] for t in seq], on="upright"),
    call("windows, none", lambda seq: seq.windows(2**70, partial=False), lambda seq: [], on="even"),
    call("truncate", lambda seq, size=2, side="right": seq.truncate(size, side=side),
         lambda seq: [t[:2] for t in seq], on="ragged", touches="each"),
    call("truncate, in front", lambda seq: seq.truncate(1, side="left"), lambda seq: [t[-1:] for t in seq],
         on="shuffled"),
    call("truncate, nothing", lambda seq: seq.truncate(0), lambda seq: [t[:0] for t in seq], on="columns"),
    call("truncate, no rows", lambda seq: seq.truncate(2**62), lambda seq: [t[:] for t in seq], on="loaded",
         touches="each"),
    call("take_rows", lambda seq, position=-1, empty=None: seq.take_rows(position, empty=empty),
         lambda seq: np.stack([t[-1] for t in seq]), on="even", touches="each"),
    call("take_rows, missing", lambda seq: seq.take_rows(2, empty=0), lambda seq: rows_at(seq, 2),
         on="ragged", touches="each"),
    call("take_rows, columns", lambda seq: seq.take_rows(1), lambda seq: np.stack([t[1] for t in seq]),
         on="columns"),
    call("accumulate", lambda seq, ufunc=np.add, dtype=None: seq.accumulate(ufunc, dtype=dtype),
         lambda seq: [np.add.accumulate(t, 0) for t in seq], on="ragged", touches="each"),
    call("accumulate, maxima", lambda seq: seq.accumulate(np.maximum),
         lambda seq: [np.maximum.accumulate(t, 0) for t in seq], on="shuffled", touches="each"),
    call("accumulate, cast", lambda seq: seq.accumulate(np.cumprod, dtype="float64"),
         lambda seq: [np.multiply.accumulate(t, 0, "float64") for t in seq], on="columns"),
    call("accumulate, shapes", lambda seq: seq.accumulate(np.subtract),
         lambda seq: [np.subtract.accumulate(t, 0) for t in seq], on="loaded shapes"),
    error("windows, of no rows", ValueError, lambda seq: seq.windows(0), memory="out"),
    error("windows, of numbers", ValueError, lambda seq: seq.windows(2), on="numbers"),
    error("truncate, negative", ValueError, lambda seq: seq.truncate(-1), memory="out"),
    error("take_rows, nowhere", IndexError, lambda seq: seq.take_rows(0), on="ragged"),
    error("take_rows, of two ranks", ValueError, lambda seq: seq.take_rows(0)),
    error("accumulate, no ufunc", TypeError, lambda seq: seq.accumulate(np.sin), memory="out"),
    error("accumulate, of numbers", ValueError, lambda seq: seq.accumulate(np.add), on="numbers"),
    error("accumulate, of words", TypeError, lambda seq: seq.accumulate(np.add), on="words", memory="out"),
], memory="loose")  # fmt: skip

section("operators", [
    call("element_type", lambda dtype="int8": sq.element_type(dtype), memory="out"),
    call("sequence_construct", lambda tensor: sq.sequence_construct(tensor, tensor),
         lambda tensor: [tensor, tensor]),
    call("sequence_construct, five", lambda tensors: sq.sequence_construct(*tensors),
         lambda tensors: tensors),
    call("sequence_empty", lambda dtype="float32": sq.sequence_empty(dtype), lambda: []),
    call("sequence_length", lambda seq: sq.sequence_length(seq), lambda seq: len(seq), touches="none"),
    call("sequence_length, of a list", lambda tensors: sq.sequence_length(tensors),
         lambda tensors: len(tensors)),
    call("sequence_at", lambda seq, position=-1: sq.sequence_at(seq, position), lambda seq: seq[-1],
         touches="one"),
    call("sequence_at, an array", lambda seq: sq.sequence_at(seq, np.array([0])), lambda seq: seq[0],
         touches="one"),
    call("sequence_insert", lambda seq, tensor, position=0: sq.sequence_insert(seq, tensor, position),
         lambda seq, tensor: [tensor, *seq], touches="none"),
    call("sequence_insert, into none", lambda tensor: sq.sequence_insert([], tensor),
         lambda tensor: [tensor]),
    call("sequence_erase", lambda seq, position=0: sq.sequence_erase(seq, position), lambda seq: seq[1:],
         touches="none"),
    call("sequence_erase, of a list", lambda tensors: sq.sequence_erase(tensors),
         lambda tensors: tensors[:-1]),
    call("split_to_sequence", lambda input=ROWS[:60], split=None, axis=0, keepdims=1: sq.split_to_sequence(
        input, split, axis, keepdims), lambda: np.split(ROWS[:60], 60)),
    call("split_to_sequence, dropped", lambda: sq.split_to_sequence(RANK5, axis=2, keepdims=0),
         lambda: [RANK5[:, :, 0], RANK5[:, :, 1]]),
    call("split_to_sequence, evenly", lambda split=7: sq.split_to_sequence(ROWS, split),
         lambda: np.split(ROWS, range(7, 3000, 7))),
    call("split_to_sequence, lengths", lambda split=EACH: sq.split_to_sequence(ROWS, split),
         lambda: np.split(ROWS, [1000])),
    call("split_to_sequence, a list", lambda axis=0: sq.split_to_sequence(ROWS, [1000, 0, 2000], axis),
         lambda: np.split(ROWS, [1000, 1000])),
    call("split_to_sequence, nothing", lambda: sq.split_to_sequence(ROWS[:0]), lambda: []),
    call("split_to_sequence, words", lambda: sq.split_to_sequence(WORDS, axis=1),
         lambda: np.split(WORDS, 2, axis=1), memory="loose"),
    call("concat_from_sequence", lambda seq, axis=0, new_axis=0: sq.concat_from_sequence(seq, axis, new_axis),
         lambda seq: np.concatenate(seq), on="even", touches="join"),
    call("concat_from_sequence, columns", lambda seq, axis=-1: sq.concat_from_sequence(seq, axis),
         lambda seq: np.concatenate(seq, -1), on="even"),
    call("concat_from_sequence, stacked", lambda seq, axis=1: sq.concat_from_sequence(seq, axis, new_axis=1),
         lambda seq: np.stack(seq, 1), on="even"),
    call("concat_from_sequence, a list", lambda: sq.concat_from_sequence(MORE, 0),
         lambda: np.concatenate(MORE)),
    error("sequence_construct, mixed", TypeError, lambda: sq.sequence_construct(TENSOR, 1j), memory="out"),
    error("sequence_at, nowhere", IndexError, lambda seq: sq.sequence_at(seq, 99), memory="out"),
    error("sequence_insert, another type", TypeError, lambda seq: sq.sequence_insert(seq, 1j), memory="out"),
    error("sequence_erase, nothing", IndexError, lambda: sq.sequence_erase([]), memory="out"),
    error("split_to_sequence, wrongly", ValueError, lambda: sq.split_to_sequence(ROWS, [1, 2])),
    error("split_to_sequence, no axis", ValueError, lambda: sq.split_to_sequence(BASE, axis=2), memory="out"),
    error("split_to_sequence, no integer", TypeError, lambda: sq.split_to_sequence(BASE, 1.5), memory="out"),
    error("split_to_sequence, negative", ValueError, lambda: sq.split_to_sequence(BASE, [-1, 21]),
          memory="out"),
    error("split_to_sequence, a scalar", ValueError, lambda: sq.split_to_sequence(1), memory="out"),
    error("concat_from_sequence, wrongly", ValueError, lambda seq: sq.concat_from_sequence(seq, 0)),
    error("concat_from_sequence, nothing", ValueError, lambda: sq.concat_from_sequence([], 0), memory="out"),
    error("concat_from_sequence, no axis", ValueError, lambda seq: sq.concat_from_sequence(seq, 7),
          memory="out"),
])  # fmt: skip


def _raising(t):
    raise KeyError(3)


section("maps", [
    call("sequence_map", lambda seq, body=(lambda t: t * 2), output_dtypes=None: sq.sequence_map(
        body, seq, output_dtypes=output_dtypes), lambda seq: [t * 2 for t in seq]),
    call("sequence_map, two outputs", lambda seq: sq.sequence_map(several, seq),
         lambda seq: tuple(map(list, zip(*map(several, seq), strict=True)))),
    call("sequence_map, two inputs", lambda seq, other=1: sq.sequence_map(np.add, seq, seq),
         lambda seq: [t + t for t in seq]),
    call("sequence_map, further", lambda seq, other=3: sq.sequence_map(lambda t, u: t, seq, other),
         lambda seq: seq),
    call("sequence_map, elementwise", lambda seq: sq.sequence_map(np.negative, seq),
         lambda seq: [-t for t in seq]),
    call("sequence_map, sums", lambda seq: sq.sequence_map(np.sum, seq),
         lambda seq: [t.sum() for t in seq], memory="out"),
    call("sequence_map, sums of joined", lambda seq: sq.sequence_map(np.max, seq[::-1] + seq),
         lambda seq: [t.max() for t in [*seq[::-1], *seq]], on="even"),
    call("sequence_map, not all fit", lambda seq: sq.sequence_map(np.add, seq, seq[::-1]),
         on="even"),
    call("sequence_map, a whole tensor", lambda seq: sq.sequence_map(np.add, seq, np.float64(3))),
    call("sequence_map, types given", lambda seq, dtypes=("float32", np.float32): sq.sequence_map(
        lambda t: (t, t), seq, output_dtypes=dtypes), lambda seq: (seq, seq)),
    call("sequence_map, of nothing", lambda seq: sq.sequence_map(abs, seq[:0], output_dtypes="int8"),
         lambda seq: []),
    call("sequence_map, a list", lambda tensors: sq.sequence_map(lambda t: t, tensors),
         lambda tensors: tensors),
    call("sequence_map, reported", lambda seq, progress=(lambda done, total: None): sq.sequence_map(
        lambda t: t, seq, progress=progress), lambda seq: seq),
    call("sequence_map, a result", lambda seq, result=TENSOR: sq.sequence_map(lambda t: result, seq)),
    call("sequence_map, one of two results",
         lambda seq, result=TENSOR: sq.sequence_map(lambda t: (t, result), seq)),
    call("sequence_map, on threads", lambda seq, max_workers=2, chunksize=1: sq.sequence_map(
        lambda t: t, seq, max_workers=max_workers, chunksize=chunksize), lambda seq: seq, memory="out"),
    call("sequence_map, a result on a thread", lambda seq, result=TENSOR: sq.sequence_map(
        lambda t: result, seq, max_workers=2, chunksize=1), memory="out"),
    call("sequence_map, an executor", lambda seq, executor=None: sq.sequence_map(
        np.negative, seq, executor=executor), lambda seq: [-t for t in seq]),
    # Not np.cumsum, of whose calls Python's cache of methods keeps the names, some hundred strings.
    call("map_batches", lambda seq, body=np.negative, batch_size=4: sq.map_batches(
        body, seq, batch_size=batch_size), lambda seq: [-t for t in seq]),
    call("map_batches, accumulated", lambda seq: sq.map_batches(np.add.accumulate, seq, batch_size=1),
         lambda seq: [np.add.accumulate(t) for t in seq]),
    call("map_batches, stacked", lambda seq, batch_size=4: sq.map_batches(
        lambda b: (b, b), seq, batch_size=batch_size, new_axis=1), lambda seq: (seq, seq)),
    call("map_batches, further", lambda seq, other=3: sq.map_batches(lambda t, u: t, seq, other),
         lambda seq: seq),
    call("map_batches, new_axis", lambda seq, new_axis=0: sq.map_batches(np.negative, seq, new_axis=new_axis),
         lambda seq: [-t for t in seq]),
    call("map_batches, types", lambda seq, output_dtypes=None, max_workers=1: sq.map_batches(
        np.negative, seq, output_dtypes=output_dtypes, max_workers=max_workers),
        lambda seq: [-t for t in seq]),
    call("map_batches, a result", lambda seq, result=BASE: sq.map_batches(lambda t: result, seq)),
    call("map_batches, one of two results",
         lambda seq, result=BASE: sq.map_batches(lambda t: (t, result), seq)),
    error("sequence_map, a body that raises", TypeError, lambda seq: sq.sequence_map({}.__getitem__, seq)),
    error("sequence_map, a function that raises", KeyError, lambda seq: sq.sequence_map(_raising, seq)),
    error("sequence_map, a wrong result", TypeError, lambda seq: sq.sequence_map(lambda t: None, seq)),
    error("sequence_map, other lengths", ValueError, lambda seq: sq.sequence_map(np.add, seq, seq[1:]),
          memory="out"),
    error("map_batches, another length", ValueError, lambda seq: sq.map_batches(
        lambda b: b[1:], seq, batch_size=4)),
], on="ragged", memory="loose")  # fmt: skip

section("training", [
    call("pack", lambda lengths=SIZES, capacity=9, strategy="best_fit_decreasing", max_count=None: sq.pack(
        lengths, capacity, strategy=strategy, max_count=max_count)),
    call("pack, spaces far apart", lambda: sq.pack(SIZES, 2**62)),
    call("pack, first fit", lambda: sq.pack(SIZES, 9, strategy="first_fit_decreasing")),
    call("pack, next fit", lambda: sq.pack(SIZES, 9, strategy="next_fit", max_count=2)),
    call("pack, a sequence", lambda seq: sq.pack(seq, 30), on="even"),
    call("pack, a list", lambda: sq.pack([3, 1, 2], 9)),
    call("BatchSampler", lambda lengths=SIZES, batch_size=4, shuffle=True, seed=0, rank=0, world_size=1,
         drop_last=False: BatchSampler(lengths, batch_size=batch_size, shuffle=shuffle, seed=seed, rank=rank,
                                       world_size=world_size, drop_last=drop_last)),
    call("BatchSampler, max_tokens", lambda max_tokens=20: BatchSampler(SIZES, max_tokens=max_tokens)),
    call("BatchSampler, a sequence", lambda seq: [*BatchSampler(seq, batch_size=4)], on="even"),
    call("BatchSampler.__iter__", lambda sampler: [*sampler]),
    call("BatchSampler.__iter__, tokens", lambda: [*BatchSampler(SIZES, max_tokens=20, drop_last=True)]),
    call("BatchSampler.__iter__, packs", lambda: [*BatchSampler(SIZES, capacity=20, seed=3)]),
    call("BatchSampler.__iter__, in order", lambda: [*BatchSampler(
        SIZES, batch_size=7, shuffle=False, world_size=2)]),
    call("BatchSampler.__len__", lambda sampler: len(sampler), lambda: 10),
    call("BatchSampler.__repr__", lambda sampler: repr(sampler)),
    call("BatchSampler.sampler", lambda sampler: sampler.sampler is sampler, lambda: True),
    call("BatchSampler.set_epoch", lambda sampler, epoch=1: sampler.set_epoch(epoch), lambda: None),
    call("BatchSampler.state_dict", lambda sampler: sampler.state_dict()),
    call("BatchSampler.load_state_dict", lambda sampler: sampler.load_state_dict(sampler.state_dict()),
         lambda: None),
    call("BatchSampler.load_state_dict, odd", lambda sampler, state=None: sampler.load_state_dict(
        sampler.state_dict() if state is None else state), lambda: None),
    call("BatchSampler.__getstate__", lambda sampler: pickle.loads(pickle.dumps(sampler))),
    call("BatchSampler.__setstate__", lambda sampler: copy.copy(sampler)),
    call("BatchSampler, mixed", lambda: [
        *BatchSampler(SIZES, batch_size=4, sources=SOURCES, weights=(3, 1), unit="tokens", stop="all")],
        memory="out"),  # NumPy's indexing by an array ends the process
    error("pack, too long", ValueError, lambda: sq.pack(SIZES, 5), memory="out"),
    error("BatchSampler, no limit", ValueError, lambda: BatchSampler(SIZES)),
], memory="loose")  # fmt: skip


section("columns", [
    # CPython's dictiter_new leaks where it has no memory.
    call("Columns", lambda seq: Columns({"s": seq, "n": np.arange(len(seq))}), memory="out"),
    call("Columns, of lists", lambda: Columns({"s": MORE[:3], "n": [1, 2, 3]}), memory="out"),
    call("Columns, odd", lambda column=(1, 2): Columns({"a": column}), memory="out"),
    call("Columns, of anything", lambda columns={"a": [1]}: Columns(columns), memory="out"),
    call("Columns.names", lambda columns: columns.names, lambda: ["a", "b", "c"]),
    call("Columns.keys", lambda columns: [*columns.keys()], lambda: ["a", "b", "c"]),
    call("Columns.dtypes", lambda columns: [*columns.dtypes], lambda: ["a", "b", "c"]),
    call("Columns.nbytes", lambda columns: columns.nbytes),
    call("Columns.__len__", lambda columns: len(columns), lambda seq: len(seq)),
    call("Columns.__repr__", lambda columns: repr(columns)),
    call("Columns._repr_html_", lambda columns: columns._repr_html_(), on="ragged", memory="out"),
    call("Columns.items", lambda columns: [name for name, _ in columns.items()], lambda: ["a", "b", "c"]),
    call("Columns.items, a column", lambda columns: dict(columns.items())["b"],
         lambda seq: np.arange(len(seq))),
    call("Columns.get", lambda columns, name="b", default=None: columns.get(name, default),
         lambda seq: np.arange(len(seq))),
    call("Columns.get, nothing", lambda columns, default=7: columns.get("x", default), lambda: 7),
    # CPython 3.11 keeps what it gives a comprehension for which there is no memory.
    call(
        "Columns.__or__",
        lambda columns, indices: (columns | {"d": columns["a"]})["d"],
        lambda seq: seq,
        memory="out",
    ),
    call("Columns.__or__, odd", lambda columns, more={"b": [1]}: columns[:1] | more, memory="out"),
    call("Columns.__or__, in place", lambda columns: [*(columns | {"a": columns["b"]}).names],
         lambda: ["a", "b", "c"]),
    call("Columns.__add__", lambda columns: (columns + columns[::-1])["a"], lambda seq: [*seq, *seq[::-1]]),
    call("Columns.__add__, arrays", lambda columns: (columns + columns[::-1])["c"],
         lambda seq: np.concatenate([np.arange(4 * len(seq)).reshape(-1, 4),
                                     np.arange(4 * len(seq)).reshape(-1, 4)[::-1]])),
    call("Columns.__getitem__, names", lambda columns, key=("c", "a"): columns[[*key]].names,
         lambda: ["c", "a"]),
    call("Columns.__contains__", lambda columns, name="a": name in columns, lambda: True),
    call("Columns.__eq__", lambda columns: columns == columns[:], memory="out"),
    call("Columns.__getitem__", lambda columns, key=-1: columns[key]),
    call("Columns.__getitem__, a sequence", lambda columns: columns["a"], lambda seq: seq),
    call("Columns.__getitem__, an array", lambda columns: columns["b"], lambda seq: np.arange(len(seq))),
    call("Columns.__getitem__, a matrix", lambda columns: columns["c"],
         lambda seq: np.arange(4 * len(seq)).reshape(-1, 4)),
    call("Columns.__getitem__, a slice", lambda columns: columns[1:9]),
    call("Columns.__getitem__, steps backwards", lambda columns: columns[::-2]["b"],
         lambda seq: np.arange(len(seq))[::-2]),
    call("Columns.__getitem__, two falling", lambda columns: columns[[1, 0]]["b"], lambda: np.array([1, 0])),
    call("Columns.__getitem__, rows of a matrix", lambda columns: columns[::-1]["c"],
         lambda seq: np.arange(4 * len(seq)).reshape(-1, 4)[::-1]),
    call("Columns.__getitem__, indices", lambda columns, indices: columns[indices]),
    call("Columns.__getitem__, a mask", lambda columns, mask: columns[mask]["b"],
         lambda mask: np.flatnonzero(mask)),
    call("Columns.__getitems__", lambda columns, indices: columns.__getitems__(indices)),
    call("Columns.__iter__", lambda columns: list(columns[:4])),
    call("Columns.__reduce__", lambda columns: columns.__reduce__()[0](*columns.__reduce__()[1])),
    call("Columns.__reduce__, pickled", lambda columns: pickle.loads(pickle.dumps(columns)), memory="out"),
    call("Columns.__arrow_c_schema__", lambda columns: columns.__arrow_c_schema__(), on="even", memory="out"),
    call("Columns.__arrow_c_stream__", lambda columns: columns.__arrow_c_stream__(), on="even"),
    call("Columns.from_arrow", lambda columns_stream: Columns.from_arrow(columns_stream), on="even"),
    call("Columns.from_arrow, odd", lambda columns, table=None: Columns.from_arrow(
        columns if table is None else table), on="even", memory="out"),
    error("Columns, other lengths", ValueError, lambda seq: Columns({"s": seq, "n": [1]})),
    error("Columns.__or__, other lengths", ValueError, lambda columns: columns | {"d": [1]}, memory="out"),
    error("Columns.__add__, other names", ValueError, lambda columns: columns + columns[["a"]], memory="out"),
    error("Columns.__add__, other types", TypeError,
          lambda columns: columns + (columns | {"b": columns["a"]}), memory="out"),
    error("Columns.__getitem__, names twice", ValueError, lambda columns: columns[["a", "a"]], memory="out"),
    error("Columns.__getitem__, no name", KeyError, lambda columns: columns["x"], memory="out"),
    error("Columns.__getitem__, nowhere", IndexError, lambda columns: columns[99], memory="out"),
    error("Columns.from_dataset, no data set", TypeError, lambda columns: Columns.from_dataset(columns),
          memory="out"),  # data sets are in tests/files/test_from_dataset.py
    error("Columns.__hash__", TypeError, lambda columns: hash(columns), memory="out"),
], memory="loose")  # fmt: skip

section("arrow", [
    call("__arrow_c_schema__", lambda seq: seq.__arrow_c_schema__(), touches=""),
    call("__arrow_c_array__", lambda seq: seq.__arrow_c_array__()),
    call("__arrow_c_array__, of a type", lambda seq, schema: seq.__arrow_c_array__(schema)),
    call("__arrow_c_stream__", lambda seq: seq.__arrow_c_stream__()),
    call("from_arrow", lambda seq, array=None: TensorSequence.from_arrow(seq if array is None else array),
         lambda seq: seq),
    call("from_arrow, a stream", lambda stream: TensorSequence.from_arrow(stream), lambda seq: seq),
    error("__arrow_c_array__, two ranks", ValueError, lambda seq: seq.__arrow_c_array__(), on="two ranks"),
    call("__arrow_c_array__, odd", lambda seq, schema=None: seq.__arrow_c_array__(schema), memory="out"),
    call("from_arrow, words", lambda stream: TensorSequence.from_arrow(stream), lambda seq: seq,
         on="pairs of words"),
    # NumPy's prod, by which the sizes of shapes are added up, ends the process where it has no memory.
    call("from_arrow, shapes", lambda stream: TensorSequence.from_arrow(stream), lambda seq: seq, on="shapes",
         memory="out"),
    error("__arrow_c_array__, no schema", TypeError, lambda seq: seq.__arrow_c_array__(7), memory="out"),
    error("from_arrow, no array", TypeError, lambda: TensorSequence.from_arrow(7), memory="out"),
], on="even", memory="loose")  # fmt: skip

section("files", [  # these need pyarrow
    call("save", lambda path, seq: sq.save(path, seq), lambda: None),
    call("save, parts", lambda path, seq: sq.save(path, iter([seq, seq])), lambda: None),
    call("save, an odd part",
         lambda path, seq, part=None: sq.save(path, iter([seq if part is None else part]))),
    call("Columns.save", lambda columns, path: columns.save(path), lambda: None),
    call("Columns.load", lambda saved: Columns.load(saved)["tensors"], lambda seq: seq),
    call("load", lambda saved: sq.load(saved), lambda seq: seq),
    call("load, several", lambda saved: sq.load([saved, saved]), lambda seq: [*seq, *seq]),
    call("load, columns", lambda saved_columns: sq.load(saved_columns)),
    call("load, one column", lambda saved_columns, column="b": sq.load(saved_columns, column),
         lambda seq: [*np.arange(len(seq))]),
    call("load, a folder", lambda parts: sq.load(parts).lengths(), lambda: np.ones(12, int)),
    call("load, a pattern", lambda parts: sq.load(parts / "*.arrow").lengths(), lambda: np.ones(12, int)),
    call("__reduce__, by path", lambda saved: pickle.loads(pickle.dumps(sq.load(saved)[::-1])),
         lambda seq: seq[::-1], memory="out"),
    error("save, two ranks", ValueError, lambda path, seq: sq.save(path, seq), on="two ranks", memory="out"),
    error("save, parts that fail", KeyError, lambda path, seq: sq.save(path, _failing([seq]))),
    error("load, nothing", FileNotFoundError, lambda folder: sq.load(folder / "none*.arrow")),
], on="even", memory="loose")  # fmt: skip

# -- what has to be here ---------------------------------------------------------------------------------

# What each class has and nobody calls, and what only looks public (Columns.of, .inner, .sequences).
UNCALLED = {
    *("__new__", "__doc__", "__module__", "__dict__", "__weakref__", "__annotations__", "__dir__"),
    *("__slots__", "__slotnames__", "__pyx_vtable__", "__array_ufunc__"),
    *("__static_attributes__", "__firstlineno__"),  # since Python 3.13
    *("Columns.of", "Columns.inner", "Columns.sequences", "ELEMENT_TYPES", "get_include"),
}
ALIASES = {
    "__init__": "TensorSequence",
    "Columns.__init__": "Columns",
    "BatchSampler.__init__": "BatchSampler",
}


def public_names():
    """Return the names of all public functions, methods, properties and operators."""
    names = {*sq.__all__}
    # What `dir` doesn't show is there for its error alone, which names the call that is meant.
    for one, prefix in (
        (TensorSequence([0]), ""),
        (Columns({"a": [0]}), "Columns."),
        (BatchSampler([1], batch_size=1), "BatchSampler."),
    ):
        shown = {*dir(one)}
        for kind in type(one).__mro__[:-1]:
            if kind.__module__.startswith("seqcore"):
                found = shown & {*vars(kind)}
                names |= {prefix + name for name in found if name[0] != "_" or name[:2] == "__"}
    return {ALIASES.get(name, name) for name in names if name.rpartition(".")[2] not in UNCALLED} - UNCALLED
