"""Runs several whole warps of a CTA together, as arrays of all their threads, while their code is the same.

Inside a team, divergence uses the classical SIMT stack: the sides of a branch run one after the other with
masks, and merge at the reconvergence point. A team dissolves into splits at an instruction that may park, at
a collective that needs other lanes, or when a divergent branch runs for too long. Schedules that choose the
order of warps at random have no teams.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ...flow.graph import EXIT
from ..code.function import CodeBlock
from .operations import run_operations
from .warp import ReconvergencePoint, Spin, Split, Warp, WideSplit, mask_of, spins

if TYPE_CHECKING:
    from .machine_state import MachineState

__all__ = ["WarpTeams", "joins"]

Mask = NDArray[np.bool_]

#: Number of blocks that a team runs inside of divergent branches before its stack entries run independently.
_PATIENCE = 20_000


class StackEntry:
    """An entry of a team's SIMT stack: some lanes of the team, and the block ``pc`` that they run next.

    Its child entries (their ``parent`` is this entry) run first. When all of them have reached ``pc``, this
    entry continues there.
    """

    __slots__ = ("lanes", "mask", "parent", "pc", "rpc", "spin", "split", "warps")

    def __init__(self, team: WarpTeam, pc: int, rpc: int, mask: Mask, parent: StackEntry | None) -> None:
        self.pc, self.rpc, self.parent = pc, rpc, parent
        self.spin: Spin | None = None
        self.split: Split
        self.narrow(team, mask)

    def narrow(self, team: WarpTeam, mask: Mask) -> None:
        """Keep only the lanes of ``mask``."""
        self.mask = mask
        self.lanes = np.flatnonzero(mask)
        rows = mask.reshape(-1, 32).any(1)
        #: Positions in the team of the warps that have lanes here.
        self.warps = np.flatnonzero(rows).tolist()
        if len(self.lanes) == 1:
            lane = int(self.lanes[0])
            self.split = Split(team.warps[lane // 32], 1 << lane % 32, self.pc, [], team.frames[lane // 32])
        else:
            self.split = WideSplit(team.warps[0], team.frame, mask, self.lanes)


class WarpTeam:
    """The warps of a team and its SIMT stack, whose last entry runs."""

    def __init__(self, members: list[Split]) -> None:
        self.warps = [member.warp for member in members]
        self.frames = [member.frame for member in members]
        first = self.warps[0]
        self.frame = members[0].frame.registers.frame(first.index, len(members))
        if not self.frame.special:
            self.frame.special = first.cta.special(first.index, len(members))
            self.frame.shared = first.frame.shared
        mask = np.ones(32 * len(members), np.bool_)
        for position, member in enumerate(members):
            if member.k is not None:
                mask[32 * position : 32 * position + 32] = member.k
        self.stack = [StackEntry(self, members[0].pc, -2, mask, None)]


def _of_warp(mask: Mask, position: int) -> int:
    """Return the lanes of one warp of a team as a bit mask."""
    return mask_of(mask[32 * position : 32 * position + 32])


def joins(s: Split) -> bool:
    """True if a split can run in a team: all live lanes of a warp, outside of branches and calls."""
    return (
        s.mask == s.warp.live
        and s.lane < 0
        and not s.stack
        and s.frame is s.warp.frame
        and s.rendezvous is None
    )


class WarpTeams:
    """The part of a machine that runs several warps at once."""

    def __init__(self, machine: MachineState) -> None:
        self.machine = machine

    def of(self, s: Split) -> WarpTeam | None:
        """Return a team of ``s`` and the ready neighboring warps at its block.

        Returns None if ``s`` cannot run in a team.
        """
        if s.pc == EXIT or not joins(s):
            return None
        block = s.warp.cta.grid.program.blocks[s.pc]
        if block.call is not None or block.table or block.yields:
            return None
        warps = s.warp.cta.warps
        first = last = s.warp.index
        while first > 0 and _ready_at(warps[first - 1], s.pc):
            first -= 1
        while last + 1 < len(warps) and _ready_at(warps[last + 1], s.pc):
            last += 1
        members: list[Split] = []
        for warp in warps[first : last + 1]:
            member = s if warp is s.warp else warp.whole
            assert member is not None
            member.queued = False
            member.scatter()
            members.append(member)
        return WarpTeam(members)

    def execute(self, team: WarpTeam) -> None:
        """Run a team until it ends or dissolves."""
        machine = self.machine
        blocks = team.warps[0].cta.grid.program.blocks
        stack = team.stack
        budget = machine.policy.quantum
        patience = _PATIENCE
        spinning: StackEntry | None = None
        while True:
            entry = stack[-1]
            if entry.pc == entry.rpc:
                entry.split.scatter()
                stack.pop()
                continue
            if entry.pc == EXIT:
                self._end(team, entry.mask)
                if not stack:
                    return
                continue
            block = blocks[entry.pc]
            following: int | None
            if block.call is not None or block.table or block.yields:
                break
            if block.collective and not self._complete(team, entry, block):
                break
            if entry.split.lane >= 0 and not block.deferred:
                machine.count_steps(block.steps)
                following = int(run_operations(entry.split, block))
            else:
                machine.count_steps(block.steps * len(entry.warps))
                self._run(team, entry, block)
                following = self._branch(team, entry, block)
            if following is None:
                if not stack:
                    return
                continue
            backwards = EXIT != following <= entry.pc
            entry.pc = following
            if backwards and spins(entry, entry.split, following, machine.memory.version):
                spinning = entry
                break
            if len(stack) == 1:
                budget -= 1
                if budget <= 0:
                    break
            else:
                patience -= 1
                if patience <= 0:
                    break
        self._dissolve(team, spinning, give_way=budget <= 0 or patience <= 0)

    # --- one block ----------------------------------------------------------------------------

    @staticmethod
    def _run(team: WarpTeam, entry: StackEntry, block: CodeBlock) -> None:
        """Execute the operations of one basic block, for all lanes of the entry at once or warp by warp."""
        if block.team:
            run_operations(entry.split, block)
            return
        for position in entry.warps:
            mask = _of_warp(entry.mask, position)
            s = team.warps[position].split(mask, team.frames[position])
            s.pc = entry.pc
            run_operations(s, block)
            if s.regs is not None:
                s.scatter()

    def _branch(self, team: WarpTeam, entry: StackEntry, block: CodeBlock) -> int | None:
        """Return the basic block that all lanes of ``entry`` run next, or None if they take different ways.

        If they do, this method puts both sides of the branch on the team's SIMT stack; if one side leaves the
        kernel, it ends the lanes of that side.
        """
        if block.guard is None:
            return block.taken if block.taken is not None else block.next
        place, negated = block.guard
        flags = team.frame.p[place.row]
        if entry.split.k is not None:
            flags = flags & entry.mask if not negated else entry.mask & ~flags
            count, lanes = int(np.count_nonzero(flags)), len(entry.lanes)
        else:
            count, lanes = int(np.count_nonzero(flags)), flags.size
            if negated:
                flags, count = ~flags, lanes - count
        if count == lanes:
            return block.taken
        if count == 0:
            return block.next
        assert block.taken is not None and block.next is not None
        others = entry.mask & ~flags
        if EXIT in (block.taken, block.next):
            entry.pc = block.next if block.taken == EXIT else block.taken
            self._end(team, flags if block.taken == EXIT else others)
            return None
        stack = team.stack
        if block.rpc == EXIT:
            stack.pop()
            rpc, parent = entry.rpc, entry.parent
        else:
            entry.pc = block.rpc
            rpc, parent = block.rpc, entry
        for target, mask in ((block.next, others), (block.taken, flags)):
            if target != rpc:
                stack.append(StackEntry(team, target, rpc, mask.copy(), parent))
        return None

    def _end(self, team: WarpTeam, ended: Mask) -> None:
        """End the lanes ``ended`` in the machine, and remove them from all entries of the SIMT stack."""
        for position, warp in enumerate(team.warps):
            mask = _of_warp(ended, position)
            if mask:
                self.machine.divergence.leave(warp.split(mask, team.frames[position]), mask)
        for entry in list(team.stack):
            left = entry.mask & ~ended
            if not left.any():
                team.stack.remove(entry)
            elif (entry.mask & ended).any():
                entry.split.scatter()
                entry.narrow(team, left)

    def _complete(self, team: WarpTeam, entry: StackEntry, block: CodeBlock) -> bool:
        """True if ``entry`` has all lanes that the collective instruction of ``block`` needs."""
        entry.split.scatter()
        for position in entry.warps:
            mask = _of_warp(entry.mask, position)
            s = team.warps[position].split(mask, team.frames[position])
            needed = self.machine.divergence.needed(s, block)
            if needed & ~mask:
                return False
        return True

    # --- the end of a team --------------------------------------------------------------------

    def _dissolve(self, team: WarpTeam, spinning: StackEntry | None, *, give_way: bool) -> None:
        """End the team: each warp continues on its own, with its splits and reconvergence points.

        The splits of ``spinning`` are registered as spinning: they poll, and other threads run first.
        """
        for entry in team.stack:
            entry.split.scatter()
        machine = self.machine
        for position in range(len(team.warps) - 1, -1, -1):
            for entry, s in _splits(team, position):
                if entry is spinning:
                    s.spin = entry.spin
                    machine.spinning.append(s)
                elif give_way:
                    machine.give_way(s, machine.policy.quantum)
                else:
                    machine.wake(s)


def _ready_at(warp: Warp, pc: int) -> bool:
    whole = warp.whole
    return whole is not None and whole.queued and whole.pc == pc and joins(whole)


def _splits(team: WarpTeam, position: int) -> list[tuple[StackEntry, Split]]:
    """Return one warp's splits, made from the entries of the team's SIMT stack; the running split is last."""
    warp, frame = team.warps[position], team.frames[position]
    mine = [_of_warp(entry.mask, position) for entry in team.stack]
    if len(mine) == 1:
        s = warp.split(mine[0], frame)
        s.pc = team.stack[0].pc
        return [(team.stack[0], s)] if mine[0] else []
    pending: dict[int, int] = {}
    for entry, mask in zip(team.stack, mine, strict=True):
        above = entry.parent
        while above is not None:
            pending[id(above)] = pending.get(id(above), 0) | mask
            above = above.parent
    stacks: dict[int, list[ReconvergencePoint]] = {}
    made: list[tuple[StackEntry, Split]] = []
    for entry, mask in zip(team.stack, mine, strict=True):
        outer = stacks[id(entry.parent)] if entry.parent is not None else []
        stacks[id(entry)] = outer
        if not mask:
            continue
        coming = pending.get(id(entry), 0)
        if coming:
            point = ReconvergencePoint(mask, entry.pc, frame)
            point.arrived = mask & ~coming
            warp.reconvergence.append((point, outer))
            stacks[id(entry)] = [*outer, point]
        else:
            made.append((entry, Split(warp, mask, entry.pc, outer, frame)))
    return made
