"""Operations of the container: edits, lookups, selections, copies, and those of each type."""

import copy
import pickle

import numpy as np

import seqcore as sq
from operations.operands import (
    BASE,
    LARGE,
    LISTS,
    MORE,
    RANK3,
    ROWS,
    TENSOR,
    WATCHED,
    WORDS,
    Operation,
    fails,
    fresh,
    generated,
    group,
    loose,
    loosely,
    words,
)

INDICES, MASK = np.array([3, 0, -1, 3]), np.arange(22) % 2 == 0


@group
def edits():
    return {
        "put in one": Operation(lambda s: (s.append(TENSOR), s.append(RANK3), s.insert(3, TENSOR)), True),
        "append": Operation(lambda s: s.append(RANK3)),
        "insert": Operation(lambda s: s.insert(-3, TENSOR)),
        "extend by a list": Operation(lambda s: s.extend(MORE)),
        "extend by lists": Operation(lambda s: s.extend(LISTS)),
        "extend by lists and arrays": Operation(lambda s: s.extend([*LISTS, *MORE, [[1.5]], *MORE, 2])),
        "extend by lists that end early": loose(
            lambda s: fails(KeyError, s.extend, generated([*LISTS, *MORE], 90))
        ),
        "append a list": Operation(lambda s: s.append([[1, 2], [3, 4]])),
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
        "in, of an object that is not a tensor": Operation(lambda s: s in s),
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
        "construct from lists": Operation(lambda s: sq.TensorSequence([[], *LISTS])),
        "construct from a generator of lists": Operation(lambda s: sq.TensorSequence(generated(LISTS * 9))),
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
            "put in lists of str": Operation(
                lambda s: fails(TypeError, s.extend, [["a"], [["b"], ["c"]], [["d"], [1]]]), make=words
            ),
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
