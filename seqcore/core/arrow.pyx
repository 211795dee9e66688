"""Arrow's C data interface: elements as lists and tensors, in and out, without a copy.

::

    store  → layout →  buffers and offsets  → capsules →  pyarrow, Polars, DuckDB …
    store  ← foreign ←  checked arrays      ← capsules ←  pyarrow, Polars, DuckDB …

Sections::

    arrow_export  capsules for others
    arrow_import  capsules of others
    texts         strings to UTF-8, and back
    foreign       checked layouts to stores
    layout        stores to layouts
"""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_Resize
from cpython.exc cimport PyErr_CheckSignals
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_IsValid, PyCapsule_New
from cpython.ref cimport PyObject, Py_DECREF, Py_INCREF
from cpython.unicode cimport PyUnicode_AsUTF8String, PyUnicode_CheckExact
from libc.errno cimport EINVAL, ENOMEM
from libc.stdint cimport int32_t, int64_t, uintptr_t
from libc.string cimport memcpy, memset
cimport numpy as cnp
cimport cython
import numpy as np

from seqcore.core.arrays cimport array_from, own_view
from seqcore.core.container cimport own_type
from seqcore.core.padding cimport first_other_shape_of, lengths_of, offsets_in_place, offsets_of
from seqcore.core.sequence cimport TensorSequence, new_sequence
from seqcore.core.split_join cimport joined_view, split_equal, split_offsets, split_shaped, split_views
from seqcore.core.store cimport (
    EVEN, MAX_BYTES, MAX_NDIM, NOT_SOLID, OFFSETS, SEPARATE, SHAPED, VIEWS, WHOLE, Block, Piece, Share,
    Source, Span, Spans, Table, begin_blocks, begin_joint_blocks, begin_spans, check_read,
    empty_store, ends_of, extent, extent_in, first_span, kept_memory, next_span, offsets_table, owner_of,
    raise_damaged, read_block, resolve, shaped_table, size_of, solid_row, store_of,
)
from seqcore._arguments.shown import shown
from seqcore.core.fields import TEXT, TEXT_VIEW, Chunk, Column, Field
from seqcore.dtypes import STRING

cnp.import_array()


# == arrow_export ========================================================================================
#
# Columns given away: a tree of NumPy arrays becomes the capsules that other libraries take.
#
# ::
#
#     Column ──▶ ArrowArray ──private_data──▶ one block: its lists of pointers, its children, and
#                     │                       one reference to the Column, so to its arrays
#                     └─ release: the children's, then the reference, then the block
#
# A capsule that nobody takes releases what is in it. A consumer moves the struct out and releases it when it
# likes, from any thread, also when the interpreter has gone.

cdef extern from "Python.h":
    bint Py_IsInitialized() noexcept nogil
    void *PyMem_RawMalloc(size_t) noexcept nogil
    void PyMem_RawFree(void *) noexcept nogil
    void PyErr_SetInterrupt() noexcept


cdef void *allocate(size_t nbytes) except NULL:
    cdef void *block = PyMem_RawMalloc(nbytes)
    if block == NULL:
        raise MemoryError(f"no memory for {nbytes} bytes of an Arrow struct")
    memset(block, 0, nbytes)
    return block


cdef void let_go(void *kept) noexcept nogil:
    """Give up a reference, from wherever a consumer calls."""
    if Py_IsInitialized():      # else there is nobody left to be told
        with gil:
            Py_DECREF(<object>kept)


# -- schemas -----------------------------------------------------------------------------------------

