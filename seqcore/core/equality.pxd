# Whether two pieces have equal items, in plain C and as NumPy's == has it.

cimport numpy as cnp
from seqcore.core.source cimport Piece, Source

cdef enum Kind:
    EXACT                       # what is equal byte for byte: integers
    TRUTH                       # bools: any byte except 0 is true
    HALF
    BFLOAT
    SINGLE
    DOUBLE
    SINGLE_PAIR                 # complex numbers
    DOUBLE_PAIR
    TEXT                        # strings: with the GIL alone

cdef enum Equality:
    UNEQUAL
    EQUAL
    PAUSED                      # the work that was allowed is done: call again with the same pieces
    FAILED                      # with an exception: a string without memory

cdef struct Comparison:
    Kind kind
    Source *left                # of the pieces compared last
    Source *right
    bint solid                  # whether such pieces lie in C order
    Py_ssize_t items            # of each position along the left one's axis
    Py_ssize_t lengths[2]       # of the pieces compared last
    bint fit                    # whether such pieces have one shape
    Py_ssize_t done             # items of the pieces before the pause

cdef int begin_comparison(Comparison *comparison, cnp.dtype dtype) except -1
cdef Equality equal_pieces(Comparison *comparison, const Piece *a, const Piece *b,
                           Py_ssize_t *work) noexcept nogil
