"""Subclasses in copies: what Python's protocol lets a class say, and `list` keeps to.

That is `__getnewargs_ex__`, `__getnewargs__`, `__getstate__`, `__setstate__`, `__reduce_ex__`, `__reduce__`,
functions registered with `copyreg`, and `__slots__`. The elements themselves go whole, not one by one.
"""

import copyreg
from copy import deepcopy


def new_arguments(seq):
    """What a class wants its `__new__` to be given for another such instance: a tuple and a dict."""
    cls = type(seq)
    if hasattr(cls, "__getnewargs_ex__"):
        arguments = seq.__getnewargs_ex__()
        if not (type(arguments) is tuple and list(map(type, arguments)) == [tuple, dict]):
            raise TypeError(f"{cls.__name__}.__getnewargs_ex__ returns a tuple of a tuple and a dict")
        return arguments
    if hasattr(cls, "__getnewargs__"):
        arguments = seq.__getnewargs__()
        if type(arguments) is not tuple:
            raise TypeError(
                f"{cls.__name__}.__getnewargs__ returns a tuple, not a {type(arguments).__name__}"
            )
        return arguments, {}
    return (), {}


def own_reduction(seq, base):
    """What a subclass itself says of how its instances are made again; None where `base` says it."""
    cls = type(seq)
    if cls in copyreg.dispatch_table:
        return copyreg.dispatch_table[cls](seq)
    if cls.__reduce_ex__ is not base.__reduce_ex__ or cls.__reduce__ is not base.__reduce__:
        return seq.__reduce_ex__(4)  # as the module copy asks
    return None


def rebuilt(seq, reduction, memo=None):
    """What a reduction makes, as `copy.copy` has it, or with a memo `copy.deepcopy`."""
    if isinstance(reduction, str):
        return seq  # the name of something that there is once

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
    """Give an instance what `__getstate__` has returned of another."""
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
