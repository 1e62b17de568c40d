// D (M x N, f32) += A (K x M, bf16), transposed, times B (K x N, bf16): A and B lie along M and N. Two CTAs of a cluster have the same
// rows of A, of which each copies half to both, and rows of B of their own; a stage is free when both have multiplied. The CTAs of
// blockIdx.z take parts of K, and add their sums to D by copies that reduce.
#include "blackwell.cuh"

constexpr int M = 128, N = 64, DEEP = 32, STAGES = 3;
// Boxes of 64 columns: two of A, one of B, each DEEP rows of 128 bytes.
constexpr unsigned BOX = DEEP * 128, A = 2 * BOX, B = BOX;

__device__ static void load_both(unsigned to, const CUtensorMap &map, int x, int y, unsigned barrier) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(to),
                 "l"(&map), "r"(x), "r"(y), "r"(barrier), "h"((short)3) : "memory");
}

extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(128)
    multicast(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b, const __grid_constant__ CUtensorMap d, int depth) {
    __shared__ uint64_t full[STAGES], empty[STAGES], done;
    __shared__ unsigned slot;
    unsigned stages = dynamic_memory(), warp = warp_index(), lane = threadIdx.x % 32, rank = cluster_rank();
    int row0 = blockIdx.y * M, column0 = blockIdx.x * N, first = blockIdx.z * depth * DEEP;
    if (warp == 0 && elected()) {
        for (int i = 0; i < STAGES; i++) init(shared_address(&full[i]), 1), init(shared_address(&empty[i]), 2);
        init(shared_address(&done), 1);
        publish_barriers();
    }
    if (warp == 2) allocate(shared_address(&slot), N);
    before_sync();
    cluster_sync();
    after_sync();
    unsigned memory = slot;
    if (warp == 0 && elected()) {
        Place at;
        for (int i = 0; i < depth; i++, at.advance(STAGES)) {
            unsigned to = stages + at.stage * (A + B), barrier = shared_address(&full[at.stage]);
            wait(shared_address(&empty[at.stage]), at.parity ^ 1);
            expect(barrier, A + B);
            load_both(to + rank * BOX, a, row0 + 64 * rank, first + i * DEEP, barrier);
            load(to + A, b, column0, first + i * DEEP, barrier);
        }
        // What the other's commits still signal here has arrived before this CTA ends.
        for (int i = 0; i < STAGES; i++, at.advance(STAGES)) wait(shared_address(&empty[at.stage]), at.parity ^ 1);
    } else if (warp == 1 && elected()) {
        // Along M: 64 columns to the next box; 8 rows of K to the next kibibyte.
        uint64_t along = 2ull << 61 | 1ull << 46 | (1024ull >> 4) << 32 | (uint64_t)(BOX >> 4) << 16;
        Place at;
        for (int i = 0; i < depth; i++, at.advance(STAGES)) {
            unsigned from = stages + at.stage * (A + B);
            wait(shared_address(&full[at.stage]), at.parity);
            after_sync();
#pragma unroll
            for (int k = 0; k < DEEP / 16; k++)
                mma<F16>(memory, matrix(from + 2048 * k, along), matrix(from + A + 2048 * k, along),
                         instruction(1, 1, 1, M, N) | A_ALONG_M | B_ALONG_N, i || k);
            asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%0], %1;" ::"r"(shared_address(&empty[at.stage])),
                         "h"((short)3) : "memory");
        }
        commit(shared_address(&done));
    }
    __syncwarp();
    wait(shared_address(&done), 0);
    after_sync();
    // The stages are free: all that was copied here has been multiplied, and the other's copies into them have arrived.
    unsigned mine = stages + warp * 32 * 256;
#pragma unroll 1
    for (int n = 0; n < N; n += 16) {
        unsigned r[16];
        load_16(r, memory + (warp << 21) + n);
        loaded();
        for (int i = 0; i < 16; i += 4)
            asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(mine + lane * 256 + (n + i) * 4), "r"(r[i]), "r"(r[i + 1]), "r"(r[i + 2]),
                         "r"(r[i + 3]) : "memory");
    }
    before_sync();
    for_async_proxy();
    __syncwarp();
    if (lane == 0) {
        asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&d), "r"(column0),
                     "r"(row0 + 32 * (int)warp), "r"(mine) : "memory");
        commit_stores();
        stores_are_done<0>();
    }
    cluster_sync();
    if (warp == 2) release(memory, N);
}
