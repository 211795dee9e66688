"""Which elements stand in a file, and where: what pickle sends in place of their data.

::

    owner ──memory──▶ Stored(memory, origin, first)        pieces of its block: first, first + 1, …

A piece in the block of an owner whose memory is `Stored` is an element as it stands in the file, in whatever
sequence it is. Whatever is made of such elements, a view put in again, a copy, has an owner of its own, whose
memory never is.
"""

from cpython.bytes cimport PyBytes_AS_STRING
from libc.stdint cimport int64_t
cimport numpy as cnp
import numpy as np

from seqcore.core.buffer cimport GapBuffer, release, size_of, slot_at
from seqcore.core.owner cimport Owner, Stored, owner_of
from seqcore.core.pieces cimport Piece, Source
from seqcore.core.sequence cimport TensorSequence

cnp.import_array()


cdef Py_ssize_t number_of(Owner owner, const Piece *piece) noexcept:
    """Which of its owner's pieces one is."""
    if piece == &owner.whole:
        return 0
    return piece - <const Piece *>PyBytes_AS_STRING(owner.more)


def mark_origin(TensorSequence sequence not None, origin, Py_ssize_t first):
    """Remember of the elements of a sequence that nobody else has that they stand in a file from `first` on.

    Elements that share pieces, or are not in the order of their block, are left as they are.
    """
    cdef GapBuffer *buffer = sequence.snapshot()
    cdef Source *known = NULL
    cdef Piece *piece
    cdef Owner owner = None
    cdef Stored stored
    cdef Py_ssize_t i, start = 0
    cdef list owners = []
    try:
        for i in range(size_of(buffer)):
            piece = slot_at(buffer, i)[0]
            if piece.source != known:
                known = piece.source
                owner = <Owner>owner_of(known)
                start = i
                if type(owner.memory) is Stored:
                    return
                owners.append((owner, i))
            if number_of(owner, piece) != i - start:
                return
        if len({id(one) for one, _ in owners}) < len(owners):
            return
        for one, i in owners:
            owner = <Owner>one
            stored = Stored.__new__(Stored)
            stored.memory = owner.memory
            stored.origin = origin
            stored.first = first + i
            owner.memory = stored
    finally:
        release(buffer)


cdef object origins_of(GapBuffer *buffer):
    """(files, which of them each element is in or -1, where in it), or None if none is in any."""
    cdef Py_ssize_t n = size_of(buffer), i, first = 0, which = -1
    cdef Source *known = NULL
    cdef Piece *piece
    cdef Owner owner = None
    cdef cnp.ndarray whiches = None
    cdef cnp.ndarray positions = None
    cdef int64_t *of_file = NULL
    cdef int64_t *position = NULL
    cdef list origins = []
    cdef dict numbers = {}
    for i in range(n):
        piece = slot_at(buffer, i)[0]
        if piece.source != known:
            known = piece.source
            owner = <Owner>owner_of(known)
            which = -1
            if type(owner.memory) is Stored:
                if positions is None:
                    positions = np.empty(n, np.int64)
                    whiches = np.empty(n, np.int64)
                    position = <int64_t *>cnp.PyArray_DATA(positions)
                    of_file = <int64_t *>cnp.PyArray_DATA(whiches)
                    for k in range(i):
                        of_file[k] = -1
                        position[k] = 0
                origin = (<Stored>owner.memory).origin
                first = (<Stored>owner.memory).first
                which = numbers.setdefault(id(origin), len(origins))
                if which == len(origins):
                    origins.append(origin)
        if positions is not None:
            of_file[i] = which
            position[i] = first + number_of(owner, piece) if which >= 0 else 0
    return None if positions is None else (origins, whiches, positions)
