"""Python numbers, strings and nested lists of them, read straight into memory.

::

    [[1, 2, 3], [4, 5, 6]]      shape (2, 3)      memory   1 2 3 4 5 6

Sections::

    integers  lists of integers
    lists     lists of numbers and strings of any type
"""

from cpython.bool cimport PyBool_Check
from cpython.complex cimport PyComplex_CheckExact, PyComplex_ImagAsDouble, PyComplex_RealAsDouble
from cpython.exc cimport PyErr_Clear, PyErr_Occurred
from cpython.float cimport PyFloat_AS_DOUBLE, PyFloat_CheckExact
from cpython.long cimport PyLong_CheckExact
from cpython.ref cimport PyObject, Py_DECREF, Py_INCREF
from cpython.unicode cimport PyUnicode_CheckExact
from libc.math cimport isfinite
from libc.stdint cimport int16_t, int32_t, int64_t, int8_t, uint16_t, uint32_t, uint64_t, uint8_t
cimport numpy as cnp
cimport cython
import numpy as np

from seqcore.core.arrays cimport array_from
from seqcore.core.store cimport MAX_BYTES, MAX_NDIM

cnp.import_array()


# == integers ============================================================================================
#
# Lists of Python integers, read in one loop. A bool doesn't count as one, as it would for NumPy.

cdef extern from "Python.h":
    long long PyLong_AsLongLongAndOverflow(object number, int *overflow) except? -1


def row_of_integers(items):
    """Return the integers of a list or tuple as an int64 array; None for other or too large items."""
    # A copy, which nobody else edits meanwhile.
    cdef tuple own = tuple(items)
    cdef Py_ssize_t n = len(own), i
    cdef cnp.ndarray row = np.empty(n, np.int64)
    cdef int64_t *numbers = <int64_t *>cnp.PyArray_DATA(row)
    cdef int beyond = 0
    for i in range(n):
        item = own[i]
        if not PyLong_CheckExact(item):
            return None
        numbers[i] = PyLong_AsLongLongAndOverflow(item, &beyond)
        if beyond:
            return None
    return row


# == lists ===============================================================================================
#
# Python numbers, strings and nested lists of them, read straight into memory.
#
# ::
#
#     [[1, 2, 3], [4, 5, 6]]      shape (2, 3)      memory   1 2 3 4 5 6
#
# A value is read quickly if it is a number or string, or a list or tuple, regular at each level, of such. All
# must be of exactly `bool`, `int`, `float`, `complex` or `str`, and each must fit the dtype. Anything else is
# left to NumPy, by `_arguments.tensors`, which gives the same result or says what is wrong.
#
# Nothing here runs foreign code: exact numbers and strings have no methods of their own. A list can still be
# changed by another thread on builds without the GIL. So a row is read under the lock of its list, if it is
# as long as before, and inner lists are retained while they are read.

cdef extern from *:
    """
    /* Both round to nearest, ties to even, and give infinity for too large numbers. */
    static inline uint16_t seqcore_float16(double number)
    {
        uint64_t bits, fraction, rest, half;
        uint16_t sign;
        int exponent, shift;
        memcpy(&bits, &number, 8);
        sign = (uint16_t)(bits >> 48) & 0x8000;
        exponent = (int)(bits >> 52 & 0x7ff) - 1023;
        fraction = bits & (((uint64_t)1 << 52) - 1);
        if (exponent == 1024 && fraction != 0)
            return sign | 0x7e00;
        if (exponent > 15)
            return sign | 0x7c00;
        if (exponent < -25)                 /* less than half of the least number */
            return sign;
        fraction |= (uint64_t)1 << 52;
        shift = exponent < -14 ? 28 - exponent : 42;
        half = (uint64_t)1 << (shift - 1);
        rest = fraction & (2 * half - 1);
        fraction >>= shift;
        fraction += rest > half || (rest == half && (fraction & 1));
        /* From -14 on, the leading bit of the fraction counts the exponent up by one. */
        return sign | (uint16_t)(exponent < -14 ? fraction : fraction + ((uint64_t)(exponent + 14) << 10));
    }
    static inline uint16_t seqcore_bfloat16(double number)
    {
        float single = (float)number;       /* as ml_dtypes does */
        uint32_t bits;
        memcpy(&bits, &single, 4);
        if (number != number)
            return 0x7fc0;
        return (uint16_t)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
    }
    """
    uint16_t as_float16 "seqcore_float16"(double number) noexcept
    uint16_t as_bfloat16 "seqcore_bfloat16"(double number) noexcept