cdef int fill_schema(ArrowSchema *schema, object field) except -1:
    """Write a field and its children; on failure nothing is left to release. No release needs the GIL."""
    cdef bytes texts = field.format.encode() + b"\0" + field.name.encode() + b"\0" + packed(field.metadata)
    cdef Py_ssize_t n = len(field.children), i
    cdef size_t pointers = n * sizeof(void *), structs = n * sizeof(ArrowSchema)
    cdef char *block = <char *>allocate(pointers + structs + len(texts))
    cdef char *text = block + pointers + structs
    memcpy(text, <const char *>texts, len(texts))
    memset(schema, 0, sizeof(ArrowSchema))
    schema.format = text
    schema.name = text + len(field.format.encode()) + 1
    if field.metadata:
        schema.metadata = schema.name + len(field.name.encode()) + 1
    schema.flags = ARROW_NULLABLE if field.nullable else 0
    schema.children = <ArrowSchema **>block
    schema.release = release_schema
    schema.private_data = block
    try:
        for i in range(n):
            schema.children[i] = <ArrowSchema *>(block + pointers) + i
            fill_schema(schema.children[i], field.children[i])
            schema.n_children = i + 1
    except BaseException:
        release_schema(schema)
        raise
    return 0


cdef bytes packed(metadata):
    """Pairs of texts as Arrow has them: how many, then each behind its length."""
    cdef int32_t number
    cdef list parts = []
    if not metadata:
        return b""
    number = len(metadata)
    parts.append((<char *>&number)[:4])
    for pair in metadata.items():
        for text in pair:
            encoded = text.encode()
            number = len(encoded)
            parts.append((<char *>&number)[:4])
            parts.append(encoded)
    return b"".join(parts)


cdef void release_schema(ArrowSchema *schema) noexcept nogil:
    cdef int64_t i
    for i in range(schema.n_children):
        if schema.children[i].release != NULL:
            schema.children[i].release(schema.children[i])
    schema.release = NULL
    PyMem_RawFree(schema.private_data)


cdef void end_schema_capsule(object capsule) noexcept:
    cdef ArrowSchema *schema = <ArrowSchema *>PyCapsule_GetPointer(capsule, "arrow_schema")
    if schema.release != NULL:
        schema.release(schema)
    PyMem_RawFree(schema)


def schema_capsule(field):
    """A capsule of a field's type."""
    cdef ArrowSchema *schema = <ArrowSchema *>allocate(sizeof(ArrowSchema))
    try:
        fill_schema(schema, field)
        return PyCapsule_New(schema, "arrow_schema", end_schema_capsule)
    except BaseException:
        if schema.release != NULL:
            schema.release(schema)
        PyMem_RawFree(schema)
        raise


# -- arrays ------------------------------------------------------------------------------------------

cdef int fill_array(ArrowArray *array, object field, object column) except -1:
    """Write a column of a type and its children; on failure nothing is left to release.

    The field checks it first: a consumer trusts that buffers are as long as lengths and offsets say.
    """
    cdef tuple buffers = column.buffers
    cdef tuple children = column.children
    cdef Py_ssize_t n = len(children), k = len(buffers), i
    field.check(column)
    cdef size_t pointers = (n + k) * sizeof(void *)
    # A column without either has a block too, because it leads to the objects to release.
    cdef char *block = <char *>allocate(sizeof(void *) + pointers + n * sizeof(ArrowArray))
    memset(array, 0, sizeof(ArrowArray))
    Py_INCREF(column)
    (<void **>block)[0] = <void *>column
    array.length = column.length
    array.n_buffers = k
    array.buffers = <const void **>block + 1
    array.children = <ArrowArray **>block + 1 + k
    array.release = release_array
    array.private_data = block
    try:
        for i in range(k):
            if buffers[i] is not None:
                array.buffers[i] = cnp.PyArray_DATA(<cnp.ndarray?>buffers[i])
        for i in range(n):
            array.children[i] = <ArrowArray *>(block + sizeof(void *) + pointers) + i
            fill_array(array.children[i], field.children[i], children[i])
            array.n_children = i + 1
    except BaseException:
        release_array(array)
        raise
    return 0


cdef void release_array(ArrowArray *array) noexcept nogil:
    cdef int64_t i
    cdef void **block = <void **>array.private_data
    for i in range(array.n_children):
        if array.children[i].release != NULL:
            array.children[i].release(array.children[i])
    array.release = NULL
    let_go(block[0])
    PyMem_RawFree(block)


cdef void end_array_capsule(object capsule) noexcept:
    cdef ArrowArray *array = <ArrowArray *>PyCapsule_GetPointer(capsule, "arrow_array")
    if array.release != NULL:
        array.release(array)
    PyMem_RawFree(array)


