"""Operations on all replicas of a multicast address at once."""

from ...core.types import TYPES
from ..rules import vector_at_most_128_bits
from .bulk_copy import global_reduction as global_reduction

TEXT = r"""
.scope = { .cta, .cluster, .gpu, .sys }
.type = { .b32, .b64, .u32, .u64, .s32, .s64 }
.sem = { .relaxed, .release }
.space = { .global }
.op = { .min, .max, .add }
.acc = { .acc::f16 }
.vec = { .v2, .v4, .v8 }
.weak excludes .sem
see data-movement-and-conversion-instructions-<opcode>

[multimem.red.async] "Add b to all replicas of a multicast address asynchronously, with release order."
multimem.red.async.release.scope{.global}.add.type  [a: addr global], b: .type;
  .scope = { .gpu, .sys }
  .type = { .u32, .s32, .u64 }
  since 9.3 on sm_100+
  see parallel-synchronization-and-communication-instructions-multimem-red-async

[multimem.ld_reduce] "Load from all replicas of a multicast address and combine."
multimem.ld_reduce{.weak}{.sem.scope}{.space}.op.type  =d: .type, [a: addr global];
  .sem = { .relaxed, .acquire }
  .op = { .min, .max, .add, .and, .or, .xor }
  since 8.1 on sm_90+
  check multimem_operation

[multimem.ld_reduce.float] "Load floats from all replicas of a multicast address and combine."
multimem.ld_reduce{.weak}{.sem.scope}{.space}.op{.acc}{.vec}.type  =d: .type x .vec, [a: addr global];
  .sem = { .relaxed, .acquire }
  .acc = { .acc::f32 since 8.2 }
  .type = { .f16, .f16x2, .bf16, .bf16x2, .f32, .f64 }
  since 8.1 on sm_90+
  check multimem_float

[multimem.ld_reduce.fp8] "Load 8-bit floats from all replicas of a multicast address and combine."
multimem.ld_reduce{.weak}{.sem.scope}{.space}.op{.acc}.vec.type  =d: b8 x .vec, [a: addr global];
  .sem = { .relaxed, .acquire }
  .vec = { .v4, .v8 }
  .type = { .e5m2, .e4m3 }
  since 8.6 on sm_100f sm_110f sm_120a sm_121a
  check multimem_fp8

[multimem.ld_reduce.fp8x2] "Load pairs of 8-bit floats from all replicas of a multicast address and combine."
multimem.ld_reduce{.weak}{.sem.scope}{.space}.op{.acc}.vec.type  =d: b16 x .vec, [a: addr global];
  .sem = { .relaxed, .acquire }
  .type = { .e5m2x2, .e4m3x2 }
  since 8.6 on sm_100f sm_110f sm_120a sm_121a
  check multimem_fp8

[multimem.ld_reduce.fp8x4] "Load groups of four 8-bit floats from all replicas of a multicast address and combine."
multimem.ld_reduce{.weak}{.sem.scope}{.space}.op{.acc}{.vec}.type  =d: b32 x .vec, [a: addr global];
  .sem = { .relaxed, .acquire }
  .vec = { .v2, .v4 }
  .type = { .e5m2x4, .e4m3x4 }
  since 8.6 on sm_100f sm_110f sm_120a sm_121a
  check multimem_fp8

[multimem.st] "Store to all replicas of a multicast address."
multimem.st{.weak}{.sem.scope}{.space}.type  [a: addr global], b: .type;
  since 8.1 on sm_90+

[multimem.st.float] "Store floats to all replicas of a multicast address."
multimem.st{.weak}{.sem.scope}{.space}{.vec}.type  [a: addr global], b: .type x .vec reg;
  .type = { .f16, .f16x2, .bf16, .bf16x2, .f32, .f64 }
  since 8.1 on sm_90+
  check multimem_float

[multimem.st.fp8] "Store 8-bit floats to all replicas of a multicast address."
multimem.st{.weak}{.sem.scope}{.space}.vec.type  [a: addr global], b: b8 x .vec reg;
  .vec = { .v4, .v8 }
  .type = { .e5m2, .e4m3 }
  since 8.6 on sm_100f sm_110f sm_120a sm_121a

[multimem.st.fp8x2] "Store packs of 8-bit floats to all replicas of a multicast address."
multimem.st{.weak}{.sem.scope}{.space}.vec.type  [a: addr global], b: b16 x .vec reg;
  .type = { .e5m2x2, .e4m3x2 }
  since 8.6 on sm_100f sm_110f sm_120a sm_121a

[multimem.st.fp8x4] "Store packs of 8-bit floats to all replicas of a multicast address."
multimem.st{.weak}{.sem.scope}{.space}{.vec}.type  [a: addr global], b: b32 x .vec reg;
  .vec = { .v2, .v4 }
  .type = { .e5m2x4, .e4m3x4 }
  since 8.6 on sm_100f sm_110f sm_120a sm_121a

[multimem.red] "Combine b with all replicas of a multicast address."
multimem.red{.sem.scope}{.space}.op.type  [a: addr global], b: .type;
  .op = { .min, .max, .add, .and, .or, .xor }
  since 8.1 on sm_90+
  check multimem_operation

[multimem.red.float] "Combine floats with all replicas of a multicast address."
multimem.red{.sem.scope}{.space}.op{.vec}.type  [a: addr global], b: .type x .vec reg;
  .op = { .add, .min, .max }
  .type = { .f16, .f16x2, .bf16, .bf16x2, .f32, .f64 }
  since 8.1 on sm_90+
  check multimem_float_reduction

[multimem.st.async] "Store to all replicas of a multicast address asynchronously, with release order."
multimem.st.async.release.scope{.global}.type  [a: addr global], b: .type;
  .scope = { .gpu, .sys }
  .type = { .b8, .b16, .b32, .b64, .u8, .u16, .u32, .u64, .s8, .s16, .s32, .s64, .f32, .f64 }
  since 9.3 on sm_100+
  see data-movement-and-conversion-instructions-multimem-st-async

[multimem.cp.async.bulk] "Copy size bytes from shared memory to all replicas of a multicast address; completes through a bulk group."
multimem.cp.async.bulk{.weak}.global.shared::cta.bulk_group{.cp_mask}  [dstMem: addr global], [srcMem: addr shared], size: u32 reg imm 16..1048560/16 {, byteMask: u16};
  .weak since 9.3
  .cp_mask on sm_100+
  .cp_mask iff byteMask
  since 9.1 on sm_90+
  see data-movement-and-conversion-instructions-multimem-cp-async-bulk

[multimem.cp.async.bulk.relaxed] "Copy size bytes from shared memory to all replicas of a multicast address by strong accesses of 16 bytes; completes through a bulk group."
multimem.cp.async.bulk.relaxed.scope.global.shared::cta.bulk_group{.cp_mask}.b128  [dstMem: addr global], [srcMem: addr shared], size: u32 reg imm 16..1048560/16 {, byteMask: u16};
  .cp_mask on sm_100+
  .cp_mask iff byteMask
  since 9.3 on sm_90+
  see data-movement-and-conversion-instructions-multimem-cp-async-bulk

[multimem.cp.reduce.async.bulk] "Combine size bytes with all replicas of a multicast address; completes through a bulk group."
multimem.cp.reduce.async.bulk.global.shared::cta.bulk_group.op.type  [dstMem: addr global], [srcMem: addr shared], size: u32 reg imm 16..1048560/16;
  .op = { .and, .or, .xor, .add, .inc, .dec, .min, .max }
  .type = { .f16, .bf16, .b32, .u32, .s32, .b64, .u64, .s64, .f32, .f64 }
  since 9.1 on sm_90+
  check global_reduction
  see data-movement-and-conversion-instructions-multimem-cp-reduce-async-bulk

[multimem.cp.reduce.async.bulk.noftz] "Add floats to all replicas of a multicast address, keeping subnormal numbers."
multimem.cp.reduce.async.bulk.global.shared::cta.bulk_group.add.noftz.type  [dstMem: addr global], [srcMem: addr shared], size: u32 reg imm 16..1048560/16;
  .type = { .f16, .bf16, .f32 since 9.4 }
  since 9.1 on sm_90+
  see data-movement-and-conversion-instructions-multimem-cp-reduce-async-bulk

[multimem.cp.reduce.async.bulk.relaxed] "Combine size bytes with all replicas of a multicast address, with explicit order and scope."
multimem.cp.reduce.async.bulk.relaxed.scope.global.shared::cta.bulk_group.op.type  [dstMem: addr global], [srcMem: addr shared], size: u32 reg imm 16..1048560/16;
  .op = { .and, .or, .xor, .add, .inc, .dec, .min, .max }
  .type = { .f16, .bf16, .b32, .u32, .s32, .b64, .u64, .s64, .f32, .f64 }
  since 9.3 on sm_90+
  check global_reduction
  see data-movement-and-conversion-instructions-multimem-cp-reduce-async-bulk

[multimem.cp.reduce.async.bulk.noftz.relaxed] "Add floats to all replicas of a multicast address, keeping subnormal numbers, with explicit order and scope."
multimem.cp.reduce.async.bulk.relaxed.scope.global.shared::cta.bulk_group.add.noftz.type  [dstMem: addr global], [srcMem: addr shared], size: u32 reg imm 16..1048560/16;
  .type = { .f16, .bf16, .f32 since 9.4 }
  since 9.3 on sm_90+
  see data-movement-and-conversion-instructions-multimem-cp-reduce-async-bulk
"""