cdef extern from "Python.h":
    # Exceptions of these are asked for where they can come.
    long long PyLong_AsLongLongAndOverflow(object number, int *overflow) noexcept
    unsigned long long PyLong_AsUnsignedLongLong(object number) noexcept
    double PyLong_AsDouble(object number) noexcept

ctypedef fused short_integer:
    int8_t
    int16_t
    int32_t
    int64_t
    uint8_t
    uint16_t
    uint32_t

ctypedef fused real:
    float
    double

cdef enum:
    BOOL = 1
    INT = 2
    FLOAT = 4
    COMPLEX = 8
    TEXT = 16
    LARGE = 32                  # an integer beyond int64

cdef dict TYPES = {
    BOOL: np.dtype(np.bool_), INT: np.dtype(np.int64), FLOAT: np.dtype(np.float64),
    COMPLEX: np.dtype(np.complex128), TEXT: np.dtype(object),
}


# -- one row of items ----------------------------------------------------------------------------------

cdef bint write_bools(PyObject **items, Py_ssize_t n, char *to) noexcept:
    cdef Py_ssize_t i
    for i in range(n):
        if not PyBool_Check(<object>items[i]):
            return False
        to[i] = <object>items[i] is True
    return True


cdef bint write_integers(PyObject **items, Py_ssize_t n, short_integer *to) noexcept:
    cdef Py_ssize_t i
    cdef int64_t number
    cdef int beyond = 0
    for i in range(n):
        if PyLong_CheckExact(<object>items[i]):
            number = PyLong_AsLongLongAndOverflow(<object>items[i], &beyond)
        elif PyBool_Check(<object>items[i]):
            number = <object>items[i] is True
        else:
            return False
        to[i] = <short_integer>number
        if beyond or <int64_t>to[i] != number:
            return False
    return True


cdef bint write_u8(PyObject **items, Py_ssize_t n, char *to) noexcept:
    """Write integers from 0 to 2⁶⁴ - 1."""
    cdef Py_ssize_t i
    cdef uint64_t *numbers = <uint64_t *>to
    cdef int64_t number
    cdef int beyond = 0
    for i in range(n):
        if PyLong_CheckExact(<object>items[i]):
            number = PyLong_AsLongLongAndOverflow(<object>items[i], &beyond)
        elif PyBool_Check(<object>items[i]):
            number = <object>items[i] is True
        else:
            return False
        if beyond > 0:
            numbers[i] = unsigned_of(items[i])
            if numbers[i] == 0:
                return False
        elif beyond < 0 or number < 0:
            return False
        else:
            numbers[i] = <uint64_t>number
    return True


cdef uint64_t unsigned_of(PyObject *item) noexcept:
    """Return an integer from 2⁶³ on, or 0 if it doesn't fit."""
    cdef uint64_t number = PyLong_AsUnsignedLongLong(<object>item)
    if PyErr_Occurred():
        PyErr_Clear()
        return 0
    return number


cdef inline bint as_double(PyObject *item, double *number) noexcept:
    """Read a float, integer or bool; return whether it was one, and within a double's range."""
    cdef int64_t integer
    cdef int beyond = 0
    if PyFloat_CheckExact(<object>item):
        number[0] = PyFloat_AS_DOUBLE(<object>item)
    elif PyLong_CheckExact(<object>item):
        integer = PyLong_AsLongLongAndOverflow(<object>item, &beyond)
        if beyond:
            return large_double(item, number)
        number[0] = <double>integer
    elif PyBool_Check(<object>item):
        number[0] = 1.0 if <object>item is True else 0.0
    else:
        return False
    return True


