"""Reductions and comparisons: numbers go through loops that compute what NumPy's do.

::

    reduce     [a b] [c] [d e f]   →   a+b   c   d+e+f
    compare    elements of two sequences, or of one and an array

Sections::

    kernels   sums, products, extrema of numbers
    reduce    one result for each element
    equality  compare two elements
    compare   compare sequences, search
"""

from cpython.ref cimport PyObject, Py_DECREF
from libc.stdint cimport int16_t, int32_t, int64_t, int8_t, uint16_t, uint32_t, uint64_t, uint8_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcmp, memcpy
cimport numpy as cnp
import numpy as np

from seqcore.core.limits cimport (
    BLOCK, COMPARED_TOGETHER, REDUCED_BETWEEN_SIGNALS, RELEASE_NBYTES, SIGNALS_EVERY,
)
from seqcore.core.padding cimport cast_some, count_to_cast, lengths_of, values_of
from seqcore.core.split_join cimport copy_piece
from seqcore.core.store cimport (
    DAMAGED, EVEN, IN_MEMORY, MAX_BYTES, MAX_NDIM, NO_MEMORY, OK, RANK_DIFFERS, REDUCED, SHAPE_DIFFERS, Block,
    Piece, Share, Store, begin_blocks, begin_joint_blocks, check_read, count, element_of, extent, extent_in,
    is_worth_releasing, make_element, owned_offsets, piece_nbytes, raise_damaged, read_block, read_one,
    row_nbytes, same_layout, same_shape, shape_of, size_of, solid, strides_of,
)
from seqcore.core.interrupts import let_others_in
from seqcore._arguments.reductions import plan_of, raise_empty
from seqcore._arguments.shown import shown, unless_empty_list

cnp.import_array()


# == kernels =============================================================================================
#
# Reductions of numbers in memory: n rows of `inner` numbers become one row.
#
# Sums of floating-point numbers are pairwise: numbers one behind the other are added in NumPy's order, so
# that the last bit is the same, and rows in blocks of 128. Sums and products begin with a given number, as
# NumPy's do with `initial`; those of integers have 64 bits. Minima and maxima are NaN if one number is. For a
# variance the squares of the deviations from the mean are added in the same way.

cdef enum:
    BLOCK_ROWS = 128            # rows that are added one after the other
    WIDTH = 32                  # numbers of a row that are added at a time
    LEVELS = 40                 # of blocks, blocks of two blocks, …
    SHORT = 24                  # numbers; fewer are added without branches
    LONG = 32                   # numbers, from which on NumPy's own loops are worth a call

cdef float[8] NOTHING_4
cdef double[8] NOTHING_8
NOTHING_4[:] = [-0.0] * 8
NOTHING_8[:] = [-0.0] * 8

cdef Loop LEAST[C16 + 1]                # by the Numbers that it is of
cdef Loop LARGEST[C16 + 1]


cdef extern from "numpy/ufuncobject.h":
    """
    /* Three numbers for each loop of two inputs and one output. NumPy's own .pxd lacks it since NumPy 2.5. */
    static inline const char *seqcore_types_of(PyObject *ufunc) { return ((PyUFuncObject *)ufunc)->types; }
    """
    const char *types_of "seqcore_types_of"(object ufunc) noexcept


cdef bint find_loop(cnp.ufunc ufunc, int number, Loop *loop) noexcept:
    """Find the loop of a ufunc that makes one number of two, all of a type; return False without one."""
    cdef const char *types = types_of(ufunc)
    cdef int i
    for i in range(ufunc.ntypes):
        if types[3 * i] == types[3 * i + 1] == types[3 * i + 2] == number:
            loop.function = <LoopFunction>ufunc.functions[i]
            loop.data = ufunc.data[i] if ufunc.data != NULL else NULL
            return True
    return False


cdef int find_loops(cnp.ufunc ufunc, Loop *loops) except -1:
    """Find the loops of a ufunc for all numbers."""
    for name in "bhilqBHILQfd":
        dtype = np.dtype(name)
        if not find_loop(ufunc, dtype.num, &loops[<int>numbers_of(dtype)]):
            raise ImportError(f"NumPy {np.__version__} has no loop of {ufunc} for {dtype}")
    return 0


ctypedef float complex cfloat
ctypedef double complex cdouble

ctypedef fused real:
    int8_t
    int16_t
    int32_t
    int64_t
    uint8_t
    uint16_t
    uint32_t
    uint64_t
    float
    double

ctypedef fused real_floating:
    float
    double

ctypedef fused floating:
    float
    double
    cfloat
    cdouble

ctypedef fused number:
    int8_t
    int16_t
    int32_t
    int64_t
    uint8_t
    uint16_t
    uint32_t
    uint64_t
    float
    double
    cfloat
    cdouble


# -- sums ----------------------------------------------------------------------------------------------

cdef inline floating neutral(const floating *like) noexcept nogil:
    """-0.0, which changes no sum; the argument only tells the type."""
    if floating is float or floating is cfloat:
        return (<const floating *>NOTHING_4)[0]
    return (<const floating *>NOTHING_8)[0]


cdef inline floating block_sum(const floating *items, Py_ssize_t n) noexcept nogil:
    """Add up to BLOCK_ROWS numbers in NumPy's order, so that the last bit is the same."""
    cdef floating a, b, c, d, e, f, g, h, total
    cdef Py_ssize_t i
    if floating is cfloat or floating is cdouble:
        if n < 4:
            total = neutral(items)
            i = 0
        else:
            a, b, c, d = items[0], items[1], items[2], items[3]
            i = 4
            while i + 4 <= n:
                a = a + items[i]
                b = b + items[i + 1]
                c = c + items[i + 2]
                d = d + items[i + 3]
                i += 4
            total = (a + b) + (c + d)
    else:
        if n < 8:
            total = -0.0
            i = 0
        else:
            a, b, c, d = items[0], items[1], items[2], items[3]
            e, f, g, h = items[4], items[5], items[6], items[7]
            i = 8
            while i + 8 <= n:
                a = a + items[i]
                b = b + items[i + 1]
                c = c + items[i + 2]
                d = d + items[i + 3]
                e = e + items[i + 4]
                f = f + items[i + 5]
                g = g + items[i + 6]
                h = h + items[i + 7]
                i += 8
            total = ((a + b) + (c + d)) + ((e + f) + (g + h))
    while i < n:
        total = total + items[i]
        i += 1
    return total


cdef inline const void *one_of(Py_ssize_t below_zero, Py_ssize_t first, Py_ssize_t second) noexcept nogil:
    """The second address, or the first one if a number is below zero: no branch, as `if` would be."""
    return <const void *>(second + ((first - second) & (below_zero >> (8 * sizeof(Py_ssize_t) - 1))))


