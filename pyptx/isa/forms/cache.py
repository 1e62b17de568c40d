"""Caches: prefetch, createpolicy, discard, applypriority."""

TEXT = r"""
[prefetch] "Bring a line into a cache."
prefetch{.space}.level  [a: addr .space];
  .space = { .global, .local }
  .level = { .L1, .L2 }
  see data-movement-and-conversion-instructions-prefetch-prefetchu

[prefetch.evict] "Bring a line into L2 with an eviction priority."
prefetch.global.priority  [a: addr global];
  .priority = { .L2::evict_last, .L2::evict_normal }
  since 7.4 on sm_80+
  see data-movement-and-conversion-instructions-prefetch-prefetchu

[prefetchu] "Bring a line into the uniform cache."
prefetchu.L1  [a: addr];
  see data-movement-and-conversion-instructions-prefetch-prefetchu

[prefetch.tensormap] "Bring a tensor map near, for later tensor copies."
prefetch{.space}.tensormap  [a: addr .space];
  .space = { .const, .param }
  since 8.0 on sm_90+
  see data-movement-and-conversion-instructions-prefetch-prefetchu

[applypriority] "Give the line at a an L2 eviction priority."
applypriority{.global}.L2::evict_normal  [a: addr global], size imm 128..128;
  since 7.4 on sm_80+
  see data-movement-and-conversion-instructions-applypriority

[discard] "Drop the line at a from L2 without writing it back."
discard{.global}.L2  [a: addr global], size imm 128..128;
  since 7.4 on sm_80+
  see data-movement-and-conversion-instructions-discard

[createpolicy.fractional] "Make a cache policy: a fraction of the accesses gets the first priority, the rest the second."
createpolicy.fractional.primary{.secondary}.b64  =cache-policy: b64 {, fraction: f32 imm};
  .primary = { .L2::evict_last, .L2::evict_normal, .L2::evict_first, .L2::evict_unchanged }
  .secondary = { .L2::evict_first, .L2::evict_unchanged }
  since 7.4 on sm_80+
  note the fraction lies in 0 < fraction <= 1
  see data-movement-and-conversion-instructions-createpolicy

[createpolicy.range] "Make a cache policy for the range of memory at a."
createpolicy.range{.global}.primary{.secondary}.b64  =cache-policy: b64, [a: addr global], primary-size: u32, total-size: u32;
  .primary = { .L2::evict_last, .L2::evict_normal, .L2::evict_first, .L2::evict_unchanged }
  .secondary = { .L2::evict_first, .L2::evict_unchanged }
  since 7.4 on sm_80+
  see data-movement-and-conversion-instructions-createpolicy

[createpolicy.cvt] "Make a cache policy from an access property of the CUDA API."
createpolicy.cvt.L2.b64  =cache-policy: b64, access-property: b64 reg;
  since 7.4 on sm_80+
  see data-movement-and-conversion-instructions-createpolicy
"""
