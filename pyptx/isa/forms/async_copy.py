"""cp.async: asynchronous copies of a thread from global to shared memory, in groups or with an mbarrier."""

from __future__ import annotations

from collections.abc import Mapping

from ...ir import Immediate, Operand

TEXT = r"""
.ss = { .shared, .shared::cta }
.cache = { .L2::cache_hint since 7.4 }
.prefetch = { .L2::64B since 7.4, .L2::128B since 7.4, .L2::256B since 7.4 }
.cache iff cache-policy

[cp.async] "Copy 4, 8 or 16 bytes from global to shared memory, asynchronously; bytes past src-size become zero."
cp.async.ca.ss.global{.cache}{.prefetch}  [dst: addr .ss], [src: addr global], cp-size imm 4|8|16 {, src-size: u32} {, cache-policy: u64 reg};
  since 7.0 on sm_80+
  MEASURED .shared::cta is taken here from the first version on
  check operands at_most_the_copy
  see data-movement-and-conversion-instructions-cp-async

[cp.async.cg] "Copy 16 bytes from global to shared memory past L1, asynchronously; bytes past src-size become zero."
cp.async.cg.ss.global{.cache}{.prefetch}  [dst: addr .ss], [src: addr global], cp-size imm 16..16 {, src-size: u32 0..16} {, cache-policy: u64 reg};
  since 7.0 on sm_80+
  MEASURED .shared::cta is taken here from the first version on
  see data-movement-and-conversion-instructions-cp-async

[cp.async.ignore_src] "Copy from global to shared memory, asynchronously; if ignore-src is true, write zeroes."
cp.async.ca.ss.global{.cache}{.prefetch}  [dst: addr .ss], [src: addr global], cp-size imm 4|8|16, ignore-src: pred reg {, cache-policy: u64 reg};
  since 7.5 on sm_80+
  MEASURED .shared::cta is taken here from the first version on
  see data-movement-and-conversion-instructions-cp-async

[cp.async.cg.ignore_src] "Copy 16 bytes from global to shared memory past L1; if ignore-src is true, write zeroes."
cp.async.cg.ss.global{.cache}{.prefetch}  [dst: addr .ss], [src: addr global], cp-size imm 16..16, ignore-src: pred reg {, cache-policy: u64 reg};
  since 7.5 on sm_80+
  MEASURED .shared::cta is taken here from the first version on
  see data-movement-and-conversion-instructions-cp-async

[cp.async.commit_group] "Put the thread's uncommitted cp.async operations into a group."
cp.async.commit_group;
  since 7.0 on sm_80+
  see data-movement-and-conversion-instructions-cp-async-commit-group

[cp.async.wait_group] "Wait until at most N of the thread's newest cp.async groups are pending."
cp.async.wait_group  N imm 0..8388607;
  since 7.0 on sm_80+
  see data-movement-and-conversion-instructions-cp-async-wait-group

[cp.async.wait_all] "Wait for all of the thread's cp.async operations."
cp.async.wait_all;
  since 7.0 on sm_80+
  see data-movement-and-conversion-instructions-cp-async-wait-group

[cp.async.mbarrier.arrive] "Arrive on an mbarrier when the thread's earlier cp.async operations have completed."
cp.async.mbarrier.arrive{.noinc}{.space}.b64  [addr: addr|u32 .space];
  .space = { .shared, .shared::cta since 7.8 }
  since 7.0 on sm_80+
  see parallel-synchronization-and-communication-instructions-cp-async-mbarrier-arrive
"""


def at_most_the_copy(operands: Mapping[str, Operand]) -> str | None:
    """Refuse a src-size that is larger than the number of bytes that the copy writes."""
    size, read = operands["cp-size"], operands.get("src-size")
    if isinstance(size, Immediate) and isinstance(read, Immediate) and not 0 <= read.value <= size.value:
        return f"src-size is {read}; expected 0 to cp-size, which is {size}"
    return None
