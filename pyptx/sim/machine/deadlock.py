"""Creates the finding for a run in which no thread can run. It lists the waits, the likeliest cause first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...core.findings import RULES, Finding
from ...core.records import dataclass
from ...core.remedies import Edit, Place, Remedy
from ...core.source import SourceLocation
from ..code.function import CodeBlock
from ..engine.waits import BarrierPhase, Wait, WaitCause
from ..threads.register_budget import RegisterWait
from ..threads.warp import Split

if TYPE_CHECKING:
    from .machine import Machine

__all__ = ["Blocked", "blocked", "deadlock"]

#: Number of groups of equal waits, and of notes with lines, that a message lists. The rest is only counted.
_MAX_LISTED = 24


@dataclass(frozen=True)
class Blocked:
    """Lanes that cannot run. ``text`` says why; in the message it follows the names of the lanes."""

    split: Split
    cause: WaitCause
    text: str
    location: SourceLocation | None
    #: The section of the PTX ISA that describes the instruction; empty for a loop.
    anchor: str = ""
    #: Notes for other lines that concern the wait, each with its line.
    notes: tuple[tuple[str, SourceLocation | None], ...] = ()
    #: What the lanes wait for; None for a collective or a loop.
    wait: Wait | None = None

    @property
    def loops(self) -> bool:
        """True if the lanes run a loop whose inputs no longer change."""
        return self.cause is WaitCause.LOOP


def deadlock(machine: Machine) -> Finding:
    """Return the finding for a run in which no thread can run.

    It is a deadlock, lanes that wait at a collective for other lanes of their warp, or a setmaxnreg for which
    the CTA's pool has too few registers.
    """
    groups: dict[tuple[WaitCause, str, SourceLocation | None], list[Blocked]] = {}
    for each in blocked(machine):
        groups.setdefault((each.cause, each.text, each.location), []).append(each)
    ordered = [groups[key] for key in sorted(groups, key=lambda key: key[0])]
    lines = [f"{_names(group)} {group[0].text}" for group in ordered]
    notes: list[tuple[str, SourceLocation | None]] = []
    for group in ordered:
        first = group[0]
        notes += [
            (f"{_names(group)} {'spins' if first.cause is WaitCause.LOOP else 'waits'}", first.location)
        ]
        notes += first.notes
    shown = lines[:_MAX_LISTED]
    if len(lines) > len(shown):
        shown.append(f"... and {len(lines) - len(shown)} more")
    for grid in machine.grids:
        outside = grid.outside * grid.cluster_size
        of = f" of launch {grid.number}" if len(machine.grids) > 1 else ""
        if outside:
            shown.append(f"{outside} CTAs{of} have not started: {len(machine.residency.live)} run at once")
    unique = tuple(note for note in dict.fromkeys(notes) if note[1] is not None)[:_MAX_LISTED]
    root = ordered[0][0] if ordered else None
    why, remedy = _advice(machine, root)
    return Finding(
        RULES[_rule({group[0].cause for group in ordered})],
        "no thread can run:\n    " + "\n    ".join(shown),
        next((group[0].location for group in ordered if group[0].location is not None), None),
        "",
        unique,
        anchor=root.anchor if root is not None else "",
        why=why,
        remedy=remedy,
    )


def _advice(machine: Machine, root: Blocked | None) -> tuple[str, Remedy | None]:
    """Return what the machine's adviser says about the first wait, if this one is for an mbarrier."""
    if root is not None and isinstance(root.wait, RegisterWait):
        return "", _fewer_registers(root.wait, root.location)
    if root is None or machine.adviser is None or not isinstance(root.wait, BarrierPhase):
        return "", None
    split = root.split
    threads = [32 * split.warp.index + int(lane) for lane in split.actors]
    return machine.adviser.stuck(split.warp.cta.key, threads, root.wait.barrier, root.location)


def _fewer_registers(wait: RegisterWait, location: SourceLocation | None) -> Remedy:
    """Return the remedy for a ``setmaxnreg.inc`` that asks for more registers than were released."""
    most, line = wait.budget.largest, "its line" if location is None else location.short
    ptx = f"setmaxnreg.inc.sync.aligned.u32 {most};"
    edit = None
    if location is not None:
        old = f"setmaxnreg.inc.sync.aligned.u32 {wait.count};"
        edit = Edit(ptx, Place.REPLACE, location, replaced=old)
    return Remedy(
        f"ask for at most {most} registers at {line}: the other warps have released no more",
        f"ptx.setmaxnreg.inc({most})",
        ptx,
        edit,
    )


