# How much memory the elements of a sequence keep alive.

from libc.stdint cimport int64_t
cimport numpy as cnp

from seqcore.core.container cimport Container
from seqcore.core.lists cimport Shape, Writer
from seqcore.core.store cimport Source, Store

# -- pinned ----------------------------------------------------------------------------------------------
# How much memory the elements of a sequence keep alive.

cdef object pinned_nbytes(Store *store, cnp.dtype dtype)

# -- gather ----------------------------------------------------------------------------------------------
# Many tensors that are put in together.

cdef struct Group:
    # Elements that are behind each other in the block. Where it is kept, the extents of its first element
    # are behind it in memory.
    Py_ssize_t n                        # elements
    Py_ssize_t first                    # item of the block
    Py_ssize_t rows                     # along axis 0, of all elements
    Py_ssize_t length                   # … of each; 0 if they differ
    Py_ssize_t first_end                # of `ends`
    Py_ssize_t ndim

cdef class Gathering:
    cdef cnp.dtype dtype                # None until a tensor has a type
    cdef bint copied                    # whether arrays are copied too
    cdef bint strings
    cdef Py_ssize_t given               # tensors so far
    cdef Py_ssize_t expected            # … in all, as far as known
    cdef list untyped                   # the first tensors, while they are lists without items
    cdef Store *store                   # a share of a sequence that was given for the tensors, or NULL

    cdef Py_ssize_t done                # elements that were written, copied or taken
    cdef Store *slots                   # for each of them; NULL while all are of one group

    cdef cnp.ndarray block              # items that were written or copied
    cdef char *items                    # of the block
    cdef Py_ssize_t used                # … how many
    cdef Py_ssize_t room                # … it has room for
    cdef Py_ssize_t likely              # … there will be, as far as known
    cdef Writer writer
    cdef int itemsize

    cdef list groups                    # those before the current one
    cdef Shape current                  # of the first element of the current group
    cdef Py_ssize_t n                   # elements of it
    cdef Py_ssize_t first               # its first item
    cdef bint even                      # whether all are as long as the first
    cdef cnp.ndarray ends               # int64: for each group 0, and where each element ends along axis 0
    cdef int64_t *end                   # of `ends`
    cdef Py_ssize_t nends               # … how many
    cdef Py_ssize_t first_end           # of the current group

    cdef int add(self, object tensor) except -1
    cdef Store *take_store(self) except NULL

    cdef int set_type(self, cnp.dtype dtype) except -1
    cdef int add_typed(self, object tensor, Py_ssize_t at) except -1
    cdef int add_other(self, object tensor, Py_ssize_t at) except -1
    cdef int add_array(self, cnp.ndarray array, bint fresh) except -1
    cdef bint write(self, object value) except -1
    cdef int copy_in(self, cnp.ndarray array) except -1
    cdef int make_room(self, const Shape *shape) except -1
    cdef void count_in(self, const Shape *shape) noexcept
    cdef void take_in(self, Source *whole) noexcept
    cdef int have_slot(self) except -1
    cdef int end_group(self) except -1
    cdef void describe(self, Group *group) noexcept
    cdef object owner_of_group(self, const Group *group, const Py_ssize_t *extents)
    cdef Store *finished_slots(self) except NULL

cdef Gathering gather(object tensors, cnp.dtype dtype, bint copied=*)

# -- conversion ------------------------------------------------------------------------------------------
# The methods of TensorSequence that convert it to and from other forms.

cdef class Convertible(Container):
    pass

# -- ragged ----------------------------------------------------------------------------------------------
# The methods of TensorSequence about the elements together.

cdef class Ragged(Convertible):
    pass

# -- sequence --------------------------------------------------------------------------------------------
# The sequence, as seqcore's other modules see it.

cdef class TensorSequence(Ragged):
    cdef Source *take_or_null(self, object tensor) except? NULL
    cdef Py_ssize_t first_equal(self, object tensor, Py_ssize_t start, Py_ssize_t stop) except -2

cdef TensorSequence new_sequence(cnp.dtype dtype, Store *store)
cdef cnp.ndarray selected(object key, Py_ssize_t n)
