"""Iterators of a container."""

cimport cython

from seqcore.core.container cimport Container
from seqcore.core.owner cimport make_element
from seqcore.core.source cimport MAX_NDIM, Piece, Source, resolve
from seqcore.core.store cimport Run, begin_of, find_run, has_runs, locate, runs_of, size_of


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
        cdef Py_ssize_t position, number
        cdef Source *source
        cdef const Run *run
        cdef Piece piece
        cdef Py_ssize_t[2 * MAX_NDIM] dims
        cdef bint damaged = False
        with cython.critical_section(self, sequence):
            position = self.position
            if 0 <= position < size_of(sequence._store):
                if has_runs(sequence._store):
                    self.run = find_run(sequence._store, position, self.run)
                    run = &runs_of(sequence._store)[self.run]
                    source = run.source
                    number = run.first + (position - begin_of(sequence._store, self.run)) * run.step
                else:
                    source = locate(sequence._store, position, &number)
                # First past it, so that a loop that goes on after a damaged element comes to its end.
                self.position = position - 1 if self.backwards else position + 1
                damaged = not resolve(source, number, &piece, dims)
                if not damaged:
                    element = make_element(&piece, sequence._dtype)
            else:
                self.position = -1
        if damaged:
            sequence.raise_damaged_at(position)
        if element is None:
            raise StopIteration
        return element

    def __length_hint__(self):
        cdef Container sequence = self.sequence
        cdef Py_ssize_t n
        with cython.critical_section(self, sequence):
            n = self.position + 1
            if n > size_of(sequence._store):       # it has come to its end, as the next step will find
                n = 0
            elif n and not self.backwards:
                n = size_of(sequence._store) - self.position
        return n
