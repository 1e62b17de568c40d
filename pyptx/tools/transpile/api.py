"""``pyptx.transpile``: PTX in, the text of a Python program out, which is run and compared first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ...core.errors import PyptxError, UnsupportedError
from ...ir import Module, parse_module
from ..diff import diff
from .check import run
from .module import Written, written
from .select import reached_from

__all__ = ["Transpiled", "transpile", "transpiled"]


@dataclass(frozen=True)
class Transpiled:
    """A program and how it came about.

    Attributes:
        text: the Python file.
        module: what it records: the module that was given, or the part of it that was asked for.
        checked: it was run, and records the same.
        flat: functions (by their names in PTX) that are written with labels and branches alone, because with
            blocks and operators they did not record the same.
    """

    text: str
    module: Module
    checked: bool
    flat: tuple[str, ...]


def transpile(
    source: str | Path | Module,
    *,
    entry: str | None = None,
    lines: bool = False,
    check: bool = True,
) -> str:
    """PTX as a Python program that records the same instructions in the same order.

    The program imports pyptx alone; ``program`` in it is a :class:`pyptx.Program`, and run as a script it
    prints the PTX.  Debug data (``.file``, ``.loc``, sections) is left out.

    Args:
        source: PTX text, a ``pathlib.Path`` to it, or a module.
        entry: this kernel alone, with the functions and variables that it reaches.
        lines: comments that name the source lines of ``.loc``.
        check: run the program and compare what it records with the original (:func:`pyptx.diff`).

    Raises:
        ParseError: text that is not PTX.
        InstructionError, OperandError: an instruction that the table does not have, at its line.
        SpecError: no such kernel.
        UnsupportedError: a statement that no program records, or a program that fails the check.
    """
    return transpiled(source, entry=entry, lines=lines, check=check).text


def transpiled(
    source: str | Path | Module, *, entry: str | None = None, lines: bool = False, check: bool = True
) -> Transpiled:
    """:func:`transpile`, with what there is to say about the program."""
    name = source.name if isinstance(source, Path) else "<ptx>"
    if isinstance(source, Path):
        source = source.read_text(encoding="utf-8")
    module = parse_module(source, name) if isinstance(source, str) else source
    if entry is not None:
        module = reached_from(module, entry)
    title = _title(module, name)
    found = written(module, title, lines=lines)
    flat: frozenset[str] = frozenset()
    while check:
        wrong = _wrong(module, found)
        if not wrong:
            break
        worse = frozenset(wrong) - flat
        if not worse:
            raise UnsupportedError(
                f"the program does not record what it was made of: {next(iter(wrong.values()))}"
            )
        flat |= worse
        found = written(module, title, flat=flat, lines=lines)
    return Transpiled(found.text, module, check, tuple(f.name for f in module.functions if f.name in flat))


def _wrong(module: Module, program: Written) -> Mapping[str, str]:
    """Functions that the program does not record as they are, with what is wrong."""
    try:
        recorded = run(program.text, "<transpiled program>")
    except PyptxError as error:
        names = [ptx for ptx, name in program.functions.items() if name == error.location.function]
        return dict.fromkeys(names or [f.name for f in module.functions], str(error))
    found = diff(module, recorded)
    return {difference.function: difference.message for difference in found.differences}


def _title(module: Module, name: str) -> str:
    """The program's docstring."""
    source = "PTX" if name == "<ptx>" else name
    version = "{}.{}".format(*module.version)
    return f'"""{source} (PTX {version}, {module.target}) as a program, written by ``pyptx transpile``."""'
