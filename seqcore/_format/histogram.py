"""The histogram of the elements' lengths, as SVG in `currentColor`, the color of the text around it."""

import numpy as np

from seqcore._format.text import plural

_MOST = 32  # bars
_BAR, _HEIGHT = 10, 72  # the width of a bar, and the height of the highest one, in pixels


def histogram_of(lengths, elements):
    """Return the histogram of sorted lengths, not all the same, as HTML.

    Parameters
    ----------
    lengths : np.ndarray
        The lengths, sorted, at least one.
    elements : int
        The number of elements, including those of rank 0, which have no length.
    """
    first, numbers, width = bins_of(lengths)
    summary = f"length {lengths[0]:,} to {lengths[-1]:,}, median {_median(lengths)}"
    scalars = elements - len(lengths)
    caption = summary + (f"; {scalars:,} of rank 0, without a length" if scalars else "")
    bars = [_bar(k, first + k * width, width, number, max(numbers)) for k, number in enumerate(numbers)]
    size = f"{len(numbers) * _BAR} {_HEIGHT + 1}"
    return (
        f'<figure style="margin:0"><figcaption style="font-size:11px">{caption}</figcaption>'
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {size}" fill="currentColor" '
        f'width="{len(numbers) * _BAR}" height="{_HEIGHT + 1}" style="display:block;max-width:100%">'
        f"<title>Histogram of {len(lengths):,} lengths: {summary}</title>{''.join(bars)}"
        f'<rect y="{_HEIGHT}" width="100%" height="1" fill-opacity=".5"/></svg></figure>'
    )


def bins_of(lengths):
    """Return the first length of bins, the number of lengths in each, and their width: 1, 2, 5, 10, 20, …

    Examples
    --------
    >>> import numpy as np
    >>> bins_of(np.array([1, 1, 3]))
    (1, [2, 0, 1], 1)
    """
    least, largest = int(lengths[0]), int(lengths[-1])
    step = 0
    while largest // (width := (1, 2, 5)[step % 3] * 10 ** (step // 3)) - least // width >= _MOST:
        step += 1
    numbers = np.bincount((lengths // width - least // width).astype(np.intp))
    return least - least % width, numbers.tolist(), width


def _median(lengths):
    n = len(lengths)
    twice = int(lengths[(n - 1) // 2]) + int(lengths[n // 2])
    return f"{twice // 2:,}{'.5' if twice % 2 else ''}"


def _bar(position, first, width, number, most):
    height = max(2, _HEIGHT * number / most) if number else 0
    span = f"{first:,}" if width == 1 else f"{first:,} to {first + width - 1:,}"
    return (
        f'<g fill-opacity=".6"><title>length {span}: {number:,} {plural(number, "element")}</title>'
        f'<rect x="{position * _BAR}" y="{_HEIGHT - height:.1f}" '
        f'width="{_BAR - 1}" height="{height:.1f}"/></g>'
    )
