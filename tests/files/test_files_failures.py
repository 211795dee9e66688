"""What fails while a file is written leaves an older one as it was, and nothing beside it."""

import itertools
import json
import os
import sys
from types import MappingProxyType

import numpy as np
import pytest
from support.bodies import Refusal
from support.processes import output_of
from support.races import together
from support.saved import contents, needs_proc, open_files, part, ragged, saved, unchanged
from support.strategies import assert_holds

import seqcore as sq

# --- what fails ---


def then(shapes, *others):
    """Some good parts, and then others; an exception among these is raised."""
    for i, some in enumerate(shapes):
        yield part(some, start=i)
    for other in others:
        if isinstance(other, BaseException):
            raise other
        yield other


def two(*others):
    return lambda: then([[(2, 3)], [(1, 3), (2, 3)]], *others)


def numbers(*others):
    return lambda: itertools.chain([np.arange(3), np.arange(2)], others)


FAILING = {
    "raises": (two(Refusal("no")), Refusal, "^no$"),
    "raises at first": (lambda: then([], Refusal("no")), Refusal, "^no$"),
    "raises behind other widths": (two(part([(2, 4)]), Refusal("no")), Refusal, "^no$"),
    "raises an OSError": (two(OSError(28, "none left")), OSError, "none left"),
    "KeyboardInterrupt": (two(KeyboardInterrupt("no")), KeyboardInterrupt, "no"),
    "SystemExit": (two(SystemExit("no")), SystemExit, "no"),
    "MemoryError": (two(MemoryError("no")), MemoryError, "no"),
    "a part of another type": (two(part([(2, 3)], "float32")), TypeError, r"(?s)part 2\b.*float32"),
    "an empty part of another type": (two(part([], "float32")), TypeError, r"(?s)part 2\b.*float32"),
    "a part of another rank": (two(part([(2,)])), (TypeError, ValueError), r"part 2\b"),
    "a part of other ranks": (two(part([(2, 3), (2,)])), (TypeError, ValueError), r"part 2\b"),
    "a part that is none": (two(3), TypeError, r"part 2\b"),
    "a part that is text": (two("abc"), TypeError, r"part 2\b"),
    "None": (two(None), TypeError, r"part 2\b"),
    "complex parts": (lambda: then([], part([3], "complex64")), TypeError, "complex64"),
    "a tensor of another type": (numbers(np.float32([1])), TypeError, r"(?s)float32"),
    "a tensor of another rank": (numbers(np.zeros((1, 2), int)), (TypeError, ValueError), r"\(1, 2\)"),
    "a tensor of dates": (numbers(np.array(["2020-01-01"], "M8[D]")), TypeError, r"datetime64|date"),
    "a tensor that is none": (numbers(object()), TypeError, "object"),
    "nothing": (lambda: iter([]), ValueError, r"(?i)type|empty|no "),
    "an empty list": (lambda: [], ValueError, r"(?i)type|empty|no "),
    "complex64": (lambda: part([3], "complex64"), TypeError, "complex64"),
    "complex128": (lambda: part([], "complex128"), TypeError, "complex128"),
    "bfloat16": (lambda: part([3], "bfloat16"), TypeError, "bfloat16"),
    "several ranks": (lambda: part([(2, 3), (2,)]), ValueError, r"(?s)\(2,\).*\(2, 3\)"),
    "numbers and rows": (lambda: part([(3,), ()]), ValueError, r"(?s)\(\).*\(3,\)"),
    "half a character": (lambda: [np.array(["a", "\ud800"], object)], (ValueError, TypeError), "."),
    "an array": (lambda: np.arange(6).reshape(2, 3), TypeError, "put it into a list$"),
    "a number": (lambda: 3, TypeError, "got 3 of type int: put it into a list$"),
    "text": (lambda: "abc", TypeError, "str"),
    "bytes": (lambda: b"abc", TypeError, "bytes"),
    "a dict": (lambda: {"a": [1]}, TypeError, r"got \{'a': \[1\]\} of type dict: make Columns\(…\) of it$"),
    "another mapping": (lambda: MappingProxyType({"a": [1]}), TypeError, r"make Columns\(…\) of it$"),
    "no sequence": (lambda: None, TypeError, "got None of type NoneType$"),
}


