"""Formats the resources and messages that ptxas reports, as the commands print them."""

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
    """Return the warnings, and the notes with a code such as C7508.

    Such a note means that the machine code is right, but slower than the author intended.
    """
    return (*assembly.warnings, *(note for note in assembly.notes if note.code))


def resource_rows(assembly: Assembly) -> list[dict[str, Any]]:
    """Return the resources of each function as values for JSON."""
    return [asdict(resources) for resources in assembly.resources]


def message_row(message: Message) -> dict[str, Any]:
    """Return a message of ptxas as values for JSON; ``line`` is a line of the PTX text."""
    return {
        "severity": message.severity,
        "code": message.code,
        "message": message.text,
        "line": message.line,
        "source": source_rows(message.source),
    }


def source_rows(source: SourceLocation | None) -> list[dict[str, Any]]:
    """Return a source line and its callers as values for JSON, innermost first."""
    if source is None:
        return []
    return [{"file": s.file, "line": s.line, "function": s.function} for s in source.chain]
