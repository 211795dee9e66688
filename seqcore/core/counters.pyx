"""Counters of fast paths: where one falls back, the result is the same, and nothing else would tell.

Counting takes about two nanoseconds, and is done once for a call, a move or a comparison, in no loop over
elements. Each thread has counters of its own, so they need neither a lock nor the GIL, and threads that edit
different sequences don't wait for a line of memory that all write to.
"""

from seqcore.core.limits cimport IS_SMALL

cdef extern from *:
    """
    #if defined(_MSC_VER)
    static __declspec(thread) Py_ssize_t seqcore_counts[16];
    #else
    static __thread Py_ssize_t seqcore_counts[16];
    #endif
    """
    Py_ssize_t *counts "seqcore_counts"

# Whether the core was built with SEQCORE_SMALL=1.
SMALL_LIMITS = bool(IS_SMALL)


cdef void count(Counter counter, Py_ssize_t n) noexcept nogil:
    counts[<int>counter] += n


def counted():
    """Return what this thread's calls have done so far, by name."""
    return {
        "slots_copied": counts[<int>SLOTS_COPIED],
        "gap_moved": counts[<int>GAP_MOVED],
        "grown": counts[<int>GROWN],
        "shrunk": counts[<int>SHRUNK],
        "cut_without_gil": counts[<int>CUT_WITHOUT_GIL],
        "copied_without_gil": counts[<int>COPIED_WITHOUT_GIL],
        "runs_copied": counts[<int>RUNS_COPIED],
        "left_in_place": counts[<int>LEFT_IN_PLACE],
        "joined": counts[<int>JOINED],
        "spliced": counts[<int>SPLICED],
        "loosened": counts[<int>LOOSENED],
        "reduced": counts[<int>REDUCED],
        "compared_on": counts[<int>COMPARED_ON],
        "arguments_made": counts[<int>ARGUMENTS_MADE],
    }


assert NCOUNTERS <= 16, "there are more counters than room for them"
