"""tcgen05: the fifth-generation tensor cores and tensor memory."""

TEXT = r"""
[tcgen05.alloc] "Allocate columns of tensor memory; the address is written to shared memory. Blocks until there is room."
tcgen05.alloc.cta_group.sync.aligned{.space}.b32  [dst: addr .space], nCols: u32 32|64|128|256|512;
  .cta_group = { .cta_group::1, .cta_group::2 }
  .space = { .shared::cta }
  since 8.6 on sm_100f sm_110f
  see tcgen05-instructions-tcgen05-alloc-dealloc-relinquish-alloc-permit

[tcgen05.dealloc] "Free columns of tensor memory."
tcgen05.dealloc.cta_group.sync.aligned.b32  taddr: b32 reg, nCols: u32 32|64|128|256|512;
  .cta_group = { .cta_group::1, .cta_group::2 }
  since 8.6 on sm_100f sm_110f
  see tcgen05-instructions-tcgen05-alloc-dealloc-relinquish-alloc-permit

[tcgen05.relinquish_alloc_permit] "Give up the right to allocate: no tcgen05.alloc of this CTA may follow."
tcgen05.relinquish_alloc_permit.cta_group.sync.aligned;
  .cta_group = { .cta_group::1, .cta_group::2 }
  since 8.6 on sm_100f sm_110f
  see tcgen05-instructions-tcgen05-alloc-dealloc-relinquish-alloc-permit

[tcgen05.mma.ss] "D = A*B + D, A and B from shared memory; asynchronous, issued by one thread."
tcgen05.mma.cta_group.kind  [d-tmem: b32 tensor], a-desc: b64 reg, b-desc: b64 reg, idesc: b32 {, disable-output-lane: b32 x .cta_group*4}, enable-input-d: pred {, scale-input-d imm 0..15};
  .cta_group = { .cta_group::1, .cta_group::2 }
  .kind = { .kind::f16, .kind::tf32, .kind::f8f6f4 }
  since 8.6 on sm_100f sm_110f
  .kind::f8f6f4 excludes scale-input-d
  scale-input-d since 8.6 on sm_100f
  see tcgen05-mma-instructions-mma

[tcgen05.commit] "Make an mbarrier track the thread's earlier asynchronous tcgen05 operations: one arrival when all completed."
tcgen05.commit.cta_group.completion{.space}{.multicast}.b64  [mbar: addr .space] {, ctaMask: b16 reg};
  .cta_group = { .cta_group::1, .cta_group::2 }
  .completion = { .mbarrier::arrive::one }
  .space = { .shared::cluster }
  .multicast = { .multicast::cluster }
  .multicast iff ctaMask
  since 8.6 on sm_100f sm_110f
  MEASURED an immediate ctaMask is refused by ptxas 13.0.88 and taken by 13.5.37
  see tcgen05-instructions-tcgen05-commit

[tcgen05.ld.32x32b] "Load from tensor memory: each lane of the warp its own row."
tcgen05.ld.sync.aligned.32x32b.num{.pack}.b32  =r: b32 x .num, [taddr: b32 tensor];
  .num = { .x1, .x2, .x4, .x8, .x16, .x32, .x64, .x128 }
  .pack = { .pack::16b }
  since 8.6 on sm_100f sm_110f
  see tcgen05-instructions-tcgen05-ld

[tcgen05.ld.16x64b] "Load from tensor memory in 16x64b fragments."
tcgen05.ld.sync.aligned.16x64b.num{.pack}.b32  =r: b32 x .num, [taddr: b32 tensor];
  .num = { .x1, .x2, .x4, .x8, .x16, .x32, .x64, .x128 }
  .pack = { .pack::16b }
  since 8.6 on sm_100f sm_110f
  see tcgen05-instructions-tcgen05-ld

[tcgen05.ld.16x128b] "Load from tensor memory in 16x128b fragments: two registers a repetition."
tcgen05.ld.sync.aligned.16x128b.num{.pack}.b32  =r: b32 x .num*2, [taddr: b32 tensor];
  .num = { .x1, .x2, .x4, .x8, .x16, .x32, .x64 }
  .pack = { .pack::16b }
  since 8.6 on sm_100f sm_110f
  see tcgen05-instructions-tcgen05-ld

[tcgen05.ld.16x256b] "Load from tensor memory in 16x256b fragments: four registers a repetition."
tcgen05.ld.sync.aligned.16x256b.num{.pack}.b32  =r: b32 x .num*4, [taddr: b32 tensor];
  .num = { .x1, .x2, .x4, .x8, .x16, .x32 }
  .pack = { .pack::16b }
  since 8.6 on sm_100f sm_110f
  see tcgen05-instructions-tcgen05-ld

[tcgen05.st.32x32b] "Store to tensor memory: each lane of the warp its own row."
tcgen05.st.sync.aligned.32x32b.num{.unpack}.b32  [taddr: b32 tensor], r: b32 x .num;
  .num = { .x1, .x2, .x4, .x8, .x16, .x32, .x64, .x128 }
  .unpack = { .unpack::16b }
  since 8.6 on sm_100f sm_110f
  see tcgen05-instructions-tcgen05-st

[tcgen05.wait] "Wait for the thread's earlier tcgen05.ld (or .st) to have read (or written) tensor memory."
tcgen05.op.sync.aligned;
  .op = { .wait::ld, .wait::st }
  since 8.6 on sm_100f sm_110f
  see tcgen05-instructions-tcgen05-wait

[tcgen05.fence] "Order tcgen05 operations around a thread synchronisation."
tcgen05.op;
  .op = { .fence::before_thread_sync, .fence::after_thread_sync }
  since 8.6 on sm_100f sm_110f
  see tcgen05-instructions-tcgen05-fence
"""
