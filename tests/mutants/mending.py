"""Applies the remedies of findings to a kernel, one instruction at a time, until nothing is found or none is left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from pyptx import PyptxError
from pyptx.core.findings import RULES, Finding
from pyptx.core.remedies import Edit, Place
from pyptx.ir import Function, Instruction, Module, Statement, parse_module, print_module
from pyptx.sim import Report, load

from .kernels import subject
from .mutants import Mutant
from .running import limits, schedule_options

__all__ = ["Mended", "mend", "mend_mutant", "mended", "remedies"]

#: Edits that are tried on one kernel.
_ROUNDS = 40


@dataclass(frozen=True)
class Mended:
    """What the remedies made of a kernel.

    Attributes:
        how: ``mended`` if nothing is found any more and the results are right; ``left`` if findings are left that
            have no edit; ``no edit`` if there was none at all; ``wrong`` if the results are wrong.
        edits: those that were applied, in order.
        left: rules of the findings that are left.
    """

    how: str
    edits: tuple[Edit, ...]
    left: tuple[str, ...]


def mend(module: Module, function: Function, edit: Edit) -> Function:
    """The function with an edit. Statements whose location is the edit's line are the instructions of the line."""
    body = list(function.body)
    new: list[Statement] = []
    if edit.origin is not None:
        new = [s for s in body if s.source == edit.origin and str(s) == edit.ptx]
        body = [s for s in body if not any(s is one for one in new)]
        new = [replace(s, source=edit.location) for s in new]  # type: ignore[arg-type]
    new = new or _parsed(module, function, edit)
    at = [number for number, statement in enumerate(body) if statement.source == edit.location]
    if edit.place is Place.REPLACE:
        at = [n for n in at if str(body[n]) == edit.replaced]
        body[at[0] : at[0] + 1] = new
    elif edit.place is Place.BEFORE:
        body[at[0] : at[0]] = new
    else:
        body[at[-1] + 1 : at[-1] + 1] = new
    return replace(function, body=tuple(body))


def _parsed(module: Module, function: Function, edit: Edit) -> list[Statement]:
    """The instructions of an edit, read as a part of the function: they use its registers."""
    alone = replace(module, functions=(replace(function, body=()),), version=max(module.version, (8, 6)))
    head, _, _ = print_module(alone).text.rpartition("}")
    (read,) = parse_module(f"{head}{edit.ptx}\n}}\n").functions
    source = edit.location if edit.place is Place.REPLACE else None
    return [replace(s, source=source) for s in read.body if isinstance(s, Instruction)]


def _edited(module: Module, edit: Edit) -> Module:
    def has(statement: Statement) -> bool:
        return statement.source == edit.location

    functions = tuple(mend(module, f, edit) if any(map(has, f.body)) else f for f in module.functions)
    return replace(module, functions=functions)


def mended(
    module: Module,
    run: Callable[[Module], tuple[Sequence[Finding], bool]],
    known: Collection[str] = (),
) -> Mended:
    """Apply the first edit among the findings, run, and go on until there is none.

    Args:
        run: returns the findings of a module, and whether its results are right.
        known: messages of findings that do not count.
    """
    edits: list[Edit] = []
    for _ in range(_ROUNDS):
        findings, right = run(module)
        findings = [finding for finding in findings if finding.message not in known]
        left = tuple(finding.rule.name for finding in findings)
        offered = [finding.advice.edit for finding in findings]
        edit = next((e for e in offered if e is not None and e not in edits), None)
        if not findings:
            return Mended("mended" if right else "wrong", tuple(edits), left)
        if edit is None:
            return Mended("left" if edits else "no edit", tuple(edits), left)
        edits.append(edit)
        module = _edited(module, edit)
    return Mended("left", tuple(edits), left)


def mend_mutant(mutant: Mutant, schedule: str, report: Report) -> Mended:
    """What the remedies make of a mutant; ``report`` is the original's, whose findings do not count."""

    def run(module: Module) -> tuple[Sequence[Finding], bool]:
        options = {**limits(report), **schedule_options(schedule)}
        try:
            found, right = subject(mutant.kernel).launch(load(module), **options)
        except PyptxError as error:
            return [Finding(RULES["not-modeled"], str(error))], False
        return found.findings, right

    return mended(mutant.module, run, {finding.message for finding in report.findings})


#: What became of mutants, best first.
_WAYS = ("mended", "left", "wrong", "no edit")


def remedies(found: Sequence[tuple[Mutant, Mended]]) -> str:
    """A table, in Markdown, of what the remedies made of the mutants of each operator."""
    lines = ["| operator | mutants | " + " | ".join(_WAYS) + " |", "|---|--:|" + "--:|" * len(_WAYS)]
    for operator in [*dict.fromkeys(mutant.operator for mutant, _ in found), "**all**"]:
        of = [result.how for mutant, result in found if operator in (mutant.operator, "**all**")]
        counts = Counter(of)
        lines.append(f"| {operator} | {len(of)} | " + " | ".join(str(counts[way]) for way in _WAYS) + " |")
    return "\n".join(lines) + "\n"
