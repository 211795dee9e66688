"""Splits of arrays of any layout by anything, and joins of the pieces, beside slices and NumPy's joins."""

import itertools
import math
import pickle

import ml_dtypes
import numpy as np
from hardening.fuzz.tape import HUGE, Tape, bits, filled, raised
from support.strategies import NAMES

from seqcore import concat_from_sequence, split_to_sequence

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
# Axes without an end, of one item again and again.
LONG = (1 << 20, (1 << 31) - 1, 1 << 40, 1 << 62, (1 << 63) - 1)
FEW = 3000  # pieces that are looked at one by one


# --- what is cut, and by what ---


def array_of(tape):
    """An array that stands in memory in any way that NumPy has: steps, offsets, axes in any order, none."""
    name = tape.pick(NAMES)
    shape = tape.shape(most=4, longest=5)
    if tape.chance(8):  # enough pieces for what is done to many at a time
        shape = (*shape[:1], tape.byte() * tape.between(1, 9))
    wide, cuts = [], []
    for extent in shape:
        step, offset = tape.pick([1, 1, 1, -1, 2, -3]), tape.pick([0, 0, 0, 1])
        wide.append(abs(step) * max(extent, 1) + offset)
        cuts.append(slice(offset, None, step) if step > 0 else slice(None, offset or None, step))
    array = filled(name, tuple(wide), tape.byte())
    array = array[(*cuts, ...)][(*(slice(extent) for extent in shape), ...)]
    array = np.transpose(array, sorted(range(array.ndim), key=[tape.below(9) for _ in shape].__getitem__))
    way = tape.below(12)
    if way == 1 and array.dtype.kind in "iufc":
        array = array.astype(array.dtype.newbyteorder())
    elif way == 2 and not array.dtype.hasobject:
        room = np.zeros(array.nbytes + 1, np.uint8)[1:].view(array.dtype).reshape(array.shape)
        room[...] = array
        array = room
    elif way == 3:
        array = array.view(np.matrix) if array.ndim == 2 else array
    elif way in (4, 5):
        n = tape.pick(LONG) if way == 4 and name != "string" else tape.below(6)
        at = tape.below(array.ndim + 1)
        if math.prod(filter(None, array.shape)) * n * array.itemsize < 1 << 63:
            array = np.expand_dims(array, at)
            array = np.broadcast_to(array, (*array.shape[:at], n, *array.shape[at + 1 :]))
    elif way == 6:
        array = array.copy()
        array.flags.writeable = False
    return array


