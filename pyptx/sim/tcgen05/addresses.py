"""Decodes addresses of tensor memory to a lane and a column (PTX ISA ``#tensor-memory-addressing``)."""

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

    The hardware uses only the low bits of the lane: some kernels that were verified on a B200 number the
    lanes of both CTAs of a pair consecutively. The manual does not define lanes of 128 and more, so the
    simulator reports them for review.
    """
    lane, column = unpack_address(address)
    if lane >= LANES:
        cta.machine.report(
            Finding(
                RULES["tensor-memory-lane"],
                f"the address {address:#x} has lane {lane} (expected 0..{LANES - 1}): used as lane "
                f"{lane % LANES}",
                actor.location,
                actor.description(),
            )
        )
    return lane % LANES, column
