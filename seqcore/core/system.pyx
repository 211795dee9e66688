"""The CPU and the interpreter of the thread that asks."""

cdef extern from *:
    """
    #ifdef __linux__
    #include <sched.h>
    #else
    static int sched_getcpu(void) { return -1; }
    #endif
    """
    int sched_getcpu() noexcept

cdef extern from "Python.h":
    ctypedef struct PyInterpreterState:
        pass
    PyInterpreterState *PyInterpreterState_Get() noexcept
    PyInterpreterState *PyInterpreterState_Main() noexcept


def this_cpu():
    """Return the number of the CPU that this thread is on, -1 where only Linux could tell."""
    return sched_getcpu()


def in_main_interpreter():
    """Return whether this is the interpreter that the process began with."""
    return PyInterpreterState_Get() == PyInterpreterState_Main()
