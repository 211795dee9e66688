"""Owner: the Python object around a source.

Two counts keep an owner alive::

    slots ──count──▶ source (inside the owner) ◀──reference── elements looked at (their .base)

The slots of all sequences together hold one Python reference, for as long as there are any; a split or
a bulk edit then costs one addition, not one for each piece. An element that someone looks at is a NumPy
array whose base is the owner. Since an owner has no buffer, NumPy can't make such an array writeable.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.ref cimport Py_DECREF, Py_INCREF, PyObject
from libc.string cimport memcpy
cimport numpy as cnp
from seqcore.core.arrays cimport array_from, base_of, descr_of
from seqcore.core.pieces cimport (
    AHEAD, MAX_BYTES, MAX_NDIM, Piece, Source, add_to, count_consecutive, extent, prefetch, strides_of,
)

cnp.import_array()


@cython.final
@cython.no_gc               # like an ndarray, whose place it takes; what it holds is memory, not containers
@cython.freelist(256)
cdef class Owner:
    pass


@cython.final
@cython.trashcan(True)
cdef class Keeper:
    # What is no plain array may lead to another owner: a memoryview of an element, a DLPack capsule. Put in
    # and taken out again and again that makes a chain, and to free a chain must not be a chain of calls.

    def __cinit__(self, memory):
        self.memory = memory


@cython.final
cdef class Stored:
    pass


cdef object memory_of(cnp.ndarray array):
    """What keeps the data of an array alive, so that the array object itself need not."""
    cdef object holder = array
    cdef PyObject *base
    # Views of elements lead through the element to its owner. All the way, or owners would make chains.
    while cnp.PyArray_CheckExact(holder) and not cnp.PyArray_CHKFLAGS(holder, cnp.NPY_ARRAY_OWNDATA):
        base = base_of(holder)
        if base == NULL:
            break
        holder = <object>base
    if type(holder) is Owner:
        memory = (<Owner>holder).memory
        return (<Stored>memory).memory if type(memory) is Stored else memory
    return holder if cnp.PyArray_CheckExact(holder) else Keeper.__new__(Keeper, holder)


cdef object kept_memory(const Source *source):
    return kept_by(<Owner>owner_of(source))


cdef object kept_by(Owner owner):
    """What keeps the memory of an owner's pieces alive."""
    cdef object memory = owner.memory
    if type(memory) is Stored:
        memory = (<Stored>memory).memory
    return (<Keeper>memory).memory if type(memory) is Keeper else memory


cdef Owner new_owner(cnp.ndarray array, int axis, bint drop_axis, Py_ssize_t n):
    """A source of the array's memory, with room for n pieces, that no slot points to yet.

    The pieces vary along `axis`, or lack it where `drop_axis` is set; at rank 0 it is -1. `array` is an
    exact ndarray of an element type. Its shape and strides are copied: whatever becomes of the array
    object, the pieces stay as they are.
    """
    cdef Owner owner = Owner.__new__(Owner)
    cdef Source *source = &owner.source
    cdef int i, ndim = cnp.PyArray_NDIM(array) - drop_axis
    cdef Py_ssize_t *dims = owner.dims
    cdef Py_ssize_t in_pieces = n * <Py_ssize_t>sizeof(Piece)
    if n or drop_axis or ndim > INLINE_NDIM:
        owner.more = PyBytes_FromStringAndSize(NULL, in_pieces + (2 * ndim + 1) * <int>sizeof(Py_ssize_t))
        dims = <Py_ssize_t *>(PyBytes_AS_STRING(owner.more) + in_pieces)
    source.itemsize = cnp.PyArray_ITEMSIZE(array)
    source.ndim = ndim
    source.axis = -1 if drop_axis else axis
    source.shape = dims
    for i in range(ndim):
        dims[i] = cnp.PyArray_DIM(array, i + (drop_axis and i >= axis))
        dims[ndim + i] = cnp.PyArray_STRIDE(array, i + (drop_axis and i >= axis))
    if drop_axis:
        dims[2 * ndim] = cnp.PyArray_STRIDE(array, axis)
    owner.memory = memory_of(array)
    return owner


cdef Owner owner_of_pieces(cnp.ndarray array, int axis, bint drop_axis, Py_ssize_t n):
    """The owner of n pieces to be cut along `axis`."""
    cdef Owner owner
    if n > MAX_BYTES // <Py_ssize_t>sizeof(Piece) - 2 * MAX_NDIM:
        raise MemoryError(f"no memory for {n} elements")
    try:
        owner = new_owner(array, axis, drop_axis, n)
    except MemoryError:         # which says nothing
        raise MemoryError(f"no memory for {n} elements") from None
    if cnp.PyArray_SIZE(array) == 0:
        # Without items all data pointers are alike, so that none points outside the array's memory.
        strides_of(&owner.source)[owner.source.ndim if drop_axis else axis] = 0
    return owner


