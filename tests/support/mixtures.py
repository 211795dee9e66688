"""Sequences for properties: long and short mixtures of ranks, widths and empty elements, with a history.

`mixtures` draws a sequence and the list of arrays that it has to hold. Its elements take turns among a few
shapes, so that neighbors differ more often than any threshold of the core counts. Then it was selected,
reversed and edited.
"""

import numpy as np
from hypothesis import strategies as st
from support.strategies import NAMES, dtype_of, filled

from seqcore import TensorSequence

ANY = st.sampled_from(NAMES)
SIZES = st.sampled_from([0, 1, 2, 5, 70, 150, 300])
SHAPES = {rank: st.tuples(*[st.integers(0, 3)] * rank) for rank in range(4)}


def in_turns(shapes, size, name, start=0):
    return [filled(name, shapes[i % len(shapes)], start + i) for i in range(size)]


def as_rows(arrays):
    """Return a sequence over one buffer, of arrays that differ in their length alone."""
    return TensorSequence.from_lengths(np.concatenate(arrays), [len(array) for array in arrays])


@st.composite
def mixtures(draw, names=ANY, one_rank=False):
    """A sequence of some element type, and what it holds; with `one_rank`, of one rank above 0."""
    name, size = draw(names), draw(SIZES)
    rank = draw(st.integers(1, 3))
    each = st.just(rank) if one_rank else st.integers(0, 3)
    shapes = draw(st.lists(each.flatmap(SHAPES.get), min_size=1, max_size=4))
    if one_rank and draw(st.booleans()):
        shapes = [(shape[0], *shapes[0][1:]) for shape in shapes]  # which may lie in one buffer
        model = in_turns(shapes, size, name)
        seq = as_rows(model) if model else TensorSequence(dtype=dtype_of(name))
    else:
        model = in_turns(shapes, size, name)
        seq = TensorSequence(model, dtype=dtype_of(name))
    for change in draw(st.lists(st.sampled_from(CHANGES), max_size=3)):
        seq, model = change(draw, seq, model, shapes, name)
    return seq, model


def select(draw, seq, model, shapes, name):
    if not model:
        return seq[[]], []
    step = draw(st.sampled_from([-3, -1, 2, 7]))
    positions = np.arange(len(model))[::step]
    return seq[positions], [model[i] for i in positions]


def mask(draw, seq, model, shapes, name):
    every = draw(st.integers(2, 5))
    taken = np.arange(len(model)) % every > 0
    return seq[taken], [one for one, keep in zip(model, taken, strict=True) if keep]


def cut(draw, seq, model, shapes, name):
    step = draw(st.sampled_from([-1, 1, 2]))
    return seq[::step], model[::step]


def double(draw, seq, model, shapes, name):
    return (seq + seq, model + model) if len(model) < 200 else (seq, model)


def edit(draw, seq, model, shapes, name):
    seq, model = seq.copy(), list(model)
    for i in range(draw(st.sampled_from([1, 3, 40]))):
        at = i * 7 % (len(model) + 1)
        one = filled(name, shapes[i % len(shapes)], i)
        if i % 3 == 2:
            seq.pop(at - 1)
            model.pop(at - 1)
        else:
            seq.insert(at, one)
            model.insert(at, one)
    return seq, model


CHANGES = [select, mask, cut, double, edit]


@st.composite
def tables(draw, names):
    """Columns of some types as a dict, sequences and arrays, all of one length."""
    size = draw(st.sampled_from([1, 2, 5, 70]))
    columns = {}
    for letter in "abcd"[: draw(st.integers(2, 4))]:
        name, behind = draw(names), draw(st.sampled_from([(), (2,)]))
        if draw(st.booleans()):
            lengths = draw(st.lists(st.integers(0, 4), min_size=1, max_size=4))
            shapes = [(length, *behind) for length in lengths]
            columns[letter] = as_rows(in_turns(shapes, size, name, ord(letter)))
        else:
            behind = () if name == "string" else behind
            columns[letter] = filled(name, (size, *behind), ord(letter))
    return columns
