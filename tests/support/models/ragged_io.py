"""Feeds and results of `lower(model, ragged_io=True)`: a sequence `s` as `s_values` and `s_lengths`."""

import numpy as np

from seqcore import TensorSequence


def packed(name, elements, names, shape, dtype):
    """The tensors that stand for a sequence, by their names; those that the model has say in which form.

    `shape` is that of an element, of which only the rank and what is behind axis 0 are looked at, and only
    where there is no element.
    """
    values, lengths, extents = f"{name}_values", f"{name}_lengths", f"{name}_extents"
    elements = [np.asarray(one) for one in elements]
    behind = elements[0].shape[1:] if elements else [n or 0 for n in shape[1:]]
    if extents in names:  # flat, and all lengths of each element
        flat = [one.reshape(-1) for one in elements] or [np.empty(0, dtype)]
        rank = elements[0].ndim if elements else len(shape)
        sizes = np.array([one.shape for one in elements], np.int64).reshape(len(elements), rank)
        return {values: np.concatenate(flat), extents: sizes}
    if lengths in names:
        joined = np.concatenate(elements) if elements else np.empty([0, *behind], dtype)
        return {values: joined, lengths: np.array([len(one) for one in elements], np.int64)}
    assert values in names, (name, names)
    return {values: np.stack(elements) if elements else np.empty(0, dtype)}


def as_tensors(values, names):
    """Values as a model without sequences has them, whose names these are."""
    made = {}
    for key, value in values.items():
        is_list = isinstance(value, list | TensorSequence)
        made |= packed(key, list(value), names, (), np.float32) if is_list else {key: np.asarray(value)}
    return made


def assert_close(found, expected):
    """Results are the same but for rounding; of what is empty, a list doesn't tell the shape."""
    for one, other in zip(map(np.asarray, found), expected, strict=True):
        if one.size or other.size:
            assert (one.dtype, one.shape) == (other.dtype, other.shape)
            np.testing.assert_allclose(one, other, 1e-4, 1e-5)


def ragged_feed(feed, names, kinds):
    """A feed as a model of these inputs takes it; `kinds` has shape and type of each sequence's elements."""
    made = {}
    for name, value in feed.items():
        if isinstance(value, list) and name not in names:
            made |= packed(name, value, names, *kinds[name])
        else:
            made[name] = value
    return made


def ragged_results(results, outputs, names, kinds):
    """Results as a model of these outputs gives them, in order."""
    made = ragged_feed(dict(zip(outputs, results, strict=True)), names, kinds)
    return [made[name] for name in names]


def kinds_of(values):
    """Shape and NumPy type of the elements of a graph's sequences, by name."""
    from onnx import helper

    found = {}
    for one in values:
        if one.type.HasField("sequence_type"):
            element = one.type.sequence_type.elem_type.tensor_type
            shape = [dim.dim_value for dim in element.shape.dim]
            found[one.name] = shape, helper.tensor_dtype_to_np_dtype(element.elem_type)
    return found