cdef inline floating short_sum(const floating *items, Py_ssize_t n, const floating *nothing) noexcept nogil:
    """Add fewer than SHORT numbers in the same order, without a branch that depends on how many.

    No processor foretells the lengths of elements. In place of what isn't there come numbers that change no
    sum.
    """
    cdef Py_ssize_t first = <Py_ssize_t>items, none = <Py_ssize_t>nothing, itemsize = sizeof(floating), k
    cdef const floating *a = <const floating *>one_of(7 - n, first, none)
    cdef const floating *b = <const floating *>one_of(15 - n, first + 8 * itemsize, none)
    cdef floating total = (((a[0] + b[0]) + (a[1] + b[1])) + ((a[2] + b[2]) + (a[3] + b[3]))
                           + (((a[4] + b[4]) + (a[5] + b[5])) + ((a[6] + b[6]) + (a[7] + b[7]))))
    first += (n >> 3) * 8 * itemsize
    n &= 7
    for k in range(7):
        total = total + (<const floating *>one_of(k - n, first, none))[0]
        first += itemsize
    return total


cdef floating pairwise_sum(const floating *items, Py_ssize_t n) noexcept nogil:
    """Add numbers, halves of many by themselves."""
    cdef Py_ssize_t half
    if floating is cfloat or floating is cdouble:
        if n <= BLOCK_ROWS // 2:
            return block_sum(items, n)
        half = (n - n % 8) // 2
    else:
        if n <= BLOCK_ROWS:
            return block_sum(items, n)
        half = n // 2
        half -= half % 8
    return pairwise_sum(items, half) + pairwise_sum(items + half, n - half)


cdef void add_rows(floating *out, const floating *items, Py_ssize_t n, Py_ssize_t inner, Py_ssize_t width,
                   floating initial, const floating *means) noexcept nogil:
    """Add the first `width` numbers of n rows to `initial`, in blocks of rows, and the blocks by twos.

    Unless `means` is NULL, add the squares of their deviations from the means.
    """
    cdef floating[LEVELS * WIDTH] sums
    cdef floating deviation
    cdef Py_ssize_t row = 0, end, block = 0, pairs, k
    cdef int top = 0
    while row < n:
        for k in range(width):
            sums[top * WIDTH + k] = initial
        initial = neutral(items)
        end = min(n, row + BLOCK_ROWS)
        while row < end:
            if means == NULL:
                for k in range(width):
                    sums[top * WIDTH + k] = sums[top * WIDTH + k] + items[row * inner + k]
            else:
                for k in range(width):
                    deviation = items[row * inner + k] - means[k]
                    sums[top * WIDTH + k] = sums[top * WIDTH + k] + deviation * deviation
            row += 1
        top += 1
        block += 1
        pairs = block
        while top > 1 and (pairs % 2 == 0 or row == n):
            top -= 1
            pairs //= 2
            for k in range(width):
                sums[(top - 1) * WIDTH + k] = sums[(top - 1) * WIDTH + k] + sums[top * WIDTH + k]
    for k in range(width):
        out[k] = sums[k]


cdef void sum_rows(char *out, const number *items, Py_ssize_t n, Py_ssize_t inner,
                   const void *initial) noexcept nogil:
    """Sums of integers are those of 64 bits without a sign, which wrap around as all others do."""
    cdef uint64_t *whole = <uint64_t *>out
    cdef uint64_t total
    cdef number total_of
    cdef Py_ssize_t i, k
    if number is float or number is double or number is cfloat or number is cdouble:
        if inner == 1:
            if number is float and n < SHORT:
                total_of = short_sum(items, n, NOTHING_4)
            elif number is double and n < SHORT:
                total_of = short_sum(items, n, NOTHING_8)
            else:
                total_of = block_sum(items, n) if n <= BLOCK_ROWS // 2 else pairwise_sum(items, n)
            (<number *>out)[0] = (<const number *>initial)[0] + total_of  # 0 makes 0 of -0.0, as in NumPy
            return
        k = 0
        while k < inner:
            add_rows(<number *>out + k, items + k, n, inner, min(WIDTH, inner - k),
                     (<const number *>initial)[0], NULL)
            k += WIDTH
    else:
        if inner == 1:
            total = (<const uint64_t *>initial)[0]
            for i in range(n):
                total += <uint64_t>items[i]
            whole[0] = total
            return
        for k in range(inner):
            whole[k] = (<const uint64_t *>initial)[0]
        for i in range(n):
            for k in range(inner):
                whole[k] += <uint64_t>items[i * inner + k]


# -- squares of deviations -----------------------------------------------------------------------------

cdef real_floating pairwise_squares(const real_floating *items, Py_ssize_t n,
                                    real_floating mean) noexcept nogil:
    """Add squares of deviations in the order in which `pairwise_sum` adds numbers."""
    cdef real_floating[BLOCK_ROWS] squares
    cdef real_floating deviation
    cdef Py_ssize_t i, half
    if n <= BLOCK_ROWS:
        for i in range(n):
            deviation = items[i] - mean
            squares[i] = deviation * deviation
        return block_sum(<const real_floating *>squares, n)
    half = n // 2
    half -= half % 8
    return pairwise_squares(items, half, mean) + pairwise_squares(items + half, n - half, mean)


cdef void square_rows(char *out, const real_floating *items, Py_ssize_t n, Py_ssize_t inner) noexcept nogil:
    """The sums of squared deviations from the mean of each column, to be divided by n."""
    cdef real_floating *own = <real_floating *>out
    cdef real_floating[WIDTH] means
    cdef Py_ssize_t i, k, width
    if inner == 1:
        own[0] = pairwise_squares(items, n, <real_floating>(<double>pairwise_sum(items, n) / <double>n))
        return
    k = 0
    while k < inner:
        width = min(WIDTH, inner - k)
        add_rows(<real_floating *>means, items + k, n, inner, width, <real_floating>0, NULL)
        for i in range(width):
            means[i] = <real_floating>(<double>means[i] / <double>n)
        add_rows(own + k, items + k, n, inner, width, <real_floating>0, <const real_floating *>means)
        k += WIDTH


# -- other reductions ----------------------------------------------------------------------------------

cdef inline number times(number one, number other) noexcept nogil:
    """The product as NumPy has it: of complex numbers without C's rules for infinity."""
    cdef number product
    if number is cfloat or number is cdouble:
        product.real = one.real * other.real - one.imag * other.imag
        product.imag = one.real * other.imag + one.imag * other.real
        return product
    return one * other


cdef void multiply_rows(char *out, const number *items, Py_ssize_t n, Py_ssize_t inner,
                        const void *initial) noexcept nogil:
    cdef uint64_t *whole = <uint64_t *>out
    cdef uint64_t wrapped
    cdef number *own = <number *>out
    cdef number product
    cdef Py_ssize_t i, k
    if number is float or number is double or number is cfloat or number is cdouble:
        if inner == 1:
            product = (<const number *>initial)[0]
            for i in range(n):
                product = times(product, items[i])
            own[0] = product
            return
        for k in range(inner):
            own[k] = (<const number *>initial)[0]
        for i in range(n):
            for k in range(inner):
                own[k] = times(own[k], items[i * inner + k])
    else:
        if inner == 1:
            wrapped = (<const uint64_t *>initial)[0]
            for i in range(n):
                wrapped *= <uint64_t>items[i]
            whole[0] = wrapped
            return
        for k in range(inner):
            whole[k] = (<const uint64_t *>initial)[0]
        for i in range(n):
            for k in range(inner):
                whole[k] *= <uint64_t>items[i * inner + k]


