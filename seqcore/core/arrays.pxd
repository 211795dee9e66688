# Functions of NumPy's C API that NumPy's own .pxd does not declare.

from cpython.ref cimport PyObject

cdef extern from "numpy/arrayobject.h":
    """
    /* A new array: read-only over `data`, kept alive by `base`, or with memory of its own where data is
       NULL. There the items of a string array are null pointers, not references to None. */
    static inline PyObject *
    seqcore_array(PyObject *dtype, int ndim, const Py_ssize_t *shape, const Py_ssize_t *strides, void *data,
                  PyObject *base)
    {
        Py_INCREF(dtype);
        PyObject *array = PyArray_NewFromDescr(&PyArray_Type, (PyArray_Descr *)dtype, ndim,
                                               (const npy_intp *)shape, (const npy_intp *)strides, data, 0,
                                               NULL);
        if (array != NULL && base != NULL) {
            Py_INCREF(base);
            if (PyArray_SetBaseObject((PyArrayObject *)array, base) < 0)
                Py_CLEAR(array);
        }
        return array;
    }
    /* Make an array that `seqcore_array` made over other memory one over `data`, if nobody else has it, the
       rest is as it was then, and the new one would have the same shape, strides and flags. */
    static inline int
    seqcore_moved(PyObject *object, int flags, PyObject *dtype, int ndim, const Py_ssize_t *shape,
                  const Py_ssize_t *strides, void *data, PyObject *base)
    {
        PyArrayObject_fields *array = (PyArrayObject_fields *)object;
        size_t alignment = (size_t)PyDataType_ALIGNMENT((PyArray_Descr *)dtype);
        if (Py_REFCNT(object) != 1 || array->weakreflist != NULL || array->base != base
                || (PyObject *)array->descr != dtype || array->nd != ndim || array->flags != flags
                || (((size_t)array->data ^ (size_t)data) & (alignment - 1)) != 0)
            return 0;
        for (int axis = 0; axis < ndim; axis++)
            if (array->dimensions[axis] != shape[axis] || array->strides[axis] != strides[axis])
                return 0;
        array->data = (char *)data;
        return 1;
    }
    /* The same memory as an array object of our own, whose type and shape nobody else sets. */
    static inline PyObject *seqcore_own(PyObject *array)
    { return PyArray_View((PyArrayObject *)array, NULL, &PyArray_Type); }
    /* Give an array that nobody else has another dtype object, of the same size and meaning. */
    static inline void seqcore_set_equal_dtype(PyObject *array, PyObject *dtype)
    {
        PyArrayObject_fields *fields = (PyArrayObject_fields *)array;
        if (PyArray_EquivTypes(fields->descr, (PyArray_Descr *)dtype)) {
            Py_INCREF(dtype);
            Py_SETREF(fields->descr, (PyArray_Descr *)dtype);
        }
    }
    /* Both borrowed. */
    static inline PyObject *seqcore_base(PyObject *array) { return PyArray_BASE((PyArrayObject *)array); }
    static inline PyObject *seqcore_descr(PyObject *array)
    { return (PyObject *)PyArray_DESCR((PyArrayObject *)array); }
    /* Python's numbers and NumPy's scalars, whose type NumPy finds at once. */
    static inline int seqcore_is_scalar(PyObject *value)
    {
        return PyFloat_CheckExact(value) || PyLong_CheckExact(value) || PyBool_Check(value)
            || PyComplex_CheckExact(value) || PyArray_IsScalar(value, Generic);
    }
    """
    object array_from "seqcore_array"(PyObject *dtype, int ndim, const Py_ssize_t *shape,
                                      const Py_ssize_t *strides, void *data, PyObject *base)
    bint array_moved "seqcore_moved"(PyObject *array, int flags, PyObject *dtype, int ndim,
                                     const Py_ssize_t *shape, const Py_ssize_t *strides, void *data,
                                     PyObject *base) noexcept
    object own_view "seqcore_own"(object array)
    void set_equal_dtype "seqcore_set_equal_dtype"(object array, object dtype)
    PyObject *base_of "seqcore_base"(object array)
    PyObject *descr_of "seqcore_descr"(object array)
    bint is_scalar "seqcore_is_scalar"(object value) noexcept
