"""Producers of Arrow's C data interface, by ctypes: foreign memory in every form that the interface allows.

`Node` and `Stream` count how often they were released, and spoil their memory then: who reads it afterwards
reads nonsense.
"""

import ctypes
import gc
import itertools
from ctypes import POINTER, PYFUNCTYPE, c_char_p, c_void_p, py_object
from struct import pack

import numpy as np
from support.arrow.c_data import (
    FORMATS,
    INTO,
    LAST_ERROR,
    NAMES,
    NULLABLE,
    RELEASE,
    Array,
    ArrayStream,
    Schema,
    release,
)

_new_capsule = PYFUNCTYPE(py_object, c_void_p, c_char_p, c_void_p)(("PyCapsule_New", ctypes.pythonapi))

_owned = {}  # what is not released yet, by the number in private_data
_in_capsules = []  # what capsules point to, for good
_capsule_names = {}  # which capsules borrow
_numbers = itertools.count(1)


def _address(function):
    return ctypes.cast(function, c_void_p).value


def _own(producer):
    number = next(_numbers)
    _owned[number] = producer
    return number


@RELEASE
def _release_schema(address):
    schema = Schema.from_address(address)
    node = _owned.pop(schema.private_data)
    node.schema_released += 1
    for one in node.below():
        if one.schema.release:
            release(one.schema)
    schema.release = None


@RELEASE
def _release_array(address):
    array = Array.from_address(address)
    node = _owned.pop(array.private_data)
    node.released += 1
    for one in node.below():
        if one.array.release:
            release(one.array)
    array.release = None
    node.spoil()


def capsule_of(struct, name=None):
    """A capsule that holds a struct without owning it: `settle` does what its destructor would.

    A destructor of Python's own would be no good: capsules are let go of while an exception is on its way.
    """
    _in_capsules.append(struct)
    name = NAMES[type(struct)] if name is None else _capsule_names.setdefault(name, name)
    return _new_capsule(ctypes.addressof(struct), name, None)


def settle(*structs):
    """Release what nobody took."""
    for one in structs:
        if one.release:
            release(one)


class Node:
    """An array and its schema, with their children, in buffers that are spoilt at the release.

    A buffer is a NumPy array, None for NULL, or an address.
    """

    def __init__(
        self,
        format,
        length,
        buffers=(),
        children=(),
        *,
        null_count=0,
        offset=0,
        name=b"item",
        metadata=None,
        dictionary=None,
    ):
        self.buffers, self.children, self.dictionary = list(buffers), list(children), dictionary
        self.released = self.schema_released = 0
        self.metadata = None if metadata is None else _packed(metadata)
        n = len(self.children)
        self.schema = Schema(
            format=format.encode() if isinstance(format, str) else format,
            name=name,
            metadata=None if metadata is None else _address(self.metadata),
            flags=NULLABLE,
            n_children=n,
            children=(POINTER(Schema) * n)(*(ctypes.pointer(one.schema) for one in self.children)),
            release=_address(_release_schema),
            private_data=_own(self),
        )
        self.array = Array(
            length=length,
            null_count=null_count,
            offset=offset,
            n_buffers=len(self.buffers),
            n_children=n,
            buffers=(c_void_p * max(len(self.buffers), 1))(*map(_place, self.buffers)),
            children=(POINTER(Array) * n)(*(ctypes.pointer(one.array) for one in self.children)),
            release=_address(_release_array),
            private_data=_own(self),
        )
        if dictionary is not None:
            self.schema.dictionary = ctypes.pointer(dictionary.schema)
            self.array.dictionary = ctypes.pointer(dictionary.array)

    def spoil(self):
        for one in self.buffers:
            if isinstance(one, np.ndarray) and one.nbytes:
                ctypes.memset(one.ctypes.data, 0xA5, one.nbytes)

    def __arrow_c_schema__(self):
        return capsule_of(self.schema)

    def __arrow_c_array__(self, requested_schema=None):
        return capsule_of(self.schema), capsule_of(self.array)

    def counts(self):
        """How often the arrays of this and of all below were released."""
        return [self.released, *itertools.chain(*(one.counts() for one in self.below()))]

    def settled(self):
        """Whether all of it was released once, after what the capsules' destructors would do."""
        settle(self.schema, self.array)
        return self._released_once() or (gc.collect() >= 0 and self._released_once())

    def below(self):
        return [*self.children, *([] if self.dictionary is None else [self.dictionary])]

    def _released_once(self):
        once = self.released == self.schema_released == 1
        return once and all(one._released_once() for one in self.below())