def array_capsule(field, column):
    """A capsule of the data of a column of a field's type."""
    cdef ArrowArray *array = <ArrowArray *>allocate(sizeof(ArrowArray))
    try:
        fill_array(array, field, column)
        return PyCapsule_New(array, "arrow_array", end_array_capsule)
    except BaseException:
        if array.release != NULL:
            array.release(array)
        PyMem_RawFree(array)
        raise


# -- streams -----------------------------------------------------------------------------------------

cdef class Chunks:
    """Return what a stream has to give: columns of one type, made as they are asked for."""
    cdef object field
    cdef object columns         # an iterator
    cdef bytes error            # what went wrong in the last call


cdef int failed(Chunks chunks, error) noexcept:
    """Keep the message of an error, and return its errno, all that a consumer gets.

    It makes an exception of its own of that, so Ctrl-C is signalled once more.
    """
    try:
        chunks.error = f"{type(error).__name__}: {error}".encode("utf-8", "replace")
    except BaseException:
        chunks.error = None
    if isinstance(error, KeyboardInterrupt):
        PyErr_SetInterrupt()        # last, because a handler may run in any Python code
    return ENOMEM if isinstance(error, MemoryError) else EINVAL


cdef int next_schema(void *kept, ArrowSchema *out) noexcept:
    cdef Chunks chunks = <Chunks>kept
    cdef int status = 0
    chunks.error = None
    try:
        fill_schema(out, chunks.field)
    except BaseException as error:
        status = failed(chunks, error)      # no return, which fails here where memory is short: Cython 3.3
    return status


cdef int next_array(void *kept, ArrowArray *out) noexcept:
    cdef Chunks chunks = <Chunks>kept
    cdef int status = 0
    chunks.error = None
    try:
        column = next(chunks.columns, None)
        if column is None:
            memset(out, 0, sizeof(ArrowArray))          # released: the end
        else:
            fill_array(out, chunks.field, column)
    except BaseException as error:
        status = failed(chunks, error)
    return status


cdef const char *last_error(void *kept) noexcept:
    cdef Chunks chunks = <Chunks>kept
    if chunks.error is None:
        return NULL
    return <const char *>chunks.error


cdef int get_schema(ArrowArrayStream *stream, ArrowSchema *out) noexcept nogil:
    cdef int status = EINVAL
    if Py_IsInitialized():
        with gil:
            status = next_schema(stream.private_data, out)
    return status


cdef int get_next(ArrowArrayStream *stream, ArrowArray *out) noexcept nogil:
    cdef int status = EINVAL
    if Py_IsInitialized():
        with gil:
            status = next_array(stream.private_data, out)
    return status


cdef const char *get_last_error(ArrowArrayStream *stream) noexcept nogil:
    cdef const char *text = NULL
    if Py_IsInitialized():
        with gil:
            text = last_error(stream.private_data)
    return text


cdef void release_stream(ArrowArrayStream *stream) noexcept nogil:
    stream.release = NULL
    let_go(stream.private_data)


cdef void end_stream_capsule(object capsule) noexcept:
    cdef ArrowArrayStream *stream = <ArrowArrayStream *>PyCapsule_GetPointer(capsule, "arrow_array_stream")
    if stream.release != NULL:
        stream.release(stream)
    PyMem_RawFree(stream)


def stream_capsule(field, columns):
    """A capsule of columns of a field's type, from an iterator."""
    cdef Chunks chunks = Chunks.__new__(Chunks)
    cdef ArrowArrayStream *stream
    chunks.field = field
    chunks.columns = columns
    stream = <ArrowArrayStream *>allocate(sizeof(ArrowArrayStream))
    stream.get_schema = get_schema
    stream.get_next = get_next
    stream.get_last_error = get_last_error
    stream.release = release_stream
    stream.private_data = <void *>chunks
    Py_INCREF(chunks)
    try:
        return PyCapsule_New(stream, "arrow_array_stream", end_stream_capsule)
    except BaseException:
        release_stream(stream)
        PyMem_RawFree(stream)
        raise


