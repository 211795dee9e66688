"""The operations whose allocations are made to fail, in groups: see failed_allocations.py."""

import copy
import os
import pickle
import tempfile
import threading
import types
from collections import namedtuple

import numpy as np

import seqcore as sq
from seqcore._maps import threads

# `partly`: the operation is several edits, of which the first may hold when the last has failed.
# `loose`: it goes through code of NumPy, ctypes or the interpreter that makes another exception of a failed
# allocation, or leaks itself. Then any exception will do, and only references to sources are counted. Where
# such code ends the process differs from one Python to the next: these are run with the one that they were
# tried with.
# `alone`: allocations fail one at a time.
Operation = namedtuple("Operation", "run partly make loose alone", defaults=(False, None, False, False))
GROUPS = {}

# Left out, for a failed allocation ends the process there (CPython 3.11, NumPy 2.4, protobuf 7, Cython 3.3):
#   np.errstate, on the way of Python floats        CPython's PyContextVar_Set
#   hashes of dtypes, on that of foreign bytes      NumPy's PyArray_DescrHash
#   and fixed-width strings
#   pickle of dtypes: __reduce_ex__ is in           NumPy's arraydescr_reduce
#   to_proto and from_proto                         protobuf's PyUpb_Message_New
#   for name, value in some_dict.items()            CPython's dictiter_new
# or leaks or waits for ever in others:
#   hold and let_go by ctypes                       whose result is lost where it can't become an int
#   Thread.start()                                  CPython waits for a thread that had no memory to begin
#   ThreadPoolExecutor                              as do its futures for a worker that had none
# Where a function shares a variable with a comprehension inside it, CPython 3.11 loses the arguments if it
# has no memory for that. So functions for notebooks which get tensors have none.
# Padding is loose, for its arguments are read in Python: CPython 3.11 loses a block where it has no memory
# for a list display or the frame of a call.


def group(function):
    GROUPS[function.__name__] = function
    return function


def loose(run, make=None):
    return Operation(run, False, make, True, True)


def loosely(operations, alone=True):
    return {name: one._replace(loose=True, alone=alone) for name, one in operations.items()}


# -- what is operated on ---------------------------------------------------------------------------------

TENSOR, RANK3 = np.zeros(3, np.float32), np.zeros((2, 2, 2), np.float32)
BASE = np.arange(40, dtype=np.float32).reshape(20, 2)
MORE = [np.full(4, i, np.float32) for i in range(50)]
ROWS, RANK5, LENGTHS = np.zeros((3000, 2)), np.zeros((2,) * 5), np.array([1000, 2000])
WORDS = np.array([["to", "be"], ["or", "not"], ["to", "be"]], object)
GREY, COLOURED = np.zeros((200, 30), np.uint8), np.zeros((4, 100, 4), np.uint8)
WATCHED = [TENSOR, RANK3, BASE, *MORE, ROWS, RANK5, LENGTHS, WORDS, GREY, COLOURED]


def fresh():
    seq = sq.split_to_sequence(BASE)
    seq.insert(5, TENSOR)
    seq.append(RANK3)
    return seq


def uniform():
    return sq.split_to_sequence(BASE)


def words():
    seq = sq.split_to_sequence(WORDS)
    seq.append("that")
    return seq


def fails(error, function, *arguments, **options):
    try:
        function(*arguments, **options)
    except error:
        return
    raise AssertionError(f"no {error.__name__}")


def generated(tensors, error_at=None):
    for i, tensor in enumerate(tensors):
        if i == error_at:
            raise KeyError(i)
        yield tensor


# -- the operations --------------------------------------------------------------------------------------


