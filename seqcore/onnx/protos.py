"""Sequences as ONNX's SequenceProto, the form of its test data, and back."""

import itertools
import math
import os

import numpy as np
from google.protobuf.message import DecodeError, EncodeError, Message
from onnx import SequenceProto

from seqcore._sequence import TensorSequence
from seqcore.dtypes import STRING, element_type, type_name
from seqcore.onnx._graphs import tensor_type
from seqcore.onnx._tensor_protos import array_of, field_head, field_tag, plain_head, raw_bytes, read_tensor
from seqcore.operators import as_sequence, concat_from_sequence, split_to_sequence

__all__ = ["from_proto", "to_proto"]

_LIMIT = 2**31 - 1  # of protobuf, for the bytes of a message

# Tensors up to this many bytes go many at a time; beyond it a copy costs more than that saves.
_SMALL = 4096
# So many are written at a time.
_BLOCK = 512
# From this length on, elements of one shape are read as rows.
_A_RUN = 16
# What a sequence's bytes have before each element: the number and kind of its field.
_ELEMENT = field_tag(SequenceProto.TENSOR_VALUES_FIELD_NUMBER)


# The bytes of a sequence of plain tensors, of which those of one shape are rows of one length:
#
#     name elem_type | head raw_data | head raw_data | head raw_data | …
#
# where a head is the field's number, the tensor's length, its shape and type, and its data's length. Protobuf
# itself takes some 30 ns for a row; each of its Python objects takes a microsecond.


def to_proto(seq, name=""):
    """Return a sequence as a `SequenceProto`. O(n), and one copy of the data.

    Parameters
    ----------
    seq : TensorSequence or list or tuple of array_like
        An empty list is taken for a sequence of float32.
    name : str, optional
        The message's `name`.

    Returns
    -------
    onnx.SequenceProto
        Its tensors have their values in `raw_data`, strings in `string_data`. An empty one does not tell
        its tensor type: ONNX has no field for that.

    Raises
    ------
    ValueError
        If it would be larger than the 2 GB that protobuf allows, or a string has no UTF-8.
    TypeError
        If `seq` is no sequence of tensors of one type, or the name is no string.

    Examples
    --------
    >>> proto = to_proto([[1, 2], [3]], name="tokens")
    >>> proto.name, [list(tensor.dims) for tensor in proto.tensor_values]
    ('tokens', [[2], [1]])
    >>> from_proto(proto)
    <TensorSequence of 2 int64 tensors: (2,) (1,)>
    """
    if not isinstance(name, str):
        raise TypeError(f"the name of a SequenceProto is a str, not {type(name).__name__}")
    seq = as_sequence(seq)[:]  # other threads may edit it
    proto = SequenceProto(elem_type=SequenceProto.TENSOR)
    if name:
        proto.name = name
    if seq.dtype == STRING:
        _put_strings(proto, seq)
    else:
        _put_numbers(proto, seq)
    return proto


def from_proto(proto, dtype=None):
    """Return the sequence that a `SequenceProto` holds. O(n).

    Parameters
    ----------
    proto : onnx.SequenceProto, bytes, str or os.PathLike
        A message, its bytes, or the path to a file of them, such as the `input_0.pb` of ONNX's tests.
    dtype : data-type, optional
        The element type. It has to be given where the sequence may be empty, since an empty
        `SequenceProto` does not tell it. It never casts.

    Returns
    -------
    TensorSequence
        Small elements may share one buffer; `compact` of a few of them lets it go.

    Raises
    ------
    ValueError
        If the bytes are none of a SequenceProto, or it is damaged, contradicts itself or keeps data in other
        files; or if it is empty and there is no `dtype`.
    TypeError
        If it is a sequence of something else than tensors, or of a type that sequences don't have, or its
        elements are of several types or not of `dtype`.

    Notes
    -----
    Whatever the bytes are, no more memory is taken than in proportion to their number.

    Examples
    --------
    >>> from onnx import numpy_helper
    >>> proto = numpy_helper.from_list([np.zeros((2, 3)), np.ones(4)])
    >>> from_proto(proto)
    <TensorSequence of 2 float64 tensors: (2, 3) (4,)>
    >>> from_proto(to_proto([]), dtype="int8")
    <TensorSequence of 0 int8 tensors>
    """
    dtype = None if dtype is None else element_type(dtype)
    if isinstance(proto, SequenceProto):
        return _read(proto, dtype)
    if isinstance(proto, bytes | bytearray | memoryview):
        return _read(_parsed(bytes(proto)), dtype)
    if not isinstance(proto, str | os.PathLike):
        what = f"{type(proto).__name__}"
        hint = ": a tensor or an optional is no sequence" if isinstance(proto, Message) else ""
        raise TypeError(f"a sequence is read from a SequenceProto, its bytes or a path, not a {what}{hint}")
    try:
        with open(proto, "rb") as file:
            _check_size(os.fstat(file.fileno()).st_size)
            return _read(_parsed(file.read()), dtype)
    except (ValueError, TypeError) as error:
        error.add_note(f"in the file {os.fspath(proto)!r}")
        raise


# -- writing -----------------------------------------------------------------------------------------