cdef inline real extreme(const real *items, Py_ssize_t n, bint largest) noexcept nogil:
    """The least or largest of a few numbers, or the first NaN: without a branch that depends on a number."""
    cdef real found = items[0], one
    cdef bint has_nan = found != found
    cdef Py_ssize_t i
    if largest:
        for i in range(1, n):
            one = items[i]
            found = one if one > found else found
            has_nan |= one != one
    else:
        for i in range(1, n):
            one = items[i]
            found = one if one < found else found
            has_nan |= one != one
    if has_nan:
        i = 0
        while i < n - 1 and items[i] == items[i]:   # another thread may write meanwhile
            i += 1
        return items[i]
    return found


cdef void run_loop(const Loop *loop, char *out, const char *items, Py_ssize_t n, Py_ssize_t inner,
                   Py_ssize_t itemsize) noexcept nogil:
    """Have NumPy's loop combine n more rows with the one in the output."""
    cdef char *args[3]
    cdef Py_ssize_t steps[3]
    cdef Py_ssize_t _call, calls = 1 if inner == 1 else n, length = n if inner == 1 else inner
    args[0] = args[2] = out
    args[1] = <char *>items
    steps[0] = steps[2] = 0 if inner == 1 else itemsize
    steps[1] = itemsize
    for _call in range(calls):
        loop.function(args, &length, steps, loop.data)
        args[1] += inner * itemsize


cdef void extreme_rows(char *out, const real *items, Py_ssize_t n, Py_ssize_t inner, bint largest,
                       const Loop *loop) noexcept nogil:
    """The least or largest numbers; NaN if one is."""
    cdef real *own = <real *>out
    cdef real one
    cdef Py_ssize_t i, k
    if inner == 1 and n < LONG:
        own[0] = extreme(items, n, largest)
        return
    memcpy(out, items, inner * sizeof(real))
    if inner == 1 or inner >= LONG:
        run_loop(loop, out, <const char *>(items + inner), n - 1, inner, sizeof(real))
        return
    for i in range(1, n):
        for k in range(inner):
            one = items[i * inner + k]
            if (one > own[k] if largest else one < own[k]) or one != one:
                own[k] = one


cdef Py_ssize_t position_of(const real *items, Py_ssize_t n, real wanted) noexcept nogil:
    """The position of the first number that is equal to one of them, which may be NaN.

    Another thread may write meanwhile, so that none is equal: then it is the last one's.
    """
    cdef Py_ssize_t i = 0, k
    cdef bint is_there
    if wanted != wanted:
        while i < n - 1 and items[i] == items[i]:
            i += 1
        return i
    while i + LONG <= n:
        # No branch inside, so that compilers make vector instructions of it.
        is_there = False
        for k in range(LONG):
            is_there |= items[i + k] == wanted
        if is_there:
            break
        i += LONG
    while i < n - 1 and items[i] != wanted:
        i += 1
    return i


cdef void index_rows(char *out, const real *items, Py_ssize_t n, Py_ssize_t inner, bint largest,
                     const Loop *loop) noexcept nogil:
    """Write the position of the first least or largest number, or of the first NaN."""
    cdef int64_t *index = <int64_t *>out
    cdef real best, one
    cdef Py_ssize_t i, k
    if inner == 1:
        extreme_rows(<char *>&best, items, n, 1, largest, loop)
        index[0] = position_of(items, n, best)
        return
    for k in range(inner):
        best = items[k]
        index[k] = 0
        for i in range(1, n):
            if best != best:
                break
            one = items[i * inner + k]
            if (one > best if largest else one < best) or one != one:
                best = one
                index[k] = i


cdef void test_rows(char *out, const number *items, Py_ssize_t n, Py_ssize_t inner,
                    bint every) noexcept nogil:
    cdef Py_ssize_t i = 0, k
    cdef bint decides = False
    for k in range(inner):
        out[k] = every
    if inner == 1:
        while i < n and not decides:
            for k in range(i, min(n, i + LONG)):
                decides |= (items[k] != 0) != every
            i += LONG
        out[0] = every != decides
        return
    for i in range(n):
        for k in range(inner):
            if (items[i * inner + k] != 0) != every:
                out[k] = not every


cdef void reduce_rows(Operation operation, char *out, const number *items, Py_ssize_t n,
                      Py_ssize_t inner, const void *initial, const Loop *loop) noexcept nogil:
    if operation == SUM:
        sum_rows(out, items, n, inner, initial)
    elif operation == PROD:
        multiply_rows(out, items, n, inner, initial)
    elif operation == VAR:
        if number is float or number is double:
            square_rows(out, items, n, inner)
    elif operation == ANY or operation == ALL:
        test_rows(out, items, n, inner, operation == ALL)
    elif number is not cfloat and number is not cdouble:
        if operation == MIN or operation == MAX:
            extreme_rows(out, items, n, inner, operation == MAX, loop)
        else:
            index_rows(out, items, n, inner, operation == ARGMAX, loop)


cdef void reduce_groups(Operation operation, char *out, const number *like, char *const *data,
                        const Py_ssize_t *lengths, Py_ssize_t k, Py_ssize_t inner, Py_ssize_t nbytes,
                        const void *initial, const Loop *loop) noexcept nogil:
    """As `reduce_items`, of the type that `like` has."""
    cdef Py_ssize_t i
    for i in range(k):
        if lengths[i]:
            reduce_rows(operation, out, <const number *>data[i], lengths[i], inner, initial, loop)
        out += nbytes


cdef void reduce_items(Operation operation, Numbers numbers, char *out, char *const *data,
                       const Py_ssize_t *lengths, Py_ssize_t k, Py_ssize_t inner, Py_ssize_t nbytes,
                       const void *initial) noexcept nogil:
    """Make one row of `nbytes` of each of k groups of rows, which are aligned and in C order.

    Group i has lengths[i] rows of `inner` numbers. For one without rows nothing is written. Sums and products
    begin with `initial`, of the type of the results; nothing else reads it.
    """
    cdef const Loop *loop = &LEAST[<int>numbers]
    if operation == MAX or operation == ARGMAX:
        loop = &LARGEST[<int>numbers]
    if numbers == F4:
        reduce_groups(operation, out, <const float *>NULL, data, lengths, k, inner, nbytes, initial, loop)
    elif numbers == F8:
        reduce_groups(operation, out, <const double *>NULL, data, lengths, k, inner, nbytes, initial, loop)
    elif numbers == I8:
        reduce_groups(operation, out, <const int64_t *>NULL, data, lengths, k, inner, nbytes, initial, loop)
    elif numbers == I4:
        reduce_groups(operation, out, <const int32_t *>NULL, data, lengths, k, inner, nbytes, initial, loop)
    elif numbers == I2:
        reduce_groups(operation, out, <const int16_t *>NULL, data, lengths, k, inner, nbytes, initial, loop)
    elif numbers == I1:
        reduce_groups(operation, out, <const int8_t *>NULL, data, lengths, k, inner, nbytes, initial, loop)
    elif numbers == U8:
        reduce_groups(operation, out, <const uint64_t *>NULL, data, lengths, k, inner, nbytes, initial, loop)
    elif numbers == U4:
        reduce_groups(operation, out, <const uint32_t *>NULL, data, lengths, k, inner, nbytes, initial, loop)
    elif numbers == U2:
        reduce_groups(operation, out, <const uint16_t *>NULL, data, lengths, k, inner, nbytes, initial, loop)
    elif numbers == U1:
        reduce_groups(operation, out, <const uint8_t *>NULL, data, lengths, k, inner, nbytes, initial, loop)
    elif numbers == C8:
        reduce_groups(operation, out, <const cfloat *>NULL, data, lengths, k, inner, nbytes, initial, loop)
    elif numbers == C16:
        reduce_groups(operation, out, <const cdouble *>NULL, data, lengths, k, inner, nbytes, initial, loop)


