"""The representations of a sequence: one line in a terminal, HTML in a notebook.

::

    text         the line
    notebook     the HTML: a heading, and below it
      pictures     thumbnails of elements that have the shape of pictures, if Pillow is installed
      table        the first and last elements
      histogram    the lengths of the elements
    columns      the HTML of Columns: their first and last rows, and histograms

Each is made from one snapshot, so edits by other threads don't matter. The HTML has no script and no style
sheet, and is drawn in the color of the page's text, for light and dark pages.
"""
