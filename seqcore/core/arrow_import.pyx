"""Columns that others give: their capsules become a tree of types and NumPy arrays over their memory.

::

    ArrowArray ──moved──▶ Arrived ◀──base── arrays ◀── elements
                             └─ release, when the last of them is gone

The interface says nothing of how long buffers are: a producer is trusted that they are as long as lengths and
offsets say. These are checked: the numbers of buffers and children that a type has, and NULL.
"""

from cpython.exc cimport PyErr_CheckSignals
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_IsValid
from cpython.ref cimport PyObject
from libc.errno cimport ENOMEM
from libc.stdint cimport int32_t, int64_t, uintptr_t
from libc.string cimport memcpy, memset
cimport cython
cimport numpy as cnp
import numpy as np

from seqcore.core.arrays cimport array_from
from seqcore.core.arrow cimport ARROW_NULLABLE, ArrowArray, ArrowArrayStream, ArrowSchema
from seqcore.core.source cimport MAX_BYTES

from seqcore._arrow.fields import Chunk, Field
from seqcore._arguments.shown import shown

cnp.import_array()

cdef enum:
    DEEPEST = 200               # levels of types: NumPy's arrays have 64 axes


@cython.final
@cython.no_gc
cdef class Arrived:
    """An array of somebody's, which is released with this object."""
    cdef ArrowArray array

    def __dealloc__(self):
        if self.array.release != NULL:
            self.array.release(&self.array)

    def view(self, uintptr_t address, cnp.dtype dtype, Py_ssize_t start, Py_ssize_t count):
        """Items of a buffer as a read-only array, without a copy."""
        cdef Py_ssize_t[1] shape
        shape[0] = count
        if count == 0:
            return np.empty(0, dtype)
        if start < 0 or count < 0 or start > MAX_BYTES // dtype.itemsize - count:
            raise ValueError(f"the Arrow array is damaged: it has {count} items from {start} on")
        if address == 0:
            raise ValueError("the Arrow array is damaged: it lacks a buffer that its type requires")
        return array_from(<PyObject *>dtype, 1, shape, NULL, <char *>address + start * dtype.itemsize,
                          <PyObject *>self)


# -- schemas -----------------------------------------------------------------------------------------

cdef object text_of(const char *text):
    return "" if text == NULL else (<bytes>text).decode("utf-8", "backslashreplace")


cdef object read_field(const ArrowSchema *schema, int level):
    """A schema as a Field, which outlives it."""
    cdef int64_t i
    cdef list children = []
    PyErr_CheckSignals()            # children may be the same struct, so that few structs are many fields
    if level > DEEPEST:
        raise ValueError(f"the Arrow type is nested more than {DEEPEST} levels deep, too deep for a tensor")
    if schema == NULL or schema.release == NULL or schema.format == NULL:
        raise ValueError("the Arrow schema lacks a type, or was released")
    if schema.n_children < 0 or (schema.n_children and schema.children == NULL):
        raise ValueError(f"the Arrow schema is damaged: it counts {schema.n_children} children, but has no "
                         "pointer to them")
    for i in range(schema.n_children):
        children.append(read_field(schema.children[i], level + 1))
    dictionary = None if schema.dictionary == NULL else read_field(schema.dictionary, level + 1)
    return Field(text_of(schema.format), text_of(schema.name), tuple(children), unpacked(schema.metadata),
                 bool(schema.flags & ARROW_NULLABLE), dictionary)


cdef dict unpacked(const char *metadata):
    cdef dict pairs = {}
    cdef int32_t count = 0
    if metadata != NULL:
        memcpy(&count, metadata, 4)
        metadata += 4
    for _ in range(count):
        key, metadata_at = next_text(metadata)
        metadata = <const char *><uintptr_t>metadata_at
        value, metadata_at = next_text(metadata)
        metadata = <const char *><uintptr_t>metadata_at
        pairs[key] = value
    return pairs


cdef tuple next_text(const char *at):
    cdef int32_t nbytes
    memcpy(&nbytes, at, 4)
    if nbytes < 0:
        raise ValueError("the Arrow schema is damaged: its metadata has a negative length")
    return at[4:4 + nbytes].decode("utf-8", "backslashreplace"), <uintptr_t>(at + 4 + nbytes)


def read_schema(capsule):
    """The Field of a schema's capsule, which keeps what it has."""
    return read_field(<const ArrowSchema *>pointer_of(capsule, "arrow_schema"), 0)


cdef void *pointer_of(capsule, const char *name) except NULL:
    if not PyCapsule_IsValid(capsule, name):
        raise TypeError(f"expected a capsule with the name {name.decode()}, got {shown(capsule)}")
    return PyCapsule_GetPointer(capsule, name)


