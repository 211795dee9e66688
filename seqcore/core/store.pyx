"""The places of a sequence's elements: sources, runs, slots, the gap buffer, and the reader.

::

    TensorSequence ── Store ─┬─ runs   [source, first, step, end] …       split, loaded, sliced, joined
                             └─ slots  [source and number] … gap … […]    edited, selected
                                          │
                                          ▼
                      Source   memory, dtype, shape, strides; of a table also where each element begins
                                          │  resolve(): reads and checks an element's numbers once
                                          ▼
                      Piece    address, length, strides of one element
                      Block    addresses and lengths of many that have one layout: what loops work with

Every loop reads elements through `blocks`. Edits are in the section `buffer`, and `container.pyx` makes them
under its lock. An element's address is computed in `resolve` in store.pxd.

Sections::

    counters   counters of fast paths, for tests
    source     tables: how an element is found and checked
    owner      the Python objects that own sources
    positions  positions as arguments, and errors that name them
    store      stores of runs or slots, and shares of them
    slots      make slots
    runs       make, slice, join and splice runs
    buffer     the gap buffer: edits of a store
    share      a share of a store as an object
    table      make tables
    spans      runs as they are, without a look at each element
    blocks     read elements in blocks of one layout
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.long cimport PyLong_CheckExact
from cpython.mem cimport PyMem_RawFree, PyMem_RawMalloc, PyMem_RawRealloc
from cpython.ref cimport PyObject, Py_DECREF, Py_INCREF
from cpython.tuple cimport PyTuple_New, PyTuple_SET_ITEM
from libc.stdint cimport int64_t
from libc.string cimport memcpy, memmove
cimport cython
cimport numpy as cnp
import numpy as np

from seqcore.core.arrays cimport array_from, array_moved, base_of, descr_of
from seqcore.core.limits cimport (
    BLOCK, FETCH_AHEAD, IS_SMALL, MOST_RUNS, RELEASE_FROM, RELEASE_NBYTES, RUNS_OF_AN_EDIT, SINGLE_RUNS,
)
from seqcore.core.late import late
from seqcore._arguments.protocols import is_bool
from seqcore._arguments.shown import MASKED, got, shown, shown_number

cnp.import_array()


# == counters ============================================================================================
#
# Counters of fast paths: where one falls back, the result is the same, and nothing else would tell.
#
# Counting takes about two nanoseconds, and is done once for a call, a move or a comparison, in no loop over
# elements. Each thread has counters of its own, so they need neither a lock nor the GIL, and threads that
# edit different sequences don't wait for a line of memory that all write to.

cdef extern from *:
    """
    #if defined(_MSC_VER)
    static __declspec(thread) Py_ssize_t seqcore_counts[8];
    #else
    static __thread Py_ssize_t seqcore_counts[8];
    #endif
    """
    Py_ssize_t *counts "seqcore_counts"

# Whether the core was built with SEQCORE_SMALL=1.
SMALL_LIMITS = bool(IS_SMALL)


cdef void count(Counter counter, Py_ssize_t n) noexcept nogil:
    counts[<int>counter] += n


def counted():
    """Return what this thread's calls have done so far, by name."""
    return {
        "slots_copied": counts[<int>SLOTS_COPIED],
        "gap_moved": counts[<int>GAP_MOVED],
        "grown": counts[<int>GROWN],
        "without_gil": counts[<int>WITHOUT_GIL],
        "spliced": counts[<int>SPLICED],
        "slots_made": counts[<int>SLOTS_MADE],
        "reduced": counts[<int>REDUCED],
        "arguments_made": counts[<int>ARGUMENTS_MADE],
    }


assert NCOUNTERS <= 8, "there are more counters than room for them"


# == source ==============================================================================================
#
# Elements of sources as they are read: where one begins, how long it is, and whether that is in the source.
#
# ::
#
#     kind       start of element i       its length                     e.g.
#     WHOLE      0                        length                         an array that was put in
#     EVEN       i * pitch                length, the last one `last`    a split into equal parts
#     OFFSETS    offsets[i]               offsets[i + 1] - offsets[i]    a split by lengths, a file,
#                                                                        Arrow's lists
#     VIEWS      starts[i]                lengths[i]                     Arrow's list views
#     PADDED     i * pitch, and padding   lengths[i]                     a padded batch
#     SHAPED     offsets[i]               shapes[i][0]                   images, in a file
#
# Numbers of files and of Arrow are used where they are, and are never trusted: each use reads a number once,
# checks it, and then uses the `Piece` that it made alone.

@cython.cdivision(True)
cdef bint read_pointer(const Table *table, Py_ssize_t number, Py_ssize_t *start,
                       Py_ssize_t length) noexcept nogil:
    """Make a position of a start in bytes, unless the next element doesn't begin where this one ends."""
    # By shifts, because a division takes longer than the rest; the size is 1, 2, 4 or 8.
    cdef Py_ssize_t itemsize = table.source.itemsize, first = start[0]
    cdef int shift = (itemsize > 1) + (itemsize > 2) + (itemsize > 4)
    start[0] = first >> shift
    if first < 0 or first & (itemsize - 1) or not 0 <= length <= (MAX_BYTES - first) >> shift:
        return False
    return number + 1 == table.n or (
        number_at(table.starts, number + 1, table.width) == first + (length << shift))


cdef bint resolve_other(Table *table, Py_ssize_t number, Piece *piece, Py_ssize_t *dims) noexcept nogil:
    """As `resolve`, for the kinds of tables that are rarer."""
    cdef Source *source = &table.source
    cdef Py_ssize_t start, stop, room, items, stride
    cdef int axis, place, ndim = source.ndim
    if source.kind == VIEWS:
        start = number_at(table.starts, number, table.width)
        piece.length = number_at(table.lengths, number, table.lengths_width)
        if table.pointers and not read_pointer(table, number, &start, piece.length):
            return False
        if not (table.low <= start <= table.high and 0 <= piece.length <= table.high - start):
            return False
        piece.data = source.data + (start - table.low) * table.step
        piece.start = start
        return True
    if source.kind == PADDED:
        piece.length = number_at(table.lengths, number, table.lengths_width)
        if not 0 <= piece.length <= table.high:
            return False
        piece.start = table.high - piece.length if table.left else 0
        piece.data = source.data + number * table.pitch + piece.start * table.step
        return True
    # SHAPED: each in C order, except for the order in which its axes are in memory.
    start = number_at(table.starts, number, table.width)
    stop = number_at(table.starts, number + 1, table.width)
    if not table.low <= start <= stop <= table.high:
        return False
    piece.data = source.data + (start - table.low) * table.step
    piece.start = start
    piece.shape = dims
    items = 1
    stride = source.itemsize
    room = MAX_BYTES // source.itemsize     # NumPy counts an extent of 0 as 1 where it limits the size
    for axis in range(ndim - 1, -1, -1):
        place = source.shape[axis]
        dims[place] = number_at(table.lengths, number * ndim + axis, table.lengths_width)
        dims[ndim + place] = stride
        if dims[place] < 0 or (dims[place] > 1 and dims[place] > room):
            return False
        room //= max(dims[place], 1)
        stride *= max(dims[place], 1)
        items *= dims[place]
    piece.length = dims[0]
    return items == stop - start


cdef Py_ssize_t piece_nbytes(const Piece *piece) noexcept nogil:
    # NumPy has checked that the product fits, for the array that this is a part of.
    cdef Py_ssize_t nbytes = piece.source.itemsize
    cdef int axis
    for axis in range(piece.source.ndim):
        nbytes *= extent(piece, axis)
    return nbytes