@group
def edits():
    return {
        "put in one": Operation(lambda s: (s.append(TENSOR), s.append(RANK3), s.insert(3, TENSOR)), True),
        "append": Operation(lambda s: s.append(RANK3)),
        "insert": Operation(lambda s: s.insert(-3, TENSOR)),
        "extend by a list": Operation(lambda s: s.extend(MORE)),
        "extend by a generator": Operation(lambda s: s.extend(generated(MORE))),
        "extend by a failing generator": loose(lambda s: fails(KeyError, s.extend, generated(MORE, 30))),
        "extend by a sequence": Operation(lambda s: s.extend(s[3:9])),
        "extend by itself": Operation(lambda s: s.extend(s)),
        "+= a list": Operation(lambda s: s.__iadd__(MORE)),
        "replace": Operation(lambda s: s.__setitem__(2, RANK3)),
        "replace a slice": Operation(lambda s: s.__setitem__(slice(2, 6), MORE)),
        "replace a slice by less": Operation(lambda s: s.__setitem__(slice(2, 20), MORE[:1])),
        "replace all by itself": Operation(lambda s: s.__setitem__(slice(None), s)),
        "replace steps": Operation(lambda s: s.__setitem__(slice(None, None, 2), MORE[:11])),
        "replace steps backwards": Operation(lambda s: s.__setitem__(slice(None, None, -2), MORE[:11])),
        "replace steps by too few": Operation(
            lambda s: fails(ValueError, s.__setitem__, slice(None, None, 2), MORE[:3])
        ),
        "pop": Operation(lambda s: s.pop(7)),
        "erase": Operation(lambda s: s.erase(7)),
        "remove": Operation(lambda s: s.remove(RANK3)),
        "remove what isn't there": Operation(lambda s: fails(ValueError, s.remove, MORE[3])),
        "take out a slice": Operation(lambda s: s.__delitem__(slice(3, 9))),
        "take out steps": Operation(lambda s: s.__delitem__(slice(None, None, 3))),
        "take out steps backwards": Operation(lambda s: s.__delitem__(slice(None, None, -3))),
        "take out all": Operation(lambda s: s.__delitem__(slice(None))),
        "reverse": Operation(lambda s: s.reverse()),
        "clear": Operation(lambda s: s.clear()),
        "compact": Operation(lambda s: s.compact()),
        "put in numbers": Operation(
            lambda s: (s.append(np.int64(3)), s.append(5), s.append([1, 2])),
            True,
            lambda: sq.TensorSequence(dtype="int64"),
        ),
        "a wrong type": loose(lambda s: fails(TypeError, s.append, ROWS)),
        "a wrong position": Operation(lambda s: fails(IndexError, s.insert, 99, TENSOR)),
        "a buffer": loose(lambda s: s.append(memoryview(TENSOR))),
    }


@group
def looks():
    part = BASE[4:5].copy()
    return {
        "one": Operation(lambda s: (s[3], s[-1], s[np.int64(2)])),
        "slices": Operation(lambda s: (s[2:9], s[::2], s[:])),
        "slices backwards": Operation(lambda s: (s[::-1], s[9:2:-3])),
        "no position": Operation(lambda s: fails(IndexError, s.__getitem__, 99)),
        "iterate": Operation(lambda s: [*s]),
        "iterate backwards": Operation(lambda s: [*reversed(s)]),
        "next": Operation(lambda s: (next(iter(s)), next(reversed(s)), iter(s).__length_hint__())),
        "shapes": Operation(lambda s: s.shapes),
        "nbytes": Operation(lambda s: s.nbytes),
        "pinned_nbytes": Operation(lambda s: s.pinned_nbytes),
        "pinned_nbytes of a buffer": Operation(
            lambda s: s.pinned_nbytes, make=lambda: sq.TensorSequence([memoryview(TENSOR)])
        ),
        "pinned_nbytes of what no buffer tells": loose(
            lambda s: s.pinned_nbytes, lambda: sq.TensorSequence([np.asarray(Opaque())])
        ),
        "in": Operation(lambda s: (part in s, MORE[1] in s)),
        "in, of what is no tensor": Operation(lambda s: s in s),
        "index": Operation(lambda s: (s.index(part), s.index(part, 2, -1))),
        "index of what isn't there": Operation(lambda s: fails(ValueError, s.index, MORE[1])),
        "count": Operation(lambda s: s.count(TENSOR)),
        "==": Operation(lambda s: s == s[::-1][::-1]),
        "== of large elements": Operation(
            lambda s: s == s[:], make=lambda: sq.TensorSequence([LARGE, TENSOR])
        ),
        "repr": loose(repr),
        # Not of uint8, whose pictures Pillow draws: it doesn't stand failed allocations.
        "notebook": loose(
            lambda s: s._repr_html_(), lambda: sq.split_to_sequence(BASE.view(np.int8), [2, len(BASE) - 2])
        ),
        "length": Operation(lambda s: (len(s), bool(s), s.dtype)),
        "_check": Operation(lambda s: s._check()),
    }


