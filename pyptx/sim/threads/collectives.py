"""Brings the lanes of a member mask together for ``shfl``, ``vote``, ``match``, ``redux`` and ``elect.sync``.

Owns :class:`LaneGroups`, which sorts the lanes of one call into groups, one for each warp and member mask,
and :class:`Rendezvous`, for lanes that execute the same collective at different places of the code.

Each lane passes its own member mask: two parts of a warp may execute one instruction with two masks. All
lanes of a mask that have not exited must execute the collective with the same mask (PTX ISA,
`#parallel-synchronization-and-communication-instructions-vote-sync`). They may be at two places in the code:
an H200 accepts this.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...core.remedies import Remedy
from ..memory.segments import Fault

if TYPE_CHECKING:
    from ..code.semantic import Op
    from .warp import Split

__all__ = ["Deposited", "Rendezvous", "LaneGroups", "collective", "unnamed_lanes"]

_FULL = np.uint32(0xFFFFFFFF)
_WHOLE = np.full((1, 1), _FULL)
_BITS = np.uint64(1) << np.arange(32, dtype=np.uint64)

_ALL = 0xFFFFFFFF

#: ``compute(op, groups, *inputs)``: inputs and results have one row of 32 lanes for each group.
Compute = Callable[..., Any]


def _all_set(membermask: Any) -> bool:
    return bool((membermask == _FULL).all() if isinstance(membermask, np.ndarray) else membermask == _FULL)


def unnamed_lanes(s: Split, op: Op, unnamed: int, mask: int) -> Fault:
    """Return the fault for ``unnamed`` lanes, which execute ``op`` with a member mask without them."""
    text = f"{op.name}: executed by lanes {unnamed:#010x}, which its member mask {mask:#010x} does not name"
    whole = f"{mask | unnamed:#010x}"
    advice = f"name in the mask the lanes that execute the instruction together: {whole}"
    remedy = Remedy(advice, f"mask={whole}", whole)
    return s.warp.cta.machine.fault("member-mask", text, s, remedy=remedy)


class LaneGroups:
    """Groups of lanes, one row of 32 lanes each.

    Attributes:
        lanes_here: the numbers of all lanes of the call.
        asked: the member mask of each group as the lanes gave it, including lanes that have exited.
        masks: the live members of each group, ``(groups, 1)``.
        member: flags of the lanes that are members, ``(groups, 32)``; None if all are.
    """

    __slots__ = ("_lane", "_row", "asked", "lanes_here", "masks", "member")

    def __init__(self, s: Split, op: Op, lanes: NDArray[np.intp], membermask: Any) -> None:
        count = len(lanes)
        self._row: Any = None
        self.lanes_here = lanes
        self.asked: NDArray[np.uint32] | None = None
        if (
            not count & 31
            and _all_set(membermask)
            and lanes[-1] - lanes[0] == count - 1
            and not lanes[0] & 31
        ):
            # Whole warps: the rows are the warps.
            self.masks = _WHOLE if count == 32 else np.full((count // 32, 1), _FULL)
            self.member: NDArray[np.bool_] | None = None
            return
        masks = np.broadcast_to(np.asarray(membermask).astype(np.uint64), (count,))
        key = (lanes >> 5).astype(np.uint64) << np.uint64(32) | masks
        groups, self._row = np.unique(key, return_inverse=True)
        self.asked = groups.astype(np.uint32)
        self._lane = lanes & 31
        self.member = np.zeros((len(groups), 32), np.bool_)
        self.member[self._row, self._lane] = True
        executing = (self.member * _BITS).sum(1)
        self.masks = executing.astype(np.uint32)[:, None]
        for row, (group, lanes_there) in enumerate(zip(groups.tolist(), executing.tolist(), strict=True)):
            there = s.warp if not group >> 32 else s.warp.cta.warps[s.warp.index + (group >> 32)]
            mask = group & there.live
            if lanes_there == mask:
                continue
            unnamed = lanes_there & ~group
            if unnamed:
                s.acting = lanes[(self._row == row) & (unnamed >> self._lane & 1).astype(np.bool_)]
                raise unnamed_lanes(s, op, unnamed, group & _ALL)
            raise s.warp.cta.machine.fault(
                "divergent-collective",
                f"{op.name}: executed by lanes {lanes_there:#010x}, but "
                f"its mask and the live lanes give {mask:#010x}",
                s,
            )

    def positions(self, row: int, lane: int) -> NDArray[np.intp]:
        """Return where lane ``lane`` of group ``row`` stands among the lanes of the call."""
        return np.flatnonzero((self._row == row) & (self._lane == lane))

    def rows(self, values: Any) -> NDArray[Any]:
        """Return the lanes' values as one row of 32 per group; lanes that are not members get zero."""
        if self._row is None:
            if np.ndim(values):
                return np.asarray(values).reshape(-1, 32)
            return np.full((len(self.masks), 32), values)
        values = np.asarray(values)
        full = np.zeros((len(self.masks), 32), values.dtype)
        full[self._row, self._lane] = values
        return full

    def lanes(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Return one value for each lane of the call.

        ``values`` has a row for each group, or one value for each group.
        """
        if self._row is None:
            return rows.reshape(-1) if rows.shape == (len(self.masks), 32) else np.repeat(rows, 32)
        values: NDArray[Any] = np.broadcast_to(rows, (len(self.masks), 32))[self._row, self._lane]
        return values


class Deposited(Exception):
    """Raised after the lanes have stored their operands in the rendezvous; the instruction executes later."""


class Rendezvous:
    """Lanes at several places that execute one collective.

    All of them store their operands first; then all of them get their results.
    """

    def __init__(self) -> None:
        #: Origin of undefined bits in an operand of some lane, or 0.
        self.undefined = 0
        self._lanes: list[NDArray[np.intp]] = []
        self._operands: list[list[NDArray[Any]]] = []
        self._results: Any = None

    def deposit(self, lanes: NDArray[np.intp], *operands: Any) -> None:
        """Store the operands of ``lanes``. Always raises :class:`Deposited`."""
        self._lanes.append(np.array(lanes))
        self._operands.append([np.array(np.broadcast_to(o, (len(lanes),))) for o in operands])
        raise Deposited

    def results(self, s: Split, op: Op, lanes: NDArray[np.intp], compute: Compute) -> Any:
        """Return the results of ``lanes``. All lanes must have stored their operands with :meth:`deposit`."""
        everyone = np.concatenate(self._lanes)
        order = np.argsort(everyone)
        everyone = everyone[order]
        if self._results is None:
            masks, *operands = (np.concatenate(parts)[order] for parts in zip(*self._operands, strict=True))
            self._results = _execute(s, op, everyone, masks, operands, compute)
        where = np.searchsorted(everyone, lanes)
        if isinstance(self._results, tuple):
            return tuple(part[where] for part in self._results)
        return self._results[where]


def collective(
    s: Split, op: Op, lanes: NDArray[np.intp], membermask: Any, operands: tuple[Any, ...], compute: Compute
) -> Any:
    """Execute a collective for ``lanes``. Return one result for each lane, or a tuple of such results."""
    if s.rendezvous is not None:
        rendezvous, s.rendezvous = s.rendezvous, None
        return rendezvous.results(s, op, lanes, compute)
    if s.warp.rendezvous is not None:
        s.warp.rendezvous.deposit(lanes, membermask, *operands)
    return _execute(s, op, lanes, membermask, operands, compute)


def _execute(s: Split, op: Op, lanes: Any, membermask: Any, operands: Any, compute: Compute) -> Any:
    groups = LaneGroups(s, op, lanes, membermask)
    result = compute(op, groups, *map(groups.rows, operands))
    if isinstance(result, tuple):
        return tuple(map(groups.lanes, result))
    return groups.lanes(result)
