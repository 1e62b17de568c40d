"""Whole warps of a CTA that are at one place in the code run together, on arrays of all their threads.

Inside, divergence is a stack, as in the classical picture of SIMT: the parts of a branch run one after the
other, masked, and become one again where they meet.  Whatever might have to wait for somebody else dissolves
a team into the splits that it stands for: an instruction that may park, a collective that needs other lanes,
a part that goes on for too long. Schedules that draw the order of warps have no teams.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ...flow.graph import EXIT
from ..code.function import CodeBlock
from ..code.translate import array_function, lane_function
from .warp import Group, Spin, Split, Team, Warp, mask_of, spins

if TYPE_CHECKING:
    from ..machine.machine import Machine

__all__ = ["Teams", "joins"]

Mask = NDArray[np.bool_]

#: Blocks that a team runs inside of divergent branches before its parts go on independently.
_PATIENCE = 20_000


class Part:
    """Lanes of a team at one place. Parts that have it as ``parent`` are on their way to ``pc``."""

    __slots__ = ("lanes", "mask", "parent", "pc", "rpc", "spin", "split", "warps")

    def __init__(self, team: Company, pc: int, rpc: int, mask: Mask, parent: Part | None) -> None:
        self.pc, self.rpc, self.parent = pc, rpc, parent
        self.spin: Spin | None = None
        self.split: Split
        self.narrow(team, mask)

    def narrow(self, team: Company, mask: Mask) -> None:
        """Only the lanes of ``mask`` are left."""
        self.mask = mask
        self.lanes = np.flatnonzero(mask)
        rows = mask.reshape(-1, 32).any(1)
        #: Warps, by position in the team, that have lanes here.
        self.warps = np.flatnonzero(rows).tolist()
        if len(self.lanes) == 1:
            lane = int(self.lanes[0])
            self.split = Split(team.warps[lane // 32], 1 << lane % 32, self.pc, [], team.frames[lane // 32])
        else:
            self.split = Team(team.warps[0], team.frame, mask, self.lanes)


class Company:
    """The warps of a team and its parts, the running one last."""

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
        self.parts = [Part(self, members[0].pc, -2, mask, None)]


def _of_warp(mask: Mask, position: int) -> int:
    """The lanes of one warp of a team as a bit mask."""
    return mask_of(mask[32 * position : 32 * position + 32])


def joins(s: Split) -> bool:
    """Whether a split may run in a team: all live lanes of a warp, outside of branches and calls."""
    return (
        s.mask == s.warp.live and s.lane < 0 and not s.stack and s.frame is s.warp.frame and s.meeting is None
    )


class Teams:
    """The part of a machine that runs several warps at once."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    def of(self, s: Split) -> Company | None:
        """The team of ``s`` and its ready neighbors at the same place; None if it cannot be in one."""
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
        return Company(members)

    def execute(self, team: Company) -> None:
        """Run a team until it ends or dissolves."""
        machine = self.machine
        blocks = team.warps[0].cta.grid.program.blocks
        parts = team.parts
        budget = machine.policy.quantum
        patience = _PATIENCE
        spinning: Part | None = None
        while True:
            part = parts[-1]
            if part.pc == part.rpc:
                part.split.scatter()
                parts.pop()
                continue
            if part.pc == EXIT:
                self._end(team, part.mask)
                if not parts:
                    return
                continue
            block = blocks[part.pc]
            following: int | None
            if block.call is not None or block.table or block.yields:
                break
            if block.collective and not self._complete(team, part, block):
                break
            if part.split.lane >= 0 and not block.deferred:
                machine.count_steps(block.steps)
                following = self._one_lane(part, block)
            else:
                machine.count_steps(block.steps * len(part.warps))
                self._run(team, part, block)
                following = self._branch(team, part, block)
            if following is None:
                if not parts:
                    return
                continue
            backwards = EXIT != following <= part.pc
            part.pc = following
            if backwards and spins(part, part.split, following, machine.memory.version):
                spinning = part
                break
            if len(parts) == 1:
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
    def _one_lane(part: Part, block: CodeBlock) -> int:
        s = part.split
        registers = s.regs if s.regs is not None else s.gather()
        return int(lane_function(block)(s, registers))

    @staticmethod
    def _run(team: Company, part: Part, block: CodeBlock) -> None:
        """Execute the operations of a block: for all lanes at once, or warp by warp."""
        if block.team:
            part.split.scatter()
            _call(part.split, block)
            return
        for position in part.warps:
            mask = _of_warp(part.mask, position)
            s = team.warps[position].split(mask, team.frames[position])
            s.pc = part.pc
            if s.lane >= 0 and not block.deferred:
                lane_function(block)(s, s.gather())
                s.scatter()
            else:
                _call(s, block)

    def _branch(self, team: Company, part: Part, block: CodeBlock) -> int | None:
        """Where a part goes on; None if its lanes part or end."""
        if block.guard is None:
            return block.taken if block.taken is not None else block.next
        place, negated = block.guard
        flags = team.frame.p[place.row]
        if part.split.k is not None:
            flags = flags & part.mask if not negated else part.mask & ~flags
            count, lanes = int(np.count_nonzero(flags)), len(part.lanes)
        else:
            count, lanes = int(np.count_nonzero(flags)), flags.size
            if negated:
                flags, count = ~flags, lanes - count
        if count == lanes:
            return block.taken
        if count == 0:
            return block.next
        assert block.taken is not None and block.next is not None
        others = part.mask & ~flags
        if EXIT in (block.taken, block.next):
            part.pc = block.next if block.taken == EXIT else block.taken
            self._end(team, flags if block.taken == EXIT else others)
            return None
        parts = team.parts
        if block.rpc == EXIT:
            parts.pop()
            rpc, parent = part.rpc, part.parent
        else:
            part.pc = block.rpc
            rpc, parent = block.rpc, part
        for target, mask in ((block.next, others), (block.taken, flags)):
            if target != rpc:
                parts.append(Part(team, target, rpc, mask.copy(), parent))
        return None

    def _end(self, team: Company, ended: Mask) -> None:
        """Lanes end: the machine hears of it, and no part has them any more."""
        for position, warp in enumerate(team.warps):
            mask = _of_warp(ended, position)
            if mask:
                self.machine.divergence.leave(warp.split(mask, team.frames[position]), mask)
        for part in list(team.parts):
            left = part.mask & ~ended
            if not left.any():
                team.parts.remove(part)
            elif (part.mask & ended).any():
                part.split.scatter()
                part.narrow(team, left)

    def _complete(self, team: Company, part: Part, block: CodeBlock) -> bool:
        """Whether the lanes of a part are all that a collective needs."""
        part.split.scatter()
        for position in part.warps:
            mask = _of_warp(part.mask, position)
            s = team.warps[position].split(mask, team.frames[position])
            needed = self.machine.divergence.needed(s, block)
            if needed & ~mask:
                return False
        return True

    # --- the end of a team --------------------------------------------------------------------

    def _dissolve(self, team: Company, spinning: Part | None, *, give_way: bool) -> None:
        """Each warp goes on by itself, with the groups that its parts come back to; ``spinning`` waits."""
        for part in team.parts:
            part.split.scatter()
        machine = self.machine
        for position in range(len(team.warps) - 1, -1, -1):
            for part, s in _splits(team, position):
                if part is spinning:
                    s.spin = part.spin
                    machine.spinning.append(s)
                elif give_way:
                    machine.give_way(s)
                else:
                    machine.wake(s)