def _put_strings(proto, seq):
    number = tensor_type(STRING)
    nbytes = 0
    for i, tensor in enumerate(seq):
        try:
            texts = [text.encode() for text in tensor.flat]
        except UnicodeEncodeError as error:
            raise ValueError(f"element {i} has a string without UTF-8: {error}") from None
        nbytes += sum(map(len, texts)) + 6 * len(texts)  # each with a head
        _check_size(nbytes)
        proto.tensor_values.add(dims=tensor.shape, data_type=number, string_data=texts)


def _put_numbers(proto, seq):
    dtype = seq.dtype
    _check_size(seq.nbytes)
    shapes = seq.shapes
    heads = {}
    size = 0
    for start in range(0, len(seq), _BLOCK):
        block = seq[start : start + _BLOCK]
        block_shapes = shapes[start : start + _BLOCK]
        distinct = set(block_shapes)
        for shape in distinct - heads.keys():
            heads[shape] = _element_head(dtype, shape)
        if max(math.prod(shape) for shape in distinct) * dtype.itemsize > _SMALL:
            size += block.nbytes + sum(len(heads[shape]) for shape in block_shapes)
            _check_size(size)
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
        _check_size(size)
        proto.MergeFromString(data)  # behind what there is


def _element_head(dtype, shape):
    """Return the bytes of a sequence that stand before the data of an element."""
    head = plain_head(dtype, shape)
    return field_head(_ELEMENT, len(head) + math.prod(shape) * dtype.itemsize) + head


def _rows(head, seq):
    """Return elements of one shape as the bytes of a sequence."""
    nbytes = seq[0].nbytes
    rows = np.empty((len(seq), len(head) + nbytes), np.uint8)
    rows[:, : len(head)] = np.frombuffer(head, np.uint8)
    if nbytes:
        data = raw_bytes(concat_from_sequence(seq, axis=0, new_axis=1))
        rows[:, len(head) :] = np.ndarray((len(seq), nbytes), np.uint8, data)
    return rows.tobytes()


# -- reading -----------------------------------------------------------------------------------------


def _parsed(data):
    _check_size(len(data))
    try:
        return SequenceProto.FromString(data)
    except DecodeError as error:
        raise ValueError(f"these {len(data)} bytes are no SequenceProto, or are cut short: {error}") from None


def _check_size(nbytes):
    if nbytes > _LIMIT:
        raise ValueError(
            f"{nbytes:,} bytes are too many for a SequenceProto: "
            f"a message of protobuf has at most {_LIMIT:,}; make several of shorter sequences"
        )


def _read(proto, dtype):
    _check_message(proto)
    tensors = proto.tensor_values
    if not len(tensors):
        if dtype is None:
            raise ValueError(
                "an empty SequenceProto does not tell its tensor type: name one, "
                "as in from_proto(proto, dtype='float32')"
            )
        return TensorSequence(dtype=dtype)
    first = _element(tensors[0], 0, dtype)
    if first.dtype == STRING:
        return TensorSequence(_strings(tensors))
    data, at = _bytes_of_small(proto, first)
    if data is None:
        return TensorSequence([_element(tensor, i, first.dtype) for i, tensor in enumerate(tensors)])
    result = _leading_run(data, at, len(tensors), first)
    at += len(result) * (len(_element_head(first.dtype, first.shape)) + first.nbytes)
    result.extend(_scanned(data, at, tensors, len(result), first.dtype))
    return result


def _check_message(proto):
    kind = proto.elem_type
    if kind not in SequenceProto.DataType.values():
        raise ValueError(f"elem_type {kind} of the SequenceProto is none of ONNX's")
    if _has_unknown_fields(proto):
        raise ValueError("this is another message, or damaged: it has fields that no SequenceProto has")
    if kind == SequenceProto.UNDEFINED:
        raise ValueError(
            "the SequenceProto does not tell of what it is a sequence: its elem_type is undefined"
        )
    if kind != SequenceProto.TENSOR:
        word = SequenceProto.DataType.Name(kind).lower().replace("_", " ")
        raise TypeError(f"a SequenceProto of elem_type {word}: a TensorSequence has tensors only")
    others = ("sparse_tensor_values", "sequence_values", "map_values", "optional_values")
    present = [field for field in others if len(getattr(proto, field))]
    if present:
        raise ValueError(f"the SequenceProto is of tensors, but it has {' and '.join(present)}")


def _has_unknown_fields(proto):
    try:
        from google.protobuf.unknown_fields import UnknownFieldSet
    except ImportError:  # protobuf before 4.22
        return len(proto.UnknownFields()) > 0
    return len(UnknownFieldSet(proto)) > 0


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
        # Before each string stand two bytes, or more if it is long. Then this is no head that we know.
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
    if first.nbytes > _SMALL:
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
    return (data, len(begin)) if data.startswith(begin + _ELEMENT) else (None, 0)


def _leading_run(data, at, n, first):
    """Return the first elements as far as they are plain and of one shape, if these are worth a look."""
    head = _element_head(first.dtype, first.shape)
    width = len(head) + first.nbytes
    n = min(n, (len(data) - at) // width)
    if n < _A_RUN:
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
            head = _element_head(dtype, array.shape)
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
