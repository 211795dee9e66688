"""Elements copied together: into one array, or into one tight buffer that they are cut from again.

The caller has a share of the buffer, so nobody edits it while the GIL is away.
"""

from cpython.ref cimport Py_INCREF, PyObject
from cpython.tuple cimport PyTuple_New, PyTuple_SET_ITEM
cimport numpy as cnp

from seqcore.core.arrays cimport array_from
from seqcore.core.buffer cimport (
    GapBuffer, back_of, back_size, empty_buffer, fill, new_buffer, release, size_of, slot_at,
)
from seqcore.core.counters cimport COPIED_WITHOUT_GIL, RUNS_COPIED, count
from seqcore.core.owner cimport Owner, hold_fresh, owner_like, owner_of_pieces, pieces_of
from seqcore.core.pieces cimport (
    AHEAD, EVEN, MAX_BYTES, MAX_NDIM, MAX_RUNS, OK, RANK_DIFFERS, TILED, TOO_LARGE, Join, Piece,
    Source, Status, begin_join, copy_join, copy_kept_runs, copy_runs, count_consecutive, extent, finish_plan,
    plan_join, prefetch, step_of,
)
from seqcore.core.split cimport RELEASE_FROM

cnp.import_array()


cdef object new_array(cnp.dtype dtype, int ndim, Py_ssize_t *shape):
    return array_from(<PyObject *>dtype, ndim, shape, NULL, NULL, NULL)


cdef void count_strings(cnp.ndarray array) noexcept:
    """Take the references that a copy of bare pointers has not taken."""
    cdef PyObject **items = <PyObject **>cnp.PyArray_DATA(array)
    cdef Py_ssize_t i
    for i in range(cnp.PyArray_SIZE(array)):
        Py_INCREF(<object>items[i])


cdef tuple shape_of(Piece *piece):
    # Here and elsewhere no list comprehension: Cython 3.3's drop a reference too many where there is no
    # memory for the list to grow.
    cdef tuple shape = PyTuple_New(piece.source.ndim)
    cdef int axis
    cdef object length
    for axis in range(piece.source.ndim):
        length = extent(piece, axis)
        Py_INCREF(length)
        PyTuple_SET_ITEM(shape, axis, length)
    return shape


cdef int raise_for(Status status, Join *plan, GapBuffer *buffer) except -1:
    cdef Piece *piece
    if status == OK:
        return 0
    where = f"along {'a new ' if plan.stacking else ''}axis {plan.axis}"
    if status == TOO_LARGE:
        raise ValueError(f"{size_of(buffer)} tensors joined {where} would be larger than any array can be")
    piece = slot_at(buffer, plan.seen)[0]
    what = "rank" if status == RANK_DIFFERS else "shape"
    also = "; seq.to_padded() stacks them padded" if plan.stacking and status != RANK_DIFFERS else ""
    raise ValueError(
        f"element {plan.seen} has shape {shape_of(piece)}, which can't be joined {where} with element 0 of "
        f"shape {shape_of(plan.first)}: their {what}s differ{also}"
    )


cdef object join(GapBuffer *buffer, cnp.dtype dtype, int axis, bint stacking):
    """A new array of all elements, at least one, along an axis checked against the first one's rank."""
    cdef Join plan
    cdef Status status
    cdef bint strings = dtype.type_num == cnp.NPY_OBJECT
    cdef Piece *first = slot_at(buffer, 0)[0]
    cdef char *data
    if first.source.ndim + stacking > MAX_NDIM:
        raise ValueError(f"NumPy's arrays have at most {MAX_NDIM} axes: elements of rank "
                         f"{first.source.ndim} can't be joined along a new one")
    begin_join(&plan, first, axis, stacking)
    if size_of(buffer) < RELEASE_FROM:
        status = plan_all(&plan, buffer)
    else:
        with nogil:
            status = plan_all(&plan, buffer)
    raise_for(status, &plan, buffer)
    result = new_array(dtype, plan.ndim, plan.shape)
    data = cnp.PyArray_BYTES(result)
    if strings or cnp.PyArray_NBYTES(result) < 8 * RELEASE_FROM:
        copy_all(&plan, data, buffer)
    else:
        with nogil:
            copy_all(&plan, data, buffer)
        count(COPIED_WITHOUT_GIL, 1)
    if strings:
        count_strings(result)
    return result


cdef Status plan_all(Join *plan, GapBuffer *buffer) noexcept nogil:
    cdef Status status = plan_join(plan, buffer.slots, buffer.lo)
    if status == OK:
        status = plan_join(plan, back_of(buffer), back_size(buffer))
    return finish_plan(plan) if status == OK else status


