"""Iterators of a container."""

cimport cython

from seqcore.core.buffer cimport size_of, slot_at
from seqcore.core.container cimport Container
from seqcore.core.owner cimport make_element


cdef class ElementIterator:
    """Elements one by one, from the front or the back, as the sequence stands at each step."""

    def __cinit__(self, Container sequence not None, bint backwards):
        self.sequence = sequence
        self.backwards = backwards
        self.position = sequence.size() - 1 if backwards else 0

    def __iter__(self):
        return self

    def __next__(self):
        cdef Container sequence = self.sequence
        cdef object element = None
        cdef Py_ssize_t position
        with cython.critical_section(self, sequence):
            position = self.position
            if 0 <= position < size_of(sequence._buffer):
                element = make_element(slot_at(sequence._buffer, position)[0], sequence._dtype)
                self.position = position - 1 if self.backwards else position + 1
            else:
                self.position = -1
        if element is None:
            raise StopIteration
        return element

    def __length_hint__(self):
        cdef Container sequence = self.sequence
        cdef Py_ssize_t n
        with cython.critical_section(self, sequence):
            n = self.position + 1
            if n > size_of(sequence._buffer):       # it has come to its end, as the next step will find
                n = 0
            elif n and not self.backwards:
                n = size_of(sequence._buffer) - self.position
        return n
