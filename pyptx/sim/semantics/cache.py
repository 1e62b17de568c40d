"""prefetch, applypriority, discard and createpolicy.

Caches change no values, so hints have no effect. A cache policy is a 64-bit number, as on an H200.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..code.semantic import Op, executes
from ..memory.access import AccessKind
from ..memory.address_space import CONST_WINDOW, PARAM_WINDOW
from ..threads.warp import Split

Array = NDArray[Any]

#: Bits 52 and up of a policy, as an H200 encodes them.
_KIND = 0x100
_OF_A_RANGE = 0x080
_PRIMARY = {
    "L2::evict_unchanged": 0x000,
    "L2::evict_first": 0x020,
    "L2::evict_last": 0x040,
    "L2::evict_normal": 0x060,
}
_SECONDARY = {"L2::evict_unchanged": 0x000, "L2::evict_first": 0x010}
#: A fraction is multiplied by this and cut to an integer of 4 bits: 1.0 becomes 15.
_STEPS = np.float32(15.99)
#: Up to this many units in the last place of f32 above a power of two, the logarithm is still the power's
#: (measured on an H200).
_LOST = 10


@executes(
    *(
        "prefetch",
        "prefetch.evict",
        "prefetch.valid_addr",
        "prefetchu",
        "applypriority",
    ),
    per="warp",
    team=True,
)
def hint(s: Split, op: Op, lanes: Array, address: Any, size: Any = None) -> None:
    """Do nothing: a hint to the cache changes nothing that a thread can observe."""
    return None


#: Generic addresses at which the spaces begin that a map may be in.
_WINDOWS = {"param": PARAM_WINDOW, "const": CONST_WINDOW}


@executes("prefetch.tensormap", per="warp")
def prefetch_map(s: Split, op: Op, lanes: Array, address: Array) -> None:
    """Bring tensor maps into the cache, which only a machine that keeps time has."""
    window = _WINDOWS.get(op.chosen.get("space", ""), 0)
    for each in np.unique(address).tolist():
        s.warp.cta.machine.fetch_map(s.warp.cta, window + each)


@executes("discard", per="warp", team=True)
def discard(s: Split, op: Op, lanes: Array, address: Array, size: Any) -> None:
    """Mark the bytes of the cache line as never written.

    Source: PTX ISA ``#data-movement-and-conversion-instructions-discard``.
    """
    nbytes = size.item()
    for _, segment, offsets in s.access(AccessKind.WRITE, op, lanes, address, nbytes, check_written=False):
        if segment.written is None:
            segment.written = np.ones(segment.size, np.uint8)
        segment.written[offsets[:, None] + np.arange(nbytes)] = 0


def _properties(op: Op) -> int:
    primary, secondary = op.chosen["primary"], op.chosen.get("secondary", "L2::evict_unchanged")
    return _KIND | _PRIMARY[primary] | _SECONDARY[secondary]


@executes("createpolicy.fractional")
def fractional(op: Op, fraction: Any = None) -> Any:
    share = np.float32(1) if fraction is None else np.asarray(fraction, np.float32)
    steps = np.clip(np.nan_to_num(share * _STEPS), 0, 0xFFFFFFFF).astype(np.uint64) & np.uint64(0xF)
    return (np.uint64(_properties(op)) | steps) << np.uint64(52)


@executes("createpolicy.range", per="warp", team=True)
def of_range(s: Split, op: Op, lanes: Array, address: Array, primary: Any, total: Any) -> Any:
    """Return, for each lane, the 64-bit L2 cache policy that ``createpolicy.range`` creates.

    The policy covers ``total`` bytes from ``address``, of which the first ``primary`` bytes get the primary
    priority. It stores the size of its blocks, the number of the first block, and the number of primary
    blocks. A block's size is a power of two, at least 4 KiB. A range of 0 bytes gives a policy without blocks
    and priorities.
    """
    base = address.astype(np.uint64)
    primary = np.broadcast_to(np.asarray(primary, np.uint64), base.shape)
    total = np.broadcast_to(np.asarray(total, np.uint32), base.shape)
    # At most 128 blocks cover the range. Their size comes from the next power of two above the range's size,
    # which the hardware computes as the logarithm of an f32 number.
    number = total.astype(np.float32).view(np.uint32)
    logarithm = (number >> 23).astype(np.int64) - 127 + ((number & 0x7FFFFF) > _LOST)
    shift = np.maximum(logarithm - 7, 12).astype(np.uint64)
    ones = (np.uint64(1) << shift) - np.uint64(1)
    first = base >> shift
    blocks = ((base + ((primary + ones) & np.uint64(0xFFFFFFFF))) >> shift) - first
    word = (
        np.uint64(_properties(op) | _OF_A_RANGE) | ((shift - np.uint64(12)) & np.uint64(0xF))
    ) << np.uint64(15)
    word |= (first & np.uint64(0x7F)) << np.uint64(7) | np.minimum(blocks, np.uint64(0x7F))
    return np.where(total == 0, np.uint64((_KIND | _OF_A_RANGE) << 52), word << np.uint64(37))


@executes("createpolicy.cvt")
def of_property(access_property: Any) -> Any:
    """Return the operand unchanged: an access property of the CUDA API already has the bits of a policy."""
    return access_property
