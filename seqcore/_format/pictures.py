"""Thumbnails of elements that have the shape of pictures, drawn by Pillow where it is installed.

These have dtype uint8 and two axes, or three if the last one has 1, 3 or 4 channels: gray, RGB, RGBA.
"""

from base64 import b64encode
from html import escape
from io import BytesIO

import numpy as np

_MOST = 8  # pictures, which take less than 200 kB even if they are noise
_SIDE = 64  # pixels of a thumbnail's longer side, at most
_SAMPLED = 4 * _SIDE  # rows and columns that are read of a large picture, at least
_THINNEST = 4  # pixels on the screen, at least, so that a picture of one row is visible

# The background of transparent pictures, for light and dark pages.
_CHEQUERED = "background:repeating-conic-gradient(#aaa 0 25%,#eee 0 50%) 0 0/8px 8px;"


def pictures_of(snapshot):
    """Return evenly spread pictures of a sequence as HTML, or "" if there are none. Others are not read."""
    if snapshot.dtype != np.uint8:
        return ""
    try:
        from PIL import Image
    except ImportError:
        return ""
    n = len(snapshot)
    positions = range(n) if n <= _MOST else [k * (n - 1) // (_MOST - 1) for k in range(_MOST)]
    pictures = "".join(_picture(i, snapshot[i], Image) for i in positions)
    style = "display:flex;flex-wrap:wrap;align-items:flex-end;gap:8px;margin:0 0 1em"
    return f'<div style="{style}">{pictures}</div>' if pictures else ""


def is_picture(tensor):
    """Return whether an array of uint8 has the shape of a picture."""
    shape = tensor.shape
    return 0 not in shape and (len(shape) == 2 or (len(shape) == 3 and shape[2] in (1, 3, 4)))


def _picture(position, tensor, pillow):
    if not is_picture(tensor):
        return ""
    height, width = tensor.shape[:2]
    # Pillow gets a part of the rows and columns of a large picture, which may be larger than memory.
    sampled = tensor[:: max(1, height // _SAMPLED), :: max(1, width // _SAMPLED)]
    image = pillow.fromarray(np.ascontiguousarray(sampled[..., 0] if tensor.shape[2:] == (1,) else sampled))
    # The proportions are those of the whole picture.
    shrink = max(height, width, _SIDE) / _SIDE
    image = image.resize(
        (max(1, round(width / shrink)), max(1, round(height / shrink))), pillow.Resampling.BOX
    )
    file = BytesIO()
    image.save(file, "PNG")
    scale = max(1, 16 // max(image.size))
    width, height = (max(extent * scale, _THINNEST) for extent in image.size)
    text = escape(f"element {position} of shape {tensor.shape}", quote=True)
    style = (
        f"width:{width}px;height:{height}px;max-width:none;margin:0 auto;display:block;"
        # A border that is visible on a page of any color.
        "box-sizing:content-box;border:1px solid rgba(128,128,128,.5);"
        f"{_CHEQUERED if image.mode == 'RGBA' else ''}{'image-rendering:pixelated;' if scale > 1 else ''}"
    )
    return (
        '<div style="text-align:center;font-size:11px;line-height:1.3">'
        f'<img src="data:image/png;base64,{b64encode(file.getvalue()).decode()}" '
        f'alt="{text}" title="{text}" style="{style}">{position:,}</div>'
    )
