"""tcgen05.mma: matrix multiplication by the fifth-generation tensor cores, with D in tensor memory.

Four instructions: dense, sparse (``.sp``), weight stationary (``.ws``) and both.  Each takes A from shared
memory (``ss``) or from tensor memory (``ts``); dense and sparse ones may scale blocks of A and B.
"""

from __future__ import annotations

from ..notation import Chosen
from .tcgen05 import some_register

__all__ = ["TEXT", "scale_fits_kind", "some_register"]

TEXT = r"""
.cta_group = { .cta_group::1, .cta_group::2 }
.kind = { .kind::f16, .kind::tf32, .kind::f8f6f4, .kind::i8 on sm_100a sm_110a, .kind::ti16 since 9.4 on sm_107f }
.collector_a = { .collector::a::fill, .collector::a::use, .collector::a::lastuse, .collector::a::discard }
.collector_b = { .collector::b::fill, .collector::b::use, .collector::b::lastuse, .collector::b::discard }
.collector = {
  .collector::b0::fill, .collector::b0::use, .collector::b0::lastuse, .collector::b0::discard,
  .collector::b1::fill, .collector::b1::use, .collector::b1::lastuse, .collector::b1::discard,
  .collector::b2::fill, .collector::b2::use, .collector::b2::lastuse, .collector::b2::discard,
  .collector::b3::fill, .collector::b3::use, .collector::b3::lastuse, .collector::b3::discard }
.scale = {
  .scale_vec::1X on sm_100a sm_103a sm_107a sm_110a, .scale_vec::2X on sm_100a sm_103a sm_107a sm_110a,
  .scale_vec::4X on sm_100a sm_103a sm_107a sm_110a, .block16 since 8.8, .block32 since 8.8 }
.kind::f8f6f4 excludes scale-input-d
.kind::i8 excludes .collector_b
.kind::i8 excludes scale-input-d
.kind::ti16 excludes scale-input-d

family tcgen05.mma
  see tcgen05-mma-instructions-mma

[tcgen05.mma.ss] "D = A*B + D, A and B from shared memory; asynchronous, issued by one thread."
tcgen05.mma.cta_group.kind{.collector_a}{.collector_b}
  [d-tmem: b32 tensor], a-desc: u64, b-desc: u64, idesc: u32 {, disable-output-lane: b32 x .cta_group*4}, !enable-input-d: pred {, scale-input-d imm 0..15};
  .collector_b since 9.4 on sm_107f
  since 8.6 on sm_100f sm_110f
  scale-input-d on sm_100f
  check operands some_register
  STRICTER ptxas takes a scale-input-d with kind::i8, and breaks off in code generation with kind::ti16

[tcgen05.mma.ts] "D = A*B + D, A in tensor memory, B from shared memory; .ashift moves the rows of A down by one."
tcgen05.mma.cta_group.kind{.ashift}{.collector_a}{.collector_b}
  [d-tmem: b32 tensor], [a-tmem: b32 tensor], b-desc: u64, idesc: u32 {, disable-output-lane: b32 x .cta_group*4}, !enable-input-d: pred {, scale-input-d imm 0..15};
  .collector_b since 9.4 on sm_107f
  .ashift excludes .collector::a::fill
  .ashift excludes .collector::a::use
  since 8.6 on sm_100f sm_110f
  scale-input-d on sm_100f
  check operands some_register

[tcgen05.mma.block_scale.ss] "D = (A*scale_A)*(B*scale_B) + D, one scale for each block of 16 or 32 elements along K; A and B from shared memory."
tcgen05.mma.cta_group.kind.block_scale{.scale}{.collector_a}{.collector_b}
  [d-tmem: b32 tensor], a-desc: u64, b-desc: u64, idesc: u32, [scale-A-tmem: b32 tensor], [scale-B-tmem: b32 tensor], !enable-input-d: pred;
  .kind = { .kind::mxf8f6f4, .kind::mxf4, .kind::mxf4nvf4 since 8.7 }
  .collector_b since 9.4 on sm_107f
  since 8.6 on sm_100f sm_110f
  check scale_fits_kind

[tcgen05.mma.block_scale.ts] "D = (A*scale_A)*(B*scale_B) + D, one scale for each block of 16 or 32 elements along K; A in tensor memory, B from shared memory."
tcgen05.mma.cta_group.kind.block_scale{.scale}{.collector_a}{.collector_b}
  [d-tmem: b32 tensor], [a-tmem: b32 tensor], b-desc: u64, idesc: u32, [scale-A-tmem: b32 tensor], [scale-B-tmem: b32 tensor], !enable-input-d: pred;
  .kind = { .kind::mxf8f6f4, .kind::mxf4, .kind::mxf4nvf4 since 8.7 }
  .collector_b since 9.4 on sm_107f
  since 8.6 on sm_100f sm_110f
  check scale_fits_kind

[tcgen05.mma.lut.ss] "D = A*B + D, B given as indices of 3 bits into a lookup table in tensor memory; A and the indices from shared memory."
tcgen05.mma.cta_group.kind.decompress::lut::b{.collector_a}{.collector_b}
  [d-tmem: b32 tensor], a-desc: u64, b-compressed-desc: u64, [b-decompress-metadata: b32 tensor], idesc: u32 {, disable-output-lane: b32 x .cta_group*4}, !enable-input-d: pred;
  .kind = { .kind::f8f6f4 }
  since 9.4 on sm_107f
  check operands some_register

[tcgen05.mma.lut.ts] "D = A*B + D, A in tensor memory, B given as indices of 3 bits into a lookup table in tensor memory."
tcgen05.mma.cta_group.kind.decompress::lut::b{.collector_a}{.collector_b}
  [d-tmem: b32 tensor], [a-tmem: b32 tensor], b-compressed-desc: u64, [b-decompress-metadata: b32 tensor], idesc: u32 {, disable-output-lane: b32 x .cta_group*4}, !enable-input-d: pred;
  .kind = { .kind::f8f6f4 }
  since 9.4 on sm_107f
  check operands some_register

[tcgen05.mma.lut.block_scale.ss] "D = (A*scale_A)*(B*scale_B) + D, A from shared memory, B given as indices of 3 bits into a lookup table in tensor memory."
tcgen05.mma.cta_group.kind.block_scale.decompress::lut::b{.scale}{.collector_a}{.collector_b}
  [d-tmem: b32 tensor], a-desc: u64, b-compressed-desc: u64, [b-decompress-metadata: b32 tensor], idesc: u32, [scale-A-tmem: b32 tensor], [scale-B-tmem: b32 tensor], !enable-input-d: pred;
  .kind = { .kind::mxf8f6f4 }
  .scale = { .scale_vec::1X on sm_107a, .block32 }
  since 9.4 on sm_107f
  MEASURED the manual has only .block32

[tcgen05.mma.lut.block_scale.ts] "D = (A*scale_A)*(B*scale_B) + D, A in tensor memory, B given as indices of 3 bits into a lookup table in tensor memory."
tcgen05.mma.cta_group.kind.block_scale.decompress::lut::b{.scale}{.collector_a}{.collector_b}
  [d-tmem: b32 tensor], [a-tmem: b32 tensor], b-compressed-desc: u64, [b-decompress-metadata: b32 tensor], idesc: u32, [scale-A-tmem: b32 tensor], [scale-B-tmem: b32 tensor], !enable-input-d: pred;
  .kind = { .kind::mxf8f6f4 }
  .scale = { .scale_vec::1X on sm_107a, .block32 }
  since 9.4 on sm_107f

end

[tcgen05.mma.sp.ss] "D = A*B + D, A sparse with its metadata in tensor memory; A and B from shared memory."
tcgen05.mma.sp.cta_group.kind{.collector_a}{.collector_b}
  [d-tmem: b32 tensor], a-desc: u64, b-desc: u64, [sp-meta-tmem: b32 tensor], idesc: u32 {, disable-output-lane: b32 x .cta_group*4}, !enable-input-d: pred {, scale-input-d imm 0..15};
  .collector_b since 9.4 on sm_107f
  since 8.6 on sm_100f sm_110f
  scale-input-d on sm_100f
  check operands some_register
  see tcgen05-mma-instructions-mma-sp

[tcgen05.mma.sp.ts] "D = A*B + D, A sparse, A and its metadata in tensor memory, B from shared memory; .ashift moves the rows of A down by one."
tcgen05.mma.sp.cta_group.kind{.ashift}{.collector_a}{.collector_b}
  [d-tmem: b32 tensor], [a-tmem: b32 tensor], b-desc: u64, [sp-meta-tmem: b32 tensor], idesc: u32 {, disable-output-lane: b32 x .cta_group*4}, !enable-input-d: pred {, scale-input-d imm 0..15};
  .collector_b since 9.4 on sm_107f
  .ashift excludes .collector::a::fill
  .ashift excludes .collector::a::use
  since 8.6 on sm_100f sm_110f
  scale-input-d on sm_100f
  check operands some_register
  see tcgen05-mma-instructions-mma-sp

[tcgen05.mma.sp.block_scale.ss] "D = (A*scale_A)*(B*scale_B) + D, A sparse with its metadata in tensor memory; A and B from shared memory."
tcgen05.mma.sp.cta_group.kind.block_scale{.scale}{.collector_a}{.collector_b}
  [d-tmem: b32 tensor], a-desc: u64, b-desc: u64, [sp-meta-tmem: b32 tensor], idesc: u32, [scale-A-tmem: b32 tensor], [scale-B-tmem: b32 tensor], !enable-input-d: pred;
  .kind = { .kind::mxf8f6f4, .kind::mxf4 on sm_100a sm_103a sm_107a sm_110a,
    .kind::mxf4nvf4 since 8.7 on sm_100a sm_103a sm_107a sm_110a }
  .collector_b since 9.4 on sm_107f
  since 8.6 on sm_100f sm_110f
  check scale_fits_kind
  see tcgen05-mma-instructions-mma-sp

[tcgen05.mma.sp.block_scale.ts] "D = (A*scale_A)*(B*scale_B) + D, A sparse, A and its metadata in tensor memory; B from shared memory."
tcgen05.mma.sp.cta_group.kind.block_scale{.scale}{.collector_a}{.collector_b}
  [d-tmem: b32 tensor], [a-tmem: b32 tensor], b-desc: u64, [sp-meta-tmem: b32 tensor], idesc: u32, [scale-A-tmem: b32 tensor], [scale-B-tmem: b32 tensor], !enable-input-d: pred;
  .kind = { .kind::mxf8f6f4, .kind::mxf4 on sm_100a sm_103a sm_107a sm_110a,
    .kind::mxf4nvf4 since 8.7 on sm_100a sm_103a sm_107a sm_110a }
  .collector_b since 9.4 on sm_107f
  since 8.6 on sm_100f sm_110f
  check scale_fits_kind
  see tcgen05-mma-instructions-mma-sp

[tcgen05.mma.ws.ss] "D = A*B + D with B kept in one of four collector buffers; A and B from shared memory."
tcgen05.mma.ws.cta_group.kind{.collector}
  [d-tmem: b32 tensor], a-desc: u64, b-desc: u64, idesc: u32, !enable-input-d: pred {, zero-column-mask-desc: u64};
  .cta_group = { .cta_group::1 }
  since 8.6 on sm_100f sm_110f
  see tcgen05-mma-instructions-mma-ws

[tcgen05.mma.ws.ts] "D = A*B + D with B kept in one of four collector buffers; A in tensor memory, B from shared memory."
tcgen05.mma.ws.cta_group.kind{.collector}
  [d-tmem: b32 tensor], [a-tmem: b32 tensor], b-desc: u64, idesc: u32, !enable-input-d: pred {, zero-column-mask-desc: u64};
  .cta_group = { .cta_group::1 }
  since 8.6 on sm_100f sm_110f
  see tcgen05-mma-instructions-mma-ws

[tcgen05.mma.ws.sp.ss] "D = A*B + D with B kept in one of four collector buffers, A sparse; A and B from shared memory."
tcgen05.mma.ws.sp.cta_group.kind{.collector}
  [d-tmem: b32 tensor], a-desc: u64, b-desc: u64, [sp-meta-tmem: b32 tensor], idesc: u32, !enable-input-d: pred {, zero-column-mask-desc: u64};
  .cta_group = { .cta_group::1 }
  since 8.6 on sm_100f sm_110f
  see tcgen05-mma-instructions-mma-ws-sp

[tcgen05.mma.ws.sp.ts] "D = A*B + D with B kept in one of four collector buffers, A sparse in tensor memory; B from shared memory."
tcgen05.mma.ws.sp.cta_group.kind{.collector}
  [d-tmem: b32 tensor], [a-tmem: b32 tensor], b-desc: u64, [sp-meta-tmem: b32 tensor], idesc: u32, !enable-input-d: pred {, zero-column-mask-desc: u64};
  .cta_group = { .cta_group::1 }
  since 8.6 on sm_100f sm_110f
  see tcgen05-mma-instructions-mma-ws-sp
"""

#: The block-size modifiers of each kind, with their older names; None stands for the kind's default.
_SCALES = {
    "kind::mxf8f6f4": (None, "scale_vec::1X", "block32"),
    "kind::mxf4": (None, "scale_vec::2X", "block32"),
    "kind::mxf4nvf4": ("scale_vec::2X", "scale_vec::4X", "block16", "block32"),
}


def scale_fits_kind(chosen: Chosen) -> str | None:
    """Refuse block sizes that the kind does not have."""
    kind, scale = chosen["kind"], chosen.get("scale")
    if scale in _SCALES[kind]:
        return None
    legal = ", ".join(f".{known}" for known in _SCALES[kind] if known)
    if scale is None:
        return f".{kind} has no default block size; expected one of {legal}"
    return f".{scale} does not exist for .{kind}; expected one of {legal}"
