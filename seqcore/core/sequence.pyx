"""`TensorSequence`: its methods, on top of the container, and what they compute.

::

    sequence      the class: list methods, positions, selections, pickle
    ragged        values, lengths, offsets, rows, reductions
    conversion    from and to lists, arrays, other dtypes, padded batches, Arrow
    gather        from many arrays and lists, into one buffer

Sections::

    pinned      bytes that elements keep alive
    gather      many tensors put into one buffer
    conversion  from and to lists, arrays, dtypes, padded batches, Arrow
    ragged      values, lengths, offsets, rows, reductions
    sequence    the class `TensorSequence`
"""

from cpython.buffer cimport PyBUF_RECORDS_RO, PyBuffer_Release, PyObject_CheckBuffer, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.long cimport PyLong_CheckExact
from cpython.mem cimport PyMem_RawFree
from cpython.memoryview cimport PyMemoryView_Check
from cpython.ref cimport PyObject, Py_INCREF
from cpython.slice cimport PySlice_AdjustIndices, PySlice_Check
from libc.stdint cimport int64_t
from libc.string cimport memcpy, memset
cimport numpy as cnp
cimport cython
import numpy as np
from collections.abc import MutableSequence
from copy import copy as copy_of, deepcopy
from numpy.lib.array_utils import byte_bounds
from types import GenericAlias

from seqcore.core.arrays cimport array_from, base_of, descr_of, is_scalar, own_view
from seqcore.core.container cimport (
    Container, ElementIterator, copied_strings, new_container, own_type, take_tensor,
)
from seqcore.core.limits cimport GATHERED_WITH_GIL, SIGNALS_EVERY
from seqcore.core.lists cimport (
    Shape, is_list, is_python_value, items_of, length_of, measure, type_of_items, write_value, writer_for,
)
from seqcore.core.numpy_loops cimport count_equal, equal_stores, find, reduced_elements
from seqcore.core.padding cimport (
    compact_store, convertible, items_of_store, lengths_of, offsets_of, padded, position_ids_of,
    segment_ids_of, store_like, values_of,
)
from seqcore.core.split_join cimport (
    copy_strided, join, new_array, selection_in_rows, selection_of, split_lengths,
    split_offsets, split_padded, total_nbytes,
)
from seqcore.core.store cimport (
    MAX_BYTES, MAX_NDIM, OK, ArrayOwner, Block, Piece, Share, Slot, Source, Store, TableOwner,
    as_position, begin_blocks, broken_invariant, check_read, check_type, element_of, empty_store,
    even_table, extent_in, grow, has_runs, kept_by, kept_memory, locate, make_element, new_slots,
    offsets_table, one_run, owner_of, piece_nbytes, read_block, read_one, release, release_source,
    resolve, retain_source, runs_of, same_shape, shape_of, share as retained, size_of, take_whole,
)
from seqcore.core.interrupts import let_others_in
from seqcore.core.late import late
from seqcore.core.training cimport accumulated, lengths_of_mask, rows_at, truncated, windows_of
from seqcore._arguments.integers import LONGEST as _LONGEST, boolean, integer
from seqcore._arguments.other_names import refuse_arguments
from seqcore._arguments.padding import as_padding_value, left_side
from seqcore._arguments.protocols import UnreadableTensorError
from seqcore._arguments.reductions import accumulation_of
from seqcore._arguments.shown import got, shown
from seqcore._arguments.tensors import as_tensor, as_tensors, has_type, mismatch, not_an_array
from seqcore.dtypes import element_type, type_name

cnp.import_array()


# == pinned ==============================================================================================
#
# The memory that the elements of a sequence keep alive: the distinct buffers behind their sources.
#
# ::
#
#     element ── owner ── view ── np.memmap ── memoryview ── mmap     what keeps what: the last is the buffer
#
# A buffer that doesn't tell its size counts from the first to the last element in it.

# The objects between the views of as_strided or sliding_window_view and their array.
cdef object STRIDED = type(np.lib.stride_tricks.as_strided(np.zeros(1)).base)


cdef object pinned_nbytes(Store *store, cnp.dtype dtype):
    """Bytes of all memory that the elements keep alive. O(n) for slots, else O(runs)."""
    cdef dict buffers = {}              # by the ids of objects: their buffer's id and its bytes, or None
    cdef dict sizes = {}
    cdef Source *known = NULL
    cdef Source *source
    cdef Py_ssize_t i, number
    for i in range(store.nruns if has_runs(store) else size_of(store)):
        source = runs_of(store)[i].source if has_runs(store) else locate(store, i, &number)
        if i % SIGNALS_EVERY == SIGNALS_EVERY - 1:
            let_others_in()
        if source != known:
            known = source
            key, nbytes = buffer_of(kept_memory(source), buffers)
            sizes[key] = nbytes
    if None in sizes.values():
        add_extents(sizes, store, dtype, buffers)
    return sum(sizes.values())


cdef int add_extents(dict sizes, Store *store, cnp.dtype dtype, dict buffers) except -1:
    """Set the sizes that are None to the bytes from the first to the last element in each buffer."""
    cdef dict ends = {}
    cdef Block block
    cdef Piece piece
    cdef Py_ssize_t i, size
    cdef size_t low, high
    begin_blocks(&block, store, 0, size_of(store))
    block.mixes = False
    while read_block(&block):
        let_others_in()
        key, known = buffer_of(kept_memory(block.source), buffers)
        if known is not None:
            continue
        low, high = <size_t>-1, 0
        for i in range(block.n):
            element_of(&block, i, &piece)
            size = piece_nbytes(&piece)
            if size and block.solid:
                low = min(low, <size_t>piece.data)
                high = max(high, <size_t>piece.data + <size_t>size)
            elif size:
                widen(ends, key, byte_bounds(make_element(&piece, dtype)))
        if high:
            widen(ends, key, (low, high))
    check_read(&block)
    for key, nbytes in sizes.items():
        if nbytes is None:
            bounds = ends.get(key, (0, 0))
            sizes[key] = bounds[1] - bounds[0]
    return 0


@cython.cdivision(True)
cdef Py_ssize_t items_together(const Block *block) noexcept nogil:
    """The items of a block's elements if these have rank 1, follow each other and are few, otherwise 0."""
    cdef Py_ssize_t i, items = 0
    if block.source.ndim != 1 or not block.solid:
        return 0
    for i in range(block.n):
        if block.data[i] != block.data[0] + items * block.source.itemsize:
            return 0
        items += extent_in(block, i, 0)
        if items > SIGNALS_EVERY:
            return 0
    return items


cdef int widen(dict ends, object key, tuple bounds) except -1:
    """Add bounds to those of a buffer, which may leave the address space."""
    known = ends.get(key, bounds)
    ends[key] = min(known[0], bounds[0]), max(known[1], bounds[1])
    return 0


cdef tuple buffer_of(memory, dict buffers):
    """The id of the object whose buffer some memory is of, and the bytes of that, or None if unknown."""
    cdef list chain
    if cnp.PyArray_Check(memory) and cnp.PyArray_CHKFLAGS(memory, cnp.NPY_ARRAY_OWNDATA):
        return id(memory), cnp.PyArray_NBYTES(memory)
    chain = []
    keeper = memory
    # Views of views may be long chains, with elements at each link: no link is followed twice.
    while keeper is not None and id(keeper) not in buffers:
        buffers[id(keeper)] = id(keeper), None      # what ends a circle
        chain.append(keeper)
        keeper = keeper_of(keeper)
    if keeper is None:
        found = id(chain[-1]), size_of_buffer(chain[-1])
    else:
        found = buffers[id(keeper)]
    for keeper in chain:
        buffers[id(keeper)] = found
    return found


cdef object keeper_of(memory):
    """Return who keeps the memory that an object shows, or None where it does so itself, or doesn't tell."""
    cdef PyObject *base
    if cnp.PyArray_Check(memory):
        base = NULL if cnp.PyArray_CHKFLAGS(memory, cnp.NPY_ARRAY_OWNDATA) else base_of(memory)
        return <object>base if base != NULL else None
    if type(memory) is ArrayOwner or type(memory) is TableOwner:
        return kept_by(memory)
    if PyMemoryView_Check(memory):
        try:
            return memory.obj
        except ValueError:          # it was released: NumPy doesn't hold it
            pass        # not a return: see take_or_null
        return None
    return memory.base if type(memory) is STRIDED else None


