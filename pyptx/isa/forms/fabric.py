"""Fabric instructions: asynchronous copies, reductions and atomics through handles of logical endpoints."""

from ..rules import type_of_operation

TEXT = r"""
.cache = { .L2::cache_hint }
.op = { .add, .min, .max, .and, .or, .xor }
.dim = { .1d, .2d, .3d, .4d, .5d }
.load_mode = { .tile }
.cache iff cache-policy

[fabric.try_get] "Copy size bytes, a multiple of 16, from a fabric handle to shared memory; signals bytes on an mbarrier."
fabric.try_get.async.shared::cta.mbarrier::complete_tx::bytes.mbarrier::report::fabric.relaxed.sys{.cache}.b128
  [dst: addr shared], [src: u32 fabric, srcOffset: u64 reg], size: u32 reg imm 16..1048560/16, [mbar: addr shared] {, cache-policy: u64 reg};
  since 9.3 on sm_100+
  STRICTER ptxas takes a size that is no multiple of 16, which the manual leaves undefined
  see fabric-instructions-try-get

[fabric.try_put] "Copy size bytes, a multiple of 16, from shared memory to a fabric handle; signals every 16 bytes on an mbarrier."
fabric.try_put.async{.multimem}.shared::cta.mbarrier::complete_tx::16B.mbarrier::report::fabric{.cp_mask}.relaxed.sys{.cache}.b128
  [dst: u32 fabric, dstOffset: u64 reg], [src: addr shared], size: u32 reg imm 16..1048560/16, [mbar: addr shared] {, byteMask: b16 reg} {, cache-policy: u64 reg};
  .cp_mask iff byteMask
  since 9.3 on sm_100+
  STRICTER ptxas takes a size that is no multiple of 16, which the manual leaves undefined
  see fabric-instructions-try-put

[fabric.try_put.counted] "Copy size bytes from shared memory to a fabric handle, and count the bytes at the destination; signals every 16 bytes on an mbarrier."
fabric.try_put.async{.multimem}.shared::cta.mbarrier::complete_tx::16B.mbarrier::report::fabric.counted::bytes.relaxed.sys{.cache}.b128
  [dst: u32 fabric, dstOffset: u64 reg, dstCounter: u64 reg], [src: addr shared], size: u32 reg imm 16..1048560/16, [mbar: addr shared] {, cache-policy: u64 reg};
  since 9.3 on sm_100+
  STRICTER ptxas takes a size that is no multiple of 16, which the manual leaves undefined
  see fabric-instructions-try-put

[fabric.try_red] "Combine size bytes of shared memory with those behind a fabric handle; signals every 16 bytes on an mbarrier."
fabric.try_red.async{.multimem}.shared::cta.mbarrier::complete_tx::16B.mbarrier::report::fabric.relaxed.sys{.cache}.op.type
  [dst: u32 fabric, dstOffset: u64 reg], [src: addr shared], size: u32 reg imm 16..1048560/16, [mbar: addr shared] {, cache-policy: u64 reg};
  .op = { .and, .or, .xor, .min, .max, .add }
  .type = { .b32, .b64, .u32, .s32, .u64, .s64, .f16, .bf16, .f32, .f64 }
  since 9.3 on sm_100+
  check reduction
  STRICTER ptxas takes a size that is no multiple of 16, which the manual leaves undefined
  see fabric-instructions-try-red

[fabric.try_red.counted] "Combine size bytes of shared memory with those behind a fabric handle, and count the bytes at the destination; signals every 16 bytes on an mbarrier."
fabric.try_red.async{.multimem}.shared::cta.mbarrier::complete_tx::16B.mbarrier::report::fabric.counted::bytes.relaxed.sys{.cache}.op.type
  [dst: u32 fabric, dstOffset: u64 reg, dstCounter: u64 reg], [src: addr shared], size: u32 reg imm 16..1048560/16, [mbar: addr shared] {, cache-policy: u64 reg};
  .op = { .and, .or, .xor, .min, .max, .add }
  .type = { .b32, .b64, .u32, .s32, .u64, .s64, .f16, .bf16, .f32, .f64 }
  since 9.3 on sm_100+
  check reduction
  STRICTER ptxas takes a size that is no multiple of 16, which the manual leaves undefined
  see fabric-instructions-try-red

[fabric.try_pullred] "Combine the replicas behind a multicast fabric handle into shared memory; the whole warp takes part."
fabric.try_pullred.async.multimem.shared::cta.mbarrier::complete_tx::bytes.mbarrier::report::fabric.relaxed.sys.op.type.sync
  [dst: addr shared], [src: u32 fabric, srcOffset: u64 reg], size: u32 reg imm 16..1048560/16, [mbar: addr shared], membermask imm 4294967295..4294967295;
  .op = { .and, .or, .xor, .min, .max, .add }
  .type = { .b32, .b64, .u32, .s32, .u64, .s64, .f16, .bf16, .f32, .e4m3 on sm_100f sm_110f sm_120f, .e5m2 on sm_100f sm_110f sm_120f }
  since 9.3 on sm_100+
  check pulled_reduction
  STRICTER ptxas takes a size that is no multiple of 16, which the manual leaves undefined
  see fabric-instructions-try-pullred

[fabric.try_pullred.acc] "Add the replicas behind a multicast fabric handle with a wider accumulator."
fabric.try_pullred.async.multimem.shared::cta.mbarrier::complete_tx::bytes.mbarrier::report::fabric.relaxed.sys.add.acc.type.sync
  [dst: addr shared], [src: u32 fabric, srcOffset: u64 reg], size: u32 reg imm 16..1048560/16, [mbar: addr shared], membermask imm 4294967295..4294967295;
  .acc = { .acc::f16, .acc::f32 }
  .type = { .e4m3, .e5m2, .f16, .bf16 }
  since 9.3 on sm_100f sm_110f sm_120f
  check accumulator_is_wider
  STRICTER ptxas takes a size that is no multiple of 16, which the manual leaves undefined
  see fabric-instructions-try-pullred

[fabric.try_atom] "Read, combine and write back behind a fabric handle, as one atomic operation; the old values go to shared memory."
fabric.try_atom.async.shared::cta.mbarrier::complete_tx::16B.mbarrier::report::fabric.relaxed.sys.op.type
  [dst: u32 fabric, dstOffset: u64 reg], [old: addr shared], [src: addr shared], [mbar: addr shared];
  .op = { .and, .or, .xor, .min, .max, .add, .exch, .cas }
  .type = { .b32, .b64, .b128, .u32, .s32, .u64, .s64, .f16x2, .bf16x2, .f32, .f64 }
  since 9.4 on sm_100+
  check atomic
  see fabric-instructions-try-atom

[fabric.try_get.tensor] "Copy a box of a tensor, behind a fabric handle, to shared memory; signals bytes on an mbarrier."
fabric.try_get.async.tensor.dim.shared::cta{.load_mode}.mbarrier::complete_tx::bytes.mbarrier::report::fabric.relaxed.sys{.cache}.override::global_address.b128
  [dst: addr shared], [tensorMap: addr global, endpoint: u32 reg, offset: u64 reg, coords: s32 x .dim], [mbar: addr shared] {, cache-policy: u64 reg};
  since 9.4 on sm_107f
  MEASURED no manual has this syntax; only .tile mode is taken
  see fabric-instructions-try-get-async-tensor

family fabric.try_put.tensor
  since 9.4 on sm_107f
  see fabric-instructions-try-put-async-tensor

[fabric.try_put.tensor] "Copy shared memory to a box of a tensor, behind a fabric handle."
fabric.try_put.async.tensor{.multimem}.dim.shared::cta{.load_mode}.mbarrier::complete_tx::16B.mbarrier::report::fabric.relaxed.sys{.cache}.override::global_address.b128
  [tensorMap: addr global, endpoint: u32 reg, offset: u64 reg, coords: s32 x .dim], [src: addr shared], size: u32, [mbar: addr shared] {, cache-policy: u64 reg};
  MEASURED no manual has this syntax; only .tile mode is taken

[fabric.try_put.tensor.counted] "Copy shared memory to a box of a tensor, behind a fabric handle, and count the bytes at the destination."
fabric.try_put.async.tensor{.multimem}.dim.shared::cta{.load_mode}.mbarrier::complete_tx::16B.mbarrier::report::fabric.counted::bytes.relaxed.sys{.cache}.override::global_address.b128
  [tensorMap: addr global, endpoint: u32 reg, offset: u64 reg, counter: u64 reg, coords: s32 x .dim], [src: addr shared], size: u32, [mbar: addr shared] {, cache-policy: u64 reg};
  MEASURED no manual has this syntax; only .tile mode is taken

[fabric.try_put.tensor.dim] "Copy shared memory to a box of a vector whose size replaces the map's, behind a fabric handle."
fabric.try_put.async.tensor{.multimem}.1d.shared::cta{.load_mode}.mbarrier::complete_tx::16B.mbarrier::report::fabric.relaxed.sys{.cache}.override::global_address.override::global_dim.b128
  [tensorMap: addr global, endpoint: u32 reg, offset: u64 reg, size: b8|b16 x 1, coords: s32 x 1], [src: addr shared], size: u32, [mbar: addr shared] {, cache-policy: u64 reg};
  MEASURED no manual has this syntax; only .tile mode is taken

[fabric.try_put.tensor.dim.counted] "Copy shared memory to a box of a vector whose size replaces the map's, behind a fabric handle, and count the bytes at the destination."
fabric.try_put.async.tensor{.multimem}.1d.shared::cta{.load_mode}.mbarrier::complete_tx::16B.mbarrier::report::fabric.counted::bytes.relaxed.sys{.cache}.override::global_address.override::global_dim.b128
  [tensorMap: addr global, endpoint: u32 reg, offset: u64 reg, counter: u64 reg, size: b8|b16 x 1, coords: s32 x 1], [src: addr shared], size: u32, [mbar: addr shared] {, cache-policy: u64 reg};
  MEASURED no manual has this syntax; only .tile mode is taken

[fabric.try_put.tensor.dim_stride] "Copy shared memory to a box of a tensor whose sizes and strides replace the map's, behind a fabric handle."
fabric.try_put.async.tensor{.multimem}.dim.shared::cta{.load_mode}.mbarrier::complete_tx::16B.mbarrier::report::fabric.relaxed.sys{.cache}.override::global_address.override::global_dim_stride.b128
  [tensorMap: addr global, endpoint: u32 reg, offset: u64 reg, sizes: b8|b16 x .dim, lowerStrides: b32 x .dim-1 reg, upperStrides: b16 reg, coords: s32 x .dim], [src: addr shared], size: u32, [mbar: addr shared] {, cache-policy: u64 reg};
  .dim = { .2d, .3d, .4d, .5d }
  MEASURED no manual has this syntax; only .tile mode is taken

[fabric.try_put.tensor.dim_stride.counted] "Copy shared memory to a box of a tensor whose sizes and strides replace the map's, behind a fabric handle, and count the bytes at the destination."
fabric.try_put.async.tensor{.multimem}.dim.shared::cta{.load_mode}.mbarrier::complete_tx::16B.mbarrier::report::fabric.counted::bytes.relaxed.sys{.cache}.override::global_address.override::global_dim_stride.b128
  [tensorMap: addr global, endpoint: u32 reg, offset: u64 reg, counter: u64 reg, sizes: b8|b16 x .dim, lowerStrides: b32 x .dim-1 reg, upperStrides: b16 reg, coords: s32 x .dim], [src: addr shared], size: u32, [mbar: addr shared] {, cache-policy: u64 reg};
  .dim = { .2d, .3d, .4d, .5d }
  MEASURED no manual has this syntax; only .tile mode is taken

family fabric.try_red.tensor
  since 9.4 on sm_107f
  see fabric-instructions-try-red-async-tensor

[fabric.try_red.tensor] "Combine shared memory with a box of a tensor, behind a fabric handle."
fabric.try_red.async.tensor{.multimem}.dim.shared::cta{.load_mode}.mbarrier::complete_tx::16B.mbarrier::report::fabric.relaxed.sys{.cache}.override::global_address.op
  [tensorMap: addr global, endpoint: u32 reg, offset: u64 reg, coords: s32 x .dim], [src: addr shared], size: u32, [mbar: addr shared] {, cache-policy: u64 reg};
  MEASURED no manual has this syntax; only .tile mode is taken

[fabric.try_red.tensor.counted] "Combine shared memory with a box of a tensor, behind a fabric handle, and count the bytes at the destination."
fabric.try_red.async.tensor{.multimem}.dim.shared::cta{.load_mode}.mbarrier::complete_tx::16B.mbarrier::report::fabric.counted::bytes.relaxed.sys{.cache}.override::global_address.op
  [tensorMap: addr global, endpoint: u32 reg, offset: u64 reg, counter: u64 reg, coords: s32 x .dim], [src: addr shared], size: u32, [mbar: addr shared] {, cache-policy: u64 reg};
  MEASURED no manual has this syntax; only .tile mode is taken

[fabric.try_red.tensor.dim] "Combine shared memory with a box of a vector whose size replaces the map's, behind a fabric handle."
fabric.try_red.async.tensor{.multimem}.1d.shared::cta{.load_mode}.mbarrier::complete_tx::16B.mbarrier::report::fabric.relaxed.sys{.cache}.override::global_address.override::global_dim.op
  [tensorMap: addr global, endpoint: u32 reg, offset: u64 reg, size: b8|b16 x 1, coords: s32 x 1], [src: addr shared], size: u32, [mbar: addr shared] {, cache-policy: u64 reg};
  MEASURED no manual has this syntax; only .tile mode is taken

[fabric.try_red.tensor.dim.counted] "Combine shared memory with a box of a vector whose size replaces the map's, behind a fabric handle, and count the bytes at the destination."
fabric.try_red.async.tensor{.multimem}.1d.shared::cta{.load_mode}.mbarrier::complete_tx::16B.mbarrier::report::fabric.counted::bytes.relaxed.sys{.cache}.override::global_address.override::global_dim.op
  [tensorMap: addr global, endpoint: u32 reg, offset: u64 reg, counter: u64 reg, size: b8|b16 x 1, coords: s32 x 1], [src: addr shared], size: u32, [mbar: addr shared] {, cache-policy: u64 reg};
  MEASURED no manual has this syntax; only .tile mode is taken

[fabric.try_red.tensor.dim_stride] "Combine shared memory with a box of a tensor whose sizes and strides replace the map's, behind a fabric handle."
fabric.try_red.async.tensor{.multimem}.dim.shared::cta{.load_mode}.mbarrier::complete_tx::16B.mbarrier::report::fabric.relaxed.sys{.cache}.override::global_address.override::global_dim_stride.op
  [tensorMap: addr global, endpoint: u32 reg, offset: u64 reg, sizes: b8|b16 x .dim, lowerStrides: b32 x .dim-1 reg, upperStrides: b16 reg, coords: s32 x .dim], [src: addr shared], size: u32, [mbar: addr shared] {, cache-policy: u64 reg};
  .dim = { .2d, .3d, .4d, .5d }
  MEASURED no manual has this syntax; only .tile mode is taken

[fabric.try_red.tensor.dim_stride.counted] "Combine shared memory with a box of a tensor whose sizes and strides replace the map's, behind a fabric handle, and count the bytes at the destination."
fabric.try_red.async.tensor{.multimem}.dim.shared::cta{.load_mode}.mbarrier::complete_tx::16B.mbarrier::report::fabric.counted::bytes.relaxed.sys{.cache}.override::global_address.override::global_dim_stride.op
  [tensorMap: addr global, endpoint: u32 reg, offset: u64 reg, counter: u64 reg, sizes: b8|b16 x .dim, lowerStrides: b32 x .dim-1 reg, upperStrides: b16 reg, coords: s32 x .dim], [src: addr shared], size: u32, [mbar: addr shared] {, cache-policy: u64 reg};
  .dim = { .2d, .3d, .4d, .5d }
  MEASURED no manual has this syntax; only .tile mode is taken

end

[fabric.try_get.tensor.dim] "Copy a box of a vector whose size replaces the map's, behind a fabric handle, to shared memory; signals bytes on an mbarrier."
fabric.try_get.async.tensor.1d.shared::cta{.load_mode}.mbarrier::complete_tx::bytes.mbarrier::report::fabric.relaxed.sys{.cache}.override::global_address.override::global_dim.b128
  [dst: addr shared], [tensorMap: addr global, endpoint: u32 reg, offset: u64 reg, size: b8|b16 x 1, coords: s32 x 1], [mbar: addr shared] {, cache-policy: u64 reg};
  since 9.4 on sm_107f
  MEASURED no manual has this syntax; only .tile mode is taken
  see fabric-instructions-try-get-async-tensor

[fabric.try_get.tensor.dim_stride] "Copy a box of a tensor whose sizes and strides replace the map's, behind a fabric handle, to shared memory; signals bytes on an mbarrier."
fabric.try_get.async.tensor.dim.shared::cta{.load_mode}.mbarrier::complete_tx::bytes.mbarrier::report::fabric.relaxed.sys{.cache}.override::global_address.override::global_dim_stride.b128
  [dst: addr shared], [tensorMap: addr global, endpoint: u32 reg, offset: u64 reg, sizes: b8|b16 x .dim, lowerStrides: b32 x .dim-1 reg, upperStrides: b16 reg, coords: s32 x .dim], [mbar: addr shared] {, cache-policy: u64 reg};
  .dim = { .2d, .3d, .4d, .5d }
  since 9.4 on sm_107f
  MEASURED no manual has this syntax; only .tile mode is taken
  see fabric-instructions-try-get-async-tensor

[fabric.submit] "Submit the thread's fabric operations; with .op_restrict::fetching, only those that fetch data."
fabric.submit{.op_restrict::fetching};
  since 9.3 on sm_100+
  see fabric-instructions-submit

[fabric.wait] "Wait until the thread's submitted fabric operations have read their sources."
fabric.wait.sync_restrict::reads;
  since 9.3 on sm_100+
  see fabric-instructions-wait
"""

