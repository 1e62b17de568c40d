"""atom, red and red.async on one GPU's memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.records import dataclass
from ...core.types import TYPES
from ..code.semantic import Op, executes
from ..copies.st_async import reduce_async, shared_address
from ..memory.access import AccessKind, MemoryOrder, Proxy, Scope, StateSpace
from ..numbers.read_modify_write import Meaning, in_order, meaning_of
from ..threads.loads import AccessHow
from ..threads.warp import Split
from .mbarrier import live_barrier

__all__ = ["operation_of"]

Array = NDArray[Any]

_RMW, _SHARED = AccessKind.RMW, StateSpace.SHARED


@dataclass(frozen=True, slots=True)
class _AtomicForm:
    """What an instruction form fixes about an atomic operation, apart from its modifiers.

    ``ftz``: whether f32 operations in global memory flush subnormal numbers.
    """

    operation: str = "add"
    kind: str = ""
    ftz: bool = True


@dataclass(frozen=True, slots=True)
class _AtomicPlan:
    """The plan of an ``atom`` or ``red``: its elements, and its operation in global and in shared memory."""

    count: int
    vector: bool
    dtype: np.dtype[Any]
    how: AccessHow
    in_global: Meaning
    in_shared: Meaning


def operation_of(op: Op) -> tuple[str, str]:
    """Return the operation of an ``atom`` or ``red``, such as ``add``, and the name of its type."""
    form: _AtomicForm = op.traits
    return op.chosen.get("op") or form.operation, op.chosen.get("type") or form.kind


def _plan(op: Op) -> _AtomicPlan:
    found: _AtomicPlan | None = op.cache.get("atomic")
    if found is not None:
        return found
    chosen = op.chosen
    form: _AtomicForm = op.traits
    name, kind = operation_of(op)
    plan = _AtomicPlan(
        int(chosen["vec"][1:]) if "vec" in chosen else 1,
        "vec" in chosen,
        TYPES[kind].register_dtype,
        {
            "semantics": op.order or MemoryOrder.RELAXED,
            "scope": op.scope or Scope.GPU,
            "proxy": Proxy.GENERIC,
        },
        meaning_of(name, kind, ftz=form.ftz, in_shared=False),
        meaning_of(name, kind, ftz=form.ftz, in_shared=True),
    )
    op.cache["atomic"] = plan
    return plan


def _modify(s: Split, op: Op, lanes: Array, address: Array, b: Any, c: Any = None) -> Any:
    """Execute one ``atom`` or ``red`` for the lanes; return the old values, (n,) or for a vector (k, n)."""
    plan = _plan(op)
    size = plan.dtype.itemsize
    nbytes = size * plan.count
    shape = (plan.count, len(address))
    given = _rows(b, shape, plan)
    other = None if c is None else _rows(c, shape, plan)
    old = np.empty(shape, plan.dtype)
    for which, segment, offsets in s.access(_RMW, op, lanes, address, nbytes, **plan.how):
        words = segment.words(size).view(plan.dtype)
        meaning = plan.in_shared if segment.space is _SHARED else plan.in_global
        index = offsets // size
        changed: Any = False
        updates = []
        for element in range(plan.count):
            before, after, places, final = in_order(
                words,
                index + element if element else index,
                given[element][which],
                None if other is None else other[element][which],
                meaning,
            )
            old[element, which] = before
            changed = changed | _differ(before, after)
            updates.append((places, final))
        if not changed.any():
            # A cas that fails, or an exchange of equal values, changes no memory and wakes no thread.
            continue
        if not changed.all():
            offsets = offsets[changed]
        s.warp.cta.machine.memory.changed(segment, offsets, nbytes, s)
        for places, final in updates:
            words[places] = final
    return old if plan.vector else old[0]


def _rows(operand: Any, shape: tuple[int, int], plan: _AtomicPlan) -> Array:
    """Return an operand as an array of shape (elements, lanes)."""
    if np.ndim(operand) == 0:
        return np.full(shape, operand, plan.dtype)
    rows: Array = operand if plan.vector else operand[None]
    return rows


def _differ(before: Array, after: Array) -> Any:
    if before.dtype.kind == "f":
        bits = f"u{before.itemsize}"
        return before.view(bits) != after.view(bits)
    return before != after


# --- forms --------------------------------------------------------------------------------------

_PLAIN, _NO_FTZ = _AtomicForm(), _AtomicForm(ftz=False)
_F32, _F32_NO_FTZ = _AtomicForm(kind="f32"), _AtomicForm(kind="f32", ftz=False)
_CAS, _CAS_B128 = _AtomicForm("cas"), _AtomicForm("cas", "b128")


@executes("atom", per="warp", team=True, traits=_PLAIN)
@executes("atom.exch.b128", per="warp", team=True, traits=_AtomicForm("exch", "b128"))
@executes("atom.add.noftz", "atom.noftz.vec", per="warp", team=True, traits=_NO_FTZ)
@executes("atom.add.vec", per="warp", team=True, traits=_F32)
@executes("atom.add.noftz.f32", "atom.add.vec.noftz", per="warp", team=True, traits=_F32_NO_FTZ)
def atom(s: Split, op: Op, lanes: Any, address: Any, b: Any, policy: Any = None) -> Any:
    return _modify(s, op, lanes, address, b)


@executes("atom.cas", per="warp", team=True, traits=_CAS)
@executes("atom.cas.b128", per="warp", team=True, traits=_CAS_B128)
def cas(s: Split, op: Op, lanes: Any, address: Any, b: Any, c: Any) -> Any:
    return _modify(s, op, lanes, address, b, c)


@executes("red", per="warp", team=True, traits=_PLAIN)
@executes("red.add.noftz", "red.noftz.vec", per="warp", team=True, traits=_NO_FTZ)
@executes("red.add.vec", per="warp", team=True, traits=_F32)
@executes("red.add.noftz.f32", "red.add.vec.noftz", per="warp", team=True, traits=_F32_NO_FTZ)
def red(s: Split, op: Op, lanes: Any, address: Any, b: Any, policy: Any = None) -> None:
    _modify(s, op, lanes, address, b)


@executes("red.async", per="warp")
def red_async(s: Split, op: Op, lanes: Any, address: Any, b: Any, mbar: Any) -> None:
    barriers = [live_barrier(s, op, one) for one in shared_address(op, mbar).tolist()]
    reduce_async(s, op, lanes, shared_address(op, address), b, barriers, MemoryOrder.RELAXED)


@executes("red.async.release", per="warp")
def red_async_release(s: Split, op: Op, lanes: Any, address: Any, b: Any) -> None:
    reduce_async(s, op, lanes, address, b, None, MemoryOrder.RELEASE)
