"""The table's verdict on near misses against ptxas's: who says what, and which differences are meant.

``python -m tests.isa.agreement [form ids]`` prints agreement by kind of mutation and by entry, and every
difference that no rule explains.  Each near miss is a file of its own, so that no verdict depends on
another's: ptxas stops a file at its first syntax error, and takes two thousand files in one run.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from pyptx.ir import Instruction
from pyptx.isa import Form, Version, all_forms, bind, form
from pyptx.isa.operands import Mismatch, fit
from pyptx.isa.table import spelled
from pyptx.toolchain import Tool, find_ptxas
from tests.isa.near_misses import NearMiss, claimed_targets, near_misses
from tests.isa.samples import file_of
from tests.isa.stricter import MODIFIERS, RULES, Refusal, Rule, explanation

__all__ = ["Outcome", "compare", "judged", "newest_version", "ptxas_says", "table_says"]

#: Files that one run of ptxas gets.
_FILES = 2000
_SAID = re.compile(r"^ptxas (?P<index>\d+)\.ptx, line \d+; (?P<severity>error|fatal)\s*: (?P<text>.*)$")
#: Seconds that one run may take; a hundredth of it is usual.
_TIMEOUT = 120
_ABORTED = "ptxas fatal   : Ptx assembly aborted due to errors"
_EXPANDED = "ptxas <builtin>, line "
#: An instruction's text, and the PTX version and target of its file.
Line = tuple[str, Version, str]


@dataclass(frozen=True)
class Outcome:
    """A near miss, and what it is refused for by either side (empty: taken)."""

    miss: NearMiss
    text: str
    table: str
    ptxas: tuple[str, ...]

    @property
    def agrees(self) -> bool:
        return bool(self.table) == bool(self.ptxas)

    @cached_property
    def rule(self) -> Rule | None:
        """Why the table refuses on purpose what ptxas takes."""
        if self.ptxas or not self.table:
            return None
        return explanation(Refusal(self.miss.instruction, self.table))

    def __str__(self) -> str:
        miss = self.miss
        where = f"{miss.target}, PTX {miss.version[0]}.{miss.version[1]}"
        return f"[{miss.form}] {miss.kind}: {self.text} ({where}): table: {self.table or 'legal'}; ptxas: {'; '.join(self.ptxas) or 'legal'}"


def table_says(miss: NearMiss) -> tuple[str, str]:
    """The text that would be printed, and why the table refuses it (empty: it does not)."""
    given = miss.instruction
    farthest = Mismatch(-1, MODIFIERS)
    for match in spelled(given.opcode, given.modifiers):
        try:
            fit(match, given.operands)
        except Mismatch as mismatch:
            farthest = max(farthest, mismatch, key=lambda m: m.position)
        else:
            break
    else:
        return str(given), str(farthest)
    binding = bind(given.opcode, given.modifiers, given.operands)
    text = str(Instruction(given.opcode, given.modifiers, tuple(binding.operands.values())))
    if miss.target not in claimed_targets(binding):
        return text, f"does not exist on {miss.target}"
    if binding.since > miss.version:
        return text, f"needs PTX {binding.since[0]}.{binding.since[1]}"
    return text, ""


def ptxas_says(lines: Sequence[Line], ptxas: Tool) -> list[tuple[str, ...]]:
    """What ptxas has against each line, each in a file of its own.

    A file that ends in a syntax error may leave its modifiers to the next one of the same run, so those refused
    for anything else are asked again, by themselves.
    """
    found = _pass(lines, range(len(lines)), ptxas)
    again = [i for i, said in found.items() if not any(fatal for fatal, _ in said)]
    found.update({i: [] for i in again} | _pass(lines, again, ptxas))
    return [tuple(text for _, text in found.get(i, ())) for i in range(len(lines))]


def _pass(lines: Sequence[Line], indices: Iterable[int], ptxas: Tool) -> dict[int, list[tuple[bool, str]]]:
    """One run of each of the lines: what is said of those that are refused, and whether it is fatal."""
    found: dict[int, list[tuple[bool, str]]] = {}
    runs: dict[tuple[str, bool], list[int]] = {}
    with tempfile.TemporaryDirectory(prefix="pyptx-") as folder:
        for index in indices:
            line, version, arch = lines[index]
            text = file_of([line], version, arch)[0]
            Path(folder, f"{index}.ptx").write_text(text)
            # The files of one run have one texture mode.
            runs.setdefault((arch, "texmode_independent" in text), []).append(index)
        for (arch, _), chosen in runs.items():
            for start in range(0, len(chosen), _FILES):
                for index, fatal, text in _run(chosen[start : start + _FILES], arch, folder, ptxas):
                    found.setdefault(index, []).append((fatal, text))
    return found


def _run(indices: list[int], arch: str, folder: str, ptxas: Tool) -> Iterator[tuple[int, bool, str]]:
    """What ptxas says of which file; one that it crashes on is found by halves, and refused."""
    # A virtual architecture: parsed and checked, no code generated.
    command = [str(ptxas.path), "-arch", arch.replace("sm_", "compute_"), *(f"{i}.ptx" for i in indices)]
    done = subprocess.run(
        [*command, "-o", "none"],
        cwd=folder,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=_TIMEOUT,
    )
    printed = done.stdout + done.stderr
    # What it writes for an instruction it expands may be no PTX; that ends the run, and names no file.
    if done.returncode in (0, 255) and _EXPANDED not in printed:
        for said in printed.splitlines():
            if match := _SAID.match(said):
                yield int(match["index"]), match["severity"] == "fatal", match["text"]
            else:
                assert "fatal" not in said or said == _ABORTED, f"{arch}: {said}"
    elif len(indices) == 1:
        yield indices[0], True, f"ptxas ended with {done.returncode}"
    else:
        middle = len(indices) // 2
        yield from _run(indices[:middle], arch, folder, ptxas)
        yield from _run(indices[middle:], arch, folder, ptxas)


def compare(misses: Iterable[NearMiss], ptxas: Tool) -> list[Outcome]:
    """Both verdicts on each near miss."""
    listed = list(misses)
    ours = [table_says(miss) for miss in listed]
    lines = [(text, miss.version, miss.target.name) for miss, (text, _) in zip(listed, ours, strict=True)]
    theirs = ptxas_says(lines, ptxas)
    outcomes = [
        Outcome(m, text, why, said) for m, (text, why), said in zip(listed, ours, theirs, strict=True)
    ]
    # What a file of the same run left behind is no difference: those that nothing explains are asked alone.
    return [
        outcome
        if outcome.agrees or outcome.rule is not None
        else replace(outcome, ptxas=ptxas_says([line], ptxas)[0])
        for outcome, line in zip(outcomes, lines, strict=True)
    ]


def newest_version(ptxas: Tool) -> Version:
    """The newest PTX version that a ptxas of CUDA 13 reads: 13.5 has PTX 9.5."""
    return (ptxas.version[0] - 4, ptxas.version[1])


def judged(forms: Iterable[Form], ptxas: Tool, per_kind: int) -> list[Outcome]:
    """Both verdicts on the near misses of some entries."""
    newest = newest_version(ptxas)
    return compare((miss for form in forms for miss in near_misses(form, newest, per_kind)), ptxas)


def _table(title: str, outcomes: Sequence[Outcome], key: Callable[[Outcome], str]) -> Table:
    table = Table(
        "", "near misses", "same verdict", "stricter on purpose", "differ", "agreement", title=title
    )
    groups: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        groups.setdefault(key(outcome), []).append(outcome)
    for name, group in (*groups.items(), ("together", outcomes)):
        same = sum(outcome.agrees for outcome in group)
        meant = sum(outcome.rule is not None for outcome in group)
        share = (same + meant) / max(len(group), 1)
        table.add_row(name, *map(str, (len(group), same, meant, len(group) - same - meant)), f"{share:.2%}")
    return table


@click.command()
@click.argument("forms", nargs=-1)
@click.option("--per-kind", default=8, show_default=True, help="Near misses of each kind from each entry.")
def main(forms: tuple[str, ...], per_kind: int) -> None:
    """Compare the table's verdict on near misses with ptxas's; FORMS are ids, all of them without any."""
    chosen = [form(name) for name in forms] if forms else list(all_forms())
    outcomes = judged(chosen, find_ptxas(), per_kind)
    console = Console(width=None if sys.stdout.isatty() else 200)
    console.print(_table("By entry", outcomes, lambda outcome: outcome.miss.form))
    console.print(_table("By kind of change", outcomes, lambda outcome: outcome.miss.kind))
    rules = Counter(outcome.rule.name for outcome in outcomes if outcome.rule is not None)
    table = Table("rule", "near misses", "section", title="Stricter on purpose")
    for rule in RULES:
        table.add_row(rule.name, str(rules[rule.name]), rule.anchor)
    console.print(table)
    for outcome in outcomes:
        if not outcome.agrees and outcome.rule is None:
            console.print(str(outcome), markup=False, highlight=False)


if __name__ == "__main__":
    main()
