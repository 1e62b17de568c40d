"""What ptxas says of an assembled module, as commands print it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from ..core.source import SourceLocation
from ..toolchain import Assembly, Message

__all__ = ["complaints", "message_row", "resource_rows", "show_assembly", "source_rows"]


def show_assembly(assembly: Assembly) -> None:
    """Print registers, spills and shared memory of each function, then warnings, to standard error."""
    for resources in assembly.resources:
        click.echo(
            f"{resources.function}: {resources.registers} registers, {resources.spills} bytes spilled, "
            f"{resources.shared} bytes static shared memory, {resources.barriers} barriers",
            err=True,
        )
    for message in (*assembly.warnings, *assembly.notes):
        click.echo(str(message), err=True)


def complaints(assembly: Assembly) -> tuple[Message, ...]:
    """Warnings, and notes with a code such as C7508: the code is right, and slower than it was meant."""
    return (*assembly.warnings, *(note for note in assembly.notes if note.code))


def resource_rows(assembly: Assembly) -> list[dict[str, Any]]:
    """Resources of each function for JSON."""
    return [asdict(resources) for resources in assembly.resources]


def message_row(message: Message) -> dict[str, Any]:
    """A message for JSON; ``line`` is that of the PTX text."""
    return {
        "severity": message.severity,
        "code": message.code,
        "message": message.text,
        "line": message.line,
        "source": source_rows(message.source),
    }


def source_rows(source: SourceLocation | None) -> list[dict[str, Any]]:
    """A line and its callers for JSON, innermost first."""
    if source is None:
        return []
    return [{"file": s.file, "line": s.line, "function": s.function} for s in source.chain]