# == arrow_import ========================================================================================
#
# Columns that others give: their capsules become a tree of types and NumPy arrays over their memory.
#
# ::
#
#     ArrowArray ──moved──▶ Arrived ◀──base── arrays ◀── elements
#                              └─ release, when the last of them is gone
#
# The interface says nothing of how long buffers are: a producer is trusted that they are as long as lengths
# and offsets say. These are checked: the numbers of buffers and children that a type has, and NULL.

cdef enum:
    DEEPEST = 200               # levels of types: NumPy's arrays have 64 axes

LACKS_BUFFER = "the Arrow array is damaged: it lacks a buffer that its type requires"


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
            raise ValueError(LACKS_BUFFER)
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
            raise_for_stream(&self.stream, status)
        if array.release == NULL:
            raise StopIteration
        return move_out(&array, self.field, self)


cdef int raise_for_stream(ArrowArrayStream *stream, int status) except -1:
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
        raise_for_stream(&stream.stream, status)
    try:
        stream.field = read_field(&schema, 0)
    finally:
        if schema.release != NULL:
            schema.release(&schema)
    return stream


# == texts ===============================================================================================
#
# Strings: UTF-8 in Arrow's buffers, and object arrays of `str`. Always a copy.
#
# ::
#
#     offsets   [0  2  5]  ──▶  a b c d e                      in one buffer
#     view      [length | 12 bytes of a short string]
#     view      [length | its first 4 | buffer | place]  ──▶   in one of several buffers
#
# Others may write to their buffers at any time. So offsets and views are copied before they are checked, and
# each string before it is decoded, because CPython may read it twice: for its size, and for its letters.

cdef extern from "Python.h":
    bint PyUnicode_IS_COMPACT_ASCII(object text) noexcept
    const char *PyUnicode_DATA(object text) noexcept
    Py_ssize_t PyUnicode_GET_LENGTH(object text) noexcept
    PyObject *PyUnicode_DecodeUTF8(const char *text, Py_ssize_t nbytes, const char *errors) except NULL

cdef enum:
    INLINE = 12                 # bytes of a string that is stored in its view, at most

cdef struct View:
    int32_t length
    char[4] begin               # of the string; a short one goes on over the next two
    int32_t buffer
    int32_t place               # in that buffer


def read_text(chunk, Py_ssize_t first, Py_ssize_t count):
    """Return `count` strings of a chunk as an object array.

    Raises
    ------
    ValueError
        If an offset or a view leads out of the buffers, or a string is not UTF-8.
    """
    cdef cnp.ndarray strings = array_from(<PyObject *>STRING, 1, &count, NULL, NULL, NULL)
    cdef PyObject **item = <PyObject **>cnp.PyArray_DATA(strings)      # each NULL
    if not count:
        return strings
    try:
        if chunk.field.format == TEXT_VIEW:
            read_views(chunk, first, count, item)
        else:
            read_between_offsets(chunk, first, count, item)
    except UnicodeDecodeError as error:
        raise ValueError(f"the Arrow array has a string that is not UTF-8: {error}") from None
    return strings


cdef int read_between_offsets(chunk, Py_ssize_t first, Py_ssize_t count, PyObject **item) except -1:
    dtype = np.int32 if chunk.field.format == TEXT else np.int64
    cdef cnp.ndarray offsets = chunk.buffer(1, dtype, first, count + 1).astype(np.int64)
    cdef int64_t *offset = <int64_t *>cnp.PyArray_DATA(offsets)
    cdef cnp.ndarray data
    cdef bytearray copy = bytearray()
    cdef Py_ssize_t i
    for i in range(count):
        if not 0 <= offset[i] <= offset[i + 1]:
            raise ValueError("the Arrow array is damaged: the offsets of its strings decrease")
    data = chunk.buffer(2, np.uint8, offset[0], offset[count] - offset[0])
    for i in range(count):
        item[i] = decoded(<const char *>cnp.PyArray_DATA(data) + offset[i] - offset[0],
                          offset[i + 1] - offset[i], copy)
    return 0


