"""How lanes of a warp part and meet: divergent branches, reconvergence, exits, and collectives that gather
lanes.

Diverged lanes meet again at the branch's immediate post-dominator, or where the function returns.  If nothing
else can run, lanes that wait there go on alone: progress is independent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..flow.graph import EXIT
from .code import CodeBlock
from .meeting import Deposited, Meeting
from .warp import Group, Split, Warp

if TYPE_CHECKING:
    from .machine import Machine

__all__ = ["Divergence"]


class Divergence:
    """The part of a machine that moves lanes between splits."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    # --- branches -----------------------------------------------------------------------------

    def part(self, s: Split, rpc: int, ways: list[tuple[int, int]]) -> None:
        """``s`` goes several ways: (mask, block) each; the last runs first. They meet at ``rpc`` unless it is
        EXIT.
        """
        stack = s.stack
        if rpc != EXIT:
            group = Group(s.mask, rpc, s.frame)
            s.warp.groups.append((group, stack))
            stack = [*stack, group]
        s.scatter()
        for mask, target in ways:
            part: Split | None = Split(s.warp, mask, target, stack, s.frame)
            assert part is not None
            if target == EXIT:
                self.leave(part, mask)
                continue
            # Both may be there already: a branch to the next statement.
            if part.pc == part.rpc:
                part = self.arrive(part)
            if part is not None:
                self.machine.wake(part)

    def arrive(self, s: Split) -> Split | None:
        """``s`` has reached its reconvergence point: the merged split if it was the last."""
        s.scatter()
        group = s.stack[-1]
        group.arrived |= s.mask
        return self._merge(s.warp, group, s.stack[:-1]) if group.arrived == group.expected else None

    @staticmethod
    def _merge(warp: Warp, group: Group, stack: list[Group]) -> Split | None:
        warp.groups = [(g, outer) for g, outer in warp.groups if g is not group]
        return Split(warp, group.arrived, group.rpc, stack, group.frame) if group.arrived else None

    def _complete(self, warp: Warp, group: Group, stack: list[Group]) -> None:
        if group.arrived == group.expected:
            merged = self._merge(warp, group, stack)
            if merged is not None:
                self.machine.wake(merged)

    def leave(self, s: Split, mask: int) -> None:
        """Lanes of ``mask`` end."""
        warp, machine = s.warp, self.machine
        s.scatter()
        warp.live &= ~mask
        for group, stack in list(warp.groups):
            group.expected &= ~mask
            self._complete(warp, group, stack)
        machine.memory.version += 1
        self.regather(warp)
        if not warp.live:
            warp.cta.live_warps -= 1
            if not warp.cta.live_warps:
                machine.retire(warp.cta)

    def release(self) -> bool:
        """Independent progress: lanes parked at a reconvergence point go on without the others."""
        for cta in self.machine.live.values():
            for warp in cta.warps:
                for group, stack in warp.groups[::-1]:
                    if group.arrived:
                        self.machine.wake(Split(warp, group.arrived, group.rpc, stack, group.frame))
                        group.expected &= ~group.arrived
                        group.arrived = 0
                        return True
        return False

    # --- collectives --------------------------------------------------------------------------

    def together(self, s: Split, block: CodeBlock) -> bool:
        """Whether all lanes that must execute the block's collective are in ``s``; else ``s`` parks."""
        if s.meeting is not None:
            return True
        needed = self.needed(s, block)
        if s.mask & needed == needed:
            return True
        warp = s.warp
        s.scatter()
        warp.gathering.setdefault(s.pc, []).append(s)
        self.regather(warp)
        return False

    def needed(self, s: Split, block: CodeBlock) -> int:
        """The live lanes that execute the collective together with those of ``s``."""
        op = block.ops[0][1]
        if block.collective == "warp":
            return s.warp.live
        mask = op.binding.operands["membermask"]
        value = getattr(mask, "value", None)
        if value is None:
            place = s.frame.code.places[mask.name]  # type: ignore[union-attr]
            if s.regs is not None:
                value = s.regs[place.index]
            else:
                # The mask is a value of each lane: tiles of a warp have their own.
                value = np.bitwise_or.reduce(s.frame.u32[place.row, s.lanes])
        return int(value) & s.warp.live

    def regather(self, warp: Warp) -> None:
        """Merge lanes that wait at one collective once all that it needs are there."""
        blocks = self.machine.program.blocks
        for pc, waiting in list(warp.gathering.items()):
            union = needed = 0
            for s in waiting:
                union |= s.mask
                needed |= self.needed(s, blocks[pc])
            same_frame = all(s.frame is waiting[0].frame for s in waiting)
            if union & needed == needed and same_frame:
                del warp.gathering[pc]
                self._unite(warp, waiting, pc, union)
        if len(warp.gathering) > 1:
            self._meet(warp)

    def _unite(self, warp: Warp, waiting: list[Split], pc: int, union: int) -> None:
        # Lanes keep the divergent branches that they are all inside of.
        common: list[Group] = []
        for level in zip(*(s.stack for s in waiting), strict=False):
            if any(group is not level[0] for group in level):
                break
            common.append(level[0])
        for s in waiting:
            for group in s.stack[len(common) :]:
                group.expected &= ~s.mask
        for group, stack in list(warp.groups):
            if group.arrived:
                self._complete(warp, group, stack)
        self.machine.wake(Split(warp, union, pc, common, waiting[0].frame))

    def _meet(self, warp: Warp) -> None:
        """Lanes at several places that execute the same collective with one mask do so together."""
        blocks = self.machine.program.blocks
        by_kind: dict[tuple[str, int], list[Split]] = {}
        for pc, waiting in warp.gathering.items():
            block = blocks[pc]
            if block.collective == "membermask":
                for s in waiting:
                    key = (block.ops[0][1].binding.match.name, self.needed(s, block))
                    by_kind.setdefault(key, []).append(s)
        for (_, needed), splits in by_kind.items():
            union = 0
            for s in splits:
                union |= s.mask
            if len({s.pc for s in splits}) < 2 or union & needed != needed:
                continue
            warp.meeting = Meeting()
            for s in splits:
                warp.gathering[s.pc].remove(s)
                try:
                    self.machine.run_block(s, blocks[s.pc])
                except Deposited:
                    s.meeting = warp.meeting
                    self.machine.wake(s)
            warp.meeting = None
        warp.gathering = {pc: waiting for pc, waiting in warp.gathering.items() if waiting}
