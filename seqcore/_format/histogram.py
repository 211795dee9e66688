"""The histogram of the elements' lengths, as SVG.

It is drawn in `currentColor`, the colour of the text around it, and has no ids and no style sheet, so that a
page can have any number of them.
"""

from seqcore._format.bins import bins_of
from seqcore._format.text import plural

_WIDTH = 320  # of all bars, in pixels
_HEIGHT = 72  # of the highest bar
_WIDEST = 32  # the width of a bar, at most
_LOWEST = 2  # the height of a bar that is not empty
_MARGIN = 8
_ABOVE, _BELOW = 16, 18  # space for the labels
_LETTER = 6.2  # the width of a digit, about


def histogram_of(lengths, elements):
    """Return the histogram of sorted lengths, not all the same, as HTML.

    Parameters
    ----------
    lengths : np.ndarray
        The lengths, sorted, at least one.
    elements : int
        The number of elements, including those of rank 0, which have no length.
    """
    summary = f"length {lengths[0]:,} to {lengths[-1]:,}, median {_median(lengths)}"
    below, inner, above = bins = bins_of(lengths)
    scalars = elements - len(lengths)
    notes = [
        summary,
        *([f"{below.number:,} below {inner[0].first:,}, at the left"] if below else []),
        *([f"{above.number:,} above {inner[-1].last:,}, at the right"] if above else []),
        *([f"{scalars:,} of rank 0, without a length"] if scalars else []),
    ]
    return (
        f'<figure style="margin:0"><figcaption style="font-size:11px;padding-left:{_MARGIN}px">'
        f"{'; '.join(notes)}</figcaption>{_svg(bins, f'Histogram of {len(lengths):,} lengths: {summary}')}"
        "</figure>"
    )


def _median(lengths):
    n = len(lengths)
    twice = int(lengths[(n - 1) // 2]) + int(lengths[n // 2])
    return f"{twice // 2:,}{'.5' if twice % 2 else ''}"


def _svg(bins, title):
    below, inner, above = bins
    slots = [*([below, None] if below else []), *inner, *([None, above] if above else [])]
    letters = max(len(f"{one.last:,}") for one in slots if one) * _LETTER
    step = min(_WIDTH / len(slots), max(_WIDEST + 8, letters + 12))
    width, height = len(slots) * step + 2 * _MARGIN, _ABOVE + _HEIGHT + _BELOW
    bars = [(_MARGIN + k * step, one) for k, one in enumerate(slots) if one and one.number]
    top = max(one.number for _, one in bars)
    labels = [(x, one.first) for x, one in bars]
    if letters + 4 > step or any(one.first != one.last for _, one in bars):
        labels = [labels[0], (bars[-1][0], bars[-1][1].last)]
    peak = next(x for x, one in bars if one.number == top)
    texts = [
        _text(peak + step / 2, _ABOVE - 4, top, width),
        *(_text(x + step / 2, _ABOVE + _HEIGHT + 13, length, width) for x, length in labels),
    ]
    parts = [_bar(x, step, one, top) for x, one in bars]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{width:.0f}" height="{height}" '
        f'viewBox="0 0 {width:.0f} {height}" fill="currentColor" font-size="11" '
        f'style="display:block;max-width:100%"><title>{title}</title>'
        f"{''.join(parts)}{_axis(len(slots), bool(below), bool(above), step)}{''.join(texts)}</svg>"
    )


def _bar(x, step, one, top):
    height = max(_LOWEST, _HEIGHT * one.number / top)
    width = min(step - min(1, step / 8), _WIDEST)
    span = f"{one.first:,}" if one.first == one.last else f"{one.first:,} to {one.last:,}"
    title = f"length {span}: {one.number:,} {plural(one.number, 'element')}"
    base = _ABOVE + _HEIGHT
    return (
        # The tooltip covers the space above the bar too.
        f'<g fill-opacity=".6"><title>{title}</title>'
        f'<rect x="{x:.1f}" y="{_ABOVE}" width="{step:.1f}" height="{_HEIGHT}" fill-opacity="0"/>'
        f'<rect x="{x + (step - width) / 2:.1f}" y="{base - height:.1f}" '
        f'width="{width:.1f}" height="{height:.1f}"/></g>'
    )


def _axis(slots, below, above, step):
    """Return the axis: a line below the bars, with a gap before outliers."""
    first, last = (2 if below else 0), slots - (2 if above else 0)
    spans = [(first, last), *([(0, 1)] if below else []), *([(slots - 1, slots)] if above else [])]
    return "".join(
        f'<rect x="{_MARGIN + a * step:.1f}" y="{_ABOVE + _HEIGHT}" '
        f'width="{(b - a) * step:.1f}" height="1" fill-opacity=".5"/>'
        for a, b in spans
    )


def _text(x, y, number, width):
    """Return a number centred on x, or moved to stay inside."""
    text = f"{number:,}"
    half = len(text) * _LETTER / 2
    x = min(max(x, half), width - half)
    return f'<text x="{x:.1f}" y="{y}" text-anchor="middle" fill-opacity=".8">{text}</text>'
