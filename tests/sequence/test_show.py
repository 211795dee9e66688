"""What a notebook shows: the table, the histogram of lengths, and thumbnails."""

import re
import sys
from base64 import b64decode
from html.parser import HTMLParser
from io import BytesIO
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from support.races import beside
from support.strategies import array_lists, filled

import seqcore as sq
from seqcore import TensorSequence
from seqcore._format.histogram import bins_of
from seqcore._format.pictures import is_picture

VOID = {"img"}


class Page(HTMLParser):
    """What is in a piece of HTML: tags with attributes, text by tag, and whether all that opens closes."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.texts, self.open = [], [], []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append((self.open[-1], data))

    def all(self, name):
        return [attributes for tag, attributes in self.tags if tag == name]

    def text(self, name):
        return [text for tag, text in self.texts if tag == name]


def shown(seq):
    """The page, of which some things always hold."""
    html = seq._repr_html_()
    assert len(html) < 200_000
    assert "None" not in html
    page = Page(html)
    assert {tag for tag, _ in page.tags}.isdisjoint({"script", "style", "link"})
    assert not any(
        name in ("id", "class") or name.startswith("on") for _, attributes in page.tags for name in attributes
    )
    return page


# -- pictures --------------------------------------------------------------------------------------------


@pytest.fixture
def pillow():
    return pytest.importorskip("PIL.Image")


def decode(image):
    """Return the pixels of a picture on the page, of shape (height, width, channels)."""
    import PIL.Image

    head, data = image["src"].split(",")
    assert head == "data:image/png;base64"
    pixels = np.asarray(PIL.Image.open(BytesIO(b64decode(data, validate=True))))
    return pixels if pixels.ndim == 3 else pixels[..., None]


def sizes_of(image):
    width, height = re.search(r"width:(\d+)px;height:(\d+)px", image["style"]).groups()
    return int(height), int(width)


def noise(*shape):
    return np.random.default_rng(0).integers(0, 256, shape, np.uint8)


@pytest.mark.usefixtures("pillow")
class TestPictures:
    @pytest.mark.parametrize("shape", [(9, 7), (9, 7, 1), (9, 7, 3), (9, 7, 4), (64, 64), (64, 40)])
    def test_small_ones_are_shown_as_they_are(self, shape):
        pixels = noise(*shape)
        (image,) = shown(TensorSequence([pixels])).all("img")
        assert np.array_equal(decode(image).reshape(shape), pixels)
        assert image["alt"] == f"element 0 of shape {shape}"

    @pytest.mark.parametrize("layout", ["transposed", "reversed", "broadcast"])
    def test_of_any_layout(self, layout):
        pixels = {
            "transposed": noise(3, 30, 20).T,
            "reversed": noise(20, 30, 3)[::-1, ::-1, ::-1],
            "broadcast": np.broadcast_to(noise(20, 1, 3), (20, 30, 3)),
        }[layout]
        (image,) = shown(TensorSequence([pixels])).all("img")
        assert np.array_equal(decode(image), pixels)

    @pytest.mark.parametrize("channels", [(), (1,), (3,)])
    def test_a_large_one_is_averaged(self, channels):
        """Each pixel is the mean of a block, four pixels high and wide."""
        pixels = noise(256, 256, *channels)
        blocks = pixels.reshape(64, 4, 64, 4, -1).mean((1, 3))
        (image,) = shown(TensorSequence([pixels])).all("img")
        assert np.abs(decode(image).astype(float) - blocks).max() <= 1

    def test_transparent_pixels_have_no_color(self):
        pixels = np.zeros((256, 256, 4), np.uint8)
        pixels[:, ::2] = (200, 100, 50, 255)
        (image,) = shown(TensorSequence([pixels])).all("img")
        assert np.abs(decode(image).astype(int) - (200, 100, 50, 128)).max() <= 1

    @pytest.mark.parametrize(
        ("shape", "pixels", "screen"),
        [
            ((1, 1), (1, 1), (16, 16)),
            ((8, 8), (8, 8), (16, 16)),
            ((1, 5000), (1, 64), (4, 64)),
            ((5000, 1), (64, 1), (64, 4)),
            ((65, 65), (64, 64), (64, 64)),
            ((480, 640), (48, 64), (48, 64)),
            ((2**31, 2**31), (64, 64), (64, 64)),
            ((2**62, 1), (64, 1), (64, 4)),
            ((1, 2**62), (1, 64), (4, 64)),
        ],
    )
    def test_sizes(self, shape, pixels, screen):
        huge = np.broadcast_to(np.uint8(7), shape)
        (image,) = shown(TensorSequence([huge])).all("img")
        small = decode(image)
        assert small.shape == (*pixels, 1)
        assert (small == 7).all()
        assert sizes_of(image) == screen
        assert ("pixelated" in image["style"]) == (max(shape) <= 8)

    def test_come_from_all_over(self):
        seq = sq.split_to_sequence(noise(1000, 8, 8), keepdims=0)
        images = shown(seq).all("img")
        positions = [int(image["alt"].split()[1]) for image in images]
        assert positions == [0, 142, 285, 428, 570, 713, 856, 999]
        for position, image in zip(positions, images, strict=True):
            assert np.array_equal(decode(image)[..., 0], seq[position])

    def test_among_other_elements(self):
        seq = TensorSequence([noise(4, 4), noise(4), noise(4, 4, 3), noise(0, 4), noise(4, 4, 4, 4)])
        assert [image["alt"][:9] for image in shown(seq).all("img")] == ["element 0", "element 2"]

    @pytest.mark.parametrize("shape", [(500, 500, 4), (64, 64, 4), (48, 64, 4), (400, 600, 3)])
    def test_of_noise_are_not_too_large(self, shape):
        page = shown(TensorSequence([noise(*shape)] * 20))
        assert len(page.all("img")) == 8

    @pytest.mark.at_night
    @given(
        st.lists(npst.arrays(np.uint8, npst.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=130)))
    )
    def test_of_any_bytes(self, tensors):
        page = shown(TensorSequence(tensors, dtype="uint8"))
        for image in page.all("img"):
            pixels = tensors[int(image["alt"].split()[1])]
            if max(pixels.shape[:2]) <= 64:
                assert np.array_equal(decode(image).reshape(pixels.shape), pixels)


@pytest.mark.parametrize("shape", [(), (3,), (0, 4), (4, 0), (4, 0, 3), (4, 4, 2), (4, 4, 5), (2, 4, 4, 3)])
def test_other_shapes_are_no_pictures(shape):
    assert not is_picture(np.zeros(shape, np.uint8))
    assert shown(TensorSequence([np.zeros(shape, np.uint8)])).all("img") == []


@pytest.mark.parametrize("name", ["int8", "bool", "uint16", "float32", "string"])
def test_other_types_are_no_pictures(name):
    assert shown(TensorSequence([filled(name, (4, 4))])).all("img") == []


def test_without_pillow_there_is_a_table_alone(monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    page = shown(TensorSequence([noise(4, 4)]))
    assert page.all("img") == []
    assert len(page.all("tr")) == 2


# -- the histogram ---------------------------------------------------------------------------------------


def ragged(lengths):
    lengths = np.asarray(lengths, np.int64)
    return TensorSequence.from_lengths(np.broadcast_to(np.int8(0), (int(lengths.sum()),)), lengths)


lengths_lists = st.lists(
    st.one_of(st.integers(0, 20), st.integers(0, 1000), st.integers(0, 2**62), st.just(2**63 - 1)),
    min_size=1,
    max_size=60,
)


@given(lengths_lists)
def test_each_length_is_in_one_bin(lengths):
    lengths = np.sort(np.array(lengths, np.int64))
    first, numbers, width = bins_of(lengths)
    assert len(numbers) <= 32
    assert str(width)[0] in "125"
    assert set(str(width)[1:]) <= {"0"}
    narrower = width * 2 // 5 if str(width)[0] == "5" else width // 2
    assert not narrower or lengths[-1] // narrower - lengths[0] // narrower >= 32
    assert first % width == 0
    assert first <= lengths[0]
    for k, number in enumerate(numbers):
        inside = (first + k * width <= lengths) & (lengths <= min(first + (k + 1) * width - 1, 2**63 - 1))
        assert number == np.count_nonzero(inside)
    assert sum(numbers) == len(lengths)
    assert numbers[0] > 0 < numbers[-1]


def svg_of(seq):
    (svg,) = re.findall(r"<svg.*</svg>", seq._repr_html_())
    return ElementTree.fromstring(svg)


SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize(("count", "longest"), [(2, 70), (30, 70), (100_000, 70), (30, 9)])
def test_the_histogram_says_its_numbers(count, longest):
    lengths = np.random.default_rng(1).poisson(longest // 2, count).clip(3, longest)
    lengths[:2] = 3, longest
    seq = ragged(lengths)
    svg = svg_of(seq)
    median = np.median(lengths)
    summary = f"length 3 to {longest}, median {int(median) if median % 1 == 0 else median}"
    assert svg.get("role") == "img"
    assert svg.find(f"{SVG}title").text == f"Histogram of {count:,} lengths: {summary}"
    assert summary in shown(seq).text("figcaption")[0]
    found = 0
    for bar in svg.findall(f"{SVG}g"):
        title = bar.find(f"{SVG}title").text
        first, last, number = re.fullmatch(
            r"length ([\d,]+)(?: to ([\d,]+))?: ([\d,]+) elements?", title
        ).groups()
        assert last != first
        first, number = int(first), int(number.replace(",", ""))
        assert np.count_nonzero((lengths >= first) & (lengths <= int(last or first))) == number
        found += number
    assert found == count


@pytest.mark.parametrize(
    "lengths",
    [
        [1, 2],
        [2**62, 2**62 + 1],
        [7, 2**63 - 1, 10**12, 10**12 + 1],
        [10**4] * 200 + [10**4 + 1] * 100 + [0, 10**7, 2 * 10**7],
        [0] * 1000 + [1],
    ],
    ids=lambda lengths: f"{lengths[0]} to {max(lengths)}",
)
def test_the_histogram_stays_within_its_frame(lengths):
    svg = svg_of(TensorSequence([np.broadcast_to(np.int8(0), (length,)) for length in lengths]))
    width, height = float(svg.get("width")), float(svg.get("height"))
    assert svg.get("viewBox") == f"0 0 {width:.0f} {height:.0f}"
    assert width <= 320
    bars = [bar.find(f"{SVG}rect") for bar in svg.findall(f"{SVG}g")]
    for bar in bars:
        x, y, w, h = (float(bar.get(name)) for name in ("x", "y", "width", "height"))
        assert min(x, y, w, h) >= 0
        assert x + w <= width
        assert y + h == pytest.approx(height - 1)
    assert max(float(bar.get("height")) for bar in bars) == 72


@pytest.mark.parametrize(
    ("shapes", "said"),
    [
        ([(3, 4)] * 20, "each of shape (3, 4)"),
        ([(3, 4)], ", of shape (3, 4)"),
        ([()] * 3, "each of shape ()"),
        ([(3, 4), (3, 5)], "each of length 3"),
        ([(0,), (0, 5)], "each of length 0"),
        ([(), (3,)], "bytes</p>"),
        ([], "bytes</p>"),
    ],
)
def test_one_shape_or_length_is_said(shapes, said):
    html = TensorSequence([np.zeros(shape, "int8") for shape in shapes], dtype="int8")._repr_html_()
    assert said in html
    assert "<svg" not in html


def test_shapes_are_compared_to_the_last():
    seq = sq.split_to_sequence(np.zeros((25_000, 2), "int8"))
    assert "each of shape (1, 2)" in seq._repr_html_()
    seq.append(np.zeros((1, 3), "int8"))
    assert "each of length 1" in seq._repr_html_()


def test_elements_of_rank_0_have_no_length():
    seq = TensorSequence([np.zeros(n) if n else np.float64(0) for n in (0, 3, 1, 0, 5)])
    (caption,) = shown(seq).text("figcaption")
    assert caption == "length 1 to 5, median 3; 2 of rank 0, without a length"


# -- anything at all -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "are_left_out"), [(11, False), (12, True)])
def test_eleven_elements_are_all_in_the_table(n, are_left_out):
    assert ("…" in shown(sq.split_to_sequence(np.zeros(n))).text("td")) == are_left_out
    assert ("0 1 2 3 …" in shown(TensorSequence([np.arange(n - 7)])).text("td")) == are_left_out


@given(array_lists(max_size=15))
def test_any_sequence_shows_itself(tensors):
    page = shown(TensorSequence(tensors))
    assert len(page.all("tr")) == min(len(tensors), 11) + 1
    assert len({a.shape[0] for a in tensors if a.ndim}) > 1 or page.all("svg") == []


def test_what_was_never_initialized_shows_itself():
    page = shown(TensorSequence.__new__(TensorSequence))
    assert page.text("p") == ["TensorSequence: 0 tensors of untyped, 0 bytes"]


@pytest.mark.usefixtures("pillow")
def test_the_colors_are_the_pages():
    """But for the frames of pictures and what is behind transparent ones."""
    seq = TensorSequence([noise(n, 8) for n in (3, 4, 5)])
    html = re.sub(r'src="[^"]*"', "", seq._repr_html_())
    assert set(re.findall(r"#[0-9a-f]{3,8}\b|rgba?\([^)]*\)", html)) == {"rgba(128,128,128,.5)"}
    assert set(re.findall(r'fill="([^"]*)"', html)) == {"currentColor"}


def test_edits_by_others_do_not_matter():
    seq = TensorSequence([noise(n, 8) for n in range(1, 30)])

    def edit():
        seq.clear()
        seq.extend([noise(4, 4, 3), np.uint8(3), noise(9)])

    def show():
        for _ in range(200):
            shown(seq)

    beside(edit, show)
