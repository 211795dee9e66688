# Reading the elements of a store: one way for runs and slots alike.

from seqcore.core.limits cimport BLOCK, FETCH_AHEAD
from seqcore.core.source cimport MAX_NDIM, Piece, Source, prefetch, resolve
from seqcore.core.store cimport SLOTS, Store, locate

cdef enum:
    DIMS = 8 * MAX_NDIM         # extents and strides of elements that have shapes of their own

cdef struct Span:
    # Elements first, first + step, … of one source.
    Source *source
    Py_ssize_t first
    Py_ssize_t step
    Py_ssize_t n

cdef struct Reader:
    const Store *store
    Py_ssize_t at               # of the next element; of the one at fault where `damaged` is set
    Py_ssize_t stop
    Py_ssize_t run              # that `at` was found in
    Py_ssize_t singly           # elements before this position are given as pieces
    bint damaged
    Py_ssize_t n                # pieces that were read last
    Piece pieces[BLOCK]
    Py_ssize_t dims[DIMS]

cdef void begin(Reader *reader, const Store *store, Py_ssize_t start, Py_ssize_t stop) noexcept nogil
cdef bint next_span(Reader *reader, Span *span) noexcept nogil
cdef Py_ssize_t next_pieces(Reader *reader) noexcept nogil
cdef bint next_block(Reader *reader, Span *span) noexcept nogil
cdef Py_ssize_t rows_ahead(Reader *reader, bint stacking, Source **source) noexcept nogil
cdef Py_ssize_t take_singly(Reader *reader, Span *span) noexcept nogil
cdef bint ends_of(const Span *span, Piece *first, Piece *last, Py_ssize_t *dims) noexcept nogil
cdef int raise_damaged(const Store *store, Py_ssize_t position) except -1

cdef inline bint read_one(const Store *store, Py_ssize_t position, Piece *piece,
                          Py_ssize_t *dims) noexcept nogil:
    """Read the element at a position in range; whether it is within its source."""
    cdef Py_ssize_t number
    cdef Source *source = locate(store, position, &number)
    return resolve(source, number, piece, dims)

cdef inline void fetch_data(const Reader *reader, Py_ssize_t i) noexcept nogil:
    """Have the data brought near that a loop over pieces will come to from its i-th one on.

    The data of runs is in order already.
    """
    if reader.store.nruns == SLOTS and i + FETCH_AHEAD < reader.n:
        prefetch(reader.pieces[i + FETCH_AHEAD].data)
