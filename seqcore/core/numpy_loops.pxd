# Reductions of numbers in memory.

cimport numpy as cnp

from seqcore.core.store cimport Piece, Source, Store

# -- kernels ---------------------------------------------------------------------------------------------
# Reductions of numbers in memory.

cdef enum Operation:
    SUM
    PROD
    MIN
    MAX
    ANY
    ALL
    ARGMIN
    ARGMAX
    VAR

cdef enum Numbers:
    # The types that kernels have, by kind and log2 of the size.
    I1 = 0
    I2 = 1
    I4 = 2
    I8 = 3
    U1 = 4
    U2 = 5
    U4 = 6
    U8 = 7
    F4 = 10
    F8 = 11
    C8 = 15
    C16 = 16

# NumPy's inner loops, which have the processor's vector instructions. They need no GIL for numbers.
ctypedef void (*LoopFunction)(char **, const Py_ssize_t *, const Py_ssize_t *, void *) noexcept nogil

cdef struct Loop:
    LoopFunction function
    void *data

cdef bint find_loop(cnp.ufunc ufunc, int number, Loop *loop) noexcept

# -- reduce ----------------------------------------------------------------------------------------------
# Elements reduced along an axis: one result for each.

cdef extern from "<fenv.h>" nogil:
    """
    #define SEQCORE_FE_FLAGS (FE_DIVBYZERO | FE_OVERFLOW | FE_UNDERFLOW | FE_INVALID)
    """
    int FE_DIVBYZERO, FE_OVERFLOW, FE_UNDERFLOW, FE_INVALID
    int FE_FLAGS "SEQCORE_FE_FLAGS"
    int feclearexcept(int flags)
    int fetestexcept(int flags)

cdef object reduced_elements(Store *store, cnp.dtype dtype, object how, object axis, object initial,
                             object empty, object asked, int *flags=*)

# -- equality --------------------------------------------------------------------------------------------
# Whether two pieces have equal items, in plain C and as NumPy's == has it.

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
    FAILED                      # with an exception: a string without memory

cdef struct Comparison:
    Kind kind
    Source *left                # of the pieces compared last
    Source *right
    bint solid                  # whether such pieces lie in C order
    Py_ssize_t items            # of each position along the left one's axis
    Py_ssize_t lengths[2]       # of the pieces compared last
    bint fit                    # whether such pieces have one shape
    Py_ssize_t work             # bytes to compare before signals are seen
    bint locked                 # whether the caller has a lock, so that no signal is seen

cdef int begin_comparison(Comparison *comparison, cnp.dtype dtype) except -1
cdef Equality equal_pieces(Comparison *comparison, const Piece *a, const Piece *b) noexcept nogil

# -- compare ---------------------------------------------------------------------------------------------
# Which elements are equal: loops over stores that see signals and let other threads in.

cdef bint equal_stores(Store *a, Store *b, cnp.dtype dtype) except -1
cdef Py_ssize_t find(Store *store, Py_ssize_t start, Py_ssize_t stop, const Piece *piece, cnp.dtype dtype,
                     bint locked) except -2
cdef Py_ssize_t count_equal(Store *store, const Piece *piece, cnp.dtype dtype) except -1
