"""Batches and rows for training: the order of elements by length, packing, and the rows of each element.

Sections::

    order  sort lengths
    pack   best fit
    rows   windows, first and last rows, running sums
"""

from cpython.ref cimport PyObject
from libc.stdint cimport INT64_MAX, int8_t, int16_t, int32_t, int64_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memchr, memcmp, memcpy, memmove, memset
cimport cython
cimport numpy as cnp
import numpy as np

from seqcore.core.arrays cimport array_from
from seqcore.core.limits cimport RELEASE_FROM, SIGNALS_EVERY, VIEWS_APART
from seqcore.core.numpy_loops cimport Loop, find_loop
from seqcore.core.padding cimport store_like
from seqcore.core.split_join cimport compact_items, copy_strided, count_strings, new_array, select
from seqcore.core.store cimport (
    DAMAGED, EVEN, MAX_BYTES, MAX_NDIM, OK, OUT_OF_RANGE, PADDED, RANK_DIFFERS, SHAPED, SHAPE_DIFFERS,
    WHOLE, Block as Elements, Piece, Share, Slot, Source, Span, Status, Store, Table, TableOwner, add_run,
    begin_blocks, element_of, extent, extent_in, finished, first_span, has_runs, is_worth_releasing,
    make_element, new_runs, new_slots, offsets_table, owned_offsets, owner_of, piece_nbytes, raise_damaged,
    raise_for, read_block, read_one, runs_of, shape_of, share as retained, share_of, size_of, strides_of,
    take_whole, views_table,
)
from seqcore.core.interrupts import let_others_in
from seqcore._arguments.shown import shown_number, unless_empty_list

cnp.import_array()


# == order ===============================================================================================
#
# Positions sorted by length, divided into batches of similar lengths, and mixed anew in each epoch.
#
# ::
#
#     positions by falling length    a b c d e f g h i j k l
#     a stratum of 3 batches of 4    a b c | d e f | g h i | j k l      four rows, each as wide as the stratum
#     its batches in one epoch       a e h j    c d i k    b f g l      each has one element of each row
#     in the next epoch              b d h l    a f g k    c e i j
#
# Elements of a stratum have almost one length, so that its batches are hardly larger than those of a full
# sort. Each row is shuffled on its own. Only the second one keeps in step with the first, one place further
# in each epoch: no two elements of these rows meet in two epochs that follow each other, so no batch comes
# twice. Packs are strata of one width, and `_batches` divides the rows among them.
#
# Random numbers are those of SplitMix64, from seeds of our own, so that no version of NumPy changes an order.

cdef enum:
    DIGIT = 12                  # bits that are sorted by at a time, at most

cdef double SIMILAR = 0.97      # a stratum goes on while its batches are so long, compared to its first one,
cdef enum:
    NARROW = 4                  # and up to this width while it isn't larger than the tolerance permits

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
    cdef Py_ssize_t n = cnp.PyArray_SIZE(lengths), at
    if cnp.PyArray_NDIM(lengths) != 1 or not cnp.PyArray_ISSIGNED(lengths) or (
            cnp.PyArray_ITEMSIZE(lengths) not in (4, 8)) or not cnp.PyArray_ISCARRAY_RO(lengths):
        given = <object>lengths
        raise TypeError(f"lengths must be a row of int32 or int64, got {given.dtype} of shape {given.shape}")
    if cnp.PyArray_ITEMSIZE(lengths) == 4:
        at = first_beyond(<const int32_t *>cnp.PyArray_DATA(lengths), n, most)
    else:
        at = first_beyond(<const int64_t *>cnp.PyArray_DATA(lengths), n, most)
    if at < n:
        raise ValueError(f"lengths[{at}] is {lengths[at]}, expected 0 to {most}")
    return 0


cdef Py_ssize_t first_beyond(const narrow *lengths, Py_ssize_t n, int64_t most) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(n):
        if not 0 <= lengths[i] <= most:
            return i
    return n


def narrowed(cnp.ndarray lengths not None):
    """Return lengths as an array that `by_length` takes: int32 where they and their positions fit."""
    cdef object given = lengths
    small = len(given) < 2**31 and (not len(given) or given.max() < 2**31)
    return np.ascontiguousarray(given, np.int32 if small else np.int64)


def by_length(cnp.ndarray lengths not None, bint falling=False):
    """Return lengths sorted, and with them their positions; those of one length stay in order. O(n).

    `lengths` is an array of `narrowed`, and the positions have its dtype.
    """
    check_lengths(lengths, INT64_MAX)
    return sorted_by_keys(lengths, np.arange(len(lengths), dtype=lengths.dtype), falling)


# -- dividing ------------------------------------------------------------------------------------------

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


cdef struct Strata:
    int64_t strata              # how many there are
    int64_t batches             # in all of them
    int64_t several             # batches of two elements and more
    int64_t lone                # those of them that are alone in their stratum, and never mix
    int64_t left                # elements after the last stratum, too few for a batch


cdef Strata divide(const narrow *lengths, Py_ssize_t n, int64_t size, int64_t most, double tolerance,
                   int64_t *firsts, int64_t *widths) noexcept nogil:
    """Divide falling lengths; write where strata begin, and their widths, if there is memory for them."""
    cdef Strata found
    cdef int64_t i = 0, count, width, longest, next_longest
    cdef double sum_of_longest
    memset(&found, 0, sizeof(Strata))
    while i < n:
        longest = lengths[i]
        count = size if size else most // longest if longest else n - i
        if count > n - i:
            break
        width = 1
        sum_of_longest = <double>longest
        while count <= (n - i) // (width + 1):
            next_longest = lengths[i + width * count]
            if not (next_longest >= SIMILAR * longest or width < NARROW and
                    (width + 1.0) * longest <= (1 + tolerance) * (sum_of_longest + next_longest)):
                break
            sum_of_longest += next_longest
            width += 1
        if firsts != NULL:
            firsts[found.strata] = i
            widths[found.strata] = width
        found.strata += 1
        found.batches += width
        if count > 1:
            found.several += width
            found.lone += width == 1
        i += width * count
    found.left = n - i
    return found


