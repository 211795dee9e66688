"""Equality of two pieces' items, in plain C and by the rules of NumPy's ==.

NaN equals nothing, 0.0 equals -0.0, and a bool is true whatever its byte but 0. Nothing here runs foreign
code or releases the GIL, so that it may be called under a lock. Without the GIL too, except for strings.
"""

from cpython.ref cimport PyObject
from libc.stdint cimport uint16_t
from libc.string cimport memcmp, memcpy
cimport numpy as cnp

from seqcore.core.limits cimport COMPARED_TOGETHER, COMPARED_WITH_GIL
from seqcore.core.source cimport (
    MAX_NDIM, Piece, extent, row_nbytes, same_layout, same_shape, solid, strides_of,
)

cnp.import_array()

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


ctypedef fused real:
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
    comparison.done = 0
    if dtype.type_num == cnp.NPY_OBJECT:
        comparison.kind = TEXT
    elif dtype.kind == c"i" or dtype.kind == c"u":
        comparison.kind = EXACT
    elif dtype.kind == c"b":
        comparison.kind = TRUTH
    elif dtype.kind == c"f":
        comparison.kind = HALF if dtype.itemsize == 2 else SINGLE if dtype.itemsize == 4 else DOUBLE
    elif dtype.kind == c"c":
        comparison.kind = SINGLE_PAIR if dtype.itemsize == 8 else DOUBLE_PAIR
    elif cnp.PyTypeNum_ISUSERDEF(dtype.type_num):   # of element types bfloat16 alone; its name is Python code
        comparison.kind = BFLOAT
    else:
        raise TypeError(f"elements of dtype {dtype} can't be compared")
    return 0


cdef Equality equal_pieces(Comparison *comparison, const Piece *a, const Piece *b,
                           Py_ssize_t *work) noexcept nogil:
    """Return whether two pieces are equal, in shape too. The bytes compared are subtracted from `work`."""
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
    if not comparison.solid or n * itemsize > COMPARED_WITH_GIL:
        return equal_axes(comparison, a, b, n, work)
    work[0] -= n * itemsize
    return equal_row(comparison.kind, a.data, itemsize, b.data, itemsize, n, itemsize)


cdef Equality equal_axes(Comparison *comparison, const Piece *a, const Piece *b, Py_ssize_t n,
                         Py_ssize_t *work) noexcept nogil:
    """As `equal_pieces`, for n items that are many or not in C order; here it may pause."""
    cdef Rows rows
    cdef const Py_ssize_t *left = strides_of(a)
    cdef const Py_ssize_t *right = strides_of(b)
    cdef Py_ssize_t itemsize = a.source.itemsize
    cdef int axis
    rows.last = 0
    rows.extents[0] = n if comparison.solid else 1
    rows.left[0] = rows.right[0] = itemsize
    if not comparison.solid:
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
    return equal_rows(comparison, &rows, a.data, b.data, itemsize, work)


cdef Equality equal_rows(Comparison *comparison, const Rows *rows, const char *a, const char *b,
                         Py_ssize_t itemsize, Py_ssize_t *work) noexcept nogil:
    """Go on with rows along axis 0 that stand along the others, from where the comparison was paused."""
    cdef Py_ssize_t[MAX_NDIM] index
    cdef Py_ssize_t row = comparison.done // rows.extents[0], at = comparison.done % rows.extents[0], n
    cdef int axis
    cdef Equality result
    for axis in range(1, rows.last + 1):
        index[axis] = row % rows.extents[axis]
        row //= rows.extents[axis]
        a += index[axis] * rows.left[axis]
        b += index[axis] * rows.right[axis]
    while True:
        n = min(rows.extents[0] - at, max(work[0], 0) // itemsize + 1)
        work[0] -= n * itemsize
        result = equal_row(comparison.kind, a + at * rows.left[0], rows.left[0], b + at * rows.right[0],
                           rows.right[0], n, itemsize)
        comparison.done += n
        at += n
        if result == EQUAL and at < rows.extents[0]:
            return PAUSED
        at = 0
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
        if result != EQUAL or axis > rows.last:
            comparison.done = 0
            return result
        if work[0] <= 0:
            return PAUSED


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


cdef inline real load(const char *data, real *unused) noexcept nogil:
    # A memcpy of a constant size is one move, aligned or not.
    cdef real value
    memcpy(&value, data, sizeof(real))
    return value


cdef Equality equal_reals(const char *a, Py_ssize_t a_step, const char *b, Py_ssize_t b_step, Py_ssize_t n,
                          real *unused=NULL) noexcept nogil:
    cdef Py_ssize_t i = 0, j
    cdef bint differ
    if a_step == sizeof(real) and b_step == sizeof(real):
        while i + COMPARED_TOGETHER <= n:
            # No branch inside, so that compilers make vector instructions of it.
            differ = False
            for j in range(i, i + COMPARED_TOGETHER):
                differ |= load[real](a + j * sizeof(real), NULL) != load[real](b + j * sizeof(real), NULL)
            if differ:
                return UNEQUAL
            i += COMPARED_TOGETHER
    while i < n:
        if load[real](a + i * a_step, NULL) != load[real](b + i * b_step, NULL):
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
