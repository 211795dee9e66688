"""Sequences share slots until one of them is edited: the other, or the copies of either, never show it."""

import numpy as np
import pytest
from support.counting import rows, tensor
from support.strategies import assert_holds

import seqcore as sq
from seqcore import TensorSequence

pytestmark = pytest.mark.mostly_slow(3)


def whole():
    return TensorSequence([tensor(10 + i) for i in range(6)])


def with_gap(make, position):
    seq = make()
    seq.insert(position, tensor())
    seq.erase(position)
    return seq


def fails(error, call, *args):
    with pytest.raises(error):
        call(*args)


# Each puts all six elements of another sequence into one of six.
PUTS = {
    "[:]": lambda seq, other: seq.__setitem__(slice(None), other),
    "[2:4]": lambda seq, other: seq.__setitem__(slice(2, 4), other),
    "[6:]": lambda seq, other: seq.__setitem__(slice(6, None), other),
    "[::1]": lambda seq, other: seq.__setitem__(slice(0, 6, 1), other),
    "[::-1]": lambda seq, other: seq.__setitem__(slice(None, None, -1), other),
    "[::2]": lambda seq, other: [seq.extend(seq), seq.__setitem__(slice(None, None, 2), other)],
    "positions": lambda seq, other: seq.__setitem__([5, 0, 4, 1, 2, 3], other),
    "one position": lambda seq, other: seq.__setitem__([0] * 6, other),
    "a mask": lambda seq, other: seq.__setitem__([True] * 6, other),
    "extend": lambda seq, other: seq.extend(other),
    "+=": lambda seq, other: seq.__iadd__(other),
    "+": lambda seq, other: (seq + other).append(tensor()),
    "list +": lambda seq, other: ([tensor()] + other).append(tensor()),
    "copy of": lambda seq, other: [copy := TensorSequence(other), copy.reverse(), copy.erase(0)],
    "too many": lambda seq, other: fails(ValueError, seq.__setitem__, slice(None, 4, 2), other),
    "too many positions": lambda seq, other: fails(ValueError, seq.__setitem__, [0], other),
    "nowhere": lambda seq, other: fails(IndexError, seq.__setitem__, [0, 1, 2, 3, 4, 6], other),
}


@pytest.mark.parametrize("put", PUTS)
@pytest.mark.parametrize("make", [rows, whole])
@pytest.mark.parametrize("gap", [0, 3, 6])
@pytest.mark.parametrize("shared", [False, True])
def test_what_is_put_in_stays_where_it_was(put, make, gap, shared):
    other, seq = with_gap(make, gap), with_gap(rows, 6 - gap)
    model, own = list(other), list(seq)
    copies = [(other.copy(), model), (seq.copy(), own), (other[:], model)] if shared else []
    PUTS[put](seq, other)
    assert_holds(other, model)
    # And so after edits of either.
    after = list(seq)
    other[0] = tensor(-1)
    assert_holds(seq, after)
    seq.reverse()
    seq[-1:] = []
    assert_holds(other, [tensor(-1), *model[1:]])
    for copy, held in copies:
        assert_holds(copy, held)


@pytest.mark.parametrize("put", [name for name in PUTS if not name.startswith("too many")])
@pytest.mark.parametrize("gap", [0, 3, 6])
def test_a_sequence_put_into_itself(put, gap):
    seq = with_gap(rows, gap)
    copy = seq.copy()
    model, expected = list(seq), list(seq)
    if put != "[::2]":
        PUTS[put](seq, seq)
        if put in ("+", "list +", "copy of", "nowhere"):
            pass
        elif put == "[::-1]":
            expected.reverse()
        elif put in ("extend", "+=", "[6:]"):
            expected *= 2
        elif put == "[2:4]":
            expected[2:4] = model
        elif put == "positions":
            for at, one in zip([5, 0, 4, 1, 2, 3], model, strict=True):
                expected[at] = one
        elif put == "one position":
            expected[0] = model[-1]
        assert_holds(seq, expected)
    assert_holds(copy, model)


# Each edits a sequence of six in place.
EDITS = {
    "append": lambda seq: seq.append(tensor()),
    "insert": lambda seq: seq.insert(2, tensor()),
    "extend": lambda seq: seq.extend([tensor()] * 3),
    "set": lambda seq: seq.__setitem__(4, tensor()),
    "set a slice": lambda seq: seq.__setitem__(slice(1, 3), [tensor()] * 5),
    "set every other": lambda seq: seq.__setitem__(slice(None, None, 2), [tensor()] * 3),
    "set some": lambda seq: seq.__setitem__([5, 0], [tensor()] * 2),
    "set by a mask": lambda seq: seq.__setitem__([True] * 6, [tensor()] * 6),
    "pop": lambda seq: seq.pop(1),
    "erase": lambda seq: seq.erase(),
    "remove": lambda seq: seq.remove(seq[3]),
    "delete a slice": lambda seq: seq.__delitem__(slice(1, 4)),
    "delete every other": lambda seq: seq.__delitem__(slice(None, None, -2)),
    "delete all": lambda seq: seq.__delitem__(slice(None)),
    "delete some": lambda seq: seq.__delitem__([0, -1]),
    "delete by a mask": lambda seq: seq.__delitem__([False, True] * 3),
    "reverse": lambda seq: seq.reverse(),
    "clear": lambda seq: seq.clear(),
    "compact": lambda seq: seq.compact(),
    "absorb": lambda seq: sq.sequence_map(np.negative, seq).extend(seq),
}


@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("make", [rows, whole])
@pytest.mark.parametrize("gap", [0, 3, 6])
def test_copies_do_not_show_edits(edit, make, gap):
    seq = with_gap(make, gap)
    model = list(seq)
    expected = with_gap(make, gap)
    EDITS[edit](expected)
    shares = [seq.copy(), seq[:], seq[::-1], seq[[0, 1, 2]], TensorSequence(seq), iter(seq)]
    EDITS[edit](seq)
    assert_holds(seq, list(expected))
    assert_holds(shares[0], model)
    EDITS[edit](shares[0])
    assert_holds(shares[0], list(expected))
    assert_holds(shares[1], model)
    assert_holds(shares[2], model[::-1])
    assert_holds(shares[3], model[:3])
    assert_holds(shares[4], model)
