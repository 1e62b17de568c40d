"""Tile shapes of the attention kernel: what it takes by default, and which combinations are built."""

from __future__ import annotations

import math
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
DEFAULTS_8 = {128: Choice(96, 96, 3, True, lazy=4.0), 256: Choice(96, 96, 2, False, lazy=4.0)}
#: the same where blocks are worked on in two parts; what ``lazy`` is there follows from the block
IN_PARTS_8 = {128: Choice(192, 192, 2, False, resident=4)}
#: consumer warpgroups: registers of a thread of the producer's and of a consumer's warpgroup
REGISTERS = {1: (56, 256), 2: (24, 240), 3: (32, 160)}
#: the same in e4m3 with room for four loads of a warp that turns V, in the producer's warpgroup
REGISTERS_TO_TURN = {1: (56, 256), 2: (40, 232)}
HELD_TO_TURN = 200  # registers of tiles in a thread up to which ptxas spills none then
LARGEST = 448  # number of e4m3
LARGEST_POWER = 8  # exponentials in e4m3 are at most 2**8


def middle(block, depth):
    """Return how many keys of a block the first of its two parts has, a multiple of a product's."""
    return -(-block // (2 * depth)) * depth


def tuning(
    H, D, Hk, dtype, causal, window, block, consumers, staging, pingpong, lazy, pin, parts, resident, packed
):
    """Return what ``build_attention`` was given, with defaults for None, and the registers of the roles.

    The bounds of the mask are ``left`` and ``right``, as of :class:`pyptx.kit.KeyBlocks`.  Exponentials are
    times ``2 ** offset``; ``ahead`` is that of :meth:`pyptx.kit.TransposedOperand.turn`.  In parts of e4m3,
    ``lazy`` is by default as little as keeps the maximum of a row whose scores in a thread are all equal, so
    that parts of equal scores do not compute it again.

    Raises:
        SpecError: a combination that is not built.
    """
    narrow = dtype is e4m3
    defaults, in_parts = (DEFAULTS_8, IN_PARTS_8) if narrow else (DEFAULTS, IN_PARTS)
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
        parts = D in in_parts and not (pin or few)
    if parts and (pin or few):
        raise SpecError(
            f"parts with block = {block} and pin = {pin} in {dtype}: expected no pin, and more than {depth} "
            "keys"
        )
    chosen = in_parts.get(D, defaults[D]) if parts else defaults[D]
    block = block or (chosen.block if left is right is None else chosen.cut_block)
    consumers = consumers or chosen.consumers
    lazy = chosen.lazy if lazy is None and not (narrow and parts) else lazy
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
    resident, products = chosen.resident if resident is None else resident, D // depth
    if not 0 <= resident <= products or (narrow and resident and not (parts and resident == products)):
        raise SpecError(
            f"resident = {resident} in {dtype}: expected a number of products up to {products}, in e4m3 all "
            "or none, with parts"
        )
    offset = 0
    if narrow and parts:
        lazy = math.log2(middle(block, depth) // 4) if lazy is None else lazy
        offset = math.floor(math.log2(LARGEST) - lazy)
    elif narrow:
        offset = LARGEST_POWER - (lazy or 0)
    if 16 % packed:
        raise SpecError(f"pack with {packed} query heads for each K/V head: expected 1, 2, 4, 8 or 16")
    size = dtype.nbytes
    held = (4 * D + 4 * block + size * block) // 8 + 4 * resident  # O, scores, P and Q of a thread
    turns_fast = narrow and consumers in REGISTERS_TO_TURN and held <= HELD_TO_TURN
    producer_registers, consumer_registers = (REGISTERS_TO_TURN if turns_fast else REGISTERS)[consumers]
    return SimpleNamespace(
        block=block,
        consumers=consumers,
        pingpong=pingpong,
        lazy=lazy,
        offset=offset,
        ahead=4 if turns_fast else 1,
        pin=pin,
        parts=parts,
        resident=resident,
        left=left,
        right=right,
        packed=packed,
        producer_registers=producer_registers,
        consumer_registers=consumer_registers,
    )
