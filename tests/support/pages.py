"""Pages of Markdown, whose code runs as it stands there.

A `python` block runs in the namespace that the blocks before it have left, in a folder of the page's own. A
`text` block right behind it shows what it prints, and the exception, if it ends with one; `…` stands for
whatever there may be. What prints nothing shows nothing.

A `shell` block is a command to a line. `python -m seqcore.onnx` runs, as a block of python does; of what
installs packages or takes minutes only the names and options are checked.

A block that begins with the name of a file, as a comment of its language (`# train.py`, `/* events.c */`),
becomes that file, and the line `python train.py` of a `shell` block runs it.

`<!-- needs: torch, numpy>=2.1 -->` before a block says that it can run only where these packages are; with a
marker, `torch; sys_platform == "linux"`, also on what system. At the top of a page it holds for all of it.

`<!-- given: decoder.onnx from tests/models/recurrence.onnx -->` copies a file of the repository to the
folder.
"""

import contextlib
import importlib.util
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import traceback
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from packaging.requirements import Requirement
from support import extensions

ROOT = Path(__file__).parents[2]
MARKUP = ["{eval-rst}"]  # what Sphinx reads, and no code


_FENCE = re.compile(
    r"(?:^<!-- needs: (?P<needs>.+?) -->\n+)?^```(?P<language>.*)\n(?P<text>(?s:.*?))^```$", re.M
)


class Block(NamedTuple):
    """A block of code: where it is, what it needs and what it shows; None where it shows nothing."""

    line: int
    language: str
    text: str
    needs: tuple[str, ...]
    shown: str | None

    @property
    def can_run(self):
        return all(map(is_there, self.needs))


def is_there(need):
    """Whether a package is installed, in a version that is asked for, on a system that is asked for."""
    need = Requirement(need)
    if need.marker is not None and not need.marker.evaluate():
        return False
    if importlib.util.find_spec(need.name) is None:
        return False
    return not need.specifier or need.specifier.contains(metadata.version(need.name))


def blocks_of(page):
    """Return the blocks of a page that do something, in order."""
    source = page.read_text(encoding="utf-8")
    assert len(re.findall(r"^ *(```|~~~)", source, re.M)) % 2 == 0, f"{page.name}: a block has no end"
    for_all = re.match(r"<!-- needs: (.+?) -->\n\n", source)
    blocks, end = [], None
    for found in _FENCE.finditer(source):
        line = source.count("\n", 0, found.start("language")) + 1
        language, text = found["language"], found["text"]
        where = f"{page.name}, line {line}"
        if language == "text":
            before = source[end : found.start()] if end is not None else None
            assert before is not None, f"{where}: this is shown before anything ran"
            assert not before.strip(), f"{where}: what a block prints stands right behind it"
            assert blocks[-1].shown is None, f"{where}: shown twice"
            blocks[-1] = blocks[-1]._replace(shown=text)
        elif language not in MARKUP:
            assert language in RUNNERS, f"{where}: a block of {language or 'no language'}"
            needs = ", ".join(filter(None, [for_all and for_all[1], found["needs"]]))
            blocks.append(Block(line, language, text, tuple(needs.split(", ") if needs else ()), None))
            end = found.end()
    return blocks


def run(page, kept_builds=None):
    """Run the blocks of a page in the current folder, but those whose packages are missing.

    Extensions are compiled with `support.extensions`, as other tests do.
    """
    for name, given in re.findall(r"^<!-- given: (\S+) from (\S+) -->$", page.read_text("utf-8"), re.M):
        shutil.copy(ROOT / given, name)
    names = {"__name__": "page", "_kept_builds": kept_builds}
    for block in blocks_of(page):
        if block.can_run:
            printed = RUNNERS[block.language](block, page, names)
            check_shown(block, page, printed)


