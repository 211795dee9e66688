"""Copy and pickle subclasses by Python's protocol, as `list` does.

It consists of `__getnewargs_ex__`, `__getnewargs__`, `__getstate__`, `__setstate__`, `__reduce_ex__`,
`__reduce__`, functions registered with `copyreg`, and `__slots__`. The elements are copied together, not one
by one.
"""

import copyreg
from copy import deepcopy


def new_arguments(seq):
    """Return the arguments of `__new__` for a copy of an instance: a tuple and a dict."""
    cls = type(seq)
    if hasattr(cls, "__getnewargs_ex__"):
        arguments = seq.__getnewargs_ex__()
        if not (type(arguments) is tuple and list(map(type, arguments)) == [tuple, dict]):
            raise TypeError(f"{cls.__name__}.__getnewargs_ex__ must return a tuple of a tuple and a dict")
        return arguments
    if hasattr(cls, "__getnewargs__"):
        arguments = seq.__getnewargs__()
        if type(arguments) is not tuple:
            raise TypeError(
                f"{cls.__name__}.__getnewargs__ must return a tuple, got a {type(arguments).__name__}"
            )
        return arguments, {}
    return (), {}


def own_reduction(seq, base):
    """Return a subclass's own reduction; None if it uses that of `base`."""
    cls = type(seq)
    if cls in copyreg.dispatch_table:
        return copyreg.dispatch_table[cls](seq)
    if cls.__reduce_ex__ is not base.__reduce_ex__ or cls.__reduce__ is not base.__reduce__:
        return seq.__reduce_ex__(4)  # as the module copy calls it
    return None


def rebuilt(seq, reduction, memo=None):
    """Make an instance from a reduction, as `copy.copy` does, or with a memo `copy.deepcopy`."""
    if isinstance(reduction, str):
        return seq  # the name of a global object

    def own(part):
        return part if memo is None else deepcopy(part, memo)

    make, arguments, state, items, pairs = (*reduction, None, None, None)[:5]
    new = make(*own(arguments))
    if memo is not None:
        memo[id(seq)] = new
    set_state(new, own(state))
    for item in () if items is None else items:
        new.append(own(item))
    for key, value in () if pairs is None else pairs:
        new[own(key)] = own(value)
    return new


def set_state(new, state):
    """Restore the state that `__getstate__` of another instance returned."""
    if state is None:
        return
    if hasattr(new, "__setstate__"):
        new.__setstate__(state)
        return
    slots = None
    if isinstance(state, tuple) and len(state) == 2:
        state, slots = state
    if state is not None:
        new.__dict__.update(state)
    if slots is not None:
        for name in slots:
            setattr(new, name, slots[name])
