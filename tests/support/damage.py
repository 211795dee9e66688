"""Damage to bytes, and to what pickle hands over: drawn, or every one there is."""

import os

import numpy as np

WORDS = (b"\xff\xff\xff\xff", b"\xff\xff\xff\x7f", b"\0\0\0\x80", b"\0\0\0\0", b"\1\0\0\0", b"\0\0\1\0")


def every_damage(data):
    """What it is called, and the bytes of each damaged file."""
    for i in range(len(data)):
        yield f"cut at {i}", data[:i]
        for bits in (0x01, 0x80, 0xFF):
            yield f"flip {bits:#x} at {i}", data[:i] + bytes([data[i] ^ bits]) + data[i + 1 :]
    for i in range(0, len(data) - 3, 4):
        for word in WORDS:
            if data[i : i + 4] != word:
                yield f"word {word.hex()} at {i}", data[:i] + word + data[i + 4 :]
    for i in range(0, len(data) - 7, 8):
        for number in (-1, 1 << 40, 1 << 62, -(1 << 63)):
            yield (
                f"number {number} at {i}",
                data[:i] + number.to_bytes(8, "little", signed=True) + data[i + 8 :],
            )
    for i in range(0, len(data), 8):
        yield f"without 8 at {i}", data[:i] + data[i + 8 :]
        yield f"8 more at {i}", data[:i] + bytes(8) + data[i:]
        yield f"zeros from {i}", data[:i] + bytes(len(data) - i)
    yield "twice", data + data


# Drawn ones.


def flip(data, rng):
    data = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 5))):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(data)


def cut(data, rng):
    a = rng.randrange(len(data))
    return data[:a] if rng.random() < 0.3 else data[:a] + data[a + rng.randrange(1, 9) :]


def insert(data, rng):
    a = rng.randrange(len(data))
    return data[:a] + rng.randbytes(rng.randrange(1, 9)) + data[a:]


def splice(data, rng):
    a, b, length = rng.randrange(len(data)), rng.randrange(len(data)), rng.randrange(1, 60)
    return data[:a] + data[b : b + length] + data[a + (length if rng.random() < 0.5 else 0) :]


OF_BYTES = (flip, cut, insert, splice)

# What pickle hands over.

OTHERS = [None, "x", "int8", b"abc", object, 1.5, True, (), [], {}, np.zeros(3), np.zeros((2, 2), "int64")]
NUMBERS = [-1, 0, 1, 2, 3, 100, 2**31, 2**32 + 1, 2**60, 2**62, 2**63 - 1, -(2**63), 2**64, 10**30]


def remade(state, parts):
    """A list or tuple of these parts; a named tuple, where there are as many."""
    if hasattr(state, "_make"):
        return state._make(parts) if len(parts) == len(state) else tuple(parts)
    return type(state)(parts)


def every_other(state, others=OTHERS):
    """Every state that differs from this one at one place."""
    yield from others
    if isinstance(state, dict):
        for key, value in state.items():
            for other in every_other(value, others):
                yield {**state, key: other}
            yield {k: v for k, v in state.items() if k != key}
    elif isinstance(state, (list, tuple)):
        for i, one in enumerate(state):
            for other in every_other(one, others):
                yield remade(state, [*state[:i], other, *state[i + 1 :]])
            yield remade(state, [*state[:i], *state[i + 1 :]])
            yield remade(state, [*state[:i], one, *state[i:]])
    elif isinstance(state, np.ndarray):
        yield from (state.T, state.ravel(), state[..., None], state.tolist())
        if state.ndim:
            yield from (state[:0], state[1:], state[::-1])
        if state.dtype.kind in "biuf":
            yield state.astype("float64")
        if state.dtype.kind in "iu":
            yield from (state.astype("int8"), state.astype(">i8"))
            info = np.iinfo(state.dtype)
            for i in range(min(state.size, 40)):
                for number in (n for n in NUMBERS if info.min <= n <= info.max):
                    other = state.copy()
                    other.flat[i] = number
                    yield other
    elif isinstance(state, range):
        yield from (state[1:], state[::-1], range(-1, 2), range(2, -2, -1), range(9), range(0))
        yield from (
            range(0, 1 << 40),
            range(1 << 62, 1 << 63),
            range(0, 1 << 62, 1 << 61),
            range(1 << 64, 1 << 65),
        )
    elif isinstance(state, int):
        yield from NUMBERS
    elif isinstance(state, str):
        yield from (state[:-1], state + "x", "", "/", "relative", "a\0b", os.fsencode(state))
    elif isinstance(state, bytes):
        yield from (state[:-1], state[1:], state + b"x", b"", b"\xff" * len(state))
        for i in range(0, min(len(state), 200), 4):
            for word in WORDS:
                yield state[:i] + word + state[i + 4 :]