cdef int read_views(chunk, Py_ssize_t first, Py_ssize_t count, PyObject **item) except -1:
    cdef tuple addresses = chunk.addresses
    cdef Py_ssize_t nbuffers = max(len(addresses) - 3, 0), i
    cdef cnp.ndarray views = chunk.buffer(1, "V16", first, count).copy()
    # The last buffer has the lengths of the data buffers.
    cdef cnp.ndarray sizes = chunk.buffer(len(addresses) - 1, np.int64, 0, nbuffers).copy()
    cdef int64_t *size = <int64_t *>cnp.PyArray_DATA(sizes)
    cdef View *view
    cdef bytearray copy = bytearray()
    cdef uintptr_t address
    for i in range(count):
        view = <View *>cnp.PyArray_DATA(views) + i
        if 0 <= view.length <= INLINE:
            item[i] = decoded(view.begin, view.length, copy)
            continue
        if view.length < 0 or view.place < 0 or not 0 <= view.buffer < nbuffers or (
                <int64_t>view.place + view.length > size[view.buffer]):
            raise ValueError(f"the Arrow array is damaged: string {i} is outside of its buffers")
        address = addresses[2 + view.buffer]
        if address == 0:
            raise ValueError(LACKS_BUFFER)
        item[i] = decoded(<const char *>address + view.place, view.length, copy)
    return 0


cdef PyObject *decoded(const char *text, Py_ssize_t nbytes, bytearray copy) except NULL:
    """Return a new reference to a string, by way of a copy that grows as needed."""
    if len(copy) < nbytes:
        PyByteArray_Resize(copy, nbytes)
    memcpy(PyByteArray_AS_STRING(copy), text, nbytes)
    return PyUnicode_DecodeUTF8(PyByteArray_AS_STRING(copy), nbytes, NULL)


def text_column(strings, field):
    """Return the column of a 1-D array of strings.

    Raises
    ------
    ValueError
        If a string has surrogates.
    OverflowError
        If the strings are too long for the offsets of the field.
    """
    cdef list texts = strings.tolist()
    cdef cnp.ndarray ends = np.zeros(len(texts) + 1, np.int64)
    cdef int64_t *end = <int64_t *>cnp.PyArray_DATA(ends)
    cdef bytearray data = bytearray()
    cdef Py_ssize_t i
    try:
        for i in range(len(texts)):
            end[i + 1] = append_text(data, end[i], texts[i])
    except UnicodeEncodeError as error:
        raise ValueError(
            f"the string {shown(error.object)} has surrogates, which UTF-8 can't encode"
        ) from None
    if field.format == TEXT:
        if end[len(texts)] > np.iinfo(np.int32).max:
            raise OverflowError("the strings are too long for 32-bit offsets: request large_string")
        ends = ends.astype(np.int32)
    return Column(len(texts), (None, ends, np.frombuffer(data, np.uint8)))


cdef Py_ssize_t append_text(bytearray data, Py_ssize_t at, text) except -1:
    """Append a string as UTF-8, and return the end of the data."""
    cdef const char *encoded
    cdef Py_ssize_t nbytes
    if PyUnicode_CheckExact(text) and PyUnicode_IS_COMPACT_ASCII(text):
        encoded, nbytes = PyUnicode_DATA(text), PyUnicode_GET_LENGTH(text)
    else:
        # Not PyUnicode_AsUTF8AndSize, whose result stays in the string.
        text = PyUnicode_AsUTF8String(text)
        encoded, nbytes = <const char *>text, len(<bytes>text)
    PyByteArray_Resize(data, at + nbytes)
    memcpy(PyByteArray_AS_STRING(data) + at, encoded, nbytes)
    return at + nbytes


# == foreign =============================================================================================
#
# Sequences over the numbers of files and of Arrow, which stay where they are and are checked when used.
#
# What is checked here are the types and sizes of arrays, and the ends: from where to where values may be
# read.