cdef bint same_shape(const Piece *a, const Piece *b) noexcept nogil:
    cdef int axis
    if same_layout(a.source, b):
        return a.length == b.length
    if a.source.ndim != b.source.ndim:
        return False
    for axis in range(a.source.ndim):
        if extent(a, axis) != extent(b, axis):
            return False
    return True


cdef bint fits_behind(const Piece *first, const Piece *piece) noexcept nogil:
    """Return whether two elements have one shape except for axis 0."""
    cdef int axis
    if piece.source.ndim != first.source.ndim:
        return False
    for axis in range(1, first.source.ndim):
        if extent(piece, axis) != extent(first, axis):
            return False
    return True


# == owner ===============================================================================================
#
# The Python objects that own sources: arrays that elements are views of.
#
# ::
#
#     ArrayOwner   one array that was put in: a single element
#     TableOwner   an array and numbers that say where each of its elements is (see `table`)
#
# Two counts keep an owner alive::
#
#     slots and runs ──count──▶ source (inside the owner) ◀──reference── elements in use (their .base)
#
# The slots and runs of all sequences together hold one Python reference, for as long as there are any; a
# split or a bulk edit then costs one addition, not one for each element. An element that is in use is a NumPy
# array whose base is the owner. Since an owner has no buffer, NumPy can't make such an array writeable.

cdef extern from *:
    """
    #include <stdlib.h>
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
    """
    void release_in_turn "seqcore_release"(PyObject *object) noexcept


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
    pass


@cython.final
cdef class Keeper:
    # An object that is not a plain array may lead to another owner: a memoryview of an element, a DLPack
    # capsule. Put in and taken out again and again that makes a chain, and freeing a chain must not recurse.
    # CPython's own means, which Cython knows as trashcan, recurses 10,000 times in version 3.13.

    def __cinit__(self, memory):
        self.memory = memory

    def __dealloc__(self):
        cdef PyObject *memory = <PyObject *>self.memory
        if memory != NULL:
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
    if cnp.PyArray_CheckExact(holder):
        return holder
    cdef Keeper keeper = Keeper.__new__(Keeper, holder)
    if isinstance(holder, np.memmap):
        keeper.file = late("file_of_memmap")(holder)
    return keeper


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
    while i < n and slots[i].source == slots[0].source:
        i += 1
    return i


cdef void retain_slots(const Slot *slots, Py_ssize_t n) noexcept:
    cdef Py_ssize_t i = 0, k
    while i < n:
        if i + FETCH_AHEAD < n:
            prefetch(slots[i + FETCH_AHEAD].source)
        k = count_of_source(slots + i, n - i)
        retain_source(slots[i].source, k)
        i += k


cdef void release_slots(const Slot *slots, Py_ssize_t n) noexcept:
    """The last may run foreign code: call it with no lock and nothing half done."""
    cdef Py_ssize_t i = 0, k
    while i < n:
        if i + FETCH_AHEAD < n:
            prefetch(slots[i + FETCH_AHEAD].source)
        k = count_of_source(slots + i, n - i)
        release_source(slots[i].source, k)
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


# == positions ===========================================================================================
#
# Positions as arguments, and the exceptions that name them.

cdef bint is_single_bool(value) except -1:
    """As `is_bool`, but quick for Python and NumPy: selections by lists ask it of each item."""
    if isinstance(value, np.integer):
        return False
    return isinstance(value, (bool, np.bool_)) or is_bool(value)


cdef Py_ssize_t as_position(position) except? -1:
    """A position from a Python or NumPy integer or an int32 or int64 array of one element."""
    if PyLong_CheckExact(position):
        return PyNumber_AsSsize_t(position, NULL)
    if cnp.PyArray_Check(position):
        return position_in(position)
    # As from seq[len(seq) > 2], which would be element 0 or 1.
    if is_single_bool(position):
        raise TypeError(f"a position must be an integer, got {position}: seq[seq.lengths() > 2] selects "
                        "elements by a mask of one bool for each")
    if PyIndex_Check(position):
        return PyNumber_AsSsize_t(position, NULL)
    if type(position) is tuple and len(position) == 1 and cnp.PyArray_Check(position[0]):
        raise TypeError("the index is a tuple with one array, as from np.where: pass the array itself, or "
                        "seq[mask], or seq[np.flatnonzero(mask)]")
    if type(position) is tuple and len(position) > 1:
        raise TypeError(f"a sequence has one axis, got the index {shown(position)}: seq[i][j] indexes one "
                        "element, sequence_map(lambda a: a[j], seq) or map_batches all")
    raise TypeError(f"a position must be an integer, got {got(position)}")


cdef Py_ssize_t position_in(cnp.ndarray position) except? -1:
    """The position in an array, as its own memory has it: a subclass may say anything."""
    cdef cnp.ndarray array = position
    if not cnp.PyArray_CheckExact(position):
        if isinstance(position, np.ma.MaskedArray):
            raise TypeError(f"a position must be an integer, got {MASKED}")
        array = np.ndarray.view(position, np.ndarray)
    dtype = array.dtype
    if cnp.PyArray_SIZE(array) != 1 or dtype.kind != "i" or dtype.itemsize not in (4, 8):
        raise TypeError(f"a position must be one int32 or int64, got {got(array)}")
    return PyNumber_AsSsize_t((<object>array).item(), NULL)


cdef int raise_for(Status status, object position, Py_ssize_t n, bint inserting=False) except -1:
    """Turn a status into an exception; `n` is the length that the operation found."""
    if status == NO_MEMORY:
        raise MemoryError(f"no memory for a sequence of {n} tensors")
    if status == OUT_OF_RANGE:
        position = shown_number(position)
        if n == 0 and not inserting:
            raise IndexError(f"position {position} is out of range: the sequence is empty")
        raise IndexError(f"position {position} is out of range for a sequence of {n} "
                         f"tensor{'s' if n != 1 else ''} ({-n} to {n if inserting else n - 1})")
    return 0


# == store ===============================================================================================
#
# Stores: how the elements of a sequence are kept.
#
# A sequence that was split, loaded, sliced, reversed or joined is *runs*: nothing is stored per element::
#
#     run     source, first, step, end         elements first, first + step, … of one source
#     runs    [A 0 1 500] [B 9 -1 510]         500 elements of A from the front, ten of B from the back
#
# After many edits, and for a selection, it has *slots*, 16 bytes for each element, in a gap buffer::
#
#     slots    0            lo            hi                  capacity
#              ├─ elements ─┤···· gap ····├───── elements ─────┤
#
#     position i  is  slots[i]              where i < lo
#                     slots[i + (hi - lo)]  from there on
#
# Invariants: 0 ≤ lo ≤ hi ≤ capacity. Each slot outside the gap is one user of its source, and so is each run.
#
# Stores are shared: a copy of a sequence, and every reader that works without the lock, takes a share instead
# of the elements. Runs never change, and neither do shared slots.

# Sequences without elements share this one, which is never theirs alone and so never edited or freed.
cdef Store nothing
nothing.shares = 1
nothing.nruns = SLOTS
nothing.capacity = nothing.lo = nothing.hi = 0


cdef Store *allocated(Py_ssize_t n, Py_ssize_t each) noexcept nogil:
    """A store with room for n slots or runs of some bytes each, and one share; NULL without memory."""
    cdef Store *store
    if n > (MAX_BYTES - <Py_ssize_t>sizeof(Store)) // each:
        return NULL
    # The struct has one slot of its own, which makes up for none where n is 0.
    store = <Store *>PyMem_RawMalloc(sizeof(Store) + n * each)
    if store != NULL:
        use_huge_pages(store, n * each)
        store.shares = 1
    return store


cdef Store *new_slots(Py_ssize_t capacity) noexcept nogil:
    """A store of slots that is all gap."""
    cdef Store *store = allocated(capacity, sizeof(Slot))
    if store != NULL:
        store.nruns = SLOTS
        store.capacity = capacity
        store.lo = 0
        store.hi = capacity
    return store


