# Counts of the fast paths that this thread's calls took; tests read them.

from cpython.object cimport PyObject
from cpython.ref cimport PyObject
from libc.stdint cimport int64_t
cimport numpy as cnp

from seqcore.core.limits cimport BLOCK

# -- counters --------------------------------------------------------------------------------------------
# Counts of the fast paths that this thread's calls took; tests read them.

cdef enum Counter:
    SLOTS_COPIED                # buffers that an edit, or one who needed it alone, has made its own
    GAP_MOVED                   # moves of the gap that had slots to move
    GROWN                       # buffers that got longer
    WITHOUT_GIL                 # loops of splits and copies that released the GIL
    SPLICED                     # edits that made runs anew
    SLOTS_MADE                  # edits that made slots of runs
    REDUCED                     # elements that kernels of reductions were given
    ARGUMENTS_MADE              # arrays that maps made for calls of a body
    NCOUNTERS

cdef void count(Counter counter, Py_ssize_t n) noexcept nogil

# -- source ----------------------------------------------------------------------------------------------
# Where the data of elements is: plain structs that need neither Python objects nor the GIL.

cdef extern from *:
    """
    /* Counters that several threads may change at once. With the GIL they need nothing; without it,
       the compiler's own atomics: C11's <stdatomic.h> is not on every compiler that builds wheels. */
    #ifndef SEQCORE_COUNTERS
    #define SEQCORE_COUNTERS
    #if !defined(Py_GIL_DISABLED)
    static inline Py_ssize_t seqcore_add(Py_ssize_t *counter, Py_ssize_t n)
    { Py_ssize_t before = *counter; *counter += n; return before; }
    static inline Py_ssize_t seqcore_read(Py_ssize_t *counter) { return *counter; }
    #elif defined(_MSC_VER)
    #include <intrin.h>
    static inline Py_ssize_t seqcore_add(Py_ssize_t *counter, Py_ssize_t n)
    { return _InterlockedExchangeAdd64((volatile __int64 *)counter, n); }
    static inline Py_ssize_t seqcore_read(Py_ssize_t *counter) { return seqcore_add(counter, 0); }
    #else
    static inline Py_ssize_t seqcore_add(Py_ssize_t *counter, Py_ssize_t n)
    { return __atomic_fetch_add(counter, n, __ATOMIC_ACQ_REL); }
    static inline Py_ssize_t seqcore_read(Py_ssize_t *counter)
    { return __atomic_load_n(counter, __ATOMIC_ACQUIRE); }
    #endif
    #endif
    """
    Py_ssize_t add_to "seqcore_add"(Py_ssize_t *counter, Py_ssize_t n) noexcept nogil   # the value before
    Py_ssize_t read_counter "seqcore_read"(Py_ssize_t *counter) noexcept nogil

cdef extern from *:
    """
    #define SEQCORE_MAX_BYTES ((Py_ssize_t)(((size_t)-1) >> 1))

    /* Memory that is about to be read, where elements are out of order. */
    #if defined(__GNUC__) || defined(__clang__)
    #define seqcore_prefetch(address) __builtin_prefetch(address)
    #else
    #define seqcore_prefetch(address) ((void)(address))
    #endif

    /* One number of a table. Another process may change it at any time, so it is read once: the compiler
       must not read it again after it was checked. Numbers of files are not always aligned. */
    #if defined(_MSC_VER)
    #define SEQCORE_NUMBER(type) const volatile type __unaligned
    #else
    typedef long long __attribute__((aligned(1), may_alias)) seqcore_long;
    typedef int __attribute__((aligned(1), may_alias)) seqcore_int;
    #endif
    static inline Py_ssize_t seqcore_number(const void *numbers, Py_ssize_t i, int width)
    {
    #if defined(_MSC_VER)
        return width == 8 ? (Py_ssize_t)((SEQCORE_NUMBER(long long) *)numbers)[i]
                          : (Py_ssize_t)((SEQCORE_NUMBER(int) *)numbers)[i];
    #else
        return width == 8 ? (Py_ssize_t)((const volatile seqcore_long *)numbers)[i]
                          : (Py_ssize_t)((const volatile seqcore_int *)numbers)[i];
    #endif
    }
    """
    Py_ssize_t MAX_BYTES "SEQCORE_MAX_BYTES"    # that an address can count
    void prefetch "seqcore_prefetch"(const void *address) noexcept nogil
    Py_ssize_t number_at "seqcore_number"(const void *numbers, Py_ssize_t i, int width) noexcept nogil