cdef cnp.ndarray checked_numbers(numbers, Py_ssize_t ndim):
    cdef cnp.ndarray own = own_view(numbers)
    if own.ndim != ndim or own.dtype.kind != "i" or own.dtype.itemsize not in (4, 8) or (
            not own.dtype.isnative):
        raise TypeError(f"offsets and shapes are arrays of int32 or int64, not {own.dtype} of rank "
                        f"{own.ndim}")
    return own


def from_foreign_offsets(cnp.ndarray values not None, offsets, Py_ssize_t low, Py_ssize_t high):
    """Return a sequence of views from each offset to the next, of values that begin with number `low`. O(1).

    Each offset is checked when it is used: to be from `low` to `high`, and not below the one before it.

    Raises
    ------
    ValueError
        If there are not as many values, or no offset.
    """
    cdef cnp.ndarray numbers = checked_numbers(offsets, 1)
    values = own_view(values)
    if values.ndim == 0 or not 0 <= low <= high or high - low > cnp.PyArray_DIM(values, 0) or (
            not len(numbers)):
        raise ValueError(f"{len(numbers)} offsets from {low} to {high} don't fit values of shape "
                         f"{(<object>values).shape}")
    dtype = own_type(values.dtype)
    if len(numbers) == 1:
        return new_sequence(dtype, empty_store())
    return new_sequence(dtype, store_of(offsets_table(values, 0, numbers, low, high, False)))


def from_foreign_shapes(cnp.ndarray items not None, offsets, Py_ssize_t low, Py_ssize_t high, shapes,
                        tuple order):
    """Return a sequence of tensors of their own shapes in a row of items that begins with number `low`. O(1).

    Axis k in memory is axis order[k] of a tensor, unless that is None.
    Each tensor is checked when it is used.

    Raises
    ------
    ValueError
        If the arrays don't fit each other.
    """
    cdef cnp.ndarray numbers = checked_numbers(offsets, 1)
    cdef cnp.ndarray extents = checked_numbers(shapes, 2)
    items = own_view(items)
    if not 0 < cnp.PyArray_DIM(extents, 1) <= MAX_NDIM:
        raise ValueError(f"tensors have 1 to {MAX_NDIM} axes, not {extents.shape[1]}")
    if items.ndim != 1 or not 0 <= low <= high or high - low > len(items) or (
            len(numbers) != len(extents) + 1) or (
            not items.flags.c_contiguous) or (
            order is not None and sorted(order) != list(range(extents.shape[1]))):
        raise ValueError(f"{len(numbers)} offsets and {len(extents)} shapes don't fit {len(items)} items")
    dtype = own_type(items.dtype)
    if len(numbers) == 1:
        return new_sequence(dtype, empty_store())
    return new_sequence(dtype, store_of(shaped_table(items, numbers, low, high, extents, order)))


def from_values(cnp.ndarray values not None, offsets=None):
    """Return a sequence of the rows of an array, or of views from each offset to the next. No copy.

    Strings aren't copied either, so nobody else may have the array.

    Raises
    ------
    ValueError
        If an offset is less than the one before it, or outside the array.
    """
    values = own_view(values)
    return new_sequence(own_type(values.dtype), split_equal(values, 0, 1, True) if offsets is None
                        else split_offsets(values, offsets))


def from_views(cnp.ndarray values not None, starts, lengths, int axis=0):
    """Return a sequence of views along an axis, in any order, shared or with gaps. O(n), no copy.

    Raises
    ------
    ValueError
        If one of them lies outside the array.
    """
    values = own_view(values)
    return new_sequence(own_type(values.dtype), split_views(values, axis, starts, lengths))


def from_shapes(cnp.ndarray items not None, offsets, shapes):
    """Return a sequence of tensors of their own shapes, each in C order, one behind the other. O(n), no copy.

    Parameters
    ----------
    items : np.ndarray
        All items, contiguous, of rank 1.
    offsets : array of int64
        The begin of each element among them, and the end of the last one: n + 1 numbers.
    shapes : array of int64
        Of shape (n, rank).

    Raises
    ------
    ValueError
        If offsets don't rise within the items, or an element has another number of items than its shape.
    """
    items = own_view(items)
    return new_sequence(own_type(items.dtype), split_shaped(items, offsets, shapes))


