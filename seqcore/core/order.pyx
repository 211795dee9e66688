"""Positions sorted by length, and shuffled: the order of batches, and of packing.

::

    lengths   3 1 3 0        sorted   3 1 0 2  or  3 1 2 0      (0 and 2 have one length)

Sorted by digits of up to 12 bits, in O(n). The random numbers are those of a bit generator, whose streams
NumPy never changes.
"""

from cpython.pycapsule cimport PyCapsule_GetPointer
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memset
cimport numpy as cnp
from numpy.random cimport bitgen_t
import numpy as np

cnp.import_array()

cdef enum:
    DIGIT = 12                  # bits that are sorted by at a time, at most


# -- sorting -------------------------------------------------------------------------------------------

cdef void sort_by_digit(const narrow *keys, const narrow *order, narrow *keys_into, narrow *into,
                        Py_ssize_t n, int shift, int width, bint falling) noexcept nogil:
    """Sort keys and their positions by one digit; those with the same digit stay in order."""
    cdef Py_ssize_t[(1 << DIGIT) + 1] begins
    cdef Py_ssize_t i, at
    cdef int64_t digit, mask = (1 << width) - 1, turned = mask if falling else 0
    memset(begins, 0, sizeof(begins))
    for i in range(n):
        begins[((keys[i] >> shift) & mask ^ turned) + 1] += 1
    for i in range(1 << width):
        begins[i + 1] += begins[i]
    for i in range(n):
        digit = (keys[i] >> shift) & mask ^ turned
        at = begins[digit]
        begins[digit] += 1
        keys_into[at] = keys[i]
        into[at] = order[i]


