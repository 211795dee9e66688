"""Scripts of edits on sequences, each beside a list of arrays; every step is compared."""

import contextlib
import copy
import itertools
import operator
import pickle
import tempfile
import warnings
from unittest.mock import patch

import numpy as np
from hardening.fuzz.pairs import LONGEST, STEPS, Meddler, Named, Pairs, step
from hardening.fuzz.tape import bits, raised
from seqcore.core.maps import chained
from support.runs import KINDS, Numbers, pa, read_in_each_way
from support.strategies import NAMES, laid_out

from seqcore import (
    TensorSequence,
    concat_from_sequence,
    load,
    save,
    sequence_at,
    sequence_erase,
    sequence_insert,
    sequence_length,
    split_to_sequence,
)
from seqcore.core.fields import FORMATS

MOST_ITERATORS = 4
RUNS_OF = "int32"  # the type of what is in `support/runs.py`
VIEWS = [
    *(lambda a: a, lambda a: a.T, lambda a: a[..., None], lambda a: a[None][:0]),
    *(lambda a: a.reshape(-1)[1:], lambda a: a.reshape(-1)[::-1], lambda a: a.reshape(-1)[:-1]),
]
NUMBERS = [0, 1, 2, 3, -1, 1 << 62, (1 << 63) - 1, -(1 << 63)]


