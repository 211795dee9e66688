"""What every target reads its bytes with: choices, numbers and arrays, one after the other."""

import numpy as np
from support.strategies import LAYOUTS, dtype_of, laid_out

# Numbers at the ends of what the machine's integers hold, and beyond them.
HUGE = (*(1 << 31, 1 << 62, (1 << 63) - 1, 1 << 63, (1 << 64) - 1, 1 << 70),)
HUGE = (*HUGE, *(-number for number in HUGE), -(1 << 63) - 1)


class Tape:
    """Bytes as answers. Where they end all answers are 0, so that every byte string is a whole input."""

    def __init__(self, data):
        self.data = data
        self.at = 0

    def __bool__(self):
        return self.at < len(self.data)

    def byte(self):
        self.at += 1
        return self.data[self.at - 1] if self.at <= len(self.data) else 0

    def below(self, n):
        return self.byte() % n

    def between(self, low, high):
        """An integer from low to high, both included."""
        return low + self.below(high - low + 1)

    def chance(self, n):
        """True once in n bytes."""
        return self.below(n) == n - 1

    def pick(self, options):
        return options[self.below(len(options))]

    def rest(self):
        data = self.data[self.at :]
        self.at = len(self.data)
        return data

    def shape(self, most=3, longest=3, least=0):
        return tuple(self.between(0, longest) for _ in range(self.between(least, most)))

    def array(self, name, shape=None, layouts=LAYOUTS):
        """A small array of an element type. Few values, so that arrays are often equal; some are NaN."""
        start = self.byte()
        return laid_out(filled(name, self.shape() if shape is None else shape, start), self.pick(layouts))


def filled(name, shape, start):
    count = np.arange(start, start + np.prod(shape, dtype=int)) % 7
    if name == "string":
        return np.array([["", "a", "b", "ab", "é", "\0", "😀"][i] for i in count], object).reshape(shape)
    array = count.astype(dtype_of(name)).reshape(shape)
    if array.dtype.kind in "fc" and array.size and start % 16 == 15:
        array.flat[0] = np.nan
    return array


def bits(array):
    """What tells arrays apart, NaN and -0.0 too."""
    return array.dtype, array.shape, array.tolist() if array.dtype == object else array.tobytes()


def raised(kinds, work, *arguments):
    """Whether some work raises one of these exceptions, and exactly that kind; others go through."""
    try:
        work(*arguments)
    except kinds as error:
        if type(error) not in (kinds if isinstance(kinds, tuple) else (kinds,)):
            raise
        return True
    return False
