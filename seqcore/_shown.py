"""How messages show what somebody gave: short, and whatever the value's own methods do.

A message is made when something is wrong already. A `__repr__` that raises, or a number whose digits Python
refuses to write, must not put an error of its own in the place of ours.
"""

import contextlib
import operator

import numpy as np

_MOST_BITS = 192  # of integers that are written out: 58 digits


def shown(value, most=60):
    """Return the repr of a value, cut to `most` characters; of what has none, its type."""
    kind = type(value)
    if kind is int and value.bit_length() > _MOST_BITS:
        return f"<{'negative ' if value < 0 else ''}int of {value.bit_length()} bits>"
    try:
        # A subclass of str has a slicing and a format of its own.
        text = str.__str__(repr(value))
    except Exception:  # foreign code raises whatever it likes
        text = f"<{kind.__name__} object>"
    return text[:most]


def shown_number(value):
    """Return what was given for an integer: its digits, whatever type it is of."""
    if issubclass(type(value), int):
        value = operator.index(value)  # exact, and no foreign code
    elif issubclass(type(value), np.ndarray | np.generic):
        value = np.ndarray.item(np.asarray(value))
    return shown(value)


def shown_error(error):
    """Return what an exception says."""
    try:
        return str.__str__(str(error))
    except Exception:  # its arguments are foreign code too
        return "it has no text"


def described(error):
    """Return the type of an exception and what it says, if anything."""
    said = shown_error(error)
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def add_note(error, note):
    """Add a note to an exception, once: a body may raise one exception again and again."""
    # What is raised counts more than a note: a class that can't be changed, as a frozen dataclass, gets none.
    with contextlib.suppress(Exception):
        if note not in getattr(error, "__notes__", ()):
            BaseException.add_note(error, note)