_BITWISE = ("and", "or", "xor")


def multimem_operation(chosen: dict[str, str]) -> str | None:
    """Refuse integer types that the operation does not have."""
    op, kind = chosen["op"], chosen["type"]
    if (op in _BITWISE) != (kind[0] == "b") or (op, kind) == ("add", "s64"):
        return f".{op} does not exist for .{kind}"
    return None


def multimem_float(chosen: dict[str, str]) -> str | None:
    """Refuse vectors, operations and accumulators that the element type does not have."""
    kind = chosen["type"]
    lanes = int(chosen["vec"][1:]) if "vec" in chosen else 1
    if kind == "f64" and lanes > 1:
        return "vectors of .f64 do not exist"
    if error := vector_at_most_128_bits(chosen):
        return error
    if TYPES[kind].bits == 16 and lanes == 1:
        return f".{kind} requires .v2, .v4 or .v8"
    if chosen.get("op") in ("min", "max"):
        if kind in ("f32", "f64"):
            return f".{chosen['op']} does not exist for .{kind}"
        if "acc" in chosen:
            return f".{chosen['acc']} is only allowed with .add, not with .{chosen['op']}"
    if "acc" in chosen and kind in ("f32", "f64"):
        return f".{chosen['acc']} is only allowed with 16-bit elements, not with .{kind}"
    return None


def multimem_float_reduction(chosen: dict[str, str]) -> str | None:
    """Check as :func:`multimem_float` does, and require vectors for min and max of packs."""
    if chosen["op"] in ("min", "max") and chosen["type"] in ("f16x2", "bf16x2") and "vec" not in chosen:
        return f".{chosen['op']} of .{chosen['type']} requires .v2 or .v4"
    return multimem_float(chosen)


def multimem_fp8(chosen: dict[str, str]) -> str | None:
    """Refuse an accumulator type for other operations than add."""
    if "acc" in chosen and chosen["op"] != "add":
        return f".{chosen['acc']} is only allowed with .add, not with .{chosen['op']}"
    return None
