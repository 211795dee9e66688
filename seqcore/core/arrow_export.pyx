"""Columns given away: a tree of NumPy arrays becomes the capsules that other libraries take.

::

    Column ──▶ ArrowArray ──private_data──▶ one block: its lists of pointers, its children, and
                    │                       one reference to the Column, so to its arrays
                    └─ release: the children's, then the reference, then the block

A capsule that nobody takes releases what is in it. A consumer moves the struct out and releases it when it
likes, from any thread, also when the interpreter has gone.
"""

from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_New
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.errno cimport EINVAL, ENOMEM
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy, memset
cimport numpy as cnp

from seqcore.core.arrow cimport ARROW_NULLABLE, ArrowArray, ArrowArrayStream, ArrowSchema

cdef extern from "Python.h":
    bint Py_IsInitialized() noexcept nogil
    void *PyMem_RawMalloc(size_t) noexcept nogil
    void PyMem_RawFree(void *) noexcept nogil
    void PyErr_SetInterrupt() noexcept

cnp.import_array()


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
