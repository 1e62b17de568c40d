"""Source locations: the author's Python (or PTX) lines to which instructions and errors belong.

Owns :class:`SourceLocation`, the walk from a call inside pyptx to the author's frames, and the
reading of source lines for messages.

A location inside an author's helper function also has the line that called the helper, in ``caller``, and so
on up to the kernel function.  This chain leaves out pyptx's own frames (``pyptx.kit`` included), and counts
a comprehension as part of the function around it.
"""

from __future__ import annotations

import linecache
import os
import re
import sys
from collections.abc import Callable, Iterator
from functools import cache
from types import CodeType, FrameType
from typing import Any, TypeVar

from .records import dataclass

__all__ = [
    "SourceLocation",
    "author_frame",
    "author_location",
    "comment_lines",
    "defined_at",
    "frames_within",
    "is_author_file",
    "is_function_frame",
    "located",
    "outermost_call",
]

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_is_author: dict[str, bool] = {}


@dataclass(frozen=True, slots=True)
class SourceLocation:
    """A line of a file.

    Attributes:
        file: absolute path, or a name such as ``<stdin>`` that is not a path.
        line: 1-based number of the line.
        function: name of the enclosing function, or empty.
        caller: the line that called ``function``; None if ``function`` is the kernel or the line is unknown.
    """

    file: str
    line: int
    function: str = ""
    caller: SourceLocation | None = None

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"

    @property
    def short(self) -> str:
        """``name.py:12``, for tables and reports."""
        return f"{os.path.basename(self.file)}:{self.line}"

    @property
    def text(self) -> str:
        """Text of the line, stripped; empty if the file cannot be read (standard input, for example)."""
        line = linecache.getline(self.file, self.line)
        if not line and self.file == _COMMAND:
            line = _line_of_command(self.line, self.function)
        return line.strip()

    @property
    def chain(self) -> tuple[SourceLocation, ...]:
        """This location and its callers, innermost first."""
        found = [self]
        while found[-1].caller is not None:
            found.append(found[-1].caller)
        return tuple(found)

    def describe(self, indent: int = 8) -> str:
        """Return ``file:line: text`` for a message, and a line ``called from ...`` for each caller.

        ``indent`` is the number of blanks before each ``called from`` line.
        """
        lines = [f"{place}: {place.text}" if place.text else str(place) for place in self.chain]
        return ("\n" + " " * indent + "called from ").join(lines)


def comment_lines(location: SourceLocation, previous: SourceLocation | None) -> list[str]:
    """Return ``name.py:12: text`` for ``location`` and its callers, outermost first, each call indented.

    Frames that ``previous`` also has are left out: between two statements of one call of a helper function,
    only the new line of the helper is shown.
    """
    frames = location.chain[::-1]
    before = previous.chain[::-1] if previous is not None else ()
    same = 0
    while same < min(len(frames), len(before)) and frames[same] == before[same]:
        same += 1
    same = min(same, len(frames) - 1)  # the innermost line is always shown
    return [
        "  " * depth + (f"{frame.short}: {frame.text}" if frame.text else frame.short)
        for depth, frame in enumerate(frames)
        if depth >= same
    ]


#: The file name of code from ``python -c``; code that ``exec`` runs may have this name, too.
_COMMAND = "<string>"


def _line_of_command(line: int, function: str) -> str:
    """Return line ``line`` of the program text of ``python -c``, or "" if it does not define ``function``.

    Only needed before Python 3.13: there the linecache module has the lines of this text.
    """
    arguments = sys.orig_argv
    if "-c" not in arguments[1:-1]:
        return ""
    text = arguments[arguments.index("-c") + 1]
    named = re.search(rf"\bdef\s+{re.escape(function)}\b", text) if function.isidentifier() else None
    if named is None and not (function == "<module>" or (function == "<lambda>" and "lambda" in text)):
        return ""
    lines = text.splitlines()
    return lines[line - 1] if 0 < line <= len(lines) else ""


# --- from frames to locations ---------------------------------------------------------------------

#: Code objects that call the author's outermost function, by id. Their callers do not belong to the kernel.
_outermost: dict[int, CodeType] = {}
#: Locations by the frames between a call and the kernel function: the key has the id of the code object and
#: the bytecode offset of each. The value keeps the code objects alive, so that their ids are not reused.
_located: dict[tuple[int, ...], tuple[list[CodeType], SourceLocation]] = {}
_LOCATED_LIMIT = 1 << 16

_Function = TypeVar("_Function", bound=Callable[..., Any])


