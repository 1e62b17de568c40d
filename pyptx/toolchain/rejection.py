"""From a tool's error messages to an error at the author's lines.

ptxas and the driver's JIT name lines of the PTX text; the author wrote Python.  Both refusals become
one error here, which shows for each message the PTX line and the Python line it was recorded at.
"""

from __future__ import annotations

import re
from dataclasses import replace

from ..core.errors import AssembleError
from ..core.source import SourceLocation
from ..ir.printer import PrintedModule
from .messages import Message, ToolReport

__all__ = ["PtxRejectedError", "located", "rejection"]

#: Errors shown in the message; all of them are in ``.messages``.
_SHOWN = 10
_LOCATIONS = re.compile(
    r"^\s*(\.loc \d+ \d+ \d+(, function_name [\w$]+(\+\d+)?, inlined_at \d+ \d+ \d+)? )+(?=\S)"
)


class PtxRejectedError(AssembleError):
    """The text was refused. ``messages`` holds everything the tool said, warnings and notes included."""

    def __init__(
        self,
        message: str,
        messages: tuple[Message, ...],
        location: SourceLocation | None,
        hint: str = "",
    ) -> None:
        self.messages = messages
        super().__init__(message, location=location, hint=hint)


def rejection(
    report: ToolReport, printed: PrintedModule | str, *, who: str, hint: str = ""
) -> PtxRejectedError:
    """The error for a text that was refused.

    Args:
        report: what the tool said, with at least one error.
        printed: the text, with its table of lines if the text was printed from IR.
        who: the tool and the target, ``"ptxas 13.5.37 for sm_100a"``.
        hint: what to do about it.

    Returns:
        An error to raise; its ``location`` is the Python line of the first error that has one.
    """
    text = printed if isinstance(printed, str) else printed.text
    lines = text.splitlines()
    report = located(report, printed)
    errors = report.errors
    out = [f"{who} refused the PTX text: {len(errors)} error{'s' if len(errors) != 1 else ''}"]
    for error in errors[:_SHOWN]:
        out.append(f"  {error.text}")
        if error.line is not None and 1 <= error.line <= len(lines):
            out.append(f"    PTX line {error.line}: {_statement(lines[error.line - 1])}")
        if error.source is not None:
            out.append(f"    recorded at {error.source.describe()}")
    if len(errors) > _SHOWN:
        out.append(f"  and {len(errors) - _SHOWN} more, in .messages")
    first = next((error.source for error in errors if error.source is not None), None)
    return PtxRejectedError("\n".join(out), report.messages, first, hint)


def located(report: ToolReport, printed: PrintedModule | str) -> ToolReport:
    """The report with the author's line in each message that names a line of ``printed``."""
    if isinstance(printed, str):
        return report
    messages = tuple(
        message if message.line is None else replace(message, source=printed.source_of(message.line))
        for message in report.messages
    )
    return replace(report, messages=messages)


def _statement(line: str) -> str:
    """A line of the text without the ``.loc`` in front, which is not what was refused."""
    return _LOCATIONS.sub("", line).strip()
