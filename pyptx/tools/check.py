"""``pyptx check``: checks a PTX file, or a kernel of a Python file, by the instruction table and by ptxas."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import field
from pathlib import Path
from typing import Any

import click

from ..core.errors import AssembleError, ParseError, PyptxError, ToolNotFoundError
from ..core.records import dataclass
from ..core.source import SourceLocation
from ..ir import Module, Raw, parse_module
from ..isa import check_module
from ..isa.targets import version_text
from ..toolchain import Assembly, PtxRejectedError, assemble
from .load import load_target
from .resources import complaints, message_row, resource_rows, show_assembly, source_rows

__all__ = ["command"]


@click.command()
@click.argument("file", metavar="FILE.ptx|FILE.py[:NAME]")
@click.argument("words", nargs=-1, metavar="[VALUE | NAME=VALUE]...")
@click.option(
    "--assemble/--no-assemble",
    "assembles",
    default=None,
    help="Assemble with ptxas too, and print registers and spills. Default: assemble if ptxas is installed.",
)
@click.option("--strict", is_flag=True, help="Count spills, warnings and notes such as C7508 as faults.")
@click.option("--json", "as_json", is_flag=True, help="Print everything as one JSON object.")
def command(file: str, words: tuple[str, ...], assembles: bool | None, strict: bool, as_json: bool) -> None:
    """Check every instruction and declaration of a module, then assemble it with ptxas.

    Checked are modifiers, operands, types, immediates, versions, targets, names, state spaces, labels, calls
    and the directives of kernels. Each fault is printed with its line and the nearest legal form. A module
    without faults is assembled by ptxas, which reports registers, spills and warnings. FILE.py:NAME, VALUE
    and NAME=VALUE are those of `pyptx emit`.

    Exit status: 0 without faults, 1 with faults, 2 if the command line is wrong or ptxas is missing.
    """
    subject = _read(file, words)
    if subject.module is not None:
        subject.faults += check_module(subject.module)
    if assembles is not False and not subject.faults:
        try:
            subject.assembly = subject.assemble()
        except AssembleError as error:
            subject.faults.append(error)
        except ToolNotFoundError as error:
            if assembles:
                raise click.UsageError(error.message) from None
            click.echo(
                "not assembled: ptxas was not found (pyptx doctor shows where pyptx looks for it)", err=True
            )
    assembly = subject.assembly
    if as_json:
        click.echo(json.dumps(_object(file, subject), indent=2))
    else:
        for fault in subject.faults:
            click.echo(_line(fault))
        click.echo(_summary(subject), err=True)
        if assembly is not None:
            show_assembly(assembly)
    if subject.faults or (strict and assembly is not None and complaints(assembly)):
        raise SystemExit(1)


@dataclass
class _Subject:
    """The module to check, if it could be read, a function that assembles it, and the faults found so far."""

    module: Module | None
    assemble: Callable[[], Assembly]
    faults: list[PyptxError] = field(default_factory=list)
    assembly: Assembly | None = None

    @property
    def instructions(self) -> int:
        functions = self.module.functions if self.module is not None else ()
        return sum(1 for function in functions for _ in function.instructions())

    @property
    def raw(self) -> int:
        functions = self.module.functions if self.module is not None else ()
        return sum(isinstance(statement, Raw) for function in functions for statement in function.body)


def _read(file: str, words: tuple[str, ...]) -> _Subject:
    if Path(file).suffix == ".py" or ".py:" in file:
        loaded = load_target(file, words)
        try:
            return _Subject(loaded.module(), loaded.assemble)
        except PyptxError as error:
            return _Subject(None, loaded.assemble, [error])
    if words:
        raise click.UsageError(f"{file} is PTX text: only kernels of Python files take NAME=VALUE arguments")
    try:
        text = Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(f"cannot read {file}: {error}") from None
    try:
        return _Subject(parse_module(text, file), lambda: _assemble_text(text, file))
    except ParseError as error:
        return _Subject(None, lambda: _assemble_text(text, file), [error])


def _assemble_text(text: str, file: str) -> Assembly:
    try:
        return assemble(text)
    except PtxRejectedError as error:
        line = next((m.line for m in error.messages if m.is_error and m.line is not None), 1)
        error.location = SourceLocation(file, line)
        raise


def _line(fault: PyptxError) -> str:
    caller = fault.location.caller
    called = "" if caller is None else f"\n    called from {caller.describe(indent=4)}"
    hint = f"\n    hint: {fault.hint}" if fault.hint else ""
    see = f"\n    see:  PTX ISA #{fault.see}" if fault.see else ""
    return f"{fault.location}: {fault.message}{called}{hint}{see}"


def _object(file: str, subject: _Subject) -> dict[str, Any]:
    module, assembly = subject.module, subject.assembly
    return {
        "file": file,
        "version": version_text(module.version) if module is not None else None,
        "target": module.target if module is not None else None,
        "instructions": subject.instructions,
        "raw": subject.raw,
        "faults": [_row(fault) for fault in subject.faults],
        "assembled": assembly is not None,
        "ptxas": assembly.ptxas.version_text if assembly is not None else None,
        "resources": resource_rows(assembly) if assembly is not None else [],
        "messages": [message_row(m) for m in assembly.report.messages] if assembly is not None else [],
    }


def _row(fault: PyptxError) -> dict[str, Any]:
    return {
        "file": fault.location.file,
        "line": fault.location.line,
        "error": type(fault).__name__,
        "message": fault.message,
        "hint": fault.hint,
        "see": fault.see,
        "callers": source_rows(fault.location.caller),
    }


def _summary(subject: _Subject) -> str:
    faults, module = subject.faults, subject.module
    count = f"{len(faults)} fault{'' if len(faults) == 1 else 's'}" if faults else "no faults"
    if module is None:
        return f"{count}: not a module"
    unread = f"; {subject.raw} raw statements were not checked" if subject.raw else ""
    return (
        f"{count} in {subject.instructions} instructions "
        f"(PTX {version_text(module.version)}, {module.target}){unread}"
    )
