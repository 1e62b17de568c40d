"""Tile shapes of the attention kernel: what it takes by default, and which combinations are built."""

from __future__ import annotations

from types import SimpleNamespace
from typing import NamedTuple

from pyptx import SpecError, bf16, e4m3, f16

ROWS = 64  # rows of Q in a warpgroup


class Choice(NamedTuple):
    """What an H200 was fastest with: see :func:`attention.build_attention` for the names.

    Attributes:
        block, cut_block: keys of a block, and where a mask cuts blocks.
    """

    block: int
    cut_block: int
    consumers: int
    pingpong: bool
    lazy: float | None = None
    pin: bool = False
    resident: int = 0


#: by head dim
DEFAULTS = {
    64: Choice(128, 128, 3, True, lazy=8.0, pin=True),
    128: Choice(160, 128, 2, True),
    256: Choice(64, 64, 2, False, lazy=8.0, resident=4),
}
#: the same where blocks are worked on in two parts, 16-bit types
IN_PARTS = {64: Choice(128, 128, 3, True, lazy=8.0), 128: Choice(128, 128, 2, False, lazy=8.0)}
#: the same for e4m3, whose block is a multiple of 32
DEFAULTS_8 = {128: Choice(192, 128, 2, True), 256: Choice(128, 128, 2, False)}
#: consumer warpgroups: registers of a thread of the producer's and of a consumer's warpgroup
REGISTERS = {1: (56, 256), 2: (24, 240), 3: (32, 160)}
LARGEST_POWER = 8  # exponentials in e4m3 are at most 2**8; the largest number is 448


def tuning(
    H, D, Hk, dtype, causal, window, block, consumers, staging, pingpong, lazy, pin, parts, resident, packed
):
    """Return what ``build_attention`` was given, with defaults for None, and the registers of the roles.

    The bounds of the mask are ``left`` and ``right``, as of :class:`pyptx.kit.KeyBlocks`.

    Raises:
        SpecError: a combination that is not built.
    """
    narrow = dtype is e4m3
    defaults = DEFAULTS_8 if narrow else DEFAULTS
    if dtype not in (bf16, f16, e4m3):
        raise SpecError(f"dtype is {dtype!r}: expected bf16, f16 or e4m3")
    if D not in defaults:
        raise SpecError(f"D = {D}: expected {', '.join(map(str, defaults))} in {dtype}")
    if min(H, Hk) < 1 or H % Hk:
        raise SpecError(f"H, Hk = {(H, Hk)}: expected positive numbers, Hk a divisor of H")
    left, right = window or (None, None)
    if causal:
        right = 0 if right is None else min(right, 0)
    depth = 32 // dtype.nbytes
    few = block is not None and block <= depth
    if parts is None:
        parts = D in IN_PARTS and not (narrow or pin or few)
    if parts and (narrow or pin or few):
        raise SpecError(
            f"parts with block = {block} and pin = {pin} in {dtype}: expected a 16-bit type, no pin, and "
            f"more than {depth} keys"
        )
    chosen = IN_PARTS.get(D, defaults[D]) if parts else defaults[D]
    block = block or (chosen.block if left is right is None else chosen.cut_block)
    consumers = consumers or chosen.consumers
    lazy = chosen.lazy if lazy is None else lazy
    pin = (chosen.pin and not parts) if pin is None else pin
    if consumers not in REGISTERS:
        raise SpecError(f"consumers = {consumers}: expected 1, 2 or 3 warpgroups")
    pingpong = chosen.pingpong and consumers > 1 if pingpong is None else pingpong
    if pingpong and consumers == 1:
        raise SpecError("pingpong with one consumer warpgroup: there is no other to take turns with")
    if block % depth or not depth <= block <= 256:
        raise SpecError(f"block = {block}: expected a multiple of {depth} keys, up to 256")
    if staging not in (None, "own", "q") or (narrow and staging == "q"):
        raise SpecError(f"staging is {staging!r}: expected 'own' or 'q', in e4m3 'own'")
    if narrow and lazy is not None and lazy > LARGEST_POWER:
        raise SpecError(f"lazy = {lazy}: expected at most {LARGEST_POWER} in e4m3")
    resident = (0 if narrow else chosen.resident) if resident is None else resident
    if not 0 <= resident <= D // 16 or (narrow and resident):
        raise SpecError(
            f"resident = {resident} in {dtype}: expected a number of products up to {D // 16}, in e4m3 none"
        )
    if 16 % packed:
        raise SpecError(f"pack with {packed} query heads for each K/V head: expected 1, 2, 4, 8 or 16")
    producer_registers, consumer_registers = REGISTERS[consumers]
    return SimpleNamespace(
        block=block,
        consumers=consumers,
        pingpong=pingpong,
        lazy=lazy,
        pin=pin,
        parts=parts,
        resident=resident,
        left=left,
        right=right,
        packed=packed,
        producer_registers=producer_registers,
        consumer_registers=consumer_registers,
    )
