"""atom, red and red.async on one GPU's memory."""

from __future__ import annotations

from typing import Any

from ..code.semantic import Op, executes
from ..copies.st_async import reduce_async, shared_address
from ..threads.atomics import modify
from ..threads.warp import Split
from .mbarrier import live_barrier


@executes(
    *("atom", "atom.exch.b128", "atom.add.noftz", "atom.add.noftz.f32", "atom.add.vec"),
    *("atom.add.vec.noftz", "atom.noftz.vec"),
    per="warp",
    team=True,
)
def atom(s: Split, op: Op, lanes: Any, address: Any, b: Any, policy: Any = None) -> Any:
    return modify(s, op, lanes, address, b)


@executes("atom.cas", "atom.cas.b128", per="warp", team=True)
def cas(s: Split, op: Op, lanes: Any, address: Any, b: Any, c: Any) -> Any:
    return modify(s, op, lanes, address, b, c)


@executes(
    *("red", "red.add.noftz", "red.add.noftz.f32", "red.add.vec", "red.add.vec.noftz", "red.noftz.vec"),
    per="warp",
    team=True,
)
def red(s: Split, op: Op, lanes: Any, address: Any, b: Any, policy: Any = None) -> None:
    modify(s, op, lanes, address, b)


@executes("red.async", per="warp")
def red_async(s: Split, op: Op, lanes: Any, address: Any, b: Any, mbar: Any) -> None:
    barriers = [live_barrier(s, op, one) for one in shared_address(op, mbar).tolist()]
    reduce_async(s, op, lanes, shared_address(op, address), b, barriers)


@executes("red.async.release", per="warp")
def red_async_release(s: Split, op: Op, lanes: Any, address: Any, b: Any) -> None:
    reduce_async(s, op, lanes, address, b, None)
