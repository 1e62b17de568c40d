"""The drawing of figures: shapes and texts with data attributes, and the SVG text that they become.

Owns :class:`Figure`, which every function of this package returns, and :class:`Canvas`, on which they draw.
An SVG needs no other file and has no script. Its colors follow the reader's light or dark scheme, and its
background is part of the figure, so that it is readable on any page.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

from ..core.errors import SpecError

__all__ = ["COLORS", "Canvas", "Figure"]

#: Fills of cells in the light and in the dark scheme. ``Canvas.cell(color=n)`` takes number ``n`` modulo 8.
COLORS = (
    ("#cfe2ff", "#234b85"),
    ("#ffddb0", "#85500f"),
    ("#c9ecc4", "#2a6630"),
    ("#ffd0d4", "#8a2f3c"),
    ("#e0d5fa", "#563d8f"),
    ("#bfece8", "#15666a"),
    ("#fbefa5", "#6f6111"),
    ("#f5cfe6", "#7c3363"),
)
_PLAIN = (  # class, property, light, dark
    ("bg", "fill", "#ffffff", "#15181d"),
    ("ink", "fill", "#1b2027", "#e9ecf0"),
    ("dim", "fill", "#59636f", "#a3adb8"),
    ("none", "fill", "#f3f4f6", "#22272e"),
    ("line", "stroke", "#59636f", "#a3adb8"),
    ("bold", "stroke", "#1b2027", "#e9ecf0"),
    ("edge", "stroke", "#8d97a3", "#5b6570"),
    ("over", "stroke", "#ffffff", "#15181d"),
    ("head", "fill", "#1b2027", "#e9ecf0"),
)
#: Width of a character in units of the font's size: a bound for most texts of the fonts below.
_CHARACTER = 0.58
_FONT = "ui-sans-serif, system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', Arial, sans-serif"
_MARGIN = 16


def _style() -> str:
    light, dark = [], []
    for number, (day, night) in enumerate(COLORS):
        light.append(f".c{number}{{fill:{day}}}")
        dark.append(f".c{number}{{fill:{night}}}")
    for name, what, day, night in _PLAIN:
        light.append(f".{name}{{{what}:{day}}}")
        dark.append(f".{name}{{{what}:{night}}}")
    prefix = ".pyptx-figure "
    return (
        f".pyptx-figure{{font-family:{_FONT}}}"
        f"{prefix}.line,{prefix}.bold,{prefix}.edge{{stroke-width:1}}{prefix}.bold{{stroke-width:1.6}}"
        + "".join(prefix + rule for rule in light)
        + "@media (prefers-color-scheme: dark){"
        + "".join(prefix + rule for rule in dark)
        + "}"
    )


class Figure:
    """A figure as self-contained SVG. A notebook shows it as the value of a cell.

    Attributes:
        title: what the figure shows, in one line.
        svg: the SVG text. ``str(figure)`` is the same.
    """

    def __init__(self, title: str, svg: str) -> None:
        self.title, self.svg = title, svg

    def _repr_svg_(self) -> str:
        return self.svg

    def __str__(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return f"<figure: {self.title}>"

    def save(self, path: str | PathLike[str]) -> None:
        """Write the SVG to a file whose name ends in ``.svg``.

        Raises:
            SpecError: the name does not end in ``.svg``.
        """
        if Path(path).suffix != ".svg":
            raise SpecError(f"save({str(path)!r}): a figure is SVG: expected a name that ends in .svg")
        Path(path).write_text(self.svg, encoding="utf-8")


def _data(attributes: dict[str, object]) -> str:
    return "".join(f" data-{key.replace('_', '-')}={quoteattr(str(v))}" for key, v in attributes.items())


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")


class Canvas:
    """Collects shapes and texts. The figure is as large as they need: nothing that is drawn is cut off.

    Coordinates are pixels from the upper left corner. Keywords beyond a method's own become ``data-``
    attributes, which tests read; underscores become hyphens.
    """

    def __init__(self, title: str) -> None:
        self.title = title
        self._parts: list[str] = []
        self._left = self._top = 0.0
        self._right = self._bottom = 0.0
        self.text(0, 0, title, size=15, weight=600)

    def _covers(self, x: float, y: float, width: float = 0, height: float = 0) -> None:
        self._left, self._top = min(self._left, x), min(self._top, y)
        self._right, self._bottom = max(self._right, x + width), max(self._bottom, y + height)

    @contextmanager
    def group(self, **data: object) -> Iterator[None]:
        """Put what is drawn inside into one group with data attributes."""
        self._parts.append(f"<g{_data(data)}>")
        yield
        self._parts.append("</g>")

    def cell(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        label: str = "",
        *,
        color: int | None = None,
        size: float = 11,
        bold: bool = False,
        tip: str = "",
        **data: object,
    ) -> None:
        """Draw a rectangle with a label in its middle; without a color it is gray.

        ``\\n`` separates lines of the label; ``tip`` is shown under the mouse.
        """
        fill = "none" if color is None else f"c{color % len(COLORS)}"
        self._covers(x, y, width, height)
        self._parts.append(f"<g{_data(data)}>")
        if tip:
            self._parts.append(f"<title>{escape(tip)}</title>")
        place = " ".join(
            f'{name}="{_number(value)}"'
            for name, value in (("x", x), ("y", y), ("width", width), ("height", height))
        )
        self._parts.append(f'<rect {place} class="{fill} {"bold" if bold else "edge"}"/>')
        lines = label.split("\n") if label else []
        for number, line in enumerate(lines):
            middle = y + height / 2 + (number - (len(lines) - 1) / 2) * size * 1.25
            self._write(x + width / 2, middle, line, "ink", size, "middle")
        self._parts.append("</g>")

    def _write(
        self, x: float, y: float, text: str, kind: str, size: float, anchor: str, extra: str = ""
    ) -> None:
        # A baseline 0.35 of the size below the middle: renderers differ in dominant-baseline.
        self._parts.append(
            f'<text x="{_number(x)}" y="{_number(y + 0.35 * size)}" class="{kind}" '
            f'font-size="{_number(size)}" text-anchor="{anchor}"{extra}>{escape(text)}</text>'
        )

    def text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        size: float = 12,
        anchor: str = "start",
        dim: bool = False,
        weight: int = 400,
        up: bool = False,
        backed: bool = False,
    ) -> None:
        """Write one line, its middle at height ``y``.

        ``up`` turns it by 90 degrees, to be read upwards; ``backed`` covers what lies behind it.
        """
        length = len(text) * size * _CHARACTER * (1.06 if weight > 500 else 1)
        before = {"start": 0.0, "middle": length / 2, "end": length}[anchor]
        extra = f' font-weight="{weight}"' if weight != 400 else ""
        if up:
            self._covers(x - size / 2, y - length + before, size, length)
            extra += f' transform="rotate(-90 {_number(x)} {_number(y)})"'
        else:
            self._covers(x - before, y - size / 2, length, size)
        if backed:
            # A thick outline of the background's color, drawn below the letters.
            extra += ' paint-order="stroke" stroke-width="4" stroke-linejoin="round"'
            self._write(x, y, text, "dim over" if dim else "ink over", size, anchor, extra)
            return
        self._write(x, y, text, "dim" if dim else "ink", size, anchor, extra)

    def line(
        self,
        *points: tuple[float, float],
        arrow: bool = False,
        bold: bool = False,
        dash: str = "",
        **data: object,
    ) -> None:
        """Draw a line through points, with a head at its end if ``arrow``."""
        for x, y in points:
            self._covers(x - 1, y - 1, 2, 2)
        joined = " ".join(f"{_number(x)},{_number(y)}" for x, y in points)
        dashes = f' stroke-dasharray="{dash}"' if dash else ""
        self._parts.append(
            f'<polyline points="{joined}" fill="none" class="{"bold" if bold or arrow else "line"}"'
            f"{dashes}{_data(data)}/>"
        )
        if arrow:
            (x0, y0), (x1, y1) = points[-2:]
            length = ((x1 - x0) ** 2 + (y1 - y0) ** 2) ** 0.5 or 1.0
            along, across = ((x1 - x0) / length, (y1 - y0) / length), ((y0 - y1) / length, (x1 - x0) / length)
            ends = [
                (x1 - 8 * along[0] + side * 4 * across[0], y1 - 8 * along[1] + side * 4 * across[1])
                for side in (1, -1)
            ]
            corners = " ".join(f"{_number(x)},{_number(y)}" for x, y in [(x1, y1), *ends])
            self._parts.append(f'<polygon points="{corners}" class="head"/>')

    def note(self, *lines: str) -> None:
        """Write lines below all that was drawn so far."""
        y = self._bottom + 20
        for number, line in enumerate(lines):
            self.text(0, y + 17 * number, line, dim=True)

    @property
    def bottom(self) -> float:
        """The lowest coordinate that was drawn at."""
        return self._bottom

    def figure(self) -> Figure:
        """Return the figure with all that was drawn."""
        x, y = self._left - _MARGIN, self._top - _MARGIN
        width, height = self._right - x + _MARGIN, self._bottom - y + _MARGIN
        box = " ".join(_number(value) for value in (x, y, width, height))
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="pyptx-figure" role="img" '
            f'viewBox="{box}" width="{_number(width)}" height="{_number(height)}">'
            f"<title>{escape(self.title)}</title><style>{_style()}</style>"
            f'<rect x="{_number(x)}" y="{_number(y)}" width="{_number(width)}" height="{_number(height)}" '
            'rx="6" class="bg"/>'
        )
        return Figure(self.title, "\n".join([head, *self._parts, "</svg>"]) + "\n")
