"""Instructions on mbarriers: barrier objects in shared memory."""

from collections.abc import Mapping

from ...ir import Operand, Pair, Sink

TEXT = r"""
.space = { .shared, .shared::cta since 7.8 }
.sem = { .acquire, .relaxed }
.scope = { .cta, .cluster }

[mbarrier.init] "Make an mbarrier that expects count arrivals per phase."
mbarrier.init{.space}.b64  [addr: addr .space], count: u32 1..1048575;
  since 7.0 on sm_80+
  see parallel-synchronization-and-communication-instructions-mbarrier-init

[mbarrier.init.layout] "Make an mbarrier of a layout; .layout::v1 takes reports of asynchronous operations."
mbarrier.init.layout{.space}.b64  [addr: addr .space], count: u32 1..1048575;
  .layout = { .layout::v0, .layout::v1 }
  .space = { .shared, .shared::cta }
  since 9.3 on sm_90+
  see parallel-synchronization-and-communication-instructions-mbarrier-init

[mbarrier.check_layout] "Ask whether the mbarrier has this layout."
mbarrier.check_layout.layout{.space}.b64  =p: pred, [addr: addr .space];
  .layout = { .layout::v0, .layout::v1 }
  .space = { .shared, .shared::cta }
  since 9.3 on sm_90+
  see parallel-synchronization-and-communication-instructions-mbarrier-check-layout

[mbarrier.inval] "Invalidate an mbarrier; its memory may then be used for other data."
mbarrier.inval{.space}.b64  [addr: addr .space];
  since 7.0 on sm_80+
  see parallel-synchronization-and-communication-instructions-mbarrier-inval

family mbarrier.arrive
  .sem = { .release, .relaxed since 8.6 }
  see parallel-synchronization-and-communication-instructions-mbarrier-arrive

[mbarrier.arrive] "Arrive count times (once if count is absent)."
mbarrier.arrive{.sem.scope}{.space}.b64  =state: u64 sink, [addr: addr .space] {, count: u32 1..4294967295};
  .sem = { .release since 8.0, .relaxed since 8.6 on sm_90+ }
  .scope = { .cta, .cluster since 8.0 on sm_90+ }
  since 7.0 on sm_80+
  count since 7.8 on sm_90+
  state._ since 7.1
  STRICTER ptxas takes the sink in PTX 7.0 with .shared, and refuses it with a generic address

[mbarrier.arrive.remote] "Arrive on an mbarrier of any CTA of the cluster; no state is returned."
mbarrier.arrive{.sem.scope}.shared::cluster.b64  =_ sink, [addr: addr shared::cluster] {, count: u32 1..4294967295};
  since 8.0 on sm_90+

[mbarrier.arrive.expect_tx] "Expect txCount more bytes in this phase, then arrive once."
mbarrier.arrive.expect_tx{.sem.scope}{.space}.b64  =state: u64 sink, [addr: addr .space], txCount: u32;
  since 8.0 on sm_90+

[mbarrier.arrive.expect_tx.remote] "Expect txCount more bytes, then arrive once, on an mbarrier of any CTA of the cluster."
mbarrier.arrive.expect_tx{.sem.scope}.shared::cluster.b64  =_ sink, [addr: addr shared::cluster], txCount: u32;
  since 8.0 on sm_90+

[mbarrier.arrive.noComplete] "Arrive count times; these arrivals must not complete the phase."
mbarrier.arrive.noComplete{.release.cta}{.space}.b64  =state: u64, [addr: addr .space], count: u32 1..4294967295;
  .release since 8.0
  since 7.0 on sm_80+

[mbarrier.arrive.multicast] "Arrive on an mbarrier of each CTA of the mask."
mbarrier.arrive{.sem.scope}.shared::cluster.multicast::cluster::32b.b64  =_ sink, [addr: addr shared::cluster] {, count: u32 1..4294967295}, ctaMask: u32 0..4294967295;
  .sem = { .release, .relaxed }
  since 9.4 on sm_107f

[mbarrier.arrive.expect_tx.multicast] "Expect txCount more bytes, then arrive on an mbarrier of each CTA of the mask."
mbarrier.arrive.expect_tx{.sem.scope}.shared::cluster.multicast::cluster::32b.b64  =_ sink, [addr: addr shared::cluster], txCount: u32, ctaMask: u32 0..4294967295;
  .sem = { .release, .relaxed }
  since 9.4 on sm_107f

end

[mbarrier.expect_tx] "Expect txCount more bytes in the current phase, without arriving."
mbarrier.expect_tx{.sem.scope}{.space}.b64  [addr: addr .space], txCount: u32;
  .sem = { .relaxed }
  .space = { .shared, .shared::cta since 7.8, .shared::cluster }
  since 8.0 on sm_90+
  see parallel-synchronization-and-communication-instructions-mbarrier-expect-tx-operation

family mbarrier.try_wait
  .sem = { .acquire since 8.0, .relaxed since 8.6 on sm_90+ }
  see parallel-synchronization-and-communication-instructions-mbarrier-test-wait-try-wait

[mbarrier.try_wait.parity] "Wait, for a limited time, until the phase with this parity has completed."
mbarrier.try_wait.parity{.sem.scope}{.space}.b64  =waitComplete: pred, [addr: addr .space], phaseParity: u32 0|1 {, suspendTimeHint: u32};
  since 7.8 on sm_90+

[mbarrier.test_wait.parity] "Ask, without waiting, whether the phase with this parity has completed."
mbarrier.test_wait.parity{.sem.scope}{.space}.b64  =waitComplete: pred, [addr: addr .space], phaseParity: u32 0|1;
  .scope = { .cta, .cluster since 8.0 on sm_90+ }
  since 7.1 on sm_80+

[mbarrier.try_wait] "Wait, for a limited time, until the phase of this state has completed."
mbarrier.try_wait{.sem.scope}{.space}.b64  =waitComplete: pred, [addr: addr .space], state: u64 reg {, suspendTimeHint: u32};
  since 7.8 on sm_90+

[mbarrier.test_wait] "Ask, without waiting, whether the phase of this state has completed."
mbarrier.test_wait{.sem.scope}{.space}.b64  =waitComplete: pred, [addr: addr .space], state: u64 reg;
  .scope = { .cta, .cluster since 8.0 on sm_90+ }
  since 7.0 on sm_80+

family mbarrier.try_wait.primary
  .space = { .shared, .shared::cta }
  since 9.3 on sm_90+
  see parallel-synchronization-and-communication-instructions-mbarrier-test-wait-try-wait

[mbarrier.try_wait.primary] "Wait, for a limited time, until the primary phase of this state has completed."
mbarrier.try_wait.phase_type::primary{.sem.scope}{.space}.b64  =waitComplete: pred, [addr: addr .space], state: u64 reg {, suspendTimeHint: u32};

[mbarrier.try_wait.report] "Wait, for a limited time, until the primary phase of this state has completed; also return what was reported."
mbarrier.try_wait.phase_type::primary{.sem.scope}{.space}.b64  =waitComplete|reportPredicate: pred {, =reportValue: b8}, [addr: addr .space], state: u64 reg {, suspendTimeHint: u32};
  check operands result_is_kept

[mbarrier.try_wait.parity.primary] "Wait, for a limited time, until the primary phase with this parity has completed."
mbarrier.try_wait.parity.phase_type::primary{.sem.scope}{.space}.b64  =waitComplete: pred, [addr: addr .space], phaseParity: u32 0|1 {, suspendTimeHint: u32};

[mbarrier.try_wait.parity.report] "Wait, for a limited time, until the primary phase with this parity has completed; also return what was reported."
mbarrier.try_wait.parity.phase_type::primary{.sem.scope}{.space}.b64  =waitComplete|reportPredicate: pred {, =reportValue: b8}, [addr: addr .space], phaseParity: u32 0|1 {, suspendTimeHint: u32};
  check operands result_is_kept

[mbarrier.try_wait.parity.conditional] "Wait, for a limited time, until the conditional phase with this parity has completed."
mbarrier.try_wait.parity.phase_type::conditional{.sem.scope}{.space}.b64  =waitComplete: pred, [addr: addr .space], phaseParity: u32 0|1 {, suspendTimeHint: u32};

[mbarrier.test_wait.primary] "Ask, without waiting, whether the primary phase of this state has completed."
mbarrier.test_wait.phase_type::primary{.sem.scope}{.space}.b64  =waitComplete: pred, [addr: addr .space], state: u64 reg;

[mbarrier.test_wait.report] "Ask, without waiting, whether the primary phase of this state has completed, and what was reported."
mbarrier.test_wait.phase_type::primary{.sem.scope}{.space}.b64  =waitComplete|reportPredicate: pred {, =reportValue: b8}, [addr: addr .space], state: u64 reg;
  check operands result_is_kept

[mbarrier.test_wait.parity.primary] "Ask, without waiting, whether the primary phase with this parity has completed."
mbarrier.test_wait.parity.phase_type::primary{.sem.scope}{.space}.b64  =waitComplete: pred, [addr: addr .space], phaseParity: u32 0|1;

[mbarrier.test_wait.parity.report] "Ask, without waiting, whether the primary phase with this parity has completed, and what was reported."
mbarrier.test_wait.parity.phase_type::primary{.sem.scope}{.space}.b64  =waitComplete|reportPredicate: pred {, =reportValue: b8}, [addr: addr .space], phaseParity: u32 0|1;
  check operands result_is_kept

[mbarrier.test_wait.parity.conditional] "Ask, without waiting, whether the conditional phase with this parity has completed."
mbarrier.test_wait.parity.phase_type::conditional{.sem.scope}{.space}.b64  =waitComplete: pred, [addr: addr .space], phaseParity: u32 0|1;

family mbarrier.arrive_drop
  .sem = { .release, .relaxed since 8.6 }
  see parallel-synchronization-and-communication-instructions-mbarrier-arrive-drop

[mbarrier.arrive_drop] "Arrive count times (once if count is absent) and expect so many arrivals fewer from the next phase on."
mbarrier.arrive_drop{.sem.scope}{.space}.b64  =state: u64 sink, [addr: addr .space] {, count: u32 1..4294967295};
  .sem = { .release since 8.0, .relaxed since 8.6 on sm_90+ }
  .scope = { .cta, .cluster since 8.0 on sm_90+ }
  since 7.0 on sm_80+
  count since 7.8 on sm_90+
  state._ since 7.1
  STRICTER ptxas takes the sink in PTX 7.0 already

[mbarrier.arrive_drop.remote] "Arrive and drop on an mbarrier of any CTA of the cluster."
mbarrier.arrive_drop{.sem.scope}.shared::cluster.b64  =_ sink, [addr: addr shared::cluster] {, count: u32 1..4294967295};
  since 8.0 on sm_90+

[mbarrier.arrive_drop.expect_tx] "Expect txCount more bytes, then arrive once and drop."
mbarrier.arrive_drop.expect_tx{.sem.scope}{.space}.b64  =state: u64 sink, [addr: addr .space], txCount: u32;
  since 8.0 on sm_90+

[mbarrier.arrive_drop.expect_tx.remote] "Expect txCount more bytes, then arrive and drop, on an mbarrier of any CTA of the cluster."
mbarrier.arrive_drop.expect_tx{.sem.scope}.shared::cluster.b64  =_ sink, [addr: addr shared::cluster], txCount: u32;
  since 8.0 on sm_90+

[mbarrier.arrive_drop.noComplete] "Arrive count times and drop; these arrivals must not complete the phase."
mbarrier.arrive_drop.noComplete{.release.cta}{.space}.b64  =state: u64, [addr: addr .space], count: u32 1..4294967295;
  .release since 8.0
  since 7.0 on sm_80+

[mbarrier.arrive_drop.multicast] "Arrive and drop on an mbarrier of each CTA of the mask."
mbarrier.arrive_drop{.sem.scope}.shared::cluster.multicast::cluster::32b.b64  =_ sink, [addr: addr shared::cluster] {, count: u32 1..4294967295}, ctaMask: u32 0..4294967295;
  .sem = { .release, .relaxed }
  since 9.4 on sm_107f

[mbarrier.arrive_drop.expect_tx.multicast] "Expect txCount more bytes, then arrive and drop on an mbarrier of each CTA of the mask."
mbarrier.arrive_drop.expect_tx{.sem.scope}.shared::cluster.multicast::cluster::32b.b64  =_ sink, [addr: addr shared::cluster], txCount: u32, ctaMask: u32 0..4294967295;
  .sem = { .release, .relaxed }
  since 9.4 on sm_107f

end

[mbarrier.complete_tx] "Count txCount bytes as arrived, as an asynchronous copy would."
mbarrier.complete_tx{.sem.scope}{.space}.b64  [addr: addr .space], txCount: u32;
  .sem = { .relaxed }
  .space = { .shared, .shared::cta since 7.8, .shared::cluster }
  since 8.0 on sm_90+
  see parallel-synchronization-and-communication-instructions-mbarrier-complete-tx-operation

[mbarrier.pending_count] "Number of arrivals that the phase of a state still needed."
mbarrier.pending_count.b64  =count: u32, state: u64 reg;
  since 7.0 on sm_80+
  see parallel-synchronization-and-communication-instructions-mbarrier-pending-count

[mbarrier.expect_tx.multicast] "Expect txCount more bytes on an mbarrier of each CTA of the mask."
mbarrier.expect_tx{.sem.scope}.shared::cluster.multicast::cluster::32b.b64  [addr: addr shared::cluster], txCount: u32, ctaMask: u32 0..4294967295;
  .sem = { .relaxed }
  since 9.4 on sm_107f
  see parallel-synchronization-and-communication-instructions-mbarrier-expect-tx-operation

[mbarrier.complete_tx.multicast] "Count txCount bytes as arrived on an mbarrier of each CTA of the mask."
mbarrier.complete_tx{.sem.scope}.shared::cluster.multicast::cluster::32b.b64  [addr: addr shared::cluster], txCount: u32, ctaMask: u32 0..4294967295;
  .sem = { .relaxed }
  since 9.4 on sm_107f
  see parallel-synchronization-and-communication-instructions-mbarrier-complete-tx-operation

[mbarrier.pending_count.layout] "Number of arrivals that the phase of a state still needed, for an mbarrier of .layout::v0."
mbarrier.pending_count.layout::v0.b64  =count: u32, state: u64 reg;
  since 9.3 on sm_90+
  see parallel-synchronization-and-communication-instructions-mbarrier-pending-count
"""


def result_is_kept(operands: Mapping[str, Operand]) -> str | None:
    """Refuse ``_`` as waitComplete."""
    given = operands["waitComplete"]
    if isinstance(given, Pair) and isinstance(given.first, Sink):
        return "waitComplete is _; expected a predicate register"
    return None
