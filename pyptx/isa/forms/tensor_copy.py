"""Copies of tensor boxes by the TMA engine.

PTX 9.4 adds reports of invalid data, wide masks of CTAs, and operands that replace fields of the tensor map.
"""

from ..rules import multicast_needs_cluster as multicast_needs_cluster
from .bulk_copy import unsigned_mask as unsigned_mask

TEXT = r"""
.dim = { .3d, .4d, .5d }
.dst = { .shared::cta, .shared::cluster }
.load_mode = { .tile }
.completion = { .mbarrier::complete_tx::bytes }
.multicast = { .multicast::cluster, .multicast::cluster::16b, .multicast::cluster::32b }
.cta_group = { .cta_group::1, .cta_group::2 }
.cache = { .L2::cache_hint }
.op = { .add, .min, .max, .inc, .dec, .and, .or, .xor }
.report = { .mbarrier::report::disabled, .mbarrier::report::validity::per_16bytes::80000000, .mbarrier::report::validity::per_16bytes::8000, .mbarrier::report::validity::per_16bytes::80, .mbarrier::report::validity::per_16bytes::8, .mbarrier::report::validity::per_element::ff }
.priority = { .L2::cache_hint, .L2::evict_last }
ctaMask by .multicast = { .multicast::cluster|.multicast::cluster::16b u16, .multicast::cluster::32b u32 }
.cache iff cache-policy

family cp.async.bulk.tensor
  .cta_group = { .cta_group::1 since 8.6 on sm_100f sm_110f, .cta_group::2 since 8.6 on sm_100f sm_110f }
  .dst = { .shared::cta since 8.6, .shared::cluster }
  .multicast = { .multicast::cluster }
  .multicast iff ctaMask
  see data-movement-and-conversion-instructions-cp-async-bulk-tensor

[cp.async.bulk.tensor.load] "Copy a box of a tensor in global memory to shared memory; signals bytes on an mbarrier."
cp.async.bulk.tensor.dim.dst.global{.load_mode}.completion{.multicast}{.cta_group}{.cache}
  [dstMem: addr shared], [tensorMap: addr global, coords: s32 x .dim], [mbar: addr shared] {, ctaMask: u16 0..65535} {, cache-policy: u64};
  .dim = { .1d, .2d, .3d, .4d, .5d }
  since 8.0 on sm_90+
  check multicast_needs_cluster

[cp.async.bulk.tensor.load.im2col] "Copy a box in im2col order to shared memory; signals bytes on an mbarrier."
cp.async.bulk.tensor.dim.dst.global.load_mode.completion{.multicast}{.cta_group}{.cache}
  [dstMem: addr shared], [tensorMap: addr global, coords: s32 x .dim], [mbar: addr shared], im2colInfo: u16 x .dim-2 {, ctaMask: u16 0..65535} {, cache-policy: u64};
  .load_mode = { .im2col }
  since 8.0 on sm_90+
  check multicast_needs_cluster

[cp.async.bulk.tensor.load.im2col_w] "Copy a box in im2col order along W to shared memory; im2colInfo is wHalo and wOffset."
cp.async.bulk.tensor.dim.dst.global.load_mode.completion{.multicast}{.cta_group}{.cache}
  [dstMem: addr shared], [tensorMap: addr global, coords: s32 x .dim], [mbar: addr shared], im2colInfo: u16 x 2 {, ctaMask: u16 0..65535} {, cache-policy: u64};
  .dst = { .shared::cta, .shared::cluster on sm_100f sm_110f }
  .load_mode = { .im2col::w, .im2col::w::128 on sm_100f sm_110f }
  .cta_group = { .cta_group::1 on sm_100f sm_110f, .cta_group::2 on sm_100f sm_110f }
  since 8.6 on sm_100+
  check multicast_needs_cluster

[cp.async.bulk.tensor.load.gather4] "Copy four rows of a matrix to shared memory: a column and four row numbers."
cp.async.bulk.tensor.2d.dst.global.tile::gather4.completion{.multicast}{.cta_group}{.cache}
  [dstMem: addr shared], [tensorMap: addr global, coords: s32 x 5], [mbar: addr shared] {, ctaMask: u16 0..65535} {, cache-policy: u64};
  .dst = { .shared::cta, .shared::cluster on sm_100f sm_110f }
  .cta_group = { .cta_group::1 on sm_100f sm_110f, .cta_group::2 on sm_100f sm_110f }
  since 8.6 on sm_100+
  check multicast_needs_cluster

[cp.async.bulk.tensor.store] "Copy a box from shared memory to a tensor in global memory; completes through a bulk group."
cp.async.bulk.tensor.dim.global.shared::cta{.load_mode}.bulk_group{.cache}
  [tensorMap: addr global, coords: s32 x .dim], [srcMem: addr shared] {, cache-policy: u64};
  .dim = { .1d, .2d, .3d, .4d, .5d }
  since 8.0 on sm_90+

[cp.async.bulk.tensor.store.im2col] "Copy a box from shared memory to a tensor in im2col order without offsets."
cp.async.bulk.tensor.dim.global.shared::cta.im2col_no_offs.bulk_group{.cache}
  [tensorMap: addr global, coords: s32 x .dim], [srcMem: addr shared] {, cache-policy: u64};
  since 8.0 on sm_90+

[cp.async.bulk.tensor.store.scatter4] "Copy four rows from shared memory to a matrix: a column and four row numbers."
cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group{.cache}
  [tensorMap: addr global, coords: s32 x 5], [srcMem: addr shared] {, cache-policy: u64};
  since 8.6 on sm_100f sm_110f

family cp.async.bulk.tensor.load
  .multicast iff ctaMask
  since 9.4 on sm_107f
  check multicast_needs_cluster
  check operands unsigned_mask
  see data-movement-and-conversion-instructions-cp-async-bulk-tensor

[cp.async.bulk.tensor.load.report] "Copy a box to shared memory, and report on the mbarrier whether the data are valid."
cp.async.bulk.tensor.dim.dst.global{.load_mode}.completion.report{.multicast}{.cta_group}{.cache}
  [dstMem: addr shared], [tensorMap: addr global, coords: s32 x .dim], [mbar: addr shared] {, ctaMask: by} {, cache-policy: u64};
  .dim = { .1d, .2d, .3d, .4d, .5d }

[cp.async.bulk.tensor.load.im2col.report] "Copy a box in im2col order to shared memory, and report on the mbarrier whether the data are valid."
cp.async.bulk.tensor.dim.dst.global.im2col.completion.report{.multicast}{.cta_group}{.cache}
  [dstMem: addr shared], [tensorMap: addr global, coords: s32 x .dim], [mbar: addr shared], im2colInfo: u16 x .dim-2 {, ctaMask: by} {, cache-policy: u64};

[cp.async.bulk.tensor.load.im2col_w.report] "Copy a box in im2col order along W to shared memory, and report on the mbarrier whether the data are valid."
cp.async.bulk.tensor.dim.dst.global.load_mode.completion.report{.multicast}{.cta_group}{.cache}
  [dstMem: addr shared], [tensorMap: addr global, coords: s32 x .dim], [mbar: addr shared], im2colInfo: u16 x 2 {, ctaMask: by} {, cache-policy: u64};
  .load_mode = { .im2col::w, .im2col::w::128 }

[cp.async.bulk.tensor.load.gather4.report] "Copy four rows of a matrix to shared memory, and report on the mbarrier whether the data are valid."
cp.async.bulk.tensor.2d.dst.global.tile::gather4.completion.report{.multicast}{.cta_group}{.cache}
  [dstMem: addr shared], [tensorMap: addr global, coords: s32 x 5], [mbar: addr shared] {, ctaMask: by} {, cache-policy: u64};

family cp.async.bulk.tensor.load.wide_multicast
  .cta_group = { .cta_group::1 on sm_100f sm_110f, .cta_group::2 on sm_100f sm_110f }
  .multicast = { .multicast::cluster::16b, .multicast::cluster::32b on sm_107f }
  check operands unsigned_mask
  see data-movement-and-conversion-instructions-cp-async-bulk-tensor

[cp.async.bulk.tensor.load.wide_multicast] "Copy a box to the shared memory of the CTAs in a mask of 16 or 32 bits."
cp.async.bulk.tensor.dim.shared::cluster.global{.load_mode}.completion.multicast{.cta_group}{.cache}
  [dstMem: addr shared], [tensorMap: addr global, coords: s32 x .dim], [mbar: addr shared], ctaMask: by {, cache-policy: u64};
  .dim = { .1d, .2d, .3d, .4d, .5d }
  since 9.4 on sm_90+

[cp.async.bulk.tensor.load.im2col.wide_multicast] "Copy a box in im2col order to the shared memory of the CTAs in a mask of 16 or 32 bits."
cp.async.bulk.tensor.dim.shared::cluster.global.im2col.completion.multicast{.cta_group}{.cache}
  [dstMem: addr shared], [tensorMap: addr global, coords: s32 x .dim], [mbar: addr shared], im2colInfo: u16 x .dim-2, ctaMask: by {, cache-policy: u64};
  since 9.4 on sm_90+

[cp.async.bulk.tensor.load.im2col_w.wide_multicast] "Copy a box in im2col order along W to the shared memory of the CTAs in a mask of 16 or 32 bits."
cp.async.bulk.tensor.dim.shared::cluster.global.load_mode.completion.multicast{.cta_group}{.cache}
  [dstMem: addr shared], [tensorMap: addr global, coords: s32 x .dim], [mbar: addr shared], im2colInfo: u16 x 2, ctaMask: by {, cache-policy: u64};
  .load_mode = { .im2col::w, .im2col::w::128 }
  since 9.4 on sm_100f sm_110f

[cp.async.bulk.tensor.load.gather4.wide_multicast] "Copy four rows of a matrix to the shared memory of the CTAs in a mask of 16 or 32 bits."
cp.async.bulk.tensor.2d.shared::cluster.global.tile::gather4.completion.multicast{.cta_group}{.cache}
  [dstMem: addr shared], [tensorMap: addr global, coords: s32 x 5], [mbar: addr shared], ctaMask: by {, cache-policy: u64};
  since 9.4 on sm_100f sm_110f

family cp.async.bulk.tensor.load.override
  .multicast iff ctaMask
  since 9.4 on sm_107f
  check multicast_needs_cluster
  check operands unsigned_mask
  see data-movement-and-conversion-instructions-cp-async-bulk-tensor

[cp.async.bulk.tensor.load.override] "Copy a box to shared memory at an address that replaces the map's."
cp.async.bulk.tensor.dim.dst.global{.load_mode}.completion{.report}{.multicast}{.cta_group}{.cache}.override::global_address
  [dstMem: addr shared], [tensorMap: addr global, gAddr: u64 reg, coords: s32 x .dim], [mbar: addr shared] {, ctaMask: by} {, cache-policy: u64};
  .dim = { .1d, .2d, .3d, .4d, .5d }

[cp.async.bulk.tensor.load.im2col.override] "Copy a box in im2col order to shared memory at an address that replaces the map's."
cp.async.bulk.tensor.dim.dst.global.im2col.completion{.report}{.multicast}{.cta_group}{.cache}.override::global_address
  [dstMem: addr shared], [tensorMap: addr global, gAddr: u64 reg, coords: s32 x .dim], [mbar: addr shared], im2colInfo: u16 x .dim-2 {, ctaMask: by} {, cache-policy: u64};

[cp.async.bulk.tensor.load.im2col_w.override] "Copy a box in im2col order along W to shared memory at an address that replaces the map's."
cp.async.bulk.tensor.dim.dst.global.load_mode.completion{.report}{.multicast}{.cta_group}{.cache}.override::global_address
  [dstMem: addr shared], [tensorMap: addr global, gAddr: u64 reg, coords: s32 x .dim], [mbar: addr shared], im2colInfo: u16 x 2 {, ctaMask: by} {, cache-policy: u64};
  .load_mode = { .im2col::w, .im2col::w::128 }

[cp.async.bulk.tensor.load.gather4.override] "Copy four rows of a matrix to shared memory at an address that replaces the map's."
cp.async.bulk.tensor.2d.dst.global.tile::gather4.completion{.report}{.multicast}{.cta_group}{.cache}.override::global_address
  [dstMem: addr shared], [tensorMap: addr global, gAddr: u64 reg, coords: s32 x 5], [mbar: addr shared] {, ctaMask: by} {, cache-policy: u64};

family cp.async.bulk.tensor.load.override_dim
  .multicast = { .multicast::cluster::32b }
  .multicast iff ctaMask
  since 9.4 on sm_107f
  see data-movement-and-conversion-instructions-cp-async-bulk-tensor

[cp.async.bulk.tensor.load.override_dim] "Copy a box of a vector to shared memory with an address and a size that replace the map's."
cp.async.bulk.tensor.1d.dst.global{.load_mode}.completion{.report}{.multicast}{.cta_group}{.cache}.override::global_address.override::global_dim
  [dstMem: addr shared], [tensorMap: addr global, gAddr: u64 reg, size: b8|b16 x 1, coords: s32 x 1 reg imm 0..0], [mbar: addr shared] {, ctaMask: u32 0..4294967295} {, cache-policy: u64};
  check multicast_needs_cluster

[cp.async.bulk.tensor.load.override_dim_stride] "Copy a box to shared memory with address, sizes and strides that replace the map's."
cp.async.bulk.tensor.dim.dst.global{.load_mode}.completion{.report}{.multicast}{.cta_group}{.cache}.override::global_address.override::global_dim_stride
  [dstMem: addr shared], [tensorMap: addr global, gAddr: u64 reg, sizes: b8|b16 x .dim, lowerStrides: b32 x .dim-1 reg, upperStrides: b16 reg, coords: s32 x .dim reg imm 0..0], [mbar: addr shared] {, ctaMask: u32 0..4294967295} {, cache-policy: u64};
  .dim = { .2d, .3d, .4d, .5d }
  check multicast_needs_cluster

[cp.async.bulk.tensor.store.override] "Copy a box from shared memory to a tensor at an address that replaces the map's."
cp.async.bulk.tensor.dim.global.shared::cta{.load_mode}.bulk_group{.cache}.override::global_address
  [tensorMap: addr global, gAddr: u64 reg, coords: s32 x .dim], [srcMem: addr shared] {, cache-policy: u64};
  .dim = { .1d, .2d, .3d, .4d, .5d }

[cp.async.bulk.tensor.store.im2col_no_offs_w] "Copy a box from shared memory to a tensor in im2col order along W."
cp.async.bulk.tensor.dim.global.shared::cta.im2col_no_offs::w.bulk_group{.cache}
  [tensorMap: addr global, coords: s32 x .dim], [srcMem: addr shared] {, cache-policy: u64};

[cp.async.bulk.tensor.store.im2col.override] "Copy a box in im2col order from shared memory to a tensor at an address that replaces the map's."
cp.async.bulk.tensor.dim.global.shared::cta.load_mode.bulk_group{.cache}.override::global_address
  [tensorMap: addr global, gAddr: u64 reg, coords: s32 x .dim], [srcMem: addr shared] {, cache-policy: u64};
  .load_mode = { .im2col_no_offs, .im2col_no_offs::w }

[cp.async.bulk.tensor.store.scatter4.override] "Copy four rows of a matrix from shared memory to a tensor at an address that replaces the map's."
cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group{.cache}.override::global_address
  [tensorMap: addr global, gAddr: u64 reg, coords: s32 x 5], [srcMem: addr shared] {, cache-policy: u64};

[cp.async.bulk.tensor.store.override_dim] "Copy a box from shared memory to a tensor whose address and size replace the map's."
cp.async.bulk.tensor.1d.global.shared::cta{.load_mode}.bulk_group{.cache}.override::global_address.override::global_dim
  [tensorMap: addr global, gAddr: u64 reg, size: b8|b16 x 1, coords: s32 x 1 reg imm 0..0], [srcMem: addr shared] {, cache-policy: u64};

[cp.async.bulk.tensor.store.override_dim_stride] "Copy a box from shared memory to a tensor whose address, sizes and strides replace the map's."
cp.async.bulk.tensor.dim.global.shared::cta{.load_mode}.bulk_group{.cache}.override::global_address.override::global_dim_stride
  [tensorMap: addr global, gAddr: u64 reg, sizes: b8|b16 x .dim, lowerStrides: b32 x .dim-1 reg, upperStrides: b16 reg, coords: s32 x .dim reg imm 0..0], [srcMem: addr shared] {, cache-policy: u64};
  .dim = { .2d, .3d, .4d, .5d }

family cp.reduce.async.bulk.tensor
  since 9.4 on sm_107f
  see data-movement-and-conversion-instructions-cp-reduce-async-bulk-tensor

[cp.reduce.async.bulk.tensor] "Combine a box in shared memory with a tensor in global memory."
cp.reduce.async.bulk.tensor.dim.global.shared::cta.op{.load_mode}.bulk_group{.cache}
  [tensorMap: addr global, coords: s32 x .dim], [srcMem: addr shared] {, cache-policy: u64};
  .dim = { .1d, .2d, .3d, .4d, .5d }
  .load_mode = { .tile, .im2col_no_offs }
  since 8.0 on sm_90+
  check im2col_has_three_dimensions

[cp.reduce.async.bulk.tensor.override] "Combine a box in shared memory with a tensor at an address that replaces the map's."
cp.reduce.async.bulk.tensor.dim.global.shared::cta.op{.load_mode}.bulk_group{.cache}.override::global_address
  [tensorMap: addr global, gAddr: u64 reg, coords: s32 x .dim], [srcMem: addr shared] {, cache-policy: u64};
  .dim = { .1d, .2d, .3d, .4d, .5d }

[cp.reduce.async.bulk.tensor.im2col_no_offs_w] "Combine a box in shared memory with a tensor in im2col order along W."
cp.reduce.async.bulk.tensor.dim.global.shared::cta.op.im2col_no_offs::w.bulk_group{.cache}
  [tensorMap: addr global, coords: s32 x .dim], [srcMem: addr shared] {, cache-policy: u64};

[cp.reduce.async.bulk.tensor.im2col.override] "Combine a box in im2col order in shared memory with a tensor at an address that replaces the map's."
cp.reduce.async.bulk.tensor.dim.global.shared::cta.op.load_mode.bulk_group{.cache}.override::global_address
  [tensorMap: addr global, gAddr: u64 reg, coords: s32 x .dim], [srcMem: addr shared] {, cache-policy: u64};
  .load_mode = { .im2col_no_offs, .im2col_no_offs::w }

[cp.reduce.async.bulk.tensor.override_dim] "Combine a box in shared memory with a tensor whose address and size replace the map's."
cp.reduce.async.bulk.tensor.1d.global.shared::cta.op{.load_mode}.bulk_group{.cache}.override::global_address.override::global_dim
  [tensorMap: addr global, gAddr: u64 reg, size: b8|b16 x 1, coords: s32 x 1 reg imm 0..0], [srcMem: addr shared] {, cache-policy: u64};

[cp.reduce.async.bulk.tensor.override_dim_stride] "Combine a box in shared memory with a tensor whose address, sizes and strides replace the map's."
cp.reduce.async.bulk.tensor.dim.global.shared::cta.op{.load_mode}.bulk_group{.cache}.override::global_address.override::global_dim_stride
  [tensorMap: addr global, gAddr: u64 reg, sizes: b8|b16 x .dim, lowerStrides: b32 x .dim-1 reg, upperStrides: b16 reg, coords: s32 x .dim reg imm 0..0], [srcMem: addr shared] {, cache-policy: u64};
  .dim = { .2d, .3d, .4d, .5d }

family cp.async.bulk.prefetch.tensor
  since 9.4 on sm_107f
  see data-movement-and-conversion-instructions-cp-async-bulk-prefetch-tensor

[cp.async.bulk.prefetch.tensor] "Bring a box of a tensor into L2."
cp.async.bulk.prefetch.tensor.dim.L2.global{.load_mode}{.cache}  [tensorMap: addr global, coords: s32 x .dim] {, cache-policy: u64};
  .dim = { .1d, .2d, .3d, .4d, .5d }
  since 8.0 on sm_90+

[cp.async.bulk.prefetch.tensor.im2col] "Bring a box of a tensor in im2col order into L2."
cp.async.bulk.prefetch.tensor.dim.L2.global.im2col{.cache}  [tensorMap: addr global, coords: s32 x .dim], im2colInfo: u16 x .dim-2 {, cache-policy: u64};
  since 8.0 on sm_90+

[cp.async.bulk.prefetch.tensor.im2col_w] "Bring a box of a tensor in im2col order along W into L2."
cp.async.bulk.prefetch.tensor.dim.L2.global.load_mode{.cache}  [tensorMap: addr global, coords: s32 x .dim], im2colInfo: u16 x 2 {, cache-policy: u64};
  .load_mode = { .im2col::w, .im2col::w::128 }
  since 8.6 on sm_100f sm_110f

[cp.async.bulk.prefetch.tensor.gather4] "Bring four rows of a matrix into L2."
cp.async.bulk.prefetch.tensor.2d.L2.global.tile::gather4{.cache}  [tensorMap: addr global, coords: s32 x 5] {, cache-policy: u64};
  since 8.6 on sm_100f sm_110f

[cp.async.bulk.prefetch.tensor.evict_last] "Bring a box into L2, to be evicted last."
cp.async.bulk.prefetch.tensor.dim.L2.global{.load_mode}.L2::evict_last  [tensorMap: addr global, coords: s32 x .dim];
  .dim = { .1d, .2d, .3d, .4d, .5d }

[cp.async.bulk.prefetch.tensor.override] "Bring a box into L2 at an address that replaces the map's."
cp.async.bulk.prefetch.tensor.dim.L2.global{.load_mode}{.priority}.override::global_address  [tensorMap: addr global, gAddr: u64 reg, coords: s32 x .dim] {, cache-policy: u64};
  .dim = { .1d, .2d, .3d, .4d, .5d }
  .L2::cache_hint iff cache-policy

[cp.async.bulk.prefetch.tensor.im2col.evict_last] "Bring a box in im2col order into L2, to be evicted last."
cp.async.bulk.prefetch.tensor.dim.L2.global.im2col.L2::evict_last  [tensorMap: addr global, coords: s32 x .dim], im2colInfo: u16 x .dim-2;

[cp.async.bulk.prefetch.tensor.im2col.override] "Bring a box in im2col order into L2 at an address that replaces the map's."
cp.async.bulk.prefetch.tensor.dim.L2.global.im2col{.priority}.override::global_address  [tensorMap: addr global, gAddr: u64 reg, coords: s32 x .dim], im2colInfo: u16 x .dim-2 {, cache-policy: u64};
  .L2::cache_hint iff cache-policy

[cp.async.bulk.prefetch.tensor.im2col_w.evict_last] "Bring a box in im2col order along W into L2, to be evicted last."
cp.async.bulk.prefetch.tensor.dim.L2.global.load_mode.L2::evict_last  [tensorMap: addr global, coords: s32 x .dim], im2colInfo: u16 x 2;
  .load_mode = { .im2col::w, .im2col::w::128 }

[cp.async.bulk.prefetch.tensor.im2col_w.override] "Bring a box in im2col order along W into L2 at an address that replaces the map's."
cp.async.bulk.prefetch.tensor.dim.L2.global.load_mode{.priority}.override::global_address  [tensorMap: addr global, gAddr: u64 reg, coords: s32 x .dim], im2colInfo: u16 x 2 {, cache-policy: u64};
  .load_mode = { .im2col::w, .im2col::w::128 }
  .L2::cache_hint iff cache-policy

[cp.async.bulk.prefetch.tensor.gather4.evict_last] "Bring four rows of a matrix into L2, to be evicted last."
cp.async.bulk.prefetch.tensor.2d.L2.global.tile::gather4.L2::evict_last  [tensorMap: addr global, coords: s32 x 5];

[cp.async.bulk.prefetch.tensor.gather4.override] "Bring four rows of a matrix into L2 at an address that replaces the map's."
cp.async.bulk.prefetch.tensor.2d.L2.global.tile::gather4{.priority}.override::global_address  [tensorMap: addr global, gAddr: u64 reg, coords: s32 x 5] {, cache-policy: u64};
  .L2::cache_hint iff cache-policy

[cp.async.bulk.prefetch.tensor.override_dim] "Bring a box into L2 whose address and size replace the map's."
cp.async.bulk.prefetch.tensor.1d.L2.global{.load_mode}{.priority}.override::global_address.override::global_dim  [tensorMap: addr global, gAddr: u64 reg, size: b8|b16 x 1, coords: s32 x 1 reg imm 0..0] {, cache-policy: u64};
  .L2::cache_hint iff cache-policy

[cp.async.bulk.prefetch.tensor.override_dim_stride] "Bring a box into L2 whose address, sizes and strides replace the map's."
cp.async.bulk.prefetch.tensor.dim.L2.global{.load_mode}{.priority}.override::global_address.override::global_dim_stride  [tensorMap: addr global, gAddr: u64 reg, sizes: b8|b16 x .dim, lowerStrides: b32 x .dim-1 reg, upperStrides: b16 reg, coords: s32 x .dim reg imm 0..0] {, cache-policy: u64};
  .dim = { .2d, .3d, .4d, .5d }
  .L2::cache_hint iff cache-policy

family applypriority.async.bulk.tensor
  since 9.4 on sm_107f
  see data-movement-and-conversion-instructions-applypriority-async-bulk-tensor

[applypriority.async.bulk.tensor] "Give a box of a tensor an L2 eviction priority; completes through a bulk group."
applypriority.async.bulk.tensor.dim{.global}.bulk_group{.load_mode}.L2::evict_normal  [tensorMap: addr global, coords: s32 x .dim];
  .dim = { .1d, .2d, .3d, .4d, .5d }

[applypriority.async.bulk.tensor.im2col] "Give a box of a tensor in im2col order an L2 eviction priority."
applypriority.async.bulk.tensor.dim{.global}.bulk_group.im2col.L2::evict_normal  [tensorMap: addr global, coords: s32 x .dim], im2colInfo: u16 x .dim-2;

[applypriority.async.bulk.tensor.im2col_w] "Give a box of a tensor in im2col order along W an L2 eviction priority."
applypriority.async.bulk.tensor.dim{.global}.bulk_group.load_mode.L2::evict_normal  [tensorMap: addr global, coords: s32 x .dim], im2colInfo: u16 x 2;
  .load_mode = { .im2col::w, .im2col::w::128 }

[applypriority.async.bulk.tensor.gather4] "Give four rows of a matrix an L2 eviction priority."
applypriority.async.bulk.tensor.2d{.global}.bulk_group.tile::gather4.L2::evict_normal  [tensorMap: addr global, coords: s32 x 5];

[applypriority.async.bulk.tensor.override] "Give a box at an address that replaces the map's an L2 eviction priority."
applypriority.async.bulk.tensor.dim{.global}.bulk_group{.load_mode}.L2::evict_normal.override::global_address  [tensorMap: addr global, gAddr: u64 reg, coords: s32 x .dim];
  .dim = { .1d, .2d, .3d, .4d, .5d }

[applypriority.async.bulk.tensor.im2col.override] "Give a box in im2col order at an address that replaces the map's an L2 eviction priority."
applypriority.async.bulk.tensor.dim{.global}.bulk_group.im2col.L2::evict_normal.override::global_address  [tensorMap: addr global, gAddr: u64 reg, coords: s32 x .dim], im2colInfo: u16 x .dim-2;

[applypriority.async.bulk.tensor.im2col_w.override] "Give a box in im2col order along W at an address that replaces the map's an L2 eviction priority."
applypriority.async.bulk.tensor.dim{.global}.bulk_group.load_mode.L2::evict_normal.override::global_address  [tensorMap: addr global, gAddr: u64 reg, coords: s32 x .dim], im2colInfo: u16 x 2;
  .load_mode = { .im2col::w, .im2col::w::128 }

[applypriority.async.bulk.tensor.gather4.override] "Give four rows of a matrix at an address that replaces the map's an L2 eviction priority."
applypriority.async.bulk.tensor.2d{.global}.bulk_group.tile::gather4.L2::evict_normal.override::global_address  [tensorMap: addr global, gAddr: u64 reg, coords: s32 x 5];

[applypriority.async.bulk.tensor.override_dim] "Give a box whose address and size replace the map's an L2 eviction priority."
applypriority.async.bulk.tensor.1d{.global}.bulk_group{.load_mode}.L2::evict_normal.override::global_address.override::global_dim  [tensorMap: addr global, gAddr: u64 reg, size: b8|b16 x 1, coords: s32 x 1 reg imm 0..0];

[applypriority.async.bulk.tensor.override_dim_stride] "Give a box whose address, sizes and strides replace the map's an L2 eviction priority."
applypriority.async.bulk.tensor.dim{.global}.bulk_group{.load_mode}.L2::evict_normal.override::global_address.override::global_dim_stride  [tensorMap: addr global, gAddr: u64 reg, sizes: b8|b16 x .dim, lowerStrides: b32 x .dim-1 reg, upperStrides: b16 reg, coords: s32 x .dim reg imm 0..0];
  .dim = { .2d, .3d, .4d, .5d }
"""


def im2col_has_three_dimensions(chosen: dict[str, str]) -> str | None:
    """Refuse im2col order for tensors of fewer than three dimensions."""
    if chosen.get("load_mode") == "im2col_no_offs" and chosen["dim"] in ("1d", "2d"):
        return f".im2col_no_offs requires .3d, .4d or .5d, not .{chosen['dim']}"
    return None