def _place(buffer):
    return buffer.ctypes.data if isinstance(buffer, np.ndarray) else buffer


def _packed(pairs):
    text = pack("i", len(pairs))
    for one in itertools.chain.from_iterable(pairs.items()):
        text += pack("i", len(one)) + one
    return ctypes.create_string_buffer(text, len(text))


def numbers(array, *, offset=0, **options):
    """A plain array of numbers, in the very memory that is given."""
    return Node(FORMATS[array.dtype.name], len(array) - offset, [None, array], offset=offset, **options)


def bits(flags):
    """Eight to a byte, as validity and bools are."""
    return np.packbits(np.array(flags, bool), bitorder="little")


def lists(offsets, items, *, offset=0, valid=None, **options):
    """A list array over another; the width of the offsets says which."""
    code = {4: "+l", 8: "+L"}[offsets.dtype.itemsize]
    return Node(code, len(offsets) - 1 - offset, [valid, offsets], [items], offset=offset, **options)


def fixed_size_lists(size, length, items, *, valid=None, **options):
    return Node(f"+w:{size}", length, [valid], [items], **options)


class Stream:
    """A producer of chunks, which may fail: at the schema, or at the chunk of a number.

    `like` makes a node whose schema is given; the chunks are nodes of that type.
    """

    def __init__(self, like, chunks, *, fails_at=None, errno=5, message=b"the disk is gone"):
        self.like, self.chunks, self.schemas = like, list(chunks), []
        self.fails_at, self.errno, self.message = fails_at, errno, message
        self.released = self.given = 0
        for one in self.chunks:
            release(one.schema)
        self.stream = ArrayStream(
            get_schema=_address(_get_schema),
            get_next=_address(_get_next),
            get_last_error=_address(_get_last_error),
            release=_address(_release_stream),
            private_data=_own(self),
        )

    def __arrow_c_stream__(self, requested_schema=None):
        return capsule_of(self.stream)

    def settled(self):
        """Whether it and all that it gave away was released once."""
        settle(self.stream)
        return self._released_once() or (gc.collect() >= 0 and self._released_once())

    def _released_once(self):
        return self.released == 1 and all(one._released_once() for one in [*self.schemas, *self.chunks])


def _stream_at(address):
    return _owned[ArrayStream.from_address(address).private_data]


def _give(struct, into):
    ctypes.memmove(into, ctypes.byref(struct), ctypes.sizeof(struct))
    struct.release = None


@INTO
def _get_schema(address, into):
    stream = _stream_at(address)
    if stream.fails_at == "schema":
        return stream.errno
    node = stream.like()
    stream.schemas.append(node)
    release(node.array)
    _give(node.schema, into)
    return 0


@INTO
def _get_next(address, into):
    stream = _stream_at(address)
    if stream.fails_at == stream.given:
        return stream.errno
    if stream.given < len(stream.chunks):
        stream.given += 1
        _give(stream.chunks[stream.given - 1].array, into)
    else:
        ctypes.memset(into, 0, ctypes.sizeof(Array))
    return 0


@LAST_ERROR
def _get_last_error(address):
    stream = _stream_at(address)
    stream.text = None if stream.message is None else ctypes.create_string_buffer(stream.message)
    return None if stream.text is None else _address(stream.text)


@RELEASE
def _release_stream(address):
    struct = ArrayStream.from_address(address)
    stream = _owned.pop(struct.private_data)
    stream.released += 1
    for one in stream.chunks[stream.given :]:
        release(one.array)
    struct.release = None