class Opaque:
    """Memory with an address, whose size nobody tells."""

    __array_interface__ = BASE.__array_interface__


LARGE = np.zeros(100_000, np.float32)
WATCHED.append(LARGE)


INDICES, MASK = np.array([3, 0, -1, 3]), np.arange(22) % 2 == 0
OFFSETS, EACH = np.array([0, 3, 3, 20]), np.array([3, 0, 17])
BATCH, LARGE_NUMBERS = np.zeros((5, 4, 2), np.float32), np.arange(1000, 1020)
WATCHED.extend([BATCH, LARGE_NUMBERS])


@group
def selections():
    return {
        "by a list": Operation(lambda s: s[[3, 0, -1, 3]]),
        "by a list of bools": loose(lambda s: s[MASK.tolist()]),
        "by an array": Operation(lambda s: s[INDICES]),
        "by small integers": loose(lambda s: s[np.array([3, 1], np.uint8)]),
        "by a mask": Operation(lambda s: s[MASK]),
        "for a loader": Operation(lambda s: s.__getitems__([1, 2])),
        "outside": Operation(lambda s: fails(IndexError, s.__getitem__, [1, 99])),
        "a short mask": Operation(lambda s: fails(IndexError, s.__getitem__, MASK[:3])),
        "replace": Operation(lambda s: s.__setitem__(INDICES, MORE[:4])),
        "replace a mask": loose(lambda s: s.__setitem__(MASK, MORE[:11])),
        "replace by its own": Operation(lambda s: s.__setitem__(INDICES, s[4:8])),
        "replace by too few": Operation(lambda s: fails(ValueError, s.__setitem__, INDICES, MORE[:3])),
        "replace outside": Operation(lambda s: fails(IndexError, s.__setitem__, [99], MORE[:1])),
        "take out": Operation(lambda s: s.__delitem__(INDICES)),
        "take out a mask": Operation(lambda s: s.__delitem__(MASK)),
        "take out nothing": Operation(lambda s: s.__delitem__([])),
        "take out outside": Operation(lambda s: fails(IndexError, s.__delitem__, [1, 99])),
    }


