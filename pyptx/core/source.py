"""Where something was written: source locations of the author's Python (or PTX) lines.

Owns :class:`SourceLocation`, the walk from a call inside pyptx to the author's frame, and the
reading of the line itself for messages.
"""

from __future__ import annotations

import linecache
import os
import sys
from dataclasses import dataclass
from types import FrameType

__all__ = ["SourceLocation", "author_frame", "author_location", "location_of"]

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_is_author: dict[str, bool] = {}


@dataclass(frozen=True, slots=True)
class SourceLocation:
    """A line of a file; ``function`` is the enclosing function's name, or empty."""

    file: str
    line: int
    function: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"

    @property
    def short(self) -> str:
        """``name.py:12``, for tables and reports."""
        return f"{os.path.basename(self.file)}:{self.line}"

    @property
    def text(self) -> str:
        """The line itself, stripped; empty if the file cannot be read."""
        return linecache.getline(self.file, self.line).strip()

    def describe(self) -> str:
        """``file:line: text`` as messages show it."""
        text = self.text
        return f"{self}: {text}" if text else str(self)


def _outside(filename: str) -> bool:
    known = _is_author.get(filename)
    if known is None:
        known = _is_author[filename] = not (
            filename.startswith(_PACKAGE) or filename.endswith(os.sep + "contextlib.py")
        )
    return known


def author_frame() -> FrameType:
    """The innermost frame that is not pyptx's own: the caller's line."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        filename = frame.f_code.co_filename
        if _is_author.get(filename) or _outside(filename):
            return frame
        if frame.f_back is None:
            return frame
        frame = frame.f_back
    raise RuntimeError("no Python frame")  # pragma: no cover


def location_of(frame: FrameType) -> SourceLocation:
    """The line that ``frame`` is executing."""
    code = frame.f_code
    return SourceLocation(code.co_filename, frame.f_lineno or 0, code.co_name)


def author_location() -> SourceLocation:
    """The author's line that led here."""
    return location_of(author_frame())
