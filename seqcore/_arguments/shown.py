"""Show given values in messages: short, on one line, and safely.

A message is made when something is wrong already. A `__repr__` that raises, or a number whose digits Python
refuses to write, must not replace our error with its own.
"""

import contextlib
import operator
import types

import numpy as np

MASKED = "a masked array, whose mask would be lost: use .filled() or .data"
_MOST_BITS = 192  # of integers that are written out: 58 digits


def shown(value, most=60):
    """Return the repr of a value on one line, cut to `most` characters; its type where the repr fails."""
    kind = type(value)
    if kind is int and value.bit_length() > _MOST_BITS:
        return f"<{'negative ' if value < 0 else ''}int of {value.bit_length()} bits>"
    try:
        # A subclass of str may override slicing and format.
        text = str.__str__(repr(value))
    except Exception:  # foreign code raises whatever it likes
        text = f"<{kind.__name__} object>"
    if "\n" in text:
        text = " ".join(text.split())
    return text if len(text) <= most else f"{text[: most - 1]}…"


def got(value):
    """Describe a value for "expected ..., got ...": arrays by dtype and shape, others by repr and type."""
    if issubclass(type(value), np.ndarray):  # not isinstance, which believes a `__class__`
        dtype, shape = np.ndarray.dtype.__get__(value), np.ndarray.shape.__get__(value)
        return f"an ndarray of dtype {dtype} with shape {shape}"
    if isinstance(value, types.BuiltinMethodType | types.MethodType) and not isinstance(
        value.__self__, types.ModuleType | None
    ):
        return f"the method {value.__name__}, which was not called: write {value.__name__}()"
    return f"{shown(value)} of type {type(value).__name__}"


def shown_number(value):
    """Return the digits of an integer of any type."""
    if issubclass(type(value), int):
        value = operator.index(value)  # exact, and no foreign code
    elif issubclass(type(value), np.ndarray | np.generic):
        value = np.ndarray.item(np.asarray(value))
    return shown(value)


def unless_empty_list(shape, other):
    """Return what to write in place of an empty list, if one of two shapes is that of one."""
    if len(other) < len(shape):
        shape, other = other, shape
    return f"; write np.empty({(0, *other[1:])}) in place of []" if shape == (0,) and len(other) > 1 else ""


def shown_error(error):
    """Return the message of an exception."""
    try:
        return str.__str__(str(error))
    except Exception:  # its arguments are foreign code too
        return "its message can't be shown"


def prefixed(name, error):
    """Return a TypeError or ValueError that says what it is about: a part, a column."""
    kind = TypeError if isinstance(error, TypeError) else ValueError
    return kind(f"{name}: {shown_error(error)}")


def described(error):
    """Return the type of an exception and its message, if it has one."""
    said = shown_error(error)
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def add_note(error, note):
    """Add a note to an exception, once: a body may raise one exception again and again."""
    # The exception counts more than its note: instances that can't be changed, frozen dataclasses, get none.
    with contextlib.suppress(Exception):
        if note not in getattr(error, "__notes__", ()):
            BaseException.add_note(error, note)