cdef Store *new_runs(Py_ssize_t nruns) noexcept nogil:
    """A store with room for some runs, to be added and finished."""
    cdef Store *store = allocated(nruns, sizeof(Run))
    if store != NULL:
        store.nruns = store.capacity = store.lo = store.hi = 0
    return store


cdef Store *one_run(Source *source, Py_ssize_t n) noexcept:
    """The elements of a source in order."""
    cdef Store *store
    if n == 0:
        return empty_store()
    store = new_runs(1)
    if store != NULL:
        runs_of(store)[0] = Run(source, 0, 1, n)
        store.nruns = 1
        store.capacity = n
        retain_source(source, 1)
    return store


cdef Store *empty_store() noexcept nogil:
    return share(&nothing)


cdef void fill(Store *store) noexcept nogil:
    """All slots have been written and are users of their sources: no gap is left."""
    store.lo = store.hi = store.capacity


cdef Store *share(Store *store) noexcept nogil:
    add_to(&store.shares, 1)
    return store


cdef void release(Store *store) noexcept:
    """Return a share, and with the last one the elements. NULL is nothing to release."""
    cdef Py_ssize_t i
    if store == NULL or add_to(&store.shares, -1) > 1:
        return
    if has_runs(store):
        for i in range(store.nruns):
            release_source(runs_of(store)[i].source, 1)
    else:
        release_slots(store.slots, store.lo)
        release_slots(&store.slots[store.hi], back_size(store))
    PyMem_RawFree(store)


cdef Py_ssize_t find_run(const Store *store, Py_ssize_t position, Py_ssize_t hint) noexcept nogil:
    """Which run the element at a position in range is in; perhaps `hint`, or the one behind it."""
    cdef const Run *runs = runs_of(store)
    cdef Py_ssize_t low = 0, high = store.nruns - 1, middle
    if hint < store.nruns and begin_of(store, hint) <= position:
        if position < runs[hint].end:
            return hint
        low = hint + 1
        if position < runs[low].end:
            return low
    # Parts of a file are often of one length: then this is the one.
    middle = <Py_ssize_t>(<double>position * store.nruns / store.capacity)
    if middle <= high and begin_of(store, middle) <= position < runs[middle].end:
        return middle
    while low < high:
        middle = (low + high) >> 1
        if position < runs[middle].end:
            high = middle
        else:
            low = middle + 1
    return low


cdef str broken_invariant(Store *store):
    """Return what is wrong with a store, for tests; None if nothing is."""
    cdef Py_ssize_t i, n, number = 0, before = 0
    cdef Source *source
    cdef dict used = {}
    if not 0 <= store.lo <= store.hi <= store.capacity and not has_runs(store):
        return f"the gap is [{store.lo}, {store.hi}) of {store.capacity} slots"
    if read_counter(&store.shares) < 1:
        return f"the store has {store.shares} shares"
    if has_runs(store):
        if store.lo != store.hi or not store.nruns:
            return f"a store of {store.nruns} runs has a gap [{store.lo}, {store.hi})"
        for i in range(store.nruns):
            if runs_of(store)[i].end <= before:
                return f"run {i} ends at {runs_of(store)[i].end}, and the one before at {before}"
            before = runs_of(store)[i].end
            key = <size_t>runs_of(store)[i].source
            used[key] = used.get(key, 0) + 1
            if used[key] > read_counter(&runs_of(store)[i].source.users):
                return f"the source of run {i} counts {runs_of(store)[i].source.users} users, but has more"
        if before != store.capacity:
            return f"the last run ends at {before} of {store.capacity} elements"
    for i in range(size_of(store)):
        source = locate(store, i, &number)
        n = 1 if source.kind == WHOLE else (<Table *>source).n
        if not 0 <= number < n:
            return f"element {i} is number {number} of {n} of its source"
        if has_runs(store):
            continue
        key = <size_t>source
        used[key] = used.get(key, 0) + 1
        if used[key] > read_counter(&source.users):
            return f"the source of element {i} counts {source.users} users, but has more"
    return None


# == slots ===============================================================================================
#
# Slots: the elements of a store, 16 bytes for each, written one by one.

cdef void write_slots(const Store *store, Py_ssize_t start, Py_ssize_t step, Py_ssize_t n,
                      Slot *into) noexcept nogil:
    """Write the slots of elements start, start + step, …, which don't count as users of their sources yet."""
    cdef Py_ssize_t i = 0, k, j, front, which = 0, begin, number
    cdef const Run *run
    if n == 0:
        return
    if not has_runs(store):
        if step == 1:
            front = min(max(store.lo - start, 0), n)
            memcpy(into, &store.slots[start], front * sizeof(Slot))
            memcpy(into + front, slot_at(store, start + front), (n - front) * sizeof(Slot))
        else:
            for i in range(n):
                into[i] = slot_at(store, start + i * step)[0]
        return
    while i < n:
        which = find_run(store, start, which)
        run = &runs_of(store)[which]
        begin = begin_of(store, which)
        k = (run.end - 1 - start) // step if step > 0 else (start - begin) // -step
        k = min(k + 1, n - i)
        number = run.first + (start - begin) * run.step
        for j in range(k):
            into[i + j] = Slot(run.source, number)
            number += run.step * step if k > 1 else 0      # a single element may have any step
        i += k
        if i < n:
            start += k * step


cdef void retain_elements(const Store *store) noexcept:
    """Count a slot more for each element of a store."""
    cdef Py_ssize_t i
    for i in range(store.nruns):
        retain_source(runs_of(store)[i].source, runs_of(store)[i].end - begin_of(store, i))
    if not has_runs(store):
        retain_slots(store.slots, store.lo)
        retain_slots(&store.slots[store.hi], back_size(store))


cdef void as_slots(Store *store, Py_ssize_t start, Py_ssize_t step, Store *into) noexcept:
    """Fill slots, all gap before, with elements start, start + step, …"""
    write_slots(store, start, step, into.capacity, into.slots)
    if step == 1 and into.capacity == size_of(store):
        retain_elements(store)
    else:
        retain_slots(into.slots, into.capacity)
    fill(into)


cdef Status unshare(Store **store) noexcept:
    """Make a store slots of the caller's own, if need be by a copy that its share is given for."""
    cdef Store *old = store[0]
    cdef Store *new
    if has_runs(old) or read_counter(&old.shares) > 1:
        new = new_slots(size_of(old))
        if new == NULL:
            return NO_MEMORY
        as_slots(old, 0, 1, new)
        count(SLOTS_COPIED, 1)
        store[0] = new
        release(old)
    return OK


# == runs ================================================================================================
#
# Runs: elements at equal distances in one source; nothing is stored for each.
#
# ::
#
#     seq                    [A 0 1 500] [B 9 -1 510]
#     seq[::-1]              [B 0 1 10] [A 499 -1 510]
#     seq.insert(2, x)       [A 0 1 2] [x 0 1 3] [A 2 1 501] [B 9 -1 511]      a splice
#
# Neighbors that continue each other are merged. A splice makes a new, equally small store. When there are
# many runs, slots take less room, and an edit that moves a gap less time.

cdef void add_run(Store *store, Source *source, Py_ssize_t first, Py_ssize_t step,
                  Py_ssize_t n) noexcept nogil:
    """Write a run behind the others, or make the last one longer. It counts as no user of its source yet."""
    cdef Run *runs = runs_of(store)
    cdef Run *last
    cdef Py_ssize_t before
    if n == 0:
        return
    if n == 1:
        step = 1
    if store.nruns and runs[store.nruns - 1].source == source:
        last = &runs[store.nruns - 1]
        before = last.end - begin_of(store, store.nruns - 1)
        if before == 1 and (first - last.first == step or (n == 1 and first - last.first == -1)):
            last.step = first - last.first
            last.end += n
            store.capacity += n
            return
        if before > 1 and first == last.first + before * last.step and (n == 1 or step == last.step):
            last.end += n
            store.capacity += n
            return
    last = &runs[store.nruns]
    last.source = source
    last.first = first
    last.step = step
    store.capacity += n
    last.end = store.capacity
    store.nruns += 1


