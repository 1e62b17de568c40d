"""Warpgroups: a warp's wgmma operations in flight, and checks that the four warps execute the same ones.

The ISA guarantees little order here. A kernel that breaks one of these rules gets a finding:

* Accumulators and A in registers belong to the operation from its issue until a ``wgmma.wait_group`` that
  covers it (`#asynchronous-warpgroup-level-matrix-instructions-wgmma-wait-group`), even if the operation is
  complete earlier.
* Groups belong to the warpgroup: a ``wgmma.wait_group`` of one warp waits until all four warps have issued
  and completed the operations that it covers. So after the wait one thread can free memory that all four
  warps read.
* A kernel needs a ``wgmma.fence`` before the first operation, and between an ordinary access to such a
  register and an operation that uses it (`#asynchronous-warpgroup-level-matrix-instructions-wgmma-fence`).
  Operations of one shape on one accumulator need no fence between them.
* The four warps execute the same instructions with the same descriptors. The first of them has an index that
  is a multiple of 4.

ptxas repairs both misuses of registers with its own waits (C7517, C7519). The simulator computes the same
values: a register that is accessed too early holds the operation's result.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from ...core.findings import RULES, Finding
from ...core.records import dataclass
from ...core.remedies import Edit, Place, Remedy
from ...core.source import SourceLocation
from ..engine.events import Step
from ..engine.waits import Awaited, Wait
from ..threads.units import CtaUnit, RegisterOwner

if TYPE_CHECKING:
    from ..code.function import FunctionCode
    from ..code.semantic import Op
    from ..threads.cta import CTA
    from ..threads.warp import Split, Warp

__all__ = [
    "PendingWgmma",
    "WgmmaGroupsDone",
    "OperandRegisters",
    "WgmmaState",
    "Warpgroups",
    "check_warpgroup",
]

_WARPS = 4


@dataclass(frozen=True, slots=True)
class OperandRegisters:
    """The registers that one wgmma uses: the rows of its accumulator and of its A, in order."""

    accumulator: tuple[int, ...]
    a: tuple[int, ...]
    taken: frozenset[int]


@dataclass(eq=False, slots=True)
class PendingWgmma:
    """One ``wgmma.mma_async`` that no wait has covered: its registers, its shape, its last step."""

    code: FunctionCode
    registers: OperandRegisters
    shape: str
    step: Step

    @property
    def key(self) -> tuple[Any, ...]:
        """A key that is equal for two operations on the same registers; only the newer of them is kept."""
        return self.code, self.registers, self.shape


class WgmmaState(RegisterOwner):
    """The wgmma operations of one warp that no wait has covered. The module's docstring has the rules."""

    def __init__(self) -> None:
        super().__init__()
        self._fenced = False
        #: Rows of registers that other instructions touched since the last fence.
        self._touched: dict[FunctionCode, set[int]] = {}
        #: The newest operation that no wait has covered, by its registers.
        self._pending: dict[tuple[Any, ...], PendingWgmma] = {}
        #: Operations that are in no group yet, and the groups that no wait has covered, oldest first.
        self._open: list[PendingWgmma] = []
        self._groups: list[list[PendingWgmma]] = []
        #: Number of groups that this warp has committed.
        self.committed = 0
        #: Number of groups that a wait has covered, without empty groups at the end.
        self._waited = 0
        #: Last steps of operations that may not have happened, with the number of their group, from 0.
        self._last_steps: deque[tuple[int, Step]] = deque()

    # --- the warp's other instructions ----------------------------------------------------------

    def touch(self, s: Split, location: SourceLocation | None, rows: tuple[int, ...]) -> None:
        """Record an access of an ordinary instruction to registers that wgmma uses; report early accesses."""
        self._touched.setdefault(s.frame.code, set()).update(rows)
        for pending in self._pending.values():
            taken = pending.registers.taken
            for row in rows:
                if row in taken and pending.code is s.frame.code:
                    self._too_early(s, location, row, pending)

    def _too_early(self, s: Split, location: SourceLocation | None, row: int, pending: PendingWgmma) -> None:
        operation = pending.step.operation
        s.warp.cta.machine.report(
            Finding(
                RULES["wgmma-register"],
                f"register %{_name(pending.code, row)} is accessed while {operation.name} uses it: "
                "no wgmma.wait_group has waited for this operation",
                location,
                s.description(),
                ((f"{operation.name}, in flight", operation.location),),
                remedy=_wait_before(location, committed=pending not in self._open),
            )
        )
        if not pending.step.done:
            s.warp.cta.machine.engines.force(pending.step)

    # --- instructions of wgmma --------------------------------------------------------------------

    def fence(self) -> None:
        """Record that the warp has executed ``wgmma.fence``."""
        self._fenced = True
        self._touched.clear()

    def before(self, s: Split, registers: OperandRegisters, shape: str) -> list[Step]:
        """Check the registers of a wgmma that is issued now for a missing ``wgmma.fence``.

        Returns the steps that must happen before it writes its accumulator.
        """
        if not self._fenced:
            self._unfenced(s, "no wgmma.fence before the first wgmma.mma_async of the warp")
        touched = self._touched.get(s.frame.code)
        if touched and not touched.isdisjoint(registers.taken):
            name = _name(s.frame.code, min(touched & registers.taken))
            self._unfenced(
                s, f"no wgmma.fence between an access to register %{name} and {_named(s)}, which uses it"
            )
        after: list[Step] = []
        for pending in self._pending.values():
            if pending.code is not s.frame.code:
                continue
            if pending.registers.accumulator == registers.accumulator and pending.shape == shape:
                after.append(pending.step)
            elif not registers.taken.isdisjoint(
                pending.registers.accumulator
            ) or not pending.registers.taken.isdisjoint(registers.accumulator):
                shared = registers.taken & pending.registers.taken
                self._too_early(s, s.location, min(shared), pending)
        return after

    def _unfenced(self, s: Split, message: str) -> None:
        fence = "wgmma.fence.sync.aligned;"
        edit = None if s.location is None else Edit(fence, Place.BEFORE, s.location)
        remedy = Remedy("let all four warps execute it before the wgmma", "ptx.wgmma.fence()", fence, edit)
        s.warp.cta.machine.report(
            Finding(RULES["wgmma-fence"], message, s.location, s.description(), remedy=remedy)
        )

    def issue(self, pending: PendingWgmma) -> None:
        """Add an operation that was issued now."""
        self._open.append(pending)
        self._pending[pending.key] = pending

    def commit(self) -> None:
        """Make a new group of the operations that are not in a group yet."""
        self._last_steps.extend((self.committed, pending.step) for pending in self._open)
        self.committed += 1
        self._groups.append(self._open)
        self._open = []

    def wait(self, keep: int) -> int:
        """Forget all groups of wgmma operations except the newest ``keep``.

        Returns how many groups must be complete, counted from the warpgroup's first group; empty groups at
        the end do not count.
        """
        count = max(len(self._groups) - keep, 0)
        first = self.committed - len(self._groups)
        covered, self._groups = self._groups[:count], self._groups[count:]
        for number, group in enumerate(covered, first + 1):
            if group:
                self._waited = number
            for pending in group:
                if self._pending.get(pending.key) is pending:
                    del self._pending[pending.key]
        return self._waited

    def misses(self, groups: int) -> bool:
        """True if an issued step of the first ``groups`` groups has not happened."""
        steps = self._last_steps
        while steps and steps[0][1].done:
            steps.popleft()
        return bool(steps) and steps[0][0] < groups

    def missing(self, groups: int) -> list[Step]:
        """Return the issued steps of the first ``groups`` groups that have not happened, oldest first."""
        if not self.misses(groups):
            return []
        return [step for number, step in self._last_steps if number < groups and not step.done]