cdef void copy_all(Join *plan, char *data, GapBuffer *buffer) noexcept nogil:
    if plan.nruns <= MAX_RUNS:
        copy_kept_runs(plan, data)
    elif plan.axis == 0:        # behind each other along the first axis is behind each other in memory
        copy_together(data, buffer)
    else:
        copy_join(plan, data, buffer.slots, buffer.lo)
        copy_join(plan, data, back_of(buffer), back_size(buffer))


cdef void copy_together(char *data, GapBuffer *buffer) noexcept nogil:
    """Copy all elements one behind the other, each in C order."""
    cdef Py_ssize_t runs = 0
    data = copy_runs(data, buffer.slots, buffer.lo, &runs)
    copy_runs(data, back_of(buffer), back_size(buffer), &runs)
    count(RUNS_COPIED, runs)


cdef object total_nbytes(GapBuffer *buffer):
    # A Python integer: views of broadcast arrays can have more bytes together than 63 bits count.
    cdef Py_ssize_t i, nbytes, total = 0, row = 0
    cdef Piece *piece
    cdef Source *known = NULL
    cdef int axis
    carried = 0
    for i in range(size_of(buffer)):
        piece = slot_at(buffer, i)[0]
        if piece.source != known:
            known = piece.source
            row = known.itemsize
            for axis in range(known.ndim):
                if axis != known.axis:
                    row *= known.shape[axis]
        # NumPy has checked that the product fits, for the array that this is a piece of.
        nbytes = row * piece.length if known.axis >= 0 else row
        if nbytes > MAX_BYTES - total:
            carried += total
            total = 0
        total += nbytes
    return carried + total


cdef GapBuffer *tighten(GapBuffer *buffer, cnp.dtype dtype) except NULL:
    """The same elements in fresh memory, without space between them."""
    return cut_like(tight_items(buffer, dtype), buffer)


cdef cnp.ndarray tight_items(GapBuffer *buffer, cnp.dtype dtype):
    """A new array of rank 1 of all items of the elements, each element's in C order."""
    cdef object nbytes = total_nbytes(buffer)
    if nbytes > MAX_BYTES:
        raise MemoryError(f"no memory for {nbytes} bytes of {size_of(buffer)} tensors")
    cdef Py_ssize_t items = nbytes // dtype.itemsize
    cdef cnp.ndarray memory = new_array(dtype, 1, &items)
    cdef char *data = cnp.PyArray_BYTES(memory)
    if dtype.type_num == cnp.NPY_OBJECT or nbytes < 8 * RELEASE_FROM:
        copy_together(data, buffer)
    else:
        with nogil:
            copy_together(data, buffer)
        count(COPIED_WITHOUT_GIL, 1)
    if dtype.type_num == cnp.NPY_OBJECT:
        count_strings(memory)
    return memory


cdef GapBuffer *cut_like(cnp.ndarray items, GapBuffer *buffer) except NULL:
    """Elements of the shapes that a buffer's have, cut from an array of rank 1 of as many items, in C order.

    Neighbours of one shape, but for the first axis, are pieces of one source.
    """
    cdef Py_ssize_t n = size_of(buffer), done = 0, run
    cdef char *data = cnp.PyArray_BYTES(items)
    cdef Owner owner
    cdef GapBuffer *into = new_buffer(n)
    if into == NULL:
        raise MemoryError(f"no memory for {n} elements")
    try:
        while done < n:
            run = count_alike(buffer, done, n)
            owner = owner_like(items, slot_at(buffer, done)[0], run)
            data = write_alike(owner, pieces_of(owner) if run > 1 else &owner.whole, data, buffer, done, run,
                               into)
            hold_fresh(owner, run)
            done += run
            into.lo = done
    except BaseException:
        release(into)
        raise
    fill(into)
    return into


cdef GapBuffer *cut_along(cnp.ndarray array, GapBuffer *buffer) except NULL:
    """Elements as long as a buffer's, cut from an array whose axis 0 is as long as they are together.

    That these have been joined says that their lengths sum to what can be counted.
    """
    cdef Py_ssize_t n = size_of(buffer), whole = cnp.PyArray_DIM(array, 0) if array.ndim else -1, step
    cdef char *end
    cdef GapBuffer *into
    cdef Owner owner
    if n == 0:
        return empty_buffer()
    if whole < 0:
        raise ValueError("an array of rank 0 can't be split")
    owner = owner_of_pieces(array, 0, False, n)
    into = new_buffer(n)
    if into == NULL:
        raise MemoryError(f"no memory for {n} elements")
    step = step_of(&owner.source)
    end = write_alike(owner, pieces_of(owner), cnp.PyArray_BYTES(array), buffer, 0, n, into)
    if step != 0 and end - cnp.PyArray_BYTES(array) != whole * step:
        release(into)           # nothing in it is held yet: it counts as all gap
        raise ValueError(f"the array has length {whole} along axis 0, which is not the sum of the lengths of "
                         f"{n} elements")
    hold_fresh(owner, n)
    fill(into)
    return into