cdef void add_runs(Store *store, const Store *of, Py_ssize_t start, Py_ssize_t stop) noexcept nogil:
    """Write the runs of elements start to stop of another store."""
    cdef const Run *run
    cdef Py_ssize_t which, begin, n
    if start >= stop:
        return
    which = find_run(of, start, 0)
    while start < stop:
        run = &runs_of(of)[which]
        begin = begin_of(of, which)
        n = min(run.end, stop) - start
        add_run(store, run.source, run.first + (start - begin) * run.step, run.step, n)
        start += n
        which += 1


cdef void retain_runs(const Store *store) noexcept:
    cdef Py_ssize_t i
    for i in range(store.nruns):
        retain_source(runs_of(store)[i].source, 1)


cdef Store *finished(Store *store) noexcept:
    """A store to which runs were added, from now on a user of its sources; NULL, and freed, without memory.

    As slots where so many runs would be larger.
    """
    cdef Store *slots = store
    if store == NULL:
        return NULL
    if store.capacity == 0:
        PyMem_RawFree(store)
        return empty_store()
    if store.nruns <= MOST_RUNS or store.nruns <= store.capacity >> 3:
        retain_runs(store)
        return store
    slots = new_slots(store.capacity)
    if slots != NULL:
        as_slots(store, 0, 1, slots)
    PyMem_RawFree(store)
    return slots


cdef Status splice(Store **store, Store **stale, Py_ssize_t start, Py_ssize_t stop, const Store *news,
                   bint *done) noexcept:
    """Put the elements of `news`, which may be NULL, in the place of elements start to stop of runs.

    Where slots are cheaper, nothing happens and `done` stays False.
    """
    cdef Store *old = store[0]
    cdef Store *new
    cdef Py_ssize_t n = old.capacity, more = 0, i, number, spent
    cdef Source *source
    if news != NULL and size_of(news):
        more = news.nruns if has_runs(news) else size_of(news)
        if not has_runs(news) and more > SINGLE_RUNS:
            return OK
        if size_of(news) > MAX_BYTES // 2 - n:
            return NO_MEMORY
    new = new_runs(old.nruns + more + 1)
    if new == NULL:
        return NO_MEMORY
    add_runs(new, old, 0, start)
    if more and has_runs(news):
        add_runs(new, news, 0, size_of(news))
    else:
        for i in range(more):
            source = locate(news, i, &number)
            add_run(new, source, number, 1, 1)
    add_runs(new, old, stop, n)
    spent = old.lo + new.nruns + RUNS_OF_AN_EDIT
    if new.capacity == 0:
        PyMem_RawFree(new)
        new = empty_store()
    elif spent > max(n, 4 * RUNS_OF_AN_EDIT) or (new.nruns > MOST_RUNS >= old.nruns):
        # By now, slots would have been cheaper.
        PyMem_RawFree(new)
        return OK
    else:
        new.lo = new.hi = spent
        retain_runs(new)
    store[0] = new
    stale[0] = old
    done[0] = True
    count(SPLICED, 1)
    return OK


cdef Status slice_of_store(Store *store, Py_ssize_t start, Py_ssize_t step, Py_ssize_t n,
                           Store **into) noexcept:
    """A store of elements start, start + step, …, n of them: runs of runs, slots of slots."""
    cdef Store *new
    cdef const Run *run
    cdef Py_ssize_t which, last, begin, k
    if n == 0:
        into[0] = empty_store()
        return OK
    if n == size_of(store) and step == 1:
        into[0] = share(store)
        return OK
    if not has_runs(store):
        new = new_slots(n)
        if new == NULL:
            return NO_MEMORY
        as_slots(store, start, step, new)
        into[0] = new
        return OK
    which = find_run(store, start, 0)
    last = find_run(store, start + (n - 1) * step, which)
    new = new_runs(abs(last - which) + 1)
    if new == NULL:
        return NO_MEMORY
    while n:
        which = find_run(store, start, which)
        run = &runs_of(store)[which]
        begin = begin_of(store, which)
        k = (run.end - 1 - start) // step if step > 0 else (start - begin) // -step
        k = min(k + 1, n)
        add_run(new, run.source, run.first + (start - begin) * run.step, run.step * step if k > 1 else 1, k)
        n -= k
        if n:                                       # a single element may have any step
            start += k * step
    into[0] = finished(new)
    return OK if into[0] != NULL else NO_MEMORY


cdef Status joined_stores(Store **stores, Py_ssize_t nstores, Store **into) noexcept:
    """A store of the elements of several, one behind the other."""
    cdef Store *new
    cdef Py_ssize_t i, n = 0, nruns = 0
    cdef bint loose = False
    for i in range(nstores):
        if size_of(stores[i]) > MAX_BYTES // 2 - n:
            return NO_MEMORY
        n += size_of(stores[i])
        nruns += max(stores[i].nruns, 0)
        loose |= size_of(stores[i]) and not has_runs(stores[i])
        if n and size_of(stores[i]) == n:
            into[0] = stores[i]                     # the only one so far
    if n == 0:
        into[0] = empty_store()
        return OK
    if size_of(into[0]) == n:
        into[0] = share(into[0])
        return OK
    if not loose:
        new = new_runs(nruns)
        if new == NULL:
            return NO_MEMORY
        for i in range(nstores):
            if has_runs(stores[i]):
                add_runs(new, stores[i], 0, size_of(stores[i]))
        into[0] = finished(new)
        return OK if into[0] != NULL else NO_MEMORY
    new = new_slots(n)
    if new == NULL:
        return NO_MEMORY
    for i in range(nstores):
        write_slots(stores[i], 0, 1, size_of(stores[i]), &new.slots[new.lo])
        new.lo += size_of(stores[i])
    retain_slots(new.slots, n)
    into[0] = new
    return OK


cdef Store *reversed_runs(const Store *store) noexcept:
    """The same runs from back to front; NULL without memory."""
    cdef Store *new = new_runs(store.nruns)
    cdef const Run *run
    cdef Py_ssize_t i, n
    if new == NULL:
        return NULL
    for i in range(store.nruns - 1, -1, -1):
        run = &runs_of(store)[i]
        n = run.end - begin_of(store, i)
        add_run(new, run.source, run.first + (n - 1) * run.step, -run.step, n)
    new.lo = new.hi = store.lo
    retain_runs(new)
    return new


# == buffer ==============================================================================================
#
# The gap buffer: edits of a store, each O(1) near the last one.
#
# An insert or erase at the gap moves `lo` or `hi` by one. Elsewhere the gap is moved there first: a memmove
# of the slots in between, however long the sequence is. A store of runs is spliced instead, until slots are
# cheaper.
#
# An edit of what others share makes the editor's own first. Either way the old store comes back in `stale`,
# which the caller releases when its lock is gone, because releasing runs finalizers, and those may come back.
# No function here runs foreign code. On a failure nothing has changed.

cdef Py_ssize_t grown(Py_ssize_t n) noexcept nogil:
    """Slots for n elements and the next n/4, so that n appends cost O(n) together."""
    return n + (n >> 2) + 6


