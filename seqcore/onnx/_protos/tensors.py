"""A TensorProto as an array, with nothing taken on trust, and the bytes that a plain one begins with."""

from __future__ import annotations

import functools
import itertools
import math
import sys

import numpy as np
from google.protobuf.message import EncodeError
from onnx import SequenceProto, TensorProto

from seqcore.core.sequence import TensorSequence
from seqcore.dtypes import STRING, type_name
from seqcore.onnx._model.tensors import dtype_of, tensor_type
from seqcore.operators import concat_from_sequence, split_to_sequence

# Each typed field, the NumPy type of its numbers, and the types that use it.
_FIELDS = {
    "float_data": ("float32", ("float32", "complex64")),
    "int32_data": ("int32", ("bool", "int8", "int16", "int32", "uint8", "uint16", "float16", "bfloat16")),
    "string_data": (None, ("string",)),
    "int64_data": ("int64", ("int64",)),
    "double_data": ("float64", ("float64", "complex128")),
    "uint64_data": ("uint64", ("uint32", "uint64")),
}
_DATA_FIELDS = {*_FIELDS, "raw_data"}
_MOST_DIMENSIONS = 64

# The bytes of a sequence of plain tensors:
#
#     name elem_type | head raw_data | head raw_data | head raw_data | …
#
# A head is the tag of the element's field, the length of the element, its shape and type, the tag of its
# data and their length. So heads of one shape are equal, and such elements are rows of one length. Protobuf
# itself takes about 30 ns for a row; each of its Python objects takes a microsecond.

LIMIT = 2**31 - 1  # of protobuf, for the bytes of a message

# Tensors up to this many bytes go many at a time; beyond it a copy costs more than that saves.
SMALL = 4096


def read_tensor(tensor):
    """Return the array that a TensorProto holds. It may be a read-only view of immutable bytes.

    Raises
    ------
    ValueError
        If the message is damaged, contradicts itself, or keeps its data elsewhere.
    TypeError
        If it is of a type that sequences don't have.
    """
    # One call for all fields: a lookup of each field makes an object each time.
    fields = {field.name: value for field, value in tensor.ListFields()}
    if fields.get("data_location") == TensorProto.EXTERNAL or "external_data" in fields:
        raise ValueError("the data is in another file, and a sequence has no place to look for that")
    if "segment" in fields:
        raise ValueError("it is one segment of a tensor, not a whole one")
    dtype, own_field = _type_of(fields.get("data_type", TensorProto.UNDEFINED))
    shape = tuple(fields.get("dims", ()))
    count = _checked_size(shape, dtype.itemsize)
    present = _DATA_FIELDS & fields.keys()
    field = present.pop() if len(present) == 1 else own_field
    if present or (field != own_field and (field != "raw_data" or dtype == STRING)):
        raise ValueError(_wrong_fields(fields, dtype, own_field))
    values = fields.get(field, ())
    if field == "raw_data":
        if len(values) != count * dtype.itemsize:
            expected = f"{_kind(dtype, shape)} has {count * dtype.itemsize}"
            raise ValueError(f"{len(values)} bytes of raw_data, but {expected}")
        return array_of(values, dtype, shape)
    count *= 2 if dtype.kind == "c" else 1
    if len(values) != count:
        raise ValueError(f"{len(values)} values in {field}, but {_kind(dtype, shape)} has {count}")
    array = _strings(values) if field == "string_data" else _numbers(values, field, dtype)
    return array.reshape(shape)


def array_of(raw, dtype, shape):
    """Return a tensor of raw data of the right length, without a copy where the machine is little-endian."""
    if dtype.kind == "b" and raw.translate(None, b"\0\1"):
        raise ValueError("raw_data of bool tensors has bytes 0 and 1 only, this one has others")
    array = np.ndarray(shape, dtype, raw)
    return array if sys.byteorder == "little" else array.byteswap()


def raw_bytes(array):
    """Return the little-endian bytes of a tensor of numbers."""
    # In one axis, since before NumPy 2.1 tobytes stops at rank 32.
    row = array.reshape(-1)
    return row.tobytes() if sys.byteorder == "little" else row.byteswap().tobytes()


def plain_head(dtype, shape):
    """Return the bytes of a tensor's message up to its data, if it says its shape and type and no more.

    Protobuf writes fields in the order of their numbers, and those of the data come later. Strings have a
    field each, all other data is one: its tag and length are part of the head.
    """
    head = TensorProto(dims=shape, data_type=tensor_type(dtype)).SerializeToString()
    if dtype == STRING:
        return head
    raw_data = field_tag(TensorProto.RAW_DATA_FIELD_NUMBER)
    return head + field_head(raw_data, math.prod(shape) * dtype.itemsize)


