# `cimport seqcore`: what other compiled extensions call. The functions are described in core/embedding.pxd
# and, with a worked example, in docs/c-api.md. Every other .pxd file is seqcore's own and may change.

from seqcore.core.embedding cimport (
    MAX_NDIM, Snapshot,
    is_sequence, new_sequence, type_num, size,
    at, insert, append, replace, erase, insert_memory,
    split, split_lengths, join,
    hold, let_go, count, view,
)