def strata(cnp.ndarray lengths not None, int64_t size, int64_t most):
    """Divide falling lengths into strata, whose batches all have as many elements as its longest one permits.

    Parameters
    ----------
    lengths : ndarray
        The lengths, an array of `narrowed`.
    size : int
        The number of elements in a batch, or 0 if `most` sets it.
    most : int
        The largest padded size of a batch.

    Returns
    -------
    firsts, widths : ndarray of int64
        The beginnings of strata, and the end of the last one; the number of batches in each.
    """
    check_lengths(lengths, INT64_MAX if size else most)
    cdef Py_ssize_t n = cnp.PyArray_SIZE(lengths)
    cdef bint small = cnp.PyArray_ITEMSIZE(lengths) == 4
    cdef cnp.ndarray firsts = None, widths = None
    cdef int64_t *firsts_into = NULL
    cdef int64_t *widths_into = NULL
    cdef double tolerance = 0.05, share
    cdef int64_t batches
    cdef Strata found
    if size < 0 or not size and most < 1:
        raise ValueError(f"size is {size} and most is {most}, expected at least 1 of one of them")
    while True:
        with nogil:
            if small:
                found = divide(<const int32_t *>cnp.PyArray_DATA(lengths), n, size, most, tolerance,
                               firsts_into, widths_into)
            else:
                found = divide(<const int64_t *>cnp.PyArray_DATA(lengths), n, size, most, tolerance,
                               firsts_into, widths_into)
        if firsts is not None:
            firsts[found.strata] = n - found.left
            return firsts, widths
        # The batches that may stay as they are in each epoch: few, if there are many batches.
        batches = found.batches + (found.left > 0)
        share = 0.03 if batches >= 8 else 1
        if found.lone > share * found.several and tolerance < 1e6:
            tolerance *= 1.9
            continue
        firsts, widths = np.empty(found.strata + 1, np.int64), np.empty(found.strata, np.int64)
        firsts_into, widths_into = <int64_t *>cnp.PyArray_DATA(firsts), <int64_t *>cnp.PyArray_DATA(widths)


# -- random numbers ------------------------------------------------------------------------------------

cdef inline uint64_t scramble(uint64_t number) noexcept nogil:
    number = (number ^ number >> 30) * <uint64_t>0xBF58476D1CE4E5B9
    number = (number ^ number >> 27) * <uint64_t>0x94D049BB133111EB
    return number ^ number >> 31


cdef inline uint64_t draw(uint64_t *state) noexcept nogil:
    state[0] += <uint64_t>0x9E3779B97F4A7C15
    return scramble(state[0])


cdef inline int64_t below(uint64_t *state, uint64_t n) noexcept nogil:
    """A random number from 0 to n - 1, each as likely; n is 1 or more, below 2⁶³."""
    cdef uint64_t product, mask
    if not n >> 32:
        product = (draw(state) >> 32) * n
        if <uint32_t>product < n:
            mask = ((<uint64_t>1 << 32) - n) % n
            while <uint32_t>product < mask:
                product = (draw(state) >> 32) * n
        return <int64_t>(product >> 32)
    mask = n | n >> 1
    mask |= mask >> 2
    mask |= mask >> 4
    mask |= mask >> 8
    mask |= mask >> 16
    mask |= mask >> 32
    product = draw(state) & mask
    while product >= n:
        product = draw(state) & mask
    return <int64_t>product


def seeded(*numbers):
    """Return the state of a generator from integers of any size, 0 or more."""
    cdef uint64_t state = 0
    for number in numbers:
        while True:
            state = scramble((state ^ <uint64_t>(number & 0xFFFFFFFFFFFFFFFF)) + <uint64_t>0x9E3779B97F4A7C15)
            number >>= 64
            if not number:
                break
    return state


cdef inline void swap(narrow *order, Py_ssize_t i, Py_ssize_t k) noexcept nogil:
    cdef narrow held = order[i]
    order[i] = order[k]
    order[k] = held


cdef void turn(narrow *row, Py_ssize_t n, Py_ssize_t places) noexcept nogil:
    """Move a row so that what was at `places` comes first: by reversing its parts, then all of it."""
    cdef Py_ssize_t part, first, last
    for part in range(3):
        first = places if part == 1 else 0
        last = places - 1 if part == 0 else n - 1
        while first < last:
            swap(row, first, last)
            first += 1
            last -= 1


# -- mixing --------------------------------------------------------------------------------------------

cdef void deal_rows(narrow *order, narrow *kinds, const int64_t *firsts, const int64_t *widths,
                    Py_ssize_t nstrata, uint64_t step, uint64_t state) noexcept nogil:
    cdef Py_ssize_t stratum, width, first, end, i, k, row, places
    cdef bint paired
    for stratum in range(nstrata):
        width = widths[stratum]
        row = firsts[stratum]
        while row < firsts[stratum + 1] and width > 1:
            # The first two rows are shuffled together, the others each on its own.
            paired = row == firsts[stratum] and firsts[stratum + 1] - row >= 2 * width
            if paired:
                places = <Py_ssize_t>(step % <uint64_t>width)
                turn(order + row + width, width, places)
                if kinds != NULL:
                    turn(kinds + row + width, width, places)
            first = 0
            while first < width:
                end = first + 1 if kinds != NULL else width
                while end < width and kinds[row + end] == kinds[row + first] and (
                        not paired or kinds[row + width + end] == kinds[row + width + first]):
                    end += 1
                for i in range(end - 1, first, -1):
                    k = first + <Py_ssize_t>below(&state, i - first + 1)
                    swap(order, row + i, row + k)
                    if paired:
                        swap(order, row + width + i, row + width + k)
                first = end
            row += width
            if paired:
                row += width
            elif kinds != NULL and row > firsts[stratum] + width:
                # So that one source's elements don't fall to the same batches in all rows.
                turn(order + row - width, width, <Py_ssize_t>below(&state, width))


def deal(cnp.ndarray order not None, cnp.ndarray kinds, cnp.ndarray firsts not None,
         cnp.ndarray widths not None, uint64_t step, uint64_t state):
    """Shuffle the rows of each stratum in place.

    Parameters
    ----------
    order : ndarray of int32 or int64
        The items to shuffle.
    kinds : ndarray or None
        Of each item of `order` its source, of the same dtype: only items of one source change places in a
        row, which is turned besides. So compositions of batches change along a stratum in few places, and can
        be spread evenly. It is changed.
    firsts, widths : ndarray of int64
        Strata, as those of `strata`.
    step : int
        By how many places the second row of a stratum is turned against the first one.
    state : int
        The state of a generator.
    """
    cdef Py_ssize_t n = cnp.PyArray_SIZE(order), nstrata = cnp.PyArray_SIZE(widths), i
    cdef const int64_t *begins
    cdef const int64_t *wide
    check_row(order)
    check_row(firsts)
    check_row(widths)
    if cnp.PyArray_ITEMSIZE(firsts) != 8 or cnp.PyArray_ITEMSIZE(widths) != 8 or len(firsts) != nstrata + 1:
        raise TypeError("firsts and widths must be rows of int64, and firsts one longer")
    if kinds is not None:
        check_row(kinds)
        if len(kinds) != n or cnp.PyArray_ITEMSIZE(kinds) != cnp.PyArray_ITEMSIZE(order):
            raise TypeError("kinds must be a row like order")
    begins, wide = <const int64_t *>cnp.PyArray_DATA(firsts), <const int64_t *>cnp.PyArray_DATA(widths)
    for i in range(nstrata):
        if not (0 <= begins[i] <= begins[i + 1] <= n and wide[i] > 0) or (
                (begins[i + 1] - begins[i]) % wide[i]):
            raise ValueError(f"stratum {i} is not whole rows")
    with nogil:
        if cnp.PyArray_ITEMSIZE(order) == 4:
            deal_rows(<int32_t *>cnp.PyArray_DATA(order),
                      <int32_t *>(cnp.PyArray_DATA(kinds) if kinds is not None else NULL),
                      begins, wide, nstrata, step, state)
        else:
            deal_rows(<int64_t *>cnp.PyArray_DATA(order),
                      <int64_t *>(cnp.PyArray_DATA(kinds) if kinds is not None else NULL),
                      begins, wide, nstrata, step, state)