@group
def ragged():
    out = np.empty((20, 1, 2), np.float32)

    def batches():
        return sq.TensorSequence.from_offsets(BASE, OFFSETS)

    def mixed():
        return sq.TensorSequence([BASE[:3], BASE[2:9], TENSOR.reshape(1, 3)[:, :2]])

    def numbers():
        return sq.split_to_sequence(LARGE_NUMBERS, keepdims=0)

    made = {
        "values in place": Operation(lambda s: s.values(), make=uniform),
        "values joined": Operation(lambda s: s.values(), make=mixed),
        "values that don't fit": Operation(lambda s: fails(ValueError, s.values)),
        "lengths": Operation(lambda s: s.lengths(), make=uniform),
        "lengths that don't fit": loose(
            lambda s: fails(OverflowError, s.lengths, "int8"),
            lambda: sq.TensorSequence.from_lengths(ROWS, [3000]),
        ),
        "offsets": Operation(lambda s: s.offsets(), make=mixed),
        "from lengths": Operation(lambda s: sq.TensorSequence.from_lengths(BASE, EACH)),
        "from offsets": Operation(lambda s: sq.TensorSequence.from_offsets(BASE, OFFSETS)),
        "from falling offsets": Operation(
            lambda s: fails(ValueError, sq.TensorSequence.from_offsets, BASE, OFFSETS[::-1])
        ),
        "pad": loose(lambda s: s.to_padded(), batches),
        "pad with a mask": loose(lambda s: s.to_padded(return_mask=True, side="left"), batches),
        "pad into": loose(lambda s: s.to_padded(out=out), uniform),
        "pad too much": loose(lambda s: fails(ValueError, s.to_padded, shape=2), batches),
        "pad and cut": loose(lambda s: s.to_padded(shape=2, truncate=True), batches),
        "unpad": Operation(lambda s: sq.TensorSequence.from_padded(BATCH, [0, 1, 4, 2, 3])),
        "unpad columns": Operation(
            lambda s: sq.TensorSequence.from_padded(BATCH.transpose(1, 0, 2), [5] * 4)
        ),
        "unpad wrongly": Operation(
            lambda s: fails(ValueError, sq.TensorSequence.from_padded, BATCH, [9] * 5)
        ),
        "astype": loose(lambda s: s.astype("int32")),
        "tolist": Operation(lambda s: s.tolist()),
        "tolist of numbers": Operation(lambda s: s.tolist(), make=numbers),
        "what it has not": loose(lambda s: fails(AttributeError, getattr, s, "sort")),
        "no operator of it": loose(lambda s: fails(TypeError, lambda: s * 2)),
    }
    text = {
        "strings: pad": Operation(lambda s: s[:3].to_padded(), make=words),
        "strings: values": Operation(lambda s: s[1::-1].values(), make=words),
    }
    return made | loosely(text)


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
def reductions():
    def batches():
        return sq.TensorSequence.from_offsets(BASE, OFFSETS)

    def shuffled():
        return sq.split_to_sequence(BASE, 3)[[3, 0, 5, 1, 2, 4]]

    def upright():
        return sq.TensorSequence([BASE[:6].T, BASE[6:9].T])

    return loosely(
        {
            "sum": Operation(lambda s: s.reduce(np.add), make=batches),
            "sum of slots": Operation(lambda s: s.reduce(np.add), make=shuffled),
            "sum of columns": Operation(lambda s: s.reduce(np.add, axis=1), make=upright),
            "maximum": Operation(lambda s: s.reduce(np.maximum, initial=3.0), make=batches),
            "of all": Operation(lambda s: s.reduce(np.prod, axis=None)),
            "mean": Operation(lambda s: s.reduce(np.mean, axis=None)),
            "argmax": Operation(lambda s: s.reduce(np.argmax, axis=None)),
            "any": Operation(lambda s: s.reduce(np.any), make=shuffled),
            "cast": Operation(lambda s: s.reduce(np.add, dtype="float64"), make=batches),
            "by NumPy": Operation(lambda s: s.reduce(np.hypot), make=shuffled),
            "of an empty one": Operation(lambda s: fails(ValueError, s.reduce, np.max), make=batches),
            "of other shapes": Operation(lambda s: fails(ValueError, s.reduce, np.add, axis=1)),
            "by what reduces nothing": Operation(lambda s: fails(TypeError, s.reduce, np.sin)),
            "segment_ids": Operation(lambda s: s.segment_ids(), make=batches),
            "position_ids": Operation(lambda s: s.position_ids("int32"), make=batches),
            "ids that don't fit": Operation(
                lambda s: fails(OverflowError, s.position_ids, "int8"),
                make=lambda: sq.TensorSequence.from_lengths(ROWS, [3000]),
            ),
            "pad as another type": Operation(lambda s: s.to_padded(dtype="float64"), make=batches),
            "pad as another type, with a mask": Operation(
                lambda s: s.to_padded(dtype="int64", return_mask=True), make=shuffled
            ),
            "unpad from the left": Operation(
                lambda s: sq.TensorSequence.from_padded(BATCH, [0, 1, 4, 2, 3], side="left")
            ),
        }
    )


@group
def packing():
    lengths = np.arange(40) % 7
    sampler = sq.BatchSampler(lengths, batch_size=4)
    state = sampler.state_dict()
    WATCHED.append(lengths)

    def batches(**options):
        return list(sq.BatchSampler(lengths, **options))

    def batches_of(s):
        return list(sq.BatchSampler(s, batch_size=4))

    return loosely(
        {
            "best fit": Operation(lambda s: sq.pack(lengths, 9)),
            "best fit, spaces far apart": Operation(lambda s: sq.pack(lengths, 2**62)),
            "first fit": Operation(lambda s: sq.pack(lengths, 9, strategy="first_fit_decreasing")),
            "next fit": Operation(lambda s: sq.pack(lengths, 9, strategy="next_fit", max_count=2)),
            "of a sequence": Operation(lambda s: sq.pack(s, 9), make=uniform),
            "of a list": Operation(lambda s: sq.pack([3, 1, 2], 9)),
            "too long": Operation(lambda s: fails(ValueError, sq.pack, lengths, 5)),
            "batches of a size": Operation(lambda s: batches(batch_size=4)),
            "batches of tokens": Operation(lambda s: batches(max_tokens=20, drop_last=True)),
            "batches of packs": Operation(lambda s: batches(capacity=20, seed=3)),
            "batches in order": Operation(lambda s: batches(batch_size=7, shuffle=False, world_size=2)),
            "batches of a sequence": Operation(batches_of, make=uniform),
            "states": Operation(lambda s: sampler.load_state_dict(sampler.state_dict() | state)),
            "copies": Operation(lambda s: copy.copy(sampler)),
        }
    )


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


