"""What a call is, and the table of all."""

import inspect
from functools import cache, partial
from typing import NamedTuple

SAME = "the same on a list"
FITTING = (TypeError, ValueError, IndexError, OverflowError)


@cache
def parameters_of(function):
    return inspect.signature(function).parameters


class Call(NamedTuple):
    label: str
    run: object
    answer: object = None
    raises: object = None
    edits: bool = False
    on: str = "mixed"
    touches: str = ""
    memory: str = "strict"
    partly: bool = False
    section: str = ""

    @property
    def name(self):
        return self.label.partition(",")[0]

    @property
    def parameters(self):
        return parameters_of(self.run)

    @property
    def uses(self):
        """The recipes that it takes: none if it is the same call on every sequence."""
        return [one.name for one in self.parameters.values() if one.default is one.empty]

    def arguments(self, operands, function=None, **instead):
        function = function or self.run
        wanted = parameters_of(function).values()
        return {
            one.name: instead[one.name]
            if one.name in instead
            else getattr(operands, one.name)
            if one.default is one.empty
            else one.default
            for one in wanted
        }

    def bound(self, operands, **instead):
        """Return the call with its arguments made."""
        return partial(self.run, *self.arguments(operands, **instead).values())

    def __call__(self, operands, **instead):
        return self.bound(operands, **instead)()

    def answered(self, operands, model):
        """Return what the answer returns for a list of arrays, which it edits if the call does."""
        function = self.run if self.answer == SAME else self.answer
        return function(**self.arguments(operands, function, seq=model))


CALLS = {}


def section(name, calls, on="mixed", memory="strict"):
    """Add calls of one subject; `on` and `memory` are for those that don't say their own."""
    for one in calls:
        assert one.label not in CALLS, one.label
        CALLS[one.label] = one._replace(
            section=name,
            on=on if one.on == "mixed" else one.on,
            memory=memory if one.memory == "strict" else one.memory,
        )


call = Call


def edit(label, run, answer=SAME, **flags):
    return Call(label, run, answer, edits=True, touches=flags.pop("touches", "none"), **flags)


def error(label, kind, run, **flags):
    return Call(label, run, raises=kind, **flags)
