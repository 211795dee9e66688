"""What the tests of engines share: texts, what a session plans, and what became of its runs."""

from support.models.sessions import model

from seqcore.onnx import InferenceSession
from seqcore.onnx.explaining import explain

# The first element goes to the end, turned round: as often as a loop is told to.
TURN = """
    turn (seq(float[]) s, int64 n) => (seq(float[]) t) {
        zero = Constant <value = int64 {0}> ()
        t = Loop (n, "", s) <body = b (int64 i, bool go, seq(float[]) p) => (bool go, seq(float[]) r) {
            x = SequenceAt (p, zero)
            e = SequenceErase (p, zero)
            y = Neg (x)
            r = SequenceInsert (e, y)
        }>
    }
"""
# The same, but only the run tells how many iterations there are: nothing is known of a product.
# Rows of a tensor, doubled, go into a list: at the end, or where POSITION says.
COLLECT = """
    collect (float[N, 2] x, seq(float[]) s, int64 n, int64 position) => (seq(float[]) t) {
        t = Loop (n, "", s) <body = b (int64 i, bool go, seq(float[]) p) => (bool go, seq(float[]) q) {
            row = Gather (x, i)
            twice = Add (row, row)
            q = SequenceInsert (p, twice POSITION)
        }>
    }
"""
APPEND_ROWS, INSERT_ROWS = COLLECT.replace("POSITION", ""), COLLECT.replace("POSITION", ", position")


def turned(s, n):
    queue = list(s)
    for _ in range(n):
        queue.append(-queue.pop(0))
    return queue


def steps_of(used):
    """The steps that a session runs where onnxruntime doesn't run all."""
    engines = used._engines.compiled
    return (engines.tier("steps") or engines.tier("given steps")).get()


def planner_of(text):
    return steps_of(InferenceSession(model(text))).planner


def schedule_of(text):
    return planner_of(text).schedule


def operators(schedule):
    """The operators of each entry."""
    return [[node.op_type for node in entry.nodes] for entry in schedule.entries]


def explained(text):
    """What `explain` says of what runs where, for all ranks, without the operators' indentation."""
    lines = [line for line in explain(model(text)) if not line.startswith("    compiled anew")]
    return [
        line.removeprefix("    ") for line in lines[lines.index("what runs where, the first that can") + 1 :]
    ]


def for_all_ranks(text, **options):
    """Return a session that doesn't compile its model anew for the ranks that are fed."""
    session = InferenceSession(model(text), **options)
    session._engines.unranked = []
    return session


class Used:
    """A session for a text, with what became of each run.

    `outcomes` has True where onnxruntime ran all, False where it failed, None where it wasn't tried.
    """

    def __init__(self, text, **options):
        self.session = for_all_ranks(text, **options)
        self.engines = self.session._engines.compiled
        self.whole = self.engines.whole
        self.outcomes = []

    def run(self, **feed):
        taken, failures = self.counts()
        try:
            return self.session.run(None, feed)
        finally:
            after = self.counts()
            tried = after != (taken, failures)
            self.outcomes.append(after[0] > taken if tried else None)

    def counts(self):
        """How often a run of the whole model, lowered or not, went well, and how often not.

        What runs long loops of short sequences is left out: see `ran`.
        """
        wholes = [one for one in self.engines.tiers if one.name in ("short", "tensors")]
        return sum(one.taken for one in wholes), sum(one.failures for one in wholes)


def ran(engines):
    """How often each tier gave results, and how often it failed."""
    found = {one.name: (one.taken, one.failures) for one in engines.tiers}
    return {name: counts for name, counts in found.items() if any(counts)}