class Single(sq.TensorSequence):
    one = sq.TensorSequence(MORE)

    def __new__(cls):
        return cls.one


class Tagged(sq.TensorSequence):
    __slots__ = ("tag",)

    def __new__(cls, *arguments):
        return super().__new__(cls)

    def __getnewargs__(self):
        return (self.tag,)


def tagged():
    made = Tagged(MORE)
    made.tag = 5
    return made


@group
def copies():
    taken = fresh().__reduce_ex__(5)
    pickled = pickle.dumps(fresh(), 5)
    buffers = []
    apart = pickle.dumps(sq.TensorSequence([LARGE, BASE]), 5, buffer_callback=buffers.append)
    rows = [("offsets", BASE, 0, np.array([0, 19, 2]))]
    damaged = (sq.TensorSequence, "float32", rows, ((0, 0, 1, 1),))
    return {
        "copy": Operation(lambda s: s.copy()),
        "copy.copy": Operation(copy.copy),
        "deepcopy": Operation(copy.deepcopy),
        "+": Operation(lambda s: (s + MORE, s + s)),
        "+ from the right": Operation(lambda s: MORE + s),
        "construct": Operation(lambda s: sq.TensorSequence(MORE, np.dtype("float32"))),
        "construct by a generator": Operation(lambda s: sq.TensorSequence(generated(MORE))),
        "construct copies": Operation(lambda s: sq.TensorSequence(MORE, copy=True)),
        "construct from a sequence": Operation(lambda s: sq.TensorSequence(s)),
        "construct copies of a sequence": Operation(lambda s: sq.TensorSequence(s, copy=True)),
        "construct nothing": Operation(lambda s: sq.TensorSequence(dtype="int8")),
        "construct without a type": Operation(lambda s: fails(ValueError, sq.TensorSequence)),
        "reduce": loose(lambda s: s.__reduce_ex__(5)),
        "restore": Operation(lambda s: taken[0](*taken[1])),
        "restore to one in use": Operation(lambda s: fails(TypeError, taken[0], Single, *taken[1][1:])),
        "copy of a subclass": loose(lambda s: (s.copy(), copy.deepcopy(s), s.__reduce__()), tagged),
        "restore what is damaged": Operation(lambda s: fails(ValueError, taken[0], *damaged)),
        "unpickle": loose(lambda s: pickle.loads(pickled)),
        "unpickle out of band": loose(lambda s: pickle.loads(apart, buffers=buffers)),
    }  # fmt: skip


@group
def strings():
    taken = words().__reduce_ex__(5)
    return loosely(
        {
            "put in": Operation(lambda s: s.append(WORDS), make=words),
            "put in str": Operation(lambda s: s.extend(["a", ["b", "c"]]), make=words),
            "put in bytes": Operation(
                lambda s: fails(TypeError, s.append, np.array([b"a"], object)), make=words
            ),
            "split": Operation(lambda s: sq.split_to_sequence(WORDS, axis=1), make=words),
            "join": Operation(lambda s: sq.concat_from_sequence(s[:3], 0), make=words),
            "stack": Operation(lambda s: sq.concat_from_sequence(s[:3], 0, new_axis=1), make=words),
            "compact": Operation(lambda s: s.compact(), make=words),
            "look": Operation(lambda s: [*s], make=words),
            "==": Operation(lambda s: (s == s[:-1], s == s[::-1][::-1]), make=words),
            "find": Operation(lambda s: (s.index("that"), s.count([["to", "be"]]), "x" in s), make=words),
            "deepcopy": Operation(copy.deepcopy, make=words),
            "reduce": Operation(lambda s: s.__reduce_ex__(5), make=words),
            "restore": Operation(lambda s: taken[0](*taken[1]), make=words),
            "show": Operation(lambda s: repr(s), make=words),
        }
    )


