"""Descriptors of ``wgmma`` along K and from stage to stage, stepped in the low of their two words.

Owns arithmetic alone: the address of a matrix is in the low word, in units of 16 bytes, and never carries out
of its 14 bits.  A 64-bit ``add`` for each step takes ptxas up to five instructions, since the base is in
vector registers and the carry goes through them (seen with ptxas 13.0); a step of the low word is one
instruction of the uniform datapath, and the high word a constant.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..core.errors import SpecError
from ..core.types import b32, u32, u64
from ..dsl import Reg, ptx, reg

__all__ = ["descriptor_steps"]

_UNIT = 16


def descriptor_steps(
    first: Reg, offsets: Sequence[int], *, stage: Reg | int = 0, stage_bytes: int = 0
) -> list[Reg]:
    """Return the descriptors at some offsets from a first one.

    Records a ``mov`` that takes the descriptor apart; a ``mad.lo.u32`` for a stage in a register, an ``add``
    for a number above 0; for each offset an ``add``, unless it is 0, and a ``mov`` that puts a descriptor
    together.

    Args:
        first: the descriptor of stage 0, a b64 register, such as ``.first`` of
            :class:`.head_operand.StageDescriptors`.
        offsets: bytes to each of the matrices, such as ``.offsets`` there.
        stage: number of the stage, an int or a u32 register.
        stage_bytes: bytes from one stage to the next.

    Raises:
        SpecError: bytes that are no multiple of 16.
    """
    for bytes_ in (*offsets, stage_bytes):
        if bytes_ % _UNIT:
            raise SpecError(f"{bytes_} bytes: expected a multiple of {_UNIT}, the unit of a descriptor")
    words = reg.array(b32, 2)
    ptx.inst.mov.b64(words, first)
    low, high = words[0].view(u32), words[1]
    if isinstance(stage, Reg):
        start = reg.scalar(u32)
        ptx.inst.mad.lo.u32(start, stage, stage_bytes // _UNIT, low)
    else:
        start = low + stage * stage_bytes // _UNIT if stage else low
    found = []
    for offset in offsets:
        step = start + offset // _UNIT if offset else start
        descriptor = reg.scalar(u64)
        ptx.inst.mov.b64(descriptor, [step.view(b32), high])
        found.append(descriptor)
    return found
