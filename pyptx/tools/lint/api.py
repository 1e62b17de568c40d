"""``pyptx.lint``: findings about a kernel that need no run, and the report with them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from ...core.errors import ToolNotFoundError
from ...core.findings import RULES, Finding, Verdict, verdict_of
from ...core.records import dataclass
from ...core.waivers import Waiver, check_waiver, waived
from ...flow import control_flow
from ...ir import Function, Raw
from ...toolchain import Assembly, Resources, assemble
from .machine_code import local_memory, messages
from .offsets import wrapping_offsets
from .paths import not_executed, unreachable
from .registers import register_file, register_pool, undefined_registers
from .subject import Subject, subject_of, with_launch

__all__ = ["LintReport", "examine", "lint"]

#: Rules of lint that need ptxas.
_PTXAS_RULES = frozenset({"register-file", "register-spill", "local-memory", "lost-speed", "ptxas-warning"})


@dataclass(repr=False)
class LintReport:
    """What lint found.

    Attributes:
        name: the kernel.
        findings: the findings, rule by rule.
        waived: the findings that a waiver covers, each with its waiver; they are not in ``findings``.
        resources: what each function uses, as ptxas reports it; empty without ptxas.
        skipped: the rules that were not checked, each with the reason.
    """

    name: str
    findings: list[Finding]
    waived: list[tuple[Finding, Waiver]] = field(default_factory=list)
    resources: tuple[Resources, ...] = ()
    skipped: dict[str, str] = field(default_factory=dict)

    @property
    def verdict(self) -> Verdict:
        """The class of the worst finding; ``clean`` without findings."""
        return verdict_of(self.findings)

    def __repr__(self) -> str:
        return f"<lint of {self.name}: {self.verdict}, {_many(len(self.findings))}>"

    def __str__(self) -> str:
        lines = [f"lint of {self.name}: {self.verdict}", *map(str, self.findings)]
        if self.waived:
            lines.append(f"waived: {_many(len(self.waived))}")
            counts = Counter(waiver for _, waiver in self.waived)
            lines += [f"  {count} x {waiver}" for waiver, count in counts.items()]
        reasons: dict[str, list[str]] = {}
        for rule, reason in self.skipped.items():
            reasons.setdefault(reason, []).append(rule)
        lines += [f"not checked: {', '.join(rules)} ({reason})" for reason, rules in reasons.items()]
        return "\n".join(lines)


def _many(count: int) -> str:
    return f"{count} finding{'' if count == 1 else 's'}"


def lint(
    kernel: Any,
    *arrays: Any,
    ptxas: bool = True,
    target: str | None = None,
    grid: int | Sequence[int] | None = None,
    block: int | Sequence[int] | None = None,
    params: Mapping[str, tuple[int, int]] | None = None,
    waivers: Sequence[Waiver] = (),
    **keywords: Any,
) -> LintReport:
    """Look for what no run shows: offsets that can wrap, register sums, paths that nothing takes, spills.

    Args:
        kernel: a kernel, PTX text, a ``pathlib.Path`` to PTX text, an :class:`~pyptx.ir.Module`, a
            :class:`.Program`, or a :class:`.LoadedModule`, of which the runs so far count.
        arrays: inputs with which a kernel is run in the simulator first. Instructions that neither this run
            nor an earlier one has executed are findings.
        ptxas: whether to assemble the text, and report warnings, notes and spills.
        target: the architecture to assemble for; default: that of the text.
        grid, block: the launch, for PTX text, which does not name it; a kernel has its own.
        params: the least and the largest value of 32-bit parameters; without them, parameters are unknown.
        waivers: findings that the author accepts, besides those of ``ptx.waive``.
        keywords: a kernel's dims and constants.

    Returns:
        The report. No finding raises.

    Raises:
        ParseError: the text is not PTX.
        PyptxError: the table does not have an instruction, or a label is missing; see ``pyptx check``.
        AssembleError: ptxas refuses the text.
        SpecError: an argument does not fit what is examined.
    """
    checked = [check_waiver(waiver) for waiver in waivers]
    subject = with_launch(subject_of(kernel, arrays, keywords), grid, block, params)
    return examine(subject, ptxas=ptxas, target=target, waivers=checked)


def examine(
    subject: Subject, *, ptxas: bool = True, target: str | None = None, waivers: Sequence[Waiver] = ()
) -> LintReport:
    """Examine a subject; the other arguments and the errors are those of :func:`lint`."""
    skipped: dict[str, str] = {}
    assembly: Assembly | None = None
    if ptxas:
        try:
            assembly = assemble(subject.printed(), target)
        except ToolNotFoundError:
            skipped |= dict.fromkeys(sorted(_PTXAS_RULES), "ptxas was not found; see pyptx doctor")
    else:
        skipped |= dict.fromkeys(sorted(_PTXAS_RULES), "without ptxas")
    used = {each.function: each for each in assembly.resources} if assembly is not None else {}
    findings: list[Finding] = []
    for function in subject.module.functions:
        if not function.prototype:
            findings += _of_function(function, subject, used)
    if assembly is not None:
        known = frozenset(finding.rule.name for finding in findings)
        findings += local_memory(subject.module, assembly)
        findings += messages(subject.module, assembly, known)
    if subject.loaded is None:
        skipped["not-executed"] = subject.no_run
    findings = list(dict.fromkeys(findings))
    accepted = [*subject.waivers, *waivers]
    left, covered = waived(findings, accepted)
    left += _unused(accepted, covered, skipped)
    resources = assembly.resources if assembly is not None else ()
    return LintReport(subject.name, left, covered, resources, skipped)


def _of_function(function: Function, subject: Subject, used: Mapping[str, Resources]) -> list[Finding]:
    raw = next((each for each in function.body if isinstance(each, Raw)), None)
    if raw is not None:
        message = f"raw PTX text in {function.name}, which pyptx does not read: the function was not examined"
        return [Finding(RULES["not-modeled"], message, raw.source)]
    graph = control_flow(function)
    found = unreachable(graph)
    if subject.loaded is not None:
        found += not_executed(function, graph, subject.loaded.executed())
    found += undefined_registers(function)
    found += wrapping_offsets(function, graph, subject)
    found += register_pool(function, graph, subject, used)
    if function.kind == "entry" and function.name in used:
        found += register_file(function, subject, used[function.name])
    return found


def _unused(
    waivers: Sequence[Waiver], covered: Sequence[tuple[Finding, Waiver]], skipped: Mapping[str, str]
) -> list[Finding]:
    """Report waivers of rules that only lint checks, and checked here, if they cover no finding."""
    used = {waiver for _, waiver in covered}
    return [
        Finding(RULES["unused-waiver"], f"no finding needs the waiver {waiver}", waiver.location)
        for waiver in dict.fromkeys(waivers)
        if waiver not in used and RULES[waiver.rule].lint and waiver.rule not in skipped
    ]
