"""Modifiers that the units share: state spaces, memory orders, cache hints, choices; and masks of CTAs.

Owns the translation of an author's arguments (``"cta"``, ``"cluster"``, ``prefetch=128``) to modifiers of
PTX, and the messages for arguments that have no such modifier.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...core.errors import OperandError
from ...core.types import ScalarType
from ..choices import Validity
from ..registers import Reg, writable
from ..types import as_whole

__all__ = [
    "SCOPES",
    "cta_mask",
    "destination",
    "global_space",
    "group_count",
    "hinted",
    "multicast_modifier",
    "one_of",
    "order",
    "report_modifier",
    "shared_space",
    "type_modifier",
]

_SPACES = {
    None: None,
    "shared": "shared",
    "cta": "shared::cta",
    "shared::cta": "shared::cta",
    "cluster": "shared::cluster",
    "shared::cluster": "shared::cluster",
}

#: Scopes, from the narrowest.
SCOPES = ("cta", "cluster", "gpu", "sys")

#: Largest number of groups that a wait instruction can encode.
_MAX_GROUPS = 8_388_607


def one_of(what: str, value: Any, allowed: Sequence[Any], *, see: str, hint: str = "") -> Any:
    """Return ``value`` if it is one of ``allowed``; else raise :class:`OperandError` with the choices."""
    if isinstance(value, bool) or value not in allowed:
        choices = ", ".join(map(repr, allowed))
        raise OperandError(f"{what} is {value!r}: expected one of {choices}", hint=hint, see=see)
    return value


def shared_space(space: str | None, allowed: Sequence[str | None], *, see: str) -> str | None:
    """Return the modifier of a state space: ``shared::cta`` for ``"cta"``; None for None, a generic address.

    ``allowed`` holds the short names: ``"cta"``, ``"cluster"``, ``"shared"``, None.
    """
    short = space.removeprefix("shared::") if isinstance(space, str) else space
    if short not in allowed:
        choices = ", ".join(map(repr, allowed))
        generic = "None is a generic 64-bit address" if None in allowed else ""
        raise OperandError(f"space is {space!r}: expected one of {choices}", hint=generic, see=see)
    return _SPACES[space]


def global_space(space: str | None, *, see: str) -> str | None:
    """Return the modifier of global memory, or None for a generic address."""
    modifier: str | None = one_of("space", space, ("global", None), see=see)
    return modifier


def order(
    sem: str | None, scope: str | None, orders: Sequence[str], scopes: Sequence[str] = SCOPES, *, see: str
) -> tuple[str | None, str | None]:
    """Check the arguments for memory order and scope: both or neither are given; ``"weak"`` has no scope."""
    if sem is not None:
        one_of("sem", sem, orders, see=see)
    if (sem in (None, "weak")) != (scope is None):
        raise OperandError(
            f"sem is {sem!r} and scope is {scope!r}: expected both or neither",
            hint="a weak access has no scope" if "weak" in orders else "",
            see=see,
        )
    if scope is not None:
        one_of("scope", scope, scopes, see=see)
    return sem, scope


def hinted(cache_hint: Reg | None) -> tuple[str | None, tuple[Reg, ...]]:
    """Return the modifier and the operand of an L2 cache policy; None and no operand without a policy."""
    return (None, ()) if cache_hint is None else ("L2::cache_hint", (cache_hint,))


def type_modifier(dtype: ScalarType | str, allowed: Sequence[str], *, see: str) -> str:
    """Return the modifier of a type in ``allowed``; raise :class:`OperandError` for any other type."""
    name = dtype.name if isinstance(dtype, ScalarType) else str(dtype).lstrip(".")
    modifier: str = one_of("dtype", name, allowed, see=see)
    return modifier


def destination(what: str, register: Reg | None) -> Reg | None:
    """Check a register that an instruction writes, or None. Refuses numbers and read-only registers."""
    if register is None:
        return None
    if not isinstance(register, Reg):
        raise OperandError(f"{what} is {register!r}: expected a register that receives the value")
    return writable(register)


def cta_mask(multicast: Reg | int, bits: int, *, see: str) -> Reg | int:
    """Check a mask of the cluster's CTAs: a register, or a number that is not 0 and fits in ``bits`` bits."""
    if isinstance(multicast, Reg):
        return multicast
    number = as_whole(multicast)
    if number is None or not 1 <= number < 1 << bits:
        raise OperandError(
            f"multicast is {multicast!r}: expected a mask of CTA ranks, "
            f"1..{(1 << bits) - 1:#x}, or a register",
            see=see,
        )
    return number


def group_count(n: int, *, see: str) -> int:
    """Check the number of groups that a wait may leave pending: an integer, not a register."""
    number = as_whole(n)
    if number is None or not 0 <= number <= _MAX_GROUPS:
        raise OperandError(f"wait_group({n!r}): expected a number of groups, 0..{_MAX_GROUPS}", see=see)
    return number


def multicast_modifier(
    multicast: Reg | int | None, bits: int | None, *, see: str
) -> tuple[str | None, tuple[Reg | int, ...]]:
    """Return the modifier and the operand of a mask of CTAs; None and no operand without a mask."""
    if bits is not None:
        one_of("multicast_bits", bits, (16, 32), see=see)
    if multicast is None:
        if bits is not None:
            raise OperandError(f"multicast_bits is {bits} without a mask: pass multicast= too", see=see)
        return None, ()
    modifier = "multicast::cluster" if bits is None else f"multicast::cluster::{bits}b"
    return modifier, (cta_mask(multicast, bits or 16, see=see),)


def report_modifier(report: Validity | None) -> str | None:
    """Return the modifier of a copy's report on its mbarrier, such as ``"disabled"``; or None."""
    if report is None:
        return None
    return f"mbarrier::report::{report}"