class Script(Pairs):
    """The steps of a script, which may write files into a folder."""

    def __init__(self, data, folder):
        super().__init__(data)
        self.folder, self.numbers = folder, Numbers()

    # --- edits ---

    @step
    def append(self):
        seq, model = self.pair()
        array, shown = self.tensor()
        if len(model) < LONGEST:
            seq.append(array)
            model.append(shown)

    @step
    def insert(self):
        seq, model = self.pair()
        array, shown = self.tensor()
        if len(model) >= LONGEST:
            return
        number = self.position(model, beyond=1)
        # The model is looked at afterwards: a step may come in between.
        position = self.given(number)
        tensor = Meddler(self, array) if self.tape.chance(5) else array
        failed = raised(IndexError, seq.insert, position, tensor)
        assert failed != inside(model, number, inserting=True)
        if not failed:
            model.insert(number, shown)

    @step
    def set_element(self):
        seq, model = self.pair()
        array, shown = self.tensor()
        number = self.position(model)
        position = self.given(number)
        tensor = Meddler(self, array) if self.tape.chance(5) else array
        value = [tensor] if np.ndim(position) else tensor
        failed = raised(IndexError, operator.setitem, seq, position, value)
        assert failed == raised(IndexError, operator.setitem, model, number, shown)

    @step
    def take(self):
        seq, model = self.pair()
        number = self.position(model)
        position = self.given(number)
        way = self.tape.below(4)
        taken = []
        edit = [seq.erase, seq.__delitem__, lambda at: taken.append(seq.pop(at))][min(way, 2)]
        failed = raised(IndexError, edit, position)
        assert failed != inside(model, number)
        if not failed:
            expected = model.pop(number)
            assert not taken or bits(taken[0]) == bits(expected)

    @step
    def extend(self):
        seq, model = self.pair()
        news, shown = self.several()
        if len(model) + len(shown) > LONGEST:
            return
        way = self.tape.below(3)
        if way == 0:
            seq.extend(news)
        elif way == 1:
            seq += news
        else:
            seq[LONGEST * 4 :] = news  # as any slice beyond the end
        model.extend(shown)

    @step
    def extend_with_itself(self):
        seq, model = self.pair()
        if len(model) <= LONGEST // 2:
            if self.tape.chance(2):
                seq.extend(seq)
            else:
                seq.extend(one for one in seq[:])
            model.extend(list(model))

    @step
    def set_slice(self):
        seq, model = self.pair()
        where = self.slice(model)
        news, shown = self.several()
        if len(model) + len(shown) <= LONGEST:
            failed = raised(ValueError, operator.setitem, seq, where, news)
            assert failed == raised(ValueError, operator.setitem, model, where, shown)

    @step
    def delete_slice(self):
        seq, model = self.pair()
        where = self.slice(model)
        failed = raised(ValueError, operator.delitem, seq, where)
        assert failed == raised(ValueError, operator.delitem, model, where)

    @step
    def remove(self):
        seq, model = self.pair()
        array, shown = self.wanted(model)
        place = next((i for i, one in enumerate(model) if equal(one, shown)), None)
        assert raised(ValueError, seq.remove, array) == (place is None)
        if place is not None:
            del model[place]

    @step
    def append_of_its_own(self):
        """An element again, a view of it, or its rows."""
        seq, model = self.pair()
        if not 0 < len(model) < LONGEST - 10:
            return
        at, keepdims = self.tape.below(len(model)), self.tape.below(2)
        if model[at].ndim and len(model[at]) < 10 and self.tape.chance(3):
            seq += split_to_sequence(seq[at], keepdims=keepdims)
            views = [model[at][i : i + 1] if keepdims else model[at][i, ...] for i in range(len(model[at]))]
        else:
            view = self.tape.pick(VIEWS)
            seq.append(view(seq[at]))
            views = [view(model[at])]
        model += [one.copy() for one in views] if self.name == "string" else views

    @step
    def clear(self):
        seq, model = self.pair()
        if self.tape.chance(3):
            seq.clear()
            model.clear()

    @step
    def reverse(self):
        seq, model = self.pair()
        seq.reverse()
        model.reverse()

    @step
    def compact(self):
        seq, model = self.pair()
        seq.compact()
        assert seq.pinned_nbytes == seq.nbytes
        model[:] = [one.copy() for one in model]

    @step
    def write(self):
        """Writing to a source shows wherever memory is shared, and only there."""
        if self.sources:
            self.tape.pick(self.sources)[...] = self.tape.below(2)

    @step
    def reshape_source(self):
        """The array object of a source changes; the sequence's own shape stays."""
        if self.sources and not self.depth:  # else it may be the one that is being put in
            array = self.tape.pick(self.sources)
            if array.flags.c_contiguous:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", DeprecationWarning)
                    array.shape = (array.size,)

    @step
    def fail(self):
        """Failed edits change nothing."""
        seq, _ = self.pair()
        wrong = self.tape.pick([None, b"bytes", [1, None], np.zeros(2, "M8[s]"), seq, {}, [[1], [1, 2]]])
        kinds = (TypeError, ValueError)
        assert raised(kinds, seq.append, wrong)
        assert raised(TypeError, seq.extend, TensorSequence(dtype="int8" if self.name != "int8" else "int16"))
        assert raised(kinds, seq.insert, 0, wrong)
        assert raised(kinds, seq.extend, [*seq[:1], wrong])
        assert raised(kinds, operator.setitem, seq, self.slice(seq), [*seq[:2], wrong])
        assert raised(TypeError, seq.pop, self.tape.pick([None, 1.5, "1", np.array([1, 2]), np.uint8([1])]))

    # --- more sequences ---

    @step
    def slice_out(self):
        seq, model = self.pair()
        where = self.slice(model)
        if where.step == 0:
            assert raised(ValueError, operator.getitem, seq, where)
        else:
            self.add(seq[where], model[where])

    @step
    def shallow_copy(self):
        seq, model = self.pair()
        how = self.tape.pick([TensorSequence.copy, copy.copy, lambda seq: seq + [], lambda seq: [] + seq])
        self.add(how(seq), list(model))

    @step
    def deep_copy(self):
        seq, model = self.pair()
        copied = TensorSequence(seq, dtype=self.name, copy=True)
        other = copy.deepcopy(seq) if self.tape.chance(2) else copied
        assert other.pinned_nbytes == other.nbytes
        self.add(other, [one.copy() for one in model])

    @step
    def pickled(self):
        seq, model = self.pair()
        protocol = self.tape.between(0, 6)
        buffers = []
        if protocol < 6:
            other = pickle.loads(pickle.dumps(seq, protocol))
        else:
            data = pickle.dumps(seq, 5, buffer_callback=buffers.append)
            other = pickle.loads(data, buffers=[bytes(one.raw()) for one in buffers])
        assert type(other) is type(seq)
        assert vars(other) == vars(seq) if type(seq) is Named else True
        self.add(other, [one.copy() for one in model])

    @step
    def damaged_pickle(self):
        """What pickle keeps, changed: an error, or elements that are within their memory."""
        seq, _ = self.pair()
        restore, (kind, name, parts, order), _ = seq.__reduce_ex__(5)
        for i, part in enumerate(parts):
            if self.tape.chance(4):
                at = self.tape.below(len(part))
                if isinstance(part[at], int):
                    part = (*part[:at], self.tape.between(-2, 2), *part[at + 1 :])
                elif isinstance(part[at], np.ndarray):
                    numbers = part[at].copy()
                    if numbers.size:
                        wrong = np.int64(self.tape.pick(NUMBERS)).astype(numbers.dtype)
                        numbers.flat[self.tape.below(numbers.size)] = wrong
                    part = (*part[:at], numbers, *part[at + 1 :])
                parts[i] = part
        if isinstance(order, tuple) and order and isinstance(order[0], tuple) and self.tape.chance(2):
            runs = [list(run) for run in order]
            runs[self.tape.below(len(runs))][self.tape.below(4)] = self.tape.pick(NUMBERS)
            order = np.array(runs) if self.tape.chance(2) else tuple(map(tuple, runs))
        elif self.tape.chance(2) and is_numbers(order):
            numbers = order[1].astype(np.int64)
            numbers[self.tape.below(len(numbers))] = self.tape.pick(NUMBERS)
            order = order[0], numbers
        made = []
        failed = raised((ValueError, IndexError), lambda: made.append(restore(kind, name, parts, order)))
        if not failed:
            made[0]._check()
            with contextlib.suppress(ValueError):  # numbers of files are checked where they are used
                assert [one.shape for one in made[0]] == made[0].shapes

    @step
    def ragged(self):
        """A table of each kind: from offsets, from a padded batch, and from Arrow's lists and views."""
        way = self.tape.below(4)
        array = self.tape.array(self.name, self.tape.shape(least=1, longest=5))
        shown = array.copy() if self.name == "string" else array.view()
        n = array.shape[0]
        offsets = [0, *sorted(self.tape.between(0, n) for _ in range(self.tape.below(5))), n]
        lengths = np.diff(offsets)
        model = [shown[a:b] for a, b in itertools.pairwise(offsets)]
        if array.flags.writeable and self.name != "string":
            self.sources.append(array)
        if way == 0:
            seq = TensorSequence.from_offsets(array, offsets)
        elif way == 1:
            seq = TensorSequence.from_lengths(array, lengths)
        elif way == 2:
            side = self.tape.pick(["left", "right"])
            batch = TensorSequence.from_lengths(array, lengths).to_padded(side=side)
            seq = TensorSequence.from_padded(batch, lengths, side=side)
            model = [one.copy() for one in model]
        else:
            order = [self.tape.below(len(lengths)) for _ in range(self.tape.below(5))]
            seq = TensorSequence.from_lengths(array, lengths)[order]
            model = [model[i] for i in order]
        self.add(seq, model)

    @step
    def table(self):
        """A table of any kind. Its numbers are new, so that an element in a wrong place is seen."""
        if self.name == RUNS_OF:
            make = self.tape.pick([*KINDS.values()])
            self.add(*make(self.numbers, [self.tape.below(5) for _ in range(self.tape.between(1, 20))]))

    @step
    def read(self):
        seq, model = self.pair()
        if self.name == RUNS_OF:
            read_in_each_way(seq, model)

    @step
    def chain(self):
        (seq, model), (seq2, model2) = self.pair(), self.pair()
        if 2 * len(model) + len(model2) <= LONGEST:
            self.add(chained([seq, seq2[::-1], seq]), model + model2[::-1] + model)

    @step
    def edit_many(self):
        """One after the other, more of them than runs stand."""
        seq, model = self.pair()
        at, way = self.tape.byte(), self.tape.below(3)
        for i in range(self.tape.below(70)):
            place = (at + 7 * i) % (len(model) + 1)
            where = slice(place, place + (way > 0))  # an element, nothing to insert there
            array, shown = self.tensor()
            if way == 2 or len(model) < LONGEST:
                seq[where], model[where] = ([], []) if way == 2 else ([array], [shown])

    @step
    def through_files(self):
        """Parts of a sequence come from one file or two, and again from a pickle."""
        seq, model = self.pair()
        if pa is None or seq.dtype not in FORMATS or len({one.ndim for one in model}) != 1:
            return
        number, at = self.numbers.array(1).item(), self.tape.below(len(model) + 1)
        paths = [f"{self.folder}/{number}-{k}.arrow" for k in range(2)]
        save(paths[0], (seq[:at][i : i + 3] for i in range(0, at, 3)) if at else seq[:0])
        save(paths[1], seq[at:])
        loaded = load(paths)
        again = pickle.loads(pickle.dumps(loaded))
        again._check()
        assert [bits(one) for one in again] == [bits(one) for one in model]
        assert len(pickle.dumps(loaded)) < 2_000 + 40 * len(model)
        self.add(loaded, [one.copy() for one in model])

    def selection(self, model):
        """Positions, and the indices or the mask that select them, in one of the forms that they have."""
        n = len(model)
        if self.tape.chance(2):
            flags = [bool(self.tape.below(2)) for _ in range(n)]
            form = self.tape.pick([list, "bool"])
            return [i for i, chosen in enumerate(flags) if chosen], self.in_form(flags, form)
        indices = [self.tape.between(-n, n - 1) for _ in range(self.tape.below(8))] if n else []
        form = self.tape.pick(
            [list, "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", ">i4"]
        )
        if "u" in str(form):
            indices = [i % n for i in indices]
        return [i % n for i in indices], self.in_form(indices, form)

    def in_form(self, values, form):
        if form is list:
            return values
        return laid_out(np.array(values, form), self.tape.pick(["plain", "strided", "reversed", "unaligned"]))

    @step
    def select(self):
        """Slots, whatever there was."""
        seq, model = self.pair()
        positions, key = self.selection(model)
        if self.tape.chance(3) and len(key) and type(key[0]) not in (bool, np.bool_):
            self.add(seq.__getitems__(key), [model[i] for i in positions])
        else:
            self.add(seq[key], [model[i] for i in positions])

    @step
    def delete_selected(self):
        seq, model = self.pair()
        positions, key = self.selection(model)
        del seq[key]
        model[:] = [one for i, one in enumerate(model) if i not in positions]

    @step
    def set_selected(self):
        """To arrays, or to elements of a sequence, this one too."""
        seq, model = self.pair()
        positions, key = self.selection(model)
        source, shown = self.pair()
        if shown and self.tape.chance(2):
            chosen = [self.tape.below(len(shown)) for _ in positions]
            news, expected = source[chosen], [shown[i] for i in chosen]
        else:
            pairs = [self.tensor() for _ in positions]
            expected = [one for _, one in pairs]
            news = self.tape.pick([list, tuple, iter])([array for array, _ in pairs])
        seq[key] = news
        for i, one in zip(positions, expected, strict=True):
            model[i] = one

    @step
    def select_wrongly(self):
        """Indices outside, masks of other lengths, and another number of tensors, change nothing."""
        seq, model = self.pair()
        positions, key = self.selection(model)
        n = len(model)
        outside = [*positions, self.tape.pick([n, -n - 1, 10**6])]
        assert raised(IndexError, operator.getitem, seq, outside)
        assert raised(IndexError, operator.delitem, seq, outside)
        tensors = [self.tape.array(self.name) for _ in positions]
        more = [*tensors, self.tape.array(self.name)]
        assert raised(IndexError, operator.setitem, seq, outside, more)
        mask = self.in_form(
            [True] * self.tape.pick([n + 1, n + 2, n - 1 if n > 1 else 1 + n]), self.tape.pick([list, "bool"])
        )
        tensors_of_mask = [self.tape.array(self.name)] * len(mask)
        assert raised(IndexError, operator.getitem, seq, mask)
        assert raised(IndexError, operator.delitem, seq, mask)
        assert raised(IndexError, operator.setitem, seq, mask, tensors_of_mask)
        assert raised(ValueError, operator.setitem, seq, key, more)
        if tensors:
            assert raised(ValueError, operator.setitem, seq, key, tensors[1:])

    @step
    def move(self):
        """An element of one sequence into another, or the same one."""
        (seq, model), (seq2, model2) = self.pair(), self.pair()
        if model and len(model2) < LONGEST:
            at, to = self.tape.below(len(model)), self.tape.below(len(model2) + 1)
            seq2.insert(to, seq[at])
            model2.insert(to, model[at])

    @step
    def split_long(self):
        """So many elements that edits splice runs for a while."""
        if self.name == "string":
            return
        array = np.zeros(100, self.pairs[0][0].dtype)
        array[self.tape.below(100)] = 1
        self.sources.append(array)
        self.add(split_to_sequence(array), list(array.reshape(100, 1)))

    @step
    def concatenate(self):
        (seq, model), (seq2, model2) = self.pair(), self.pair()
        if len(model) + len(model2) <= LONGEST:
            other = seq + self.tape.pick([seq2, list(seq2), tuple(seq2)])
            self.add(other, model + model2)

    @step
    def split(self):
        array = self.tape.array(self.name, self.tape.shape(least=1, longest=5))
        shown = array.copy() if self.name == "string" else array.view()
        axis = self.tape.below(array.ndim)
        n = array.shape[axis]
        keepdims = self.tape.below(2)
        if array.flags.writeable and self.name != "string":
            self.sources.append(array)
        way = self.tape.below(3)
        if way == 0:
            cut, lengths = None, [1] * n
        elif way == 1:
            cut = self.tape.between(1, 3)
            lengths = [min(cut, n - at) for at in range(0, n, cut)]
        else:
            ends = sorted(self.tape.between(0, n) for _ in range(self.tape.below(4)))
            cut = lengths = [b - a for a, b in itertools.pairwise([0, *ends, n])]
        starts = itertools.accumulate(lengths, initial=0)
        moved = np.moveaxis(shown, axis, 0)
        pieces = [moved[at : at + length] for at, length in zip(starts, lengths, strict=False)]
        if cut is None and not keepdims:
            pieces = [moved[i, ...] for i in range(n)]
        else:
            pieces = [np.moveaxis(piece, 0, axis) for piece in pieces]
        self.add(split_to_sequence(array, cut, axis, keepdims), pieces)

    @step
    def by_operator(self):
        seq, model = self.pair()
        number = self.position(model)
        position = self.given(number)
        assert sequence_length(seq) == len(seq)
        other, shown = [], list(model)  # of before the call, whatever a step in between does
        if self.tape.chance(2):
            failed = raised(IndexError, lambda: other.append(sequence_erase(seq, position)))
            assert failed != inside(shown, number)
            shown.pop(-1 if failed else number) if shown else None
        else:
            array, one = self.tensor()
            failed = raised(IndexError, lambda: other.append(sequence_insert(seq, array, position)))
            assert failed != inside(shown, number, inserting=True)
            shown.insert(0 if failed else number, one)
        if not failed and len(shown) <= LONGEST:
            self.add(other[0], shown)

    @step
    def drop(self):
        if len(self.pairs) > 1:
            del self.pairs[self.tape.below(len(self.pairs))]

    # --- looking ---

    @step
    def look(self):
        seq, model = self.pair()
        number = self.position(model)
        position = self.given(number)
        way = self.tape.below(2)
        if way == 1 and type(seq) is not TensorSequence:
            model = [*model]  # an operator takes a copy of a subclass, before the position is read
        got = []
        failed = raised(IndexError, lambda: got.append([operator.getitem, sequence_at][way](seq, position)))
        if failed:
            assert raised(IndexError, operator.getitem, model, number)
        else:
            # Inside the brackets an array with an axis is a selection.
            (one,) = got[0] if way == 0 and isinstance(position, np.ndarray) else got
            assert bits(one) == bits(model[number])
            assert one.flags.writeable == (way == 1)
            assert way or raised(ValueError, operator.setitem, one, ..., 0)

    @step
    def find(self):
        seq, model = self.pair()
        array, shown = self.wanted(model)
        places = [i for i, one in enumerate(model) if equal(one, shown)]
        assert seq.count(array) == len(places)
        assert (array in seq) == bool(places)
        start, stop = self.position(model), self.position(model)
        within = [i for i in range(len(model))[start:stop] if i in places]
        if within:
            assert seq.index(array, start, stop) == within[0]
        else:
            assert raised(ValueError, seq.index, array, start, stop)

    @step
    def compare_two(self):
        (seq, model), (seq2, model2) = self.pair(), self.pair()
        same = len(model) == len(model2) and all(map(equal, model, model2))
        assert (seq == seq2) is same
        assert (seq != seq2) is not same
        assert seq != TensorSequence(dtype="int8" if self.name != "int8" else "int16")
        assert seq.__eq__(list(seq)) is NotImplemented

    @step
    def sizes(self):
        seq, model = self.pair()
        assert seq.shapes == [one.shape for one in model]
        assert seq.nbytes == sum(one.nbytes for one in model)
        assert seq.pinned_nbytes >= 0
        assert str(len(model)) in repr(seq)
        assert seq._repr_html_()

    @step
    def join(self):
        seq, model = self.pair()
        axis = self.tape.between(-3, 3)
        new_axis = self.tape.below(2)
        got = []
        failed = raised(ValueError, lambda: got.append(concat_from_sequence(seq, axis, new_axis)))
        try:
            expected = (np.stack if new_axis else np.concatenate)(model, axis)
        except ValueError:
            assert failed
        else:
            assert not failed
            assert bits(got[0]) == bits(expected)

    @step
    def measure(self):
        seq, model = self.pair()
        if all(one.ndim for one in model):
            assert seq.lengths().tolist() == [len(one) for one in model]
            assert seq.offsets().tolist() == [0, *itertools.accumulate(map(len, model))]
            if len({one.shape[1:] for one in model}) == 1:
                assert bits(seq.values()) == bits(np.concatenate(model))

    @step
    def begin_iterator(self):
        seq, model = self.pair()
        way = self.tape.pick([iter, reversed])
        self.iterators = [*self.iterators, (way(seq), way(model))][-MOST_ITERATORS:]

    @step
    def go_on(self):
        """Iterators live on whatever is done to their sequence."""
        if self.iterators:
            theirs, ours = self.tape.pick(self.iterators)
            assert operator.length_hint(theirs) == operator.length_hint(ours)
            for _ in range(self.tape.between(1, 3)):
                got, expected = next(theirs, None), next(ours, None)
                assert (got is None) == (expected is None)
                assert got is None or bits(got) == bits(expected)


