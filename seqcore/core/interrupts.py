"""Keep compiled loops open to Ctrl-C, and to other threads."""


def let_others_in():
    """Run handlers of signals that have come, and let a thread that has asked for the GIL have it.

    CPython does so where a Python function begins, so this one is empty. Releasing the GIL now and then would
    not do: a thread that waits asks after 5 ms, and before that the one that lets it go has it back at once.
    Handlers are foreign code: call it under no lock, and where an exception leaves everything as it was.
    """
