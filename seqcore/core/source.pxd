# Where the data of elements is: plain structs that need neither Python objects nor the GIL.

from cpython.ref cimport PyObject

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
       must not read it again after it was checked. */
    static inline Py_ssize_t seqcore_number(const void *numbers, Py_ssize_t i, int width)
    {
        return width == 8 ? (Py_ssize_t)((const volatile long long *)numbers)[i]
                          : (Py_ssize_t)((const volatile int *)numbers)[i];
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
    NEEDS_SLOTS                 # the edit has to wait until a large sequence has slots
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
    size_t id                   # that slots name it by, or 0 while there are none
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
