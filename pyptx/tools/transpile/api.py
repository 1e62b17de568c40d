"""``pyptx.transpile``: converts PTX to a Python program, and checks that it records the same instructions."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ...core.errors import PyptxError, UnsupportedError
from ...core.records import dataclass
from ...ir import Module, parse_module
from ..diff import diff
from .check import run
from .module import Written, written
from .select import reached_from

__all__ = ["Transpiled", "transpile", "transpiled"]


@dataclass(frozen=True)
class Transpiled:
    """A program, and the results of the check.

    Attributes:
        text: the text of the Python file.
        module: the module that the program records: the source, or the part of it that the caller asked for.
        checked: True if the program was run, and recorded the same instructions as the source has.
        flat: names in PTX of the functions that are written with labels, branches and ``ptx.inst`` only,
            because they did not record the same with blocks and operators.
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
    """Convert PTX to a Python program that records the same instructions in the same order.

    The program imports only pyptx. Its variable ``program`` is a :class:`pyptx.Program`; as a script, the
    program prints the PTX.  Debug data (``.file``, ``.loc``, sections) is left out.

    Args:
        source: PTX text, a ``pathlib.Path`` to PTX text, or a module.
        entry: convert only this kernel, with the functions and variables that it reaches.
        lines: whether to add comments with the source lines of ``.loc``.
        check: whether to run the program and compare the recorded module with the source
            (:func:`pyptx.diff`).

    Raises:
        ParseError: the text is not PTX.
        InstructionError, OperandError: the table does not have an instruction; the error names its line.
        SpecError: there is no such kernel.
        UnsupportedError: no program can record a statement, or the program fails the check.
    """
    return transpiled(source, entry=entry, lines=lines, check=check).text


def transpiled(
    source: str | Path | Module, *, entry: str | None = None, lines: bool = False, check: bool = True
) -> Transpiled:
    """Transpile as :func:`transpile`, and return the text together with the results of the check."""
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
                f"the program does not emit the instructions of its source: {next(iter(wrong.values()))}"
            )
        flat |= worse
        found = written(module, title, flat=flat, lines=lines)
    return Transpiled(found.text, module, check, tuple(f.name for f in module.functions if f.name in flat))


def _wrong(module: Module, program: Written) -> Mapping[str, str]:
    """Return the functions that the program emits differently, each with its first difference."""
    try:
        recorded = run(program.text, "<transpiled program>")
    except PyptxError as error:
        names = [ptx for ptx, name in program.functions.items() if name == error.location.function]
        return dict.fromkeys(names or [f.name for f in module.functions], str(error))
    found = diff(module, recorded)
    return {difference.function: difference.message for difference in found.differences}


def _title(module: Module, name: str) -> str:
    """Return the text of the docstring with which the Python program begins."""
    source = "PTX" if name == "<ptx>" else name
    version = "{}.{}".format(*module.version)
    return f'"""{source} (PTX {version}, {module.target}) as a program, written by ``pyptx transpile``."""'
