"""Argument checks that the modules of ``ptx.tcgen05`` share."""

from __future__ import annotations

from ....core.errors import OperandError
from ...registers import Reg
from ..qualifiers import one_of

__all__ = ["group", "register"]


def group(cta_group: int) -> str:
    """Return the modifier ``cta_group::1`` or ``cta_group::2``; a kernel must use only one of them."""
    return f"cta_group::{one_of('cta_group', cta_group, (1, 2), see='tcgen05-cta-pair')}"


def register(what: str, value: object, bits: int, expected: str, *, see: str, hint: str = "") -> Reg:
    """Return the argument if it is a register of ``bits`` bits; else raise :class:`OperandError`."""
    if isinstance(value, Reg):
        if value.type.bits == bits:
            return value
        raise OperandError(
            f"{what} is {value}, a .{value.type} register: expected {expected}", hint=hint, see=see
        )
    raise OperandError(f"{what} is {value!r}: expected {expected}", hint=hint, see=see)
