"""Whatever fails leaves the sequence as it was; whatever edits the sequence meanwhile leaves it sound."""

import contextlib

import numpy as np
import pytest
from support.strategies import assert_holds

from seqcore import TensorSequence, split_to_sequence


class Broken(Exception):
    """What the tests' own iterables and objects raise."""


def tensor(value):
    return np.array([value, value], "int64")


def whole():
    return TensorSequence([tensor(i) for i in range(6)])


def split():
    return split_to_sequence(np.repeat(np.arange(6), 2).reshape(6, 2), keepdims=0)


def with_gap_in_the_middle():
    seq = whole()
    seq.insert(3, tensor(99))
    seq.erase(3)
    return seq


MODEL = [tensor(i) for i in range(6)]
every_kind = pytest.mark.parametrize("make", [whole, split, with_gap_in_the_middle])


def failing(count):
    """An iterable of tensors that breaks after count of them."""
    for i in range(count):
        yield tensor(50 + i)
    raise Broken


class BadLength:
    """An iterable that lies about its length, or breaks when asked for it."""

    def __init__(self, length):
        self.length = length

    def __iter__(self):
        return iter([tensor(50), tensor(51)])

    def __length_hint__(self):
        if isinstance(self.length, Exception):
            raise self.length
        return self.length


class Breaks:
    """An object that breaks whichever way one looks at it."""

    def __array__(self, dtype=None, copy=None):
        raise Broken

    def __index__(self):
        raise Broken

    def __iter__(self):
        raise Broken


# --- failures ---


@every_kind
@pytest.mark.parametrize("count", [0, 1, 3, 200])
def test_an_iterable_that_breaks_changes_nothing(make, count):
    seq = make()
    edits = [
        lambda: seq.extend(failing(count)),
        lambda: seq.__iadd__(failing(count)),
        lambda: seq.__setitem__(slice(1, 3), failing(count)),
        lambda: seq.__setitem__(slice(None, None, 2), failing(count)),
        lambda: seq.__setitem__(slice(6, 6), failing(count)),
    ]
    for edit in edits:
        with pytest.raises(Broken):
            edit()
        assert_holds(seq, MODEL)


@pytest.mark.parametrize("count", [0, 1, 200])
def test_an_iterable_that_breaks_makes_no_sequence(count):
    with pytest.raises(Broken):
        TensorSequence(failing(count), dtype="int64")
    with pytest.raises(Broken):
        TensorSequence(failing(count))


@pytest.mark.parametrize("length", [0, 1, 5, 10**6])
def test_a_wrong_length_hint_does_not_matter(length):
    seq = whole()
    seq.extend(BadLength(length))
    seq[0:0] = BadLength(length)
    assert_holds(seq, [tensor(50), tensor(51), *MODEL, tensor(50), tensor(51)])


@every_kind
def test_objects_that_break_change_nothing(make):
    seq = make()
    edits = [
        lambda: seq.append(Breaks()),
        lambda: seq.insert(1, Breaks()),
        lambda: seq.insert(Breaks(), tensor(1)),
        lambda: seq.extend(Breaks()),
        lambda: seq.extend([tensor(1), Breaks()]),
        lambda: seq.pop(Breaks()),
        lambda: seq.erase(Breaks()),
        lambda: seq[Breaks()],
        lambda: seq[Breaks() :],
        lambda: seq.__delitem__(Breaks()),
        lambda: seq.__delitem__(slice(None, Breaks())),
        lambda: seq.__setitem__(Breaks(), tensor(1)),
        lambda: seq.__setitem__(0, Breaks()),
        lambda: seq.__setitem__(slice(Breaks(), None), [tensor(1)]),
        lambda: seq.__setitem__(slice(0, 1), Breaks()),
        lambda: seq.index(tensor(1), Breaks()),
    ]
    for edit in edits:
        with pytest.raises((Broken, TypeError)):
            edit()
        assert_holds(seq, MODEL)


# --- edits in the middle of a call ---


def assert_sound(seq):
    """The sequence keeps its invariants, and each element is one of the tensors used here."""
    seq._check()
    for element in seq:
        assert element.shape == (2,)
        assert element[0] == element[1]
        assert 0 <= element[0] < 100


def test_initializing_again_leaves_it_sound():
    seq = whole()
    with contextlib.suppress(TypeError):
        seq.__init__([tensor(3)])
    assert_sound(seq)


@pytest.mark.parametrize("where", [slice("a"), slice(1.5), slice(None, None, 1.0)])
def test_bad_slices_are_errors(where):
    seq = whole()
    for use in (
        lambda: seq[where],
        lambda: seq.__setitem__(where, [tensor(1)]),
        lambda: seq.__delitem__(where),
        lambda: seq.__setitem__(slice(1, 2), where),
        lambda: seq.__setitem__(slice(None, None, 2), 5),
    ):
        with pytest.raises(TypeError):
            use()
    assert_holds(seq, MODEL)


def test_the_last_is_taken_without_a_position():
    seq = whole()
    assert seq.pop().tolist() == MODEL[5].tolist()
    seq.erase()
    assert_holds(seq, MODEL[:4])
    seq.clear()
    assert seq.dtype == np.int64
    for take in (seq.pop, seq.erase):
        with pytest.raises(IndexError):
            take()
