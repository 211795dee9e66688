"""Random mistakes of one token: which of them do tests find?

    python tests/hardening/random_mutants.py [--count 20] [--seed 0] FILE … -- TESTS …

draws so many mutants of the given Python or Cython files, each with one token exchanged (`<` and `<=`, `+`
and `-`, `and` and `or`, 0 and 1, a condition and its opposite, …). Each is written into a copy of the tree,
where its module is built if it is compiled, and the tests run there, which are arguments of pytest. A table
says which die, which live, and which hang; what doesn't build is drawn anew. Those that live are where tests
are missing, or where the code says something twice.
"""

import argparse
import random
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
SWAPS = [
    ("<", "<="),
    (">", ">="),
    ("==", "!="),
    ("+", "-"),
    ("*", "+"),
    ("//", "*"),
    ("<<", ">>"),
    ("&", "|"),
]
SWAPS += [("and", "or"), ("True", "False"), ("0", "1"), ("1", "2"), ("is", "is not"), ("in", "not in")]
SWAPS += [("min", "max"), ("break", "continue"), ("if not", "if"), ("+=", "-="), ("-1", "0")]
CHANGES = {}
for _one, _other in SWAPS:
    CHANGES.setdefault(_one, []).append(_other)
    CHANGES.setdefault(_other, []).append(_one)
# The longest first, so that `<=` is one token; `if` alone becomes `if not`.
TOKENS = re.compile(r"if not\b|is not\b|not in\b|\b\w+\b|-1\b|[-+*/<>=!&|]+")
NO_CODE = re.compile(
    r'"""[\s\S]*?"""|"[^"\n]*"|\'[^\'\n]*\'|#.*|^.*\bc?import\b.*$|^ *(?:cdef|cpdef|def|@|raise).*$', re.M
)


def mutants_of(text):
    """Return each place and what may stand there: (start, stop, replacement)."""
    skipped = [match.span() for match in NO_CODE.finditer(text)]
    found = []
    for match in TOKENS.finditer(text):
        if not any(start <= match.start() < stop for start, stop in skipped):
            found += [(*match.span(), other) for other in CHANGES.get(match[0], ())]
    return found


def run(tree, limit, *command):
    """Return "passed", "failed" or "hangs"."""
    try:
        done = subprocess.run([sys.executable, *command], cwd=tree, capture_output=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return "hangs"
    return "failed" if done.returncode else "passed"


def compiles(text):
    try:
        compile(text, "a mutant", "exec")
    except SyntaxError:
        return False
    return True


def build(tree):
    return run(tree, 600, "setup.py", "-q", "build_ext", "--inplace") == "passed"


def attempt(tree, name, mutant, tests, limit):
    """Return how a mutant ends: "dies", "lives", "hangs", or None if it doesn't build."""
    path = tree / name
    text = path.read_text(encoding="utf-8")
    start, stop, other = mutant
    changed = text[:start] + other + text[stop:]
    try:
        path.write_text(changed, encoding="utf-8")
        if not (compiles(changed) if path.suffix == ".py" else build(tree)):
            return None
        ended = run(tree, limit, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests)
        return {"passed": "lives", "failed": "dies", "hangs": "hangs"}[ended]
    finally:
        path.write_text(text, encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", metavar="FILE")
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=int, default=300, help="seconds until a mutant hangs")
    ours, _, tests = " ".join(sys.argv[1:]).partition(" -- ")
    options, tests = parser.parse_args(ours.split()), tests.split()
    drawn = [
        (name, mutant)
        for name in options.files
        for mutant in mutants_of((ROOT / name).read_text(encoding="utf-8"))
    ]
    random.Random(options.seed).shuffle(drawn)
    counts = dict.fromkeys(("dies", "lives", "hangs"), 0)
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder, "tree")
        shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns(".git", "__pycache__"), symlinks=True)
        whole = run(tree, options.limit, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests)
        if whole != "passed":
            raise SystemExit(f"without a mutant the tests end so: {whole}")
        for name, mutant in drawn:
            if sum(counts.values()) == options.count:
                break
            if ended := attempt(tree, name, mutant, tests, options.limit):
                counts[ended] += 1
                text = (ROOT / name).read_text(encoding="utf-8")
                line = text.count("\n", 0, mutant[0]) + 1
                told = text.splitlines()[line - 1].strip()
                print(
                    f"{ended:5}  {name}:{line}: {text[slice(*mutant[:2])]!r} → {mutant[2]!r}  {told}",
                    flush=True,
                )
    print(", ".join(f"{count} {how}" for how, count in counts.items()))


if __name__ == "__main__":
    main()
