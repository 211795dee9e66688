"""What the tests of maps share: bodies, which other processes import from here, and executors."""

import contextvars
import os
import pickle
import threading
import time
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field

import numpy as np

import seqcore as sq

COLOR = contextvars.ContextVar("COLOR", default="none")


class Refusal(Exception):
    """An exception that pickles."""


class Unpicklable(Exception):
    """An exception that doesn't: it can't be made from its arguments alone."""

    def __init__(self, number, *, reason):
        super().__init__(number)
        self.reason = reason


class Inline(Executor):
    """Runs each call at once, in the thread that submits it."""

    def submit(self, function, /, *args, **kwargs):
        future = Future()
        try:
            future.set_result(function(*args, **kwargs))
        except BaseException as error:
            future.set_exception(error)
        return future


class Recording(Inline):
    """Runs what a pickle of the call brings back, and keeps the sizes: of the pickle, and of each buffer."""

    def __init__(self):
        self.sizes = []

    def submit(self, function, /, *args, **kwargs):
        buffers = []
        data = pickle.dumps((function, args, kwargs), protocol=5, buffer_callback=buffers.append)
        self.sizes.append((len(data), [buffer.raw().nbytes for buffer in buffers]))
        function, args, kwargs = pickle.loads(data, buffers=buffers)
        return super().submit(function, *args, **kwargs)


