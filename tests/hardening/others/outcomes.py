"""Run tests of others, and compare what failed with a table of exceptions."""

import fnmatch
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
TESTS = HERE.parents[1]


class Outcome(NamedTuple):
    """What became of one test: "passed", "skipped" or "failed", and the last line of its failure."""

    name: str
    result: str
    why: str = ""


class Report:
    """The outcomes of a suite.

    Parameters
    ----------
    suite : str
        The name, for people.
    outcomes : list of Outcome
    exceptions : dict
        A reason by the name of a test that can't pass, which may have wildcards.
    """

    def __init__(self, suite, outcomes, exceptions):
        self.suite, self.outcomes, self.exceptions = suite, outcomes, exceptions

    def excepted(self, outcome):
        return next((key for key in self.exceptions if fnmatch.fnmatchcase(outcome.name, key)), None)

    @property
    def passed(self):
        return [one for one in self.outcomes if one.result == "passed"]

    @property
    def skipped(self):
        return [one for one in self.outcomes if one.result == "skipped"]

    @property
    def failed(self):
        """The failures without an exception."""
        return [one for one in self.outcomes if one.result == "failed" and self.excepted(one) is None]

    @property
    def allowed(self):
        return [one for one in self.outcomes if one.result == "failed" and self.excepted(one) is not None]

    @property
    def stale(self):
        """The exceptions that no failure needs."""
        return sorted(self.exceptions.keys() - {self.excepted(one) for one in self.allowed})

    @property
    def as_expected(self):
        return bool(self.passed) and not self.failed and not self.stale

    def __str__(self):
        lines = [
            f"{self.suite}: {len(self.outcomes)} tests, {len(self.passed)} passed, {len(self.skipped)} "
            f"skipped, {len(self.allowed)} exceptions, {len(self.failed)} failed"
        ]
        lines += [f"  FAILED {one.name}: {one.why}" for one in self.failed]
        lines += [f"  not needed: the exception for {name}" for name in self.stale]
        return "\n".join(lines)


def run_rewritten(files, chosen, *arguments, timeout=1800):
    """Run rewritten copies of test files by pytest, each in a temporary folder, and return the outcomes.

    Parameters
    ----------
    files : dict
        The text of each file by its name.
    chosen : str
        An expression for pytest's `-k`.
    *arguments
        More arguments of pytest.
    """
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        for name, text in files.items():
            (folder / name).write_text(text, encoding="utf-8")
        (folder / "pytest.ini").write_text("[pytest]\n")
        paths = [str(folder), str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])]
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "pytest",
                "-q",
                "-p",
                "no:cacheprovider",
                "-W",
                "ignore::pytest.PytestUnknownMarkWarning",
                "--junitxml",
                "out.xml",
            ]
            + ["-k", chosen, *arguments, *files],
            cwd=folder,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
            capture_output=True,
            text=True,
            timeout=timeout,
        )
        if done.returncode not in (0, 1):
            raise RuntimeError(done.stdout + done.stderr)
        return [outcome_of(case) for case in ET.parse(folder / "out.xml").iter("testcase")]


def outcome_of(case):
    """Return the outcome of a test in JUnit's form."""
    name = f"{case.get('classname').rpartition('.')[2]}.{case.get('name')}"
    for child in case:
        if child.tag == "skipped":
            return Outcome(name, "skipped", child.get("message") or "")
        if child.tag in ("failure", "error"):
            return Outcome(name, "failed", (child.get("message") or "").strip().partition("\n")[0])
    return Outcome(name, "passed")
