"""Bytes of a SequenceProto, damaged or of odd parts: a sequence, or an exception that says what is wrong."""

import random

import numpy as np
from google.protobuf.message import DecodeError
from hardening.fuzz.tape import Tape, bits, filled
from onnx import SequenceProto, TensorProto, numpy_helper
from support.damage import OF_BYTES
from support.strategies import NAMES, dtype_of

from seqcore import TensorSequence
from seqcore.onnx import from_proto, to_proto
from seqcore.onnx._model.tensors import tensor_type
from seqcore.onnx.protos import read_tensor

FIELDS = ("float_data", "int32_data", "int64_data", "double_data", "uint64_data", "string_data", "raw_data")
MOST_BYTES = 1 << 16  # of an input


# --- a message out of parts ---


def plain_tensor(tape, name, shape):
    array = filled(name, shape, tape.byte())
    tensor = TensorProto(dims=shape, data_type=tensor_type(array.dtype))
    if name == "string":
        tensor.string_data.extend(text.encode() for text in array.flat)
    else:
        tensor.raw_data = array.tobytes()
    return tensor


def odd_tensor(tape):
    """A tensor with any of what a tensor can have."""
    tensor = TensorProto()
    for _ in range(tape.between(1, 5)):
        way = tape.below(10)
        if way <= 1:
            tensor.data_type = tape.pick([tensor_type(dtype_of(tape.pick(NAMES))), tape.byte(), -1])
        elif way <= 3:
            tensor.dims.append(tape.pick([0, 1, 2, 3, 3, 16, -1, 1 << 31, (1 << 63) - 1, 1 << 40]))
        elif way == 4:
            tensor.raw_data = tape.data[tape.at : tape.at + tape.below(40)]
        elif way == 5:
            add_values(tape, tensor, tape.pick(FIELDS))
        elif way == 6:
            tensor.data_location = tape.below(2)
        elif way == 7:
            tensor.external_data.add(key=tape.pick(["location", "offset"]), value=tape.pick(["a", "-1"]))
        elif way == 8:
            tensor.segment.begin = tape.below(3)
        else:
            tensor.name = tensor.doc_string = "name"[: tape.below(5)]
    return tensor


def add_values(tape, tensor, field):
    if field == "raw_data":
        tensor.raw_data = bytes(tape.byte() for _ in range(tape.below(20)))
        return
    values = getattr(tensor, field)
    for _ in range(tape.below(7)):
        if field == "string_data":
            values.append(tape.pick([b"", b"a", b"\xff", "é".encode(), b"\0", b"x" * 200]))
        elif field == "uint64_data":
            values.append(tape.pick([0, 1, 255, 1 << 32, (1 << 64) - 1]))
        elif field == "int64_data":
            values.append(tape.pick([0, 1, -1, (1 << 63) - 1, -(1 << 63)]))
        elif field == "int32_data":
            values.append(tape.pick([0, 1, 2, -1, 127, 128, -129, 256, 65535, 65536, -(1 << 31)]))
        else:
            values.append(tape.pick([0.0, 1.0, -0.5, float("nan"), float("inf")]))


def typed_tensor(tape, name, shape):
    """A valid tensor with its values in a typed field."""
    array = filled(name, shape, tape.byte())
    number = tensor_type(array.dtype)
    tensor = TensorProto(dims=shape, data_type=number)
    if name in ("float16", "bfloat16"):
        tensor.int32_data.extend(array.view(np.uint16).reshape(-1).tolist())
    elif name in ("complex64", "complex128"):
        parts = array.reshape(-1).view(array.real.dtype).tolist()
        (tensor.float_data if name == "complex64" else tensor.double_data).extend(parts)
    elif name == "string":
        tensor.string_data.extend(text.encode() for text in array.flat)
    elif name in ("float32", "float64"):
        (tensor.float_data if name == "float32" else tensor.double_data).extend(array.reshape(-1).tolist())
    elif name in ("int64", "uint32", "uint64"):
        (tensor.int64_data if name == "int64" else tensor.uint64_data).extend(array.reshape(-1).tolist())
    else:
        tensor.int32_data.extend(array.reshape(-1).astype(int).tolist())
    return tensor


def built(tape):
    """The bytes of a message of runs of tensors: plain, typed and odd ones."""
    proto = SequenceProto(elem_type=SequenceProto.TENSOR)
    if tape.chance(4):
        proto.name = "é" * tape.below(100)
    if tape.chance(16):
        proto.elem_type = tape.below(8)
    if tape.chance(32):
        tape.pick([proto.sequence_values, proto.map_values, proto.optional_values]).add()
    name = tape.pick(NAMES)
    for _ in range(tape.between(0, 4)):
        way = tape.below(8)
        name = tape.pick(NAMES) if tape.chance(16) else name
        shape = tape.shape(most=2, longest=4)
        large = tape.chance(16)
        if large:
            shape = (tape.byte() * 20,)
        if way <= 4:
            tensor = plain_tensor(tape, name, shape)
        elif way <= 6:
            tensor = typed_tensor(tape, name, shape)
        else:
            tensor = odd_tensor(tape)
        for _ in range(tape.pick([1, 2, 1, 2, 3] if large else [1, 2, 15, 16, 32])):
            proto.tensor_values.append(tensor)
        if tape.chance(8):
            odd = odd_tensor(tape)
            odd.MergeFrom(tensor)
            proto.tensor_values.append(odd)
    return proto.SerializeToString()


