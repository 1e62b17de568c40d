"""Bulk and tensor copies of the TMA engine."""

TEXT = r"""
[cp.async.bulk.tensor.load] "Copy a box of a tensor in global memory to shared memory; signals bytes on an mbarrier."
cp.async.bulk.tensor.dim.dst.global{.load_mode}.completion{.multicast}{.cta_group}{.cache}
  [dstMem: addr shared], [tensorMap: addr global, coords: s32 x .dim], [mbar: addr shared] {, ctaMask: b16} {, cache-policy: b64};
  .dim = { .1d, .2d, .3d, .4d, .5d }
  .dst = { .shared::cta since 8.6, .shared::cluster }
  .load_mode = { .tile }
  .completion = { .mbarrier::complete_tx::bytes }
  .multicast = { .multicast::cluster }
  .cta_group = { .cta_group::1 since 8.6 on sm_100f sm_110f, .cta_group::2 since 8.6 on sm_100f sm_110f }
  .cache = { .L2::cache_hint }
  .multicast iff ctaMask
  .cache iff cache-policy
  since 8.0 on sm_90+
  check own_cta_takes_no_multicast
  see data-movement-and-conversion-instructions-cp-async-bulk-tensor

[cp.async.bulk.tensor.load.im2col] "Copy a box in im2col order to shared memory; signals bytes on an mbarrier."
cp.async.bulk.tensor.dim.dst.global.load_mode.completion{.multicast}{.cta_group}{.cache}
  [dstMem: addr shared], [tensorMap: addr global, coords: s32 x .dim], [mbar: addr shared], im2colInfo: u16 x .dim-2 {, ctaMask: b16} {, cache-policy: b64};
  .dim = { .3d, .4d, .5d }
  .dst = { .shared::cta since 8.6, .shared::cluster }
  .load_mode = { .im2col }
  .completion = { .mbarrier::complete_tx::bytes }
  .multicast = { .multicast::cluster }
  .cta_group = { .cta_group::1 since 8.6 on sm_100f sm_110f, .cta_group::2 since 8.6 on sm_100f sm_110f }
  .cache = { .L2::cache_hint }
  .multicast iff ctaMask
  .cache iff cache-policy
  since 8.0 on sm_90+
  check own_cta_takes_no_multicast
  see data-movement-and-conversion-instructions-cp-async-bulk-tensor

[cp.async.bulk.tensor.load.im2col_w] "Copy a box in im2col order along W to shared memory; im2colInfo is wHalo and wOffset."
cp.async.bulk.tensor.dim.dst.global.load_mode.completion{.multicast}{.cta_group}{.cache}
  [dstMem: addr shared], [tensorMap: addr global, coords: s32 x .dim], [mbar: addr shared], im2colInfo: u16 x 2 {, ctaMask: b16} {, cache-policy: b64};
  .dim = { .3d, .4d, .5d }
  .dst = { .shared::cta, .shared::cluster on sm_100f sm_110f }
  .load_mode = { .im2col::w, .im2col::w::128 on sm_100f sm_110f }
  .completion = { .mbarrier::complete_tx::bytes }
  .multicast = { .multicast::cluster }
  .cta_group = { .cta_group::1 on sm_100f sm_110f, .cta_group::2 on sm_100f sm_110f }
  .cache = { .L2::cache_hint }
  .multicast iff ctaMask
  .cache iff cache-policy
  since 8.6 on sm_100+
  check own_cta_takes_no_multicast
  see data-movement-and-conversion-instructions-cp-async-bulk-tensor

[cp.async.bulk.tensor.load.gather4] "Copy four rows of a matrix to shared memory: a column and four row numbers."
cp.async.bulk.tensor.2d.dst.global.tile::gather4.completion{.multicast}{.cta_group}{.cache}
  [dstMem: addr shared], [tensorMap: addr global, coords: s32 x 5], [mbar: addr shared] {, ctaMask: b16} {, cache-policy: b64};
  .dst = { .shared::cta, .shared::cluster on sm_100f sm_110f }
  .completion = { .mbarrier::complete_tx::bytes }
  .multicast = { .multicast::cluster }
  .cta_group = { .cta_group::1 on sm_100f sm_110f, .cta_group::2 on sm_100f sm_110f }
  .cache = { .L2::cache_hint }
  .multicast iff ctaMask
  .cache iff cache-policy
  since 8.6 on sm_100+
  check own_cta_takes_no_multicast
  see data-movement-and-conversion-instructions-cp-async-bulk-tensor

[cp.async.bulk.tensor.store] "Copy a box from shared memory to a tensor in global memory; completes through a bulk group."
cp.async.bulk.tensor.dim.global.shared::cta{.load_mode}.bulk_group{.cache}
  [tensorMap: addr global, coords: s32 x .dim], [srcMem: addr shared] {, cache-policy: b64};
  .dim = { .1d, .2d, .3d, .4d, .5d }
  .load_mode = { .tile }
  .cache = { .L2::cache_hint }
  .cache iff cache-policy
  since 8.0 on sm_90+
  see data-movement-and-conversion-instructions-cp-async-bulk-tensor

[cp.async.bulk.tensor.store.im2col] "Copy a box from shared memory to a tensor in im2col order without offsets."
cp.async.bulk.tensor.dim.global.shared::cta.im2col_no_offs.bulk_group{.cache}
  [tensorMap: addr global, coords: s32 x .dim], [srcMem: addr shared] {, cache-policy: b64};
  .dim = { .3d, .4d, .5d }
  .cache = { .L2::cache_hint }
  .cache iff cache-policy
  since 8.0 on sm_90+
  see data-movement-and-conversion-instructions-cp-async-bulk-tensor

[cp.async.bulk.tensor.store.scatter4] "Copy four rows from shared memory to a matrix: a column and four row numbers."
cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group{.cache}
  [tensorMap: addr global, coords: s32 x 5], [srcMem: addr shared] {, cache-policy: b64};
  .cache = { .L2::cache_hint }
  .cache iff cache-policy
  since 8.6 on sm_100f sm_110f
  see data-movement-and-conversion-instructions-cp-async-bulk-tensor

[cp.reduce.async.bulk.tensor] "Combine a box in shared memory with a tensor in global memory."
cp.reduce.async.bulk.tensor.dim.global.shared::cta.op{.load_mode}.bulk_group{.cache}
  [tensorMap: addr global, coords: s32 x .dim], [srcMem: addr shared] {, cache-policy: b64};
  .dim = { .1d, .2d, .3d, .4d, .5d }
  .op = { .add, .min, .max, .inc, .dec, .and, .or, .xor }
  .load_mode = { .tile, .im2col_no_offs }
  .cache = { .L2::cache_hint }
  .cache iff cache-policy
  since 8.0 on sm_90+
  check im2col_has_three_dimensions
  see data-movement-and-conversion-instructions-cp-reduce-async-bulk-tensor

[cp.async.bulk.prefetch.tensor] "Bring a box of a tensor into L2."
cp.async.bulk.prefetch.tensor.dim.L2.global{.load_mode}{.cache}  [tensorMap: addr global, coords: s32 x .dim] {, cache-policy: b64};
  .dim = { .1d, .2d, .3d, .4d, .5d }
  .load_mode = { .tile }
  .cache = { .L2::cache_hint }
  .cache iff cache-policy
  since 8.0 on sm_90+
  see data-movement-and-conversion-instructions-cp-async-bulk-prefetch-tensor

[cp.async.bulk.prefetch.tensor.im2col] "Bring a box of a tensor in im2col order into L2."
cp.async.bulk.prefetch.tensor.dim.L2.global.im2col{.cache}  [tensorMap: addr global, coords: s32 x .dim], im2colInfo: u16 x .dim-2 {, cache-policy: b64};
  .dim = { .3d, .4d, .5d }
  .cache = { .L2::cache_hint }
  .cache iff cache-policy
  since 8.0 on sm_90+
  see data-movement-and-conversion-instructions-cp-async-bulk-prefetch-tensor

[cp.async.bulk.prefetch.tensor.im2col_w] "Bring a box of a tensor in im2col order along W into L2."
cp.async.bulk.prefetch.tensor.dim.L2.global.load_mode{.cache}  [tensorMap: addr global, coords: s32 x .dim], im2colInfo: u16 x 2 {, cache-policy: b64};
  .dim = { .3d, .4d, .5d }
  .load_mode = { .im2col::w, .im2col::w::128 }
  .cache = { .L2::cache_hint }
  .cache iff cache-policy
  since 8.6 on sm_100f sm_110f
  see data-movement-and-conversion-instructions-cp-async-bulk-prefetch-tensor

[cp.async.bulk.prefetch.tensor.gather4] "Bring four rows of a matrix into L2."
cp.async.bulk.prefetch.tensor.2d.L2.global.tile::gather4{.cache}  [tensorMap: addr global, coords: s32 x 5] {, cache-policy: b64};
  .cache = { .L2::cache_hint }
  .cache iff cache-policy
  since 8.6 on sm_100f sm_110f
  see data-movement-and-conversion-instructions-cp-async-bulk-prefetch-tensor

[cp.async.bulk.load] "Copy size bytes, a multiple of 16, from global to shared memory; signals bytes on an mbarrier."
cp.async.bulk.dst.global.completion{.multicast}{.cache}
  [dstMem: addr shared], [srcMem: addr global], size: u32 reg imm 16..1048560/16, [mbar: addr shared] {, ctaMask: b16} {, cache-policy: b64};
  .dst = { .shared::cta since 8.6, .shared::cluster }
  .completion = { .mbarrier::complete_tx::bytes }
  .multicast = { .multicast::cluster }
  .cache = { .L2::cache_hint }
  .multicast iff ctaMask
  .cache iff cache-policy
  since 8.0 on sm_90+
  check own_cta_takes_no_multicast
  see data-movement-and-conversion-instructions-cp-async-bulk

[cp.async.bulk.cluster] "Copy size bytes, a multiple of 16, to another CTA's shared memory; signals bytes on an mbarrier there."
cp.async.bulk.shared::cluster.shared::cta.completion
  [dstMem: addr shared], [srcMem: addr shared], size: u32 reg imm 16..1048560/16, [mbar: addr shared];
  .completion = { .mbarrier::complete_tx::bytes }
  since 8.0 on sm_90+
  see data-movement-and-conversion-instructions-cp-async-bulk

[cp.async.bulk.store] "Copy size bytes, a multiple of 16, from shared to global memory; completes through a bulk group."
cp.async.bulk.global.shared::cta.bulk_group{.cache}{.cp_mask}
  [dstMem: addr global], [srcMem: addr shared], size: u32 reg imm 16..1048560/16 {, cache-policy: b64} {, byteMask: b16};
  .cache = { .L2::cache_hint }
  .cp_mask since 8.6 on sm_100+
  .cache iff cache-policy
  .cp_mask iff byteMask
  since 8.0 on sm_90+
  see data-movement-and-conversion-instructions-cp-async-bulk

[cp.async.bulk.prefetch] "Bring size bytes, a multiple of 16, of global memory into L2."
cp.async.bulk.prefetch.L2.global{.cache}  [srcMem: addr global], size: u32 reg imm 16..1048560/16 {, cache-policy: b64};
  .cache = { .L2::cache_hint }
  .cache iff cache-policy
  since 8.0 on sm_90+
  see data-movement-and-conversion-instructions-cp-async-bulk-prefetch

[cp.reduce.async.bulk.cluster] "Combine size bytes with another CTA's shared memory; signals bytes on an mbarrier there."
cp.reduce.async.bulk.shared::cluster.shared::cta.completion.op.type
  [dstMem: addr shared], [srcMem: addr shared], size: u32 reg imm 16..1048560/16, [mbar: addr shared];
  .completion = { .mbarrier::complete_tx::bytes }
  .op = { .and, .or, .xor, .add, .inc, .dec, .min, .max }
  .type = { .b32, .u32, .s32, .u64 }
  since 8.0 on sm_90+
  check cluster_reduction
  see data-movement-and-conversion-instructions-cp-reduce-async-bulk

[cp.reduce.async.bulk.global] "Combine size bytes with global memory; completes through a bulk group."
cp.reduce.async.bulk.global.shared::cta.bulk_group{.cache}.op.type
  [dstMem: addr global], [srcMem: addr shared], size: u32 reg imm 16..1048560/16 {, cache-policy: b64};
  .cache = { .L2::cache_hint }
  .op = { .and, .or, .xor, .add, .inc, .dec, .min, .max }
  .type = { .f16, .bf16, .b32, .u32, .s32, .b64, .u64, .s64, .f32, .f64 }
  .cache iff cache-policy
  since 8.0 on sm_90+
  check global_reduction
  see data-movement-and-conversion-instructions-cp-reduce-async-bulk

[cp.reduce.async.bulk.global.noftz] "Add 16-bit floats to global memory, keeping subnormals."
cp.reduce.async.bulk.global.shared::cta.bulk_group{.cache}.add.noftz.type
  [dstMem: addr global], [srcMem: addr shared], size: u32 reg imm 16..1048560/16 {, cache-policy: b64};
  .cache = { .L2::cache_hint }
  .type = { .f16, .bf16 }
  .cache iff cache-policy
  since 8.0 on sm_90+
  see data-movement-and-conversion-instructions-cp-reduce-async-bulk

[cp.async.bulk.commit_group] "Put the thread's uncommitted bulk operations into a group."
cp.async.bulk.commit_group;
  since 8.0 on sm_90+
  see data-movement-and-conversion-instructions-cp-async-bulk-commit-group

[cp.async.bulk.wait_group] "Wait until at most N of the thread's newest bulk groups are pending; .read: only until sources were read."
cp.async.bulk.wait_group{.read}  N imm 0..8388607;
  since 8.0 on sm_90+
  see data-movement-and-conversion-instructions-cp-async-bulk-wait-group
"""

