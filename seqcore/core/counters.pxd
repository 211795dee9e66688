# Counts of the fast paths that this thread's calls took; tests read them.

cdef enum Counter:
    SLOTS_COPIED                # buffers that an edit, or one who needed it alone, has made its own
    GAP_MOVED                   # moves of the gap that had slots to move
    GROWN                       # buffers that got longer
    SHRUNK                      # buffers that got shorter
    CUT_WITHOUT_GIL             # splits
    COPIED_WITHOUT_GIL          # joins, padded batches, and elements copied together
    RUNS_COPIED                 # by joins, and where elements are copied together
    LEFT_IN_PLACE               # values, stacks and rows of items that are views
    JOINED                      # … that had to be copied
    SPLICED                     # edits that made runs anew
    LOOSENED                    # edits that made slots of runs
    REDUCED                     # elements that kernels of reductions were given
    COMPARED_ON                 # times that a comparison let others in and went on
    ARGUMENTS_MADE              # arrays that maps made for calls of a body
    NCOUNTERS

cdef void count(Counter counter, Py_ssize_t n) noexcept nogil
