"""Addresses of tensor memory: a lane and a column, PTX ISA ``#tensor-memory-addressing``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...core.findings import RULES, Finding
from ...layout.tensor_memory import LANES, unpack_address
from ..memory.segments import Actor

if TYPE_CHECKING:
    from ..threads.cta import CTA

__all__ = ["cell_at"]


def cell_at(cta: CTA, address: int, actor: Actor) -> tuple[int, int]:
    """Return the lane and the column of an address.

    The hardware uses only the low bits of the lane: kernels that were verified on a B200 count lanes through
    the rows of both CTAs of a pair. The manual does not define such lanes, so they are reported for review.
    """
    lane, column = unpack_address(address)
    if lane >= LANES:
        cta.machine.report(
            Finding(
                RULES["tensor-memory-lane"],
                f"the address {address:#x} has lane {lane}: used as lane {lane % LANES}",
                actor.location,
                actor.description(),
            )
        )
    return lane % LANES, column
