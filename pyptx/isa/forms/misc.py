"""Miscellaneous instructions: sleeping, events, launches of dependent work, registers, the stack."""

TEXT = r"""
.type = { .u32, .u64 }
see miscellaneous-instructions-<opcode>

[nanosleep] "Sleep for about t nanoseconds, at most twice as long."
nanosleep.u32  t: u32;
  since 6.3

[pmevent] "Trigger a performance monitor event."
pmevent  a imm 0..15;

[pmevent.mask] "Trigger performance monitor events, one for each bit."
pmevent.mask  a imm 0..65535;
  since 3.0

[brkpt] "Stop for the debugger."
brkpt;

[griddepcontrol] "Let dependent grids launch, or wait for the grids that this one depends on."
griddepcontrol.action;
  .action = { .launch_dependents, .wait }
  since 7.8 on sm_90+
  see parallel-synchronization-and-communication-instructions-griddepcontrol

[clusterlaunchcontrol.try_cancel] "Ask to cancel the launch of a cluster that has not started; the answer is 16 bytes."
clusterlaunchcontrol.try_cancel.async{.space}.completion{.multicast}.b128  [addr: addr shared], [mbar: addr shared];
  .space = { .shared::cta }
  .completion = { .mbarrier::complete_tx::bytes }
  .multicast = { .multicast::cluster::all on sm_100f sm_110f sm_120f }
  since 8.6 on sm_100+
  see parallel-synchronization-and-communication-instructions-clusterlaunchcontrol-try-cancel

[clusterlaunchcontrol.query_cancel.is_canceled] "Read from the answer whether the launch was canceled."
clusterlaunchcontrol.query_cancel.is_canceled.pred.b128  =p: pred, try_cancel_response: b128 reg;
  since 8.6 on sm_100+
  see parallel-synchronization-and-communication-instructions-clusterlaunchcontrol-query-cancel

[clusterlaunchcontrol.query_cancel.v4] "Read from the answer the coordinates of the first CTA of the canceled cluster."
clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128  =d: b32 x 4 reg sink, try_cancel_response: b128 reg;
  since 8.6 on sm_100+
  see parallel-synchronization-and-communication-instructions-clusterlaunchcontrol-query-cancel

[clusterlaunchcontrol.query_cancel] "Read from the answer one coordinate of the first CTA of the canceled cluster."
clusterlaunchcontrol.query_cancel.dimension.b32.b128  =d: b32, try_cancel_response: b128 reg;
  .dimension = { .get_first_ctaid::x, .get_first_ctaid::y, .get_first_ctaid::z }
  since 8.6 on sm_100+
  see parallel-synchronization-and-communication-instructions-clusterlaunchcontrol-query-cancel

[setmaxnreg] "Release registers, or wait for more; the whole warpgroup executes it."
setmaxnreg.action.sync.aligned.u32  imm-reg-count imm 24..256/8;
  .action = { .inc, .dec }
  since 8.0 on sm_90a sm_100f sm_110f sm_120f

[stacksave] "Read the stack pointer."
stacksave.type  =d: .type;
  since 7.3
  see stack-manipulation-instructions-stacksave

[stackrestore] "Set the stack pointer."
stackrestore.type  a: .type reg;
  since 7.3
  see stack-manipulation-instructions-stackrestore

[alloca] "Allocate size bytes on the stack."
alloca.type  =ptr: .type, size: .type {, immAlign imm 1|2|4|8|16|32|64|128|256|512|1024};
  since 7.3
  STRICTER larger powers of two, which ptxas takes
  see stack-manipulation-instructions-alloca
"""
