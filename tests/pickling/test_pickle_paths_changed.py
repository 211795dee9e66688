"""Pickles by path where a file has changed since, where a pickle is damaged, and beside threads."""

import copy
import os
import pickle
import threading

import numpy as np
import pytest
from support import damaged_files
from support.processes import PLAIN_MALLOC, lines_of
from support.races import together
from support.saved import pa, ragged, saved, touched, unchanged
from support.strategies import assert_holds
from test_pickle_paths import round_trips

import seqcore as sq
from seqcore import TensorSequence

# --- files that are not what they were ---


def test_a_file_that_was_replaced_lives_on_here(path):
    sq.save(path, ragged([3, 4]))
    touched(path, 1_000_000_000)
    seq = sq.load(path)
    again = saved(path, seq[::-1])
    assert_holds(seq, list(ragged([3, 4])))
    with pytest.raises(ValueError, match="has changed"):
        pickle.loads(pickle.dumps(seq))
    assert_holds(pickle.loads(pickle.dumps(again)), list(ragged([3, 4]))[::-1])
    with pytest.raises(ValueError, match="has changed"):
        pickle.loads(pickle.dumps(seq + again))
    assert_holds(copy.deepcopy(seq), list(ragged([3, 4])))


def test_unpickling_changes_nothing(path):
    seq = saved(path, ragged([3, 4]))
    with unchanged(path.parent):
        before = path.stat().st_mtime_ns
        round_trips(seq)
        assert path.stat().st_mtime_ns == before


# --- threads ---


def test_pickles_beside_edits_are_of_one_moment(path):
    seq = saved(path, ragged([1, 2, 3, 4]))
    first, second = seq[:], seq[::-1] + seq
    stop = threading.Event()

    def edit():
        try:
            for i in range(600):
                seq[:] = second if i % 2 else first
        finally:
            stop.set()

    def dump():
        while not stop.is_set():
            back = pickle.loads(pickle.dumps(seq))
            back._check()
            assert back in (first, second)

    together(edit, dump, dump)


@pytest.mark.thread_unsafe
def test_a_file_that_is_replaced_behind_a_check(path, monkeypatch):
    """Between the look at its time and the opening of it."""
    sq.save(path, ragged([3]))
    sq.save(path.with_name("other"), ragged([30], start=9))
    data, stat = pickle.dumps(sq.load(path)), os.stat

    def stat_and_replace(*args, **kwargs):
        found = stat(*args, **kwargs)
        if args and args[0] == str(path):
            monkeypatch.undo()
            os.replace(path.with_name("other"), path)
        return found

    monkeypatch.setattr(os, "stat", stat_and_replace)
    try:
        back = pickle.loads(data)
    except ValueError as error:
        assert "has changed" in str(error)  # noqa: PT017
    else:
        assert_holds(back, list(ragged([3])))


@pytest.mark.slow
@pytest.mark.usefixtures("frequent_switches")
@pytest.mark.thread_unsafe
def test_a_file_that_is_replaced_while_it_is_loaded(path):
    """Another process may do it at any moment: a pickle brings back what was loaded, or an error."""
    sq.save(path, ragged([3]))
    stop = threading.Event()

    def replace():
        i = 0
        while not stop.is_set():
            i += 1
            sq.save(path, ragged([3 + i % 50], start=i))

    def load():
        try:
            for _ in range(400):
                seq = sq.load(path)
                expected = np.array(seq[0])
                try:
                    back = pickle.loads(pickle.dumps(seq))
                except ValueError as error:
                    assert "has changed" in str(error)  # noqa: PT017
                else:
                    assert np.array_equal(back[0], expected)
        finally:
            stop.set()

    together(replace, replace, load)


# --- pickles and files that lie ---


