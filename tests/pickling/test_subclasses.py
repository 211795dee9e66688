"""Subclasses are copied with their state and pickled by Python's protocol; none fills one in use."""

import copy
import copyreg
import pickle
import threading

import numpy as np
import pytest

import seqcore as sq
from seqcore import TensorSequence

FROM_PROTOCOL_2 = range(2, pickle.HIGHEST_PROTOCOL + 1)
ROWS = [np.arange(3), np.arange(2), np.arange(3)]


class Attributes:
    def fill(self):
        self.tag = ["x"]


class Slots:
    __slots__ = ()

    def fill(self):
        self.tag, self.other = ["x"], 5


class State:
    def fill(self):
        self.tag, self.cache = ["x"], object

    def __getstate__(self):
        return {"tag": self.tag}


class SetState:
    def fill(self):
        self.tag = ["x"]

    def __getstate__(self):
        return (self.tag, "and more")

    def __setstate__(self, state):
        self.tag, self.given = state


class NoState:
    def fill(self):
        self.tag = ["x"]

    def __getstate__(self):
        return None


class FalseState:
    def fill(self):
        self.tag = ["x"]

    def __getstate__(self):
        return 0

    def __setstate__(self, state):
        self.given = state


class Reduce:
    def fill(self):
        self.tag = ["x"]

    def __reduce__(self):
        return type(self)._made, (list(self), "by reduce"), {"tag": self.tag}

    @classmethod
    def _made(cls, elements, how):
        new = cls(elements)
        new.how = how
        return new


class ReduceEx:
    def fill(self):
        self.tag = ["x"]

    def __reduce_ex__(self, protocol):
        kind, *rest = super().__reduce_ex__(protocol)
        assert protocol >= 2
        return _counted, (kind, *rest[0]), {"tag": [*self.tag, "more"]}, *rest[2:]


def _counted(kind, *arguments):
    new = kind(*arguments)
    new.counted = True
    return new


class Items:
    def fill(self):
        self.tag = ["x"]

    def __reduce__(self):
        return type(self), ([[0]],), {"tag": self.tag}, iter([[1], [2, 3]]), iter([(0, [7])])


class Named:
    def fill(self):
        self.tag = ["x"]

    def __reduce__(self):
        return f"{type(self).__name__}_THE_ONE"


class Registered:
    def fill(self):
        self.tag = ["x"]


class OtherMethods:
    """Whatever a subclass has of its own, a copy doesn't go by."""

    def fill(self):
        self.tag = ["x"]

    def copy(self):
        raise AssertionError("copy.copy does not ask")

    def __len__(self):
        raise AssertionError

    def __iadd__(self, other):
        raise AssertionError


COPIED = [Attributes, Slots, State, SetState, NoState, FalseState, OtherMethods]
# A reduction is for pickle: the module `copy` calls the class's `__copy__` first, which it may override.
PICKLED = [*COPIED, Reduce, ReduceEx, Items, Named, Registered]


def _both(mixin):
    """A subclass of list and one of TensorSequence that say the same of themselves."""
    classes = []
    for base in (list, TensorSequence):
        name = f"{mixin.__name__}Of{base.__name__}"
        body = {"__module__": __name__}
        if mixin is Slots:
            body["__slots__"] = ("other", "tag")
        globals()[name] = type(name, (mixin, base), body)
        classes.append(globals()[name])
    return classes


PAIRS = {mixin.__name__: _both(mixin) for mixin in PICKLED}


def _register(cls):
    def reduced(one):
        return _counted, (cls, [list(element) for element in one]), {"tag": one.tag}

    copyreg.pickle(cls, reduced)


for _cls in PAIRS["Registered"]:
    _register(_cls)


def _attributes(one):
    names = ("tag", "other", "cache", "given", "how", "counted")
    return {name: getattr(one, name) for name in names if hasattr(one, name)}


def _elements(one):
    base = list if isinstance(one, list) else TensorSequence
    return [np.asarray(element).tolist() for element in base.__iter__(one)]


def _pickled(protocol):
    return lambda one: pickle.loads(pickle.dumps(one, protocol))


WAYS = {"copy": copy.copy, "deepcopy": copy.deepcopy}
WAYS |= {f"protocol {protocol}": _pickled(protocol) for protocol in FROM_PROTOCOL_2}


CASES = [
    pytest.param(mixin.__name__, way, id=f"{mixin.__name__}-{name}")
    for name, way in WAYS.items()
    for mixin in (COPIED if way in (copy.copy, copy.deepcopy) else PICKLED)
]


@pytest.mark.parametrize(("name", "way"), CASES)
def test_as_a_list_does(name, way):
    results = []
    for cls in PAIRS[name]:
        one = cls([[1], [2, 3], []])
        one.fill()
        globals()[f"{cls.__name__}_THE_ONE"] = one
        new = way(one)
        assert type(new) is cls
        results.append((_elements(new), _attributes(new), new is one))
        if isinstance(one, TensorSequence):
            assert new.dtype == one.dtype
            new._check()
            assert _elements(one) == [[1], [2, 3], []]
    assert results[0] == results[1]


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
        start = threading.Barrier(4)

        def load(which, outcomes=outcomes, start=start):
            start.wait()
            try:
                outcomes.append(len(pickle.loads(data[which])))
            except TypeError:
                outcomes.append(None)

        threads = [threading.Thread(target=load, args=(i % 2,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert outcomes.count(None) == 3
        length = next(filter(None, outcomes))
        assert len(Single.one) == length
        assert Single.one.dtype == (np.float64 if length == 5 else object)
        Single.one._check()


@pytest.mark.parametrize("made", [None, 5, [], object], ids=repr)
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
