"""What lets elements go runs foreign code, which may come back in: it finds the new state, and may edit."""

import contextlib
import pickle
import sys
import weakref

import numpy as np
import pytest

import seqcore as sq
from seqcore import TensorSequence

pytestmark = [
    pytest.mark.thread_unsafe,  # what finalizers raise goes through a hook of all threads
    pytest.mark.mostly_slow(7),
]


class Memory:
    """Memory of one integer that calls something when it is let go."""

    def __init__(self, value, at_end):
        self.array, self.at_end = np.array([value]), at_end
        self.__array_interface__ = self.array.__array_interface__

    def __del__(self):
        self.at_end(self.array[0])


@pytest.fixture(autouse=True)
def no_error_is_lost(monkeypatch):
    """What a finalizer raises is raised by the test."""
    errors = []
    monkeypatch.setattr(sys, "unraisablehook", lambda what: errors.append(what.exc_value))
    yield
    if errors:
        raise errors[0]


def numbers(seq):
    return [int(t[0]) for t in seq]


class Watched:
    """A sequence of finalizers: `seen` has for each its number and what it found, then did `edit`."""

    def __init__(self, n=4, edit=None):
        self.seq, self.seen, self.edit = TensorSequence(dtype="int64"), [], edit
        self.seq.extend([Memory(i, self.at_end) for i in range(n)])
        assert self.seen == []

    def at_end(self, value):
        seq = self.seq
        seq._check()
        found = numbers(seq)
        assert numbers(seq[:]) == numbers(seq.copy()) == found
        assert len(seq) == len(seq.shapes) == len(found)
        self.seen.append((int(value), found))
        if self.edit is not None:
            self.edit(seq)
            seq._check()


def plain(*values):
    return TensorSequence([[v] for v in values], dtype="int64")


# Each leads from 0 1 2 3 to what stands behind it; all that it takes out, it lets go.
WAYS = {
    "clear": (lambda seq: seq.clear(), []),
    "del [:]": (lambda seq: seq.__delitem__(slice(None)), []),
    "del [::-1]": (lambda seq: seq.__delitem__(slice(None, None, -1)), []),
    "del [0:4]": (lambda seq: seq.__delitem__(slice(0, 4)), []),
    "del [1:]": (lambda seq: seq.__delitem__(slice(1, None)), [0]),
    "del [::2]": (lambda seq: seq.__delitem__(slice(None, None, 2)), [1, 3]),
    "del all by mask": (lambda seq: seq.__delitem__([True] * 4), []),
    "del all by positions": (lambda seq: seq.__delitem__([3, 1, 0, 2]), []),
    "del some by mask": (lambda seq: seq.__delitem__([True, False, True, False]), [1, 3]),
    "[:] = nothing": (lambda seq: seq.__setitem__(slice(None), []), []),
    "[:] = fewer": (lambda seq: seq.__setitem__(slice(None), [[7]]), [7]),
    "[:] = more": (lambda seq: seq.__setitem__(slice(None), plain(*range(5, 10))), [5, 6, 7, 8, 9]),
    "[1:3] = as many": (lambda seq: seq.__setitem__(slice(1, 3), [[7], [8]]), [0, 7, 8, 3]),
    "[::2] = as many": (lambda seq: seq.__setitem__(slice(None, None, 2), [[7], [8]]), [7, 1, 8, 3]),
    "[::-1] = as many": (lambda seq: seq.__setitem__(slice(None, None, -1), plain(5, 6, 7, 8)), [8, 7, 6, 5]),
    "all by positions": (lambda seq: seq.__setitem__([2, 1, 0, 3], plain(5, 6, 7, 8)), [7, 6, 5, 8]),
    "all by mask": (lambda seq: seq.__setitem__([True] * 4, plain(5, 6, 7, 8)), [5, 6, 7, 8]),
    "one again and again": (lambda seq: seq.__setitem__([0, 0, 0], plain(5, 6, 7)), [7, 1, 2, 3]),
    "[1] =": (lambda seq: seq.__setitem__(1, [7]), [0, 7, 2, 3]),
    "erase": (lambda seq: seq.erase(2), [0, 1, 3]),
    "pop": (lambda seq: seq.pop(0), [1, 2, 3]),
    "remove": (lambda seq: seq.remove([1]), [0, 2, 3]),
    "compact": (lambda seq: seq.compact(), [0, 1, 2, 3]),
}