def forge(path, column, like):
    """A file of this column that has another's size and time, with what metadata and batches it takes."""
    time, nbytes = like.stat().st_mtime_ns, like.stat().st_size
    # Metadata stand in a file twice, and all in steps of 8 bytes: some sizes take further batches.
    for more in (column[:0], column, column[:1]):
        for batches in range(5):
            room, short = 0, 1
            while short > 0:
                write_parts(path, [column] + [more] * batches, room)
                short = nbytes - path.stat().st_size
                room += max(short // 2 - 64, 1)
            if short == 0:
                touched(path, time)
                return True
    return False


def write_parts(path, columns, room):
    schema = pa.schema([("tensors", columns[0].type)], {"room": "x" * room})
    with pa.ipc.new_file(str(path), schema) as to:
        for column in columns:
            to.write_batch(pa.record_batch([column], schema=schema))


FORGED = {
    "fewer": pa.array([[1], [2]], pa.list_(pa.int32())),
    "none": pa.array([], pa.list_(pa.int32())),
    "another type": pa.array([[1.0], [2.0, 3.0]]),
    "no tensors": pa.array([0, 1], pa.date32()),
    "other shapes": pa.array([[[1]], [[2]]], pa.list_(pa.list_(pa.int32(), 1))),
}


@pytest.mark.slow
@pytest.mark.parametrize("column", FORGED.values(), ids=FORGED)
def test_positions_that_the_file_has_not(path, column):
    """Somebody gives another file the size and the time of the one that was pickled.

    Its bytes are then taken for elements: never others, and damaged ones are errors that name the file.
    """
    sq.save(path, ragged([2] * 200))
    touched(path, 1_000_000_000)
    seq = sq.load(path)
    pickles = [pickle.dumps(one) for one in (seq, seq[::-1], seq[[199, 7, 150]], seq + seq[100:])]
    assert forge(path.with_name("forged"), column, path)
    os.replace(path.with_name("forged"), path)
    for data in pickles:
        back = pickle.loads(data)
        for i in range(len(back)):
            try:
                assert back[i].nbytes <= path.stat().st_size
            except ValueError as error:
                assert str(path) in str(error)  # noqa: PT017


def at_another_place(parts, **others):
    """The first part with other values, by the names of what it says of a file."""
    (kind, (stamp, *rest), *numbers), *more = parts
    given = dict(zip(PLACE, [*stamp, *rest], strict=True)) | others
    *stamp, offset, dtype, shape, strides = given.values()
    return [(kind, (tuple(stamp), offset, dtype, shape, strides), *numbers), *more]


def unaligned(place):
    stamp, offset, *rest = place
    return (stamp, offset + 1, *rest)


PLACE = "path", "nbytes", "time", "offset", "dtype", "shape", "strides"
LYING = {
    "a number from the back": lambda parts, order: (parts, (None, np.array([-1]))),
    "a number beyond 63 bits": lambda parts, order: (parts, (None, np.array([2**64 - 1], np.uint64))),
    "a number that the file doesn't have": lambda parts, order: (parts, (None, np.array([0, 3]))),
    "numbers that are none": lambda parts, order: (parts, (None, np.array([0.5]))),
    "numbers in a list": lambda parts, order: (parts, (np.array([0]), [0])),
    "another part": lambda parts, order: (parts, (np.array([0, 1]), np.array([0, 0]))),
    "parts of too few elements": lambda parts, order: (parts, (np.array([0]), np.array([0, 0]))),
    "a run from the back": lambda parts, order: (parts, ((0, -1, 1, 1),)),
    "a run that goes on": lambda parts, order: (parts, ((0, 1, 1, 3),)),
    "a run that goes on to the front": lambda parts, order: (parts, ((0, 1, -1, 3),)),
    "a run that stays": lambda parts, order: (parts, ((0, 0, 0, 2),)),
    "a run of another part": lambda parts, order: (parts, ((1, 0, 1, 1),)),
    "a run of no elements": lambda parts, order: (parts, ((0, 0, 1, 0),)),
    "runs of three numbers": lambda parts, order: (parts, np.array([[0, 0, 1]])),
    "no order": lambda parts, order: (parts, None),
    "a descriptor": lambda parts, order: (at_another_place(parts, path=0), order),
    "a size in words": lambda parts, order: (at_another_place(parts, nbytes="1"), order),
    "a time in seconds": lambda parts, order: (at_another_place(parts, time=1.5), order),
    "another size": lambda parts, order: (at_another_place(parts, nbytes=parts[0][1][0][1] - 1), order),
    "a place in front": lambda parts, order: (at_another_place(parts, offset=-8), order),
    "a place behind": lambda parts, order: (at_another_place(parts, offset=2**40), order),
    "a place by a word": lambda parts, order: (at_another_place(parts, offset="0"), order),
    "strings in a file": lambda parts, order: (at_another_place(parts, dtype="string"), order),
    "no dtype": lambda parts, order: (at_another_place(parts, dtype=None), order),
    "a shape beyond the file": lambda parts, order: (at_another_place(parts, shape=(2**20,)), order),
    "a shape beyond 64 bits": lambda parts, order: (at_another_place(parts, shape=(2**62, 2**62)), order),
    "a shape below 0": lambda parts, order: (at_another_place(parts, shape=(-1,)), order),
    "a shape that is none": lambda parts, order: (at_another_place(parts, shape=6), order),
    "strides to the front": lambda parts, order: (at_another_place(parts, strides=(-4096,)), order),
    "strides beyond 64 bits": lambda parts, order: (at_another_place(parts, strides=(2**62,)), order),
    "strides of another rank": lambda parts, order: (at_another_place(parts, strides=(4, 4)), order),
    "offsets that are none": lambda parts, order: ([(*parts[0][:2], None, 0)], order),
    "unaligned offsets": lambda parts, order: ([(*parts[0][:2], unaligned(parts[0][2]), 0)], order),
    "a beginning below 0": lambda parts, order: ([(*parts[0][:3], -1)], order),
    "a beginning beyond 64 bits": lambda parts, order: ([(*parts[0][:3], 2**63 - 1)], order),
    "too few values": lambda parts, order: ([parts[0][:-2]], order),
    "too many values": lambda parts, order: ([(*parts[0], None)], order),
    "a list": lambda parts, order: ([[*parts[0]]], order),
    "no parts": lambda parts, order: ([], order),
    "a tuple of parts": lambda parts, order: (tuple(parts), order),
}  # fmt: skip


@pytest.mark.parametrize("lie", LYING.values(), ids=LYING)
def test_pickles_that_lie_are_refused(path, lie):
    sq.save(path, ragged([1, 2, 3]))
    for seq in (sq.load(path)[::-1], sq.load(path)[[2, 0]]):
        make, (cls, dtype, *stored), _ = seq.__reduce__()
        assert np.array_equal(make(cls, dtype, *stored)[0], sq.load(path)[2])
        with pytest.raises(
            (TypeError, ValueError, IndexError),
            match=r"pickle is damaged|pickled sequence|elements|has changed|dtype",
        ):
            make(cls, dtype, *lie(*stored))
        # Nothing of the lie is kept for others.
        assert np.array_equal(make(cls, dtype, *stored)[0], sq.load(path)[2])


class OfAnotherType(TensorSequence):
    """A sequence that says it were of float64."""

    dtype = property(lambda seq: np.dtype(np.float64))

    def __getitem__(self, key):
        return self


@pytest.mark.parametrize("kind", [TensorSequence, OfAnotherType])
def test_a_type_is_not_believed(path, kind):
    sq.save(path, ragged([1, 2, 3]))
    make, (_, _, *stored), _ = sq.load(path).__reduce__()
    with pytest.raises(ValueError, match="has elements of dtype int32, but the pickled sequence has"):
        make(kind, "float64", *stored)
    assert len(make(kind, "int32", *stored)) == 3


@pytest.mark.slow
@pytest.mark.thread_unsafe
@pytest.mark.parametrize(
    ("kind", "cases"),
    [
        ("pickles", "::5"),
        pytest.param("pickles", "::1", marks=pytest.mark.at_night),
        ("pickles of memory", "::1"),
    ],
)
def test_damaged_pickles_are_exceptions_or_sound_sequences(tmp_path, kind, cases):
    """In a process of its own: what this looks for are crashes."""
    lines = lines_of(damaged_files, tmp_path, cases, kind, **PLAIN_MALLOC)
    refused, survived = map(int, lines[-2].split())
    assert refused > (500 if kind == "pickles of memory" else 200)
    assert survived > 0
