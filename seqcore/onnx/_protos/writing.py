"""Tensors into the bytes of a SequenceProto: a block at a time, those of one shape as rows of an array."""

import itertools
import math

import numpy as np

from seqcore.dtypes import STRING
from seqcore.onnx._model.tensors import tensor_type
from seqcore.onnx._protos.tensors import SMALL, check_size, element_head, raw_bytes
from seqcore.operators import concat_from_sequence

# So many elements are written at a time.
BLOCK = 512


def write_strings(proto, seq):
    """Put the elements of a sequence of strings behind those of a SequenceProto."""
    number = tensor_type(STRING)
    nbytes = 0
    for i, tensor in enumerate(seq):
        try:
            texts = [text.encode() for text in tensor.reshape(-1)]
        except UnicodeEncodeError as error:
            raise ValueError(f"element {i} has a string without UTF-8: {error}") from None
        nbytes += sum(map(len, texts)) + 6 * len(texts)  # each with a head
        check_size(nbytes)
        proto.tensor_values.add(dims=tensor.shape, data_type=number, string_data=texts)


def write_numbers(proto, seq):
    """Put the elements of a sequence of numbers behind those of a SequenceProto."""
    dtype = seq.dtype
    check_size(seq.nbytes)
    shapes = seq.shapes
    heads = {}
    size = 0
    for start in range(0, len(seq), BLOCK):
        block = seq[start : start + BLOCK]
        block_shapes = shapes[start : start + BLOCK]
        distinct = set(block_shapes)
        for shape in distinct - heads.keys():
            heads[shape] = element_head(dtype, shape)
        if max(math.prod(shape) for shape in distinct) * dtype.itemsize > SMALL:
            size += block.nbytes + sum(len(heads[shape]) for shape in block_shapes)
            check_size(size)
            for shape, array in zip(block_shapes, block, strict=True):
                number = tensor_type(dtype)
                proto.tensor_values.add(dims=shape, data_type=number, raw_data=raw_bytes(array))
            continue
        if len(distinct) == 1:
            data = _rows(heads[block_shapes[0]], block)
        else:
            pairs = zip(map(heads.get, block_shapes), map(raw_bytes, block), strict=True)
            data = b"".join(itertools.chain.from_iterable(pairs))
        size += len(data)
        check_size(size)
        proto.MergeFromString(data)  # behind what there is


def _rows(head, seq):
    """Return elements of one shape as the bytes of a sequence."""
    first = seq[0]
    nbytes = first.nbytes
    rows = np.empty((len(seq), len(head) + nbytes), np.uint8)
    rows[:, : len(head)] = np.frombuffer(head, np.uint8)
    if nbytes:
        # Elements of one shape lie the same along their first axis as along a new one, which the highest rank
        # has no room for.
        data = raw_bytes(concat_from_sequence(seq, axis=0, new_axis=int(first.ndim == 0)))
        rows[:, len(head) :] = np.ndarray((len(seq), nbytes), np.uint8, data)
    return rows.tobytes()