cdef int check_row(cnp.ndarray order) except -1:
    given = <object>order
    if given.ndim != 1 or given.dtype not in (np.int32, np.int64) or not given.flags.carray:
        raise TypeError(f"order must be a row of int32 or int64, got {given.dtype} of shape {given.shape}")
    return 0


cdef void swap_last(narrow *order, Py_ssize_t n, Py_ssize_t low, Py_ssize_t count,
                    uint64_t state) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(n - 1, n - 1 - count, -1):
        swap(order, i, low + <Py_ssize_t>below(&state, i - low + 1))


def exchange_last(cnp.ndarray order not None, Py_ssize_t low, Py_ssize_t count, uint64_t state):
    """Exchange the last items for as many from `low` on, all as likely, in place."""
    check_row(order)
    cdef Py_ssize_t n = cnp.PyArray_SIZE(order)
    if not 0 <= low <= n - count <= n:
        raise ValueError(f"low is {low} and count is {count}, too much for {n} items")
    with nogil:
        if cnp.PyArray_ITEMSIZE(order) == 4:
            swap_last(<int32_t *>cnp.PyArray_DATA(order), n, low, count, state)
        else:
            swap_last(<int64_t *>cnp.PyArray_DATA(order), n, low, count, state)


def sample(int64_t n, int64_t count, uint64_t state):
    """Return `count` of the integers below n, rising: one of each of as many equal parts of them.

    Each integer is as likely as any other, and the one at i is n * i // count or more. Integers that are in
    two parts aren't taken twice.
    """
    if not 0 <= count <= n < 2**31 and not (0 <= count <= n and n * count <= 2**62):
        raise ValueError(f"can't take {count} of {n} integers")
    cdef cnp.ndarray taken = np.empty(count, np.int64)
    cdef int64_t *into = <int64_t *>cnp.PyArray_DATA(taken)
    cdef int64_t i, first, before, last = -1
    with nogil:
        for i in range(count):
            # Part i is from i * n to (i + 1) * n, where an integer is `count` wide.
            first = i * n // count
            before = i * n - first * count          # so much of the first one is in the part before
            if before and (last == first or below(&state, n - before) >= count - before):
                last = first + 1 + below(&state, n - count + before) // count
            elif before:
                last = first
            else:
                last = first + below(&state, n) // count
            into[i] = last
    return taken


# == pack ================================================================================================
#
# Packing: elements divided among packs of one capacity, in O(n log n) and without the GIL.
#
# ::
#
#     lengths 5 3 2 4 1, capacity 8       by best fit decreasing: 5 and 3, 4 and 2 and 1
#
#     free space of the packs so far      0 2 5 5
#     in blocks that stay sorted          0 2 | 5 5        largest of each block   2 5
#
# Elements go longest first. Best fit takes the pack with the least space that is enough: it is found by
# bisection among the blocks, and then in one of them. First fit takes the first pack with enough space, which
# a tree of largest spaces finds.

cdef enum:
    BLOCK = 256                 # packs in a block, at most

STRATEGIES = ("best_fit_decreasing", "first_fit_decreasing", "next_fit")


# -- packs with space left -----------------------------------------------------------------------------

cdef struct Block:
    Py_ssize_t count            # never 0
    int64_t[BLOCK] spaces        # rising
    int64_t[BLOCK] packs

cdef struct Spaces:
    Block **blocks              # in order of their spaces
    int64_t *largest            # the last space of each
    Py_ssize_t count
    Py_ssize_t room


cdef void free_spaces(Spaces *spaces) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(spaces.count):
        free(spaces.blocks[i])
    free(spaces.blocks)
    free(spaces.largest)


cdef inline Py_ssize_t first_enough(const int64_t *spaces, Py_ssize_t n, int64_t least) noexcept nogil:
    """Return where the first space is that is at least so large, or n."""
    cdef Py_ssize_t low = 0, half
    while n > 1:        # without branches, which nothing could predict
        half = n >> 1
        low += half * <Py_ssize_t>(spaces[low + half - 1] < least)
        n -= half
    return low + <Py_ssize_t>(n and spaces[low] < least)


cdef int64_t take_pack(Spaces *spaces, int64_t least, int64_t *space) noexcept nogil:
    """Take the pack with the least space that is enough, or return -1."""
    cdef Py_ssize_t at = first_enough(spaces.largest, spaces.count, least), i, behind
    cdef Block *block
    cdef int64_t pack
    if at == spaces.count:
        return -1
    block = spaces.blocks[at]
    i = first_enough(block.spaces, block.count, least)
    space[0] = block.spaces[i]
    pack = block.packs[i]
    block.count -= 1
    behind = (block.count - i) * sizeof(int64_t)
    memmove(&block.spaces[i], &block.spaces[i + 1], behind)
    memmove(&block.packs[i], &block.packs[i + 1], behind)
    if block.count:
        spaces.largest[at] = block.spaces[block.count - 1]
        return pack
    free(block)
    spaces.count -= 1
    memmove(&spaces.blocks[at], &spaces.blocks[at + 1], (spaces.count - at) * sizeof(Block *))
    memmove(&spaces.largest[at], &spaces.largest[at + 1], (spaces.count - at) * sizeof(int64_t))
    return pack


cdef bint add_block(Spaces *spaces, Py_ssize_t at) noexcept nogil:
    """Put an empty block before block `at`; return whether there was memory."""
    cdef Py_ssize_t room = 2 * spaces.room + 16
    cdef Block **blocks
    cdef int64_t *largest
    cdef Block *block
    if spaces.count == spaces.room:
        blocks = <Block **>malloc(room * sizeof(Block *))
        largest = <int64_t *>malloc(room * sizeof(int64_t))
        if blocks == NULL or largest == NULL:
            free(blocks)
            free(largest)
            return False
        if spaces.count:
            memcpy(blocks, spaces.blocks, spaces.count * sizeof(Block *))
            memcpy(largest, spaces.largest, spaces.count * sizeof(int64_t))
        free(spaces.blocks)
        free(spaces.largest)
        spaces.blocks, spaces.largest, spaces.room = blocks, largest, room
    block = <Block *>malloc(sizeof(Block))
    if block == NULL:
        return False
    block.count = 0
    memmove(&spaces.blocks[at + 1], &spaces.blocks[at], (spaces.count - at) * sizeof(Block *))
    memmove(&spaces.largest[at + 1], &spaces.largest[at], (spaces.count - at) * sizeof(int64_t))
    spaces.blocks[at] = block
    spaces.count += 1
    return True