EDITS = {
    "looks": None,
    "appends": lambda seq: seq.append([-1]),
    "clears": lambda seq: seq.clear(),
    "takes the first": lambda seq: len(seq) and seq.erase(0),
    "puts in itself": lambda seq: len(seq) < 100 and seq.extend(seq),
    "deletes all": lambda seq: seq.__delitem__(slice(None)),
    "sets all": lambda seq: seq.__setitem__(slice(None), [[-2], [-3]]),
    "turns it round": lambda seq: seq.reverse(),
    "compacts": lambda seq: seq.compact(),
    "shares it": lambda seq: pickle.dumps(seq.copy() + seq[::2]),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize(("gap", "shared"), [(None, False), (0, False), (2, False), (None, True), (2, True)])
def test_finalizers_find_the_new_state(way, edit, shared, gap):
    watched = Watched(edit=EDITS[edit])
    seq, (act, expected) = watched.seq, WAYS[way]
    if gap is not None:
        seq.insert(gap, [9])
        seq.erase(gap)
    other = seq.copy() if shared else None
    act(seq)
    if other is None:
        # The first finalizer saw exactly what the operation makes, the others also what earlier ones did.
        assert watched.seen
        assert watched.seen[0][1] == expected
        if edit == "looks":
            assert all(found == expected for _, found in watched.seen)
            assert numbers(seq) == expected
    else:
        assert watched.seen == []
        assert numbers(seq) == expected
        assert numbers(other) == [0, 1, 2, 3]
        del other
        assert watched.seen[0][1] == expected
    seq._check()
    watched.edit = None
    seq.clear()
    assert sorted(value for value, _ in watched.seen) == [0, 1, 2, 3]


@pytest.mark.parametrize("edit", EDITS)
def test_popped_one_after_the_other_to_none(edit):
    watched = Watched(6, EDITS[edit])
    for _ in range(6):
        if len(watched.seq):
            watched.seq.pop()
    watched.edit = None
    watched.seq.clear()
    assert sorted(value for value, _ in watched.seen) == [*range(6)]
    if edit == "looks":
        assert watched.seen == [(i, [*range(i)]) for i in range(5, -1, -1)]


@pytest.mark.parametrize("way", ["clear", "del [:]", "[:] = nothing", "del all by mask"])
def test_two_sequences_that_share_go_one_by_one(way):
    """The last share lets elements go, in whichever sequence it is."""
    watched = Watched()
    seq, act = watched.seq, WAYS[way][0]
    other = seq.copy()
    third = seq[:]
    act(other)
    assert (len(other), watched.seen) == (0, [])
    act(seq)
    assert (len(seq), watched.seen) == (0, [])
    assert numbers(third) == [0, 1, 2, 3]
    act(third)
    assert sorted(value for value, _ in watched.seen) == [0, 1, 2, 3]


def test_a_sequence_that_goes_lets_its_elements_go():
    seen = []

    def at_end(value):
        seen.append((int(value), alive()))

    seq = TensorSequence([Memory(i, at_end) for i in range(3)])
    alive = weakref.ref(seq)
    del seq
    assert seen == [(0, None), (1, None), (2, None)]


@pytest.mark.parametrize("edit", EDITS)
def test_extending_by_itself_and_turning_round_let_nothing_go(edit):
    watched = Watched(edit=EDITS[edit])
    seq = watched.seq
    seq.extend(seq)
    seq += seq
    seq.reverse()
    seq[:] = seq
    seq[:] = seq[::-1]
    seq[[*range(16)]] = seq
    seq.extend(seq[:0])
    assert watched.seen == []
    assert numbers(seq) == [0, 1, 2, 3] * 4
    watched.edit = None
    seq.clear()
    assert sorted(value for value, _ in watched.seen) == [0, 1, 2, 3]


# -- foreign code before an edit -----------------------------------------------------------------------

MEANWHILE = {
    "clears": lambda seq: seq.clear(),
    "deletes all": lambda seq: seq.__delitem__(slice(None)),
    "sets all": lambda seq: seq.__setitem__(slice(None), plain(20, 21)),
    "appends": lambda seq: seq.append([20]),
    "compacts": lambda seq: seq.compact(),
    "turns it round": lambda seq: seq.reverse(),
}


class Index:
    """A position that edits a sequence when it is asked for."""

    def __init__(self, value, edit):
        self.value, self.edit = value, edit

    def __index__(self):
        self.edit()
        return self.value


class Tensor(Index):
    """As `Index`, a tensor."""

    def __array__(self, dtype=None, copy=None):
        self.edit()
        return np.array([self.value])


def items_of(value, edit):
    yield [value]
    edit()
    yield [value + 1]


@pytest.mark.parametrize("meanwhile", MEANWHILE)
@pytest.mark.parametrize(
    "act",
    [
        lambda seq, edit: seq.insert(Index(1, edit), [7]),
        lambda seq, edit: seq.insert(1, Tensor(7, edit)),
        lambda seq, edit: seq.append(Tensor(7, edit)),
        lambda seq, edit: seq.extend(items_of(7, edit)),
        lambda seq, edit: seq.pop(Index(1, edit)),
        lambda seq, edit: seq.erase(Index(-1, edit)),
        lambda seq, edit: seq.__delitem__(Index(0, edit)),
        lambda seq, edit: seq.__delitem__(slice(Index(0, edit), 2)),
        lambda seq, edit: seq.__delitem__(slice(None, Index(9, edit))),
        lambda seq, edit: seq.__delitem__([1, Index(0, edit)]),
        lambda seq, edit: seq.__setitem__(Index(0, edit), [7]),
        lambda seq, edit: seq.__setitem__(0, Tensor(7, edit)),
        lambda seq, edit: seq.__setitem__(slice(1, Index(2, edit)), [[7], [8], [9]]),
        lambda seq, edit: seq.__setitem__(slice(None), items_of(7, edit)),
        lambda seq, edit: seq.__setitem__([Index(0, edit), 1], [[7], [8]]),
        lambda seq, edit: seq.__setitem__([0, 1], items_of(7, edit)),
        lambda seq, edit: seq.__setitem__([True] * 4, items_of(7, edit)),
        lambda seq, edit: seq[Index(1, edit)],
        lambda seq, edit: seq[Index(0, edit) : Index(3, edit)],
        lambda seq, edit: seq[[0, Index(1, edit)]],
        lambda seq, edit: seq.index(Tensor(2, edit), Index(0, edit), Index(4, edit)),
        lambda seq, edit: seq.remove(Tensor(2, edit)),
        lambda seq, edit: seq.count(Tensor(2, edit)),
        lambda seq, edit: seq.to_padded(Tensor(0, edit), shape=Index(3, edit)),
        lambda seq, edit: sq.concat_from_sequence(seq, Index(0, edit)),
        lambda seq, edit: seq + [Tensor(1, edit)],
    ],
)
def test_arguments_that_edit_the_sequence(act, meanwhile):
    """It goes as if the edit had been before, or the call is an exception; no element is lost or torn."""
    watched = Watched()
    seq = watched.seq
    with contextlib.suppress(IndexError, ValueError, TypeError):
        act(seq, lambda: MEANWHILE[meanwhile](seq))
    seq._check()
    found = numbers(seq)
    kept = set(found) & {0, 1, 2, 3}
    gone = [value for value, _ in watched.seen]
    if meanwhile != "compacts":
        assert sorted(gone) == sorted({0, 1, 2, 3} - kept)
    seq.clear()
    assert sorted(value for value, _ in watched.seen) == [0, 1, 2, 3]


def test_arguments_are_read_before_the_sequence_is():
    seq = plain(0, 1, 2, 3)
    assert sq.concat_from_sequence(seq, Index(0, lambda: seq.append([4]))).tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(ValueError, match="empty"):
        sq.concat_from_sequence(seq, Index(0, seq.clear))


class Writer:
    """A file that edits a sequence whenever something is written to it."""

    def __init__(self, edit):
        self.parts, self.edit = [], edit

    def write(self, data):
        self.parts.append(bytes(data))
        self.edit()


@pytest.mark.parametrize("meanwhile", MEANWHILE)
@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_pickling_into_what_edits_the_sequence(meanwhile, protocol):
    seq = plain(0, 1) + [np.full(100_000, 2)] + plain(3)  # large enough to be written in parts
    file = Writer(lambda: MEANWHILE[meanwhile](seq))
    pickle.dump([seq, 1], file, protocol)
    back, _ = pickle.loads(b"".join(file.parts))
    assert len(file.parts) > 1
    assert numbers(back) == [0, 1, 2, 3]
    assert numbers(seq) != [0, 1, 2, 3] or meanwhile in ("compacts", "turns it round")
    seq = plain(0, 1, 2, 3)
    buffers = []
    data = pickle.dumps(
        seq, protocol=5, buffer_callback=lambda one: (buffers.append(one), MEANWHILE[meanwhile](seq))[0]
    )
    assert numbers(pickle.loads(data, buffers=buffers)) == [0, 1, 2, 3]
