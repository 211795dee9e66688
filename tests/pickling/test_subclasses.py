"""A subclass whose `__new__` gives what is there: a sequence in use is never filled again."""

import copy
import pickle
from functools import partial

import numpy as np
import pytest
from support.races import together

import seqcore as sq
from seqcore import TensorSequence

FROM_PROTOCOL_2 = range(2, pickle.HIGHEST_PROTOCOL + 1)
ROWS = [np.arange(3), np.arange(2), np.arange(3)]


def _pickled(protocol):
    return lambda one: pickle.loads(pickle.dumps(one, protocol))


WAYS = {"copy": copy.copy, "deepcopy": copy.deepcopy}
WAYS |= {f"protocol {protocol}": _pickled(protocol) for protocol in FROM_PROTOCOL_2}


# -- __new__ that gives what is there --------------------------------------------------------------------


class Single(TensorSequence):
    """There is one of them, ever."""

    one = None

    def __new__(cls, *arguments, **named):
        if cls.one is None:
            cls.one = super().__new__(cls)
        return cls.one


MADE_ANEW = {
    **WAYS,
    "method": lambda one: one.copy(),
    "from_lengths": lambda one: type(one).from_lengths(np.arange(3.0), [1, 2]),
    "from_offsets": lambda one: type(one).from_offsets(np.arange(3.0), [0, 3]),
    "from_padded": lambda one: type(one).from_padded(np.ones((2, 2)), [1, 2]),
    "from_arrow": lambda one: type(one).from_arrow(sq.TensorSequence([[0.5]])),
    "astype": lambda one: one.astype("float32"),
}


@pytest.mark.parametrize("way", MADE_ANEW.values(), ids=MADE_ANEW)
def test_a_sequence_in_use_is_not_filled_again(way):
    Single.one = None
    one = Single(ROWS)
    inside = one[0]
    with pytest.raises(
        TypeError, match=r"Single.__new__ returned a sequence that is in use already.*new one"
    ):
        way(one)
    assert one.dtype == np.int64
    assert all(map(np.array_equal, one, ROWS))
    assert np.array_equal(inside, ROWS[0])
    one._check()


def test_a_sequence_comes_into_use_once():
    """Threads unpickle into one instance: one has its elements, whole, and the others an error."""
    data = []
    for tensors in ([np.full(4, 1.5)] * 5, [["text"]] * 3):
        Single.one = None
        data.append(pickle.dumps(Single(tensors)))
    for _ in range(50):
        Single.one = TensorSequence.__new__(Single)
        outcomes = []

        def load(which, outcomes=outcomes):
            try:
                outcomes.append(len(pickle.loads(data[which])))
            except TypeError:
                outcomes.append(None)

        together(*[partial(load, 0), partial(load, 1)] * 2)
        assert outcomes.count(None) == 3
        length = next(filter(None, outcomes))
        assert len(Single.one) == length
        assert Single.one.dtype == (np.float64 if length == 5 else object)
        Single.one._check()


@pytest.mark.parametrize("made", [None, 5, [], object])
def test_what_is_no_sequence_is_not_filled(made):
    class Other(TensorSequence):
        def __new__(cls, *arguments):
            return made

    with pytest.raises(
        TypeError, match=r"Other.__new__ returned an object of type .*expected a TensorSequence"
    ):
        Other.from_lengths(np.arange(3), [1, 2])


def test_an_error_of_new_goes_through():
    class Failing(TensorSequence):
        def __new__(cls, *arguments):
            if not arguments:
                raise ZeroDivisionError("as the class has it")
            return super().__new__(cls)

    one = Failing(ROWS)
    with pytest.raises(ZeroDivisionError, match="as the class has it"):
        one.copy()
    assert len(one) == 3
