"""The options of ``gemm.py``: what they mean for threads and shared memory, which ones fit, and epilogues."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import NamedTuple

from pyptx import Layout, SpecError, Tile, bf16, e4m3, e5m2, f16, f32, kit, ptx, reg, tf32

SMS = 132  # of an H100 or H200
#: SMs that clusters of some sizes use at the same time, by cuOccupancyMaxActiveClusters on an H200: a cluster
#: lies in one GPC, and some GPCs have fewer SMs. A persistent kernel with one more cluster takes two rounds.
USABLE = {1: 132, 2: 132, 4: 120, 8: 120}
SPAN = 128  # bytes of K in a stage, the width of the swizzle
ROWS = 64  # rows of one wgmma
SHARED = 227 * 1024  # bytes of shared memory that a CTA may have
MOST_STAGES = 16  # of a ring: with small tiles so many keep as many bytes in flight as larger tiles do
#: What wgmma multiplies for each type of A and B. It reads tf32 from the upper bits of f32.
MULTIPLIED = {bf16: bf16, f16: f16, f32: tf32, e4m3: e4m3, e5m2: e5m2}
OUTPUTS = (f32, bf16, f16)
#: Registers of a thread, by the number of consumer warpgroups: of the producer and of the others. The SM has
#: 65,536. With one consumer warpgroup each thread can have as many as it wants.
REGISTERS = {2: (40, 232), 3: (32, 160)}
OTHERS = 28  # registers of a thread beside the accumulators, at least
#: L2 policies that keep operands, which CTAs share, and let go of D, which none reads.
HINTS = {"A": "evict_last", "B": "evict_last", "D": "evict_first"}
#: With one row of tiles all CTAs share A, and B is read once.
STREAM = {"A": "evict_last", "B": "evict_first"}
STREAMED_ROWS = 128  # up to so many memory is the bound: M rows have M FLOP for each byte of B in 16 bits
#: Layouts of D's boxes, by their bytes in a row.
BOXES = {128: Layout.TMA_128B, 64: Layout.TMA_64B, 32: Layout.TMA_32B}


class Epilogue(NamedTuple):
    """What the kernel does with sums before it rounds them.

    Attributes:
        apply: ``apply(values, row, column, *inputs)`` records on four f32 registers of a thread, which it
            changes in place: elements ``(row, column)``, ``(row, column + 1)`` and the same 8 rows below.
            Elements outside of D are computed too, and not stored: a load for them needs a guard.
        inputs: specs of further arguments of the kernel, the last ones before D.
    """

    apply: Callable
    inputs: tuple = ()


def add_bias(N, activation=None):
    """Return an epilogue that adds ``bias[N]`` in f32 to each row, then calls ``activation(value)``."""

    def apply(values, row, column, bias):
        pair = reg.array(f32, 2)
        for value in pair:
            value.set(0.0)
        # Columns come in pairs, and N is even: rows of D are multiples of 16 bytes.
        ptx.inst.ld.global_.nc.v2.f32(pair, bias.at(column), pred=column < N)
        for i, value in enumerate(values):
            ptx.inst.add.f32(value, value, pair[i & 1])
            if activation is not None:
                activation(value)

    return Epilogue(apply, (Tile(N, f32),))


def relu(value):
    """Record ``max(value, 0)`` in place; NaN becomes 0."""
    ptx.inst.max.f32(value, value, 0.0)


class Plan(NamedTuple):
    """The sizes that follow from the options: how a kernel uses threads and shared memory."""

    k: int  # elements of K in a stage
    warpgroups: int  # consumers
    blocks: int  # accumulators of 64 rows in each of them
    span: int  # bytes of a row of D's boxes
    stages: int
    staging: int  # stages of the staging buffer


def plan(
    a_type,
    out_type,
    tile,
    *,
    pingpong=False,
    warpgroups=None,
    stages=None,
    staging=None,
    split=1,
    deferred=False,
    beside=0,
    resident=1,
    sets=1,
    fixed=0,
):
    """Return the :class:`Plan` for a tile: as many stages as fit, and up to four for the staging of D.

    ``beside`` is what a stage has beside A and B, ``fixed`` what a CTA has beside the stages, in bytes;
    ``resident`` CTAs share an SM; a thread holds ``sets`` numbers for each number of D.

    Raises:
        SpecError: the tile does not fit the registers or the shared memory.
    """
    BM, BN = tile
    if BM % ROWS or not 0 < BM <= 256 or BN % 8 or not 0 < BN <= 256:
        raise SpecError(f"tile = {tile}: expected multiples of 64 x 8, up to 256 x 256")
    rows = BM // ROWS
    if warpgroups is None:
        warpgroups = 2 if pingpong else {1: 1, 2: 2, 3: 3, 4: 2}[rows]
    blocks = rows if pingpong else rows // warpgroups
    if (
        warpgroups not in (1, 2, 3)
        or (pingpong and warpgroups != 2)
        or blocks * warpgroups != rows * (warpgroups if pingpong else 1)
    ):
        raise SpecError(f"{warpgroups} warpgroups cannot share the {BM} rows of a tile evenly")
    accumulators = blocks * BN // 2
    held = accumulators // 2 if deferred else 0
    if held + accumulators > (192 if warpgroups < 3 else 96):
        raise SpecError(
            f"tile = {tile} needs {accumulators} registers of each thread for the accumulators"
            + f", and {held} for a tile whose store is deferred" * deferred
        )
    columns = BN // split
    span = next((n for n in BOXES if columns % (n // out_type.nbytes) == 0), None)
    if span is None or BN % split:
        raise SpecError(
            f"a CTA stores {columns} columns: expected a multiple of {32 // out_type.nbytes} of {out_type}"
        )
    boxes = columns * out_type.nbytes // span
    stage = (BM + BN) * SPAN + beside
    box_stage = 4 * warpgroups * kit.wgmma_epilogue.ROWS * span
    if resident not in (1, 2, 3, 4) or (resident > 1 and warpgroups > 1):
        raise SpecError(
            f"resident = {resident} with {warpgroups} consumer warpgroups: expected 1 to 4 CTAs on an SM, "
            "and one consumer warpgroup if several, since more ask for all of an SM's registers"
        )
    if resident > 1 and sets * accumulators + OTHERS > 65536 // (256 * resident):
        raise SpecError(
            f"tile = {tile}, {resident} on an SM: a thread has {65536 // (256 * resident)} registers, and "
            f"its accumulators take {sets * accumulators} of them"
        )
    # 2 KiB: barriers, alignment; beside each CTA the hardware keeps 1 KiB.
    room = (SHARED + 1024) // resident - 1024 - 2048 - fixed - (BM * BN * 4 if split > 1 else 0)
    least = 1 if staging is None else staging
    if stages is None:
        spare = 2 * box_stage if staging is None and boxes % 2 == 0 else least * box_stage
        stages = min(MOST_STAGES, (room - spare) // stage)
    if stages < 2 or stages * stage + least * box_stage > room:
        raise SpecError(
            f"{stages} stages of {stage} bytes and {least} of {box_stage} for D: expected 2 stages or more, "
            f"and at most {room} bytes"
        )
    if staging is None:
        fits = (room - stages * stage) // box_stage
        staging = max(n for n in range(1, 5) if boxes % n == 0 and n <= max(1, fits))
    if boxes % staging:
        raise SpecError(f"staging = {staging}: expected a divisor of the {boxes} boxes of a row of tiles")
    return Plan(SPAN // a_type.nbytes, warpgroups, blocks, span, stages, staging)


def policies(hints, streamed=False):
    """Return the L2 policy of each operand that has one.

    Args:
        hints: policies; True for :data:`HINTS`; None for :data:`STREAM` if B is ``streamed``, else for none.
        streamed: whether there is only one row of tiles, of at most :data:`STREAMED_ROWS` rows.
    """
    if hints is None and streamed:
        return STREAM
    return HINTS if hints is True else hints or {}


def usable_sms(ctas):
    """Return the number of SMs that clusters of ``ctas`` CTAs can use at the same time."""
    return USABLE.get(ctas, SMS - SMS % (8 * ctas))


def check(given):
    """Raise :class:`SpecError` for arguments of ``build_gemm`` that are out of range, by name."""
    for name, choices in (
        ("a_type", tuple(MULTIPLIED)),
        ("b_type", tuple(MULTIPLIED)),
        ("out_type", OUTPUTS),
        ("a_major", ("K", "MN")),
        ("b_major", ("K", "MN")),
        ("consumers", ("cooperative", "pingpong")),
    ):
        if given[name] not in choices:
            raise SpecError(f"{name} = {given[name]!r}: expected {' or '.join(map(repr, choices))}")
    for name in ("M", "N", "K", "batch", "split", "sms"):
        size = given[name]
        if (type(size) is not int or size < 1) and not (size is None and name in ("M", "batch", "sms")):
            raise SpecError(f"{name} = {size!r}: expected a positive whole number")
    if not set(policies(given["hints"])) <= set(HINTS):
        raise SpecError(f"hints = {given['hints']!r}: expected L2 policies of 'A', 'B' and 'D', or a bool")
    if not callable(given["order"]):
        raise SpecError(f"order = {given['order']!r}: expected a function of pyptx.kit.tile_order")
    a_type, b_type = given["a_type"], given["b_type"]
    if a_type is not b_type and not {a_type, b_type} <= {e4m3, e5m2}:
        raise SpecError(f"b_type = {b_type!r} with A of {a_type!r}: wgmma mixes only e4m3 and e5m2")
    out_bytes = given["N"] * given["out_type"].nbytes
    if out_bytes % 16:
        each = 16 // given["out_type"].nbytes
        raise SpecError(
            f"N = {given['N']}: rows of D have {out_bytes} bytes, and TMA needs a multiple of 16",
            hint=f"pad N to {-(-given['N'] // each) * each}",
        )
    (BM, BN), (CM, CN) = given["tile"], given["cluster"]
    for name, operand, share, major in (
        ("a_major", a_type, BM // CN, given["a_major"]),
        ("b_major", b_type, BN // CM, given["b_major"]),
    ):
        if major == "MN" and operand.nbytes != 2:
            raise SpecError(f"{name} = 'MN' with {operand!r}: wgmma reads only types of 16 bits MN-major")
        least = 64 if major == "MN" else 8
        if share % least or (BM % CN or BN % CM):
            raise SpecError(
                f"a CTA of the cluster {CM} x {CN} loads {share} rows of {name[0].upper()}: expected a "
                f"multiple of {least}"
            )
    if given["deferred"] and (
        given["consumers"] == "pingpong"
        or given["out_type"] is f32
        or given["split"] > 1
        or given["beta"] is not None
        or given["epilogue"] is not None
    ):
        raise SpecError(
            "deferred with ping-pong consumers, f32 out, split, beta or epilogue: the sums of a tile wait in "
            "registers as 16-bit numbers, which nothing changes any more"
        )
    if given.get("widths") is not None and (
        given["M"] is None
        or given["batch"] is not None
        or given["out_type"] is f32
        or given["split"] > 1
        or given["beta"] is not None
        or given["epilogue"] is not None
    ):
        raise SpecError(
            "widths with any M, batch, f32 out, split, beta or epilogue: tiles of two widths are laid out "
            "for one matrix, and their sums are stored as 16-bit numbers"
        )
    if given["split"] > 1:
        if given["consumers"] == "pingpong":
            raise SpecError("split with consumers='pingpong': a CTA has one tile, use 'cooperative'")
        if given["split"] > 16:
            raise SpecError(f"split = {given['split']}: a cluster has at most 16 CTAs, 8 of them portably")
    elif given["sms"] is not None and given["sms"] < CM * CN:
        raise SpecError(f"sms = {given['sms']}: a cluster has {CM * CN} CTAs")


def with_arguments(*names):
    """Give a kernel function that takes ``*arguments`` the parameters that its options ask for."""

    def decorate(function):
        @functools.wraps(function)
        def given(*arguments):
            function(*arguments)

        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        given.__signature__ = inspect.Signature([inspect.Parameter(name, kind) for name in names])
        return given

    return decorate
