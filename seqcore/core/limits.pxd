# The thresholds of the core: from how many elements or bytes on it does something else.
#
# No result depends on them. Built with SEQCORE_SMALL=1 in the environment, they are so small that ordinary
# tests meet both sides of each. A threshold has its usual value first, then the small one.

cdef extern from *:
    """
    #ifdef SEQCORE_SMALL
    #define SEQCORE_LIMIT(usual, small) (small)
    #else
    #define SEQCORE_LIMIT(usual, small) (usual)
    #endif

    enum {
        /* Runs and slots. */
        SEQCORE_MOST_RUNS = SEQCORE_LIMIT(64, 2),
        SEQCORE_RUNS_OF_AN_EDIT = SEQCORE_LIMIT(32, 1),
        SEQCORE_SINGLE_RUNS = SEQCORE_LIMIT(16, 2),

        /* The reader. */
        SEQCORE_BLOCK = SEQCORE_LIMIT(64, 3),
        SEQCORE_FETCH_AHEAD = SEQCORE_LIMIT(16, 1),

        /* Loops. */
        SEQCORE_RELEASE_FROM = SEQCORE_LIMIT(1024, 2),
        SEQCORE_RELEASE_NBYTES = SEQCORE_LIMIT(1 << 17, 64),
        SEQCORE_SIGNALS_EVERY = SEQCORE_LIMIT(1 << 14, 4),
        SEQCORE_GATHERED_WITH_GIL = SEQCORE_LIMIT(1 << 18, 16),
        SEQCORE_CAST_NBYTES = SEQCORE_LIMIT(1 << 18, 64),
        SEQCORE_REDUCED_BETWEEN_SIGNALS = SEQCORE_LIMIT(1 << 26, 64),

        /* Comparisons. */
        SEQCORE_COMPARED_TOGETHER = SEQCORE_LIMIT(64, 2),

        /* Windows. */
        SEQCORE_VIEWS_APART = SEQCORE_LIMIT(8, 2),

        /* Pickles. */
        SEQCORE_PICKLED_ALONE_FROM = SEQCORE_LIMIT(4096, 16),

        /* Results of maps. */
        SEQCORE_TIMED_EVERY = SEQCORE_LIMIT(16, 2),
        SEQCORE_RESULT_NBYTES = SEQCORE_LIMIT(1 << 12, 64),
        SEQCORE_RESULT_BLOCK_NBYTES = SEQCORE_LIMIT(1 << 22, 256),
        SEQCORE_RESULT_MAPPED_NBYTES = SEQCORE_LIMIT(1 << 17, 1 << 12),
        SEQCORE_RESULTS_IN_A_BLOCK = SEQCORE_LIMIT(16, 2),
    };
    """
    enum:
        # Runs that edits and selections make. With more of them a sequence gets slots.
        MOST_RUNS "SEQCORE_MOST_RUNS"
        # Runs whose copying takes as long as the rest of a splice.
        RUNS_OF_AN_EDIT "SEQCORE_RUNS_OF_AN_EDIT"
        # Elements that become runs one by one.
        SINGLE_RUNS "SEQCORE_SINGLE_RUNS"

        # Elements that are read together.
        BLOCK "SEQCORE_BLOCK"
        # Elements or slots between the one that is read and the one that is fetched.
        FETCH_AHEAD "SEQCORE_FETCH_AHEAD"

        # Elements. With fewer, releasing the GIL takes longer than the work.
        RELEASE_FROM "SEQCORE_RELEASE_FROM"
        # Bytes. The same of fewer elements.
        RELEASE_NBYTES "SEQCORE_RELEASE_NBYTES"
        # Elements between two checks for signals, of loops that make a Python object or two for each; a power
        # of two.
        SIGNALS_EVERY "SEQCORE_SIGNALS_EVERY"
        # Bytes of an array. With fewer, its copy among others holds the GIL.
        GATHERED_WITH_GIL "SEQCORE_GATHERED_WITH_GIL"
        # Bytes of elements that are cast together.
        CAST_NBYTES "SEQCORE_CAST_NBYTES"
        # Numbers between two checks for signals, about ten milliseconds.
        REDUCED_BETWEEN_SIGNALS "SEQCORE_REDUCED_BETWEEN_SIGNALS"

        # Items that are compared without a branch.
        COMPARED_TOGETHER "SEQCORE_COMPARED_TOGETHER"

        # Views of each element, on average. With more of them, an array gets a table of its views.
        VIEWS_APART "SEQCORE_VIEWS_APART"

        # Bytes. Smaller arrays cost more to pickle than to copy together.
        PICKLED_ALONE_FROM "SEQCORE_PICKLED_ALONE_FROM"

        # Elements between two looks at the clock; a power of two.
        TIMED_EVERY "SEQCORE_TIMED_EVERY"
        # Bytes of a result that is moved into a block, at most.
        RESULT_NBYTES "SEQCORE_RESULT_NBYTES"
        # Bytes of a block of results, at most.
        RESULT_BLOCK_NBYTES "SEQCORE_RESULT_BLOCK_NBYTES"
        # Bytes of a block that is mapped, at least.
        RESULT_MAPPED_NBYTES "SEQCORE_RESULT_MAPPED_NBYTES"
        # Results. Fewer are not worth a block.
        RESULTS_IN_A_BLOCK "SEQCORE_RESULTS_IN_A_BLOCK"

    # Whether the thresholds are the small ones.
    const bint IS_SMALL "SEQCORE_LIMIT(0, 1)"
