"""Argument checks that the modules of ``ptx.tcgen05`` share."""

from __future__ import annotations

from ..qualifiers import one_of

__all__ = ["group"]


def group(cta_group: int) -> str:
    """Return the modifier ``cta_group::1`` or ``cta_group::2``; a kernel must use only one of them."""
    return f"cta_group::{one_of('cta_group', cta_group, (1, 2), see='tcgen05-cta-pair')}"