cdef enum:
    MAX_NDIM = 64               # NumPy's limit
    NOT_SOLID = -1

cdef enum Status:
    OK
    NO_MEMORY
    OUT_OF_RANGE
    DAMAGED                     # a table's numbers lead outside of its values
    NEGATIVE_LENGTH             # split: a length below zero
    LENGTHS_TOO_LONG            # split: the lengths exceed the axis
    LENGTHS_TOO_SHORT           # split: the lengths leave a rest
    RANK_DIFFERS                # join
    SHAPE_DIFFERS               # join
    TOO_LARGE                   # join: more bytes than an address can count
    LENGTH_DIFFERS              # slice assignment with a step

cdef enum Kind:
    WHOLE                       # one array that was put in: a single element
    EVEN                        # a table of elements of one length; the last one may be shorter
    OFFSETS                     # … from each offset to the next
    VIEWS                       # … each with a start and a length of its own
    PADDED                      # … each a row of a batch without its padding
    SHAPED                      # … from each offset to the next, in C order, each of a shape of its own

cdef struct Source:
    # The data that all elements of an array share; the first field of the Python object that owns it.
    # Shape and strides are an element's; where `axis` is not negative, shape[axis] is not valid, and each
    # element has a length of its own there.
    Py_ssize_t users            # slots and runs, of all sequences, that name it
    Py_ssize_t *shape           # then ndim strides, in bytes; SHAPED: the order of the axes in memory
    short itemsize              # bytes
    signed char ndim
    signed char axis
    char kind
    bint solid                  # whether elements are in memory in C order; not of SHAPED
    char *data                  # of element 0, or where position `low` of a table is
    Py_ssize_t length           # along `axis`: WHOLE and EVEN, of each element but a table's last; 1 without

cdef struct Table:
    # Element i is at data + i * pitch + (start(i) - low) * step.
    Source source               # first, so that a pointer to one is a pointer to the other
    Py_ssize_t n                # elements
    Py_ssize_t pitch            # bytes: EVEN and PADDED
    Py_ssize_t step             # bytes from one position to the next
    Py_ssize_t last             # EVEN: the last element's length
    Py_ssize_t low              # positions are from low to high
    Py_ssize_t high
    const void *starts          # OFFSETS and SHAPED: n + 1 of them
    const void *lengths         # VIEWS, PADDED; SHAPED: n shapes of `ndim` extents
    short width                 # bytes of each start
    short lengths_width         # bytes of each length or extent
    short left                  # PADDED: whether the padding is in front
    bint owned                  # OFFSETS: they were checked, and nobody else can change them
    bint pointers               # VIEWS: starts are bytes, and each element ends where the next one begins

cdef struct Piece:
    # One element as it was read and checked: use it, and never its table's numbers again.
    Source *source
    char *data                  # its first item
    Py_ssize_t start            # its first position in a table
    Py_ssize_t length           # along source.axis
    const Py_ssize_t *shape     # then its strides

cdef inline PyObject *owner_of(const Source *source) noexcept nogil:
    return <PyObject *>(<char *>source - sizeof(PyObject))

cdef inline const Py_ssize_t *strides_of(const Piece *piece) noexcept nogil:
    return piece.shape + piece.source.ndim

cdef inline Py_ssize_t extent(const Piece *piece, int axis) noexcept nogil:
    return piece.length if axis == piece.source.axis else piece.shape[axis]

cdef inline bint same_layout(const Source *known, const Piece *piece) noexcept nogil:
    """Return whether a piece has strides, and extents but along its axis, as the last one of `known` had."""
    return piece.source == known and known.kind != SHAPED

cdef inline void resolve_whole(Source *source, Piece *piece) noexcept nogil:
    """Read the single element of a source, which needs no check."""
    piece.source = source
    piece.shape = source.shape
    piece.data = source.data
    piece.start = 0
    piece.length = source.length

