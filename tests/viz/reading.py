"""Reads figures: their cells with data attributes, the places where they are drawn, and their texts."""

from __future__ import annotations

from typing import Any, NamedTuple
from xml.etree import ElementTree

from pyptx.viz import Figure

_NS = "{http://www.w3.org/2000/svg}"


class Cell(NamedTuple):
    """A cell of a figure: its data attributes, its rectangle, its text and its class."""

    data: dict[str, str]
    x: float
    y: float
    width: float
    height: float
    text: str
    fill: str

    def number(self, name: str) -> int:
        return int(self.data[name])


def _data(element: Any) -> dict[str, str]:
    return {
        key.removeprefix("data-"): value for key, value in element.attrib.items() if key.startswith("data-")
    }


def root_of(figure: Figure) -> Any:
    return ElementTree.fromstring(figure.svg)


def cells(figure: Figure | Any, **wanted: object) -> list[Cell]:
    """The cells whose data attributes have the values that are given; a value of ``...`` is any."""
    root = root_of(figure) if isinstance(figure, Figure) else figure
    found = []
    for group in root.iter(f"{_NS}g"):
        rect = group.find(f"{_NS}rect")
        data = _data(group)
        if rect is None or any(
            key not in data or (value is not ... and data[key] != str(value)) for key, value in wanted.items()
        ):
            continue
        x, y, width, height = (float(rect.attrib[name]) for name in ("x", "y", "width", "height"))
        text = "\n".join(each.text or "" for each in group.findall(f"{_NS}text"))
        found.append(Cell(data, x, y, width, height, text, rect.attrib["class"].split()[0]))
    return found


def groups(figure: Figure, name: str) -> dict[str, Any]:
    """The groups that have a data attribute, by its value."""
    return {
        each.attrib[f"data-{name}"]: each
        for each in root_of(figure).iter(f"{_NS}g")
        if f"data-{name}" in each.attrib and each.find(f"{_NS}g") is not None
    }


def lines(figure: Figure, name: str) -> list[dict[str, str]]:
    """The data attributes of the lines that have the attribute ``name``."""
    found = (_data(each) for each in root_of(figure).iter(f"{_NS}polyline"))
    return [each for each in found if name in each]


def texts(figure: Figure) -> list[str]:
    return [each.text or "" for each in root_of(figure).iter(f"{_NS}text")]


def positions(found: list[Cell], name: str, axis: str) -> dict[int, set[float]]:
    """Where cells begin along an axis, ``"x"`` or ``"y"``, for each value of a data attribute."""
    places: dict[int, set[float]] = {}
    for each in found:
        places.setdefault(each.number(name), set()).add(getattr(each, axis))
    return places