def _call(s: Split, block: CodeBlock) -> None:
    """Run the array form of a block."""
    array_function(block, masked=s.k is not None)(s, s.frame)


def _ready_at(warp: Warp, pc: int) -> bool:
    whole = warp.whole
    return whole is not None and whole.queued and whole.pc == pc and joins(whole)


def _splits(team: Company, position: int) -> list[tuple[Part, Split]]:
    """What the parts of a team are for one of its warps, the running one last."""
    warp, frame = team.warps[position], team.frames[position]
    mine = [_of_warp(part.mask, position) for part in team.parts]
    if len(mine) == 1:
        s = warp.split(mine[0], frame)
        s.pc = team.parts[0].pc
        return [(team.parts[0], s)] if mine[0] else []
    pending: dict[int, int] = {}
    for part, mask in zip(team.parts, mine, strict=True):
        above = part.parent
        while above is not None:
            pending[id(above)] = pending.get(id(above), 0) | mask
            above = above.parent
    stacks: dict[int, list[Group]] = {}
    made: list[tuple[Part, Split]] = []
    for part, mask in zip(team.parts, mine, strict=True):
        outer = stacks[id(part.parent)] if part.parent is not None else []
        stacks[id(part)] = outer
        if not mask:
            continue
        coming = pending.get(id(part), 0)
        if coming:
            group = Group(mask, part.pc, frame)
            group.arrived = mask & ~coming
            warp.groups.append((group, outer))
            stacks[id(part)] = [*outer, group]
        else:
            made.append((part, Split(warp, mask, part.pc, outer, frame)))
    return made
