"""Writes a timeline as one page: the template, style and program of ``page/``, with the data inside."""

from __future__ import annotations

import html
import json
import linecache
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

from .schema import Line

__all__ = ["page_of"]

#: Number of source lines that the page shows before and after a line.
_AROUND = 9


def page_of(
    data: Mapping[str, Any], title: str, axis: str, lines: Sequence[Line], sources: Mapping[str, str]
) -> str:
    """Return the text of the page."""
    folder = resources.files(__package__) / "page"
    shown = {**data, "axis": axis, "sources": {}, "excerpts": _excerpts(lines, sources)}
    # A "<" in a text could end the script element or begin a comment there.
    text = json.dumps(shown, separators=(",", ":")).replace("<", "\\u003c")
    page = (folder / "page.html").read_text("utf-8")
    # The title is put in last: the places of the others are searched before it.
    parts = {
        "%STYLE%": (folder / "page.css").read_text("utf-8"),
        "%PROGRAM%": (folder / "page.js").read_text("utf-8"),
        "%DATA%": text,
        "%TITLE%": html.escape(title),
    }
    for name, part in parts.items():
        before, found, after = page.partition(name)
        assert found, name
        page = before + part + after
    return page


def _excerpts(lines: Sequence[Line], sources: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Return the text of every line near a line of the timeline, by file and by number."""
    found: dict[str, dict[str, str]] = {}
    texts = {name: text.splitlines() for name, text in sources.items()}
    for line in lines:
        text = texts.get(line.file)
        if text is None:
            text = texts[line.file] = [each.rstrip("\n") for each in linecache.getlines(line.file)]
        near = found.setdefault(line.file, {})
        for number in range(max(1, line.line - _AROUND), min(len(text), line.line + _AROUND) + 1):
            near[str(number)] = text[number - 1]
    return found
