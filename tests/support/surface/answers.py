"""What calls give, by NumPy or from a list of arrays."""

import numpy as np


def lengths_of(seq):
    return np.array([len(t) for t in seq], np.int64)


def values_of(seq):
    return np.concatenate(seq)


def padded(seq, value=0):
    """One array of elements that are brought to one shape."""
    shape = np.max([t.shape for t in seq], axis=0)
    out = np.full((len(seq), *shape), value, seq[0].dtype)
    for row, t in zip(out, seq, strict=True):
        row[tuple(map(slice, t.shape))] = t
    return out


def windows_of(t, size, step, partial=True):
    """Return the windows of one array, one after the other."""
    found = []
    for begin in range(0, len(t), step):
        window = t[begin : begin + size]
        if partial or len(window) == size:
            found.append(window)
        if begin + size >= len(t):
            break
    return found


def all_windows(seq, size, step=None, partial=True):
    return [window for t in seq for window in windows_of(t, size, step or size, partial)]


def window_ids(seq, size, step=None, partial=True):
    return np.repeat(np.arange(len(seq)), [len(windows_of(t, size, step or size, partial)) for t in seq])


def rows_at(seq, position):
    empty = "" if seq[0].dtype == object else 0
    rows = [t[position] if -len(t) <= position < len(t) else np.full(t.shape[1:], empty) for t in seq]
    return np.stack(rows).astype(seq[0].dtype)


def reduced(seq, how, axis=0, **options):
    return np.stack([how(t, axis=axis, **options) for t in seq])


def equal(t, u):
    return t.shape == u.shape and t.dtype == u.dtype and bool(np.all(t == u))


def find(seq, tensor):
    """Return the position of the first element that equals a tensor."""
    return next(i for i, t in enumerate(seq) if equal(t, tensor))


def several(t):
    return t + t, t[..., :1]