def _rule(causes: set[WaitCause]) -> str:
    """Return the name of the rule that the likeliest of these causes breaks."""
    if causes == {WaitCause.LANES}:
        return "divergent-collective"
    return "register-pool" if min(causes, default=None) is WaitCause.REGISTERS else "deadlock"


# --- what waits -----------------------------------------------------------------------------------


def blocked(machine: Machine) -> list[Blocked]:
    """Return all lanes that wait now: for a condition, for lanes of their warp, or in a loop."""
    return [*_parked(machine), *_gathering(machine), *map(_spinning, machine.spinning)]


def _parked(machine: Machine) -> Iterator[Blocked]:
    for s, wait in machine.parked.items():
        anchor = s.op.binding.match.form.anchor if s.op is not None else ""
        yield Blocked(s, wait.cause, wait.describe(), s.location, anchor, wait.notes(), wait)


def _gathering(machine: Machine) -> Iterator[Blocked]:
    """Yield the lanes that wait at a collective for lanes of their warp that have not reached it."""
    for cta in machine.residency.live.values():
        blocks = cta.grid.program.blocks
        for warp in cta.warps:
            for pc, waiting in warp.gathering.items():
                instruction, op = blocks[pc].ops[0]
                for s in waiting:
                    missing = machine.divergence.needed(s, blocks[pc]) & ~s.mask
                    text = (
                        f"waits at {instruction.name} for lanes {missing:#010x} of its warp, "
                        "which are elsewhere"
                    )
                    anchor = op.binding.match.form.anchor
                    yield Blocked(s, WaitCause.LANES, text, instruction.source, anchor)


def _spinning(s: Split) -> Blocked:
    """Describe lanes in a loop whose inputs no longer change.

    The location is the line of the loop's last effect, or of its head.
    """
    loop = _loop(s)
    inside = any(op is s.op for block in loop for _, op in block.ops)
    lines = [line for block in loop for line in block.lines if line is not None]
    begin = s.location if inside else next(iter(lines), None)
    notes = (("the loop ends", lines[-1]),) if lines and lines[-1] != begin else ()
    text = "spins: no value that it reads changes any more"
    return Blocked(s, WaitCause.LOOP, text, begin, notes=notes)


def _loop(s: Split) -> list[CodeBlock]:
    """Return the blocks of the loop in which the split ``s`` spins, up to the loop's last back edge."""
    code = s.frame.code
    head = s.pc
    blocks = s.warp.cta.grid.program.blocks
    back = [
        block.index
        for block in blocks[head:]
        if block.code is code and head in (block.taken, block.next, *block.table)
    ]
    return blocks[head : max(back, default=head) + 1]


# --- names ----------------------------------------------------------------------------------------


def _names(group: list[Blocked]) -> str:
    """Return text that names the lanes of a group: its lanes if it is one split, else CTAs and warps."""
    splits = [each.split for each in group]
    if len(splits) == 1:
        return splits[0].description()
    warps: dict[tuple[int, int], set[int]] = {}
    coordinates = {}
    for s in splits:
        warps.setdefault(s.warp.cta.key, set()).add(s.warp.index)
        coordinates[s.warp.cta.key] = s.warp.cta.coordinates
    keys = sorted(warps)
    first, last = coordinates[keys[0]], coordinates[keys[-1]]
    if any(warps[key] != warps[keys[0]] for key in keys):
        count = sum(map(len, warps.values()))
        return f"{count} warps of {len(keys)} CTAs, {first} to {last}: each"
    range_of = f"{first} {'to' if len(keys) > 2 else 'and'} {last}"
    of = f"{len(keys)} CTAs, {range_of}" if len(keys) > 1 else f"CTA {first}"
    return f"{of}, {_spans(sorted(warps[keys[0]]))}: each"


def _spans(numbers: list[int]) -> str:
    """Format the numbers of warps; consecutive numbers become a range, as in ``warps 0, 4..7``."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    words = ", ".join(str(low) if low == high else f"{low}..{high}" for low, high in runs)
    return f"warp{'s' if len(numbers) > 1 else ''} {words}"
