"""Once: what is made at the first need, by one thread, however many ask."""

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

Made = TypeVar("Made")


class Once(Generic[Made]):
    """A value that is made once. After a failure, the next caller tries again.

    Parameters
    ----------
    make : callable
        Makes the value; it is let go then, with all that it holds.
    """

    def __init__(self, make: Callable[[], Made]) -> None:
        self._make: Callable[[], Made] | None = make
        self._lock = threading.Lock()
        self._made: list[Made] = []

    def get(self) -> Made:
        """Return the value; while another thread makes it, wait."""
        if not self._made:
            with self._lock:
                self._finish()
        return self._made[0]

    def get_unless_busy(self) -> Made | None:
        """Return the value, None while another thread makes it."""
        if self._made:
            return self._made[0]
        if not self._lock.acquire(blocking=False):
            return None
        try:
            self._finish()
        finally:
            self._lock.release()
        return self._made[0]

    def _finish(self) -> None:
        if not self._made and self._make is not None:
            self._made.append(self._make())
            self._make = None
