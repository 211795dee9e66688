"""Read a scanned page line by line: ``python -m seqcore.demo``.

The page, by default one that comes with scikit-image, becomes a sequence of tensors::

    page --split_to_sequence-->  white, text, white, text, ..., white    bands of different heights, no copy
                 --erase------>  text, text, ...                         without the white bands
         --sequence_map(trim)->  line, line, ...                         of different widths too, no copy
         --sequence_map(read)->  strings and numbers                     on several threads

The text recognizer is the ONNX model in the ``rapidocr`` wheel. ``pip install "seqcore-tensors[demo]"``
installs it and the other requirements.
"""

import argparse
import sys
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter

import numpy as np

import seqcore as sq

try:
    import onnxruntime
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle
    from PIL import Image, ImageOps
    from skimage.data import page as shipped_page
    from skimage.filters import gaussian, threshold_sauvola
    from skimage.measure import label, regionprops_table
    from skimage.transform import rotate
except ImportError as error:  # reported by main(); the module can be imported without them
    MISSING = str(error)
else:
    MISSING = ""

LARGEST_SIDE = 3000  # pixels; larger scans take longer and don't read better
LINE_HEIGHT = 48  # pixels, as in the training of the recognizer
LEAST_CONFIDENCE = 0.5  # below this it is not text, but a drawing or grain


class DemoError(Exception):
    """An error that the user can fix; only its message is shown."""


# --- find the lines -------------------------------------------------------------------------------


def read_scan(file):
    """Read an image file of any format of Pillow as a gray page: an array of (height, width) bytes.

    Transparent parts become white. Raises `DemoError` if the file is missing or damaged.
    """
    try:
        with Image.open(file) as image:
            page = _gray(ImageOps.exif_transpose(image))
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:  # as Pillow does
        raise DemoError(f"cannot read {file}: {getattr(error, 'strerror', None) or error}") from error
    page.thumbnail((LARGEST_SIDE, LARGEST_SIDE))
    return np.asarray(page)


def _gray(image):
    if image.mode.startswith("I") or image.mode == "F":  # 16 bits and more, which convert() clips to 255
        deep = np.asarray(image, np.float64)
        flat = np.interp(deep, (min(deep.min(), 0), max(deep.max(), 1)), (0, 255))
        return Image.fromarray(flat.astype(np.uint8))
    image = image.convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", image.size, "white"), image).convert("L")


def find_lines(page):
    """Find the lines of text on a page.

    Parameters
    ----------
    page : ndarray, uint8, shape (height, width)
        The page, with dark text on light paper or light on dark, unevenly lit or rotated by up to 5 degrees.

    Returns
    -------
    page : ndarray, uint8, shape (height, width)
        The page, rotated to be straight.
    ink : ndarray, bool, shape (height, width)
        True at the pixels of letters.
    spans : list of (int, int)
        The first row of each line and the row after its last one, from top to bottom, with white between
        them.
    """
    ink, size = _find_ink(page)
    if slope := _find_slope(ink, size):
        page = rotate(page, np.degrees(np.arctan(slope)), mode="edge", preserve_range=True).astype(np.uint8)
        ink, size = _find_ink(page)
    return page, ink, _find_spans(ink, size)


