"""The CPU, the interpreter and the arithmetic of the thread that asks."""

cdef extern from *:
    """
    #ifdef __linux__
    #include <sched.h>
    static int seqcore_this_cpu(void) { return sched_getcpu(); }
    #else
    static int seqcore_this_cpu(void) { return -1; }
    #endif
    """
    int seqcore_this_cpu() noexcept

cdef extern from "<fenv.h>":
    ctypedef struct fenv_t:
        pass
    int fegetenv(fenv_t *environment) noexcept
    int fesetenv(const fenv_t *environment) noexcept

cdef extern from "Python.h":
    ctypedef struct PyInterpreterState:
        pass
    PyInterpreterState *PyInterpreterState_Get() noexcept
    PyInterpreterState *PyInterpreterState_Main() noexcept


def this_cpu():
    """Return the number of the CPU that this thread is on, -1 where only Linux could tell."""
    return seqcore_this_cpu()


def in_main_interpreter():
    """Return whether this is the interpreter that the process began with."""
    return PyInterpreterState_Get() == PyInterpreterState_Main()


def float_environment():
    """Return how this thread rounds, and whether tiny numbers become zero, for `set_float_environment`."""
    cdef fenv_t environment
    fegetenv(&environment)
    return (<char *>&environment)[:sizeof(fenv_t)]


def set_float_environment(bytes environment not None):
    """Round as another thread does, and treat tiny numbers like that."""
    if len(environment) != sizeof(fenv_t):
        raise ValueError(f"expected {sizeof(fenv_t)} bytes of float_environment, got {len(environment)}")
    fesetenv(<fenv_t *><char *>environment)
