"""The core's own types, made by themselves and prodded: an exception at worst."""

from support.processes import output_of

PROD = """
import copy, faulthandler, importlib, pickle, pkgutil
import seqcore.core

faulthandler.enable()
ARGUMENTS = [(), (None,), (0,), (0, 0), (2,), ([],), ("text", None)]
SKIPPED = {"__class__", "__delattr__", "__setattr__", "__init_subclass__", "__subclasshook__"}


def prod(call, *arguments):
    try:
        return call(*arguments)
    except Exception:
        return None


types = set()
for module in pkgutil.iter_modules(seqcore.core.__path__):
    for one in vars(importlib.import_module("seqcore.core." + module.name)).values():
        if isinstance(one, type) and one.__module__.startswith("seqcore.core"):
            types.add(one)
for kind in sorted(types, key=str):
    print(kind.__name__, flush=True)
    for made in [prod(kind), *(prod(kind.__new__, kind, *arguments) for arguments in ARGUMENTS)]:
        if made is None:
            continue
        for name in sorted(set(dir(made)) - SKIPPED):
            found = prod(getattr, made, name)
            if callable(found):
                for arguments in [*ARGUMENTS, (made,)]:
                    prod(found, *arguments)
        for way in (copy.copy, copy.deepcopy, pickle.dumps):
            prod(way, made)
"""


def test_types_made_by_themselves_do_no_harm():
    """In a process of its own: what this looks for are crashes."""
    prodded = set(output_of("-c", PROD).split())
    assert {"ArrayOwner", "Share", "Stream", "TableOwner", "TensorSequence"} <= prodded
