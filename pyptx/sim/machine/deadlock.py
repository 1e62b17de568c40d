"""The finding for a run in which no thread can go on: every warp that waits, and the state of what it waits
on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...core.findings import RULES, Finding

if TYPE_CHECKING:
    from .machine import Machine

__all__ = ["deadlock"]

#: Lines of a report before the rest is counted.
_MAX_LISTED = 24


def deadlock(machine: Machine) -> Finding:
    """Why nothing goes on: a deadlock, or lanes that wait at a collective for others of their warp."""
    lines: list[str] = []
    others: list[tuple[str, Any]] = []
    location = None
    for s, wait in machine.parked.items():
        lines.append(f"{s.description()} {wait.describe()}")
        others.append((f"{s.description()} waits", s.location))
        barrier = getattr(wait, "barrier", None)
        if barrier is not None:
            others.append((f"mbarrier {barrier.name} was initialized", barrier.location))
        location = location or s.location
    for s in machine.spinning:
        lines.append(f"{s.description()} spins: nothing that it reads changes any more")
        others.append((f"{s.description()} spins", s.location))
        location = location or s.location
    for cta in machine.residency.live.values():
        blocks = cta.grid.program.blocks
        for warp in cta.warps:
            for pc, waiting in warp.gathering.items():
                instruction = blocks[pc].ops[0][0]
                for s in waiting:
                    missing = machine.divergence.needed(s, blocks[pc])
                    lines.append(
                        f"{s.description()} waits at {instruction.name} for lanes "
                        f"{missing & ~s.mask:#010x} of its warp, which are elsewhere"
                    )
                    others.append((f"{s.description()} waits", instruction.source))
                    location = location or instruction.source
    shown = _summarize(lines)
    for grid in machine.grids:
        outside = len(grid.waiting) * grid.cluster_size
        of = f" of launch {grid.number}" if len(machine.grids) > 1 else ""
        if outside:
            shown.append(f"{outside} CTAs{of} have not started: {len(machine.residency.live)} run at once")
    unique = [o for o in dict.fromkeys(others) if o[1] is not None][:_MAX_LISTED]
    rule = "deadlock"
    if lines and all("of its warp, which are elsewhere" in line for line in lines):
        rule = "divergent-collective"
    return Finding(
        RULES[rule], "no thread can run:\n    " + "\n    ".join(shown), location, "", tuple(unique)
    )


def _summarize(lines: list[str]) -> list[str]:
    if len(lines) <= _MAX_LISTED:
        return lines
    return [*lines[:_MAX_LISTED], f"... and {len(lines) - _MAX_LISTED} more"]
