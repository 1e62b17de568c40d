// D (M x N) = A (M x K, bf16) times B (N x K, bf16) by pairs of CTAs: one instruction multiplies 256 rows of A, 128 of them in each
// CTA's shared memory, and 128 rows of B, 64 in each. Both CTAs copy and signal the even one's barriers; it multiplies, and its
// commits arrive in both.
#include "blackwell.cuh"

constexpr int M = 128, N = 64, STAGES = 3;
constexpr unsigned A = M * 128, B = N * 128;

__device__ static void load_pair(unsigned to, const CUtensorMap &map, int x, int y, unsigned barrier) {
    // The even CTA's barrier: the rank stands in the upper bits of the address.
    asm volatile("cp.async.bulk.tensor.2d.cta_group::2.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(to),
                 "l"(&map), "r"(x), "r"(y), "r"(barrier & 0xfeffffff) : "memory");
}

__device__ static void commit_both(unsigned barrier) {
    asm volatile("tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%0], %1;" ::"r"(barrier),
                 "h"((short)3) : "memory");
}

extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(192)
    pair(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b, float *d, int depth, int width) {
    __shared__ uint64_t full[STAGES], empty[STAGES], done;
    __shared__ unsigned slot;
    unsigned stages = dynamic_memory(), warp = warp_index(), rank = cluster_rank();
    int row0 = blockIdx.x * M, column0 = blockIdx.y * 2 * N;
    if (warp == 4 && elected()) {
        for (int i = 0; i < STAGES; i++) init(shared_address(&full[i]), 1), init(shared_address(&empty[i]), 1);
        init(shared_address(&done), 1);
        publish_barriers();
    }
    cluster_sync();
    if (warp == 0) allocate<2>(shared_address(&slot), 2 * N);
    before_sync();
    __syncthreads();
    after_sync();
    unsigned memory = slot;
    if (warp == 4 && elected()) {
        Place at;
        for (int i = 0; i < depth; i++, at.advance(STAGES)) {
            unsigned to = stages + at.stage * (A + B), barrier = shared_address(&full[at.stage]);
            wait(shared_address(&empty[at.stage]), at.parity ^ 1);
            if (rank == 0) expect(barrier, 2 * (A + B));
            load_pair(to, a, i * 64, row0, barrier);
            load_pair(to + A, b, i * 64, column0 + rank * N, barrier);
        }
        // What the other's commits still signal here has arrived before this CTA ends.
        for (int i = 0; i < STAGES; i++, at.advance(STAGES)) wait(shared_address(&empty[at.stage]), at.parity ^ 1);
    } else if (warp == 5 && rank == 0 && elected()) {
        Place at;
        for (int i = 0; i < depth; i++, at.advance(STAGES)) {
            unsigned from = stages + at.stage * (A + B);
            wait(shared_address(&full[at.stage]), at.parity);
            after_sync();
#pragma unroll
            for (int k = 0; k < 4; k++)
                mma<F16_PAIR>(memory, matrix(from + 32 * k), matrix(from + A + 32 * k), instruction(1, 1, 1, 2 * M, 2 * N), i || k);
            commit_both(shared_address(&empty[at.stage]));
        }
        commit_both(shared_address(&done));
    }
    __syncwarp();
    if (warp < 4) {
        wait(shared_address(&done), 0);
        after_sync();
        float *to = d + (size_t)(row0 + threadIdx.x) * width + column0;
#pragma unroll 1
        for (int n = 0; n < 2 * N; n += 16) {
            unsigned r[16];
            load_16(r, memory + (warp << 21) + n);
            loaded();
            for (int i = 0; i < 16; i += 4)
                *(float4 *)(to + n + i) = make_float4(__uint_as_float(r[i]), __uint_as_float(r[i + 1]), __uint_as_float(r[i + 2]), __uint_as_float(r[i + 3]));
        }
        before_sync();
    }
    // Neither frees, nor ends, while the other still reads or is still signalled.
    cluster_sync();
    if (warp == 0) release<2>(memory, 2 * N);
}
