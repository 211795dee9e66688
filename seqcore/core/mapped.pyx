"""Files mapped into memory without a descriptor, which Python's own mappings keep before 3.13."""

from cpython.buffer cimport PyBuffer_FillInfo
from libc.errno cimport ENOMEM, errno

cdef extern from *:
    """
    #if defined(_WIN32)
    static void *seqcore_map(int descriptor, size_t size) { return NULL; }
    static void seqcore_unmap(void *data, size_t size) { }
    #else
    #include <sys/mman.h>
    static void *seqcore_map(int descriptor, size_t size)
    {
        void *data = mmap(NULL, size, PROT_READ, MAP_SHARED, descriptor, 0);
        return data == MAP_FAILED ? NULL : data;
    }
    static void seqcore_unmap(void *data, size_t size) { munmap(data, size); }
    #endif
    """
    void *map_memory "seqcore_map"(int descriptor, size_t size) noexcept nogil
    void unmap_memory "seqcore_unmap"(void *data, size_t size) noexcept nogil

cdef extern from "Python.h":
    object PyErr_SetFromErrno(object exception)


cdef class MappedFile:
    """MappedFile(descriptor, nbytes)\n--\n
    A file's first bytes, read-only, as long as anything uses them. The descriptor may be closed.
    """
    cdef void *data
    cdef Py_ssize_t nbytes

    def __cinit__(self, int descriptor, Py_ssize_t nbytes):
        if nbytes <= 0:
            raise ValueError("an empty file can't be mapped")
        self.data = map_memory(descriptor, nbytes)
        if self.data == NULL:
            if errno == ENOMEM:
                raise MemoryError(f"no memory to map a file of {nbytes} bytes")
            PyErr_SetFromErrno(OSError)
        self.nbytes = nbytes

    def __dealloc__(self):
        if self.data != NULL:
            unmap_memory(self.data, self.nbytes)

    def __getbuffer__(self, Py_buffer *view, int flags):
        PyBuffer_FillInfo(view, self, self.data, self.nbytes, 1, flags)