# == reduce ==============================================================================================
#
# Reductions: each element becomes one number, or one row of numbers.
#
# ::
#
#     elements               [1 2 3]  []  [4 5]
#     reduce(np.add)         6  0  9
#
#     an element of shape (2, 3, 4) along axis 1:     2 times, 3 rows of 4 numbers become one row
#     `outer`, `length` and `inner`:                  2, 3 and 4; of a whole element 1, 24 and 1
#
# The elements are gone through once, without the GIL. Those that are not in C order are copied first. For a
# dtype that NumPy would cast to, some elements are cast at a time. `kernels` has the arithmetic.

cdef extern from "Python.h":
    PyObject *PyObject_CallNoArgs(PyObject *function) noexcept

cdef object LET_OTHERS_IN = let_others_in

cdef enum:
    EMPTY = 100                 # as a Status: an element without items, and nothing to make of it
    INTERRUPTED                 # a signal's handler has raised
    EACH = 32                   # numbers that take as long as a small element does beside its own

find_loops(np.minimum, LEAST)
find_loops(np.maximum, LARGEST)

OPERATIONS = {"sum": SUM, "prod": PROD, "min": MIN, "max": MAX, "any": ANY, "all": ALL, "argmin": ARGMIN,
              "argmax": ARGMAX, "var": VAR}

cdef struct Reduction:
    Operation operation
    Numbers numbers             # of the elements
    Py_ssize_t result_itemsize
    int axis                    # or -1 for whole elements
    bint may_be_empty
    char[16] initial            # sums and products begin with it; the result of an element without items
    Piece first                 # element 0
    Py_ssize_t[2 * MAX_NDIM] dims
    Py_ssize_t outer
    Py_ssize_t inner
    Py_ssize_t at               # of the element at fault
    char *copied                # an element in C order
    Py_ssize_t room
    Py_ssize_t work             # numbers until the next check for signals
    int flags                   # of the processor: what NumPy would warn of


# -- the elements --------------------------------------------------------------------------------------

cdef int fit(Reduction *reduction, const Block *block) noexcept nogil:
    """Check that the results of a block's elements have the shape of the first one's."""
    cdef Py_ssize_t length, i
    cdef int axis
    reduction.at = block.first
    if reduction.axis < 0:
        return OK
    if block.source.ndim != reduction.first.source.ndim:
        return RANK_DIFFERS
    for axis in range(block.source.ndim):
        length = extent(&reduction.first, axis)
        if axis == reduction.axis:
            continue
        if axis != block.source.axis:
            if block.shape[axis] != length:
                return SHAPE_DIFFERS
            continue
        for i in range(block.n):
            if block.rows[i] != length:
                reduction.at = block.first + i
                return SHAPE_DIFFERS
    return OK


cdef inline bint is_aligned(const char *data, Py_ssize_t itemsize) noexcept nogil:
    # Sizes of items are powers of two; complex numbers are two of 4 or 8 bytes.
    return <size_t>data & <size_t>(min(itemsize, 8) - 1) == 0


cdef char *in_order(Reduction *reduction, const Block *block, Py_ssize_t i) noexcept nogil:
    """An element's items in C order, aligned: where they are, or copied; NULL without memory."""
    cdef Py_ssize_t nbytes
    cdef Piece piece
    if block.solid and is_aligned(block.data[i], block.source.itemsize):
        return block.data[i]
    element_of(block, i, &piece)
    nbytes = piece_nbytes(&piece)
    if nbytes > reduction.room:
        free(reduction.copied)
        reduction.copied = <char *>malloc(nbytes)
        reduction.room = nbytes if reduction.copied != NULL else 0
        if reduction.copied == NULL:
            return NULL
    copy_piece(reduction.copied, &piece)
    return reduction.copied


cdef bint fill_result(const Reduction *reduction, char *out, Py_ssize_t n) noexcept nogil:
    """Write n results of an element without items, if there is such a result; whether there is."""
    cdef Py_ssize_t k
    if not reduction.may_be_empty:
        return False
    for k in range(n):
        memcpy(out + k * reduction.result_itemsize, reduction.initial, reduction.result_itemsize)
    return True


cdef int reduce_block(Reduction *reduction, const Block *block, char *out, int64_t *counts) noexcept nogil:
    """Write the results of a block's elements, and how many numbers each is of."""
    cdef Py_ssize_t lengths[BLOCK]
    cdef char *data[BLOCK]
    cdef Py_ssize_t step = reduction.inner * reduction.result_itemsize, results, row, work, i = 0, k
    cdef Py_ssize_t itemsize = block.source.itemsize
    cdef bint is_plain = reduction.outer == 1 and block.solid
    results = reduction.outer * reduction.inner
    row = block.row // itemsize
    while i < block.n:
        k = work = 0
        # A few arrays may be elements over and over, so that their number says nothing of the time.
        while i < block.n and work < REDUCED_BETWEEN_SIGNALS:
            if reduction.axis >= 0:
                lengths[k] = extent_in(block, i, reduction.axis)
            else:
                lengths[k] = row * block.rows[i]
            if counts != NULL:
                counts[i] = lengths[k]
            reduction.at = block.first + i
            if lengths[k] == 0 and not fill_result(reduction, out + k * results * reduction.result_itemsize,
                                                   results):
                return EMPTY
            data[k] = block.data[i]
            is_plain &= is_aligned(data[k], itemsize)
            work += lengths[k] * results + EACH
            k += 1
            i += 1
        reduction.work -= work
        if reduction.work < 0 and not may_go_on(reduction):
            return INTERRUPTED
        if results == 0:
            continue
        if is_plain:
            reduce_items(reduction.operation, reduction.numbers, out, data, lengths, k, reduction.inner, step,
                         reduction.initial)
        elif not reduce_each(reduction, block, i - k, out, lengths, k):
            return NO_MEMORY
        out += k * reduction.outer * step
    return OK


cdef bint reduce_each(Reduction *reduction, const Block *block, Py_ssize_t start, char *out,
                      const Py_ssize_t *lengths, Py_ssize_t k) noexcept nogil:
    """As `reduce_items`, of k elements that have several groups each or are to be copied first."""
    cdef Py_ssize_t step = reduction.inner * reduction.result_itemsize, i, _group
    cdef Py_ssize_t nbytes
    cdef char *data
    for i in range(k):
        if lengths[i] == 0:
            out += reduction.outer * step
            continue
        data = in_order(reduction, block, start + i)
        if data == NULL:
            return False
        nbytes = lengths[i] * reduction.inner * block.source.itemsize
        for _group in range(reduction.outer):
            reduce_items(reduction.operation, reduction.numbers, out, &data, &lengths[i], 1, reduction.inner,
                         step, reduction.initial)
            out += step
            data += nbytes
    return True


