"""Plain words: the phrases that .ci/words.py counts are rare, and it finds them."""

import importlib.util
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / ".ci" / "words.py"
if not SCRIPT.exists():
    pytest.skip("outside of the repository", allow_module_level=True)

spec = importlib.util.spec_from_file_location("words", SCRIPT)
words = importlib.util.module_from_spec(spec)
spec.loader.exec_module(words)


def names(text, is_page=True):
    return [name for _, name, _ in words.finds(text, is_page)]


@pytest.mark.slow
def test_text_of_the_project(capsys):
    assert words.main([]) == 0, capsys.readouterr().out


def test_files_that_are_not_counted_exist():
    listed = [path.relative_to(words.ROOT).as_posix() for path in words.ROOT.rglob("*.*")]
    assert [place for place in words.LATER if not any(name.startswith(place) for name in listed)] == []


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Who keeps frames in lists splits them.", "sentence that begins with Who or What"),
        (
            "One thing. What was loaded pickles as\npath and positions.",
            "sentence that begins with Who or What",
        ),
        ("- Whoever has it loaded keeps it.", "sentence that begins with Who or What"),
        ("It looks at the length of what is\nfed.", "clause without a noun"),
        ("a list, of which only the length is read", "of which"),
        ("Elements are read-only, for others may share them.", "for, meaning because"),
        ("a copy, for the memory is another's", "for, meaning because"),
        ("A class is no element type.", "negation on the noun"),
        ("Negative strides PyTorch has not.", "negation on the noun"),
        ("all of it, but for\nthe last bits", "but for"),
        ("in some 150 µs, or some three times", "some, meaning about"),
        ("It takes a ninth of the time.", "fraction of a time"),
        ("It splits them in hundredths of the time.", "fraction of a time"),
        ("Of bools and strings always one.", "inverted sentence"),
        ("It takes it that a loop runs.", "takes it that"),
        ("The data in one piece", "private word"),
    ],
)
def test_bad_sentence(text, name):
    assert name in names(text)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('"""Whether a mask is returned too."""', "docstring that begins with Whether, What or Where"),
        (
            '"""Do it.\n\n    mask : bool, optional\n        Whether a mask is returned too.\n    """\n',
            "docstring that begins with Whether, What or Where",
        ),
        ("x = 1  # first\n# What comes of it is\n# a sequence.\n", "sentence that begins with Who or What"),
        ('raise TypeError("a list is no tensor")', "negation on the noun"),
    ],
)
def test_bad_sentence_in_code(text, name):
    assert name in names(text, is_page=False)
