"""Small results of a map, moved into blocks as they arrive.

::

    results   [1 2] [3] [4 5 6]      block   1 2 3 4 5 6 · ·      offsets   0 2 3 6

A small array takes more memory for itself than for its items, and after many have been freed malloc keeps
most of it, because other objects lie in between. Blocks are few and large, and return to the system: those
that malloc might keep are mapped.

Only a result that nobody else has is moved: an array that owns its memory and that the body has returned
without keeping it, or a number. Nobody can tell that from a result taken by reference.
"""

cimport cython
from cpython.ref cimport PyObject
from libc.stdint cimport int64_t
from libc.string cimport memcpy
cimport numpy as cnp

import mmap
from contextlib import suppress

import numpy as np

from seqcore.core.arrays cimport descr_of, is_scalar
from seqcore.core.container cimport Container
from seqcore.core.limits cimport RESULTS_IN_A_BLOCK, RESULT_BLOCK_NBYTES, RESULT_MAPPED_NBYTES, RESULT_NBYTES
from seqcore.core.lists cimport array_of, is_python_value
from seqcore.core.table cimport even_table, offsets_table, store_of

cnp.import_array()

cdef enum:
    HUGE = 1 << 21              # bytes of a huge page, which comes five times as fast as small ones
    TRIES = 4

# Private, so that a forked child has its own. Small pages come a third faster all at once.
FLAGS = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS if hasattr(mmap, "MAP_PRIVATE") else 0
MAP_OPTIONS = {"flags": FLAGS} if FLAGS else {}
ALL_AT_ONCE = {"flags": FLAGS | mmap.MAP_POPULATE} if hasattr(mmap, "MAP_POPULATE") else MAP_OPTIONS
HUGE_PAGES = hasattr(mmap, "MADV_HUGEPAGE")


cdef cnp.ndarray new_block(Py_ssize_t nbytes, cnp.dtype dtype):
    """Return memory for so many bytes. If it can be mapped, it goes back to the system when it is freed."""
    cdef Py_ssize_t n = nbytes // dtype.itemsize
    cdef bint is_huge = HUGE_PAGES and nbytes % HUGE == 0
    memory = None
    if nbytes >= RESULT_MAPPED_NBYTES:
        with suppress(OSError):     # a process may have only so many mappings, though there is memory left
            memory = mmap.mmap(-1, nbytes, **(MAP_OPTIONS if is_huge else ALL_AT_ONCE))
    if memory is None:
        return np.empty(n, dtype)
    if is_huge:
        with suppress(OSError):     # a kernel without them
            memory.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(memory, dtype, n)