cdef Status make_slots(Store **store, Store **stale) noexcept:
    """Have slots in the place of runs."""
    cdef Store *old = store[0]
    cdef Store *new
    if not has_runs(old):
        return OK
    new = new_slots(size_of(old))
    if new == NULL:
        return NO_MEMORY
    as_slots(old, 0, 1, new)
    store[0] = new
    stale[0] = old
    count(SLOTS_MADE, 1)
    return OK


cdef Status edit_runs(Store **store, Store **stale, Py_ssize_t start, Py_ssize_t stop, const Store *news,
                      bint *done) noexcept:
    """Of runs, put `news` in the place of elements start to stop, or have slots for whoever does it then."""
    cdef Status status
    done[0] = False
    if has_runs(store[0]):
        status = splice(store, stale, start, stop, news, done)
        if status != OK or done[0]:
            return status
    return make_slots(store, stale)


# -- the gap ----------------------------------------------------------------------------------------------

cdef void move_gap(Store *store, Py_ssize_t position) noexcept nogil:
    cdef Py_ssize_t lo = store.lo, hi = store.hi, n
    if position < lo:
        n = lo - position
        memmove(&store.slots[hi - n], &store.slots[position], n * sizeof(Slot))
    elif position > lo:
        n = position - lo
        memmove(&store.slots[lo], &store.slots[hi], n * sizeof(Slot))
    else:
        return
    count(GAP_MOVED, 1)
    store.hi = hi + (position - lo)
    store.lo = position


cdef Status grow(Store **store, Py_ssize_t n) noexcept nogil:
    """Have capacity for n elements; the gap becomes longer at its back."""
    cdef Store *old = store[0]
    cdef Store *new
    cdef Py_ssize_t capacity = grown(n), back = back_size(old)
    if capacity > (MAX_BYTES - <Py_ssize_t>sizeof(Store)) // <Py_ssize_t>sizeof(Slot):
        return NO_MEMORY
    new = <Store *>PyMem_RawRealloc(old, sizeof(Store) + capacity * sizeof(Slot))
    if new == NULL:
        return NO_MEMORY
    use_huge_pages(new, capacity * sizeof(Slot))
    memmove(&new.slots[capacity - back], &new.slots[new.hi], back * sizeof(Slot))
    new.hi = capacity - back
    new.capacity = capacity
    store[0] = new
    count(GROWN, 1)
    return OK


cdef void shrink(Store **store) noexcept nogil:
    """Return memory once three quarters of slots of one's own are gap."""
    cdef Store *old = store[0]
    cdef Py_ssize_t n = size_of(old), back = back_size(old), capacity
    if old.capacity < 64 or n > old.capacity >> 2 or read_counter(&old.shares) > 1:
        return
    capacity = grown(n)
    memmove(&old.slots[capacity - back], &old.slots[old.hi], back * sizeof(Slot))
    old.hi = capacity - back
    old.capacity = capacity
    cdef Store *new = <Store *>PyMem_RawRealloc(old, sizeof(Store) + capacity * sizeof(Slot))
    if new != NULL:                 # else the old block stays, longer than it need be
        store[0] = new


cdef Status open_gap(Store **store, Store **stale, Py_ssize_t position, Py_ssize_t room) noexcept:
    """Have the gap at `position`, with `room` free slots, in slots of one's own."""
    cdef Store *old = store[0]
    cdef Store *new
    cdef Py_ssize_t n = size_of(old)
    if room > MAX_BYTES // 2 - n:
        return NO_MEMORY
    if read_counter(&old.shares) > 1:
        new = new_slots(grown(n + room) if room else n)
        if new == NULL:
            return NO_MEMORY
        new.lo = position
        new.hi = new.capacity - (n - position)
        write_slots(old, 0, 1, position, new.slots)
        write_slots(old, position, 1, n - position, &new.slots[new.hi])
        retain_slots(new.slots, position)
        retain_slots(&new.slots[new.hi], n - position)
        store[0] = new
        stale[0] = old
        count(SLOTS_COPIED, 1)
        return OK
    if old.hi - old.lo < room:
        if grow(store, n + room) != OK:
            return NO_MEMORY
    move_gap(store[0], position)
    return OK


# -- elements in and out ----------------------------------------------------------------------------------

cdef Status put_one(Store **store, Store **stale, Py_ssize_t position, Source *whole) noexcept:
    """Insert a whole array; the caller's use of it becomes the store's."""
    cdef Store *own = store[0]
    cdef Store news
    cdef Status status
    cdef bint done
    if has_runs(own):
        news.nruns = SLOTS
        news.capacity = news.lo = news.hi = 1
        news.slots[0] = Slot(whole, 0)
        status = edit_runs(store, stale, position, position, &news, &done)
        if done:
            add_to(&whole.users, -1)        # the run counts itself
        if status != OK or done:
            return status
        own = store[0]
    if own.lo != position or own.lo == own.hi or read_counter(&own.shares) > 1:
        if open_gap(store, stale, position, 1) != OK:
            return NO_MEMORY
        own = store[0]
    own.slots[own.lo] = Slot(whole, 0)
    own.lo += 1
    return OK


cdef Status put_all(Store **store, Store **stale, Py_ssize_t position, Store *news) noexcept:
    """Insert the elements of `news`. If these are slots that are the caller's alone, it may be left empty."""
    cdef Py_ssize_t n = size_of(news)
    cdef Store *own
    cdef Status status
    cdef bint done
    if n == 0:
        return OK
    if size_of(store[0]) == 0:
        stale[0] = store[0]
        store[0] = share(news)
        return OK
    status = edit_runs(store, stale, position, position, news, &done)
    if status != OK or done:
        return status
    if open_gap(store, stale, position, n) != OK:
        return NO_MEMORY
    own = store[0]
    write_slots(news, 0, 1, n, &own.slots[own.lo])
    if has_runs(news) or read_counter(&news.shares) > 1:
        retain_slots(&own.slots[own.lo], n)
    else:
        news.lo = 0
        news.hi = news.capacity
    own.lo += n
    return OK


cdef Status take_one(Store **store, Store **stale, Py_ssize_t position, Slot *taken) noexcept:
    """Remove an element; a slot's use of its source is the caller's. The gap comes from the nearer side."""
    cdef bint done
    cdef Status status = edit_runs(store, stale, position, position + 1, NULL, &done)
    cdef Store *own = store[0]
    if status != OK or done:
        return status
    if read_counter(&own.shares) > 1:
        if open_gap(store, stale, position, 0) != OK:
            return NO_MEMORY
        own = store[0]
    elif position < own.lo:
        move_gap(own, position + 1)
    else:
        move_gap(own, position)
    if position < own.lo:
        own.lo -= 1
        taken[0] = own.slots[own.lo]
    else:
        taken[0] = own.slots[own.hi]
        own.hi += 1
    shrink(store)
    return OK


cdef Status take_range(Store **store, Store **stale, Py_ssize_t start, Py_ssize_t step, Py_ssize_t n,
                       Store **taken) noexcept:
    """Move elements start, start + step, … into a store that is made; step > 0.

    Of runs they stay in `stale` alone.
    """
    cdef Py_ssize_t i = 0, found = 0
    cdef Store *own
    cdef Store *into
    cdef Status status
    cdef bint done = False
    if step == 1:
        status = edit_runs(store, stale, start, start + n, NULL, &done)
    else:
        status = make_slots(store, stale)
    if status != OK or done:
        return status
    into = taken[0] = new_slots(n)
    if into == NULL or open_gap(store, stale, start, 0) != OK:
        return NO_MEMORY
    own = store[0]
    # Elements come through the gap from its back: those to take leave, the others line up before it.
    while found < n:
        if i == found * step:
            into.slots[found] = own.slots[own.hi]
            found += 1
        else:
            own.slots[own.lo] = own.slots[own.hi]
            own.lo += 1
        own.hi += 1
        i += 1
    fill(into)
    shrink(store)
    return OK