# == layout ==============================================================================================
#
# The layout of a sequence's elements in memory, and their shapes, for Arrow's columns and for maps.

# -- one array -----------------------------------------------------------------------------------------

def as_lists(TensorSequence sequence not None, offset_type, bint with_prefix):
    """Return the elements as (values, offsets), if they are one span of a table, one behind the other.

    `values` is a view in C order. With a prefix it may have more in front, and the first offset is then not
    0: so a table's own offsets can be used, without a look at each. None where they are not such a span,
    which says nothing else about them.
    """
    cdef Share share = sequence.whole()
    cdef Span span
    cdef Piece first, last
    cdef Py_ssize_t[MAX_NDIM] shape
    cdef Py_ssize_t n = size_of(share.store), row, start
    cdef Table *table
    if n == 0:
        return None
    first_span(share.store, 0, n, &span)
    if span.n != n or span.step != 1 or span.source.ndim == 0 or span.source.kind not in (EVEN, OFFSETS):
        return None
    table = <Table *>span.source
    if not ends_of(&span, &first, &last, NULL):
        lengths_of(share.store, np.int64)           # raises for the first that can't be read
        raise_damaged(share.store, n - 1)           # unless that has changed meanwhile
    row = solid_row(&first)
    if row == NOT_SOLID or row == 0 or last.start < first.start or (
            span.source.axis < 0 and table.pitch != row):
        return None
    memcpy(shape, span.source.shape, span.source.ndim * sizeof(Py_ssize_t))
    offsets = None
    start = 0
    if table.low == 0 and span.source.kind == OFFSETS:
        # As the table has them, and with them the values from the table's beginning.
        offsets = offsets_in_place(share.store, offset_type, not with_prefix)
        start = first.start if offsets is not None else 0
    if offsets is None:
        offsets = offsets_of(share.store, offset_type)
    if span.source.axis < 0:
        shape[0] *= n
    else:
        shape[0] = last.start - first.start + last.length + start
    return array_from(<PyObject *>sequence._dtype, span.source.ndim, shape, NULL,
                      first.data - start * table.step, owner_of(span.source)), offsets


def one_array(TensorSequence sequence not None):
    """Return elements of rank 1 or more that view one array along axis 0, as (array, starts, lengths).

    None where they are not.
    """
    cdef Share share = sequence.whole()
    cdef Block block
    cdef Source *source
    cdef Py_ssize_t n = size_of(share.store), i, step
    cdef Py_ssize_t[MAX_NDIM] shape
    cdef cnp.ndarray starts, lengths
    cdef int64_t *start
    cdef int64_t *length
    cdef char *data
    cdef char *end
    if n == 0:
        return None
    starts, lengths = np.empty(n, np.int64), np.empty(n, np.int64)
    start, length = <int64_t *>cnp.PyArray_DATA(starts), <int64_t *>cnp.PyArray_DATA(lengths)
    source = NULL
    data = end = NULL
    step = 0
    begin_joint_blocks(&block, share.store, SEPARATE, False)
    while read_block(&block):
        if source == NULL:
            source = block.source
            if source.axis != 0 or source.kind not in (WHOLE, EVEN, OFFSETS, VIEWS):
                return None
            step = source.shape[source.ndim]
            if step <= 0:
                return None
            data = end = block.data[0]
        if block.source != source:
            return None
        for i in range(block.n):
            start[block.first + i] = <Py_ssize_t>block.data[i]
            length[block.first + i] = block.rows[i]
            data = min(data, block.data[i])
            end = max(end, block.data[i] + block.rows[i] * step)
    check_read(&block)
    for i in range(n):
        start[i] = (start[i] - <Py_ssize_t>data) // step
    memcpy(shape, source.shape, source.ndim * sizeof(Py_ssize_t))
    shape[0] = (end - data) // step
    array = array_from(<PyObject *>sequence._dtype, source.ndim, shape, source.shape + source.ndim, data,
                       owner_of(source))
    return array, starts, lengths