def within(seconds, function):
    """What the function returns or raises, but fail where it takes so long that it must hang."""
    outcome = Future()

    def run():
        try:
            outcome.set_result(function())
        except BaseException as error:
            outcome.set_exception(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    assert not thread.is_alive(), "deadlock"
    return outcome.result()


def numbers(count, kind=sq.TensorSequence):
    return kind([np.array([i]) for i in range(count)])


def pieces(count, nbytes):
    """So many elements of so many bytes each, of memory that is only looked at."""
    return sq.split_to_sequence(np.zeros((count, nbytes), np.uint8), keepdims=0)


def double(a):
    return a * 2


def slowly(a):
    time.sleep(0.001)
    return a


def process(a):
    return np.array(os.getpid())


def mapped(a):
    """Seven elements from a map within the map, on threads."""
    return sq.concat_from_sequence(sq.sequence_map(lambda b: b + a, numbers(7), max_workers=2), 0)


def die(a):
    """End the process without a word."""
    if a[0] == 5:
        os._exit(3)
    return a


@dataclass
class DieOnce:
    """Ends the process at one element, but only the first time."""

    path: str
    at: int

    def __call__(self, a):
        if a[0] == self.at and not os.path.exists(self.path):
            with open(self.path, "w"):
                os._exit(3)
        return a


def raise_unpicklable(a):
    if a[0] == 3:
        raise Unpicklable(3, reason="no")
    return a


def raise_with_lock(a):
    if a[0] == 3:
        raise Refusal(3, threading.Lock())
    return a


@dataclass
class FailAt:
    """Passes elements on, but raises or returns what `failures` has for their number instead."""

    failures: dict
    seconds: dict = field(default_factory=dict)  # how long an element takes, by its number

    def __call__(self, a):
        number = int(a[0])
        time.sleep(self.seconds.get(number, 0))
        failure = self.failures.get(number)
        if isinstance(failure, BaseException):
            raise failure
        return a if failure is None else failure


@dataclass
class Logged:
    """Writes the number of each element that it starts on a line of its own, and takes its time."""

    path: str
    seconds: float
    fails_at: int = -1

    def __call__(self, a):
        with open(self.path, "a") as log:
            log.write(f"{int(a[0])}\n")
        time.sleep(self.seconds)
        if a[0] == self.fails_at:
            raise Refusal(self.fails_at)
        return a

    def started(self):
        """The numbers of the elements that were started, in that order."""
        try:
            with open(self.path) as log:
                return [int(line) for line in log]
        except FileNotFoundError:
            return []


MODEL = []


def load_model(factor):
    """What a pool's initializer does; the caller has no model."""
    MODEL.append(factor)


def by_model(a):
    return a * MODEL[0]


def whole_flags(a, *wholes):
    """Whether a body could write into what it gets: by its flag, and by setting it."""
    can = False
    for tensor in (a, *wholes):
        can |= tensor.flags.writeable
        try:
            tensor.flags.writeable = True
        except ValueError:
            pass
        else:
            can = True
    return np.array(can)


def at(a, table):
    return table[int(a[0])]


def at_all(a, *tables):
    """An item of each table, and whether all of them are aligned."""
    return np.array([*(one[int(a[0])] for one in tables), all(one.flags.aligned for one in tables)], float)


class Junk:
    """No tensor, and it doesn't pickle."""

    def __reduce__(self):
        raise RuntimeError("stays here")


def junk(a):
    return Junk() if a[0] >= 3 else a


def only_junk(a):
    return Junk()


def listed_junk(a):
    return [Junk()] if a[0] >= 3 else int(a[0])


class PicklesToNothing(Exception):
    def __reduce__(self):
        return str, ("nothing",)


class RefusesToLoad(Exception):
    def __reduce__(self):
        return refuse, ()


def refuse():
    raise SystemExit("no")


class Unprintable(Exception):
    def __str__(self):
        raise RuntimeError

    def __reduce__(self):
        raise RuntimeError


def raise_odd(a, kind):
    if a[0] == 3:
        raise {"nothing": PicklesToNothing, "refuses": RefusesToLoad, "silent": Unprintable}[str(kind)]
    return a


class BreaksOnArrival:
    """A body that pickles, but can't be unpickled."""

    def __call__(self, a):
        return a

    def __reduce__(self):
        return break_on_arrival, ()


def break_on_arrival():
    raise LookupError("not on this machine")


@dataclass
class First:
    """A body that gets further inputs, and has no use for them."""

    body: object

    def __call__(self, a, *others):
        return self.body(a)


def at_both(a, table, offset, other):
    return table[int(a[0])] + offset + other[int(a[0])]


# What a body may do with an element: its result, or what it raises.
RESULTS = {
    "same": lambda a: a,
    "double": lambda a: a * 2,
    "view": lambda a: a[::-1],
    "sum": lambda a: a.sum(),
    "floats": lambda a: a + 0.5,
    "int": lambda a: int(a.flat[0]),
    "float": lambda a: float(a.flat[0]) + 0.5,
    "whole float": lambda a: float(a.flat[0]),
    "list": lambda a: [int(a.flat[0]), 7],
    "no items": lambda a: [],
    "huge": lambda a: 2**70,
    "words": lambda a: np.array(str(a.flat[0]), object),
    "pair": lambda a: (a, a + 0.5),
    "other pair": lambda a: (a * 3, a[:1] - 0.5),
    "mixed pair": lambda a: (a, 3),
    "wrong pair": lambda a: (a, a > 0),
    "one": lambda a: (a,),
    "triple": lambda a: (a, a, a),
    "nothing": lambda a: (),
    "None": lambda a: None,
    "dates": lambda a: np.zeros(1, "M8[s]"),
    "short": lambda a: a[:-1],
}
FAILURES = {
    kind.__name__: kind
    for kind in (Refusal, KeyError, StopIteration, TypeError, SystemExit, GeneratorExit, KeyboardInterrupt)
}


@dataclass
class Scripted:
    """Does with an element, or a batch, what `script` says for its first number, else what is usual."""

    usual: str
    script: dict

    def __call__(self, a, *others):
        what = self.script.get(int(a.flat[0]), self.usual)
        if what in FAILURES:
            raise FAILURES[what](what, int(a.flat[0]))
        for other in others:
            a = a + other.sum()
        return RESULTS[what](a)


class Rows(Scripted):
    """The same as a compiled graph: a map runs many rows of it at once."""

    def check(self, dtypes):
        return (None,)

    def run_many(self, rows):
        results = []
        for k, row in enumerate(rows):
            try:
                results.append((self(*row),))
            except Exception as error:
                error.seqcore_element = k
                raise
        return results
