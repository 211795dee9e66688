"""How a sequence shows itself: a line in a terminal, a piece of HTML in a notebook.

::

    text         the line
    notebook     the HTML: a heading, and below it
      pictures     thumbnails of elements that look like pictures; png writes them
      table        the first and last elements
      histogram    the elements' lengths; bins counts them

Each is drawn from one snapshot, so edits by other threads don't matter. The HTML has no script and no style
sheet, and its lines and letters are of the colour that the page's text has: dark on light or light on dark.
"""

from seqcore._format.notebook import as_html
from seqcore._format.text import as_text

__all__ = ["as_html", "as_text"]