def check_shown(block, page, printed):
    shown = block.shown or ""
    pattern = ".*".join(map(re.escape, plain(shown).split("…")))
    if not re.fullmatch(pattern, plain(printed), re.S):
        raise AssertionError(f"{page.name}, line {block.line} prints\n{printed}\nbut shows\n{shown}")


def plain(text):
    return "\n".join(line.rstrip() for line in text.rstrip().splitlines())


# -- what runs a block ----------------------------------------------------------------------------------


def file_of(block):
    """The name of the file that a block is to become, or None."""
    found = re.match(r"(?:#|//|/\*) (\w+\.(?:py|pyx|c|cpp|toml))(?: \*/)?\n", block.text)
    return found and found[1]


def write_file(block, page, names):
    name = file_of(block)
    assert name is not None, f"{page.name}, line {block.line}: code of {block.language} that is no file"
    Path(name).write_text(block.text, encoding="utf-8")
    return ""


def run_python(block, page, names):
    if file_of(block):
        return write_file(block, page, names)
    printed = io.StringIO()
    code = compile("\n" * block.line + block.text, str(page), "exec", dont_inherit=True)
    with contextlib.redirect_stdout(printed):
        try:
            exec(code, names)
        except Exception as error:
            if block.shown is None:
                raise
            printed.write("".join(traceback.format_exception_only(error)))
    return printed.getvalue()


def run_shell(block, page, names):
    return "".join(run_command(line, names["_kept_builds"]) for line in block.text.splitlines())


def run_command(line, kept_builds):
    words = shlex.split(line, comments=True)
    if words[:2] == ["pip", "install"]:
        check_installs(words[2:])
    elif words[:3] == ["python", "-m", "benchmarks"]:
        check_benchmarks(words[3:])
    elif words[:2] == ["python", "setup.py"]:
        assert words[2:] == ["-q", "build_ext", "--inplace"], line
        extensions.build(Path.cwd(), kept=kept_builds)
    elif len(words) > 1 and re.fullmatch(r"\w+\.py", words[1]) and words[0] == "python":
        done = run_interpreter(*words[1:])
        assert done.returncode == 0, done.stderr
        return done.stdout
    else:
        assert words[:3] == ["python", "-m", "seqcore.onnx"], f"no test knows how to run: {line}"
        from seqcore.onnx.__main__ import main

        printed = io.StringIO()
        with (
            contextlib.redirect_stdout(printed),
            contextlib.redirect_stderr(printed),
            contextlib.suppress(SystemExit),  # of --help
        ):
            main(words[3:])
        return printed.getvalue()
    return ""


def run_module(*arguments):
    """Run `python -m …`, see `run_interpreter`."""
    return run_interpreter("-m", *arguments)


def run_interpreter(*arguments):
    """Run `python …` with the modules that this process finds, whatever its folder is by now."""
    path = os.pathsep.join(os.path.abspath(part) for part in sys.path)
    return subprocess.run(
        [sys.executable, *arguments],
        env=os.environ | {"PYTHONPATH": path, "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=300,
    )


def check_installs(arguments):
    """Each argument is an option, this project with extras that it has, or the plain name of a package."""
    for argument in arguments:
        found = re.fullmatch(r"(?:seqcore-tensors|\.)(?:\[([\w,]+)\])?", argument)
        assert argument == "-e" or found or re.fullmatch(r"[A-Za-z][a-z_]*", argument), argument
        assert argument != "seqcore", "that is a stranger's"
        if found and found[1]:
            assert {*found[1].split(",")} <= known_extras(), argument


def known_extras():
    if (ROOT / "pyproject.toml").exists():
        import tomllib

        project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        return {*project["optional-dependencies"]}
    return {*metadata.metadata("seqcore-tensors").get_all("Provides-Extra", ())}


def check_benchmarks(arguments):
    from benchmarks.__main__ import parse

    parse(arguments)


RUNNERS = {"python": run_python, "shell": run_shell}
RUNNERS |= dict.fromkeys(("cython", "c", "cpp", "toml"), write_file)
