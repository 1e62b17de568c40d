"""Tile shapes of the attention kernel: what it takes by default, and which combinations are built."""

from __future__ import annotations

from types import SimpleNamespace

from pyptx import SpecError, bf16, e4m3, f16

ROWS = 64  # rows of Q in a warpgroup
#: head dim: rows of a block of keys (full; with a mask), consumer warpgroups, staging, ping-pong
DEFAULTS = {64: (128, 128, 3, "own", True), 128: (176, 128, 2, "own", True), 256: (80, 80, 2, "q", False)}
#: the same for e4m3, whose block is a multiple of 32
DEFAULTS_8 = {128: (192, 128, 2, "own", True), 256: (128, 128, 2, "own", False)}
#: consumer warpgroups: registers of a thread of the producer's and of a consumer's warpgroup
REGISTERS = {1: (56, 256), 2: (24, 240), 3: (32, 160)}
LARGEST_POWER = 8  # exponentials in e4m3 are at most 2**8; the largest number is 448


def tuning(H, D, Hk, dtype, causal, window, block, consumers, staging, pingpong, lazy, packed):
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
    full_block, cut_block, default_consumers, default_staging, default_pingpong = defaults[D]
    block = block or (full_block if left is right is None else cut_block)
    consumers = consumers or default_consumers
    staging = staging or default_staging
    if consumers not in REGISTERS:
        raise SpecError(f"consumers = {consumers}: expected 1, 2 or 3 warpgroups")
    pingpong = default_pingpong and consumers > 1 if pingpong is None else pingpong
    if pingpong and consumers == 1:
        raise SpecError("pingpong with one consumer warpgroup: there is no other to take turns with")
    depth = 32 // dtype.nbytes
    if block % depth or not depth <= block <= 256:
        raise SpecError(f"block = {block}: expected a multiple of {depth} keys, up to 256")
    if staging not in ("own", "q") or (narrow and staging == "q"):
        raise SpecError(f"staging is {staging!r}: expected 'own' or 'q', in e4m3 'own'")
    if narrow and lazy is not None and lazy > LARGEST_POWER:
        raise SpecError(f"lazy = {lazy}: expected at most {LARGEST_POWER} in e4m3")
    if 16 % packed:
        raise SpecError(f"pack with {packed} query heads for each K/V head: expected 1, 2, 4, 8 or 16")
    producer_registers, consumer_registers = REGISTERS[consumers]
    return SimpleNamespace(
        block=block,
        consumers=consumers,
        staging=staging,
        pingpong=pingpong,
        left=left,
        right=right,
        packed=packed,
        producer_registers=producer_registers,
        consumer_registers=consumer_registers,
    )
