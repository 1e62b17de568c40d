"""Converts the error messages of ptxas or the driver's JIT to one exception with the author's lines.

The tools name lines of the PTX text, but the author wrote Python.  For each message, the exception shows the
PTX line and the Python line that recorded it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from ..core.errors import AssembleError
from ..core.source import SourceLocation
from ..ir.printer import PrintedModule
from .messages import Message, ToolReport

__all__ = ["PtxRejectedError", "located", "rejection"]

#: Number of errors that the exception's text shows; ``.messages`` has all of them.
_SHOWN = 10
_LOCATIONS = re.compile(
    r"^\s*(\.loc \d+ \d+ \d+(, function_name [\w$]+(\+\d+)?, inlined_at \d+ \d+ \d+)? )+(?=\S)"
)


class PtxRejectedError(AssembleError):
    """A tool refused the PTX text. ``messages`` has everything it printed, warnings and notes included."""

    def __init__(
        self,
        message: str,
        details: Iterable[str],
        messages: tuple[Message, ...],
        location: SourceLocation | None,
        hint: str = "",
    ) -> None:
        self.messages = messages
        super().__init__(message, details=details, location=location, hint=hint)


def rejection(
    report: ToolReport, printed: PrintedModule | str, *, who: str, hint: str = ""
) -> PtxRejectedError:
    """Return the exception to raise for a PTX text that ptxas or the driver's JIT refused.

    Args:
        report: what the tool printed, with at least one error.
        printed: the text, with its table of lines if it was printed from IR.
        who: the tool and the target, such as ``"ptxas 13.5.37 for sm_100a"``.
        hint: what the user can do.

    Returns:
        The exception to raise; its ``location`` is the Python line of the first error that has one.
    """
    text = printed if isinstance(printed, str) else printed.text
    lines = text.splitlines()
    report = located(report, printed)
    errors = report.errors
    summary = f"{who} refused the PTX text: {len(errors)} error{'s' if len(errors) != 1 else ''}"
    details: list[str] = []
    for error in errors[:_SHOWN]:
        details.append(error.text)
        if error.line is not None and 1 <= error.line <= len(lines):
            details.append(f"  PTX line {error.line}: {_statement(lines[error.line - 1])}")
        if error.source is not None:
            details.append(f"  recorded at {error.source.describe()}")
    if len(errors) > _SHOWN:
        details.append(f"and {len(errors) - _SHOWN} more, in .messages")
    first = next((error.source for error in errors if error.source is not None), None)
    return PtxRejectedError(summary, details, report.messages, first, hint)


def located(report: ToolReport, printed: PrintedModule | str) -> ToolReport:
    """Return the report with the author's line added to each message that names a line of ``printed``."""
    if isinstance(printed, str):
        return report
    messages = tuple(
        message if message.line is None else replace(message, source=printed.source_of(message.line))
        for message in report.messages
    )
    return replace(report, messages=messages)


def _statement(line: str) -> str:
    """Return the refused statement in a line of the text, without the ``.loc`` before it."""
    return _LOCATIONS.sub("", line).strip()