cdef Owner owner_like(cnp.ndarray items, Piece *like, Py_ssize_t n):
    """The owner of n pieces in C order in the memory of `items`, of a piece's shape but for axis 0.

    A single piece is to be the owner's own, `whole`; a scalar's axis counts as dropped.
    """
    cdef Owner owner = Owner.__new__(Owner)
    cdef Source *source = &owner.source
    cdef int ndim = like.source.ndim, axis
    cdef Py_ssize_t *dims = owner.dims
    cdef Py_ssize_t in_pieces = 0, stride = cnp.PyArray_ITEMSIZE(items), nbytes = stride
    if n > MAX_BYTES // <Py_ssize_t>sizeof(Piece) - 2 * MAX_NDIM:
        raise MemoryError(f"no memory for {n} elements")
    if n > 1 or ndim > INLINE_NDIM:
        in_pieces = n * <Py_ssize_t>sizeof(Piece) if n > 1 else 0
        owner.more = PyBytes_FromStringAndSize(NULL, in_pieces + (2 * ndim + 1) * <int>sizeof(Py_ssize_t))
        dims = <Py_ssize_t *>(PyBytes_AS_STRING(owner.more) + in_pieces)
    source.itemsize = stride
    source.ndim = ndim
    source.axis = 0 if ndim else -1
    source.shape = dims
    for axis in range(ndim - 1, -1, -1):
        dims[axis] = extent(like, axis)
        dims[ndim + axis] = stride
        stride *= dims[axis]
        # Where there are no items, no memory has set a limit: NumPy's own counts an extent of 0 as 1.
        if nbytes > MAX_BYTES // max(dims[axis], 1):
            raise ValueError("an element without items has a shape that is too large for an array of another "
                             "dtype")
        nbytes *= max(dims[axis], 1)
    if ndim == 0:
        dims[0] = stride
    owner.memory = memory_of(items)
    return owner


cdef void hold_fresh(Owner owner, Py_ssize_t n) noexcept:
    """Count n slots for an owner that had none."""
    if n:
        owner.source.slots = n
        Py_INCREF(owner)


cdef int check_type(cnp.ndarray array, cnp.dtype dtype) except -1:
    """Refuse an array whose type was set after it was looked at: others have it too."""
    if descr_of(array) == <PyObject *>dtype:
        return 0
    if not cnp.PyArray_EquivTypes(<cnp.dtype>descr_of(array), dtype):
        raise TypeError(f"the tensor's dtype changed from {dtype} to {array.dtype} while it was read")
    return 0


cdef Piece *take_whole(cnp.ndarray array) except NULL:
    """The array as a piece, with one hold on it."""
    cdef bint scalar = cnp.PyArray_NDIM(array) == 0
    cdef Owner owner = new_owner(array, -1 if scalar else 0, False, 0)
    owner.whole.source = &owner.source
    owner.whole.data = cnp.PyArray_BYTES(array)
    owner.whole.length = 1 if scalar else owner.source.shape[0]
    hold_fresh(owner, 1)
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
    return array_from(<PyObject *>dtype, source.ndim, dims, strides_of(source), piece.data,
                      owner_of(source))


cdef object sealed(cnp.ndarray array, cnp.dtype dtype):
    """The array as an element is one: read-only, and nobody can make it writeable again."""
    cdef Piece *piece = take_whole(array)
    try:
        return make_element(piece, dtype)
    finally:
        drop(piece)


cdef void hold(Piece *piece) noexcept:
    """Count one more slot that points to the piece."""
    # From zero only where the caller has a reference of its own: the array it has just looked at.
    if add_to(&piece.source.slots, 1) == 0:
        Py_INCREF(<object>owner_of(piece.source))


cdef inline Py_ssize_t count_of_source(Piece **slots, Py_ssize_t n) noexcept nogil:
    """How many slots, from the first, point to pieces of one source."""
    cdef Source *source = slots[0].source
    cdef Py_ssize_t i = 0
    while i < n and slots[i].source == source:
        # As long as the slots go through a block in order, there is no need to read its pieces.
        if source.tiled and i + 1 < n and slots[i + 1] == slots[i] + 1:
            i += count_consecutive(slots + i, n - i)
        else:
            if i + AHEAD < n:
                prefetch(slots[i + AHEAD])
            i += 1
    return i


cdef void hold_all(Piece **slots, Py_ssize_t n) noexcept:
    cdef Py_ssize_t i = 0, run
    cdef Source *source
    while i < n:
        source = slots[i].source
        run = count_of_source(slots + i, n - i)
        if add_to(&source.slots, run) == 0:
            Py_INCREF(<object>owner_of(source))
        i += run


cdef void drop(Piece *piece) noexcept:
    """Give up one hold. The last one may run foreign code: call it with no lock and nothing half done."""
    cdef PyObject *owner = owner_of(piece.source)
    if add_to(&piece.source.slots, -1) == 1:
        Py_DECREF(<object>owner)


cdef void drop_all(Piece **slots, Py_ssize_t n) noexcept:
    cdef Py_ssize_t i = 0, run
    cdef Source *source
    cdef PyObject *owner
    while i < n:
        source = slots[i].source
        owner = owner_of(source)
        run = count_of_source(slots + i, n - i)
        if add_to(&source.slots, -run) == run:
            Py_DECREF(<object>owner)
        i += run


def _owner_of_finds_its_way():
    cdef Owner owner = Owner.__new__(Owner)
    return owner_of(&owner.source) == <PyObject *>owner


assert _owner_of_finds_its_way(), "an Owner's source is not right behind its object header"
