"""``pyptx check``: hold a PTX file, or what a kernel of a Python file records, against the table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from ..core.errors import AssembleError, ParseError, PyptxError
from ..ir import Module, Raw, parse_module
from ..isa import check_module
from ..isa.targets import version_text
from ..toolchain import assemble
from .load import load_kernel
from .resources import show_assembly

__all__ = ["command"]


@click.command()
@click.argument("file", metavar="FILE.ptx|FILE.py[:NAME]")
@click.argument("words", nargs=-1, metavar="[VALUE | NAME=VALUE]...")
@click.option(
    "--assemble", "assembles", is_flag=True, help="Ask ptxas as well, and print what the code needs."
)
@click.option("--json", "as_json", is_flag=True, help="Print the faults as JSON.")
def command(file: str, words: tuple[str, ...], assembles: bool, as_json: bool) -> None:
    """Check every instruction and declaration of a module.

    Modifiers, operands, types, immediates, versions, targets, names, state spaces, labels, calls and the
    directives of kernels; each fault with its line and the nearest legal form. FILE.py:NAME and the words are
    those of `pyptx emit`.

    Exit status 1 means that there are faults.
    """
    module, text, faults = _read(file, words)
    if module is not None:
        faults = check_module(module)
    if assembles and not faults:
        try:
            assembly = assemble(text)
        except AssembleError as error:
            faults = [error]
        else:
            show_assembly(assembly)
    if as_json:
        click.echo(json.dumps([_row(fault) for fault in faults], indent=2))
    else:
        for fault in faults:
            click.echo(_line(fault))
        click.echo(_summary(module, faults), err=True)
    if faults:
        raise SystemExit(1)


def _read(file: str, words: tuple[str, ...]) -> tuple[Module | None, str, list[PyptxError]]:
    """The module and its text; or what keeps it from being read."""
    path = Path(file)
    if path.suffix != ".py" and ".py:" not in file:
        if words:
            raise click.UsageError(f"values are for kernels of Python files; {file} is PTX text")
        try:
            text = path.read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise click.UsageError(f"cannot read {file}: {error}") from None
        try:
            return parse_module(text, file), text, []
        except ParseError as error:
            return None, text, [error]
    kernel, keywords = load_kernel(file, words)
    try:
        return kernel.module(**keywords), kernel.ptx(**keywords), []
    except PyptxError as error:
        return None, "", [error]


def _line(fault: PyptxError) -> str:
    hint = f"\n    hint: {fault.hint}" if fault.hint else ""
    see = f"\n    see:  PTX ISA #{fault.see}" if fault.see else ""
    return f"{fault.location}: {fault.message}{hint}{see}"


def _row(fault: PyptxError) -> dict[str, Any]:
    where = fault.location
    return {
        "file": where.file,
        "line": where.line,
        "error": type(fault).__name__,
        "message": fault.message,
        "hint": fault.hint,
        "see": fault.see,
    }


def _summary(module: Module | None, faults: list[PyptxError]) -> str:
    count = f"{len(faults)} fault{'' if len(faults) == 1 else 's'}" if faults else "no faults"
    if module is None:
        return f"{count}: not a module"
    instructions = sum(1 for function in module.functions for _ in function.instructions())
    raw = sum(isinstance(s, Raw) for function in module.functions for s in function.body)
    unread = f"; {raw} pieces of raw text were not checked" if raw else ""
    version = version_text(module.version)
    return f"{count} in {instructions} instructions (PTX {version}, {module.target}){unread}"