@pytest.mark.parametrize("older", [True, False], ids=["older file", "no file"])
@pytest.mark.parametrize(("make", "error", "match"), FAILING.values(), ids=FAILING)
def test_a_failure_leaves_the_folder_as_it_was(path, make, error, match, older):
    if older:
        sq.save(path, ragged([1, 2, 3]))
    (path.parent / "other").write_text("beside it")
    with unchanged(path.parent), pytest.raises(error, match=match):
        sq.save(path, make())
    if older:
        assert_holds(sq.load(path), list(ragged([1, 2, 3])))
    assert_holds(saved(path, ragged([2])), list(ragged([2])))


def test_the_older_file_is_there_until_all_is_written(path):
    sq.save(path, ragged([1, 2, 3]))
    before = path.read_bytes()

    def parts():
        for i in range(5):
            assert path.read_bytes() == before
            yield ragged([2] * 5000, start=i)
        assert path.read_bytes() == before
        assert_holds(sq.load(path), list(ragged([1, 2, 3])))

    sq.save(path, parts())
    assert len(sq.load(path)) == 25_000
    assert os.listdir(path.parent) == [path.name]


def test_a_generator_that_saves_to_the_same_file(path):
    def parts():
        yield ragged([1])
        assert_holds(saved(path, ragged([5])), list(ragged([5])))
        yield ragged([2])

    assert_holds(saved(path, parts()), [*ragged([1]), *ragged([2])])
    assert os.listdir(path.parent) == [path.name]


def test_saved_over_what_it_was_loaded_from(path):
    seq = ragged([3, 0, 2, 1])
    expected = list(seq)
    older = saved(path, seq)
    for _ in range(3):
        back = saved(path, older[::-1])
        expected.reverse()
        assert_holds(older, expected[::-1])
        assert_holds(back, expected)
        older = back
    sq.save(path, (sq.load(path)[i : i + 1] for i in range(4)))
    assert_holds(sq.load(path), expected)
    assert os.listdir(path.parent) == [path.name]


def test_several_threads_save_to_one_file(path):
    sq.save(path, ragged([1]))
    choices = [ragged([i] * (100 * i)) for i in range(1, 5)]

    def save(seq):
        return lambda: [sq.save(path, iter([seq, seq])) for _ in range(10)]

    together(*map(save, choices))
    back = sq.load(path)
    assert_holds(back, 2 * list(choices[len(back[0]) - 1]))
    assert os.listdir(path.parent) == [path.name]


FULL = """
import json, os, resource, signal, sys
import numpy as np, seqcore as sq
path = sys.argv[1]
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
wide, wider = np.zeros((1000, 100)), np.zeros((1000, 101))
for much in (
    [np.zeros(1 << 18)],
    sq.split_to_sequence(np.zeros((1 << 9, 1 << 9))),
    (sq.split_to_sequence(np.zeros(1 << 14)) for _ in range(100)),
    (np.zeros(1 << 14) for _ in range(100)),
    iter([sq.TensorSequence([wide])] + [sq.TensorSequence([wider])]),
    [np.array(["text " * 1000] * 400, object)],
    [np.zeros(1 << 21, bool)],
):
    try:
        sq.save(path, much)
    except OSError as error:
        print(json.dumps([str(error), error.errno, sorted(os.listdir(os.path.dirname(path)))]))
sq.save(path + ".small", [np.arange(3)])
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="a limit of files' sizes is POSIX's")
@pytest.mark.parametrize("older", [True, False])
def test_a_full_disk_is_an_error_that_names_the_file(path, older):
    """A limit of files' sizes fails as a disk that has no more room: in the middle of a write."""
    if older:
        sq.save(path, ragged([1, 2, 3]))
    before = contents(path.parent)
    failures = [json.loads(line) for line in output_of("-W", "error", "-c", FULL, path).splitlines()]
    assert len(failures) == 7
    for message, number, names in failures:
        assert str(path) in message
        assert number is not None
        assert names == ([path.name] if older else [])
    assert_holds(sq.load(f"{path}.small"), [np.arange(3)])
    os.unlink(f"{path}.small")
    assert contents(path.parent) == before


@needs_proc
@pytest.mark.thread_unsafe
def test_failures_leave_no_file_open(path):
    before = open_files()
    for make, *_ in FAILING.values():
        with pytest.raises(BaseException):  # noqa: B017, PT011
            sq.save(path, make())
    assert open_files() == before