@group
def operators():
    return {
        "construct": Operation(lambda s: sq.sequence_construct(*MORE[:5])),
        "empty": Operation(lambda s: (sq.sequence_empty("int8"), sq.sequence_empty())),
        "length": Operation(lambda s: (sq.sequence_length(s), sq.sequence_length(MORE[:3]))),
        "at": Operation(lambda s: (sq.sequence_at(s, 3), sq.sequence_at(s, np.array([2])))),
        "insert": Operation(lambda s: (sq.sequence_insert(s, TENSOR, 2), sq.sequence_insert([], TENSOR))),
        "erase": Operation(lambda s: (sq.sequence_erase(s, 2), sq.sequence_erase(MORE[:3]))),
        "split": Operation(lambda s: sq.split_to_sequence(ROWS)),
        "split and drop": Operation(lambda s: sq.split_to_sequence(RANK5, axis=2, keepdims=0)),
        "split evenly": Operation(lambda s: sq.split_to_sequence(ROWS, 7)),
        "split by lengths": Operation(lambda s: sq.split_to_sequence(ROWS, LENGTHS)),
        "split by a list": Operation(lambda s: sq.split_to_sequence(ROWS, [1000, 0, 2000])),
        "split wrongly": Operation(lambda s: fails(ValueError, sq.split_to_sequence, ROWS, [1, 2])),
        "split nothing": Operation(lambda s: sq.split_to_sequence(ROWS[:0])),
        "join": Operation(lambda s: sq.concat_from_sequence(s, 0), make=uniform),
        "join columns": Operation(lambda s: sq.concat_from_sequence(s, -1), make=uniform),
        "stack": Operation(lambda s: sq.concat_from_sequence(s, 1, new_axis=1), make=uniform),
        "join a list": Operation(lambda s: sq.concat_from_sequence(MORE, 0)),
        "join wrongly": Operation(lambda s: fails(ValueError, sq.concat_from_sequence, s, 0)),
    }


def bfloat16():
    import ml_dtypes

    array = np.arange(12).astype(ml_dtypes.bfloat16).reshape(6, 2)
    WATCHED.append(array)

    def make():
        return sq.split_to_sequence(array)

    taken = make().__reduce_ex__(5)
    return {
        "bfloat16: put in": Operation(lambda s: s.append(array), make=make),
        "bfloat16: join": Operation(lambda s: sq.concat_from_sequence(s, 0), make=make),
        "bfloat16: compact": Operation(lambda s: s.compact(), make=make),
        "bfloat16: ==": Operation(lambda s: s == s[::-1][::-1], make=make),
        "bfloat16: restore": Operation(lambda s: taken[0](*taken[1]), make=make),
        "bfloat16: reduce": loose(lambda s: s.__reduce_ex__(5), make),
        "bfloat16: empty": Operation(lambda s: sq.sequence_empty("bfloat16")),
    }


@group
def more_types():
    operations = {
        f"{name}: all": Operation(
            lambda s: (s.append(s[0]), s.compact(), sq.concat_from_sequence(s, 0), s == s[::-1]),
            True,
            lambda name=name: sq.split_to_sequence(np.ones((4, 2), name)),
        )
        for name in ("bool", "uint8", "int64", "complex128")
    }
    try:
        return operations | bfloat16()
    except ImportError:
        return operations


