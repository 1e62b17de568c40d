"""Bulk copies of the TMA engine, and the bulk groups through which bulk and tensor copies complete."""

from __future__ import annotations

from collections.abc import Mapping

from ...ir import Immediate, Operand
from ..rules import multicast_needs_cluster as multicast_needs_cluster
from ..rules import type_of_operation

TEXT = r"""
.completion = { .mbarrier::complete_tx::bytes }
.cache = { .L2::cache_hint }
.scope = { .cta, .cluster, .gpu, .sys }
.op = { .and, .or, .xor, .add, .inc, .dec, .min, .max }
.cache iff cache-policy

family cp.async.bulk
  .dst = { .shared::cta, .shared::cluster }
  .multicast = { .multicast::cluster }
  .sem = { .weak, .relaxed }
  .cp_mask iff byteMask
  see data-movement-and-conversion-instructions-cp-async-bulk

[cp.async.bulk.load] "Copy size bytes, a multiple of 16, from global to shared memory; signals bytes on an mbarrier."
cp.async.bulk.dst.global.completion{.multicast}{.cache}
  [dstMem: addr shared], [srcMem: addr global], size: u32 reg imm 16..1048560/16, [mbar: addr shared] {, ctaMask: u16 0..65535} {, cache-policy: u64};
  .dst = { .shared::cta since 8.6, .shared::cluster }
  .multicast iff ctaMask
  since 8.0 on sm_90+
  check multicast_needs_cluster

[cp.async.bulk.load.weak] "Copy size bytes from global to shared memory with weak order; signals bytes on an mbarrier."
cp.async.bulk.weak.dst.global.completion{.multicast}{.cache}
  [dstMem: addr shared], [srcMem: addr global], size: u32 reg imm 16..1048560/16, [mbar: addr shared] {, ctaMask: u16 0..65535} {, cache-policy: u64};
  .multicast iff ctaMask
  since 9.3 on sm_90+
  check multicast_needs_cluster

[cp.async.bulk.load.relaxed] "Copy size bytes from global to shared memory by strong accesses of 16 bytes; signals bytes on an mbarrier."
cp.async.bulk.relaxed.scope.dst.global.completion{.multicast}{.cache}.b128
  [dstMem: addr shared], [srcMem: addr global], size: u32 reg imm 16..1048560/16, [mbar: addr shared] {, ctaMask: u16 0..65535} {, cache-policy: u64};
  .dst = { .shared::cta, .shared::cluster on sm_90a sm_100f sm_110f }
  .multicast = { .multicast::cluster, .multicast::cluster::16b since 9.4 }
  .multicast iff ctaMask
  since 9.3 on sm_90+
  check multicast_needs_cluster

[cp.async.bulk.load.ignore_oob] "Copy size bytes to this CTA's shared memory; bytes at either end may lie outside the source's allocation."
cp.async.bulk{.weak}.shared::cta.global.completion{.cache}.ignore_oob
  [dstMem: addr shared], [srcMem: addr global], size: u32 reg imm 16..1048560/16, ignoreBytesLeft: u32 0..15, ignoreBytesRight: u32 0..15, [mbar: addr shared] {, cache-policy: u64};
  .weak since 9.3
  since 9.2 on sm_90+

[cp.async.bulk.load.relaxed.ignore_oob] "Copy size bytes to this CTA's shared memory by strong accesses of 16 bytes; bytes at either end may lie outside the source's allocation."
cp.async.bulk.relaxed.scope.shared::cta.global.completion{.cache}.ignore_oob.b128
  [dstMem: addr shared], [srcMem: addr global], size: u32 reg imm 16..1048560/16, ignoreBytesLeft: u32 0..15, ignoreBytesRight: u32 0..15, [mbar: addr shared] {, cache-policy: u64};
  since 9.3 on sm_90+

[cp.async.bulk.load.wide_multicast] "Copy size bytes from global memory to the shared memory of the CTAs in a mask of 16 or 32 bits."
cp.async.bulk{.weak}.shared::cluster.global.completion.multicast{.cache}
  [dstMem: addr shared], [srcMem: addr global], size: u32 reg imm 16..1048560/16, [mbar: addr shared], ctaMask: by {, cache-policy: u64};
  .multicast = { .multicast::cluster::16b, .multicast::cluster::32b on sm_107f }
  ctaMask by .multicast = { .multicast::cluster::16b u16, .multicast::cluster::32b u32 }
  since 9.4 on sm_90+
  check operands unsigned_mask

[cp.async.bulk.load.report] "Copy size bytes from global to shared memory and report on the mbarrier whether the data are valid."
cp.async.bulk{.weak}.dst.global.completion.report{.multicast}{.cache}
  [dstMem: addr shared], [srcMem: addr global], size: u32 reg imm 16..1048560/16, [mbar: addr shared] {, ctaMask: by} {, cache-policy: u64};
  .report = { .mbarrier::report::disabled, .mbarrier::report::validity::per_16bytes::80000000, .mbarrier::report::validity::per_16bytes::8000, .mbarrier::report::validity::per_16bytes::80, .mbarrier::report::validity::per_16bytes::8, .mbarrier::report::validity::per_element::ff }
  .multicast = { .multicast::cluster, .multicast::cluster::16b, .multicast::cluster::32b }
  ctaMask by .multicast = { .multicast::cluster|.multicast::cluster::16b u16, .multicast::cluster::32b u32 }
  .multicast iff ctaMask
  since 9.4 on sm_107f
  check multicast_needs_cluster
  check operands unsigned_mask

[cp.async.bulk.cluster] "Copy size bytes, a multiple of 16, to another CTA's shared memory; signals bytes on an mbarrier there."
cp.async.bulk.shared::cluster.shared::cta.completion
  [dstMem: addr shared], [srcMem: addr shared], size: u32 reg imm 16..1048560/16, [mbar: addr shared];
  since 8.0 on sm_90+

[cp.async.bulk.cluster.sem] "Copy size bytes to another CTA's shared memory with an explicit memory order; .relaxed takes .b128."
cp.async.bulk.sem{.scope}.shared::cluster.shared::cta.completion{.b128}
  [dstMem: addr shared], [srcMem: addr shared], size: u32 reg imm 16..1048560/16, [mbar: addr shared];
  .scope = { .cta, .cluster }
  .scope iff .relaxed
  .b128 iff .relaxed
  since 9.3 on sm_90+

[cp.async.bulk.store] "Copy size bytes, a multiple of 16, from shared to global memory; completes through a bulk group."
cp.async.bulk.global.shared::cta.bulk_group{.cache}{.cp_mask}
  [dstMem: addr global], [srcMem: addr shared], size: u32 reg imm 16..1048560/16 {, cache-policy: u64} {, byteMask: u16};
  .cp_mask since 8.6 on sm_100+
  since 8.0 on sm_90+

[cp.async.bulk.store.sem] "Copy size bytes from shared to global memory with an explicit memory order; .relaxed takes .b128."
cp.async.bulk.sem{.scope}.global.shared::cta.bulk_group{.cache}{.cp_mask}{.b128}
  [dstMem: addr global], [srcMem: addr shared], size: u32 reg imm 16..1048560/16 {, cache-policy: u64} {, byteMask: u16};
  .cp_mask on sm_100+
  .scope iff .relaxed
  .b128 iff .relaxed
  since 9.3 on sm_90+

end

[cp.async.bulk.prefetch] "Bring size bytes, a multiple of 16, from global memory into L2."
cp.async.bulk.prefetch.L2.global{.cache}  [srcMem: addr global], size: u32 reg imm 16..1048560/16 {, cache-policy: u64};
  since 8.0 on sm_90+
  see data-movement-and-conversion-instructions-cp-async-bulk-prefetch

[cp.async.bulk.prefetch.evict_last] "Bring size bytes from global memory into L2, to be evicted last."
cp.async.bulk.prefetch.L2.global.L2::evict_last  [srcMem: addr global], size: u32 reg imm 16..1048560/16;
  since 9.4 on sm_107f
  see data-movement-and-conversion-instructions-cp-async-bulk-prefetch

family cp.reduce.async.bulk
  .type = { .b32, .u32, .s32, .u64 }
  see data-movement-and-conversion-instructions-cp-reduce-async-bulk

[cp.reduce.async.bulk.cluster] "Combine size bytes with another CTA's shared memory; signals bytes on an mbarrier there."
cp.reduce.async.bulk.shared::cluster.shared::cta.completion.op.type
  [dstMem: addr shared], [srcMem: addr shared], size: u32 reg imm 16..1048560/16, [mbar: addr shared];
  since 8.0 on sm_90+
  check cluster_reduction

[cp.reduce.async.bulk.cluster.relaxed] "Combine size bytes with another CTA's shared memory, with explicit order and scope."
cp.reduce.async.bulk.relaxed.scope.shared::cluster.shared::cta.completion.op.type
  [dstMem: addr shared], [srcMem: addr shared], size: u32 reg imm 16..1048560/16, [mbar: addr shared];
  .scope = { .cta, .cluster }
  since 9.3 on sm_90+
  check cluster_reduction

[cp.reduce.async.bulk.global] "Combine size bytes with global memory; completes through a bulk group."
cp.reduce.async.bulk.global.shared::cta.bulk_group{.cache}.op.type
  [dstMem: addr global], [srcMem: addr shared], size: u32 reg imm 16..1048560/16 {, cache-policy: u64};
  .type = { .f16, .bf16, .b32, .u32, .s32, .b64, .u64, .s64, .f32, .f64 }
  since 8.0 on sm_90+
  check global_reduction

[cp.reduce.async.bulk.global.noftz] "Add 16-bit floats to global memory, keeping subnormal numbers."
cp.reduce.async.bulk.global.shared::cta.bulk_group{.cache}.add.noftz.type
  [dstMem: addr global], [srcMem: addr shared], size: u32 reg imm 16..1048560/16 {, cache-policy: u64};
  .type = { .f16, .bf16 }
  since 8.0 on sm_90+

[cp.reduce.async.bulk.global.noftz.f32] "Add f32 to global memory, keeping subnormal numbers."
cp.reduce.async.bulk.global.shared::cta.bulk_group{.cache}.add.noftz.f32  [dstMem: addr global], [srcMem: addr shared], size: u32 reg imm 16..1048560/16 {, cache-policy: u64};
  since 9.4 on sm_90+

[cp.reduce.async.bulk.global.relaxed] "Combine size bytes with global memory, with explicit order and scope."
cp.reduce.async.bulk.relaxed.scope.global.shared::cta.bulk_group{.cache}.op.type  [dstMem: addr global], [srcMem: addr shared], size: u32 reg imm 16..1048560/16 {, cache-policy: u64};
  .type = { .f16, .bf16, .b32, .u32, .s32, .b64, .u64, .s64, .f32, .f64 }
  since 9.3 on sm_90+
  check global_reduction

[cp.reduce.async.bulk.global.noftz.relaxed] "Add floats to global memory, keeping subnormal numbers, with explicit order and scope."
cp.reduce.async.bulk.relaxed.scope.global.shared::cta.bulk_group{.cache}.add.noftz.type  [dstMem: addr global], [srcMem: addr shared], size: u32 reg imm 16..1048560/16 {, cache-policy: u64};
  .type = { .f16, .bf16, .f32 since 9.4 }
  since 9.3 on sm_90+

end

[cp.async.bulk.commit_group] "Put the thread's uncommitted bulk operations into a group."
cp.async.bulk.commit_group;
  since 8.0 on sm_90+
  see data-movement-and-conversion-instructions-cp-async-bulk-commit-group

[cp.async.bulk.wait_group] "Wait until at most N of the thread's newest bulk groups are pending; with .read, only until their sources were read."
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


def cluster_reduction(chosen: dict[str, str]) -> str | None:
    """Refuse types that a reduction in another CTA's shared memory does not have."""
    return type_of_operation(chosen, _CLUSTER)


def global_reduction(chosen: dict[str, str]) -> str | None:
    """Refuse types that a reduction in global memory does not have."""
    return type_of_operation(chosen, _GLOBAL)


def unsigned_mask(operands: Mapping[str, Operand]) -> str | None:
    """Refuse a negative constant as the mask of CTAs."""
    given = operands.get("ctaMask")
    return (
        f"ctaMask is {given}; expected a number that is not negative"
        if isinstance(given, Immediate) and given.value < 0
        else None
    )
