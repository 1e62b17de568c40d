"""Barriers of a CTA and memory fences."""

TEXT = r"""
[bar.sync] "CTA barrier: wait until all threads, or b threads (a multiple of 32), have arrived at barrier a."
bar{.cta}.sync  a: u32 0..15 {, b: u32 32..1024/32};
  .cta since 7.8
  see parallel-synchronization-and-communication-instructions-bar

[fence] "Thread fence: orders the thread's memory accesses at a scope."
fence{.sem}.scope;
  .sem = { .sc, .acq_rel, .acquire since 8.6 on sm_90+, .release since 8.6 on sm_90+ }
  .scope = { .cta, .cluster since 7.8 on sm_90+, .gpu, .sys }
  since 6.0
  see parallel-synchronization-and-communication-instructions-membar

[fence.mbarrier_init] "Order the thread's earlier mbarrier.init before later operations of the cluster."
fence.mbarrier_init.release.cluster;
  since 8.0 on sm_90+
  see parallel-synchronization-and-communication-instructions-membar

[fence.proxy.async] "Order generic-proxy accesses before later async-proxy accesses (TMA, tensor cores) and back."
fence.proxy.async{.space};
  .space = { .global, .shared::cta, .shared::cluster }
  since 8.0 on sm_90+
  see parallel-synchronization-and-communication-instructions-membar
"""