cdef bint large_double(PyObject *item, double *number) noexcept:
    number[0] = PyLong_AsDouble(<object>item)
    if PyErr_Occurred():
        PyErr_Clear()
        return False
    return True


cdef bint write_reals(PyObject **items, Py_ssize_t n, real *to) noexcept:
    cdef Py_ssize_t i
    cdef double number = 0
    for i in range(n):
        if not as_double(items[i], &number):
            return False
        to[i] = <real>number
        if real is float:
            if not isfinite(to[i]) and isfinite(number):
                return False
    return True


cdef bint write_complex(PyObject **items, Py_ssize_t n, real *to) noexcept:
    cdef Py_ssize_t i
    cdef double number = 0, imaginary
    for i in range(n):
        imaginary = 0
        if PyComplex_CheckExact(<object>items[i]):
            number = PyComplex_RealAsDouble(<object>items[i])
            imaginary = PyComplex_ImagAsDouble(<object>items[i])
        elif not as_double(items[i], &number):
            return False
        to[2 * i] = <real>number
        to[2 * i + 1] = <real>imaginary
        if real is float:
            if (not isfinite(to[2 * i]) and isfinite(number)) or (
                    not isfinite(to[2 * i + 1]) and isfinite(imaginary)):
                return False
    return True


cdef bint write_f2(PyObject **items, Py_ssize_t n, char *to) noexcept:
    cdef Py_ssize_t i
    cdef double number = 0
    cdef uint16_t *numbers = <uint16_t *>to
    for i in range(n):
        if not as_double(items[i], &number):
            return False
        numbers[i] = as_float16(number)
        if numbers[i] & 0x7fff == 0x7c00 and isfinite(number):
            return False
    return True


cdef bint write_bfloat16(PyObject **items, Py_ssize_t n, char *to) noexcept:
    cdef Py_ssize_t i
    cdef double number = 0
    cdef uint16_t *numbers = <uint16_t *>to
    for i in range(n):
        if not as_double(items[i], &number):
            return False
        numbers[i] = as_bfloat16(number)
        if numbers[i] & 0x7fff == 0x7f80 and isfinite(number):
            return False
    return True


cdef bint write_strings(PyObject **items, Py_ssize_t n, char *to) noexcept:
    """Write new references, or none at all."""
    cdef Py_ssize_t i
    for i in range(n):
        if not PyUnicode_CheckExact(<object>items[i]):
            return False
    for i in range(n):
        Py_INCREF(<object>items[i])
        (<PyObject **>to)[i] = items[i]
    return True


cdef bint write_i1(PyObject **items, Py_ssize_t n, char *to) noexcept:
    return write_integers(items, n, <int8_t *>to)


cdef bint write_i2(PyObject **items, Py_ssize_t n, char *to) noexcept:
    return write_integers(items, n, <int16_t *>to)


cdef bint write_i4(PyObject **items, Py_ssize_t n, char *to) noexcept:
    return write_integers(items, n, <int32_t *>to)


cdef bint write_i8(PyObject **items, Py_ssize_t n, char *to) noexcept:
    return write_integers(items, n, <int64_t *>to)


cdef bint write_u1(PyObject **items, Py_ssize_t n, char *to) noexcept:
    return write_integers(items, n, <uint8_t *>to)


cdef bint write_u2(PyObject **items, Py_ssize_t n, char *to) noexcept:
    return write_integers(items, n, <uint16_t *>to)


cdef bint write_u4(PyObject **items, Py_ssize_t n, char *to) noexcept:
    return write_integers(items, n, <uint32_t *>to)


cdef bint write_f4(PyObject **items, Py_ssize_t n, char *to) noexcept:
    return write_reals(items, n, <float *>to)