cdef object size_of_buffer(memory):
    """Return the bytes of an object's own buffer, or None if it doesn't tell."""
    cdef Py_buffer view
    if cnp.PyArray_Check(memory):
        return cnp.PyArray_SIZE(memory) * cnp.PyArray_ITEMSIZE(memory)
    nbytes = None
    if PyObject_CheckBuffer(memory):
        try:
            PyObject_GetBuffer(memory, &view, PyBUF_RECORDS_RO)
            nbytes = view.len
            PyBuffer_Release(&view)
        except (TypeError, ValueError, BufferError):
            pass        # not a return: see take_or_null
    return nbytes


# == gather ==============================================================================================
#
# Many tensors that are put in together: what is copied goes into one block, arrays are taken by reference.
#
# ::
#
#     [[1, 2], [3], array, [4, 5]]
#
#     block   1 2 3 4 5          one group of rank 1          offsets   0 2 3 5
#     slots   FIRST NEXT array NEXT
#
# A *group* is elements in the block that are behind each other and of one shape except for axis 0. It becomes
# one table. As long as everything is of one group, that is all there is, and the store becomes one run. With
# arrays, and with more groups, each element has a slot: an array's own, or a mark, which becomes a slot of
# the group's table in the end.
#
# A list without items has no type. If such lists come first, they wait until a tensor has one.

cdef cnp.dtype INT64 = np.dtype(np.int64)
cdef cnp.dtype UNKNOWN = np.dtype(np.float64)       # NumPy's type for lists without items

cdef enum:
    NEXT                        # the mark of an element of the block, in a slot without a source
    FIRST                       # … which is the first one of its group


cdef Gathering gather(object tensors, cnp.dtype dtype, bint copied=False):
    """Take the tensors of an iterable. Without any that has a type, the dtype may stay None."""
    cdef Gathering news = Gathering.__new__(Gathering)
    cdef Share share
    news.copied = copied
    if isinstance(tensors, Container):
        share = (<Container>tensors).whole()
        news.dtype = (<Container>tensors)._dtype
        if dtype is not None and news.dtype is not dtype:
            raise TypeError(mismatch("the added sequence", news.dtype, dtype))
        if copied and size_of(share.store):
            news.store = compact_store(share.store, news.dtype)
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
                if self.slots.slots[i].source != NULL:
                    release_source(self.slots.slots[i].source, 1)
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
                    dtype = own_type(dtype)
            if dtype is None:
                if not has_type(tensor):
                    if self.untyped is None:
                        self.untyped = []
                    self.untyped.append(tensor)
                    return 0
                array = as_tensor(tensor, at=at)
                self.set_type(own_type(array.dtype))
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
        if self.strings and cnp.PyArray_CheckExact(tensor) and descr_of(tensor) == <PyObject *>self.dtype:
            array = copied_strings(tensor)
            if array is not None:
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
            self.slots.slots[self.slots.lo] = Slot(NULL, NEXT if self.n else FIRST)
            self.slots.lo += 1
        self.n += 1
        self.done += 1

    cdef void take_in(self, Source *whole) noexcept:
        """Take over a use of a source, for which there is a slot."""
        self.slots.slots[self.slots.lo] = Slot(whole, 0)
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
                self.slots.slots[i] = Slot(NULL, NEXT if i else FIRST)
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
            owners.append(self.owner_of_group(one, <const Py_ssize_t *>(one + 1)))
        for i in range(self.done):
            if store.slots[i].source != NULL:
                continue
            if store.slots[i].number == FIRST:
                owner = owners[group]
                if type(owner) is TableOwner:
                    source = &(<TableOwner>owner).table.source
                else:
                    source = &(<ArrayOwner>owner).source
                one = <const Group *>PyBytes_AS_STRING(self.groups[group])
                retain_source(source, one.n)
                group += 1
                number = 0
            store.slots[i] = Slot(source, number)
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


# == conversion ==========================================================================================
#
# Conversions of a TensorSequence: other dtypes, lists, NumPy arrays, padded batches, and Arrow.

cdef bint of_one_shape(Share share) noexcept:
    cdef Block block
    cdef Piece first, piece
    cdef Py_ssize_t[2 * MAX_NDIM] dims
    cdef Py_ssize_t i
    if not read_one(share.store, 0, &first, dims):
        return False
    begin_blocks(&block, share.store, 0, size_of(share.store))
    while read_block(&block):
        for i in range(block.n):
            element_of(&block, i, &piece)
            if not same_shape(&piece, &first):
                return False
    return not block.damaged


