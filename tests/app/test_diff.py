"""flashscope diff: verdicts, shares, pictures of differences, reports, and bad input in one sentence."""

import base64
import io
import json
import os
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageChops

from visualizer import cli, diff, diff_report

SIDES = st.integers(1, 12)


@st.composite
def pictures(draw: st.DrawFn, size: tuple[int, int] | None = None) -> Image.Image:
    """RGBA, of few colours and alphas, so that equal pixels are common."""
    width, height = size or (draw(SIDES), draw(SIDES))
    value = st.sampled_from((0, 1, 128, 254, 255))
    raw = draw(st.lists(value, min_size=width * height * 4, max_size=width * height * 4))
    return Image.frombytes("RGBA", (width, height), bytes(raw))


def visible(pixel: tuple[int, ...]) -> tuple[int, ...]:
    """A pixel without the colour that full transparency hides."""
    return pixel if pixel[3] else (0, 0, 0, 0)


@given(pictures(), st.data())
def test_exact_comparison_counts_every_pixel_that_differs(a: Image.Image, data: st.DataObject) -> None:
    b = data.draw(pictures(a.size))
    pairs = zip(a.get_flattened_data(), b.get_flattened_data(), strict=True)
    differing = [visible(x) != visible(y) for x, y in pairs]
    found = diff.compare(a, b)
    assert found.pixels == sum(differing)
    assert found.same == (not any(differing))
    assert found.total == a.width * a.height
    if any(differing):
        at = [divmod(i, a.width) for i, d in enumerate(differing) if d]
        rows, cols = [y for y, _ in at], [x for _, x in at]
        assert found.box == (min(cols), min(rows), max(cols) + 1, max(rows) + 1)
        picture = found.difference()
        assert picture is not None and picture.size == a.size


@given(pictures(), pictures(), st.sampled_from((0.0, 0.1, 1.0)))
def test_a_changed_size_always_differs(a: Image.Image, b: Image.Image, tolerance: float) -> None:
    found = diff.compare(a, b, tolerance)
    back = diff.compare(b, a, tolerance)
    assert (found.pixels, found.box) == (back.pixels, back.box)
    if a.size != b.size:
        assert found.reason == f"the size changed from {a.width}x{a.height} to {b.width}x{b.height}"
        picture = found.difference()
        assert picture is not None and picture.size == (max(a.width, b.width), max(a.height, b.height))


@given(pictures(), st.data(), st.floats(0, 1), st.floats(0, 1))
def test_more_tolerance_finds_no_more(a: Image.Image, data: st.DataObject, t: float, u: float) -> None:
    b = data.draw(pictures(a.size))
    assert diff.compare(a, b, max(t, u)).pixels <= diff.compare(a, b, min(t, u)).pixels


def test_alpha_alone_counts() -> None:
    white = Image.new("RGBA", (4, 4), (255, 255, 255, 255))
    clear = Image.new("RGBA", (4, 4), (255, 255, 255, 0))
    assert diff.compare(white, clear).pixels == 16
    assert diff.compare(white, clear, 0.5).pixels == 16
    assert diff.compare(white, white.convert("RGB")).same


def test_the_picture_of_the_difference_shows_where() -> None:
    a = Image.new("RGB", (40, 30), "black")
    b = a.copy()
    b.putpixel((20, 10), (90, 0, 0))
    found = diff.compare(a, b)
    assert found.reason == "0.083 % of the pixels differ (1), within x 20 … 20, y 10 … 10"
    picture = found.difference()
    assert picture is not None
    assert picture.getpixel((20, 10)) == diff.RED
    assert picture.getpixel((16, 6)) == diff.RED  # the frame
    plain = Image.new("RGB", (40, 30), picture.getpixel((0, 0)))
    assert ImageChops.difference(picture, plain).getbbox() == (16, 6, 25, 15)


