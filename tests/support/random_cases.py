"""How random the random tests are: without a seed a few cases, always the same, with one many new ones.

`pytest --seed N` gives one, `--seed new` any; the environment variable SEQCORE_SEED does too, and takes it on
to other processes. Nothing else decides what is drawn, so a failure comes back with the seed that its report
names.
"""

import os
import secrets

from hypothesis import HealthCheck, given, settings
from hypothesis.strategies import just

VARIABLE = "SEQCORE_SEED"


def run_seed():
    """The seed of this run, None if there is none."""
    given = os.environ.get(VARIABLE)
    return int(given) if given else None


def settle(given):
    """Decide on the seed: what was given or stands in the environment, with a number in place of "new"."""
    given = given or os.environ.get(VARIABLE, "")
    if given == "new":
        given = str(secrets.randbelow(1_000_000_000))
    if given and not given.isdecimal():
        raise ValueError(f"a seed is a whole number or 'new', not {given!r}")
    os.environ[VARIABLE] = given


def seeds(few, many):
    """Seeds of cases: the first few numbers, or many from the run's seed on."""
    first = run_seed()
    return range(few) if first is None else range(first, first + many)


def examples(many):
    """How many of Hypothesis' examples a test has: so many with a seed, a quarter without."""
    return max(many // 4, 6) if run_seed() is None else many


def load_profile():
    """Set up Hypothesis. No example is kept from run to run: a seed says all."""
    settings.register_profile(
        "seqcore",
        max_examples=examples(100),
        derandomize=run_seed() is None,
        database=None,
        print_blob=True,
        # How fast a machine is, a sanitized interpreter above all, is no finding.
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.load_profile("seqcore")
    # Let it find NumPy's generators now: who holds them doesn't show behind a freeze of the garbage search.
    given(just(None))(lambda nothing: None)()