cdef int reduce_all(Reduction *reduction, const Store *store, char *out, int64_t *counts) noexcept nogil:
    """Write the result of each element, and, unless it is NULL, how many numbers each of it is of."""
    cdef Block block
    cdef int status
    begin_blocks(&block, store, 0, size_of(store))
    block.fetches = True
    while read_block(&block):
        status = fit(reduction, &block)
        if status == OK:
            status = reduce_block(reduction, &block, out, counts)
        if status != OK:
            return status
        out += block.n * reduction.outer * reduction.inner * reduction.result_itemsize
        if counts != NULL:
            counts += block.n
    reduction.at = block.at
    return DAMAGED if block.damaged else OK


cdef bint may_go_on(Reduction *reduction) noexcept with gil:
    reduction.work = REDUCED_BETWEEN_SIGNALS
    return others_were_in()


cdef bint others_were_in() noexcept:
    """As `let_others_in`; False if a handler has raised, and then that exception is set."""
    cdef PyObject *returned = PyObject_CallNoArgs(<PyObject *>LET_OTHERS_IN)
    if returned == NULL:
        return False
    Py_DECREF(<object>returned)
    return True


cdef int raise_for_reduction(int status, const Reduction *reduction, const Store *store, Py_ssize_t first,
                             object name) except -1:
    """Turn a status into an exception; the element at fault is behind `first` others."""
    cdef Piece piece
    cdef Py_ssize_t[2 * MAX_NDIM] dims
    cdef Py_ssize_t at = first + reduction.at
    if status == OK:
        return 0
    if status == INTERRUPTED:
        return -1
    if status == NO_MEMORY:
        raise MemoryError("no memory for a copy of an element")
    if status == DAMAGED or not read_one(store, at, &piece, dims):
        raise_damaged(store, at)
    if status == EMPTY:
        raise_empty(name, at)
    raise ValueError(f"element {at} has shape {shape_of(&piece)}, but element 0 has shape "
                     f"{shape_of(&reduction.first)}: their results along axis {reduction.axis} differ in "
                     "shape, axis=None reduces whole elements to one number each"
                     f"{unless_empty_list(shape_of(&piece), shape_of(&reduction.first))}")


# -- the call ------------------------------------------------------------------------------------------

cdef int numbers_of(object dtype) except -1:
    """The number in `Numbers` of a type that kernels have; bools are bytes."""
    return {"b": 4, "i": 0, "u": 4, "f": 8, "c": 12}[dtype.kind] + dtype.itemsize.bit_length() - 1


cdef tuple lay_out(Reduction *reduction, Store *store, object axis):
    """Find out what the first element makes of the axis; return the shape of its result."""
    cdef tuple shape
    reduction.axis = -1
    reduction.outer = reduction.inner = 1
    if size_of(store) == 0:
        return ()
    if not read_one(store, 0, &reduction.first, reduction.dims):
        raise_damaged(store, 0)
    if axis is None:
        return ()
    shape = shape_of(&reduction.first)
    if not -len(shape) <= axis < len(shape):
        raise_without_axis(0, len(shape), axis)
    reduction.axis = axis % len(shape)
    inner = outer = 1
    for extent_ in shape[:reduction.axis]:
        outer *= extent_
    for extent_ in shape[reduction.axis + 1:]:
        inner *= extent_
    # An element without items may have extents whose product no address can count.
    if outer * inner > MAX_BYTES // 16 // size_of(store):
        raise ValueError(f"the results of {size_of(store)} elements would be larger than any array can be")
    reduction.outer, reduction.inner = outer, inner
    return shape[:reduction.axis] + shape[reduction.axis + 1:]


cdef Py_ssize_t itemsize_of_results(Operation operation, cnp.dtype work) noexcept:
    """The bytes that a kernel writes for each result."""
    if operation == ANY or operation == ALL:
        return 1
    if operation == ARGMIN or operation == ARGMAX:
        return 8
    return 8 if operation in (SUM, PROD) and work.kind in b"biu" else work.itemsize


cdef object reduced_elements(Store *store, cnp.dtype dtype, object how, object axis, object initial,
                             object empty, object asked, int *flags=NULL):
    """See `TensorSequence.reduce`. `flags` gets those that sums and products have set."""
    plan = plan_of(how, dtype, axis, initial, empty, asked)
    cdef Reduction reduction
    cdef Py_ssize_t n = size_of(store)
    cdef tuple shape = lay_out(&reduction, store, plan.axis)
    if plan.operation is None:
        if is_done_at_once(store, plan):
            return reduced_at_once(store, plan, dtype)
        return one_by_one(store, plan, (n, *shape), dtype)
    cdef cnp.ndarray result = np.empty((n, *shape), plan.accumulator)
    cdef cnp.ndarray counts = np.empty(n, np.int64) if plan.needs_counts else None
    reduction.operation = <Operation><int>OPERATIONS[plan.operation]
    reduction.numbers = <Numbers>numbers_of(plan.work)
    reduction.result_itemsize = cnp.PyArray_ITEMSIZE(result)
    if reduction.result_itemsize != itemsize_of_results(reduction.operation, plan.work):
        raise SystemError(f"{plan.operation} of {plan.work} doesn't give {plan.accumulator}")
    reduction.may_be_empty = plan.fill is not None or plan.empty is not None
    memcpy(reduction.initial, cnp.PyArray_DATA(plan.start), reduction.result_itemsize)
    reduction.copied = NULL
    reduction.room = 0
    reduction.work = REDUCED_BETWEEN_SIGNALS
    reduction.flags = 0
    run(&reduction, store, dtype, plan, result, counts)
    if flags != NULL and reduction.operation in (SUM, PROD, VAR):   # where numbers are compared, NaN sets one
        flags[0] = reduction.flags
    count(REDUCED, n)
    return plan.finish(result, counts)


cdef int run(Reduction *reduction, Store *store, cnp.dtype dtype, object plan, cnp.ndarray result,
             cnp.ndarray counts) except -1:
    cdef Py_ssize_t n = size_of(store), first = 0, some = n
    cdef Py_ssize_t nbytes = reduction.outer * reduction.inner * reduction.result_itemsize
    cdef char *out = cnp.PyArray_BYTES(result)
    cdef int64_t *lengths = NULL if counts is None else <int64_t *>cnp.PyArray_DATA(counts)
    cdef bint casts = plan.work != dtype
    cdef Share cast
    cdef Store *part = store
    cdef int status
    if casts:
        some = count_to_cast(store)
    while first < n:
        if casts:
            let_others_in()
            some = min(some, n - first)
            cast = cast_some(store, first, some, dtype, plan.work)
            part = cast.store
        feclearexcept(FE_FLAGS)
        if not is_worth_releasing(part):
            status = reduce_all(reduction, part, out, lengths)
        else:
            with nogil:
                status = reduce_all(reduction, part, out, lengths)
        reduction.flags |= fetestexcept(FE_FLAGS)
        free(reduction.copied)
        reduction.copied = NULL
        reduction.room = 0
        raise_for_reduction(status, reduction, store, first, plan.name)
        first += some
        out += some * nbytes
        if lengths != NULL:
            lengths += some
    return 0


