"""Run tests of other projects against seqcore, and print how many pass.

    PYTHONPATH=tests python -m hardening.others [lists] [arrays] [arrow] [models] [loaders=FILE]

Each module takes tests that are installed, replaces the functions of their project by calls of seqcore, and
counts. Its `EXCEPTIONS` say which tests can't pass, and why; one that isn't needed is a failure too. All that
are installed run without a name. FILE is a file with PyTorch's tests, which no package has: see `loaders`.
"""

import importlib
import sys

from hardening.others.outcomes import Report

INSTALLED = ("lists", "arrays", "arrow", "models")


def main(names):
    as_expected = True
    for name in names or INSTALLED:
        name, *arguments = name.split("=", 1)
        found = importlib.import_module(f"hardening.others.{name}").run(*arguments)
        for report in [found] if isinstance(found, Report) else found:
            print(report, flush=True)
            as_expected &= report.as_expected
    return not as_expected


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
