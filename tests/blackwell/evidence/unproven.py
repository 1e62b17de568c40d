"""The facts of our kernels that the committed table does not have, each with the reason why it should be right."""

from __future__ import annotations

from .facts import Fact

__all__ = ["REASONS"]

_NO_MASK = (
    "CuTe DSL always gives a mask of disabled lanes; the ISA makes the mask optional for every kind, and kind::f16 "
    "without it ran on a B200 in learn-cuda's v5"
)
_ONE_GROUP = (
    "an operand of 128 bytes along M or N is one group, so the leading offset, which leads to the next group, is not used; "
    "CuTe DSL has 0 there"
)
_POLICY = (
    "CuTe DSL has this mask in the same copy with a cache policy, for the same two pairs of CTAs; the policy is no part of "
    "the mask"
)
_WIDTH = (
    "the ISA allows every N that is a multiple of 16 up to 256; CuTe DSL multiplies f16 by pairs with this N, DeepGEMM scaled "
    "e4m3, and these types have their N of 256"
)

#: By fact. A test fails if one of them is proven, or if no kernel has it.
REASONS: dict[Fact, str] = {
    Fact.read(kind, text): reason
    for kind, text, reason in (
        (
            "copy",
            "cp.async.bulk.tensor.load; element f32; rank 2; row 128; swizzle 128B; begins 0",
            "an H200 loads f32 with this swizzle through a map of rank 3; CuTe DSL's map says tf32, which rounds, with rank 3",
        ),
        (
            "copy",
            "cp.async.bulk.tensor.load; element f32; rank 2; row 128; swizzle 128B_ATOM_32B; begins 0",
            "CuTe DSL has it for tf32 through a map of rank 3; the swizzle moves bytes, whatever their type is",
        ),
        (
            "copy",
            "cp.async.bulk.tensor.store; element u8; rank 2; row 64; swizzle 64B; begins 0",
            "bf16 in rows of 64 bytes with this swizzle is proven, and so is u8 with other ones: a store moves bytes",
        ),
        *(
            (
                "mma",
                f"tcgen05.mma.cta_group::{group}.kind::{kind}; shape {shape}; types {types}; majors {majors}; a shared memory",
                _WIDTH,
            )
            for group, kind, shape, types, majors in (
                (1, "f16", "128x192", "bf16 bf16 f32", "K K"),
                (2, "f16", "256x192", "bf16 bf16 f32", "K K"),
                (2, "f16", "256x192", "bf16 bf16 f32", "MN K"),
                (2, "tf32", "256x192", "tf32 tf32 f32", "K K"),
                (2, "f8f6f4", "256x192", "e4m3 e4m3 f32", "K K"),
                (2, "f8f6f4", "256x192", "e5m2 e5m2 f32", "K K"),
            )
        ),
        ("form", "tcgen05.mma.cta_group::2.kind::f8f6f4; form tcgen05.mma.ss", _NO_MASK),
        ("form", "tcgen05.mma.cta_group::2.kind::tf32; form tcgen05.mma.ss", _NO_MASK),
        (
            "operand",
            "first row in the pattern; swizzle 128B_ATOM_32B; row 0",
            "CuTe DSL's tiles happen to begin at rows 1 and 2; a tile at the start of the pattern is what the ISA describes",
        ),
        *(
            (
                "number",
                "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster.cta_group::2; "
                f"mask {mask}",
                _POLICY,
            )
            for mask in ("0b101", "0b1010")
        ),
        *(
            (
                "operand",
                f"tcgen05.mma.cta_group::2; side {side}; bits 8; major MN; swizzle 128B; leading 16384; stride 1024; base 0; step 0",
                _ONE_GROUP,
            )
            for side in "AB"
        ),
    )
}
