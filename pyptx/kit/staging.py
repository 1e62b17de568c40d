"""The staging buffer of wgmma's epilogue: boxes of a warp's rows, between registers and the TMA engine."""

from __future__ import annotations

from ..core.errors import SpecError
from ..dsl import Buffer
from ..layout import SWIZZLE_BYTES

__all__ = ["ROWS", "check_staging"]

#: Rows of the accumulator that a warp holds, of a box, and of a warp's part of the staging buffer.
ROWS = 16

#: Bytes of a row of a box with the widest swizzle.
_SPAN = 128


def check_staging(staging: Buffer) -> int:
    """Return the bytes of a row of the staging buffer's boxes. Records nothing.

    Raises:
        SpecError: the buffer has no stages, or other rows than :data:`ROWS` of its swizzle's width a warp.
    """
    span = SWIZZLE_BYTES.get(staging.swizzle, 0) if staging.swizzle != "none" else 0
    chunk = (span or _SPAN) // staging.dtype.nbytes
    if (
        not span
        or staging.stages is None
        or len(staging.shape) != 2
        or staging.shape[1] != chunk
        or staging.shape[0] % ROWS
    ):
        raise SpecError(
            f"the staging buffer is {staging!r}: expected stages of {ROWS} rows of {chunk} {staging.dtype} "
            "for each warp, with a swizzle as wide as a row",
            hint=f"smem.alloc(({ROWS} * warps, {chunk}), dtype, swizzle='128B', stages=2)",
        )
    return span
