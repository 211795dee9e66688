"""What pickle hands to seqcore, with up to four damages: all that doesn't fit is refused, the rest is right.

Whole pickles are no target: what they call is pickle's own affair, and NumPy's. This is seqcore's part.
"""

import numpy as np
from hardening.fuzz.tape import HUGE, Tape, bits, filled, raised
from strategies import LAYOUTS, NAMES, dtype_of, laid_out

from seqcore import TensorSequence, split_to_sequence

# What restore may say no with.
REFUSALS = (TypeError, ValueError)


class Own(TensorSequence):
    """With arguments of its `__new__`, and one that may not be given."""

    def __new__(cls, *arguments, **named):
        self = super().__new__(cls)
        self.given = arguments, named
        return self

    def __getnewargs_ex__(self):
        return (1, "two"), {"three": 3}


OTHERS = (
    None, "x", "int8", "int64", "string", "", b"abc", object, TensorSequence, Own, int, 0, 1.0, True, (), [],
    {}, ({},), ("a", 2), {"a": 1}, {1: 2}, range(3), np.zeros(3), np.zeros((2, 3), "int64"),
    np.array(["a", 5], object), np.ma.masked_array([[0, 0, 0]], mask=True), split_to_sequence,
)  # fmt: skip


# -- a state, and what is wrong with it ------------------------------------------------------------------


def sequence_of(tape):
    """A sequence whose parts are whole arrays, split along any axis, or dropped axes."""
    name = tape.pick(NAMES)
    pieces = TensorSequence(dtype=dtype_of(name) if tape.chance(2) else name)
    for _ in range(tape.between(0, 3)):
        array = laid_out(filled(name, tape.shape(), tape.byte()), tape.pick(LAYOUTS))
        if tape.chance(3) or array.ndim == 0:
            pieces.append(array)
        else:
            pieces += split_to_sequence(array, axis=tape.below(array.ndim), keepdims=tape.below(2))
    if tape.chance(3):
        pieces = pieces[:: tape.pick([2, -1, 3, -2])]
    if tape.chance(3):
        return Own(pieces)
    return pieces


def damaged(tape, state):
    """The state, with something else at one place."""
    way = tape.below(8)
    if way == 0:
        return tape.pick(OTHERS)
    if isinstance(state, list | tuple) and state and way < 7:
        at = tape.below(len(state))
        if way == 1:
            parts = [*state[:at], *state[at + 1 :]]
        elif way == 2:
            parts = [*state[:at], state[tape.below(len(state))], *state[at:]]
        else:
            parts = [*state[:at], damaged(tape, state[at]), *state[at + 1 :]]
        return type(state)(parts)
    if isinstance(state, np.ndarray) and state.ndim:
        if way <= 3 and state.size and state.dtype == np.int64:
            state = state.copy()
            number = tape.pick([-1, 0, 1, 2, 3, 4, *HUGE])
            state.flat[tape.below(state.size)] = min(max(number, -(1 << 63)), (1 << 63) - 1)
            return state
        return tape.pick(
            [
                lambda: state[:-1],
                lambda: state[::-1],
                lambda: state.T,
                lambda: state[None],
                lambda: state.astype(object),
                lambda: state.view(np.matrix) if state.ndim == 2 else state,
                lambda: state.astype(">i8") if state.dtype.kind in "iub" else state[..., :1],
            ]
        )()
    if isinstance(state, int):
        return tape.pick([-2, -1, 0, 1, 2, 3, True, 0.0, *HUGE])
    return tape.pick(OTHERS)


# -- what it should be -----------------------------------------------------------------------------------


class Unfit(Exception):
    """No sequence has such a state."""


def need(true):
    if not true:
        raise Unfit


def expected(cls, dtype, parts, table, positional=(), named=None):
    """The elements that a state stands for; Unfit where it stands for none."""
    need(type(cls) is type and issubclass(cls, TensorSequence))
    need(type(dtype) is str and dtype in NAMES)
    need(type(parts) is list)
    for part in parts:
        need(type(part) is tuple and len(part) == 2)
        array, axis = part
        need(isinstance(array, np.ndarray) and not isinstance(array, np.ma.MaskedArray))
        need(type(axis) is int)
        need(array.ndim > 0 and -1 <= axis < array.ndim)
        if dtype == "string":
            need(array.dtype.kind in "OU" and all(isinstance(item, str) for item in array.ravel().tolist()))
        else:
            need(array.dtype.newbyteorder("=") == dtype_of(dtype))
    need(isinstance(table, np.ndarray) and table.dtype.newbyteorder("=") == np.int64)
    need(table.ndim == 2 and table.shape[1] == 3)
    elements = []
    for which, start, length in table.tolist():
        need(0 <= which < len(parts))
        array, axis = parts[which]
        need(start >= 0 and length >= 0)
        need(start + length <= array.shape[max(axis, 0)])
        if axis < 0:
            need(length == 1)
            elements.append(np.asarray(array)[start, ...])
        else:
            elements.append(np.asarray(array)[(slice(None),) * axis + (slice(start, start + length),)])
    need(type(positional) is tuple)
    need(named is None or (type(named) is dict and all(isinstance(name, str) for name in named)))
    return elements


def run(data):
    tape = Tape(data)
    sequence = sequence_of(tape)
    make, arguments, *_ = sequence.__reduce_ex__(5)
    for _ in range(tape.below(5)):
        if tape.chance(2) and len(arguments) > 3 and isinstance(arguments[3], np.ndarray):
            table = arguments[3].copy()
            if table.size and table.dtype == np.int64:
                table.flat[tape.below(table.size)] = tape.pick(
                    [-1, 0, 0, 1, 1, 2, 2, 3, 4, 1 << 62, -(1 << 63)]
                )
            arguments = (*arguments[:3], table, *arguments[4:])
        else:
            arguments = damaged(tape, arguments)
        if not isinstance(arguments, tuple):
            return
    try:
        elements = expected(*arguments)
    except (Unfit, TypeError):  # the latter of too many or too few arguments
        elements = None
    if elements is None:
        assert raised(REFUSALS, make, *arguments), f"taken, though it doesn't fit: {arguments}"
        return
    back = make(*arguments)
    back._check()
    assert type(back) is arguments[0]
    assert [element.shape for element in back] == [element.shape for element in elements]
    for got, wanted in zip(back, elements, strict=True):
        wanted = np.asarray(wanted)
        wanted = wanted.astype(object if back.dtype == object else back.dtype)
        assert bits(got) == bits(wanted)
    if isinstance(back, Own):
        positional, named = (*arguments[4:], *((), None)[len(arguments) - 4 :])
        assert back.given == (positional, named or {})
    again = back[:] + back[::-1]
    again.compact()
    assert len(again) == 2 * len(elements)


def seeds():
    for name in range(len(NAMES)):
        for damages in range(5):
            yield bytes([name, 0, 2, 2, 2, 3, 1, 0, 0, 1, 1, 2, 2, 4, 3, 0, 0, damages, *range(damages * 4)])


FOUND = ()