class WgmmaGroupsDone(Wait):
    """Waits until the four warps have issued and completed the first groups of their warpgroup.

    A warp that has ended issues no more operations: the CTA's end reports operations that are missing.
    """

    __slots__ = ("_groups", "_leave", "_warps")

    def __init__(self, warps: list[Warp], groups: int, leave: Callable[[], None]) -> None:
        self._warps, self._groups, self._leave = warps, groups, leave

    @property
    def awaited(self) -> Awaited:
        return Awaited.PRODUCTS

    def finish(self) -> None:
        self._leave()

    def _late(self) -> list[Warp]:
        return [one for one in self._warps if one.live and one.unit(WgmmaState).committed < self._groups]

    def _missing(self) -> list[Step]:
        return [step for one in self._warps for step in one.unit(WgmmaState).missing(self._groups)]

    def over(self) -> bool:
        return not self._late() and not any(one.unit(WgmmaState).misses(self._groups) for one in self._warps)

    def steps_left(self) -> list[Step] | None:
        return None if self._late() else self._missing()

    def unblocking(self) -> list[Step] | None:
        return None if self._late() else sorted(self._missing(), key=lambda step: -step.serial)

    def describe(self) -> str:
        if late := self._late():
            names = ", ".join(str(one.index) for one in late)
            return f"waits for wgmma.mma_async, which warps {names} of the warpgroup have not issued"
        return f"waits for wgmma.mma_async: {len(self._missing())} operation(s) in flight"