cdef tuple sorted_by_keys(cnp.ndarray keys, cnp.ndarray order, bint falling):
    """Return keys, which are 0 or more, sorted, and with them their positions; equal ones stay in order."""
    cdef Py_ssize_t n = cnp.PyArray_SIZE(order)
    cdef int bits = int(keys.max()).bit_length() if n else 0
    cdef int passes = -(-bits // DIGIT), shift = 0
    cdef int width = -(-bits // passes) if passes else 0
    cdef cnp.ndarray keys_into, into
    while shift < bits:
        keys_into, into = np.empty_like(keys), np.empty_like(order)
        with nogil:
            if cnp.PyArray_ITEMSIZE(keys) == 4:
                sort_by_digit(<const int32_t *>cnp.PyArray_DATA(keys),
                              <const int32_t *>cnp.PyArray_DATA(order),
                              <int32_t *>cnp.PyArray_DATA(keys_into), <int32_t *>cnp.PyArray_DATA(into),
                              n, shift, width, falling)
            else:
                sort_by_digit(<const int64_t *>cnp.PyArray_DATA(keys),
                              <const int64_t *>cnp.PyArray_DATA(order),
                              <int64_t *>cnp.PyArray_DATA(keys_into), <int64_t *>cnp.PyArray_DATA(into),
                              n, shift, width, falling)
        keys, order = keys_into, into
        shift += width
    return keys, order


cdef int check_lengths(cnp.ndarray lengths, int64_t most) except -1:
    """Refuse lengths that `narrowed` and its callers would not give: they are places in memory below."""
    given = <object>lengths
    if given.ndim != 1 or given.dtype not in (np.int32, np.int64) or not (
            given.flags.c_contiguous and given.flags.aligned):
        raise TypeError(f"lengths must be a row of int32 or int64, got {given.dtype} of shape {given.shape}")
    if len(given) and not 0 <= given.min() <= given.max() <= most:
        raise ValueError(f"lengths are {given.min()} to {given.max()}, expected 0 to {most}")
    return 0


def narrowed(cnp.ndarray lengths not None):
    """Return lengths as an array that `by_length` takes: int32 where they and their positions fit."""
    cdef object given = lengths
    small = len(given) < 2**31 and (not len(given) or given.max() < 2**31)
    return np.ascontiguousarray(given, np.int32 if small else np.int64)


def by_length(cnp.ndarray lengths not None, bits=None):
    """Return positions sorted by length; with a bit generator of NumPy, those of one length in random order.

    O(n). `lengths` is an array of `narrowed`, and the positions have its dtype.
    """
    check_lengths(lengths, INT64_MAX)
    keys, order = sorted_by_keys(lengths, np.arange(len(lengths), dtype=lengths.dtype), False)
    if bits is not None:
        shuffle_equal(keys, order, bits)
    return order


def shuffled(Py_ssize_t n, bits not None):
    """Return the numbers 0 to n - 1 in random order."""
    cdef cnp.ndarray order = np.arange(n)
    shuffle_equal(np.zeros(n, np.int64), order, bits)
    return order


cdef Py_ssize_t cut(const narrow *lengths, Py_ssize_t n, int64_t most, int64_t *bounds) noexcept nogil:
    cdef Py_ssize_t i, first = 0, nbounds = 1
    bounds[0] = 0
    for i in range(n):
        if lengths[i] and i + 1 - first > most // lengths[i]:
            first = i
            bounds[nbounds] = i
            nbounds += 1
    if n:
        bounds[nbounds] = n
        nbounds += 1
    return nbounds


def cut_by_padded(cnp.ndarray lengths not None, int64_t most):
    """Return the bounds of batches of rising lengths, each as large as pads to at most `most`. O(n)."""
    check_lengths(lengths, most)
    cdef Py_ssize_t n = cnp.PyArray_SIZE(lengths), nbounds
    cdef cnp.ndarray bounds = np.empty(n + 1, np.int64)
    with nogil:
        if cnp.PyArray_ITEMSIZE(lengths) == 4:
            nbounds = cut(<const int32_t *>cnp.PyArray_DATA(lengths), n, most,
                          <int64_t *>cnp.PyArray_DATA(bounds))
        else:
            nbounds = cut(<const int64_t *>cnp.PyArray_DATA(lengths), n, most,
                          <int64_t *>cnp.PyArray_DATA(bounds))
    return bounds[:nbounds].copy()


# -- shuffling -----------------------------------------------------------------------------------------

cdef inline uint64_t below(bitgen_t *bits, uint64_t n) noexcept nogil:
    """A random number from 0 to n - 1, each as likely: Lemire's multiplication."""
    cdef uint64_t product, mask
    cdef uint32_t small, least
    if not n >> 32:
        small = <uint32_t>n
        product = <uint64_t>bits.next_uint32(bits.state) * n
        if <uint32_t>product < small:
            least = (0 - small) % small
            while <uint32_t>product < least:
                product = <uint64_t>bits.next_uint32(bits.state) * n
        return product >> 32
    mask = n | n >> 1
    mask |= mask >> 2
    mask |= mask >> 4
    mask |= mask >> 8
    mask |= mask >> 16
    mask |= mask >> 32
    product = bits.next_uint64(bits.state) & mask
    while product >= n:
        product = bits.next_uint64(bits.state) & mask
    return product


cdef void shuffle_groups(const narrow *keys, narrow *order, Py_ssize_t n, bitgen_t *bits) noexcept nogil:
    cdef Py_ssize_t first = 0, end, i, other
    cdef narrow held
    while first < n:
        end = first + 1
        while end < n and keys[end] == keys[first]:
            end += 1
        for i in range(end - 1, first, -1):
            other = first + <Py_ssize_t>below(bits, i - first + 1)
            held = order[i]
            order[i] = order[other]
            order[other] = held
        first = end


cdef int shuffle_equal(cnp.ndarray keys, cnp.ndarray order, object bits) except -1:
    """Shuffle positions that stand together and have one key, by a bit generator that is the caller's alone.

    A group is small, mostly, so that it stays in the cache; a shuffle of all, and a sort, would not.
    """
    cdef Py_ssize_t n = cnp.PyArray_SIZE(order)
    cdef bitgen_t *source = <bitgen_t *>PyCapsule_GetPointer(bits.capsule, "BitGenerator")
    with nogil:
        if cnp.PyArray_ITEMSIZE(keys) == 4:
            shuffle_groups(<const int32_t *>cnp.PyArray_DATA(keys), <int32_t *>cnp.PyArray_DATA(order), n,
                           source)
        else:
            shuffle_groups(<const int64_t *>cnp.PyArray_DATA(keys), <int64_t *>cnp.PyArray_DATA(order), n,
                           source)
    return 0
