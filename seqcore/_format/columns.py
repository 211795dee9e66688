"""The HTML representation of Columns: the first and last rows, and how long the elements of columns are."""

from html import escape

from seqcore._format.histogram import histogram_of
from seqcore._format.notebook import sorted_lengths
from seqcore._format.table import first_values, positions_shown
from seqcore._format.text import plural, type_of

_MOST = 12  # columns


def columns_as_html(columns):
    """Return a heading, a table of the first and last rows, and a histogram of lengths for each sequence.

    Only the values that are shown are read, but all lengths. For a damaged file it is the line of `repr`.
    """
    try:
        return _as_html(columns[:])
    except ValueError:  # an element that can't be read
        return f"<p>{escape(repr(columns))}</p>"


def _as_html(columns):
    n, names = len(columns), columns.names[:_MOST]
    total = len(columns.names)
    heading = (
        f"Columns: {n:,} {plural(n, 'row')} of {total:,} {plural(total, 'column')}, {columns.nbytes:,} bytes"
    )
    left = len(columns.names) - len(names)
    if left:
        heading += f"; {left:,} further {plural(left, 'column')}: {', '.join(columns.names[_MOST:][:_MOST])}"
    style = "display:flex;flex-wrap:wrap;align-items:flex-start;gap:12px 32px;margin-top:1em"
    figures = "".join(_figure(columns, name) for name in names)
    below = f'<div style="{style}">{figures}</div>' if figures else ""
    return f"<div><p>{escape(heading)}</p>{_table(columns, names)}{below}</div>"


def _table(columns, names):
    heads = "".join(
        f'<th style="text-align:left">{escape(name)}<br><span style="font-weight:normal">'
        f"{escape(_kind(columns, name))}</span></th>"
        for name in names
    )
    rows = ""
    for i in positions_shown(len(columns)):
        if i is None:
            rows += f'<tr><td colspan="{len(names) + 1}">…</td></tr>'
            continue
        cells = "".join(
            f'<td style="text-align:left">{escape(_cell(columns, name, i))}</td>' for name in names
        )
        rows += f"<tr><td>{i}</td>{cells}</tr>"
    return (
        '<div style="overflow-x:auto"><table style="margin:0;color:inherit"><thead><tr><th>row</th>'
        f"{heads}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _kind(columns, name):
    inner = columns.inner[name]
    return f"{type_of(columns.sequences[name])} {'sequence' if inner is None else inner or 'array'}"


def _cell(columns, name, i):
    element = columns.sequences[name][i]
    values = first_values(element)
    return values if columns.inner[name] == () else f"{element.shape}: {values}"


def _figure(columns, name):
    """Return the histogram of a column's lengths under its name, or "" if they are all the same."""
    if columns.inner[name] is not None:
        return ""
    lengths = sorted_lengths(columns.sequences[name])
    if len(lengths) == 0 or lengths[0] == lengths[-1]:
        return ""
    return f"<div><div>{escape(name)}</div>{histogram_of(lengths, len(columns))}</div>"