def lengths_of(tape, n):
    """Lengths, mostly a split of n."""
    ends = sorted(min(tape.byte() * max(n // 255, 1), n) for _ in range(tape.below(6)))
    lengths = [b - a for a, b in itertools.pairwise([0, *ends, n])]
    way = tape.below(8)
    if way == 1:
        lengths[tape.below(len(lengths))] += tape.pick([1, -1, *HUGE])
    elif way == 2:
        lengths = [1 << 62] * 4 + lengths  # which wraps to the right sum
    elif way == 3:
        lengths = lengths[1:]
    return lengths


def split_of(tape, n):
    """A value for `split`, and what it means: None, a number, a list, or the kinds of exception."""
    way = tape.below(12)
    if way <= 1:
        return None, None
    number = tape.pick([1, 2, 3, n, n - 1, n + 1, n // 2, 1 << 58, 0, -1, *HUGE])
    if way == 2:
        return number, number
    if way in (3, 4):
        kind = np.dtype(tape.pick(INTEGERS))
        info = np.iinfo(kind)
        number = min(max(number, info.min), info.max)
        return (kind.type(number) if way == 3 else np.array(number, kind)), number
    if way == 5:
        return odd_split(tape)
    lengths = lengths_of(tape, n)
    if way == 6:
        return lengths, lengths
    if way == 7:
        return tuple(lengths), lengths
    if way == 8:
        return [np.int64(one) if abs(one) < 1 << 63 else one for one in lengths], lengths
    kind = np.dtype(tape.pick(INTEGERS))
    info = np.iinfo(kind)
    lengths = [min(max(one, info.min), info.max) for one in lengths]
    array = np.array(lengths, kind)
    if way == 9:
        array = np.repeat(array, 2)[::2]
    elif way == 10:
        array = array.astype(kind.newbyteorder())
    return array, lengths


def odd_split(tape):
    wrong = (TypeError, ValueError)
    return tape.pick(
        [
            *((1.0, wrong), (np.float32(1), wrong), ("1", wrong), (b"1", wrong), ({}, wrong), (1j, wrong)),
            *(([1, 2.0], wrong), ([None], wrong), ([[1]], wrong), ([[1], [1, 2]], wrong), (["1"], wrong)),
            (np.array([1.0]), wrong),
            (np.array([True]), wrong),
            (np.array([[1]]), wrong),
            (np.zeros((0, 0), int), wrong),
            (np.array(1.0), wrong),
            (np.array([1], "m8[s]"), wrong),
            (np.array([1], ml_dtypes.bfloat16), wrong),
            (np.array([1], ml_dtypes.int4), wrong),
            (np.array([None]), wrong),
            (np.array(["1"], object), wrong),
            (np.zeros(1, [("a", int)]), wrong),
            (slice(1), wrong),
        ]
    )


# --- what ONNX says of them ---


def native(array):
    array = np.asarray(array)
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def expected_of(array, meaning, axis, keepdims):
    """The lengths of the pieces, or the kinds of exception instead, or None where it is not to be tried."""
    if isinstance(meaning, tuple):
        return meaning
    wrong = (ValueError, OverflowError)
    if not isinstance(keepdims, int) or not isinstance(axis, int):
        return (TypeError, ValueError)
    if keepdims not in (0, 1) or array.ndim == 0 or not -array.ndim <= axis < array.ndim:
        return wrong
    n = array.shape[axis]
    if meaning is None or isinstance(meaning, int):
        length = 1 if meaning is None else meaning
        if length < 1:
            return wrong
        count = -(-n // length)
        if count > FEW:  # in between it would work, and take long
            return (MemoryError, ValueError, OverflowError) if count > 1 << 50 else None
        return [min(length, n - i * length) for i in range(count)]
    if any(one < 0 for one in meaning) or sum(meaning) != n:
        return wrong
    return meaning


def pieces_of(array, lengths, axis, drop):
    starts = itertools.accumulate(lengths, initial=0)
    before = (slice(None),) * (axis % array.ndim)
    pieces = [array[(*before, slice(at, at + n))] for at, n in zip(starts, lengths, strict=False)]
    return [piece.reshape(np.delete(piece.shape, axis)) for piece in pieces] if drop else pieces


# --- the target ---


def run(data):
    tape = Tape(data)
    array = array_of(tape)
    axis = tape.below(max(array.ndim, 1)) - tape.pick([0, array.ndim])
    if tape.chance(16):
        axis = tape.pick([array.ndim, -array.ndim - 1, *HUGE, 0.0, None, "0", [0]])
    fits = isinstance(axis, int) and -array.ndim <= axis < array.ndim
    keepdims = tape.below(2)
    if tape.chance(8):
        keepdims = tape.pick([True, False, 2, -1, 1 << 64, None, 0.5])
    split, meaning = split_of(tape, array.shape[axis] if fits else 0)
    lengths = expected_of(array, meaning, axis, keepdims)
    if lengths is None:
        return
    if isinstance(lengths, tuple):
        assert raised(lengths, split_to_sequence, array, split, axis, keepdims)
        return
    seq = split_to_sequence(array, split, axis, keepdims)
    seq._check()
    drop = split is None and not keepdims
    array = native(array)
    pieces = pieces_of(array, lengths, axis, drop)
    assert seq.shapes == [piece.shape for piece in pieces]
    assert seq.dtype == array.dtype
    assert seq.nbytes == sum(piece.nbytes for piece in pieces)
    if array.size > FEW:
        return
    assert_holds(seq, pieces)
    if pieces:
        whole = concat_from_sequence(seq, axis, int(drop)) if not drop else joined(seq, axis % array.ndim, 1)
        assert bits(whole) == bits(array)
    play(tape, seq, pieces)


def assert_holds(seq, pieces):
    seq._check()
    assert [bits(one) for one in seq] == [bits(piece) for piece in pieces]
    assert not any(one.flags.writeable for one in seq)


def play(tape, seq, pieces):
    """Other orders of the pieces, joined, made compact and pickled."""
    for _ in range(tape.below(4)):
        step = tape.pick([1, -1, 2, -2, 3])
        where = slice(tape.below(4) if step > 0 else None, None, step)
        seq, pieces = seq[where], pieces[where]
        way = tape.below(5)
        if way == 0 and len(pieces) < 20:
            seq, pieces = seq + seq, pieces + pieces
        elif way == 1 and pieces:
            at = tape.below(len(pieces))
            seq.insert(0, seq[at])
            pieces.insert(0, pieces[at])
        elif way == 2:
            seq = pickle.loads(pickle.dumps(seq, tape.pick([2, 5])))
        elif way == 3:
            seq.compact()
            assert seq.pinned_nbytes == seq.nbytes
        assert_holds(seq, pieces)
        axis, new_axis = tape.between(-5, 4), tape.below(2)
        try:
            expected = (np.stack if new_axis else np.concatenate)(pieces, axis)
        except ValueError:
            assert raised(ValueError, joined, seq, axis, new_axis)
        else:
            found = joined(seq, axis, new_axis)
            assert bits(found) == bits(expected)
            assert found.flags.c_contiguous
            assert found.flags.writeable
    assert seq.pinned_nbytes >= 0


def joined(seq, axis, new_axis):
    return concat_from_sequence(seq, axis, new_axis)


def seeds():
    """Every element type with every form of split, many pieces, and each odd split."""
    play = bytes([3, 0, 0, 0, 1, 3, 0, 4, 1, 1, 4, 1, 2, 2, 1, 5, 0])
    for i in range(len(NAMES)):
        for way in range(12):
            array = bytes([i, 2, 4, 3, 0, *(0, 0) * 2, 1, 0, 1, (i + way) % 12, 3, 1])
            yield array + bytes([way % 2, 0, 0, i % 2, 0, way, i % 5, *(3, 90, 40, 120, 0)]) + play
    for way in range(12):
        for times in (0, 6):
            array = bytes([9, 0, 7, 200, times, 0, 0, 0, 0, 0])
            yield array + bytes([0, 0, 0, way % 2, 0, way, 0, *(3, 20, 40, 60, 0)]) + play
    for i in range(24):
        yield bytes([8, 1, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5, 0, i])


# Inputs that once found a fault, with what it was.
FOUND = []