@cython.auto_pickle(False)
@cython.no_gc           # as its base
cdef class Convertible(Container):
    """The methods of `TensorSequence` that convert all elements at once."""

    # -- Arrow -----------------------------------------------------------------------------------------

    def __arrow_c_schema__(self):
        """Return the type of the array that `__arrow_c_array__` exports, as a capsule."""
        self.check_initialized(NULL)
        return late("give_schema")(self)

    def __arrow_c_array__(self, requested_schema=None):
        """Export the elements as an Arrow array. `pyarrow.array(seq)` and other libraries call this method.

        Parameters
        ----------
        requested_schema : capsule, optional
            The wanted type: list, large list, list view, fixed-size list or fixed-shape tensor. If the
            elements don't fit this type, it is ignored.

        Returns
        -------
        tuple of two capsules
            The type and the array, as in https://arrow.apache.org/docs/format/CDataInterface.html

        Raises
        ------
        TypeError
            If Arrow doesn't support the dtype: complex numbers and bfloat16.
        ValueError
            If the elements differ in rank.

        Notes
        -----
        Elements of rank 1 become a `large_list`. Further axes become fixed-size lists if all elements agree
        in them, otherwise the array is an `arrow.variable_shape_tensor`. Elements of rank 0 become plain
        numbers. O(1) if `values` and `offsets` are views, otherwise O(n) for the offsets. The values are
        copied if `values` is not a view in C order; bools and strings always are. The array is a snapshot:
        later edits of the sequence don't show in it.
        """
        self.check_initialized(NULL)
        return late("give_array")(self, requested_schema)

    def __arrow_c_stream__(self, requested_schema=None):
        """Export the elements as a stream of Arrow arrays. `pyarrow.chunked_array(seq)` calls this method.

        It works as `__arrow_c_array__`, with one array or a few: elements in several large memories become
        one array for each memory, without a copy.
        """
        self.check_initialized(NULL)
        return late("give_stream")(self, requested_schema)

    @classmethod
    def from_arrow(cls, array):
        """Make a sequence from an Arrow array of pyarrow, Polars, DuckDB, pandas or another library.

        Parameters
        ----------
        array : object with `__arrow_c_array__` or `__arrow_c_stream__`
            The array, chunked array, series, or table with a single column. Its items are lists of numbers,
            bools or strings (32- and 64-bit lists, list views, fixed-size lists), or Arrow's tensors of fixed
            or variable shape. Plain numbers become elements of rank 0.

        Returns
        -------
        TensorSequence
            The elements, read-only views of Arrow's memory, which they keep alive. Bools, strings,
            dictionary-encoded and run-end-encoded arrays are copied.

        Raises
        ------
        TypeError
            If an element is null or has nulls, the type is not supported, or the object has neither method.
        ValueError
            If one element is a ragged list of lists, or lists within lists of a fixed or a third level differ
            in length between elements, or the array is damaged or was consumed before.

        Notes
        -----
        O(1) for each chunk, unless data is copied. An element's offsets are checked when it is used: damaged
        ones are then a ValueError that names the element. No package is needed.

        Examples
        --------
        >>> from seqcore import TensorSequence
        >>> TensorSequence.from_arrow(TensorSequence([[1, 2], [3]]))  # or pyarrow.array([[1, 2], [3]])
        <TensorSequence of 2 int64 tensors: (2,) (1,)>
        """
        cdef Container taken = late("take")(array)
        return new_container(cls, taken._dtype, taken.snapshot())

    # -- all elements alike --------------------------------------------------------------------------

    def astype(self, dtype):
        """Return a sequence of the elements converted to another dtype.

        Parameters
        ----------
        dtype : data-type
            The new element type, a number or bool type.

        Returns
        -------
        TensorSequence
            The elements in the same shapes, in new memory. If the dtype doesn't change, the elements are
            shared.

        Raises
        ------
        TypeError
            If one of the dtypes is that of strings, or the new one is not supported.

        Notes
        -----
        Values are converted as by `np.ndarray.astype`: integers that don't fit wrap around, fractions are cut
        off. O(n) and O(bytes).

        Examples
        --------
        >>> from seqcore import TensorSequence
        >>> TensorSequence([[1, 2], [3]]).astype("float32")[1]
        array([3.], dtype=float32)
        """
        cdef Share share = self.whole()
        cdef cnp.dtype wanted = convertible(self._dtype, dtype)
        if wanted is self._dtype:
            return new_container(type(self), wanted, retained(share.store))
        items = items_of_store(share.store, self._dtype).astype(wanted)
        return new_container(type(self), wanted, store_like(items, share.store))

    def tolist(self):
        """Return the elements as nested lists of Python numbers or strings.

        Returns
        -------
        list
            The elements, each as from `np.ndarray.tolist`.

        Examples
        --------
        >>> from seqcore import TensorSequence
        >>> TensorSequence([[[1, 2]], [3]]).tolist()
        [[[1, 2]], [3]]
        """
        cdef Share share = self.shared()
        cdef Block block
        cdef Piece piece
        cdef Py_ssize_t i, start, stop, together, items = 0
        cdef list lists = [None] * size_of(share.store)
        cdef list flat
        cdef cnp.ndarray element
        begin_blocks(&block, share.store, 0, size_of(share.store))
        block.mixes = False
        while read_block(&block):
            together = items_together(&block)
            if together:
                items += together + block.n
                if items >= SIGNALS_EVERY:
                    let_others_in()
                    items = 0
                flat = (<object>array_from(<PyObject *>self._dtype, 1, &together, NULL, block.data[0],
                                           owner_of(block.source))).tolist()
                start = 0
                for i in range(block.n):
                    stop = start + extent_in(&block, i, 0)
                    lists[block.first + i] = flat[start:stop]
                    start = stop
                continue
            for i in range(block.n):
                element_of(&block, i, &piece)
                element = make_element(&piece, self._dtype)
                items += 1 + cnp.PyArray_SIZE(element)
                if items >= SIGNALS_EVERY:
                    let_others_in()
                    items = 0
                lists[block.first + i] = (<object>element).tolist()
        check_read(&block)
        return lists

    def __array__(self, dtype=None, copy=None):
        """Return the elements stacked along a new first axis, for `np.array(seq)`.

        Parameters
        ----------
        dtype : data-type, optional
            The dtype of the result, by default the sequence's. With `object` elements of different shapes
            become the items of a 1-D array.
        copy : bool, optional
            If False, raise, because the elements are always copied.

        Returns
        -------
        np.ndarray
            The elements, of shape (n, …). The shape is (0,) for an empty sequence.

        Raises
        ------
        ValueError
            If the elements differ in shape (`to_padded` pads them), or copy is False.

        Notes
        -----
        O(bytes). The GIL is released.

        Examples
        --------
        >>> import numpy as np
        >>> from seqcore import TensorSequence
        >>> np.array(TensorSequence([[1, 2], [3, 4]]))
        array([[1, 2],
               [3, 4]])
        """
        cdef Share share
        cdef Block block
        cdef Piece piece
        cdef Py_ssize_t i, none = 0
        if copy is not None and not copy:
            raise ValueError("a TensorSequence can't become an array without a copy: leave out copy=False, "
                             "or use seq.values(), which is a view where the elements are contiguous")
        share = self.whole()
        if size_of(share.store) == 0:
            array = new_array(self._dtype, 1, &none)
        elif dtype is not None and np.dtype(dtype) == object and not of_one_shape(share):
            array = np.empty(size_of(share.store), object)
            begin_blocks(&block, share.store, 0, size_of(share.store))
            while read_block(&block):
                for i in range(block.n):
                    element_of(&block, i, &piece)
                    array[block.first + i] = make_element(&piece, self._dtype)
            check_read(&block)
        else:
            array = join(share.store, self._dtype, 0, True)
        return array if dtype is None else array.astype(dtype, copy=False)

    # -- padding -------------------------------------------------------------------------------------

    @cython.embedsignature(False)
    def to_padded(self, padding_value=0, *given, side="right", shape=None, multiple_of=None, truncate=False,
                  dtype=None, return_mask=False, out=None, **named):        # more, to name what is meant
        """to_padded($self, /, padding_value=0, *, side='right', shape=None, multiple_of=None, \
truncate=False, dtype=None, return_mask=False, out=None)\n--\n
        Return one array of all elements, each padded to the longest.

        Parameters
        ----------
        padding_value : scalar, optional
            The value of the padding, of the batch's dtype. The default is the zero value of the dtype: 0,
            False, or the empty string. Lengths go in `shape`: `to_padded(512)` pads with the value 512.
        side : {"right", "left"}, optional
            The side of the padding along every axis: "right" pads at the end, "left" in front.
        shape : int or sequence of int or None, optional
            The size to pad to: an int for axis 0, or one for each axis. None pads to the longest element.
        multiple_of : int or sequence of int or None, optional
            The padded size is rounded up to a multiple of this number: one for each axis, or an int for
            axis 0 and all other axes in which elements differ.
        truncate : bool, optional
            If True, cut elements that are longer than `shape` at their end. By default they are an error.
        dtype : data-type, optional
            The dtype of the batch, to which the elements are converted as by `astype`. The default is the
            sequence's.
        return_mask : bool, optional
            If True, also return a mask.
        out : np.ndarray, optional
            The array to write to, of the result's shape and dtype.

        Returns
        -------
        batch : np.ndarray
            The padded elements, of shape (n, …); `out` if it was given. For an empty sequence the shape is
            (0, 0), or (0, …) as `shape` says.
        mask : np.ndarray of bool
            True at the positions of elements along axis 0, False at padding, of shape (n, L). Only if
            `return_mask` is True.

        Raises
        ------
        ValueError
            If the elements differ in rank, an element is longer than `shape`, or `out` has another shape or
            is read-only.
        TypeError
            If the padding value or `out` has another dtype, or `dtype` is not supported, or would convert
            between strings and numbers.
        OverflowError
            If the padding value does not fit the dtype.

        Notes
        -----
        O(bytes of the result). The GIL is released. Another dtype needs no copy of the whole sequence: the
        elements are converted some at a time.

        Examples
        --------
        >>> from seqcore import TensorSequence
        >>> batch, mask = TensorSequence([[1, 2, 3], [4]]).to_padded(-1, return_mask=True)
        >>> batch
        array([[ 1,  2,  3],
               [ 4, -1, -1]])
        >>> mask
        array([[ True,  True,  True],
               [ True, False, False]])
        """
        if given or named:
            refuse_arguments("to_padded", 1, given, named)
        cdef Share share = self.whole()
        return padded(share.store, self._dtype, padding_value, side, shape, multiple_of, truncate,
                      dtype, return_mask, out)

    @classmethod
    @cython.embedsignature(False)
    def from_padded(cls, batch, lengths=None, *given, side="right", **named):   # to name what is meant
        """from_padded($type, batch, lengths, *, side='right')\n--\n
        Make a sequence of the rows of a padded batch, without their padding.

        Parameters
        ----------
        batch : array_like
            The batch, of shape (n, L, …). The sequence shares its memory; strings are copied.
        lengths : array_like of int
            The lengths of the elements along axis 1 of the batch, of shape (n,). Or a mask of shape (n, L),
            bools or the integers 0 and 1, with ones where elements are: those of each row lie together, on
            the side that is not padded.
        side : {"right", "left"}, optional
            The side of the padding.

        Returns
        -------
        TensorSequence
            The n elements, whose rank is one less than that of the batch.

        Raises
        ------
        ValueError
            If a length is not from 0 to L, there are not n of them, or the batch has rank 0 or 1. If a mask
            has another shape, other values than 0 and 1, or ones that don't lie together.
        TypeError
            If the lengths are missing or not integers, or the dtype of the batch is not supported.

        Notes
        -----
        O(n), or O(n L) for a mask, without a copy of the values; 8 bytes for each element.

        Examples
        --------
        >>> from seqcore import TensorSequence
        >>> TensorSequence.from_padded([[1, 2, 0], [3, 0, 0]], [2, 1])[1]
        array([3])
        """
        if given or named:
            refuse_arguments("from_padded", 2, given, named)
        cdef bint left = left_side(side)
        array = own_view(as_tensor(batch))      # as in values_given
        if array.ndim > 1 and is_mask(lengths):
            lengths = lengths_of_mask(own_view(as_tensor(lengths)), array.shape, left)
        return new_container(cls, own_type(array.dtype), split_padded(array, lengths, left))


