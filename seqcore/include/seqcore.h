/* seqcore for C and C++: the functions that Cython's `cimport seqcore` has, as a table.

       #include <seqcore.h>                                with include_dirs=[seqcore.get_include()]
       static const struct seqcore_api *seqcore;
       …
       seqcore = seqcore_import();                         where the module is made; NULL: an exception is set
       seqcore->append(sequence, tensor);

   Functions keep their places and new ones come at the end, so that what was compiled with one version
   of seqcore runs with every later one. Objects that are returned are new references, those that are passed
   stay the caller's. Each function needs the GIL, or on builds that have none an attached thread, but for
   the two that read a snapshot. All may be called from several threads at once. */

#ifndef SEQCORE_H
#define SEQCORE_H

#include <Python.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SEQCORE_API_VERSION 1           /* rises with each function that is added */
#define SEQCORE_MAX_NDIM 64             /* no tensor has a higher rank */

/* The elements that a sequence had at one moment. No edit, of whatever thread, changes one. */
struct seqcore_snapshot;

struct seqcore_api {
    int version;

    /* -- making and asking; -1 or NULL: an exception is set -- */

    int (*is_sequence)(PyObject *object);                       /* 1 or 0; never fails */
    PyObject *(*new_sequence)(PyObject *dtype);                 /* empty; any name of a type, such as a str */
    int (*type_num)(PyObject *sequence);                        /* NumPy's number of its element type */
    Py_ssize_t (*size)(PyObject *sequence);

    /* -- elements; positions from the back are negative; IndexError and TypeError as the methods' -- */

    PyObject *(*at)(PyObject *sequence, Py_ssize_t position);   /* a read-only array, without a copy */
    int (*insert)(PyObject *sequence, Py_ssize_t position, PyObject *tensor);
    int (*append)(PyObject *sequence, PyObject *tensor);
    int (*replace)(PyObject *sequence, Py_ssize_t position, PyObject *tensor);
    int (*erase)(PyObject *sequence, Py_ssize_t position);

    /* Insert memory of the sequence's type as a tensor, by reference: `owner` is kept alive for as long as
       anything may look at the memory, which must stay where it is as long. Strides are in bytes; NULL:
       C order. Not for strings. */
    int (*insert_memory)(PyObject *sequence, Py_ssize_t position, void *data, int ndim,
                         const Py_ssize_t *shape, const Py_ssize_t *strides, PyObject *owner);

    /* -- splits and joins, as ONNX's SplitToSequence and ConcatFromSequence -- */

    PyObject *(*split)(PyObject *tensor, int axis, Py_ssize_t length, int drop_axis);
    PyObject *(*split_lengths)(PyObject *tensor, int axis, const Py_ssize_t *lengths, Py_ssize_t n);
    PyObject *(*join)(PyObject *sequence, int axis, int new_axis);

    /* -- reading without the GIL -- */

    /* O(1), without a copy. Each snapshot is let go once. While there is one, an edit of the sequence
       copies its slots first, 8 bytes for each element. */
    const struct seqcore_snapshot *(*hold)(PyObject *sequence);
    void (*let_go)(const struct seqcore_snapshot *snapshot);

    Py_ssize_t (*count)(const struct seqcore_snapshot *snapshot);               /* needs no GIL */

    /* Write where an element's first item is, and shape and strides in bytes of its first `room` axes;
       return its rank, or -1 where there is no element at the position. Needs no GIL. The data are the
       snapshot's until it is let go: read only, and PyObject pointers in a sequence of strings. */
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
                     "this extension was compiled for version %d of seqcore's C API, and the installed "
                     "seqcore has version %d: install a newer one", SEQCORE_API_VERSION, api->version);
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