def outermost_call(function: _Function) -> _Function:
    """Mark ``function`` as the one that calls the author's outermost function."""
    _outermost[id(function.__code__)] = function.__code__
    return function


def is_author_file(filename: str) -> bool:
    """True if frames of this file are the author's: neither pyptx's nor contextlib's."""
    known = _is_author.get(filename)
    if known is None:
        known = _is_author[filename] = not (
            filename.startswith(_PACKAGE) or filename.endswith(os.sep + "contextlib.py")
        )
    return known


def is_function_frame(frame: FrameType) -> bool:
    """True unless the frame is that of a comprehension. Only some Python versions have such frames."""
    return frame.f_code.co_name not in ("<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>")


def author_frame() -> FrameType:
    """Return the innermost frame that is not pyptx's own."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        filename = frame.f_code.co_filename
        if _is_author.get(filename) or is_author_file(filename):
            return frame
        if frame.f_back is None:
            return frame
        frame = frame.f_back
    raise RuntimeError("no Python frame")  # pragma: no cover


def author_location() -> SourceLocation:
    """Return the author's line that is being executed."""
    return located(author_frame())


def located(frame: FrameType) -> SourceLocation:
    """Return the author's line that ``frame`` is executing or was called from, with its callers.

    Callers are known only while a kernel is recorded (see :func:`outermost_call`); otherwise the location has
    none, since Python's own traceback shows them.  The recorder calls this function for every instruction,
    so results are cached.
    """
    path: list[int] = []
    above: FrameType | None = frame
    while above is not None:
        code = id(above.f_code)
        if code in _outermost:
            break
        path.append(code)
        path.append(above.f_lasti)
        above = above.f_back
    else:
        return _location(_author_frames(frame)[:1])
    key = tuple(path)
    known = _located.get(key)
    if known is None:
        if len(_located) >= _LOCATED_LIMIT:
            _located.clear()
        frames = _author_frames(frame)
        known = _located[key] = [f.f_code for f in frames_within(frame)], _location(frames)
    return known[1]


def defined_at(function: Callable[..., Any]) -> SourceLocation:
    """Return the line of ``function``'s ``def``, or of its first decorator if the source cannot be read."""
    code = function.__code__
    file, line = _absolute(code.co_filename), code.co_firstlineno
    defines = re.compile(rf"\s*(async\s+)?def\s+{code.co_name}\b")
    source = linecache.getlines(file)
    found = next((n for n, text in enumerate(source[line - 1 :], line) if defines.match(text)), line)
    return SourceLocation(file, found, code.co_name)


def frames_within(frame: FrameType) -> Iterator[FrameType]:
    """Yield ``frame`` and its callers' frames, up to the kernel function's frame."""
    found: FrameType | None = frame
    while found is not None and id(found.f_code) not in _outermost:
        yield found
        found = found.f_back


def _author_frames(frame: FrameType) -> list[FrameType]:
    """Return the author's frames among :func:`frames_within`, or ``frame`` if all frames are pyptx's own."""
    return [f for f in frames_within(frame) if is_author_file(f.f_code.co_filename)] or [frame]


def _location(frames: list[FrameType]) -> SourceLocation:
    """Return the location of the first of ``frames``; each later frame called the one before it."""
    location: SourceLocation | None = None
    for function, line in reversed(list(_merged(frames))):
        file, number = _absolute(line.f_code.co_filename), line.f_lineno or 0
        location = SourceLocation(file, number, function.f_code.co_name, location)
    assert location is not None  # there is always a frame
    return location


def _merged(frames: list[FrameType]) -> Iterator[tuple[FrameType, FrameType]]:
    """Yield each function's frame with the frame that has its current line.

    The two differ if the function executes a comprehension, which may have a frame of its own.
    """
    line: FrameType | None = None
    for frame in frames:
        if line is not None and frame.f_code.co_filename != line.f_code.co_filename:
            yield line, line
            line = None
        line = line or frame
        if is_function_frame(frame):
            yield frame, line
            line = None
    if line is not None:
        yield line, line


def _absolute(filename: str) -> str:
    """Return the absolute path of ``filename``.

    A name such as ``<stdin>`` is not a path and stays as it is.
    """
    if filename.startswith("<"):
        return filename
    return _normalized(filename) if os.path.isabs(filename) else os.path.abspath(filename)


@cache
def _normalized(filename: str) -> str:
    """Return an absolute path without ``..``; it does not depend on the current folder."""
    return os.path.abspath(filename)