# == ragged ==============================================================================================
#
# The elements together: values and lengths, numbers for each element, and sequences made of them.

cdef bint is_mask(object lengths) except -1:
    """Return whether a mask was given in place of lengths, by its rank."""
    if isinstance(lengths, (list, tuple)):
        return len(lengths) > 0 and isinstance(lengths[0], (list, tuple, np.ndarray))
    return getattr(lengths, "ndim", None) == 2


cdef cnp.ndarray values_given(object values):
    # A view of our own: reading the lengths runs foreign code, which may set the given one's shape or type.
    cdef cnp.ndarray array = own_view(as_tensor(values))
    if array.ndim == 0:
        raise ValueError("values has rank 0 and so no axis to split along: pass an array of rank 1 or more")
    return array


@cython.auto_pickle(False)
@cython.no_gc           # as its base
cdef class Ragged(Convertible):
    """The methods of `TensorSequence` about the elements together, and what makes a sequence of values."""

    # -- what it is as a whole ---------------------------------------------------------------------

    @property
    def nbytes(self):
        """The size of all elements in bytes. O(n), or O(1) after a split or load."""
        cdef Share share = self.shared()
        return total_nbytes(share.store)

    @property
    def pinned_nbytes(self):
        """The size in bytes of the memory that the elements keep alive. O(n), or O(1) after a split.

        It is the sum of the distinct buffers: more than `nbytes` if elements are small views of large arrays,
        and less if elements share memory. `compact` makes the two equal. A buffer of unknown size, as from
        DLPack, counts from the first to the last element in it.
        """
        cdef Share share = self.shared()
        return pinned_nbytes(share.store, self._dtype)

    @property
    def shapes(self):
        """The shapes of the elements, a list of tuples of int. O(n)."""
        cdef Share share = self.shared()
        cdef Block block
        cdef Piece piece
        cdef Py_ssize_t i
        cdef list shapes = [None] * size_of(share.store)
        begin_blocks(&block, share.store, 0, size_of(share.store))
        while read_block(&block):
            for i in range(block.n):
                element_of(&block, i, &piece)
                shapes[block.first + i] = shape_of(&piece)
                if (block.first + i + 1) % SIGNALS_EVERY == 0:
                    let_others_in()
        check_read(&block)
        return shapes

    # -- values and numbers --------------------------------------------------------------------------

    def values(self):
        """Return the elements concatenated along axis 0, as a read-only array.

        With `offsets` this is the ragged layout of PyTorch, Arrow and Awkward Array.

        Returns
        -------
        np.ndarray
            The values, of shape (sum of the lengths, …), in C order if they are a copy. Elements of rank 0
            become an array of shape (n,), one number for each element. The shape is (0,) for an empty
            sequence.

        Raises
        ------
        ValueError
            If an element differs from the first one in rank or in an axis other than axis 0.

        See Also
        --------
        concat_from_sequence : Join along any axis, into a writable array.

        Notes
        -----
        A view, without a copy, if the elements are contiguous in one memory, as after a split along axis 0;
        otherwise one copy. A view after a split or load is O(1), any other O(n), and a copy O(bytes).

        Examples
        --------
        >>> import numpy as np
        >>> from seqcore import TensorSequence
        >>> TensorSequence([[1, 2], [], [3]], dtype="int64").values()
        array([1, 2, 3])
        """
        cdef Share share = self.whole()
        return values_of(share.store, self._dtype)

    def lengths(self, dtype="int64"):
        """Return the lengths of the elements along axis 0.

        Parameters
        ----------
        dtype : data-type, optional
            The integer dtype of the result.

        Returns
        -------
        np.ndarray
            The lengths, of shape (n,).

        Raises
        ------
        ValueError
            If an element has rank 0.
        OverflowError
            If a length does not fit the dtype.
        TypeError
            If the dtype is not an integer type.

        Notes
        -----
        O(n), about 1 ns for each element. For many elements the GIL is released.

        Examples
        --------
        >>> from seqcore import TensorSequence
        >>> TensorSequence([[1, 2], [3]]).lengths()
        array([2, 1])
        """
        cdef Share share = self.whole()
        return lengths_of(share.store, dtype)

    def offsets(self, dtype="int64"):
        """Return the offsets of the elements in `values`: element i is `values[offsets[i]:offsets[i + 1]]`.

        Parameters
        ----------
        dtype : data-type, optional
            The integer dtype of the result.

        Returns
        -------
        np.ndarray
            The running sum of the lengths, from 0, of shape (n + 1,). Read-only if the sequence already
            stores these offsets in this dtype, as int64 after a split by lengths.

        Raises
        ------
        ValueError
            If an element has rank 0.
        OverflowError
            If an offset does not fit the dtype.
        TypeError
            If the dtype is not an integer type.

        Notes
        -----
        O(1) for stored offsets, without a copy; otherwise O(n). For many elements the GIL is released.

        Examples
        --------
        >>> from seqcore import TensorSequence
        >>> TensorSequence([[1, 2], [3]]).offsets("int32")
        array([0, 2, 3], dtype=int32)
        """
        cdef Share share = self.whole()
        return offsets_of(share.store, dtype)

    def segment_ids(self, dtype="int64"):
        """Return, for each row of `values`, which element it is of.

        Parameters
        ----------
        dtype : data-type, optional
            The integer dtype of the result.

        Returns
        -------
        np.ndarray
            The positions of the elements, of shape (sum of the lengths,).

        Raises
        ------
        ValueError
            If an element has rank 0.
        OverflowError
            If a position does not fit the dtype.
        TypeError
            If the dtype is not an integer type.

        See Also
        --------
        position_ids : The position of each row in its element.

        Notes
        -----
        O(sum of the lengths). The GIL is released.

        Examples
        --------
        >>> from seqcore import TensorSequence
        >>> TensorSequence([[7, 8, 9], [], [7]], dtype="int64").segment_ids()
        array([0, 0, 0, 2])
        """
        cdef Share share = self.whole()
        return segment_ids_of(share.store, dtype)

    def position_ids(self, dtype="int64", *, start=0):
        """Return, for each row of `values`, its position in its element.

        Parameters
        ----------
        dtype : data-type, optional
            The integer dtype of the result.
        start : int or array_like of int, optional
            The position of the first row of each element: one for all, or one for each, of shape (n,).

        Returns
        -------
        np.ndarray
            The positions, of shape (sum of the lengths,).

        Raises
        ------
        ValueError
            If an element has rank 0, or there are not n values of `start`.
        OverflowError
            If a position does not fit the dtype.
        TypeError
            If the dtype is not an integer type, or `start` is not an integer.

        See Also
        --------
        segment_ids : Which element each row is of.

        Notes
        -----
        O(sum of the lengths). The GIL is released.

        Examples
        --------
        >>> from seqcore import TensorSequence
        >>> seq = TensorSequence([[7, 8, 9], [], [7]], dtype="int64")
        >>> seq.position_ids("int32")
        array([0, 1, 2, 0], dtype=int32)
        >>> seq.position_ids(start=[2, 0, 10])
        array([ 2,  3,  4, 10])
        """
        cdef Share share = self.whole()
        return position_ids_of(share.store, dtype, start)

    # -- rows of each ----------------------------------------------------------------------------------

    def windows(self, size, step=None, *, partial=True, return_ids=False):
        """Divide each element along axis 0 into windows of one size, as views.

        Parameters
        ----------
        size : int
            The number of rows in a window, 1 or more.
        step : int, optional
            The number of rows from the beginning of a window to that of the next, 1 or more. The default is
            `size`; with a smaller step windows overlap, with a larger one rows between them are skipped.
        partial : bool, optional
            If True, the last window of an element may be shorter. If False, it is left out then.
        return_ids : bool, optional
            If True, also return which element each window is of.

        Returns
        -------
        windows : TensorSequence
            The windows of all elements in order. Those of an element begin at row 0, `step`, 2 `step` and so
            on, until one reaches its end. An element without rows gives no windows.
        ids : np.ndarray of int64
            The position of each window's element, of shape (number of windows,). Only if `return_ids` is
            True.

        Raises
        ------
        ValueError
            If `size` or `step` is less than 1, or an element has rank 0.
        TypeError
            If one is not an integer, or a flag is not a bool.

        See Also
        --------
        truncate : One view of each element.
        seqcore.BatchSampler : Batches of windows.

        Notes
        -----
        O(number of windows) and at most 16 bytes for each, without a copy of the values. Where elements are
        all of different arrays, or split along another axis than 0, each one with windows takes about 500
        bytes. The GIL is released.

        Examples
        --------
        >>> from seqcore import TensorSequence
        >>> seq = TensorSequence([[1, 2, 3, 4, 5], [6, 7]])
        >>> seq.windows(2).tolist()
        [[1, 2], [3, 4], [5], [6, 7]]
        >>> windows, ids = seq.windows(3, 2, return_ids=True)
        >>> windows.tolist(), ids
        ([[1, 2, 3], [3, 4, 5], [6, 7]], array([0, 0, 1]))
        """
        cdef Share share = self.whole()
        cdef Py_ssize_t rows = min(integer("size", size, least=1), _LONGEST)
        cdef Py_ssize_t between = rows if step is None else min(integer("step", step, least=1), _LONGEST)
        cdef bint shorter = boolean("partial", partial), wants_ids = boolean("return_ids", return_ids)
        cdef list ids = []
        result = new_sequence(self._dtype, windows_of(share.store, self._dtype, rows, between, shorter,
                                                      wants_ids, ids))
        return (result, ids[0]) if wants_ids else result

    def truncate(self, size, *, side="right"):
        """Cut each element to at most some rows along axis 0, as views.

        Parameters
        ----------
        size : int
            The number of rows that are kept at most, 0 or more.
        side : {"right", "left"}, optional
            The end that is cut off: "right" keeps the first rows, "left" the last ones.

        Returns
        -------
        TensorSequence
            As many elements, those with more rows cut.

        Raises
        ------
        ValueError
            If `size` is negative, `side` is neither, or an element has rank 0.
        TypeError
            If `size` is not an integer.

        See Also
        --------
        windows : All rows of longer elements, in several views.
        to_padded : Cut elements in a padded batch, with `truncate=True`.

        Notes
        -----
        O(n) without a copy of the values; at most 16 bytes for each element, and 300 for each one that is a
        separate array. If no element is longer, the elements are shared as they are.

        Examples
        --------
        >>> from seqcore import TensorSequence
        >>> TensorSequence([[1, 2, 3], [4]]).truncate(2, side="left").tolist()
        [[2, 3], [4]]
        """
        cdef Share share = self.whole()
        cdef Py_ssize_t rows = min(integer("size", size, least=0), _LONGEST)
        return new_sequence(self._dtype, truncated(share.store, self._dtype, rows, left_side(side)))

    def take_rows(self, position, *, empty=None):
        """Return one row of each element along axis 0, such as the first or the last, as one array.

        Parameters
        ----------
        position : int
            The position of the row in each element, negative from the back: 0 is the first, -1 the last.
        empty : scalar, optional
            The value in place of the row of elements that don't have it. By default they are an error.

        Returns
        -------
        np.ndarray
            The rows, of shape (n, …), a copy. For an empty sequence the shape is (0,).

        Raises
        ------
        IndexError
            If an element doesn't have the row and `empty` is not given; the message names the first one.
        ValueError
            If an element has rank 0, or its rows have another shape than those of element 0.
        TypeError
            If `position` is not an integer, or `empty` has another dtype.
        OverflowError
            If `empty` does not fit the dtype.

        Notes
        -----
        O(n) and O(bytes of the result). For many elements the GIL is released.

        Examples
        --------
        >>> from seqcore import TensorSequence
        >>> seq = TensorSequence([[1, 2, 3], [4]])
        >>> seq.take_rows(-1), seq.take_rows(1, empty=-1)
        (array([3, 4]), array([ 2, -1]))
        """
        cdef Share share = self.whole()
        number = integer("position", position)
        cdef Py_ssize_t row = max(min(number, _LONGEST), -_LONGEST)
        value = None if empty is None else as_padding_value(empty, self._dtype, "empty")
        return rows_at(share.store, self._dtype, row, value, number)

    def accumulate(self, ufunc, *, dtype=None):
        """Return running sums, products or maxima along axis 0, which begin anew in each element.

        Parameters
        ----------
        ufunc : ufunc or function
            A NumPy ufunc of two arguments such as `np.add` or `np.maximum`, or `np.cumsum` or `np.cumprod`.
        dtype : data-type, optional
            The dtype to compute in. The default is that of `ufunc.accumulate`, such as int64 for sums of
            smaller integers.

        Returns
        -------
        TensorSequence
            As many elements in the same shapes, in new memory. Row i of an element is `ufunc` of row i - 1 of
            the result and row i of the element; row 0 stays as it is.

        Raises
        ------
        TypeError
            If it is not such a ufunc, the elements are strings, or it doesn't fit the dtype.
        ValueError
            If an element has rank 0.

        See Also
        --------
        reduce : One result for each element.

        Notes
        -----
        O(bytes), in NumPy's own loops. The GIL is released.

        Examples
        --------
        >>> import numpy as np
        >>> from seqcore import TensorSequence
        >>> TensorSequence([[1, 2, 3], [4, 5]]).accumulate(np.add).tolist()
        [[1, 3, 6], [4, 9]]
        """
        cdef Share share = self.whole()
        function, wanted = accumulation_of(ufunc, self._dtype, dtype)
        return new_sequence(wanted, accumulated(share.store, self._dtype, function, wanted))

    @cython.embedsignature(False)
    def reduce(self, how=None, *given, axis=0, initial=None, empty=None, dtype=None,
               **named):               # more, to name what is meant
        """reduce($self, /, how, *, axis=0, initial=None, empty=None, dtype=None)\n--\n
        Reduce each element along an axis, to one array with a result for each element.

        Parameters
        ----------
        how : ufunc or function
            A NumPy ufunc of two arguments such as `np.add` or `np.maximum`, or one of `np.sum`, `np.prod`,
            `np.mean`, `np.std`, `np.var`, `np.min`, `np.max`, `np.any`, `np.all`, `np.argmin` and
            `np.argmax`.
        axis : int or None, optional
            The axis of the elements to reduce. None reduces each element to one number.
        initial : scalar, optional
            The number that the reduction of every element begins with, as in NumPy: `initial=0` makes 0 of a
            maximum of negative numbers. The default is the ufunc's identity, such as 0 for `np.add`.
            `np.mean`, `np.std`, `np.var`, `np.argmin` and `np.argmax` don't take it.
        empty : scalar, optional
            The result for elements whose extent along the axis is 0; other elements don't see it. It must
            fit the dtype of the results. By default they give `initial` or the identity.
        dtype : data-type, optional
            The dtype to compute in. The default is NumPy's, such as int64 for sums of smaller integers.

        Returns
        -------
        np.ndarray
            The results, of shape (n, …): the shape of an element without the axis. For an empty sequence the
            shape is (0,).

        Raises
        ------
        ValueError
            If an element is empty and there is neither an identity nor `initial` nor `empty`, lacks the
            axis, or its result has another shape than that of element 0.
        TypeError
            If `how` is not a reduction, the elements are strings, or a dtype, `initial` or `empty` doesn't
            fit.
        OverflowError
            If `initial` or `empty` is too large for the dtype of the results.

        See Also
        --------
        sequence_map : Apply any function to each element.

        Notes
        -----
        O(bytes), in one pass without the GIL, and without joining the elements. Sums are pairwise like
        NumPy's, float16 is computed in float32. `np.add`, `np.multiply`, `np.minimum`, `np.maximum`,
        `np.logical_or` and `np.logical_and` have loops of their own. Other ufuncs run by their `reduceat` on
        many elements of rank 1 at once. With `initial`, of elements of another rank and of complex numbers'
        deviations, NumPy is called once for each element.

        Examples
        --------
        >>> import numpy as np
        >>> from seqcore import TensorSequence
        >>> seq = TensorSequence([[1, 2, 3], [], [4, 5]], dtype="int64")
        >>> seq.reduce(np.sum)
        array([6, 0, 9])
        >>> seq.reduce(np.max, empty=-1)
        array([ 3, -1,  5])
        """
        if given or named:
            refuse_arguments("reduce", 1, given, named)
        cdef Share share = self.whole()
        return reduced_elements(share.store, self._dtype, how, axis, initial, empty, dtype)

    @classmethod
    def from_lengths(cls, values, lengths):
        """Make a sequence from values and the lengths of the elements along axis 0.

        Parameters
        ----------
        values : array_like
            The concatenated elements, of rank 1 or more. The sequence shares its memory; strings are copied.
        lengths : array_like of int
            The lengths, of shape (n,), 0 or more. Their sum is the length of `values`. For offsets use
            `from_offsets`.

        Returns
        -------
        TensorSequence

        Raises
        ------
        ValueError
            If a length is negative, the lengths don't sum to the length of `values`, `values` has rank 0, or
            `lengths` is not 1-D.
        TypeError
            If the lengths are not integers, or the dtype of `values` is not supported.

        Notes
        -----
        O(n), without a copy of the values; 8 bytes for each element. For many elements the GIL is released.

        Examples
        --------
        >>> from seqcore import TensorSequence
        >>> TensorSequence.from_lengths([1, 2, 3], [2, 0, 1]).shapes
        [(2,), (0,), (1,)]
        """
        array = values_given(values)
        return new_container(cls, own_type(array.dtype), split_lengths(array, 0, lengths, "lengths"))

    @classmethod
    def from_offsets(cls, values, offsets):
        """Make a sequence from values and offsets: element i is `values[offsets[i]:offsets[i + 1]]`.

        Parameters
        ----------
        values : array_like
            The concatenated elements, of rank 1 or more. The sequence shares its memory; strings are copied.
        offsets : array_like of int
            The offsets, of shape (n + 1,), not decreasing, within the length of `values`. The first one need
            not be 0, nor the last one the end, so lengths passed by mistake can go unnoticed: for lengths use
            `from_lengths`.

        Returns
        -------
        TensorSequence

        Raises
        ------
        ValueError
            If an offset is less than the one before it or outside `values`, `values` has rank 0, or
            `offsets` is not 1-D.
        TypeError
            If the offsets are not integers, or the dtype of `values` is not supported.

        Notes
        -----
        O(n), without a copy of the values; 8 bytes for each element. For many elements the GIL is released.

        Examples
        --------
        >>> from seqcore import TensorSequence
        >>> TensorSequence.from_offsets([1, 2, 3], [0, 2, 2, 3]).shapes
        [(2,), (0,), (1,)]
        """
        array = values_given(values)
        return new_container(cls, own_type(array.dtype), split_offsets(array, offsets))


