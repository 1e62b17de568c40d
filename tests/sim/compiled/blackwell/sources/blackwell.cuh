// One function for each instruction of Hopper and Blackwell that the kernels here use.
#pragma once
#include <cstdint>
#include <cuda.h>

__device__ inline unsigned shared_address(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }

// The dynamic shared memory, from a boundary that every swizzle begins at.
__device__ inline unsigned dynamic_memory() {
    extern __shared__ char room[];
    return (shared_address(room) + 1023) & ~1023u;
}

__device__ inline bool elected() {
    unsigned one;
    asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xffffffff;\nselp.u32 %0, 1, 0, p;\n}" : "=r"(one));
    return one;
}

__device__ inline unsigned warp_index() { return __shfl_sync(~0u, threadIdx.x / 32, 0); }

__device__ inline unsigned cluster_rank() {
    unsigned rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

__device__ inline void cluster_sync() {
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// ---- barriers -------------------------------------------------------------------------------------------------

__device__ inline void init(unsigned barrier, unsigned count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(count));
}

__device__ inline void publish_barriers() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

__device__ inline void wait(unsigned barrier, unsigned parity) {
    asm volatile("{\n.reg .pred p;\nAGAIN:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1, 0x989680;\n"
                 "@p bra.uni DONE;\nbra.uni AGAIN;\nDONE:\n}" ::"r"(barrier), "r"(parity) : "memory");
}

__device__ inline void arrive(unsigned barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

__device__ inline void expect(unsigned barrier, unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

// At the place of this barrier in another CTA of the cluster.
__device__ inline void arrive_at(unsigned barrier, unsigned rank) {
    asm volatile("{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\n"
                 "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [there];\n}" ::"r"(barrier), "r"(rank) : "memory");
}

// A ring's place: the stage, and the parity that its barriers are at.
struct Place {
    unsigned stage = 0, parity = 0;
    __device__ void advance(unsigned stages) {
        if (++stage == stages) stage = 0, parity ^= 1;
    }
};

// ---- copies ---------------------------------------------------------------------------------------------------

__device__ inline void load(unsigned to, const CUtensorMap &map, int x, int y, unsigned barrier) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(to),
                 "l"(&map), "r"(x), "r"(y), "r"(barrier) : "memory");
}

__device__ inline void load_bytes(unsigned to, const void *from, unsigned bytes, unsigned barrier) {
    asm volatile("cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to), "l"(from), "r"(bytes),
                 "r"(barrier) : "memory");
}

__device__ inline void store(const CUtensorMap &map, int x, int y, unsigned from) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&map), "r"(x), "r"(y),
                 "r"(from) : "memory");
}

__device__ inline void commit_stores() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

template <int N> __device__ inline void stores_have_read() {
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(N) : "memory");
}

template <int N> __device__ inline void stores_are_done() { asm volatile("cp.async.bulk.wait_group %0;" ::"n"(N) : "memory"); }

__device__ inline void for_async_proxy() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// ---- tensor memory --------------------------------------------------------------------------------------------

template <int GROUP = 1> __device__ inline void allocate(unsigned slot, unsigned columns) {
    asm volatile("tcgen05.alloc.cta_group::%2.sync.aligned.shared::cta.b32 [%0], %1;\n"
                 "tcgen05.relinquish_alloc_permit.cta_group::%2.sync.aligned;" ::"r"(slot), "r"(columns), "n"(GROUP) : "memory");
}

template <int GROUP = 1> __device__ inline void release(unsigned memory, unsigned columns) {
    asm volatile("tcgen05.dealloc.cta_group::%2.sync.aligned.b32 %0, %1;" ::"r"(memory), "r"(columns), "n"(GROUP));
}

__device__ inline void before_sync() { asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory"); }
__device__ inline void after_sync() { asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory"); }
__device__ inline void loaded() { asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory"); }
__device__ inline void stored() { asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory"); }

__device__ inline void load_16(unsigned (&r)[16], unsigned from) {
    asm volatile("tcgen05.ld.sync.aligned.32x32b.x16.b32 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, [%16];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]), "=r"(r[4]), "=r"(r[5]), "=r"(r[6]), "=r"(r[7]), "=r"(r[8]),
                   "=r"(r[9]), "=r"(r[10]), "=r"(r[11]), "=r"(r[12]), "=r"(r[13]), "=r"(r[14]), "=r"(r[15])
                 : "r"(from));
}

__device__ inline void store_16(unsigned to, const unsigned (&r)[16]) {
    asm volatile("tcgen05.st.sync.aligned.32x32b.x16.b32 [%0], {%1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16};" ::"r"(to),
                 "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]), "r"(r[4]), "r"(r[5]), "r"(r[6]), "r"(r[7]), "r"(r[8]), "r"(r[9]),
                 "r"(r[10]), "r"(r[11]), "r"(r[12]), "r"(r[13]), "r"(r[14]), "r"(r[15])
                 : "memory");
}

// ---- tensor cores ---------------------------------------------------------------------------------------------

// A matrix in shared memory whose rows of 128 bytes are swizzled, eight rows to a kibibyte.
constexpr uint64_t SWIZZLED_128 = 2ull << 61 | 1ull << 46 | (1024ull >> 4) << 32 | 1ull << 16;

__device__ inline uint64_t matrix(unsigned address, uint64_t layout = SWIZZLED_128) {
    return layout | (address & 0x3ffff) >> 4;
}

// What an instruction multiplies: codes of the types of D, A and B, then M and N.
__host__ __device__ constexpr unsigned instruction(int d, int a, int b, int m, int n) {
    return d << 4 | a << 7 | b << 10 | (n >> 3) << 17 | (m >> 4) << 24;
}
constexpr unsigned A_ALONG_M = 1 << 15, B_ALONG_N = 1 << 16;

#define MMA(group, kind)                                                                                                           \
    asm volatile("{\n.reg .pred p;\nsetp.ne.u32 p, %4, 0;\ntcgen05.mma.cta_group::" group ".kind::" kind " [%0], %1, %2, %3, p;\n}" ::"r"(d), \
                 "l"(a), "l"(b), "r"(what), "r"((unsigned)add) : "memory")

enum Kind { F16, TF32, F8, I8, F16_PAIR };

template <Kind kind> __device__ inline void mma(unsigned d, uint64_t a, uint64_t b, unsigned what, bool add) {
    if constexpr (kind == F16) MMA("1", "f16");
    if constexpr (kind == TF32) MMA("1", "tf32");
    if constexpr (kind == F8) MMA("1", "f8f6f4");
    if constexpr (kind == I8) MMA("1", "i8");
    if constexpr (kind == F16_PAIR) MMA("2", "f16");
}

__device__ inline void commit(unsigned barrier) {
    asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(barrier) : "memory");
}

// Columns are allocated in powers of two, 32 or more.
__host__ __device__ constexpr unsigned columns(unsigned n) { return n <= 32 ? 32 : n <= 64 ? 64 : n <= 128 ? 128 : n <= 256 ? 256 : 512; }