cdef Status take_marked(Store **store, Store **stale, const char *marks, Py_ssize_t n,
                        Store **taken) noexcept:
    """Move the n elements whose mark is 1 into a store that is made. Without any, nothing is edited."""
    cdef Py_ssize_t i = 0, found = 0, marked
    cdef Store *own
    cdef Store *into
    cdef Slot slot
    cdef Status status
    if n == 0:
        return OK
    status = make_slots(store, stale)
    if status != OK:
        return status
    while not marks[i]:
        i += 1
    into = taken[0] = new_slots(n)
    if into == NULL or open_gap(store, stale, i, 0) != OK:
        return NO_MEMORY
    own = store[0]
    while found < n:
        # Written to both sides, and one of them moves on: without a branch that nobody could predict. The
        # first element is marked, so that the gap always has a slot for what stays.
        slot = own.slots[own.hi]
        own.hi += 1
        marked = marks[i]
        into.slots[found] = slot
        found += marked
        own.slots[own.lo] = slot
        own.lo += 1 - marked
        i += 1
    fill(into)
    shrink(store)
    return OK


cdef Status replace_one(Store **store, Store **stale, Py_ssize_t position, Slot *slot) noexcept:
    """Exchange the element at a position for a whole array, and the uses of their sources with them.

    Of runs the old element stays in `stale` alone: `slot` has then no source.
    """
    cdef Store news
    cdef Slot *place
    cdef Status status
    cdef bint done
    if has_runs(store[0]):
        news.nruns = SLOTS
        news.capacity = news.lo = news.hi = 1
        news.slots[0] = slot[0]
        status = edit_runs(store, stale, position, position + 1, &news, &done)
        if done:
            add_to(&slot.source.users, -1)      # the run counts itself
            slot.source = NULL
        if status != OK or done:
            return status
    if read_counter(&store[0].shares) > 1 and open_gap(store, stale, position, 0) != OK:
        return NO_MEMORY
    place = slot_at(store[0], position)
    place[0], slot[0] = slot[0], place[0]
    return OK


cdef Status own_slots(Store **store, Store **stale) noexcept:
    """Have slots of one's own."""
    cdef Status status = make_slots(store, stale)
    if status == OK and read_counter(&store[0].shares) > 1:
        status = open_gap(store, stale, size_of(store[0]), 0)
    return status


cdef Status replace_each(Store **store, Store **stale, const int64_t *positions, Py_ssize_t start,
                         Py_ssize_t step, Store *news) noexcept:
    """Exchange elements for those of `news`, slots of the caller's own, one after the other.

    They are at positions in range, or where that is NULL at start, start + step, …
    """
    cdef Py_ssize_t i, at, n = size_of(store[0])
    cdef Status status = OK
    cdef Slot *place
    cdef Slot *new
    if size_of(news):
        status = own_slots(store, stale)
    if status == OK:
        for i in range(size_of(news)):
            at = start + i * step if positions == NULL else positions[i]
            place, new = slot_at(store[0], at + (n if at < 0 else 0)), slot_at(news, i)
            place[0], new[0] = new[0], place[0]
    return status


cdef Status replace_span(Store **store, Store **stale, Py_ssize_t start, Py_ssize_t n, Store **removed,
                         Store *news) noexcept:
    """Put the elements of `news` in the place of n others, which move into a store that is made.

    Of runs those that were removed stay in `stale` alone.
    """
    cdef Store *own
    cdef bint done
    cdef Status status = edit_runs(store, stale, start, start + n, news, &done)
    if status != OK or done:
        return status
    removed[0] = new_slots(n)
    if removed[0] == NULL or open_gap(store, stale, start, size_of(news)) != OK:
        return NO_MEMORY
    own = store[0]
    memcpy(removed[0].slots, &own.slots[own.hi], n * sizeof(Slot))
    own.hi += n
    fill(removed[0])
    write_slots(news, 0, 1, size_of(news), &own.slots[own.lo])
    retain_slots(&own.slots[own.lo], size_of(news))
    own.lo += size_of(news)
    shrink(store)
    return OK


