"""Many tensors that are put in together: what is copied goes into one block, arrays are taken by reference.

::

    [[1, 2], [3], array, [4, 5]]

    block   1 2 3 4 5          one group of rank 1          offsets   0 2 3 5
    slots   FIRST NEXT array NEXT

A *group* is elements in the block that are behind each other and of one shape except for axis 0. It becomes
one table. As long as everything is of one group, that is all there is, and the store becomes one run. With
arrays, and with more groups, each element has a slot: an array's own, or a mark, which becomes a slot of the
group's table in the end.

A list without items has no type. If such lists come first, they wait until a tensor has one.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.mem cimport PyMem_RawFree
from cpython.ref cimport Py_INCREF, PyObject
from libc.stdint cimport int64_t
from libc.string cimport memcpy, memset
cimport numpy as cnp

import numpy as np

from seqcore.core.arrays cimport array_from, descr_of, is_scalar
from seqcore.core.buffer cimport grow
from seqcore.core.container cimport Container, take_tensor
from seqcore.core.copying cimport copy_strided
from seqcore.core.directory cimport Slot, give_id, slot_for
from seqcore.core.interrupts cimport let_others_in
from seqcore.core.like cimport tighten
from seqcore.core.limits cimport GATHERED_WITH_GIL, SIGNALS_EVERY
from seqcore.core.lists cimport (
    Shape, is_list, is_python_value, items_of, length_of, measure, type_of_items, write_value, writer_for,
)
from seqcore.core.owner cimport (
    ArrayOwner, TableOwner, check_type, release_source, retain_source, take_whole,
)
from seqcore.core.share cimport Share
from seqcore.core.source cimport MAX_BYTES, MAX_NDIM, OK, Source, owner_of
from seqcore.core.store cimport (
    Store, empty_store, new_slots, one_run, release, share as retained, size_of,
)
from seqcore.core.table cimport even_table, offsets_table

from seqcore._arguments.tensors import as_tensor, as_tensors, has_type, mismatch
from seqcore.dtypes import element_type

cnp.import_array()

cdef cnp.dtype INT64 = np.dtype(np.int64)
cdef cnp.dtype UNKNOWN = np.dtype(np.float64)       # NumPy's type for lists without items

cdef enum:
    NEXT = 1                    # the mark of an element of the block
    FIRST = 3                   # … which is the first one of its group


cdef Gathering gather(object tensors, cnp.dtype dtype, bint copied=False):
    """Take the tensors of an iterable. Without any that has a type, the dtype may stay None."""
    cdef Gathering news = Gathering.__new__(Gathering)
    cdef Share share
    news.copied = copied
    if isinstance(tensors, Container):
        share = (<Container>tensors).whole()
        news.dtype = (<Container>tensors)._dtype
        if dtype is not None and news.dtype is not dtype:
            raise TypeError(mismatch("the sequence", news.dtype, dtype))
        if copied and size_of(share.store):
            news.store = tighten(share.store, news.dtype)
        else:
            news.store = retained(share.store)
        return news
    if type(tensors) is list or type(tensors) is tuple:
        news.expected = len(tensors)
        news.likely = likely_items(tensors, copied)
    else:
        tensors = as_tensors(tensors)
    if dtype is not None:
        news.set_type(dtype)
    for tensor in tensors:
        news.add(tensor)
        if news.given % SIGNALS_EVERY == 0:
            let_others_in()
    return news


cdef Py_ssize_t likely_items(object tensors, bint copied) noexcept:
    """Return how many items the lists and numbers in a list have, and the arrays if they are copied."""
    cdef Py_ssize_t i, n = 0, limit = MAX_BYTES >> 8
    cdef PyObject *tensor
    with cython.critical_section(tensors):
        for i in range(length_of(tensors)):
            tensor = items_of(tensors)[i]
            if is_list(<object>tensor):
                n += min(length_of(<object>tensor), limit - n)
            elif cnp.PyArray_CheckExact(<object>tensor):
                n += min(cnp.PyArray_SIZE(<object>tensor), limit - n) if copied else 0
            else:
                n += n < limit
    return n


cdef cnp.ndarray resized(cnp.ndarray block, Py_ssize_t used, Py_ssize_t room):
    """Move the first `used` items of a block to a new one with room for more, and return that."""
    cdef Py_ssize_t nbytes = used * cnp.PyArray_ITEMSIZE(block)
    cdef cnp.ndarray new = array_from(descr_of(block), 1, &room, NULL, NULL, NULL)
    memcpy(cnp.PyArray_DATA(new), cnp.PyArray_DATA(block), nbytes)
    if cnp.PyArray_TYPE(block) == cnp.NPY_OBJECT:
        memset(cnp.PyArray_DATA(block), 0, nbytes)
    return new


@cython.final
@cython.no_gc           # what it has that could lead back to it are lists without items
cdef class Gathering:

    def __dealloc__(self):
        cdef Py_ssize_t i
        release(self.store)
        if self.slots != NULL:
            for i in range(self.slots.lo):
                if not self.slots.slots[i] & 1:
                    release_source(<Source *><size_t>self.slots.slots[i], 1)
            PyMem_RawFree(self.slots)

    # -- tensors -------------------------------------------------------------------------------------

    cdef int add(self, object tensor) except -1:
        """Take one more tensor."""
        cdef Shape shape
        cdef cnp.ndarray array
        cdef cnp.dtype dtype = None
        cdef Py_ssize_t at = self.given
        self.given += 1
        if self.dtype is None:
            if is_python_value(tensor):
                if measure(tensor, &shape):
                    dtype = type_of_items(tensor, &shape)
            elif cnp.PyArray_CheckExact(tensor):
                dtype = <cnp.dtype>descr_of(tensor)
                if dtype.type_num == cnp.NPY_OBJECT or writer_for(dtype) == NULL:
                    dtype = None        # perhaps no element type
                else:
                    dtype = element_type(dtype)
            if dtype is None:
                if not has_type(tensor):
                    if self.untyped is None:
                        self.untyped = []
                    self.untyped.append(tensor)
                    return 0
                array = as_tensor(tensor, at=at)
                self.set_type(element_type(array.dtype))
                return self.add_array(array, is_fresh(tensor))
            self.set_type(dtype)
        return self.add_typed(tensor, at)

    cdef int set_type(self, cnp.dtype dtype) except -1:
        """Set the type of all elements, and take the tensors that have waited for one."""
        cdef Py_ssize_t at = 0
        self.writer = writer_for(dtype)
        self.itemsize = dtype.itemsize
        self.strings = dtype.type_num == cnp.NPY_OBJECT
        self.dtype = dtype
        if self.untyped is not None:
            untyped, self.untyped = self.untyped, None
            for tensor in untyped:
                self.add_typed(tensor, at)
                at += 1
        return 0

    cdef int add_typed(self, object tensor, Py_ssize_t at) except -1:
        if cnp.PyArray_CheckExact(tensor) and descr_of(tensor) == <PyObject *>self.dtype and not self.strings:
            return self.add_array(tensor, False)
        if is_python_value(tensor) and self.write(tensor):
            return 0
        return self.add_other(tensor, at)

    cdef int add_other(self, object tensor, Py_ssize_t at) except -1:
        cdef cnp.ndarray array
        cdef bint fresh = is_fresh(tensor)
        if fresh and not self.strings and is_scalar(tensor):
            array = cnp.PyArray_FROM_O(tensor)
            if descr_of(array) == <PyObject *>self.dtype:
                return self.copy_in(array)
        if not (fresh or self.copied or self.strings):
            self.have_slot()
            self.take_in(take_tensor(tensor, self.dtype, at))
            return 0
        array = as_tensor(tensor, self.dtype, at=at)
        check_type(array, self.dtype)
        return self.add_array(array, fresh)

    cdef int add_array(self, cnp.ndarray array, bint fresh) except -1:
        """Take an array of the type; a copy if nobody else has it, or copies are wanted."""
        if fresh or self.copied or self.strings:
            return self.copy_in(array)
        self.have_slot()
        self.take_in(take_whole(array))
        return 0

    cdef bint write(self, object value) except -1:
        """Write Python values to the block; return False if NumPy has to convert them."""
        cdef Shape shape
        if self.writer == NULL or not measure(value, &shape):
            return False
        self.make_room(&shape)
        if not write_value(value, &shape, self.writer, self.itemsize,
                           self.items + self.used * self.itemsize):
            return False
        self.count_in(&shape)
        return True

    cdef int copy_in(self, cnp.ndarray array) except -1:
        """Copy an array to the block."""
        cdef Shape shape
        cdef Py_ssize_t[MAX_NDIM] strides
        cdef Py_ssize_t i
        cdef int axis
        cdef char *to
        shape.ndim = cnp.PyArray_NDIM(array)
        shape.items = 1
        for axis in range(shape.ndim - 1, -1, -1):
            shape.extents[axis] = cnp.PyArray_DIM(array, axis)
            strides[axis] = shape.items * self.itemsize
            shape.items *= shape.extents[axis]
        self.make_room(&shape)
        to = self.items + self.used * self.itemsize
        if cnp.PyArray_IS_C_CONTIGUOUS(array):
            copy_bytes(to, cnp.PyArray_BYTES(array), shape.items * self.itemsize)
        else:
            copy_strided(to, strides, cnp.PyArray_BYTES(array), <Py_ssize_t *>cnp.PyArray_STRIDES(array),
                         shape.extents, shape.ndim, self.itemsize)
        if self.strings:
            for i in range(shape.items):
                Py_INCREF(<object>(<PyObject **>to)[i])
        self.count_in(&shape)
        return 0

    # -- the block and the slots ---------------------------------------------------------------------

    cdef int make_room(self, const Shape *shape) except -1:
        """Have room for one more element of a shape, in the current group or a new one."""
        cdef bint fits = self.n > 0 and shape.ndim == self.current.ndim
        cdef Py_ssize_t room
        cdef int axis
        for axis in range(1, shape.ndim):
            fits = fits and shape.extents[axis] == self.current.extents[axis]
        if not fits:
            self.end_group()
            self.current.ndim = shape.ndim
            for axis in range(shape.ndim):
                self.current.extents[axis] = shape.extents[axis]
            self.even = True
            self.first = self.used
            self.first_end = self.nends
        if self.done and (self.slots != NULL or self.n == 0):
            self.have_slot()
        if self.block is None or shape.items > self.room - self.used:
            room = max(self.likely, self.used + max(self.used, shape.items))
            if self.block is None:
                self.block = array_from(<PyObject *>self.dtype, 1, &room, NULL, NULL, NULL)
            else:
                self.block = resized(self.block, self.used, room)
            self.items = cnp.PyArray_BYTES(self.block)
            self.room = room
        if shape.ndim and (self.ends is None
                           or self.nends + 1 + (self.n == 0) > cnp.PyArray_SIZE(self.ends)):
            room = max(self.expected + 1, 2 * self.nends + 2)
            if self.ends is None:
                self.ends = array_from(<PyObject *>INT64, 1, &room, NULL, NULL, NULL)
            else:
                self.ends = resized(self.ends, self.nends, room)
            self.end = <int64_t *>cnp.PyArray_DATA(self.ends)
        return 0

    cdef void count_in(self, const Shape *shape) noexcept:
        """Count an element that was written behind the others, where there was room for it."""
        self.used += shape.items
        if shape.ndim:
            if self.n == 0:
                self.end[self.nends] = 0
                self.nends += 1
            self.end[self.nends] = self.end[self.nends - 1] + shape.extents[0]
            self.nends += 1
            self.even = self.even and shape.extents[0] == self.current.extents[0]
        if self.slots != NULL:
            self.slots.slots[self.slots.lo] = NEXT if self.n else FIRST
            self.slots.lo += 1
        self.n += 1
        self.done += 1

    cdef void take_in(self, Source *whole) noexcept:
        """Take over a use of a source, for which there is a slot."""
        self.slots.slots[self.slots.lo] = <Slot><size_t>whole
        self.slots.lo += 1
        self.done += 1

    cdef int have_slot(self) except -1:
        """Have slots for the elements so far, and one more."""
        cdef Py_ssize_t i
        if self.slots == NULL:
            self.slots = new_slots(max(self.expected, self.done + 1))
            if self.slots == NULL:
                raise MemoryError(f"no memory for {self.done + 1} elements")
            for i in range(self.done):
                self.slots.slots[i] = NEXT if i else FIRST
            self.slots.lo = self.done
        elif self.slots.lo == self.slots.hi and grow(&self.slots, self.done + 1) != OK:
            raise MemoryError(f"no memory for {self.done + 1} elements")
        return 0

    # -- the end ---------------------------------------------------------------------------------------

    cdef int end_group(self) except -1:
        """Put the current group behind the others."""
        cdef Group *group
        cdef Py_ssize_t nbytes = sizeof(Group) + self.current.ndim * <Py_ssize_t>sizeof(Py_ssize_t)
        if self.n == 0:
            return 0
        kept = PyBytes_FromStringAndSize(NULL, nbytes)
        group = <Group *>PyBytes_AS_STRING(kept)
        self.describe(group)
        memcpy(group + 1, self.current.extents, nbytes - sizeof(Group))
        if self.groups is None:
            self.groups = []
        self.groups.append(kept)
        self.n = 0
        if group.length:
            self.nends = self.first_end         # which it doesn't need
        return 0

    cdef void describe(self, Group *group) noexcept:
        group.n = self.n
        group.first = self.first
        group.ndim = self.current.ndim
        group.first_end = self.first_end
        group.rows = self.end[self.nends - 1] if group.ndim else self.n
        group.length = 0
        if self.even:
            group.length = self.current.extents[0] if group.ndim else 1

    cdef object owner_of_group(self, const Group *group, const Py_ssize_t *extents):
        """Return the owner of the elements of a group: a table, or an array if there is but one."""
        cdef Py_ssize_t[MAX_NDIM] shape
        cdef Source *whole
        cdef cnp.ndarray items, ends
        cdef int ndim = max(group.ndim, 1), axis
        shape[0] = group.rows
        for axis in range(1, ndim):
            shape[axis] = extents[axis]
        if group.n == 1 and self.slots != NULL:
            ndim = group.ndim
        items = array_from(<PyObject *>self.dtype, ndim, shape, NULL,
                           self.items + group.first * self.itemsize, <PyObject *>self.block)
        if group.n == 1 and self.slots != NULL:
            whole = take_whole(items)
            owner = <object>owner_of(whole)
            release_source(whole, 1)
            return owner
        if group.length:
            return even_table(items, 0, group.ndim == 0, group.length)
        ends = self.ends
        if group.first_end or group.n + 1 != cnp.PyArray_SIZE(ends):
            ends = self.ends[group.first_end : group.first_end + group.n + 1].copy()
        return offsets_table(items, 0, ends, 0, group.rows, True)

    cdef Store *take_store(self) except NULL:
        """Return the elements; the caller gets the share."""
        cdef Store *store = self.store
        cdef Group group
        if store != NULL:
            self.store = NULL
            return store
        if self.untyped is not None:
            self.set_type(UNKNOWN)
        if self.done == 0:
            return empty_store()
        if self.block is not None and self.used < self.room - (self.room >> 3):
            self.block = resized(self.block, self.used, self.used)
            self.items = cnp.PyArray_BYTES(self.block)
        if self.slots != NULL:
            return self.finished_slots()
        self.describe(&group)
        owner = self.owner_of_group(&group, self.current.extents)
        store = one_run(&(<TableOwner>owner).table.source, self.done)
        if store == NULL:
            raise MemoryError("no memory for a sequence")
        return store

    cdef Store *finished_slots(self) except NULL:
        """Return the slots, with elements of groups in the place of marks."""
        cdef Store *store = self.slots
        cdef Source *source = NULL
        cdef Py_ssize_t i, number = 0, group = 0
        cdef list owners = []
        cdef const Group *one
        self.end_group()
        for bytes_ in self.groups or ():
            one = <const Group *>PyBytes_AS_STRING(bytes_)
            owner = self.owner_of_group(one, <const Py_ssize_t *>(one + 1))
            owners.append(owner)
            if type(owner) is TableOwner and not give_id(&(<TableOwner>owner).table.source):
                raise MemoryError("no memory for a sequence")
        for i in range(self.done):
            if not store.slots[i] & 1:
                continue
            if store.slots[i] == FIRST:
                owner = owners[group]
                if type(owner) is TableOwner:
                    source = &(<TableOwner>owner).table.source
                else:
                    source = &(<ArrayOwner>owner).source
                one = <const Group *>PyBytes_AS_STRING(self.groups[group])
                retain_source(source, one.n)
                group += 1
                number = 0
            store.slots[i] = slot_for(source, number)
            number += 1
        self.slots = NULL
        return store


cdef bint is_fresh(object tensor) noexcept:
    """Return whether a tensor becomes an array that nobody else has."""
    return is_scalar(tensor) or isinstance(tensor, (list, tuple, str))


cdef void copy_bytes(char *to, const char *data, Py_ssize_t nbytes) noexcept:
    if nbytes < GATHERED_WITH_GIL:
        memcpy(to, data, nbytes)
        return
    with nogil:
        memcpy(to, data, nbytes)