def lie_together(TensorSequence sequence not None):
    """Return whether `values` is a view, rather than a copy."""
    cdef Share share = sequence.whole()
    return size_of(share.store) > 0 and has_axis(share) and (
        joined_view(share.store, sequence._dtype, False) is not None)


cdef bint has_axis(Share share):
    cdef Span span
    first_span(share.store, 0, 1, &span)
    return span.source.ndim > 0


def memory_bounds(TensorSequence sequence not None, Py_ssize_t most):
    """Return the positions at which elements of another memory begin, then n; None if these are too many."""
    cdef Share share = sequence.whole()
    cdef Spans spans
    cdef Span span
    cdef Source *known = NULL
    cdef Py_ssize_t at = 0
    cdef list bounds = []
    memory = None
    begin_spans(&spans, share.store, 0, size_of(share.store))
    while next_span(&spans, &span):
        if span.source != known:
            known = span.source
            if at == 0 or kept_memory(known) is not memory:
                memory = kept_memory(known)
                if len(bounds) == most:
                    return None
                bounds.append(at)
        at = spans.at
    bounds.append(at)
    return bounds


# -- shapes --------------------------------------------------------------------------------------------

def shapes_of(TensorSequence sequence not None, Py_ssize_t rank):
    """Return the shapes of elements of one rank, as an int64 array of shape (n, rank)."""
    cdef Share share = sequence.whole()
    cdef Block block
    cdef Py_ssize_t i
    cdef int axis
    cdef cnp.ndarray shapes = np.empty((size_of(share.store), rank), np.int64)
    cdef int64_t *row = <int64_t *>cnp.PyArray_DATA(shapes)
    begin_blocks(&block, share.store, 0, size_of(share.store))
    while read_block(&block):
        if block.source.ndim != rank:
            raise ValueError(f"tensor {block.first} is not of rank {rank}")
        for i in range(block.n):
            for axis in range(rank):
                row[0] = extent_in(&block, i, axis)
                row += 1
    check_read(&block)
    return shapes


def first_other_shape(TensorSequence a not None, TensorSequence b not None):
    """Return the first position at which elements of two sequences differ in shape, or their length."""
    cdef Share ours = a.whole()
    cdef Share theirs = b.whole()
    return first_other_shape_of(ours.store, theirs.store)


def first_misfit(TensorSequence sequence not None, Py_ssize_t least, Py_ssize_t most, tuple behind not None):
    """Return the first position of an element of a rank not `least` to `most`, or of last axes not `behind`.

    An extent of -1 stands for any. The length of the sequence if all fit.
    """
    cdef Share share
    cdef Py_ssize_t naxes = len(behind), k, i, n
    cdef Py_ssize_t[MAX_NDIM] extents
    cdef Py_ssize_t[2 * MAX_NDIM] dims
    cdef Spans spans
    cdef Span span
    cdef Piece piece
    cdef bint differ, is_good = True
    if naxes > MAX_NDIM:
        return 0
    for k in range(naxes):
        extents[k] = behind[k]
    share = sequence.whole()
    n = size_of(share.store)
    begin_spans(&spans, share.store, 0, n)
    with nogil:
        while is_good and next_span(&spans, &span):
            # Elements of one table differ along its axis alone, or in all extents.
            piece.source = span.source
            piece.shape = span.source.shape
            differ = span.source.kind == SHAPED or span.source.axis >= span.source.ndim - naxes
            for i in range(span.n if differ else 1):
                is_good = not differ or resolve(span.source, span.first + i * span.step, &piece, dims)
                if not is_good or not fits(&piece, least, most, extents, naxes):
                    n = spans.at - span.n + i
                    break
            if n < spans.at:
                break
    if not is_good:
        raise_damaged(share.store, n)
    return n


cdef bint fits(const Piece *piece, Py_ssize_t least, Py_ssize_t most, const Py_ssize_t *extents,
               Py_ssize_t naxes) noexcept nogil:
    cdef Py_ssize_t k
    if not max(least, naxes) <= piece.source.ndim <= most:
        return False
    for k in range(naxes):
        if extents[k] >= 0 and extent(piece, piece.source.ndim - naxes + k) != extents[k]:
            return False
    return True