# -- arrays ------------------------------------------------------------------------------------------

cdef object read_chunk(const ArrowArray *array, object field, Arrived memory):
    """An array as a Chunk of its field, its memory kept by `memory`."""
    cdef int64_t i
    cdef list addresses = []
    cdef list children = []
    if array == NULL or array.release == NULL:
        raise ValueError("the Arrow array lacks a child that its type requires, or was released")
    if array.length < 0 or array.offset < 0 or array.length > MAX_BYTES - array.offset:
        raise ValueError(f"the Arrow array is damaged: it has length {array.length} and offset "
                         f"{array.offset}")
    if array.n_buffers < 0 or (array.n_buffers and array.buffers == NULL):
        raise ValueError(f"the Arrow array is damaged: it counts {array.n_buffers} buffers, but has no "
                         "pointer to them")
    if array.n_children != len(field.children) or (array.dictionary == NULL) != (field.dictionary is None):
        raise ValueError(f"the Arrow array is damaged: it has {array.n_children} children, but its type, "
                         f"{field.type_name}, has {len(field.children)}")
    if array.n_children and array.children == NULL:
        raise ValueError(f"the Arrow array is damaged: it counts {array.n_children} children, but has no "
                         "pointer to them")
    for i in range(array.n_buffers):
        addresses.append(<uintptr_t>array.buffers[i])
    for i in range(array.n_children):
        children.append(read_chunk(array.children[i], field.children[i], memory))
    dictionary = None
    if array.dictionary != NULL:
        dictionary = read_chunk(array.dictionary, field.dictionary, memory)
    return Chunk(field, array.length, array.offset, array.null_count, tuple(addresses), tuple(children),
                 dictionary, memory)


cdef object move_out(ArrowArray *array, object field, object holder):
    """A Chunk that owns an array from now on, which `holder` has had."""
    cdef Arrived memory = Arrived.__new__(Arrived)
    with cython.critical_section(holder):       # or two threads could take it at once
        memory.array = array[0]
        array.release = NULL
    if memory.array.release == NULL:
        raise ValueError("the Arrow array was released or taken already: export it again")
    return read_chunk(&memory.array, field, memory)


def read_array(schema, capsule):
    """The Chunk of the capsules of a type and of an array, which is taken out of its capsule."""
    cdef ArrowArray *array = <ArrowArray *>pointer_of(capsule, "arrow_array")
    return move_out(array, read_schema(schema), capsule)


# -- streams -----------------------------------------------------------------------------------------

@cython.final
@cython.no_gc
cdef class Stream:
    """A stream of somebody's: its field, and an iterator over its chunks."""
    cdef ArrowArrayStream stream
    cdef readonly object field

    def __dealloc__(self):
        if self.stream.release != NULL:
            self.stream.release(&self.stream)

    def __iter__(self):
        return self

    def __next__(self):
        cdef ArrowArray array
        cdef int status
        if self.stream.release == NULL:
            raise ValueError("this Stream has no producer: read_stream makes a Stream")
        memset(&array, 0, sizeof(ArrowArray))
        with nogil:
            status = self.stream.get_next(&self.stream, &array)
        if status:
            raise_for(&self.stream, status)
        if array.release == NULL:
            raise StopIteration
        return move_out(&array, self.field, self)


cdef int raise_for(ArrowArrayStream *stream, int status) except -1:
    cdef const char *text = NULL
    if stream.get_last_error != NULL:
        text = stream.get_last_error(stream)
    PyErr_CheckSignals()            # Ctrl-C in the producer
    reason = f"the producer of the Arrow stream failed: {text_of(text) or 'it gave no reason'}"
    raise MemoryError(reason) if status == ENOMEM else OSError(status, reason)


def read_stream(capsule):
    """The Stream of a stream's capsule, which is taken out of it."""
    cdef ArrowArrayStream *given = <ArrowArrayStream *>pointer_of(capsule, "arrow_array_stream")
    cdef Stream stream = Stream.__new__(Stream)
    cdef ArrowSchema schema
    cdef int status
    with cython.critical_section(capsule):      # or two threads could take it at once
        stream.stream = given[0]
        given.release = NULL
    if stream.stream.release == NULL:
        raise ValueError("the Arrow stream was released or taken already: export it again")
    if stream.stream.get_schema == NULL or stream.stream.get_next == NULL:
        raise ValueError("the Arrow stream is damaged: it lacks get_schema or get_next")
    memset(&schema, 0, sizeof(ArrowSchema))
    with nogil:
        status = stream.stream.get_schema(&stream.stream, &schema)
    if status:
        raise_for(&stream.stream, status)
    try:
        stream.field = read_field(&schema, 0)
    finally:
        if schema.release != NULL:
            schema.release(&schema)
    return stream
