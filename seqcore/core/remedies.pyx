"""Errors for the operators and names of arrays that a sequence doesn't have.

Each error names the call to use; the messages are in `seqcore._remedies`.
"""

cimport cython

from seqcore.core.container cimport Container

from seqcore._remedies import Elsewhere, refuse_operator, refuse_unary


@cython.auto_pickle(False)
@cython.no_gc           # as its base
cdef class Remedies(Container):
    """The operators and names of arrays that a `TensorSequence` refuses."""

    add = Elsewhere("add")
    all = Elsewhere("all")
    any = Elsewhere("any")
    apply = Elsewhere("apply")
    argmax = Elsewhere("argmax")
    argmin = Elsewhere("argmin")
    argsort = Elsewhere("argsort")
    cast = Elsewhere("cast")
    cat = Elsewhere("cat")
    concat = Elsewhere("concat")
    concatenate = Elsewhere("concatenate")
    cumprod = Elsewhere("cumprod")
    cumsum = Elsewhere("cumsum")
    filter = Elsewhere("filter")
    flatten = Elsewhere("flatten")
    join = Elsewhere("join")
    length = Elsewhere("length")
    lens = Elsewhere("lens")
    map = Elsewhere("map")
    max = Elsewhere("max")
    mean = Elsewhere("mean")
    min = Elsewhere("min")
    ndim = Elsewhere("ndim")
    numpy = Elsewhere("numpy")
    pad = Elsewhere("pad")
    pad_sequence = Elsewhere("pad_sequence")
    prod = Elsewhere("prod")
    push = Elsewhere("push")
    reshape = Elsewhere("reshape")
    save = Elsewhere("save")
    shape = Elsewhere("shape")
    shuffle = Elsewhere("shuffle")
    sort = Elsewhere("sort")
    split = Elsewhere("split")
    stack = Elsewhere("stack")
    std = Elsewhere("std")
    sum = Elsewhere("sum")
    to = Elsewhere("to")
    to_numpy = Elsewhere("to_numpy")
    var = Elsewhere("var")

    def __dir__(self):
        """Return the names of attributes, without those that only raise."""
        cdef list names = []
        for name in object.__dir__(self):
            if not isinstance(getattr(type(self), name, None), Elsewhere):
                names.append(name)
        return names

    def __mul__(self, other):
        return refuse_operator(self, "*", other)

    def __rmul__(self, other):
        return refuse_operator(self, "*", other)

    def __sub__(self, other):
        return refuse_operator(self, "-", other)

    def __rsub__(self, other):
        return refuse_operator(self, "-", other)

    def __truediv__(self, other):
        return refuse_operator(self, "/", other)

    def __rtruediv__(self, other):
        return refuse_operator(self, "/", other)

    def __floordiv__(self, other):
        return refuse_operator(self, "//", other)

    def __rfloordiv__(self, other):
        return refuse_operator(self, "//", other)

    def __mod__(self, other):
        return refuse_operator(self, "%", other)

    def __rmod__(self, other):
        return refuse_operator(self, "%", other)

    def __matmul__(self, other):
        return refuse_operator(self, "@", other)

    def __rmatmul__(self, other):
        return refuse_operator(self, "@", other)

    def __and__(self, other):
        return refuse_operator(self, "&", other)

    def __rand__(self, other):
        return refuse_operator(self, "&", other)

    def __or__(self, other):
        return refuse_operator(self, "|", other)

    def __ror__(self, other):
        return refuse_operator(self, "|", other)

    def __xor__(self, other):
        return refuse_operator(self, "^", other)

    def __rxor__(self, other):
        return refuse_operator(self, "^", other)

    def __pow__(self, other, modulo):
        return refuse_operator(self, "**", other)

    def __rpow__(self, other, modulo):
        return refuse_operator(self, "**", other)

    def __neg__(self):
        return refuse_unary("neg")

    def __abs__(self):
        return refuse_unary("abs")

    def __invert__(self):
        return refuse_unary("~")
