"""mbarrier: the barrier object in shared memory."""

TEXT = r"""
[mbarrier.init] "Make an mbarrier that expects count arrivals per phase."
mbarrier.init{.space}.b64  [addr: addr .space], count: u32;
  .space = { .shared, .shared::cta since 7.8 }
  since 7.0 on sm_80+
  see parallel-synchronization-and-communication-instructions-mbarrier-init

[mbarrier.inval] "End an mbarrier's life; its memory may then be used for other things."
mbarrier.inval{.space}.b64  [addr: addr .space];
  .space = { .shared, .shared::cta since 7.8 }
  since 7.0 on sm_80+
  see parallel-synchronization-and-communication-instructions-mbarrier-inval

[mbarrier.arrive] "Arrive count times (once if absent)."
mbarrier.arrive{.sem.scope}{.space}.b64  =state: b64 sink, [addr: addr .space] {, count: u32};
  .sem = { .release since 8.0, .relaxed since 8.6 on sm_90+ }
  .scope = { .cta, .cluster since 8.0 on sm_90+ }
  .space = { .shared, .shared::cta since 7.8 }
  since 7.0 on sm_80+
  count since 7.8 on sm_90+
  state._ since 7.1
  STRICTER ptxas takes the sink in PTX 7.0 with .shared, and refuses it with a generic address
  see parallel-synchronization-and-communication-instructions-mbarrier-arrive

[mbarrier.arrive.remote] "Arrive on an mbarrier of a CTA of the cluster; there is no state to return."
mbarrier.arrive{.sem.scope}.shared::cluster.b64  =_ sink, [addr: addr shared::cluster] {, count: u32};
  .sem = { .release, .relaxed since 8.6 }
  .scope = { .cta, .cluster }
  since 8.0 on sm_90+
  see parallel-synchronization-and-communication-instructions-mbarrier-arrive

[mbarrier.arrive.expect_tx] "Expect txCount more bytes in this phase, then arrive once."
mbarrier.arrive.expect_tx{.sem.scope}{.space}.b64  =state: b64 sink, [addr: addr .space], txCount: u32;
  .sem = { .release, .relaxed since 8.6 }
  .scope = { .cta, .cluster }
  .space = { .shared, .shared::cta since 7.8 }
  since 8.0 on sm_90+
  see parallel-synchronization-and-communication-instructions-mbarrier-arrive

[mbarrier.arrive.expect_tx.remote] "Expect and arrive on an mbarrier of a CTA of the cluster."
mbarrier.arrive.expect_tx{.sem.scope}.shared::cluster.b64  =_ sink, [addr: addr shared::cluster], txCount: u32;
  .sem = { .release, .relaxed since 8.6 }
  .scope = { .cta, .cluster }
  since 8.0 on sm_90+
  see parallel-synchronization-and-communication-instructions-mbarrier-arrive

[mbarrier.expect_tx] "Expect txCount more bytes in the current phase, without arriving."
mbarrier.expect_tx{.sem.scope}{.space}.b64  [addr: addr .space], txCount: u32;
  .sem = { .relaxed }
  .scope = { .cta, .cluster }
  .space = { .shared, .shared::cta since 7.8, .shared::cluster }
  since 8.0 on sm_90+
  see parallel-synchronization-and-communication-instructions-mbarrier-expect-tx-operation

[mbarrier.try_wait.parity] "Wait, for a while, until the phase with this parity has completed."
mbarrier.try_wait.parity{.sem.scope}{.space}.b64  =waitComplete: pred, [addr: addr .space], phaseParity: u32 {, suspendTimeHint: u32};
  .sem = { .acquire since 8.0, .relaxed since 8.6 on sm_90+ }
  .scope = { .cta, .cluster }
  .space = { .shared, .shared::cta since 7.8 }
  since 7.8 on sm_90+
  see parallel-synchronization-and-communication-instructions-mbarrier-test-wait-try-wait

[mbarrier.test_wait.parity] "Ask, without waiting, whether the phase with this parity has completed."
mbarrier.test_wait.parity{.sem.scope}{.space}.b64  =waitComplete: pred, [addr: addr .space], phaseParity: u32;
  .sem = { .acquire since 8.0, .relaxed since 8.6 on sm_90+ }
  .scope = { .cta, .cluster since 8.0 on sm_90+ }
  .space = { .shared, .shared::cta since 7.8 }
  since 7.1 on sm_80+
  see parallel-synchronization-and-communication-instructions-mbarrier-test-wait-try-wait
"""
