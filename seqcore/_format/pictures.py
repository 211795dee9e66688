"""Thumbnails of elements that have the shape of pictures.

These have dtype uint8 and two axes, or three if the last one has 1, 3 or 4 channels: grey, RGB, RGBA.
"""

from base64 import b64encode
from html import escape

import numpy as np

from seqcore._format.png import encode_png

_MOST = 8  # pictures, which take less than 200 kB even if they are noise
_AREA = 64 * 64  # pixels of a thumbnail, at most
_SIDE = 96  # pixels of its longer side, at most
_SAMPLES = 4  # along each axis for a pixel, so that large pictures are not read completely
_LARGEST = 16  # the size of a single pixel, at most
_THINNEST = 4  # pixels on the screen, at least, so that a picture of one row is visible

# The background of transparent pictures, for light and dark pages.
_CHEQUERED = "background:repeating-conic-gradient(#aaa 0 25%,#eee 0 50%) 0 0/8px 8px;"


def pictures_of(snapshot):
    """Return evenly spread pictures of a sequence as HTML, or "" if there are none. Others are not read."""
    if snapshot.dtype != np.uint8:
        return ""
    pictures = ""
    for i in _spread(len(snapshot), _MOST):
        element = snapshot[i]
        if is_picture(element):
            pictures += _picture(i, element)
    style = "display:flex;flex-wrap:wrap;align-items:flex-end;gap:8px;margin:0 0 1em"
    return f'<div style="{style}">{pictures}</div>' if pictures else ""


def _spread(extent, count):
    """Return evenly spread positions from the first to the last, or all positions."""
    if extent <= count:
        return range(extent)
    return [k * (extent - 1) // (count - 1) for k in range(count)]


def is_picture(tensor):
    """Return whether an array of uint8 has the shape of a picture."""
    shape = tensor.shape
    return 0 not in shape and (len(shape) == 2 or (len(shape) == 3 and shape[2] in (1, 3, 4)))


def thumbnail(tensor):
    """Return a small version of a picture, of shape (height, width, channels).

    Each pixel is the mean of evenly spread samples of its area. Small pictures are unchanged.
    """
    height, width = tensor.shape[:2]
    rows, columns = _fit(height, width)
    channels = tensor.shape[2] if tensor.ndim == 3 else 1
    if (rows, columns) == (height, width):
        return tensor.reshape(height, width, channels)
    # `take` copies whole rows, so most of a large picture is left out before. Indexing with two arrays at
    # once would end the process if NumPy has no memory for it, and so would arithmetic of arrays of two
    # dtypes or shapes.
    thinned = tensor[:: max(1, height // (2 * rows * _SAMPLES)), :: max(1, width // (2 * columns * _SAMPLES))]
    samples = thinned.take(_samples(thinned.shape[0], rows), 0).take(_samples(thinned.shape[1], columns), 1)
    samples = samples.reshape(rows, _SAMPLES, columns, _SAMPLES, channels)
    pixels = np.empty((rows, columns, channels), np.uint8)
    alpha = np.array(samples[..., 3], np.uint32) if channels == 4 else None
    for channel in range(channels):
        values = np.array(samples[..., channel], np.uint32)
        pixels[..., channel] = _mean(values, None if channel == 3 else alpha)
    return pixels


def _fit(height, width):
    """Return the height and width of a thumbnail, in the proportion of the picture if possible."""
    # In integers: extents go up to 2**63.
    longer, shorter = max(height, width), min(height, width)
    long = min(longer, _SIDE)
    short = max(1, shorter * long // longer)
    while long * short > _AREA:
        long -= 1
        short = max(1, shorter * long // longer)
    return (long, short) if height >= width else (short, long)


def _samples(extent, pixels):
    """Return the positions of the samples along an axis."""
    count = pixels * _SAMPLES
    return np.arange(count) * extent // count


def _mean(values, alpha):
    """Return the means over axes 1 and 3, weighted by alpha: transparent pixels don't count."""
    total = _sum(values if alpha is None else values * alpha)
    weights = np.full(total.shape, _SAMPLES**2, np.uint32) if alpha is None else _sum(alpha)
    return (total + weights // 2) // np.maximum(weights, 1)


def _sum(values):
    return values.sum(axis=(1, 3), dtype=np.uint32)


def _picture(position, tensor):
    pixels = thumbnail(tensor)
    rows, columns, channels = pixels.shape
    scale = max(1, min(_LARGEST, 64 // max(rows, columns)))
    height, width = max(rows * scale, _THINNEST), max(columns * scale, _THINNEST)
    data = b64encode(encode_png(pixels)).decode()
    text = escape(f"element {position} of shape {tensor.shape}", quote=True)
    style = (
        f"width:{width}px;height:{height}px;max-width:none;margin:0 auto;display:block;"
        # A border that is visible on a page of any colour.
        "box-sizing:content-box;border:1px solid rgba(128,128,128,.5);"
        f"{_CHEQUERED if channels == 4 else ''}"
        f"{'image-rendering:pixelated;' if scale > 1 else ''}"
    )
    return (
        '<div style="text-align:center;font-size:11px;line-height:1.3">'
        f'<img src="data:image/png;base64,{data}" alt="{text}" title="{text}" style="{style}">'
        f"{position:,}</div>"
    )
