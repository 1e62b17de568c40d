// One instruction of Hopper's engines each, in the way that CUTLASS has them: what the kernels beside it are made of.
#pragma once
#include <cstdint>
#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#define ENGINE __device__ __forceinline__

ENGINE uint32_t shared(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }
ENGINE bool elect() {
    uint32_t one;
    asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xffffffff;\nselp.b32 %0, 1, 0, p;\n}" : "=r"(one));
    return one;
}
ENGINE uint32_t cluster_rank() {
    uint32_t rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}
ENGINE uint32_t map_to(uint32_t address, uint32_t rank) {
    uint32_t there;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
    return there;
}
ENGINE void cluster_arrive() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
ENGINE void cluster_arrive_relaxed() { asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory"); }
ENGINE void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
ENGINE void cluster_sync() { cluster_arrive(), cluster_wait(); }
ENGINE void named_sync(int id, int threads) { asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory"); }
template <int N> ENGINE void registers_down() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N)); }
template <int N> ENGINE void registers_up() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N)); }
// Before an engine reads what this thread wrote to shared memory.
ENGINE void proxy_fence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Barriers in shared memory.
using Barrier = uint64_t;
ENGINE void init(Barrier &b, int count) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared(&b)), "r"(count)); }
ENGINE void fence_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
ENGINE void expect(Barrier &b, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared(&b)), "r"(bytes) : "memory");
}
ENGINE void arrive(Barrier &b) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared(&b)) : "memory"); }
ENGINE void arrive_at(Barrier &b, uint32_t rank) {
    asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(map_to(shared(&b), rank)) : "memory");
}
ENGINE void wait(Barrier &b, uint32_t parity) {
    asm volatile("{\n.reg .pred done;\nAGAIN:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1, 0x989680;\n@done bra DONE;\nbra AGAIN;\nDONE:\n}" ::"r"(shared(&b)), "r"(parity) : "memory");
}
ENGINE void wait_cluster(Barrier &b, uint32_t parity) {
    asm volatile("{\n.reg .pred done;\nAGAIN:\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n@!done bra AGAIN;\n}" ::"r"(shared(&b)), "r"(parity) : "memory");
}
// Where a ring stands: the stage, and the parity that its barriers have in this round.
template <int STAGES> struct Place {
    int stage = 0;
    uint32_t parity = 0;
    ENGINE void next() {
        if (++stage == STAGES) stage = 0, parity ^= 1;
    }
};

// Tensor copies.
ENGINE void prefetch(const CUtensorMap &map) { asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory"); }
ENGINE void load(void *to, const CUtensorMap &map, Barrier &b, int x, int y) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::"r"(shared(to)), "l"(&map), "r"(shared(&b)), "r"(x), "r"(y) : "memory");
}
ENGINE void load(void *to, const CUtensorMap &map, Barrier &b, int x, int y, int z) {
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], [%2];" ::"r"(shared(to)), "l"(&map), "r"(shared(&b)), "r"(x), "r"(y), "r"(z) : "memory");
}
ENGINE void load_multicast(void *to, const CUtensorMap &map, Barrier &b, int x, int y, uint16_t ranks) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%3, %4}], [%2], %5;" ::"r"(shared(to)), "l"(&map), "r"(shared(&b)), "r"(x), "r"(y), "h"(ranks) : "memory");
}
ENGINE void store(const CUtensorMap &map, const void *from, int x, int y) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%2, %3}], [%1];" ::"l"(&map), "r"(shared(from)), "r"(x), "r"(y) : "memory");
}
ENGINE void store(const CUtensorMap &map, const void *from, int x, int y, int z) {
    asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(&map), "r"(shared(from)), "r"(x), "r"(y), "r"(z) : "memory");
}
ENGINE void add(const CUtensorMap &map, const void *from, int x, int y) {
    asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%0, {%2, %3}], [%1];" ::"l"(&map), "r"(shared(from)), "r"(x), "r"(y) : "memory");
}
// Bulk copies.
ENGINE void load(void *to, const void *from, int bytes, Barrier &b) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(shared(to)), "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"(shared(&b)) : "memory");
}
ENGINE void store(void *to, const void *from, int bytes) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(__cvta_generic_to_global(to)), "r"(shared(from)), "r"(bytes) : "memory");
}
ENGINE void commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
template <int LEFT> ENGINE void wait_read() { asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(LEFT) : "memory"); }
template <int LEFT> ENGINE void wait_written() { asm volatile("cp.async.bulk.wait_group %0;" ::"n"(LEFT) : "memory"); }

// Products of warpgroups: a tile in shared memory, swizzled over SPAN bytes, its rows SPAN bytes long.
template <int SPAN> ENGINE uint64_t tile(const void *p, int leading = 1) {
    constexpr uint64_t mode = SPAN == 128 ? 1 : SPAN == 64 ? 2 : 3;
    return mode << 62 | (uint64_t)(8 * SPAN >> 4) << 32 | (uint64_t)leading << 16 | (shared(p) & 0x3ffff) >> 4;
}
// What the compiler does to the accumulators it has done before this.
ENGINE void pin(float (&d)[32]) {
    for (int i = 0; i < 32; i++) asm volatile("" : "+f"(d[i])::"memory");
}
ENGINE void products_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
ENGINE void products_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int LEFT> ENGINE void products_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory"); }

#define LIST_8(C, d, i) C(d[i]), C(d[i + 1]), C(d[i + 2]), C(d[i + 3]), C(d[i + 4]), C(d[i + 5]), C(d[i + 6]), C(d[i + 7])
#define LIST_32(C, d) LIST_8(C, d, 0), LIST_8(C, d, 8), LIST_8(C, d, 16), LIST_8(C, d, 24)
#define NAMES_16 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define NAMES_32 "{" NAMES_16 ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}"
// Accumulators of 64 columns: 32 registers of each thread. TAIL: scales and majors. `use`: whether D is added to.
#define PRODUCT(name, type, constraint, op, TAIL)                                                                       \
    ENGINE void name(type(&d)[32], uint64_t a, uint64_t b, int use = 1) {                                               \
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\nwgmma.mma_async.sync.aligned." op " " NAMES_32          \
                     ", %32, %33, p" TAIL ";\n}"                                                                        \
                     : LIST_32(constraint, d) : "l"(a), "l"(b), "r"(use));                                              \
    }
// The same with A in registers.
#define PRODUCT_REGISTERS(name, type, constraint, op, TAIL)                                                             \
    ENGINE void name(type(&d)[32], const uint32_t (&a)[4], uint64_t b, int use = 1) {                                   \
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %37, 0;\nwgmma.mma_async.sync.aligned." op " " NAMES_32          \
                     ", {%32, %33, %34, %35}, %36, p" TAIL ";\n}"                                                       \
                     : LIST_32(constraint, d) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(use));          \
    }
