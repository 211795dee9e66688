"""Copies of elements between two layouts, without the GIL and without Python objects."""

from libc.string cimport memcpy
from seqcore.core.source cimport MAX_NDIM, Piece, extent, strides_of


cdef char *copy_piece(char *out, const Piece *piece) noexcept nogil:
    """Copy an element in C order; where the next one would go."""
    cdef Py_ssize_t[MAX_NDIM] shape
    cdef Py_ssize_t[MAX_NDIM] strides
    cdef Py_ssize_t stride = piece.source.itemsize
    cdef int axis
    for axis in range(piece.source.ndim - 1, -1, -1):
        shape[axis] = extent(piece, axis)
        strides[axis] = stride
        stride *= shape[axis]
    copy_strided(out, strides, piece.data, strides_of(piece), shape, piece.source.ndim, piece.source.itemsize)
    return out + stride


cdef void copy_strided(char *out, const Py_ssize_t *out_strides, const char *data,
                       const Py_ssize_t *strides, const Py_ssize_t *shape, int ndim,
                       Py_ssize_t itemsize) noexcept nogil:
    """Copy items between two layouts of one shape that share no memory."""
    # The axes again, innermost first: those of extent 1 dropped, adjacent ones that are contiguous merged.
    cdef Py_ssize_t[MAX_NDIM] extents
    cdef Py_ssize_t[MAX_NDIM] to_strides
    cdef Py_ssize_t[MAX_NDIM] from_strides
    cdef Py_ssize_t[MAX_NDIM] index
    cdef int axis, last = -1
    for axis in range(ndim - 1, -1, -1):
        if shape[axis] == 0:
            return
        if shape[axis] == 1:
            continue
        if (last >= 0 and out_strides[axis] == to_strides[last] * extents[last]
                and strides[axis] == from_strides[last] * extents[last]):
            extents[last] *= shape[axis]
            continue
        last += 1
        extents[last] = shape[axis]
        to_strides[last] = out_strides[axis]
        from_strides[last] = strides[axis]
        index[last] = 0
    if last < 0:
        memcpy(out, data, itemsize)
        return
    while True:
        copy_row(out, to_strides[0], data, from_strides[0], extents[0], itemsize)
        axis = 1
        while axis <= last:
            index[axis] += 1
            out += to_strides[axis]
            data += from_strides[axis]
            if index[axis] < extents[axis]:
                break
            out -= to_strides[axis] * extents[axis]
            data -= from_strides[axis] * extents[axis]
            index[axis] = 0
            axis += 1
        if axis > last:
            return


cdef void copy_row(char *out, Py_ssize_t out_stride, const char *data, Py_ssize_t stride, Py_ssize_t n,
                   Py_ssize_t itemsize) noexcept nogil:
    # A memcpy of a constant size is one move, aligned or not.
    cdef Py_ssize_t i
    if out_stride == itemsize and stride == itemsize:
        memcpy(out, data, n * itemsize)
    elif itemsize == 1:
        for i in range(n):
            out[i * out_stride] = data[i * stride]
    elif itemsize == 2:
        for i in range(n):
            memcpy(out + i * out_stride, data + i * stride, 2)
    elif itemsize == 4:
        for i in range(n):
            memcpy(out + i * out_stride, data + i * stride, 4)
    elif itemsize == 8:
        for i in range(n):
            memcpy(out + i * out_stride, data + i * stride, 8)
    else:
        for i in range(n):
            memcpy(out + i * out_stride, data + i * stride, itemsize)
