"""The SVG of a figure is self-contained, covers what it draws, and can be saved and shown."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from pyptx import SpecError, viz
from pyptx.viz.svg import COLORS, Canvas


def test_a_figure_is_self_contained() -> None:
    figure = viz.swizzle("128B")
    assert figure._repr_svg_() == str(figure) == figure.svg
    assert "Swizzles" in repr(figure) and len(repr(figure)) < 120
    for outside in ("href", "url(", "@import", "<script", "<image"):
        assert outside not in figure.svg
    assert "prefers-color-scheme: dark" in figure.svg
    root = ElementTree.fromstring(figure.svg)
    assert root.find("{http://www.w3.org/2000/svg}title").text == figure.title  # type: ignore[union-attr]


def test_the_view_covers_all_that_is_drawn() -> None:
    canvas = Canvas("a title <&>")
    canvas.cell(-50, -40, 20, 20, "a & b", tip='"quoted" <tip>', which='a"b')
    canvas.text(700, 300, "the end")
    canvas.line((0, 0), (10, 500), arrow=True)
    root = ElementTree.fromstring(canvas.figure().svg)
    x, y, width, height = map(float, root.attrib["viewBox"].split())
    assert x < -50 and y < -40 and x + width > 720 and y + height > 500
    assert (float(root.attrib["width"]), float(root.attrib["height"])) == (width, height)
    (cell,) = (each for each in root.iter() if "data-which" in each.attrib)
    assert cell.attrib["data-which"] == 'a"b'


def _luminance(color: str) -> float:
    parts = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_labels_are_readable_on_every_color() -> None:
    """The contrast of text and cell is at least 4.5, as WCAG asks for, in both schemes."""
    for scheme, ink in enumerate(("#1b2027", "#e9ecf0")):
        assert f".ink{{fill:{ink}}}" in viz.swizzle("none").svg
        for color in COLORS:
            light, dark = sorted((_luminance(ink), _luminance(color[scheme])), reverse=True)
            assert (light + 0.05) / (dark + 0.05) >= 4.5, color


def test_save(tmp_path: Path) -> None:
    figure = viz.pair()
    figure.save(tmp_path / "pair.svg")
    assert (tmp_path / "pair.svg").read_text(encoding="utf-8") == figure.svg
    with pytest.raises(SpecError, match=r"expected a name that ends in \.svg") as caught:
        figure.save(tmp_path / "pair.png")
    assert caught.value.location is not None and caught.value.location.file == __file__