# == sequence ============================================================================================
#
# TensorSequence: the interface of a Python list, on a gap buffer of views.

cdef extern from "Python.h":
    const Py_ssize_t PY_SSIZE_T_MAX


cdef TensorSequence new_sequence(cnp.dtype dtype, Store *store):
    """Return a sequence that takes over one share of the store, even when this fails."""
    return <TensorSequence>new_container(TensorSequence, dtype, store)


cdef cnp.ndarray selected(object key, Py_ssize_t n):
    """As `selection_of`; a sequence of single bools is a mask too."""
    cdef Share share
    if isinstance(key, TensorSequence) and (<TensorSequence>key)._dtype is not None and (
            (<TensorSequence>key)._dtype.type_num == cnp.NPY_BOOL):
        share = (<TensorSequence>key).shared()
        if has_rank_0(share.store):
            key = values_of(share.store, (<TensorSequence>key)._dtype)
    return selection_of(key, n)


cdef bint has_rank_0(Store *store) noexcept:
    """Return whether the first element is a single number; True without elements."""
    cdef Piece first
    cdef Py_ssize_t[2 * MAX_NDIM] dims
    return size_of(store) == 0 or (read_one(store, 0, &first, dims) and first.source.ndim == 0)


cdef str absent(tensor, str where=""):
    """Return the message for a tensor that is not in a sequence."""
    return f"no element{where} equals {got(tensor)} in shape and values"