_BITS = ("b32", "b64")
_MINMAX = ("u32", "s32", "u64", "s64")
_REDUCTIONS = {
    **dict.fromkeys(("and", "or", "xor"), _BITS),
    **dict.fromkeys(("min", "max"), (*_MINMAX, "f16", "bf16")),
    "add": ("u32", "u64", "f16", "bf16", "f32", "f64"),
}
_PULLED = {
    **dict.fromkeys(("and", "or", "xor"), _BITS),
    **dict.fromkeys(("min", "max"), (*_MINMAX, "f16", "bf16", "e4m3", "e5m2")),
    "add": ("u32", "u64", "f16", "bf16", "f32"),
}
_ATOMICS = {
    **dict.fromkeys(("and", "or", "xor"), _BITS),
    **dict.fromkeys(("min", "max"), (*_MINMAX, "f16x2", "bf16x2")),
    "add": ("u32", "u64", "f16x2", "bf16x2", "f32", "f64"),
    **dict.fromkeys(("exch", "cas"), (*_BITS, "b128")),
}


def reduction(chosen: dict[str, str]) -> str | None:
    """Refuse types that a reduction does not have."""
    return type_of_operation(chosen, _REDUCTIONS)


def pulled_reduction(chosen: dict[str, str]) -> str | None:
    """Refuse types that fabric.try_pullred does not have for the operation."""
    return type_of_operation(chosen, _PULLED)


def atomic(chosen: dict[str, str]) -> str | None:
    """Refuse types that an atomic operation does not have."""
    return type_of_operation(chosen, _ATOMICS)


def accumulator_is_wider(chosen: dict[str, str]) -> str | None:
    """Refuse accumulators of 16 bits for elements of 16 bits."""
    if chosen["acc"] == "acc::f16" and chosen["type"] in ("f16", "bf16"):
        return f".acc::f16 is only allowed with .e4m3 and .e5m2, not with .{chosen['type']}"
    return None
