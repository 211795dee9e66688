"""The Python objects that own sources: arrays that elements are views of.

::

    ArrayOwner   one array that was put in: a single element
    TableOwner   an array and numbers that say where each of its elements is (see `table`)

Two counts keep an owner alive::

    slots and runs ──count──▶ source (inside the owner) ◀──reference── elements in use (their .base)

The slots and runs of all sequences together hold one Python reference, for as long as there are any; a split
or a bulk edit then costs one addition, not one for each element. An element that is in use is a NumPy array
whose base is the owner. Since an owner has no buffer, NumPy can't make such an array writeable.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.ref cimport Py_DECREF, Py_INCREF, PyObject
from cpython.tuple cimport PyTuple_New, PyTuple_SET_ITEM
from libc.string cimport memcpy
cimport numpy as cnp

from seqcore.core.arrays cimport array_from, array_moved, base_of, descr_of
from seqcore.core.directory cimport ID_SHIFT, Slot, forget_id, source_of
from seqcore.core.limits cimport FETCH_AHEAD
from seqcore.core.source cimport (
    MAX_NDIM, WHOLE, Piece, Source, add_to, extent, is_solid, owner_of, prefetch, resolve, strides_of,
)

cnp.import_array()

cdef extern from *:
    """
    #include <stdlib.h>
    #ifdef Py_GIL_DISABLED
    #define SEQCORE_OWN_TRASHCAN 1
    #ifdef _MSC_VER
    #define SEQCORE_THREAD_LOCAL __declspec(thread)
    #else
    #define SEQCORE_THREAD_LOCAL __thread
    #endif
    typedef struct seqcore_waiting { PyObject *object; struct seqcore_waiting *next; } seqcore_waiting;
    static SEQCORE_THREAD_LOCAL int seqcore_depth = 0;
    static SEQCORE_THREAD_LOCAL seqcore_waiting *seqcore_first = NULL;

    /* Release an object. At a depth of 50 such calls it waits until the first of them goes on. */
    static void seqcore_release(PyObject *object)
    {
        seqcore_waiting *one = seqcore_depth < 50 ? NULL : malloc(sizeof(seqcore_waiting));
        if (one != NULL) {
            one->object = object;
            one->next = seqcore_first;
            seqcore_first = one;
            return;
        }
        ++seqcore_depth;
        Py_DECREF(object);
        while (seqcore_depth == 1 && seqcore_first != NULL) {
            one = seqcore_first;
            seqcore_first = one->next;
            object = one->object;
            free(one);
            Py_DECREF(object);
        }
        --seqcore_depth;
    }
    #else
    #define SEQCORE_OWN_TRASHCAN 0
    #define seqcore_release(object) Py_DECREF(object)
    #endif
    """
    const bint OWN_TRASHCAN "SEQCORE_OWN_TRASHCAN"
    void release_in_turn "seqcore_release"(PyObject *object) noexcept

cdef Slot ID_AND_TAG = (~<Slot>0 << ID_SHIFT) | 1


# -- owners ------------------------------------------------------------------------------------------

@cython.final
@cython.no_gc               # like an ndarray, whose place it takes; what it keeps is memory, not containers
@cython.freelist(256)
cdef class ArrayOwner:
    pass


@cython.final
@cython.no_gc
@cython.freelist(64)
cdef class TableOwner:

    def __dealloc__(self):
        forget_id(&self.table)


@cython.final
@cython.trashcan(True)
cdef class Keeper:
    # An object that is not a plain array may lead to another owner: a memoryview of an element, a DLPack
    # capsule. Put in and taken out again and again that makes a chain, and freeing a chain must not recurse.

    def __cinit__(self, memory):
        self.memory = memory

    def __dealloc__(self):
        # Cython 3.3 has no trashcan on builds without the GIL.
        cdef PyObject *memory = <PyObject *>self.memory
        if OWN_TRASHCAN and memory != NULL:
            Py_INCREF(<object>memory)
            self.memory = None
            release_in_turn(memory)


cdef object memory_of(cnp.ndarray array):
    """Return what keeps the data of an array alive, so that the array object itself need not."""
    cdef object holder = array
    cdef PyObject *base
    # Views of elements lead through the element to its owner. All the way, or owners would make chains.
    while cnp.PyArray_CheckExact(holder) and not cnp.PyArray_CHKFLAGS(holder, cnp.NPY_ARRAY_OWNDATA):
        base = base_of(holder)
        if base == NULL:
            break
        holder = <object>base
    if type(holder) is ArrayOwner:
        return (<ArrayOwner>holder).memory
    if type(holder) is TableOwner:
        return (<TableOwner>holder).memory
    return holder if cnp.PyArray_CheckExact(holder) else Keeper.__new__(Keeper, holder)


cdef object kept_memory(const Source *source):
    return kept_by(<object>owner_of(source))


cdef object kept_by(object owner):
    """Return what keeps the memory of an owner's elements alive."""
    memory = (<ArrayOwner>owner).memory if type(owner) is ArrayOwner else (<TableOwner>owner).memory
    return (<Keeper>memory).memory if type(memory) is Keeper else memory


cdef void retain_source(Source *source, Py_ssize_t n) noexcept:
    """Count n more slots or runs that name a source."""
    # From zero only where the caller has a reference of its own: the owner it has just made.
    if n and add_to(&source.users, n) == 0:
        Py_INCREF(<object>owner_of(source))


cdef void release_source(Source *source, Py_ssize_t n) noexcept:
    """Count n fewer. The last may run foreign code: call it with no lock and nothing half done."""
    cdef PyObject *owner = owner_of(source)
    if n and add_to(&source.users, -n) == n:
        Py_DECREF(<object>owner)


