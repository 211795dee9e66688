"""Pictures that the code of a page draws while the site is built.

`:::{drawn} padding.svg` shows the file that a `python` block of the page has saved under that name. Its
content is the text for readers who can't see it. The picture becomes part of the page, so it has the page's
colors, light or dark.
"""

import contextlib
import os
import re
import tempfile
from html import escape
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import Directive

STYLE = {  # of matplotlib
    "figure.figsize": (6.4, 2.6),
    "figure.constrained_layout.use": True,
    "savefig.transparent": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "svg.hashsalt": "seqcore",
    "image.cmap": "summer_r",
}


class Drawn(Directive):
    required_arguments = 1
    has_content = True

    def run(self):
        env = self.state.document.settings.env
        if "drawn" not in env.temp_data:  # of this page
            env.temp_data["drawn"] = draw(Path(env.doc2path(env.docname)).read_text(encoding="utf-8"))
        name = self.arguments[0]
        picture = inline(env.temp_data["drawn"][name], nodes.make_id(name), " ".join(self.content))
        return [nodes.raw("", picture, format="html")]


def draw(page):
    """Run the python blocks of a page, and return the SVG files that they save, by name."""
    import matplotlib

    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        matplotlib.use("svg")
        with matplotlib.rc_context(STYLE):
            names = {"__name__": "page"}
            for block in re.findall(r"^```python\n(.*?)^```$", page, re.M | re.S):
                with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
                    exec(block, names)
        return {path.name: path.read_text(encoding="utf-8") for path in Path().glob("*.svg")}


def inline(picture, title, alt):
    """Return an SVG as a part of a page, at most as wide, in its colors, with names of its own."""
    picture = picture[picture.index("<svg") :]
    width = float(re.search(r'width="([\d.]+)pt"', picture)[1])
    picture = re.sub(r' (?:width|height)="[\d.]+pt"', "", picture, count=2)
    picture = re.sub(r"<metadata>.*?</metadata>", "", picture, flags=re.S)
    picture = picture.replace("#000000", "currentColor").replace("<text ", '<text fill="currentColor" ')
    picture = re.sub(r'(id="|href="#|url\(#)', rf"\g<1>{title}-", picture)
    size = f'role="img" aria-label="{escape(alt)}" style="width: 100%; max-width: {width * 4 / 3:.0f}px"'
    return picture.replace("<svg ", f"<svg {size} ", 1)


def setup(app):
    app.add_directive("drawn", Drawn)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
