"""The reference, from docstrings and stubs: its pages only name the members of classes and modules.

    :::{members} seqcore.TensorSequence
    from_lengths from_offsets
    :::

becomes an entry for each, and

    :::{glance} tensorsequence.md
    :::

a table for each such block of a page, below the heading that the block has there. A name that a block has and
the source doesn't, or the other way around, ends the build.
"""

import ast
import re
from pathlib import Path

import stub_signatures
from sphinx.errors import ExtensionError

import seqcore

FOLDER = Path(seqcore.__file__).parent
CLASSES = {  # where their methods are declared
    "seqcore.TensorSequence": FOLDER / "core" / "sequence.pyi",
    "seqcore.Columns": FOLDER / "columns.py",
    "seqcore.BatchSampler": FOLDER / "samplers.py",
}
INTERNAL = {"seqcore.Columns.of"}  # for the package's own modules
BLOCK = re.compile(r"^:::\{members\} (\S+)\n(.*?)^:::$", re.M | re.S)
GLANCE = re.compile(r"^:::\{glance\} (\S+)\n:::$", re.M)


def properties_and_methods(owner):
    """Return {name: whether it is a property} of a class, from its stub or source."""
    module = ast.parse(CLASSES[owner].read_text(encoding="utf-8"))
    (cls,) = (one for one in module.body if isinstance(one, ast.ClassDef) and f"seqcore.{one.name}" == owner)
    found = {}
    for name, overloads in stub_signatures.functions(cls.body).items():
        if name[0] != "_" and f"{owner}.{name}" not in INTERNAL:
            found[name] = any("property" in ast.unparse(one) for one in overloads[0].decorator_list)
    return found


def public_names(owner):
    """Return the names that blocks of an owner have to name, all together."""
    if owner in CLASSES:
        return {*properties_and_methods(owner)}
    constants = {name for name in seqcore.__all__ if not callable(getattr(seqcore, name))}
    return {*seqcore.__all__} - constants - {name.rpartition(".")[2] for name in CLASSES}


def named(folder):
    """Return {owner: its names in the blocks of all pages of a folder, in their order}."""
    found = {}
    for page in sorted(folder.glob("*.md")):
        for owner, names in BLOCK.findall(page.read_text(encoding="utf-8")):
            found.setdefault(owner, []).extend(names.split())
    return found


def entries(owner, names):
    """Return the directives for some members of an owner."""
    is_property = properties_and_methods(owner) if owner in CLASSES else {}
    prefix = owner.removeprefix("seqcore").lstrip(".")
    lines = [".. currentmodule:: seqcore", ""]
    for name in names:
        kind = {True: "autoattribute", False: "automethod"}.get(is_property.get(name), "autofunction")
        lines.append(f".. {kind}:: {f'{prefix}.{name}' if prefix else name}")
    return fenced(lines)


def glance(page):
    """Return a table for each block of a page: names and what they do."""
    parts, title = [], ""
    title_or_block = re.compile(rf"^## ([^\n]+)$|{BLOCK.pattern}", re.M | re.S)
    for found in title_or_block.finditer(page.read_text(encoding="utf-8")):
        if found[1]:
            title = found[1]
            continue
        prefix = found[2].removeprefix("seqcore").lstrip(".")
        names = [f"   {f'{prefix}.{name}' if prefix else name}" for name in found[3].split()]
        lines = [".. currentmodule:: seqcore", "", ".. autosummary::", "   :nosignatures:", "", *names]
        parts.append(f"{title}:\n\n{fenced(lines)}")
    if not parts:
        raise ExtensionError(f"{page} has no block of members to show")
    return "\n\n".join(parts)


def fenced(lines):
    return "\n".join(["```{eval-rst}", *lines, "```"])


def expand(app, docname, source):
    place = Path(app.srcdir, docname).parent
    for name in GLANCE.findall(source[0]):
        app.env.note_dependency(str(place / name))
    text = GLANCE.sub(lambda found: glance(place / found[1]), source[0])
    source[0] = BLOCK.sub(lambda found: entries(found[1], found[2].split()), text)


def check(app):
    found = named(Path(app.srcdir, "api"))
    for owner in ("seqcore", *CLASSES):
        names, public = found.get(owner, []), public_names(owner)
        if sorted(names) != sorted(public):
            wrong = {*public} ^ {*names} or {name for name in names if names.count(name) > 1}
            raise ExtensionError(f"the reference and {owner} differ in {', '.join(sorted(wrong))}")


def setup(app):
    app.connect("builder-inited", check)
    app.connect("source-read", expand)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
