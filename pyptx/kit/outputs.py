"""What epilogues share: the types that they write, rounding to them, and waiting for staged boxes."""

from __future__ import annotations

from collections.abc import Sequence

from ..core.errors import SpecError
from ..core.types import ScalarType, b16, b32, bf16, e4m3, e5m2, f16, f32, s32
from ..dsl import Reg, RegArray, ptx, reg

__all__ = ["check_output", "pack", "rounded", "settle"]

#: Types that epilogues of 16 bits and more write.
WIDE = (f32, bf16, f16)
#: All types that an accumulator of f32 is rounded to; s32 is the accumulator of kind i8, stored as it is.
ALL = (*WIDE, e4m3, e5m2, s32)


def check_output(dtype: ScalarType, allowed: Sequence[ScalarType] = WIDE) -> None:
    """Raise :class:`SpecError` if epilogues cannot write the type. Records nothing."""
    if dtype not in allowed:
        raise SpecError(f"an epilogue can write {', '.join(map(str, allowed))}, not {dtype!r}")


def pack(packed: Reg, low: Reg, high: Reg, dtype: ScalarType) -> None:
    """Round two f32 values to a 16-bit type and pack them into 32 bits. Records one ``cvt.rn``."""
    convert = ptx.inst.cvt.rn.bf16x2.f32 if dtype is bf16 else ptx.inst.cvt.rn.f16x2.f32
    convert(packed, high, low)  # the first source is the upper half


def rounded(words: RegArray, dtype: ScalarType, *, out: RegArray | None = None) -> RegArray:
    """Round accumulators in b32 registers to an output type, packed into b32 registers.

    Records nothing for f32 and s32, one ``cvt.rn`` for two values of a 16-bit type, and for four values of
    an 8-bit type two ``cvt.rn.satfinite`` and a ``mov.b32``.  The number of values must fill the registers,
    which are new, or ``out``.
    """
    if dtype.nbytes == 4:
        return words
    values = words.view(f32)
    each = 4 // dtype.nbytes
    packed = out
    if packed is None:
        packed = reg.array(b32, len(values) // each)
    for i, word in enumerate(packed):
        if each == 2:
            pack(word, values[2 * i], values[2 * i + 1], dtype)
            continue
        convert = ptx.inst.cvt.rn.satfinite
        to = convert.e4m3x2.f32 if dtype is e4m3 else convert.e5m2x2.f32
        halves = [reg.scalar(b16), reg.scalar(b16)]
        for j, half in enumerate(halves):
            to(half, values[4 * i + 2 * j + 1], values[4 * i + 2 * j])
        ptx.inst.mov.b32(word, halves)
    return packed


def settle(leader: Reg, pending: int = 0) -> None:
    """Make all lanes wait until at most ``pending`` of the leader's stores still read shared memory.

    Records ``cp.async.bulk.wait_group.read`` under ``leader`` and ``bar.warp.sync``.
    """
    ptx.cp.async_.bulk.wait_group(pending, read=True, pred=leader)
    ptx.warp.sync()
