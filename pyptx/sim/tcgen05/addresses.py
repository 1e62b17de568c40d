"""Where an address of tensor memory lies: a lane and a column, PTX ISA ``#tensor-memory-addressing``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...core.findings import RULES, Finding
from ...layout.tensor_memory import LANES, unpack_address
from ..memory.address_space import Actor

if TYPE_CHECKING:
    from ..threads.cta import CTA

__all__ = ["cell_at"]


def cell_at(cta: CTA, address: int, actor: Actor) -> tuple[int, int]:
    """The lane and the column of an address.

    Of the lane the hardware takes the low bits: kernels that were verified on a B200 count the rows of the
    whole pair.  The manual has no such lanes, so this is reported for review.
    """
    lane, column = unpack_address(address)
    if lane >= LANES:
        cta.machine.report(
            Finding(
                RULES["tensor-memory-lane"],
                f"the address {address:#x} has lane {lane}: taken as lane {lane % LANES}",
                actor.location,
                actor.description(),
            )
        )
    return lane % LANES, column
