"""Packing: elements divided among packs of one capacity, in O(n log capacity) and without the GIL.

::

    lengths 5 3 2 4 1, capacity 8       by best fit decreasing: 5 and 3, 4 and 2 and 1

    free space of the packs so far      0 2 5 5
    spaces that occur                   a bit for each, a bit for each 64 of these with one set, …
    chains                              2: pack 1      5: packs 3, 2

Elements go longest first. Best fit takes the pack with the least space that is enough,
which is the next set bit. First fit takes the first pack with enough space, which a tree of largest spaces
finds. For large capacities the words of bits are in a hash table, because most of them would be empty.
"""

from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset
cimport numpy as cnp
import numpy as np

from seqcore.core.order cimport check_lengths, narrow, shuffle_equal, sorted_by_keys

cnp.import_array()

cdef extern from *:
    """
    #if defined(_MSC_VER)
    #include <intrin.h>
    static inline int seqcore_lowest_bit(unsigned long long word)
    { unsigned long at; _BitScanForward64(&at, word); return (int)at; }
    #else
    #define seqcore_lowest_bit(word) __builtin_ctzll(word)
    #endif
    """
    int lowest_bit "seqcore_lowest_bit"(uint64_t word) noexcept nogil

cdef enum:
    LEVELS = 11                 # of words of 64 bits, which cover 63 bits
    CHAINS = 15                 # in the place of a level: the chains of packs
    LEVEL_BITS = 58             # of a key, below the bits of its level; words of levels are fewer than 2⁵⁷
    DENSE = 1 << 20             # the largest capacity for which all words are in an array, whatever n is

STRATEGIES = ("best_fit_decreasing", "first_fit_decreasing", "next_fit")


# -- the spaces that occur -----------------------------------------------------------------------------

cdef struct Spaces:
    int depth                   # levels of words
    uint64_t *words[16]         # of each level, and of the chains; NULL with a hash table
    uint64_t *keys              # the hash table: keys, 0 where there is none, and the words
    uint64_t *values
    size_t mask
    size_t used
    int64_t *behind             # of each pack: the next one in its chain, plus 1


cdef bint make_spaces(Spaces *spaces, int64_t capacity, Py_ssize_t n) noexcept nogil:
    """Set up an empty set of spaces up to the capacity; whether there was memory."""
    cdef int level
    cdef bint fine = True
    memset(spaces, 0, sizeof(Spaces))
    spaces.depth = 1
    while spaces.depth < LEVELS and capacity >> (6 * spaces.depth):
        spaces.depth += 1
    spaces.behind = <int64_t *>malloc(max(n, 1) * sizeof(int64_t))
    fine = spaces.behind != NULL
    if capacity <= DENSE or capacity // 16 <= n:
        for level in range(spaces.depth):
            spaces.words[level] = <uint64_t *>calloc((capacity >> (6 * (level + 1))) + 2, sizeof(uint64_t))
            fine = fine and spaces.words[level] != NULL
        spaces.words[CHAINS] = <uint64_t *>calloc(capacity + 1, sizeof(uint64_t))
        return fine and spaces.words[CHAINS] != NULL
    spaces.mask = 1023
    spaces.keys = <uint64_t *>calloc(spaces.mask + 1, sizeof(uint64_t))
    spaces.values = <uint64_t *>malloc((spaces.mask + 1) * sizeof(uint64_t))
    return fine and spaces.keys != NULL and spaces.values != NULL


cdef void free_spaces(Spaces *spaces) noexcept nogil:
    cdef int level
    for level in range(16):
        free(spaces.words[level])
    free(spaces.keys)
    free(spaces.values)
    free(spaces.behind)


cdef inline uint64_t key_of(int level, uint64_t index) noexcept nogil:
    """Return the key of a word, another one for each: a chain has 63 bits, a level's word one bit above."""
    if level == CHAINS:
        return index + 1
    return (<uint64_t>1 << 63) | (<uint64_t>(level + 1) << LEVEL_BITS) | index


cdef inline size_t place_of(const Spaces *spaces, uint64_t key) noexcept nogil:
    """Return where a key is in the hash table, or where it would be put."""
    cdef uint64_t mixed = key * <uint64_t>0x9E3779B97F4A7C15
    cdef size_t place = <size_t>(mixed ^ (mixed >> 32)) & spaces.mask
    while spaces.keys[place] and spaces.keys[place] != key:
        place = (place + 1) & spaces.mask
    return place


