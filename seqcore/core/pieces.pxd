# Plain structs and loops over them: nothing here touches a Python object or needs the GIL.

from cpython.ref cimport PyObject
from libc.stdint cimport int64_t

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
    """
    Py_ssize_t MAX_BYTES "SEQCORE_MAX_BYTES"    # that an address can count

cdef extern from *:
    """
    /* Memory that is about to be read, where slots lead to it out of order. */
    #if defined(__GNUC__) || defined(__clang__)
    #define seqcore_prefetch(address) __builtin_prefetch(address)
    #else
    #define seqcore_prefetch(address) ((void)(address))
    #endif
    """
    void prefetch "seqcore_prefetch"(const void *address) noexcept nogil

cdef enum:
    MAX_NDIM = 64               # NumPy's limit
    MAX_RUNS = 32               # with more, a join looks for them again when it copies
    NOT_SOLID = -1
    AHEAD = 16                  # slots between what is read and what is fetched

cdef enum Status:
    OK
    NO_MEMORY
    OUT_OF_RANGE
    NEGATIVE_LENGTH             # split: a length below zero
    LENGTHS_TOO_LONG            # split: the lengths exceed the axis
    LENGTHS_TOO_SHORT           # split: the lengths leave a rest
    RANK_DIFFERS                # join
    SHAPE_DIFFERS               # join
    TOO_LARGE                   # join: more bytes than an address can count
    LENGTH_DIFFERS              # slice assignment with a step

cdef enum Tiling:
    LOOSE                       # nothing
    TILED                       # each piece ends where the next one in the block begins
    EVEN                        # and all but the last one have one length

cdef struct Source:
    # What the pieces of one array share; the first field of an Owner, the Python object around it.
    # Shape and strides are an element's; where `axis` is not negative, shape[axis] is not valid and each
    # piece has its own length there instead. Small, for a whole array put in has a source of its own.
    Py_ssize_t slots            # how many slots, of all buffers, point to a piece of this source
    Py_ssize_t *shape           # then ndim strides, in bytes, and where the axis was dropped its stride
    short itemsize              # bytes
    short ndim
    short axis
    short tiled                 # what is known of the block of pieces: a Tiling

cdef struct Piece:
    Source *source
    char *data                  # its first item
    Py_ssize_t length           # along source.axis

cdef struct Run:
    # Pieces that follow each other in a sequence and lie at equal distances in their source.
    Piece *first
    Py_ssize_t pieces
    Py_ssize_t length           # along the joined axis
    Py_ssize_t step             # bytes

cdef struct Join:
    # The result of a join, and how far its planning or copying has come.
    bint stacking               # along a new axis, instead of one that the pieces have
    int axis
    int ndim                    # of the result, as is `shape`
    int itemsize
    Py_ssize_t shape[MAX_NDIM]
    Py_ssize_t strides[MAX_NDIM]
    Piece *first
    Py_ssize_t seen             # pieces planned: after a failure, the position of the one at fault
    Py_ssize_t copied           # along the axis
    Py_ssize_t nruns            # that the plan has found; the first ones are kept
    Run runs[MAX_RUNS]

cdef inline Py_ssize_t *strides_of(const Source *source) noexcept nogil:
    return source.shape + source.ndim

cdef inline Py_ssize_t step_of(const Source *source) noexcept nogil:
    """Bytes from one position to the next along the axis that was split."""
    return strides_of(source)[source.axis if source.axis >= 0 else source.ndim]

cdef inline Py_ssize_t extent(const Piece *piece, int axis) noexcept nogil:
    return piece.length if axis == piece.source.axis else piece.source.shape[axis]

cdef Py_ssize_t piece_nbytes(const Piece *piece) noexcept nogil
cdef bint same_shape(const Piece *a, const Piece *b) noexcept nogil

cdef Status check_lengths(const int64_t *lengths, Py_ssize_t n, Py_ssize_t whole,
                          Py_ssize_t *at) noexcept nogil
cdef void cut_equal(Piece *pieces, Piece **slots, Py_ssize_t n, Source *source, char *data,
                    Py_ssize_t length, Py_ssize_t whole) noexcept nogil
cdef void cut_lengths(Piece *pieces, Piece **slots, Py_ssize_t n, Source *source, char *data,
                      const int64_t *lengths) noexcept nogil

cdef Py_ssize_t count_consecutive(Piece **slots, Py_ssize_t n) noexcept nogil
cdef Py_ssize_t solid_row(const Source *source) noexcept nogil
cdef void copy_strided(char *out, const Py_ssize_t *out_strides, const char *data,
                       const Py_ssize_t *strides, const Py_ssize_t *shape, int ndim,
                       Py_ssize_t itemsize) noexcept nogil
cdef void begin_join(Join *join, Piece *first, int axis, bint stacking) noexcept nogil
cdef Status plan_join(Join *join, Piece **slots, Py_ssize_t n) noexcept nogil
cdef Status finish_plan(Join *join) noexcept nogil
cdef void copy_join(Join *join, char *out, Piece **slots, Py_ssize_t n) noexcept nogil
cdef void copy_kept_runs(Join *join, char *out) noexcept nogil
cdef char *copy_runs(char *out, Piece **slots, Py_ssize_t n, Py_ssize_t *runs) noexcept nogil

cdef inline char *copy_tight(char *out, Piece **slots, Py_ssize_t n) noexcept nogil:
    """As `copy_runs`, for who doesn't care in how many."""
    cdef Py_ssize_t runs = 0
    return copy_runs(out, slots, n, &runs)