def _name(code: FunctionCode, row: int) -> str:
    return next(name for name, place in code.places.items() if place.cls == "32" and place.row == row)


def _named(s: Split) -> str:
    assert s.op is not None
    return s.op.name


@dataclass(slots=True)
class _WarpgroupInstruction:
    """One instruction of the four warps: its operands, and a mask of the warps that have executed it."""

    op: Op
    operands: tuple[Any, ...]
    seen: int = 0


class _Warpgroup:
    """Four warps: the instructions that some of them have executed and others have not yet."""

    __slots__ = ("_counts", "_first", "_turns")

    def __init__(self) -> None:
        self._turns: deque[_WarpgroupInstruction] = deque()
        self._first = 0
        self._counts = [0] * _WARPS

    def execute(self, s: Split, op: Op, operands: tuple[Any, ...]) -> None:
        """Check that the warp executes the same instruction with the same operands as the other warps."""
        member = s.warp.index % _WARPS
        position = self._counts[member] - self._first
        self._counts[member] += 1
        if position == len(self._turns):
            self._turns.append(_WarpgroupInstruction(op, operands))
        turn = self._turns[position]
        if turn.op is not op:
            raise s.warp.cta.machine.fault(
                "warpgroup",
                f"this warp executes {op.name}, but another warp of its warpgroup executes {turn.op.name} "
                "at another place",
                s,
            )
        if turn.operands != operands:
            raise s.warp.cta.machine.fault(
                "warpgroup",
                f"{op.name}: this warp has the operands {_shown(operands)}, another warp of the warpgroup "
                f"has {_shown(turn.operands)}",
                s,
            )
        turn.seen |= 1 << member
        while self._turns and self._turns[0].seen == (1 << _WARPS) - 1:
            self._turns.popleft()
            self._first += 1

    def at_exit(self, number: int) -> Iterable[Finding]:
        """Yield a finding for each instruction that some warps did not execute. Called at the CTA's end."""
        if self._turns:
            turn = self._turns[0]
            absent = [str(_WARPS * number + i) for i in range(_WARPS) if not turn.seen >> i & 1]
            yield Finding(
                RULES["warpgroup"],
                f"{turn.op.name} was never executed by warps {', '.join(absent)} of the warpgroup",
                turn.op.location,
            )


class Warpgroups(CtaUnit):
    """The warpgroups of a CTA that have executed wgmma, by number."""

    exit_order = 3

    def __init__(self, cta: CTA) -> None:
        super().__init__(cta)
        self.groups: dict[int, _Warpgroup] = {}

    def at_exit(self) -> None:
        for number, group in self.groups.items():
            for finding in group.at_exit(number):
                self.cta.machine.report(finding)


def _shown(operands: tuple[Any, ...]) -> str:
    return ", ".join(f"{value:#x}" for value in operands)


def check_warpgroup(s: Split, op: Op, lanes: Any, operands: tuple[Any, ...] = ()) -> None:
    """Check that the warp is one of four that execute an instruction with the same operands."""
    cta, number = s.warp.cta, s.warp.index // _WARPS
    groups = cta.unit(Warpgroups).groups
    group = groups.get(number)
    if group is None:
        if 32 * _WARPS * (number + 1) > cta.threads:
            raise cta.machine.fault(
                "warpgroup",
                f"{op.name} in warp {s.warp.index} of {len(cta.warps)}: its warpgroup needs the full warps "
                f"{_WARPS * number}..{_WARPS * number + 3} of 32 threads each",
                s,
            )
        group = groups[number] = _Warpgroup()
    if len(lanes) != 32:
        raise cta.machine.fault("warpgroup", f"{op.name} in a warp with threads that have ended", s)
    group.execute(s, op, operands)


def _wait_before(location: SourceLocation | None, *, committed: bool) -> Remedy:
    """Return the remedy for an access to registers of an operation in flight: a wait before the access."""
    dsl, ptx = "ptx.wgmma.wait_group(0)", "wgmma.wait_group.sync.aligned 0;"
    if not committed:
        dsl, ptx = f"ptx.wgmma.commit_group(); {dsl}", f"wgmma.commit_group.sync.aligned; {ptx}"
    where = "the access" if location is None else location.short
    edit = None if location is None else Edit(ptx, Place.BEFORE, location)
    return Remedy(f"let all four warps wait for the group before {where}", dsl, ptx, edit)