cdef Py_ssize_t count_alike(GapBuffer *buffer, Py_ssize_t start, Py_ssize_t n) noexcept:
    """How many elements from `start` on differ in their first extent alone."""
    cdef Piece *first = slot_at(buffer, start)[0]
    cdef Piece *piece
    cdef Source *known = first.source
    # Elements without items may be longer together than an array can be.
    cdef Py_ssize_t room = longest(first), i = start + 1, run
    while i < n:
        piece = slot_at(buffer, i)[0]
        if (piece.source != known or known.axis > 0) and not fits_behind(first, piece):
            break
        known = piece.source
        run = 1
        if known.tiled and known.axis == 0 and i < buffer.lo:
            # Pieces of a block are no longer together than the array that they were cut from.
            run = count_consecutive(&buffer.slots[i], buffer.lo - i)
            piece = buffer.slots[i + run - 1]
            room -= (piece.data - buffer.slots[i].data) // step_of(known) + piece.length
        elif known.ndim:
            room -= extent(piece, 0)
        if room < 0:
            break
        i += run
    return i - start


cdef char *write_alike(Owner owner, Piece *pieces, char *data, GapBuffer *buffer, Py_ssize_t start,
                       Py_ssize_t n, GapBuffer *into) noexcept:
    """Write n pieces one behind the other from `data` on, as long as a buffer's; return where they end."""
    cdef Source *source = &owner.source
    cdef Py_ssize_t front = min(max(buffer.lo - start, 0), n)
    cdef Piece **slots = &into.slots[start]
    cdef bint even = front == 0 or front == n       # else the two parts may be of two lengths
    data = write_along(pieces, slots, source, data, &buffer.slots[start], front, &even)
    data = write_along(pieces + front, slots + front, source, data, slot_at(buffer, start + front),
                       n - front, &even)
    if n > 1 and step_of(source) != 0:
        source.tiled = EVEN if even else TILED
    return data


cdef inline Py_ssize_t length_of(const Piece *piece) noexcept nogil:
    """Along axis 0; a scalar counts as one."""
    return extent(piece, 0) if piece.source.ndim else 1


cdef char *write_along(Piece *pieces, Piece **slots, Source *source, char *data, Piece **like,
                       Py_ssize_t n, bint *even) noexcept nogil:
    """Write n pieces as long as those of some slots; `even` is cleared unless these are one even run."""
    cdef Py_ssize_t i = 0, k, run, length, step = step_of(source)
    cdef Source *known
    while i < n:
        known = like[i].source
        run = 1
        if known.tiled == EVEN and known.axis <= 0:
            # All of them are as long as the first, but for the last: there is no need to read them.
            run = count_consecutive(like + i, n - i)
            length = length_of(like[i])
            for k in range(i, i + run - 1):
                pieces[k].source = source
                pieces[k].data = data
                pieces[k].length = length
                slots[k] = &pieces[k]
                data += length * step
            if run < n:
                even[0] = False
        else:
            even[0] = False
            if i + AHEAD < n:
                prefetch(like[i + AHEAD])
        k = i + run - 1
        length = length_of(like[k])
        pieces[k].source = source
        pieces[k].data = data
        pieces[k].length = length
        slots[k] = &pieces[k]
        data += length * step
        i += run
    return data


cdef Py_ssize_t longest(Piece *first) noexcept:
    """How much longer than a piece an array of its shape may be."""
    cdef Py_ssize_t room = MAX_BYTES // first.source.itemsize
    cdef int axis
    for axis in range(1, first.source.ndim):
        room //= max(extent(first, axis), 1)
    return room - (extent(first, 0) if first.source.ndim else 0)


cdef bint fits_behind(const Piece *first, const Piece *piece) noexcept nogil:
    """Whether two pieces have one shape but for axis 0."""
    cdef int axis
    if piece.source.ndim != first.source.ndim:
        return False
    for axis in range(1, first.source.ndim):
        if extent(piece, axis) != extent(first, axis):
            return False
    return True
