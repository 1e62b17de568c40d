"""Recognizes polling: a pass of a loop that only reads, and after which the lanes are where they were.

Such a pass is the same as none. So the lanes count as waiting until something that they read changes, and
the events of the pass are taken back.
"""

from __future__ import annotations

from typing import Any

from ...core.records import dataclass
from ..code.function import CodeBlock, FunctionCode
from ..code.liveness import live_registers
from ..code.propagation import Rule
from ..code.semantic import CLASSES
from ..memory.access import StateSpace
from ..threads.warp import Split
from .events import Event

__all__ = ["Polling"]


@dataclass(slots=True)
class _Pass:
    """The last time that lanes were at the head of a loop: their live registers, and what they did since."""

    registers: Any
    events: list[Event]
    effect: bool = False


class Polling:
    """The loops of all lanes of a run."""

    def __init__(self) -> None:
        self._heads: dict[FunctionCode, frozenset[int]] = {}
        self._live: dict[int, list[tuple[str, int, int]]] = {}
        self._effects: dict[int, bool] = {}
        #: The open passes of each split, by its name and the head of the loop.
        self._passes: dict[str, dict[int, _Pass]] = {}
        #: The last head of a loop at which lanes were.
        self._heads_seen: dict[str, int] = {}

    def note_block(self, name: str, block: CodeBlock) -> None:
        """Record that lanes run a block that no other thread notices."""
        effect = self._effects.get(block.index)
        if effect is None:
            effect = self._effects[block.index] = block.call is not None or any(
                op.space is StateSpace.LOCAL and op.semantic.undefined.rule is not Rule.LOADED
                for _, op in block.ops
            )
        if effect:
            for each in self._passes.get(name, {}).values():
                each.effect = True

    def note_event(self, event: Event) -> None:
        """Record that lanes have done something that other threads may notice."""
        passes = self._passes.get(event.agent, {})
        head = self._heads_seen.get(event.agent)
        last = passes.get(head) if head is not None else None
        if last is not None and not last.events and not last.effect:
            event.poll = head, last.registers
        for each in passes.values():
            each.events.append(event)
            each.effect |= event.effect
            for earlier in each.events[:-1]:
                earlier.sleeps = each.effect

    def looks(self, name: str) -> bool:
        """True if lanes are about to begin a pass of a loop: perhaps they poll."""
        head = self._heads_seen.get(name)
        last = self._passes.get(name, {}).get(head) if head is not None else None
        return last is not None and not last.events and not last.effect

    def repeats(self, name: str, s: Split) -> list[Event] | None:
        """If ``s`` is at the head of a loop again and its last pass was useless, return the events of it.

        Otherwise return None.
        """
        code = s.frame.code
        heads = self._heads.get(code)
        if heads is None:
            heads = self._heads[code] = _heads_of(code)
        if s.pc not in heads:
            return None
        passes = self._passes.setdefault(name, {})
        self._heads_seen[name] = s.pc
        last = passes.get(s.pc)
        registers = self._registers(s)
        if last is not None and not last.effect and last.registers == registers:
            events = last.events
            del passes[s.pc]
            for other in passes.values():
                other.events = [event for event in other.events if event not in events]
            return events
        passes[s.pc] = _Pass(registers, [])
        return None

    def _registers(self, s: Split) -> Any:
        """Return the values of the registers that some path from here reads."""
        code = s.frame.code
        places = self._live.get(s.pc)
        if places is None:
            live = live_registers(code)[s.pc]
            places = self._live[s.pc] = [
                (CLASSES[place.cls], place.row, place.index)
                for place in code.places.values()
                if place.index in live
            ]
        if s.regs is not None:
            return tuple(s.regs[index] for _, _, index in places)
        return tuple(getattr(s.frame, view)[row, s.lanes].tobytes() for view, row, _ in places)


def _heads_of(code: FunctionCode) -> frozenset[int]:
    """Return the blocks of a function to which a later block, or the block itself, jumps back."""
    blocks = [block for block in code.program.blocks if block.code is code]
    return frozenset(
        target
        for block in blocks
        for target in (block.taken, block.next, *block.table)
        if target is not None and 0 <= target <= block.index
    )
