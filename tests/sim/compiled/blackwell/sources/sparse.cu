// D (128 x 64, f32) = A (128 x K, f16, two of four) times B (64 x K, f16). Of A the two that are kept are stored, and words that say
// which of each four they are: four columns of words for a stage of K = 128, one for each instruction. They lie in global memory as
// tensor memory is to hold them, 16 bytes for each of 128 lanes, and are copied there from shared memory.
#include "blackwell.cuh"

constexpr int M = 128, N = 64, STAGES = 2;
constexpr unsigned A = M * 128, B = N * 256, META = M * 16, STAGE = A + B + META;

__device__ static void sparse_mma(unsigned d, uint64_t a, uint64_t b, unsigned meta, unsigned what, bool add) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.u32 p, %5, 0;\ntcgen05.mma.sp.cta_group::1.kind::f16 [%0], %1, %2, [%3], %4, p;\n}" ::"r"(d), "l"(a),
                 "l"(b), "r"(meta), "r"(what), "r"((unsigned)add) : "memory");
}

extern "C" __global__ void __launch_bounds__(128)
    sparse(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b, const char *meta, float *d, int depth) {
    __shared__ uint64_t full[STAGES], empty[STAGES], done;
    __shared__ unsigned slot;
    unsigned stages = dynamic_memory(), warp = warp_index();
    if (warp == 0 && elected()) {
        for (int i = 0; i < STAGES; i++) init(shared_address(&full[i]), 1), init(shared_address(&empty[i]), 1);
        init(shared_address(&done), 1);
        publish_barriers();
    }
    if (warp == 2) allocate(shared_address(&slot), 128);
    before_sync();
    __syncthreads();
    after_sync();
    unsigned memory = slot;
    if (warp == 0 && elected()) {
        Place at;
        for (int i = 0; i < depth; i++, at.advance(STAGES)) {
            unsigned to = stages + at.stage * STAGE, barrier = shared_address(&full[at.stage]);
            wait(shared_address(&empty[at.stage]), at.parity ^ 1);
            expect(barrier, STAGE);
            load(to, a, i * 64, 0, barrier);
            load(to + A, b, i * 128, 0, barrier);
            load(to + A + B / 2, b, i * 128 + 64, 0, barrier);
            load_bytes(to + A + B, meta + i * META, META, barrier);
        }
    } else if (warp == 1 && elected()) {
        Place at;
        for (int i = 0; i < depth; i++, at.advance(STAGES)) {
            unsigned from = stages + at.stage * STAGE, words = memory + N + 4 * at.stage;
            wait(shared_address(&full[at.stage]), at.parity);
            after_sync();
            asm volatile("tcgen05.cp.cta_group::1.128x128b [%0], %1;" ::"r"(words),
                         "l"(matrix(from + A + B, 1ull << 46 | (128ull >> 4) << 32 | (128ull >> 4) << 16)) : "memory");
#pragma unroll
            for (int k = 0; k < 4; k++)
                sparse_mma(memory, matrix(from + 32 * k), matrix(from + A + k / 2 * (B / 2) + k % 2 * 64), words + k / 2 * 2,
                           instruction(1, 0, 0, M, N) | 1 << 2 | k % 2, i || k);
            commit(shared_address(&empty[at.stage]));
        }
        commit(shared_address(&done));
    }
    __syncwarp();
    wait(shared_address(&done), 0);
    after_sync();
#pragma unroll 1
    for (int n = 0; n < N; n += 16) {
        unsigned r[16];
        load_16(r, memory + (warp << 21) + n);
        loaded();
        for (int i = 0; i < 16; i++) d[threadIdx.x * N + n + i] = __uint_as_float(r[i]);
    }
    before_sync();
    __syncthreads();
    if (warp == 2) release(memory, 128);
}
