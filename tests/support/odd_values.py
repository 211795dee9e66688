"""Values that no argument is meant to be, and whether what becomes of them is a fitting error."""

import contextlib

import numpy as np
import pytest

from seqcore import TensorSequence

FITTING = (TypeError, ValueError, IndexError, OverflowError)
MOST_CHARACTERS = 500


class Spite(Exception):
    """What methods raise that a message has no business with."""


def _spite(*args, **kwargs):
    raise Spite


def _without_text(base):
    """A subclass that can't be shown."""
    names = ("__repr__", "__str__", "__format__")
    return type(f"Mute{base.__name__.title()}", (base,), dict.fromkeys(names, _spite))


MuteObject, MuteInt, MuteFloat, MuteStr, MuteBytes, MuteList, MuteTuple, MuteDict = map(
    _without_text, (object, int, float, str, bytes, list, tuple, dict)
)


class Index:
    """An index, which can't be shown."""

    __repr__ = __str__ = _spite

    def __init__(self, number):
        self.number = number

    def __index__(self):
        return self.number


class LongList(list):
    """A list that says it is longer than it is."""

    def __len__(self):
        return 1000


class ShortList(list):
    """A list that says it is empty."""

    def __len__(self):
        return 0


class LongTuple(tuple):
    __slots__ = ()

    def __len__(self):
        return 1000


class Row:
    """What looks like a list, and has no length that is true."""

    __repr__ = _spite

    def __init__(self, length):
        self.length = length

    def __len__(self):
        return self.length

    def __getitem__(self, i):
        if i >= 2:
            raise IndexError
        return 1


class ReprOfAnotherKind:
    """A repr that is a str of its own."""

    def __repr__(self):
        return MuteStr("x" * 600)


class LongName:
    def __repr__(self):
        return "x" * 600


def claims(kind):
    """An object that says it is of a class."""
    return type("Claims", (), {"__class__": property(lambda self: kind)})()


class LyingArray(np.ndarray):
    """An array of one item, which says of itself that it is a long one of another type."""

    shape = property(lambda self: (1000,))
    dtype = property(lambda self: np.dtype("float64"))
    ndim = property(lambda self: 1)
    size = property(lambda self: 1000)
    nbytes = property(lambda self: 8000)

    def view(self, *args, **kwargs):
        return self

    astype = item = tolist = reshape = copy = view


class LyingSequence(TensorSequence):
    """A sequence that says it is longer than it is, and everywhere the same."""

    def __len__(self):
        return 1000

    def __getitem__(self, key):
        return TensorSequence.__getitem__(self, 0)

    def __iter__(self):
        return iter([1, 2, 3])


HUGE = 10**5000
VALUES = {
    "huge": lambda: HUGE,
    "huge negative": lambda: -HUGE,
    "2**63": lambda: 2**63,
    "2**64": lambda: 2**64,
    "-2**63 - 1": lambda: -(2**63) - 1,
    "True": lambda: True,
    "NumPy's True": lambda: np.True_,
    "array True": lambda: np.array(True),
    "a span of time": lambda: np.timedelta64(1, "s"),
    "masked": lambda: np.ma.array(1, mask=True),
    "masked row": lambda: np.ma.array([1, 1], mask=[True, False]),
    "the masked constant": lambda: np.ma.masked,
    "no text": MuteObject,
    "int without text": lambda: MuteInt(1),
    "huge int without text": lambda: MuteInt(HUGE),
    "float without text": lambda: MuteFloat(1.5),
    "str without text": lambda: MuteStr("no"),
    "bytes without text": lambda: MuteBytes(b"no"),
    "list without text": lambda: MuteList([1]),
    "tuple without text": lambda: MuteTuple((1, 2)),
    "dict without text": lambda: MuteDict({"a": 1}),
    "index": lambda: Index(1),
    "huge index": lambda: Index(HUGE),
    "an index that is none": lambda: Index("1"),
    "long list": lambda: LongList([1]),
    "long list of two": lambda: LongList([1, 1]),
    "short list": lambda: ShortList([1]),
    "long tuple": lambda: LongTuple((1, 1)),
    "long row": lambda: Row(1000),
    "short row": lambda: Row(0),
    "repr of another kind": ReprOfAnotherKind,
    "long repr": LongName,
    "long text": lambda: "x" * 600,
    "says it is an array": lambda: claims(np.ndarray),
    "says it is a list": lambda: claims(list),
    "says it is an int": lambda: claims(int),
    "says it is a sequence": lambda: claims(TensorSequence),
    "lying array": lambda: np.zeros((1, 1), np.int64).view(LyingArray),
    "lying sequence": lambda: LyingSequence([[1, 2]]),
    "NaN": lambda: float("nan"),
    "infinity": lambda: float("inf"),
    "bytes": lambda: b"\xff",
    "nested": lambda: [[1, 2], [3]],
    "huge in a list": lambda: [HUGE],
    "huge among floats": lambda: [HUGE, 1.5],
    "huge in an array": lambda: np.array([HUGE], object),
    "huge of rank 0": lambda: np.array(HUGE, object),
    "bool in a list": lambda: [True, 2],
    "masked in a list": lambda: [np.ma.array(1, mask=True), 2],
    "no text in a list": lambda: [MuteObject()],
    "no text in an array": lambda: np.array([MuteObject()], object),
    "surrogate": lambda: "\ud800",
    "surrogate in a list": lambda: ["\ud800"],
    "empty text": lambda: "",
    "Ellipsis": lambda: ...,
    "None": lambda: None,
    "a type": lambda: MuteObject,
}


def each_call(calls):
    """Parametrize a test by each call, with three or four of the values; with all of them it is slow."""
    values, step = list(VALUES), 17
    cases = []
    for i, call in enumerate(calls):
        cases.append(pytest.param(call, values[i % step :: step], id=call))
        cases.append(pytest.param(call, values, id=f"{call}, all values", marks=pytest.mark.slow))
    return pytest.mark.parametrize(("call", "values"), cases)


@contextlib.contextmanager
def naming(value):
    """Say which value it was that failed."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"the value is {value}")
        raise


def assert_fitting(call, value, others=()):
    """Call with a value; return whether it was taken, after a look at what was raised if not."""
    try:
        call(value)
    except (*FITTING, *others) as error:
        told = str(error)
        assert "4300 digits" not in told, told
        if type(error) not in others:
            assert len(told) < MOST_CHARACTERS, told[:MOST_CHARACTERS]
        return False
    return True