cdef inline bint resolve(Source *source, Py_ssize_t number, Piece *piece, Py_ssize_t *dims) noexcept nogil:
    """Read and check an element of a source; whether it is within its values.

    `dims` has room for a shape and strides of the source's rank: where each element has its own, they are
    written there.
    """
    cdef Table *table = <Table *>source
    cdef Py_ssize_t start, stop
    if source.kind == WHOLE:
        resolve_whole(source, piece)
        return True
    piece.source = source
    piece.shape = source.shape
    if source.kind == EVEN:
        piece.data = source.data + number * table.pitch
        piece.start = number * source.length
        piece.length = source.length if number + 1 < table.n else table.last
        return True
    if source.kind == OFFSETS:
        start = number_at(table.starts, number, table.width)
        stop = number_at(table.starts, number + 1, table.width)
        if not table.low <= start <= stop <= table.high:
            return False
        piece.data = source.data + (start - table.low) * table.step
        piece.start = start
        piece.length = stop - start
        return True
    return resolve_other(table, number, piece, dims)

cdef bint resolve_other(Table *table, Py_ssize_t number, Piece *piece, Py_ssize_t *dims) noexcept nogil

cdef inline bint is_solid(Py_ssize_t itemsize, int ndim, int axis, const Py_ssize_t *dims) noexcept nogil:
    """Return whether elements of a shape and strides are in C order, however long they are along an axis."""
    cdef Py_ssize_t stride = itemsize
    cdef int i
    if axis > 0:
        return False
    for i in range(ndim - 1, axis, -1):
        if dims[i] != 1 and dims[ndim + i] != stride:
            return False
        stride *= dims[i]
    # An element of length 1 would do with any step, but the next one may be longer; without items there is
    # none.
    return axis < 0 or dims[ndim] == stride

cdef inline bint solid(const Piece *piece) noexcept nogil:
    if piece.source.kind == SHAPED:
        return is_solid(piece.source.itemsize, piece.source.ndim, 0, piece.shape)
    return piece.source.solid

cdef inline Py_ssize_t row_nbytes(const Piece *piece) noexcept nogil:
    """Bytes for each position along the axis."""
    cdef Py_ssize_t row = piece.source.itemsize
    cdef int axis
    for axis in range(piece.source.ndim):
        if axis != piece.source.axis:
            row *= piece.shape[axis]
    return row

cdef inline Py_ssize_t solid_row(const Piece *piece) noexcept nogil:
    """Bytes for each position along the axis, if the element is in memory in C order, or NOT_SOLID."""
    return row_nbytes(piece) if solid(piece) else NOT_SOLID

cdef Py_ssize_t piece_nbytes(const Piece *piece) noexcept nogil
cdef bint same_shape(const Piece *a, const Piece *b) noexcept nogil
cdef bint fits_behind(const Piece *first, const Piece *piece) noexcept nogil

# -- slots -----------------------------------------------------------------------------------------------
# An element that was put somewhere by itself: a user of its source.

cdef struct Slot:
    Source *source
    Py_ssize_t number           # of the element there; of a whole array 0

# -- owner -----------------------------------------------------------------------------------------------
# The Python objects that own sources: they keep memory alive and are the base of every element.

cdef class ArrayOwner:
    cdef Source source                          # first, so that owner_of finds its way back
    cdef Py_ssize_t[4] dims                     # shape and strides up to rank 2
    cdef object memory                          # what owns the data: an array, or a Keeper of another object
    cdef object more                            # None, or bytes: shape and strides of a higher rank

cdef class TableOwner:
    cdef Table table                            # first
    cdef Py_ssize_t[9] dims                     # shape, strides and a dropped axis's stride up to rank 4
    cdef object memory
    cdef object more
    cdef object numbers                         # what keeps starts and lengths alive
    cdef object origin                          # None, the file with the numbers, or the column of a file
    cdef Py_ssize_t first                       # which element of the column is the first one, or -1
    cdef Py_ssize_t checked_from                # OFFSETS: those of elements checked_from to checked_to rise
    cdef Py_ssize_t checked_to                  # within the values: nothing else is handed on

cdef class Keeper:
    cdef object memory
    cdef object file                            # None, or the MappedFile that this is the memory of

