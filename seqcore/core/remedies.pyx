"""What people type first, and a sequence has not: operators of arrays and names of theirs.

Each is an error that names the way; the texts are in `seqcore._remedies`.
"""

cimport cython

from seqcore.core.container cimport Container

from seqcore._remedies import missing_attribute, refuse_operator, refuse_unary


@cython.auto_pickle(False)
@cython.no_gc           # as its base
cdef class Remedies(Container):
    """The part of `TensorSequence` that says what to use instead."""

    def __getattr__(self, name):
        if name[:2] == "__":        # a protocol that others look for
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        return missing_attribute(self, name)

    def __mul__(self, other):
        return refuse_operator("*", other)

    def __rmul__(self, other):
        return refuse_operator("*", other)

    def __sub__(self, other):
        return refuse_operator("-", other)

    def __rsub__(self, other):
        return refuse_operator("-", other)

    def __truediv__(self, other):
        return refuse_operator("/", other)

    def __rtruediv__(self, other):
        return refuse_operator("/", other)

    def __floordiv__(self, other):
        return refuse_operator("//", other)

    def __rfloordiv__(self, other):
        return refuse_operator("//", other)

    def __mod__(self, other):
        return refuse_operator("%", other)

    def __rmod__(self, other):
        return refuse_operator("%", other)

    def __matmul__(self, other):
        return refuse_operator("@", other)

    def __rmatmul__(self, other):
        return refuse_operator("@", other)

    def __and__(self, other):
        return refuse_operator("&", other)

    def __rand__(self, other):
        return refuse_operator("&", other)

    def __or__(self, other):
        return refuse_operator("|", other)

    def __ror__(self, other):
        return refuse_operator("|", other)

    def __xor__(self, other):
        return refuse_operator("^", other)

    def __rxor__(self, other):
        return refuse_operator("^", other)

    def __pow__(self, other, modulo):
        return refuse_operator("**", other)

    def __rpow__(self, other, modulo):
        return refuse_operator("**", other)

    def __neg__(self):
        return refuse_unary("neg")

    def __abs__(self):
        return refuse_unary("abs")

    def __invert__(self):
        return refuse_unary("~")
