"""Names of a test's cases that say which values they have.

pytest names numbers by themselves and most other values by their place in the table, so that a failing
`test_x[0-True-value3]` says nothing. Here each value has the name of its parameter in front, unless it is
text or has a name of its own: `test_x[first=0-copy=True-value=[1, 2]]`.
"""

import types

import numpy as np

LONGEST = 50  # characters of one value
PLAIN = (int, float, complex, bool, slice, range, type(None), type(...))
NAMED = (type, types.FunctionType, types.BuiltinFunctionType, np.ufunc)


def shortened(text):
    text = " ".join(text.split()).encode("unicode_escape").decode()
    return text if len(text) <= LONGEST else text[: LONGEST - 3].rstrip() + "..."


def told(value):
    """Return what tells a value from others. It has to be the same in each process."""
    if isinstance(value, str | bytes) or type(value) in PLAIN:
        return repr(value)
    if isinstance(value, BaseException):
        return f"{type(value).__name__}({', '.join(map(told, value.args))})"
    if isinstance(value, np.generic):
        return f"{value.dtype}({value})"
    if isinstance(value, types.FunctionType) and value.__name__ == "<lambda>":
        code = value.__code__
        constants = [repr(one) for one in code.co_consts if type(one) in (str, int, float)]
        return "-".join([*code.co_names, *constants])
    if isinstance(value, np.ndarray):
        few = f" {value.tolist()}" if value.size <= 4 and value.dtype != object else ""
        return f"{value.dtype}{list(value.shape)}{few}"
    if isinstance(value, np.dtype):
        return str(value)
    if type(value) in (list, tuple):
        return "[" + ", ".join(map(told, value)) + "]"
    if type(value) is dict:
        return "{" + ", ".join(f"{key}: {told(one)}" for key, one in value.items()) + "}"
    return getattr(value, "__name__", type(value).__name__)


def case_id(value, name):
    """Return what a case is called for one of its values."""
    if isinstance(value, str) and any(map(str.isalpha, value)):
        return shortened(value)
    if isinstance(value, NAMED) and value.__name__ != "<lambda>":
        return value.__name__
    return f"{name}={shortened(told(value))}"
