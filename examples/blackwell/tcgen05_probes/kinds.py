"""Every kind of tcgen05.mma without scales: the types that it multiplies, and the type in which it adds.

One instruction takes 32 bytes along K of each row: 8 elements of tf32, 16 of f16 or bf16, or 32 elements of
one byte.  The instruction descriptor holds the types; the instruction itself names the kind.
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
    """kind::f16: products of f16 or bf16, added in f32.

    K = 64 needs four instructions: the first overwrites D, the other three add to it. The inputs are
    normally distributed, so f32 rounds the sums: the result may differ from the float64 result by the bound
    of f32 sums, K * 2**-23 * (|A| @ |B|.T).
    """
    for element in ("f16", "bf16"):
        left, right = normal(1, 128, 64, element), normal(2, 64, 64, element)
        idesc = InstructionDescriptor("f16", 128, 64, element, element, "f32")
        yield product(element, idesc, left, right, bound=bound(left, right))


def _store_packed(t, D):
    """Load a 16-bit D with pack::16b, two columns in each register, and store the registers."""
    words = reg.array(b32, D.shape[1])
    ptx.tcgen05.ld(words, t.mine, pack=True)
    ptx.tcgen05.wait_ld()
    store_registers(t, D, words)


@probe
def mma_f16_d16() -> Iterator[Case]:
    """D of type f16: each element still takes a whole 32-bit cell, and uses its low half.

    Therefore the epilogue loads with pack::16b, which puts two columns into one register. The inputs are such
    that f16 represents every sum exactly. Only kind::f16 (with f16 inputs) and kind::f8f6f4 can have an f16
    D.
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
    """kind::tf32: elements are f32 in memory, and the tensor core uses their upper 19 bits.

    An element has 32 bits, so one instruction takes 8 elements along K. The tensor core ignores the low 13
    bits of the mantissa: the second case sets all of them, and the product stays the same.
    """
    left, right = normal(1, 128, 32, "tf32"), normal(2, 64, 32, "tf32")
    idesc = InstructionDescriptor("tf32", 128, 64, "tf32", "tf32", "f32")
    yield product("tf32", idesc, left, right, bound=bound(left, right))
    case = product("with low bits", idesc, left, right, bound=bound(left, right))
    case.inputs = tuple((x.view(np.uint32) | np.uint32(0x1FFF)).view(np.float32) for x in case.inputs)
    yield case


@probe
def mma_f8f6f4() -> Iterator[Case]:
    """kind::f8f6f4: A and B can each have any of the types e4m3, e5m2, e2m3, e3m2 and e2m1.

    On average an element takes one byte of a row. For types of 6 and 4 bits, 16 elements are packed together
    and padded to 16 bytes, as TMA's packed types write them. So K = 32 is 32 bytes for every type. The
    padding may hold any bits: these cases fill it with 0xA5.
    """
    types = ("e4m3", "e5m2", "e2m3", "e3m2", "e2m1")
    for a, b in [*zip(types, types, strict=True), ("e4m3", "e2m1"), ("e2m1", "e3m2"), ("e2m3", "e5m2")]:
        left, right = integers(1, 128, 64, a), integers(2, 64, 64, b)
        idesc = InstructionDescriptor("f8f6f4", 128, 64, a, b, "f32")
        yield product(f"{a} x {b}", idesc, left, right, swizzles=("64B", "32B"))


@probe
def mma_i8() -> Iterator[Case]:
    """kind::i8: products of signed or unsigned bytes, added in s32, which wraps or saturates.

    The last two cases begin with an accumulator close to the largest s32. Without saturation, large sums wrap
    around to negative numbers; with saturation they stay at the largest s32. sm_100 and sm_110 have this
    kind, sm_103 does not.
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
    """negate_a and negate_b of the instruction descriptor: D = (-A) @ B.T without a change of A in memory.

    If both are set, the two signs cancel. kind::i8 has no negation.
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
    """M and N: M = 64 with N a multiple of 8, or M = 128 with N a multiple of 16; N is at most 256.

    With M = 128, element (m, n) of D is in lane m, column n. With M = 64, row m is in lane
    m % 16 + 32 * (m // 16): each quarter of the lanes holds 16 rows, so that all four warps share the
    epilogue. The other lanes keep their values; a second accumulator of 64 rows fits there, beginning at
    lane 16.
    """
    for m, n in ((64, 8), (64, 72), (64, 256), (128, 16), (128, 112), (128, 256)):
        left, right = integers(m, m, 32, "bf16"), integers(n, n, 32, "bf16")
        idesc = InstructionDescriptor("f16", m, n, "bf16", "bf16", "f32")
        yield product(f"{m} x {n}", idesc, left, right, swizzles=("64B", "64B"))


@probe
def mma_upper_half() -> Iterator[Case]:
    """Two accumulators with M = 64 in the same columns, at lane 0 and at lane 16.

    Two products of the same A and B, the second with A negated, share 64 columns. They use different
    accumulators: the hardware does not order the two products, and the kernel does not need an order.
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