cdef bint add_pack(Spaces *spaces, int64_t space, int64_t pack) noexcept nogil:
    """Add a pack with space; return whether there was memory."""
    cdef Py_ssize_t at = first_enough(spaces.largest, spaces.count, space), i, behind
    cdef Block *block
    cdef Block *upper
    if at and at == spaces.count:
        at -= 1
    if not spaces.count:
        if not add_block(spaces, 0):
            return False
    elif spaces.blocks[at].count == BLOCK:
        if not add_block(spaces, at + 1):
            return False
        block, upper = spaces.blocks[at], spaces.blocks[at + 1]
        block.count = upper.count = BLOCK // 2
        memcpy(upper.spaces, &block.spaces[BLOCK // 2], BLOCK // 2 * sizeof(int64_t))
        memcpy(upper.packs, &block.packs[BLOCK // 2], BLOCK // 2 * sizeof(int64_t))
        spaces.largest[at] = block.spaces[BLOCK // 2 - 1]
        spaces.largest[at + 1] = upper.spaces[BLOCK // 2 - 1]
        if spaces.largest[at] < space:
            at += 1
    block = spaces.blocks[at]
    i = first_enough(block.spaces, block.count, space)
    behind = (block.count - i) * sizeof(int64_t)
    memmove(&block.spaces[i + 1], &block.spaces[i], behind)
    memmove(&block.packs[i + 1], &block.packs[i], behind)
    block.spaces[i] = space
    block.packs[i] = pack
    block.count += 1
    spaces.largest[at] = block.spaces[block.count - 1]
    return True


# -- strategies: they write the pack of each element, and return how many packs there are, or -1 ---------

cdef Py_ssize_t best_fit(const narrow *lengths, const narrow *order, Py_ssize_t n, int64_t capacity,
                         int64_t most, narrow *packs, int64_t *counts) noexcept nogil:
    cdef Spaces spaces
    cdef Py_ssize_t i, npacks = 0
    cdef int64_t space = 0, pack, shortest = lengths[n - 1] if n else 0
    memset(&spaces, 0, sizeof(Spaces))
    for i in range(n):
        pack = take_pack(&spaces, lengths[i], &space)
        if pack < 0:
            pack = npacks
            space = capacity
            counts[pack] = 0
            npacks += 1
        packs[order[i]] = <narrow>pack
        counts[pack] += 1
        space -= lengths[i]
        # Else nothing more fits.
        if space >= shortest and counts[pack] < most and not add_pack(&spaces, space, pack):
            npacks = -1
            break
    free_spaces(&spaces)
    return npacks


cdef Py_ssize_t first_fit(const narrow *lengths, const narrow *order, Py_ssize_t n, int64_t capacity,
                          int64_t most, narrow *packs, int64_t *counts) noexcept nogil:
    # A tree of the largest spaces: node k is above nodes 2k and 2k + 1, the leaves are the packs.
    cdef Py_ssize_t i, k, npacks = 0, leaves = 64
    cdef int64_t length
    cdef int64_t *larger
    cdef int64_t *tree = <int64_t *>malloc(2 * leaves * sizeof(int64_t))
    if tree == NULL:
        return -1
    for k in range(2 * leaves):
        tree[k] = -1
    for i in range(n):
        length = lengths[i]
        if tree[1] < length:
            if npacks == leaves:
                larger = <int64_t *>malloc(4 * leaves * sizeof(int64_t))
                if larger == NULL:
                    npacks = -1
                    break
                memcpy(larger + 2 * leaves, tree + leaves, leaves * sizeof(int64_t))
                free(tree)
                tree = larger
                for k in range(3 * leaves, 4 * leaves):
                    tree[k] = -1
                leaves *= 2
                for k in range(leaves - 1, 0, -1):
                    tree[k] = max(tree[2 * k], tree[2 * k + 1])
            k = leaves + npacks
            tree[k] = capacity
            counts[npacks] = 0
            npacks += 1
        else:
            k = 1
            while k < leaves:
                k = 2 * k if tree[2 * k] >= length else 2 * k + 1
        packs[order[i]] = <narrow>(k - leaves)
        counts[k - leaves] += 1
        tree[k] = tree[k] - length if counts[k - leaves] < most else -1
        k //= 2
        while k:
            tree[k] = max(tree[2 * k], tree[2 * k + 1])
            k //= 2
    free(tree)
    return npacks


cdef Py_ssize_t next_fit(const narrow *lengths, Py_ssize_t n, int64_t capacity, int64_t most,
                         narrow *packs, int64_t *counts) noexcept nogil:
    cdef Py_ssize_t i, npacks = 0
    cdef int64_t space = -1
    for i in range(n):
        if lengths[i] > space or counts[npacks - 1] == most:
            counts[npacks] = 0
            npacks += 1
            space = capacity
        space -= lengths[i]
        packs[i] = <narrow>(npacks - 1)
        counts[npacks - 1] += 1
    return npacks


cdef void sort_into_packs(const narrow *packs, Py_ssize_t n, int64_t *begins,
                          int64_t *positions) noexcept nogil:
    """Write the positions pack by pack, rising in each; afterwards each beginning is the pack's end."""
    cdef Py_ssize_t i
    for i in range(n):
        positions[begins[packs[i]]] = i
        begins[packs[i]] += 1


cdef Py_ssize_t choose(int strategy, const narrow *lengths, const narrow *order, Py_ssize_t n,
                       int64_t capacity, int64_t most, narrow *packs, int64_t *counts) noexcept nogil:
    if strategy == 0:
        return best_fit(lengths, order, n, capacity, most, packs, counts)
    if strategy == 1:
        return first_fit(lengths, order, n, capacity, most, packs, counts)
    return next_fit(lengths, n, capacity, most, packs, counts)


def packed(cnp.ndarray lengths not None, int64_t capacity, strategy, int64_t most):
    """Return the positions of lengths 0 to `capacity` pack by pack, and the offsets of the packs among them.

    Positions rise in each pack, which has at most `most` of them. `lengths` is an array of `narrowed`.

    Raises
    ------
    ValueError
        If a length is out of range.
    MemoryError
        If there is not enough memory.
    """
    check_lengths(lengths, capacity)
    cdef Py_ssize_t n = cnp.PyArray_SIZE(lengths), npacks = 0
    cdef bint small = cnp.PyArray_ITEMSIZE(lengths) == 4
    cdef int which = STRATEGIES.index(strategy)
    cdef cnp.ndarray order = np.arange(n, dtype=lengths.dtype)
    cdef cnp.ndarray packs = np.empty_like(order)
    cdef cnp.ndarray counts = np.empty(n, np.int64)
    cdef cnp.ndarray positions = np.empty(n, np.int64)
    cdef cnp.ndarray offsets, begins
    if which < 2:
        lengths, order = sorted_by_keys(lengths, order, True)
    with nogil:
        if small:
            npacks = choose(which, <const int32_t *>cnp.PyArray_DATA(lengths),
                            <const int32_t *>cnp.PyArray_DATA(order), n, capacity, most,
                            <int32_t *>cnp.PyArray_DATA(packs), <int64_t *>cnp.PyArray_DATA(counts))
        else:
            npacks = choose(which, <const int64_t *>cnp.PyArray_DATA(lengths),
                            <const int64_t *>cnp.PyArray_DATA(order), n, capacity, most,
                            <int64_t *>cnp.PyArray_DATA(packs), <int64_t *>cnp.PyArray_DATA(counts))
    if npacks < 0:
        raise MemoryError(f"no memory to pack {n} elements")
    offsets = np.zeros(npacks + 1, np.int64)
    np.cumsum(counts[:npacks], out=offsets[1:])
    begins = offsets[:npacks].copy()
    with nogil:
        if small:
            sort_into_packs(<const int32_t *>cnp.PyArray_DATA(packs), n,
                            <int64_t *>cnp.PyArray_DATA(begins), <int64_t *>cnp.PyArray_DATA(positions))
        else:
            sort_into_packs(<const int64_t *>cnp.PyArray_DATA(packs), n,
                            <int64_t *>cnp.PyArray_DATA(begins), <int64_t *>cnp.PyArray_DATA(positions))
    return positions, offsets


# == rows ================================================================================================
#
# Rows of each element: windows and truncated elements as views, one row of each, running sums.
#
# ::
#
#     elements                 [a b c d e]  [f g]
#     windows of 3, step 2     [a b c] [c d e] [f g]
#     truncated to 2 rows      [a b] [f g]
#     the last row             e g
#
# Views are a table of starts and lengths in the memory of the elements, so nothing is copied. Elements of one
# source share a table if each begins at a whole row of it: after a split, a selection, a load. An element
# whose rows are elsewhere, as one of a split along another axis, gets a table of its own. Where views follow
# each other, their table has offsets alone. Where most elements can't share a table, because they were put in
# one by one or have no whole rows, and each is divided into a few views only, the views are put in one by one
# too: a table takes as long as 20 of them.

cdef extern from "Python.h":
    PyObject *PyErr_Occurred()


cdef struct Cut:
    # Which views an element is divided into.
    Py_ssize_t size             # rows of a view, at most
    Py_ssize_t step             # rows from the beginning of one to that of the next; 0: one of each element
    bint partial                # whether the last one may be shorter
    bint from_end               # whether the only one is at the end of the element

cdef struct Place:
    # Rows of one memory that elements are in.
    char *data                  # of row 0
    Py_ssize_t stride           # bytes from one row to the next
    Py_ssize_t low              # from the first row that is used
    Py_ssize_t high             # to behind the last one
    Py_ssize_t n                # views
    Py_ssize_t at               # where the next one is written


@cython.final
cdef class Region:
    """Elements that share a table of views: of one source, or a single element."""
    cdef Source *source
    cdef Place place
    cdef object alone           # the single element as an array, or None


# -- views ---------------------------------------------------------------------------------------------

@cython.cdivision(True)
cdef inline Py_ssize_t quotient(Py_ssize_t n, Py_ssize_t divisor) noexcept nogil:
    """Return n // divisor of positive numbers: in 32 bits, where they fit, a division takes half the time."""
    if (n | divisor) >> 32 == 0:
        return <uint32_t>n // <uint32_t>divisor
    return n // divisor


@cython.cdivision(True)
cdef inline Py_ssize_t count_views(const Cut *cut, Py_ssize_t length) noexcept nogil:
    cdef Py_ssize_t n
    if cut.step == 0:
        return 1
    if length <= cut.size:
        return length == cut.size or (cut.partial and length > 0)
    # Up to the first one that reaches the end, or, with rows between them, the last one before it.
    n = quotient(length - cut.size - 1, cut.step) + 2
    if cut.step > cut.size:
        n = min(n, quotient(length - 1, cut.step) + 1)
    return n if cut.partial or (n - 1) * cut.step <= length - cut.size else n - 1


@cython.cdivision(True)
cdef bint has_whole_rows(const Source *source) noexcept nogil:
    """Return whether all elements begin at a multiple of their stride along axis 0 from the first one."""
    cdef Py_ssize_t stride = source.shape[source.ndim], pitch
    if source.kind == WHOLE:
        return True
    if source.kind == SHAPED or source.axis > 0:
        return False
    if source.axis == 0 and source.kind != PADDED:
        return True
    pitch = (<const Table *>source).pitch
    return pitch == 0 or (stride != 0 and pitch % stride == 0)


@cython.cdivision(True)
cdef bint place_elements(Elements *block, Place *place, const Cut *cut, int64_t *begins,
                         int64_t *lengths) noexcept nogil:
    """Write in which rows elements are, as long as they are of one source; return whether others follow."""
    cdef Source *source = block.source
    cdef Py_ssize_t i, begin, length, stride = place.stride
    cdef int shift = -1
    for i in range(4):              # most rows have a power of two of bytes
        if stride == 1 << i:
            shift = i
    while True:
        for i in range(block.n):
            length = block.rows[i] if source.axis == 0 else source.shape[0]
            begin = block.data[i] - place.data
            if shift >= 0:
                begin >>= shift
            else:
                begin = begin // stride if stride else 0
            begins[block.first + i] = begin
            lengths[block.first + i] = length
            place.low = min(place.low, begin)
            place.high = max(place.high, begin + length)
            place.n += min(count_views(cut, length), MAX_BYTES - place.n)
        if not read_block(block):
            return False
        if block.source != source:
            return True


cdef Py_ssize_t write_views(Place *place, const Cut *cut, const int64_t *begins, const int64_t *lengths,
                            Py_ssize_t first, Py_ssize_t stop, int64_t *starts, int64_t *sizes,
                            int64_t *order, int64_t *ids, Py_ssize_t done) noexcept nogil:
    """Write the views of elements first to stop; return how many there are then."""
    cdef Py_ssize_t i, skipped, size
    for i in range(first, stop):
        skipped = 0
        for _ in range(count_views(cut, lengths[i])):
            size = min(cut.size, lengths[i] - skipped)
            if cut.from_end:
                skipped = lengths[i] - size
            starts[place.at] = begins[i] - place.low + skipped
            sizes[place.at] = size
            skipped += cut.step
            if order != NULL:
                order[done] = place.at
            if ids != NULL:
                ids[done] = i
            place.at += 1
            done += 1
    return done


cdef bint follow_each_other(const int64_t *starts, const int64_t *sizes, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(n - 1):
        if starts[i] + sizes[i] != starts[i + 1]:
            return False
    return True


cdef Region new_region(Elements *block, Py_ssize_t i, cnp.dtype dtype, bint alone):
    cdef Region region = Region.__new__(Region)
    cdef Piece piece
    region.source = block.source
    region.place.data = block.data[i]
    region.place.stride = block.shape[block.source.ndim]
    region.place.low = region.place.high = region.place.n = region.place.at = 0
    if alone:
        element_of(block, i, &piece)
        region.alone = make_element(&piece, dtype)
        region.place.high = extent(&piece, 0)
    return region


cdef object rows_of(Region region, cnp.dtype dtype):
    """Return all rows that the elements of a region are in, as one array."""
    cdef Source *source = region.source
    cdef Py_ssize_t[MAX_NDIM] shape
    if region.alone is not None:
        return region.alone
    memcpy(shape, source.shape, source.ndim * sizeof(Py_ssize_t))
    shape[0] = region.place.high - region.place.low
    return array_from(<PyObject *>dtype, source.ndim, shape, source.shape + source.ndim,
                      region.place.data + region.place.low * region.place.stride, owner_of(source))


cdef list find_regions(Store *store, cnp.dtype dtype, const Cut *cut, int64_t *begins, int64_t *lengths):
    """Find the rows and the memory of all elements: the first element of each stretch, and its region."""
    cdef Elements block
    cdef Region region
    cdef Py_ssize_t i
    cdef dict known = {}                # regions by the addresses of their sources
    cdef list stretches = []
    cdef bint more
    begin_blocks(&block, store, 0, size_of(store))
    block.mixes = False
    more = read_block(&block)
    while more:
        if block.source.ndim == 0:
            raise ValueError(f"element {block.first} has rank 0 and so no rows")
        if len(stretches) % SIGNALS_EVERY == SIGNALS_EVERY - 1:
            let_others_in()
        if has_whole_rows(block.source):
            region = known.get(<size_t>block.source)
            if region is None:
                region = known[<size_t>block.source] = new_region(&block, 0, dtype, False)
            stretches.append((block.first, region))
            with nogil:
                more = place_elements(&block, &region.place, cut, begins, lengths)
            continue
        for i in range(block.n):
            region = new_region(&block, i, dtype, True)
            stretches.append((block.first + i, region))
            begins[block.first + i] = 0
            lengths[block.first + i] = region.place.high
            region.place.n = count_views(cut, region.place.high)
        more = read_block(&block)
    if block.damaged:
        raise_damaged(store, block.at)
    return stretches


cdef bint are_apart(Store *store, const Cut *cut, Py_ssize_t *total) noexcept nogil:
    """Return whether most elements can't share a table and have few views, and one is longer than a view.

    `total` gets the number of views.
    """
    cdef Elements block
    cdef Py_ssize_t n = size_of(store), i, length, longest = 0, apart = 0
    total[0] = 0
    if has_runs(store):
        for i in range(store.nruns):
            if not has_whole_rows(runs_of(store)[i].source):
                break
        else:
            return False
    begin_blocks(&block, store, 0, n)
    block.mixes = False
    while read_block(&block):
        if block.source.ndim == 0:
            return False
        if block.source.kind == WHOLE or not has_whole_rows(block.source):
            apart += block.n
        for i in range(block.n):
            length = extent_in(&block, i, 0)
            longest = max(longest, length)
            total[0] += min(count_views(cut, length), MAX_BYTES - total[0])
    return (not block.damaged and apart > n - apart and longest > cut.size
            and total[0] <= min(n, MAX_BYTES // VIEWS_APART) * VIEWS_APART)


cdef Store *views_apart(Store *store, cnp.dtype dtype, const Cut *cut, Py_ssize_t total, bint wants_ids,
                        list ids) except NULL:
    """The same views as those of `views_of`, each as a source of its own."""
    cdef Elements block
    cdef Piece piece
    cdef Py_ssize_t i, k, length, skipped, size
    cdef cnp.ndarray numbers = None
    cdef Source *source
    cdef Store *into = new_slots(total)
    cdef Share made
    if into == NULL:
        raise MemoryError(f"no memory for {total} windows")
    made = share_of(into)               # which releases what there is if an array can't be made
    if wants_ids:
        numbers = np.empty(total, np.int64)
        ids.append(numbers)
    begin_blocks(&block, store, 0, size_of(store))
    block.mixes = False
    while read_block(&block):
        for i in range(block.n):
            element_of(&block, i, &piece)
            length = extent(&piece, 0)
            for k in range(count_views(cut, length)):
                skipped = k * cut.step
                size = min(cut.size, length - skipped)
                if cut.from_end:
                    skipped = length - size
                if block.source.axis == 0:
                    piece.data = block.data[i] + skipped * strides_of(&piece)[0]
                    piece.length = size
                    source = take_whole(make_element(&piece, dtype))
                else:
                    source = take_whole(make_element(&piece, dtype)[skipped:skipped + size])
                if wants_ids:
                    (<int64_t *>cnp.PyArray_DATA(numbers))[into.lo] = block.first + i
                into.slots[into.lo] = Slot(source, 0)
                into.lo += 1
                if into.lo % SIGNALS_EVERY == 0:
                    let_others_in()
    return retained(made.store)


cdef Store *views_of(Store *store, cnp.dtype dtype, const Cut *cut, bint wants_ids, list ids) except NULL:
    """The views that elements are divided into; `ids` gets an array of the element that each belongs to."""
    cdef Py_ssize_t n = size_of(store), i, first, stop, done = 0, at = 0
    cdef cnp.ndarray begins = np.empty(n, np.int64)
    cdef cnp.ndarray lengths = np.empty(n, np.int64)
    cdef cnp.ndarray starts, sizes, order = None, numbers = None
    cdef int64_t *orders = NULL
    cdef int64_t *elements = NULL
    cdef Region region
    cdef TableOwner owner
    cdef Store *into
    cdef Share joined
    cdef list stretches
    if are_apart(store, cut, &at):
        return views_apart(store, dtype, cut, at, wants_ids, ids)
    at = 0
    stretches = find_regions(store, dtype, cut, <int64_t *>cnp.PyArray_DATA(begins),
                             <int64_t *>cnp.PyArray_DATA(lengths))
    cdef dict regions = {}              # in the order in which they come first
    cdef list owners = []
    for _, region in stretches:
        regions[id(region)] = region
    total = 0
    for region in regions.values():
        region.place.at = total if total < MAX_BYTES else 0
        total += region.place.n
    if total > MAX_BYTES // 16:
        raise MemoryError(f"no memory for {total} windows of {n} elements")
    if total == n and (n == 0 or (<object>lengths).max() <= cut.size):      # each is a view of itself
        if wants_ids:
            ids.append(np.arange(n))
        return retained(store)
    starts, sizes = np.empty(total + 1, np.int64), np.empty(total, np.int64)
    if len(stretches) > len(regions):
        order = np.empty(total, np.int64)
        orders = <int64_t *>cnp.PyArray_DATA(order)
    if wants_ids:
        numbers = np.empty(total, np.int64)
        elements = <int64_t *>cnp.PyArray_DATA(numbers)
        ids.append(numbers)
    for i in range(len(stretches)):
        first, region = stretches[i]
        stop = stretches[i + 1][0] if i + 1 < len(stretches) else n
        with nogil:
            done = write_views(&region.place, cut, <int64_t *>cnp.PyArray_DATA(begins),
                               <int64_t *>cnp.PyArray_DATA(lengths), first, stop,
                               <int64_t *>cnp.PyArray_DATA(starts), <int64_t *>cnp.PyArray_DATA(sizes),
                               orders, elements, done)
    for region in regions.values():
        if region.place.n == 0:
            continue
        first, stop = region.place.at - region.place.n, region.place.at
        rows = rows_of(region, dtype)
        if region.place.n == total and follow_each_other(<int64_t *>cnp.PyArray_DATA(starts),
                                                         <int64_t *>cnp.PyArray_DATA(sizes), total):
            starts[total] = starts[total - 1] + sizes[total - 1]
            owners.append(offsets_table(rows, 0, starts, 0, len(rows), True))
        else:
            owners.append(views_table(rows, 0, starts[first:stop], sizes[first:stop]))
    into = new_runs(len(owners))
    if into != NULL:
        for owner in owners:
            add_run(into, &owner.table.source, 0, 1, owner.table.n)
        into = finished(into)
    if into == NULL:
        raise MemoryError(f"no memory for {total} windows")
    if order is not None:
        joined = share_of(into)
        into = NULL
        raise_for(select(joined.store, order, &into, &at), None, total)
    return into


cdef Store *windows_of(Store *store, cnp.dtype dtype, Py_ssize_t size, Py_ssize_t step, bint partial,
                       bint wants_ids, list ids) except NULL:
    cdef Cut cut = Cut(size, step, partial, False)
    return views_of(store, dtype, &cut, wants_ids, ids)


cdef Store *truncated(Store *store, cnp.dtype dtype, Py_ssize_t size, bint from_end) except NULL:
    cdef Cut cut = Cut(size, 0, True, from_end)
    return views_of(store, dtype, &cut, False, None)


# -- one row of each -----------------------------------------------------------------------------------

ctypedef fused sized:
    # Rows of so many bytes.
    int8_t
    int16_t
    int32_t
    int64_t


cdef bint pick_rows(const Store *store, Py_ssize_t position, sized *out) noexcept nogil:
    """Write one row of each element that is between our own offsets; return False if one lacks it."""
    cdef Py_ssize_t n = size_of(store), i, row, low, step
    cdef const int64_t *offsets = owned_offsets(store, 0, n)
    cdef const Table *table
    cdef const char *data
    cdef Span span
    first_span(store, 0, n, &span)
    table = <const Table *>span.source
    data, low, step = table.source.data, table.low, table.step
    if position < 0:
        for i in range(n):
            row = offsets[i + 1] + position - low
            if row < offsets[i] - low:
                return False
            memcpy(&out[i], data + row * step, sizeof(sized))
    else:
        for i in range(n):
            row = offsets[i] + position - low
            if row >= offsets[i + 1] - low:
                return False
            memcpy(&out[i], data + row * step, sizeof(sized))
    return True


cdef inline void copy_bytes(char *out, const char *data, Py_ssize_t nbytes) noexcept nogil:
    # Calls of memcpy with a known size are single instructions.
    if nbytes == 8:
        memcpy(out, data, 8)
    elif nbytes == 4:
        memcpy(out, data, 4)
    elif nbytes == 2:
        memcpy(out, data, 2)
    elif nbytes == 1:
        out[0] = data[0]
    else:
        memcpy(out, data, nbytes)


cdef Status copy_rows(Elements *block, Py_ssize_t position, char *out, const Py_ssize_t *shape,
                      const Py_ssize_t *strides, int ndim, const char *empty, Py_ssize_t *at) noexcept nogil:
    """Write one row of each element, or `empty` unless it is NULL; `at` is the element at fault."""
    cdef Piece piece
    cdef Py_ssize_t i, k, n, row, length, nbytes, itemsize, stride
    cdef const char *data
    cdef int axis
    cdef bint together, along_rows
    while read_block(block):
        at[0] = block.first
        if block.source.ndim != ndim:
            return RANK_DIFFERS
        itemsize = nbytes = block.source.itemsize
        together = True
        for axis in range(ndim - 1, 0, -1):
            together &= block.shape[ndim + axis] == nbytes or shape[axis - 1] == 1
            nbytes *= shape[axis - 1]
        # In variables of its own: as far as a compiler knows, the copies below write to the block.
        n, stride, along_rows = block.n, block.shape[ndim], block.source.axis == 0
        for i in range(n):
            if i == 0 or not along_rows:            # else only the lengths differ
                element_of(block, i, &piece)
                for axis in range(1, ndim):
                    if extent(&piece, axis) != shape[axis - 1]:
                        at[0] = block.first + i
                        return SHAPE_DIFFERS
            length = block.rows[i] if along_rows else block.shape[0]
            row = position if position >= 0 else position + length
            if 0 <= row < length:
                data = block.data[i] + row * stride
                if together:
                    copy_bytes(out, data, nbytes)
                else:
                    copy_strided(out, strides, data, block.shape + ndim + 1, shape, ndim - 1, itemsize)
            elif empty == NULL:
                at[0] = block.first + i
                return OUT_OF_RANGE
            else:
                for k in range(nbytes // itemsize):
                    memcpy(out + k * itemsize, empty, itemsize)
            out += nbytes
    at[0] = block.at
    return DAMAGED if block.damaged else OK


cdef bint pick_numbers(Store *store, Py_ssize_t position, const Source *source, cnp.ndarray rows) noexcept:
    """Write one number of each element of rank 1; return False if that is not possible."""
    cdef char *out = cnp.PyArray_BYTES(rows)
    cdef bint done = False
    if source.ndim != 1 or not -MAX_BYTES // 2 < position < MAX_BYTES // 2:     # no sum overflows
        return False
    if cnp.PyArray_SIZE(rows) < RELEASE_FROM:
        return pick_sized(store, position, source.itemsize, out)
    with nogil:
        done = pick_sized(store, position, source.itemsize, out)
    return done


cdef bint pick_sized(Store *store, Py_ssize_t position, Py_ssize_t itemsize, char *out) noexcept nogil:
    if itemsize == 1:
        return pick_rows(store, position, <int8_t *>out)
    if itemsize == 2:
        return pick_rows(store, position, <int16_t *>out)
    if itemsize == 4:
        return pick_rows(store, position, <int32_t *>out)
    return itemsize == 8 and pick_rows(store, position, <int64_t *>out)


cdef bint are_equally_far(const Store *store, Py_ssize_t n) noexcept nogil:
    """Return whether elements are of one shape, at equal distances."""
    cdef Span span
    cdef const Table *table
    first_span(store, 0, n, &span)
    table = <const Table *>span.source
    return span.n == n and span.source.kind == EVEN and (
        table.last == table.source.length or max(span.first, span.first + (n - 1) * span.step) < table.n - 1)


cdef object rows_at(Store *store, cnp.dtype dtype, Py_ssize_t position, cnp.ndarray empty, object given):
    """Return one row of each element as an array; `empty` is the value where there is none, or None."""
    cdef Py_ssize_t n = size_of(store), at = 0
    cdef Py_ssize_t[MAX_NDIM] shape
    cdef Py_ssize_t[2 * MAX_NDIM] dims
    cdef const char *value = NULL if empty is None else cnp.PyArray_BYTES(empty)
    cdef bint strings = dtype.type_num == cnp.NPY_OBJECT
    cdef Elements block
    cdef Piece first
    cdef Span span
    cdef Status status
    cdef cnp.ndarray rows
    cdef int axis, ndim
    shape[0] = n
    if n == 0:
        return new_array(dtype, 1, shape)
    if not read_one(store, 0, &first, dims):
        raise_damaged(store, 0)
    ndim = first.source.ndim
    if ndim == 0:
        raise ValueError("element 0 has rank 0 and so no rows")
    for axis in range(1, ndim):
        shape[axis] = extent(&first, axis)
    at = position if position >= 0 else position + extent(&first, 0)
    if are_equally_far(store, n) and 0 <= at < extent(&first, 0):
        first_span(store, 0, n, &span)
        dims[0] = (<Table *>span.source).pitch * span.step
        memcpy(&dims[1], &strides_of(&first)[1], (ndim - 1) * sizeof(Py_ssize_t))
        return array_from(<PyObject *>dtype, ndim, shape, dims, first.data + at * strides_of(&first)[0],
                          owner_of(span.source)).copy()
    rows = new_array(dtype, ndim, shape)
    if not strings and owned_offsets(store, 0, n) != NULL and (
            pick_numbers(store, position, first.source, rows)):
        return rows
    begin_blocks(&block, store, 0, n)
    block.fetches = True
    if strings or not is_worth_releasing(store):
        status = copy_rows(&block, position, cnp.PyArray_BYTES(rows), &shape[1],
                           <Py_ssize_t *>cnp.PyArray_STRIDES(rows) + 1, ndim, value, &at)
    else:
        with nogil:
            status = copy_rows(&block, position, cnp.PyArray_BYTES(rows), &shape[1],
                               <Py_ssize_t *>cnp.PyArray_STRIDES(rows) + 1, ndim, value, &at)
    if strings and status != OK:
        memset(cnp.PyArray_DATA(rows), 0, cnp.PyArray_NBYTES(rows))     # pointers that nobody has counted
    if status == OUT_OF_RANGE:
        read_one(store, at, &first, dims)
        raise IndexError(f"element {at} has shape {shape_of(&first)} and so no row {shown_number(given)}: pass "
                         "empty= for its result")
    if status == DAMAGED:
        raise_damaged(store, at)
    if status != OK:
        read_one(store, at, &first, dims)
        given = shape_of(&first)
        read_one(store, 0, &first, dims)
        raise ValueError(f"element {at} has shape {given}, but element 0 has shape {shape_of(&first)}: rows "
                         f"of different shapes don't make an array{unless_empty_list(given, shape_of(&first))}")
    if strings:
        count_strings(rows)
    return rows


# -- running sums --------------------------------------------------------------------------------------

cdef Status accumulate_rows(Elements *block, const Loop *loop) noexcept nogil:
    """Replace each row by what NumPy's loop makes of the row before and it; elements are in C order."""
    cdef Py_ssize_t i, r, row, rows
    cdef char *arguments[3]
    cdef Py_ssize_t[3] steps
    cdef Py_ssize_t n
    while read_block(block):
        steps[0] = steps[1] = steps[2] = block.source.itemsize
        if block.source.ndim == 0:
            return RANK_DIFFERS
        row = block.row if block.source.axis == 0 else 0
        for i in range(block.n):
            rows = block.rows[i]
            arguments[0] = block.data[i]
            if row == block.source.itemsize and rows > 1:
                arguments[1] = arguments[2] = block.data[i] + row
                n = rows - 1
                loop.function(arguments, &n, steps, loop.data)
                continue
            n = row // block.source.itemsize
            for r in range(1, rows if n else 0):
                arguments[0] = block.data[i] + (r - 1) * row
                arguments[1] = arguments[2] = block.data[i] + r * row
                loop.function(arguments, &n, steps, loop.data)
    return OK


cdef int raise_what_is_set() except -1:
    return -1 if PyErr_Occurred() != NULL else 0


cdef Store *accumulated(Store *store, cnp.dtype dtype, object ufunc, cnp.dtype wanted) except NULL:
    """Elements of the shapes of a store's, each accumulated along axis 0 by a ufunc, in new memory."""
    cdef object items = compact_items(store, dtype).astype(wanted, copy=False)
    cdef Share result = share_of(store_like(items, store))
    cdef Loop loop
    cdef Elements block
    cdef Piece piece
    cdef Status status = OK
    cdef Py_ssize_t i, first, last, at = 0
    begin_blocks(&block, result.store, 0, size_of(result.store))
    if find_loop(ufunc, wanted.type_num, &loop):
        if is_worth_releasing(result.store):
            with nogil:
                status = accumulate_rows(&block, &loop)
        else:
            status = accumulate_rows(&block, &loop)
        at = block.first
        raise_what_is_set()
    else:
        while read_block(&block):
            at = block.first
            if block.source.ndim == 0:
                status = RANK_DIFFERS
                break
            for i in range(block.n):
                element_of(&block, i, &piece)
                first = (piece.data - cnp.PyArray_BYTES(items)) // cnp.PyArray_ITEMSIZE(items)
                last = first + piece_nbytes(&piece) // cnp.PyArray_ITEMSIZE(items)
                part = items[first:last].reshape(shape_of(&piece))
                part[...] = ufunc.accumulate(part, 0, wanted)
            let_others_in()
    if status != OK:
        raise ValueError(f"element {at} has rank 0 and so no rows")
    return retained(result.store)


# -- masks ---------------------------------------------------------------------------------------------

cdef Py_ssize_t read_mask(const char *mask, Py_ssize_t n, Py_ssize_t width, bint left,
                          int64_t *lengths) noexcept nogil:
    """Write how many ones each row has; return the first row whose ones are not together, or n."""
    cdef Py_ssize_t i, k
    cdef const char *end
    for i in range(n):
        k = 0
        if left:
            while k < width and mask[k] == 0:
                k += 1
            lengths[i] = width - k
            if width > k and memchr(mask + k, 0, width - k) != NULL:
                return i
        else:
            end = <const char *>memchr(mask, 0, width) if width else NULL
            k = end - mask if end != NULL else width
            lengths[i] = k
            if width - k > 1 and memcmp(mask + k, mask + k + 1, width - k - 1):
                return i
        mask += width
    return n


cdef object lengths_of_mask(cnp.ndarray mask, tuple shape, bint left):
    """Return the lengths of the elements of a padded batch of a shape from its mask."""
    cdef object given = mask
    cdef cnp.ndarray lengths
    cdef Py_ssize_t n, width, at
    if given.dtype.kind not in "biu":
        raise TypeError(f"a mask must have bools, or the integers 0 and 1, got dtype {given.dtype}")
    if given.shape != shape[:2]:
        raise ValueError(f"the mask has shape {given.shape}, expected {shape[:2]} as the batch")
    if given.dtype.kind != "b":
        if given.size and (given.max() > 1 or given.min() < 0):
            row, column = np.argwhere((given != 0) & (given != 1))[0].tolist()
            raise ValueError(f"mask[{row}, {column}] is {shown_number(given[row, column])}, expected 0 or 1")
        given = given != 0
    mask = np.ascontiguousarray(given)
    n, width = shape[:2]
    lengths = np.empty(n, np.int64)
    with nogil:
        at = read_mask(cnp.PyArray_BYTES(mask), n, width, left, <int64_t *>cnp.PyArray_DATA(lengths))
    if at < n:
        where, other = ("end", "right") if left else ("beginning", "left")
        raise ValueError(f"mask[{at}] is not ones at its {where} and zeros elsewhere: pass side={other!r} if "
                         "the padding is on the other side; other gaps can't be left out")
    return lengths