cdef void retain_source(Source *source, Py_ssize_t n) noexcept
cdef void release_source(Source *source, Py_ssize_t n) noexcept

cdef void retain_slots(const Slot *slots, Py_ssize_t n) noexcept
cdef void release_slots(const Slot *slots, Py_ssize_t n) noexcept

cdef object memory_of(cnp.ndarray array)
cdef object kept_memory(const Source *source)
cdef object kept_by(object owner)
cdef int check_type(cnp.ndarray array, cnp.dtype dtype) except -1
cdef Source *take_whole(cnp.ndarray array) except NULL
cdef object make_element(const Piece *piece, cnp.dtype dtype)
cdef bint move_element(PyObject *element, int flags, const Piece *piece, cnp.dtype dtype) noexcept
cdef object sealed(cnp.ndarray array, cnp.dtype dtype)
cdef tuple shape_of(const Piece *piece)

# -- positions -------------------------------------------------------------------------------------------
# Positions as arguments, and the exceptions that name them.

cdef extern from "Python.h":
    # With no exception given, a number that is too large becomes the largest.
    Py_ssize_t PyNumber_AsSsize_t(object number, PyObject *overflow) except? -1
    bint PyIndex_Check(object number)

cdef bint is_single_bool(value) except -1
cdef Py_ssize_t as_position(position) except? -1
cdef int raise_for(Status status, object position, Py_ssize_t n, bint inserting=*) except -1

# -- store -----------------------------------------------------------------------------------------------
# Stores: the elements of a sequence, as runs or as slots.

cdef extern from *:
    """
    #if defined(__linux__)
    #include <stdint.h>
    #include <sys/mman.h>
    #endif

    /* Large stores are read at random: with huge pages, which Linux gives to those who ask, addresses are
       found sooner. It may refuse, and nothing is lost. */
    static inline void seqcore_use_huge_pages(void *memory, Py_ssize_t nbytes)
    {
    #if defined(__linux__) && defined(MADV_HUGEPAGE)
        uintptr_t page = 4096, before = (page - (uintptr_t)memory % page) % page;
        if (nbytes >= (Py_ssize_t)1 << 22)
            (void)madvise((char *)memory + before, (size_t)nbytes - before, MADV_HUGEPAGE);
    #endif
    }
    """
    void use_huge_pages "seqcore_use_huge_pages"(void *memory, Py_ssize_t nbytes) noexcept nogil

cdef enum:
    SLOTS = -1                  # the `nruns` of a store of slots

cdef struct Run:
    # Elements first, first + step, … of one source.
    Source *source
    Py_ssize_t first
    Py_ssize_t step
    Py_ssize_t end              # how many elements of the store come up to its last one

cdef struct Store:
    Py_ssize_t shares           # sequences and snapshots that use it
    Py_ssize_t nruns            # or SLOTS
    Py_ssize_t capacity         # slots; runs: elements
    Py_ssize_t lo               # the gap of slots is [lo, hi)
    Py_ssize_t hi               # runs: lo == hi, how many runs the edits that led here have copied
    Slot slots[1]               # in truth `capacity` of them, or `nruns` runs

cdef inline Py_ssize_t size_of(const Store *store) noexcept nogil:
    return store.capacity - (store.hi - store.lo)

cdef inline bint has_runs(const Store *store) noexcept nogil:
    return store.nruns >= 0

cdef inline Run *runs_of(const Store *store) noexcept nogil:
    return <Run *>store.slots

cdef inline Slot *slot_at(const Store *store, Py_ssize_t position) noexcept nogil:
    """The slot at a position, in a store of slots."""
    return <Slot *>&store.slots[position if position < store.lo else position + (store.hi - store.lo)]

cdef inline Py_ssize_t back_size(const Store *store) noexcept nogil:
    return store.capacity - store.hi

cdef Py_ssize_t find_run(const Store *store, Py_ssize_t position, Py_ssize_t hint) noexcept nogil

cdef inline Py_ssize_t begin_of(const Store *store, Py_ssize_t run) noexcept nogil:
    """Return how many elements come before a run's."""
    return runs_of(store)[run - 1].end if run else 0

