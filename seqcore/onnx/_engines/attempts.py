"""Try an engine less and less often while it fails."""

from seqcore.onnx._model.tensors import one_line

# After the k-th failure in a row 2ᵏ chances go by, with k up to this.
_MOST_DOUBLINGS = 8


class Attempts:
    """Decides whether to try. Threads may lose a count, which only moves the next attempt.

    Attributes
    ----------
    taken, failures : int
        The numbers of successes and failures.
    reason : str
        Why it failed last.
    """

    def __init__(self) -> None:
        self.taken = self.failures = 0
        self.reason = ""
        self._in_a_row = 0
        self._skip = 0

    def is_due(self) -> bool:
        """Return whether to take this chance."""
        if self._skip > 0:
            self._skip -= 1
            return False
        return True

    def failed(self, reason: BaseException | None = None) -> None:
        """Let some chances go by."""
        self.failures += 1
        self.reason = "" if reason is None else one_line(reason)
        self._in_a_row = min(self._in_a_row + 1, _MOST_DOUBLINGS)
        self._skip = 1 << self._in_a_row

    def succeeded(self) -> None:
        """Forget the failures in a row."""
        self.taken += 1
        self._in_a_row = 0