@pytest.mark.parametrize(
    "share, words", [(0.12345, "12 %"), (1.0, "100 %"), (0.999, "99.9 %"), (2e-5, "0.002 %"), (1e-9, "under 0.0001 %")]
)
def test_shares_never_round_to_nothing(share: float, words: str) -> None:
    assert diff.percent(share) == words


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """before: same, moved, gone, deep/grown. after: same, moved, new, deep/grown."""
    before, after = tmp_path / "before", tmp_path / "after"
    for folder, x, extra, height in ((before, 3, "gone", 20), (after, 5, "new", 21)):
        (folder / "deep").mkdir(parents=True)
        Image.new("RGB", (30, 20), "navy").save(folder / "same.png")
        moved = Image.new("RGB", (30, 20), "navy")
        moved.paste((255, 255, 0), (x, 4, x + 10, 8))
        moved.save(folder / "moved.png")
        Image.new("RGB", (30, height), "white").save(folder / "deep" / "grown.png")
        Image.new("RGB", (5, 5), "red").save(folder / f"{extra}.png")
        (folder / "notes.txt").write_text("no picture")
    return before, after


def test_two_folders(folders: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, after = folders
    assert cli.main(["diff", str(before), str(after), "--out", str(tmp_path / "d")]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "4 of 5 pictures differ."
    assert "gone.png: only in A" in lines
    assert "new.png: only in B" in lines
    assert "moved.png: 2.7 % of the pixels differ (16), within x 3 … 14, y 4 … 7" in lines
    assert "deep/grown.png: the size changed from 30x20 to 30x21" in lines
    assert sorted(p.relative_to(tmp_path / "d").as_posix() for p in (tmp_path / "d").rglob("*.*")) == [
        "deep/grown.png",
        "moved.png",
    ]
    assert cli.main(["diff", str(before), str(before)]) == 0
    assert capsys.readouterr().out == "All 4 pictures are the same.\n"


def test_a_bad_picture_leaves_the_others_their_report(
    folders: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before, after = folders
    for folder in folders:
        Image.new("RGB", (5, 5), "red").save(folder / "broken.png")
    (after / "broken.png").write_bytes(b"no picture")
    (before / "half.png").write_bytes((before / "same.png").read_bytes()[:50])
    report = tmp_path / "report.html"
    report.write_text("an older one")
    assert cli.main(["diff", str(before), str(after), "--html", str(report)]) == 1
    printed = capsys.readouterr().out
    assert f"broken.png: unreadable: {after / 'broken.png'} is not a readable PNG file" in printed
    assert f"half.png: unreadable: {before / 'half.png'} is not a readable PNG file" in printed
    assert "6 of 7 pictures differ." in printed
    text = report.read_text()
    section = text[text.index("<h2>broken.png</h2>") :].partition("</section>")[0]
    assert section.count("<img") == section.count("cannot be read") == section.count("nothing to compare") == 1
    assert "<h2>moved.png</h2>" in text


def test_two_files(folders: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, after = (str(folder / "moved.png") for folder in folders)
    assert cli.main(["diff", before, after, "--json", "--out", str(tmp_path / "d.png")]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["same"] is False
    assert report["pictures"][0] | {"reason": ""} == {
        "name": "moved.png", "same": False, "pixels": 16, "share": round(16 / 600, 9), "reason": "",
        "box": [3, 4, 15, 8],
    }  # fmt: skip
    with Image.open(tmp_path / "d.png") as picture:
        assert picture.size == (30, 20)
    assert cli.main(["diff", before, before, "--json", "--out", str(tmp_path / "e.png")]) == 0
    assert json.loads(capsys.readouterr().out)["same"] is True
    assert not (tmp_path / "e.png").exists()


def test_tolerance(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Image.new("RGB", (9, 9), (100, 100, 100)).save(tmp_path / "a.png")
    Image.new("RGB", (9, 9), (103, 100, 100)).save(tmp_path / "b.png")
    pair = [str(tmp_path / "a.png"), str(tmp_path / "b.png")]
    assert cli.main(["diff", *pair]) == 1
    assert "100 % of the pixels differ (81)" in capsys.readouterr().out
    assert cli.main(["diff", *pair, "--tolerance", "0.05"]) == 0
    assert capsys.readouterr().out == "The pictures are the same.\n"


class Report(HTMLParser):
    """What an HTML file shows: headings, captions and embedded pictures, in their order, and what it would load."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.shown: list[str] = []
        self.loads: list[str] = []
        self.pictures: list[Image.Image] = []
        self._within = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._within = tag
        for name, value in attrs:
            if name in ("src", "href") and value is not None:
                if value.startswith("data:image/png;base64,"):
                    self.pictures.append(Image.open(io.BytesIO(base64.b64decode(value.partition(",")[2]))))
                else:
                    self.loads.append(value)

    def handle_data(self, data: str) -> None:
        if data.strip() and self._within in ("h1", "h2", "figcaption", "summary", "div"):
            self.shown.append(data.strip())


def test_the_report_needs_nothing_else_and_shows_failures_first(
    folders: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before, after = folders
    path = tmp_path / "reports" / "r.html"
    assert cli.main(["diff", str(before), str(after), "--html", str(path)]) == 1
    text = path.read_text(encoding="utf-8")
    report = Report(text)
    assert report.shown == [
        "4 of 5 pictures differ.",
        "gone.png", "before", "no such picture", "after", "nothing to compare", "difference",
        "new.png", "no such picture", "before", "after", "nothing to compare", "difference",
        "deep/grown.png", "before", "after", "difference",
        "moved.png", "before", "after", "difference",
        "1 the same", "same.png",
    ]  # fmt: skip
    assert report.loads == []
    assert text.count("<img") == text.count('<input type="checkbox"') == 9  # each can be seen pixel for pixel
    assert [p.size for p in report.pictures][2:5] == [(30, 20), (30, 21), (30, 21)]
    assert "prefers-color-scheme: dark" in text
    assert not re.search(r"https?://", text)
    assert cli.main(["diff", str(before), str(before), "--html", str(path)]) == 0
    assert Report(path.read_text()).shown[0] == "All 4 pictures are the same."


def test_the_report_says_which_side_is_a_and_which_b(tmp_path: Path) -> None:
    found = diff.compare(Image.new("RGB", (2, 2)), Image.new("RGB", (2, 2), "red"), name="x" * 300)
    text = diff_report.html([found], "old/ü", "new")
    assert "A, before: old/ü" in text
    assert "B, after: new" in text
    assert "overflow-wrap: anywhere" in text  # a long name wraps instead of widening the page


def test_names_in_the_report_are_text(tmp_path: Path) -> None:
    picture = Image.new("RGB", (2, 2))
    other = Image.new("RGB", (2, 2), "red")
    found = diff.compare(picture, other, name="<img src=x onerror=alert(1)>.png")
    assert Report(diff_report.html([found], "<b>", "&")).loads == []


@pytest.mark.parametrize(
    "a, b, more, words",
    [
        ("none.png", "fine.png", [], "There is no file or folder"),
        ("fine.png", "none.png", [], "There is no file or folder"),
        ("fine.png", ".", [], "is a folder and"),
        ("empty", "empty", [], "There is no PNG file in"),
        ("cut.png", "fine.png", [], "cut.png is not a readable PNG file (it may be cut off, or none at all)."),
        ("text.png", "fine.png", [], "text.png is not a readable PNG file"),
        ("jpeg.png", "fine.png", [], "jpeg.png is not a readable PNG file"),
        ("fine.png", "fine.png", ["--tolerance", "2"], "--tolerance is 2; it may be from 0"),
        ("fine.png", "fine.png", ["--tolerance", "nan"], "--tolerance is nan"),
        ("fine.png", "other.png", ["--out", "x.jpg"], "it must end in .png"),
        ("fine.png", "other.png", ["--html", "text.png/r.html"], "cannot be written"),
        ("fifo.png", "fine.png", [], "fifo.png is not a readable PNG file (it is no ordinary file)."),
        ("bomb.png", "fine.png", [], "bomb.png is not a readable PNG file"),
    ],
)
def test_bad_input_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    a: str, b: str, more: list[str], words: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    Image.new("RGB", (8, 8)).save("fine.png")
    Image.new("RGB", (8, 8), "red").save("other.png")
    Image.effect_noise((64, 64), 50).save("whole.png")
    Path("cut.png").write_bytes(Path("whole.png").read_bytes()[:1000])
    Path("text.png").write_text("no picture")
    Image.new("RGB", (8, 8)).save("jpeg.png", "JPEG")
    Image.new("1", (20_000, 20_000)).save("bomb.png")
    Path("empty").mkdir()
    os.mkfifo("fifo.png")
    assert cli.main(["diff", a, b, *more]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert printed.err.startswith("flashscope diff: ")
    assert words in printed.err
