"""Every kind of tcgen05.mma without scales: which types it multiplies, and what it adds them up in.

An instruction takes 32 bytes of K of each row: 8 elements of tf32, 16 of f16 and bf16, 32 of a byte.  The
types are in the instruction descriptor, the kind is in the instruction.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pyptx import InstructionDescriptor, b32, ptx, reg

from .matrices import bound, integers, lanes_of, normal, placed
from .product import product
from .stage import Case, cell, multiply, probe, store_registers


@probe
def mma_f16() -> Iterator[Case]:
    """kind::f16: products of f16 or of bf16, added up in f32.

    K = 64 is four instructions: the first overwrites D, the others add to it. The numbers are normal, so the
    result is within the bound of f32 sums, K * 2**-23 * (|A| @ |B|.T), of what float64 gives.
    """
    for element in ("f16", "bf16"):
        left, right = normal(1, 128, 64, element), normal(2, 64, 64, element)
        idesc = InstructionDescriptor("f16", 128, 64, element, element, "f32")
        yield product(element, idesc, left, right, bound=bound(left, right))


def _store_packed(t, D):
    """Two columns a register: what a 16-bit D is loaded with."""
    words = reg.array(b32, D.shape[1])
    ptx.tcgen05.ld(words, t.mine, pack=True)
    ptx.tcgen05.wait_ld()
    store_registers(t, D, words)


@probe
def mma_f16_d16() -> Iterator[Case]:
    """D of type f16: a cell for each element all the same, in its low half.

    So the epilogue loads with pack::16b, which puts two columns into one register. The numbers are chosen so
    that every sum is an f16. Kinds f16 (with f16 inputs) and f8f6f4 have it.
    """
    for kind, a, b, k in (("f16", "f16", "f16", 16), ("f8f6f4", "e4m3", "e5m2", 32)):
        left, right = integers(1, 128, k, a), integers(2, 64, k, b)
        idesc = InstructionDescriptor(kind, 128, 64, a, b, "f16")
        words = (left @ right.T).astype(np.float16).view(np.uint32)
        yield product(
            f"{a} x {b}", idesc, left, right, swizzles=("32B", "32B"), expected=words, store=_store_packed
        )


@probe
def mma_tf32() -> Iterator[Case]:
    """kind::tf32: f32 in memory, of which the tensor core takes 19 bits.

    An element is 32 bits, so one instruction takes 8 of K. The low 13 bits of the mantissa are ignored; the
    second case sets them all, and the product is the same.
    """
    left, right = normal(1, 128, 32, "tf32"), normal(2, 64, 32, "tf32")
    idesc = InstructionDescriptor("tf32", 128, 64, "tf32", "tf32", "f32")
    yield product("tf32", idesc, left, right, bound=bound(left, right))
    case = product("with low bits", idesc, left, right, bound=bound(left, right))
    case.inputs = tuple((x.view(np.uint32) | np.uint32(0x1FFF)).view(np.float32) for x in case.inputs)
    yield case


@probe
def mma_f8f6f4() -> Iterator[Case]:
    """kind::f8f6f4: any pair of e4m3, e5m2, e2m3, e3m2 and e2m1.

    Each element takes a byte of a row: 6 and 4 bits are packed by sixteens and padded to 16 bytes, as TMA's
    packed types write them, so K = 32 is 32 bytes for every type. The padding may hold anything; here it
    does.
    """
    types = ("e4m3", "e5m2", "e2m3", "e3m2", "e2m1")
    for a, b in [*zip(types, types, strict=True), ("e4m3", "e2m1"), ("e2m1", "e3m2"), ("e2m3", "e5m2")]:
        left, right = integers(1, 128, 64, a), integers(2, 64, 64, b)
        idesc = InstructionDescriptor("f8f6f4", 128, 64, a, b, "f32")
        yield product(f"{a} x {b}", idesc, left, right, swizzles=("64B", "32B"))


@probe
def mma_i8() -> Iterator[Case]:
    """kind::i8: bytes, signed or not, added up in s32, wrapping or saturating.

    The last two cases begin with an accumulator next to the greatest s32: without saturation positive
    sums wrap around to negative ones, with it they stop. sm_100 and sm_110 have this kind, sm_103 does not.
    """
    for a, b in (("s8", "s8"), ("u8", "s8"), ("u8", "u8")):
        left, right = integers(1, 128, 64, a), integers(2, 64, 64, b)
        idesc = InstructionDescriptor("i8", 128, 64, a, b, "s32")
        sums = (left @ right.T).astype(np.int32).view(np.uint32)
        yield product(f"{a} x {b}", idesc, left, right, swizzles=("64B", "64B"), expected=sums)
    for saturate in (False, True):
        left, right = integers(3, 128, 32, "u8"), integers(4, 64, 32, "s8")
        idesc = InstructionDescriptor("i8", 128, 64, "u8", "s8", "s32", saturate=saturate)
        before = np.full((128, 64), 2**31 - 100_000, np.uint32)
        sums = (left @ right.T).astype(np.int64) + before
        if saturate:
            sums = sums.clip(-(2**31), 2**31 - 1)
        yield product(
            "saturated" if saturate else "wrapped",
            idesc,
            left,
            right,
            swizzles=("32B", "32B"),
            before=before,
            expected=sums.astype(np.uint32),
            issue=lambda t, a, b, idesc=idesc: multiply(t.base, a, b, idesc, add=True),
        )


@probe
def mma_negate() -> Iterator[Case]:
    """negate_a and negate_b of the instruction descriptor: D = (-A) @ B.T without touching A.

    With both, the product is the positive one again. kind::i8 has no negation.
    """
    for negate_a, negate_b in ((True, False), (False, True), (True, True)):
        left, right = integers(1, 128, 32), integers(2, 64, 32)
        idesc = InstructionDescriptor(
            "f16", 128, 64, "f16", "f16", "f32", negate_a=negate_a, negate_b=negate_b
        )
        total = left @ right.T * (-1) ** (negate_a + negate_b)
        label = " and ".join(name for name, on in (("A", negate_a), ("B", negate_b)) if on)
        yield product(label, idesc, left, right, swizzles=("64B", "64B"), expected=total)


@probe
def mma_shapes() -> Iterator[Case]:
    """M and N: 64 rows with N in steps of 8, or 128 rows with N in steps of 16, up to 256.

    Row m, column n of D is lane m, column n for M = 128. With M = 64 the rows lie in 16 lanes of each
    quarter, row m in lane m % 16 + 32 * (m // 16), so that all four warps share the epilogue; the other lanes
    keep what they hold, and a second such accumulator fits there, at lane 16.
    """
    for m, n in ((64, 8), (64, 72), (64, 256), (128, 16), (128, 112), (128, 256)):
        left, right = integers(m, m, 32, "bf16"), integers(n, n, 32, "bf16")
        idesc = InstructionDescriptor("f16", m, n, "bf16", "bf16", "f32")
        yield product(f"{m} x {n}", idesc, left, right, swizzles=("64B", "64B"))


@probe
def mma_upper_half() -> Iterator[Case]:
    """M = 64 twice in the same columns: accumulators at lane 0 and at lane 16.

    Two products of the same A and B, the second negated, share 64 columns. They are different accumulators:
    nothing orders one behind the other, and nothing needs to.
    """
    left, right = integers(5, 64, 32), integers(6, 64, 32)
    plain = InstructionDescriptor("f16", 64, 64, "f16", "f16", "f32")
    negated = InstructionDescriptor("f16", 64, 64, "f16", "f16", "f32", negate_a=True)

    def issue(t, a, b):
        multiply(t.base, a, b, plain)
        multiply(cell(t, lane=16), a, b, negated)

    total = left @ right.T
    expected = placed(total)
    expected[lanes_of(64) + 16] = -total
    yield product("", plain, left, right, swizzles=("64B", "64B"), expected=expected, issue=issue)