cdef bint write_f8(PyObject **items, Py_ssize_t n, char *to) noexcept:
    return write_reals(items, n, <double *>to)


cdef bint write_c8(PyObject **items, Py_ssize_t n, char *to) noexcept:
    return write_complex(items, n, <float *>to)


cdef bint write_c16(PyObject **items, Py_ssize_t n, char *to) noexcept:
    return write_complex(items, n, <double *>to)


cdef struct ForType:
    char kind
    int size
    Writer writer

cdef enum:
    NWRITERS = 14

cdef ForType[NWRITERS] WRITERS
WRITERS[0] = ForType(c"b", 1, write_bools)
WRITERS[1] = ForType(c"i", 1, write_i1)
WRITERS[2] = ForType(c"i", 2, write_i2)
WRITERS[3] = ForType(c"i", 4, write_i4)
WRITERS[4] = ForType(c"i", 8, write_i8)
WRITERS[5] = ForType(c"u", 1, write_u1)
WRITERS[6] = ForType(c"u", 2, write_u2)
WRITERS[7] = ForType(c"u", 4, write_u4)
WRITERS[8] = ForType(c"u", 8, write_u8)
WRITERS[9] = ForType(c"f", 2, write_f2)
WRITERS[10] = ForType(c"f", 4, write_f4)
WRITERS[11] = ForType(c"f", 8, write_f8)
WRITERS[12] = ForType(c"c", 8, write_c8)
WRITERS[13] = ForType(c"c", 16, write_c16)


cdef Writer writer_for(cnp.dtype dtype) except? NULL:
    """Return what writes items of an element type; NULL of any other dtype."""
    cdef int i
    if dtype.type_num == cnp.NPY_OBJECT:
        return write_strings
    if dtype.kind == c"V":          # the only element type that isn't NumPy's own
        if (<object>dtype).name == "bfloat16":
            return write_bfloat16
        return NULL
    if cnp.PyArray_ISNBO(dtype.byteorder):
        for i in range(NWRITERS):
            if WRITERS[i].kind == dtype.kind and WRITERS[i].size == dtype.itemsize:
                return WRITERS[i].writer
    return NULL


cdef bint note_types(PyObject **items, Py_ssize_t n, char *to) noexcept:
    """As a writer; what it writes are the kinds of items, into one int."""
    cdef int *kinds = <int *>to
    cdef Py_ssize_t i
    cdef int beyond = 0
    for i in range(n):
        if PyLong_CheckExact(<object>items[i]):
            PyLong_AsLongLongAndOverflow(<object>items[i], &beyond)
            kinds[0] |= INT | LARGE if beyond else INT
        elif PyFloat_CheckExact(<object>items[i]):
            kinds[0] |= FLOAT
        elif PyUnicode_CheckExact(<object>items[i]):
            kinds[0] |= TEXT
        elif PyBool_Check(<object>items[i]):
            kinds[0] |= BOOL
        elif PyComplex_CheckExact(<object>items[i]):
            kinds[0] |= COMPLEX
        else:
            return False
    return True


# -- nested lists --------------------------------------------------------------------------------------

cdef bint is_python_value(object value) noexcept:
    """Return whether a value is a list, a tuple, a number or a string of Python, and of no subclass."""
    return (is_list(value) or PyFloat_CheckExact(value) or PyLong_CheckExact(value) or PyBool_Check(value)
            or PyUnicode_CheckExact(value) or PyComplex_CheckExact(value))


cdef object item_of(object row, Py_ssize_t i):
    """Return an item of a list or tuple, or None behind its end."""
    cdef object item = None
    with cython.critical_section(row):
        if i < length_of(row):
            item = <object>items_of(row)[i]
    return item


