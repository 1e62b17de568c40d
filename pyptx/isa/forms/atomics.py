"""Atomic operations and reductions on memory: atom, red, red.async."""

from ..rules import type_of_operation
from ..rules import vector_at_most_128_bits as vector_at_most_128_bits

TEXT = r"""
.sem = { .relaxed, .acquire, .release, .acq_rel }
.scope = { .cta, .cluster, .gpu, .sys }
.space = { .global }
.cache = { .L2::cache_hint }
.vec = { .v2, .v4 }
.cache iff cache-policy
see parallel-synchronization-and-communication-instructions-<opcode>

[atom] "Read memory, combine with b and write the result back, as one atomic operation; d is the old value."
atom{.sem}{.scope}{.space}.op{.cache}.type  =d: .type sink, [a: addr .space], b: .type {, cache-policy: u64 reg};
  .scope = { .cta, .cluster since 7.8 on sm_90+, .gpu, .sys }
  .space = { .global, .shared, .shared::cta since 7.8, .shared::cluster since 7.8 on sm_90+ }
  .op = { .and, .or, .xor, .exch, .add, .inc, .dec, .min, .max }
  .cache = { .L2::cache_hint since 7.4 on sm_80+ }
  .type = { .b32, .b64, .u32, .u64, .s32, .s64, .f32, .f64 }
  check operation

[atom.cas] "Write c if memory has the value b, as one atomic operation; d is the old value."
atom{.sem}{.scope}{.space}.cas.type  =d: .type sink, [a: addr .space], b: .type, c: .type;
  .scope = { .cta, .cluster since 7.8 on sm_90+, .gpu, .sys }
  .space = { .global, .shared, .shared::cta since 7.8, .shared::cluster since 7.8 on sm_90+ }
  .type = { .b16, .b32, .b64 }

[atom.cas.b128] "Write 16 bytes c if memory has the value b, as one atomic operation; d is the old value."
atom{.sem}{.scope}{.space}.cas.b128  =d: b128 sink, [a: addr .space], b: b128 reg, c: b128 reg;
  .scope = { .cta, .cluster, .gpu, .sys since 8.4 }
  .space = { .global, .shared, .shared::cta, .shared::cluster }
  since 8.3 on sm_90+

[atom.exch.b128] "Exchange 16 bytes of memory, as one atomic operation; d is the old value."
atom{.sem}{.scope}{.space}.exch{.cache}.b128  =d: b128 sink, [a: addr .space], b: b128 reg {, cache-policy: u64 reg};
  .scope = { .cta, .cluster, .gpu, .sys since 8.4 }
  .space = { .global, .shared, .shared::cta, .shared::cluster }
  since 8.3 on sm_90+
  check hint

[atom.add.noftz] "Add 16-bit floats to memory; each element is an atomic operation of its own; d is the old value."
atom{.sem}{.scope}{.space}.add.noftz{.cache}.type  =d: .type sink, [a: addr .space], b: .type reg {, cache-policy: u64 reg};
  .scope = { .cta, .cluster since 7.8 on sm_90+, .gpu, .sys }
  .space = { .global, .shared, .shared::cta since 7.8, .shared::cluster since 7.8 on sm_90+ }
  .cache = { .L2::cache_hint since 7.4 on sm_80+ }
  .type = { .f16, .f16x2, .bf16 since 7.8 on sm_90+, .bf16x2 since 7.8 on sm_90+ }
  check hint

[atom.add.noftz.f32] "Add an f32 to memory as one atomic operation, keeping subnormal numbers; d is the old value."
atom{.sem}{.scope}{.space}.add.noftz{.cache}.f32  =d: f32 sink, [a: addr .space], b: f32 {, cache-policy: u64 reg};
  .space = { .global, .shared, .shared::cta, .shared::cluster }
  since 9.4 on sm_90+
  check hint

[atom.add.vec] "Add a vector of f32 to memory; each element is an atomic operation of its own; d is the old value."
atom{.sem}{.scope}{.space}.add{.cache}.vec.f32  =d: f32 x .vec, [a: addr .space], b: f32 x .vec {, cache-policy: u64 reg};
  since 8.1 on sm_90+

[atom.add.vec.noftz] "Add a vector of f32 to memory, keeping subnormal numbers; d is the old value."
atom{.sem}{.scope}{.space}.add.noftz{.cache}.vec.f32  =d: f32 x .vec, [a: addr .space], b: f32 x .vec {, cache-policy: u64 reg};
  since 9.4 on sm_90+

[atom.noftz.vec] "Combine a vector of 16-bit floats with memory; each element is an atomic operation of its own; d is the old value."
atom{.sem}{.scope}{.space}.op.noftz{.cache}.vec.type  =d: .type x .vec, [a: addr .space], b: .type x .vec {, cache-policy: u64 reg};
  .op = { .add, .min, .max }
  .vec = { .v2, .v4, .v8 }
  .type = { .f16, .bf16, .f16x2, .bf16x2 }
  since 8.1 on sm_90+
  check vector_at_most_128_bits

[red] "Combine b with memory, as one atomic operation."
red{.sem}{.scope}{.space}.op{.cache}.type  [a: addr .space], b: .type {, cache-policy: u64 reg};
  .sem = { .relaxed, .release }
  .scope = { .cta, .cluster since 7.8 on sm_90+, .gpu, .sys }
  .space = { .global, .shared, .shared::cta since 7.8, .shared::cluster since 7.8 on sm_90+ }
  .op = { .and, .or, .xor, .add, .inc, .dec, .min, .max }
  .cache = { .L2::cache_hint since 7.4 on sm_80+ }
  .type = { .b32, .b64, .u32, .u64, .s32, .s64, .f32, .f64 }
  check operation

[red.add.noftz] "Add 16-bit floats to memory; each element is an atomic operation of its own."
red{.sem}{.scope}{.space}.add.noftz{.cache}.type  [a: addr .space], b: .type reg {, cache-policy: u64 reg};
  .sem = { .relaxed, .release }
  .scope = { .cta, .cluster since 7.8 on sm_90+, .gpu, .sys }
  .space = { .global, .shared, .shared::cta since 7.8, .shared::cluster since 7.8 on sm_90+ }
  .cache = { .L2::cache_hint since 7.4 on sm_80+ }
  .type = { .f16, .f16x2, .bf16 since 7.8 on sm_90+, .bf16x2 since 7.8 on sm_90+ }
  check hint

[red.add.noftz.f32] "Add an f32 to memory as one atomic operation, keeping subnormal numbers."
red{.sem}{.scope}{.space}.add.noftz{.cache}.f32  [a: addr .space], b: f32 {, cache-policy: u64 reg};
  .sem = { .relaxed, .release }
  .space = { .global, .shared, .shared::cta, .shared::cluster }
  since 9.4 on sm_90+
  check hint

[red.add.vec] "Add a vector of f32 to memory; each element is an atomic operation of its own."
red{.sem}{.scope}{.space}.add{.cache}.vec.f32  [a: addr .space], b: f32 x .vec {, cache-policy: u64 reg};
  .sem = { .relaxed, .release }
  since 8.1 on sm_90+

[red.add.vec.noftz] "Add a vector of f32 to memory, keeping subnormal numbers."
red{.sem}{.scope}{.space}.add.noftz{.cache}.vec.f32  [a: addr .space], b: f32 x .vec {, cache-policy: u64 reg};
  .sem = { .relaxed, .release }
  since 9.4 on sm_90+

[red.noftz.vec] "Combine a vector of 16-bit floats with memory; each element is an atomic operation of its own."
red{.sem}{.scope}{.space}.op.noftz{.cache}.vec.type  [a: addr .space], b: .type x .vec {, cache-policy: u64 reg};
  .sem = { .relaxed, .release }
  .op = { .add, .min, .max }
  .vec = { .v2, .v4, .v8 }
  .type = { .f16, .bf16, .f16x2, .bf16x2 }
  since 8.1 on sm_90+
  check vector_at_most_128_bits

[red.async] "Combine b with another CTA's shared memory, asynchronously; signals bytes on an mbarrier there."
red.async.relaxed.cluster{.shared::cluster}.completion.op.type  [a: addr shared::cluster], b: .type, [mbar: addr shared::cluster];
  .completion = { .mbarrier::complete_tx::bytes }
  .op = { .inc, .dec, .min, .max, .and, .or, .xor, .add }
  .type = { .b32, .u32, .s32, .u64 }
  since 8.1 on sm_90+
  check async_operation
  see parallel-synchronization-and-communication-instructions-red-async

[red.async.release] "Add b to global memory, asynchronously, with release order."
red.async{.mmio}.release.scope{.global}.add.type  [a: addr global], b: .type;
  .scope = { .gpu, .sys }
  .type = { .u32, .s32, .u64, .s64 }
  .mmio excludes .gpu
  since 8.7 on sm_100+
  see parallel-synchronization-and-communication-instructions-red-async
"""