@group
def c_api():
    from support import c_api as api

    memory, shape = np.arange(6, dtype=np.float32), api.extents(2, 3)
    address = memory.ctypes.data
    lengths = api.extents(1, 19)
    WATCHED.append(memory)

    return loosely(
        {
            "new_sequence": Operation(
                lambda s: (api.new_sequence("int8"), api.is_sequence(s), api.type_num(s))
            ),
            "at": Operation(lambda s: (api.at(s, 3), api.size(s))),
            "insert": Operation(lambda s: api.insert(s, -2, RANK3)),
            "append": Operation(lambda s: api.append(s, RANK3)),
            "replace": Operation(lambda s: api.replace(s, 2, RANK3)),
            "erase": Operation(lambda s: api.erase(s, 2)),
            "insert_memory": Operation(lambda s: api.insert_memory(s, 3, address, 2, shape, None, memory)),
            "insert_memory without items": Operation(
                lambda s: api.insert_memory(s, 3, None, 2, api.extents(0, 3), None, memory)
            ),
            "insert_memory nowhere": Operation(
                lambda s: fails(IndexError, api.insert_memory, s, 99, address, 2, shape, None, memory)
            ),
            "split": Operation(lambda s: (api.split(ROWS, 0, 7, 0), api.split(ROWS, 1, 1, 1))),
            "split_lengths": Operation(lambda s: api.split_lengths(BASE, 0, lengths, 2)),
            "join": Operation(lambda s: (api.join(s[:3], 0, 0), api.join(s[:3], 1, 1))),
            "no sequence": Operation(lambda s: fails(TypeError, api.hold, 7)),
        }
    )


@group
def maps():
    def several(a):
        return a + 1, a.sum()

    def missing(a):
        raise KeyError(3)

    def numbers():
        return sq.split_to_sequence(np.arange(6.0))

    def made(run, partly=False):
        return Operation(run, partly, numbers)

    threads.PATIENCE = 0.2  # seconds until a thread that died is missed: here that happens often
    return loosely(
        {
            "serial": made(lambda s: sq.sequence_map(lambda a: a + 1, s)),
            "two outputs": made(lambda s: sq.sequence_map(several, s)),
            "two inputs": made(lambda s: sq.sequence_map(np.add, s, s)),
            "flat": made(lambda s: sq.sequence_map(np.sqrt, s)),
            "sums": made(lambda s: sq.sequence_map(np.sum, s)),
            "sums of rows": made(lambda s: sq.sequence_map(np.max, s[::-1] + s)),
            "flat, not all fit": made(lambda s: sq.sequence_map(np.add, s, s[::-1]), False),
            # Not np.cumsum, of whose calls Python's cache of methods keeps the names, some hundred strings.
            "batches": made(lambda s: sq.map_batches(np.add.accumulate, s, batch_size=4)),
            "stacked batches": made(lambda s: sq.map_batches(lambda b: (b, b), s, batch_size=4, new_axis=1)),
            "a batch of another length": made(
                lambda s: fails(ValueError, sq.map_batches, lambda b: b[1:], s, batch_size=4)
            ),
            "a whole tensor": made(lambda s: sq.sequence_map(np.add, s, np.float64(3))),
            "types given": made(lambda s: sq.sequence_map(several, s, output_dtypes=["float64", float])),
            "of nothing": made(lambda s: sq.sequence_map(abs, s[:0], output_dtypes="int8")),
            "a list": made(lambda s: sq.sequence_map(lambda a: a, MORE[:4])),
            "reported": made(lambda s: sq.sequence_map(lambda a: a, s, progress=lambda done, total: None)),
            "on threads": made(OnThreads(lambda a: a + 1)),
            "a body that raises": made(lambda s: fails(TypeError, sq.sequence_map, {}.__getitem__, s)),
            "a function that raises": made(lambda s: fails(KeyError, sq.sequence_map, missing, s)),
            "a wrong result": made(lambda s: fails(TypeError, sq.sequence_map, lambda a: None, s)),
        },
        alone=False,
    )


class OnThreads:
    """A map on two threads, whose allocations fail from the moment on when both have been started.

    Not while they start: Thread.start() of CPython waits for ever for a thread that had no memory to begin.
    """

    def __init__(self, body):
        self.body = body

    def __call__(self, seq, arm=lambda: None):
        # Locks alone: a Barrier's own is released by Python code, for which there may be no memory.
        first, armed, here = threading.Lock(), threading.Lock(), threading.local()
        armed.acquire()

        def body(a):
            if not hasattr(here, "begun"):
                here.begun = True
                if first.acquire(blocking=False):
                    armed.acquire(timeout=10)
                else:
                    arm()
                    armed.release()
            return self.body(a)

        sq.sequence_map(body, seq, max_workers=2, chunksize=1)
