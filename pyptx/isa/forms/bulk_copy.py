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

[cp.async.bulk.tensor.store] "Copy a box from shared memory to a tensor in global memory; completes through a bulk group."
cp.async.bulk.tensor.dim.global.shared::cta{.load_mode}.bulk_group{.cache}
  [tensorMap: addr global, coords: s32 x .dim], [srcMem: addr shared] {, cache-policy: b64};
  .dim = { .1d, .2d, .3d, .4d, .5d }
  .load_mode = { .tile }
  .cache = { .L2::cache_hint }
  .cache iff cache-policy
  since 8.0 on sm_90+
  see data-movement-and-conversion-instructions-cp-async-bulk-tensor

[cp.async.bulk.commit_group] "Put the thread's uncommitted bulk operations into a group."
cp.async.bulk.commit_group;
  since 8.0 on sm_90+
  see data-movement-and-conversion-instructions-cp-async-bulk-commit-group

[cp.async.bulk.wait_group] "Wait until at most N of the thread's newest bulk groups are pending; .read: only until sources were read."
cp.async.bulk.wait_group{.read}  N imm 0..8388607;
  since 8.0 on sm_90+
  see data-movement-and-conversion-instructions-cp-async-bulk-wait-group
"""


def own_cta_takes_no_multicast(chosen: dict[str, str]) -> str | None:
    """.shared::cta names this CTA's memory alone."""
    if chosen["dst"] == "shared::cta":
        if "multicast" in chosen:
            return ".multicast::cluster needs the destination .shared::cluster"
        if "cta_group" in chosen and chosen["cta_group"] == "cta_group::2":
            return ".cta_group::2 needs the destination .shared::cluster"
    return None
