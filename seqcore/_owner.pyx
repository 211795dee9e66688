"""Owner: the Python object around a source.

Two counts keep an owner alive::

    slots ──count──▶ source (inside the owner) ◀──reference── elements looked at (their .base)

The slots of all sequences together hold one Python reference, for as long as there are any; a split or
a bulk edit then costs one addition, not one for each piece. An element that someone looks at is a NumPy
array whose base is the owner. Since an owner has no buffer, NumPy can't make such an array writeable.
"""

cimport cython
from cpython.mem cimport PyMem_RawFree, PyMem_RawMalloc
from cpython.ref cimport Py_DECREF, Py_INCREF, PyObject
from libc.string cimport memcpy
cimport numpy as cnp
from seqcore._numpy cimport array_from, base_of
from seqcore._pieces cimport MAX_BYTES, MAX_NDIM, Piece, Source, add_to, extent

cnp.import_array()


@cython.final
@cython.no_gc               # like an ndarray, whose place it takes; what it holds is memory, not containers
@cython.freelist(64)
cdef class Owner:

    def __dealloc__(self):
        if self.source.shape != self.dims:
            PyMem_RawFree(self.source.shape)
        PyMem_RawFree(self.cut)


cdef object memory_of(cnp.ndarray array):
    """What keeps the data of an array alive, so that the array object itself need not."""
    cdef PyObject *base = base_of(array)
    if base == NULL or cnp.PyArray_CHKFLAGS(array, cnp.NPY_ARRAY_OWNDATA):
        return array
    if type(<object>base) is Owner:         # an element of ours: no chain of owners
        return (<Owner>base).memory
    return <object>base


cdef Owner new_owner(cnp.ndarray array, int axis, bint drop_axis):
    """A source of the array's memory whose pieces vary along `axis`, or lack it where `drop_axis` is set.

    At rank 0 the axis is -1.

    `array` is an exact ndarray of an element type. Its shape and strides are copied: whatever becomes of
    the array object, the pieces stay as they are.
    """
    cdef Owner owner = Owner.__new__(Owner)
    cdef Source *source = &owner.source
    cdef int i, ndim = cnp.PyArray_NDIM(array) - drop_axis
    cdef Py_ssize_t *dims = owner.dims
    if ndim > INLINE_NDIM:
        dims = <Py_ssize_t *>PyMem_RawMalloc(2 * ndim * sizeof(Py_ssize_t))
        if dims == NULL:
            raise MemoryError()
    source.owner = <PyObject *>owner
    source.slots = 0
    source.itemsize = cnp.PyArray_ITEMSIZE(array)
    source.ndim = ndim
    source.axis = -1 if drop_axis else axis
    source.shape = dims
    source.strides = dims + ndim
    # Without items all data pointers are alike, so that none points outside the array's memory.
    source.step = cnp.PyArray_STRIDE(array, axis) if axis >= 0 and cnp.PyArray_SIZE(array) else 0
    for i in range(ndim):
        source.shape[i] = cnp.PyArray_DIM(array, i + (drop_axis and i >= axis))
        source.strides[i] = cnp.PyArray_STRIDE(array, i + (drop_axis and i >= axis))
    owner.memory = memory_of(array)
    return owner


cdef Owner owner_of_pieces(cnp.ndarray array, int axis, bint drop_axis, Py_ssize_t n):
    """An owner with room for n pieces, which no slot points to yet."""
    cdef Owner owner
    if n > MAX_BYTES // <Py_ssize_t>sizeof(Piece):
        raise MemoryError(f"no memory for {n} pieces")
    owner = new_owner(array, axis, drop_axis)
    owner.cut = <Piece *>PyMem_RawMalloc(n * sizeof(Piece))
    if owner.cut == NULL:
        raise MemoryError(f"no memory for {n} pieces")
    return owner


cdef void hold_fresh(Owner owner, Py_ssize_t n) noexcept:
    """Count n slots for an owner that had none."""
    if n:
        owner.source.slots = n
        Py_INCREF(owner)


cdef Piece *take_whole(cnp.ndarray array) except NULL:
    """The array as a piece, with one hold on it."""
    cdef Owner owner = new_owner(array, 0 if cnp.PyArray_NDIM(array) else -1, False)
    owner.whole.source = &owner.source
    owner.whole.data = cnp.PyArray_BYTES(array)
    owner.whole.length = owner.source.shape[0] if owner.source.ndim else 1
    owner.source.slots = 1
    Py_INCREF(owner)
    return &owner.whole


cdef object make_element(Piece *piece, cnp.dtype dtype):
    """A new read-only array of the piece, without a copy. The caller keeps the piece alive meanwhile."""
    cdef Source *source = piece.source
    cdef Py_ssize_t[MAX_NDIM] shape
    cdef Py_ssize_t *dims = source.shape
    if source.axis >= 0 and dims[source.axis] != piece.length:
        memcpy(shape, dims, source.ndim * sizeof(Py_ssize_t))
        shape[source.axis] = piece.length
        dims = shape
    return array_from(<PyObject *>dtype, source.ndim, dims, source.strides, piece.data, source.owner)


cdef void hold(Piece *piece) noexcept:
    """Count one more slot that points to the piece."""
    # From zero only where the caller has a reference of its own: the array it has just looked at.
    if add_to(&piece.source.slots, 1) == 0:
        Py_INCREF(<object>piece.source.owner)


cdef void hold_all(Piece **slots, Py_ssize_t n) noexcept:
    cdef Py_ssize_t i = 0, run
    cdef Source *source
    while i < n:
        source = slots[i].source
        run = 1
        while i + run < n and slots[i + run].source == source:
            run += 1
        if add_to(&source.slots, run) == 0:
            Py_INCREF(<object>source.owner)
        i += run


cdef void drop(Piece *piece) noexcept:
    """Give up one hold. The last one may run foreign code: call it with no lock and nothing half done."""
    cdef PyObject *owner = piece.source.owner
    if add_to(&piece.source.slots, -1) == 1:
        Py_DECREF(<object>owner)


cdef void drop_all(Piece **slots, Py_ssize_t n) noexcept:
    cdef Py_ssize_t i = 0, run
    cdef Source *source
    cdef PyObject *owner
    while i < n:
        source = slots[i].source
        owner = source.owner
        run = 1
        while i + run < n and slots[i + run].source == source:
            run += 1
        if add_to(&source.slots, -run) == run:
            Py_DECREF(<object>owner)
        i += run