cdef int raise_without_axis(Py_ssize_t at, object rank, object axis) except -1:
    raise ValueError(f"element {at} has rank {rank} and so no axis {shown(axis)}: axis=None reduces whole "
                     "elements")


cdef bint is_empty(object element, object axis) except -1:
    return (element.size if axis is None else element.shape[axis]) == 0


cdef tuple shape_without(tuple shape, object axis):
    cdef Py_ssize_t place = axis % len(shape)
    return shape[:place] + shape[place + 1:]


cdef bint is_done_at_once(Store *store, object plan) except -1:
    """Return whether a ufunc reduces rows one behind the other to the same bits as each of them alone."""
    cdef Block block
    if plan.ufunc is None or plan.initial is not None or plan.axis not in (None, 0, -1):
        return False
    if plan.ufunc is np.add and plan.dtype.kind in "fcV":       # whose sums are pairwise
        return False
    begin_blocks(&block, store, 0, size_of(store))
    while read_block(&block):
        if block.source.ndim != 1:
            return False
    check_read(&block)
    return True


cdef object reduced_at_once(Store *store, object plan, cnp.dtype dtype):
    """Return what a ufunc without a kernel makes of rows, by its reduceat on many of them."""
    cdef Py_ssize_t n = size_of(store), first = 0, some = count_to_cast(store)
    cdef Share part
    cdef object result = np.empty(n, plan.dtype)
    while first < n:
        let_others_in()
        some = min(some, n - first)
        part = cast_some(store, first, some, dtype, dtype)
        result[first:first + some] = plan.of_rows(values_of(part.store, dtype),
                                                  lengths_of(part.store, np.int64), first)
        first += some
    return result


cdef object one_by_one(Store *store, object plan, tuple shape, cnp.dtype dtype):
    """Return what no kernel does: NumPy's own call for each element."""
    cdef Block block
    cdef Piece piece
    cdef Py_ssize_t i, done = 0
    cdef object result = np.empty(shape, plan.dtype)
    begin_blocks(&block, store, 0, size_of(store))
    while read_block(&block):
        for i in range(block.n):
            element_of(&block, i, &piece)
            element = make_element(&piece, dtype)
            if plan.axis is not None and not -element.ndim <= plan.axis < element.ndim:
                raise_without_axis(done, element.ndim, plan.axis)
            expected = () if plan.axis is None else shape_without(element.shape, plan.axis)
            if expected != shape[1:]:
                raise ValueError(f"element {done} has shape {element.shape}, and its result along axis "
                                 f"{plan.axis} has shape {expected}, expected {shape[1:]} as that of "
                                 "element 0: axis=None reduces whole elements to one number each")
            empty = is_empty(element, plan.axis)
            if empty and plan.empty is not None:
                result[done] = plan.empty
            elif empty and plan.fill is None:
                raise_empty(plan.name, done)
            else:
                result[done] = plan.of_element(element)
            done += 1
            if done % SIGNALS_EVERY == 0:
                let_others_in()
    check_read(&block)
    return result


# == equality ============================================================================================
#
# Equality of two pieces' items, in plain C and by the rules of NumPy's ==.
#
# NaN equals nothing, 0.0 equals -0.0, and a bool is true whatever its byte but 0. Nothing here runs foreign
# code or releases the GIL, so that it may be called under a lock. Without the GIL too, except for strings.

cdef extern from *:
    """
    /* 1, 0, or -1 with an exception; of strings this runs no code of theirs. */
    static inline int seqcore_same_text(PyObject *a, PyObject *b)
    {
        if (a == b)
            return 1;
        PyObject *same = PyUnicode_RichCompare(a, b, Py_EQ);
        if (same == NULL)
            return -1;
        int result = same == Py_True;
        Py_DECREF(same);
        return result;
    }
    """
    int same_text "seqcore_same_text"(PyObject *a, PyObject *b) noexcept nogil


ctypedef fused real_number:
    float
    double

cdef struct Rows:
    # Items of two pieces, the innermost axis first.
    int last                    # axis
    Py_ssize_t extents[MAX_NDIM]
    Py_ssize_t left[MAX_NDIM]   # strides, in bytes
    Py_ssize_t right[MAX_NDIM]


cdef int begin_comparison(Comparison *comparison, cnp.dtype dtype) except -1:
    comparison.left = comparison.right = NULL
    comparison.work = 0
    comparison.locked = False
    if dtype.type_num == cnp.NPY_OBJECT:
        comparison.kind = TEXT
    elif cnp.PyTypeNum_ISUSERDEF(dtype.type_num):
        if dtype.kind != c"V" or dtype.itemsize != 2:   # bfloat16, whose name is Python code
            raise TypeError(f"elements of dtype {dtype} can't be compared")
        comparison.kind = BFLOAT
    elif dtype.kind == c"i" or dtype.kind == c"u":
        comparison.kind = EXACT
    elif dtype.kind == c"b":
        comparison.kind = TRUTH
    elif dtype.kind == c"f":
        comparison.kind = HALF if dtype.itemsize == 2 else SINGLE if dtype.itemsize == 4 else DOUBLE
    elif dtype.kind == c"c":
        comparison.kind = SINGLE_PAIR if dtype.itemsize == 8 else DOUBLE_PAIR
    else:
        raise TypeError(f"elements of dtype {dtype} can't be compared")
    return 0


cdef Equality equal_pieces(Comparison *comparison, const Piece *a, const Piece *b) noexcept nogil:
    """Return whether two pieces are equal, in shape too."""
    cdef Py_ssize_t itemsize = a.source.itemsize, n
    if not same_layout(comparison.left, a) or not same_layout(comparison.right, b):
        comparison.left, comparison.right = a.source, b.source
        comparison.solid = solid(a) and solid(b)
        comparison.items = row_nbytes(a) // itemsize
        comparison.lengths[0] = -1
    if a.length != comparison.lengths[0] or b.length != comparison.lengths[1]:
        comparison.lengths[0], comparison.lengths[1] = a.length, b.length
        comparison.fit = same_shape(a, b)
    if not comparison.fit:
        return UNEQUAL
    n = comparison.items * (a.length if a.source.axis >= 0 else 1)
    if not comparison.solid:
        return equal_axes(comparison, a, b)
    return equal_row(comparison.kind, a.data, itemsize, b.data, itemsize, n, itemsize)


cdef Equality equal_axes(Comparison *comparison, const Piece *a, const Piece *b) noexcept nogil:
    """As `equal_pieces`, for pieces of one shape that are not in C order."""
    cdef Rows rows
    cdef const Py_ssize_t *left = strides_of(a)
    cdef const Py_ssize_t *right = strides_of(b)
    cdef Py_ssize_t itemsize = a.source.itemsize, n
    cdef int axis
    rows.last = 0
    rows.extents[0] = 1
    rows.left[0] = rows.right[0] = itemsize
    # The axes innermost first: those of one item dropped, adjacent ones that are contiguous on both sides
    # merged.
    for axis in range(a.source.ndim - 1, -1, -1):
        n = extent(a, axis)
        if n == 0:
            return EQUAL
        if n == 1 or left[axis] == right[axis] == 0:
            continue
        if (left[axis] == rows.left[rows.last] * rows.extents[rows.last]
                and right[axis] == rows.right[rows.last] * rows.extents[rows.last]):
            rows.extents[rows.last] *= n
            continue
        if rows.extents[rows.last] > 1:
            rows.last += 1
        rows.extents[rows.last] = n
        rows.left[rows.last] = left[axis]
        rows.right[rows.last] = right[axis]
    return equal_rows(comparison, &rows, a.data, b.data, itemsize)


