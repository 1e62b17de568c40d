"""Barriers of a CTA and of a warp, and memory fences."""

TEXT = r"""
[bar.sync] "CTA barrier: wait until all threads, or b threads (a multiple of 32), have arrived at barrier a."
bar{.cta}.sync  a: u32 0..15 {, b: u32 32..1024/32};
  .cta since 7.8
  see parallel-synchronization-and-communication-instructions-bar

[bar.arrive] "Arrive at barrier a, on which b threads synchronize, without waiting."
bar{.cta}.arrive  a: u32 0..15, b: u32 32..1024/32;
  .cta since 7.8
  see parallel-synchronization-and-communication-instructions-bar

[bar.red.popc] "CTA barrier; d is the number of threads whose predicate is true."
bar{.cta}.red.popc.u32  =d: u32, a: u32 0..15 {, b: u32 32..1024/32}, !c: pred;
  .cta since 7.8
  see parallel-synchronization-and-communication-instructions-bar

[bar.red] "CTA barrier; p is true if the predicate is true in all threads (.and), or in any (.or)."
bar{.cta}.red.op.pred  =p: pred, a: u32 0..15 {, b: u32 32..1024/32}, !c: pred;
  .op = { .and, .or }
  .cta since 7.8
  see parallel-synchronization-and-communication-instructions-bar

[barrier.sync] "CTA barrier that the lanes of a warp may reach at different times, unless .aligned is given."
barrier{.cta}.sync{.aligned}  a: u32 0..15 {, b: u32 32..1024/32};
  .cta since 7.8
  since 6.0
  see parallel-synchronization-and-communication-instructions-bar

[barrier.arrive] "Arrive at barrier a, on which b threads synchronize, without waiting."
barrier{.cta}.arrive{.aligned}  a: u32 0..15, b: u32 32..1024/32;
  .cta since 7.8
  since 6.0
  see parallel-synchronization-and-communication-instructions-bar

[barrier.red.popc] "CTA barrier; d is the number of threads whose predicate is true."
barrier{.cta}.red.popc{.aligned}.u32  =d: u32, a: u32 0..15 {, b: u32 32..1024/32}, !c: pred;
  .cta since 7.8
  since 6.0
  see parallel-synchronization-and-communication-instructions-bar

[barrier.red] "CTA barrier; is the predicate true in all threads (and), or in any (or)?"
barrier{.cta}.red.op{.aligned}.pred  =p: pred, a: u32 0..15 {, b: u32 32..1024/32}, !c: pred;
  .op = { .and, .or }
  .cta since 7.8
  since 6.0
  see parallel-synchronization-and-communication-instructions-bar

[bar.warp.sync] "Wait for the lanes of the mask, and order their memory accesses."
bar.warp.sync  membermask: u32;
  since 6.0
  see parallel-synchronization-and-communication-instructions-bar-warp-sync

family fence
  .scope = { .cta, .cluster, .gpu, .sys }
  .sem = { .acquire, .release }
  see parallel-synchronization-and-communication-instructions-membar

[fence] "Thread fence: orders the thread's memory accesses at a scope."
fence{.sem}.scope;
  .sem = { .sc, .acq_rel, .acquire since 8.6 on sm_90+, .release since 8.6 on sm_90+ }
  .scope = { .cta, .cluster since 7.8 on sm_90+, .gpu, .sys }
  since 6.0

[fence.acquire.sync_restrict] "Acquire fence that orders only accesses to objects in the cluster's shared memory."
fence.acquire.sync_restrict::shared::cluster.cluster;
  since 8.6 on sm_90+

[fence.release.sync_restrict] "Release fence that orders only accesses to objects in this CTA's shared memory."
fence.release.sync_restrict::shared::cta.cluster;
  since 8.6 on sm_90+

[fence.mbarrier_init] "Order the thread's earlier mbarrier.init before later operations of the cluster."
fence.mbarrier_init.release.cluster;
  since 8.0 on sm_90+

[fence.proxy.alias] "Order accesses through different virtual addresses of the same memory."
fence.proxy.alias;
  since 7.5

[fence.proxy.alias.sem] "Acquire or release fence for accesses through different virtual addresses of the same memory."
fence.proxy.alias.sem.sys;
  since 9.4 on sm_90+

[fence.proxy.fabric] "Order fabric operations and other accesses, in one direction."
fence.proxy.proxies.alias.sem.sys;
  .proxies = { .fabric::generic, .generic::fabric, .fabric::fabric }
  since 9.3 on sm_100+

[fence.proxy.async] "Order generic-proxy accesses and async-proxy accesses (TMA, tensor cores), in both directions."
fence.proxy.async{.space};
  .space = { .global, .shared::cta, .shared::cluster }
  since 8.0 on sm_90+

[fence.proxy.tensormap.release] "Order generic-proxy writes of a tensor map before its use after a matching acquire."
fence.proxy.tensormap::generic.release.scope;
  since 8.3 on sm_90+

[fence.proxy.tensormap.acquire] "Order later uses of the tensor map at addr after generic-proxy writes of it."
fence.proxy.tensormap::generic.acquire.scope  [addr: addr], size imm 128..128;
  since 8.3 on sm_90+

[fence.proxy.async_generic.acquire] "Acquire fence between async and generic proxy for the cluster's shared memory only."
fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster;
  since 8.6 on sm_90+

[fence.proxy.async_generic.release] "Release fence between async and generic proxy for this CTA's shared memory only."
fence.proxy.async::generic.release.sync_restrict::shared::cta.cluster;
  since 8.6 on sm_90+

[fence.proxy.async_generic.release.read] "Release fence between async and generic proxy for reads of the cluster's shared memory only."
fence.proxy.async::generic.release.sync_restrict::shared::cluster::read.scope;
  .scope = { .cta, .cluster }
  since 9.4 on sm_90+

[membar] "Thread fence, old spelling: fence.sc at .cta, .gpu or .sys."
membar.level;
  .level = { .cta, .gl, .sys }

[membar.proxy] "Proxy fence, old spelling."
membar.proxy.kind;
  .kind = { .alias, .async since 8.0 on sm_90+ }
  since 7.5
  MEASURED .async with a state space, as the manual has it, is refused
"""
