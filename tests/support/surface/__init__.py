"""The public surface: each call, its arguments by recipe, what NumPy or a list gives, and its errors.

A `Call` has a `label` such as "to_padded, masked". The part before the comma is the public name: methods of
TensorSequence stand alone, others have their class in front ("Columns.names"). `run` is the call. Its
parameters say what it takes: one with a default is an argument as it stands, one without is made by the
recipe of that name, a property of `Operands`, so that it fits the sequence `seq`:

    call("append", lambda seq, tensor: seq.append(tensor), edits=True, answer=SAME)

- `answer` has the same parameters, or fewer, with a list of arrays in place of `seq`, and returns what `run`
  has to return. `SAME` is `run` itself on that list. A call with `edits` changes `seq`; its answer, the list.
- `raises` is the error that the call ends with.
- `on` names the one of SEQUENCES that the call is made for, though most calls take any.
- `touches` says which elements are read: "each" by itself, "one", "join" (together), or "none" (they are only
  moved or counted). Where it is empty, that depends on the sequence.
- `memory` is how the call stands a failed allocation: "strict" with a MemoryError, nothing is left behind,
  "loose" where code of others may raise something else, "out" where such code ends the process or leaks.
- `partly`: it is several edits, and the first may hold when the last has failed.

Use them so:

    for one in CALLS.values():
        operands = Operands(SEQUENCES[one.on]())
        one(operands)                       # or one.bound(operands), which prepares the arguments alone
        one(operands, position=99)          # with another argument

`public_names()` lists the names that have to be here. Odd arguments, failed and exhausted allocations, leaks,
damaged data, threads, the reference, and the properties in tests/properties go by this list.
"""

from support.surface import methods, others  # noqa: F401  (they fill the table)
from support.surface.answers import all_windows, window_ids  # noqa: F401
from support.surface.calls import CALLS, FITTING  # noqa: F401
from support.surface.operands import (  # noqa: F401
    BASE,
    MORE,
    RANK3,
    ROWS,
    SEQUENCES,
    TENSOR,
    WATCHED,
    Operands,
    made,
)

import seqcore as sq
from seqcore import BatchSampler, Columns, TensorSequence

# What each class has and nobody calls, and what only looks public (Columns.of, .inner, .sequences).
UNCALLED = {
    *("__new__", "__doc__", "__module__", "__dict__", "__weakref__", "__annotations__", "__dir__"),
    *("__slots__", "__slotnames__", "__pyx_vtable__", "__array_ufunc__"),
    *("__static_attributes__", "__firstlineno__"),  # since Python 3.13
    *("Columns.of", "Columns.inner", "Columns.sequences", "ELEMENT_TYPES", "get_include"),
}
ALIASES = {
    "__init__": "TensorSequence",
    "Columns.__init__": "Columns",
    "BatchSampler.__init__": "BatchSampler",
}


def public_names():
    """Return the names of all public functions, methods, properties and operators."""
    names = {*sq.__all__}
    # What `dir` doesn't show is there for its error alone, which names the call that is meant.
    for one, prefix in (
        (TensorSequence([0]), ""),
        (Columns({"a": [0]}), "Columns."),
        (BatchSampler([1], batch_size=1), "BatchSampler."),
    ):
        shown = {*dir(one)}
        for kind in type(one).__mro__[:-1]:
            if kind.__module__.startswith("seqcore"):
                found = shown & {*vars(kind)}
                names |= {prefix + name for name in found if name[0] != "_" or name[:2] == "__"}
    return {ALIASES.get(name, name) for name in names if name.rpartition(".")[2] not in UNCALLED} - UNCALLED