# -- the container -----------------------------------------------------------------------------------

@cython.collection_type("sequence")
@cython.no_gc           # as an ndarray is not; a subclass has its own
cdef class TensorSequence(Ragged):
    """TensorSequence(tensors=(), dtype=None, *, copy=False)\n--\n
    A typed, mutable sequence of tensors.

    The elements are NumPy arrays of one dtype, whose shapes and ranks may differ. `seq[i]` returns a new
    read-only array that shares memory with the sequence, without a copy. The container itself is mutable: an
    insert or erase at the position of the last one is O(1), elsewhere at most 16 bytes are moved for each
    element in between. A sequence that was split, loaded or sliced stores at most 8 bytes for each element.
    Every method is atomic, and several threads may use one sequence.

    Parameters
    ----------
    tensors : iterable of array_like, optional
        The elements, all of one dtype, of any shapes and ranks. Arrays are taken by reference, strings and
        Python lists are copied. A pandas Series and a 1-D object array of arrays count as lists of their
        items. A single array is a `TypeError`: `split_to_sequence` splits it.
    dtype : data-type, optional
        The element type: a name from `seqcore.ELEMENT_TYPES`, any of NumPy's names for it, or `"bfloat16"`.
        The default is the dtype of the first tensor that isn't an empty list. Arrays are never cast to it.
    copy : bool, optional
        If True, copy the data, into one buffer. Pass it if the original arrays will be modified.

    Raises
    ------
    ValueError
        If there are neither tensors nor a dtype, or a nested list is ragged.
    TypeError
        If a tensor has another dtype than the first one, or the dtype is not supported. The message names
        the position, as in `tensors[777]`.

    See Also
    --------
    split_to_sequence : Split an array into a sequence of views.
    concat_from_sequence : Join or stack a sequence into one array.
    sequence_map : Apply a function to each element.

    Notes
    -----
    - Read: `seq[i]`, `seq[a:b:c]`, `seq[indices]`, `seq[mask]`, `len`, `iter`, `reversed`, `in`, `index`,
      `count`, `==`.
    - Edit: `append`, `extend`, `insert`, `erase`, `pop`, `remove`, `clear`, `reverse`, `seq[i] = t`,
      `seq[a:b] = ts`, `seq[indices] = ts`, `seq[mask] = ts`, `del`, `+`, `+=`.
    - Rows of each element: `windows()`, `truncate()`, `take_rows()`, `accumulate()`, `reduce()`.
    - Convert: `values()`, `lengths()`, `offsets()`, `segment_ids()`, `position_ids()`, `to_padded()`,
      `astype()`, `tolist()`, and back: `from_lengths`, `from_offsets`, `from_padded`, `from_arrow`.
    - Memory: `nbytes`, `pinned_nbytes`, `compact()`, `copy()`, pickle.

    `dtype`, `shapes`, `nbytes` and `pinned_nbytes` are properties, all others are methods.

    A sequence is not an array: NumPy's functions and operators refuse it. `sequence_map(np.sqrt, seq)` calls
    a function for each element, `np.sqrt(seq.values())` for all values at once, and
    `sequence_map(np.multiply, seq, np.float32(2))` stands for `seq * 2`. `==` compares two sequences and
    returns one bool; with anything else, a list of arrays too, it is False. `sorted` compares arrays and
    fails: `seq[np.argsort(seq.lengths())]` sorts by length. Ranks may differ, so `seq[0] = 5` stores a tensor
    of rank 0; `seq[0] = np.full_like(seq[0], 5)` keeps the shape.

    Examples
    --------
    >>> import numpy as np
    >>> seq = TensorSequence([np.zeros((2, 3)), np.ones(4)])
    >>> seq.insert(1, [0.5, 0.25])
    >>> seq
    <TensorSequence of 3 float64 tensors: (2, 3) (2,) (4,)>
    >>> seq[1]
    array([0.5 , 0.25])
    """

    # Makes NumPy refuse ufuncs and operators between arrays and sequences.
    __array_ufunc__ = None

    def __init__(self, tensors=(), dtype=None, *given, copy=False, **named):    # to name what is meant
        cdef Gathering news
        cdef Store *store
        if given or named:
            refuse_arguments("TensorSequence", 2, given, named)
        if copy is not False:
            copy = boolean("copy", copy)
        news = gather(tensors, None if dtype is None else own_type(dtype), copy)
        store = news.take_store()
        if news.dtype is None:
            release(store)
            raise ValueError("an empty sequence needs a dtype: TensorSequence(dtype='float32')")
        # Not by `extend`, because a subclass's own would see a half-initialized object.
        if not self.claim(news.dtype, store):
            raise TypeError("__init__ was called twice on this TensorSequence: make a new one, or edit it "
                            "with clear and extend")

    @classmethod
    def __class_getitem__(cls, item):
        """Return the generic alias `TensorSequence[np.float32]`, for annotations."""
        return GenericAlias(cls, item)

    def __array_function__(self, function, types, args, kwargs):
        """Refuse NumPy's functions, which would silently stack the elements. `np.save` writes the stack."""
        if function is np.save:
            return function.__wrapped__(*args, **kwargs)
        raise TypeError(not_an_array(function))

    # -- what it is ----------------------------------------------------------------------------------

    @property
    def dtype(self):
        """The dtype of the elements, an `np.dtype`; `object` for strings."""
        return self._dtype

    def __len__(self):
        return self.size()

    def __repr__(self):
        return late("as_text")(self)

    def _repr_html_(self):
        return late("as_html")(self)

    # -- looking -------------------------------------------------------------------------------------

    def __getitem__(self, key):
        if PyLong_CheckExact(key):
            return self.element(as_position(key), key)
        if PySlice_Check(key):
            return new_sequence(self._dtype, self.slice_of(key))
        selection = selected(key, self.size())
        if selection is None:
            return self.element(as_position(key), key)
        return new_sequence(self._dtype, self.selected_by(selection))

    def __getitems__(self, positions):
        """Return `seq[positions]`, a batch in one call. PyTorch's DataLoader calls this method."""
        return new_sequence(self._dtype, self.selected_by(selection_in_rows(positions, self.size())))

    def __iter__(self):
        return ElementIterator.__new__(ElementIterator, self, False)

    def __reversed__(self):
        return ElementIterator.__new__(ElementIterator, self, True)

    def __contains__(self, tensor):
        return self.first_equal(tensor, 0, PY_SSIZE_T_MAX) >= 0

    def index(self, tensor, start=0, stop=None):
        """Return the first position of a tensor that equals an element in dtype, shape and values. O(n).

        Parameters
        ----------
        tensor : array_like
            The tensor to search for. A value that can't be an element is not in the sequence.
        start, stop : int, optional
            The range of positions to search, as in `list.index`.

        Returns
        -------
        int
            The position, from 0.

        Raises
        ------
        ValueError
            If no element equals the tensor.
        TypeError
            If NumPy can't read the tensor: on a GPU, sparse, or with requires_grad. The same holds for `in`,
            `count` and `remove`.

        Examples
        --------
        >>> TensorSequence([[1, 2], [3], [4]]).index([3])
        1
        """
        cdef Py_ssize_t last = PY_SSIZE_T_MAX if stop is None else as_position(stop)
        cdef Py_ssize_t position = self.first_equal(tensor, as_position(start), last)
        if position < 0:
            where = "" if start == 0 and stop is None else f" from position {shown(start)} to {shown(stop)}"
            raise ValueError(absent(tensor, where))
        return position

    def count(self, tensor):
        """Return the number of elements that equal a tensor in dtype, shape and values. O(n).

        Parameters
        ----------
        tensor : array_like
            The tensor to search for.

        Returns
        -------
        int

        Examples
        --------
        >>> TensorSequence([[1, 2], [3], [1, 2]]).count([1, 2])
        2
        """
        cdef Share share
        cdef Piece piece
        cdef Source *wanted = self.take_or_null(tensor)
        if wanted == NULL:
            return 0
        try:
            share = self.shared()
            resolve(wanted, 0, &piece, NULL)
            return count_equal(share.store, &piece, self._dtype)
        finally:
            release_source(wanted, 1)

    cdef Source *take_or_null(self, object tensor) except? NULL:
        """The tensor as a source, or NULL if no element could equal it.

        For an array that can't be read nobody can tell, so that is an error, as in an insert.
        """
        try:
            return self.take(tensor)
        except UnreadableTensorError:
            raise
        except (TypeError, ValueError, OverflowError):
            pass        # not a return, which in Cython 3.3 fails where there was no memory for the traceback
        return NULL

    cdef Py_ssize_t first_equal(self, object tensor, Py_ssize_t start, Py_ssize_t stop) except -2:
        cdef Share share
        cdef Piece piece
        cdef Source *wanted = self.take_or_null(tensor)
        if wanted == NULL:
            return -1
        try:
            share = self.shared()
            PySlice_AdjustIndices(size_of(share.store), &start, &stop, 1)
            resolve(wanted, 0, &piece, NULL)
            return find(share.store, start, stop, &piece, self._dtype, False)
        finally:
            release_source(wanted, 1)

    def __eq__(self, other):
        cdef Share ours, theirs
        if not isinstance(other, TensorSequence):
            return NotImplemented
        if self._dtype is not (<TensorSequence>other)._dtype:
            return False
        ours = self.shared()
        theirs = (<TensorSequence>other).shared()
        return equal_stores(ours.store, theirs.store, self._dtype)

    # -- putting in ----------------------------------------------------------------------------------

    def insert(self, position, tensor):
        """Insert a tensor before a position, in place. Implements ONNX SequenceInsert-11.

        Parameters
        ----------
        position : int
            The position from -n to n, where n is the length; `-1` is before the last element, n at the end.
        tensor : array_like
            The tensor, of the sequence's dtype and any shape; taken by reference.

        Raises
        ------
        IndexError
            If the position is out of range. (`list.insert` clamps it.)
        TypeError
            If the tensor has another dtype or the position is not an integer.

        Notes
        -----
        O(1) at the position of the last edit; elsewhere at most 16 bytes are moved for each element in
        between. After several edits of a split or loaded sequence, one edit is O(n).

        Examples
        --------
        >>> seq = TensorSequence([[1], [3]])
        >>> seq.insert(-1, [2])
        >>> [int(t[0]) for t in seq]
        [1, 2, 3]
        """
        cdef Py_ssize_t at = as_position(position)
        self.put(at, position, self.take(tensor))

    def append(self, tensor):
        """Append a tensor to the end. Amortized O(1).

        Parameters
        ----------
        tensor : array_like
            The tensor, of the sequence's dtype and any shape; taken by reference.

        Raises
        ------
        TypeError
            If the tensor has another dtype.

        Examples
        --------
        >>> seq = TensorSequence(dtype="int64")
        >>> seq.append([1, 2])
        >>> seq.shapes
        [(2,)]
        """
        self.append_source(self.take(tensor))

    def extend(self, tensors):
        """Append the tensors of an iterable, or none of them if one doesn't fit.

        Parameters
        ----------
        tensors : TensorSequence or iterable of array_like
            The tensors, of the sequence's dtype; the sequence itself is allowed. A single array is a
            `TypeError`.

        Raises
        ------
        TypeError
            If a tensor has another dtype; the message names its position among the tensors given.

        Notes
        -----
        O(len(tensors)) if the last edit was at the end, and less if the tensors are a split or loaded
        sequence.

        Examples
        --------
        >>> seq = TensorSequence([[1]])
        >>> seq.extend(seq)
        >>> len(seq)
        2
        """
        self.append_store(gather(tensors, self._dtype).take_store())

    def __iadd__(self, tensors):
        TensorSequence.extend(self, tensors)        # as in a list, not a subclass's own
        return self

    def __add__(self, other):
        if cnp.PyArray_Check(other):
            raise TypeError(f"expected a TensorSequence or list to add, got {got(other)}: seq.append(tensor) "
                            "adds it as an element, sequence_map(np.add, seq, tensor) adds to each element")
        if not isinstance(other, (TensorSequence, list, tuple)):
            return NotImplemented
        cdef TensorSequence result = new_sequence(self._dtype, self.snapshot())
        result.extend(other)
        return result

    def __radd__(self, other):
        # A sequence is of a class that this one derives from: it adds by itself.
        if isinstance(other, TensorSequence) or not isinstance(other, (list, tuple)):
            return NotImplemented
        self.check_initialized(NULL)
        cdef TensorSequence result = new_sequence(self._dtype, gather(other, self._dtype).take_store())
        result.extend(self)
        return result

    def __setitem__(self, key, value):
        cdef Py_ssize_t at
        if PySlice_Check(key):
            self.replace_slice(key, gather(value, self._dtype).take_store())
            return
        selection = selected(key, self.size())
        if selection is None:
            at = as_position(key)
            self.replace(at, key, self.take(value))
        else:
            self.replace_selected(selection, gather(value, self._dtype).take_store())

    # -- taking out ----------------------------------------------------------------------------------

    def erase(self, position=-1):
        """Remove the element at a position, in place. Implements ONNX SequenceErase-11.

        Parameters
        ----------
        position : int, optional
            The position from -n to n - 1, where n is the length. The default is the last one.

        Raises
        ------
        IndexError
            If the position is out of range, or the sequence is empty.

        Notes
        -----
        O(1) at the position of the last edit; elsewhere at most 16 bytes are moved for each element in
        between. After several edits of a split or loaded sequence, one edit is O(n).

        Examples
        --------
        >>> seq = TensorSequence([[1], [2], [3]])
        >>> seq.erase(0)
        >>> len(seq)
        2
        """
        self.take_out(as_position(position), position, False)

    def pop(self, position=-1):
        """Remove the element at a position and return it as a read-only array.

        Parameters
        ----------
        position : int, optional
            The position from -n to n - 1, where n is the length. The default is the last one.

        Returns
        -------
        np.ndarray

        Raises
        ------
        IndexError
            If the position is out of range, or the sequence is empty.

        Examples
        --------
        >>> TensorSequence([[1], [2, 3]]).pop()
        array([2, 3])
        """
        return self.take_out(as_position(position), position, True)

    def remove(self, tensor):
        """Remove the first element that equals a tensor in dtype, shape and values. O(n).

        Parameters
        ----------
        tensor : array_like
            The tensor to search for.

        Raises
        ------
        ValueError
            If no element equals the tensor.

        Examples
        --------
        >>> seq = TensorSequence([[1], [2], [1]])
        >>> seq.remove([1])
        >>> seq.index([1])
        1
        """
        cdef Source *wanted = self.take_or_null(tensor)
        cdef Piece piece
        cdef bint removed = False
        if wanted != NULL:
            try:
                resolve(wanted, 0, &piece, NULL)
                removed = self.take_out_equal(&piece)
            finally:
                release_source(wanted, 1)
        if not removed:
            raise ValueError(absent(tensor))

    def __delitem__(self, key):
        if PySlice_Check(key):
            self.take_out_slice(key)
            return
        selection = selected(key, self.size())
        if selection is None:
            self.take_out(as_position(key), key, False)
        else:
            self.take_out_selected(selection)

    def clear(self):
        """Remove all elements. O(n), or O(1) after a split or load.

        Examples
        --------
        >>> seq = TensorSequence([[1], [2]])
        >>> seq.clear()
        >>> seq
        <TensorSequence of 0 int64 tensors>
        """
        release(self.take_out_all())

    # -- all of it -----------------------------------------------------------------------------------

    def reverse(self):
        """Reverse the order of the elements in place. O(n), or O(1) after a split or load.

        Examples
        --------
        >>> seq = TensorSequence([[1], [2, 3]])
        >>> seq.reverse()
        >>> seq.shapes
        [(2,), (1,)]
        """
        self.reverse_elements()

    def compact(self):
        """Copy the elements into one contiguous buffer and release the memory that they were views of.

        Afterwards `pinned_nbytes` equals `nbytes`, except for elements that other threads insert meanwhile.

        Notes
        -----
        O(nbytes). The GIL is released during the copy, but not if others have edited during three of them.

        Examples
        --------
        >>> import numpy as np
        >>> seq = TensorSequence([np.zeros((1000, 8))[:2]])
        >>> seq.nbytes, seq.pinned_nbytes
        (128, 64000)
        >>> seq.compact()
        >>> seq.pinned_nbytes
        128
        """
        self.compact_elements()

    def copy(self):
        """Return a copy of the sequence that shares the elements' memory.

        Edits of one don't show in the other. The copy of a subclass has the same state.

        Returns
        -------
        TensorSequence

        Notes
        -----
        O(1). The first edit of either sequence copies at most 16 bytes for each element.

        Examples
        --------
        >>> seq = TensorSequence([[1], [2]])
        >>> other = seq.copy()
        >>> other.append([3])
        >>> len(seq), len(other)
        (2, 3)
        """
        if type(self) is TensorSequence:
            return new_sequence(self._dtype, self.snapshot())
        result = new_container(type(self), self._dtype, self.snapshot())
        return with_state(result, self.__getstate__())

    def __copy__(self):
        return TensorSequence.copy(self)

    def __deepcopy__(self, memo):
        cdef TensorSequence result = new_container(type(self), self._dtype, self.snapshot())
        memo[id(self)] = result
        result.compact_elements()
        return with_state(result, deepcopy(self.__getstate__(), memo))

    def __reduce__(self):
        parts, order = late("reduced")(self)
        return restore, (type(self), type_name(self._dtype), parts, order), self.__getstate__()

    def _check(self):
        """Assert the invariants of the store, for tests."""
        cdef Share share = self.shared()
        broken = broken_invariant(share.store)
        assert broken is None, broken