def is_numbers(order):
    """Whether a pickle has numbers of elements, rather than runs."""
    return isinstance(order, tuple) and len(order) == 2 and isinstance(order[1], np.ndarray) and order[1].size


def inside(model, number, inserting=False):
    return -len(model) <= number < len(model) + inserting


def equal(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and bool(np.all(a == b))


def run(data):
    # No file has to outlive the script.
    with patch("os.fsync"), tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        Script(data, folder).run()


def seeds():
    """A script of each step after some appends, and of all of them in a row."""
    begin = bytes([10, 0])
    fill = b"".join(bytes([0, 0, i, 1, 2, i % 8, 0, 0]) for i in range(5))
    for i in range(len(STEPS)):
        yield begin + fill + bytes([i, 0, 3, 1, 2, 1, 0, 1, i, 1, 1, 2, 1])
    for i in range(len(NAMES)):
        yield bytes([i, i % 2]) + fill + bytes(range(len(STEPS))) * 3


def do(name, *answers):
    return bytes([[one.__name__ for one in STEPS].index(name), *answers])


def beginning_with(tables):
    """The bytes of a script that begins with tables, each of which is a few bytes."""
    return bytes([NAMES.index(RUNS_OF), 0]) + b"".join(do("table", *one) for one in tables)


# Inputs that once found a fault, with what it was.
ONE = bytes([3, 0]) + do("append", 0, 1, 0, 0, 0, 0)
FOUND = [
    # A reversed iterator of a sequence that has become shorter hinted at elements.
    ONE + do("begin_iterator", 0, 1) + do("take", 0, 0, 2, 0, 0) + do("go_on", 0),
    # `del seq[3:3:-huge]`, of no elements: where they would begin overflowed.
    ONE + do("delete_slice", 0, 0, 0, 6, 0, 0, 6, 9),
]
