"""Operations on values and lengths: ragged conversion, padding, reductions, and packing."""

import copy

import numpy as np

import seqcore as sq
from operations.operands import (
    BASE,
    BATCH,
    EACH,
    LARGE_NUMBERS,
    OFFSETS,
    ROWS,
    TENSOR,
    WATCHED,
    Operation,
    fails,
    group,
    loose,
    loosely,
    uniform,
    words,
)


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