cdef bint measure(object value, Shape *shape) except -1:
    """Find the shape of a number, string or regular nested list, by its lists alone.

    Return False for other values, and for lists that aren't regular.
    """
    cdef object inner = value
    cdef Py_ssize_t length
    shape.ndim = 0
    shape.items = 1
    if not is_list(value):
        return is_python_value(value)
    while is_list(inner):
        if shape.ndim == MAX_NDIM:
            return False
        length = length_of(inner)
        if length > MAX_BYTES // 16 // max(shape.items, 1):
            return False
        shape.extents[shape.ndim] = length
        shape.items *= length
        shape.ndim += 1
        if length == 0:
            break
        inner = item_of(inner, 0)
    return shape.ndim == 1 or is_regular(value, shape, 0)


cdef bint is_regular(object value, const Shape *shape, int level) except -1:
    cdef Py_ssize_t i
    cdef object inner
    for i in range(shape.extents[level]):
        inner = item_of(value, i)
        if not is_list(inner) or length_of(inner) != shape.extents[level + 1]:
            return False
        if level + 2 < shape.ndim and not is_regular(inner, shape, level + 1):
            return False
    return True


cdef bint write_row(object row, Py_ssize_t n, Writer writer, char *to) noexcept:
    cdef bint done = False
    with cython.critical_section(row):
        if length_of(row) == n:
            done = writer(items_of(row), n, to)
    return done


cdef bint write_level(object value, const Shape *shape, int level, Writer writer, Py_ssize_t itemsize,
                      char **to) except -1:
    cdef Py_ssize_t i
    cdef object inner
    if level == shape.ndim - 1:
        if not write_row(value, shape.extents[level], writer, to[0]):
            return False
        to[0] += shape.extents[level] * itemsize
        return True
    for i in range(shape.extents[level]):
        inner = item_of(value, i)
        if not is_list(inner) or not write_level(inner, shape, level + 1, writer, itemsize, to):
            return False
    return length_of(value) == shape.extents[level]


cdef bint write_value(object value, const Shape *shape, Writer writer, Py_ssize_t itemsize,
                      char *to) except -1:
    """Write a value that was measured in C order to memory that has room for it.

    Return False if an item isn't of an exact type that fits, or a list has changed. There is nothing to undo.
    """
    cdef PyObject *single = <PyObject *>value
    cdef PyObject **written
    cdef char *end = to
    if shape.ndim == 0:
        return writer(&single, 1, to)
    if shape.ndim == 1:
        return write_row(value, shape.extents[0], writer, to)
    if write_level(value, shape, 0, writer, itemsize, &end):
        return True
    if writer == write_strings:
        while end != to:            # rows that were written before the one that wasn't
            end -= sizeof(PyObject *)
            written = <PyObject **>end
            Py_DECREF(<object>written[0])
            written[0] = NULL
    return False


cdef cnp.dtype type_of_items(object value, const Shape *shape):
    """Return NumPy's type for the items of a value that was measured; None if NumPy has to find it."""
    cdef int kinds = 0
    if not write_value(value, shape, note_types, 0, <char *>&kinds):
        return None
    if kinds & LARGE or (kinds & TEXT and kinds != TEXT):
        return None
    for kind in (TEXT, COMPLEX, FLOAT, INT, BOOL):
        if kinds & kind:
            return TYPES[kind]
    return None


cdef object array_of(object value, cnp.dtype dtype):
    """Return a new array of a value, of a dtype if that isn't None; None if NumPy has to find out how."""
    cdef Shape shape
    cdef cnp.ndarray array
    cdef Writer writer
    if not measure(value, &shape):
        return None
    if dtype is None:
        dtype = type_of_items(value, &shape)
        if dtype is None:
            return None
    writer = writer_for(dtype)
    if writer == NULL:
        return None
    array = array_from(<PyObject *>dtype, shape.ndim, shape.extents, NULL, NULL, NULL)
    if not write_value(value, &shape, writer, cnp.PyArray_ITEMSIZE(array), cnp.PyArray_BYTES(array)):
        return None
    return array


def read(value, dtype=None):
    """Return a new array of Python values, or None if they aren't of exact types that fit the dtype."""
    return array_of(value, dtype)