cdef inline Source *locate(const Store *store, Py_ssize_t position, Py_ssize_t *number) noexcept nogil:
    """The source of the element at a position in range, and its number there."""
    cdef const Run *run
    cdef Py_ssize_t which
    cdef const Slot *slot
    if store.nruns == SLOTS:
        slot = slot_at(store, position)
        number[0] = slot.number
        return slot.source
    which = find_run(store, position, 0) if store.nruns > 1 else 0
    run = &runs_of(store)[which]
    number[0] = run.first + (position - begin_of(store, which)) * run.step
    return run.source

cdef Store *new_slots(Py_ssize_t capacity) noexcept nogil
cdef Store *new_runs(Py_ssize_t nruns) noexcept nogil
cdef Store *one_run(Source *source, Py_ssize_t n) noexcept
cdef Store *empty_store() noexcept nogil
cdef void fill(Store *store) noexcept nogil
cdef Store *share(Store *store) noexcept nogil
cdef void release(Store *store) noexcept
cdef str broken_invariant(Store *store)

cdef void write_slots(const Store *store, Py_ssize_t start, Py_ssize_t step, Py_ssize_t n,
                      Slot *into) noexcept nogil
cdef Status unshare(Store **store) noexcept

# -- runs ------------------------------------------------------------------------------------------------


cdef void add_run(Store *store, Source *source, Py_ssize_t first, Py_ssize_t step,
                  Py_ssize_t n) noexcept nogil
cdef Store *finished(Store *store) noexcept
cdef Status slice_of_store(Store *store, Py_ssize_t start, Py_ssize_t step, Py_ssize_t n,
                           Store **into) noexcept
cdef Status joined_stores(Store **stores, Py_ssize_t nstores, Store **into) noexcept
cdef Store *reversed_runs(const Store *store) noexcept

# -- buffer ----------------------------------------------------------------------------------------------
# Edits of stores; whoever edits holds the lock of the sequence.

cdef Status grow(Store **store, Py_ssize_t n) noexcept nogil
cdef Status put_one(Store **store, Store **stale, Py_ssize_t position, Source *whole) noexcept
cdef Status put_all(Store **store, Store **stale, Py_ssize_t position, Store *news) noexcept
cdef Status take_one(Store **store, Store **stale, Py_ssize_t position, Slot *taken) noexcept
cdef Status take_range(Store **store, Store **stale, Py_ssize_t start, Py_ssize_t step, Py_ssize_t n,
                       Store **taken) noexcept
cdef Status take_marked(Store **store, Store **stale, const char *marks, Py_ssize_t n, Store **taken) noexcept
cdef Status replace_one(Store **store, Store **stale, Py_ssize_t position, Slot *slot) noexcept
cdef Status replace_each(Store **store, Store **stale, const int64_t *positions, Py_ssize_t start,
                         Py_ssize_t step, Store *news) noexcept
cdef Status replace_span(Store **store, Store **stale, Py_ssize_t start, Py_ssize_t n, Store **removed,
                         Store *news) noexcept
cdef Status reverse_all(Store **store, Store **stale) noexcept

# -- share -----------------------------------------------------------------------------------------------
# A share of a store for as long as an object lives.

cdef class Share:
    cdef Store *store

cdef Share share_of(Store *store)

# -- table -----------------------------------------------------------------------------------------------
# Tables: an array, and numbers that say where in it each of many elements is.

cdef TableOwner even_table(cnp.ndarray array, int axis, bint drop_axis, Py_ssize_t length)
cdef TableOwner offsets_table(cnp.ndarray array, int axis, cnp.ndarray offsets, Py_ssize_t low,
                              Py_ssize_t high, bint checked)
cdef TableOwner views_table(cnp.ndarray array, int axis, cnp.ndarray starts, cnp.ndarray lengths)
cdef TableOwner pointers_table(cnp.ndarray array, cnp.ndarray starts, cnp.ndarray lengths)
cdef TableOwner padded_table(cnp.ndarray batch, cnp.ndarray lengths, bint left)
cdef TableOwner shaped_table(cnp.ndarray items, cnp.ndarray offsets, Py_ssize_t low, Py_ssize_t high,
                             cnp.ndarray shapes, tuple order)
