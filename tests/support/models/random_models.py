"""Random models of lists as a strategy of Hypothesis, which makes those that fail smaller.

A model is one of `loop_lists.py`, whose loops have rich bodies, or a tidy or wild program of `programs.py`.
Some are written in another way that means the same: see `variants.py`.
"""

from hypothesis import strategies as st
from support.models import loop_lists, variants
from support.models.programs import Program

# Not "names_emptied": onnxruntime (1.32) ends the process in a Split whose outputs have no names.
WRITTEN = ["nodes_shuffled", "with_initializers", "with_constants", "functions_outlined", "types_forgotten"]
WRITTEN += ["nodes_repeated", "ranks_forgotten"]


KINDS = ["loops", "tidy", "wild"]


class Case:
    """A model, what bounds its outputs' numbers, and feeds: pairs of about how many iterations and a feed."""

    def __init__(self, random, kind, is_rewritten):
        if kind == "loops":
            maker, self.model = loop_lists.a_model(random)
            self.bounds = maker.bounds
            counts = [1, random.randint(2, 6), random.randint(0, 6)] + [300] * (random.random() < 0.1)
            self.feeds = [(n, maker.drawn_feed(n)) for n in counts]
        else:
            program = Program(random, is_tidy=kind == "tidy")
            self.model, self.bounds = program.model(), {}
            self.feeds = [(1, feed) for feed in program.feeds()]
        self.in_order = self.model
        if is_rewritten:
            self.model = variants.VARIANTS[random.choice(WRITTEN)](self.model)


def cases(kind, is_rewritten):
    return st.randoms(use_true_random=False).map(lambda random: Case(random, kind, is_rewritten))
