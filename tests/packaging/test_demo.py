"""The demo: lines found on pages of all kinds, read, drawn, and what can go wrong told in one line."""

import re
import runpy
import subprocess
import sys
from difflib import SequenceMatcher
from itertools import pairwise

import numpy as np
import pytest

pytest.importorskip("rapidocr")
pytest.importorskip("matplotlib")
Image = pytest.importorskip("PIL.Image")
shipped_page = pytest.importorskip("skimage.data").page

from seqcore import demo  # noqa: E402

PAGE = [
    "Region-based segmentation",
    "Let us first determine markers of the coins and the",
    "background. These markers are pixels that we can label",
    "unambiguously as either object or background. Here,",
    "the markers are found at the two extreme parts of the",
    "histogram of grey values:",
]
TOPS = [20, 60, 82, 104, 150]

pytestmark = pytest.mark.thread_unsafe


def make_page(tops=TOPS, shape=(200, 400), letter=(10, 6)):
    """Draw lines of blocks, as high and wide as letters are; every other line is half as long."""
    page = np.full(shape, 220, np.uint8)
    height, width = letter
    for i, top in enumerate(tops):
        for left in range(30, (370, 200)[i % 2], 10):
            page[top : top + height, left : left + width] = 40
    return page


def lines_read(printed):
    """Take the text out of what the demo prints."""
    return re.findall(r"^ +\d+  (.*)  \(\d+%\)$", printed, re.MULTILINE)


def assert_reads_as(lines, expected):
    assert len(lines) >= len(expected)
    for line, text in zip(lines, expected, strict=False):
        assert SequenceMatcher(None, line, text, autojunk=False).ratio() >= 0.85, (line, text)


def assert_found(spans, tops, height=10):
    """Each span holds its line, and not much more."""
    assert len(spans) == len(tops)
    for (start, stop), top in zip(spans, tops, strict=True):
        assert top - height <= start <= top
        assert top + height <= stop <= top + 2 * height


class TestFindLines:
    @pytest.mark.parametrize("invert", [False, True])
    def test_finds_each(self, invert):
        page = ~make_page() if invert else make_page()
        same, ink, spans = demo.find_lines(page)
        assert_found(spans, TOPS)
        assert same is page
        np.testing.assert_array_equal(ink, make_page() == 40)

    @pytest.mark.parametrize("slope", [-0.06, -0.02, 0.02, 0.06])
    def test_on_a_page_askew(self, slope):
        page = make_page()
        askew = np.stack([np.roll(page[:, i], round(slope * (i - 200))) for i in range(400)], axis=1)
        level, _, spans = demo.find_lines(askew)
        assert level.shape == page.shape
        assert_found(spans, TOPS)

    def test_passes_over_rules_frames_specks_and_edges(self):
        page = make_page()
        page[45:47, 20:380] = 40
        page[5:195, 5:7] = page[5:195, 393:395] = page[5:7, 5:395] = page[193:195, 5:395] = 40
        page[125, ::37] = 40
        page[125:137, 397:] = 40
        _, ink, spans = demo.find_lines(page)
        assert_found(spans, TOPS)
        np.testing.assert_array_equal(ink, make_page() == 40)

    def test_tight_lines_keep_a_white_row_between_them(self):
        page = make_page([20, 32, 44])
        page[30:32, 60:63] = 40  # a tail that reaches the next line
        _, _, spans = demo.find_lines(page)
        assert_found(spans, [20, 32, 44])
        assert all(stop < start for (_, stop), (start, _) in pairwise(spans))

    @pytest.mark.parametrize("shade", [0, 100, 255])
    @pytest.mark.parametrize("shape", [(200, 400), (1, 1), (1, 300)])
    def test_none_on_an_empty_page(self, shape, shade):
        _, ink, spans = demo.find_lines(np.full(shape, shade, np.uint8))
        assert not spans
        assert not ink.any()


class TestReadScan:
    @pytest.mark.mostly_slow(5)
    @pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK"])
    def test_any_colors(self, tmp_path, mode):
        file = tmp_path / ("page.tif" if mode == "CMYK" else "page.png")
        Image.fromarray(make_page()).convert(mode).save(file)
        page = demo.read_scan(file)
        assert page.dtype == np.uint8
        assert_found(demo.find_lines(page)[2], TOPS)

    def test_transparent_is_white(self, tmp_path):
        pixels = np.zeros((200, 400, 4), np.uint8)
        pixels[..., 3] = np.where(make_page() == 40, 255, 0)
        Image.fromarray(pixels).save(tmp_path / "page.png")
        np.testing.assert_array_equal(demo.read_scan(tmp_path / "page.png"), np.where(pixels[..., 3], 0, 255))


class TestDecode:
    ALPHABET = ("", "a", "b", " ")

    @pytest.mark.parametrize(
        ("best", "text"),
        [
            ([1, 1, 2, 2, 2], "ab"),
            ([1, 0, 1, 1], "aa"),
            ([0, 1, 0, 0, 3, 2, 0], "a b"),
            ([0, 0], ""),
            ([], ""),
        ],
    )
    def test_text(self, best, text):
        assert demo.decode(np.eye(4)[best], self.ALPHABET) == (text, 1.0 if text else 0.0)


