// Every function of the table, called once from C++.

#include <seqcore.h>

static const seqcore_api *seqcore;

static PyObject *tour(PyObject *, PyObject *tensor) {
    const Py_ssize_t lengths[] = {1, 2};
    PyObject *dtype = PyUnicode_FromString("float64");
    PyObject *sequence = dtype ? seqcore->new_sequence(dtype) : nullptr;
    PyObject *rows = seqcore->split(tensor, 0, 1, 1);
    PyObject *parts = seqcore->split_lengths(tensor, 0, lengths, 2);
    PyObject *first = rows ? seqcore->at(rows, 0) : nullptr;
    PyObject *result = nullptr;
    if (sequence && rows && parts && first && seqcore->append(sequence, tensor) == 0 &&
        seqcore->insert(sequence, 0, tensor) == 0 && seqcore->replace(sequence, -1, first) == 0 &&
        seqcore->erase(sequence, 0) == 0) {
        PyObject *joined = seqcore->join(parts, 0, 0);
        result = Py_BuildValue("(iOOON)", seqcore->is_sequence(sequence), sequence, rows, parts, joined);
    }
    Py_XDECREF(dtype);
    Py_XDECREF(sequence);
    Py_XDECREF(rows);
    Py_XDECREF(parts);
    Py_XDECREF(first);
    return result;
}

static PyMethodDef methods[] = {
    {"tour", tour, METH_O, "Return what each function makes of a float64 tensor of three rows."},
    {nullptr, nullptr, 0, nullptr},
};

static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "tour", nullptr, -1, methods,
                                 nullptr, nullptr, nullptr, nullptr};

PyMODINIT_FUNC PyInit_tour() {
    seqcore = seqcore_import();
    PyObject *module = seqcore ? PyModule_Create(&definition) : nullptr;
#ifdef Py_GIL_DISABLED
    if (module)
        PyUnstable_Module_SetGIL(module, Py_MOD_GIL_NOT_USED);
#endif
    return module;
}
