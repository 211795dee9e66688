"""Reductions of numbers in memory: n rows of `inner` numbers become one row.

Sums of floating-point numbers are pairwise: numbers one behind the other are added in NumPy's order, so that
the last bit is the same, and rows in blocks of 128. Sums and products begin with a given number, as NumPy's
do with `initial`; those of integers have 64 bits. Minima and maxima are NaN if one number is. For a variance
the squares of the deviations from the mean are added in the same way.
"""

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

cdef enum:
    BLOCK_ROWS = 128            # rows that are added one after the other
    WIDTH = 32                  # numbers of a row that are added at a time
    LEVELS = 40                 # of blocks, blocks of two blocks, …
    SHORT = 24                  # numbers, fewer of which are added without branches

cdef float[8] NOTHING_4
cdef double[8] NOTHING_8
NOTHING_4[:] = [-0.0] * 8
NOTHING_8[:] = [-0.0] * 8

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
    cdef number *own = <number *>out
    cdef Py_ssize_t i, k
    if number is float or number is double or number is cfloat or number is cdouble:
        for k in range(inner):
            own[k] = (<const number *>initial)[0]
        for i in range(n):
            for k in range(inner):
                own[k] = times(own[k], items[i * inner + k])
    else:
        for k in range(inner):
            whole[k] = (<const uint64_t *>initial)[0]
        for i in range(n):
            for k in range(inner):
                whole[k] *= <uint64_t>items[i * inner + k]


cdef void extreme_rows(char *out, const real *items, Py_ssize_t n, Py_ssize_t inner,
                       bint largest) noexcept nogil:
    """The least or largest numbers; NaN if one is."""
    cdef real *own = <real *>out
    cdef real one, found
    cdef Py_ssize_t i, k
    if inner == 1:
        found = items[0]
        if largest:
            for i in range(1, n):
                one = items[i]
                found = one if one > found or one != one else found
        else:
            for i in range(1, n):
                one = items[i]
                found = one if one < found or one != one else found
        own[0] = found
        return
    memcpy(out, items, inner * sizeof(real))
    for i in range(1, n):
        for k in range(inner):
            one = items[i * inner + k]
            if (one > own[k] if largest else one < own[k]) or one != one:
                own[k] = one


cdef void index_rows(char *out, const real *items, Py_ssize_t n, Py_ssize_t inner,
                     bint largest) noexcept nogil:
    """Write the position of the first least or largest number, or of the first NaN."""
    cdef int64_t *index = <int64_t *>out
    cdef real best, one
    cdef Py_ssize_t i, k
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
    cdef Py_ssize_t i, k
    for k in range(inner):
        out[k] = every
    for i in range(n):
        for k in range(inner):
            if (items[i * inner + k] != 0) != every:
                out[k] = not every


cdef void reduce_rows(Operation operation, char *out, const number *items, Py_ssize_t n,
                      Py_ssize_t inner, const void *initial) noexcept nogil:
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
            extreme_rows(out, items, n, inner, operation == MAX)
        else:
            index_rows(out, items, n, inner, operation == ARGMAX)


cdef void reduce_groups(Operation operation, char *out, const number *items, const Py_ssize_t *lengths,
                        Py_ssize_t step, Py_ssize_t k, Py_ssize_t inner, Py_ssize_t nbytes,
                        const void *initial) noexcept nogil:
    cdef Py_ssize_t i, n
    for i in range(k):
        n = lengths[i * step]
        if n:
            reduce_rows(operation, out, items, n, inner, initial)
            items += n * inner
        out += nbytes


cdef void reduce_items(Operation operation, Numbers numbers, char *out, const char *data,
                       const Py_ssize_t *lengths, Py_ssize_t step, Py_ssize_t k, Py_ssize_t inner,
                       Py_ssize_t nbytes, const void *initial) noexcept nogil:
    """Make one row of `nbytes` of each of k groups of rows, which lie one behind the other.

    Group i has lengths[i * step] rows of `inner` numbers. For one without rows nothing is written. Sums and
    products begin with `initial`, of the type of the results; nothing else reads it.
    """
    if numbers == F4:
        reduce_groups(operation, out, <const float *>data, lengths, step, k, inner, nbytes,
                      initial)
    elif numbers == F8:
        reduce_groups(operation, out, <const double *>data, lengths, step, k, inner, nbytes,
                      initial)
    elif numbers == I8:
        reduce_groups(operation, out, <const int64_t *>data, lengths, step, k, inner, nbytes,
                      initial)
    elif numbers == I4:
        reduce_groups(operation, out, <const int32_t *>data, lengths, step, k, inner, nbytes,
                      initial)
    elif numbers == I2:
        reduce_groups(operation, out, <const int16_t *>data, lengths, step, k, inner, nbytes,
                      initial)
    elif numbers == I1:
        reduce_groups(operation, out, <const int8_t *>data, lengths, step, k, inner, nbytes,
                      initial)
    elif numbers == U8:
        reduce_groups(operation, out, <const uint64_t *>data, lengths, step, k, inner, nbytes,
                      initial)
    elif numbers == U4:
        reduce_groups(operation, out, <const uint32_t *>data, lengths, step, k, inner, nbytes,
                      initial)
    elif numbers == U2:
        reduce_groups(operation, out, <const uint16_t *>data, lengths, step, k, inner, nbytes,
                      initial)
    elif numbers == U1:
        reduce_groups(operation, out, <const uint8_t *>data, lengths, step, k, inner, nbytes,
                      initial)
    elif numbers == C8:
        reduce_groups(operation, out, <const cfloat *>data, lengths, step, k, inner, nbytes,
                      initial)
    elif numbers == C16:
        reduce_groups(operation, out, <const cdouble *>data, lengths, step, k, inner, nbytes,
                      initial)
