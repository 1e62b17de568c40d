"""Tensor maps in memory: tensormap.replace and tensormap.cp_fenceproxy."""

TEXT = r"""
.ss = { .global, .shared::cta }
see data-movement-and-conversion-instructions-tensormap-replace

family tensormap.replace
  since 8.3 on sm_90a sm_100f sm_110f sm_120f

[tensormap.replace.address] "Set the address of the tensor in a tensor map."
tensormap.replace.tile.global_address{.ss}.b1024.b64  [addr: addr .ss], new_val: b64;

[tensormap.replace.rank] "Set the rank of a tensor map (rank - 1 is written)."
tensormap.replace.tile.rank{.ss}.b1024.b32  [addr: addr .ss], new_val: b32;

[tensormap.replace.dim] "Set one dimension's size, box or element stride in a tensor map."
tensormap.replace.tile.field{.ss}.b1024.b32  [addr: addr .ss], ord imm 0..4, new_val: u32;
  .field = { .box_dim, .global_dim, .element_stride }

[tensormap.replace.stride] "Set one stride in bytes in a tensor map."
tensormap.replace.tile.global_stride{.ss}.b1024.b64  [addr: addr .ss], ord imm 0..3, new_val: b64;

[tensormap.replace.elemtype] "Set the element type in a tensor map."
tensormap.replace.tile.elemtype{.ss}.b1024.b32  [addr: addr .ss], new_val: b32 imm 0..12;

[tensormap.replace.packed_elemtype] "Set an element type of 4 or 6 bits in a tensor map."
tensormap.replace.tile.elemtype{.ss}.b1024.b32  [addr: addr .ss], new_val: b32 imm 13..15;
  since 8.7 on sm_100f sm_110f sm_120f

[tensormap.replace.interleave_layout] "Set the interleave layout in a tensor map."
tensormap.replace.tile.interleave_layout{.ss}.b1024.b32  [addr: addr .ss], new_val: b32 imm 0..2;

[tensormap.replace.swizzle_mode] "Set the swizzle mode in a tensor map."
tensormap.replace.tile.swizzle_mode{.ss}.b1024.b32  [addr: addr .ss], new_val: b32 imm 0..3;
  NOT REGISTERED the value 4 needs PTX 8.8 and sm_103a

[tensormap.replace.fill_mode] "Set the fill mode in a tensor map."
tensormap.replace.tile.fill_mode{.ss}.b1024.b32  [addr: addr .ss], new_val: b32 imm 0..1;

[tensormap.replace.swizzle_atomicity] "Set the swizzle atomicity in a tensor map."
tensormap.replace.tile.swizzle_atomicity{.ss}.b1024.b32  [addr: addr .ss], new_val: b32 imm 0..3;
  since 8.6 on sm_100f sm_110f sm_120f

end

[tensormap.cp_fenceproxy] "Copy a tensor map from shared to global memory and release it to the tensormap proxy."
tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.scope.sync.aligned  [dst: addr global], [src: addr shared], size imm 128..128;
  .scope = { .cta, .cluster, .gpu, .sys }
  since 8.3 on sm_90+
  see parallel-synchronization-and-communication-instructions-tensormap-cp-fenceproxy
"""
