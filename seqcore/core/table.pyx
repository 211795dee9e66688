"""Tables: an array, and numbers that say where in it each of many elements is.

A split of a (6, 4) float32 array into lengths 1, 3, 2 along axis 0 is one table::

    source   itemsize 4, shape (·, 4), strides (16, 4), axis 0, data
    table    offsets 0 1 4 6, step 16

and a split into rows is one without any numbers: length 1, pitch 16. `source` says how an element is read.

A table refers to its array's memory and to that of its numbers, never to another table. Numbers of callers
are checked and copied before they come here; those of files and of Arrow may be anything.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int64_t
cimport cython
cimport numpy as cnp

from seqcore.core.directory cimport NUMBER_BITS
from seqcore.core.owner cimport TableOwner, memory_of
from seqcore.core.source cimport (
    EVEN, MAX_BYTES, OFFSETS, PADDED, SHAPED, VIEWS, Kind, Piece, Source, Table, extent, is_solid,
)
from seqcore.core.store cimport Store, one_run

cnp.import_array()


cdef TableOwner new_table(cnp.ndarray array, Kind kind, int ndim, Py_ssize_t n):
    """A table of n elements of a rank, with room for their shape and strides, and for one more stride."""
    cdef TableOwner owner
    cdef Source *source
    if n >> NUMBER_BITS:
        raise MemoryError(f"no memory for {n} elements of one array")
    owner = TableOwner.__new__(TableOwner)
    source = &owner.table.source
    source.shape = owner.dims
    if ndim > 4:
        owner.more = PyBytes_FromStringAndSize(NULL, (2 * ndim + 1) * <int>sizeof(Py_ssize_t))
        source.shape = <Py_ssize_t *>PyBytes_AS_STRING(owner.more)
    source.itemsize = cnp.PyArray_ITEMSIZE(array)
    source.ndim = ndim
    source.kind = kind
    source.data = cnp.PyArray_BYTES(array)
    owner.table.n = n
    owner.memory = memory_of(array)
    return owner


cdef TableOwner table_along(cnp.ndarray array, Kind kind, int axis, bint drop_axis, Py_ssize_t n):
    """A table of n parts of an array along an axis, which they lack where it is dropped."""
    cdef int ndim = cnp.PyArray_NDIM(array) - drop_axis, i
    cdef TableOwner owner = new_table(array, kind, ndim, n)
    cdef Source *source = &owner.table.source
    for i in range(ndim):
        source.shape[i] = cnp.PyArray_DIM(array, i + (drop_axis and i >= axis))
        source.shape[ndim + i] = cnp.PyArray_STRIDE(array, i + (drop_axis and i >= axis))
    source.axis = -1 if drop_axis else axis
    # Without items all data pointers are alike, so that none points outside the array's memory.
    owner.table.step = cnp.PyArray_STRIDE(array, axis) if cnp.PyArray_SIZE(array) else 0
    if not drop_axis:
        source.shape[ndim + axis] = owner.table.step
    source.solid = is_solid(source.itemsize, ndim, source.axis, source.shape)
    return owner


cdef TableOwner table_like(cnp.ndarray items, Kind kind, Py_ssize_t first, const Piece *like, Py_ssize_t n):
    """A table of n elements in C order, from an item on, of a piece's shape except for axis 0."""
    cdef int ndim = like.source.ndim, axis
    cdef TableOwner owner = new_table(items, kind, ndim, n)
    cdef Source *source = &owner.table.source
    cdef Py_ssize_t stride = source.itemsize, nbytes = stride
    source.axis = 0 if ndim else -1
    source.data += first * stride
    for axis in range(ndim - 1, -1, -1):
        source.shape[axis] = extent(like, axis)
        source.shape[ndim + axis] = stride
        # Where there are no items, no memory has set a limit: NumPy's own counts an extent of 0 as 1.
        if nbytes > MAX_BYTES // max(source.shape[axis], 1):
            raise ValueError("an element without items has a shape that is too large for an array of another "
                             "dtype")
        nbytes *= max(source.shape[axis], 1)
        if axis:
            stride *= source.shape[axis]
    owner.table.step = stride
    source.solid = True
    return owner


cdef int use_numbers(TableOwner owner, cnp.ndarray starts, cnp.ndarray lengths) except -1:
    """Let a table use integers of 4 or 8 bytes where they are, if they are aligned, or else a copy."""
    cdef list used = []
    for numbers in (starts, lengths):
        if numbers is not None and not cnp.PyArray_CHKFLAGS(
                numbers, cnp.NPY_ARRAY_C_CONTIGUOUS | cnp.NPY_ARRAY_ALIGNED):
            numbers = numbers.copy()
        used.append(numbers)
    starts, lengths = used
    if starts is not None:
        owner.table.starts = cnp.PyArray_DATA(starts)
        owner.table.width = cnp.PyArray_ITEMSIZE(starts)
    if lengths is not None:
        owner.table.lengths = cnp.PyArray_DATA(lengths)
        owner.table.lengths_width = cnp.PyArray_ITEMSIZE(lengths)
    owner.numbers = starts if lengths is None else lengths if starts is None else (starts, lengths)
    return 0


# -- parts of an array ---------------------------------------------------------------------------------

