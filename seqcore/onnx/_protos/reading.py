"""Tensors out of the bytes of a SequenceProto: what is met again and again is read without a closer look."""

import itertools
import math

import numpy as np
from google.protobuf.message import EncodeError
from onnx import SequenceProto

from seqcore.core.sequence import TensorSequence
from seqcore.dtypes import STRING, type_name
from seqcore.onnx._protos.tensors import ELEMENT, SMALL, array_of, element_head, plain_head, read_tensor
from seqcore.operators import split_to_sequence

# From this length on, elements of one shape are read as rows.
A_RUN = 16


def read_elements(proto, dtype):
    """Return the elements of a SequenceProto that has some, of a type if one is given."""
    tensors = proto.tensor_values
    first = _element(tensors[0], 0, dtype)
    if first.dtype == STRING:
        return TensorSequence(_strings(tensors))
    data, at = _bytes_of_small(proto, first)
    if data is None:
        return TensorSequence([_element(tensor, i, first.dtype) for i, tensor in enumerate(tensors)])
    result = _leading_run(data, at, len(tensors), first)
    at += len(result) * (len(element_head(first.dtype, first.shape)) + first.nbytes)
    result.extend(_scanned(data, at, tensors, len(result), first.dtype))
    return result


def _element(tensor, i, dtype):
    """Return the array of an element, of a type if there is one."""
    try:
        array = read_tensor(tensor)
        if dtype is not None and array.dtype != dtype:
            raise TypeError(
                f"it is a tensor of {type_name(array.dtype)}, in a sequence of {type_name(dtype)}"
            )
    except (ValueError, TypeError) as error:
        raise type(error)(f"element {i} of the SequenceProto: {error}") from None
    return array


def _strings(tensors):
    """Return the elements of a sequence of strings, cut from one array."""
    plain = {}  # the bytes before the strings of an element, and their number: its shape
    texts = []
    shapes = []
    for i, tensor in enumerate(tensors):
        encoded = tensor.string_data[:]
        message = tensor.SerializeToString()
        # Before each string stand two bytes, or more if it is long. Then this is another head than ours.
        head = message[: len(message) - sum(map(len, encoded)) - 2 * len(encoded)]
        shape = plain.get((head, len(encoded)))
        decoded = None if shape is None else _decoded(encoded)
        if decoded is None:
            array = _element(tensor, i, STRING)
            shape = array.shape
            decoded = array.reshape(-1).tolist()
            if head == plain_head(STRING, shape):
                plain[head, len(encoded)] = shape
        texts += decoded
        shapes.append(shape)
    whole = np.empty(len(texts), object)
    whole[:] = texts
    if texts and _differ_in_length_only(set(shapes)):
        lengths = [shape[0] for shape in shapes]
        return split_to_sequence(whole.reshape(sum(lengths), *shapes[0][1:]), lengths)
    ends = itertools.accumulate(map(math.prod, shapes))
    return [
        whole[end - math.prod(shape) : end].reshape(shape) for shape, end in zip(shapes, ends, strict=True)
    ]


def _decoded(encoded):
    try:
        return [text.decode() for text in encoded]
    except UnicodeDecodeError:  # which one it is comes out when the tensor is read
        return None


def _bytes_of_small(proto, first):
    """Return the bytes of a message and where its elements begin, None where one by one is as good."""
    if first.nbytes > SMALL:
        return None, 0
    begin = SequenceProto(elem_type=SequenceProto.TENSOR)
    if proto.HasField("name"):
        begin.name = proto.name
    begin = begin.SerializeToString()
    try:
        data = proto.SerializeToString()
    except EncodeError:  # it is larger than a file of it could be
        return None, 0
    # Protobuf writes fields in the order of their numbers. If ever it didn't, we would see it here.
    return (data, len(begin)) if data.startswith(begin + ELEMENT) else (None, 0)


def _leading_run(data, at, n, first):
    """Return the first elements as far as they are plain and of one shape, if these are worth a look."""
    head = element_head(first.dtype, first.shape)
    width = len(head) + first.nbytes
    n = min(n, (len(data) - at) // width)
    if n < A_RUN:
        return TensorSequence(dtype=first.dtype)
    rows = np.ndarray((n, width), np.uint8, data, at)
    same = (rows[:, : len(head)] == np.frombuffer(head, np.uint8)).all(axis=1)
    n = n if same.all() else int(same.argmin())
    try:
        array = array_of(rows[:n, len(head) :].tobytes(), first.dtype, (n, *first.shape))
    except ValueError:  # which element is at fault comes out when they are read one by one
        return TensorSequence(dtype=first.dtype)
    return split_to_sequence(array, keepdims=0)


def _scanned(data, at, tensors, start, dtype):
    """Return the elements from a position on, whose bytes begin at `at`.

    Where the bytes are those of a head that was met before, what follows is its data: a head says how long
    it is itself, so none can be taken for another.
    """
    shapes_of = {}  # by head: an element's shape and the bytes of its data
    lengths = []  # that heads have
    found = []  # the raw data of plain elements, the array of any other
    shapes = []
    all_plain = True
    for i in range(start, len(tensors)):
        known = None
        for length in lengths:
            known = shapes_of.get(data[at : at + length])
            if known is not None:
                break
        if known is None:
            array = _element(tensors[i], i, dtype)
            head = element_head(dtype, array.shape)
            if not data.startswith(head, at):
                found.append(array)
                shapes.append(array.shape)
                all_plain = False
                at = _end_of_field(data, at)
                continue
            length = len(head)
            known = shapes_of[head] = array.shape, array.nbytes
            if length not in lengths:
                lengths.append(length)
        shape, nbytes = known
        raw = data[at + length : at + length + nbytes]
        if dtype.kind == "b" and raw.translate(None, b"\0\1"):
            _element(tensors[i], i, dtype)  # names it
        found.append(raw)
        shapes.append(shape)
        at += length + nbytes
    if all_plain and any(found) and _differ_in_length_only({shape for shape, _ in shapes_of.values()}):
        lengths = [shape[0] for shape in shapes]
        array = array_of(b"".join(found), dtype, (sum(lengths), *shapes[0][1:]))
        return split_to_sequence(array, lengths)
    return [
        one if isinstance(one, np.ndarray) else array_of(one, dtype, shape)
        for one, shape in zip(found, shapes, strict=True)
    ]


def _end_of_field(data, at):
    """Return where a field ends that is a message or bytes."""
    at += 1
    nbytes = shift = 0
    while data[at] > 0x7F:
        nbytes |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
    return at + 1 + (nbytes | data[at] << shift)


def _differ_in_length_only(shapes):
    return () not in shapes and len({shape[1:] for shape in shapes}) == 1
