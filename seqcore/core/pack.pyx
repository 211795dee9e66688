"""Packing: elements divided among packs of one capacity, in O(n log n) and without the GIL.

::

    lengths 5 3 2 4 1, capacity 8       by best fit decreasing: 5 and 3, 4 and 2 and 1

    free space of the packs so far      0 2 5 5
    in blocks that stay sorted          0 2 | 5 5        largest of each block   2 5

Elements go longest first. Best fit takes the pack with the least space that is enough: it is found by
bisection among the blocks, and then in one of them. First fit takes the first pack with enough space, which
a tree of largest spaces finds.
"""

from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memmove, memset
cimport numpy as cnp
import numpy as np

from seqcore.core.order cimport check_lengths, narrow, sorted_by_keys

cnp.import_array()

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
