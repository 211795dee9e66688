"""Sequences taken apart for bodies that run over many elements at once, and put together from results."""

from libc.stdlib cimport free, malloc
cimport numpy as cnp

from seqcore.core.arrays cimport own_view
from seqcore.core.like cimport store_along, store_like
from seqcore.core.positions cimport raise_for
from seqcore.core.runs cimport joined_stores
from seqcore.core.sequence cimport TensorSequence, new_sequence
from seqcore.core.share cimport Share
from seqcore.core.source cimport Status
from seqcore.core.store cimport Store, empty_store, size_of
from seqcore.core.values cimport items_of_store, stack_of

from seqcore.dtypes import element_type

cnp.import_array()


def empty_sequences(dtypes):
    """Return a tuple of empty sequences, one for each dtype."""
    cdef list made = []
    for dtype in dtypes:
        made.append(new_sequence(element_type(dtype), empty_store()))
    return tuple(made)


def items_of(TensorSequence sequence not None):
    """Return all items of the elements, each element's in C order, as a read-only array of rank 1.

    A view where the elements are views of one array and one behind the other, else a copy.
    """
    cdef Share share = sequence.whole()
    return items_of_store(share.store, sequence._dtype)


def stack(TensorSequence sequence not None):
    """Return the elements, at least one, along a new first axis: read-only, a view where they lie evenly."""
    cdef Share share = sequence.whole()
    if size_of(share.store) == 0:
        raise ValueError("an empty sequence can't be stacked: the shape of the result is unknown")
    return stack_of(share.store, sequence._dtype)


def cut_as(cnp.ndarray items not None, TensorSequence like not None):
    """Return a sequence whose elements have the shapes of another's, of a C-ordered array of their items."""
    cdef Share share = like.whole()
    cdef cnp.ndarray row = (<object>items).reshape(-1)
    return new_sequence(element_type(row.dtype), store_like(row, share.store))


def cut_batch(cnp.ndarray array not None, TensorSequence like not None):
    """Return a sequence of an array's parts that are as long along axis 0 as another's elements."""
    cdef Share share = like.whole()
    array = own_view(array)             # as in values_given
    return new_sequence(element_type(array.dtype), store_along(array, share.store))


def chained(list sequences not None):
    """Return one sequence of the elements of several of one type, at least one."""
    cdef TensorSequence one = sequences[0]
    cdef Share share
    cdef Py_ssize_t i, n = len(sequences)
    cdef list shares = []
    cdef Store **stores
    cdef Store *into = NULL
    cdef Status status
    dtype = one.dtype
    for one in sequences:
        if one._dtype is not dtype:
            raise TypeError("sequences of two dtypes can't be concatenated")
        shares.append(one.whole())
    stores = <Store **>malloc(n * sizeof(Store *))
    if stores == NULL:
        raise MemoryError(f"no memory to concatenate {n} sequences")
    for i in range(n):
        share = shares[i]
        stores[i] = share.store
    status = joined_stores(stores, n, &into)
    free(stores)
    raise_for(status, None, n)
    return new_sequence(dtype, into)
