"""Divergence of a warp's lanes: divergent branches, reconvergence, exits, and collectives that gather lanes.

Diverged lanes reconverge at the branch's immediate post-dominator, or where the function returns. If nothing
else can run, lanes that wait there continue alone: threads make progress independently.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...flow.graph import EXIT
from ...ir import Register
from ..code.function import CodeBlock
from .collectives import Deposited, Rendezvous, unnamed_lanes
from .operations import run_operations
from .warp import ReconvergencePoint, Split, Warp, mask_of, mask_of_lanes

if TYPE_CHECKING:
    from .machine_state import MachineState

__all__ = ["Divergence"]


class Divergence:
    """The part of a machine that moves lanes between splits."""

    def __init__(self, machine: MachineState) -> None:
        self.machine = machine

    # --- branches -----------------------------------------------------------------------------

    def part(self, s: Split, rpc: int, ways: list[tuple[int, int]]) -> None:
        """Divide ``s`` into splits, one for each (mask, block number) of ``ways``; the last one runs first.

        The new splits reconverge at block ``rpc``. They do not if ``rpc`` is EXIT, or if the schedule lets
        lanes stay apart.
        """
        stack = s.stack
        if rpc != EXIT and self.machine.policy.reconverges:
            point = ReconvergencePoint(s.mask, rpc, s.frame)
            s.warp.reconvergence.append((point, stack))
            stack = [*stack, point]
        s.scatter()
        for mask, target in ways:
            part: Split | None = Split(s.warp, mask, target, stack, s.frame)
            assert part is not None
            if target == EXIT:
                self.leave(part, mask)
                continue
            # If the branch goes to the next statement, both splits may be at the reconvergence point already.
            if part.pc == part.rpc:
                part = self.arrive(part)
            if part is not None:
                self.machine.wake(part)

    def arrive(self, s: Split) -> Split | None:
        """Count ``s`` as arrived at its reconvergence point.

        Returns the merged split if ``s`` was the last one to arrive, else None.
        """
        s.scatter()
        point = s.stack[-1]
        point.arrived |= s.mask
        return self._merge(s.warp, point, s.stack[:-1]) if point.arrived == point.expected else None

    def abandon(self, s: Split) -> None:
        """Remove ``s``, which returns from a function, from the function's reconvergence points.

        The splits that are parked there no longer wait for the lanes of ``s``.
        """
        inner = s.stack[1:]
        s.stack = s.stack[:1]
        s.rpc = s.stack[0].rpc
        for point, stack in list(s.warp.reconvergence):
            if point in inner:
                point.expected &= ~s.mask
                self._complete(s.warp, point, stack)

    @staticmethod
    def _merge(warp: Warp, point: ReconvergencePoint, stack: list[ReconvergencePoint]) -> Split | None:
        warp.reconvergence = [(p, outer) for p, outer in warp.reconvergence if p is not point]
        return Split(warp, point.arrived, point.rpc, stack, point.frame) if point.arrived else None

    def _complete(self, warp: Warp, point: ReconvergencePoint, stack: list[ReconvergencePoint]) -> None:
        if point.arrived == point.expected:
            merged = self._merge(warp, point, stack)
            if merged is not None:
                self.machine.wake(merged)

    def leave(self, s: Split, mask: int) -> None:
        """End the threads of the lanes in ``mask``."""
        warp, machine = s.warp, self.machine
        s.scatter()
        warp.live &= ~mask
        for point, stack in list(warp.reconvergence):
            point.expected &= ~mask
            self._complete(warp, point, stack)
        machine.memory.version += 1
        self.regather(warp)
        if not warp.live:
            warp.cta.live_warps -= 1
            if not warp.cta.live_warps:
                machine.residency.retire(warp.cta)

    def release(self) -> bool:
        """Let lanes that are parked at a reconvergence point continue without the missing lanes.

        Returns False if no lanes are parked.
        """
        for cta in self.machine.residency.live.values():
            for warp in cta.warps:
                for point, stack in warp.reconvergence[::-1]:
                    if point.arrived:
                        self.machine.wake(Split(warp, point.arrived, point.rpc, stack, point.frame))
                        point.expected &= ~point.arrived
                        point.arrived = 0
                        return True
        return False

    # --- collectives --------------------------------------------------------------------------

    def gathered(self, s: Split, block: CodeBlock) -> bool:
        """Return True if ``s`` has all lanes that must execute the block's collective instruction.

        Otherwise ``s`` parks until the missing lanes arrive.
        """
        if s.rendezvous is not None:
            return True
        needed = self.needed(s, block)
        if s.mask & needed == needed:
            return True
        warp = s.warp
        s.scatter()
        self._check_members(s, block)
        warp.gathering.setdefault(s.pc, []).extend(self._tiles(s, block))
        self.regather(warp)
        return False

    @staticmethod
    def _check_members(s: Split, block: CodeBlock) -> None:
        """Raise a fault if a lane of ``s`` would wait at a collective whose member mask does not name it."""
        instruction, op = block.ops[0]
        operand = op.binding.operands.get("membermask")
        if operand is None:
            return
        lanes, guard = s.lanes, instruction.guard
        if guard is not None:
            flags = s.frame.p[s.frame.code.places[guard.register.name].row, lanes]
            lanes = lanes[flags != guard.negated]
        if isinstance(operand, Register):
            masks = s.frame.u32[s.frame.code.places[operand.name].row, lanes]
        else:
            masks = np.full(len(lanes), operand.value, np.int64).astype(np.uint32)  # type: ignore[union-attr]
        wrong = lanes[(masks >> lanes.astype(np.uint32) & np.uint32(1)) == 0]
        if len(wrong):
            mask = int(masks[lanes == wrong[0]][0])
            s.op, s.acting = op, wrong
            raise unnamed_lanes(s, op, mask_of_lanes(wrong), mask)

    @staticmethod
    def _tiles(s: Split, block: CodeBlock) -> list[Split]:
        """Split ``s`` by the member masks of its lanes: each part waits only for the lanes of its mask."""
        instruction, op = block.ops[0]
        mask = op.binding.operands.get("membermask")
        if not isinstance(mask, Register) or instruction.guard is not None:
            return [s]
        values = s.frame.u32[s.frame.code.places[mask.name].row]
        several = np.unique(values[s.lanes])
        if len(several) == 1:
            return [s]
        return [Split(s.warp, mask_of(values == v) & s.mask, s.pc, s.stack, s.frame) for v in several]

    def needed(self, s: Split, block: CodeBlock) -> int:
        """Return the mask of the live lanes that must execute the block's collective together with ``s``."""
        op = block.ops[0][1]
        if block.collective == "warp":
            return s.warp.live
        lanes, guard = s.lanes, block.ops[0][0].guard
        if guard is not None:
            # Lanes whose guard is false need no other lanes.
            s.scatter()
            flags = s.frame.p[s.frame.code.places[guard.register.name].row, lanes]
            lanes = lanes[flags != guard.negated]
            if not len(lanes):
                return 0
        mask = op.binding.operands["membermask"]
        value = getattr(mask, "value", None)
        if value is None:
            place = s.frame.code.places[mask.name]  # type: ignore[union-attr]
            if s.regs is not None:
                value = s.regs[place.index]
            else:
                # The mask is a value of each lane: tiles of a warp have different masks.
                value = np.bitwise_or.reduce(s.frame.u32[place.row, lanes])
        return int(value) & s.warp.live

    def regather(self, warp: Warp) -> None:
        """Merge splits that wait at one collective instruction once all lanes that it needs are there."""
        blocks = warp.cta.grid.program.blocks
        for pc, waiting in list(warp.gathering.items()):
            if len(waiting) == 1 and self.needed(waiting[0], blocks[pc]) & ~waiting[0].mask:
                continue
            for complete in self._complete_sets(waiting, blocks[pc]):
                for s in complete:
                    waiting.remove(s)
                self._unite(warp, complete, pc)
            if not waiting:
                del warp.gathering[pc]
        if warp.gathering:
            self._meet(warp)

    def _complete_sets(self, waiting: list[Split], block: CodeBlock) -> list[list[Split]]:
        """Return groups of waiting splits that together have all lanes that their collective needs.

        The splits of a group are in one activation of a function. Parts of a warp with different member masks
        do not wait for each other.
        """
        pools: dict[int, list[tuple[Split, int]]] = {}
        for s in waiting:
            pools.setdefault(id(s.frame), []).append((s, self.needed(s, block)))
        found: list[list[Split]] = []
        for pool in pools.values():
            complete: list[Split] = []
            while pool:
                s, needed = pool.pop()
                tile, union = [s], s.mask
                more = True
                while more:
                    more = False
                    for other, others in list(pool):
                        if other.mask & needed or others & union:
                            pool.remove((other, others))
                            tile.append(other)
                            union, needed, more = union | other.mask, needed | others, True
                if union & needed == needed:
                    complete += tile
            if complete:
                found.append(complete)
        return found

    def _unite(self, warp: Warp, waiting: list[Split], pc: int) -> None:
        union = 0
        for s in waiting:
            union |= s.mask
        # The merged split is inside of those divergent branches that all of its lanes are inside of.
        common: list[ReconvergencePoint] = []
        for level in zip(*(s.stack for s in waiting), strict=False):
            if any(point is not level[0] for point in level):
                break
            common.append(level[0])
        for s in waiting:
            for point in s.stack[len(common) :]:
                point.expected &= ~s.mask
        for point, stack in list(warp.reconvergence):
            self._complete(warp, point, stack)
        self.machine.wake(Split(warp, union, pc, common, waiting[0].frame))

    def _meet(self, warp: Warp) -> None:
        """Let lanes with one member mask execute a collective together although they are at several places.

        The places are instructions of the same kind, or the same instruction in several activations of a
        function.
        """
        blocks = warp.cta.grid.program.blocks
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
            if len({(s.pc, id(s.frame)) for s in splits}) < 2 or union & needed != needed:
                continue
            warp.rendezvous = Rendezvous()
            for s in splits:
                warp.gathering[s.pc].remove(s)
                try:
                    run_operations(s, blocks[s.pc])
                except Deposited:
                    s.rendezvous = warp.rendezvous
                    self.machine.wake(s)
            warp.rendezvous = None
        warp.gathering = {pc: waiting for pc, waiting in warp.gathering.items() if waiting}