cdef Status reverse_all(Store **store, Store **stale) noexcept:
    cdef Store *own = store[0]
    cdef Py_ssize_t n = size_of(own), i
    if has_runs(own):
        own = reversed_runs(own)
        if own == NULL:
            return NO_MEMORY
        store[0], stale[0] = own, store[0]
        return OK
    if open_gap(store, stale, n, 0) != OK:
        return NO_MEMORY
    own = store[0]
    for i in range(n // 2):
        own.slots[i], own.slots[n - 1 - i] = own.slots[n - 1 - i], own.slots[i]
    return OK


# == share ===============================================================================================
#
# A share of a store as long as an object lives, so that no way out of a function forgets to release it.

@cython.final
@cython.no_gc
@cython.freelist(32)
cdef class Share:

    def __cinit__(self):
        self.store = empty_store()

    def __dealloc__(self):
        release(self.store)


cdef Share share_of(Store *store):
    """Take over a share, even when this fails."""
    cdef Share share
    try:
        share = Share.__new__(Share)
    except BaseException:
        release(store)
        raise
    release(share.store)            # of nothing
    share.store = store
    return share


# == table ===============================================================================================
#
# Tables: an array, and numbers that say where in it each of many elements is.
#
# A split of a (6, 4) float32 array into lengths 1, 3, 2 along axis 0 is one table::
#
#     source   itemsize 4, shape (·, 4), strides (16, 4), axis 0, data
#     table    offsets 0 1 4 6, step 16
#
# and a split into rows is one without any numbers: length 1, pitch 16. `source` says how an element is read.
#
# A table refers to its array's memory and to that of its numbers, never to another table. Numbers of callers
# are checked and copied before they come here; those of files and of Arrow may be anything.

cdef TableOwner new_table(cnp.ndarray array, Kind kind, int ndim, Py_ssize_t n):
    """A table of n elements of a rank, with room for their shape and strides, and for one more stride."""
    cdef TableOwner owner
    cdef Source *source
    if n >> 37:                 # more than memory has, unless the array repeats its items
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
    owner.table.owned = checked
    owner.checked_to = owner.table.n if checked else 0
    use_numbers(owner, offsets, None)
    return owner


cdef TableOwner views_table(cnp.ndarray array, int axis, cnp.ndarray starts, cnp.ndarray lengths):
    """Parts wherever they are, each with a start and a length."""
    cdef TableOwner owner = table_along(array, VIEWS, axis, False, cnp.PyArray_SIZE(starts))
    owner.table.high = cnp.PyArray_DIM(array, axis)
    use_numbers(owner, starts, lengths)
    return owner


cdef TableOwner pointers_table(cnp.ndarray array, cnp.ndarray starts, cnp.ndarray lengths):
    """Parts of a 1-D array, one behind the other, by starts in bytes and lengths, as a file has them."""
    cdef TableOwner owner = table_along(array, VIEWS, 0, False, cnp.PyArray_SIZE(starts))
    owner.table.high = cnp.PyArray_DIM(array, 0)
    owner.table.pointers = True
    owner.table.starts, owner.table.width = cnp.PyArray_DATA(starts), cnp.PyArray_ITEMSIZE(starts)
    owner.table.lengths, owner.table.lengths_width = (
        cnp.PyArray_DATA(lengths), cnp.PyArray_ITEMSIZE(lengths))
    owner.numbers = starts, lengths         # not a copy, though they may not be aligned
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
    """Elements in C order, from item `first` on, of a piece's shape but from each offset to the next.

    The offsets were checked, and nobody else can change them.
    """
    cdef Py_ssize_t n = cnp.PyArray_SIZE(offsets) - 1
    cdef TableOwner owner = table_like(items, OFFSETS, first, like, n)
    owner.table.owned = True
    owner.table.low = (<int64_t *>cnp.PyArray_DATA(offsets))[0]
    owner.table.high = (<int64_t *>cnp.PyArray_DATA(offsets))[n]
    owner.checked_to = n
    use_numbers(owner, offsets, None)
    return owner


cdef TableOwner twin_of(TableOwner owner):
    """The same table with an owner of its own, so that threads needn't share the count of its references."""
    cdef TableOwner twin = TableOwner.__new__(TableOwner)
    twin.table = owner.table
    twin.table.source.users = 0
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


# == spans ===============================================================================================
#
# Elements at equal distances in one table, without a look at each: a run, or slots whose numbers are so.

cdef void begin_spans(Spans *spans, const Store *store, Py_ssize_t start, Py_ssize_t stop) noexcept nogil:
    """Have elements start to stop read, which are in range."""
    spans.store = store
    spans.at = start
    spans.stop = stop
    spans.run = 0


cdef bint next_span(Spans *spans, Span *span) noexcept nogil:
    """The rest of a run, or of consecutive elements in slots; whether there are any. None is read."""
    cdef const Store *store = spans.store
    cdef const Run *run
    cdef const Slot *slots
    cdef Py_ssize_t there = spans.stop - spans.at
    if spans.at >= spans.stop:
        return False
    if has_runs(store):
        spans.run = find_run(store, spans.at, spans.run)
        run = &runs_of(store)[spans.run]
        span.source = run.source
        span.first = run.first + (spans.at - begin_of(store, spans.run)) * run.step
        span.step = run.step
        span.n = min(run.end, spans.stop) - spans.at
    else:
        slots = slot_at(store, spans.at)
        if spans.at < store.lo:
            there = min(there, store.lo - spans.at)         # the gap is in between
        span.source = slots[0].source
        span.first = slots[0].number
        span.step = span.n = 1
        while (span.n < there and slots[span.n].source == span.source
               and slots[span.n].number == span.first + span.n):
            span.n += 1
    spans.at += span.n
    return True


cdef void first_span(const Store *store, Py_ssize_t start, Py_ssize_t stop, Span *span) noexcept nogil:
    """The span that elements start to stop, at least one, begin with."""
    cdef Spans spans
    begin_spans(&spans, store, start, stop)
    next_span(&spans, span)


cdef bint ends_of(const Span *span, Piece *first, Piece *last, Py_ssize_t *dims) noexcept nogil:
    """Read the first and the last element of a span; whether both are within their source."""
    return (resolve(span.source, span.first + (span.n - 1) * span.step, last, dims)
            and resolve(span.source, span.first, first, dims))


# == blocks ==============================================================================================
#
# Reading elements by blocks that have one layout: rank, strides, and extents except for the length.
#
#     while read_block(&block):
#         # what the layout says: block.source, block.shape, block.solid, block.row
#         for i in range(block.n):
#             # block.data[i], block.rows[i]
#
# Neighbors of different arrays are in one block if they are laid out alike. An element with a shape of its
# own is a block of one. Each address and length was read once and checked; a loop never asks a table.

cdef int raise_damaged(const Store *store, Py_ssize_t position, Py_ssize_t before=0) except -1:
    """Say which element is outside of its values. Its numbers are not read again: they may have changed.

    The store may be a part of what the caller knows, with that many elements before it.
    """
    cdef Py_ssize_t number = 0
    cdef Source *source = locate(store, position, &number)
    cdef TableOwner owner = <TableOwner>owner_of(source)
    where = "its Arrow array" if owner.origin is None else owner.origin.path
    whose = "" if owner.first < 0 or owner.origin is None else f", number {owner.first + number} of the file,"
    what = "its offsets leave its values"
    if source.kind == SHAPED:
        what = "its offsets leave its values, or make no tensor of its shape"
    elif source.kind == VIEWS and (<Table *>source).pointers:
        what = "its pointer and its size leave the values, or are not those before the next one"
    raise ValueError(f"element {before + position}{whose} can't be read: {what}, so {where} is damaged")


cdef void begin_blocks(Block *block, const Store *store, Py_ssize_t start, Py_ssize_t stop) noexcept nogil:
    block.store = store
    block.at = start
    block.stop = stop
    block.first = start
    block.together = SEPARATE
    block.mixes = True
    block.fetches = False
    block.run = 0
    block.damaged = False
    block.source = NULL
    block.n = 0


cdef void begin_joint_blocks(Block *block, const Store *store, int together, bint mixes) noexcept nogil:
    """As `begin_blocks`, for a loop to which consecutive elements of a table may be given as one.

    `together` is an axis that elements were split along, or a Together.
    """
    begin_blocks(block, store, 0, size_of(store))
    block.together = together
    block.mixes = mixes


cdef bint are_alike(const Source *a, const Source *b) noexcept nogil:
    """Return whether all elements of two sources have one layout."""
    cdef int axis, ndim = a.ndim
    if ndim != b.ndim or a.axis != b.axis or a.kind == SHAPED or b.kind == SHAPED:
        return False
    for axis in range(ndim):
        if a.shape[ndim + axis] != b.shape[ndim + axis]:
            return False
        if axis != a.axis and a.shape[axis] != b.shape[axis]:
            return False
    return a.solid == b.solid


cdef bint read_block(Block *block) noexcept nogil:
    """Read the next elements; return False at the end, and at an element that can't be read."""
    block.n = 0
    block.first = block.at
    if block.at >= block.stop or block.damaged:
        return False
    if has_runs(block.store):
        read_block_of_runs(block)
    else:
        read_block_of_slots(block)
    if block.n == 0:
        block.damaged = True
    return block.n > 0


cdef bint begin_layout(Block *block, Source *source) noexcept nogil:
    """Have elements of a source come next; return False where they don't fit into the block."""
    cdef Piece piece
    if block.n:
        return source == block.source or (block.mixes and are_alike(block.source, source))
    if source != block.source:
        block.source = source
        block.shape = source.shape
        block.solid = source.solid
        if source.kind != SHAPED:
            piece.source = source
            piece.shape = source.shape
            block.row = row_nbytes(&piece)
    return True


cdef void own_layout(Block *block, const Piece *piece) noexcept nogil:
    """Have the layout of the only element of a block."""
    block.shape = piece.shape
    block.solid = solid(piece)
    block.row = row_nbytes(piece)


cdef void read_block_of_runs(Block *block) noexcept nogil:
    cdef const Store *store = block.store
    cdef const Run *run
    cdef Py_ssize_t number, n
    while block.n < BLOCK and block.at < block.stop:
        block.run = find_run(store, block.at, block.run)
        run = &runs_of(store)[block.run]
        if not begin_layout(block, run.source):
            return
        number = run.first + (block.at - begin_of(store, block.run)) * run.step
        n = block.n
        if block.together != SEPARATE and run.step == 1 and are_together(block, run.source):
            if read_together(block, run.source, number, min(run.end, block.stop) - block.at):
                block.at = min(run.end, block.stop)
                continue
        read_numbers(block, run.source, number, run.step, min(BLOCK - n, min(run.end, block.stop) - block.at))
        block.at += block.n - n
        if block.n == n or run.source.kind == SHAPED:
            return


cdef bint are_together(const Block *block, const Source *source) noexcept nogil:
    """Return whether consecutive elements of a table may be given as one."""
    if source.kind != EVEN and source.kind != OFFSETS:
        return False
    if block.together == IN_MEMORY:
        return source.solid and (source.axis == 0 or (<const Table *>source).pitch == block.row)
    return block.together == OF_A_TABLE or source.axis == block.together


cdef bint read_together(Block *block, Source *source, Py_ssize_t number, Py_ssize_t n) noexcept nogil:
    """Add n consecutive elements of a table to a block as if they were one, if its ends can be read."""
    cdef Piece first, last
    if not resolve(source, number, &first, NULL) or not resolve(source, number + n - 1, &last, NULL):
        return False
    if last.start < first.start:
        return False
    block.data[block.n] = first.data
    block.rows[block.n] = last.start + last.length - first.start
    block.n += 1
    return True


cdef void read_numbers(Block *block, Source *source, Py_ssize_t number, Py_ssize_t step,
                       Py_ssize_t n) noexcept nogil:
    """Add elements of a source to a block, up to one that can't be read, or one with a shape of its own."""
    cdef const Table *table = <const Table *>source
    cdef char **data = &block.data[block.n]
    cdef Py_ssize_t *rows = &block.rows[block.n]
    cdef Py_ssize_t i = 0
    cdef Piece piece
    if source.kind == EVEN:
        for i in range(n):
            data[i] = source.data + (number + i * step) * table.pitch
            rows[i] = source.length
        # The last one of the table is at one of the ends, if it is among them.
        for i in range(n if step == 0 else 1):
            if number + i * step == table.n - 1:
                rows[i] = table.last
        if number + (n - 1) * step == table.n - 1:
            rows[n - 1] = table.last
        block.n += n
    elif source.kind == OFFSETS and step == 1:
        block.n += read_offsets(table, number, n, data, rows)
    elif source.kind == VIEWS and step == 1 and table.pointers:
        block.n += read_pointers(table, number, n, data, rows)
    else:
        while i < n and resolve(source, number + i * step, &piece, block.dims):
            data[i] = piece.data
            rows[i] = piece.length
            i += 1
            if source.kind == SHAPED:
                own_layout(block, &piece)
                break
        block.n += i


cdef Py_ssize_t read_offsets(const Table *table, Py_ssize_t number, Py_ssize_t n, char **data,
                             Py_ssize_t *rows) noexcept nogil:
    """Read elements from each offset to the next, up to one that can't be read; how many."""
    cdef Py_ssize_t starts[BLOCK + 1]
    cdef Py_ssize_t i = 0, low = table.low
    cdef bint falls
    for i in range(n + 1):
        starts[i] = number_at(table.starts, number + i, table.width)
    # Without a branch for each, since nearly all tables are good. Those of a damaged one wrap around.
    falls = starts[0] < low or starts[n] > table.high
    for i in range(n):
        data[i] = <char *>(<size_t>table.source.data + (<size_t>starts[i] - <size_t>low) * <size_t>table.step)
        rows[i] = <Py_ssize_t>(<size_t>starts[i + 1] - <size_t>starts[i])
        falls |= starts[i] > starts[i + 1]
    if falls:
        for i in range(n):
            if not low <= starts[i] <= starts[i + 1] <= table.high:
                return i
    return n


cdef Py_ssize_t read_pointers(const Table *table, Py_ssize_t number, Py_ssize_t n, char **data,
                              Py_ssize_t *rows) noexcept nogil:
    """Read elements from each start in bytes to the next, up to one that can't be read; how many."""
    cdef Py_ssize_t i, start, behind = number_at(table.starts, number, table.width), itemsize
    cdef Py_ssize_t most = table.high - table.low
    itemsize = table.source.itemsize
    for i in range(n):
        start = behind
        rows[i] = number_at(table.lengths, number + i, table.lengths_width)
        if start < 0 or start & (itemsize - 1) or not 0 <= rows[i] <= most:
            return i
        behind = start + rows[i] * itemsize
        if behind > most * itemsize:
            return i
        if number + i + 1 < table.n and number_at(table.starts, number + i + 1, table.width) != behind:
            return i
        data[i] = table.source.data + start
    return n


cdef inline void fetch(const Slot *slot) noexcept nogil:
    """Have what a slot leads to brought near."""
    cdef Table *table
    if slot.number == 0:        # perhaps a whole array
        prefetch(slot.source)
        return
    table = <Table *>slot.source
    if table.source.kind != EVEN:
        prefetch(<const char *>(table.starts if table.starts != NULL else table.lengths)
                 + slot.number * table.width)


cdef void read_block_of_slots(Block *block) noexcept nogil:
    cdef const Store *store = block.store
    cdef const Slot *slots = slot_at(store, block.at)
    cdef Source *source
    cdef Source *known = NULL
    cdef Py_ssize_t i = 0, n, there = block.stop - block.at
    cdef Piece piece
    if block.at < store.lo:
        there = min(there, store.lo - block.at)
    n = min(BLOCK, there)
    while i < n:
        source = slots[i].source
        if source != known:
            if not begin_layout(block, source):
                break
            known = source
        if source.kind == OFFSETS:
            block.n += read_slots(<Table *>source, &slots[i], n - i, there - i, &block.data[i],
                                  &block.rows[i], block.fetches)
            i = block.n
            if i < n and slots[i].source == source:
                break
            continue
        if i + FETCH_AHEAD < there:
            fetch(&slots[i + FETCH_AHEAD])
        if not resolve(source, slots[i].number, &piece, block.dims):
            break
        if block.fetches:
            prefetch(piece.data)
        block.data[i] = piece.data
        block.rows[i] = piece.length
        i += 1
        block.n = i
        if source.kind == SHAPED:
            own_layout(block, &piece)
            break
    block.at += block.n


cdef Py_ssize_t read_slots(const Table *table, const Slot *slots, Py_ssize_t n, Py_ssize_t there, char **data,
                           Py_ssize_t *rows, bint fetches) noexcept nogil:
    """Read elements of one table from each offset to the next, up to one that can't be read; how many."""
    cdef const void *starts = table.starts
    cdef char *begin = table.source.data
    cdef Py_ssize_t low = table.low, high = table.high, step = table.step, i, start, stop
    cdef int width = table.width
    for i in range(n):
        if slots[i].source != &table.source:
            return i
        if i + FETCH_AHEAD < there:
            fetch(&slots[i + FETCH_AHEAD])
        start = number_at(starts, slots[i].number, width)
        stop = number_at(starts, slots[i].number + 1, width)
        if not low <= start <= stop <= high:
            return i
        data[i] = begin + (start - low) * step
        rows[i] = stop - start
        if fetches:
            prefetch(data[i])
    return n


cdef const int64_t *owned_offsets(const Store *store, Py_ssize_t start, Py_ssize_t stop) noexcept nogil:
    """The offsets of elements start to stop along axis 0, if nobody else can change them; or NULL."""
    cdef Span span
    cdef const Table *table
    first_span(store, start, stop, &span)
    table = <const Table *>span.source
    if span.n < stop - start or span.step != 1 or span.source.kind != OFFSETS or span.source.axis != 0 or (
            not table.owned or table.width != 8):
        return NULL
    return <const int64_t *>table.starts + span.first


cdef int check_read(const Block *block) except -1:
    """Raise if blocks ended at an element that can't be read."""
    if block.damaged:
        raise_damaged(block.store, block.at)
    return 0


cdef bint is_worth_releasing(const Store *store) noexcept nogil:
    """Return whether a loop over the elements is worth a release of the GIL: it takes about 20 µs or more.

    A shorter one would wait longer to get the GIL back than it works.
    """
    cdef Block block
    cdef Py_ssize_t i, nbytes = 0
    if size_of(store) >= RELEASE_FROM:
        return True
    begin_blocks(&block, store, 0, size_of(store))
    while nbytes < RELEASE_NBYTES and read_block(&block):
        for i in range(block.n):
            # No element has more bytes than an address counts; of a broadcast one it may be less in memory.
            nbytes += min(block.rows[i] * block.row, RELEASE_NBYTES)
    return nbytes >= RELEASE_NBYTES
