"""Findings as values for JSON, and waivers as words of a command line."""

from __future__ import annotations

from typing import Any

import click

from ..core.findings import Finding
from ..core.remedies import Edit
from ..core.source import SourceLocation
from ..core.waivers import Waiver
from .resources import source_rows

__all__ = ["finding_row", "parse_waiver", "place_row"]

_WAIVER = '"store-collision@kernel.ptx:12=all lanes store the same value"'


def place_row(location: SourceLocation | None) -> dict[str, Any]:
    """Return a line with its text and the calls that led to it; all values are None if it is not known."""
    if location is None:
        return {"file": None, "line": None, "text": None, "callers": []}
    return {
        "file": location.file,
        "line": location.line,
        "text": location.text,
        "callers": source_rows(location.caller),
    }


def finding_row(finding: Finding) -> dict[str, Any]:
    """Return a finding; docs/sim.md lists the keys."""
    return {
        "rule": finding.rule.name,
        "severity": str(finding.severity),
        "message": finding.message,
        "thread": finding.thread,
        "schedules": list(finding.schedules),
        **place_row(finding.location),
        "other": [{"note": note, **place_row(location)} for note, location in finding.other],
        "why": finding.why,
        "remedy": finding.advice.advice,
        "remedy_dsl": finding.advice.dsl,
        "remedy_ptx": finding.advice.ptx,
        "edit": _edit(finding.advice.edit),
        "see": finding.see,
    }


def _edit(edit: Edit | None) -> dict[str, Any] | None:
    """Return the one instruction that mends the kernel, and where it goes in."""
    if edit is None:
        return None
    return {
        "ptx": edit.ptx,
        "place": str(edit.place),
        "file": edit.location.file,
        "line": edit.location.line,
        "replaces": edit.replaced or None,
        "from": None if edit.origin is None else edit.origin.line,
    }


def parse_waiver(text: str) -> Waiver:
    """Return the waiver that ``--waive`` names. Raises click's UsageError for any other text."""
    place, equals, reason = text.partition("=")
    rule, at, where = place.partition("@")
    file, _, line = where.rpartition(":")
    if not (equals and at and file and line.isdigit()):
        raise click.UsageError(f"--waive {text}: expected RULE@FILE:LINE=REASON, such as {_WAIVER}")
    return Waiver(rule, file, int(line), reason)
