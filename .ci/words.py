"""Count phrases that make our text hard to read, and fail if there are more than a few.

    python .ci/words.py [FILE …]

It reads everything that users and contributors read: pages, docstrings, messages and comments. Each find is
printed with its file, its line and a better wording. The patterns are rough, and some finds are good English,
so the script fails only above CEILING. Then rewrite the worst of the finds.
"""

import bisect
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
CEILING = 10  # of all finds together
KINDS = (".md", ".py", ".pyx", ".pxd", ".pyi", ".h", ".toml", ".cff", ".yml", ".yaml")
LATER = {  # files that are not counted yet, and the reason
    "tests/": "follow the modules that they test",
    ".ci/words.py": "has the phrases themselves",
}

VERB = (
    r"(?:is|are|was|were|has|have|had|may|can|could|would|will|does|do|did|must|needs?|takes?|goes?|comes?)"
)
BEGIN = r"(?:^|(?<=[.!?:;] )|(?<=[\"'(]))"  # of a sentence, which may begin a string
ITS_END = r"[^.?!\n]*[.\n]"
DESCRIPTION = "\x02"  # put before the description of a parameter
FRACTION = r"(?:half|third|quarter|fifth|sixth|seventh|eighth|ninth|tenth|hundredths?|thousandths?|fraction)"


class Pattern(NamedTuple):
    instead: str  # what to write
    regex: str
    on_pages: bool = True


PATTERNS = {
    "sentence that begins with Who or What": Pattern(
        "a subject: 'If you keep …', 'Loaded sequences …'",
        rf"{BEGIN}(?:Who(?:ever)?|What)(?! if\b)(?:'s)? (?=\w){ITS_END}",
    ),
    "clause without a noun": Pattern(
        "a noun: 'loaded sequences' for 'what was loaded'",
        rf"\b(?:of|to|from|by|on|in|with|for|as|than|and|but|where) what {VERB}\b",
    ),
    "of which": Pattern("two sentences, or 'whose'", r"\bof (?:which|whom)\b"),
    "for, meaning because": Pattern(
        "'because'",
        rf"[,;] for (?:it|they|he|she|this|that|these|those|there|others?|one|nobody|somebody"
        rf"|(?:an?|the|its|their|each|every|no|some|of) [\w`]+(?: \w+)?|\w+s) (?:{VERB}|\w+n't)\b",
    ),
    "negation on the noun": Pattern(
        "'is not a', 'doesn't have'",
        r"(?<!\b[Tt]here )\b(?:is|are|was|were) no "
        r"(?!longer|more|less|different|doubt|need|slower|faster|better|worse|larger)\w+"
        r"|\b(?:has|have) (?:not|none)(?=[.,;:)]| [A-Z])",
    ),
    "but for": Pattern("'except'", r"\bbut for\b"),
    "some, meaning about": Pattern(
        "'about'",
        r"\bsome (?:\d|half|two|three|four|five|ten|twenty|hundreds?\b|thousands?\b|nanosec|microsec)",
    ),
    "fraction of a time": Pattern(
        "'10× faster'",
        rf"\b(?:in|takes?|took) (?:less than )?an? {FRACTION}\b(?! (?:second|minute|hour|of a second))"
        r"|\bin \w+dths of\b",
    ),
    "docstring that begins with Whether, What or Where": Pattern(
        "'Return …', 'If True, …', 'The …'",
        rf'(?:"""|{DESCRIPTION})(?:Whether|What|Where|How|Who) [a-z][^?\n]*(?:\n|""")',
        on_pages=False,
    ),
    "inverted sentence": Pattern(
        "the subject first",
        rf"{BEGIN}Of (?:what|which|whom|those|others|these|all that|several|an?|bools|types|both)\b{ITS_END}",
    ),
    "takes it that": Pattern("'assumes'", r"\btak(?:es?|ing|en) it that\b"),
    "private word": Pattern(
        "the field's word, see the glossary",
        r"\b(?:in one piece|amidst?|in the midst of|reckon(?:s|ed|ing)?|(?:number )?by number\b(?! of)"
        r"|giv(?:es?|en|ing) (?:the GIL|it|them(?:selves)?|itself) away|lets? (?:it |them |\w+ )?go of"
        r"|flat bod(?:y|ies)|whole tensors?|neighbou?rs|ONNX's text|the text (?:says|of ONNX|decides))\b",
    ),
}


def files():
    """Return the names of the files to read: those that git doesn't ignore, or all in a tree without git."""
    if (ROOT / ".git").exists():
        command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        listed = [name for name in done.stdout.split("\n") if (ROOT / name).is_file()]
    else:
        listed = [path.relative_to(ROOT).as_posix() for path in sorted(ROOT.rglob("*")) if path.is_file()]
    return [name for name in listed if name.endswith(KINDS) and not name.startswith(tuple(LATER))]


def flowed(source, is_page):
    """Return the text with a line for each paragraph, and where in it the lines of the source begin."""
    parts, starts, at = [], [], 0
    in_block = in_docstring = in_comment = after_name = False
    for line in source.split("\n"):
        text = line.strip()
        if is_page and text.startswith("```"):
            in_block, text = not in_block, ""
        elif is_page and in_block:
            text = ""
        elif is_page:
            text = re.sub(r"`[^`]+`", "`code`", text)
            text = re.sub(r"\]\([^)]*\)", "]", text)
            text = "" if text.startswith("#") else text  # a heading may be a question or a clause
        comment = None if is_page else re.match(r"(?:#:?|//+|/?\*+)(?: (.*)|$)", text)
        begins = not text or (not comment and re.match(r"[|#>:<=-]|\d+\.|\*\*|[A-Z]\w+$", text))
        if comment:
            begins = begins or not in_comment
            text = comment[1] or ""
        elif not is_page:
            quotes = text.count('"""')
            is_name = re.match(r"\*{0,2}[\w, *]+ : ", text)  # of a parameter, whose description is below it
            begins = begins or not in_docstring or quotes or is_name
            if in_docstring and after_name:
                begins, text = True, DESCRIPTION + text
            after_name = is_name
            in_docstring ^= quotes % 2 == 1
        if is_page or comment:
            text = re.sub(r"^[-*>|\d. ]+(?=\S)", "", text)
        in_comment = bool(comment)
        lead = "\n" if begins or not parts else " "
        parts.append(lead + text)
        starts.append(at)
        at += len(lead) + len(text)
    return "".join(parts) + "\n", starts


def finds(source, is_page):
    """Yield the line, the name of the pattern and the words of each find."""
    text, starts = flowed(source, is_page)
    for name, pattern in PATTERNS.items():
        if is_page and not pattern.on_pages:
            continue
        for found in re.finditer(pattern.regex, text, re.M):
            words = found[0].strip(f' "\n{DESCRIPTION}')
            if not (name.startswith("sentence") and "?" in text[found.start() : found.end() + 1]):
                yield bisect.bisect_right(starts, found.start() + 1), name, words


def main(names):
    total = 0
    for name in names or files():
        source = (ROOT / name).read_text(encoding="utf-8")
        for line, pattern, words in sorted(finds(source, name.endswith(".md"))):
            total += 1
            shown = words if len(words) <= 70 else f"{words[:67]}…"
            print(f"{name}:{line}: {pattern}: “{shown}”; write {PATTERNS[pattern].instead}")
    print(f"{total} finds, at most {CEILING} allowed")
    return int(total > CEILING)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
