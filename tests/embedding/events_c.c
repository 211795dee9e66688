/* The same loop in C. */

#include <seqcore.h>

static const struct seqcore_api *seqcore;

static PyObject *
total(PyObject *self, PyObject *sequence)
{
    const struct seqcore_snapshot *events;
    double sum = 0;
    int number = seqcore->type_num(sequence);
    (void)self;
    if (number == -1 && PyErr_Occurred())
        return NULL;
    if (number != 11) {                                     /* NPY_FLOAT32 */
        PyErr_SetString(PyExc_TypeError, "events are float32");
        return NULL;
    }
    if ((events = seqcore->hold(sequence)) == NULL)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t i = 0; i < seqcore->count(events); i++) {
        const char *data;
        Py_ssize_t length, stride;
        if (seqcore->view(events, i, &data, 1, &length, &stride) == 1)
            for (Py_ssize_t k = 0; k < length; k++)
                sum += *(const float *)(data + k * stride);
    }
    Py_END_ALLOW_THREADS
    seqcore->let_go(events);
    return PyFloat_FromDouble(sum);
}

static PyMethodDef methods[] = {
    {"total", total, METH_O, "Return the sum over all events of rank 1."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "events_c", NULL, -1, methods,
                                        NULL, NULL, NULL, NULL};

PyMODINIT_FUNC
PyInit_events_c(void)
{
    PyObject *module;
    if ((seqcore = seqcore_import()) == NULL)
        return NULL;
    module = PyModule_Create(&definition);
#ifdef Py_GIL_DISABLED
    if (module != NULL)
        PyUnstable_Module_SetGIL(module, Py_MOD_GIL_NOT_USED);
#endif
    return module;
}