cdef TableOwner even_table(cnp.ndarray array, int axis, bint drop_axis, Py_ssize_t length):
    """Parts of `length` > 0 along an axis, the last one of what remains."""
    cdef Py_ssize_t whole = cnp.PyArray_DIM(array, axis)
    cdef Py_ssize_t n = whole // length + (whole % length != 0)
    cdef TableOwner owner = table_along(array, EVEN, axis, drop_axis, n)
    cdef Table *table = &owner.table
    table.source.length = length
    table.last = whole - (n - 1) * length
    table.high = whole
    # A single part may be shorter than `length`, whose product with the step could overflow.
    table.pitch = length * table.step if n > 1 else 0
    return owner


cdef TableOwner offsets_table(cnp.ndarray array, int axis, cnp.ndarray offsets, Py_ssize_t low,
                              Py_ssize_t high, bint checked):
    """Parts from each offset to the next; the array begins at position `low`; no offset may pass `high`.

    `checked` says that this is so, of offsets that nobody else can change.
    """
    cdef TableOwner owner = table_along(array, OFFSETS, axis, False, cnp.PyArray_SIZE(offsets) - 1)
    owner.table.low = low
    owner.table.high = high
    owner.checked_to = owner.table.n if checked else 0
    use_numbers(owner, offsets, None)
    return owner


cdef TableOwner views_table(cnp.ndarray array, int axis, cnp.ndarray starts, cnp.ndarray lengths):
    """Parts wherever they are, each with a start and a length."""
    cdef TableOwner owner = table_along(array, VIEWS, axis, False, cnp.PyArray_SIZE(starts))
    owner.table.high = cnp.PyArray_DIM(array, axis)
    use_numbers(owner, starts, lengths)
    return owner


cdef TableOwner padded_table(cnp.ndarray batch, cnp.ndarray lengths, bint left):
    """Rows of a batch without their padding along axis 1."""
    cdef Py_ssize_t n = cnp.PyArray_DIM(batch, 0)
    cdef TableOwner owner = table_along(batch[0], PADDED, 0, False, n)
    owner.memory = memory_of(batch)
    owner.table.pitch = cnp.PyArray_STRIDE(batch, 0) if cnp.PyArray_SIZE(batch) else 0
    owner.table.high = cnp.PyArray_DIM(batch, 1)
    owner.table.left = left
    use_numbers(owner, None, lengths)
    return owner


# -- parts of a row of items ---------------------------------------------------------------------------

cdef TableOwner shaped_table(cnp.ndarray items, cnp.ndarray offsets, Py_ssize_t low, Py_ssize_t high,
                             cnp.ndarray shapes, tuple order):
    """Tensors of shapes of their own, (n, rank) in the order of their axes in memory, from offset to offset.

    Axis k in memory is axis order[k] of the element.
    """
    cdef int ndim = cnp.PyArray_DIM(shapes, 1), axis
    cdef TableOwner owner = new_table(items, SHAPED, ndim, cnp.PyArray_SIZE(offsets) - 1)
    cdef Source *source = &owner.table.source
    source.axis = 0
    for axis in range(ndim):
        source.shape[axis] = axis if order is None else order[axis]
    owner.table.step = source.itemsize
    owner.table.low = low
    owner.table.high = high
    use_numbers(owner, offsets, shapes)
    return owner


cdef TableOwner even_table_like(cnp.ndarray items, Py_ssize_t first, const Piece *like, Py_ssize_t n,
                                Py_ssize_t length, Py_ssize_t last):
    """n elements in C order, from item `first` on, of a piece's shape but of one length along axis 0."""
    cdef TableOwner owner = table_like(items, EVEN, first, like, n)
    cdef Table *table = &owner.table
    table.source.length = length
    table.last = last
    table.high = (n - 1) * length + last
    table.pitch = length * table.step if n > 1 else 0
    return owner


cdef TableOwner offsets_table_like(cnp.ndarray items, Py_ssize_t first, const Piece *like,
                                   cnp.ndarray offsets):
    """Elements in C order, from item `first` on, of a piece's shape but from each offset to the next."""
    cdef Py_ssize_t n = cnp.PyArray_SIZE(offsets) - 1
    cdef TableOwner owner = table_like(items, OFFSETS, first, like, n)
    owner.table.high = (<int64_t *>cnp.PyArray_DATA(offsets))[n]
    owner.checked_to = n
    use_numbers(owner, offsets, None)
    return owner


cdef TableOwner twin_of(TableOwner owner):
    """The same table with an owner of its own, so that threads needn't share the count of its references."""
    cdef TableOwner twin = TableOwner.__new__(TableOwner)
    twin.table = owner.table
    twin.table.source.users = 0
    twin.table.id = 0
    twin.memory = owner.memory
    twin.numbers = owner            # which has the shape, and keeps the starts and lengths alive
    twin.origin = owner.origin
    twin.first = owner.first
    with cython.critical_section(owner):
        twin.checked_from, twin.checked_to = owner.checked_from, owner.checked_to
    return twin


cdef Store *store_of(TableOwner owner) except NULL:
    """All elements of a table."""
    cdef Store *store = one_run(&owner.table.source, owner.table.n)
    if store == NULL:
        raise MemoryError("no memory for a sequence")
    return store