def element_head(dtype, shape):
    """Return the bytes of a sequence that stand before the data of an element."""
    head = plain_head(dtype, shape)
    return field_head(ELEMENT, len(head) + math.prod(shape) * dtype.itemsize) + head


def field_tag(number):
    """Return what protobuf writes first of a field of bytes or a message."""
    return bytes([number << 3 | 2])


def field_head(tag, nbytes):
    """Return what protobuf writes of a field before its bytes: the tag, and how many follow."""
    head = bytearray(tag)
    while nbytes > 0x7F:
        head.append(nbytes & 0x7F | 0x80)
        nbytes >>= 7
    head.append(nbytes)
    return bytes(head)


def check_size(nbytes):
    """Raise ValueError if a message would be larger than protobuf allows."""
    if nbytes > LIMIT:
        raise ValueError(
            f"{nbytes:,} bytes are too many for a SequenceProto: "
            f"a message of protobuf has at most {LIMIT:,}; make several of shorter sequences"
        )


# The tag before the length of each element.
ELEMENT = field_tag(SequenceProto.TENSOR_VALUES_FIELD_NUMBER)


@functools.cache
def _type_of(number):
    """Return the element type for one of ONNX's numbers, and the typed field that has its values."""
    if number == TensorProto.UNDEFINED:
        raise ValueError("it has no data_type")
    if number not in TensorProto.DataType.values():
        raise ValueError(f"data_type {number} is none of ONNX's")
    dtype = dtype_of(number)
    if dtype is None:
        word = TensorProto.DataType.Name(number).lower()
        raise TypeError(f"it is a tensor of {word}, a type that sequences don't have")
    name = type_name(dtype)
    return dtype, next(field for field, (_, names) in _FIELDS.items() if name in names)


def _checked_size(shape, itemsize):
    """Return the number of items, after a check that NumPy can have such a shape."""
    if len(shape) > _MOST_DIMENSIONS:
        raise ValueError(f"it has {len(shape)} dimensions; arrays have at most {_MOST_DIMENSIONS}")
    if shape and min(shape) < 0:
        raise ValueError(f"its shape {shape} has a negative length")
    # The lengths that are not zero count for NumPy in empty arrays too.
    if math.prod(filter(None, shape)) * itemsize > sys.maxsize:
        raise ValueError(f"its shape {shape} is too large for any memory")
    return math.prod(shape)


def _wrong_fields(fields, dtype, own_field):
    present = [field for field in (*_FIELDS, "raw_data") if field in fields]
    if len(present) > 1:
        return f"it has data in several fields: {', '.join(present)}"
    allowed = own_field if dtype == STRING else f"{own_field} or raw_data"
    return f"its data is in {present[0]}, but that of {type_name(dtype)} tensors is in {allowed}"


def _kind(dtype, shape):
    return f"a {type_name(dtype)} tensor of shape {shape}"


def _strings(values):
    strings = np.empty(len(values), object)
    try:
        strings[:] = [text.decode() for text in values]
    except UnicodeDecodeError as error:
        i = next(i for i, text in enumerate(values) if text == error.object)
        raise ValueError(f"string {i} is not UTF-8: {error.reason} at byte {error.start}") from None
    return strings


def _numbers(values, field, dtype):
    numbers = np.array(values, _FIELDS[field][0])
    if field in ("float_data", "double_data"):
        return numbers.view(dtype)
    # 16-bit types other than integers are stored as their bits.
    stored = dtype if dtype.kind in "iu" else np.dtype("uint8" if dtype.kind == "b" else "uint16")
    low, high = (0, 1) if dtype.kind == "b" else (np.iinfo(stored).min, np.iinfo(stored).max)
    wrong = (numbers < low) | (numbers > high)
    if wrong.any():
        raise ValueError(
            f"value {wrong.argmax()} in {field} is {numbers[wrong.argmax()]}: {type_name(dtype)} tensors "
            f"have {low} to {high} there"
        )
    return numbers.astype(stored).view(dtype)


# Tensors into the bytes of a SequenceProto: a block at a time, those of one shape as rows of an array.


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


# Tensors out of the bytes of a SequenceProto: what is met again and again is read without a closer look.

# From this length on, elements of one shape are read as rows.
A_RUN = 16


def read_elements(proto, dtype):
    """Return the elements of a SequenceProto that has some, of a type if one is given."""
    tensors = proto.tensor_values
    first = _element(tensors[0], 0, dtype)
    if first.dtype == STRING:
        return TensorSequence(_read_strings(tensors))
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


def _read_strings(tensors):
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
