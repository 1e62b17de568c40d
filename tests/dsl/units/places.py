"""What the tests of copies, barriers and fences share: choices of arguments, and registers to pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count, product
from typing import Any

from pyptx.core.types import b8, b64, u32, u64
from pyptx.dsl import Reg, reg
from tests.dsl.units.reach import TARGETS, Call

__all__ = [
    "ALL_TARGETS",
    "CLUSTER",
    "GLOBAL",
    "NEAR_ORDERS",
    "NONE",
    "RELAXED",
    "REPORTS",
    "SCOPES",
    "TENSORS",
    "WIDE_ORDERS",
    "byte",
    "calls",
    "place",
    "policy",
]

#: The targets of :mod:`.reach`, and the one that PTX 9.4 adds most for.
ALL_TARGETS = (*TARGETS, "sm_107a")


#: Memory order and scope.
NONE = (None, None)
SCOPES = ("cta", "cluster", "gpu", "sys")
WIDE_ORDERS = (NONE, ("weak", None), *(("relaxed", scope) for scope in SCOPES))
NEAR_ORDERS = WIDE_ORDERS[:4]
RELAXED = (NONE, *(("relaxed", scope) for scope in SCOPES))
#: What a copy may report on its mbarrier.
REPORTS = (
    "disabled",
    "validity::per_16bytes::80000000",
    "validity::per_16bytes::8000",
    "validity::per_16bytes::80",
    "validity::per_16bytes::8",
    "validity::per_element::ff",
)
_BITWISE, _COUNTED = ("and", "or", "xor"), ("inc", "dec")
_CLUSTER_SUMS = {"add": ("u32", "s32", "u64"), "min": ("u32", "s32"), "max": ("u32", "s32")}
_EXTREMES = ("u32", "s32", "u64", "s64", "f16", "bf16")
_GLOBAL_SUMS = {"add": ("u32", "s32", "u64", "f32", "f64", "f16", "bf16"), "min": _EXTREMES, "max": _EXTREMES}
#: Operation and type of every reduction into global memory, and into shared memory.
GLOBAL = [
    *product(_BITWISE, ("b32", "b64")),
    *product(_COUNTED, ("u32",)),
    *((op, kind) for op, kinds in _GLOBAL_SUMS.items() for kind in kinds),
]
CLUSTER = [
    *product(_BITWISE, ("b32",)),
    *product(_COUNTED, ("u32",)),
    *((op, kind) for op, kinds in _CLUSTER_SUMS.items() for kind in kinds),
]
#: Wrappers of tensor copies.
TENSORS = {"bulk.prefetch_tensor", "bulk.apply_priority_tensor", *(f"bulk.tensor_{n}d" for n in range(1, 6))}


def place(space: str | None) -> Reg:
    """An address: 64 bits where it is generic (None) or global, 32 in shared memory."""
    return reg.scalar(u64 if space in (None, "global") else u32)


_numbers = count()


def byte() -> Reg:
    """A register declared as ``.b8``, which a few operands ask for."""
    return reg.declare(b8, f"byte{next(_numbers)}")


def policy(given: bool) -> Any:
    """An L2 cache policy, or None."""
    return reg.scalar(b64) if given else None


def calls(wrapper: str, body: Callable[..., object], *choices: Sequence[Any]) -> list[Call]:
    """One call of ``body`` for every combination of the choices, which are its arguments."""

    def call(chosen: tuple[Any, ...]) -> Call:
        def run() -> None:
            body(*chosen)

        return Call(wrapper, run)

    return [call(chosen) for chosen in product(*choices)]
