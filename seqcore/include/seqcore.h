/* seqcore for C and C++: the functions of Cython's `cimport seqcore`, as a table.

       #include <seqcore.h>                                with include_dirs=[seqcore.get_include()]
       static const struct seqcore_api *seqcore;
       …
       seqcore = seqcore_import();                         when the module is created; NULL: an exception is set
       seqcore->append(sequence, tensor);

   New functions are added at the end, so an extension that was compiled with one version of seqcore runs with
   later ones; `seqcore_import` raises an ImportError if it can't. Returned objects are new references;
   arguments remain the caller's. All functions except `count` and `view` require the GIL, or an attached
   thread state on free-threaded builds. All may be called from several threads at once. */

#ifndef SEQCORE_H
#define SEQCORE_H

#include <Python.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SEQCORE_API_VERSION 1           /* incremented with each new function, and each change of one */
#define SEQCORE_MAX_NDIM 64             /* the highest rank of a tensor */

/* A snapshot: the elements of a sequence at one moment. Edits of the sequence never change it. */
struct seqcore_snapshot;

struct seqcore_api {
    int version;                                                /* of the installed seqcore */
    int oldest;                                                 /* the oldest version whose extensions it runs */

    /* -- creation and properties; on failure -1 or NULL, with an exception set -- */

    int (*is_sequence)(PyObject *object);                       /* 1 or 0; never fails */
    PyObject *(*new_sequence)(PyObject *dtype);                 /* empty; any name of a dtype, such as a str */
    int (*type_num)(PyObject *sequence);                        /* NumPy's type number of the element type */
    Py_ssize_t (*size)(PyObject *sequence);

    /* -- elements; negative positions count from the back; IndexError and TypeError as from the methods -- */

    PyObject *(*at)(PyObject *sequence, Py_ssize_t position);   /* a read-only array, without a copy */
    int (*insert)(PyObject *sequence, Py_ssize_t position, PyObject *tensor);
    int (*append)(PyObject *sequence, PyObject *tensor);
    int (*replace)(PyObject *sequence, Py_ssize_t position, PyObject *tensor);
    int (*erase)(PyObject *sequence, Py_ssize_t position);

    /* Insert memory of the sequence's dtype as a tensor, by reference. `owner` is kept alive while the memory
       can be accessed, and the memory must not move or be freed before. Strides are in bytes; NULL means C
       order. Not for strings. */
    int (*insert_memory)(PyObject *sequence, Py_ssize_t position, void *data, int ndim,
                         const Py_ssize_t *shape, const Py_ssize_t *strides, PyObject *owner);

    /* -- splits and joins: ONNX's SplitToSequence and ConcatFromSequence -- */

    PyObject *(*split)(PyObject *tensor, int axis, Py_ssize_t length, int drop_axis);
    PyObject *(*split_lengths)(PyObject *tensor, int axis, const Py_ssize_t *lengths, Py_ssize_t n);
    PyObject *(*join)(PyObject *sequence, int axis, int new_axis);

    /* -- reading without the GIL -- */

    /* Acquire and release a snapshot: O(1), without a copy. The caller releases each one once, with the GIL.
       While a snapshot exists, the first edit of the sequence copies at most 16 bytes for each element. */
    const struct seqcore_snapshot *(*hold)(PyObject *sequence);
    void (*let_go)(const struct seqcore_snapshot *snapshot);

    Py_ssize_t (*count)(const struct seqcore_snapshot *snapshot);               /* without the GIL */

    /* Write the address of an element's first item, and the shape and strides in bytes of its first `room`
       axes. Return its rank, or -1 without an exception: if the position is out of range, or if the offsets of
       an element of a file or of Arrow are damaged. Without the GIL. The data are read-only and valid until the
       snapshot is released; in a sequence of strings they are PyObject pointers. */
    int (*view)(const struct seqcore_snapshot *snapshot, Py_ssize_t position, const char **data, int room,
                Py_ssize_t *shape, Py_ssize_t *strides);
};

static inline const struct seqcore_api *
seqcore_import(void)
{
    const struct seqcore_api *api = NULL;
    PyObject *module = PyImport_ImportModule("seqcore.core.embedding");
    PyObject *capsule = module == NULL ? NULL : PyObject_GetAttrString(module, "api");
    if (capsule != NULL)
        api = (const struct seqcore_api *)PyCapsule_GetPointer(capsule, "seqcore.core.embedding.api");
    if (api != NULL && api->version < SEQCORE_API_VERSION) {
        PyErr_Format(PyExc_ImportError,
                     "this extension was compiled for version %d of seqcore's C API, but the installed "
                     "seqcore has version %d: install a newer seqcore", SEQCORE_API_VERSION, api->version);
        api = NULL;
    }
    if (api != NULL && api->oldest > SEQCORE_API_VERSION) {
        PyErr_Format(PyExc_ImportError,
                     "this extension was compiled for version %d of seqcore's C API, but the installed "
                     "seqcore has version %d and runs extensions from version %d on: compile the extension "
                     "again, or install a newer build of it", SEQCORE_API_VERSION, api->version, api->oldest);
        api = NULL;
    }
    Py_XDECREF(capsule);
    Py_XDECREF(module);
    return api;
}

#ifdef __cplusplus
}
#endif

#endif