def _find_ink(page):
    """Separate letters from paper, shadows, rules and dirt; also return the height of a letter, or 0."""
    window = max(31, min(page.shape) // 6) | 1
    light = page / max(page.max(), 1)
    sample = light[:: window // 16, :: window // 16]
    if ((sample - gaussian(sample, 4)) ** 3).sum() > 0:  # the text is lighter than the paper
        light = 1 - light
    blots = label(light < threshold_sauvola(light, window, k=0.15))
    table = regionprops_table(blots, properties=("bbox", "area"))
    heights, widths = table["bbox-2"] - table["bbox-0"], table["bbox-3"] - table["bbox-1"]

    # The height of a letter is that of the blot with the median pixel of all ink. Grain, which makes
    # thousands of small blots, and the dark border of a scan, which makes huge ones, don't count.
    counted = table["area"] * (heights >= 5) * (np.maximum(heights, widths) < max(page.shape) / 2)
    if not counted.any():
        return np.zeros(page.shape, bool), 0
    order = heights.argsort()
    size = int(heights[order][np.searchsorted(counted[order].cumsum(), counted.sum() / 2)])
    frames = (heights > 6 * size) | (widths > 30 * size)
    rules = (heights < size / 2) & (widths > 3 * heights)
    specks = table["area"] <= (size / 6) ** 2
    at_a_side = (table["bbox-1"] == 0) | (table["bbox-3"] == page.shape[1])
    slivers = at_a_side & (widths < heights / 2)  # the page's edge
    return np.append(False, ~(frames | rules | specks | slivers))[blots], size


def _find_slope(ink, size):
    """Find the slope of the lines in rows per column; 0 if it moves no line by half a letter."""
    rows, columns = np.nonzero(ink)
    if not len(rows):
        return 0
    step = len(rows) // 20_000 + 1
    rows, columns = rows[::step], columns[::step]

    def sharpness(slope):  # horizontal lines concentrate the ink in few rows
        level = ((rows - slope * columns) * (4 / size)).astype(int)
        return np.square(np.bincount(level - level.min())).sum()

    slope = max(np.linspace(-0.09, 0.09, 181), key=sharpness)
    return slope if abs(slope) * ink.shape[1] > size / 2 else 0


def _find_spans(ink, size):
    """Find the rows that hold text, with a margin above and below for tails, dots and accents."""
    if not ink.any():
        return []
    rows = ink.sum(axis=1)
    # White rows have little ink compared with the fullest row nearby: tails reach into them, and lines may be
    # short.
    nearby = np.lib.stride_tricks.sliding_window_view(np.pad(rows, size), 2 * size + 1).max(axis=1)
    edges = np.flatnonzero(np.diff(rows > 0.1 * nearby, prepend=False, append=False)).reshape(-1, 2)
    tops, bottoms = edges[edges[:, 1] - edges[:, 0] >= 0.6 * size].T
    white = np.append(tops, len(ink)) - np.append(0, bottoms)
    margins = np.clip((white - 1) // 2, 0, size // 2)
    return list(zip((tops - margins[:-1]).tolist(), (bottoms + margins[1:]).tolist(), strict=True))


# --- read them ------------------------------------------------------------------------------------


def trim(band, ink):
    """Cut off the white at the left and right of a band, except a margin."""
    left, right = _sides(ink)
    return band[:, left:right]


def _sides(ink):
    inked = np.flatnonzero(ink.any(axis=0))
    margin = len(ink) // 4
    return max(0, inked[0] - margin), min(ink.shape[1], inked[-1] + 1 + margin)


def decode(scores, alphabet):
    """Turn the output of a recognizer along a line into text (greedy CTC).

    Parameters
    ----------
    scores : ndarray, float, shape (steps, characters)
        The likelihood of each character at each step from left to right.
    alphabet : sequence of str
        The characters; the first one means no character.

    Returns
    -------
    text : str
        The text. A character that lasts for several steps counts once.
    confidence : float
        The mean likelihood of the characters in the text; 0 if it is empty.
    """
    best = scores.argmax(axis=1)
    steps = np.flatnonzero((best != 0) & (np.diff(best, prepend=0) != 0))
    confidence = scores[steps, best[steps]].mean() if len(steps) else 0
    return "".join(alphabet[i] for i in best[steps]), float(confidence)


class Recognizer:
    """Reads lines of text: a function for `sequence_map`, which several threads may call at once.

    `model` is the path of an ONNX model that takes (1, 3, 48, width) pixels between -1 and 1, returns
    (1, steps, characters) likelihoods, and lists the characters in its metadata.
    """

    def __init__(self, model):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1  # the threads are those of the map
        self._session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        self._input = self._session.get_inputs()[0].name
        characters = self._session.get_modelmeta().custom_metadata_map["character"]
        self._alphabet = ["", *characters.split("\n"), " "]

    def __call__(self, line):
        """Return the text and the confidence of a line, an array of (height, width) bytes."""
        height, width = line.shape
        width = min(max(width * LINE_HEIGHT // height, LINE_HEIGHT), 100 * LINE_HEIGHT)
        pixels = np.asarray(Image.fromarray(line).resize((width, LINE_HEIGHT)), np.float32) / 127.5 - 1
        (scores,) = self._session.run(None, {self._input: np.stack([pixels] * 3)[np.newaxis]})
        return decode(scores[0], self._alphabet)


def find_model():
    """Find the recognizer in the rapidocr wheel, without importing that package and its dependencies."""
    if (package := find_spec("rapidocr")) and package.origin:
        for model in Path(package.origin).parent.glob("models/*rec*.onnx"):
            return model
    raise DemoError('no text recognizer found: pip install "seqcore-tensors[demo]" installs one')


# --- show it --------------------------------------------------------------------------------------


def draw(file, page, ink, spans, texts):
    """Draw the page with its lines marked and their texts beside them, 2000 pixels wide."""
    height, width = page.shape
    margin, right = 0.02 * width, 2 * width
    scale = 2000 / (right + margin)  # from the page's pixels to the picture's
    figure = Figure(figsize=(20, (height + 2 * margin) * scale / 100), dpi=100)
    axes = figure.add_axes((0, 0, 1, 1), xlim=(-margin, right), ylim=(height + margin, -margin))
    axes.axis("off")
    axes.imshow(page, "gray", vmin=0, vmax=255, extent=(0, width, height, 0), aspect="auto")
    # A letter is about 0.6 times as wide as high; the longest text and the lowest line have to fit.
    size = min(1.6 * width / max(map(len, texts)), 0.75 * np.diff(spans).min()) * scale * 72 / 100
    for i, ((top, bottom), text) in enumerate(zip(spans, texts, strict=True)):
        color = ("tab:blue", "tab:orange")[i % 2]
        left, end = _sides(ink[top:bottom])
        axes.add_patch(Rectangle((left, top), end - left, bottom - top, fc=(color, 0.2), ec=color, lw=1.5))
        label = {"fc": (color, 0.2), "ec": "none", "pad": 3}
        middle = (top + bottom) / 2
        axes.text(width + margin, middle, text, size=size, va="center", bbox=label, parse_math=False)
    try:
        figure.savefig(file)
    except OSError as error:
        raise DemoError(f"cannot write {file}: {error.strerror or error}") from error


@contextmanager
def timed(step):
    """Print the time of a step, with its notes."""
    notes: list[str] = []
    start = perf_counter()
    yield notes
    seconds = perf_counter() - start
    took = f"{seconds * 1e3:.1f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.1f} µs"
    print(f"  {step:<20} {took:>9}   {''.join(notes)}")


def tour(image=None, picture=None, threads=2):
    """Read the scan `image`, print the time of each step and the text, and draw the lines to `picture`."""
    model = find_model()
    with timed("read the scan") as notes:
        page = read_scan(image) if image else shipped_page()
        notes.append("{1} x {0} pixels".format(*page.shape))
    with timed("find the lines") as notes:
        page, ink, spans = find_lines(page)
        heights = np.diff(np.ravel(spans), prepend=0, append=len(page)).astype(int)
        notes.append(f"{len(spans)} bands of text, {len(spans) + 1} of white")
    if not spans:
        raise DemoError("no line of text found on this page")

    with timed("split") as notes:
        bands, inks = sq.split_to_sequence(page, heights), sq.split_to_sequence(ink, heights)
        notes.append(f"the page and its ink mask into {len(bands)} bands each")
    with timed("erase") as notes:
        for position in range(len(spans) + 1):  # each erase moves the next white band from 2 i to i
            bands.erase(position)
            inks.erase(position)
        notes.append(f"the white bands; {len(bands)} remain")
    with timed("trim") as notes:
        lines = sq.sequence_map(trim, bands, inks)
        widths = [width for _, width in lines.shapes]
        notes.append(f"the lines to {min(widths)}-{max(widths)} pixels")
    with timed("load the recognizer") as notes:
        recognizer = Recognizer(model)
        notes.append(model.name)
    with timed("recognize") as notes:
        texts, confidences = sq.sequence_map(recognizer, lines, max_workers=threads, chunksize=1)
        read = [i for i, confidence in enumerate(confidences) if confidence >= LEAST_CONFIDENCE]
        notes.append(f"{len(read)} of {len(lines)} lines, threads: {threads}")
    if not read:
        raise DemoError("no line of text found on this page")

    print()
    for number, i in enumerate(read, start=1):
        print(f"{number:>3}  {texts[i].item()}  ({confidences[i]:.0%})")
    if picture:
        draw(picture, page, ink, [spans[i] for i in read], [texts[i].item() for i in read])
        print(f"\nThe picture is in {picture}")


def main(argv=None):
    """Run the demo with these arguments, by default those of the process; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m seqcore.demo",
        description="Read a scanned page: split it into bands, erase the white ones, read the others.",
    )
    parser.add_argument(
        "--image", metavar="FILE", type=Path, help="the scan to read instead of the built-in page"
    )
    parser.add_argument(
        "--picture", metavar="FILE", type=Path, help="save a picture of the lines as .png, .svg or .pdf"
    )
    parser.add_argument(
        "--threads", metavar="N", type=int, default=2, help="the number of threads (default: 2)"
    )
    arguments = parser.parse_args(argv)
    if arguments.threads < 1:
        parser.error(f"--threads must be at least 1, got {arguments.threads}")
    if arguments.picture and arguments.picture.suffix.lower() not in (".png", ".svg", ".pdf"):
        parser.error(f"--picture must end in .png, .svg or .pdf, got {arguments.picture}")
    try:
        if MISSING:
            raise DemoError(f'{MISSING}: pip install "seqcore-tensors[demo]" installs the requirements')
        print(f"Reading {arguments.image or 'the page that comes with scikit-image'}")
        tour(**vars(arguments))
    except DemoError as error:
        print(f"seqcore.demo: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