_TYPES_OF = {
    "and": ("b32", "b64"),
    "or": ("b32", "b64"),
    "xor": ("b32", "b64"),
    "exch": ("b32", "b64"),
    "add": ("u32", "u64", "s32", "f32", "f64"),
    "inc": ("u32",),
    "dec": ("u32",),
    "min": ("u32", "u64", "s32", "s64"),
    "max": ("u32", "u64", "s32", "s64"),
}
_ASYNC_TYPES_OF = {
    **dict.fromkeys(("and", "or", "xor"), ("b32",)),
    **dict.fromkeys(("inc", "dec"), ("u32",)),
    **dict.fromkeys(("min", "max"), ("u32", "s32")),
    "add": ("u32", "s32", "u64"),
}


def hint(chosen: dict[str, str]) -> str | None:
    """Refuse .L2::cache_hint for other spaces than global (and generic): only global memory has an L2 cache."""
    if "cache" in chosen and chosen.get("space", "global") != "global":
        return f".L2::cache_hint is only allowed for global memory, not for .{chosen['space']}"
    return None


def operation(chosen: dict[str, str]) -> str | None:
    """Refuse types that the operation does not have, and cache hints outside global memory."""
    return type_of_operation(chosen, _TYPES_OF) or hint(chosen)


def async_operation(chosen: dict[str, str]) -> str | None:
    """Refuse types that the operation of red.async does not have."""
    return type_of_operation(chosen, _ASYNC_TYPES_OF)
