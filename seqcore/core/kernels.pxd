# Reductions of numbers in memory.

cdef enum Operation:
    SUM
    PROD
    MIN
    MAX
    ANY
    ALL
    ARGMIN
    ARGMAX
    VAR

cdef enum Numbers:
    # The types that kernels have, by kind and log2 of the size.
    I1 = 0
    I2 = 1
    I4 = 2
    I8 = 3
    U1 = 4
    U2 = 5
    U4 = 6
    U8 = 7
    F4 = 10
    F8 = 11
    C8 = 15
    C16 = 16

cdef void reduce_items(Operation operation, Numbers numbers, char *out, const char *data,
                       const Py_ssize_t *lengths, Py_ssize_t step, Py_ssize_t k, Py_ssize_t inner,
                       Py_ssize_t nbytes, const void *initial) noexcept nogil