cdef TableOwner even_table_like(cnp.ndarray items, Py_ssize_t first, const Piece *like, Py_ssize_t n,
                                Py_ssize_t length, Py_ssize_t last)
cdef TableOwner offsets_table_like(cnp.ndarray items, Py_ssize_t first, const Piece *like,
                                   cnp.ndarray offsets)
cdef Store *store_of(TableOwner owner) except NULL
cdef TableOwner twin_of(TableOwner owner)

# -- spans -----------------------------------------------------------------------------------------------
# Elements at equal distances in one table, and elements by themselves.

cdef struct Span:
    # Elements first, first + step, … of one source.
    Source *source
    Py_ssize_t first
    Py_ssize_t step
    Py_ssize_t n

cdef struct Spans:
    const Store *store
    Py_ssize_t at               # behind the elements of the last span
    Py_ssize_t stop
    Py_ssize_t run              # that `at` was found in

cdef void begin_spans(Spans *spans, const Store *store, Py_ssize_t start, Py_ssize_t stop) noexcept nogil
cdef bint next_span(Spans *spans, Span *span) noexcept nogil
cdef void first_span(const Store *store, Py_ssize_t start, Py_ssize_t stop, Span *span) noexcept nogil
cdef bint ends_of(const Span *span, Piece *first, Piece *last, Py_ssize_t *dims) noexcept nogil
cdef int raise_damaged(const Store *store, Py_ssize_t position, Py_ssize_t before=*) except -1

cdef inline bint read_one(const Store *store, Py_ssize_t position, Piece *piece,
                          Py_ssize_t *dims) noexcept nogil:
    """Read the element at a position in range; whether it is within its source."""
    cdef Py_ssize_t number
    cdef Source *source = locate(store, position, &number)
    return resolve(source, number, piece, dims)

# -- blocks ----------------------------------------------------------------------------------------------
# Reading the elements of a store, for all loops: one way for runs and slots alike.

cdef enum Together:
    # Which consecutive elements of a table are read as one, in constant time: those along this axis, or
    SEPARATE = -1               # none
    IN_MEMORY = -2              # those that are one behind the other in C order
    OF_A_TABLE = -3             # all: only their lengths together count

cdef struct Block:
    # The next elements of a store that have one layout, read and checked: what a loop works with.
    const Store *store
    Py_ssize_t at               # behind the elements of the block; of the one at fault where `damaged` is set
    Py_ssize_t stop
    Py_ssize_t first            # the position of the first element of the block
    int together                # an axis, or a Together
    bint mixes                  # whether elements of different sources may be in one block
    bint fetches                # whether the data of slots is brought near, for a loop that reads it
    Py_ssize_t run              # that the last element was found in
    bint damaged
    Source *source              # whose layout the elements have
    const Py_ssize_t *shape     # of each element, except along source.axis; then its strides
    bint solid                  # whether each is in memory in C order
    Py_ssize_t row              # bytes for each position along the axis
    Py_ssize_t n
    char *data[BLOCK]
    Py_ssize_t rows[BLOCK]      # lengths along source.axis; 1 without one
    Py_ssize_t dims[2 * MAX_NDIM]

cdef void begin_blocks(Block *block, const Store *store, Py_ssize_t start, Py_ssize_t stop) noexcept nogil
cdef void begin_joint_blocks(Block *block, const Store *store, int together, bint mixes) noexcept nogil
cdef bint read_block(Block *block) noexcept nogil
cdef const int64_t *owned_offsets(const Store *store, Py_ssize_t start, Py_ssize_t stop) noexcept nogil
cdef int check_read(const Block *block) except -1
cdef bint is_worth_releasing(const Store *store) noexcept nogil

cdef inline void element_of(const Block *block, Py_ssize_t i, Piece *piece) noexcept nogil:
    """An element of a block by itself."""
    piece.source = block.source
    piece.data = block.data[i]
    piece.start = 0
    piece.length = block.rows[i]
    piece.shape = block.shape

cdef inline Py_ssize_t extent_in(const Block *block, Py_ssize_t i, int axis) noexcept nogil:
    return block.rows[i] if axis == block.source.axis else block.shape[axis]
