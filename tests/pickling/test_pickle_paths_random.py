"""Whatever is done to loaded sequences, their pickles hold it: against a list of arrays."""

import itertools
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.random_cases import examples
from support.saved import ragged
from support.strategies import assert_holds, filled, slices
from test_pickle_paths import PROTOCOLS, size_of

import seqcore as sq
from seqcore import TensorSequence, split_to_sequence

LENGTHS = [0, 3, 0, 0, 1, 2, 0, 5, 0]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Files of int32, each with the elements that it holds; one is there twice, and two are one sequence."""
    folder = tmp_path_factory.mktemp("files")
    contents = {
        "rows": list(ragged(LENGTHS)),
        "others": list(ragged([2, 0, 2], start=60)),
        "matrices": list(ragged([2, 0, 0, 1], behind=(2,), start=7)),
        "widths": [filled("int32", shape, 30) for shape in [(2, 3), (0, 3), (3, 0), (0, 0), (1, 2)]],
        "numbers": [filled("int32", (), i) for i in range(4)],
        "none": [],
    }
    for name, arrays in contents.items():
        sq.save(folder / name, TensorSequence(arrays, "int32"))
    names = [[name] for name in ("rows", *contents)] + [["others", "rows"]]
    return [
        (sq.load([folder / one for one in some]), [array for one in some for array in contents[one]])
        for some in names
    ]


class Edits:
    """A sequence and its model, to which what is drawn is done."""

    def __init__(self, files, draw):
        self.files, self.draw = files, draw
        self.seq, self.model = files[0][0][:], files[0][1][:]
        self.pure = True  # whether no element was put in but by its sequence

    def position(self, more=0):
        return self.draw(st.integers(0, len(self.model) + more - 1))

    def positions(self):
        return self.draw(st.lists(st.integers(0, len(self.model) - 1), max_size=12)) if self.model else []

    def other(self):
        seq, model = self.draw(st.sampled_from(self.files))
        others = [(seq, model), (self.seq[:], self.model[:]), (seq[::-1], model[::-1])]
        return self.draw(st.sampled_from(others))

    def select(self):
        positions = self.positions()
        self.seq, self.model = self.seq[positions], [self.model[i] for i in positions]

    def mask(self):
        size = len(self.model)
        mask = self.draw(st.lists(st.booleans(), min_size=size, max_size=size))
        self.seq, self.model = self.seq[np.array(mask, bool)], [*itertools.compress(self.model, mask)]

    def slice(self):
        where = self.draw(slices(len(self.model)))
        self.seq, self.model = self.seq[where], self.model[where]

    def add(self):
        seq, model = self.other()
        self.seq, self.model = self.seq + seq, self.model + model

    def extend(self):
        seq, model = self.other()
        self.seq += seq
        self.model += model

    def assign(self):
        (seq, model), where = self.other(), slice(self.position(1), self.position(1))
        self.seq[where] = seq
        self.model[where] = model

    def delete(self):
        positions = self.positions()
        del self.seq[positions]
        self.model = [array for i, array in enumerate(self.model) if i not in positions]

    def reverse(self):
        self.seq.reverse()
        self.model.reverse()

    def put(self, array, expected):
        self.pure = False
        where = self.position(1)
        self.seq.insert(where, array)
        self.model.insert(where, expected)

    def append_one_of_its_own(self):
        if self.model:
            i = self.position()
            self.pure = False
            self.seq.append(self.seq[i])
            self.model.append(self.model[i])

    def put_an_array(self):
        array = filled("int32", self.draw(st.sampled_from([(), (0,), (3,), (1, 2), (0, 3)])), 80)
        self.put(array, array.copy())

    def put_a_view(self):
        if self.model:
            array = self.seq[self.position()]
            if array.ndim:
                views = [array[1:], array[:-1], array[:0], array[::-1], array.T, array.reshape(-1)]
                view = self.draw(st.sampled_from([*views, array[..., None]]))
                self.put(view, np.array(view))

    def put_rows(self):
        rows = [array for array in self.seq if array.ndim and len(array)]
        if rows:
            array = self.draw(st.sampled_from(rows))
            self.pure = False
            self.seq += split_to_sequence(array, keepdims=self.draw(st.booleans()))
            self.model = [np.array(array) for array in self.seq]

    def come_back(self):
        self.seq = pickle.loads(pickle.dumps(self.seq, self.draw(st.sampled_from(PROTOCOLS))))


HELPERS = ("position", "positions", "other", "put")
STEPS = [name for name in vars(Edits) if name not in HELPERS and not name.startswith("_")]


@settings(max_examples=examples(300))
@given(st.data())
def test_any_edits_come_back(files, data):
    edits = Edits(files, data.draw)
    for name in data.draw(st.lists(st.sampled_from(STEPS), max_size=8)):
        if len(edits.model) < 200:
            getattr(edits, name)()
    assert_holds(edits.seq, edits.model)
    for protocol in PROTOCOLS:
        back = pickle.loads(pickle.dumps(edits.seq, protocol))
        assert back.dtype == np.int32
        assert_holds(back, edits.model)
    buffers = []
    dumped = pickle.dumps(edits.seq, 5, buffer_callback=buffers.append)
    assert_holds(pickle.loads(dumped, buffers=buffers), edits.model)
    if edits.pure:
        assert size_of(edits.seq) <= 2_000 + 40 * len(edits.model)