cdef Equality equal_rows(Comparison *comparison, const Rows *rows, const char *a, const char *b,
                         Py_ssize_t itemsize) noexcept nogil:
    """Compare rows along axis 0 that stand along the others."""
    cdef Py_ssize_t[MAX_NDIM] index
    cdef int axis
    cdef Equality result
    for axis in range(1, rows.last + 1):
        index[axis] = 0
    while True:
        result = equal_row(comparison.kind, a, rows.left[0], b, rows.right[0], rows.extents[0], itemsize)
        if result != EQUAL:
            return result
        axis = 1
        while axis <= rows.last:
            index[axis] += 1
            a += rows.left[axis]
            b += rows.right[axis]
            if index[axis] < rows.extents[axis]:
                break
            a -= rows.left[axis] * rows.extents[axis]
            b -= rows.right[axis] * rows.extents[axis]
            index[axis] = 0
            axis += 1
        if axis > rows.last:
            return EQUAL


cdef Equality equal_row(Kind kind, const char *a, Py_ssize_t a_step, const char *b, Py_ssize_t b_step,
                        Py_ssize_t n, Py_ssize_t itemsize) noexcept nogil:
    cdef Py_ssize_t i
    cdef Equality result
    if kind == SINGLE:
        return equal_reals[float](a, a_step, b, b_step, n)
    if kind == DOUBLE:
        return equal_reals[double](a, a_step, b, b_step, n)
    if kind == HALF:
        return equal_halves(a, a_step, b, b_step, n, 0x7c00)
    if kind == BFLOAT:
        return equal_halves(a, a_step, b, b_step, n, 0x7f80)
    if a_step == itemsize and b_step == itemsize:
        if kind == EXACT:
            return EQUAL if memcmp(a, b, n * itemsize) == 0 else UNEQUAL
        if kind == TRUTH:
            return equal_truths(a, b, n)
        if kind == SINGLE_PAIR:
            return equal_reals[float](a, 4, b, 4, 2 * n)
        if kind == DOUBLE_PAIR:
            return equal_reals[double](a, 8, b, 8, 2 * n)
    for i in range(n):
        result = equal_item(kind, a + i * a_step, b + i * b_step, itemsize)
        if result != EQUAL:
            return result
    return EQUAL


cdef inline Equality equal_item(Kind kind, const char *a, const char *b, Py_ssize_t itemsize) noexcept nogil:
    cdef int same
    if kind == EXACT:
        return EQUAL if memcmp(a, b, itemsize) == 0 else UNEQUAL
    if kind == TRUTH:
        return EQUAL if (a[0] != 0) == (b[0] != 0) else UNEQUAL
    if kind == SINGLE_PAIR:
        return equal_reals[float](a, 4, b, 4, 2)
    if kind == DOUBLE_PAIR:
        return equal_reals[double](a, 8, b, 8, 2)
    same = same_text((<PyObject **>a)[0], (<PyObject **>b)[0])
    return FAILED if same < 0 else EQUAL if same else UNEQUAL


cdef inline real_number load(const char *data, real_number *unused) noexcept nogil:
    # A memcpy of a constant size is one move, aligned or not.
    cdef real_number value
    memcpy(&value, data, sizeof(real_number))
    return value


cdef Equality equal_reals(const char *a, Py_ssize_t a_step, const char *b, Py_ssize_t b_step, Py_ssize_t n,
                          real_number *unused=NULL) noexcept nogil:
    cdef Py_ssize_t i = 0, j
    cdef bint differ
    if a_step == sizeof(real_number) and b_step == sizeof(real_number):
        while i + COMPARED_TOGETHER <= n:
            # No branch inside, so that compilers make vector instructions of it.
            differ = False
            for j in range(i, i + COMPARED_TOGETHER):
                differ |= (load[real_number](a + j * sizeof(real_number), NULL)
                           != load[real_number](b + j * sizeof(real_number), NULL))
            if differ:
                return UNEQUAL
            i += COMPARED_TOGETHER
    while i < n:
        if load[real_number](a + i * a_step, NULL) != load[real_number](b + i * b_step, NULL):
            return UNEQUAL
        i += 1
    return EQUAL


