"""Labels and their scopes.

A label given as a string belongs to the innermost ``ptx.scope`` of the Python call that defines it, or to the
call itself.  A branch looks for its label from the inside out: in the scopes of the calling frame, innermost
first, and in the frame itself; then in the same way in each caller, up to the kernel function.  So a helper
that is called twice has two sets of labels.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from functools import partial
from types import FrameType

from ..core.errors import TraceError
from ..core.source import SourceLocation, is_function_frame
from .call_sites import is_internal

__all__ = ["Label", "LabelScope", "Scopes", "label_name"]

_IDENTIFIER = partial(re.compile, r"^(?:[A-Za-z][\w$]*|[_$%][\w$]+)$", re.ASCII)


class Label:
    """A place in the instruction stream. Its name in the text is chosen when the recording ends.

    :func:`ptx.new_label` makes one for helper functions; ``ptx.label("name")`` makes one too.
    """

    __slots__ = ("defined", "hint", "trace")

    def __init__(self, hint: str, trace: object) -> None:
        self.hint = hint
        self.trace = trace
        #: The line that placed the label, or None if it is not placed yet.
        self.defined: SourceLocation | None = None

    def __repr__(self) -> str:
        return f"<label {self.hint}>"


class LabelScope:
    """The labels that one ``ptx.scope`` or one Python call defines, a mapping from their names."""

    __slots__ = ("labels",)

    def __init__(self) -> None:
        self.labels: dict[str, Label] = {}


class _Call:
    """A call of a Python function during the recording, with its labels and its open ``ptx.scope`` blocks."""

    __slots__ = ("frame", "open", "own")

    def __init__(self, frame: FrameType) -> None:
        self.frame = frame  # kept, so that no later frame gets the same id
        self.own = LabelScope()
        self.open: list[LabelScope] = []


class Scopes:
    """The Python calls of one recording, by frame. ``root`` is the frame that calls the kernel function."""

    def __init__(self, root: FrameType) -> None:
        self._root = root
        self._calls: dict[int, _Call] = {}

    def _call(self, frame: FrameType) -> _Call:
        call = self._calls.get(id(frame))
        if call is None:
            call = self._calls[id(frame)] = _Call(frame)
        return call

    def _frames(self) -> Iterable[FrameType]:
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame is not self._root:
            if not is_internal(frame.f_code.co_filename) and is_function_frame(frame):
                yield frame
            frame = frame.f_back

    def chain(self) -> tuple[LabelScope, ...]:
        """Return the scopes in which a branch on the current line finds its label, innermost first."""
        found: list[LabelScope] = []
        for frame in self._frames():
            call = self._call(frame)
            found += reversed(call.open)
            found.append(call.own)
        return tuple(found)

    def innermost(self) -> LabelScope:
        """Return the scope to which a label belongs that the current Python line defines."""
        for frame in self._frames():
            call = self._call(frame)
            return call.open[-1] if call.open else call.own
        raise TraceError("ptx.label was called outside the kernel function")

    def enter(self) -> tuple[_Call, LabelScope]:
        for frame in self._frames():
            call = self._call(frame)
            scope = LabelScope()
            call.open.append(scope)
            return call, scope
        raise TraceError("ptx.scope() was entered outside the kernel function")


def label_name(name: object) -> str:
    """Return ``name`` if PTX allows it as a label; else raise :class:`TraceError`."""
    if not isinstance(name, str) or not _IDENTIFIER().match(name):
        raise TraceError(
            f"{name!r} cannot name a label",
            hint="a label is a letter followed by letters, digits, _ or $; or a Label from ptx.new_label()",
            see="identifiers",
        )
    return name
