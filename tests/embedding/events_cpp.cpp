// A std::vector that becomes an element without a copy, and every function of the table called once.

#include <seqcore.h>

#include <vector>

static const seqcore_api *seqcore;

static void delete_vector(PyObject *capsule) {
    delete static_cast<std::vector<double> *>(PyCapsule_GetPointer(capsule, nullptr));
}

static PyObject *append_squares(PyObject *, PyObject *args) {
    PyObject *sequence;
    Py_ssize_t n;
    if (!PyArg_ParseTuple(args, "On", &sequence, &n))
        return nullptr;
    auto *squares = new std::vector<double>(static_cast<size_t>(n));
    for (Py_ssize_t i = 0; i < n; i++)
        (*squares)[static_cast<size_t>(i)] = static_cast<double>(i) * static_cast<double>(i);
    PyObject *owner = PyCapsule_New(squares, nullptr, delete_vector);
    if (owner == nullptr) {
        delete squares;
        return nullptr;
    }
    Py_ssize_t end = seqcore->size(sequence);
    int failed = end < 0 || seqcore->insert_memory(sequence, end, squares->data(), 1, &n, nullptr, owner);
    Py_DECREF(owner);
    if (failed)
        return nullptr;
    Py_RETURN_NONE;
}

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
    {"append_squares", append_squares, METH_VARARGS, "Append 0, 1, 4, … of n numbers to a sequence of float64."},
    {"tour", tour, METH_O, "Return what each function makes of a float64 tensor of three rows."},
    {nullptr, nullptr, 0, nullptr},
};

static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "events_cpp", nullptr, -1, methods,
                                 nullptr, nullptr, nullptr, nullptr};

PyMODINIT_FUNC PyInit_events_cpp() {
    seqcore = seqcore_import();
    PyObject *module = seqcore ? PyModule_Create(&definition) : nullptr;
#ifdef Py_GIL_DISABLED
    if (module)
        PyUnstable_Module_SetGIL(module, Py_MOD_GIL_NOT_USED);
#endif
    return module;
}
