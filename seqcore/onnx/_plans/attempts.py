"""How often to try what may fail: less and less, while it does."""

# After the k-th failure in a row 2ᵏ chances go by, with k up to this.
_MOST_DOUBLINGS = 8


class Attempts:
    """Decides whether to try. Threads may lose a count, which only moves the next attempt."""

    def __init__(self):
        self._failures = 0
        self._skip = 0

    def is_due(self):
        """Return whether to take this chance."""
        if self._skip > 0:
            self._skip -= 1
            return False
        return True

    def failed(self):
        """Let some chances go by."""
        self._failures = min(self._failures + 1, _MOST_DOUBLINGS)
        self._skip = 1 << self._failures

    def succeeded(self):
        """Forget the failures."""
        self._failures = 0