_CLUSTER = {
    "and": ("b32",),
    "or": ("b32",),
    "xor": ("b32",),
    "add": ("u32", "s32", "u64"),
    "inc": ("u32",),
    "dec": ("u32",),
    "min": ("u32", "s32"),
    "max": ("u32", "s32"),
}
_GLOBAL = {
    "and": ("b32", "b64"),
    "or": ("b32", "b64"),
    "xor": ("b32", "b64"),
    "add": ("u32", "s32", "u64", "f32", "f64"),
    "inc": ("u32",),
    "dec": ("u32",),
    "min": ("u32", "s32", "u64", "s64", "f16", "bf16"),
    "max": ("u32", "s32", "u64", "s64", "f16", "bf16"),
}


def own_cta_takes_no_multicast(chosen: dict[str, str]) -> str | None:
    """.shared::cta names this CTA's memory alone."""
    if chosen["dst"] == "shared::cta":
        if "multicast" in chosen:
            return ".multicast::cluster needs the destination .shared::cluster"
        if "cta_group" in chosen and chosen["cta_group"] == "cta_group::2":
            return ".cta_group::2 needs the destination .shared::cluster"
    return None


def im2col_has_three_dimensions(chosen: dict[str, str]) -> str | None:
    if chosen.get("load_mode") == "im2col_no_offs" and chosen["dim"] in ("1d", "2d"):
        return f".im2col_no_offs needs .3d, .4d or .5d, not .{chosen['dim']}"
    return None


def _one_of(chosen: dict[str, str], table: dict[str, tuple[str, ...]]) -> str | None:
    legal = table[chosen["op"]]
    if chosen["type"] not in legal:
        return f".{chosen['op']} exists for {', '.join('.' + t for t in legal)}, not for .{chosen['type']}"
    return None


def cluster_reduction(chosen: dict[str, str]) -> str | None:
    return _one_of(chosen, _CLUSTER)


def global_reduction(chosen: dict[str, str]) -> str | None:
    return _one_of(chosen, _GLOBAL)
