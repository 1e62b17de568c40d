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

[mbarrier.arrive.noComplete] "Arrive count times; the phase must not complete by it."
mbarrier.arrive.noComplete{.release.cta}{.space}.b64  =state: b64, [addr: addr .space], count: u32;
  .release since 8.0
  .space = { .shared, .shared::cta since 7.8 }
  since 7.0 on sm_80+
  see parallel-synchronization-and-communication-instructions-mbarrier-arrive

[mbarrier.arrive_drop] "Arrive count times (once if absent) and expect as many arrivals fewer from the next phase on."
mbarrier.arrive_drop{.sem.scope}{.space}.b64  =state: b64 sink, [addr: addr .space] {, count: u32};
  .sem = { .release since 8.0, .relaxed since 8.6 on sm_90+ }
  .scope = { .cta, .cluster since 8.0 on sm_90+ }
  .space = { .shared, .shared::cta since 7.8 }
  since 7.0 on sm_80+
  count since 7.8 on sm_90+
  state._ since 7.1
  STRICTER ptxas takes the sink in PTX 7.0 already
  see parallel-synchronization-and-communication-instructions-mbarrier-arrive-drop

[mbarrier.arrive_drop.remote] "Arrive and drop on an mbarrier of a CTA of the cluster."
mbarrier.arrive_drop{.sem.scope}.shared::cluster.b64  =_ sink, [addr: addr shared::cluster] {, count: u32};
  .sem = { .release, .relaxed since 8.6 }
  .scope = { .cta, .cluster }
  since 8.0 on sm_90+
  see parallel-synchronization-and-communication-instructions-mbarrier-arrive-drop

[mbarrier.arrive_drop.expect_tx] "Expect txCount more bytes, then arrive once and drop."
mbarrier.arrive_drop.expect_tx{.sem.scope}{.space}.b64  =state: b64 sink, [addr: addr .space], txCount: u32;
  .sem = { .release, .relaxed since 8.6 }
  .scope = { .cta, .cluster }
  .space = { .shared, .shared::cta since 7.8 }
  since 8.0 on sm_90+
  see parallel-synchronization-and-communication-instructions-mbarrier-arrive-drop

[mbarrier.arrive_drop.expect_tx.remote] "Expect, arrive and drop on an mbarrier of a CTA of the cluster."
mbarrier.arrive_drop.expect_tx{.sem.scope}.shared::cluster.b64  =_ sink, [addr: addr shared::cluster], txCount: u32;
  .sem = { .release, .relaxed since 8.6 }
  .scope = { .cta, .cluster }
  since 8.0 on sm_90+
  see parallel-synchronization-and-communication-instructions-mbarrier-arrive-drop

[mbarrier.arrive_drop.noComplete] "Arrive count times and drop; the phase must not complete by it."
mbarrier.arrive_drop.noComplete{.release.cta}{.space}.b64  =state: b64, [addr: addr .space], count: u32;
  .release since 8.0
  .space = { .shared, .shared::cta since 7.8 }
  since 7.0 on sm_80+
  see parallel-synchronization-and-communication-instructions-mbarrier-arrive-drop

[mbarrier.complete_tx] "Count txCount bytes as arrived, as a copy would."
mbarrier.complete_tx{.sem.scope}{.space}.b64  [addr: addr .space], txCount: u32;
  .sem = { .relaxed }
  .scope = { .cta, .cluster }
  .space = { .shared, .shared::cta since 7.8, .shared::cluster }
  since 8.0 on sm_90+
  see parallel-synchronization-and-communication-instructions-mbarrier-complete-tx-operation

[mbarrier.try_wait] "Wait, for a while, until the phase of this state has completed."
mbarrier.try_wait{.sem.scope}{.space}.b64  =waitComplete: pred, [addr: addr .space], state: b64 reg {, suspendTimeHint: u32};
  .sem = { .acquire since 8.0, .relaxed since 8.6 on sm_90+ }
  .scope = { .cta, .cluster }
  .space = { .shared, .shared::cta since 7.8 }
  since 7.8 on sm_90+
  see parallel-synchronization-and-communication-instructions-mbarrier-test-wait-try-wait

[mbarrier.test_wait] "Ask, without waiting, whether the phase of this state has completed."
mbarrier.test_wait{.sem.scope}{.space}.b64  =waitComplete: pred, [addr: addr .space], state: b64 reg;
  .sem = { .acquire since 8.0, .relaxed since 8.6 on sm_90+ }
  .scope = { .cta, .cluster since 8.0 on sm_90+ }
  .space = { .shared, .shared::cta since 7.8 }
  since 7.0 on sm_80+
  see parallel-synchronization-and-communication-instructions-mbarrier-test-wait-try-wait

[mbarrier.pending_count] "How many arrivals a state still lacks."
mbarrier.pending_count.b64  =count: u32, state: b64 reg;
  since 7.0 on sm_80+
  see parallel-synchronization-and-communication-instructions-mbarrier-pending-count
"""