cdef inline Py_ssize_t count_of_source(const Slot *slots, Py_ssize_t n) noexcept nogil:
    """Return how many slots, from the first, are elements of one source."""
    cdef Py_ssize_t i = 1
    cdef Slot first = slots[0], mask = ID_AND_TAG if first & 1 else ~<Slot>0
    while i < n and (slots[i] ^ first) & mask == 0:
        i += 1
    return i


cdef void retain_slots(const Slot *slots, Py_ssize_t n) noexcept:
    cdef Py_ssize_t i = 0, k
    while i < n:
        if i + FETCH_AHEAD < n and not slots[i + FETCH_AHEAD] & 1:
            prefetch(<void *><size_t>slots[i + FETCH_AHEAD])
        k = count_of_source(slots + i, n - i)
        retain_source(source_of(slots[i]), k)
        i += k


cdef void release_slots(const Slot *slots, Py_ssize_t n) noexcept:
    """The last may run foreign code: call it with no lock and nothing half done."""
    cdef Py_ssize_t i = 0, k
    while i < n:
        if i + FETCH_AHEAD < n and not slots[i + FETCH_AHEAD] & 1:
            prefetch(<void *><size_t>slots[i + FETCH_AHEAD])
        k = count_of_source(slots + i, n - i)
        release_source(source_of(slots[i]), k)
        i += k


# -- whole arrays --------------------------------------------------------------------------------------

cdef int check_type(cnp.ndarray array, cnp.dtype dtype) except -1:
    """Refuse an array whose type was set after it was read: others have it too."""
    if descr_of(array) == <PyObject *>dtype:
        return 0
    if not cnp.PyArray_EquivTypes(<cnp.dtype>descr_of(array), dtype):
        raise TypeError(f"the tensor's dtype changed from {dtype} to {array.dtype} while it was read")
    return 0


cdef Source *take_whole(cnp.ndarray array) except NULL:
    """Return a source of the array as a single element, with one user.

    `array` is an exact ndarray of an element type. Its shape and strides are copied: whatever becomes of the
    array object, the element stays as it is.
    """
    cdef ArrayOwner owner = ArrayOwner.__new__(ArrayOwner)
    cdef Source *source = &owner.source
    cdef int ndim = cnp.PyArray_NDIM(array), i
    cdef Py_ssize_t *dims = owner.dims
    if ndim > 2:
        owner.more = PyBytes_FromStringAndSize(NULL, 2 * ndim * <int>sizeof(Py_ssize_t))
        dims = <Py_ssize_t *>PyBytes_AS_STRING(owner.more)
    for i in range(ndim):
        dims[i] = cnp.PyArray_DIM(array, i)
        dims[ndim + i] = cnp.PyArray_STRIDE(array, i)
    source.itemsize = cnp.PyArray_ITEMSIZE(array)
    source.ndim = ndim
    source.kind = WHOLE
    source.axis = 0 if ndim else -1
    source.shape = dims
    source.data = cnp.PyArray_BYTES(array)
    source.length = dims[0] if ndim else 1
    source.solid = is_solid(source.itemsize, ndim, source.axis, dims)
    owner.memory = memory_of(array)
    source.users = 1
    Py_INCREF(owner)
    return source


# -- elements ------------------------------------------------------------------------------------------

cdef const Py_ssize_t *dims_of(const Piece *piece, Py_ssize_t *shape) noexcept nogil:
    """The extents of a piece, in `shape` if they are not at hand."""
    cdef Source *source = piece.source
    if source.axis < 0 or piece.shape[source.axis] == piece.length:
        return piece.shape
    memcpy(shape, piece.shape, source.ndim * sizeof(Py_ssize_t))
    shape[source.axis] = piece.length
    return shape


cdef object make_element(const Piece *piece, cnp.dtype dtype):
    """Return a new read-only array of an element, without a copy. The caller keeps the source alive."""
    cdef Py_ssize_t[MAX_NDIM] shape
    return array_from(<PyObject *>dtype, piece.source.ndim, dims_of(piece, shape), strides_of(piece),
                      piece.data, owner_of(piece.source))


cdef bint move_element(PyObject *element, int flags, const Piece *piece, cnp.dtype dtype) noexcept:
    """Make an array that was made for another element one of this, and return whether that was possible.

    It is if nobody else has the array and the elements differ in nothing but their addresses. `flags` are
    those of the array when it was new. This is about 40 ns faster than a new array.
    """
    cdef Py_ssize_t[MAX_NDIM] shape
    return array_moved(element, flags, <PyObject *>dtype, piece.source.ndim,
                       dims_of(piece, shape), strides_of(piece), piece.data, owner_of(piece.source))


cdef object sealed(cnp.ndarray array, cnp.dtype dtype):
    """Return the array as an element is: read-only, and nobody can make it writeable again."""
    cdef Piece piece
    cdef Source *source = take_whole(array)
    resolve(source, 0, &piece, NULL)
    try:
        return make_element(&piece, dtype)
    finally:
        release_source(source, 1)


cdef tuple shape_of(const Piece *piece):
    # Here and elsewhere no list comprehension: Cython 3.3's drop a reference too many where there is no
    # memory for the list to grow.
    cdef tuple shape = PyTuple_New(piece.source.ndim)
    cdef int axis
    cdef object length
    for axis in range(piece.source.ndim):
        length = extent(piece, axis)
        Py_INCREF(length)
        PyTuple_SET_ITEM(shape, axis, length)
    return shape


def _owner_of_finds_its_way():
    cdef ArrayOwner array = ArrayOwner.__new__(ArrayOwner)
    cdef TableOwner table = TableOwner.__new__(TableOwner)
    return (owner_of(&array.source) == <PyObject *>array
            and owner_of(&table.table.source) == <PyObject *>table)


assert _owner_of_finds_its_way(), "a source is not right behind its owner's object header"
