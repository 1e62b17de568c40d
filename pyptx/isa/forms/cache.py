"""Instructions on caches: prefetch, createpolicy, discard, applypriority."""

from __future__ import annotations

from collections.abc import Mapping

from ...ir import Immediate, Operand

TEXT = r"""
.primary = { .L2::evict_last, .L2::evict_normal, .L2::evict_first, .L2::evict_unchanged }
.secondary = { .L2::evict_first, .L2::evict_unchanged }
see data-movement-and-conversion-instructions-<opcode>

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

[prefetch.valid_addr] "Bring at least 32 bytes of a valid global address into L1."
prefetch{.global}.L1::32B.valid_addr  [a: addr global];
  since 9.4 on sm_90+
  see data-movement-and-conversion-instructions-prefetch-prefetchu

[prefetchu] "Bring a line into the uniform cache."
prefetchu.L1  [a: addr];
  see data-movement-and-conversion-instructions-prefetch-prefetchu

[prefetch.tensormap] "Bring a tensor map into the cache, for later tensor copies."
prefetch{.space}.tensormap  [a: addr .space];
  .space = { .const, .param }
  since 8.0 on sm_90+
  see data-movement-and-conversion-instructions-prefetch-prefetchu

[applypriority] "Give the line at a an L2 eviction priority."
applypriority{.global}.L2::evict_normal  [a: addr global], size imm 128..128;
  since 7.4 on sm_80+

[applypriority.async.bulk] "Give size bytes of global memory an L2 eviction priority; completes through a bulk group."
applypriority.async.bulk{.global}.bulk_group.L2::evict_normal  [srcMem: addr global], size: u32 reg imm 16..1048560/16;
  since 9.4 on sm_107f
  see data-movement-and-conversion-instructions-applypriority-async-bulk

[discard] "Drop the line at a from L2 without writing it back."
discard{.global}.L2  [a: addr global], size imm 128..128;
  since 7.4 on sm_80+

[createpolicy.fractional] "Make a cache policy: a fraction of the accesses gets the first priority, the rest the second."
createpolicy.fractional.primary{.secondary}.b64  =cache-policy: u64 {, fraction: f32};
  since 7.4 on sm_80+
  check operands fraction_of_one

[createpolicy.range] "Make a cache policy for the range of memory at a."
createpolicy.range{.global}.primary{.secondary}.b64  =cache-policy: u64, [a: addr global], primary-size: u32, total-size: u32;
  since 7.4 on sm_80+
  check operands primary_within_total

[createpolicy.range.fabric] "Make a cache policy for a range of memory behind a fabric handle."
createpolicy.range.fabric.primary{.secondary}.b64  =cache-policy: u64, [endpoint: u32 fabric, offset: u64 reg], primary-size: u32, total-size: u32;
  since 9.4 on sm_100+
  check operands primary_within_total

[createpolicy.cvt] "Make a cache policy from an access property of the CUDA API."
createpolicy.cvt.L2.b64  =cache-policy: u64, access-property: u64 reg;
  since 7.4 on sm_80+
"""


def fraction_of_one(operands: Mapping[str, Operand]) -> str | None:
    """Refuse a constant fraction that is not in (0, 1]."""
    fraction = operands.get("fraction")
    if isinstance(fraction, Immediate) and not 0 < fraction.value <= 1:
        return f"fraction is {fraction.value}; expected more than 0 and at most 1"
    return None


def primary_within_total(operands: Mapping[str, Operand]) -> str | None:
    """Refuse a primary-size that is larger than total-size; both are unsigned."""
    primary, total = operands["primary-size"], operands["total-size"]
    if isinstance(primary, Immediate) and isinstance(total, Immediate):
        first, whole = (int(size.value) % (1 << 32) for size in (primary, total))
        if first > whole:
            return f"primary-size is {first}; expected at most total-size, which is {whole}"
    return None