cdef bint make_room(Spaces *spaces) noexcept nogil:
    """Have room for the words that one change can add; whether there was memory."""
    cdef Spaces larger
    cdef size_t i, place
    if spaces.keys == NULL or spaces.used + LEVELS + 1 <= spaces.mask // 2:
        return True
    larger = spaces[0]
    larger.mask = 2 * spaces.mask + 1
    larger.keys = <uint64_t *>calloc(larger.mask + 1, sizeof(uint64_t))
    larger.values = <uint64_t *>malloc((larger.mask + 1) * sizeof(uint64_t))
    if larger.keys == NULL or larger.values == NULL:
        free(larger.keys)
        free(larger.values)
        return False
    larger.used = 0
    for i in range(spaces.mask + 1):
        if spaces.keys[i] and spaces.values[i]:         # empty words are left out
            place = place_of(&larger, spaces.keys[i])
            larger.keys[place] = spaces.keys[i]
            larger.values[place] = spaces.values[i]
            larger.used += 1
    free(spaces.keys)
    free(spaces.values)
    spaces[0] = larger
    return True


cdef inline uint64_t read_word(const Spaces *spaces, int level, uint64_t index) noexcept nogil:
    cdef size_t place
    if spaces.keys == NULL:
        return spaces.words[level][index]
    place = place_of(spaces, key_of(level, index))
    return spaces.values[place] if spaces.keys[place] else 0


cdef inline uint64_t *word_of(Spaces *spaces, int level, uint64_t index) noexcept nogil:
    """A word to write to; there is room for it."""
    cdef uint64_t key
    cdef size_t place
    if spaces.keys == NULL:
        return &spaces.words[level][index]
    key = key_of(level, index)
    place = place_of(spaces, key)
    if not spaces.keys[place]:
        spaces.keys[place] = key
        spaces.values[place] = 0
        spaces.used += 1
    return &spaces.values[place]


cdef void add_pack(Spaces *spaces, uint64_t space, int64_t pack) noexcept nogil:
    cdef uint64_t *word = word_of(spaces, CHAINS, space)
    cdef uint64_t before = word[0]
    cdef int level
    spaces.behind[pack] = <int64_t>before
    word[0] = <uint64_t>pack + 1
    if before:
        return
    for level in range(spaces.depth):
        word = word_of(spaces, level, space >> 6)
        before = word[0]
        word[0] = before | (<uint64_t>1 << (space & 63))
        if before:
            return
        space >>= 6


cdef int64_t take_pack(Spaces *spaces, uint64_t space) noexcept nogil:
    """Take a pack with a space that occurs."""
    cdef uint64_t *word = word_of(spaces, CHAINS, space)
    cdef int64_t pack = <int64_t>word[0] - 1
    cdef int level
    word[0] = <uint64_t>spaces.behind[pack]
    if word[0]:
        return pack
    for level in range(spaces.depth):
        word = word_of(spaces, level, space >> 6)
        word[0] &= ~(<uint64_t>1 << (space & 63))
        if word[0]:
            break
        space >>= 6
    return pack


cdef int64_t least_space(const Spaces *spaces, uint64_t least) noexcept nogil:
    """The least space of a pack that is at least so large, or -1."""
    cdef uint64_t word
    cdef int level, down
    for level in range(spaces.depth):
        word = read_word(spaces, level, least >> 6) & (~<uint64_t>0 << (least & 63))
        if word:
            least = (least & ~<uint64_t>63) + lowest_bit(word)
            for down in range(level - 1, -1, -1):
                least = least * 64 + lowest_bit(read_word(spaces, down, least))
            return <int64_t>least
        least = (least >> 6) + 1
    return -1


# -- strategies: they write the pack of each element, and return how many packs there are, or -1 ---------

cdef Py_ssize_t best_fit(const narrow *lengths, const narrow *order, Py_ssize_t n, int64_t capacity,
                         int64_t most, narrow *packs, int64_t *counts) noexcept nogil:
    cdef Spaces spaces
    cdef Py_ssize_t i, npacks = 0
    cdef int64_t space, pack, length, shortest = lengths[n - 1] if n else 0
    if not make_spaces(&spaces, capacity, n):
        free_spaces(&spaces)
        return -1
    for i in range(n):
        length = lengths[i]
        if not make_room(&spaces):
            npacks = -1
            break
        space = least_space(&spaces, length)
        if space < 0:
            pack = npacks
            space = capacity
            counts[pack] = 0
            npacks += 1
        else:
            pack = take_pack(&spaces, space)
        packs[order[i]] = <narrow>pack
        counts[pack] += 1
        space -= length
        if space >= shortest and counts[pack] < most:   # else nothing more fits
            add_pack(&spaces, space, pack)
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


def packed(cnp.ndarray lengths not None, int64_t capacity, strategy, int64_t most, bits=None):
    """Return the positions of lengths 0 to `capacity` pack by pack, and the offsets of the packs among them.

    Positions rise in each pack, which has at most `most` of them. `lengths` is an array of `narrowed`. With a
    bit generator of NumPy, those of one length come in random order.

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
        if bits is not None:
            shuffle_equal(lengths, order, bits)
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