def damaged(tape, data):
    for _ in range(tape.below(4)):
        how, rng = tape.pick(OF_BYTES), random.Random(tape.byte() << 8 | tape.byte())
        data = how(data, rng) if data else data
    return data


# --- the target ---


def run(data):
    tape = Tape(data[:MOST_BYTES])
    way = tape.below(4)
    dtype = tape.pick(NAMES) if tape.chance(4) else None
    if way == 0:
        check(tape.rest(), dtype)
    elif way == 1:
        tensor = tape.rest()
        head = SequenceProto(elem_type=SequenceProto.TENSOR).SerializeToString()
        field = b"\x12" + varint(len(tensor)) + tensor
        check(head + field * (32 if len(tensor) < 200 else 2), dtype)
    else:
        message = built(tape)
        check(damaged(tape, message) if way == 3 else message, dtype)


def check(data, dtype):
    found = read(lambda: from_proto(data, dtype))
    try:
        proto = SequenceProto.FromString(data)
    except (DecodeError, UnicodeDecodeError):  # the latter where protobuf is Python's alone
        assert isinstance(found, Exception)
        return
    assert_alike(found, read(lambda: from_proto(proto, dtype)))
    assert_alike(found, read(lambda: one_by_one(proto, dtype)), exact=False)
    if isinstance(found, Exception):
        assert str(found)
        return
    found._check()
    for tensor, array in zip(proto.tensor_values, found, strict=True):
        if array.dtype == object:  # onnx makes fixed-width text of it on the way, which loses NULs
            assert array.shape == tuple(tensor.dims)
            assert array.reshape(-1).tolist() == [text.decode() for text in tensor.string_data]
        else:
            assert bits(array) == bits(numpy_helper.to_array(tensor))
    again = from_proto(to_proto(found, proto.name), found.dtype)
    assert_alike(found, again)
    found.compact()
    assert_alike(found, again)


def one_by_one(proto, dtype):
    """The same by tensor; None where the fault is of the message, not of a tensor."""
    if proto.elem_type != SequenceProto.TENSOR or not proto.tensor_values:
        return None
    arrays = [read_tensor(tensor) for tensor in proto.tensor_values]
    kinds = {array.dtype for array in arrays}
    if len(kinds) > 1 or (dtype is not None and kinds != {dtype_of(dtype)}):
        raise TypeError("several types")
    return TensorSequence(arrays)


def read(work):
    """A sequence, or an exception of the two documented kinds, and of no subclass."""
    try:
        return work()
    except (ValueError, TypeError) as error:
        if type(error) not in (ValueError, TypeError):
            raise
        return error


def assert_alike(found, other, exact=True):
    if other is None:
        return
    if isinstance(found, Exception):
        # What is wrong with the message as a whole is said before an element is looked at.
        assert not exact or (type(other), str(other)) == (type(found), str(found))
        return
    assert not isinstance(other, Exception), other
    assert [bits(one) for one in found] == [bits(one) for one in other]
    assert found.dtype == other.dtype


def varint(number):
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def seeds():
    """Messages of each type, whole, by tensor, and as orders to build them."""
    for i, name in enumerate(NAMES):
        tape = Tape(b"\1")
        for shapes in ([(2, 3), (), (0,), (2, 3)], [(2,)] * 18, [(3,), (1,), (2,)] * 2):
            proto = to_proto([filled(name, shape, 1) for shape in shapes], name="name")
            yield b"\0\0" + proto.SerializeToString()
        for make in (plain_tensor, typed_tensor):
            yield b"\1\0" + make(tape, name, (2, 3)).SerializeToString()
            proto = SequenceProto(elem_type=1, tensor_values=[make(tape, name, (2,))] * 3)
            yield b"\0\0" + proto.SerializeToString()
        for way in range(8):
            shape = [0, 1, 2, *([15, 30 * way] if way % 2 else [0])]
            yield bytes([2, 0, 0, 0, 0, i, 2, way, *shape, 1, way, 0, 7, 0, 1, 1, 3, 0, 2, 5, 1, 4, 2])
            yield bytes([3, 0, 0, 0, 0, i, 1, way, *shape, 1, 3, 0, 2, 0, 9, way % 4, 8, 0, 20, 1, 3])
    wrong = to_proto([filled("bool", (3,), 1)] * 32)
    wrong.tensor_values[17].raw_data = b"\0\1\2"
    yield b"\0\0" + wrong.SerializeToString()
    odd = TensorProto(dims=[2], data_type=1, raw_data=bytes(8), data_location=TensorProto.EXTERNAL)
    odd.external_data.add(key="location", value="elsewhere")
    yield b"\1\0" + odd.SerializeToString()
    odd = TensorProto(dims=[2], data_type=1, raw_data=bytes(8), name="name", doc_string="text")
    odd.segment.end = 2
    yield b"\1\0" + odd.SerializeToString()


# Inputs that once found a fault, with what it was.
FOUND = []