cdef Equality equal_truths(const char *a, const char *b, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t i = 0, j
    cdef char differ
    while i < n:
        differ = 0
        for j in range(i, min(i + COMPARED_TOGETHER, n)):
            differ |= (a[j] != 0) ^ (b[j] != 0)
        if differ:
            return UNEQUAL
        i += COMPARED_TOGETHER
    return EQUAL


cdef Equality equal_halves(const char *a, Py_ssize_t a_step, const char *b, Py_ssize_t b_step, Py_ssize_t n,
                           uint16_t infinity) noexcept nogil:
    """Numbers of 16 bits, whose first bit is the sign. A number above infinity is NaN."""
    cdef Py_ssize_t i
    cdef uint16_t x, y
    for i in range(n):
        memcpy(&x, a + i * a_step, 2)
        memcpy(&y, b + i * b_step, 2)
        if (x != y and (x | y) & 0x7fff) or (x & 0x7fff) > infinity:
            return UNEQUAL
    return EQUAL


# == compare =============================================================================================
#
# Which elements are equal: in shape and in value, where NaN equals nothing, as in NumPy.
#
# Elements that are one behind the other on both sides are compared together. The caller has a share of the
# stores, so nobody edits them while the GIL is released. No foreign code runs but handlers of signals.


cdef bint equal_stores(Store *a, Store *b, cnp.dtype dtype) except -1:
    cdef Comparison comparison
    cdef Block left, right
    cdef Py_ssize_t n = size_of(a)
    cdef Equality result
    if size_of(b) != n:
        return False
    if n == 0:                          # where there may be no type either
        return True
    begin_comparison(&comparison, dtype)
    comparison.work = RELEASE_NBYTES
    begin_blocks(&left, a, 0, n)
    begin_blocks(&right, b, 0, n)
    left.fetches = right.fetches = True
    if comparison.kind == TEXT:
        result = equal_blocks(&comparison, &left, &right)
    elif not is_worth_releasing(a):
        result = equal_numbers(&comparison, &left, &right)
    else:
        with nogil:
            result = equal_numbers(&comparison, &left, &right)
    if result == FAILED:
        raise_what_is_set()
    if result == EQUAL and left.damaged:
        raise_damaged(a, left.at)
    if result == EQUAL and right.damaged:
        raise_damaged(b, right.at)
    return result == EQUAL


cdef int raise_what_is_set() except -1:
    return -1


cdef Equality equal_numbers(Comparison *comparison, Block *left, Block *right) noexcept nogil:
    """Compare the elements of two stores: all at once, where they are one behind the other in both."""
    cdef Block ours, theirs
    cdef Py_ssize_t nbytes, itemsize, done = 0, some
    if not is_one_stretch(&ours, left.store) or not is_one_stretch(&theirs, right.store) or (
            not fit_rows(&ours, &theirs) or not have_same_lengths(&ours, &theirs)):
        return equal_blocks(comparison, left, right)
    itemsize = ours.source.itemsize
    nbytes = ours.rows[0] * ours.row
    while done < nbytes:
        some = min(nbytes - done, REDUCED_BETWEEN_SIGNALS)
        if equal_row(comparison.kind, ours.data[0] + done, itemsize, theirs.data[0] + done, itemsize,
                     some // itemsize, itemsize) != EQUAL:
            return UNEQUAL
        done += some
        if done < nbytes and not may_compare_on(comparison, some):
            return FAILED
    return EQUAL


cdef bint is_one_stretch(Block *block, const Store *store) noexcept nogil:
    """Return whether all elements are one behind the other in one table; the block then has them as one."""
    begin_joint_blocks(block, store, IN_MEMORY, False)
    return read_block(block) and block.n == 1 and block.at == block.stop and block.source.solid


cdef bint have_same_lengths(const Block *left, const Block *right) noexcept nogil:
    """Return whether two tables have as many elements, as long as each other; False where it isn't clear."""
    cdef const int64_t *ours
    cdef const int64_t *theirs
    cdef int64_t differ = 0
    cdef Py_ssize_t i
    if left.rows[0] != right.rows[0]:
        return False
    if left.source.kind == EVEN and right.source.kind == EVEN:
        return left.source.length == right.source.length
    ours = owned_offsets(left.store, 0, left.stop)
    theirs = owned_offsets(right.store, 0, right.stop)
    if ours == NULL or theirs == NULL:
        return False
    if ours != theirs:
        for i in range(left.stop):
            differ |= (ours[i + 1] - ours[i]) ^ (theirs[i + 1] - theirs[i])
    return differ == 0


cdef Equality equal_blocks(Comparison *comparison, Block *left, Block *right) noexcept nogil:
    """Compare the elements of two stores, up to one that can't be read."""
    cdef Py_ssize_t i = 0, k = 0, j, n, itemsize = 0
    cdef Py_ssize_t stretch = 0         # bytes that are one behind the other on both sides, not compared yet
    cdef const char *a = NULL
    cdef const char *b = NULL
    cdef Piece ours, theirs
    cdef Equality result
    cdef bint is_fresh, is_plain = False
    while True:
        is_fresh = i == left.n or k == right.n
        if i == left.n:
            if not read_block(left):
                break
            i = 0
        if k == right.n:
            if not read_block(right):
                break
            k = 0
        if is_fresh:
            is_plain = left.solid and right.solid and fit_rows(left, right)
            itemsize = left.source.itemsize
        n = min(left.n - i, right.n - k)
        for j in range(n):
            if not is_plain:
                element_of(left, i + j, &ours)
                element_of(right, k + j, &theirs)
                result = equal_pieces(comparison, &ours, &theirs)
                if result != EQUAL:
                    return result
                if not may_compare_on(comparison, left.rows[i + j] * left.row):
                    return FAILED
                continue
            if left.rows[i + j] != right.rows[k + j]:
                return UNEQUAL
            if (left.data[i + j] != a + stretch or right.data[k + j] != b + stretch
                    or stretch > REDUCED_BETWEEN_SIGNALS):
                if stretch:
                    result = equal_row(comparison.kind, a, itemsize, b, itemsize, stretch // itemsize,
                                       itemsize)
                    if result != EQUAL:
                        return result
                    if not may_compare_on(comparison, stretch):
                        return FAILED
                a, b = left.data[i + j], right.data[k + j]
                stretch = 0
            stretch += left.rows[i + j] * left.row
        i += n
        k += n
    if stretch == 0:
        return EQUAL
    return equal_row(comparison.kind, a, itemsize, b, itemsize, stretch // itemsize, itemsize)


cdef inline bint may_compare_on(Comparison *comparison, Py_ssize_t nbytes) noexcept nogil:
    """Count bytes compared, and now and then see signals; False if a handler has raised."""
    comparison.work -= min(nbytes, REDUCED_BETWEEN_SIGNALS) + EACH
    return comparison.work >= 0 or comparison.locked or see_signals(comparison)


cdef bint see_signals(Comparison *comparison) noexcept with gil:
    # Strings keep the GIL, and nobody knows how long they are.
    comparison.work = RELEASE_NBYTES if comparison.kind == TEXT else REDUCED_BETWEEN_SIGNALS
    return others_were_in()


cdef bint fit_rows(const Block *left, const Block *right) noexcept nogil:
    """Return whether the elements of two blocks have one shape if they have one length."""
    cdef int axis
    if left.source.ndim != right.source.ndim or left.source.axis != right.source.axis:
        return False
    for axis in range(left.source.ndim):
        if axis != left.source.axis and left.shape[axis] != right.shape[axis]:
            return False
    return True


cdef Py_ssize_t find(Store *store, Py_ssize_t start, Py_ssize_t stop, const Piece *piece, cnp.dtype dtype,
                     bint locked) except -2:
    """Return the first position from start to stop of an element equal to the piece, or -1.

    If locked, the GIL is not released.
    """
    cdef Py_ssize_t at = -1
    search(store, start, stop, piece, dtype, locked, &at)
    return at


cdef Py_ssize_t count_equal(Store *store, const Piece *piece, cnp.dtype dtype) except -1:
    return search(store, 0, size_of(store), piece, dtype, False, NULL)


cdef Py_ssize_t search(Store *store, Py_ssize_t start, Py_ssize_t stop, const Piece *piece, cnp.dtype dtype,
                       bint locked, Py_ssize_t *first) except -1:
    """Count the elements from start to stop that equal a piece; with `first`, find the first one only."""
    cdef Comparison comparison
    cdef Block block
    cdef Py_ssize_t found = 0
    if start >= stop:                   # where there may be no type either
        return 0
    begin_comparison(&comparison, dtype)
    comparison.work = RELEASE_NBYTES
    comparison.locked = locked
    begin_blocks(&block, store, start, stop)
    block.fetches = True
    if locked or comparison.kind == TEXT or not is_worth_releasing(store):
        found = search_blocks(&comparison, &block, piece, first)
    else:
        with nogil:
            found = search_blocks(&comparison, &block, piece, first)
    if found < 0:
        raise_what_is_set()
    if block.damaged:
        raise_damaged(store, block.at)
    return found


cdef Py_ssize_t search_blocks(Comparison *comparison, Block *block, const Piece *piece,
                              Py_ssize_t *first) noexcept nogil:
    """As `search`; -1 if an exception is set."""
    cdef Py_ssize_t i, found = 0
    cdef Piece element
    cdef Equality result
    while read_block(block):
        for i in range(block.n):
            element_of(block, i, &element)
            result = equal_pieces(comparison, &element, piece)
            if result == FAILED or not may_compare_on(comparison, block.rows[i] * block.row):
                return -1
            found += result == EQUAL
            if found and first != NULL:
                first[0] = block.at - block.n + i
                return found
    return found