@cython.final
cdef class Results:

    def __cinit__(self, Container output not None, Py_ssize_t expected):
        output.check_initialised(NULL)
        self.output = output
        self.dtype = output._dtype
        self.expected = max(expected, 1)
        self.tries = 0 if self.dtype.type_num == cnp.NPY_OBJECT or expected < RESULTS_IN_A_BLOCK else TRIES

    cdef int put(self, object result) except -1:
        """Put a result behind the others: Python values into the block, others as elements of their own."""
        if is_python_value(result):
            array = array_of(result, self.dtype)
            if array is not None:
                if self.move(array, True):
                    return 0
                result = array
        self.flush()
        return self.output.put_behind(self.output.take(result))

    cdef bint move(self, object result, bint alone) except -1:
        """Put a small result behind the others; return False if it isn't one, or somebody else may have it.

        `alone` tells that nobody else has the object.
        """
        cdef cnp.ndarray array
        cdef int axis, ndim
        cdef Py_ssize_t length, nbytes
        cdef bint fits
        if self.tries <= 0:
            return False
        if cnp.PyArray_CheckExact(result):
            if not alone:
                return False
            array = result
        elif is_scalar(result):
            array = cnp.PyArray_FROM_O(result)
        else:
            return False
        if (descr_of(array) != <PyObject *>self.dtype
                or not cnp.PyArray_CHKFLAGS(array, cnp.NPY_ARRAY_C_CONTIGUOUS | cnp.NPY_ARRAY_OWNDATA)):
            return False
        ndim = cnp.PyArray_NDIM(array)
        length = cnp.PyArray_DIM(array, 0) if ndim else 1
        fits = self.n > 0 and ndim == self.ndim
        for axis in range(1, ndim):
            fits = fits and cnp.PyArray_DIM(array, axis) == self.shape[axis]
        nbytes = length * self.row if fits else cnp.PyArray_NBYTES(array)
        if not 0 < nbytes <= RESULT_NBYTES:
            return False
        if not fits:
            self.flush()
            self.begin(array, nbytes)
        if self.used + nbytes > self.capacity or self.n == self.most:
            self.make_room(nbytes)
            if self.n == 0:
                self.begin(array, nbytes)
        memcpy(self.items + self.used, cnp.PyArray_DATA(array), nbytes)
        self.used += nbytes
        self.ends[self.n + 1] = self.ends[self.n] + length
        self.n += 1
        self.even = self.even and (ndim == 0 or length == self.shape[0])
        return True

    cdef int begin(self, cnp.ndarray array, Py_ssize_t nbytes) except -1:
        """Begin a block with a result."""
        cdef int axis
        cdef Py_ssize_t most = min(self.expected, max(RESULT_BLOCK_NBYTES // nbytes, 1))
        cdef Py_ssize_t capacity = most * nbytes
        self.ndim = cnp.PyArray_NDIM(array)
        for axis in range(self.ndim):
            self.shape[axis] = cnp.PyArray_DIM(array, axis)
        self.row = nbytes // self.shape[0] if self.ndim else nbytes
        self.even = True
        if capacity > HUGE - nbytes:  # whole huge pages, and the rest in another block
            capacity = (capacity + nbytes) // HUGE * HUGE
        self.capacity, self.most = capacity, most
        return self.fill_into(new_block(capacity, self.dtype), np.zeros(most + 1, np.int64))

    cdef int fill_into(self, cnp.ndarray block, cnp.ndarray offsets) except -1:
        self.block, self.offsets = block, offsets
        self.items, self.ends = cnp.PyArray_BYTES(block), <int64_t *>cnp.PyArray_DATA(offsets)
        return 0

    cdef int make_room(self, Py_ssize_t nbytes) except -1:
        """Enlarge the block for a result; or end it, if it has huge pages, or would not be filled."""
        cdef cnp.ndarray block, offsets
        if self.capacity >= HUGE or self.used + nbytes > 2 * self.capacity:
            return self.flush()
        block = new_block(2 * self.capacity, self.dtype)
        memcpy(cnp.PyArray_DATA(block), cnp.PyArray_DATA(self.block), self.used)
        offsets = np.zeros(2 * self.most + 1, np.int64)
        memcpy(cnp.PyArray_DATA(offsets), cnp.PyArray_DATA(self.offsets), (self.n + 1) * sizeof(int64_t))
        self.capacity *= 2
        self.most *= 2
        return self.fill_into(block, offsets)

    cdef int flush(self) except -1:
        """Put the block into the output."""
        cdef Py_ssize_t n = self.n, length = self.shape[0] if self.ndim else 1
        cdef int axis
        if n == 0:
            return 0
        if n < RESULTS_IN_A_BLOCK:
            self.tries -= 1
        items = self.block[: self.used // cnp.PyArray_ITEMSIZE(self.block)]
        if 4 * self.used < 3 * self.capacity:
            whole, items = items, new_block(self.used, self.dtype)
            items[:] = whole
        shape = [-1]
        for axis in range(1, self.ndim):
            shape.append(self.shape[axis])
        items = items.reshape(shape)
        self.expected = max(self.expected - n, 1)
        offsets, self.block, self.offsets, self.n, self.used = self.offsets, None, None, 0, 0
        if self.even:
            owner = even_table(items, 0, self.ndim == 0, length)
        else:
            owner = offsets_table(items, 0, offsets[: n + 1].copy(), 0, len(items), True)
        return self.output.put_all_behind(store_of(owner))