MutableSequence.register(TensorSequence)


class _WithState:
    """An object that the module `copy` copies to a given object, which gets a state by Python's own rules."""

    def __init__(self, new, state):
        self.reduction = lambda: new, (), state

    def __reduce_ex__(self, protocol):
        return self.reduction


cdef object with_state(object new, object state):
    """Return an object after it got the state that `__getstate__` of another instance returned."""
    return new if state is None else copy_of(_WithState(new, state))


# -- what pickle calls -------------------------------------------------------------------------------

def restore(cls, dtype, parts, order, positional=(), named=None):
    """Make a sequence of what `TensorSequence.__reduce__` has taken apart.

    Pickles of version 0.1 may have arguments for `__new__` of a subclass.
    """
    cdef cnp.dtype own = check_pickled(cls, dtype, positional, named)
    cdef TensorSequence restored = late("restored")(own, parts, order)
    return new_container(cls, own, restored.snapshot(), positional, named)


cdef cnp.dtype check_pickled(cls, dtype, positional, named):
    """Return the element type that a pickle names; raise if its class or dtype isn't a sequence's."""
    if not isinstance(cls, type) or not issubclass(cls, TensorSequence):
        raise TypeError(f"the pickle is damaged: expected a subclass of TensorSequence, got {shown(cls)}")
    if type(dtype) is not str:
        raise TypeError(f"the pickle is damaged: expected the name of a dtype, got {shown(dtype)}")
    if type(positional) is not tuple or not (named is None or type(named) is dict):
        raise TypeError("the pickle is damaged: expected a tuple and a dict of arguments for __new__, got "
                        f"{shown(positional)} and {shown(named)}")
    return element_type(dtype)