@pytest.mark.slow
class TestMain:
    def test_reads_the_page(self, capsys):
        assert demo.main([]) == 0
        printed, complaints = capsys.readouterr()
        assert_reads_as(lines_read(printed), PAGE)
        assert not complaints
        assert len(printed.splitlines()) <= 25
        for step in ("find the lines", "split", "erase", "trim", "load the recognizer", "recognize"):
            assert re.search(rf"^  {step} +\d+\.\d (ms|µs)", printed, re.MULTILINE)

    @pytest.mark.parametrize(("invert", "threads"), [(False, "1"), (True, "2")])
    def test_reads_a_scan_of_ones_own(self, capsys, tmp_path, invert, threads):
        page = ~shipped_page() if invert else shipped_page()
        file = tmp_path / "own.png"
        Image.fromarray(page).convert("RGBA").resize((1152, 573)).save(file)
        assert demo.main(["--image", str(file), "--threads", threads]) == 0
        printed = capsys.readouterr().out
        assert str(file) in printed
        assert_reads_as(lines_read(printed), PAGE)

    def test_draws_a_picture(self, capsys, tmp_path):
        file = tmp_path / "page.png"
        assert demo.main(["--picture", str(file)]) == 0
        assert str(file) in capsys.readouterr().out
        with Image.open(file) as picture:
            assert picture.width == 2000
            assert picture.height == pytest.approx(2000 * (191 + 0.04 * 384) / (2.02 * 384), abs=2)
            assert len(picture.convert("RGB").quantize(64).getcolors()) > 16

    @pytest.mark.parametrize(("ending", "start"), [("svg", b"<?xml"), ("pdf", b"%PDF")])
    def test_draws_other_kinds(self, tmp_path, ending, start):
        page, ink, spans = demo.find_lines(make_page())
        demo.draw(tmp_path / f"page.{ending}", page, ink, spans, ["costs $3 to $5"] * len(spans))
        assert (tmp_path / f"page.{ending}").read_bytes().startswith(start)


class TestErrors:
    """Exit status 1 and one line that says what to do."""

    def complaint(self, capsys, *arguments):
        assert demo.main(list(map(str, arguments))) == 1
        (line,) = capsys.readouterr().err.splitlines()
        return line

    def test_missing_file(self, capsys, tmp_path):
        assert "none.png: No such file" in self.complaint(capsys, "--image", tmp_path / "none.png")

    @pytest.mark.parametrize("content", [b"", b"no image", b"\x89PNG\r\n\x1a\n broken"])
    def test_unreadable_file(self, capsys, tmp_path, content):
        file = tmp_path / "page.png"
        file.write_bytes(content)
        assert "cannot read" in self.complaint(capsys, "--image", file)

    @pytest.mark.slow
    @pytest.mark.parametrize("noise", [0, 6, 60])
    def test_no_text(self, capsys, tmp_path, noise):
        page = np.random.default_rng(0).normal(200, noise, (300, 400)).clip(0, 255)
        Image.fromarray(page.astype(np.uint8)).save(tmp_path / "page.png")
        assert "no line of text" in self.complaint(capsys, "--image", tmp_path / "page.png")

    @pytest.mark.parametrize("arguments", [["--threads", "0"], ["--picture", "page.xyz"], ["--image"]])
    def test_wrong_arguments(self, capsys, arguments):
        with pytest.raises(SystemExit, match="2"):
            demo.main(arguments)
        assert arguments[0] in capsys.readouterr().err

    @pytest.mark.parametrize("library", ["matplotlib", "onnxruntime", "skimage"])
    def test_library_not_installed(self, capsys, monkeypatch, library):
        for name in {library, *sys.modules}:
            if name.partition(".")[0] == library:
                monkeypatch.setitem(sys.modules, name, None)
        assert runpy.run_path(demo.__file__)["main"]([]) == 1
        (line,) = capsys.readouterr().err.splitlines()
        assert library in line
        assert 'pip install "seqcore-tensors[demo]"' in line

    def test_recognizer_not_installed(self, capsys, monkeypatch):
        monkeypatch.setattr(demo, "find_spec", lambda name: None)
        assert 'pip install "seqcore-tensors[demo]"' in self.complaint(capsys)


@pytest.mark.slow
def test_needs_nothing_that_seqcore_does_not():
    code = "import sys, seqcore; print(*({'skimage', 'onnxruntime', 'rapidocr', 'PIL'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not done.stdout.strip()


@pytest.mark.slow
def test_recognizer_is_found_without_an_import():
    assert demo.find_model().suffix == ".onnx"
    code = "import sys; sys.modules['onnxruntime'] = None; from seqcore import demo; demo.find_model(); "
    code += "print('rapidocr' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
